//! `unique_index` in PostgreSQL: see [there](crate::tables::unique_index).

use crate::tables::joined::{JoinedLayout, Statements, statements};
use crate::tables::unique_index::UNIQUE_INDEX;

static STATEMENTS: Statements = statements!("unique_index", list);

/// The layout, for a connection that puts `prefix` before every name.
pub fn layout(prefix: &str) -> JoinedLayout {
    JoinedLayout { store: "postgres", library: &UNIQUE_INDEX, statements: &STATEMENTS, prefix: prefix.to_owned() }
}
