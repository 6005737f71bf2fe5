//! Texts that a store keeps, and anybody may have written there.

use lockwright_machines::lock_cell::Claimant;
use lockwright_machines::name;
use lockwright_machines::stores::redis::layouts::native_scripts;

use super::Feed;
use crate::lease::Card;
use crate::protocol::Layout;

/// What is read as something is written and read as the same; names and keys are one to one.
pub fn kept_text(data: &[u8]) {
    let whole = String::from_utf8_lossy(data);
    if let Some(claimant) = Claimant::parse(&whole) {
        assert_eq!(Claimant::parse(&claimant.to_string()), Some(claimant));
    }
    let card = Card::decode(&whole);
    assert_eq!(Card::decode(&card.encode()), card);

    let mut feed = Feed(data);
    let (prefix, name) = (feed.text(), feed.text());
    let escaped = name::escape(&name, &['{', '}']);
    assert!(!escaped.contains(['{', '}']) && name::unescape(&escaped).as_deref() == Some(&name), "{escaped}");
    if name::check_prefix(&prefix).is_err() {
        return;
    }
    let redis = native_scripts::layout(prefix.as_str());
    for text in [&*name, &*whole] {
        if name::check(text).is_ok() {
            let key = redis.key(text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((redis.name_of)(&prefix, &key).as_deref(), Some(text));
        }
        let key = format!("lw:{{{text}}}");
        if let Some(read) = (redis.name_of)(&prefix, &key) {
            assert_eq!((redis.key)(&prefix, &read), key, "another key's name");
        }
    }
}
