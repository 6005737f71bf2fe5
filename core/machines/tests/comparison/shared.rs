//! Read/write locks and semaphores: fourteen claimants, the last two of whom listen nowhere.

use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::protocol::{AttemptId, Change, Intent, Layout, Op, Protocol, Terms};
use lockwright_machines::share::{ALL, Primitive, Share};
use lockwright_machines::shared_cell::{SharedCell, SharedInMemory};
use lockwright_machines::shared_machine::SharedMachine;
use proptest::prelude::*;

use super::{Compared, Deed, MINUTE, Model, Question, TTL, terms as terms_of};

const CLAIMANTS: usize = 14;

#[derive(Clone, Debug)]
pub enum Command {
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

pub fn terms(who: usize) -> Terms {
    terms_of(who, CLAIMANTS - 2)
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

impl Compared for SharedCell {
    type Command = Command;

    fn commands() -> BoxedStrategy<Vec<Command>> {
        let of = |primitive| prop::collection::vec(command(primitive), 1..50);
        prop_oneof![of(Primitive::RwLock), of(Primitive::Semaphore)].boxed()
    }

    fn step(model: &Model<Self>, command: &Command) -> Deed {
        let sharing = |share| SharedMachine::new(model.layout.shared, model.key.clone(), share, true);
        let reader = || sharing(Share::READ);
        let layout = || model.layout.shared(Share::permits(1, 1, false).expect("in range")).expect("there is one");
        let key: Arc<str> = model.key.clone();
        let question = match command {
            Command::Acquire { who, share, wait, late } => {
                let intent = Intent::Acquire { terms: terms(*who), wait: *wait, prev: None };
                Question::of(sharing(*share), intent).that_is_late(*late)
            }
            Command::Renew { who, ttl } => Question::of(reader(), Intent::Renew { terms: terms(*who), ttl: *ttl }),
            Command::Change { who, units, stale, late } => {
                let held = model.beside.holders.get(&terms(*who).attempt).map_or(1, |holder| holder.token);
                let token = held - u64::from(*stale && held > 1);
                let change = Change { terms: terms(*who), token, ttl: terms(*who).ttl, units: *units };
                Question::in_step(reader(), Op::Renew, |machine| machine.change(change)).that_is_late(*late)
            }
            Command::Release { who } => Question::of(reader(), Intent::Release { terms: terms(*who), used: 0 }),
            Command::Undo { who } => Question::of(reader(), Intent::Undo { terms: terms(*who), prev: None }),
            Command::Break { nth } => {
                let token = model.beside.holders.values().nth(*nth).map_or(7, |holder| holder.token);
                Question::beside(layout(), move |layout| layout.break_hold(key.clone(), token))
            }
            Command::Resize { permits } => {
                let permits = *permits;
                Question::beside(layout(), move |layout| layout.resize(key.clone(), permits).expect("a semaphore's"))
            }
            Command::Inspect => Question::beside(layout(), move |layout| layout.inspect("x", key.clone())),
            Command::Pass(micros) => return Deed::Pause(*micros),
        };
        question.into()
    }

    fn look() -> Command {
        Command::Inspect
    }

    fn line(beside: &SharedInMemory) -> Vec<AttemptId> {
        beside.line.iter().map(|seeker| seeker.who.owner.attempt).collect()
    }
}
