//! The scripts of the layout `native` do what [`lockwright_machines::lock_cell`] does: the same random commands go to
//! both, and answers, pushes and what is left in the end must be equal. The scripts run on a real server, under a clock
//! that the test sets.

mod comparison;
#[path = "comparison/in_redis.rs"]
mod in_redis;
mod redis_server;

use std::sync::Arc;
use std::time::Duration;

use comparison::lock::{CLAIMANTS, Command, terms};
use comparison::{CLAIM, MINUTE, Model, TTL};
use in_redis::{InHash, compare_scripts, play_in_redis};
use lockwright_machines::Kind;
use lockwright_machines::lock_cell::{Claimant, LockCell};
use lockwright_machines::native_machine::NativeMachine;
use lockwright_machines::protocol::{
    Arg, AttemptId, InboxId, Input, Intent, Layout, Protocol, Reply, Request, Step, Terms, Verdict,
};
use lockwright_machines::stores::redis::layouts::native_scripts::{CALLS, layout};
use lockwright_machines::time::StoreTime;
use proptest::prop_assert;
use proptest::test_runner::TestCaseError;
use redis_server::{Inbox, Server, begun, check_queue, dated, lifetime, number_at, record, requests};

#[test]
fn scripts_do_what_the_reference_does() {
    compare_scripts::<LockCell>(2_500);
}

/// Too rare to be left to chance: a claim that was renewed by less than is left of it, and ends with others waiting.
#[test]
fn a_renewed_claim_is_no_claim_any_more() {
    let ask = |who| Command::Acquire { who, wait: true, rank: 0, prev: None, late: false };
    let commands = [
        ask(0),
        ask(1),
        ask(2),
        Command::Release { who: 0, beyond: 0 },
        Command::Renew { who: 1, ttl: CLAIM / 10 },
        Command::Pass(2 * CLAIM.as_micros() as i64),
        ask(3),
    ];
    play_in_redis::<LockCell>(&commands).unwrap();
}

/// The scripts compare times as texts, which is right only where both have as many digits.
#[test]
fn times_of_more_digits_are_later_ones() {
    let mut server = Server::connect();
    let key: Arc<str> = "lw:{a century ahead}".into();
    let now = server.later();
    let mut native = NativeMachine::new(&CALLS, key.clone(), true);
    let mut acquire =
        |not_after| dated(begun(&mut native, Intent::Acquire { terms: terms(0), wait: false, prev: None }), not_after);
    server.plain(&["DEL", &key]);
    assert_eq!(server.ask(&acquire(10_000_000_000_000_000), now), Reply::Int(now.0), "not too late");
    assert!(matches!(server.ask(&acquire(999_999_999_999_999), now), Reply::List(_)), "too late");
    server.plain(&["DEL", &key]);
}

#[test]
fn the_key_outlives_a_lease_however_long_it_is() {
    let mut server = Server::connect();
    let key: Arc<str> = "lw:{a long lease}".into();
    let now = server.later();
    server.plain(&["DEL", &key]);
    for seconds in [30, 99, 100, 101, 250, 1_000, 86_400] {
        let terms = Terms { ttl: Duration::from_secs(seconds), ..terms(0) };
        let mut native = NativeMachine::new(&CALLS, key.clone(), true);
        let acquire = begun(&mut native, Intent::Acquire { terms: terms.clone(), wait: false, prev: None });
        let Reply::Int(token) = server.ask(&acquire, StoreTime(now.0 + seconds as i64)) else { panic!("it is free") };
        let (field, _) = lifetime(&mut server, &key);
        assert!(field >= now.after(terms.ttl).0 + 5 * MINUTE, "{seconds} s: {field}");
        let used = u64::try_from(token).expect("a token");
        assert_eq!(server.ask(&begun(&mut native, Intent::Release { terms, used }), now), Reply::Int(1));
    }
    server.plain(&["DEL", &key]);
}

