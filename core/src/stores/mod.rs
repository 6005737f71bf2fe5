//! The stores, one folder each, and what the driver asks of them.
//!
//! A store adapter turns requests into calls of its client library, and pushes into events. It decides nothing.

pub mod memory;
pub mod sqlite;
pub mod zookeeper;

#[cfg(feature = "net")]
mod adapter;
pub mod redis;

#[cfg(feature = "net")]
pub(crate) use adapter::{Answered, BoxFuture, Outcome, Sink, Store, no_such_layout, open};
