//! The scripts of joined layouts do what their reference does: the same random commands go to both, with what other libraries
//! and operators do in between, and every answer and what is left must be equal.

#![cfg(feature = "redis")]

#[path = "explore/layout/joined_store.rs"]
mod joined_store;
mod redis_server;

use std::time::Duration;

use joined_store::{JoinedStore, Way};
use lockwright::Kind;
use lockwright::protocol::{
    Arg, AttemptId, InboxId, Input, Intent, Layout as _, Op, Protocol, Reply, Request, Step, Terms, Verdict,
};
use lockwright::stores::redis::layouts::joined::{Family, Format, Joined, JoinedLayout, record_key};
use lockwright::stores::redis::layouts::{getset, python_redis_lock, string, symfony};
use lockwright::time::StoreTime;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use redis_server::Server;

const SEQUENCES: u32 = 100;
const TTL: Duration = Duration::from_secs(300);
const MINUTE: i64 = 60_000_000;
/// What a sequence may take in real time, by which the server's ends drift away from the reference's, in milliseconds.
const SLACK: i64 = 20_000;

/// Every layout, with one of its formats.
const LAYOUTS: [(&Family, &Format); 5] = [
    (&string::FAMILY, &string::REDSYNC),
    (&python_redis_lock::FAMILY, &python_redis_lock::FORMAT),
    (&getset::FAMILY, &getset::SECONDS),
    (&getset::FAMILY, &getset::MILLISECONDS),
    (&symfony::FAMILY, &symfony::FORMAT),
];

#[derive(Clone, Debug)]
enum Command {
    Acquire {
        who: u128,
        late: bool,
    },
    Renew {
        who: u128,
        ttl: Duration,
    },
    Release {
        who: u128,
    },
    Undo {
        who: u128,
    },
    Break {
        off: i64,
    },
    Inspect,
    /// Another library acquires, or tries to; without an end, where there is such a thing.
    Alien {
        ends: bool,
    },
    /// Another program that saw the lock free writes its end over whatever came in between, where that is how it goes.
    Overwritten,
    /// Somebody deletes the key, whoever holds it.
    Deleted,
    /// The record is evicted.
    Evicted,
    Pass(i64),
}

fn command() -> impl Strategy<Value = Command> {
    let who = 1..4_u128;
    let ttl = prop_oneof![Just(TTL), Just(TTL / 5), Just(TTL * 10)];
    let pause =
        prop::sample::select(vec![0, 1, 50, MINUTE / 2, MINUTE, 6 * MINUTE, 11 * MINUTE, 100 * MINUTE, -MINUTE]);
    prop_oneof![
        6 => (who.clone(), prop::bool::weighted(0.05)).prop_map(|(who, late)| Command::Acquire { who, late }),
        2 => (who.clone(), ttl).prop_map(|(who, ttl)| Command::Renew { who, ttl }),
        4 => who.clone().prop_map(|who| Command::Release { who }),
        1 => who.prop_map(|who| Command::Undo { who }),
        1 => (-2..66_i64).prop_map(|off| Command::Break { off }),
        1 => Just(Command::Inspect),
        1 => any::<bool>().prop_map(|ends| Command::Alien { ends }),
        1 => Just(Command::Deleted),
        1 => Just(Command::Overwritten),
        1 => Just(Command::Evicted),
        3 => pause.prop_map(Command::Pass),
    ]
}

#[test]
fn scripts_do_what_the_reference_does() {
    let server = std::cell::RefCell::new(Server::connect());
    for (family, format) in LAYOUTS {
        let config =
            Config { cases: SEQUENCES, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
        let sequences = prop::collection::vec(command(), 1..40);
        let play = |commands: Vec<Command>| Run::new(&mut server.borrow_mut(), family, format).play(&commands);
        if let Err(failure) = TestRunner::new(config).run(&sequences, play) {
            panic!("{} {format:?}: {failure}", family.name);
        }
    }
}

/// One sequence: a lock on the server, the same lock in the reference, and the clock of both.
struct Run<'a> {
    server: &'a mut Server,
    layout: JoinedLayout,
    machine: Joined,
    key: String,
    alien: String,
    reference: JoinedStore,
    now: StoreTime,
}

