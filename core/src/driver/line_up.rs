//! The one [`LineUp`] of a client, and the entries of those who stand in it. Mostly nobody does, and it costs an atomic
//! load.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use lockwright_machines::machine::{LineUp, Turn};

use super::engine::Engine;
use super::entry::Entry;
use crate::platform::mutex::locked;
use crate::session::Inbox;

/// How many are let in at a time: what the background takes to a store in one write, which keeps their order.
const AT_ONCE: usize = 100;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Line {
    places: Mutex<Places>,
    /// Somebody stands in that line.
    used: AtomicBool,
}

#[derive(Debug)]
struct Places {
    line: LineUp,
    entries: HashMap<u64, Weak<Entry>>,
}

impl Default for Line {
    fn default() -> Self {
        let places = Places { line: LineUp::new(AT_ONCE), entries: HashMap::new() };
        Line { places: Mutex::new(places), used: AtomicBool::default() }
    }
}

impl Line {
    #[cfg(test)]
    pub(super) fn is_used(&self) -> bool {
        self.used.load(Ordering::Acquire)
    }

    /// As [`LineUp::join`], of the `slot` of `entry`.
    pub(super) fn join(&self, slot: u64, entry: &Arc<Entry>, inbox: impl Fn() -> Inbox) -> (Inbox, bool) {
        if inbox() == Inbox::Live && !self.used.load(Ordering::Acquire) {
            return (Inbox::Live, false);
        }
        let mut places = locked(&self.places);
        let (inbox, behind) = places.line.join(slot, inbox());
        if behind {
            places.entries.insert(slot, Arc::downgrade(entry));
            self.used.store(true, Ordering::Release);
        }
        (inbox, behind)
    }

    /// These have their places, or want none any more: the next may ask.
    pub(super) fn went_through(&self, engine: &Engine, slots: &[u64]) {
        self.change(|places| {
            for slot in slots {
                places.leave(*slot);
            }
        });
        self.let_in(engine);
    }

    /// As [`LineUp::inbox_changed`].
    pub(super) fn inbox_changed(&self, engine: &Engine, inbox: Inbox) {
        self.change(|places| {
            places.line.inbox_changed(inbox);
            if places.line.is_empty() {
                places.entries.clear();
            }
        });
        self.let_in(engine);
    }

    /// Lets in the first of those who stand behind, unless some are under way.
    fn let_in(&self, engine: &Engine) {
        while self.change(|places| places.line.begin(engine.inbox())) {
            let mut sends = Vec::new();
            while let Some((slot, entry, first)) = self.change(Places::next) {
                let turn = match entry.upgrade() {
                    Some(entry) => {
                        let (turn, effects) = entry.let_in(engine, slot, first);
                        sends.extend(engine.perform_local(&entry, effects));
                        turn
                    }
                    None => Turn::Over,
                };
                self.change(|places| places.taken(slot, turn));
            }
            engine.send_in_background(sends);
            self.change(|places| places.line.end());
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Places) -> T) -> T {
        let mut places = locked(&self.places);
        let changed = change(&mut places);
        self.used.store(!places.line.is_empty(), Ordering::Release);
        changed
    }
}

impl Places {
    fn leave(&mut self, slot: u64) {
        self.line.went_through(slot);
        self.entries.remove(&slot);
    }

    fn next(&mut self) -> Option<(u64, Weak<Entry>, bool)> {
        let (slot, first) = self.line.let_in_next()?;
        Some((slot, self.entries.get(&slot).cloned().unwrap_or_default(), first))
    }

    fn taken(&mut self, slot: u64, turn: Turn) {
        if matches!(turn, Turn::Over) {
            self.entries.remove(&slot);
        }
        self.line.taken(slot, turn);
    }
}
