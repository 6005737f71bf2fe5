//! Barriers: the model of a store is the shipped reference semantics. What became of each party is written down beside
//! it and never forgotten, so that whatever anybody is told, however late, is compared with what happened.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::time::Duration;

use lockwright_machines::barrier_cell::{Arrive, BarrierCell, BarrierInMemory, BarrierStorage, Fate, Party, Passage};
use lockwright_machines::barrier_machine::{BarrierCalls, BarrierMachine, Procedure};
use lockwright_machines::cell::Cell;
use lockwright_machines::gate::BarrierPlan;
use lockwright_machines::protocol::{AttemptId, InboxId, Op, Protocol, Reply, Request, StoreEvent};
use lockwright_machines::relative::Relative;
use lockwright_machines::remembered::Remembered;
use lockwright_machines::time::{StoreTime, Time};

use super::{Around, Checked, Record, name_of, run_cell};
use crate::process::process_of;
use crate::view::{Mix, View};

static CALLS: BarrierCalls = BarrierCalls::of_cell();

/// For how long a place stands, in seconds, which are ticks. It is renewed each tick.
pub const TTL: u32 = 3;

/// Later than any run lasts, in microseconds.
const NEVER: i64 = 1_000_000_000_000_000;

/// What is remembered for more ticks than this is not forgotten while anything is under way.
const REMEMBERED: u64 = 24;

/// The record as it is to be, for two parties that never lose patience with the store.
pub type BarrierRecord = Seeded<0, 2, 2002>;
/// The same for three.
pub type ThreeRecord = Seeded<0, 3, 2002>;
/// For two that wait for an answer for two ticks and a connection for one: twice both is how long copies may come.
pub type ForgetfulRecord = Seeded<0, 2, 6>;
/// For two, with a fault.
pub type Faulty<const FAULT: u8> = Seeded<FAULT, 2, 2002>;

/// One that does not remember who gave up.
pub const FORGETS_LEAVING: u8 = 1;
/// One that counts a copy of an arrival as another party.
pub const COUNTS_COPIES: u8 = 2;
/// One that tells nobody that the others are there.
pub const TELLS_NOBODY: u8 = 3;
/// One that tells whoever gives up that it came in time, though it did not.
pub const DENIES_PASSING: u8 = 4;
/// One that opens for one less than there are.
pub const OPENS_EARLY: u8 = 5;

/// The record for so many parties, or one with a fault; for so many seconds copies may come.
#[derive(Clone, Debug, Default)]
pub struct Seeded<const FAULT: u8, const PARTIES: u32, const COPIES: u64> {
    cell: BarrierCell,
    kept: BarrierInMemory,
    /// What became of each party, and until when the store remembers it.
    fates: BTreeMap<AttemptId, (Fate, StoreTime)>,
    last: u64,
}

impl<const FAULT: u8, const PARTIES: u32, const COPIES: u64> Seeded<FAULT, PARTIES, COPIES> {
    fn plan() -> BarrierPlan {
        let seconds = Duration::from_secs;
        BarrierPlan::new(PARTIES, seconds(TTL.into()), seconds(COPIES)).expect("there may be so many")
    }

    /// The request as this record takes it.
    fn taken(&mut self, call: &Procedure) -> Procedure {
        match (FAULT, call.clone()) {
            (FORGETS_LEAVING, Procedure::Leave(attempt, _)) => Procedure::Leave(attempt, Duration::ZERO),
            (OPENS_EARLY, Procedure::Arrive(ask)) => Procedure::Arrive(Arrive { parties: PARTIES - 1, ..ask }),
            (COUNTS_COPIES, call @ Procedure::Arrive(_)) => {
                self.kept.fates = Remembered::default();
                call
            }
            (_, call) => call,
        }
    }

