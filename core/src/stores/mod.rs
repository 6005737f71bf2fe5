//! The stores, one folder each, and what the driver asks of them.
//!
//! A store adapter turns requests into calls of its client library, and pushes into events. It decides nothing.
//!
//! With the feature `unstable-store` one may lie outside this crate: a `Store` that is registered for the
//! scheme of its addresses. What is public by that feature alone may change with any version.

pub mod memory;
pub mod redis;
pub mod sqlite;
pub mod zookeeper;

#[cfg(feature = "net")]
mod adapter;
#[cfg(any(feature = "unstable-store", all(test, feature = "net")))]
mod nodes;
#[cfg(feature = "net")]
mod registry;

#[cfg(all(feature = "net", not(feature = "unstable-store")))]
pub(crate) use adapter::{Answered, BoxFuture, Ends, Outcome, Sink, Store, Subscription, Topic, Work};
#[cfg(feature = "unstable-store")]
pub use adapter::{Answered, BoxFuture, Ends, Outcome, Sink, Store, Subscription, Topic, Work, now};
#[cfg(feature = "net")]
pub(crate) use adapter::{BATCH, Closing, layout_of, not_sent};
#[cfg(feature = "unstable-store")]
pub use nodes::on_nodes;
#[cfg(feature = "net")]
pub(crate) use registry::open;
#[cfg(feature = "unstable-store")]
pub use registry::{Opener, register};
#[cfg(feature = "net")]
use registry::{guarantees_of_all, guarantees_of_shared};

/// What every layout of every store that is built in promises, with what of it that is, unless all: a format, or the
/// read/write locks or semaphores where they promise something else than locks.
#[cfg(feature = "net")]
pub fn guarantees() -> Vec<(String, crate::guarantee::Guarantees)> {
    guarantees_of_all().into_iter().chain(guarantees_of_shared()).collect()
}
