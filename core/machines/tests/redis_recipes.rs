//! The layouts `python_redis_lock`, `getset` and `symfony` on a real server; see `joined/mod.rs`.

mod joined;
#[path = "explore/layout/joined_store.rs"]
mod joined_store;
mod redis_server;

use joined::{Other, TTL, is_refused, terms};
use joined_store::{Value, Way};
use lockwright_machines::protocol::{Arg, Intent, Layout, Reply, Request};
use lockwright_machines::stores::redis::layouts::joined::record_key;
use lockwright_machines::stores::redis::layouts::{getset, python_redis_lock, symfony};
use lockwright_machines::time::StoreTime;
use redis_server::{Server, begun};

/// python-redis-lock.
struct PythonRedisLock;

impl Other for PythonRedisLock {
    fn layout(&self) -> Box<dyn Layout> {
        Box::new(python_redis_lock::FAMILY.layout(&python_redis_lock::FORMAT, ""))
    }

    const KEY: &'static str = "lock:recipes model {tag}";
    const OWNER: &'static str = "worker-17";
    const ENDLESS: bool = true;

    fn acquire(&self, server: &mut Server, value: &Value) {
        joined::set(server, Self::KEY, value);
    }

    fn owner(&self, server: &mut Server) -> Option<String> {
        joined::get(server, Self::KEY)
    }
}

/// A program with `GETSET`, whose numbers count so many microseconds.
struct Getset<const UNIT: i64>;

impl<const UNIT: i64> Other for Getset<UNIT> {
    fn layout(&self) -> Box<dyn Layout> {
        let format = if UNIT == 1000 { &getset::MILLISECONDS } else { &getset::SECONDS };
        Box::new(getset::FAMILY.layout(format, ""))
    }

    const KEY: &'static str = "recipes getset {tag}";
    const OWNER: &'static str = "";
    const ENDLESS: bool = false;
    const WAY: Way = Way::End(UNIT);
    const IS_THE_KEYS: bool = false;

    fn acquire(&self, server: &mut Server, value: &Value) {
        server.plain(&["SET", Self::KEY, &value.owner]);
    }

    fn owner(&self, server: &mut Server) -> Option<String> {
        joined::get(server, Self::KEY)
    }
}

/// Symfony, which takes a read lock or a write lock.
struct Symfony;

impl Other for Symfony {
    fn layout(&self) -> Box<dyn Layout> {
        Box::new(symfony::FAMILY.layout(&symfony::FORMAT, ""))
    }

    const KEY: &'static str = "recipes symfony {tag}";
    const OWNER: &'static str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const ENDLESS: bool = false;
    const IS_THE_KEYS: bool = false;

    fn acquire(&self, server: &mut Server, value: &Value) {
        let score = (value.ends.expect("they all end") / 1000).to_string();
        server.plain(&["DEL", Self::KEY]);
        server.plain(&["ZADD", Self::KEY, &score, Self::OWNER]);
        // Every other one is exclusive.
        if score.ends_with(['0', '2', '4', '6', '8']) {
            server.plain(&["ZADD", Self::KEY, &score, "__write__"]);
        }
        server.plain(&["PEXPIREAT", Self::KEY, &score]);
    }

    fn owner(&self, server: &mut Server) -> Option<String> {
        let Reply::List(members) = server.plain(&["ZRANGE", Self::KEY, "0", "-1"]) else { panic!("a sorted set") };
        members.into_iter().find_map(|member| match member {
            Reply::Text(text) if text != "__write__" => Some(text),
            _ => None,
        })
    }
}

#[test]
fn scripts_of_python_redis_lock_do_what_the_reference_does() {
    joined::scripts_do_what_the_reference_does(&PythonRedisLock);
}

#[test]
fn scripts_of_getset_do_what_the_reference_does() {
    joined::scripts_do_what_the_reference_does(&Getset::<1000>);
    joined::scripts_do_what_the_reference_does(&Getset::<1_000_000>);
}

