//! The secret that an exported lock is resumed with: text of ASCII without spaces, `lwx1.<attempt>.<name>`.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::name;
use crate::protocol::AttemptId;

const HEAD: &str = "lwx1.";
const DIGITS: usize = 32;

/// The secret of the lock `name` that `attempt` holds for nobody.
pub fn text(attempt: AttemptId, name: &str) -> String {
    let mut text = format!("{HEAD}{attempt}.");
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b':' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// The attempt that `text` stands for, if it is a secret of `lock`.
///
/// # Errors
/// `invalid_config` for what is none.
pub fn of_lock(text: &str, lock: &str) -> Result<AttemptId> {
    let (attempt, name) = read(text)?;
    if *name != *lock {
        let message = format!("the secret is of the lock {name:?}; resume that one");
        return Err(Error::invalid("resume", message).on_lock(lock));
    }
    Ok(attempt)
}

/// The attempt and the lock's name that `text` stands for.
///
/// # Errors
/// `invalid_config` for what is no secret.
pub fn read(text: &str) -> Result<(AttemptId, Arc<str>)> {
    let read = || {
        let (digits, name) = text.strip_prefix(HEAD)?.split_once('.')?;
        if digits.len() != DIGITS || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let attempt = AttemptId(u128::from_str_radix(digits, 16).ok()?);
        Some((attempt, name::check(&decoded(name)?).ok()?))
    };
    let message = "this is not the secret of an exported lock; give what `export` returned, unchanged";
    read().ok_or_else(|| Error::invalid("resume", message))
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                let digits = std::str::from_utf8(&digits).ok().filter(|digits| !digits.starts_with('+'))?;
                u8::from_str_radix(digits, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn a_secret_is_read_back_or_refused() {
        let attempt = AttemptId(7);
        for name in ["x", "orders:42", "a b/%2E{c}", "\u{1F512}订单", "..", "+1"] {
            let secret = text(attempt, name);
            assert!(secret.bytes().all(|byte| byte.is_ascii_graphic()), "{}", secret);
            let (read, of) = read(&secret).unwrap();
            assert_eq!((read, &*of), (attempt, name));
        }
        let digits = "0".repeat(DIGITS);
        let wrong = ["", "lwx1.", "lwx1.7.x", &format!("lwx1.{digits}."), &format!("lwx1.{digits}.%"), "lwx2.7.x"];
        for wrong in wrong.into_iter().map(str::to_owned).chain([
            format!("lwx1.{digits}.%F0"),
            format!("lwx1.{digits}.%+1"),
            format!("lwx1.+{}.x", &digits[1..]),
            format!("lwx1.{digits}.%00"),
        ]) {
            assert_eq!(read(&wrong).unwrap_err().kind(), Kind::InvalidConfig, "{wrong}");
        }
    }
}
