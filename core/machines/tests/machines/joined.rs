//! The rules as the layout `string` keeps them: a lock that other libraries take too, without a queue and without a
//! push.

use lockwright_machines::options::Retry;
use lockwright_machines::protocol::Arg;
use lockwright_machines::stores::redis::layouts::recipe::Format;
use lockwright_machines::stores::redis::layouts::string::{FAMILY, REDIS_PY, REDSYNC};

use super::*;

const FORMAT: Format = REDSYNC;
const THEIRS: &str = "3q2+7wABAgMEBQYHCAkKCw==";

fn asking(service: Service) -> Rig {
    Rig::speaking(Box::new(FAMILY.machine(&REDSYNC, "x".into())), service, Inbox::Closed)
}

/// Somebody who uses the other library holds it for so many milliseconds yet.
fn held(left: i64) -> Reply {
    let numbers = [Reply::Int(0), Reply::Int(5_000_000), Reply::Int(left)];
    Reply::List(numbers.into_iter().chain([Reply::Text(THEIRS.into())]).collect())
}

impl Rig {
    /// The owner that the last write names.
    fn owner(&self) -> String {
        let text = |arg: &Arg| match arg {
            Arg::Text(text) => Some(text.to_string()),
            _ => None,
        };
        self.sent.last().unwrap().1.args.iter().find_map(text).unwrap()
    }
}

#[test]
fn rule_1_a_grant_counts_from_the_sending_also_after_waiting() {
    let mut rig = asking(SERVICE);
    rig.replied(5, 0, held(800));
    rig.tick(1_000);
    assert_eq!(rig.asks(), "acquire");
    rig.replied(1_500, 1_000, Reply::Int(100));
    assert_eq!(rig.hears(), ["granted 100..=163"]);
    assert_eq!(rig.valid_until(), Some(at(1_000 + 30_000 - 300 - 2)));
}

#[test]
fn rule_3_each_attempt_is_an_owner_of_its_own() {
    let mut rig = asking(SERVICE);
    assert_eq!(rig.owner(), (FORMAT.owner)(AttemptId(1)));
    rig.replied(0, 0, Reply::Int(100));
    rig.tell(10, Event::Release { used: 100 });
    rig.replied(20, 10, Reply::Int(1));
    let terms = terms(2);
    rig.tell(30, Event::Acquire { terms, wait: true, service: SERVICE, inbox: Inbox::Live });
    assert_eq!(rig.owner(), (FORMAT.owner)(AttemptId(2)));
}

#[test]
fn rule_3_an_acquire_sent_again_names_the_same_owner_and_is_granted() {
    let mut rig = asking(SERVICE);
    let first = rig.owner();
    rig.unanswered(1_000, 1_100);
    rig.tick(1_050);
    assert_eq!((rig.asks(), rig.owner()), ("acquire", first));
    rig.replied(1_060, 1_050, Reply::Int(100));
    assert_eq!(rig.hears(), ["granted 100..=163"]);
}

#[test]
fn rule_3_a_release_sent_twice_does_not_claim_to_know() {
    let mut rig = asking(SERVICE);
    rig.replied(0, 0, Reply::Int(100));
    rig.hears();
    rig.tell(10, Event::Release { used: 100 });
    rig.unanswered(500, 600);
    rig.tick(600);
    assert_eq!(rig.asks(), "release");
    rig.replied(610, 600, Reply::Text(String::new()));
    assert_eq!(rig.hears()[0], "released: unknown");
}

#[test]
fn rule_4_what_may_be_executed_late_is_refused_by_the_store_and_undone_by_us() {
    let mut rig = asking(SERVICE);
    assert!(rig.sent[0].1.args.contains(&Arg::NotAfter));
    rig.unanswered(1_000, 2_000);
    rig.tell(1_005, Event::Cancel);
    assert_eq!((rig.asks(), rig.owner()), ("undo", (FORMAT.owner)(AttemptId(1))));
    rig.replied(1_010, 1_005, Reply::Int(1));
    let undone = rig.sent.len();
    rig.tick(2_000);
    assert_eq!((rig.sent.len(), rig.asks()), (undone + 1, "undo"), "it may have been executed after the first undo");
}

#[test]
fn rule_7_a_hold_that_somebody_took_is_lost_at_the_next_renewal() {
    let mut rig = asking(SERVICE);
    rig.replied(0, 0, Reply::Int(100));
    rig.hears();
    rig.tick(10_000);
    assert_eq!((rig.asks(), rig.owner()), ("renew", (FORMAT.owner)(AttemptId(1))));
    rig.replied(10_005, 10_000, Reply::Int(0));
    assert_eq!(rig.hears()[0], "lost: gone");
}

#[test]
fn rule_8_a_yield_is_a_release_and_a_fresh_acquisition() {
    let mut rig = asking(SERVICE);
    rig.replied(0, 0, Reply::Int(100));
    rig.hears();
    rig.tell(10, Event::Yield { attempt: AttemptId(2), used: 100, service: SERVICE });
    assert_eq!((rig.asks(), rig.owner()), ("release", (FORMAT.owner)(AttemptId(1))));
    rig.replied(20, 10, Reply::Int(1));
    assert_eq!(rig.hears(), ["released: released", "Ended"]);
}

#[test]
fn rule_14_waiters_ask_again_as_often_as_they_were_told_to() {
    let retry = Retry { min: millis(100), max: millis(400) };
    let mut rig = asking(Service { retry, ..SERVICE });
    let mut now = 0;
    for pause in [100, 200, 400, 400] {
        rig.replied(now, now, held(60_000));
        let due = rig.session.poll_timeout().expect("it asks again").since(at(now));
        assert!(due > millis(pause) * 7 / 8 - millis(1) && due <= millis(pause), "{due:?} of {pause}");
        now += pause;
        rig.tick(now);
        assert_eq!(rig.asks(), "acquire");
    }
    // Sooner where the lease ends sooner.
    rig.replied(now, now, held(30));
    assert!(rig.session.poll_timeout().expect("it asks again").since(at(now)) <= millis(30));
}

#[test]
fn rule_14_a_lock_that_is_held_without_an_end_is_waited_for() {
    // The pause differs from attempt to attempt, and the longest span there is leaves no room for a slip.
    for attempt in 1..64 {
        let protocol = Box::new(FAMILY.machine(&REDIS_PY, "x".into()));
        let session = Session::new(protocol, Duration::from_secs(5));
        let mut rig = Rig { session, sent: Vec::new(), said: Vec::new(), learnt: Vec::new() };
        let terms = terms(attempt);
        rig.tell(0, Event::Acquire { terms, wait: true, service: SERVICE, inbox: Inbox::Closed });
        let theirs = Reply::Text("0123456789abcdef0123456789abcdef".into());
        rig.replied(0, 0, Reply::List(vec![Reply::Int(0), Reply::Int(5), Reply::Int(-1), theirs]));
        assert!(rig.session.poll_timeout().expect("it asks again") <= at(2));
    }
}

#[test]
fn rule_13_what_the_other_library_cannot_have_written_is_not_waited_for() {
    let mut rig = asking(SERVICE);
    let numbers = [Reply::Int(0), Reply::Int(5_000_000), Reply::Int(800)];
    rig.replied(0, 0, Reply::List(numbers.into_iter().chain([Reply::Text("{\"a\": 1}".into())]).collect()));
    assert_eq!(rig.hears()[0], "failed: foreign_layout");
}
