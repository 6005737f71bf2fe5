//! What an address says.

use crate::error::Result;
use crate::stores::sql::config::{Config, Dialect};
use crate::uri::Uri;

const DIALECT: Dialect =
    Dialect { scheme: "mysql", port: 3306, example: "mysql://user:password@host:3306/database", names_database: true };

/// Reads an address.
pub(super) fn read(uri: &mut Uri) -> Result<Config> {
    Config::read(&DIALECT, uri)
}
