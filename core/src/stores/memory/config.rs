//! From an address to a store.

use std::sync::Arc;

use super::client::Memory;
use crate::error::{Error, Result};
use crate::stores::Store;
use crate::uri::Uri;

/// The store of `memory://` or `memory://name`.
pub(crate) fn open(uri: &Uri) -> Result<Arc<dyn Store>> {
    if !matches!(uri.url().path(), "" | "/") {
        return Err(Error::invalid("connect", "memory:// takes a name and no path: memory://name"));
    }
    let space = uri.url().host_str().unwrap_or_default();
    Ok(Arc::new(Memory::new(space, uri.redacted(), &uri.connect.prefix)))
}
