//! The scripts of the layout `native` do what [`lockwright_machines::lock_cell`] does: the same random commands go to
//! both, and answers, pushes and what is left in the end must be equal. The scripts run on a real server, under a clock
//! that the test sets.

mod redis_server;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::Kind;
use lockwright_machines::lock_cell::{Cell, Claimant, LockStorage, Surroundings, Waiter};
use lockwright_machines::native_machine::{NativeMachine, Procedure};
use lockwright_machines::protocol::{
    Arg, AttemptId, InboxId, Input, Intent, Layout, Op, Previous, Protocol, Reply, Request, Step, StoreEvent, Terms,
    Verdict,
};
use lockwright_machines::stores::redis::layouts::native_scripts::{CALLS, OWN, layout};
use lockwright_machines::time::StoreTime;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use redis_server::{Inbox, Server, begun, check_queue, compare, dated, lifetime};

const SEQUENCES: u32 = 2_500;
const MINUTE: i64 = 60_000_000;
const CLAIMANTS: usize = 8;
const TTL: Duration = Duration::from_secs(30);
const CLAIM: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
enum Command {
    Acquire { who: usize, wait: bool, prev: Option<usize>, late: bool },
    Renew { who: usize, ttl: Duration },
    Release { who: usize, beyond: i64 },
    Undo { who: usize, prev: Option<usize> },
    Export { who: usize },
    Resume { from: usize, who: usize, late: bool },
    Break { off: i64 },
    Inspect,
    Pass(i64),
}

impl Command {
    fn op(&self) -> Option<Op> {
        match self {
            Command::Acquire { .. } | Command::Resume { .. } => Some(Op::Acquire),
            Command::Renew { .. } => Some(Op::Renew),
            Command::Release { .. } | Command::Export { .. } => Some(Op::Release),
            Command::Undo { .. } => Some(Op::Undo),
            Command::Break { .. } | Command::Inspect | Command::Pass(_) => None,
        }
    }
}

fn command() -> impl Strategy<Value = Command> {
    let who = 0..CLAIMANTS;
    let previous = prop::option::weighted(0.4, 0..CLAIMANTS);
    let acquire = (who.clone(), prop::bool::weighted(0.7), previous, prop::bool::weighted(0.05)).prop_map(
        |(who, wait, prev, late)| Command::Acquire { who, wait, prev: prev.filter(|prev| *prev != who), late },
    );
    let ttl = prop_oneof![Just(TTL), Just(TTL / 100), Just(TTL * 2880)];
    let pause = prop::sample::select(vec![
        0,
        1,
        50,
        400_000,
        1_000_000,
        MINUTE / 2,
        MINUTE,
        6 * MINUTE,
        11 * MINUTE,
        3000 * MINUTE,
        -MINUTE,
    ]);
    prop_oneof![
        6 => acquire,
        2 => (who.clone(), ttl).prop_map(|(who, ttl)| Command::Renew { who, ttl }),
        4 => (who.clone(), -2..100_i64).prop_map(|(who, beyond)| Command::Release { who, beyond }),
        2 => who.clone().prop_map(|who| Command::Export { who }),
        2 => (who.clone(), who.clone(), prop::bool::weighted(0.05))
            .prop_map(|(from, who, late)| Command::Resume { from, who, late }),
        2 => (who, prop::option::of(0..CLAIMANTS)).prop_map(|(who, prev)| Command::Undo { who, prev }),
        1 => (-2..66_i64).prop_map(|off| Command::Break { off }),
        1 => Just(Command::Inspect),
        3 => pause.prop_map(Command::Pass),
    ]
}

#[test]
fn scripts_do_what_the_reference_does() {
    let sequences = prop::collection::vec(command(), 1..40);
    compare(SEQUENCES, &sequences, |server, inbox, commands| Run::new(server, inbox).play(commands));
}

