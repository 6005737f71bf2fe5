//! The layout `redisson` on a real server; see `joined/mod.rs`.

mod joined;
#[path = "explore/layout/joined_store.rs"]
mod joined_store;
mod redis_server;

use std::collections::VecDeque;
use std::time::Duration;

use joined::{Other, is_refused, say, terms};
use joined_store::Value;
use lockwright_machines::protocol::{AttemptId, Input, Intent, Layout, Op, Reply, Step, Terms, Verdict};
use lockwright_machines::stores::redis::layouts::redisson::{channel, deadlines_key, layout, queue_key};
use lockwright_machines::stores::redis::layouts::redisson_fenced;
use lockwright_machines::time::StoreTime;
use redis_server::{Server, begun};

/// A client of Redisson.
struct Redisson;

/// One that uses its fenced locks.
struct Fenced;

impl Other for Fenced {
    fn layout(&self) -> Box<dyn Layout> {
        Box::new(redisson_fenced::layout(""))
    }

    const KEY: &'static str = "redisson fenced";
    const OWNER: &'static str = Redisson::OWNER;
    const ENDLESS: bool = true;

    fn acquire(&self, server: &mut Server, value: &Value) {
        take(server, Self::KEY, value);
    }

    fn owner(&self, server: &mut Server) -> Option<String> {
        owner_of(server, Self::KEY)
    }

    fn counter(&self) -> Option<String> {
        Some(redisson_fenced::counter_key(Self::KEY))
    }
}

fn take(server: &mut Server, key: &str, value: &Value) {
    server.plain(&["HSET", key, Redisson::OWNER, "2"]);
    if value.ends.is_some() {
        server.plain(&["PEXPIRE", key, &joined::TTL.as_millis().to_string()]);
    }
}

fn owner_of(server: &mut Server, key: &str) -> Option<String> {
    match server.plain(&["HGETALL", key]) {
        Reply::List(list) => match list.as_slice() {
            [] => None,
            // However often it was asked for.
            [Reply::Text(owner), Reply::Text(count)] if owner == Redisson::OWNER || count == "1" => Some(owner.clone()),
            other => panic!("{other:?} is no lock"),
        },
        other => panic!("{other:?} is no hash"),
    }
}

impl Other for Redisson {
    fn layout(&self) -> Box<dyn Layout> {
        Box::new(layout(""))
    }

    const KEY: &'static str = "redisson model {tag}";
    const OWNER: &'static str = "11111111-2222-4333-8444-555555555555:47";
    const ENDLESS: bool = true;

    fn acquire(&self, server: &mut Server, value: &Value) {
        take(server, Self::KEY, value);
    }

    fn owner(&self, server: &mut Server) -> Option<String> {
        owner_of(server, Self::KEY)
    }

    fn queue(&self) -> Option<[String; 2]> {
        Some([queue_key(Self::KEY), deadlines_key(Self::KEY)])
    }
}

#[test]
fn scripts_do_what_the_reference_does() {
    joined::scripts_do_what_the_reference_does(&Redisson);
}

#[test]
fn scripts_of_the_fenced_lock_do_what_the_reference_does() {
    joined::scripts_do_what_the_reference_does(&Fenced);
}

#[test]
fn a_key_of_another_kind_is_refused_and_left_alone() {
    let mut server = Server::connect();
    let key = "redisson of another kind";
    let text: &[&str] = &["SET", key, "x"];
    for (setup, found) in [
        (text, "a text"),
        (&["ZADD", key, "1", "x"], "a sorted set"),
        (&["HSET", key, "mode", "read", Redisson::OWNER, "1"], "Redisson"),
        (&["HSET", key, "name", "Ann", "age", "7", "town", "Ulm"], "a hash of 3 fields"),
        (&["HSET", key, "name", "Ann"], "a hash with a field of another kind"),
    ] {
        is_refused(&mut server, &layout(""), key, setup, found);
    }
}