impl<'a> Run<'a> {
    fn new(server: &'a mut Server, family: &'static Family, format: &'static Format) -> Self {
        let layout = family.layout(format, "");
        let key = layout.key("joined model {tag}").expect("a name");
        server.plain(&["DEL", &key, &record_key(&key)]);
        let machine = Joined::new(family, format, key.clone());
        let (key, alien) = (key.to_string(), (format.owner)(AttemptId(0xdead_beef << 64)));
        let way = match (format.rest)(&key) {
            Some(Arg::Int(unit)) => Way::End(unit),
            _ => Way::Owner,
        };
        let now = server.later();
        Run { server, layout, machine, key, alien, reference: JoinedStore::new(way), now }
    }

    fn play(mut self, commands: &[Command]) -> Result<(), TestCaseError> {
        for command in commands {
            self.one(command)?;
            self.check_ends()?;
        }
        self.one(&Command::Inspect)
    }

    fn is_symfony(&self) -> bool {
        self.layout.name() == "symfony"
    }

    fn one(&mut self, command: &Command) -> Result<(), TestCaseError> {
        let terms = |who: u128| terms(who, TTL);
        let first = self.reference.holder().map_or(1, |record| record.first);
        let mut late = 0;
        let intent = match command {
            Command::Acquire { who, late: is_late } => {
                late = i64::from(*is_late);
                Intent::Acquire { terms: terms(*who), wait: false, prev: None }
            }
            Command::Renew { who, ttl } => Intent::Renew { terms: terms(*who), ttl: *ttl },
            Command::Release { who } => Intent::Release { terms: terms(*who), used: 1 },
            Command::Undo { who } => Intent::Undo { terms: terms(*who), prev: None },
            Command::Break { off } => {
                let token = u64::try_from(first + off).unwrap_or(0);
                return self.compare(&self.layout.break_hold(self.key.as_str().into(), token)).map(drop);
            }
            Command::Inspect => {
                let reply = self.compare(&self.layout.inspect(self.key.as_str().into()))?;
                let seen = self.layout.inspected("x", &reply);
                prop_assert_eq!(seen.is_ok(), self.is_plausible(), "{:?}", seen);
                return Ok(());
            }
            Command::Alien { .. } | Command::Overwritten | Command::Deleted | Command::Evicted | Command::Pass(_) => {
                self.meddle(command);
                return Ok(());
            }
        };
        let op = intent.op();
        let Step::Ask(mut requests) = self.machine.step(Input::Begin(intent)) else { panic!("nothing is asked") };
        for arg in &mut requests[0].args {
            if *arg == Arg::NotAfter {
                *arg = Arg::Int(self.now.0 - late);
            }
        }
        let reply = self.compare(&requests[0])?;
        let step = self.machine.step(Input::Reply(op, &[reply]));
        let failed = matches!(step, Step::Done(Verdict::Failed(_)));
        prop_assert!(!failed || (op == Op::Acquire && !self.is_plausible()), "{:?}", step);
        Ok(())
    }

    /// Whether what holds the lock can be somebody of this format.
    fn is_plausible(&self) -> bool {
        let may_last = self.layout.name() == "python_redis_lock";
        self.reference.value.as_ref().is_none_or(|value| value.ends.is_some() || may_last)
    }

    fn meddle(&mut self, command: &Command) {
        self.reference.pass(self.now.0);
        match command {
            Command::Alien { .. } if self.reference.value.is_some() => {}
            Command::Alien { ends } => self.alien(*ends),
            Command::Overwritten if self.reference.way != Way::Owner => self.alien(true),
            Command::Overwritten => {}
            Command::Deleted => {
                self.server.plain(&["DEL", &self.key]);
                self.reference.value = None;
            }
            Command::Evicted => {
                self.server.plain(&["DEL", &record_key(&self.key)]);
                self.reference.record = None;
            }
            // What lies there would count again: the ends are times in it.
            Command::Pass(..0) if self.is_symfony() || self.reference.way != Way::Owner => {}
            Command::Pass(micros) => self.pass(*micros),
            other => panic!("{other:?} is no meddling"),
        }
    }

