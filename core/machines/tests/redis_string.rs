//! The layout `string` on a real server; see `joined/mod.rs`.

mod joined;
#[path = "explore/layout/joined_store.rs"]
mod joined_store;
mod redis_server;
#[path = "explore/layout/tokenless_store.rs"]
mod tokenless_store;

use joined::{Other, is_refused};
use joined_store::Value;
use lockwright_machines::protocol::{Arg, AttemptId, Layout, Reply, Request};
use lockwright_machines::stores::redis::layouts::joined::record_key;
use lockwright_machines::stores::redis::layouts::string::{CALLS, FAMILY, REDIS_PY, REDSYNC};
use lockwright_machines::stores::redis::layouts::tokenless::{ACQUIRE, SET, TokenlessLayout};
use lockwright_machines::time::StoreTime;
use redis_server::Server;
use tokenless_store::{TokenlessStore, Words};

/// go-redsync.
struct Redsync;

impl Other for Redsync {
    fn layout(&self) -> Box<dyn Layout> {
        Box::new(FAMILY.layout(&REDSYNC, ""))
    }

    const KEY: &'static str = "string model {tag}";
    const OWNER: &'static str = "3q2+7wAAAAAAAAAAAAAAAQ==";
    const ENDLESS: bool = false;

    fn acquire(&self, server: &mut Server, value: &Value) {
        joined::set(server, Self::KEY, value);
    }

    fn owner(&self, server: &mut Server) -> Option<String> {
        joined::get(server, Self::KEY)
    }
}

#[test]
fn scripts_do_what_the_reference_does() {
    joined::scripts_do_what_the_reference_does(&Redsync);
}

#[test]
fn a_key_of_another_kind_is_refused_and_left_alone() {
    let mut server = Server::connect();
    let key = "string of another kind";
    let hash: &[&str] = &["HSET", key, "uuid:1", "1"];
    for (setup, found) in
        [(hash, "a hash"), (&["ZADD", key, "1", "x"], "a sorted set"), (&["RPUSH", key, "x"], "a list")]
    {
        for format in FAMILY.formats {
            is_refused(&mut server, &FAMILY.layout(format, ""), key, setup, found);
        }
    }
}

#[test]
fn a_batch_of_renewals_answers_for_each_lock_in_order() {
    let mut server = Server::connect();
    let keys = ["string batch 1", "string batch 2", "string batch 3", "string batch 4"];
    server.plain(&["DEL", keys[0], keys[1], keys[2], keys[3]]);
    let me = (REDIS_PY.owner)(AttemptId(7));
    server.plain(&["SET", keys[0], &me, "PX", "1000"]);
    server.plain(&["HSET", keys[1], "x", "y"]);
    server.plain(&["SET", keys[3], &me, "PX", "500000"]);
    let mut command = redis::cmd("EVAL");
    command.arg(CALLS.renew.body.concat()).arg(keys.len()).arg(&keys);
    for _ in keys {
        command.arg(&me).arg(60_000);
    }
    assert_eq!(server.run(&command), Reply::List([1, 0, 0, 1].map(Reply::Int).into()));
    let left = [keys[0], keys[3]].map(|key| server.number(&["PTTL", key]).expect("a number"));
    assert!((50_000..=60_000).contains(&left[0]) && left[1] > 400_000, "{left:?}");
    server.plain(&["DEL", keys[0], keys[1], keys[2], keys[3]]);
}

#[test]
fn pages_list_every_lock_that_was_ours_and_nothing_else() {
    let mut server = Server::connect();
    let layout = FAMILY.layout(&REDIS_PY, "string list[a]*:");
    let mut names: Vec<String> = (100..800).map(|i| format!("{i}")).collect();
    names.extend(["{tag}", "a}b", "{}", "{"].map(String::from));
    let mut records: Vec<String> = names.iter().map(|name| record_key(&layout.key(name).expect("a key"))).collect();
    records.push(record_key("string lista*:decoy"));
    for record in &records {
        server.plain(&["SET", record, "1 x ", "PX", "600000"]);
    }
    let found = server.list(&layout);
    names.sort();
    assert_eq!(found, names);
    for record in &records {
        server.plain(&["DEL", record]);
    }
}

