//! The layout `shedlock`: the table of ShedLock's JDBC providers.
//!
//! | column | holds |
//! |---|---|
//! | `name` | the prefix and the name, at most 64 characters |
//! | `lock_until` | the end of the lease, in UTC; what is over is free |
//! | `locked_at` | since when, in UTC: our fencing token |
//! | `locked_by` | ours: the attempt, and the holder card behind a tab; ShedLock's: its host |
//!
//! A row is never deleted: ShedLock remembers which rows it has seen, and would not make them again. Whoever gives back
//! writes that the lease is over. For how long ShedLock keeps a lock at least (`lockAtLeastFor`) is in `lock_until`.
//!
//! Source: ShedLock 7 `PostgresSqlServerTimeStatementsSource.java`, `MySqlServerTimeStatementsSource.java`.

use super::joined::{BY_DATABASE_CLOCK, Library, POLLED, PROMOTED, short_key};
use super::owner::{card, owner};
use crate::guarantee::ExclusiveUntil;

/// See the [module](self).
pub static SHEDLOCK: Library = Library {
    layout: "shedlock",
    product: "ShedLock",
    table: "shedlock",
    rights: "SELECT, INSERT, UPDATE",
    language: "shedlock",
    exclusive_until: ExclusiveUntil::StoreFailover,
    notes: &[
        "ShedLock has to be set up with usingDbTime: else its holders and ours exclude each other as far as its hosts' \
         clocks agree with the database's.",
        "ShedLock's holders have no fencing token, so a token does not order them against ours.",
        "ShedLock gives back and extends by its host's name: what comes late may touch a later hold of the same host's.",
        BY_DATABASE_CLOCK,
        PROMOTED,
        POLLED,
    ],
    key: |name| short_key("ShedLock's table", name),
    owner,
    card,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn a_name_that_has_no_room_is_refused() {
        assert_eq!((SHEDLOCK.key)(&"ü".repeat(64)).unwrap(), "ü".repeat(64));
        assert_eq!((SHEDLOCK.key)(&"x".repeat(65)).unwrap_err().kind(), Kind::InvalidConfig);
    }
}
