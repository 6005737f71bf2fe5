//! The scripts of latches do what [`lockwright_machines::latch_cell`] does: the same random commands go to both, and
//! answers, pushes and what is left in the end must be equal. The scripts run on a real server, under a clock that the
//! test sets.

mod redis_server;

use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::gate::{CountOperation, Gate, LatchPlan, MAX_IDLE, MIN_IDLE};
use lockwright_machines::latch_cell::{LatchCell, LatchInMemory};
use lockwright_machines::latch_machine::{Answer, LatchMachine, Procedure};
use lockwright_machines::lock_cell::Surroundings;
use lockwright_machines::protocol::{
    AttemptId, InboxId, Input, Intent, Layout, Op, Protocol, Question, Reply, Request, Step, StoreEvent, Terms, Verdict,
};
use lockwright_machines::share::Share;
use lockwright_machines::shared_machine::SharedMachine;
use lockwright_machines::stores::redis::layouts::{latch_scripts::CALLS, native_scripts, shared_scripts};
use lockwright_machines::time::StoreTime;
use lockwright_machines::{Kind, Result};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use redis_server::{Inbox, Server, begun, compare, dated};

const MINUTE: i64 = 60_000_000;
const COPIES: Duration = Duration::from_secs(70);

#[derive(Clone, Debug)]
enum Command {
    Wait { who: usize, wait: bool, late: bool },
    Leave { who: usize },
    Change { attempt: u128, operation: CountOperation, count: u32, idle: Duration, late: bool },
    Look,
    Inspect,
    Pass(i64),
}

