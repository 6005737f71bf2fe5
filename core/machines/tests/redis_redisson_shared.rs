//! What several may hold in the layout `redisson`: the scripts do what the references in
//! `explore/layout/redisson_store.rs` do, with Redisson's own scripts between them, taken from its jar.

#[path = "redis_redisson_shared/permits.rs"]
mod permits;
mod redis_server;
#[path = "explore/layout/redisson_store.rs"]
mod redisson_store;
#[path = "redis_redisson_shared/rwlock.rs"]
mod rwlock;

use std::collections::BTreeMap;
use std::time::Duration;

use lockwright_machines::Kind;
use lockwright_machines::options::AcquireOptions;
use lockwright_machines::protocol::{
    AttemptId, Change, InboxId, Input, Intent, Layout, Protocol, Reply, Request, Requests, Step, Terms, Verdict,
};
use lockwright_machines::rank::Rank;
use lockwright_machines::share::{ALL, Share};
use lockwright_machines::stores::redis::layouts::redisson::{counted, layout};
use lockwright_machines::stores::redis::layouts::redisson_shared::{
    LONGEST_READ, Object, RedissonSharedMachine, leases_base, leases_key, notes_key,
};
use lockwright_machines::time::StoreTime;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use redis_server::{Server, dated};
use redisson_store::{Notes, TTL, arguments};

const MINUTE: i64 = 60_000_000;
/// A pause ends with a lease of [`TTL`] or a minute from its end, never shortly before it: the server's own clock goes
/// on meanwhile.
const PAUSES: [i64; 5] = [0, 50, 2 * MINUTE, 6 * MINUTE, 100 * MINUTE];

fn terms(who: u128) -> Terms {
    let card = format!("host\t{who}\trust\tlabel {who}").into();
    let attempt = AttemptId((who + 1) << 64);
    Terms { name: "x".into(), attempt, inbox: InboxId(1), ttl: TTL, claim: TTL, card, fair: false, rank: Rank::LOWEST }
}

fn asked(step: Step, not_after: i64) -> Request {
    dated(redis_server::asked(step), not_after)
}

/// Runs a script of Redisson's.
fn theirs(server: &mut Server, script: &str, keys: &[&str], args: &[&str]) -> Reply {
    let mut command = redis::cmd("EVAL");
    command.arg(script).arg(keys.len()).arg(keys).arg(args);
    server.run(&command)
}

fn runner() -> TestRunner {
    TestRunner::new(Config { cases: 150, failure_persistence: None, max_shrink_iters: 500, ..Config::default() })
}

fn say(server: &mut Server, machine: &mut dyn Protocol, intent: Intent) -> Step {
    let op = intent.op();
    let request = asked(machine.step(Input::Begin(intent)), i64::MAX);
    let reply = server.ask(&request, StoreTime(1_000_000));
    machine.step(Input::Reply(op, &[reply]))
}

fn acquire(who: u128) -> Intent {
    Intent::Acquire { terms: terms(who), wait: true, prev: None }
}

const OWNER: &str = "11111111-2222-3333-4444-555555555555:47";

#[test]
fn something_of_another_kind_is_refused_and_left_alone() {
    let mut server = Server::connect();
    let key = "redisson shared foreign";
    let permits = Share::permits(1, 3, false).expect("in range");
    let owned: &[&str] = &["HSET", key, OWNER, "1"];
    let cases = [
        (Share::READ, owned, "no RReadWriteLock"),
        (Share::WRITE, &["SET", key, "3"], "a text"),
        (Share::READ, &["HSET", key, "mode", "idle"], "no RReadWriteLock"),
        (permits, &["SET", key, "a text"], "no RPermitExpirableSemaphore"),
        (permits, &["HSET", key, "mode", "read", OWNER, "1"], "read and write locks"),
    ];
    for (share, setup, found) in cases {
        server.plain(&["DEL", key, &notes_key(key), &leases_key(Object::Leased, key)]);
        server.plain(setup);
        let before = server.plain(&["DUMP", key]);
        let layout = layout("").shared(share).expect("there is one");
        let mut machine = layout.protocol(key.into());
        let foreign = |error: &lockwright_machines::Error| {
            assert_eq!(error.kind(), Kind::ForeignLayout, "{error}");
            assert!(error.to_string().contains(found), "{error}");
        };
        match say(&mut server, &mut *machine, acquire(1)) {
            Step::Done(Verdict::Failed(error)) => foreign(&error),
            other => panic!("{other:?}"),
        }
        let mut done = |intent| match say(&mut server, &mut *machine, intent) {
            Step::Done(verdict) => verdict,
            other => panic!("{other:?}"),
        };
        assert!(matches!(done(Intent::Renew { terms: terms(1), ttl: TTL }), Verdict::Gone(_)));
        assert!(matches!(done(Intent::Release { terms: terms(1), used: 1 }), Verdict::Released(_)));
        assert!(matches!(done(Intent::Undo { terms: terms(1), prev: None }), Verdict::Undone));
        let mut ask = |requests: &Requests| Ok(vec![server.ask(&requests[0], StoreTime(1_000_000))]);
        foreign(&layout.inspect("x", key.into()).conclude(&mut ask).expect_err("refused"));
        foreign(&layout.break_hold(key.into(), 1).conclude(&mut ask).expect_err("refused"));
        assert_eq!(server.plain(&["DUMP", key]), before);
        assert_eq!(server.number(&["EXISTS", &notes_key(key)]), Some(0));
        server.plain(&["DEL", key]);
    }
}

