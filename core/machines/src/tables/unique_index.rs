//! The layout `unique_index`: the table with a unique index that many programs make for themselves, as tutorials
//! describe it.
//!
//! | column | holds |
//! |---|---|
//! | `lock_name`, with the unique index | the prefix and the name, at most 64 characters |
//! | `desc` | ours: since when and until when, the attempt, and the holder card behind a tab; others': any text |
//! | `update_time` | written by the database |
//!
//! Others take a lock by inserting its row and give it back by deleting it. Their rows have no end, so one is held
//! until it is deleted. Ours are taken by the next of ours once they are over: whoever else polls sees them until then.
//!
//! Since when and until when are microseconds since 1970 in 16 digits each, so that they are in order as texts: no text
//! of others' is read for a number.
//!
//! Source: a Chinese tutorial on distributed locks, its section 基于唯一索引实现 ("by a unique index").

use super::joined::{BY_DATABASE_CLOCK, Library, POLLED, PROMOTED, short_key};
use super::owner::{card, owner};
use crate::guarantee::ExclusiveUntil;

/// See the [module](self).
pub static UNIQUE_INDEX: Library = Library {
    layout: "unique_index",
    product: "the layout unique_index",
    table: "lock",
    rights: "SELECT, INSERT, UPDATE, DELETE",
    language: "sql",
    exclusive_until: ExclusiveUntil::StoreFailover,
    notes: &[
        "Rows of other programs have no end: a lock whose holder crashed is free once somebody deletes its row.",
        "Other programs know no lease: if a holder of ours crashes, they wait until one of ours takes the lock and gives it back.",
        "Other programs give back by the lock's name alone: what comes late frees whoever holds it then.",
        "Other programs' holders have no fencing token, so a token does not order them against ours.",
        BY_DATABASE_CLOCK,
        PROMOTED,
        POLLED,
    ],
    key: |name| short_key("the table lock", name),
    owner,
    card,
};
