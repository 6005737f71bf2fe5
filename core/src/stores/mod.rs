//! The stores, one folder each, and what the driver asks of them.
//!
//! A store adapter turns requests into calls of its client library, and pushes into events. It decides nothing.

#[cfg(feature = "net")]
mod adapter;
#[cfg(feature = "sqlite")]
pub mod sqlite;

#[cfg(feature = "net")]
pub(crate) use adapter::{Answered, BoxFuture, Outcome, Sink, Store};
