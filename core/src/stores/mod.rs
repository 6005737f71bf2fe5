//! The stores, one folder each, and what the driver asks of them.
//!
//! A store adapter turns requests into calls of its client library, and pushes into events. It decides nothing.
//!
//! With the feature `unstable-store` one may lie outside this crate: a `Store` that is registered for the
//! scheme of its addresses. What is public by that feature alone may change with any version.

#[cfg(feature = "etcd")]
pub mod etcd;
#[cfg(feature = "memcached")]
pub mod memcached;
#[cfg(feature = "memory")]
pub mod memory;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

mod adapter;
#[cfg(any(
    feature = "etcd",
    feature = "memcached",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "zookeeper"
))]
mod address;
/// What the machines' own tests compare a store with.
#[cfg(all(test, any(feature = "mysql", feature = "postgres", feature = "sqlite")))]
#[path = "../../machines/tests/comparison/mod.rs"]
mod comparison;
#[cfg(any(
    feature = "etcd",
    feature = "memcached",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "zookeeper"
))]
mod login;
mod nodes;
#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis", feature = "zookeeper"))]
mod pipe;
#[cfg(any(
    feature = "etcd",
    feature = "memcached",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "zookeeper"
))]
mod reach;
mod registry;
#[cfg(all(test, any(feature = "mysql", feature = "postgres", feature = "sqlite")))]
#[path = "../../machines/tests/requests/mod.rs"]
mod requests;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod sql;
#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis", feature = "zookeeper"))]
mod tls;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod topics;

pub(crate) use adapter::not_sent;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) use adapter::tell;
#[cfg(feature = "unstable-store")]
pub use adapter::{Answered, Begun, BoxFuture, Ends, Outcome, Schema, Sink, Store, Subscription, Topic, Work, now};
#[cfg(not(feature = "unstable-store"))]
pub(crate) use adapter::{Answered, Begun, BoxFuture, Outcome, Sink, Store, Subscription, Topic, Work};
pub(crate) use lockwright_machines::layout_choice::{LayoutChoice, layout_of};
#[cfg(feature = "unstable-store")]
pub use nodes::on_nodes;
pub(crate) use registry::open;
#[cfg(feature = "unstable-store")]
pub use registry::{Opener, register};
use registry::{guarantees_of_all, guarantees_of_shared};

/// What every layout of every store that is built in promises, with what of it that is, unless all: a format, or the
/// read/write locks or semaphores where they promise something else than locks.
pub fn guarantees() -> Vec<(String, crate::guarantee::Guarantees)> {
    guarantees_of_all().into_iter().chain(guarantees_of_shared()).collect()
}
