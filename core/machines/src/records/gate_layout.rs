//! The layout of latches and barriers beside a store's `native` locks, which is that of the locks but for its machine.

use std::fmt;
use std::sync::Arc;

use crate::barrier_machine::{BarrierMachine, standing};
use crate::gate::{Answer, Gate};
use crate::guarantee::Guarantees;
use crate::latch_machine::{LatchMachine, answer};
use crate::lease::Inspection;
use crate::native_machine::NativeLayout;
use crate::protocol::{Inquiry, Layout, Protocol, Question, Request};

/// The layout of gates: the same keys as the locks', so that nothing is two things at once.
pub struct GateLayout {
    /// The locks'.
    pub native: NativeLayout,
    /// What it is for.
    pub gate: Gate,
}

impl fmt::Debug for GateLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GateLayout({}, {:?})", (self.native.guarantees)().store, self.gate)
    }
}

impl Layout for GateLayout {
    fn name(&self) -> &'static str {
        self.native.name()
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees { reentrant: false, fair: false, ..(self.native.guarantees)() }
    }

    fn key(&self, name: &str) -> crate::Result<Arc<str>> {
        self.native.key(name)
    }

    fn protocol(&self, key: Arc<str>) -> Box<dyn Protocol> {
        match self.gate {
            Gate::Latch(plan) => Box::new(LatchMachine::new(self.native.latch, key, plan, self.guarantees().push)),
            Gate::Barrier(plan) => Box::new(BarrierMachine::new(self.native.barrier, key, plan)),
        }
    }

    fn has_many_holders(&self) -> bool {
        true
    }

    fn question(&self, key: Arc<str>, question: Question) -> Option<Inquiry<'_, Answer>> {
        match (self.gate, question) {
            (Gate::Latch(_), question) => Some(Inquiry::of(self.native.latch.question(key, question), answer)),
            (Gate::Barrier(_), Question::Look) => {
                let look = Request::new(&self.native.barrier.look, key, []);
                Some(Inquiry::of(look, |reply| standing(reply).map(Answer::Standing)))
            }
            (Gate::Barrier(_), Question::Change { .. }) => None,
        }
    }

    fn inspect<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        self.native.look(name, key, [self.gate.name()])
    }

    fn break_hold(&self, key: Arc<str>, token: u64) -> Inquiry<'_, bool> {
        self.native.break_hold(key, token)
    }

    fn list(&self) -> Inquiry<'static, Vec<String>> {
        self.native.list()
    }
}
