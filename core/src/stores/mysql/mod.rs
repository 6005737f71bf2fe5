#![doc = include_str!("docs.md")]

mod client;
mod config;
mod connection;
mod failure;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod inbox;
mod line;
mod pinned;
mod statements;
mod wire;

use std::sync::Arc;

use crate::error::Result;
use crate::stores::Store;
use crate::uri::Uri;

/// The store of `mysql://` or `mariadb://`. Sends nothing.
pub(crate) fn open(uri: &mut Uri) -> Result<Arc<dyn Store>> {
    Ok(client::store(config::read(uri)?))
}
