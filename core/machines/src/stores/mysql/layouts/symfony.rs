//! `symfony` in MySQL and MariaDB: see [there](crate::tables::symfony).

use crate::tables::joined::{JoinedLayout, Statements, statements};
use crate::tables::symfony::SYMFONY;

static STATEMENTS: Statements = statements!("symfony");

/// The layout, for a connection that puts `prefix` before every name.
pub fn layout(prefix: &str) -> JoinedLayout {
    JoinedLayout { store: "mysql", library: &SYMFONY, statements: &STATEMENTS, prefix: prefix.to_owned() }
}
