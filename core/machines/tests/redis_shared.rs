//! The scripts of read/write locks and semaphores do what [`lockwright_machines::shared_cell`] does: the same random
//! commands go to both, and answers, pushes and what is left in the end must be equal. The scripts run on a real
//! server, under a clock that the test sets.

mod redis_server;

use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::Kind;
use lockwright_machines::lock_cell::{Claimant, Surroundings};
use lockwright_machines::protocol::{
    AttemptId, Change, InboxId, Input, Intent, Layout, Op, Protocol, Reply, Request, Step, StoreEvent, Terms, Verdict,
};
use lockwright_machines::share::{ALL, Primitive, Share};
use lockwright_machines::shared_cell::{SharedCell, SharedInMemory};
use lockwright_machines::shared_machine::{Procedure, SharedMachine};
use lockwright_machines::stores::redis::layouts::{native_scripts, shared_scripts::CALLS};
use lockwright_machines::time::StoreTime;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use redis_server::{Inbox, Server, asked, begun, check_queue, compare, dated};

const SEQUENCES: u32 = 500;
const MINUTE: i64 = 60_000_000;
const CLAIMANTS: usize = 14;
const TTL: Duration = Duration::from_secs(30);
const CLAIM: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
enum Command {
    Acquire { who: usize, share: Share, wait: bool, late: bool },
    Renew { who: usize, ttl: Duration },
    Change { who: usize, units: u32, stale: bool, late: bool },
    Release { who: usize },
    Undo { who: usize },
    Break { nth: usize },
    Resize { permits: u32 },
    Inspect,
    Pass(i64),
}

fn share(primitive: Primitive) -> BoxedStrategy<Share> {
    match primitive {
        Primitive::RwLock => prop::sample::select(vec![Share::READ, Share::READ, Share::WRITE]).boxed(),
        Primitive::Semaphore => (1..4_u32, 3..5_u32, any::<bool>())
            .prop_map(|(take, permits, in_order)| Share::permits(take, permits, in_order).expect("in range"))
            .boxed(),
    }
}

fn command(primitive: Primitive) -> impl Strategy<Value = Command> {
    let who = 0..CLAIMANTS;
    let late = || prop::bool::weighted(0.05);
    let acquire = (who.clone(), share(primitive), prop::bool::weighted(0.7), late())
        .prop_map(|(who, share, wait, late)| Command::Acquire { who, share, wait, late });
    let ttl = prop_oneof![Just(TTL), Just(TTL / 100), Just(TTL * 2880)];
    let pauses =
        vec![0, 1, 50, 400_000, 1_000_000, MINUTE / 2, MINUTE, 6 * MINUTE, 11 * MINUTE, 3000 * MINUTE, -MINUTE];
    let units = match primitive {
        Primitive::RwLock => vec![1, ALL],
        Primitive::Semaphore => vec![1, 2, 3],
    };
    let change = (who.clone(), prop::sample::select(units), prop::bool::weighted(0.1), late())
        .prop_map(|(who, units, stale, late)| Command::Change { who, units, stale, late });
    prop_oneof![
        24 => acquire,
        6 => (who.clone(), ttl).prop_map(|(who, ttl)| Command::Renew { who, ttl }),
        6 => change,
        14 => who.clone().prop_map(|who| Command::Release { who }),
        8 => who.prop_map(|who| Command::Undo { who }),
        2 => (0..4_usize).prop_map(|nth| Command::Break { nth }),
        1 => (1..6_u32).prop_map(|permits| Command::Resize { permits }),
        4 => Just(Command::Inspect),
        8 => prop::sample::select(pauses).prop_map(Command::Pass),
    ]
}

fn sequences(primitive: Primitive) -> impl Strategy<Value = Vec<Command>> {
    prop::collection::vec(command(primitive), 1..50)
}

#[test]
fn scripts_do_what_the_reference_does() {
    for primitive in [Primitive::RwLock, Primitive::Semaphore] {
        compare(SEQUENCES, &sequences(primitive), |server, inbox, commands| Run::new(server, inbox).play(commands));
    }
}

