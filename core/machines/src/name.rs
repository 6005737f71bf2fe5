//! Which lock names are accepted, how a layout that cannot take some character writes them, and how they are shown.
//!
//! A name is what its bytes say: nothing is normalized, so that `é` as one character and as two are two names, and so
//! are names that differ in an invisible character only. What cannot be seen, or would steer a terminal, is shown by
//! its number.

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::{Error, Result};

/// The longest name, in bytes of UTF-8.
pub const MAX_BYTES: usize = 1024;

/// The longest prefix, in bytes of UTF-8.
pub const MAX_PREFIX_BYTES: usize = 512;

/// The longest label, in bytes of UTF-8.
pub const MAX_LABEL_BYTES: usize = 128;

/// Accepts a lock name: UTF-8, 1 to 1024 bytes, no control characters. Braces, percent signs, slashes, `..` and any
/// script are fine, with the joiners and marks of direction that it is written with.
///
/// # Errors
/// `invalid_config` that says what is wrong with it.
pub fn check(name: &str) -> Result<Arc<str>> {
    filled("lock", "name", name, MAX_BYTES)?;
    Ok(name.into())
}

/// Accepts the key of a lock: its name with the prefix of its address before it, 1 to 1536 bytes of UTF-8, no control
/// characters.
///
/// # Errors
/// `invalid_config` that says what is wrong with it.
pub(crate) fn check_key(key: &str) -> Result<()> {
    filled("kit", "key", key, MAX_PREFIX_BYTES + MAX_BYTES)
}

/// The names of a list, in order: what a store has under a longer prefix than a client's may be too long for a name.
#[must_use]
pub fn listed(mut names: Vec<String>) -> Vec<String> {
    names.retain(|name| check(name).is_ok());
    names.sort();
    names.dedup();
    names
}

/// Accepts a label: at most 128 bytes of UTF-8, no control characters.
///
/// # Errors
/// `invalid_config` that says what is wrong with it.
pub fn check_label(label: &str) -> Result<()> {
    bounded("lock", "label", label, MAX_LABEL_BYTES)
}

/// Accepts a prefix: at most 512 bytes of UTF-8, no control characters.
///
/// # Errors
/// `invalid_config` that says what is wrong with it.
pub fn check_prefix(prefix: &str) -> Result<()> {
    bounded("connect", "prefix", prefix, MAX_PREFIX_BYTES)
}

/// Accepts 1 to `most` bytes of UTF-8 without control characters.
///
/// # Errors
/// `invalid_config` that says what is wrong with `what`.
pub(crate) fn filled(operation: &'static str, what: &str, text: &str, most: usize) -> Result<()> {
    if text.is_empty() {
        return Err(Error::invalid(operation, format!("the {what} is empty; give it 1 to {most} bytes of UTF-8")));
    }
    bounded(operation, what, text, most)
}

fn bounded(operation: &'static str, what: &str, text: &str, most: usize) -> Result<()> {
    if text.len() > most {
        let bytes = text.len();
        let says = format!("the {what} has {bytes} bytes; at most {most} bytes of UTF-8 are allowed");
        return Err(Error::invalid(operation, says));
    }
    match text.chars().find(|c| c.is_control()) {
        None => Ok(()),
        Some(c) => Err(Error::invalid(
            operation,
            format!("the {what} has the control character U+{:04X}; remove it or encode the {what}", c as u32),
        )),
    }
}

/// A text as people see it: control characters, and those without a sign of their own (zero-width ones, marks of
/// direction, separators of lines) are written as `\u{200b}`, so that two names that differ look different and no name
/// changes what stands beside it.
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unseen) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_unseen(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Whether a character is one of Unicode's general categories Cc, Cf, Zl and Zp.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
            | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0001}' | '\u{e0020}'..='\u{e007f}')
}

/// Writes `name` so that none of `forbidden` occurs in it: each of them, and `%` itself, becomes `%` and two hex
/// digits. Different names stay different.
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
        for name in ["a", "{x}", "100%", "a/b/..", "订单:42", "می\u{200c}خواهم", "👩\u{200d}🚀", &"x".repeat(1024)]
        {
            assert_eq!(&*check(name).unwrap(), name);
        }
    }

    #[test]
    fn what_cannot_be_seen_is_shown_by_its_number() {
        for (text, seen) in [
            ("caf\u{e9}", "café"),
            ("订单 שלום \"x\" \\", "订单 שלום \"x\" \\"),
            ("a\u{200b}b", "a\\u{200b}b"),
            ("\u{202e}abc\u{2066}\u{feff}", "\\u{202e}abc\\u{2066}\\u{feff}"),
            ("x\u{2028}y\u{1b}[2J\t", "x\\u{2028}y\\u{1b}[2J\\t"),
        ] {
            assert_eq!(shown(text), seen);
            assert_eq!(matches!(shown(text), Cow::Borrowed(_)), text == seen);
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
