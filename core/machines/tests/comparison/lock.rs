//! Locks: acquired, renewed, given back, passed on and broken by eight claimants, the last of whom listens nowhere.

use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::by_rank::ByRank;
use lockwright_machines::lock_cell::LockCell;
use lockwright_machines::native_machine::NativeMachine;
use lockwright_machines::protocol::{AttemptId, Intent, Layout, Op, Previous, Protocol, Terms};
use lockwright_machines::rank::Rank;
use proptest::prelude::*;

use super::{CLAIM, Compared, Deed, MINUTE, Model, Question, TTL, terms as terms_of};

pub const CLAIMANTS: usize = 8;

#[derive(Clone, Debug)]
pub enum Command {
    Acquire { who: usize, wait: bool, rank: u8, prev: Option<usize>, late: bool },
    Renew { who: usize, ttl: Duration },
    Release { who: usize, beyond: i64 },
    Undo { who: usize, prev: Option<usize> },
    Export { who: usize },
    Resume { from: usize, who: usize, late: bool },
    Break { off: i64 },
    Inspect,
    Pass(i64),
}

pub fn terms(who: usize) -> Terms {
    terms_of(who, CLAIMANTS - 1)
}

/// What claimant `who` exports the lock to.
fn secret(who: usize) -> Terms {
    Terms::of_secret("model".into(), AttemptId(0xB000 + who as u128), CLAIM, "host\t0\trust\t".into())
}

fn command() -> impl Strategy<Value = Command> {
    let who = 0..CLAIMANTS;
    let previous = prop::option::weighted(0.4, 0..CLAIMANTS);
    let rank = prop_oneof![6 => Just(0_u8), 1 => Just(1), 1 => Just(3), 1 => Just(9)];
    let acquire = (who.clone(), prop::bool::weighted(0.7), rank, previous, prop::bool::weighted(0.05)).prop_map(
        |(who, wait, rank, prev, late)| {
            let prev = prev.filter(|prev| *prev != who);
            Command::Acquire { who, wait, rank, prev, late }
        },
    );
    let ttl = prop_oneof![Just(TTL), Just(TTL / 100), Just(TTL * 2880)];
    let pause = prop::sample::select(vec![
        0,
        1,
        50,
        400_000,
        1_000_000,
        11_000_000,
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

impl Compared for LockCell {
    type Command = Command;

    fn commands() -> BoxedStrategy<Vec<Command>> {
        prop::collection::vec(command(), 1..40).boxed()
    }

    fn step(model: &Model<Self>, command: &Command) -> Deed {
        let machine = || NativeMachine::new(model.layout.calls, model.key.clone(), true).with(model.layout.own);
        let first = model.cell.hold.as_ref().map_or(1, |hold| hold.first);
        let near = |off: i64| first.saturating_add_signed(off);
        let previous = |who: usize| Previous { terms: terms(who), used: near(3) };
        let passed = |from: &Terms, to: &Terms| {
            let request = machine().pass(from, to).expect("it can")[0].clone();
            Question::to(machine(), Op::Acquire, request)
        };
        let (layout, key): (Arc<dyn Layout>, _) = (Arc::new(model.layout.clone()), model.key.clone());
        let question = match command {
            Command::Acquire { who, wait, rank, prev, late } => {
                let terms = Terms { rank: Rank::new(*rank).expect("a rank"), ..terms(*who) };
                let intent = Intent::Acquire { terms, wait: *wait, prev: prev.map(previous) };
                Question::of(machine(), intent).that_is_late(*late)
            }
            Command::Renew { who, ttl } => Question::of(machine(), Intent::Renew { terms: terms(*who), ttl: *ttl }),
            Command::Release { who, beyond } => {
                Question::of(machine(), Intent::Release { terms: terms(*who), used: near(*beyond) })
            }
            Command::Undo { who, prev } => {
                Question::of(machine(), Intent::Undo { terms: terms(*who), prev: prev.map(previous) })
            }
            Command::Export { who } => passed(&terms(*who), &secret(*who)),
            Command::Resume { from, who, late } => passed(&secret(*from), &terms(*who)).that_is_late(*late),
            Command::Break { off } => {
                let token = near(*off);
                Question::beside(layout, move |layout| layout.break_hold(key.clone(), token))
            }
            Command::Inspect => Question::beside(layout, move |layout| layout.inspect("x", key.clone())),
            Command::Pass(micros) => return Deed::Pause(*micros),
        };
        question.into()
    }

    fn look() -> Command {
        Command::Inspect
    }

    fn line(line: &ByRank) -> Vec<AttemptId> {
        line.iter().map(|place| place.waiter.owner.attempt).collect()
    }
}
