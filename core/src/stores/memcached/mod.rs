#![doc = include_str!("docs.md")]

mod broker;
mod client;
mod config;
mod driver;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
#[cfg(all(test, feature = "memory", feature = "unstable-store"))]
pub(crate) mod simulated;

use std::sync::Arc;

use lockwright_machines::stores::memcached::{clock, layouts, wire};

use crate::error::Result;
use crate::stores::Store;
use crate::uri::Uri;

/// The store of `memcached://`. Sends nothing.
pub(crate) fn open(uri: &mut Uri) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(client::Memcached::new(config::Config::read(uri)?)))
}
