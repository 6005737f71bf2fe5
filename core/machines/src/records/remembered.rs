//! Attempts that are remembered for as long as a copy of what they asked for may still come.

use std::collections::BTreeMap;

use crate::protocol::AttemptId;
use crate::time::StoreTime;

/// What became of each attempt, and until when that is remembered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Remembered<T>(BTreeMap<AttemptId, (StoreTime, T)>);

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Remembered(BTreeMap::new())
    }
}

impl<T: Copy> Remembered<T> {
    /// What became of `attempt`, if that is to be remembered for longer than `now`.
    pub fn recall(&self, attempt: AttemptId, now: StoreTime) -> Option<T> {
        self.0.get(&attempt).filter(|(until, _)| *until > now).map(|(_, what)| *what)
    }

    /// Remembers it until `until`, and may forget those whose time is over at `now`.
    pub fn remember(&mut self, attempt: AttemptId, what: T, until: StoreTime, now: StoreTime) {
        // Looking through all of them whenever they are twice as many costs each of them little.
        if self.0.len().is_power_of_two() {
            self.0.retain(|_, (until, _)| *until > now);
        }
        self.0.insert(attempt, (until, what));
    }

    /// Every attempt that is kept, what became of it, and until when that is remembered.
    pub fn iter(&self) -> impl Iterator<Item = (AttemptId, StoreTime, T)> {
        self.0.iter().map(|(attempt, (until, what))| (*attempt, *until, *what))
    }

    /// How many are kept, some of them perhaps for no more use.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
