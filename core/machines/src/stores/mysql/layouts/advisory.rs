//! `advisory` in MySQL and MariaDB: see [there](crate::stores::sql::of_connection). Its keys are the names themselves.

use std::time::Duration;

use crate::stores::sql::of_connection::{CLOCKED, ConnectionLayout, Dialect, FREED, ON_ONE_CONNECTION, Of, Statements};
use crate::tables::joined::{POLLED, short_key};

static DIALECT: Dialect = Dialect {
    store: "mysql",
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
        "A lock is one of the server's, whatever the database; a cluster's other servers do not know of it.",
        "MySQL takes names that differ in case for one, MariaDB does not; list is refused, since neither tells of all.",
        "Behind a proxy that hands out connections, see that it knows GET_LOCK: else it would leave locks with nobody.",
        CLOCKED,
        POLLED,
    ],
    key: |name| short_key("GET_LOCK", name),
    channel: None,
};

/// The layout, for a connection that puts `prefix` before every name and lasts for `ttl`.
pub fn layout(prefix: &str, ttl: Duration) -> ConnectionLayout {
    ConnectionLayout { dialect: &DIALECT, prefix: prefix.to_owned(), ttl }
}
