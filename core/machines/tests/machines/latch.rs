//! The rules as latches keep them: to wait is to acquire what nobody has to give back.

use std::collections::BTreeSet;

use lockwright_machines::gate::{CountOperation, LatchPlan, MAX_IDLE, MIN_IDLE};
use lockwright_machines::latch_cell::{Changed, CountChange, LatchCell, LatchInMemory, Wait, Waited};
use lockwright_machines::latch_machine::{LatchCalls, LatchMachine, answer};
use lockwright_machines::lock_cell::Surroundings;

use super::*;

static CALLS: LatchCalls = LatchCalls::of_cell();

fn plan(count: u32) -> LatchPlan {
    LatchPlan::new(count, MIN_IDLE).unwrap()
}

fn waiting(inbox: Inbox) -> Rig {
    Rig::speaking(Box::new(LatchMachine::new(&CALLS, "x".into(), plan(3), true)), SERVICE, inbox)
}

fn numbers(numbers: &[i64]) -> Reply {
    Reply::List(numbers.iter().map(|number| Reply::Int(*number)).collect())
}

#[test]
fn an_open_latch_is_passed_in_one_request() {
    let mut rig = waiting(Inbox::Live);
    assert_eq!(rig.asks(), "latch.wait");
    rig.replied(5, 0, Reply::Int(1));
    assert_eq!(rig.hears(), ["granted 1..=1"]);
    rig.tell(6, Event::Release { used: 1 });
    assert_eq!(rig.hears(), ["released: released", "Ended"]);
    assert_eq!(rig.sent.len(), 1, "there is nothing to give back");
}

#[test]
fn who_waits_is_told_and_passes_without_another_request_however_old_the_news_are() {
    for told in [20, 9_999] {
        let mut rig = waiting(Inbox::Live);
        rig.replied(10, 0, numbers(&[1, 1_000_000, 2]));
        // By the store's clock it opened long ago.
        let event = StoreEvent::Granted { attempt: AttemptId(1), first: 1, last: 1, at: StoreTime(2) };
        rig.tell(told, Event::Push(&event));
        assert_eq!(rig.hears(), ["granted 1..=1"], "{told}");
        rig.tell(told + 1, Event::Release { used: 1 });
        assert_eq!((rig.hears().len(), rig.sent.len()), (2, 1));
    }
}

#[test]
fn a_process_that_slept_asks_whether_it_is_still_open() {
    let mut rig = waiting(Inbox::Live);
    rig.replied(10, 0, numbers(&[1, 1_000_000, 2]));
    rig.pushed(40_000, 2);
    assert_eq!((rig.hears().len(), rig.sent.len(), rig.asks()), (0, 2, "latch.wait"));
}

#[test]
fn a_wait_is_asked_again_within_ten_seconds_and_not_much_sooner() {
    let mut rig = waiting(Inbox::Live);
    rig.replied(0, 0, numbers(&[1, 1_000_000, 2]));
    let again = rig.session.poll_timeout().unwrap();
    assert!(again <= at(10_000) && again >= at(8_750), "{again:?}");
    rig.tick(10_000);
    assert_eq!((rig.sent.len(), rig.asks()), (2, "latch.wait"));
    assert!(Duration::from_secs(10) < MIN_IDLE / 2, "else it could be forgotten between two of them");
}

#[test]
fn nobody_asks_to_be_told_before_it_can_be() {
    let mut rig = waiting(Inbox::Closed);
    assert_eq!(rig.sent[0].1.args[2], 0.into());
    rig.replied(5, 0, numbers(&[0, 1_000_000, 3]));
    assert_eq!((rig.hears(), rig.learnt.len()), (vec!["OpenInbox".to_owned()], 1));
    rig.tell(10, Event::Inbox(Inbox::Live));
    assert_eq!((rig.sent.len(), &rig.sent[1].1.args[2]), (2, &1.into()));
}

#[test]
fn who_cannot_be_told_polls_and_leaves_nothing() {
    let mut rig = waiting(Inbox::Unavailable);
    for n in 1..5 {
        let (asked, noted) = (rig.sent.len(), &rig.sent.last().unwrap().1.args[2]);
        assert_eq!((asked, noted), (n, &0.into()));
        rig.replied(100 * n as u64, 100 * n as u64, numbers(&[0, 1_000_000, 3]));
        assert!(rig.session.poll_timeout().unwrap() <= at(100 * n as u64 + 64));
        rig.tick(100 * n as u64 + 64);
    }
    rig.replied(700, 690, Reply::Int(1));
    assert_eq!(rig.hears(), ["granted 1..=1"]);
    let mut rig = waiting(Inbox::Unavailable);
    rig.replied(5, 0, numbers(&[0, 1_000_000, 3]));
    rig.tell(6, Event::Cancel);
    assert_eq!((rig.hears(), rig.sent.len()), (vec!["Ended".to_owned()], 1));
}