/// A request of `who` for the lock of `machine`.
fn acquire(who: u128, fair: bool) -> Intent {
    Intent::Acquire { terms: Terms { fair, ..terms(who, joined::TTL) }, wait: true, prev: None }
}

fn free(server: &mut Server, key: &str) {
    server.plain(&["DEL", key, &queue_key(key), &deadlines_key(key)]);
}

#[test]
fn those_who_died_in_the_queue_are_waited_for_together() {
    let mut server = Server::connect();
    let key = "redisson dies";
    free(&mut server, key);
    let mut machine = layout("").protocol(key.into());
    let mut ask = |server: &mut Server, who, now| {
        let reply = server.ask(&begun(&mut *machine, acquire(who, true)), now);
        machine.step(Input::Reply(Op::Acquire, &[reply]))
    };
    let asked = server.later();
    for who in 1..=10 {
        assert_eq!(matches!(ask(&mut server, who, asked), Step::Done(Verdict::Granted(_))), who == 1);
    }
    server.plain(&["DEL", key]);
    // The last of them, behind eight who are gone.
    let eighths = 8 * 125_000;
    let soon = StoreTime(asked.0 + 5_000_000 + eighths - 150_000);
    assert!(matches!(ask(&mut server, 10, soon), Step::Wait(wait) if wait.position == 1));
    let over = StoreTime(asked.0 + 5_000_000 + eighths);
    assert!(matches!(ask(&mut server, 10, over), Step::Done(Verdict::Granted(_))));
    free(&mut server, key);
}

#[test]
fn the_deadlines_of_a_busy_queue_do_not_add_up() {
    let mut server = Server::connect();
    let key = "redisson busy";
    free(&mut server, key);
    let mut machine = layout("").protocol(key.into());
    let now = server.later();
    let mut ask = |server: &mut Server, intent: Intent| {
        let op = intent.op();
        let reply = server.ask(&begun(&mut *machine, intent), now);
        machine.step(Input::Reply(op, &[reply]))
    };
    let mut holder = 0;
    let mut line = VecDeque::new();
    for round in 0..10 {
        for who in 10 * round + 1..=10 * round + 10 {
            let granted = matches!(ask(&mut server, acquire(who, true)), Step::Done(Verdict::Granted(_)));
            assert_eq!(granted, who == 1);
            if granted { holder = who } else { line.push_back(who) }
        }
        while line.len() > 1 {
            let release = Intent::Release { terms: terms(holder, joined::TTL), used: 1 };
            assert!(matches!(ask(&mut server, release), Step::Done(Verdict::Released(_))));
            holder = line.pop_front().expect("somebody");
            assert!(matches!(ask(&mut server, acquire(holder, true)), Step::Done(Verdict::Granted(_))));
        }
        let owner = format!("{:08x}-0000-0000-0000-000000000000:0", line[0]);
        let deadline = server.number(&["ZSCORE", &deadlines_key(key), &owner]).expect("a deadline");
        assert!(deadline <= now.0 / 1000 + 5_000 + 10 * 125, "{deadline} in round {round}");
    }
    free(&mut server, key);
}

#[test]
fn those_behind_one_of_redissons_are_not_thrown_out_before_it() {
    let mut server = Server::connect();
    let key = "redisson ahead";
    free(&mut server, key);
    let mut machine = layout("").protocol(key.into());
    let now = server.later();
    let theirs = now.0 / 1000 + 300_000;
    server.plain(&["RPUSH", &queue_key(key), Redisson::OWNER]);
    server.plain(&["ZADD", &deadlines_key(key), &theirs.to_string(), Redisson::OWNER]);
    let mut scores = Vec::new();
    for who in 2..=4 {
        server.ask(&begun(&mut *machine, acquire(who, true)), now);
        let owner = format!("{who:08x}-0000-0000-0000-000000000000:0");
        scores.push(server.number(&["ZSCORE", &deadlines_key(key), &owner]).expect("a deadline") - theirs);
    }
    assert_eq!(scores, [5_125, 5_250, 5_375]);
    free(&mut server, key);
}

