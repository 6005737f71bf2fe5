//! Several locks tried by one request are each left as [`lockwright_machines::lock_cell`] leaves it when they are tried
//! one after the other, and those before the first that cannot be had given back: the same random commands go to both,
//! and answers, pushes and what is left in the end must be equal. The script runs on a real server, under a clock that
//! the test sets.

#![allow(unreachable_pub, reason = "a module is the explorer's too")]

#[path = "explore/layout/line.rs"]
mod line;
mod redis_server;

use std::sync::Arc;
use std::time::Duration;

use line::Queued;
use lockwright_machines::cell::{Cell, Runs};
use lockwright_machines::lock_cell::{LockCell, Surroundings};
use lockwright_machines::native_machine::NativeMachine;
use lockwright_machines::protocol::{AttemptId, InboxId, Intent, Layout, Policy, Reply, Request, StoreEvent, Terms};
use lockwright_machines::rank::Rank;
use lockwright_machines::stores::redis::layouts::native_scripts::{CALLS, OWN, layout};
use lockwright_machines::time::StoreTime;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use redis_server::{Inbox, Server, begun, compare, dated, goes};

const SEQUENCES: u32 = 500;
const LOCKS: usize = 4;
const CLAIMANTS: usize = 4;
const CLAIM: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
enum Command {
    Together {
        policy: Policy,
        who: usize,
        locks: Vec<usize>,
        late: bool,
    },
    /// One of them, waiting.
    Acquire {
        who: usize,
        lock: usize,
    },
    Release {
        who: usize,
        lock: usize,
    },
    Undo {
        who: usize,
        lock: usize,
    },
    Pass(i64),
}

fn command() -> impl Strategy<Value = Command> {
    let (who, lock) = (0..CLAIMANTS, 0..LOCKS);
    let some = prop::sample::subsequence((0..LOCKS).collect::<Vec<_>>(), 2..=LOCKS).prop_shuffle();
    let policy = prop_oneof![Just(Policy::All), Just(Policy::Any)];
    let pause = prop::sample::select(vec![0, 1, 400_000, 1_000_000, 30_000_000, 400_000_000]);
    prop_oneof![
        5 => (policy, who.clone(), some, prop::bool::weighted(0.05))
            .prop_map(|(policy, who, locks, late)| Command::Together { policy, who, locks, late }),
        3 => (who.clone(), lock.clone()).prop_map(|(who, lock)| Command::Acquire { who, lock }),
        3 => (who.clone(), lock.clone()).prop_map(|(who, lock)| Command::Release { who, lock }),
        1 => (who, lock).prop_map(|(who, lock)| Command::Undo { who, lock }),
        2 => pause.prop_map(Command::Pass),
    ]
}

#[test]
fn several_at_once_are_what_the_reference_makes_of_one_after_the_other() {
    let sequences = prop::collection::vec(command(), 1..30);
    compare(SEQUENCES, &sequences, |server, inbox, commands| Run::new(server, inbox).play(commands));
}

/// One lock on the server, and the same in the reference.
struct Pair {
    key: Arc<str>,
    native: NativeMachine,
    cell: LockCell,
    line: Queued,
}

struct Run<'a> {
    server: &'a mut Server,
    inbox: &'a mut Inbox,
    locks: Vec<Pair>,
    now: StoreTime,
}

type Pushes = Vec<(Arc<str>, StoreEvent)>;

impl<'a> Run<'a> {
    fn new(server: &'a mut Server, inbox: &'a mut Inbox) -> Self {
        let pair = |number| {
            let key: Arc<str> = format!("lw:{{together {number}}}").into();
            let native = NativeMachine::new(&CALLS, key.clone(), true).with(&OWN);
            Pair { key, native, cell: LockCell::default(), line: Queued::default() }
        };
        let locks: Vec<_> = (0..LOCKS).map(pair).collect();
        for lock in &locks {
            server.plain(&["DEL", &lock.key]);
        }
        let now = server.later();
        Run { server, inbox, locks, now }
    }

    fn play(mut self, commands: &[Command]) -> Result<(), TestCaseError> {
        for command in commands {
            self.one(command)?;
        }
        for lock in 0..LOCKS {
            let request = layout("").inspect("x", self.locks[lock].key.clone()).asks()[0].clone();
            // A lock that nobody asked for is nothing at the server.
            let is_there = self.server.number(&["EXISTS", &self.locks[lock].key]) == Some(1);
            let expected = if is_there { self.reference(lock, &request).0 } else { Reply::Nil };
            let got = self.server.ask(&request, self.now);
            prop_assert_eq!(without(got, 2), without(expected, 2), "lock {}", lock);
        }
        prop_assert_eq!(self.inbox.pushed(self.server), vec![], "pushed too much");
        Ok(())
    }

