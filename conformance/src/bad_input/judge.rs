//! What an error must say, and must not.

use super::ground::Ground;
use super::table::Row;
use crate::shim::Failure;

/// What is wrong with the failure of `command` on `lock`, if anything is.
pub(super) fn judge(row: &Row, ground: &Ground<'_>, command: &str, lock: &str, failure: &Failure) -> Option<String> {
    let Failure { code, message, .. } = failure;
    let wanted = row.fails.as_deref().unwrap_or_default();
    let missing = |part: &str| (!message.contains(part)).then(|| format!("it does not say {part:?}: {message}"));
    if code != wanted {
        return Some(format!("it fails with {code}, not {wanted}: {message}"));
    }
    if !message.starts_with(&format!("{code}: ")) {
        return Some(format!("it does not begin with its code: {message}"));
    }
    if message.contains(char::is_control) || message.len() > 3_000 {
        return Some(format!("it is no line that a person can read: {message:.500?}"));
    }
    if let Some(unsaid) = row.says.iter().find_map(|part| missing(part)) {
        return Some(unsaid);
    }
    if !row.reaches_a_store() || command == "open" {
        return None;
    }
    let names_a_lock = row.has_a_good_name() && command != "list";
    let lock = names_a_lock.then(|| missing(&format!(" lock {lock:?}"))).flatten();
    lock.or_else(|| ground.address.as_ref().and_then(|address| missing(&format!(" on {address}"))))
}

/// Whether any of the texts shows the secret.
pub(super) fn shows(secret: &str, texts: &[&str]) -> Option<String> {
    let shown = texts.iter().find(|text| text.contains(secret))?;
    Some(format!("it shows the password: {}", shown.replace(secret, "<THE PASSWORD>")))
}
