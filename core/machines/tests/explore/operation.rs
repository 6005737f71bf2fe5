//! What somebody asks of the store beside all clients, again until it is answered: a count-down.

use std::hash::Hash;

use lockwright_machines::relative::Relative;

use crate::setup::Setup;
use crate::view::{Mix, View};

/// One such request. Each copy of it is told apart from others by when it was sent, which says until when it is not too
/// late.
#[derive(Clone, Debug, Default)]
pub struct Operation {
    /// Whether somebody wanted it yet.
    pub begun: bool,
    /// The copy whose answer is waited for: when it was sent.
    pub awaited: Option<u32>,
    /// Copies that nobody waits for any more, and that may still arrive.
    pub ghosts: Vec<u32>,
    /// Whether the store did it.
    pub done: bool,
}

impl Operation {
    /// Whether nothing of it is under way.
    pub fn is_silent(&self) -> bool {
        self.awaited.is_none() && self.ghosts.is_empty()
    }

    /// Whether it is longer on its way than anybody waits for an answer.
    pub fn is_overdue(&self, setup: &Setup, now: u32) -> bool {
        self.awaited.is_some_and(|sent| now > sent + setup.response_timeout)
    }

    pub fn send(&mut self, now: u32) {
        (self.begun, self.awaited) = (true, Some(now));
    }

    /// Those that stand alike behave alike.
    pub fn fingerprint(&self, setup: &Setup, view: &View, state: &mut Mix) {
        let age = |sent: &u32| view.ago(setup.time(*sent));
        (self.begun, self.done, self.awaited.as_ref().map(age)).hash(state);
        let mut ghosts: Vec<u64> = self.ghosts.iter().map(age).collect();
        ghosts.sort_unstable();
        ghosts.hash(state);
    }
}