/// What the server's clock gave before it was set back, or before an administrator wrote into the record.
#[test]
fn tokens_ahead_of_the_clock_rise() {
    let (mut server, mut inbox) = (Server::connect(), Inbox::open());
    let key: Arc<str> = "lw:{tokens ahead}".into();
    let (now, ahead) = (server.later(), 9_000_000_000_000_000_u64);
    let mut native = NativeMachine::new(&CALLS, key.clone(), true);
    let mut queue = |who| begun(&mut native, Intent::Acquire { terms: terms(who), wait: true, prev: None });
    let release =
        |used| begun(&mut NativeMachine::new(&CALLS, key.clone(), true), Intent::Release { terms: terms(0), used });
    server.plain(&["DEL", &key]);
    server.ask(&queue(0), now);
    let token = u64::try_from(now.0).expect("a token");
    assert_eq!(server.ask(&release(token), now), Reply::Int(1));
    let free = record(&mut server, &key).expect("a record");
    server.plain(&["HSET", &key, "r", &format!("F{ahead}{}", &free[17..])]);
    assert_eq!(server.ask(&queue(0), now), Reply::Int(ahead as i64 + 1));
    // The same for a claim that is handed on.
    for who in [1, 2] {
        server.ask(&queue(who), now);
    }
    let was = record(&mut server, &key).expect("a record");
    server.plain(&["HSET", &key, "r", &format!("{}-{}", &was[..105], &was[105..])]);
    assert_eq!(server.ask(&release(token), StoreTime(now.0 + 1)), Reply::Int(1));
    let handed_on = record(&mut server, &key).expect("a record");
    assert!(number_at(&handed_on, 1..17) > ahead as i64, "{handed_on}");
    inbox.pushed(&mut server);
    server.plain(&["DEL", &key]);
}

/// Claimant 1 has a claim, 2, 3, 4 wait or somebody in their place; what then happens is too rare to be left to chance.
#[test]
fn claims_are_handed_on_as_the_reference_does() {
    let ask = |who| Command::Acquire { who, wait: true, rank: 0, prev: None, late: false };
    let instead = |who, prev| Command::Acquire { who, wait: true, rank: 0, prev: Some(prev), late: false };
    let release = |who, beyond| Command::Release { who, beyond };
    let leave = |who| Command::Undo { who, prev: None };
    let dead = CLAIMANTS - 1;
    for (queue, after, more) in [
        (&[2, 3, 4][..], 50, vec![release(1, 0)]),
        (&[2], 50, vec![release(1, 63)]),
        (&[2], 50, vec![instead(3, 1), ask(4), release(2, 0)]),
        // Tokens that it never had, or that are not over by the clock, which may have been set back.
        (&[2], 50, vec![release(1, 64)]),
        (&[2], 50, vec![release(1, -1)]),
        (&[2], 50, vec![release(1, 9_000_000_000_000_000)]),
        (&[2], 0, vec![release(1, 40)]),
        (&[2], -MINUTE, vec![release(1, -2 * MINUTE)]),
        // The key would go before the claim.
        (&[2, 3], 6 * MINUTE, vec![release(1, 0)]),
        // A gap behind the first, and elsewhere.
        (&[2, 3, 4], 50, vec![leave(3), release(1, 0)]),
        (&[2, 3, 4, 5], 50, vec![leave(4), instead(6, 1), release(2, 0)]),
        // Who waits and gives back has its seat.
        (&[2, 3, 4], 50, vec![instead(3, 1)]),
        (&[2, 3], 50, vec![instead(4, 3), instead(2, 1)]),
        // The first in line is dead.
        (&[dead], 50, vec![release(1, 0)]),
        (&[dead], 50, vec![instead(2, 1), ask(3)]),
        (&[dead, 2, 3], 50, vec![release(1, 0)]),
        (&[dead, 2], 50, vec![instead(3, 1), instead(4, 2)]),
        (&[dead, 2], 50, vec![instead(dead, 1)]),
        // What was renewed is no claim: whoever comes after the next hears of it.
        (&[2, 3], 50, vec![Command::Renew { who: 1, ttl: TTL }, Command::Pass(50), release(1, 0)]),
        (&[2, 3], 50, vec![Command::Renew { who: 1, ttl: TTL }, Command::Pass(50), instead(4, 1)]),
    ] {
        let mut commands = vec![ask(0), ask(1)];
        commands.extend(queue.iter().copied().map(ask));
        commands.extend([Command::Pass(50), release(0, 0), Command::Pass(after)]);
        commands.extend(more);
        play_in_redis::<LockCell>(&commands).unwrap_or_else(|failed| panic!("{commands:?}: {failed}"));
    }
}

