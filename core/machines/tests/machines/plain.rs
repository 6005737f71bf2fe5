//! A layout without fencing tokens: what is held is known by the task that it was granted to, and by nothing else.

use std::hash::Hasher;

use lockwright_machines::lease::ReleaseOutcome;
use lockwright_machines::machine::{self, Hold};
use lockwright_machines::protocol::{Grant, Input, Intent, Push, Requests, Step, Term, Traits, Verdict};
use lockwright_machines::queue::OwnerId;

use super::process::{Call, Effects, Part, Process, Settled};
use super::*;

/// Acquires by being answered with 1. It would set a block of tokens aside, if it had any.
#[derive(Clone, Debug)]
struct Plain;

static ASK: lockwright_machines::protocol::Call =
    lockwright_machines::protocol::Call { name: "ask", body: &[], batch: false };

impl Protocol for Plain {
    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin(intent) => {
                let used = if let Intent::Release { used, .. } = intent { used } else { 0 };
                Step::Ask(Requests::from_iter([Request::new(&ASK, "x".into(), [Arg::Int(used as i64)])]))
            }
            Input::Reply(op, _) => Step::Done(match op {
                Op::Acquire => Verdict::Granted(Grant { tokens: None, term: Term::FromRequest, prev: None }),
                Op::Renew => Verdict::Renewed,
                Op::Release => Verdict::Released(ReleaseOutcome::Released),
                Op::Undo => Verdict::Undone,
            }),
            Input::Event(_) => Step::Ignore,
        }
    }

    fn traits(&self) -> Traits {
        Traits { block: 64, yields: false, push: Push::None, bound: false }
    }

    fn duplicate(&self) -> Box<dyn Protocol> {
        Box::new(self.clone())
    }

    fn fingerprint(&self, _: &mut dyn Hasher) {}
}

/// A process over it, every request of which is answered at once.
struct World {
    process: Process,
    settled: Vec<(Call, Settled)>,
    asked: Vec<Op>,
}

impl World {
    fn new() -> Self {
        let speaks = || Box::new(Plain) as Box<dyn Protocol>;
        let part = Part { id: 1, salt: 0, speaks, store_timeout: Duration::from_secs(5), shares: false };
        World { process: Process::new(part, Inbox::Unavailable), settled: Vec::new(), asked: Vec::new() }
    }

    fn perform(&mut self, mut effects: Effects) -> Vec<(HoldId, LossReason)> {
        let mut lost = Vec::new();
        loop {
            self.settled.append(&mut effects.settled.drain(..).collect());
            lost.extend(effects.lost.drain(..).map(|(hold, reason)| (hold.id(), reason)));
            let Some(send) = effects.sends.pop() else { return lost };
            self.asked.push(send.id.op);
            let answer = Answer::Replies(&[Reply::Int(1)]);
            let answered = machine::Event::Answered { slot: send.slot, id: send.id, sent: effects.at, answer };
            self.process.handle(answered, &mut effects);
        }
    }

    fn tell(&mut self, now: u64, event: machine::Event<'_, super::process::Handles>) -> Vec<(HoldId, LossReason)> {
        let mut effects = Effects::at(at(now));
        self.process.handle(event, &mut effects);
        self.perform(effects)
    }

    fn acquire(&mut self, ask: Ask) {
        let mut effects = Effects::at(at(0));
        self.process.acquire(ask, None, &mut effects);
        self.perform(effects);
    }

    fn release(&mut self, task: u64) -> ReleaseOutcome {
        let waiter = Call::Release(TaskId(task));
        self.tell(1, machine::Event::Release { hold: HoldId(task), token: None, waiter });
        let at = self.settled.iter().position(|(call, _)| *call == waiter).expect("it is answered");
        let Settled::Released(outcome) = self.settled.remove(at).1 else { panic!("no release") };
        outcome
    }

    /// The depth at which each task holds that was granted the lock, and by what that is known.
    fn granted(&mut self) -> Vec<(HoldId, u32)> {
        let granted = self.settled.drain(..).map(|(_, settled)| match settled {
            Settled::Granted { hold, depth } => {
                assert_eq!(hold.shown(), None);
                (hold.id(), depth)
            }
            other => panic!("{other:?}"),
        });
        granted.collect()
    }
}

#[test]
fn rule_9_a_hold_without_a_token_is_given_back_by_its_own_task_alone() {
    let mut world = World::new();
    world.acquire(ask(1));
    world.acquire(ask(2));
    assert_eq!(world.granted(), [(HoldId(1), 1)]);
    assert_eq!(world.release(1), ReleaseOutcome::Released);
    assert_eq!(world.granted(), [(HoldId(2), 1)]);
    // Nothing is handed on where no token would rise.
    assert_eq!(world.asked, [Op::Acquire, Op::Release, Op::Acquire]);
    assert_eq!(world.release(1), ReleaseOutcome::Expired);
    assert!(world.process.valid_until(HoldId(2)).is_some() && world.process.valid_until(HoldId(1)).is_none());
    assert_eq!(world.release(2), ReleaseOutcome::Released);
    assert!(world.process.is_idle());
}

#[test]
fn rule_9_a_lock_without_tokens_is_not_handed_on() {
    let mut queue = Queue::new(64);
    for task in 1..=2 {
        queue.handle(at(0), queue::Event::Acquire(ask(task)));
    }
    queue.handle(at(0), queue::Event::Granted { contender: ContenderId(0), tokens: None });
    drain(&mut queue);
    let said = give_back(&mut queue, at(0), 1);
    assert!(said.contains("Yield") && said.contains("used: 0"), "{said}");
}

#[test]
fn rule_10_a_hold_without_a_token_is_entered_again_extended_and_lost() {
    let mut world = World::new();
    let owned = |task| Ask { owner: Some(OwnerId(7)), ..ask(task) };
    world.acquire(owned(1));
    world.acquire(owned(2));
    assert_eq!(world.granted(), [(HoldId(1), 1), (HoldId(1), 2)]);
    let waiter = Call::Extend(TaskId(1));
    world.tell(2, machine::Event::Extend { hold: HoldId(1), ttl: 2 * TTL, waiter });
    assert!(matches!(world.settled.pop(), Some((_, Settled::Extended(true)))));
    assert_eq!(world.release(1), ReleaseOutcome::Kept(1));
    assert_eq!(world.tell(70_000, machine::Event::Tick), [(HoldId(1), LossReason::Expired)]);
    assert_eq!(world.release(1), ReleaseOutcome::Expired);
}