fn commands() -> impl Strategy<Value = Vec<Command>> {
    let late = || prop::bool::weighted(0.05);
    let who = 0..4_usize;
    let wait = (who.clone(), prop::bool::weighted(0.8), late()).prop_map(|(who, wait, late)| Command::Wait {
        who,
        wait,
        late,
    });
    let operation = prop_oneof![6 => Just(CountOperation::Down), 1 => Just(CountOperation::Set)];
    // Few attempts, so that many are copies.
    let change =
        (0..24_u128, operation, 1..4_u32, prop::sample::select(vec![MIN_IDLE, MIN_IDLE * 3, MAX_IDLE]), late())
            .prop_map(|(attempt, operation, count, idle, late)| Command::Change {
                attempt,
                operation,
                count,
                idle,
                late,
            });
    let pauses = vec![0, 1, 400_000, MINUTE / 2, MINUTE, 2 * MINUTE, 40 * 24 * 60 * MINUTE];
    let command = prop_oneof![
        6 => wait,
        2 => who.prop_map(|who| Command::Leave { who }),
        10 => change,
        1 => Just(Command::Look),
        1 => Just(Command::Inspect),
        3 => prop::sample::select(pauses).prop_map(Command::Pass),
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

/// Where it lies who counted.
fn past(key: &str) -> String {
    format!("{key}{}", CALLS.past.expect("apart"))
}

fn plan(count: u32, idle: Duration) -> LatchPlan {
    LatchPlan::new(count, idle).expect("in range")
}

fn layout() -> Arc<dyn Layout> {
    native_scripts::layout("").gate(Gate::Latch(plan(1, MIN_IDLE))).expect("there is one")
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

/// One sequence: a latch on the server, the same in the reference, and the clock of both.
struct Run<'a> {
    server: &'a mut Server,
    inbox: &'a mut Inbox,
    key: Arc<str>,
    cell: LatchCell,
    kept: LatchInMemory,
    now: StoreTime,
}

impl<'a> Run<'a> {
    fn new(server: &'a mut Server, inbox: &'a mut Inbox) -> Self {
        let key: Arc<str> = "lw:{latch model}".into();
        clear(server, &key);
        let now = server.later();
        Run { server, inbox, key, cell: LatchCell::default(), kept: LatchInMemory::default(), now }
    }

    fn play(mut self, commands: &[Command]) -> std::result::Result<(), TestCaseError> {
        for command in commands {
            self.one(command)?;
            self.check_kept()?;
        }
        self.one(&Command::Look)?;
        prop_assert_eq!(self.inbox.pushed(self.server), vec![], "pushed too much");
        Ok(())
    }

    fn one(&mut self, command: &Command) -> std::result::Result<(), TestCaseError> {
        let (request, op) = match command {
            Command::Wait { who, wait, late } => {
                let intent = Intent::Acquire { terms: terms(*who), wait: *wait, prev: None };
                (self.dated(begun(&mut self.machine(), intent), *late), Some(Op::Acquire))
            }
            Command::Leave { who } => {
                (begun(&mut self.machine(), Intent::Undo { terms: terms(*who), prev: None }), Some(Op::Undo))
            }
            Command::Change { attempt, operation, count, idle, late } => {
                let (attempt, plan) = (AttemptId(*attempt), plan(*count, *idle));
                let question = Question::Change { attempt, copies: COPIES, operation: *operation, plan };
                (self.dated(layout().question(self.key.clone(), question).expect("one"), *late), None)
            }
            Command::Look => (layout().question(self.key.clone(), Question::Look).expect("one"), None),
            Command::Inspect => (layout().inspect("x", self.key.clone()).asks()[0].clone(), None),
            Command::Pass(micros) => {
                self.pass(*micros);
                return Ok(());
            }
        };
        let alive = |_| true;
        let mut env = Surroundings { now: self.now, token_floor: 1, alive: &alive, pushes: Vec::new() };
        // A look is asked of whatever lies there.
        let procedure = Procedure::read(&request).unwrap_or(Procedure::Inspect);
        let Ok(expected) = procedure.run(&mut self.cell, &mut self.kept, &mut env);
        let reply = self.server.ask(&request, self.now);
        prop_assert_eq!(&reply, &expected, "{:?} at {:?}", command, self.now);
        let mut pushed = if env.pushes.is_empty() { Vec::new() } else { self.inbox.pushed(self.server) };
        // Who waits is told in no order.
        pushed.sort_by_key(|(_, event)| match event {
            StoreEvent::Granted { attempt, .. } => *attempt,
            _ => AttemptId(0),
        });
        let told: Vec<_> = env.pushes.into_iter().map(|(_, event)| (self.key.clone(), event)).collect();
        prop_assert_eq!(pushed, told, "{:?}", command);
        match op {
            Some(op) => {
                let step = self.machine().step(Input::Reply(op, &[reply]));
                prop_assert!(!matches!(step, Step::Done(Verdict::Failed(_))), "{:?}", step);
            }
            None if matches!(command, Command::Inspect) => {
                let seen = layout().inspect("x", self.key.clone()).answered(&reply).expect("a latch or nothing");
                prop_assert_eq!(seen.latch.map(|latch| latch.count), self.cell.look(self.now));
            }
            None => prop_assert!(Answer::read(&reply).is_ok()),
        }
        Ok(())
    }

    fn machine(&self) -> LatchMachine {
        LatchMachine::new(&CALLS, self.key.clone(), plan(2, MIN_IDLE), true)
    }

    fn dated(&self, request: Request, late: bool) -> Request {
        dated(request, self.now.0 - i64::from(late))
    }

    fn pass(&mut self, micros: i64) {
        self.now = StoreTime(self.now.0 + micros);
        let goes = self.server.number(&["HGET", &self.key, "g"]);
        if goes.is_some_and(|goes| self.now.0 >= goes) {
            self.server.plain(&["DEL", &self.key]);
        }
    }

    /// The key goes when the latch does, at the server as in its own field, and holds nothing for those who are gone.
    fn check_kept(&mut self) -> std::result::Result<(), TestCaseError> {
        if self.cell.look(self.now).is_none() {
            prop_assert_eq!(self.server.plain(&["EXISTS", &self.key]), Reply::Int(0));
            return Ok(());
        }
        let (field, real) = redis_server::lifetime(self.server, &self.key);
        prop_assert_eq!(field, self.cell.goes.0);
        prop_assert!(real * 1000 >= field && (real - 1) * 1000 < field, "{} {}", real, field);
        // What it is, its count and its end; those who wait.
        let fields = 3 + self.kept.waiting.len() as i64;
        prop_assert_eq!(self.server.number(&["HLEN", &self.key]), Some(fields));
        // Those who counted, twice; the two ends of their row, and when the key goes.
        let counted = self.server.number(&["HLEN", &past(&self.key)]).expect("a hash or nothing");
        prop_assert!(counted == 0 || (counted > 3 && (counted - 3) % 2 == 0), "{}", counted);
        Ok(())
    }
}

#[test]
fn those_who_counted_are_forgotten_once_no_copy_can_come() {
    let mut server = Server::connect();
    let key: Arc<str> = "lw:{latch of many}".into();
    clear(&mut server, &key);
    let mut now = server.later();
    for n in 0..200 {
        now = StoreTime(now.0 + 10_000_000);
        let question = Question::Change {
            attempt: AttemptId(n),
            copies: COPIES,
            operation: CountOperation::Down,
            plan: plan(1_000, MAX_IDLE),
        };
        server.ask(&layout().question(key.clone(), question).expect("one"), now);
    }
    // One each 10 s, each remembered for 70 s.
    assert_eq!(server.number(&["HLEN", &past(&key)]), Some(3 + 2 * 7));
    assert_eq!(server.number(&["HLEN", &key]), Some(3));
    clear(&mut server, &key);
}

#[test]
fn one_name_is_one_thing() {
    let mut server = Server::connect();
    let key: Arc<str> = "lw:{latch, and something else}".into();
    let now = server.later();
    let kind = |answer: Result<Answer>| answer.expect_err("it is something else").kind();
    let change = |attempt| {
        let question = Question::Change {
            attempt: AttemptId(attempt),
            copies: COPIES,
            operation: CountOperation::Down,
            plan: plan(2, MIN_IDLE),
        };
        layout().question(key.clone(), question).expect("one")
    };
    for (setup, what) in [
        (["SET", &*key, "x"].as_slice(), ""),
        (&["HSET", &*key, "v", "1"], "a lock's"),
        (&["HSET", &*key, "v", "rwlock1"], "a rwlock's"),
        (&["HSET", &*key, "uuid:1", "1"], "something else's"),
    ] {
        clear(&mut server, &key);
        server.plain(setup);
        let before = server.plain(&["DUMP", &key]);
        let mut machine = LatchMachine::new(&CALLS, key.clone(), plan(2, MIN_IDLE), true);
        for intent in
            [Intent::Acquire { terms: terms(0), wait: true, prev: None }, Intent::Undo { terms: terms(0), prev: None }]
        {
            let op = intent.op();
            let reply = server.ask(&begun(&mut machine, intent), now);
            match machine.step(Input::Reply(op, &[reply])) {
                Step::Done(Verdict::Failed(error)) => assert_eq!(error.kind(), Kind::ForeignLayout, "{error}"),
                other => panic!("{setup:?}: {other:?}"),
            }
        }
        let look = layout().question(key.clone(), Question::Look).expect("one");
        for request in [change(1), look] {
            let reply = server.ask(&request, now);
            assert!(matches!(&reply, Reply::Error { message, .. } if message.contains(what)), "{reply:?}");
            assert_eq!(kind(Answer::read(&reply)), Kind::ForeignLayout);
        }
        assert_eq!(server.plain(&["DUMP", &key]), before);
    }
    clear(&mut server, &key);
    assert!(Answer::read(&server.ask(&change(2), now)).is_ok());
    let mut reader = SharedMachine::new(&shared_scripts::CALLS, key.clone(), Share::READ, true);
    let reading = begun(&mut reader, Intent::Acquire { terms: terms(1), wait: false, prev: None });
    assert!(matches!(server.ask(&reading, now), Reply::Error { code, .. } if code == "FOREIGN"));
    let seen = server.ask(&native_scripts::layout("").inspect("x", key.clone()).asks()[0], now);
    assert_eq!(
        native_scripts::layout("").inspect("x", key.clone()).answered(&seen).expect_err("a latch").kind(),
        Kind::ForeignLayout
    );
    assert_eq!(
        native_scripts::layout("").identify("x", key.clone()).answered(&seen).expect("whatever lies there").primitive,
        Some("latch")
    );
    clear(&mut server, &key);
}
