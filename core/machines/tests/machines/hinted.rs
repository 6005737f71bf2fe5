//! The rules as the layout `redisson` keeps them: a lock that other libraries take too, whose waiters are told that
//! asking may help.

use lockwright_machines::options::Retry;
use lockwright_machines::protocol::Layout as _;
use lockwright_machines::stores::postgres::layouts::advisory;
use lockwright_machines::stores::redis::layouts::redisson::{PLAIN, RedissonLock};

use super::*;

const THEIRS: &str = "11111111-2222-3333-4444-555555555555:47";

fn asking(fair: bool, inbox: Inbox) -> Rig {
    let session = Session::new(Box::new(RedissonLock::new(PLAIN, "x".into())), Duration::from_secs(5));
    let mut rig = Rig { session, sent: Vec::new(), said: Vec::new(), learnt: Vec::new() };
    rig.tell(0, Event::Acquire { terms: Terms { fair, ..terms(1) }, wait: true, service: SERVICE, inbox });
    rig
}

/// Somebody who uses the other library holds it for so many milliseconds yet.
fn held(left: i64) -> Reply {
    Reply::List(vec![Reply::Int(0), Reply::Int(5_000_000), Reply::Int(left), Reply::Text(THEIRS.into())])
}

/// The same, and so many are ahead.
fn queued(ahead: i64) -> Reply {
    let Reply::List(mut list) = held(30_000) else { unreachable!() };
    list[0] = Reply::Int(1);
    list.push(Reply::Int(ahead));
    Reply::List(list)
}

impl Rig {
    fn hinted(&mut self, now: u64) {
        let path = self.session.channel().expect("a channel");
        self.tell(now, Event::Push(&StoreEvent::Changed { path }));
    }
}

#[test]
fn rule_6_whoever_has_to_wait_listens_and_asks_again_once_it_does() {
    for fair in [false, true] {
        let mut rig = asking(fair, Inbox::Closed);
        assert!(rig.session.listens());
        rig.replied(5, 0, if fair { queued(0) } else { held(30_000) });
        assert_eq!(rig.hears(), ["OpenInbox"]);
        assert_eq!(rig.sent.len(), 1);
        rig.tell(6, Event::Inbox(Inbox::Live));
        assert_eq!(rig.sent.len(), 2, "the lock may have been given back meanwhile");
    }
}

#[test]
fn rule_6_a_hint_asks_again_and_one_for_somebody_else_does_not() {
    for fair in [false, true] {
        let mut rig = asking(fair, Inbox::Live);
        rig.replied(5, 0, if fair { queued(0) } else { held(30_000) });
        rig.tell(6, Event::Push(&StoreEvent::Changed { path: "redisson_lock__channel:{y}".into() }));
        assert_eq!(rig.sent.len(), 1);
        rig.hinted(7);
        assert_eq!(rig.sent.len(), 2);
        rig.replied(8, 7, Reply::Int(100));
        assert_eq!(rig.hears(), ["granted 100..=163"]);
        assert!(!rig.session.listens());
        rig.hinted(9);
        assert_eq!(rig.sent.len(), 2, "whoever holds it has no use for hints");
    }
}

#[test]
fn rule_6_a_hint_that_overtakes_the_answer_is_not_forgotten() {
    for fair in [false, true] {
        let mut rig = asking(fair, Inbox::Live);
        rig.hinted(3);
        assert_eq!(rig.sent.len(), 1);
        rig.replied(5, 0, if fair { queued(0) } else { held(30_000) });
        assert_eq!(rig.sent.len(), 2, "the answer may be older than the release");
    }
}

#[test]
fn rule_6_a_lost_hint_costs_a_claim() {
    for fair in [false, true] {
        let mut rig = asking(fair, Inbox::Live);
        rig.replied(0, 0, if fair { queued(0) } else { held(30_000) });
        let wake = rig.session.poll_timeout().unwrap();
        assert!(wake <= at(1_000) && wake >= at(765), "a claim, less its jitter: {wake:?}");
        rig.tick(1_000);
        assert_eq!(rig.sent.len(), 2);
    }
}

#[test]
fn rule_6_whoever_is_told_by_some_alone_asks_by_a_timer_as_well() {
    for inbox in [Inbox::Closed, Inbox::Live] {
        let protocol = advisory::layout("", Duration::from_secs(30)).protocol("7".into());
        let mut rig = Rig { session: Session::new(protocol, millis(5_000)), ..asking(false, inbox) };
        rig.sent.clear();
        rig.tell(0, Event::Acquire { terms: terms(1), wait: true, service: SERVICE, inbox });
        rig.replied(0, 0, Reply::Int(0));
        assert!(rig.session.poll_timeout().unwrap() <= at(64), "{inbox:?}");
        let opens = if inbox == Inbox::Closed { vec!["OpenInbox".to_owned()] } else { vec![] };
        assert_eq!((rig.hears(), rig.sent.len()), (opens, 1));
        rig.hinted(1);
        assert_eq!(rig.sent.len(), 2);
    }
}

#[test]
fn rule_6_where_nothing_can_be_heard_everybody_polls() {
    let retry = Retry { min: millis(100), max: millis(400) };
    for fair in [false, true] {
        let mut rig = asking(fair, Inbox::Closed);
        rig.tell(0, Event::Serve(Service { retry, ..SERVICE }));
        rig.replied(0, 0, if fair { queued(3) } else { held(30_000) });
        rig.tell(0, Event::Inbox(Inbox::Unavailable));
        let mut now = 0;
        for pause in [100, 200, 400, 400] {
            rig.replied(now, now, if fair { queued(3) } else { held(30_000) });
            let due = rig.session.poll_timeout().expect("it asks again").since(at(now));
            assert!(due > millis(pause) * 7 / 8 - millis(1) && due <= millis(pause), "{due:?} of {pause}");
            now += pause;
            rig.tick(now);
        }
    }
}

#[test]
fn rule_3_a_place_in_the_queue_is_kept_by_asking_again_and_left_by_an_undo() {
    let mut rig = asking(true, Inbox::Live);
    let owner = |rig: &Rig| rig.sent.last().unwrap().1.to_string();
    assert!(owner(&rig).contains("00000000-0000-0000-0000-000000000001:0"), "{}", owner(&rig));
    rig.replied(0, 0, queued(1));
    rig.hinted(1);
    assert!(owner(&rig).contains("00000000-0000-0000-0000-000000000001:0"), "{}", owner(&rig));
    rig.replied(2, 1, queued(0));
    rig.tell(3, Event::Cancel);
    assert_eq!(rig.asks(), "undo");
    assert!(owner(&rig).contains("redisson_lock_queue:{x}"), "{}", owner(&rig));
}

#[test]
fn rule_4_a_waiter_without_a_place_leaves_nothing_to_undo() {
    let mut rig = asking(false, Inbox::Live);
    rig.replied(0, 0, held(30_000));
    rig.tell(1, Event::Cancel);
    assert_eq!((rig.hears(), rig.sent.len()), (vec!["Ended".to_owned()], 1));
}
