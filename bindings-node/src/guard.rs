//! What an environment holds. JavaScript has numbers of it: a number costs nothing to make, and nothing to collect.

use std::collections::HashMap;

use lockwright::lease::LossReason;
use lockwright::{Error, Guard, Kind, Result};
use napi_derive::napi;

/// What is held, by number.
#[derive(Default)]
pub(crate) struct Guards {
    guards: HashMap<u32, Guard>,
    last: u32,
}

impl Guards {
    pub(crate) fn keep(&mut self, guard: Guard) -> u32 {
        // A number is free again when its guard has ended, at the latest after four billion others.
        loop {
            self.last = self.last.wrapping_add(1);
            if !self.guards.contains_key(&self.last) {
                break;
            }
        }
        self.guards.insert(self.last, guard);
        self.last
    }

    /// Keeps a guard under the number that it had.
    pub(crate) fn put_back(&mut self, number: u32, guard: Guard) {
        self.guards.insert(number, guard);
    }

    pub(crate) fn get(&self, operation: &'static str, number: u32) -> Result<&Guard> {
        self.guards.get(&number).ok_or_else(|| released(operation))
    }

    pub(crate) fn get_mut(&mut self, operation: &'static str, number: u32) -> Result<&mut Guard> {
        self.guards.get_mut(&number).ok_or_else(|| released(operation))
    }

    pub(crate) fn take(&mut self, operation: &'static str, number: u32) -> Result<Guard> {
        self.guards.remove(&number).ok_or_else(|| released(operation))
    }

    /// Whoever used them is gone, maybe in the middle of what they protect: the leases run out.
    pub(crate) fn abandon(&mut self) {
        self.guards.drain().for_each(|(_, guard)| guard.abandon());
    }
}

/// What a loss means, for a person.
#[napi(catch_unwind)]
pub fn sentence(why: String) -> &'static str {
    let known = LossReason::ALL.iter().find(|reason| reason.code() == why);
    known.map_or("the reason is not known", LossReason::sentence)
}

fn released(operation: &'static str) -> Error {
    Error::new(Kind::NotOwned, operation, "this guard was released already")
}
