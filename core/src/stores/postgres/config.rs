//! What an address says.

use crate::error::Result;
use crate::stores::sql::config::{Config, Dialect};
use crate::uri::Uri;

const DIALECT: Dialect = Dialect {
    scheme: "postgres",
    port: 5432,
    example: "postgres://user:password@host:5432/database",
    names_database: false,
};

/// Reads an address.
pub(super) fn read(uri: &mut Uri) -> Result<Config> {
    Config::read(&DIALECT, uri)
}
