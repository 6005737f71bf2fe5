//! Which lock names are accepted, and how a layout that cannot take some character writes them.

use std::sync::Arc;

use crate::error::{Error, Result};

/// The longest name, in bytes of UTF-8.
pub const MAX_BYTES: usize = 1024;

/// The longest prefix, in bytes of UTF-8.
pub const MAX_PREFIX_BYTES: usize = 512;

/// The longest label, in bytes of UTF-8.
pub const MAX_LABEL_BYTES: usize = 128;

/// Accepts a lock name: UTF-8, 1 to 1024 bytes, no control characters. Braces, percent signs, slashes, `..` and any script
/// are fine.
///
/// # Errors
/// `invalid_config` that says what is wrong with it.
pub fn check(name: &str) -> Result<Arc<str>> {
    if name.is_empty() {
        return Err(Error::invalid("lock", "the name is empty; give it 1 to 1024 bytes of UTF-8"));
    }
    if name.len() > MAX_BYTES {
        return Err(Error::invalid(
            "lock",
            format!("the name has {} bytes; at most {MAX_BYTES} bytes of UTF-8 are allowed", name.len()),
        ));
    }
    no_control("lock", "name", name)?;
    Ok(name.into())
}

/// Accepts a label: at most 128 bytes of UTF-8, no control characters.
///
/// # Errors
/// `invalid_config` that says what is wrong with it.
pub fn check_label(label: &str) -> Result<()> {
    if label.len() > MAX_LABEL_BYTES {
        return Err(Error::invalid(
            "lock",
            format!("the label has {} bytes; at most {MAX_LABEL_BYTES} bytes of UTF-8 are allowed", label.len()),
        ));
    }
    no_control("lock", "label", label)
}

/// Accepts a prefix: at most 512 bytes of UTF-8, no control characters.
///
/// # Errors
/// `invalid_config` that says what is wrong with it.
pub fn check_prefix(prefix: &str) -> Result<()> {
    if prefix.len() > MAX_PREFIX_BYTES {
        return Err(Error::invalid(
            "connect",
            format!("the prefix has {} bytes; at most {MAX_PREFIX_BYTES} bytes of UTF-8 are allowed", prefix.len()),
        ));
    }
    no_control("connect", "prefix", prefix)
}

fn no_control(operation: &'static str, what: &str, text: &str) -> Result<()> {
    match text.chars().find(|c| c.is_control()) {
        None => Ok(()),
        Some(c) => Err(Error::invalid(
            operation,
            format!("the {what} has the control character U+{:04X}; remove it or encode the {what}", c as u32),
        )),
    }
}

/// Writes `name` so that none of `forbidden` occurs in it: each of them, and `%` itself, becomes `%` and two hex digits.
/// Different names stay different.
pub fn escape(name: &str, forbidden: &[char]) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if c == '%' || forbidden.contains(&c) {
            debug_assert!(c.is_ascii());
            out.push_str(&format!("%{:02X}", c as u32));
        } else {
            out.push(c);
        }
    }
    out
}

/// Reads back what [`escape`] wrote; `None` for text that it cannot have written.
pub fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let byte = u8::from_str_radix(rest.get(at + 1..at + 3)?, 16).ok()?;
        out.push(char::from(byte));
        rest = &rest[at + 3..];
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn names_of_every_allowed_kind_pass() {
        for name in ["a", "{x}", "100%", "a/b/..", "订单:42", &"x".repeat(1024)] {
            assert_eq!(&*check(name).unwrap(), name);
        }
    }

    #[test]
    fn names_that_no_store_could_keep_are_refused() {
        for name in ["", "a\0b", "a\nb", "\u{85}", &"x".repeat(1025)] {
            assert_eq!(check(name).unwrap_err().kind(), Kind::InvalidConfig, "{name:?}");
        }
        assert_eq!(check_label(&"x".repeat(129)).unwrap_err().kind(), Kind::InvalidConfig);
    }

    #[test]
    fn escaping_keeps_different_names_different() {
        let names = ["{a}", "%7Ba%7D", "a", "{a", "%", "%25"];
        let mut written: Vec<_> = names.iter().map(|n| escape(n, &['{', '}'])).collect();
        for (name, text) in names.iter().zip(&written) {
            assert_eq!(unescape(text).as_deref(), Some(*name));
        }
        written.sort();
        written.dedup();
        assert_eq!(written.len(), names.len());
        assert_eq!(unescape("%zz"), None);
        assert_eq!(unescape("%é"), None);
    }
}
