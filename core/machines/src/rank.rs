//! Whom a queue serves first, where that is not decided by arrival alone.

use std::time::Duration;

use crate::time::StoreTime;

/// How long somebody has to wait to count as one rank higher.
pub const AGE: Duration = Duration::from_secs(10);

/// How urgent a place in a queue is, from 0 (the default) to 9. Among waiters of one rank the first to come is the
/// first to be served. Of two ranks the higher one goes first, unless the other has waited longer by [`AGE`] for each
/// rank between them: so nobody waits for ever, and a waiter of rank 0 lets pass only what comes within 90 seconds
/// after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(u8);

impl Rank {
    /// The rank of who says nothing.
    pub const LOWEST: Rank = Rank(0);
    /// The highest that there is.
    pub const HIGHEST: Rank = Rank(9);

    /// The rank of this number, if there is one.
    pub fn new(number: u8) -> Option<Self> {
        Some(Rank(number)).filter(|rank| *rank <= Self::HIGHEST)
    }

    /// Its number.
    pub fn get(self) -> u8 {
        self.0
    }

    /// When somebody of rank 0 would have had to come to be served as early as one of this rank who waits `since` then.
    /// Of equals the higher rank goes first.
    pub fn turn(self, since: StoreTime) -> StoreTime {
        StoreTime(since.0.saturating_sub(i64::from(self.0) * AGE.as_micros() as i64))
    }
}