#[test]
fn one_name_is_one_thing() {
    let mut server = Server::connect();
    let key = "lw:{shared, and something else}";
    for setup in [
        ["SET", key, "x"].as_slice(),
        &["HSET", key, "v", "1"],
        &["HSET", key, "v", "semaphore1"],
        &["HSET", key, "uuid:1", "1"],
    ] {
        server.plain(&["DEL", key]);
        server.plain(setup);
        let before = server.plain(&["DUMP", key]);
        let mut machine = SharedMachine::new(&CALLS, key.into(), Share::READ, true);
        let me = terms(0);
        let is_semaphore = setup.last() == Some(&"semaphore1");
        for intent in [
            Intent::Acquire { terms: me.clone(), wait: true, prev: None },
            Intent::Renew { terms: me.clone(), ttl: TTL },
            Intent::Release { terms: me.clone(), used: 1 },
            Intent::Undo { terms: me.clone(), prev: None },
        ] {
            let op = intent.op();
            // Whoever has nothing there may ask to give it back.
            if is_semaphore && op != Op::Acquire {
                continue;
            }
            let reply = server.ask(&begun(&mut machine, intent), StoreTime(1));
            match machine.step(Input::Reply(op, &[reply])) {
                Step::Done(Verdict::Failed(error)) => assert_eq!(error.kind(), Kind::ForeignLayout, "{error}"),
                other => panic!("{setup:?}: {other:?}"),
            }
        }
        assert_eq!(server.plain(&["DUMP", key]), before);
    }
    server.plain(&["DEL", key]);
    let machine = &mut SharedMachine::new(&CALLS, key.into(), Share::READ, true);
    let now = server.later();
    let acquire = begun(machine, Intent::Acquire { terms: terms(0), wait: false, prev: None });
    assert!(matches!(server.ask(&acquire, now), Reply::Int(_)));
    let seen = server.ask(&native_scripts::layout("").inspect("x", key.into()).asks()[0], now);
    let error = native_scripts::layout("").inspect("x", key.into()).answered(&seen).expect_err("a lock's inspection");
    assert_eq!(error.kind(), Kind::ForeignLayout, "{error}");
    let seen = native_scripts::layout("").identify("x", key.into()).answered(&seen).expect("whatever lies there");
    assert_eq!((seen.primitive, seen.holder.is_some()), (Some("rwlock"), true));
    let permits = Share { primitive: Primitive::Semaphore, ..Share::READ };
    let machine = &mut SharedMachine::new(&CALLS, key.into(), permits, true);
    let acquire = begun(machine, Intent::Acquire { terms: terms(1), wait: false, prev: None });
    let refused = server.ask(&acquire, StoreTime(now.0 + 1));
    assert!(matches!(&refused, Reply::Error { code, .. } if code == "FOREIGN"), "{refused:?}");
    server.plain(&["DEL", key]);
}

#[test]
fn a_batch_of_renewals_answers_for_each_hold_in_order() {
    let mut server = Server::connect();
    let now = server.later();
    let keys = ["lw:{shared batch 1}", "lw:{shared batch 2}", "lw:{shared batch 3}"];
    server.plain(&["DEL", keys[0], keys[1], keys[2]]);
    let me = terms(0);
    let mut machine = SharedMachine::new(&CALLS, keys[2].into(), Share::WRITE, true);
    let acquire = begun(&mut machine, Intent::Acquire { terms: me.clone(), wait: false, prev: None });
    assert!(matches!(server.ask(&acquire, now), Reply::Int(_)));
    server.plain(&["SET", keys[0], "x"]);
    let mut command = redis::cmd("EVAL");
    command.arg(CALLS.renew.body).arg(keys.len()).arg(&keys);
    for _ in keys {
        command.arg(Claimant::of(&me).to_string()).arg(i64::try_from(TTL.as_micros()).expect("short"));
    }
    let Reply::List(answers) = server.run(&command) else { panic!("a list") };
    assert!(matches!(&answers[0], Reply::Error { code, .. } if code == "WRONGTYPE"), "{answers:?}");
    assert_eq!(answers[1..], [Reply::Int(0), Reply::Int(1)]);
    server.plain(&["DEL", keys[0], keys[1], keys[2]]);
}

/// Too many for chance: a waiter that wants more than is free asks again after others behind it left, and somebody's
/// lease ended.
#[test]
fn whoever_asks_again_behind_gaps_learns_a_place_in_the_queue() {
    let (mut server, mut inbox) = (Server::connect(), Inbox::open());
    let ask = |who, take| {
        let share = Share::permits(take, 3, false).expect("in range");
        Command::Acquire { who, share, wait: true, late: false }
    };
    let mut commands = vec![ask(2, 1), ask(0, 2), ask(1, 3)];
    commands.extend((3..12).flat_map(|who| [ask(who, 1), Command::Undo { who }]));
    commands.extend([Command::Pass(2 * CLAIM.as_micros() as i64), ask(1, 3)]);
    Run::new(&mut server, &mut inbox).play(&commands).unwrap();
}

