//! UUIDs, as text.

use crate::hex::Hex;
use crate::protocol::AttemptId;

/// These 128 bits as UUIDs are written.
pub(crate) fn written(bits: u128) -> String {
    let hex = Hex::of(bits);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// An attempt as UUIDs are written. Its bits are as they are: nobody looks at the version in an owner.
pub(crate) fn uuid(attempt: AttemptId) -> String {
    written(attempt.0)
}

/// Whether `text` is written as UUIDs are.
pub(crate) fn is_uuid(text: &str) -> bool {
    let parts: Vec<_> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(|part| is_hex(part))
}

/// Whether `text` has no other characters than hexadecimal digits, none of them capital.
pub(crate) fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}
