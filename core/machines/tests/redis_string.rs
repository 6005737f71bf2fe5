//! The layout `string` on a real server; see `joined/mod.rs`.

mod joined;
#[path = "explore/layout/joined_store.rs"]
mod joined_store;
mod redis_server;

use joined::{Other, is_refused};
use joined_store::Value;
use lockwright_machines::protocol::{AttemptId, Layout, Reply};
use lockwright_machines::stores::redis::layouts::joined::record_key;
use lockwright_machines::stores::redis::layouts::string::{CALLS, FAMILY, REDIS_PY, REDSYNC};
use redis_server::Server;

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