/// Too rare to be left to chance: a claim that was renewed by less than is left of it, and ends with others waiting.
#[test]
fn a_renewed_claim_is_no_claim_any_more() {
    let (mut server, mut inbox) = (Server::connect(), Inbox::open());
    let ask = |who| Command::Acquire { who, wait: true, prev: None, late: false };
    let commands = [
        ask(0),
        ask(1),
        ask(2),
        Command::Release { who: 0, beyond: 0 },
        Command::Renew { who: 1, ttl: CLAIM / 10 },
        Command::Pass(2 * CLAIM.as_micros() as i64),
        ask(3),
    ];
    Run::new(&mut server, &mut inbox).play(&commands).unwrap();
}

/// The scripts compare times as texts, which is right only where both have as many digits.
#[test]
fn times_of_more_digits_are_later_ones() {
    let (mut server, mut inbox) = (Server::connect(), Inbox::open());
    let key: Arc<str> = "lw:{a century ahead}".into();
    let (now, ahead) = (server.later(), 10_000_000_000_000_000);
    let mut native = NativeMachine::new(&CALLS, key.clone(), true);
    let mut acquire =
        |not_after| dated(begun(&mut native, Intent::Acquire { terms: terms(0), wait: false, prev: None }), not_after);
    let release = |used: i64| {
        let terms = terms(0);
        let used = u64::try_from(used).expect("a token");
        begun(&mut NativeMachine::new(&CALLS, key.clone(), true), Intent::Release { terms, used })
    };
    server.plain(&["DEL", &key]);
    assert_eq!(server.ask(&acquire(ahead), now), Reply::Int(now.0), "not too late");
    assert_eq!(server.ask(&release(now.0), now), Reply::Int(1));
    server.plain(&["HSET", &key, "t", &ahead.to_string()]);
    let granted = server.ask(&acquire(ahead), now);
    assert!(matches!(granted, Reply::Int(first) if first >= ahead), "tokens rise: {granted:?}");
    // The same for a claim that is handed on.
    server.plain(&["DEL", &key]);
    let mut queue = |who| begun(&mut native, Intent::Acquire { terms: terms(who), wait: true, prev: None });
    for who in 0..3 {
        server.ask(&queue(who), now);
    }
    server.plain(&["HSET", &key, "t", &ahead.to_string(), "l", "-1000000"]);
    assert_eq!(server.ask(&release(now.0), StoreTime(now.0 + 1)), Reply::Int(1));
    assert!(server.number(&["HGET", &key, "t"]).is_some_and(|first| first >= ahead), "tokens rise");
    inbox.pushed(&mut server);
    server.plain(&["DEL", &key]);
}

