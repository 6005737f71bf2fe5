//! Barriers: nine parties, three of whom pass together, or as many as somebody says.

use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::barrier_cell::BarrierCell;
use lockwright_machines::barrier_machine::{BarrierMachine, standing};
use lockwright_machines::gate::{BarrierPlan, Gate};
use lockwright_machines::native_machine::NativeLayout;
use lockwright_machines::protocol::{self, Intent, Layout, Request, Terms};
use proptest::prelude::*;

use super::{Compared, Deed, Model, Question, terms as terms_of};

pub const SECOND: i64 = 1_000_000;
const COPIES: Duration = Duration::from_secs(70);

#[derive(Clone, Debug)]
pub enum Command {
    Arrive { who: usize, wait: bool, late: bool, parties: u32, ttl: u64 },
    Leave { who: usize },
    Look,
    Inspect,
    Pass(i64),
}

pub fn terms(who: usize) -> Terms {
    terms_of(who, usize::MAX)
}

pub fn plan(parties: u32, ttl: u64) -> BarrierPlan {
    BarrierPlan::new(parties, Duration::from_secs(ttl), COPIES).expect("in range")
}

pub fn arrival(who: usize, wait: bool) -> Intent {
    Intent::Acquire { terms: terms(who), wait, prev: None }
}

/// The layout of barriers beside these locks.
pub fn layout_of(native: &NativeLayout) -> Arc<dyn Layout> {
    native.gate(Gate::Barrier(plan(3, 10))).expect("there is one")
}

/// The request that looks at a barrier.
pub fn look(native: &NativeLayout, key: &Arc<str>) -> Request {
    layout_of(native).question(key.clone(), protocol::Question::Look).expect("one").asks()[0].clone()
}

impl Compared for BarrierCell {
    type Command = Command;

    fn commands() -> BoxedStrategy<Vec<Command>> {
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
            1 => Just(Command::Inspect),
            4 => prop::sample::select(pauses).prop_map(Command::Pass),
        ];
        prop::collection::vec(command, 1..60).boxed()
    }

    fn step(model: &Model<Self>, command: &Command) -> Deed {
        let machine = |parties, ttl| BarrierMachine::new(model.layout.barrier, model.key.clone(), plan(parties, ttl));
        let key = model.key.clone();
        let question = match *command {
            Command::Arrive { who, wait, late, parties, ttl } => {
                Question::of(machine(parties, ttl), arrival(who, wait)).that_is_late(late)
            }
            Command::Leave { who } => Question::of(machine(3, 10), Intent::Undo { terms: terms(who), prev: None }),
            Command::Look => Question::read_by(look(&model.layout, &key), |reply| standing(reply).map(|_| ())),
            Command::Inspect => {
                Question::beside(layout_of(&model.layout), move |layout| layout.inspect("x", key.clone()))
            }
            Command::Pass(micros) => return Deed::Pause(micros),
        };
        question.into()
    }

    fn look() -> Command {
        Command::Look
    }
}