#[test]
fn scripts_of_symfony_do_what_the_reference_does() {
    joined::scripts_do_what_the_reference_does(&Symfony);
}

#[test]
fn a_key_of_another_kind_is_refused_and_left_alone() {
    let mut server = Server::connect();
    let redisson = "9b2e1c3a-0000-4000-8000-0123456789ab:7";
    let layouts = [PythonRedisLock.layout(), Getset::<1000>.layout(), Symfony.layout()];
    for layout in layouts {
        let key = layout.key("recipes of another kind").unwrap();
        let plants: [(&[&str], &str); 5] = [
            (&["HSET", &key, redisson, "1"], "Redisson's locks are"),
            (&["HSET", &key, "mode", "read", redisson, "1"], "read and write locks"),
            (&["ZADD", &key, "1", "x"], "a sorted set"),
            (&["RPUSH", &key, "x"], "a list"),
            (&["SET", &key, "thread"], "a text"),
        ];
        for (setup, found) in plants {
            let fits = (setup[0] == "ZADD") == (layout.name() == "symfony");
            if !(fits && matches!(setup[0], "ZADD" | "SET")) {
                is_refused(&mut server, &*layout, &key, setup, found);
            }
        }
    }
}

fn acquire(who: u128) -> Intent {
    Intent::Acquire { terms: terms(who, TTL), wait: false, prev: None }
}

fn release(who: u128) -> Intent {
    Intent::Release { terms: terms(who, TTL), used: 1 }
}

#[test]
fn whatever_frees_a_lock_of_python_redis_lock_wakes_one_of_its_waiters() {
    let mut server = Server::connect();
    let layout = PythonRedisLock.layout();
    let key = layout.key("recipes signal").unwrap();
    let signal = "lock-signal:recipes signal";
    let mut machine = layout.protocol(key.clone());
    server.plain(&["DEL", &key, &record_key(&key), signal]);
    let released = begun(&mut *machine, release(1));
    let undone = begun(&mut *machine, Intent::Undo { terms: terms(1, TTL), prev: None });
    for freeing in [Some(released.clone()), Some(undone.clone()), None] {
        let Reply::Int(token) = server.ask(&begun(&mut *machine, acquire(1)), StoreTime(1)) else { panic!("granted") };
        let freeing = freeing.unwrap_or_else(|| layout.break_hold(key.clone(), token as u64).asks()[0].clone());
        assert_eq!(woken_by(&mut server, &freeing, signal), (Reply::Int(1), 1), "{freeing}");
        assert_eq!(server.number(&["EXISTS", &key]), Some(0));
    }
    // What is not ours is not freed, and nobody is woken in vain.
    server.ask(&begun(&mut *machine, acquire(2)), StoreTime(1));
    for asks in [released, undone, layout.break_hold(key.clone(), 1).asks()[0].clone()] {
        assert_eq!(woken_by(&mut server, &asks, signal).1, 0, "{asks}");
    }
    assert_eq!(server.number(&["EXISTS", &key]), Some(1));
    server.plain(&["DEL", &key, &record_key(&key)]);
}

/// The reply, and how many signals lie there after it for at most a second; looked at in the same step, since they go.
fn woken_by(server: &mut Server, request: &Request, signal: &str) -> (Reply, i64) {
    let mut pipe = redis::pipe();
    pipe.atomic();
    let beside = request.args.iter().filter_map(|arg| match arg {
        Arg::Key(key) => Some(&**key),
        _ => None,
    });
    let keys: Vec<&str> = std::iter::once(&*request.key).chain(beside).collect();
    pipe.cmd("EVAL").arg(request.call.body.concat()).arg(keys.len()).arg(&keys);
    for arg in &request.args {
        match arg {
            Arg::Text(text) => pipe.arg(&**text),
            Arg::Int(number) => pipe.arg(*number),
            _ => continue,
        };
    }
    pipe.cmd("LLEN").arg(signal).cmd("PTTL").arg(signal).cmd("DEL").arg(signal).ignore();
    let (reply, signals, left): (redis::Value, i64, i64) = pipe.query(&mut server.connection).expect("an answer");
    assert!(signals == 0 || (1..=1000).contains(&left), "{left}");
    (redis_server::reply(reply), signals)
}

