//! The layout `spring` on a real server; see `joined/mod.rs`.

mod joined;
#[path = "explore/layout/joined_store.rs"]
mod joined_store;
mod redis_server;

use std::time::Duration;

use joined::{Other, is_refused, say, terms};
use joined_store::Value;
use lockwright_machines::protocol::{Intent, Layout, Reply, Step, Verdict};
use lockwright_machines::stores::redis::layouts::spring::{Format, layout};
use redis_server::Server;

/// A registry.
struct Registry;

impl Other for Registry {
    fn layout(&self) -> Box<dyn Layout> {
        Box::new(layout(Format::PubSub, "spring:"))
    }

    const KEY: &'static str = "spring:model";
    const OWNER: &'static str = "11111111-2222-3333-4444-555555555555";
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
    joined::scripts_do_what_the_reference_does(&Registry);
}

#[test]
fn a_key_of_another_kind_is_refused_and_left_alone() {
    let key = "spring:another kind";
    let hash = ["HSET", key, "uuid:1", "1"];
    is_refused(&mut Server::connect(), &layout(Format::Spin, ""), key, &hash, "a hash");
}

#[test]
fn whoever_gives_the_lock_back_tells_the_registries() {
    let mut server = Server::connect();
    let key = "spring:told";
    let mut listener = redis_server::connection();
    listener.set_read_timeout(Some(Duration::from_secs(8))).expect("a time limit");
    let mut messages = listener.as_pubsub();
    messages.psubscribe("spring-channel:*").expect("subscribed");
    for format in Format::ALL {
        server.plain(&["DEL", key]);
        let mut machine = layout(format, "").protocol(key.into());
        let acquire = Intent::Acquire { terms: terms(1, joined::TTL), wait: true, prev: None };
        assert!(matches!(say(&mut server, &mut *machine, acquire), Step::Done(Verdict::Granted(_))));
        assert_eq!(server.plain(&["GET", key]), Reply::Text("00000001-0000-0000-0000-000000000000".into()));
        let release = Intent::Release { terms: terms(1, joined::TTL), used: 1 };
        assert!(matches!(say(&mut server, &mut *machine, release), Step::Done(Verdict::Released(_))));
        let message = loop {
            let message = messages.get_message().expect("a message");
            if message.get_channel_name().ends_with(key) {
                break message;
            }
        };
        assert_eq!(
            (message.get_channel_name(), message.get_payload_bytes()),
            ("spring-channel:spring:told", key.as_bytes())
        );
    }
}
