//! `shedlock` in MySQL and MariaDB: see [there](crate::tables::shedlock).

use crate::tables::joined::{JoinedLayout, Statements, statements};
use crate::tables::shedlock::SHEDLOCK;

static STATEMENTS: Statements = statements!("shedlock", list);

/// The layout, for a connection that puts `prefix` before every name.
pub fn layout(prefix: &str) -> JoinedLayout {
    JoinedLayout { store: "mysql", library: &SHEDLOCK, statements: &STATEMENTS, prefix: prefix.to_owned() }
}
