//! The scripts of a joined layout do what their reference does: the same random commands go to both, with what other
//! libraries and operators do in between, and every answer and what is left must be equal.

#![allow(unreachable_pub, dead_code, reason = "the module is shared, and each test uses its part")]

use std::time::Duration;

use lockwright_machines::protocol::{
    AttemptId, InboxId, Input, Intent, Layout, Op, Protocol, Reply, Request, Requests, Step, Terms, Verdict,
};
use lockwright_machines::rank::Rank;
use lockwright_machines::stores::redis::layouts::joined::record_key;
use lockwright_machines::time::StoreTime;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::joined_store::{JoinedStore, Value, Waiter, Way};
use crate::redis_server::{Server, begun, compare, dated};

const SEQUENCES: u32 = 200;
pub const TTL: Duration = Duration::from_secs(300);
const MINUTE: i64 = 60_000_000;
/// What a sequence may take in real time, by which the server's ends drift away from the reference's, in milliseconds.
const SLACK: i64 = 20_000;

/// What the other library does to a lock, and where it looks.
pub trait Other {
    fn layout(&self) -> Box<dyn Layout>;

    /// The lock's key.
    const KEY: &'static str;

    /// An owner as the other library writes it.
    const OWNER: &'static str;

    /// How the key says who holds the lock.
    const WAY: Way = Way::Owner;

    /// Whether the hold's end is that of the key, not a time in it.
    const IS_THE_KEYS: bool = true;

    /// Writes what it writes for a lock that is free; it ends after [`TTL`], if at all.
    fn acquire(&self, server: &mut Server, value: &Value);

    /// Whether a lock of it may never end.
    const ENDLESS: bool;

    /// Its owner at the server.
    fn owner(&self, server: &mut Server) -> Option<String>;

    /// Whether it has a queue, and where that and its deadlines lie.
    fn queue(&self) -> Option<[String; 2]> {
        None
    }

    /// Where it counts tokens, if it does.
    fn counter(&self) -> Option<String> {
        None
    }
}

#[derive(Clone, Debug)]
enum Command {
    Acquire {
        who: u128,
        late: bool,
        fair: bool,
        wait: bool,
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
    /// Another library that saw the lock free writes its end over whatever came in between, where that is how it goes.
    Overwritten,
    /// Another library counts so many tokens, or forgets how many there were.
    AlienCounts(Option<i64>),
    /// Another library queues, for so many milliseconds.
    AlienQueues(i64),
    /// Somebody deletes the key, whoever holds it.
    Deleted,
    /// The record is evicted.
    Evicted,
    Pass(i64),
}

fn command() -> impl Strategy<Value = Command> {
    let who = 1..4_u128;
    let ttl = prop_oneof![Just(TTL), Just(TTL / 5), Just(TTL * 10)];
    let pause = prop::sample::select(vec![
        0,
        1,
        50,
        MINUTE / 30,
        MINUTE / 2,
        MINUTE,
        6 * MINUTE,
        11 * MINUTE,
        100 * MINUTE,
        -MINUTE,
    ]);
    let acquire = (who.clone(), prop::bool::weighted(0.05), any::<bool>(), prop::bool::weighted(0.8));
    let acquire = acquire.prop_map(|(who, late, fair, wait)| Command::Acquire { who, late, fair, wait });
    prop_oneof![
        8 => acquire,
        2 => (who.clone(), ttl).prop_map(|(who, ttl)| Command::Renew { who, ttl }),
        4 => who.clone().prop_map(|who| Command::Release { who }),
        1 => who.prop_map(|who| Command::Undo { who }),
        1 => (-2..66_i64).prop_map(|off| Command::Break { off }),
        1 => Just(Command::Inspect),
        1 => any::<bool>().prop_map(|ends| Command::Alien { ends }),
        1 => prop::option::of(1..3_i64).prop_map(Command::AlienCounts),
        1 => prop::sample::select(vec![0, 900, 300_000]).prop_map(Command::AlienQueues),
        1 => Just(Command::Deleted),
        1 => Just(Command::Overwritten),
        1 => Just(Command::Evicted),
        3 => pause.prop_map(Command::Pass),
    ]
}

pub fn scripts_do_what_the_reference_does(other: &impl Other) {
    let sequences = prop::collection::vec(command(), 1..40);
    compare(SEQUENCES, &sequences, |server, _, commands| Run::new(server, other).play(commands));
}

/// One sequence: a lock on the server, the same lock in the reference, and the clock of both.
struct Run<'a, O> {
    server: &'a mut Server,
    other: &'a O,
    layout: Box<dyn Layout>,
    machine: Box<dyn Protocol>,
    reference: JoinedStore,
    now: StoreTime,
}

impl<'a, O: Other> Run<'a, O> {
    fn new(server: &'a mut Server, other: &'a O) -> Self {
        server.plain(&["DEL", O::KEY, &record_key(O::KEY)]);
        if let Some([queue, deadlines]) = other.queue() {
            server.plain(&["DEL", &queue, &deadlines]);
        }
        let counter = other.counter().map(|counter| {
            server.plain(&["DEL", &counter]);
            0
        });
        let layout = other.layout();
        let machine = layout.protocol(O::KEY.into());
        let now = server.later();
        let reference = JoinedStore { counter, ..JoinedStore::new(O::WAY) };
        Run { server, other, layout, machine, reference, now }
    }

