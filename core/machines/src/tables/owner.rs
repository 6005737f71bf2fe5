//! Whose a row is, in a column that takes a text.

use crate::lease::Card;
use crate::protocol::Terms;
use crate::uuid::is_hex;

/// What the narrowest of such columns takes, in characters.
const LONGEST: usize = 255;
/// Digits of an attempt.
const DIGITS: usize = 32;

/// Whose a row is that an attempt on these terms takes: 32 digits, and the holder card behind a tab.
pub(super) fn owner(terms: &Terms) -> String {
    format!("{}\t{}", terms.attempt, in_ascii(&terms.card)).chars().take(LONGEST).collect()
}

/// What such an owner says of itself; none where another library wrote it.
pub(super) fn card(owner: &str) -> Option<Card> {
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
        assert_eq!((long.len(), card(&long).map(|card| card.pid)), (LONGEST, Some(7)));
        assert_ne!(written(1, "x"), written(2, "x"));
        for theirs in ["build-host-7", "0123456789abcdef0123456789abcdef", "0123\tx", ""] {
            assert_eq!(card(theirs), None, "{theirs}");
        }
    }
}
