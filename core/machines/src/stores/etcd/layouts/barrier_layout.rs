//! Barriers beside the locks of the layout `concurrency`. Who waits at one is a [machine](super::barrier).

use std::sync::Arc;

use super::barrier::{Barrier, MOST_PARTIES};
use super::concurrency_layout::ConcurrencyLayout;
use super::survey::{self, Wanted};
use crate::error::{Error, Result};
use crate::gate::{Answer, BarrierPlan};
use crate::guarantee::Guarantees;
use crate::lease::{BARRIER, Inspection};
use crate::options::AcquireOptions;
use crate::protocol::{Inquiry, Layout, Protocol, Question};

/// The layout of barriers.
#[derive(Clone, Debug)]
pub(super) struct BarrierLayout {
    /// The locks'.
    pub(super) locks: ConcurrencyLayout,
    /// What a party says of it.
    pub(super) plan: BarrierPlan,
}

impl Layout for BarrierLayout {
    fn name(&self) -> &'static str {
        self.locks.name()
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees { reentrant: false, fair: false, ..self.locks.guarantees() }
    }

    fn key(&self, name: &str) -> Result<Arc<str>> {
        self.locks.key(name)
    }

    /// A place lasts as long as its client's lease.
    fn check(&self, options: &AcquireOptions) -> Result<()> {
        if self.plan.parties > MOST_PARTIES {
            let message = format!(
                "parties is {}; on etcd a barrier has at most {MOST_PARTIES}, since all pass in one transaction",
                self.plan.parties
            );
            return Err(Error::unsupported("barrier", message));
        }
        self.locks.check(options)
    }

    fn protocol(&self, key: Arc<str>) -> Box<dyn Protocol> {
        Box::new(Barrier::new(key, self.plan))
    }

    fn has_many_holders(&self) -> bool {
        true
    }

    fn question(&self, key: Arc<str>, question: Question) -> Option<Inquiry<'_, Answer>> {
        (question == Question::Look).then(|| survey::standing(key))
    }

    fn inspect<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        survey::inspect(self.name(), name, key, Wanted::One(BARRIER))
    }

    fn break_hold(&self, key: Arc<str>, token: u64) -> Inquiry<'_, bool> {
        survey::break_hold(key, token, Wanted::One(BARRIER))
    }

    fn list(&self) -> Inquiry<'static, Vec<String>> {
        self.locks.list()
    }
}
