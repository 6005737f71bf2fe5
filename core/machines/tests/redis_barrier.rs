//! The scripts of barriers do what [`lockwright_machines::barrier_cell`] does: the same random commands go to both, and
//! answers, pushes and what is left in the end must be equal. The scripts run on a real server, under a clock that the
//! test sets.

mod redis_server;

use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::Kind;
use lockwright_machines::barrier_cell::{BarrierCell, BarrierInMemory};
use lockwright_machines::barrier_machine::{BarrierMachine, Procedure, standing};
use lockwright_machines::gate::{BarrierPlan, Gate, LatchPlan, MIN_IDLE};
use lockwright_machines::lock_cell::Surroundings;
use lockwright_machines::protocol::{
    AttemptId, InboxId, Input, Intent, Layout, Protocol, Question, Reply, Request, Step, Terms, Verdict,
};
use lockwright_machines::stores::redis::layouts::{barrier_scripts::CALLS, native_scripts};
use lockwright_machines::time::StoreTime;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use redis_server::{Inbox, Server, begun, compare, dated};

const SECOND: i64 = 1_000_000;
const COPIES: Duration = Duration::from_secs(70);

#[derive(Clone, Debug)]
enum Command {
    Arrive { who: usize, wait: bool, late: bool, parties: u32, ttl: u64 },
    Leave { who: usize },
    Look,
    Pass(i64),
}

fn commands() -> impl Strategy<Value = Vec<Command>> {
    let late = prop::bool::weighted(0.05);
    let parties = prop_oneof![9 => Just(3), 1 => Just(2), 1 => Just(1)];
    let ttl = prop::sample::select(vec![10_u64, 10, 30]);
    let arrive = (0..9_usize, prop::bool::weighted(0.8), late, parties, ttl)
        .prop_map(|(who, wait, late, parties, ttl)| Command::Arrive { who, wait, late, parties, ttl });
    let pauses = vec![0, 1, SECOND, 4 * SECOND, 9 * SECOND, 11 * SECOND, 90 * SECOND, 400 * SECOND];
    let command = prop_oneof![
        12 => arrive,
        2 => (0..9_usize).prop_map(|who| Command::Leave { who }),
        1 => Just(Command::Look),
        4 => prop::sample::select(pauses).prop_map(Command::Pass),
    ];
    prop::collection::vec(command, 1..60)
}

#[test]
fn scripts_do_what_the_reference_does() {
    compare(300, &commands(), |server, inbox, commands| Run::new(server, inbox).play(commands));
}

fn clear(server: &mut Server, key: &str) {
    server.plain(&["DEL", key, &past(key)]);
}

/// Where it lies what became of parties.
fn past(key: &str) -> String {
    format!("{key}{}", CALLS.past.expect("apart"))
}

fn plan(parties: u32, ttl: u64) -> BarrierPlan {
    BarrierPlan::new(parties, Duration::from_secs(ttl), COPIES).expect("in range")
}

fn layout() -> Arc<dyn Layout> {
    native_scripts::layout("").gate(Gate::Barrier(plan(3, 10))).expect("there is one")
}

fn look(key: &Arc<str>) -> Request {
    layout().question(key.clone(), Question::Look).expect("one")
}

fn terms(who: usize) -> Terms {
    Terms {
        name: "model".into(),
        attempt: AttemptId(0xA000 + who as u128),
        inbox: InboxId(1),
        ttl: Duration::from_secs(30),
        claim: Duration::from_secs(1),
        card: "".into(),
        fair: false,
    }
}

fn arrival(who: usize, wait: bool) -> Intent {
    Intent::Acquire { terms: terms(who), wait, prev: None }
}

/// The same in an inbox where nobody listens.
fn unheard(who: usize) -> Intent {
    Intent::Acquire { terms: Terms { inbox: InboxId(2), ..terms(who) }, wait: true, prev: None }
}

/// One sequence: a barrier on the server, the same in the reference, and the clock of both.
struct Run<'a> {
    server: &'a mut Server,
    inbox: &'a mut Inbox,
    key: Arc<str>,
    cell: BarrierCell,
    kept: BarrierInMemory,
    now: StoreTime,
}