#[test]
fn those_who_left_the_queue_cost_nobody_a_step() {
    let mut server = Server::connect();
    let key: Arc<str> = "lw:{shared, thousands left}".into();
    let request = |who: usize, intent: fn(Terms) -> Intent| {
        let terms = Terms { attempt: AttemptId(who as u128), inbox: InboxId(2), ..terms(0) };
        // One permit is left, and those who wait want two, in no order: all of them are looked at, and passed over.
        let share = Share::permits(if who == 0 { 3 } else { 2 }, 4, false).expect("in range");
        begun(&mut SharedMachine::new(&CALLS, key.clone(), share, true), intent(terms))
    };
    let now = server.later();
    for backwards in [false, true] {
        server.plain(&["DEL", &key]);
        for who in 0..=600 {
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
        let steps = server.commands_of(&request(1, |terms| Intent::Undo { terms, prev: None }));
        assert!(steps < 40, "{steps}");
    }
    server.plain(&["DEL", &key]);
}

#[test]
fn more_holders_than_a_reply_has_room_for_are_counted() {
    let mut server = Server::connect();
    let key: Arc<str> = "lw:{shared by thousands}".into();
    server.plain(&["DEL", &key]);
    let all = 20_000_i64;
    let fill = "
        local now = redis.call('TIME')
        now = now[1] * 1000000
        for i = 1, ARGV[1] do
            redis.call('HSET', KEYS[1], ('o%032x'):format(i),
                ('%032x%016x00001000'):format(i, 1) .. ('0%010d%016.0f%016.0f%016.0f'):format(2, i, now, now + 600000000) .. 'host\t1\trust\t')
        end
        redis.call('HSET', KEYS[1], 'v', 'semaphore1', 'm', 100000, 'u', 2 * ARGV[1], 'e', now, 't', ARGV[1])";
    server.plain(&["EVAL", fill, "1", &key, &all.to_string()]);
    let reply = server.plain(&["EVAL", native_scripts::CALLS.inspect.body, "1", &key]);
    let seen = native_scripts::layout("")
        .identify("x", "k".into())
        .answered(&reply)
        .expect("a semaphore")
        .shared
        .expect("it is shared");
    let listed = seen.holders.len() as u64;
    assert!((2_000..4_000).contains(&listed) && seen.unlisted == 20_000 - listed, "{listed} {}", seen.unlisted);
    assert_eq!((seen.held, seen.holders[0].holder.first_token), (40_000, 1));
    server.plain(&["DEL", &key]);
}

/// The last two claimants' inbox does not listen; the others share one that does.
fn terms(who: usize) -> Terms {
    Terms {
        name: "model".into(),
        attempt: AttemptId(0xA000 + who as u128),
        inbox: InboxId(if who < CLAIMANTS - 2 { 1 } else { 2 }),
        ttl: if who < 2 { TTL } else { CLAIM },
        claim: CLAIM,
        card: if who == 3 { "".into() } else { format!("host\t{who}\trust\tlabel {who}").into() },
        fair: false,
    }
}

/// One sequence: a record on the server, the same record in the reference, and the clock of both.
struct Run<'a> {
    server: &'a mut Server,
    inbox: &'a mut Inbox,
    key: Arc<str>,
    cell: SharedCell,
    kept: SharedInMemory,
    now: StoreTime,
}

impl<'a> Run<'a> {
    fn new(server: &'a mut Server, inbox: &'a mut Inbox) -> Self {
        let key: Arc<str> = "lw:{shared model}".into();
        server.plain(&["DEL", &key]);
        let now = server.later();
        Run { server, inbox, key, cell: SharedCell::default(), kept: SharedInMemory::default(), now }
    }

    fn play(mut self, commands: &[Command]) -> Result<(), TestCaseError> {
        for command in commands {
            self.one(command)?;
            self.check_lifetime()?;
        }
        self.one(&Command::Inspect)?;
        check_queue(self.server, &self.key);
        prop_assert_eq!(self.inbox.pushed(self.server), vec![], "pushed too much");
        Ok(())
    }

    fn one(&mut self, command: &Command) -> Result<(), TestCaseError> {
        let Some((op, request)) = self.request(command) else { return Ok(()) };
        let place = |line: &SharedInMemory| match command {
            Command::Acquire { who, .. } => {
                line.line.iter().position(|seeker| seeker.who.owner.attempt == terms(*who).attempt)
            }
            _ => None,
        };
        let before = place(&self.kept);
        let (expected, pushes) = self.reference(&request);
        let mut reply = self.server.ask(&request, self.now);
        // Who asks again learns a bound of its position, since others may have left the queue's middle.
        if let (Some(_), Reply::List(got), Reply::List(wanted)) = (before, &mut reply, &expected)
            && let ([Reply::Int(1), _, _, Reply::Int(at), ..], [_, _, _, Reply::Int(want), ..]) =
                (got.as_mut_slice(), wanted.as_slice())
            && (*want..self.kept.line.len().into()).contains(at)
        {
            *at = *want;
        }
        prop_assert_eq!(&reply, &expected, "{:?} at {:?}", command, self.now);
        if !pushes.is_empty() {
            prop_assert_eq!(self.inbox.pushed(self.server), pushes, "{:?}", command);
        }
        if let Some(op) = op {
            let step = self.machine(Share::READ).step(Input::Reply(op, &[reply.clone()]));
            let is_refusal = matches!(reply, Reply::Error { .. });
            prop_assert_eq!(matches!(step, Step::Done(Verdict::Failed(_))), is_refusal, "{:?}", step);
        }
        Ok(())
    }