    /// Writes down what `call` did: whom it let pass, or who gave up.
    fn note(&mut self, stood: &BarrierInMemory, call: &Procedure, reply: &Reply, now: StoreTime) {
        let mut passed = |kept: &mut BarrierInMemory, attempt, memory| {
            if let Ok(Some(fate @ Fate::Passed(passage))) = kept.recall(attempt, now)
                && self.fates.get(&attempt).is_none_or(|(known, _)| *known != fate)
            {
                self.fates.insert(attempt, (fate, now.after(memory)));
                self.last = self.last.max(passage.token().n);
            }
        };
        match call {
            Procedure::Arrive(ask) => {
                for party in stood.parties.values() {
                    passed(&mut self.kept, party.attempt, party.memory);
                }
                passed(&mut self.kept, ask.asker.attempt, ask.memory);
            }
            Procedure::Leave(attempt, memory) if *reply == Reply::Int(1) => {
                let fate = self.fates.get(attempt).map_or(Fate::Left, |(fate, _)| *fate);
                self.fates.insert(*attempt, (fate, now.after(*memory)));
            }
            _ => {}
        }
    }

    fn standing(&self, now: StoreTime) -> impl Iterator<Item = &Party> {
        self.kept.parties.values().filter(move |party| party.ends > now)
    }

    /// Those who passed together are as many as there are, each of them once and for the first time.
    fn check_passed(&self, before: &Self, call: &Procedure) -> Checked<()> {
        let explained = || Self::explain(call);
        let mut indexes = Vec::new();
        for (attempt, (fate, _)) in &self.fates {
            let old = before.fates.get(attempt).map(|(fate, _)| *fate);
            let Fate::Passed(Passage { index, generation }) = *fate else { continue };
            if old == Some(*fate) {
                continue;
            }
            if let Some(old) = old {
                return Err(format!("{} counts {} which was {old:?}", explained(), name_of(*attempt)));
            }
            if generation != self.cell.generation || generation <= before.cell.generation {
                return Err(format!("{} lets {} pass in generation {generation}", explained(), name_of(*attempt)));
            }
            indexes.push(index);
        }
        indexes.sort_unstable();
        if !indexes.is_empty() && !indexes.iter().copied().eq(0..PARTIES) {
            return Err(format!("{} lets {indexes:?} of {PARTIES} pass", explained()));
        }
        Ok(())
    }
}

/// In how many ticks that is, where it is to be told from all later ones.
fn ticks_until(at: StoreTime, view: &View) -> u64 {
    ((at.0 as u64 * 1000).saturating_sub(view.now) / view.tick).min(REMEMBERED)
}

impl<const FAULT: u8, const PARTIES: u32, const COPIES: u64> Record for Seeded<FAULT, PARTIES, COPIES> {
    type Call = Procedure;

    const BLOCK: u64 = 1;
    const PARTIES: usize = PARTIES as usize;

    fn machine() -> Box<dyn Protocol> {
        Box::new(BarrierMachine::new(&CALLS, "L".into(), Self::plan()))
    }

    fn read(request: &Request) -> Option<Procedure> {
        BarrierCell::read(request)
    }

    fn run(&mut self, call: &Procedure, around: &Around<'_>) -> (Reply, Vec<(InboxId, StoreEvent)>) {
        let stood = self.kept.clone();
        let around = Around { token_floor: around.now.0 as u64, ..*around };
        let taken = self.taken(call);
        let (mut reply, mut pushes) = run_cell(&mut self.cell, &mut self.kept, taken, &around);
        if FAULT == DENIES_PASSING && matches!(call, Procedure::Leave(..)) {
            reply = Reply::Int(1);
        }
        if FAULT == TELLS_NOBODY {
            pushes.clear();
        }
        self.note(&stood, call, &reply, around.now);
        (reply, pushes)
    }

    fn renews(_: &Procedure) -> Option<Duration> {
        None
    }

    fn holds(&self) -> impl Iterator<Item = (AttemptId, StoreTime)> {
        std::iter::empty()
    }

    fn lasts(&self, is: &dyn Fn(AttemptId) -> bool) -> Option<StoreTime> {
        // That somebody passed stays true.
        let passed = |(attempt, (fate, _)): (&AttemptId, &(Fate, StoreTime))| is(*attempt) && *fate != Fate::Left;
        self.fates.iter().any(passed).then_some(StoreTime(NEVER))
    }

