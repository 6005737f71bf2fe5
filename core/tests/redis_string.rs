//! The scripts of the layout `string` do what their reference does: the same random commands go to both, with what other
//! libraries and operators do in between, and every answer and what is left must be equal.

#![cfg(feature = "redis")]

mod redis_server;
#[path = "explore/layout/string_store.rs"]
mod string_store;

use std::time::Duration;

use lockwright::Kind;
use lockwright::protocol::{
    Arg, AttemptId, InboxId, Input, Intent, Layout as _, Op, Protocol, Reply, Request, Step, Terms, Verdict,
};
use lockwright::stores::redis::layouts::string::{CALLS, Format, StringLayout, StringLock, layout, record_key};
use lockwright::time::StoreTime;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use redis_server::Server;
use string_store::{StringStore, Value};

const SEQUENCES: u32 = 400;
const TTL: Duration = Duration::from_secs(300);
const MINUTE: i64 = 60_000_000;
/// What a sequence may take in real time, by which the server's ends drift away from the reference's, in milliseconds.
const SLACK: i64 = 20_000;
const KEY: &str = "string model {tag}";
/// As go-redsync writes an owner.
const ALIEN: &str = "3q2+7wAAAAAAAAAAAAAAAQ==";

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
    /// Another library acquires, or tries to.
    Alien {
        ends: bool,
    },
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
        1 => Just(Command::Evicted),
        3 => pause.prop_map(Command::Pass),
    ]
}

#[test]
fn scripts_do_what_the_reference_does() {
    let mut runner = TestRunner::new(Config {
        cases: SEQUENCES,
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..Config::default()
    });
    let server = std::cell::RefCell::new(Server::connect());
    let sequences = prop::collection::vec(command(), 1..40);
    let outcome = runner.run(&sequences, |commands| Run::new(&mut server.borrow_mut()).play(&commands));
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// One sequence: a lock on the server, the same lock in the reference, and the clock of both.
struct Run<'a> {
    server: &'a mut Server,
    layout: StringLayout,
    machine: StringLock,
    reference: StringStore,
    now: StoreTime,
}

impl<'a> Run<'a> {
    fn new(server: &'a mut Server) -> Self {
        server.plain(&["DEL", KEY, &record_key(KEY)]);
        let (layout, machine) = (layout(Format::Redsync, ""), StringLock::new(Format::Redsync, KEY.into()));
        let now = server.later();
        Run { server, layout, machine, reference: StringStore::default(), now }
    }

    fn play(mut self, commands: &[Command]) -> Result<(), TestCaseError> {
        for command in commands {
            self.one(command)?;
            self.check_ends()?;
        }
        self.one(&Command::Inspect)
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
                return self.compare(&self.layout.break_hold(KEY.into(), token)).map(drop);
            }
            Command::Inspect => {
                let reply = self.compare(&self.layout.inspect(KEY.into()))?;
                let seen = self.layout.inspected("x", &reply);
                prop_assert_eq!(seen.is_ok(), self.is_plausible(), "{:?}", seen);
                return Ok(());
            }
            Command::Alien { .. } | Command::Deleted | Command::Evicted | Command::Pass(_) => {
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
        self.reference.value.as_ref().is_none_or(|value| value.ends.is_some())
    }

    fn meddle(&mut self, command: &Command) {
        match command {
            Command::Alien { ends } => {
                let span = TTL.as_millis().to_string();
                let words = ["SET", KEY, ALIEN, "NX", "PX", &span];
                self.server.plain(if *ends { &words } else { &words[..4] });
                let ends = ends.then(|| self.now.0 + i64::try_from(TTL.as_micros()).expect("short"));
                self.reference.value.get_or_insert(Value { owner: ALIEN.into(), ends });
            }
            Command::Deleted => {
                self.server.plain(&["DEL", KEY]);
                self.reference.value = None;
            }
            Command::Evicted => {
                self.server.plain(&["DEL", &record_key(KEY)]);
                self.reference.record = None;
            }
            Command::Pass(micros) => self.pass(*micros),
            other => panic!("{other:?} is no meddling"),
        }
    }

    /// The server's own ends come nearer by as much as its clock is moved. A clock that steps back leaves them as far.
    fn pass(&mut self, micros: i64) {
        self.now = StoreTime(self.now.0 + micros);
        if micros >= 0 {
            let nearer = "for _, key in ipairs(KEYS) do
                local left = redis.call('PTTL', key)
                if left >= 0 then redis.call('PEXPIRE', key, left - ARGV[1]) end
            end";
            let mut command = redis::cmd("EVAL");
            command.arg(nearer).arg(2).arg(KEY).arg(record_key(KEY)).arg(micros / 1000);
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

    fn check_ends(&mut self) -> Result<(), TestCaseError> {
        let value = self.reference.value.as_ref().map(|value| value.ends.unwrap_or(self.now.0 - 1000));
        let record = self.reference.record.as_ref().map(|record| record.ends);
        for (key, ends) in [(KEY, value), (&*record_key(KEY), record)] {
            let left = self.server.number(&["PTTL", key]).expect("a number");
            let expected = ends.map_or(-2, |ends| (ends - self.now.0) / 1000);
            prop_assert!((expected - SLACK..=expected + 1).contains(&left), "{} {} {}", key, left, expected);
        }
        Ok(())
    }
}

fn terms(who: u128, ttl: Duration) -> Terms {
    let card = format!("host\t{who}\trust\tlabel {who}").into();
    Terms { name: "x".into(), attempt: AttemptId(who << 96), inbox: InboxId(1), ttl, claim: ttl, card }
}

#[test]
fn a_key_of_another_kind_is_refused_and_left_alone() {
    let mut server = Server::connect();
    let key = "string of another kind";
    let hash: &[&str] = &["HSET", key, "uuid:1", "1"];
    for (setup, found) in
        [(hash, "a hash"), (&["ZADD", key, "1", "x"], "a sorted set"), (&["RPUSH", key, "x"], "a list")]
    {
        server.plain(&["DEL", key]);
        server.plain(setup);
        let kind = server.plain(&["TYPE", key]);
        for format in Format::ALL {
            let mut machine = StringLock::new(format, key.into());
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
            let layout = layout(format, "");
            for request in [layout.inspect(key.into()), layout.break_hold(key.into(), 1)] {
                let reply = server.ask(&request, StoreTime(1));
                let error = layout.inspected("x", &reply).expect_err("refused");
                assert_eq!(error.kind(), Kind::ForeignLayout, "{error}");
            }
        }
        assert_eq!(server.plain(&["TYPE", key]), kind);
        assert_eq!(server.number(&["EXISTS", &record_key(key)]), Some(0));
    }
    server.plain(&["DEL", key]);
}

#[test]
fn a_batch_of_renewals_answers_for_each_lock_in_order() {
    let mut server = Server::connect();
    let keys = ["string batch 1", "string batch 2", "string batch 3", "string batch 4"];
    server.plain(&["DEL", keys[0], keys[1], keys[2], keys[3]]);
    let me = Format::RedisPy.owner(AttemptId(7));
    server.plain(&["SET", keys[0], &me, "PX", "1000"]);
    server.plain(&["HSET", keys[1], "x", "y"]);
    server.plain(&["SET", keys[3], &me, "PX", "500000"]);
    let mut command = redis::cmd("EVAL");
    command.arg(CALLS.renew.body).arg(keys.len()).arg(&keys);
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
    let layout = layout(Format::RedisPy, "string list[a]*:");
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