impl<'a> Run<'a> {
    fn new(server: &'a mut Server, inbox: &'a mut Inbox) -> Self {
        let key: Arc<str> = "lw:{barrier model}".into();
        clear(server, &key);
        let now = server.later();
        Run { server, inbox, key, cell: BarrierCell::default(), kept: BarrierInMemory::default(), now }
    }

    fn play(mut self, commands: &[Command]) -> Result<(), TestCaseError> {
        for command in commands {
            self.one(command)?;
            self.check_kept()?;
        }
        self.one(&Command::Look)?;
        prop_assert_eq!(self.inbox.pushed(self.server), vec![], "pushed too much");
        Ok(())
    }

    fn one(&mut self, command: &Command) -> Result<(), TestCaseError> {
        let (mut machine, intent) = match *command {
            Command::Arrive { who, wait, parties, ttl, .. } => (self.machine(parties, ttl), Some(arrival(who, wait))),
            Command::Leave { who } => (self.machine(3, 10), Some(Intent::Undo { terms: terms(who), prev: None })),
            Command::Look => (self.machine(3, 10), None),
            Command::Pass(micros) => {
                self.pass(micros);
                return Ok(());
            }
        };
        let late = matches!(command, Command::Arrive { late: true, .. });
        let op = intent.as_ref().map(Intent::op);
        let request = intent.map_or_else(|| look(&self.key), |intent| begun(&mut machine, intent));
        let request = dated(request, self.now.0 - i64::from(late));
        let alive = |_| true;
        let mut env =
            Surroundings { now: self.now, token_floor: self.now.0.unsigned_abs(), alive: &alive, pushes: Vec::new() };
        let procedure = Procedure::read(&request).expect("one of the layout's");
        let Ok(expected) = procedure.run(&mut self.cell, &mut self.kept, &mut env);
        let reply = self.server.ask(&request, self.now);
        prop_assert_eq!(&reply, &expected, "{:?} at {:?}", command, self.now);
        let pushed = if env.pushes.is_empty() { Vec::new() } else { self.inbox.pushed(self.server) };
        let told: Vec<_> = env.pushes.into_iter().map(|(_, event)| (self.key.clone(), event)).collect();
        prop_assert_eq!(pushed, told, "{:?}", command);
        match op {
            Some(op) => {
                let step = machine.step(Input::Reply(op, &[reply]));
                let refused = matches!(&step, Step::Done(Verdict::Failed(error)) if error.kind() == Kind::Protocol);
                prop_assert!(!refused, "{:?}", step);
            }
            None => prop_assert!(standing(&reply).is_ok()),
        }
        Ok(())
    }

    fn machine(&self, parties: u32, ttl: u64) -> BarrierMachine {
        BarrierMachine::new(&CALLS, self.key.clone(), plan(parties, ttl))
    }

    fn pass(&mut self, micros: i64) {
        self.now = StoreTime(self.now.0 + micros);
        let goes = self.server.number(&["HGET", &self.key, "g"]);
        if goes.is_some_and(|goes| self.now.0 >= goes) {
            self.server.plain(&["DEL", &self.key]);
        }
    }

    /// The key goes when the barrier does, at the server as in its own field.
    fn check_kept(&mut self) -> Result<(), TestCaseError> {
        if !self.cell.is_there(self.now) {
            prop_assert_eq!(self.server.plain(&["EXISTS", &self.key]), Reply::Int(0));
            return Ok(());
        }
        let (field, real) = redis_server::lifetime(self.server, &self.key);
        prop_assert_eq!(field, self.cell.goes.0);
        prop_assert!(real * 1000 >= field && (real - 1) * 1000 < field, "{} {}", real, field);
        Ok(())
    }
}

