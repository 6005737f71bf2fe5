//! A lock that is merely held rests, and renews without waking.

use std::hash::Hasher;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lockwright_machines::machine::{Event, Hold, Notice, Outgoing};
use lockwright_machines::protocol::{Input, Intent, Step, Traits};
use lockwright_machines::token::Token;

use super::process::{Call, Effects, Handles, Part, Process, Settled};
use super::*;

fn native() -> Box<dyn Protocol> {
    Box::new(NativeMachine::new(&CALLS, "x".into(), true))
}

/// A process over it, whose requests are answered by hand.
struct World {
    process: Process,
    /// What was sent and not answered yet, with its time.
    sent: Vec<(Time, Outgoing)>,
    said: Vec<String>,
    /// Whether the last event did not wake it.
    rested_on: bool,
}

impl World {
    /// Task 1 holds, under token 100.
    fn holding(speaks: fn() -> Box<dyn Protocol>) -> Self {
        let mut world = World::new(speaks);
        world.acquire(0, 1, TTL);
        world.replies(0, Reply::Int(100));
        assert_eq!(world.hears(), ["1 holds 100"]);
        world
    }

    fn new(speaks: fn() -> Box<dyn Protocol>) -> Self {
        let part = Part { id: 1, salt: 0, speaks, store_timeout: Duration::from_secs(5), shares: false };
        let process = Process::new(part, Inbox::Live);
        World { process, sent: Vec::new(), said: Vec::new(), rested_on: false }
    }

    fn acquire(&mut self, now: u64, task: u64, ttl: Duration) {
        let mut effects = Effects::at(at(now));
        let service = Service { ttl, ..SERVICE };
        self.process.acquire(Ask { service, ..ask(task) }, None, &mut effects);
        self.gather(effects);
    }

    fn tell(&mut self, now: u64, event: Event<'_, Handles>) {
        let mut effects = Effects::at(at(now));
        self.rested_on = self.process.rests_on(event, &mut effects);
        self.gather(effects);
    }

    fn tick(&mut self, now: u64) {
        self.tell(now, Event::Tick);
    }

    /// The first write that is not answered yet is, in this way.
    fn answered(&mut self, now: u64, answer: Answer<'_>) {
        let (sent, Outgoing { slot, id, .. }) = self.sent.remove(0);
        self.tell(now, Event::Answered { slot, id, sent, answer });
    }

    fn replies(&mut self, now: u64, reply: Reply) {
        self.answered(now, Answer::Replies(&[reply]));
    }

    fn gather(&mut self, mut effects: Effects) {
        self.sent.extend(effects.sends.drain(..).map(|send| (effects.at, send)));
        self.said.extend(effects.settled.drain(..).map(|(_, settled)| match settled {
            Settled::Granted { hold, .. } => {
                let token = self.process.shown(hold.id()).expect("it has a token");
                format!("{} holds {token}", hold.id().0)
            }
            other => format!("{other:?}"),
        }));
        self.said.extend(effects.lost.drain(..).map(|(hold, reason)| format!("{} lost: {reason:?}", hold.id().0)));
        self.said.extend(effects.notices.drain(..).filter_map(|notice| match notice {
            Notice::Renewed { token, .. } => Some(format!("renewed under {}", token.expect("it has one").n)),
            Notice::NotRenewed { error, .. } => Some(format!("not renewed: {}", error.is_some())),
            _ => None,
        }));
    }

    fn hears(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }

    /// Milliseconds until which task `task` may believe that it holds.
    fn believes_until(&self, task: u64) -> Option<u64> {
        let until = self.process.valid_until(HoldId(task));
        assert_eq!(until, self.process.told_until(HoldId(task)));
        Some(until?.since(at(0)).as_millis() as u64)
    }
}

/// What is asked in the present conversation.
fn asked(world: &World) -> Vec<Op> {
    world.sent.iter().map(|(_, send)| send.id.op).collect()
}

#[test]
fn a_hold_that_rests_is_renewed_without_waking() {
    let mut world = World::holding(native);
    world.tick(5_000);
    assert!(world.rested_on && asked(&world).is_empty(), "nothing is due");
    for round in 1..=3 {
        let now = round * 10_000;
        world.tick(now);
        assert!(world.rested_on && asked(&world) == [Op::Renew]);
        let until = world.process.due().expect("it is held").since(at(0));
        assert_eq!(Some(until.as_millis() as u64), world.believes_until(1), "its answer decides what is due");
        world.replies(now + 20, Reply::Int(1));
        assert!(world.rested_on && world.hears() == ["renewed under 100"]);
        assert_eq!(world.believes_until(1), Some(now + 30_000 - 302));
    }
}

