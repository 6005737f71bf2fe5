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

use super::joined::{BY_DATABASE_CLOCK, Library, POLLED, PROMOTED};
use crate::error::{Error, Result};
use crate::guarantee::ExclusiveUntil;
use crate::lease::Card;
use crate::protocol::Terms;
use crate::uuid::is_hex;

/// What a name and an owner may have, in characters.
const LONGEST_NAME: usize = 64;
const LONGEST_OWNER: usize = 255;
/// Digits of an attempt.
const DIGITS: usize = 32;

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
    key,
    owner,
    card,
};

fn key(name: &str) -> Result<String> {
    let length = name.chars().count();
    if length > LONGEST_NAME {
        let message = format!(
            "a name in ShedLock's table has {LONGEST_NAME} characters at most, and this name and prefix have {length}"
        );
        return Err(Error::invalid("lock", message));
    }
    Ok(name.to_owned())
}

fn owner(terms: &Terms) -> String {
    format!("{}\t{}", terms.attempt, in_ascii(&terms.card)).chars().take(LONGEST_OWNER).collect()
}

fn card(owner: &str) -> Option<Card> {
    let (attempt, card) = owner.split_once('\t')?;
    (attempt.len() == DIGITS && is_hex(attempt)).then(|| Card::decode(&out_of_ascii(card)))
}

/// A column may be of a character set that has few others: each byte of those, and `%`, becomes `%` and two digits.
fn in_ascii(text: &str) -> String {
    let one = |byte: u8| match byte {
        b'%' | 0x80.. => format!("%{byte:02x}"),
        plain => char::from(plain).to_string(),
    };
    text.bytes().map(one).collect()
}

/// What was written so, as far as it was not cut off.
fn out_of_ascii(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let Some((digits, rest)) = part.split_at_checked(2) else { break };
        let Ok(byte) = u8::from_str_radix(digits, 16) else { break };
        bytes.push(byte);
        bytes.extend(rest.bytes());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::Kind;
    use crate::protocol::AttemptId;

    #[test]
    fn an_owner_fits_its_column_and_says_who_it_is() {
        let card_of = |label: &str| Card { host: "höst".into(), pid: 7, language: "rust".into(), label: label.into() };
        let written = |attempt, label: &str| {
            let text = card_of(label).encode().into();
            owner(&Terms::of_secret("x".into(), AttemptId(attempt), Duration::ZERO, text))
        };
        let (short, long) = (written(1, "50 % nightly, Zürich"), written(2, &"ü".repeat(400)));
        assert_eq!(card(&short), Some(card_of("50 % nightly, Zürich")));
        assert!(short.is_ascii());
        assert_eq!((long.len(), card(&long).map(|card| card.pid)), (LONGEST_OWNER, Some(7)));
        assert_ne!(written(1, "x"), written(2, "x"));
        for theirs in ["build-host-7", "0123456789abcdef0123456789abcdef", "0123\tx", ""] {
            assert_eq!(card(theirs), None, "{theirs}");
        }
    }

    #[test]
    fn a_name_that_has_no_room_is_refused() {
        assert_eq!(key(&"ü".repeat(64)).unwrap(), "ü".repeat(64));
        assert_eq!(key(&"x".repeat(65)).unwrap_err().kind(), Kind::InvalidConfig);
    }
}
