//! `native` in PostgreSQL: the [cells](crate::cell), each of them in a row.

use crate::cell_layout;
use crate::guarantee::Guarantees;
use crate::native_machine::NativeLayout;
use crate::protocol::Call;
use crate::stores::sql;

/// What makes the table.
pub const SCHEMA: &str = include_str!("schema.sql");
/// Writes rows that are as expected.
pub const EXCHANGE: &str = include_str!("exchange.sql");
/// Writes one row that is as expected.
pub const UPDATE: &str = include_str!("update.sql");
/// Reads rows in the order of their keys.
pub const PAGE: &str = include_str!("page.sql");
/// Removes rows that nobody wrote since.
pub const REMOVE: &str = include_str!("remove.sql");

/// Makes the table.
pub static MAKE: Call = sql::making(&[SCHEMA]);

/// Asks what the clock says.
pub static CLOCK: Call = sql::telling_time(&["SELECT (extract(epoch FROM clock_timestamp()) * 1e6)::bigint::text"]);

/// The layout, for a connection that puts `prefix` before every name.
pub fn layout(prefix: &str) -> NativeLayout {
    cell_layout::layout(prefix, guarantees)
}

fn guarantees() -> Guarantees {
    sql::guarantees(
        "postgres",
        &[
            "Leases end by the database's clock; what the clients' clocks say changes nothing.",
            "A replica that is promoted without the last commits of its primary may grant a lock that was granted there: \
             let the locks' commits wait for a synchronous replica.",
            "Behind a pooler in transaction mode, where no notifications arrive, waiters ask again by a timer.",
        ],
    )
}