#[test]
fn whoever_gives_the_lock_back_wakes_both_kinds_of_waiters() {
    let mut server = Server::connect();
    let key = "redisson wakes";
    free(&mut server, key);
    let mut machine = layout("").protocol(key.into());
    assert!(matches!(say(&mut server, &mut *machine, acquire(1, false)), Step::Done(Verdict::Granted(_))));
    assert!(matches!(say(&mut server, &mut *machine, acquire(2, true)), Step::Wait(_)));
    let mut listener = redis_server::connection();
    listener.set_read_timeout(Some(Duration::from_secs(8))).expect("a time limit");
    let mut messages = listener.as_pubsub();
    let waiter = machine.channel(&Terms { fair: true, ..terms(2, joined::TTL) }).expect("a channel");
    messages.subscribe(&[&channel(key), &*waiter]).expect("subscribed");
    let release = Intent::Release { terms: terms(1, joined::TTL), used: 1 };
    assert!(matches!(say(&mut server, &mut *machine, release), Step::Done(Verdict::Released(_))));
    for expected in [channel(key), waiter.to_string()] {
        let message = messages.get_message().expect("a message");
        assert_eq!((message.get_channel_name(), message.get_payload_bytes()), (&*expected, b"0".as_slice()));
    }
    assert!(matches!(say(&mut server, &mut *machine, acquire(3, true)), Step::Wait(wait) if wait.position == 1));
    free(&mut server, key);
}

#[test]
fn whoever_leaves_the_queue_lets_the_next_know_that_the_lock_is_free() {
    let mut server = Server::connect();
    let key = "redisson leaves";
    free(&mut server, key);
    let mut machine = layout("").protocol(key.into());
    server.plain(&["HSET", key, Redisson::OWNER, "1"]);
    for who in [2, 3] {
        assert!(matches!(say(&mut server, &mut *machine, acquire(who, true)), Step::Wait(_)));
    }
    server.plain(&["DEL", key]);
    let mut listener = redis_server::connection();
    listener.set_read_timeout(Some(Duration::from_secs(8))).expect("a time limit");
    let mut messages = listener.as_pubsub();
    let waiter = machine.channel(&Terms { fair: true, ..terms(3, joined::TTL) }).expect("a channel");
    messages.subscribe(&*waiter).expect("subscribed");
    let undo = Intent::Undo { terms: terms(2, joined::TTL), prev: None };
    assert!(matches!(say(&mut server, &mut *machine, undo), Step::Done(Verdict::Undone)));
    assert_eq!(messages.get_message().expect("a message").get_payload_bytes(), b"0");
    assert!(matches!(say(&mut server, &mut *machine, acquire(3, true)), Step::Done(Verdict::Granted(_))));
    free(&mut server, key);
}

#[test]
fn owners_are_what_redisson_writes_and_never_the_same() {
    let layout = layout("");
    let machine = layout.protocol("x".into());
    let owner = |attempt| {
        let terms = Terms { attempt: AttemptId(attempt), ..terms(1, joined::TTL) };
        let channel = machine.channel(&Terms { fair: true, ..terms }).expect("a channel");
        channel.strip_prefix("redisson_lock__channel:{x}:").expect("the lock's channel").to_owned()
    };
    assert_eq!(owner(0xdead_beef_0001_0203_0405_0607_0809_0a0b), "deadbeef-0001-0203-0405-060708090a0b:0");
    let mut all: Vec<_> = (0..=127).map(|bit| owner(1 << bit)).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 128);
}

#[test]
fn names_with_braces_are_not_put_between_braces_again() {
    assert_eq!(channel("orders"), "redisson_lock__channel:{orders}");
    assert_eq!(channel("{shop}orders"), "redisson_lock__channel:{shop}orders");
    assert_eq!(queue_key("a{"), "redisson_lock_queue:a{");
    assert_eq!(deadlines_key("a}b"), "redisson_lock_timeout:{a}b}");
}
