//! The scripts of barriers do what [`lockwright_machines::barrier_cell`] does: the same random commands go to both, and
//! answers, pushes and what is left in the end must be equal. The scripts run on a real server, under a clock that the
//! test sets.

mod comparison;
#[path = "comparison/in_redis.rs"]
mod in_redis;
mod redis_server;

use std::sync::Arc;

use comparison::Model;
use comparison::barrier::{SECOND, arrival, look, plan, terms};
use in_redis::{InHash, clear, compare_scripts, past};
use lockwright_machines::Kind;
use lockwright_machines::barrier_cell::BarrierCell;
use lockwright_machines::barrier_machine::{BarrierMachine, standing};
use lockwright_machines::gate::{Gate, LatchPlan, MIN_IDLE};
use lockwright_machines::protocol::{InboxId, Input, Intent, Layout, Protocol, Question, Reply, Step, Terms, Verdict};
use lockwright_machines::stores::redis::layouts::{barrier_scripts::CALLS, native_scripts};
use lockwright_machines::time::StoreTime;
use proptest::test_runner::TestCaseError;
use proptest::{prop_assert, prop_assert_eq};
use redis_server::{Server, begun, requests};

#[test]
fn scripts_do_what_the_reference_does() {
    compare_scripts::<BarrierCell>(300);
}

/// An arrival of a party that listens nowhere.
fn unheard(who: usize) -> Intent {
    Intent::Acquire { terms: Terms { inbox: InboxId(2), ..terms(who) }, wait: true, prev: None }
}

impl InHash for BarrierCell {
    /// The key goes when the barrier does, at the server as in its own field.
    fn check(server: &mut Server, model: &Model<Self>) -> Result<(), TestCaseError> {
        if !model.cell.is_there(model.now) {
            prop_assert_eq!(server.plain(&["EXISTS", &model.key]), Reply::Int(0));
            return Ok(());
        }
        let (field, real) = redis_server::lifetime(server, &model.key);
        prop_assert_eq!(field, model.cell.goes.0);
        prop_assert!(real * 1000 >= field && (real - 1) * 1000 < field, "{} {}", real, field);
        Ok(())
    }
}

#[test]
fn those_who_passed_are_forgotten_once_nobody_can_ask_for_them() {
    let mut server = Server::connect();
    let key: Arc<str> = "lw:{barrier of many}".into();
    clear(&mut server, &key);
    let mut now = server.later();
    for who in 0..100 {
        now = StoreTime(now.0 + 10 * SECOND);
        let mut machine = BarrierMachine::new(&CALLS, key.clone(), plan(2, 10));
        let reply = server.ask(&begun(&mut machine, unheard(who)), now);
        assert_eq!(matches!(reply, Reply::List(list) if list[0] == Reply::Int(3)), who % 2 == 1);
        // The place of the one before still stands.
        now = StoreTime(now.0 - 5 * SECOND * i64::from(who % 2 == 0));
    }
    // What it is, its parties, end, generation and places (3): whoever looks through it reads nothing of those who
    // passed.
    assert_eq!(server.number(&["HLEN", &key]), Some(7));
    // Two each 15 s, each remembered for 100 s, twice; the two ends of their row, and when the key goes.
    let fields = server.number(&["HLEN", &past(&key)]).unwrap();
    assert!((3 + 2 * 12..=3 + 2 * 16).contains(&fields), "{fields}");
    let (goes, real) = redis_server::lifetime(&mut server, &past(&key));
    assert!(
        goes >= now.0 + 100 * SECOND && goes <= now.0 + 160 * SECOND && real == (goes + 999) / 1000,
        "{goes} {real}"
    );
    clear(&mut server, &key);
}

#[test]
fn one_name_is_one_thing() {
    let mut server = Server::connect();
    let key: Arc<str> = "lw:{barrier, and something else}".into();
    let now = server.later();
    for (setup, what) in [
        (["SET", &*key, "x"].as_slice(), ""),
        (&["HSET", &*key, "v", "2"], "a lock's"),
        (&["HSET", &*key, "v", "latch1"], "a latch's"),
        (&["HSET", &*key, "v", "semaphore1"], "a semaphore's"),
        (&["HSET", &*key, "uuid:1", "1"], "something else's"),
    ] {
        clear(&mut server, &key);
        server.plain(setup);
        let before = server.plain(&["DUMP", &key]);
        let mut machine = BarrierMachine::new(&CALLS, key.clone(), plan(1, 10));
        for intent in [arrival(0, true), Intent::Undo { terms: terms(0), prev: None }] {
            let op = intent.op();
            let reply = server.ask(&begun(&mut machine, intent), now);
            match machine.step(Input::Reply(op, &[reply])) {
                Step::Done(Verdict::Failed(error)) => assert_eq!(error.kind(), Kind::ForeignLayout, "{error}"),
                other => panic!("{setup:?}: {other:?}"),
            }
        }
        let reply = server.ask(&look(&native_scripts::layout(""), &key), now);
        assert!(matches!(&reply, Reply::Error { message, .. } if message.contains(what)), "{reply:?}");
        assert_eq!(standing(&reply).expect_err("it is something else").kind(), Kind::ForeignLayout);
        assert_eq!(server.plain(&["DUMP", &key]), before);
    }
    clear(&mut server, &key);
    let mut machine = BarrierMachine::new(&CALLS, key.clone(), plan(1, 10));
    server.ask(&begun(&mut machine, arrival(0, true)), now);
    let latch = LatchPlan::new(1, MIN_IDLE).expect("in range");
    let latch = native_scripts::layout("").gate(Gate::Latch(latch)).expect("there is one");
    let reply = server.ask(&latch.question(key.clone(), Question::Look).expect("one").asks()[0].clone(), now);
    assert!(matches!(reply, Reply::Error { code, .. } if code == "FOREIGN"));
    let seen = server.ask(&native_scripts::layout("").inspect("x", key.clone()).asks()[0], now);
    assert_eq!(
        native_scripts::layout("").inspect("x", key.clone()).answered(&seen).expect_err("a barrier").kind(),
        Kind::ForeignLayout
    );
    clear(&mut server, &key);
}

#[test]
fn thousands_pass_in_the_order_of_arrival() {
    const PARTIES: usize = 2_000;
    let mut server = Server::connect();
    let key: Arc<str> = "lw:{barrier of thousands}".into();
    clear(&mut server, &key);
    let now = server.later();
    let mut machine = BarrierMachine::new(&CALLS, key.clone(), plan(PARTIES as u32, 10));
    let mut reply = Reply::Nil;
    for who in 0..PARTIES {
        reply = server.ask(&begun(&mut machine, unheard(who)), now);
    }
    let generation = now.0 / 1000 + 1;
    assert_eq!(reply, Reply::List([3, PARTIES as i64 - 1, generation].map(Reply::Int).to_vec()));
    for who in 0..PARTIES {
        let Reply::Text(noted) = server.plain(&["HGET", &past(&key), &format!("d{}", terms(who).attempt)]) else {
            panic!("party {who} is not remembered")
        };
        assert!(noted.ends_with(&format!(" {who} {generation}")), "{noted}");
    }
    clear(&mut server, &key);
}
