//! What is pushed, as a text: where a store has no words of its own for it.

use crate::protocol::{AttemptId, StoreEvent};
use crate::time::StoreTime;

/// The text for an event that concerns `key`; none for what is not pushed.
pub fn encode(key: &str, event: &StoreEvent) -> Option<String> {
    Some(match event {
        StoreEvent::Granted { attempt, first, last, at } => format!("granted {attempt} {first} {last} {} {key}", at.0),
        StoreEvent::Broken { attempt } => format!("broken {attempt} 0 0 0 {key}"),
        StoreEvent::Next { tail } => format!("next {tail:x} 0 0 0 {key}"),
        StoreEvent::Dropped => format!("dropped 0 0 0 0 {key}"),
        StoreEvent::Turn { .. }
        | StoreEvent::Changed { .. }
        | StoreEvent::Gone { .. }
        | StoreEvent::BrokenAt { .. } => return None,
    })
}

/// The key and the event of a text; none where it is no such text.
pub fn decode(text: &str) -> Option<(&str, StoreEvent)> {
    let mut parts = text.splitn(6, ' ');
    let kind = parts.next()?;
    let attempt = AttemptId(u128::from_str_radix(parts.next()?, 16).ok()?);
    let (first, last) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let at = StoreTime(parts.next()?.parse().ok()?);
    let event = match kind {
        "granted" => StoreEvent::Granted { attempt, first, last, at },
        "broken" => StoreEvent::Broken { attempt },
        "next" => StoreEvent::Next { tail: attempt.tail() },
        "dropped" => StoreEvent::Dropped,
        _ => return None,
    };
    Some((parts.next()?, event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_read_back() {
        let attempt = AttemptId(7 << 100);
        let granted = StoreEvent::Granted { attempt, first: 1, last: u64::MAX, at: StoreTime(-3) };
        let told = [StoreEvent::Broken { attempt }, StoreEvent::Next { tail: 7 }, StoreEvent::Dropped];
        for event in std::iter::once(granted).chain(told) {
            for key in ["a", "with spaces and\ttabs", ""] {
                assert_eq!(decode(&encode(key, &event).unwrap()), Some((key, event.clone())));
            }
        }
        for nonsense in
            ["", "granted", "granted x 1 1 1 key", "granted 1 1 1 1", "other 1 1 1 1 key", "granted 1 -1 1 1 k"]
        {
            assert_eq!(decode(nonsense), None, "{nonsense:?}");
        }
    }
}
