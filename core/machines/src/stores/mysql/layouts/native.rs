//! `native` in MySQL and MariaDB: the [cells](crate::cell), each of them in a row.

use crate::cell_layout;
use crate::guarantee::Guarantees;
use crate::native_machine::NativeLayout;
use crate::protocol::Call;
use crate::stores::sql;

/// What makes the tables.
pub const SCHEMA: &str = include_str!("schema.sql");
/// Writes a row that is as expected.
pub const UPDATE: &str = include_str!("update.sql");
/// Writes a row where there is none.
pub const INSERT: &str = include_str!("insert.sql");
/// Reads rows by their names.
pub const READ: &str = include_str!("read.sql");
/// Reads rows in the order of their names.
pub const PAGE: &str = include_str!("page.sql");
/// Removes a row that nobody wrote since.
pub const REMOVE: &str = include_str!("remove.sql");

/// Tells an inbox something, if `@written` is 1.
pub const TELL: &str = include_str!("tell.sql");
/// What an inbox was told.
pub const HEAR: &str = include_str!("hear.sql");
/// Takes away what was heard.
pub const HEARD: &str = include_str!("heard.sql");
/// Takes away what nobody heard.
pub const UNHEARD: &str = include_str!("unheard.sql");

/// Makes the tables.
pub static MAKE: Call = sql::making(&[SCHEMA]);

/// Asks what the clock says.
pub static CLOCK: Call = sql::telling_time(&["SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"]);

/// The layout, for a connection that puts `prefix` before every name.
pub fn layout(prefix: &str) -> NativeLayout {
    cell_layout::layout(prefix, guarantees)
}

fn guarantees() -> Guarantees {
    sql::guarantees(
        "mysql",
        &[
            "Leases end by the database's clock; what the clients' clocks say changes nothing.",
            "The database tells nobody anything by itself: a client with waiters looks every 2 to 50 ms, with jitter, for \
             what they were told, and a hand-over takes as long as that.",
            "A replica that is promoted without the last commits of its primary may grant a lock that was granted there: \
             let commits wait for a replica (semi-synchronous replication).",
            "In a Galera cluster all clients of a lock write to the same node.",
        ],
    )
}
