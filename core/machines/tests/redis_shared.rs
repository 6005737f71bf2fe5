//! The scripts of read/write locks and semaphores do what [`lockwright_machines::shared_cell`] does: the same random
//! commands go to both, and answers, pushes and what is left in the end must be equal. The scripts run on a real
//! server, under a clock that the test sets.

mod comparison;
#[path = "comparison/in_redis.rs"]
mod in_redis;
mod redis_server;

use std::sync::Arc;

use comparison::shared::{Command, terms};
use comparison::{CLAIM, MINUTE, Model, TTL};
use in_redis::{InHash, compare_scripts, play_in_redis};
use lockwright_machines::Kind;
use lockwright_machines::lock_cell::Claimant;
use lockwright_machines::protocol::{
    AttemptId, InboxId, Input, Intent, Layout, Op, Protocol, Reply, Step, Terms, Verdict,
};
use lockwright_machines::share::{Primitive, Share};
use lockwright_machines::shared_cell::SharedCell;
use lockwright_machines::shared_machine::SharedMachine;
use lockwright_machines::stores::redis::layouts::{native_scripts, shared_scripts::CALLS};
use lockwright_machines::time::StoreTime;
use proptest::prop_assert;
use proptest::test_runner::TestCaseError;
use redis_server::{Server, begun, check_queue, requests};

#[test]
fn scripts_do_what_the_reference_does() {
    compare_scripts::<SharedCell>(1_000);
}

#[test]
fn one_name_is_one_thing() {
    let mut server = Server::connect();
    let key = "lw:{shared, and something else}";
    for setup in [
        ["SET", key, "x"].as_slice(),
        &["HSET", key, "v", "2"],
        &["HSET", key, "v", "semaphore1"],
        &["HSET", key, "uuid:1", "1"],
    ] {
        server.plain(&["DEL", key]);
        server.plain(setup);
        let before = server.plain(&["DUMP", key]);
        let mut machine = SharedMachine::new(&CALLS, key.into(), Share::READ, true);
        let me = terms(0);
        let is_semaphore = setup.last() == Some(&"semaphore1");
        for intent in [
            Intent::Acquire { terms: me.clone(), wait: true, prev: None },
            Intent::Renew { terms: me.clone(), ttl: TTL },
            Intent::Release { terms: me.clone(), used: 1 },
            Intent::Undo { terms: me.clone(), prev: None },
        ] {
            let op = intent.op();
            // Whoever has nothing there may ask to give it back.
            if is_semaphore && op != Op::Acquire {
                continue;
            }
            let reply = server.ask(&begun(&mut machine, intent), StoreTime(1));
            match machine.step(Input::Reply(op, &[reply])) {
                Step::Done(Verdict::Failed(error)) => assert_eq!(error.kind(), Kind::ForeignLayout, "{error}"),
                other => panic!("{setup:?}: {other:?}"),
            }
        }
        assert_eq!(server.plain(&["DUMP", key]), before);
    }
    server.plain(&["DEL", key]);
    let machine = &mut SharedMachine::new(&CALLS, key.into(), Share::READ, true);
    let now = server.later();
    let acquire = begun(machine, Intent::Acquire { terms: terms(0), wait: false, prev: None });
    assert!(matches!(server.ask(&acquire, now), Reply::Int(_)));
    let seen = server.ask(&native_scripts::layout("").inspect("x", key.into()).asks()[0], now);
    let error = native_scripts::layout("").inspect("x", key.into()).answered(&seen).expect_err("a lock's inspection");
    assert_eq!(error.kind(), Kind::ForeignLayout, "{error}");
    let seen = native_scripts::layout("").identify("x", key.into()).answered(&seen).expect("whatever lies there");
    assert_eq!((seen.primitive, seen.holder.is_some()), (Some("rwlock"), true));
    let permits = Share { primitive: Primitive::Semaphore, ..Share::READ };
    let machine = &mut SharedMachine::new(&CALLS, key.into(), permits, true);
    let acquire = begun(machine, Intent::Acquire { terms: terms(1), wait: false, prev: None });
    let refused = server.ask(&acquire, StoreTime(now.0 + 1));
    assert!(matches!(&refused, Reply::Error { code, .. } if code == "FOREIGN"), "{refused:?}");
    server.plain(&["DEL", key]);
}

#[test]
fn a_batch_of_renewals_answers_for_each_hold_in_order() {
    let mut server = Server::connect();
    let now = server.later();
    let keys = ["lw:{shared batch 1}", "lw:{shared batch 2}", "lw:{shared batch 3}"];
    server.plain(&["DEL", keys[0], keys[1], keys[2]]);
    let me = terms(0);
    let mut machine = SharedMachine::new(&CALLS, keys[2].into(), Share::WRITE, true);
    let acquire = begun(&mut machine, Intent::Acquire { terms: me.clone(), wait: false, prev: None });
    assert!(matches!(server.ask(&acquire, now), Reply::Int(_)));
    server.plain(&["SET", keys[0], "x"]);
    let mut command = redis::cmd("EVAL");
    command.arg(CALLS.renew.body.concat()).arg(keys.len()).arg(&keys);
    for _ in keys {
        command.arg(Claimant::of(&me).to_string()).arg(i64::try_from(TTL.as_micros()).expect("short"));
    }
    let Reply::List(answers) = server.run(&command) else { panic!("a list") };
    assert!(matches!(&answers[0], Reply::Error { code, .. } if code == "WRONGTYPE"), "{answers:?}");
    assert_eq!(answers[1..], [Reply::Int(0), Reply::Int(1)]);
    server.plain(&["DEL", keys[0], keys[1], keys[2]]);
}