    /// Takes the lock as the other library does. Symfony's read locks, which end as well, stand for locks without an end.
    fn alien(&mut self, ends: bool) {
        let ttl = i64::try_from(TTL.as_micros()).expect("short") / 2;
        let mut value = self.reference.written(&self.alien, ttl, self.now.0);
        let span = (ttl / 1000).to_string();
        let key = &*self.key;
        if self.is_symfony() {
            let score = ((self.now.0 + ttl) / 1000).to_string();
            self.server.plain(&["DEL", key]);
            let words = ["ZADD", key, &score, &self.alien, &score, "__write__"];
            self.server.plain(if ends { &words } else { &words[..4] });
            self.server.plain(&["PEXPIREAT", key, &score]);
        } else if self.reference.way == Way::Owner {
            let words = ["SET", key, &value.text, "PX", &span];
            self.server.plain(if ends { &words } else { &words[..3] });
            value.ends = value.ends.filter(|_| ends);
        } else {
            self.server.plain(&["SET", key, &value.text]);
        }
        self.reference.value = Some(value);
    }

    /// The server's own ends come nearer by as much as its clock is moved. A clock that steps back leaves them as far.
    fn pass(&mut self, micros: i64) {
        self.now = StoreTime(self.now.0 + micros);
        if micros >= 0 {
            let nearer = "for _, key in ipairs(KEYS) do
                local left = redis.call('PTTL', key)
                if left >= 0 then redis.call('PEXPIRE', key, left - ARGV[1]) end
            end";
            // The end of a sorted set's lock is in it.
            let key = if self.is_symfony() { "" } else { &self.key };
            let mut command = redis::cmd("EVAL");
            command.arg(nearer).arg(2).arg(key).arg(record_key(&self.key)).arg(micros / 1000);
            self.server.run(&command);
        } else {
            for ends in self.reference.value.iter_mut().filter_map(|value| value.ends.as_mut()) {
                *ends += micros;
            }
            self.reference.record.iter_mut().for_each(|record| record.ends += micros);
        }
        self.reference.pass(self.now.0);
    }

    /// Both answer the same, but for the time that passes on the server while this runs.
    fn compare(&mut self, request: &Request) -> Result<Reply, TestCaseError> {
        let mut expected = self.reference.run(request, self.now.0, self.now.0);
        if request.call.batch {
            let Reply::List(mut list) = expected else { panic!("a batch is answered by a list") };
            expected = list.remove(0);
        }
        let reply = self.server.ask(request, self.now);
        let mut comparable = reply.clone();
        let left = match request.call.name {
            "acquire" => 2,
            _ => 1,
        };
        if let (Reply::List(got), Reply::List(wanted)) = (&mut comparable, &expected)
            && let (Some(Reply::Int(got)), Some(Reply::Int(wanted))) = (got.get_mut(left), wanted.get(left))
            && (*wanted - SLACK..=*wanted + 1).contains(got)
            && (*got < 0) == (*wanted < 0)
        {
            *got = *wanted;
        }
        prop_assert_eq!(&comparable, &expected, "{} at {:?}", request, self.now);
        Ok(reply)
    }

    /// What lies there ends when it is to end.
    fn check_ends(&mut self) -> Result<(), TestCaseError> {
        let key = self.key.clone();
        let value = self.reference.value.clone();
        let ends = value.as_ref().map(|value| value.ends.unwrap_or(self.now.0 - 1000));
        if let Way::End(_) = self.reference.way {
            // What is past may lie there yet.
            if let Some(value) = value {
                prop_assert_eq!(self.server.plain(&["GET", &key]), Reply::Text(value.text));
            }
        } else if self.is_symfony() {
            let highest = self.server.number(&["EVAL", HIGHEST, "1", &key]).expect("a number");
            let expected = ends.map_or(0, |ends| ends / 1000);
            prop_assert!(
                highest == expected || (ends.is_none() && highest <= self.now.0 / 1000),
                "{} {}",
                highest,
                expected
            );
        } else {
            self.check_end(&key, ends)?;
        }
        let record = self.reference.record.as_ref().map(|record| record.ends);
        self.check_end(&record_key(&key), record)
    }

    fn check_end(&mut self, key: &str, ends: Option<i64>) -> Result<(), TestCaseError> {
        let left = self.server.number(&["PTTL", key]).expect("a number");
        let expected = ends.map_or(-2, |ends| (ends - self.now.0) / 1000);
        prop_assert!((expected - SLACK..=expected + 1).contains(&left), "{} {} {}", key, left, expected);
        Ok(())
    }
}

