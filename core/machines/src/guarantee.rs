//! What a store and layout promise, so that callers can read it, ask for it, and tests can skip by it.

use std::fmt;

/// Until when a holder can be sure to be the only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExclusiveUntil {
    /// Until its deadline or until `lost` fires, whatever crashes.
    Deadline,
    /// The same, but two holders are possible when the store fails over to a replica that had not heard of the grant,
    /// is emptied, or has its clock stepped forward.
    StoreFailover,
    /// Its deadline, whatever crashes, is emptied or fails over; two holders are possible when the clock of a node of a
    /// quorum is stepped forward.
    NodeClock,
    /// Only while the clocks of all clients agree.
    ClockSkew,
}

/// Until when fencing tokens rise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenRises {
    /// Always.
    Always,
    /// Over restarts, eviction and failover, until the store's clock steps back further than that took.
    WithStoreClock,
    /// Over crashes, until the store loses what counts them: by a restart without its data, eviction, or somebody who
    /// deletes it.
    WithStoreData,
    /// While the process lives.
    WithProcess,
    /// The layout has no token.
    Never,
}

/// What a lock of this client promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarantees {
    /// The store, such as `redis`.
    pub store: &'static str,
    /// The layout, such as `native`.
    pub layout: &'static str,
    /// Until when a holder is the only one.
    pub exclusive_until: ExclusiveUntil,
    /// Until when tokens rise.
    pub token: TokenRises,
    /// Whether `fair` (first come first served over all tasks) can be had.
    pub fair: bool,
    /// Whether `reentrant` can be had.
    pub reentrant: bool,
    /// Whether other processes see the lock.
    pub shared: bool,
    /// Whether waiters are told when it is their turn; otherwise they ask again by a timer.
    pub push: bool,
    /// Whether a hold survives the loss of its connection.
    pub survives_disconnect: bool,
    /// Whether a release or renewal in doubt can never touch a later hold of the same owner.
    pub incarnation: bool,
    /// What else a person should know, one sentence each.
    pub notes: &'static [&'static str],
}

/// What a caller insists on; see `Client::require`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// There must be read/write locks. Where one of these is named, what else is insisted on must hold of each that is,
    /// else of locks.
    pub rwlock: bool,
    /// There must be semaphores.
    pub semaphore: bool,
    /// There must be latches. Nobody holds one, so `fenced`, `fair` and `reentrant` say nothing of it.
    pub latch: bool,
    /// There must be barriers, of which the same is true.
    pub barrier: bool,
    /// The lock must have a fencing token that rises.
    pub fenced: bool,
    /// `fair` must be possible.
    pub fair: bool,
    /// `reentrant` must be possible.
    pub reentrant: bool,
    /// Other processes must see the lock.
    pub shared: bool,
    /// Waiters must be pushed to, not poll.
    pub push: bool,
    /// Two holders must be impossible even when the store fails over.
    pub failover_safe: bool,
}

impl fmt::Display for ExclusiveUntil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ExclusiveUntil::Deadline => "deadline",
            ExclusiveUntil::StoreFailover => "store failover",
            ExclusiveUntil::NodeClock => "a step of a node's clock",
            ExclusiveUntil::ClockSkew => "clock skew",
        })
    }
}

impl fmt::Display for TokenRises {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TokenRises::Always => "always",
            TokenRises::WithStoreClock => "with the store's clock",
            TokenRises::WithStoreData => "while the store keeps its data",
            TokenRises::WithProcess => "while the process lives",
            TokenRises::Never => "none",
        })
    }
}