#[test]
fn keys_and_channels_are_redissons() {
    assert_eq!(Object::RwLock.channel("orders"), "redisson_rwlock:{orders}");
    assert_eq!(Object::Leased.channel("{shop}orders"), "redisson_sc:{shop}orders");
    assert_eq!(leases_base("orders"), "{orders}");
    assert_eq!(leases_base("{shop}orders"), "{shop}orders");
    assert_eq!(leases_key(Object::Leased, "orders"), "{orders}:timeout");
    assert_eq!(leases_key(Object::Counted, "orders"), "lwl:{orders}");
    assert_eq!(notes_key("orders"), "lws:{orders}");
    for name in ["lws:x", "lwl:x", "lwt:x"] {
        assert_eq!(layout("").key(name).expect_err("ours").kind(), Kind::InvalidConfig);
    }
}

#[test]
fn a_release_tells_who_waits_as_redisson_does() {
    let mut server = Server::connect();
    let one = Share::permits(1, 1, false).expect("in range");
    for (key, share, message) in [
        ("redisson shared tells readers", Share::WRITE, "1"),
        ("redisson shared tells writers", Share::READ, "0"),
        ("redisson shared tells takers", one, "1"),
    ] {
        let object = Object::of(share, false);
        server.plain(&["DEL", key, &notes_key(key), &leases_key(Object::Leased, key)]);
        let mut machine = layout("").shared(share).expect("there is one").protocol(key.into());
        assert!(matches!(say(&mut server, &mut *machine, acquire(1)), Step::Done(Verdict::Granted(_))));
        assert!(!matches!(say(&mut server, &mut *machine, acquire(2)), Step::Done(Verdict::Failed(_))));
        let mut listener = redis_server::connection();
        listener.set_read_timeout(Some(Duration::from_secs(8))).expect("a time limit");
        let mut messages = listener.as_pubsub();
        let channel = machine.channel(&terms(2)).expect("a channel");
        assert_eq!(*channel, *object.channel(key));
        messages.subscribe(&*channel).expect("subscribed");
        for who in [1, 2] {
            say(&mut server, &mut *machine, Intent::Release { terms: terms(who), used: 1 });
        }
        assert_eq!(messages.get_message().expect("a message").get_payload_bytes(), message.as_bytes());
        server.plain(&["DEL", key, &notes_key(key)]);
    }
}

#[test]
fn what_cannot_be_honoured_is_refused_when_it_is_built() {
    let check = |share: Share, ttl: Duration| {
        let options = AcquireOptions { ttl, ..AcquireOptions::default() };
        layout("").shared(share).expect("there is one").check(&options)
    };
    assert!(check(Share::READ, LONGEST_READ).is_ok() && check(Share::WRITE, TTL).is_ok());
    assert_eq!(check(Share::READ, TTL).expect_err("too long").kind(), Kind::InvalidConfig);
    let permits = |take| Share::permits(take, 5000, false).expect("in range");
    assert!(check(permits(1000), TTL).is_ok());
    assert_eq!(check(permits(1001), TTL).expect_err("too many").kind(), Kind::InvalidConfig);
    let resizes =
        |layout: &dyn Layout| layout.shared(permits(1)).expect("there is one").resize("x".into(), 3).is_some();
    assert!(resizes(&layout("")) && !resizes(&counted("")));
}