/// Claimant 1 has a claim, 2, 3, 4 wait or somebody in their place; what then happens is too rare to be left to chance.
#[test]
fn claims_are_handed_on_as_the_reference_does() {
    let (mut server, mut inbox) = (Server::connect(), Inbox::open());
    let ask = |who| Command::Acquire { who, wait: true, prev: None, late: false };
    let instead = |who, prev| Command::Acquire { who, wait: true, prev: Some(prev), late: false };
    let release = |who, beyond| Command::Release { who, beyond };
    let leave = |who| Command::Undo { who, prev: None };
    let dead = CLAIMANTS - 1;
    for (queue, after, more) in [
        (&[2, 3, 4][..], 50, vec![release(1, 0)]),
        (&[2], 50, vec![release(1, 63)]),
        (&[2], 50, vec![instead(3, 1), ask(4), release(2, 0)]),
        // Tokens that it never had, or that are not over by the clock, which may have been set back.
        (&[2], 50, vec![release(1, 64)]),
        (&[2], 50, vec![release(1, -1)]),
        (&[2], 50, vec![release(1, 9_000_000_000_000_000)]),
        (&[2], 0, vec![release(1, 40)]),
        (&[2], -MINUTE, vec![release(1, -2 * MINUTE)]),
        // The key would go before the claim.
        (&[2, 3], 6 * MINUTE, vec![release(1, 0)]),
        // A gap behind the first, and elsewhere.
        (&[2, 3, 4], 50, vec![leave(3), release(1, 0)]),
        (&[2, 3, 4, 5], 50, vec![leave(4), instead(6, 1), release(2, 0)]),
        // Who waits and gives back has its seat.
        (&[2, 3, 4], 50, vec![instead(3, 1)]),
        (&[2, 3], 50, vec![instead(4, 3), instead(2, 1)]),
        // The first in line is dead.
        (&[dead], 50, vec![release(1, 0)]),
        (&[dead], 50, vec![instead(2, 1), ask(3)]),
        (&[dead, 2, 3], 50, vec![release(1, 0)]),
        (&[dead, 2], 50, vec![instead(3, 1), instead(4, 2)]),
        (&[dead, 2], 50, vec![instead(dead, 1)]),
        // What was renewed is no claim: whoever comes after the next hears of it.
        (&[2, 3], 50, vec![Command::Renew { who: 1, ttl: TTL }, Command::Pass(50), release(1, 0)]),
        (&[2, 3], 50, vec![Command::Renew { who: 1, ttl: TTL }, Command::Pass(50), instead(4, 1)]),
    ] {
        let mut commands = vec![ask(0), ask(1)];
        commands.extend(queue.iter().copied().map(ask));
        commands.extend([Command::Pass(50), release(0, 0), Command::Pass(after)]);
        commands.extend(more);
        Run::new(&mut server, &mut inbox).play(&commands).unwrap_or_else(|failed| panic!("{commands:?}: {failed}"));
    }
}

#[test]
fn those_who_left_the_queue_cost_nobody_a_step() {
    let mut server = Server::connect();
    let key: Arc<str> = "lw:{thousands left}".into();
    let request = |who: usize, intent: fn(Terms) -> Intent| {
        let terms = Terms { attempt: AttemptId(who as u128), inbox: InboxId(2), ..terms(0) };
        begun(&mut NativeMachine::new(&CALLS, key.clone(), true), intent(terms))
    };
    let now = server.later();
    for backwards in [false, true] {
        server.plain(&["DEL", &key]);
        for who in 1..=600 {
            server.ask(&request(who, |terms| Intent::Acquire { terms, wait: true, prev: None }), now);
        }
        let mut leaving: Vec<usize> = (3..300).chain(301..600).collect();
        if backwards {
            leaving.reverse();
        }
        for who in leaving {
            server.ask(&request(who, |terms| Intent::Undo { terms, prev: None }), now);
        }
        check_queue(&mut server, &key);
        // The three who are left are not there, so that all of them are looked at.
        let steps = server.commands_of(&request(1, |terms| Intent::Undo { terms, prev: None }));
        assert!(steps < 40, "{steps}");
    }
    server.plain(&["DEL", &key]);
}

#[test]
fn a_key_of_another_kind_is_refused_and_left_alone() {
    let mut server = Server::connect();
    let key = "lw:{somebody else's}";
    for setup in [["SET", key, "x"].as_slice(), &["HSET", key, "v", "2"], &["HSET", key, "uuid:1", "1"]] {
        server.plain(&["DEL", key]);
        server.plain(setup);
        let before = server.plain(&["GET", key]);
        let mut native = NativeMachine::new(&CALLS, key.into(), true);
        let me = terms(0);
        for intent in [
            Intent::Acquire { terms: me.clone(), wait: true, prev: None },
            Intent::Renew { terms: me.clone(), ttl: TTL },
            Intent::Release { terms: me.clone(), used: 1 },
            Intent::Undo { terms: me.clone(), prev: None },
        ] {
            let op = intent.op();
            let reply = server.ask(&begun(&mut native, intent), StoreTime(1));
            match native.step(Input::Reply(op, &[reply])) {
                Step::Done(Verdict::Failed(error)) => assert_eq!(error.kind(), Kind::ForeignLayout, "{error}"),
                other => panic!("{setup:?}: {other:?}"),
            }
        }
        for call in [&CALLS.inspect, &CALLS.break_hold] {
            let reply = server.ask(&Request::new(call, key.into(), [Arg::Int(7)]), StoreTime(1));
            assert!(matches!(reply, Reply::Error { .. }), "{reply:?}");
        }
        assert_eq!(server.plain(&["GET", key]), before);
    }
    server.plain(&["DEL", key]);
}

