#![doc = include_str!("docs.md")]

mod channel;
mod client;
mod config;
mod connection;
mod grpc;
mod latch;
mod lease;
mod seats;
#[cfg(all(test, feature = "memory", feature = "unstable-store"))]
pub(crate) mod simulated;
mod watches;

use std::sync::Arc;

use lockwright_machines::stores::etcd::{copy, failure, layouts, transactions};

use crate::error::Result;
use crate::stores::Store;
use crate::uri::Uri;

/// The store of `etcd://` or `etcds://`. Sends nothing.
pub(crate) fn open(uri: &mut Uri) -> Result<Arc<dyn Store>> {
    Ok(client::Etcd::new(config::Config::read(uri)?))
}