    fn play(mut self, commands: &[Command]) -> Result<(), TestCaseError> {
        for command in commands {
            self.one(command)?;
            self.check_keys()?;
        }
        self.one(&Command::Inspect)
    }

    fn one(&mut self, command: &Command) -> Result<(), TestCaseError> {
        let terms = |who: u128| terms(who, TTL);
        let first = self.reference.holder().map_or(1, |record| record.first);
        let mut late = 0;
        let intent = match command {
            Command::Acquire { who, late: is_late, fair, wait } => {
                late = i64::from(*is_late);
                let fair = *fair && self.other.queue().is_some();
                Intent::Acquire { terms: Terms { fair, ..terms(*who) }, wait: *wait, prev: None }
            }
            Command::Renew { who, ttl } => Intent::Renew { terms: terms(*who), ttl: *ttl },
            Command::Release { who } => Intent::Release { terms: terms(*who), used: 1 },
            Command::Undo { who } => Intent::Undo { terms: terms(*who), prev: None },
            Command::Break { off } => {
                let token = u64::try_from(first + off).unwrap_or(0);
                let request = self.layout.break_hold(O::KEY.into(), token).asks()[0].clone();
                return self.compare(&request).map(drop);
            }
            Command::Inspect => {
                let request = self.layout.inspect("x", O::KEY.into()).asks()[0].clone();
                let reply = self.compare(&request)?;
                let seen = self.layout.inspect("x", O::KEY.into()).answered(&reply);
                prop_assert_eq!(seen.is_ok(), self.is_plausible(), "{:?}", seen);
                return Ok(());
            }
            _ => {
                self.meddle(command);
                return Ok(());
            }
        };
        let op = intent.op();
        let request = dated(begun(&mut *self.machine, intent), self.now.0 - late);
        let reply = self.compare(&request)?;
        let step = self.machine.step(Input::Reply(op, &[reply]));
        let failed = matches!(step, Step::Done(Verdict::Failed(_)));
        prop_assert!(!failed || (op == Op::Acquire && !self.is_plausible()), "{:?}", step);
        Ok(())
    }

    /// Whether what holds the lock can be somebody of the other library.
    fn is_plausible(&self) -> bool {
        O::ENDLESS || self.reference.value.as_ref().is_none_or(|value| value.ends.is_some())
    }

    fn meddle(&mut self, command: &Command) {
        match command {
            Command::Alien { ends } if self.reference.value.is_none() => self.alien(*ends),
            Command::Overwritten if O::WAY != Way::Owner => self.alien(true),
            // What lies there would count again.
            Command::Pass(..0) if !O::IS_THE_KEYS => {}
            Command::AlienQueues(patience) => {
                if let Some([queue, deadlines]) = self.other.queue()
                    && !self.reference.queue.iter().any(|place| place.owner == O::OWNER)
                {
                    let deadline = self.now.0 / 1000 + patience;
                    self.server.plain(&["RPUSH", &queue, O::OWNER]);
                    self.server.plain(&["ZADD", &deadlines, &deadline.to_string(), O::OWNER]);
                    self.reference.queue.push(Waiter { owner: O::OWNER.into(), deadline });
                }
            }
            Command::AlienCounts(tokens) => {
                if let Some(counter) = self.other.counter() {
                    match tokens {
                        Some(tokens) => self.server.plain(&["INCRBY", &counter, &tokens.to_string()]),
                        None => self.server.plain(&["DEL", &counter]),
                    };
                    self.reference.counter =
                        Some(tokens.map_or(0, |tokens| self.reference.counter.unwrap_or(0) + tokens));
                }
            }
            Command::Deleted => {
                self.server.plain(&["DEL", O::KEY]);
                self.reference.value = None;
            }
            Command::Evicted => {
                self.server.plain(&["DEL", &record_key(O::KEY)]);
                self.reference.record = None;
            }
            Command::Pass(micros) => self.pass(*micros),
            _ => {}
        }
    }