#[test]
fn a_batch_of_renewals_answers_for_each_lock_in_order() {
    let mut server = Server::connect();
    let now = server.later();
    let keys = ["lw:{batch 1}", "lw:{batch 2}", "lw:{batch 3}", "lw:{batch 4}"];
    server.plain(&["DEL", keys[0], keys[1], keys[2], keys[3]]);
    let me = terms(0);
    for key in [keys[0], keys[3]] {
        let mut native = NativeMachine::new(&CALLS, key.into(), true);
        let acquire = begun(&mut native, Intent::Acquire { terms: me.clone(), wait: false, prev: None });
        assert!(matches!(server.ask(&acquire, now), Reply::Int(_)));
    }
    server.plain(&["SET", keys[1], "x"]);
    let mut command = redis::cmd("EVAL");
    command.arg(CALLS.renew.body).arg(keys.len()).arg(&keys);
    for _ in keys {
        command.arg(Claimant::of(&me).to_string()).arg(i64::try_from(TTL.as_micros()).expect("short"));
    }
    let Reply::List(answers) = server.run(&command) else { panic!("a list") };
    assert_eq!((&answers[0], &answers[2], &answers[3]), (&Reply::Int(1), &Reply::Int(0), &Reply::Int(1)));
    assert!(matches!(&answers[1], Reply::Error { code, .. } if code == "WRONGTYPE"), "{answers:?}");
    server.plain(&["DEL", keys[0], keys[1], keys[2], keys[3]]);
}

#[test]
fn pages_list_every_lock_under_the_prefix_and_nothing_else() {
    let mut server = Server::connect();
    let layout = layout("list[a]*:");
    let names: Vec<String> = (100..800).map(|i| format!("{{{i}}}")).collect();
    let keys: Vec<_> = names.iter().map(|name| layout.key(name).expect("a key")).collect();
    for key in &keys {
        server.plain(&["HSET", key, "v", "1"]);
    }
    server.plain(&["HSET", "lw:{lista*:decoy}", "v", "1"]);
    server.plain(&["SET", "lw:{list[a]*:no hash}", "1"]);
    let found = server.list(&layout);
    assert_eq!(found, names);
    for key in keys.iter().map(|key| &**key).chain(["lw:{lista*:decoy}", "lw:{list[a]*:no hash}"]) {
        server.plain(&["DEL", key]);
    }
}

/// The last claimant's inbox does not listen; the others share one that does.
fn terms(who: usize) -> Terms {
    Terms {
        name: "model".into(),
        attempt: AttemptId(0xA000 + who as u128),
        inbox: InboxId(if who < CLAIMANTS - 1 { 1 } else { 2 }),
        ttl: if who < 2 { TTL } else { CLAIM },
        claim: CLAIM,
        card: if who == 3 { "".into() } else { format!("host\t{who}\trust\tlabel {who}").into() },
        fair: false,
    }
}

/// What claimant `who` exports the lock to.
fn secret(who: usize) -> Terms {
    Terms::of_secret("model".into(), AttemptId(0xB000 + who as u128), CLAIM, "host\t0\trust\t".into())
}

/// One sequence: a lock on the server, the same lock in the reference, and the clock of both.
struct Run<'a> {
    server: &'a mut Server,
    inbox: &'a mut Inbox,
    key: Arc<str>,
    native: NativeMachine,
    cell: Cell,
    line: Queue,
    now: StoreTime,
}

impl<'a> Run<'a> {
    fn new(server: &'a mut Server, inbox: &'a mut Inbox) -> Self {
        let key: Arc<str> = "lw:{model}".into();
        server.plain(&["DEL", &key]);
        let native = NativeMachine::new(&CALLS, key.clone(), true).with(&OWN);
        let now = server.later();
        Run { server, inbox, key, native, cell: Cell::default(), line: Queue::default(), now }
    }

