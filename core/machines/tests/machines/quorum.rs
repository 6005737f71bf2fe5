//! A lock on several nodes, of which some refuse, are silent, or have forgotten what they granted.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lockwright_machines::cell_layout;
use lockwright_machines::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use lockwright_machines::lease::ReleaseOutcome;
use lockwright_machines::protocol::{Call, Input, Intent, Layout, Step, Verdict};
use lockwright_machines::quorum::{Leases, Marker, Member, QuorumLayout};
use lockwright_machines::stores::redis::layouts::native_scripts;

use super::*;

static MARK: Call = Call { name: "mark", body: &[], batch: false };

const OLD: Says = Says::Granted(100);

/// What a node says to a try, and its marker.
#[derive(Clone, Copy)]
enum Says {
    Granted(i64),
    /// Granted, by a node that is young, or used with other leases.
    Young,
    OtherTtl,
    Held,
    Silent,
    Unsent,
    NoRight,
}

impl Says {
    fn replies(self) -> [Reply; 2] {
        let known = || Reply::Text("run 60000000 1".into());
        let error = || Reply::Error { code: "NOPERM".into(), message: "no".into() };
        match self {
            Says::Granted(token) => [Reply::Int(token), known()],
            Says::Young => [Reply::Int(100), Reply::Int(1_500_000)],
            Says::OtherTtl => [Reply::Int(100), Reply::List(vec![Reply::Int(9_000_000)])],
            Says::Held => [Reply::List([0, 5, 7_000_000, 0].map(Reply::Int).to_vec()), known()],
            Says::Silent => [Reply::Silent, Reply::Silent],
            Says::Unsent => [Reply::Unsent, Reply::Unsent],
            Says::NoRight => [error(), known()],
        }
    }
}

fn guarantees() -> Guarantees {
    Guarantees {
        store: "test",
        layout: "native",
        exclusive_until: ExclusiveUntil::StoreFailover,
        token: TokenRises::Never,
        fair: false,
        reentrant: true,
        shared: true,
        push: false,
        survives_disconnect: true,
        incarnation: true,
        notes: &[],
    }
}

fn layout(nodes: usize) -> QuorumLayout {
    layout_that(nodes, false)
}

fn layout_that(nodes: usize, fences: bool) -> QuorumLayout {
    let member = |number| Member {
        address: format!("node{number}").into(),
        layout: match fences {
            true => Arc::new(native_scripts::layout("")),
            false => Arc::new(cell_layout::layout("", guarantees)),
        },
        marker: Marker { call: &MARK, key: "marker".into() },
    };
    let leases = Leases { max_ttl: Duration::from_secs(60), node_timeout: millis(100) };
    QuorumLayout::new((0..nodes).map(member).collect(), leases, Arc::new(AtomicBool::new(fences))).unwrap()
}

/// The machine of a lock on five nodes.
fn machine() -> Box<dyn Protocol> {
    layout(5).protocol("x".into())
}

fn begin(machine: &mut dyn Protocol, intent: Intent) -> Vec<(String, usize)> {
    match machine.step(Input::Begin(intent)) {
        Step::Ask(requests) => asked(&requests),
        other => panic!("{other:?}"),
    }
}

/// What is asked of which node.
fn asked(requests: &[Request]) -> Vec<(String, usize)> {
    let each = |request: &Request| (request.call.name.to_owned(), usize::from(request.node().unwrap().0));
    requests.iter().map(each).collect()
}

fn acquire(machine: &mut dyn Protocol) {
    let all = begin(machine, Intent::Acquire { terms: terms(1), wait: true, prev: None });
    let expected = (0..5).flat_map(|node| [("acquire".to_owned(), node), ("mark".to_owned(), node)]);
    assert_eq!(all, expected.collect::<Vec<_>>(), "each is asked, and then how old it is");
}

/// What a machine says to a try that the nodes answer so.
fn tried(machine: &mut dyn Protocol, says: [Says; 5]) -> Step {
    acquire(machine);
    let replies: Vec<_> = says.into_iter().flat_map(Says::replies).collect();
    machine.step(Input::Reply(Op::Acquire, &replies))
}

/// Where something is given back, once that is answered: what is said then.
fn given_back(machine: &mut dyn Protocol, step: Step, nodes: &[usize]) -> Verdict {
    let Step::Ask(requests) = step else { panic!("{step:?}") };
    assert_eq!(asked(&requests), nodes.iter().map(|node| ("release".to_owned(), *node)).collect::<Vec<_>>());
    let replies = vec![Reply::Int(1); nodes.len()];
    match machine.step(Input::Reply(Op::Acquire, &replies)) {
        Step::Done(verdict) => verdict,
        other => panic!("{other:?}"),
    }
}

