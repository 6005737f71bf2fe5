//! `advisory` in PostgreSQL: see [there](crate::stores::sql::of_connection). Its keys are numbers of 64 bits.

use std::time::Duration;

use crate::kit::advisory_number;
use crate::stores::sql::of_connection::{
    CLOCKED, ConnectionLayout, Dialect, FREED, HINTED, ON_ONE_CONNECTION, Of, Statements,
};

static DIALECT: Dialect = Dialect {
    store: "postgres",
    layout: "advisory",
    of: Of::Name,
    statements: Statements::on_names(
        &[include_str!("advisory/take.sql")],
        &[include_str!("advisory/give.sql")],
        &[include_str!("advisory/look.sql")],
    ),
    notes: &[
        ON_ONE_CONNECTION,
        FREED,
        "Before PostgreSQL 14 the server ends no connection that is silent: that of a host which vanished keeps its locks until \
         the server's TCP notices.",
        "A pooler that hands out connections by transactions is refused, since it would leave locks with nobody.",
        "A lock is a number, 64 bits of the BLAKE2b digest of prefix and name; list is refused, since that tells no names.",
        CLOCKED,
        HINTED,
    ],
    key: |name| Ok(advisory_number(name).to_string()),
    channel: Some(|key| format!("lockwright_advisory_{key}")),
};

/// The layout, for a connection that puts `prefix` before every name and lasts for `ttl`.
pub fn layout(prefix: &str, ttl: Duration) -> ConnectionLayout {
    ConnectionLayout { dialect: &DIALECT, prefix: prefix.to_owned(), ttl }
}
