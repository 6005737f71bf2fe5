//! The scripts of latches do what [`lockwright_machines::latch_cell`] does: the same random commands go to both, and
//! answers, pushes and what is left in the end must be equal. The scripts run on a real server, under a clock that the
//! test sets.

mod comparison;
#[path = "comparison/in_redis.rs"]
mod in_redis;
mod redis_server;

use std::collections::BTreeSet;
use std::sync::Arc;

use comparison::Model;
use comparison::latch::{COPIES, layout_of, plan, terms};
use in_redis::{InHash, clear, compare_scripts, past};
use lockwright_machines::gate::{Answer, CountOperation, MAX_IDLE, MIN_IDLE};
use lockwright_machines::latch_cell::LatchCell;
use lockwright_machines::latch_machine::{LatchMachine, answer};
use lockwright_machines::protocol::{AttemptId, Input, Intent, Layout, Protocol, Question, Reply, Step, Verdict};
use lockwright_machines::share::Share;
use lockwright_machines::shared_machine::SharedMachine;
use lockwright_machines::stores::redis::layouts::{latch_scripts::CALLS, native_scripts, shared_scripts};
use lockwright_machines::time::StoreTime;
use lockwright_machines::{Kind, Result};
use proptest::test_runner::TestCaseError;
use proptest::{prop_assert, prop_assert_eq};
use redis_server::{Server, begun, hash, requests};

#[test]
fn scripts_do_what_the_reference_does() {
    compare_scripts::<LatchCell>(300);
}

fn layout() -> Arc<dyn Layout> {
    layout_of(&native_scripts::layout(""))
}

impl InHash for LatchCell {
    /// The key goes when the latch does, at the server as in its own field, and holds nothing for those who are gone.
    fn check(server: &mut Server, model: &Model<Self>) -> std::result::Result<(), TestCaseError> {
        if model.cell.look(model.now).is_none() {
            prop_assert_eq!(server.plain(&["EXISTS", &model.key]), Reply::Int(0));
            return Ok(());
        }
        let (field, real) = redis_server::lifetime(server, &model.key);
        prop_assert_eq!(field, model.cell.goes.0);
        prop_assert!(real * 1000 >= field && (real - 1) * 1000 < field, "{} {}", real, field);
        // What it is, its count and its end; those who wait.
        let fields = 3 + model.beside.waiting.len() as i64;
        prop_assert_eq!(server.number(&["HLEN", &model.key]), Some(fields));
        // Those who counted, and their row; its two ends, and when the key goes. Who counts again once it was forgotten
        // is in the row twice, where its first place is behind sixteen others that are to go.
        let fields = hash(server, &past(&model.key));
        let counted: BTreeSet<&str> = fields.keys().filter_map(|field| field.strip_prefix('d')).collect();
        let row: Vec<&str> = fields.iter().filter_map(|(field, who)| field.strip_prefix('q').map(|_| &**who)).collect();
        prop_assert_eq!(&row.iter().copied().collect::<BTreeSet<_>>(), &counted, "{:?}", fields);
        let ends = if fields.is_empty() { 0 } else { 3 };
        prop_assert_eq!(fields.len(), counted.len() + row.len() + ends, "{:?}", fields);
        Ok(())
    }
}

#[test]
fn those_who_counted_are_forgotten_once_no_copy_can_come() {
    let mut server = Server::connect();
    let key: Arc<str> = "lw:{latch of many}".into();
    clear(&mut server, &key);
    let mut now = server.later();
    for n in 0..200 {
        now = StoreTime(now.0 + 10_000_000);
        let question = Question::Change {
            attempt: AttemptId(n),
            copies: COPIES,
            operation: CountOperation::Down,
            plan: plan(1_000, MAX_IDLE),
        };
        server.ask(&layout().question(key.clone(), question).expect("one").asks()[0].clone(), now);
    }
    // One each 10 s, each remembered for 70 s.
    assert_eq!(server.number(&["HLEN", &past(&key)]), Some(3 + 2 * 7));
    assert_eq!(server.number(&["HLEN", &key]), Some(3));
    clear(&mut server, &key);
}

#[test]
fn one_name_is_one_thing() {
    let mut server = Server::connect();
    let key: Arc<str> = "lw:{latch, and something else}".into();
    let now = server.later();
    let kind = |answer: Result<Answer>| answer.expect_err("it is something else").kind();
    let change = |attempt| {
        let question = Question::Change {
            attempt: AttemptId(attempt),
            copies: COPIES,
            operation: CountOperation::Down,
            plan: plan(2, MIN_IDLE),
        };
        layout().question(key.clone(), question).expect("one").asks()[0].clone()
    };
    for (setup, what) in [
        (["SET", &*key, "x"].as_slice(), ""),
        (&["HSET", &*key, "v", "2"], "a lock's"),
        (&["HSET", &*key, "v", "rwlock1"], "a rwlock's"),
        (&["HSET", &*key, "uuid:1", "1"], "something else's"),
    ] {
        clear(&mut server, &key);
        server.plain(setup);
        let before = server.plain(&["DUMP", &key]);
        let mut machine = LatchMachine::new(&CALLS, key.clone(), plan(2, MIN_IDLE), true);
        for intent in
            [Intent::Acquire { terms: terms(0), wait: true, prev: None }, Intent::Undo { terms: terms(0), prev: None }]
        {
            let op = intent.op();
            let reply = server.ask(&begun(&mut machine, intent), now);
            match machine.step(Input::Reply(op, &[reply])) {
                Step::Done(Verdict::Failed(error)) => assert_eq!(error.kind(), Kind::ForeignLayout, "{error}"),
                other => panic!("{setup:?}: {other:?}"),
            }
        }
        let look = layout().question(key.clone(), Question::Look).expect("one").asks()[0].clone();
        for request in [change(1), look] {
            let reply = server.ask(&request, now);
            assert!(matches!(&reply, Reply::Error { message, .. } if message.contains(what)), "{reply:?}");
            assert_eq!(kind(answer(&reply)), Kind::ForeignLayout);
        }
        assert_eq!(server.plain(&["DUMP", &key]), before);
    }
    clear(&mut server, &key);
    assert!(answer(&server.ask(&change(2), now)).is_ok());
    let mut reader = SharedMachine::new(&shared_scripts::CALLS, key.clone(), Share::READ, true);
    let reading = begun(&mut reader, Intent::Acquire { terms: terms(1), wait: false, prev: None });
    assert!(matches!(server.ask(&reading, now), Reply::Error { code, .. } if code == "FOREIGN"));
    let seen = server.ask(&native_scripts::layout("").inspect("x", key.clone()).asks()[0], now);
    assert_eq!(
        native_scripts::layout("").inspect("x", key.clone()).answered(&seen).expect_err("a latch").kind(),
        Kind::ForeignLayout
    );
    assert_eq!(
        native_scripts::layout("").identify("x", key.clone()).answered(&seen).expect("whatever lies there").primitive,
        Some("latch")
    );
    clear(&mut server, &key);
}
