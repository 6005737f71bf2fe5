//! `advisory` in MySQL and MariaDB: see [there](crate::stores::sql::advisory). Its keys are the names themselves.

use std::time::Duration;

use crate::stores::sql::advisory::{
    AdvisoryLayout, CLOCKED, Dialect, FREED, ON_ONE_CONNECTION, POLLED, advisory_statements,
};
use crate::tables::joined::short_key;

static DIALECT: Dialect = Dialect {
    store: "mysql",
    statements: advisory_statements!(),
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
};

/// The layout, for a connection that puts `prefix` before every name and lasts for `ttl`.
pub fn layout(prefix: &str, ttl: Duration) -> AdvisoryLayout {
    AdvisoryLayout { dialect: &DIALECT, prefix: prefix.to_owned(), ttl }
}