    fn play(mut self, commands: &[Command]) -> Result<(), TestCaseError> {
        for command in commands {
            self.one(command)?;
            if command.op().is_some() {
                self.check_lifetime()?;
            }
        }
        self.one(&Command::Inspect)?;
        check_queue(self.server, &self.key);
        prop_assert_eq!(self.inbox.pushed(self.server), vec![], "pushed too much");
        Ok(())
    }

    fn one(&mut self, command: &Command) -> Result<(), TestCaseError> {
        let Some(request) = self.request(command) else { return Ok(()) };
        let (expected, pushes) = self.reference(&request);
        let reply = self.server.ask(&request, self.now);
        let comparable = self.comparable(command, &expected, reply.clone());
        prop_assert_eq!(&comparable, &expected, "{:?} at {:?}", command, self.now);
        if !pushes.is_empty() {
            prop_assert_eq!(self.inbox.pushed(self.server), pushes, "{:?}", command);
        }
        if let Some(op) = command.op() {
            let step = self.native.step(Input::Reply(op, &[reply]));
            prop_assert!(!matches!(step, Step::Done(Verdict::Failed(_))), "{:?}", step);
        }
        Ok(())
    }

    fn request(&mut self, command: &Command) -> Option<Request> {
        let first = self.cell.hold.as_ref().map_or(1, |hold| hold.first);
        let near = |off: i64| first.saturating_add_signed(off);
        let previous = |who: usize| Previous { terms: terms(who), used: near(3) };
        let intent = match command {
            Command::Acquire { who, wait, prev, .. } => {
                Intent::Acquire { terms: terms(*who), wait: *wait, prev: prev.map(previous) }
            }
            Command::Renew { who, ttl } => Intent::Renew { terms: terms(*who), ttl: *ttl },
            Command::Release { who, beyond } => Intent::Release { terms: terms(*who), used: near(*beyond) },
            Command::Undo { who, prev } => Intent::Undo { terms: terms(*who), prev: prev.map(previous) },
            Command::Export { .. } | Command::Resume { .. } => {
                let (from, to) = match command {
                    Command::Resume { from, who, .. } => (secret(*from), terms(*who)),
                    Command::Export { who } => (terms(*who), secret(*who)),
                    _ => unreachable!(),
                };
                let request = self.native.pass(&from, &to).expect("it can")[0].clone();
                return Some(self.timed(request, matches!(command, Command::Resume { late: true, .. })));
            }
            Command::Break { off } => {
                return Some(layout("").break_hold(self.key.clone(), near(*off)).asks()[0].clone());
            }
            Command::Inspect => return Some(layout("").inspect("x", self.key.clone()).asks()[0].clone()),
            Command::Pass(micros) => {
                self.pass(*micros);
                return None;
            }
        };
        let request = begun(&mut self.native, intent);
        Some(self.timed(request, matches!(command, Command::Acquire { late: true, .. })))
    }

    /// The request as it is sent, or comes too late.
    fn timed(&self, request: Request, late: bool) -> Request {
        dated(request, self.now.0 - i64::from(late))
    }

    fn pass(&mut self, micros: i64) {
        self.now = StoreTime(self.now.0 + micros);
        let gone = self.server.number(&["HGET", &self.key, "g"]).unwrap_or(i64::MAX);
        if self.now.0 >= gone {
            self.server.plain(&["DEL", &self.key]);
            self.cell = Cell::default();
            self.line = Queue::default();
        }
    }

