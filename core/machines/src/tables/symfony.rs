//! The layout `symfony`: the table `lock_keys` of Symfony's `PdoStore` and `DoctrineDbalStore`.
//!
//! | column | holds |
//! |---|---|
//! | `key_id` | the SHA-256 of the name, in hexadecimal digits |
//! | `key_token` | ours: 32 digits of the attempt, and 12 of since when, in 16 microseconds: our fencing token; Symfony's: 32 bytes in base64 |
//! | `key_expiration` | the end of the lease, in whole seconds since 1970 |
//!
//! Whoever gives back deletes the row.
//!
//! All tell the time by the database's clock, but Symfony in whole seconds: rounded in PostgreSQL, cut off in MySQL. A
//! lease of ours is written so long that no such clock ends it early, and one of theirs is over when every holder must
//! know it.
//!
//! Source: Symfony 5.4 `PdoStore.php`, `DoctrineDbalStore.php`, `DatabaseTableTrait.php`.

use super::joined::{BY_DATABASE_CLOCK, DIGESTS, Library, POLLED, PROMOTED, unnamed};
use crate::error::Result;
use crate::guarantee::ExclusiveUntil;
use crate::lease::Card;
use crate::protocol::Terms;
use crate::uuid::is_hex;

/// What the column of tokens takes where it is narrowest.
const DIGITS: usize = 44;

/// See the [module](self).
pub static SYMFONY: Library = Library {
    layout: "symfony",
    product: "Symfony's Lock component",
    table: "lock_keys",
    rights: "SELECT, INSERT, UPDATE, DELETE",
    language: "symfony",
    exclusive_until: ExclusiveUntil::StoreFailover,
    notes: &[
        "Symfony's holders have no fencing token, so a token does not order them against ours.",
        "Symfony's holders last for their ttl (300 s if none is said), and are renewed only if their program calls refresh.",
        "Leases are whole seconds in the table: after a crash a lock is free up to two seconds later than its ttl says.",
        BY_DATABASE_CLOCK,
        DIGESTS,
        "Shared locks and Symfony's PostgreSqlStore, which locks by sessions, are not joined.",
        PROMOTED,
        POLLED,
    ],
    key,
    owner,
    card,
};

/// The database makes the digest.
fn key(name: &str) -> Result<String> {
    Ok(name.to_owned())
}

fn owner(terms: &Terms) -> String {
    terms.attempt.to_string()
}

fn card(owner: &str) -> Option<Card> {
    let is_ours = owner.len() == DIGITS && is_hex(owner);
    is_ours.then(unnamed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::protocol::AttemptId;

    #[test]
    fn an_owner_leaves_room_for_its_token_and_is_nobody_elses() {
        let owner = |attempt| owner(&Terms::of_secret("x".into(), AttemptId(attempt), Duration::ZERO, "".into()));
        let written = format!("{}{:012x}", owner(7), 1_790_000_000_000_000_u64 >> 4);
        assert_eq!(written.len(), DIGITS);
        assert!(card(&written).is_some() && owner(1) != owner(2));
        for theirs in ["kYP2m8zJ0uF5cQ3rT7vX1bN4sD6gH9jL2pW8eA5iO0k=", &owner(7), ""] {
            assert_eq!(card(theirs), None, "{theirs}");
        }
    }
}