/// Claimant 1 has a claim, 2 waits with this rank and 3 with that; what then happens is too rare to be left to chance.
#[test]
fn ranks_are_served_as_the_reference_does() {
    let ask = |who, rank| Command::Acquire { who, wait: true, rank, prev: None, late: false };
    let instead = |who, rank| Command::Acquire { who, wait: true, rank, prev: Some(1), late: false };
    let release = |who| Command::Release { who, beyond: 0 };
    let seconds = |count: i64| Command::Pass(count * 1_000_000);
    for (ranks, after, more) in [
        // A claim is handed on, by a release and by who asks again in its place.
        ([0, 3], 50, vec![release(1), release(3), release(2)]),
        ([0, 3], 50, vec![instead(4, 0), release(3), release(2)]),
        ([0, 0], 50, vec![instead(4, 2), release(4)]),
        ([0, 3], 50, vec![instead(4, 9), release(4), release(3)]),
        ([0, 3], 50, vec![ask(4, 0), ask(5, 3), release(1), release(3), release(5), release(2)]),
        // The last with a rank goes, and one of the lowest comes: by the short way, and then by the long one.
        ([0, 3], 50, vec![release(1), ask(4, 0), release(3), ask(5, 0), release(2), release(4)]),
        // Whoever leaves, and what is left of its line.
        (
            [0, 3],
            50,
            vec![ask(4, 3), ask(5, 3), Command::Undo { who: 4, prev: None }, release(1), release(3), release(5)],
        ),
        (
            [3, 3],
            50,
            vec![Command::Undo { who: 2, prev: None }, Command::Undo { who: 3, prev: None }, ask(4, 0), release(1)],
        ),
        // Nobody is told twice where a hold is that was renewed.
        ([0, 3], 50, vec![Command::Renew { who: 1, ttl: TTL }, Command::Pass(50), release(1)]),
    ] {
        let mut commands =
            vec![ask(0, 0), ask(1, 9), ask(2, ranks[0]), ask(3, ranks[1]), Command::Pass(50), release(0)];
        commands.push(Command::Pass(after));
        commands.extend(more);
        play_in_redis::<LockCell>(&commands).unwrap_or_else(|failed| panic!("{commands:?}: {failed}"));
    }
    // Ten seconds of waiting are a rank, and its holder is gone before the first of them is told.
    for (waits, first) in [(9, 3), (10, 3), (11, 2)] {
        let mut commands = vec![ask(0, 0), ask(2, 0), seconds(waits), ask(3, 1), seconds(20)];
        commands.extend([Command::Inspect, ask(4, 0), release(first), release(5 - first), release(4)]);
        play_in_redis::<LockCell>(&commands).unwrap_or_else(|failed| panic!("{commands:?}: {failed}"));
    }
}