/// The highest score there is.
const HIGHEST: &str = "return redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] or '0'";

fn terms(who: u128, ttl: Duration) -> Terms {
    let card = format!("host\t{who}\trust\tlabel {who}").into();
    Terms { name: "x".into(), attempt: AttemptId(who << 96), inbox: InboxId(1), ttl, claim: ttl, card }
}

#[test]
fn a_key_of_another_kind_is_refused_and_left_alone() {
    let mut server = Server::connect();
    let redisson = "9b2e1c3a-0000-4000-8000-0123456789ab:7";
    let all = LAYOUTS.into_iter().chain(string::FAMILY.formats.iter().map(|format| (&string::FAMILY, format)));
    for (family, format) in all {
        let layout = family.layout(format, "");
        let key = layout.key("joined of another kind").unwrap();
        let plants: [(&[&str], &str); 5] = [
            (&["HSET", &key, redisson, "1"], "Redisson's locks are"),
            (&["HSET", &key, "mode", "read", redisson, "1"], "read and write locks"),
            (&["ZADD", &key, "1", "x"], "a sorted set"),
            (&["RPUSH", &key, "x"], "a list"),
            (&["SET", &key, "thread"], "a text"),
        ];
        for (setup, found) in plants {
            let fits = matches!(
                (setup[0], family.name),
                ("ZADD", "symfony") | ("SET", "string" | "python_redis_lock" | "getset")
            );
            if !fits {
                refuses(&mut server, &layout, Joined::new(family, format, key.clone()), setup, found);
            }
        }
    }
}

/// Whatever is asked of the lock, what lies there is told and stays.
fn refuses(server: &mut Server, layout: &JoinedLayout, mut machine: Joined, setup: &[&str], found: &str) {
    let key = setup[1];
    server.plain(&["DEL", key]);
    server.plain(setup);
    let kind = server.plain(&["TYPE", key]);
    let mut say = |intent: Intent| {
        let op = intent.op();
        let Step::Ask(requests) = machine.step(Input::Begin(intent)) else { panic!("nothing is asked") };
        let reply = server.ask(&requests[0], StoreTime(1));
        match machine.step(Input::Reply(op, &[reply])) {
            Step::Done(verdict) => verdict,
            other => panic!("{other:?}"),
        }
    };
    let me = || terms(1, TTL);
    match say(Intent::Acquire { terms: me(), wait: true, prev: None }) {
        Verdict::Failed(error) => {
            assert_eq!(error.kind(), Kind::ForeignLayout, "{error}");
            assert!(error.to_string().contains(found), "{error}");
        }
        other => panic!("{other:?}"),
    }
    // Whatever we may have held there is gone.
    assert!(matches!(say(Intent::Renew { terms: me(), ttl: TTL }), Verdict::Gone(_)));
    assert!(matches!(say(Intent::Release { terms: me(), used: 1 }), Verdict::Released(_)));
    assert!(matches!(say(Intent::Undo { terms: me(), prev: None }), Verdict::Undone));
    for request in [layout.inspect(key.into()), layout.break_hold(key.into(), 1)] {
        let reply = server.ask(&request, StoreTime(1));
        let error = layout.inspected("x", &reply).expect_err("refused");
        assert_eq!(error.kind(), Kind::ForeignLayout, "{error}");
    }
    assert_eq!(server.plain(&["TYPE", key]), kind);
    assert_eq!(server.number(&["EXISTS", &record_key(key)]), Some(0));
    server.plain(&["DEL", key]);
}