    /// What the reference answers and pushes to those who listen.
    fn reference(&mut self, request: &Request) -> (Reply, Vec<(Arc<str>, StoreEvent)>) {
        let alive = |inbox: InboxId| inbox == InboxId(1);
        let token_floor = u64::try_from(self.now.0).expect("after 1970");
        let mut env = Surroundings { now: self.now, token_floor, alive: &alive, pushes: Vec::new() };
        let reply = match Procedure::read(request).expect("one of the layout's") {
            Procedure::Inspect if self.server.number(&["EXISTS", &self.key]) == Some(0) => Reply::Nil,
            procedure => procedure.run(&mut self.cell, &mut self.line, &mut env).unwrap_or_else(|never| match never {}),
        };
        let heard = env.pushes.into_iter().filter(|(inbox, _)| alive(*inbox));
        (reply, heard.map(|(_, event)| (self.key.clone(), event)).collect())
    }

    /// The answer, with what the scripts may tell differently put straight: a waiter that asks again learns a bound of
    /// its position once somebody left the queue's middle, and a hold is as old as its token.
    fn comparable(&self, command: &Command, expected: &Reply, mut reply: Reply) -> Reply {
        if let (Reply::List(got), Reply::List(wanted)) = (&mut reply, expected) {
            match (command, got.as_mut_slice(), wanted.as_slice()) {
                (Command::Inspect, [_, owner, held, _, Reply::Int(first), ..], [_, _, since, ..]) => {
                    let age = if *owner == Reply::Text(String::new()) { 0 } else { (self.now.0 - *first).max(0) };
                    assert_eq!(*held, Reply::Int(age));
                    *held = since.clone();
                }
                (Command::Acquire { .. }, [Reply::Int(1), _, _, Reply::Int(at), _], [_, _, _, Reply::Int(want), _])
                    if self.line.someone_left && (*want..self.line.waiters.len() as i64).contains(at) =>
                {
                    *at = *want;
                }
                _ => {}
            }
        }
        reply
    }

    /// The key outlives the hold, at the server as in its own field.
    fn check_lifetime(&mut self) -> Result<(), TestCaseError> {
        let Some(hold) = &self.cell.hold else { return Ok(()) };
        let expires = hold.expires.0;
        let (field, real) = lifetime(self.server, &self.key);
        prop_assert!(field >= expires + 5 * MINUTE, "{} {}", field, expires);
        prop_assert!(real * 1000 >= field && (real - 1) * 1000 < field, "{} {}", real, field);
        Ok(())
    }
}

/// The reference's queue.
#[derive(Default)]
struct Queue {
    waiters: VecDeque<Waiter>,
    someone_left: bool,
}

impl Queue {
    fn retain(&mut self, stays: impl Fn(&Waiter) -> bool) {
        let before = self.waiters.len();
        self.waiters.retain(stays);
        self.someone_left |= self.waiters.len() < before;
    }
}

impl LockStorage for Queue {
    type Error = Infallible;

    fn join(&mut self, waiter: &Waiter) -> Result<u32, Infallible> {
        let same = |other: &Waiter| other.owner.attempt == waiter.owner.attempt;
        let at = self.waiters.iter().position(same).unwrap_or_else(|| {
            self.waiters.push_back(waiter.clone());
            self.waiters.len() - 1
        });
        Ok(u32::try_from(at).expect("few"))
    }

    fn first(&mut self) -> Result<Option<Waiter>, Infallible> {
        Ok(self.waiters.front().cloned())
    }

    fn count(&mut self) -> Result<u32, Infallible> {
        Ok(u32::try_from(self.waiters.len()).expect("few"))
    }

    fn pop(&mut self) -> Result<Option<Waiter>, Infallible> {
        Ok(self.waiters.pop_front())
    }

    fn contains(&mut self, attempt: AttemptId) -> Result<bool, Infallible> {
        Ok(self.waiters.iter().any(|waiter| waiter.owner.attempt == attempt))
    }

    fn leave(&mut self, attempt: AttemptId) -> Result<(), Infallible> {
        self.retain(|waiter| waiter.owner.attempt != attempt);
        Ok(())
    }

    fn drop_inbox(&mut self, inbox: InboxId) -> Result<(), Infallible> {
        self.retain(|waiter| waiter.owner.inbox != inbox);
        Ok(())
    }
}
