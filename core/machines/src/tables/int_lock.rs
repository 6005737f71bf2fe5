//! The layout `int_lock`: the table `INT_LOCK` of Spring Integration's `JdbcLockRegistry`, in the region `DEFAULT`.
//!
//! | column | holds |
//! |---|---|
//! | `REGION` | `DEFAULT` |
//! | `LOCK_KEY` | a UUID: the name, if it is one, else that which Java makes of its bytes |
//! | `CLIENT_ID` | ours: the attempt as a UUID of version 8; Spring's: its repository's, most often of version 4 |
//! | `CREATED_DATE` | since when, in UTC: our fencing token |
//! | `EXPIRED_AFTER` | the end of the lease, in UTC |
//!
//! Whoever gives back deletes the row.
//!
//! Spring tells the time by the clock of its host, we by that of the database: all of them have to agree. Before its
//! version 7 the table had no `EXPIRED_AFTER`, and each repository judged by a ttl of its own: such a table is refused.
//!
//! Source: Spring Integration 7.1 `DefaultLockRepository.java`, `JdbcLockRegistry.java`, `UUIDConverter.java`.

use super::joined::{BY_DATABASE_CLOCK, DIGESTS, Library, POLLED, PROMOTED, unnamed};
use crate::error::Result;
use crate::guarantee::ExclusiveUntil;
use crate::lease::Card;
use crate::md5::digest;
use crate::protocol::Terms;
use crate::uuid::{is_uuid, written};

/// Where a UUID says its version, and its variant.
const VERSION: u32 = 76;
const VARIANT: u32 = 62;
/// That of attempts of ours, which leaves all other bits to whoever makes it.
const OURS: u128 = 8;
/// That of names' digests.
const BY_MD5: u128 = 3;

/// See the [module](self).
pub static INT_LOCK: Library = Library {
    layout: "int_lock",
    product: "Spring Integration 7",
    table: "INT_LOCK",
    rights: "SELECT, INSERT, UPDATE, DELETE",
    language: "spring",
    exclusive_until: ExclusiveUntil::ClockSkew,
    notes: &[
        "Spring judges leases by the clock of its own host: its holders and ours exclude each other as far as that agrees with \
         the database's.",
        "Spring's holders have no fencing token, so a token does not order them against ours.",
        "Spring's release and renewal name the repository, not the hold: a late one may touch a later hold of the same one.",
        "Spring's holders last for its repository's timeToLive, and are renewed only if its program does so.",
        BY_DATABASE_CLOCK,
        DIGESTS,
        PROMOTED,
        POLLED,
    ],
    key,
    owner,
    card,
};

fn key(name: &str) -> Result<String> {
    let plain = name.to_ascii_lowercase();
    let of_name = || written(of_version(BY_MD5, u128::from_be_bytes(digest(name.as_bytes()))));
    Ok(if is_uuid(&plain) { plain } else { of_name() })
}

/// These bits as a UUID of that version.
fn of_version(version: u128, bits: u128) -> u128 {
    let rest = bits & !(0xF << VERSION) & !(0b11 << VARIANT);
    rest | version << VERSION | 0b10 << VARIANT
}

fn owner(terms: &Terms) -> String {
    written(of_version(OURS, terms.attempt.0))
}

fn card(owner: &str) -> Option<Card> {
    let is_ours = is_uuid(owner) && owner.as_bytes().get(14) == Some(&b'8');
    is_ours.then(unnamed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::protocol::AttemptId;

    /// What `UUIDConverter.getUUID` makes of them.
    #[test]
    fn keys_are_those_that_spring_makes_of_names() {
        for (name, uuid) in [
            ("orders:42", "87f88d1e-f091-3d9f-ad58-99fa6b554064"),
            ("", "d41d8cd9-8f00-3204-a980-0998ecf8427e"),
            ("9B2E1C3A-0000-4000-8000-0123456789AB", "9b2e1c3a-0000-4000-8000-0123456789ab"),
            ("a-b-c-d-e", "808ba38e-0edb-34df-b95d-f888c8890634"),
            (" 9b2e1c3a-0000-4000-8000-0123456789ab", "c03af319-b627-359b-ab55-f0573bef01c7"),
        ] {
            assert_eq!(key(name).unwrap(), uuid, "{name}");
        }
    }

    #[test]
    fn an_owner_is_a_uuid_that_nobody_else_makes() {
        let owner = |attempt| owner(&Terms::of_secret("x".into(), AttemptId(attempt), Duration::ZERO, "".into()));
        let ours = owner(0xdead_beef_0001_f203_f405_0607_0809_0a0b);
        assert_eq!(ours, "deadbeef-0001-8203-b405-060708090a0b");
        assert!(card(&ours).is_some() && owner(1) != owner(2));
        for theirs in ["9b2e1c3a-0000-4000-8000-0123456789ab", "a-repository", ""] {
            assert_eq!(card(theirs), None, "{theirs}");
        }
    }
}