fn done(step: Step) -> Verdict {
    match step {
        Step::Done(verdict) => verdict,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_majority_grants_with_the_highest_token() {
    let says = [Says::Granted(7), Says::Held, Says::Granted(900), Says::Silent, Says::Granted(80)];
    let Verdict::Granted(grant) = done(tried(&mut *machine(), says)) else { panic!("three of five are enough") };
    assert_eq!((grant.tokens.unwrap().first(), grant.term), (900, lockwright_machines::protocol::Term::FromRequest));
}

#[test]
fn a_minority_is_given_back_before_anything_is_said() {
    let mut machine = machine();
    let step = tried(&mut *machine, [OLD, Says::Held, OLD, Says::Held, Says::Held]);
    let Verdict::Held { remaining, .. } = given_back(&mut *machine, step, &[0, 2]) else { panic!("others have it") };
    assert!(remaining <= Duration::from_secs(7) && !remaining.is_zero());
    let step = tried(&mut *machine, [OLD, Says::Silent, OLD, Says::Unsent, Says::Unsent]);
    let Verdict::Failed(error) = given_back(&mut *machine, step, &[0, 2]) else { panic!("too few") };
    assert_eq!(error.kind(), Kind::Quorum);
    let said = error.to_string();
    assert!(said.contains("2 of 5 nodes granted the lock, 3 are needed: node1 is down"), "{said}");
    // The one that was silent may have it yet; those that were not reached have not.
    assert_eq!(begin(&mut *machine, Intent::Undo { terms: terms(1), prev: None }), [("undo".to_owned(), 1)]);
}

#[test]
fn a_young_node_does_not_count() {
    for young in [Says::Young, Says::OtherTtl] {
        let mut machine = machine();
        let step = tried(&mut *machine, [OLD, OLD, young, Says::Unsent, Says::Unsent]);
        match (young, given_back(&mut *machine, step, &[0, 1, 2])) {
            (Says::Young, Verdict::NotYet(error)) => {
                assert!(
                    error.to_string().contains("node2 was restarted, emptied or is new, and counts in 1500ms"),
                    "{error}"
                );
            }
            (Says::OtherTtl, Verdict::Failed(error)) => {
                assert!(error.to_string().contains("node2 is used with max_ttl=9s, which is 60s here"), "{error}");
            }
            (_, other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_most_nodes_refuse_for_good_is_no_matter_of_a_quorum() {
    let refuse = |says| {
        let mut machine = machine();
        match tried(&mut *machine, says) {
            Step::Done(Verdict::Failed(error)) => error.kind(),
            step => match given_back(&mut *machine, step, &[0, 1]) {
                Verdict::Failed(error) => error.kind(),
                other => panic!("{other:?}"),
            },
        }
    };
    assert_eq!(refuse([Says::NoRight; 5]), Kind::Auth);
    assert_eq!(refuse([OLD, OLD, Says::NoRight, Says::Unsent, Says::Unsent]), Kind::Quorum);
}

#[test]
fn it_is_held_while_a_majority_renews_and_released_wherever_it_may_be() {
    let mut machine = machine();
    let says = [OLD, OLD, OLD, Says::Silent, Says::Unsent];
    assert!(matches!(done(tried(&mut *machine, says)), Verdict::Granted(_)));
    let renew = || Intent::Renew { terms: terms(1), ttl: TTL };
    let (yes, no) = (Reply::Int(1), Reply::Int(0));
    for (replies, expected) in [
        ([yes.clone(), yes.clone(), yes.clone()], "Renewed"),
        ([yes.clone(), Reply::Silent, yes.clone()], "Failed"),
        ([yes.clone(), no, yes.clone()], "Gone"),
    ] {
        begin(&mut *machine, renew());
        let said = format!("{:?}", done(machine.step(Input::Reply(Op::Renew, &replies))));
        assert!(said.starts_with(expected), "{said}");
    }
    // It is gone from the second, and may have come to the fourth.
    let everywhere = begin(&mut *machine, Intent::Release { terms: terms(1), used: 0 });
    assert_eq!(everywhere.iter().map(|(_, node)| *node).collect::<Vec<_>>(), [0, 2, 3]);
    let released = machine.step(Input::Reply(Op::Release, &[yes.clone(), yes.clone(), yes]));
    assert!(matches!(done(released), Verdict::Released(ReleaseOutcome::Released)));
}

#[test]
fn a_node_that_did_not_say_that_it_gave_back_is_not_asked_again() {
    let mut machine = machine();
    let step = tried(&mut *machine, [OLD, Says::Held, OLD, Says::Held, Says::Held]);
    assert!(matches!(step, Step::Ask(_)), "{step:?}");
    let replies = [Reply::Silent, Reply::Int(1)];
    assert!(matches!(done(machine.step(Input::Reply(Op::Acquire, &replies))), Verdict::Held { .. }));
    // What the first does late must not free what it would grant now.
    let again = begin(&mut *machine, Intent::Acquire { terms: terms(1), wait: true, prev: None });
    assert_eq!(again.iter().step_by(2).map(|(_, node)| *node).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let replies: Vec<_> = [OLD, Says::Silent, OLD, Says::Held].into_iter().flat_map(Says::replies).collect();
    let Step::Ask(back) = machine.step(Input::Reply(Op::Acquire, &replies)) else { panic!("two of five") };
    assert_eq!(asked(&back), [("release".to_owned(), 1), ("release".to_owned(), 3)]);
    let replies = [Reply::Silent, Reply::Silent];
    assert!(matches!(done(machine.step(Input::Reply(Op::Acquire, &replies))), Verdict::Held { .. }));
    // Two are left, which are no majority.
    let last = begin(&mut *machine, Intent::Acquire { terms: terms(1), wait: true, prev: None });
    assert_eq!(last.iter().step_by(2).map(|(_, node)| *node).collect::<Vec<_>>(), [2, 4]);
    let replies: Vec<_> = [OLD, OLD].into_iter().flat_map(Says::replies).collect();
    let step = machine.step(Input::Reply(Op::Acquire, &replies));
    let Verdict::Spent(error) = given_back(&mut *machine, step, &[2, 4]) else { panic!("two of five") };
    assert!(error.to_string().contains("node0 did not say whether it gave back"), "{error}");
    // Of another attempt they have nothing.
    assert_eq!(begin(&mut *machine, Intent::Acquire { terms: terms(2), wait: true, prev: None }).len(), 10);
}

#[test]
fn nodes_of_which_none_said_that_it_gave_back_are_not_asked_again() {
    let mut machine = machine();
    let tries = |machine: &mut dyn Protocol, attempt| {
        let asked = begin(machine, Intent::Acquire { terms: terms(attempt), wait: true, prev: None });
        asked.iter().step_by(2).map(|(_, node)| *node).collect::<Vec<_>>()
    };
    let step = tried(&mut *machine, [OLD, Says::Held, OLD, Says::Held, Says::Held]);
    assert!(matches!(step, Step::Ask(_)), "{step:?}");
    // Nobody answered, of which the machine hears nothing.
    assert_eq!(tries(&mut *machine, 1), [1, 3, 4]);
    let replies: Vec<_> = [OLD, Says::Held, Says::Held].into_iter().flat_map(Says::replies).collect();
    assert!(matches!(machine.step(Input::Reply(Op::Acquire, &replies)), Step::Ask(_)));
    assert_eq!(tries(&mut *machine, 2), [0, 1, 2, 3, 4], "another attempt has nothing there");
    let undo = begin(&mut *machine, Intent::Undo { terms: terms(2), prev: None });
    assert_eq!(undo.len(), 5);
}

#[test]
fn whoever_waits_begins_anew_where_a_node_did_not_say_that_it_gave_back() {
    for (wait, said) in [(true, "Refused"), (false, "failed: quorum")] {
        let session = Session::new(layout(3).protocol("x".into()), Duration::from_secs(5));
        let mut rig = Rig { session, sent: Vec::new(), said: Vec::new(), learnt: Vec::new() };
        rig.tell(0, Event::Acquire { terms: terms(1), wait, service: SERVICE, inbox: Inbox::Unavailable });
        let answered = |rig: &mut Rig, now, says: &[Says]| {
            let replies: Vec<_> = says.iter().flat_map(|says| says.replies()).collect();
            let id = rig.sent.last().unwrap().0;
            rig.tell(now, Event::Reply { id, sent: at(now), answer: Answer::Replies(&replies) });
        };
        answered(&mut rig, 0, &[OLD, Says::Held, Says::Held]);
        assert_eq!(rig.asks(), "release");
        rig.unanswered(100, 1_200);
        rig.tick(1_000);
        answered(&mut rig, 1_000, &[OLD, Says::Silent]);
        assert_eq!(rig.asks(), "release");
        rig.replied(1_001, 1_000, Reply::Int(1));
        assert_eq!((rig.hears(), rig.asks()), (vec![said.to_owned()], "undo"));
    }
}

#[test]
fn an_undo_that_its_try_may_have_overtaken_is_sent_again_to_all() {
    let mut machine = machine();
    acquire(&mut *machine);
    let undo = || Intent::Undo { terms: terms(1), prev: None };
    assert_eq!(begin(&mut *machine, undo()).len(), 5);
    let replies: Vec<_> = [OLD; 5].into_iter().flat_map(Says::replies).collect();
    assert!(matches!(done(machine.step(Input::Reply(Op::Acquire, &replies))), Verdict::Granted(_)));
    let replies = vec![Reply::Int(0); 5];
    assert!(matches!(done(machine.step(Input::Reply(Op::Undo, &replies))), Verdict::Undone));
    assert_eq!(begin(&mut *machine, undo()).len(), 5, "each may have granted it behind the undo");
    assert!(matches!(done(machine.step(Input::Reply(Op::Undo, &replies))), Verdict::Undone));
    assert!(matches!(machine.step(Input::Begin(undo())), Step::Done(Verdict::Undone)), "nothing is left");
}

#[test]
fn no_lease_is_longer_than_a_node_is_left_out() {
    let long = Duration::from_secs(61);
    let mut machine = machine();
    let acquire = Intent::Acquire { terms: Terms { ttl: long, ..terms(1) }, wait: false, prev: None };
    let Verdict::Failed(error) = done(machine.step(Input::Begin(acquire))) else { panic!("it is too long") };
    assert_eq!(error.kind(), Kind::InvalidConfig);
    assert!(matches!(done(tried(&mut *machine, [OLD; 5])), Verdict::Granted(_)));
    let renew = Intent::Renew { terms: terms(1), ttl: long };
    assert!(matches!(done(machine.step(Input::Begin(renew))), Verdict::Failed(_)));
}

#[test]
fn what_several_may_hold_is_sound_or_refused() {
    use lockwright_machines::share::Share;
    assert!(layout(3).shared(Share::WRITE).is_some() && layout(3).shared(Share::READ).is_some());
    assert!(layout(3).shared(Share::permits(1, 2, false).unwrap()).is_none());
}

#[test]
fn where_tokens_must_rise_a_majority_keeps_the_highest_before_anybody_is_told() {
    for (replies, is_granted) in [([1, 1, 1, 1, 1, 1], true), ([1, 1, 0, 1, 1, 1], false), ([1, 1, 1, 0, 1, 1], false)]
    {
        let mut machine = layout_that(5, true).protocol("x".into());
        let says = [Says::Granted(7), Says::Held, Says::Granted(900), Says::Unsent, Says::Granted(80)];
        let Step::Ask(requests) = tried(&mut *machine, says) else { panic!("the token is written back") };
        let expected = [0, 2, 4].map(|node| [("raise".to_owned(), node), ("renew".to_owned(), node)]);
        assert_eq!(asked(&requests), expected.concat());
        assert!(requests[0].args.contains(&Arg::Text("0000000000000900".into())), "{:?}", requests[0]);
        let step = machine.step(Input::Reply(Op::Acquire, &replies.map(Reply::Int)));
        match step {
            Step::Done(Verdict::Granted(grant)) if is_granted => assert_eq!(grant.tokens.unwrap().first(), 900),
            Step::Ask(given_back) if !is_granted => assert!(given_back.iter().all(|it| it.call.name == "release")),
            other => panic!("{replies:?}: {other:?}"),
        }
    }
}

#[test]
fn nobody_leads_before_a_majority_agrees_on_its_token() {
    let layout = layout_that(5, true);
    let agreed = layout.agreed().expect("these nodes can keep a token of another one");
    assert!(layout_that(5, false).agreed().is_none(), "and these cannot");
    let has = |token: i64| {
        let [kind, owner, card] = ["lock", "claimant", ""].map(|text| Reply::Text(text.into()));
        let [held, left, first, last, waiters] = [5, 9, token, token + 9, 0].map(Reply::Int);
        Reply::List(vec![kind, owner, held, left, first, last, card, waiters, Reply::List(vec![])])
    };
    for (tokens, token) in [([7, 900, 80], None), ([7, 900, 900], None), ([900, 900, 900], Some(900))] {
        let holder = |layout: &dyn Layout| {
            let replies = tokens.map(has).into_iter().chain([Reply::Silent, Reply::Silent]).collect::<Vec<_>>();
            let seen = layout.inspect("x", "x".into()).conclude(|_| Ok(replies.clone())).unwrap();
            seen.holder.map(|holder| holder.first_token)
        };
        assert_eq!(holder(&*agreed), token, "{tokens:?}");
        assert_eq!(holder(&layout), Some(900), "{tokens:?}");
    }
}