    fn one(&mut self, command: &Command) -> Result<(), TestCaseError> {
        let (request, (expected, pushes)) = match command {
            Command::Pass(micros) => {
                self.pass(*micros);
                return Ok(());
            }
            Command::Together { policy, who, locks, late } => {
                let requests: Vec<_> = locks.iter().map(|lock| self.trying(*who, *lock, *late)).collect();
                let merged = layout("").together(*policy, &requests.iter().collect::<Vec<_>>());
                let merged = merged.expect("the layout has a script for it");
                (merged, self.reference_of_all(*policy, *who, locks, &requests))
            }
            Command::Acquire { who, lock } => {
                let terms = terms(*who, *lock);
                self.alone(*lock, Intent::Acquire { terms, wait: true, prev: None })
            }
            Command::Release { who, lock } => {
                let used = self.locks[*lock].cell.hold.as_ref().map_or(1, |hold| hold.first);
                self.alone(*lock, Intent::Release { terms: terms(*who, *lock), used })
            }
            Command::Undo { who, lock } => self.alone(*lock, Intent::Undo { terms: terms(*who, *lock), prev: None }),
        };
        let got = self.server.ask(&request, self.now);
        // How many wait ahead is a bound once somebody left.
        prop_assert_eq!(put_straight(got, 3), put_straight(expected, 3), "{:?} at {:?}", command, self.now);
        if !pushes.is_empty() {
            prop_assert_eq!(self.inbox.pushed(self.server), pushes, "{:?}", command);
        }
        Ok(())
    }

    fn alone(&mut self, lock: usize, intent: Intent) -> (Request, (Reply, Pushes)) {
        let request = self.begin(lock, intent, false);
        let told = self.reference(lock, &request);
        (request, told)
    }

    fn trying(&mut self, who: usize, lock: usize, late: bool) -> Request {
        self.begin(lock, Intent::Acquire { terms: terms(who, lock), wait: false, prev: None }, late)
    }

    fn begin(&mut self, lock: usize, intent: Intent, late: bool) -> Request {
        dated(begun(&mut self.locks[lock].native, intent), self.now.0 - i64::from(late))
    }

    fn reference(&mut self, lock: usize, request: &Request) -> (Reply, Pushes) {
        let procedure = LockCell::read(request).expect("one of the layout's");
        self.with(lock, |cell, line, env| cell.run(procedure, line, env).unwrap_or_else(|never| match never {}))
    }

    /// Runs `act` on the lock of the reference; what it gave, and what was pushed to those who listen.
    fn with<T>(
        &mut self,
        lock: usize,
        act: impl FnOnce(&mut LockCell, &mut Queued, &mut Surroundings<'_>) -> T,
    ) -> (T, Pushes) {
        let alive = |inbox: InboxId| inbox == InboxId(1);
        let token_floor = u64::try_from(self.now.0).expect("after 1970");
        let mut env = Surroundings { now: self.now, token_floor, alive: &alive, pushes: Vec::new() };
        let Pair { key, cell, line, .. } = &mut self.locks[lock];
        let given = act(cell, line, &mut env);
        let heard = env.pushes.into_iter().filter(|(inbox, _)| alive(*inbox));
        (given, heard.map(|(_, event)| (key.clone(), event)).collect())
    }

    fn reference_of_all(
        &mut self,
        policy: Policy,
        who: usize,
        locks: &[usize],
        requests: &[Request],
    ) -> (Reply, Pushes) {
        let all = policy == Policy::All;
        let refused = Reply::List([0, self.now.0, 0, 0].map(Reply::Int).to_vec());
        let (mut answers, mut pushes) = (vec![refused.clone(); locks.len()], Vec::new());
        let mut decided = None;
        for (place, lock) in locks.iter().enumerate() {
            let (answer, pushed) = self.reference(*lock, &requests[place]);
            pushes.extend(pushed);
            let had = is_granted(&answer);
            answers[place] = answer;
            if had != all {
                decided = Some(place);
                break;
            }
        }
        for place in 0..decided.filter(|_| all).unwrap_or(0) {
            let undo = Intent::Undo { terms: terms(who, locks[place]), prev: None };
            pushes.extend(self.alone(locks[place], undo).1.1);
            answers[place] = refused.clone();
        }
        (Reply::List(answers), pushes)
    }

    fn pass(&mut self, micros: i64) {
        self.now = StoreTime(self.now.0 + micros);
        for lock in 0..LOCKS {
            let Pair { key, .. } = &self.locks[lock];
            let gone = goes(self.server, key).unwrap_or(i64::MAX);
            if self.now.0 >= gone {
                self.server.plain(&["DEL", &self.locks[lock].key]);
                (self.locks[lock].cell, self.locks[lock].line) = (LockCell::default(), Queued::default());
            }
        }
    }
}

fn is_granted(answer: &Reply) -> bool {
    match answer {
        Reply::Int(_) => true,
        Reply::List(list) => list.first() == Some(&Reply::Int(3)),
        _ => false,
    }
}

/// The reply, or each of those in it, without the number at `place`.
fn put_straight(reply: Reply, place: usize) -> Reply {
    let Reply::List(list) = reply else { return reply };
    if list.iter().any(|item| matches!(item, Reply::List(_))) {
        return Reply::List(list.into_iter().map(|item| put_straight(item, place)).collect());
    }
    without(Reply::List(list), place)
}

/// The reply without the number at `place`.
fn without(reply: Reply, place: usize) -> Reply {
    let Reply::List(mut list) = reply else { return reply };
    if let Some(Reply::Int(number)) = list.get_mut(place) {
        *number = 0;
    }
    Reply::List(list)
}

/// Each lock has an attempt of its own. The last claimant's inbox does not listen; the others share one that does.
fn terms(who: usize, lock: usize) -> Terms {
    Terms {
        name: "together".into(),
        attempt: AttemptId(0xA000 + (who * LOCKS + lock) as u128),
        inbox: InboxId(if who < CLAIMANTS - 1 { 1 } else { 2 }),
        ttl: if who < 2 { CLAIM * 30 } else { CLAIM },
        claim: CLAIM,
        card: format!("host\t{who}\trust\t").into(),
        fair: false,
        rank: Rank::LOWEST,
    }
}