#[test]
fn whatever_frees_a_lock_of_python_redis_lock_wakes_one_of_its_waiters() {
    let mut server = Server::connect();
    let layout = python_redis_lock::FAMILY.layout(&python_redis_lock::FORMAT, "");
    let key = layout.key("joined signal").unwrap();
    let signal = "lock-signal:joined signal";
    let mut machine = Joined::new(&python_redis_lock::FAMILY, &python_redis_lock::FORMAT, key.clone());
    server.plain(&["DEL", &key, &record_key(&key), signal]);
    let mut ask = |intent: Intent| match machine.step(Input::Begin(intent)) {
        Step::Ask(mut requests) => requests.remove(0),
        other => panic!("{other:?}"),
    };
    let acquire = |who| Intent::Acquire { terms: terms(who, TTL), wait: false, prev: None };
    let release = ask(Intent::Release { terms: terms(1, TTL), used: 1 });
    let undo = ask(Intent::Undo { terms: terms(1, TTL), prev: None });
    for (freeing, wakes) in [(Some(release.clone()), 1), (Some(undo.clone()), 1), (None, 1)] {
        let granted = server.ask(&ask(acquire(1)), StoreTime(1));
        let Reply::Int(token) = granted else { panic!("{granted:?}") };
        let freeing = freeing.unwrap_or_else(|| layout.break_hold(key.clone(), token as u64));
        assert_eq!(woken_by(&mut server, &freeing, signal), (Reply::Int(1), wakes), "{freeing}");
        assert_eq!(server.number(&["EXISTS", &key]), Some(0));
    }
    // What is not ours is not freed, and nobody is woken in vain.
    server.ask(&ask(acquire(2)), StoreTime(1));
    for asks in [release, undo, layout.break_hold(key.clone(), 1)] {
        assert_eq!(woken_by(&mut server, &asks, signal).1, 0, "{asks}");
    }
    assert_eq!(server.number(&["EXISTS", &key]), Some(1));
    server.plain(&["DEL", &key, &record_key(&key)]);
}

/// The reply, and how many signals lie there after it for at most a second; looked at in the same step, since they go.
fn woken_by(server: &mut Server, request: &Request, signal: &str) -> (Reply, i64) {
    let mut pipe = redis::pipe();
    pipe.atomic();
    let keys: Vec<&str> = std::iter::once(&*request.key).chain(request.args.iter().filter_map(key_in)).collect();
    pipe.cmd("EVAL").arg(request.call.body).arg(keys.len()).arg(&keys);
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

fn key_in(arg: &Arg) -> Option<&str> {
    match arg {
        Arg::Key(key) => Some(key),
        _ => None,
    }
}

#[test]
fn a_number_given_back_is_not_released_again_in_the_hands_of_another() {
    let mut server = Server::connect();
    let (family, format) = (&getset::FAMILY, &getset::SECONDS);
    let key = "joined number";
    server.plain(&["DEL", key, &record_key(key)]);
    let mut machine = Joined::new(family, format, key.into());
    let now = server.later();
    let mut ask = |intent: Intent, server: &mut Server| match machine.step(Input::Begin(intent)) {
        Step::Ask(requests) => server.ask(&requests[0], now),
        other => panic!("{other:?}"),
    };
    let (acquire, release) = (
        Intent::Acquire { terms: terms(1, TTL), wait: false, prev: None },
        Intent::Release { terms: terms(1, TTL), used: 1 },
    );
    assert!(matches!(ask(acquire, &mut server), Reply::Int(_)));
    let number = server.plain(&["GET", key]);
    assert_eq!(ask(release.clone(), &mut server), Reply::Int(1));
    // Within the same second another program is given the same number, and our release comes again.
    let Reply::Text(number) = number else { panic!("{number:?}") };
    server.plain(&["SET", key, &number]);
    assert_eq!(ask(release, &mut server), Reply::Text(String::new()));
    assert_eq!(server.plain(&["GET", key]), Reply::Text(number));
    server.plain(&["DEL", key, &record_key(key)]);
}

#[test]
fn a_batch_of_renewals_answers_for_each_lock_in_order() {
    let mut server = Server::connect();
    let keys = ["string batch 1", "string batch 2", "string batch 3", "string batch 4"];
    server.plain(&["DEL", keys[0], keys[1], keys[2], keys[3]]);
    let me = (string::REDIS_PY.owner)(AttemptId(7));
    server.plain(&["SET", keys[0], &me, "PX", "1000"]);
    server.plain(&["HSET", keys[1], "x", "y"]);
    server.plain(&["SET", keys[3], &me, "PX", "500000"]);
    let mut command = redis::cmd("EVAL");
    command.arg(string::CALLS.renew.body).arg(keys.len()).arg(&keys);
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
    let layout = string::FAMILY.layout(&string::REDIS_PY, "string list[a]*:");
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
