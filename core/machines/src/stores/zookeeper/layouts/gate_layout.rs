//! Latches and barriers beside the locks of the layout `curator`. Their nodes are ours: Curator's
//! `DistributedDoubleBarrier` has no generation, and it has no latch that counts.

use std::sync::Arc;

use super::barrier::{Barrier, MOST_PARTIES, standing};
use super::counting::{Counting, count};
use super::latch::Latch;
use super::line_layout::LineLayout;
use super::seen::Place;
use crate::error::{Error, Result};
use crate::gate::{Answer, Gate};
use crate::guarantee::Guarantees;
use crate::lease::Inspection;
use crate::options::AcquireOptions;
use crate::protocol::{Inquiry, Layout, Protocol, Question};

/// The layout of one kind of gate.
#[derive(Clone, Debug)]
pub struct GateLayout {
    /// The locks'.
    pub locks: LineLayout,
    /// What it is for.
    pub gate: Gate,
}

impl GateLayout {
    fn place(&self) -> Place {
        match self.gate {
            Gate::Latch(_) => Place::Latch,
            Gate::Barrier(_) => Place::Barrier,
        }
    }
}

impl Layout for GateLayout {
    fn name(&self) -> &'static str {
        self.locks.name()
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees { reentrant: false, fair: false, ..self.locks.guarantees() }
    }

    fn key(&self, name: &str) -> Result<Arc<str>> {
        self.locks.key(name)
    }

    /// A latch holds nothing for longer than it takes to go on; a place lasts as long as its session.
    fn check(&self, options: &AcquireOptions) -> Result<()> {
        match self.gate {
            Gate::Latch(_) => Ok(()),
            Gate::Barrier(plan) if plan.parties > MOST_PARTIES => {
                let message = format!(
                    "parties is {}; on ZooKeeper a barrier has at most {MOST_PARTIES}, since all pass in one transaction",
                    plan.parties
                );
                Err(Error::unsupported("barrier", message))
            }
            Gate::Barrier(_) => self.locks.check(options),
        }
    }

    fn protocol(&self, key: Arc<str>) -> Box<dyn Protocol> {
        match self.gate {
            Gate::Latch(plan) => Box::new(Latch::new(key, plan)),
            Gate::Barrier(plan) => Box::new(Barrier::new(key, plan)),
        }
    }

    fn has_many_holders(&self) -> bool {
        true
    }

    fn question(&self, key: Arc<str>, question: Question) -> Option<Inquiry<'_, Answer>> {
        match (self.gate, question) {
            (Gate::Latch(_), Question::Look) => Some(count(key)),
            (Gate::Latch(_), Question::Change { attempt, operation, plan, copies: _ }) => {
                Some(Counting::new(key, attempt, operation, plan).ask())
            }
            (Gate::Barrier(_), Question::Look) => Some(standing(key)),
            (Gate::Barrier(_), Question::Change { .. }) => None,
        }
    }

    fn inspect<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        self.locks.seen(self.place(), name, key, false)
    }

    /// Nobody holds a gate.
    fn break_hold(&self, _: Arc<str>, _: u64) -> Inquiry<'_, bool> {
        Inquiry::Done(Ok(false))
    }

    fn list(&self) -> Inquiry<'static, Vec<String>> {
        self.locks.list()
    }
}