#[test]
fn who_gives_up_is_told_no_more() {
    let mut rig = waiting(Inbox::Live);
    rig.replied(10, 0, numbers(&[1, 1_000_000, 2]));
    rig.tell(20, Event::Cancel);
    assert_eq!(rig.asks(), "latch.leave");
    rig.replied(30, 20, Reply::Int(1));
    assert_eq!(rig.hears(), ["Ended"]);
}

#[test]
fn what_makes_no_sense_is_no_open_latch() {
    for reply in [Reply::Int(0), Reply::Int(2), Reply::Nil, numbers(&[1, 5, 0]), numbers(&[3, 5, 1]), numbers(&[])] {
        let mut rig = waiting(Inbox::Live);
        rig.replied(5, 0, reply.clone());
        assert_eq!(rig.hears(), ["failed: protocol"], "{reply:?}");
        assert!(answer(&numbers(&[1, -1])).is_err() && answer(&numbers(&[1, 1_000_001])).is_err());
    }
}

#[test]
fn a_plan_is_in_range() {
    for count in [0, 1_000_001, u32::MAX] {
        assert_eq!(LatchPlan::new(count, MIN_IDLE).unwrap_err().kind(), Kind::InvalidConfig, "{count}");
        assert_eq!(plan(1).with_count(count).unwrap_err().kind(), Kind::InvalidConfig, "{count}");
    }
    for idle in [Duration::ZERO, MIN_IDLE - millis(1), MAX_IDLE + millis(1), Duration::MAX] {
        assert_eq!(LatchPlan::new(1, idle).unwrap_err().kind(), Kind::InvalidConfig, "{idle:?}");
    }
    assert!(LatchPlan::new(1, MAX_IDLE).is_ok() && LatchPlan::new(1_000_000, MIN_IDLE).is_ok());
}

/// A latch under test, and what must be true of it, counted in another way.
#[derive(Clone, Default)]
struct World {
    cell: LatchCell,
    kept: LatchInMemory,
    now: i64,
    waiting: BTreeSet<u128>,
    counted: BTreeSet<u128>,
    left: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(u128),
    Look(u128),
    Leave(u128),
    Down(u128),
    Set(u128),
}

const COPIES: Duration = Duration::from_secs(70);

impl World {
    fn change(
        &mut self,
        attempt: u128,
        operation: CountOperation,
        count: u32,
    ) -> (Changed, Vec<(InboxId, StoreEvent)>) {
        let (attempt, not_after) = (AttemptId(attempt), StoreTime(self.now));
        let change = CountChange { attempt, not_after, copies: COPIES, operation, plan: plan(count) };
        self.in_it(|cell, kept, env| {
            let Ok(changed) = cell.change(kept, env, &change);
            changed
        })
    }

    fn wait(&mut self, attempt: u128, wait: bool) -> Waited {
        let asker = Claimant { attempt: AttemptId(attempt), inbox: InboxId(attempt as u64), claim: millis(1) };
        let ask = Wait { asker, not_after: StoreTime(self.now), wait, plan: plan(2) };
        let (waited, pushes) = self.in_it(|cell, kept, env| {
            let Ok(waited) = cell.wait(kept, env, &ask);
            waited
        });
        assert!(pushes.is_empty());
        waited
    }

    fn in_it<T>(
        &mut self,
        act: impl FnOnce(&mut LatchCell, &mut LatchInMemory, &mut Surroundings<'_>) -> T,
    ) -> (T, Vec<(InboxId, StoreEvent)>) {
        let alive = |_| true;
        let mut env = Surroundings { now: StoreTime(self.now), token_floor: 1, alive: &alive, pushes: Vec::new() };
        let done = act(&mut self.cell, &mut self.kept, &mut env);
        (done, env.pushes)
    }

    /// Does it, and checks that it did what it had to.
    fn step(&mut self, step: Step) {
        self.now += 1;
        let before = self.left;
        match step {
            Step::Wait(who) | Step::Look(who) => {
                let wait = matches!(step, Step::Wait(_));
                let left = *self.left.get_or_insert(2);
                let waited = self.wait(who, wait);
                assert_eq!(
                    waited,
                    match (left, wait) {
                        (0, _) => Waited::Open,
                        (left, true) => Waited::Told(left),
                        (left, false) => Waited::Shut(left),
                    }
                );
                if left > 0 && wait {
                    self.waiting.insert(who);
                }
            }
            Step::Leave(who) => {
                self.waiting.remove(&who);
                let leave = |cell: &mut LatchCell, kept: &mut LatchInMemory, env: &mut Surroundings<'_>| {
                    let Ok(()) = cell.leave(kept, env, AttemptId(who));
                };
                self.in_it(leave);
            }
            Step::Down(who) => {
                if self.counted.insert(who) {
                    self.left = Some(self.left.unwrap_or(2).saturating_sub(1));
                }
                let (changed, pushes) = self.change(who, CountOperation::Down, 2);
                assert_eq!(Some(changed), self.left.map(Changed::Left));
                self.check_pushes(before, &pushes);
            }
            Step::Set(who) => {
                let refused = self.left.is_some_and(|left| left > 0) && !self.counted.contains(&who);
                if !refused && self.counted.insert(who) {
                    self.left = Some(1);
                }
                let (changed, pushes) = self.change(who, CountOperation::Set, 1);
                assert_eq!(Some(changed), if refused { Some(Changed::Refused) } else { self.left.map(Changed::Left) });
                assert!(pushes.is_empty());
            }
        }
        assert_eq!(self.cell.look(StoreTime(self.now)), self.left);
        let kept: BTreeSet<_> = self.kept.waiting.keys().map(|attempt| attempt.0).collect();
        assert_eq!(kept, self.waiting);
        assert!(self.left != Some(0) || kept.is_empty(), "somebody waits for an open latch");
    }

