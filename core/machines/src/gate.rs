//! What is waited for and not held: a latch or a barrier, and what those who wait say of it.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::lease::{BARRIER, LATCH, ReleaseOutcome};
use crate::options::{AcquireOptions, ConnectOptions};
use crate::protocol::{Step, Verdict};
use crate::time::StoreTime;

/// The highest count that a latch can have.
pub const MOST_COUNT: u32 = 1_000_000;

/// The most parties that a barrier can have: opening is one step of the store for all of them.
pub const MOST_PARTIES: u32 = 10_000;

/// How soon a latch may be forgotten that nobody uses: later than a wait is asked again.
pub const MIN_IDLE: Duration = Duration::from_secs(60);

/// How late it may be at most, and is unless somebody says less.
pub const MAX_IDLE: Duration = Duration::from_secs(30 * 24 * 3600);

/// What is waited for and not held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// One that opens for good when it was counted down; what it is if there is none.
    Latch(LatchPlan),
    /// One that opens for as many as wait for it at the same time, and closes behind them.
    Barrier(BarrierPlan),
}

impl Gate {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Gate::Latch(_) => LATCH,
            Gate::Barrier(_) => BARRIER,
        }
    }
}

/// How one waits at a gate whose places last `ttl`: with those of a client's `options` that say where it lies and how
/// one waits.
pub fn waits(options: AcquireOptions, ttl: Duration) -> AcquireOptions {
    let AcquireOptions { layout, format, retry, label, .. } = options;
    AcquireOptions { ttl, layout, format, retry, label, ..AcquireOptions::default() }
}

/// For how long after a request that changes something at most a copy of it may be executed: one is sent for as long as
/// the client tries, and executed a little later than that if at all.
pub fn copies(options: &ConnectOptions) -> Duration {
    let ConnectOptions { store_timeout, connect_timeout, response_timeout, .. } = *options;
    let tries = store_timeout.saturating_add(connect_timeout).saturating_add(response_timeout);
    tries.saturating_mul(2).saturating_add(Duration::from_secs(60))
}

/// Whoever went on has nothing to give back.
pub(crate) fn gone_on() -> Step {
    Step::Done(Verdict::Released(ReleaseOutcome::Released))
}

/// What a request that makes a latch says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LatchPlan {
    /// Where it counts from, if the request is the first.
    pub count: u32,
    /// How long it stays though nobody uses it; the longest that anybody said since it was last used counts.
    pub idle: Duration,
}

impl LatchPlan {
    /// A latch that counts from `count`, and is kept for `idle` after its last use.
    ///
    /// # Errors
    /// `invalid_config` for a count that is not 1 to [`MOST_COUNT`], or a time that is not [`MIN_IDLE`] to
    /// [`MAX_IDLE`].
    pub fn new(count: u32, idle: Duration) -> Result<Self> {
        if count == 0 || count > MOST_COUNT {
            return Err(Error::invalid("latch", format!("count is {count}; it must be 1 to {MOST_COUNT}")));
        }
        if idle < MIN_IDLE || idle > MAX_IDLE {
            let message = format!("idle is {idle:?}; it must be {MIN_IDLE:?} to {MAX_IDLE:?}");
            return Err(Error::invalid("latch", message));
        }
        Ok(LatchPlan { count, idle })
    }

    /// The same with another count.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_count(self, count: u32) -> Result<Self> {
        LatchPlan::new(count, self.idle)
    }
}

/// What is to be done with the count of a latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CountOperation {
    /// One less.
    Down,
    /// The plan's count, if it is open.
    Set,
}

/// What a gate answers to a [`Question`](crate::protocol::Question).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// So many are still to come, of a latch.
    Left(u32),
    /// So many stand there, of a barrier.
    Standing(u32),
    /// There is no record.
    Nothing,
    /// It is counting, so nothing was set.
    Refused,
    /// The request came too late, and did nothing.
    Late(StoreTime),
}

/// What a party says of its barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BarrierPlan {
    /// How many have to stand there at once.
    pub parties: u32,
    /// How long its place stands unless it asks again.
    pub ttl: Duration,
    /// For how long copies of what it asks may come.
    pub copies: Duration,
}

impl BarrierPlan {
    /// A barrier for so many parties, whose ttl is checked as that of a lock.
    ///
    /// # Errors
    /// `invalid_config` for a number that is not 1 to [`MOST_PARTIES`].
    pub fn new(parties: u32, ttl: Duration, copies: Duration) -> Result<Self> {
        if parties == 0 || parties > MOST_PARTIES {
            return Err(Error::invalid("barrier", format!("parties is {parties}; it must be 1 to {MOST_PARTIES}")));
        }
        Ok(BarrierPlan { parties, ttl, copies })
    }
}
