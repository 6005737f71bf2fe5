//! `shedlock` in PostgreSQL: see [there](crate::tables::shedlock).

use crate::tables::joined::{JoinedLayout, Statements};
use crate::tables::shedlock::SHEDLOCK;

static STATEMENTS: Statements = Statements::of(
    [
        &[include_str!("shedlock/acquire.sql")],
        &[include_str!("shedlock/renew.sql")],
        &[include_str!("shedlock/release.sql")],
        &[include_str!("shedlock/inspect.sql")],
        &[include_str!("shedlock/break.sql")],
    ],
    Some(&[include_str!("shedlock/list.sql")]),
);

/// The layout, for a connection that puts `prefix` before every name.
pub fn layout(prefix: &str) -> JoinedLayout {
    JoinedLayout { store: "postgres", library: &SHEDLOCK, statements: &STATEMENTS, prefix: prefix.to_owned() }
}
