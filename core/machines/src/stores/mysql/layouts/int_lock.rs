//! `int_lock` in MySQL and MariaDB: see [there](crate::tables::int_lock).

use crate::tables::int_lock::INT_LOCK;
use crate::tables::joined::{JoinedLayout, Statements, statements};

static STATEMENTS: Statements = statements!("int_lock");

/// The layout, for a connection that puts `prefix` before every name.
pub fn layout(prefix: &str) -> JoinedLayout {
    JoinedLayout { store: "mysql", library: &INT_LOCK, statements: &STATEMENTS, prefix: prefix.to_owned() }
}