#[test]
fn those_who_left_the_queue_cost_nobody_a_step() {
    let mut server = Server::connect();
    let key: Arc<str> = "lw:{thousands left}".into();
    let request = |who: usize, intent: fn(Terms) -> Intent| {
        let terms = Terms { attempt: AttemptId(who as u128), inbox: InboxId(2), ..terms(0) };
        begun(&mut NativeMachine::new(&CALLS, key.clone(), true), intent(terms))
    };
    let now = server.later();
    for backwards in [false, true] {
        server.plain(&["DEL", &key]);
        for who in 1..=600 {
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
        // The three who are left are not there, so that all of them are looked at.
        let steps = server.commands_of(&request(1, |terms| Intent::Undo { terms, prev: None }));
        assert!(steps < 40, "{steps}");
    }
    server.plain(&["DEL", &key]);
}

#[test]
fn a_key_of_another_kind_is_refused_and_left_alone() {
    let mut server = Server::connect();
    let key = "lw:{somebody else's}";
    for setup in [["SET", key, "x"].as_slice(), &["HSET", key, "v", "1"], &["HSET", key, "uuid:1", "1"]] {
        server.plain(&["DEL", key]);
        server.plain(setup);
        let before = server.plain(&["GET", key]);
        let mut native = NativeMachine::new(&CALLS, key.into(), true);
        let me = terms(0);
        for intent in [
            Intent::Acquire { terms: me.clone(), wait: true, prev: None },
            Intent::Renew { terms: me.clone(), ttl: TTL },
            Intent::Release { terms: me.clone(), used: 1 },
            Intent::Undo { terms: me.clone(), prev: None },
        ] {
            let op = intent.op();
            let reply = server.ask(&begun(&mut native, intent), StoreTime(1));
            match native.step(Input::Reply(op, &[reply])) {
                Step::Done(Verdict::Failed(error)) => assert_eq!(error.kind(), Kind::ForeignLayout, "{error}"),
                other => panic!("{setup:?}: {other:?}"),
            }
        }
        for call in [&CALLS.inspect, &CALLS.break_hold] {
            let reply = server.ask(&Request::new(call, key.into(), [Arg::Int(7)]), StoreTime(1));
            assert!(matches!(reply, Reply::Error { .. }), "{reply:?}");
        }
        assert_eq!(server.plain(&["GET", key]), before);
    }
    server.plain(&["DEL", key]);
}

#[test]
fn a_batch_of_renewals_answers_for_each_lock_in_order() {
    let mut server = Server::connect();
    let now = server.later();
    let keys = ["lw:{batch 1}", "lw:{batch 2}", "lw:{batch 3}", "lw:{batch 4}"];
    server.plain(&["DEL", keys[0], keys[1], keys[2], keys[3]]);
    let me = terms(0);
    for key in [keys[0], keys[3]] {
        let mut native = NativeMachine::new(&CALLS, key.into(), true);
        let acquire = begun(&mut native, Intent::Acquire { terms: me.clone(), wait: false, prev: None });
        assert!(matches!(server.ask(&acquire, now), Reply::Int(_)));
    }
    server.plain(&["SET", keys[1], "x"]);
    let mut command = redis::cmd("EVAL");
    command.arg(CALLS.renew.body.concat()).arg(keys.len()).arg(&keys);
    for _ in keys {
        command.arg(Claimant::of(&me).to_string()).arg(i64::try_from(TTL.as_micros()).expect("short"));
    }
    let Reply::List(answers) = server.run(&command) else { panic!("a list") };
    assert_eq!((&answers[0], &answers[2], &answers[3]), (&Reply::Int(1), &Reply::Int(0), &Reply::Int(1)));
    assert!(matches!(&answers[1], Reply::Error { code, .. } if code == "WRONGTYPE"), "{answers:?}");
    server.plain(&["DEL", keys[0], keys[1], keys[2], keys[3]]);
}

#[test]
fn pages_list_every_lock_under_the_prefix_and_nothing_else() {
    let mut server = Server::connect();
    let layout = layout("list[a]*:");
    let names: Vec<String> = (100..800).map(|i| format!("{{{i}}}")).collect();
    let keys: Vec<_> = names.iter().map(|name| layout.key(name).expect("a key")).collect();
    for key in &keys {
        server.plain(&["HSET", key, "v", "1"]);
    }
    server.plain(&["HSET", "lw:{lista*:decoy}", "v", "1"]);
    server.plain(&["SET", "lw:{list[a]*:no hash}", "1"]);
    let found = server.list(&layout);
    assert_eq!(found, names);
    for key in keys.iter().map(|key| &**key).chain(["lw:{lista*:decoy}", "lw:{list[a]*:no hash}"]) {
        server.plain(&["DEL", key]);
    }
}

impl InHash for LockCell {
    /// The key outlives the hold, at the server as in its own field.
    fn check(server: &mut Server, model: &Model<Self>) -> Result<(), TestCaseError> {
        let Some(hold) = &model.cell.hold else { return Ok(()) };
        let expires = hold.expires.0;
        let (field, real) = lifetime(server, &model.key);
        prop_assert!(field >= expires + 5 * MINUTE, "{} {}", field, expires);
        prop_assert!(real * 1000 >= field && (real - 1) * 1000 < field, "{} {}", real, field);
        Ok(())
    }

    /// A hold is as old as its token.
    fn comparable(model: &Model<Self>, expected: &Reply, mut reply: Reply) -> Reply {
        if let (Reply::List(got), Reply::List(wanted)) = (&mut reply, expected)
            && let ([Reply::Text(_), owner, held, _, Reply::Int(first), ..], [_, _, since, ..]) =
                (got.as_mut_slice(), wanted.as_slice())
        {
            let age = if *owner == Reply::Text(String::new()) { 0 } else { (model.now.0 - *first).max(0) };
            assert_eq!(*held, Reply::Int(age));
            *held = since.clone();
        }
        reply
    }
}
