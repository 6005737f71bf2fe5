//! `for_update` in MySQL and MariaDB: see [there](crate::stores::sql::of_connection).
//!
//! The table is `resource_lock`, with `resource_name`, of which each is there once, and `owner`. A row is made when it
//! is missing, and stays; who has it says nothing in it.
//!
//! Source: a Chinese tutorial on distributed locks, its section 基于数据库排他锁实现
//! ("by a database's exclusive lock").

use crate::protocol::Call;
use crate::stores::sql::of_connection::{
    A_CONNECTION_EACH, Around, CLOCKED, ConnectionLayout, Dialect, ENDED, FREED, Of, SKIPPED, Statements,
};
use crate::tables::joined::{POLLED, short_key};

/// What the driver says besides.
pub static AROUND: Around = Around {
    begin: None,
    tell: None,
    end: Call { name: "end", body: &["ROLLBACK; SELECT 1"], batch: false },
    make: Call { name: "make row", body: &[include_str!("for_update/make.sql")], batch: false },
    holds: Call { name: "holds", body: &[include_str!("for_update/holds.sql")], batch: false },
};

static DIALECT: Dialect = Dialect {
    store: "mysql",
    layout: "for_update",
    of: Of::Row,
    statements: Statements::on_rows(
        &[include_str!("for_update/take.sql")],
        &["COMMIT; SELECT 1"],
        &[include_str!("for_update/look.sql")],
    ),
    notes: &[
        A_CONNECTION_EACH,
        ENDED,
        FREED,
        SKIPPED,
        "It takes MySQL 8.0 or MariaDB 10.6; to inspect a lock takes it for a moment, and tells nothing of its holder.",
        CLOCKED,
        POLLED,
    ],
    key: |name| short_key("the table resource_lock", name),
    channel: None,
};

/// The layout, for a client that puts `prefix` before every name.
pub fn layout(prefix: &str) -> ConnectionLayout {
    ConnectionLayout { dialect: &DIALECT, prefix: prefix.to_owned(), ttl: std::time::Duration::MAX }
}
