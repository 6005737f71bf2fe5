//! `int_lock` in MySQL and MariaDB: see [there](crate::tables::int_lock).

use crate::tables::int_lock::INT_LOCK;
use crate::tables::joined::{JoinedLayout, Statements};

static STATEMENTS: Statements = Statements::of(
    [
        &[include_str!("int_lock/acquire.sql")],
        &[include_str!("int_lock/renew.sql")],
        &[include_str!("int_lock/release.sql")],
        &[include_str!("int_lock/inspect.sql")],
        &[include_str!("int_lock/break.sql")],
    ],
    None,
);

/// The layout, for a connection that puts `prefix` before every name.
pub fn layout(prefix: &str) -> JoinedLayout {
    JoinedLayout { store: "mysql", library: &INT_LOCK, statements: &STATEMENTS, prefix: prefix.to_owned() }
}
