//! Who gets in line before whom, while the inbox is being opened: a [`LineUp`] and the locks of those who stand in it.

use std::collections::HashMap;

use lockwright_machines::machine::{LineUp, Turn};
use lockwright_machines::session::Inbox;

/// How many are let in at a time.
const AT_ONCE: usize = 100;

/// See the [module](self).
pub(crate) struct Places {
    line: LineUp,
    /// The locks, by the slots of those who stand in it.
    locks: HashMap<u64, u64>,
}

impl Places {
    pub(crate) fn new() -> Self {
        Places { line: LineUp::new(AT_ONCE), locks: HashMap::new() }
    }

    /// As [`LineUp::join`], of the `slot` of `lock`.
    pub(crate) fn join(&mut self, slot: u64, lock: u64, inbox: Inbox) -> (Inbox, bool) {
        let (inbox, behind) = self.line.join(slot, inbox);
        if behind {
            self.locks.insert(slot, lock);
        }
        (inbox, behind)
    }

    pub(crate) fn went_through(&mut self, slot: u64) {
        self.line.went_through(slot);
        self.locks.remove(&slot);
    }

    pub(crate) fn inbox_changed(&mut self, inbox: Inbox) {
        self.line.inbox_changed(inbox);
        if self.line.is_empty() {
            self.locks.clear();
        }
    }

    pub(crate) fn begin(&mut self, inbox: Inbox) -> bool {
        self.line.begin(inbox)
    }

    /// The next to be let in: its slot, its lock where there is one, and whether it is the first.
    pub(crate) fn next(&mut self) -> Option<(u64, Option<u64>, bool)> {
        let (slot, first) = self.line.let_in_next()?;
        Some((slot, self.locks.get(&slot).copied(), first))
    }

    pub(crate) fn taken(&mut self, slot: u64, turn: Turn) {
        if turn == Turn::Over {
            self.locks.remove(&slot);
        }
        self.line.taken(slot, turn);
    }

    pub(crate) fn end(&mut self) {
        self.line.end();
    }
}
