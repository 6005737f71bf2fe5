//! The members of a cluster, as an address names them.

use crate::address::{authority, based, listed, pathless};
use crate::error::Result;
use crate::uri::Uri;

const PORT: u16 = 2379;

/// The host and port of each.
///
/// # Errors
/// `invalid_config` for a member that is no host, and for what an address of etcd has not.
pub fn members(uri: &mut Uri) -> Result<Vec<String>> {
    let more = uri.take_more_hosts();
    let url = uri.url();
    based(url, "etcd://user:password@host:2379")?;
    pathless(url, "etcd")?;
    let others = more.iter().map(|other| authority(&listed(url.scheme(), other)?, PORT));
    [authority(url, PORT)].into_iter().chain(others).collect()
}
