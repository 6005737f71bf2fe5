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
pub(crate) use adapter::{
    Answered, BoxFuture, Closing, Outcome, Sink, Store, Wanted, guarantees_of_all, guarantees_of_shared, open,
};

/// What every layout of every store that is built in promises.
#[cfg(feature = "net")]
pub fn guarantees() -> Vec<crate::guarantee::Guarantees> {
    guarantees_of_all()
}

/// What read/write locks and semaphores promise, each with its name, where that is not what the locks of their layout promise.
#[cfg(feature = "net")]
pub fn guarantees_when_shared() -> Vec<(String, crate::guarantee::Guarantees)> {
    guarantees_of_shared()
}
