//! What is waited for and not held: latches and barriers.

use std::time::Duration;

use lockwright_machines::barrier_cell::Passage;
use lockwright_machines::error::{Error, Kind, Result};
use lockwright_machines::gate::{self, Answer, BarrierPlan, CountOperation, Gate, LatchPlan};
use lockwright_machines::latch_machine;
use lockwright_machines::layout_choice::Of;
use lockwright_machines::protocol::Question;
use lockwright_machines::time::Time;

use crate::engine::{Engine, Ticket};
use crate::inquiries::{Found, Want, unanswered};
use crate::lock::{Asked, Lock, Outcome};
use crate::store::Store;

/// A latch.
#[derive(Clone, Debug)]
pub struct Latch {
    gate: Lock,
    plan: LatchPlan,
}

/// A barrier.
#[derive(Clone, Debug)]
pub struct Barrier {
    gate: Lock,
}

impl Latch {
    /// What a wait [asks](Engine::acquire) for.
    pub fn gate(&self) -> &Lock {
        &self.gate
    }
}

impl Barrier {
    /// What a wait [asks](Engine::acquire) for.
    pub fn gate(&self) -> &Lock {
        &self.gate
    }
}

impl<S: Store> Engine<S> {
    /// The latch called `name`, open once it was counted down `count` times, and kept for `idle` after its last use.
    ///
    /// # Errors
    /// `invalid_config` for a bad name or a number out of range, `unsupported` where the layout has none, `closed`.
    pub fn latch(&self, name: &str, count: u32, idle: Duration) -> Result<Latch> {
        let plan = LatchPlan::new(count, idle).map_err(|error| self.on_name(name, error))?;
        Ok(Latch { gate: self.gate(name, Gate::Latch(plan), latch_machine::TTL)?, plan })
    }

    /// The barrier called `name`, which opens whenever `parties` wait for it; the place of one that died stands for
    /// `ttl`.
    ///
    /// # Errors
    /// As [`latch`](Self::latch).
    pub fn barrier(&self, name: &str, parties: u32, ttl: Duration) -> Result<Barrier> {
        let copies = gate::copies(&self.settings().options);
        let plan = BarrierPlan::new(parties, ttl, copies).map_err(|error| self.on_name(name, error))?;
        Ok(Barrier { gate: self.gate(name, Gate::Barrier(plan), ttl)? })
    }

    fn gate(&self, name: &str, gate: Gate, ttl: Duration) -> Result<Lock> {
        self.lock_of(Of::Gate(gate), name, gate::waits(self.lock_options(), ttl))
    }

    /// How whoever waited at a gate went on; nothing where it did not open in time.
    ///
    /// # Errors
    /// Why it is not known: `unavailable`, `lost`, and what the store says.
    pub fn passed(&mut self, now: Time, asked: Asked) -> Result<Option<Passage>> {
        match self.conclude(now, asked) {
            Ok(Outcome::Taken) => Ok(None),
            Err(error) if error.kind() == Kind::Timeout => Ok(None),
            Err(error) => Err(error),
            Ok(Outcome::Granted(mut pass)) => {
                let passage = Passage::of(pass.token());
                self.let_go(now, &mut pass);
                Ok(Some(passage))
            }
        }
    }

    /// Asks how many are still to count a latch down, which makes none. [`left`](Self::left) has the answer.
    ///
    /// # Errors
    /// `closed`.
    pub fn ask_count(&mut self, now: Time, latch: &Latch) -> Result<Ticket> {
        self.inquire(now, latch.gate.spot(), Want::Question(Question::Look))
    }

    /// Counts a latch down by one, once. [`left`](Self::left) has the answer.
    ///
    /// # Errors
    /// `closed`, `internal`.
    pub fn count_down(&mut self, now: Time, latch: &Latch) -> Result<Ticket> {
        self.change_count(now, latch, CountOperation::Down, latch.plan)
    }

    /// Has a latch count from `count`, if it is open or not there. [`left`](Self::left) has the answer.
    ///
    /// # Errors
    /// `invalid_config` for a number out of range, `closed`, `internal`.
    pub fn set_count(&mut self, now: Time, latch: &Latch, count: u32) -> Result<Ticket> {
        let plan = latch.plan.with_count(count).map_err(|error| self.on_name(latch.gate.name(), error))?;
        self.change_count(now, latch, CountOperation::Set, plan)
    }

    fn change_count(&mut self, now: Time, latch: &Latch, operation: CountOperation, plan: LatchPlan) -> Result<Ticket> {
        let (attempt, copies) = (self.mint()?, gate::copies(&self.settings().options));
        let question = Question::Change { attempt, copies, operation, plan };
        self.inquire(now, latch.gate.spot(), Want::Question(question))
    }

    /// How many are still to come by an answer that is [settled](Self::is_settled); of a latch that is not there those
    /// that it would have. Nothing where its count was to be set and was not.
    ///
    /// # Errors
    /// `unavailable`, and what the store says.
    pub fn left(&mut self, latch: &Latch, ticket: Ticket) -> Result<Option<u32>> {
        Ok(match self.answer(ticket)? {
            Answer::Left(count) => Some(count),
            Answer::Refused => None,
            _ => Some(latch.plan.count),
        })
    }

    /// Asks how many wait at a barrier. [`waiting`](Self::waiting) has the answer.
    ///
    /// # Errors
    /// `closed`.
    pub fn ask_waiting(&mut self, now: Time, barrier: &Barrier) -> Result<Ticket> {
        self.inquire(now, barrier.gate.spot(), Want::Question(Question::Look))
    }

    /// How many wait.
    ///
    /// # Errors
    /// `unavailable`, and what the store says.
    pub fn waiting(&mut self, ticket: Ticket) -> Result<u32> {
        match self.answer(ticket)? {
            Answer::Standing(standing) => Ok(standing),
            _ => Err(Error::new(Kind::Protocol, "barrier", "a barrier does not say how many stand there")),
        }
    }

    fn answer(&mut self, ticket: Ticket) -> Result<Answer> {
        match self.inquiries.take(ticket) {
            Some(Ok(Found::Answer(answer))) => Ok(answer),
            other => Err(unanswered("ask", other)),
        }
    }

    fn on_name(&self, name: &str, error: Error) -> Error {
        error.on_lock(name).on_store(self.settings().address.clone())
    }
}
