#![doc = include_str!("docs.md")]

mod client;
mod config;

use std::sync::Arc;

use lockwright_machines::stores::memory::layouts;

use crate::error::Result;
use crate::stores::Store;
use crate::uri::Uri;

/// The store of `memory://` or `memory://name`.
pub(crate) fn open(uri: &Uri) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(client::Memory::new(config::space(uri)?, uri.redacted(), &uri.connect.prefix)))
}
