#![doc = include_str!("docs.md")]

mod broker;
mod client;
mod config;
mod driver;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod greeting;
mod members;
mod sasl;
mod session;
#[cfg(all(test, feature = "memory", feature = "unstable-store"))]
pub(crate) mod simulated;
mod wire;

use std::sync::Arc;

use lockwright_machines::stores::zookeeper::layouts;

use crate::error::Result;
use crate::stores::Store;
use crate::uri::Uri;

/// The store of `zookeeper://` or `zookeepers://`. Sends nothing.
pub(crate) fn open(uri: &mut Uri) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(client::ZooKeeper::new(config::Config::read(uri)?)))
}
