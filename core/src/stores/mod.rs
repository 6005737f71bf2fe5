//! The stores, one folder each, and what the driver asks of them.
//!
//! A store adapter turns requests into calls of its client library, and pushes into events. It decides nothing.

pub mod memory;
pub mod redis;
pub mod sqlite;
pub mod zookeeper;

#[cfg(feature = "net")]
mod adapter;
#[cfg(feature = "net")]
mod registry;

#[cfg(feature = "net")]
pub(crate) use adapter::{Answered, BATCH, BoxFuture, Closing, Outcome, Sink, Store};
#[cfg(feature = "net")]
pub(crate) use registry::open;
#[cfg(feature = "net")]
use registry::{guarantees_of_all, guarantees_of_shared};

/// What every layout of every store that is built in promises, with what of it that is, unless all: a format, or the read/write
/// locks or semaphores where they promise something else than locks.
#[cfg(feature = "net")]
pub fn guarantees() -> Vec<(String, crate::guarantee::Guarantees)> {
    guarantees_of_all().into_iter().chain(guarantees_of_shared()).collect()
}
