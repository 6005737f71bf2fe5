#![doc = include_str!("docs.md")]

mod channels;
mod client;
mod config;
mod connection;
mod failure;
mod inbox;
mod pinned;
mod statements;

use std::sync::Arc;

use crate::error::Result;
use crate::stores::Store;
use crate::uri::Uri;

/// The store of `postgres://` or `postgresql://`. Sends nothing.
pub(crate) fn open(uri: &mut Uri) -> Result<Arc<dyn Store>> {
    Ok(client::store(config::read(uri)?))
}
