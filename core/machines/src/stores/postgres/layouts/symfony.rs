//! `symfony` in PostgreSQL: see [there](crate::tables::symfony).

use crate::tables::joined::{JoinedLayout, Statements};
use crate::tables::symfony::SYMFONY;

static STATEMENTS: Statements = Statements::of(
    [
        &[include_str!("symfony/acquire.sql")],
        &[include_str!("symfony/renew.sql")],
        &[include_str!("symfony/release.sql")],
        &[include_str!("symfony/inspect.sql")],
        &[include_str!("symfony/break.sql")],
    ],
    None,
);

/// The layout, for a connection that puts `prefix` before every name.
pub fn layout(prefix: &str) -> JoinedLayout {
    JoinedLayout { store: "postgres", library: &SYMFONY, statements: &STATEMENTS, prefix: prefix.to_owned() }
}
