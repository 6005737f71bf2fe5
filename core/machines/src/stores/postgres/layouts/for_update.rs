//! `for_update` in PostgreSQL: see [there](crate::stores::sql::of_connection).
//!
//! The table is `resource_lock`, with `resource_name`, of which each is there once, and `owner`. A row is made when it
//! is missing, and stays; who has it says nothing in it.
//!
//! Source: a Chinese tutorial on distributed locks, its section 基于数据库排他锁实现
//! ("by a database's exclusive lock").

use crate::kit::advisory_number;
use crate::protocol::Call;
use crate::stores::sql::of_connection::{
    A_CONNECTION_EACH, Around, CLOCKED, ConnectionLayout, Dialect, ENDED, FREED, HINTED, Of, SKIPPED, Statements, Tell,
};
use crate::tables::joined::short_key;

/// What the driver says besides.
pub static AROUND: Around = Around {
    begin: Some(Call { name: "begin", body: &["BEGIN"], batch: false }),
    tell: Some(Tell {
        call: Call { name: "tell", body: &[include_str!("for_update/tell.sql")], batch: false },
        channel,
    }),
    end: Call { name: "end", body: &["ROLLBACK"], batch: false },
    make: Call { name: "make row", body: &[include_str!("for_update/make.sql")], batch: false },
    holds: Call { name: "holds", body: &[include_str!("for_update/holds.sql")], batch: false },
};

static DIALECT: Dialect = Dialect {
    store: "postgres",
    layout: "for_update",
    of: Of::Row,
    statements: Statements::on_rows(
        &[include_str!("for_update/take.sql")],
        &["COMMIT"],
        &[include_str!("for_update/look.sql")],
    ),
    notes: &[
        A_CONNECTION_EACH,
        ENDED,
        FREED,
        SKIPPED,
        "A pooler is refused, which would hand out a connection that has a row.",
        CLOCKED,
        HINTED,
    ],
    key: |name| short_key("the table resource_lock", name),
    channel: Some(channel),
};

/// A channel's name may have 63 bytes.
fn channel(key: &str) -> String {
    format!("lockwright_for_update_{}", advisory_number(key))
}

/// The layout, for a client that puts `prefix` before every name.
pub fn layout(prefix: &str) -> ConnectionLayout {
    ConnectionLayout { dialect: &DIALECT, prefix: prefix.to_owned(), ttl: std::time::Duration::MAX }
}