/// Too many for chance: a waiter that wants more than is free asks again after others behind it left, and somebody's
/// lease ended.
#[test]
fn whoever_asks_again_behind_gaps_learns_a_place_in_the_queue() {
    let ask = |who, take| {
        let share = Share::permits(take, 3, false).expect("in range");
        Command::Acquire { who, share, wait: true, late: false }
    };
    let mut commands = vec![ask(2, 1), ask(0, 2), ask(1, 3)];
    commands.extend((3..12).flat_map(|who| [ask(who, 1), Command::Undo { who }]));
    commands.extend([Command::Pass(2 * CLAIM.as_micros() as i64), ask(1, 3)]);
    play_in_redis::<SharedCell>(&commands).unwrap();
}

#[test]
fn those_who_left_the_queue_cost_nobody_a_step() {
    let mut server = Server::connect();
    let key: Arc<str> = "lw:{shared, thousands left}".into();
    let request = |who: usize, intent: fn(Terms) -> Intent| {
        let terms = Terms { attempt: AttemptId(who as u128), inbox: InboxId(2), ..terms(0) };
        // One permit is left, and those who wait want two, in no order: all of them are looked at, and passed over.
        let share = Share::permits(if who == 0 { 3 } else { 2 }, 4, false).expect("in range");
        begun(&mut SharedMachine::new(&CALLS, key.clone(), share, true), intent(terms))
    };
    let now = server.later();
    for backwards in [false, true] {
        server.plain(&["DEL", &key]);
        for who in 0..=600 {
            server.ask(&request(who, |terms| Intent::Acquire { terms, wait: true, prev: None }), now);
        }
        let mut leaving: Vec<usize> = (3..300).chain(301..600).collect();
        if backwards {
            leaving.reverse();
        }
        for who in leaving {
            server.ask(&request(who, |terms| Intent::Undo { terms, prev: None }), now);
        }
        check_queue(&mut server, &key);
        let steps = server.commands_of(&request(1, |terms| Intent::Undo { terms, prev: None }));
        assert!(steps < 40, "{steps}");
    }
    server.plain(&["DEL", &key]);
}

#[test]
fn more_holders_than_a_reply_has_room_for_are_counted() {
    let mut server = Server::connect();
    let key: Arc<str> = "lw:{shared by thousands}".into();
    server.plain(&["DEL", &key]);
    let all = 20_000_i64;
    let fill = "
        local now = redis.call('TIME')
        now = now[1] * 1000000
        for i = 1, ARGV[1] do
            redis.call('HSET', KEYS[1], ('o%032x'):format(i),
                ('%032x%016x00001000'):format(i, 1) .. ('0%010d%016.0f%016.0f%016.0f'):format(2, i, now, now + 600000000) .. 'host\t1\trust\t')
        end
        redis.call('HSET', KEYS[1], 'v', 'semaphore1', 'm', 100000, 'u', 2 * ARGV[1], 'e', now, 't', ARGV[1])";
    server.plain(&["EVAL", fill, "1", &key, &all.to_string()]);
    let reply = server.plain(&["EVAL", &native_scripts::CALLS.inspect.body.concat(), "1", &key]);
    let seen = native_scripts::layout("")
        .identify("x", "k".into())
        .answered(&reply)
        .expect("a semaphore")
        .shared
        .expect("it is shared");
    let listed = seen.holders.len() as u64;
    assert!((2_000..4_000).contains(&listed) && seen.unlisted == 20_000 - listed, "{listed} {}", seen.unlisted);
    assert_eq!((seen.held, seen.holders[0].holder.first_token), (40_000, 1));
    server.plain(&["DEL", &key]);
}

impl InHash for SharedCell {
    /// The key outlives every hold, at the server as in its own field, and for longer if it was resized.
    fn check(server: &mut Server, model: &Model<Self>) -> Result<(), TestCaseError> {
        let Some(last) = model.beside.holders.values().map(|holder| holder.expires.0).max() else { return Ok(()) };
        let (field, real) = redis_server::lifetime(server, &model.key);
        let stays = if model.cell.resized { 15 * 24 * 60 } else { 5 };
        prop_assert!(field >= last + stays * MINUTE, "{} {}", field, last);
        prop_assert!(real * 1000 >= field && (real - 1) * 1000 < field, "{} {}", real, field);
        Ok(())
    }
}