    fn fate(&self, process: usize) -> Option<Fate> {
        self.fates.iter().find(|(attempt, _)| process_of(**attempt) == process).map(|(_, (fate, _))| *fate)
    }

    fn line(&self) -> impl Iterator<Item = AttemptId> {
        self.kept.parties.values().map(|party| party.attempt)
    }

    fn last(&self) -> u64 {
        self.last
    }

    fn check(&self, before: &Self, call: &Procedure, around: &Around<'_>) -> Checked<()> {
        let explained = || Self::explain(call);
        self.check_passed(before, call)?;
        for attempt in self.line() {
            if let Some((fate, _)) = self.fates.get(&attempt) {
                return Err(format!("{} lets {} stand there again, which was {fate:?}", explained(), name_of(attempt)));
            }
        }
        let standing = self.standing(around.now).count();
        if standing >= Self::PARTIES {
            return Err(format!("{} leaves {standing} of {PARTIES} waiting for each other", explained()));
        }
        Ok(())
    }

    fn fingerprint(&self, view: &View, state: &mut Mix) {
        (self.cell.generation > 0, self.cell.parties, ticks_until(self.cell.goes, view)).hash(state);
    }

    fn fingerprint_of(&self, client: usize, view: &View, state: &mut Mix) {
        let is_mine = |attempt: AttemptId| process_of(attempt) == client;
        let now = StoreTime((view.now / 1000) as i64);
        for (order, party) in self.standing(now).enumerate().filter(|(_, party)| is_mine(party.attempt)) {
            (1_u8, order, view.attempt(party.attempt), view.ahead_at_store(party.ends)).hash(state);
        }
        for (attempt, (fate, until)) in self.fates.iter().filter(|(attempt, _)| is_mine(**attempt)) {
            let token = match fate {
                Fate::Passed(passage) => Some(view.token(passage.token().n)),
                Fate::Left => None,
            };
            (2_u8, view.attempt(*attempt), token, ticks_until(*until, view)).hash(state);
        }
    }

    fn fingerprint_call(call: &Procedure, sent: Time, view: &View, state: &mut Mix) {
        match call {
            Procedure::Arrive(ask) => (1_u8, ask.wait, view.ahead_at_store(ask.not_after), view.ago(sent)).hash(state),
            Procedure::Leave(..) => 2_u8.hash(state),
            other => unreachable!("{other:?} is no client's"),
        }
    }

    fn fingerprint_reply(op: Op, reply: &Reply, sent: Time, _: bool, view: &View, state: &mut Mix) {
        let Reply::List(list) = reply else { return (op, reply, view.ago(sent)).hash(state) };
        (op, list.len(), view.ago(sent)).hash(state);
        match list.as_slice() {
            [Reply::Int(3), Reply::Int(index), Reply::Int(generation)] => {
                let passage = Passage::new(*index, *generation).expect("it is in range");
                (3_u8, view.token(passage.token().n)).hash(state);
            }
            // Only who came too late learns the store's clock.
            [Reply::Int(2), Reply::Int(at)] => (2_u8, view.ago_at_store(StoreTime(*at))).hash(state),
            [code, ..] => code.hash(state),
            [] => unreachable!("nothing is no answer"),
        }
    }

    fn explain(call: &Procedure) -> String {
        match call {
            Procedure::Arrive(ask) => format!("arrive {}", name_of(ask.asker.attempt)),
            Procedure::Leave(attempt, _) => format!("leave {}", name_of(*attempt)),
            other => format!("{other:?}"),
        }
    }

    fn explain_reply(reply: &Reply, _: i64, _: i64) -> String {
        format!("{reply:?}")
    }

    fn describe(&self, now: StoreTime, tick: i64) -> String {
        let shown = |party: &Party| {
            format!("{} for {} ticks", name_of(party.attempt), party.ends.micros_since(now) as f64 / tick as f64)
        };
        let standing: Vec<String> = self.standing(now).map(shown).collect();
        let fates = self.fates.iter().map(|(attempt, (fate, _))| format!("{} {fate:?}", name_of(*attempt)));
        format!("[{}] stand; {}", standing.join(", "), fates.collect::<Vec<_>>().join(", "))
    }
}
