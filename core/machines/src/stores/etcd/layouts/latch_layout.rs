//! Latches beside the locks of the layout `concurrency`. To wait for one is to stand in a line in which only what shuts
//! it is in the way ([machine](super::concurrency)); counting down is asked of the store at once.

use std::sync::Arc;

use super::concurrency::Concurrency;
use super::concurrency_layout::ConcurrencyLayout;
use super::survey::{self, Wanted};
use super::{LATCH_CHANGE, LATCH_LOOK, plan_args};
use crate::arguments::attempt_arg;
use crate::error::Result;
use crate::gate::{Answer, CountOperation, LatchPlan};
use crate::guarantee::Guarantees;
use crate::latch_machine::{TTL, answer};
use crate::lease::{Inspection, LATCH};
use crate::options::AcquireOptions;
use crate::protocol::{Inquiry, Layout, Protocol, Question, Request};

/// The layout of latches.
#[derive(Clone, Debug)]
pub struct LatchLayout {
    /// The locks'.
    pub locks: ConcurrencyLayout,
    /// What a latch is if there is none.
    pub plan: LatchPlan,
}

impl Layout for LatchLayout {
    fn name(&self) -> &'static str {
        self.locks.name()
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees { reentrant: false, fair: false, ..self.locks.guarantees() }
    }

    fn key(&self, name: &str) -> Result<Arc<str>> {
        self.locks.key(name)
    }

    /// Nothing is held for longer than it takes to go on.
    fn check(&self, _: &AcquireOptions) -> Result<()> {
        Ok(())
    }

    fn protocol(&self, key: Arc<str>) -> Box<dyn Protocol> {
        Box::new(Concurrency::waiting(key, self.locks.ttl.max(TTL), self.plan).seated(&self.locks.seats))
    }

    fn has_many_holders(&self) -> bool {
        true
    }

    fn question(&self, key: Arc<str>, question: Question) -> Option<Inquiry<'_, Answer>> {
        let Question::Change { attempt, operation, plan, copies: _ } = question else {
            return Some(Inquiry::of(Request::new(&LATCH_LOOK, key, []), answer));
        };
        let does = match operation {
            CountOperation::Down => "down",
            CountOperation::Set => "set",
        };
        let mut request = Request::new(&LATCH_CHANGE, key, [attempt_arg(attempt), does.into()]);
        request.args.extend(plan_args(plan));
        Some(Inquiry::of(request, answer))
    }

    fn inspect<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        survey::inspect(self.name(), name, key, Wanted::One(LATCH))
    }

    fn break_hold(&self, key: Arc<str>, token: u64) -> Inquiry<'_, bool> {
        survey::break_hold(key, token, Wanted::One(LATCH))
    }

    fn list(&self) -> Inquiry<'static, Vec<String>> {
        self.locks.list()
    }
}