#[test]
fn an_answer_to_another_write_renews_nothing() {
    let mut world = World::holding(native);
    world.tick(10_000);
    let (sent, Outgoing { slot, id, .. }) = world.sent.remove(0);
    let others = [
        (slot + 1, id),
        (slot, RequestId { seq: id.seq - 1, ..id }),
        (slot, RequestId { attempt: AttemptId(9), ..id }),
        (slot, RequestId { op: Op::Release, ..id }),
    ];
    let before = world.believes_until(1);
    for (slot, id) in others {
        world.tell(10_020, Event::Answered { slot, id, sent, answer: Answer::Replies(&[Reply::Int(1)]) });
        assert!(world.hears().is_empty() && world.believes_until(1) == before, "{slot} {id:?}");
    }
    world.tell(10_040, Event::Answered { slot, id, sent, answer: Answer::Replies(&[Reply::Int(1)]) });
    assert!(world.believes_until(1) > before && world.hears() == ["renewed under 100"]);
}

#[test]
fn a_renewal_that_fails_or_finds_it_gone_wakes_the_machine() {
    let mut world = World::holding(native);
    world.tick(10_000);
    let error = Error::new(Kind::Unavailable, "renew", "no answer");
    world.answered(10_100, Answer::Unknown { error, void_after: at(10_100) });
    assert!(!world.rested_on && world.hears() == ["not renewed: true"]);
    world.tick(10_110);
    assert!(!world.rested_on && asked(&world) == [Op::Renew], "until it is confirmed it does not rest");
    world.replies(10_120, Reply::Int(1));
    assert_eq!(world.hears(), ["renewed under 100"]);
    world.tick(20_110);
    assert!(world.rested_on);
    world.replies(20_120, Reply::Int(0));
    assert!(!world.rested_on && world.hears() == ["1 lost: Gone"]);
    assert!(world.process.is_idle());
}

#[test]
fn what_rests_during_a_renewal_is_lost_at_its_deadline() {
    let mut world = World::holding(native);
    world.tick(10_000);
    world.tick(29_697);
    assert!(world.rested_on && world.hears().is_empty());
    world.tick(29_698);
    assert!(!world.rested_on && world.hears() == ["1 lost: Expired"]);
}

#[test]
fn a_renewal_on_its_way_does_not_count_for_the_longer_lease_of_the_next_task_at_rest() {
    let (short, long) = (millis(3_000), millis(90_000));
    let mut world = World::new(native);
    world.acquire(0, 1, short);
    world.acquire(0, 2, long);
    world.replies(0, Reply::Int(100));
    world.tell(0, Event::Verify);
    assert!(asked(&world) == [Op::Renew] && world.hears() == ["1 holds 100"]);
    world.tell(0, Event::Release { hold: HoldId(1), token: Some(Token::new(100)), waiter: Call::Release(TaskId(1)) });
    let said = world.hears();
    assert!(said.contains(&"2 holds 101".to_owned()), "{said:?}");
    // This process's turn is over, so that its queue may rest.
    world.tick(2_500);
    world.replies(2_600, Reply::Int(1));
    let until = world.believes_until(2);
    assert!(until.is_some_and(|until| until <= 3_000), "{until:?}");
}

/// Panics when it is to renew.
#[derive(Debug)]
struct Broken(Box<dyn Protocol>);

impl Protocol for Broken {
    fn step(&mut self, input: Input<'_>) -> Step {
        assert!(!matches!(input, Input::Begin(Intent::Renew { .. })), "a defect");
        self.0.step(input)
    }

    fn traits(&self) -> Traits {
        self.0.traits()
    }

    fn duplicate(&self) -> Box<dyn Protocol> {
        Box::new(Broken(self.0.duplicate()))
    }

    fn fingerprint(&self, state: &mut dyn Hasher) {
        self.0.fingerprint(state);
    }
}

#[test]
fn a_hold_whose_session_panics_at_rest_is_told_that_it_is_lost() {
    let mut world = World::holding(|| Box::new(Broken(native())));
    let mut effects = Effects::at(at(10_000));
    let step = || world.process.handle(Event::Tick, &mut effects);
    assert!(catch_unwind(AssertUnwindSafe(step)).is_err());
    let mut effects = Effects::at(at(10_000));
    world.process.give_up(&mut effects);
    world.gather(effects);
    assert_eq!(world.hears(), ["1 lost: Expired"]);
    assert!(world.process.is_idle());
}
