//! From an address to a store.

use std::sync::Arc;

use super::client::store;
use crate::error::Result;
use crate::stores::Store;
use crate::stores::sql::config::{Config, Dialect};
use crate::uri::Uri;

const DIALECT: Dialect = Dialect {
    scheme: "postgres",
    port: 5432,
    example: "postgres://user:password@host:5432/database",
    names_database: false,
};

/// The store of `postgres://` or `postgresql://`. Sends nothing.
pub(crate) fn open(uri: &mut Uri) -> Result<Arc<dyn Store>> {
    Ok(store(Config::read(&DIALECT, uri)?))
}