#[test]
fn those_who_passed_are_forgotten_once_nobody_can_ask_for_them() {
    let mut server = Server::connect();
    let key: Arc<str> = "lw:{barrier of many}".into();
    clear(&mut server, &key);
    let mut now = server.later();
    for who in 0..100 {
        now = StoreTime(now.0 + 10 * SECOND);
        let mut machine = BarrierMachine::new(&CALLS, key.clone(), plan(2, 10));
        let reply = server.ask(&begun(&mut machine, unheard(who)), now);
        assert_eq!(matches!(reply, Reply::List(list) if list[0] == Reply::Int(3)), who % 2 == 1);
        // The place of the one before still stands.
        now = StoreTime(now.0 - 5 * SECOND * i64::from(who % 2 == 0));
    }
    // What it is, its parties, end, generation and places (3): whoever looks through it reads nothing of those who
    // passed.
    assert_eq!(server.number(&["HLEN", &key]), Some(7));
    // Two each 15 s, each remembered for 100 s, twice; the two ends of their row, and when the key goes.
    let fields = server.number(&["HLEN", &past(&key)]).unwrap();
    assert!((3 + 2 * 12..=3 + 2 * 16).contains(&fields), "{fields}");
    let (goes, real) = redis_server::lifetime(&mut server, &past(&key));
    assert!(
        goes >= now.0 + 100 * SECOND && goes <= now.0 + 160 * SECOND && real == (goes + 999) / 1000,
        "{goes} {real}"
    );
    clear(&mut server, &key);
}

#[test]
fn one_name_is_one_thing() {
    let mut server = Server::connect();
    let key: Arc<str> = "lw:{barrier, and something else}".into();
    let now = server.later();
    for (setup, what) in [
        (["SET", &*key, "x"].as_slice(), ""),
        (&["HSET", &*key, "v", "1"], "a lock's"),
        (&["HSET", &*key, "v", "latch1"], "a latch's"),
        (&["HSET", &*key, "v", "semaphore1"], "a semaphore's"),
        (&["HSET", &*key, "uuid:1", "1"], "something else's"),
    ] {
        clear(&mut server, &key);
        server.plain(setup);
        let before = server.plain(&["DUMP", &key]);
        let mut machine = BarrierMachine::new(&CALLS, key.clone(), plan(1, 10));
        for intent in [arrival(0, true), Intent::Undo { terms: terms(0), prev: None }] {
            let op = intent.op();
            let reply = server.ask(&begun(&mut machine, intent), now);
            match machine.step(Input::Reply(op, &[reply])) {
                Step::Done(Verdict::Failed(error)) => assert_eq!(error.kind(), Kind::ForeignLayout, "{error}"),
                other => panic!("{setup:?}: {other:?}"),
            }
        }
        let reply = server.ask(&look(&key), now);
        assert!(matches!(&reply, Reply::Error { message, .. } if message.contains(what)), "{reply:?}");
        assert_eq!(standing(&reply).expect_err("it is something else").kind(), Kind::ForeignLayout);
        assert_eq!(server.plain(&["DUMP", &key]), before);
    }
    clear(&mut server, &key);
    let mut machine = BarrierMachine::new(&CALLS, key.clone(), plan(1, 10));
    server.ask(&begun(&mut machine, arrival(0, true)), now);
    let latch = LatchPlan::new(1, MIN_IDLE).expect("in range");
    let latch = native_scripts::layout("").gate(Gate::Latch(latch)).expect("there is one");
    let reply = server.ask(&latch.question(key.clone(), Question::Look).expect("one"), now);
    assert!(matches!(reply, Reply::Error { code, .. } if code == "FOREIGN"));
    let seen = server.ask(&native_scripts::layout("").inspect("x", key.clone()).asks()[0], now);
    assert_eq!(
        native_scripts::layout("").inspect("x", key.clone()).answered(&seen).expect_err("a barrier").kind(),
        Kind::ForeignLayout
    );
    clear(&mut server, &key);
}

#[test]
fn thousands_pass_in_the_order_of_arrival() {
    const PARTIES: usize = 2_000;
    let mut server = Server::connect();
    let key: Arc<str> = "lw:{barrier of thousands}".into();
    clear(&mut server, &key);
    let now = server.later();
    let mut machine = BarrierMachine::new(&CALLS, key.clone(), plan(PARTIES as u32, 10));
    let mut reply = Reply::Nil;
    for who in 0..PARTIES {
        reply = server.ask(&begun(&mut machine, unheard(who)), now);
    }
    let generation = now.0 / 1000 + 1;
    assert_eq!(reply, Reply::List([3, PARTIES as i64 - 1, generation].map(Reply::Int).to_vec()));
    for who in 0..PARTIES {
        let Reply::Text(noted) = server.plain(&["HGET", &past(&key), &format!("d{}", terms(who).attempt)]) else {
            panic!("party {who} is not remembered")
        };
        assert!(noted.ends_with(&format!(" {who} {generation}")), "{noted}");
    }
    clear(&mut server, &key);
}