    fn alien(&mut self, ends: bool) {
        let ttl = i64::try_from(TTL.as_micros()).expect("short");
        let mut value = self.reference.written(O::OWNER, ttl, self.now.0);
        value.ends = value.ends.filter(|_| ends || !O::IS_THE_KEYS);
        self.other.acquire(self.server, &value);
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
            let mut command = redis::cmd("EVAL");
            let key = if O::IS_THE_KEYS { O::KEY } else { "" };
            command.arg(nearer).arg(2).arg(key).arg(record_key(O::KEY)).arg(micros / 1000);
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
            "acquire" | "acquire-fair" => 2,
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

    fn check_keys(&mut self) -> Result<(), TestCaseError> {
        let value = self.reference.value.as_ref().map(|value| value.ends.unwrap_or(self.now.0 - 1000));
        let record = self.reference.record.as_ref().map(|record| record.ends);
        let lock = O::IS_THE_KEYS.then_some((O::KEY, value));
        for (key, ends) in lock.into_iter().chain([(&*record_key(O::KEY), record)]) {
            let left = self.server.number(&["PTTL", key]).expect("a number");
            let expected = ends.map_or(-2, |ends| (ends - self.now.0) / 1000);
            prop_assert!((expected - SLACK..=expected + 1).contains(&left), "{} {} {}", key, left, expected);
        }
        let owner = self.other.owner(self.server);
        // What is over may lie there yet, where the end is in it.
        if O::IS_THE_KEYS || self.reference.value.is_some() {
            prop_assert_eq!(owner, self.reference.value.as_ref().map(|value| value.owner.clone()));
        }
        if let Some(counter) = self.other.counter() {
            prop_assert_eq!(self.server.number(&["GET", &counter]).unwrap_or(0), self.reference.counter.unwrap_or(0));
        }
        if let Some([queue, deadlines]) = self.other.queue() {
            let list = |reply| match reply {
                Reply::List(list) => list,
                other => panic!("{other:?} is no list"),
            };
            let found = list(self.server.plain(&["LRANGE", &queue, "0", "-1"]));
            let text = |place: &Waiter| Reply::Text(place.owner.clone());
            prop_assert_eq!(found, self.reference.queue.iter().map(text).collect::<Vec<_>>());
            let scores = list(self.server.plain(&["ZRANGE", &deadlines, "0", "-1", "WITHSCORES"]));
            prop_assert_eq!(scores.len(), 2 * self.reference.queue.len(), "{:?}", scores);
            for place in &self.reference.queue {
                let score = self.server.plain(&["ZSCORE", &deadlines, &place.owner]);
                prop_assert_eq!(score, Reply::Text(place.deadline.to_string()), "{}", place.owner);
            }
        }
        Ok(())
    }
}

/// Another library acquires a lock that is one text.
pub fn set(server: &mut Server, key: &str, value: &Value) {
    let span = TTL.as_millis().to_string();
    let words = ["SET", key, &value.owner, "NX", "PX", &span];
    server.plain(if value.ends.is_some() { &words } else { &words[..4] });
}

/// Whose it is.
pub fn get(server: &mut Server, key: &str) -> Option<String> {
    match server.plain(&["GET", key]) {
        Reply::Text(owner) => Some(owner),
        _ => None,
    }
}

pub fn terms(who: u128, ttl: Duration) -> Terms {
    let card = format!("host\t{who}\trust\tlabel {who}").into();
    Terms {
        name: "x".into(),
        attempt: AttemptId(who << 96),
        inbox: InboxId(1),
        ttl,
        claim: ttl,
        card,
        fair: false,
        rank: Rank::LOWEST,
    }
}

/// What becomes of an intent, said to a real server.
pub fn say(server: &mut Server, machine: &mut dyn Protocol, intent: Intent) -> Step {
    let op = intent.op();
    let reply = server.ask(&begun(machine, intent), StoreTime(1));
    machine.step(Input::Reply(op, &[reply]))
}

/// A key of another type is refused and left alone.
pub fn is_refused(server: &mut Server, layout: &dyn Layout, key: &str, setup: &[&str], found: &str) {
    server.plain(&["DEL", key]);
    server.plain(setup);
    let kind = server.plain(&["TYPE", key]);
    let mut machine = layout.protocol(key.into());
    let me = || terms(1, TTL);
    let foreign = |error: &lockwright_machines::Error| {
        assert_eq!(error.kind(), lockwright_machines::Kind::ForeignLayout, "{error}");
        assert!(error.to_string().contains(found), "{error}");
    };
    match say(server, &mut *machine, Intent::Acquire { terms: me(), wait: true, prev: None }) {
        Step::Done(Verdict::Failed(error)) => foreign(&error),
        other => panic!("{other:?}"),
    }
    // Whatever we may have held there is gone.
    let mut done = |intent| match say(server, &mut *machine, intent) {
        Step::Done(verdict) => verdict,
        other => panic!("{other:?}"),
    };
    assert!(matches!(done(Intent::Renew { terms: me(), ttl: TTL }), Verdict::Gone(_)));
    assert!(matches!(done(Intent::Release { terms: me(), used: 1 }), Verdict::Released(_)));
    assert!(matches!(done(Intent::Undo { terms: me(), prev: None }), Verdict::Undone));
    let mut ask = |requests: &Requests| Ok(vec![server.ask(&requests[0], StoreTime(1))]);
    foreign(&layout.inspect("x", key.into()).conclude(&mut ask).expect_err("refused"));
    match layout.break_hold(key.into(), 1).conclude(&mut ask) {
        Ok(broken) => assert!(!broken, "nobody holds it under that token"),
        Err(error) => foreign(&error),
    }
    assert_eq!(server.plain(&["TYPE", key]), kind);
    assert_eq!(server.number(&["EXISTS", &record_key(key)]), Some(0));
    server.plain(&["DEL", key]);
}