#[test]
fn a_number_counts_until_its_unit_of_time_is_over() {
    let mut server = Server::connect();
    let key = "recipes present";
    server.plain(&["DEL", key, &record_key(key)]);
    let mut machine = Getset::<1_000_000>.layout().protocol(key.into());
    let present = server.later();
    server.plain(&["SET", key, &(present.0 / 1_000_000).to_string()]);
    let asks = begun(&mut *machine, acquire(1));
    assert!(matches!(server.ask(&asks, StoreTime(present.0 + 999_999)), Reply::List(_)));
    assert!(matches!(server.ask(&asks, StoreTime(present.0 + 1_000_000)), Reply::Int(_)));
    server.plain(&["DEL", key, &record_key(key)]);
}

#[test]
fn a_single_reader_of_symfony_keeps_us_out() {
    let mut server = Server::connect();
    let layout = Symfony.layout();
    let key = layout.key("recipes reader").unwrap();
    server.plain(&["DEL", &key, &record_key(&key)]);
    let mut machine = layout.protocol(key.clone());
    let now = server.later();
    server.plain(&["ZADD", &key, &(now.0 / 1000 + 1).to_string(), "a reader"]);
    let asks = begun(&mut *machine, acquire(1));
    assert!(matches!(server.ask(&asks, now), Reply::List(_)));
    assert!(matches!(server.ask(&asks, StoreTime(now.0 + 1000)), Reply::Int(_)));
    server.plain(&["DEL", &key, &record_key(&key)]);
}

#[test]
fn a_number_given_back_is_not_released_again_in_the_hands_of_another() {
    let mut server = Server::connect();
    let key = "recipes number";
    server.plain(&["DEL", key, &record_key(key)]);
    let mut machine = Getset::<1_000_000>.layout().protocol(key.into());
    let now = server.later();
    assert!(matches!(server.ask(&begun(&mut *machine, acquire(1)), now), Reply::Int(_)));
    let Reply::Text(number) = server.plain(&["GET", key]) else { panic!("a number") };
    assert_eq!(server.ask(&begun(&mut *machine, release(1)), now), Reply::Int(1));
    // Within the same second another program is given the same number, and our release comes again.
    server.plain(&["SET", key, &number]);
    assert_eq!(server.ask(&begun(&mut *machine, release(1)), now), Reply::Text(String::new()));
    assert_eq!(server.plain(&["GET", key]), Reply::Text(number));
    server.plain(&["DEL", key, &record_key(key)]);
}

#[test]
fn a_number_that_another_wrote_is_not_renewed() {
    let mut server = Server::connect();
    let key = "recipes renewed";
    server.plain(&["DEL", key, &record_key(key)]);
    let mut machine = Getset::<1000>.layout().protocol(key.into());
    let now = server.later();
    assert!(matches!(server.ask(&begun(&mut *machine, acquire(1)), now), Reply::Int(_)));
    let theirs = (now.0 / 1000 + 60_000).to_string();
    server.plain(&["SET", key, &theirs]);
    let renew = begun(&mut *machine, Intent::Renew { terms: terms(1, TTL), ttl: TTL });
    let later = StoreTime(now.0 + i64::try_from(TTL.as_micros()).unwrap() / 2);
    assert_eq!(server.ask(&renew, later), Reply::Int(0));
    assert_eq!(server.plain(&["GET", key]), Reply::Text(theirs));
    server.plain(&["DEL", key, &record_key(key)]);
}