    fn check_pushes(&mut self, before: Option<u32>, pushes: &[(InboxId, StoreEvent)]) {
        let told: BTreeSet<_> = pushes
            .iter()
            .map(|(inbox, event)| match event {
                StoreEvent::Granted { attempt, .. } if attempt.0 == u128::from(inbox.0) => attempt.0,
                other => panic!("{other:?} to {inbox:?}"),
            })
            .collect();
        assert_eq!(told.len(), pushes.len(), "somebody is told twice");
        match (before, self.left) {
            (Some(1..), Some(0)) => assert_eq!(told, std::mem::take(&mut self.waiting)),
            _ => assert!(told.is_empty(), "{before:?}: {told:?}"),
        }
    }
}

#[test]
fn whatever_is_asked_in_whatever_order_each_counts_once_and_all_who_wait_are_told() {
    const STEPS: [Step; 8] = [
        Step::Wait(1),
        Step::Wait(2),
        Step::Look(3),
        Step::Leave(1),
        Step::Down(11),
        Step::Down(12),
        Step::Down(13),
        Step::Set(21),
    ];
    fn go(world: &World, deep: u32) {
        if deep > 0 {
            for step in STEPS {
                let mut next = world.clone();
                next.step(step);
                go(&next, deep - 1);
            }
        }
    }
    go(&World::default(), 6);
}

#[test]
fn a_request_that_comes_late_does_nothing() {
    let mut world = World { now: 10, ..World::default() };
    let late = |operation| CountChange {
        attempt: AttemptId(1),
        not_after: StoreTime(9),
        copies: COPIES,
        operation,
        plan: plan(2),
    };
    for operation in [CountOperation::Down, CountOperation::Set] {
        let (changed, _) = world.in_it(|cell, kept, env| cell.change(kept, env, &late(operation)));
        assert_eq!(changed, Ok(Changed::Late));
    }
    let asker = Claimant { attempt: AttemptId(1), inbox: InboxId(1), claim: millis(1) };
    let ask = Wait { asker, not_after: StoreTime(9), wait: true, plan: plan(2) };
    let (waited, _) = world.in_it(|cell, kept, env| cell.wait(kept, env, &ask));
    assert_eq!(waited, Ok(Waited::Late));
    assert_eq!((world.cell, world.kept), (LatchCell::default(), LatchInMemory::default()));
}

#[test]
fn a_copy_counts_nothing_for_as_long_as_one_can_come() {
    let mut world = World::default();
    assert_eq!(world.change(1, CountOperation::Down, 9).0, Changed::Left(8));
    world.now = COPIES.as_micros() as i64 - 1;
    assert_eq!(world.change(1, CountOperation::Down, 9).0, Changed::Left(8));
    world.now += 1;
    assert_eq!(
        world.change(1, CountOperation::Down, 9).0,
        Changed::Left(7),
        "it is forgotten, lest there are ever more"
    );
}

#[test]
fn a_latch_that_nobody_uses_is_forgotten_with_all_who_waited() {
    let mut world = World::default();
    assert_eq!(world.change(1, CountOperation::Down, 2).0, Changed::Left(1));
    let idle = MIN_IDLE.as_micros() as i64;
    world.now = idle - 1;
    assert_eq!(world.wait(5, true), Waited::Told(1));
    world.now += idle - 1;
    assert_eq!(world.cell.look(StoreTime(world.now)), Some(1));
    world.now += 1;
    assert_eq!(world.cell.look(StoreTime(world.now)), None);
    assert_eq!(world.change(2, CountOperation::Down, 1).0, Changed::Left(0));
    assert!(world.kept.waiting.is_empty());
}

#[test]
fn many_who_counted_are_not_kept_for_ever() {
    let mut world = World::default();
    for n in 0..1_000 {
        world.now += 1_000_000;
        world.change(n, CountOperation::Down, 1_000_000);
    }
    assert!(world.kept.counted.len() <= 256, "{}", world.kept.counted.len());
}
