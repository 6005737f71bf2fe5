#![doc = include_str!("docs.md")]

mod client;
mod cluster;
mod config;
mod ears;
mod failover;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod inbox;
mod masters;
mod redirects;
mod replicas;
mod sentinels;
mod shared_connection;
#[cfg(all(test, feature = "memory", feature = "unstable-store"))]
pub(crate) mod simulated;
mod socket;
mod tasks;
mod topics;
mod wake_queue;

use std::sync::Arc;

use lockwright_machines::stores::redis::layouts;
use lockwright_resp::{exchange, greeting, input, outgoing, parse, shortcut, slots, wire};

use crate::error::Result;
use crate::stores::Store;
use crate::uri::Uri;

/// The store of `redis://`, `rediss://`, `redis+unix://`, and of both with `+sentinel` or `+cluster`. Sends nothing.
pub(crate) fn open(uri: &mut Uri) -> Result<Arc<dyn Store>> {
    let config = config::Config::read(uri)?;
    Ok(if config.seeds.is_empty() { Arc::new(client::Redis::new(config)) } else { cluster::Cluster::open(config) })
}
