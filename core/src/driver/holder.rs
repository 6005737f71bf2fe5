//! What errors say of whoever holds a lock.

use std::time::Duration;

use crate::lease::{Card, Inspection};

/// Who holds what was seen and for how long, and how many wait, in a few words of an error on the host called `host`;
/// `None` when nobody does.
pub(crate) fn held_by(seen: &Inspection, host: &str) -> Option<String> {
    let holder = seen.holder.as_ref()?;
    let Card { host: theirs, pid, language, label } = &holder.card;
    let mut who = match theirs.as_str() {
        "" => "a program that says nothing of itself (another library's)".to_owned(),
        _ if theirs == host && *pid == std::process::id() => "this process".to_owned(),
        _ => format!("{theirs} pid {pid} ({language})"),
    };
    if !label.is_empty() {
        who += &format!(" {label:?}");
    }
    let others = seen.shared.as_ref().map_or(0, |shared| shared.holders.len().saturating_sub(1));
    if others > 0 {
        who += &format!(" and {others} more");
    }
    if let Some(held_for) = holder.held_for {
        who += &format!(" for {}", about(held_for));
    }
    if seen.waiters > 0 {
        who += &format!("; {} wait in its line", seen.waiters);
    }
    Some(who)
}

/// A span for a person, about as long.
pub(crate) fn about(span: Duration) -> String {
    match span.as_secs() {
        0 => format!("{} ms", span.as_millis()),
        1..10 => format!("{:.1} s", span.as_secs_f64()),
        seconds @ 10..600 => format!("{seconds} s"),
        seconds @ 600..36_000 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}