    fn machine(&self, share: Share) -> SharedMachine {
        SharedMachine::new(&CALLS, self.key.clone(), share, true)
    }

    fn request(&mut self, command: &Command) -> Option<(Option<Op>, Request)> {
        let layout =
            native_scripts::layout("").shared(Share::permits(1, 1, false).expect("in range")).expect("there is one");
        let mut lateness = 0;
        let (op, request) = match command {
            Command::Acquire { who, share, wait, late } => {
                lateness = i64::from(*late);
                let intent = Intent::Acquire { terms: terms(*who), wait: *wait, prev: None };
                (Some(Op::Acquire), begun(&mut self.machine(*share), intent))
            }
            Command::Renew { who, ttl } => {
                let intent = Intent::Renew { terms: terms(*who), ttl: *ttl };
                (Some(Op::Renew), begun(&mut self.machine(Share::READ), intent))
            }
            Command::Change { who, units, stale, late } => {
                lateness = i64::from(*late);
                let held = self.kept.holders.get(&terms(*who).attempt).map_or(1, |holder| holder.token);
                let token = held - u64::from(*stale && held > 1);
                let change = Change { terms: terms(*who), token, ttl: terms(*who).ttl, units: *units };
                (Some(Op::Renew), asked(self.machine(Share::READ).change(change)))
            }
            Command::Release { who } => {
                let intent = Intent::Release { terms: terms(*who), used: 0 };
                (Some(Op::Release), begun(&mut self.machine(Share::READ), intent))
            }
            Command::Undo { who } => {
                let intent = Intent::Undo { terms: terms(*who), prev: None };
                (Some(Op::Undo), begun(&mut self.machine(Share::READ), intent))
            }
            Command::Break { nth } => {
                let token = self.kept.holders.values().nth(*nth).map_or(7, |holder| holder.token);
                (None, layout.break_hold(self.key.clone(), token).asks()[0].clone())
            }
            Command::Resize { permits } => (None, layout.resize(self.key.clone(), *permits)?.asks()[0].clone()),
            Command::Inspect => (None, layout.inspect("x", self.key.clone()).asks()[0].clone()),
            Command::Pass(micros) => {
                self.pass(*micros);
                return None;
            }
        };
        Some((op, dated(request, self.now.0 - lateness)))
    }

    fn pass(&mut self, micros: i64) {
        self.now = StoreTime(self.now.0 + micros);
        let goes = self.server.number(&["HGET", &self.key, "g"]);
        if goes.is_some_and(|goes| self.now.0 >= goes) {
            self.server.plain(&["DEL", &self.key]);
            self.cell = SharedCell::default();
            self.kept = SharedInMemory::default();
        }
    }

    /// What the reference answers and pushes to those who listen.
    fn reference(&mut self, request: &Request) -> (Reply, Vec<(Arc<str>, StoreEvent)>) {
        let alive = |inbox: InboxId| inbox == InboxId(1);
        let token_floor = u64::try_from(self.now.0).expect("after 1970");
        let mut env = Surroundings { now: self.now, token_floor, alive: &alive, pushes: Vec::new() };
        // A look is asked of whatever lies there.
        let procedure = Procedure::read(request).unwrap_or(Procedure::Inspect);
        let Ok(reply) = procedure.run(&mut self.cell, &mut self.kept, &mut env);
        let heard = env.pushes.into_iter().filter(|(inbox, _)| alive(*inbox));
        (reply, heard.map(|(_, event)| (self.key.clone(), event)).collect())
    }

    /// The key outlives every hold, at the server as in its own field, and for longer if it was resized.
    fn check_lifetime(&mut self) -> Result<(), TestCaseError> {
        let Some(last) = self.kept.holders.values().map(|holder| holder.expires.0).max() else { return Ok(()) };
        let (field, real) = redis_server::lifetime(self.server, &self.key);
        let stays = if self.cell.resized { 15 * 24 * 60 } else { 5 };
        prop_assert!(field >= last + stays * MINUTE, "{} {}", field, last);
        prop_assert!(real * 1000 >= field && (real - 1) * 1000 < field, "{} {}", real, field);
        Ok(())
    }
}
