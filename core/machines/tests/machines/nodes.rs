//! Rules 1, 4 and 8 for a lock that lies on several nodes, of which one may be missing.

use std::hash::Hasher;

use lockwright_machines::lease::ReleaseOutcome;
use lockwright_machines::protocol::{Grant, Input, Node, Push, Requests, Step, Term, Traits, Verdict};

use super::*;

/// Held by whoever has two of three.
#[derive(Clone, Debug)]
struct Majority;

static ASK: lockwright_machines::protocol::Call =
    lockwright_machines::protocol::Call { name: "ask", body: &[], batch: false };

impl Protocol for Majority {
    fn step(&mut self, input: Input<'_>) -> Step {
        let (op, replies) = match input {
            Input::Begin(_) => {
                let ask = |node| Request::new(&ASK, "x".into(), []).at(Node(node));
                return Step::Ask(Requests::from_vec((0..3).map(ask).collect()));
            }
            Input::Reply(op, replies) => (op, replies),
            Input::Event(_) => return Step::Ignore,
        };
        let count = |of: &Reply| replies.iter().filter(|reply| *reply == of).count();
        let unavailable = || Verdict::Failed(Error::new(Kind::Unavailable, "ask", "too few nodes answer"));
        Step::Done(match op {
            Op::Undo if count(&Reply::Silent) > 0 => unavailable(),
            Op::Undo => Verdict::Undone,
            _ if count(&Reply::Int(1)) < 2 => unavailable(),
            Op::Acquire => Verdict::Granted(Grant { tokens: None, term: Term::FromRequest, prev: None }),
            Op::Renew => Verdict::Renewed,
            Op::Release => Verdict::Released(ReleaseOutcome::Released),
        })
    }

    fn traits(&self) -> Traits {
        Traits { block: 1, yields: false, push: Push::None, bound: false }
    }

    fn duplicate(&self) -> Box<dyn Protocol> {
        Box::new(self.clone())
    }

    fn fingerprint(&self, _: &mut dyn Hasher) {}
}

/// A contender whose first request has left, to all nodes.
fn asking() -> Contender {
    let mut session = Session::new(Box::new(Majority), Duration::from_secs(5));
    session.handle(at(0), Event::Acquire { terms: terms(1), wait: true, service: SERVICE, inbox: Inbox::Unavailable });
    let mut asking = Contender { session, sent: Vec::new(), said: Vec::new() };
    asking.drain();
    asking
}

struct Contender {
    session: Session,
    sent: Vec<RequestId>,
    said: Vec<String>,
}

impl Contender {
    fn drain(&mut self) {
        while let Some(action) = self.session.poll_action() {
            match action {
                Action::Send { id, requests } => {
                    let nodes: Vec<_> = requests.iter().filter_map(Request::node).collect();
                    assert_eq!(nodes, [Node(0), Node(1), Node(2)]);
                    self.sent.push(id);
                }
                other => self.said.push(format!("{other:?}")),
            }
        }
    }

    fn tell(&mut self, now: u64, event: Event<'_>) {
        self.session.handle(at(now), event);
        self.drain();
    }

    fn answered(&mut self, now: u64, replies: [Reply; 3], void_after: Option<u64>) {
        let id = *self.sent.last().expect("something was sent");
        let answer = match replies.contains(&Reply::Silent) {
            true => Answer::Partly { replies: &replies, void_after: void_after.map(at) },
            false => Answer::Replies(&replies),
        };
        self.tell(now, Event::Reply { id, sent: at(now), answer });
    }

    fn op(&self) -> Op {
        self.sent.last().expect("something was sent").op
    }
}

const YES: Reply = Reply::Int(1);

#[test]
fn rule_4_what_one_node_may_yet_do_keeps_a_lease_in_doubt_and_is_undone() {
    let mut held = asking();
    held.answered(1, [YES, YES, Reply::Silent], Some(500));
    assert_eq!(held.said, ["Granted { tokens: None }"]);
    assert!(!held.session.is_certain(at(499)), "the third may yet grant it");
    held.tell(2, Event::Release { used: 0 });
    held.answered(3, [YES, YES, YES], None);
    assert_eq!((held.said.len(), held.op()), (2, Op::Undo));
    held.answered(4, [YES, YES, YES], None);
    assert_eq!(held.said.len(), 2, "it may come after that");
    held.tell(500, Event::Tick);
    held.answered(501, [YES, YES, YES], None);
    assert_eq!(held.said.last().map(String::as_str), Some("Ended"));
}

#[test]
fn rule_4_what_was_not_sent_to_one_node_is_not_in_doubt() {
    let mut held = asking();
    held.answered(1, [YES, YES, Reply::Silent], None);
    assert!(held.session.is_certain(at(1)));
    held.tell(2, Event::Release { used: 0 });
    held.answered(3, [YES, Reply::Silent, YES], Some(500));
    assert_eq!(
        (&*held.said, held.op()),
        (&["Granted { tokens: None }", "Released(Released)"].map(str::to_owned)[..], Op::Undo)
    );
    held.answered(4, [YES, YES, YES], None);
    assert_eq!(held.said.last().map(String::as_str), Some("Ended"), "the second gave it back, too");
}

#[test]
fn rule_1_a_renewal_is_one_where_a_node_is_missing() {
    let mut held = asking();
    held.answered(1, [YES, YES, YES], None);
    held.tell(10_000, Event::Tick);
    assert_eq!(held.op(), Op::Renew);
    let before = held.session.valid_until();
    held.answered(10_001, [Reply::Silent, YES, YES], Some(10_500));
    assert!(held.session.valid_until() > before);
}

#[test]
fn rule_4_too_few_nodes_are_none_and_are_undone_when_it_is_given_up() {
    let mut asking = asking();
    asking.answered(1, [YES, Reply::Silent, Reply::Silent], Some(500));
    assert!(asking.said.is_empty());
    asking.tell(100, Event::Tick);
    assert_eq!((asking.sent.len(), asking.op()), (2, Op::Acquire));
    asking.tell(101, Event::Cancel);
    assert_eq!(asking.op(), Op::Undo);
}
