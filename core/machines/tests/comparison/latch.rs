//! Latches: four who wait, and attempts to count so few that many are copies.

use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::gate::{CountOperation, Gate, LatchPlan, MAX_IDLE, MIN_IDLE};
use lockwright_machines::latch_cell::LatchCell;
use lockwright_machines::latch_machine::{LatchMachine, answer};
use lockwright_machines::native_machine::NativeLayout;
use lockwright_machines::protocol::{self, AttemptId, Intent, Layout, Terms};
use proptest::prelude::*;

use super::{Compared, Deed, MINUTE, Model, Question, terms as terms_of};

pub const COPIES: Duration = Duration::from_secs(70);

#[derive(Clone, Debug)]
pub enum Command {
    Wait { who: usize, wait: bool, late: bool },
    Leave { who: usize },
    Change { attempt: u128, operation: CountOperation, count: u32, idle: Duration, late: bool },
    Look,
    Inspect,
    Pass(i64),
}

pub fn terms(who: usize) -> Terms {
    terms_of(who, usize::MAX)
}

pub fn plan(count: u32, idle: Duration) -> LatchPlan {
    LatchPlan::new(count, idle).expect("in range")
}

/// The layout of latches beside these locks.
pub fn layout_of(native: &NativeLayout) -> Arc<dyn Layout> {
    native.gate(Gate::Latch(plan(1, MIN_IDLE))).expect("there is one")
}

impl Compared for LatchCell {
    type Command = Command;

    const TELLS_IN_ORDER: bool = false;

    fn commands() -> BoxedStrategy<Vec<Command>> {
        let late = || prop::bool::weighted(0.05);
        let who = 0..4_usize;
        let wait = (who.clone(), prop::bool::weighted(0.8), late()).prop_map(|(who, wait, late)| Command::Wait {
            who,
            wait,
            late,
        });
        let operation = prop_oneof![6 => Just(CountOperation::Down), 1 => Just(CountOperation::Set)];
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
        prop::collection::vec(command, 1..60).boxed()
    }

    fn step(model: &Model<Self>, command: &Command) -> Deed {
        let machine = || LatchMachine::new(model.layout.latch, model.key.clone(), plan(2, MIN_IDLE), true);
        let (layout, key) = (layout_of(&model.layout), model.key.clone());
        let asked = |question| {
            let request = layout.question(key.clone(), question).expect("one").asks()[0].clone();
            Question::read_by(request, |reply| answer(reply).map(|_| ()))
        };
        let question = match command {
            Command::Wait { who, wait, late } => {
                let intent = Intent::Acquire { terms: terms(*who), wait: *wait, prev: None };
                Question::of(machine(), intent).that_is_late(*late)
            }
            Command::Leave { who } => Question::of(machine(), Intent::Undo { terms: terms(*who), prev: None }),
            Command::Change { attempt, operation, count, idle, late } => {
                let (attempt, plan) = (AttemptId(*attempt), plan(*count, *idle));
                let change = protocol::Question::Change { attempt, copies: COPIES, operation: *operation, plan };
                asked(change).that_is_late(*late)
            }
            Command::Look => asked(protocol::Question::Look),
            Command::Inspect => {
                let count = model.cell.look(model.now);
                let request = layout.inspect("x", key.clone()).asks()[0].clone();
                Question::read_by(request, move |reply| {
                    let seen = layout.inspect("x", key.clone()).answered(reply)?;
                    assert_eq!(seen.latch.map(|latch| latch.count), count);
                    Ok(())
                })
            }
            Command::Pass(micros) => return Deed::Pause(*micros),
        };
        question.into()
    }

    fn look() -> Command {
        Command::Look
    }
}
