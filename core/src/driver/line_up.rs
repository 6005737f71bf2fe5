//! In which order the waiters of a client get in line while its inbox is being opened.
//!
//! A place in a store's queue is asked for only once pushes can come: who waits before that has none yet. When the
//! inbox is open, those who come then would ask for a place at once, and come before those who have been waiting. So
//! whoever waits in order and has no place *stands behind*: the ones that came first are let in, so many at a time, the
//! next once those have their places, and who comes meanwhile stands behind them. Mostly nobody does, and it costs an
//! atomic load.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::engine::Engine;
use super::entry::Entry;
use crate::machine::Turn;
use crate::platform::mutex::locked;
use crate::session::Inbox;

/// How many are let in at a time: what the background takes to a store in one write, which keeps their order.
const AT_ONCE: usize = 100;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct LineUp {
    line: Mutex<Places>,
    /// Somebody stands in that line.
    used: AtomicBool,
}

/// Slots by their numbers, which rise in the order in which their contenders came.
#[derive(Debug, Default)]
struct Places {
    behind: BTreeMap<u64, Weak<Entry>>,
    /// Those that may ask for their places, and do not have them yet.
    let_in: BTreeMap<u64, Weak<Entry>>,
    /// A thread is about to let in more.
    is_attended: bool,
}

impl Places {
    fn is_empty(&self) -> bool {
        self.behind.is_empty() && self.let_in.is_empty()
    }
}

impl LineUp {
    #[cfg(test)]
    pub(super) fn is_used(&self) -> bool {
        self.used.load(Ordering::Acquire)
    }

    /// What `slot` of `entry`, which is about to ask, is to know of the client's inbox, and whether it stands behind
    /// others, or is the first to.
    pub(super) fn join(&self, slot: u64, entry: &Arc<Entry>, inbox: impl Fn() -> Inbox) -> (Inbox, bool) {
        if inbox() == Inbox::Live && !self.used.load(Ordering::Acquire) {
            return (Inbox::Live, false);
        }
        let mut line = locked(&self.line);
        match inbox() {
            Inbox::Live if line.is_empty() => (Inbox::Live, false),
            Inbox::Unavailable => (Inbox::Unavailable, false),
            Inbox::Live | Inbox::Closed => {
                line.behind.insert(slot, Arc::downgrade(entry));
                self.used.store(true, Ordering::Release);
                (Inbox::Closed, true)
            }
        }
    }

    /// These have their places, or want none any more: the next may ask.
    pub(super) fn went_through(&self, engine: &Engine, slots: &[u64]) {
        {
            let mut line = locked(&self.line);
            for slot in slots {
                line.behind.remove(slot);
                line.let_in.remove(slot);
            }
            self.used.store(!line.is_empty(), Ordering::Release);
        }
        self.let_in(engine);
    }

    /// The inbox is another one, or is being opened anew: who was let in may have asked in vain.
    pub(super) fn inbox_changed(&self, engine: &Engine, inbox: Inbox) {
        {
            let mut line = locked(&self.line);
            let mut again = std::mem::take(&mut line.let_in);
            line.behind.append(&mut again);
            if inbox == Inbox::Unavailable {
                // Whoever polls is served in no order.
                line.behind.clear();
            }
            self.used.store(!line.is_empty(), Ordering::Release);
        }
        self.let_in(engine);
    }

    /// Lets in the first of those who stand behind, unless some are under way.
    fn let_in(&self, engine: &Engine) {
        while engine.inbox() == Inbox::Live && self.attend() {
            let (mut sends, mut first) = (Vec::new(), true);
            for _ in 0..AT_ONCE {
                let Some((slot, entry)) = self.next() else { break };
                let (turn, effects) = entry.let_in(engine, slot, first);
                sends.extend(engine.perform_local(&entry, effects));
                match turn {
                    Turn::Asks => first = false,
                    Turn::Over => _ = locked(&self.line).let_in.remove(&slot),
                    Turn::AsksAgain => break,
                    Turn::Later => {
                        self.put_back(slot, &entry);
                        break;
                    }
                }
            }
            engine.send_in_background(sends);
            let mut line = locked(&self.line);
            line.is_attended = false;
            self.used.store(!line.is_empty(), Ordering::Release);
        }
    }

    /// Whether this thread is to let in the next.
    fn attend(&self) -> bool {
        let mut line = locked(&self.line);
        let mine = !line.is_attended && line.let_in.is_empty() && !line.behind.is_empty();
        line.is_attended |= mine;
        mine
    }

    fn next(&self) -> Option<(u64, Arc<Entry>)> {
        let mut line = locked(&self.line);
        loop {
            let (slot, entry) = line.behind.pop_first()?;
            if let Some(alive) = entry.upgrade() {
                line.let_in.insert(slot, entry);
                return Some((slot, alive));
            }
        }
    }

    fn put_back(&self, slot: u64, entry: &Arc<Entry>) {
        let mut line = locked(&self.line);
        // Unless it went through meanwhile.
        if line.let_in.remove(&slot).is_some() {
            line.behind.insert(slot, Arc::downgrade(entry));
        }
    }
}
