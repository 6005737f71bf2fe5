//! From an address to a store.

use std::sync::Arc;

use super::client::store;
use crate::error::Result;
use crate::stores::Store;
use crate::stores::sql::config::{Config, Dialect};
use crate::uri::Uri;

const DIALECT: Dialect =
    Dialect { scheme: "mysql", port: 3306, example: "mysql://user:password@host:3306/database", names_database: true };

/// The store of `mysql://` or `mariadb://`. Sends nothing.
pub(crate) fn open(uri: &mut Uri) -> Result<Arc<dyn Store>> {
    Ok(store(Config::read(&DIALECT, uri)?))
}