#[test]
fn without_tokens_a_server_does_what_the_reference_does() {
    const KEY: &str = "string without tokens {tag}";
    let mut server = Server::connect();
    let mut now = server.later();
    let mut drawn = 0x9E37_79B9_7F4A_7C15_u64;
    let mut draw = |most: u64| {
        drawn = drawn.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (drawn >> 33) % most
    };
    for _ in 0..300 {
        server.plain(&["DEL", KEY]);
        let mut reference = TokenlessStore::default();
        for _ in 0..10 {
            now = now.after(std::time::Duration::from_micros(1));
            let me = Arg::Text((REDIS_PY.owner)(AttemptId(1 + u128::from(draw(3)))).into());
            let ttl = Arg::Int(100_000 * (1 + draw(4) as i64));
            let record = Arg::Key(record_key(KEY).into());
            let request = match draw(6) {
                0 => Request::new(&SET, KEY.into(), [me, ttl]),
                1 | 2 => {
                    Request::new(&ACQUIRE, KEY.into(), [me, ttl, Arg::Int(now.0 + 1 - 2 * i64::from(draw(5) == 0))])
                }
                3 => Request::new(&CALLS.renew, KEY.into(), [me, ttl]),
                4 => Request::new(&CALLS.release, KEY.into(), [record, me]),
                _ => Request::new(&CALLS.undo, KEY.into(), [record, me]),
            };
            let expected = reference.run(&Words::of(&request).expect("a request of the layout"), now);
            let said = server.ask(&request, now);
            match (&said, &expected) {
                // A key's own end is on the server's clock, which goes on.
                (Reply::List(said), Reply::List(expected)) if said.len() == 4 && expected.len() == 4 => {
                    let (Reply::Int(left), Reply::Int(all)) = (&said[2], &expected[2]) else { panic!("{said:?}") };
                    assert!((all - 20_000..=all + 1).contains(left), "{request}: {said:?} {expected:?}");
                    assert_eq!((&said[..2], &said[3]), (&expected[..2], &expected[3]), "{request}");
                }
                _ => assert_eq!(said, expected, "{request}"),
            }
            let (value, left) = (joined::get(&mut server, KEY), server.number(&["PTTL", KEY]).expect("a number"));
            assert_eq!(value.as_ref(), reference.value.as_ref().map(|(owner, _)| owner), "{request}");
            if let Some((_, ends)) = reference.value {
                let all = ends.micros_since(now) / 1000;
                assert!((all - 20_000..=all + 1).contains(&left), "{request}: {left} ms of {all}");
            }
            assert_eq!(server.number(&["EXISTS", &record_key(KEY)]), Some(0), "no record is written");
        }
    }
    server.plain(&["DEL", KEY]);
}

#[test]
fn without_tokens_a_key_of_another_kind_is_refused_and_left_alone() {
    let mut server = Server::connect();
    let (key, now) = ("string without tokens of another kind", StoreTime(1));
    server.plain(&["DEL", key]);
    server.plain(&["HSET", key, "uuid:1", "1"]);
    let me = || Arg::Text((REDSYNC.owner)(AttemptId(1)).into());
    assert_eq!(server.ask(&Request::new(&SET, key.into(), [me(), Arg::Int(1000)]), now), Reply::Nil);
    let acquire = Request::new(&ACQUIRE, key.into(), [me(), Arg::Int(1000), Arg::NotAfter]);
    let said = server.ask(&acquire, now);
    assert!(matches!(&said, Reply::Error { code, .. } if code == "FOREIGN"), "{said:?}");
    let layout = TokenlessLayout { of: FAMILY.layout(&REDSYNC, "") };
    let seen = layout.inspect(key, key.into()).conclude(|requests| Ok(vec![server.ask(&requests[0], now)]));
    assert_eq!(seen.unwrap_err().code(), "foreign_layout");
    assert_eq!(server.plain(&["HGET", key, "uuid:1"]), Reply::Text("1".into()));
    server.plain(&["DEL", key]);
}
