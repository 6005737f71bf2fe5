//! Who waits for a record, in order of arrival, in memory.

use std::collections::{BTreeSet, VecDeque};

use crate::lock_cell::{Claimant, Place};
use crate::protocol::{AttemptId, InboxId};
use crate::shared_cell::Seeker;

/// Somebody with a place in a queue.
pub trait Queued {
    /// Who that is.
    fn owner(&self) -> &Claimant;
}

impl Queued for Place {
    fn owner(&self) -> &Claimant {
        &self.waiter.owner
    }
}

impl Queued for Seeker {
    fn owner(&self) -> &Claimant {
        &self.who.owner
    }
}

/// A queue in which no attempt stands twice. There may be very many: only who leaves from the middle is looked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InOrder<W> {
    waiters: VecDeque<W>,
    known: BTreeSet<AttemptId>,
}

impl<W> Default for InOrder<W> {
    fn default() -> Self {
        InOrder { waiters: VecDeque::new(), known: BTreeSet::new() }
    }
}

impl<W: Queued + Clone> InOrder<W> {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// How many wait.
    pub fn len(&self) -> u32 {
        u32::try_from(self.waiters.len()).unwrap_or(u32::MAX)
    }

    /// Who waits with so many ahead.
    pub fn get(&self, ahead: u32) -> Option<&W> {
        self.waiters.get(ahead as usize)
    }

    /// Everybody who waits, the first in line first.
    pub fn iter(&self) -> impl Iterator<Item = &W> {
        self.waiters.iter()
    }

    /// Whether `attempt` has a place.
    pub fn contains(&self, attempt: AttemptId) -> bool {
        self.known.contains(&attempt)
    }

    /// Adds `waiter` at the end unless its attempt has a place already; how many are ahead of it.
    pub fn join(&mut self, waiter: &W) -> u32 {
        let attempt = waiter.owner().attempt;
        let position = self.position(attempt).unwrap_or_else(|| {
            self.known.insert(attempt);
            self.waiters.push_back(waiter.clone());
            self.waiters.len() - 1
        });
        u32::try_from(position).unwrap_or(u32::MAX)
    }

    /// Takes the first in line.
    pub fn pop(&mut self) -> Option<W> {
        let first = self.waiters.pop_front()?;
        self.known.remove(&first.owner().attempt);
        Some(first)
    }

    /// Takes `attempt` out if it has a place.
    pub fn leave(&mut self, attempt: AttemptId) {
        if let Some(at) = self.position(attempt) {
            self.waiters.remove(at);
            self.known.remove(&attempt);
        }
    }

    /// Takes out everybody of `inbox`.
    pub fn drop_inbox(&mut self, inbox: InboxId) {
        self.waiters.retain(|waiter| waiter.owner().inbox != inbox);
        self.known = self.waiters.iter().map(|waiter| waiter.owner().attempt).collect();
    }

    fn position(&self, attempt: AttemptId) -> Option<usize> {
        self.contains(attempt).then(|| self.waiters.iter().position(|waiter| waiter.owner().attempt == attempt))?
    }
}
