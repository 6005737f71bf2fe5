//! What an address says.

use crate::error::{Error, Result};
use crate::uri::Uri;

/// The name of what all clients of one process share under it.
pub(super) fn space(uri: &Uri) -> Result<&str> {
    if !matches!(uri.url().path(), "" | "/") {
        return Err(Error::invalid("connect", "memory:// takes a name and no path: memory://name"));
    }
    Ok(uri.url().host_str().unwrap_or_default())
}
