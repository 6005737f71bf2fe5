//! What lies under a key, told by its looks: the one table of what the libraries in use write there.

use crate::base64::DIGITS;
use crate::uuid::{is_hex, is_uuid};

/// What a text looks like that is the value of a key, or a member of a sorted set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// No bytes at all.
    Nothing,
    /// 32 hexadecimal digits.
    Hex,
    /// 16 bytes in padded base64.
    Base64,
    /// 18 bytes in base64.
    Base64Of18,
    /// 32 bytes in padded base64.
    Base64Of32,
    /// 16 bytes in base64 for URLs without padding, and whatever comes behind.
    UrlBase64,
    /// A UUID.
    Uuid,
    /// A number.
    Number,
    /// A machine, a process id and a GUID.
    MachineGuid,
    /// A serialized Java object.
    Java,
    /// What ShedLock writes.
    ShedLock,
    /// Bytes that are no UTF-8.
    Bytes,
    /// Any other text.
    Other,
}

impl Shape {
    /// What `text` looks like.
    pub fn of(text: &str) -> Self {
        match text {
            "" => Shape::Nothing,
            _ if text.len() == 32 && is_hex(text) => Shape::Hex,
            _ if is_base64(text, 22, "==") => Shape::Base64,
            _ if is_base64(text, 43, "=") => Shape::Base64Of32,
            _ if is_base64(text, 24, "") => Shape::Base64Of18,
            _ if is_uuid(text) => Shape::Uuid,
            _ if text.bytes().all(|b| b.is_ascii_digit() || b == b'.') => Shape::Number,
            // The stream magic AC ED and version 0005 of Java serialization; the first two are no UTF-8.
            _ if text.starts_with("\u{FFFD}\u{FFFD}\0\u{5}") => Shape::Java,
            _ if text.starts_with("ADDED:") => Shape::ShedLock,
            _ if text.contains('\u{FFFD}') => Shape::Bytes,
            _ if is_machine_guid(text) => Shape::MachineGuid,
            _ if is_url_base64(text) => Shape::UrlBase64,
            _ => Shape::Other,
        }
    }

    /// What a text of this shape is, and who writes it.
    pub const fn described(self) -> &'static str {
        match self {
            Shape::Nothing => "an empty text",
            Shape::Hex => "32 hexadecimal digits, as redis-py and node-redlock write them",
            Shape::Base64 => "16 bytes in base64, as redsync writes them",
            Shape::Base64Of18 => "18 bytes in base64, as python-redis-lock writes them",
            Shape::Base64Of32 => "32 bytes in base64, as Symfony before 5.2 writes them",
            Shape::UrlBase64 => "a text that begins as those of bsm/redislock do",
            Shape::Uuid => "a UUID, as Spring, Predis and many others write one",
            Shape::Number => "a number, as counters and SETNX locks with a time in them write one",
            Shape::MachineGuid => "a machine, a process id and a GUID, as DistributedLock of .NET writes them",
            Shape::Java => "a serialized Java object, as a RedisTemplate without string serializers writes one",
            Shape::ShedLock => "a lock of ShedLock",
            Shape::Bytes => "bytes that are no text, as rslock and rueidislock write them",
            Shape::Other => "a text of another kind",
        }
    }
}

fn is_base64(text: &str, digits: usize, padding: &str) -> bool {
    let text = text.strip_suffix(padding).unwrap_or_default();
    text.len() == digits && text.bytes().all(|b| DIGITS.contains(&b))
}

fn is_url_base64(text: &str) -> bool {
    text.len() >= 22 && text.bytes().take(22).all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

fn is_machine_guid(text: &str) -> bool {
    let mut parts = text.rsplit('_');
    let guid = parts.next().is_some_and(|guid| guid.len() == 32 && is_hex(guid));
    guid && parts.next().is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()))
}

/// A hash whose fields, or a sorted set whose members, are these: whose lock it is, where that is plain.
fn known(kind: &str, names: &str) -> Option<&'static str> {
    let mut names = names.split(' ').filter(|name| !name.is_empty()).peekable();
    let is_redisson = |name: &str| {
        let mut parts = name.split(':');
        parts.next().is_some_and(is_uuid)
            && parts.next().is_some_and(|thread| !thread.is_empty() && thread.bytes().all(|b| b.is_ascii_digit()))
    };
    names.peek()?;
    Some(match kind {
        "hash" if names.clone().any(|name| name == "mode") && names.clone().any(is_redisson) => {
            "a hash, as Redisson's read and write locks are"
        }
        "hash" if names.all(is_redisson) => "a hash, as Redisson's locks are",
        "zset" if names.clone().any(|name| name == "__write__") => "a sorted set, as Symfony's exclusive locks are",
        "zset" if names.clone().any(|name| Shape::of(name) == Shape::Base64Of32) => {
            "a sorted set, as Symfony's read locks are"
        }
        "zset" if names.all(is_uuid) => "a sorted set, as the semaphores of redis-semaphore are",
        _ => return None,
    })
}

/// A key of this type, with these fields or members: what it is and whose.
pub fn described(kind: &str, names: &str) -> &'static str {
    known(kind, names).unwrap_or(match kind {
        "hash" if names.is_empty() => "a hash, as Redisson's locks and Lockwright's layout native are",
        "hash" => "a hash, as Redisson's locks and Lockwright's layout native are, but with other fields than theirs",
        "zset" if names.is_empty() => "a sorted set, as Symfony's locks are",
        "zset" => "a sorted set, as Symfony's locks are, but with other members than theirs",
        "string" => "a text, as the locks of redis-py, redsync, Spring and most others are",
        "list" => "a list",
        "set" => "a set, as the readers of DistributedLock of .NET are",
        "stream" => "a stream",
        _ => "something of another kind",
    })
}

/// What a key looks like that may be a lock of another library; `None` for what is probably something else.
pub fn recognised(kind: &str, text: &str, ends: bool) -> Option<&'static str> {
    if kind != "string" {
        return known(kind, text);
    }
    let shape = Shape::of(text);
    let is_lock = match shape {
        Shape::Hex | Shape::Base64Of18 | Shape::ShedLock | Shape::MachineGuid => true,
        Shape::Base64 | Shape::Base64Of32 | Shape::Uuid => ends,
        _ => false,
    };
    is_lock.then(|| shape.described())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_by_their_looks() {
        for (text, shape) in [
            ("", Shape::Nothing),
            ("0123456789abcdef0123456789abcdef", Shape::Hex),
            ("0123456789ABCDEF0123456789ABCDEF", Shape::UrlBase64),
            ("YW55IGNhcm5hbCBwbGVhcw==", Shape::Base64),
            ("3q2+7wABAgMEBQYHCAkKCwAA", Shape::Base64Of18),
            ("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", Shape::Base64Of32),
            ("3q2-7wABAgMEBQYHCAkKCw", Shape::UrlBase64),
            ("3q2-7wABAgMEBQYHCAkKCw{\"host\": 1}", Shape::UrlBase64),
            ("9b2e1c3a-0000-4000-8000-0123456789ab", Shape::Uuid),
            ("9b2e1c3a-0000-4000-8000-0123456789abc", Shape::UrlBase64),
            ("1700000000.25", Shape::Number),
            ("web_7_0123456789abcdef0123456789abcdef", Shape::MachineGuid),
            ("ADDED:2026-08-20T10:00:00.000Z@host:0b5c", Shape::ShedLock),
            ("\u{FFFD}x", Shape::Bytes),
            ("thread-7", Shape::Other),
        ] {
            assert_eq!(Shape::of(text), shape, "{text}");
        }
        let java = String::from_utf8_lossy(b"\xac\xed\x00\x05t\x00\x01x").into_owned();
        assert_eq!(Shape::of(&java), Shape::Java);
    }

    #[test]
    fn keys_of_other_types_are_told_by_the_names_in_them() {
        let redisson = "9b2e1c3a-0000-4000-8000-0123456789ab:7";
        for (kind, names, found) in [
            ("hash", redisson, "Redisson's locks are"),
            ("hash", &format!("mode {redisson}"), "read and write locks"),
            ("hash", "name age", "other fields"),
            ("hash", "", "layout native are"),
            ("zset", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8= __write__", "Symfony's exclusive"),
            ("zset", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "Symfony's read"),
            ("zset", "9b2e1c3a-0000-4000-8000-0123456789ab", "redis-semaphore"),
            ("zset", "x y", "other members"),
            ("zset", "", "Symfony's locks are"),
            ("hash", "v o s l t c g", "other fields"),
            ("list", "", "a list"),
            ("json", "", "another kind"),
        ] {
            assert!(described(kind, names).contains(found), "{kind} {names}: {}", described(kind, names));
        }
    }

    #[test]
    fn only_what_is_probably_a_lock_is_recognised() {
        for (kind, text, ends, found) in [
            ("string", "0123456789abcdef0123456789abcdef", false, Some("redis-py")),
            ("string", "YW55IGNhcm5hbCBwbGVhcw==", true, Some("redsync")),
            ("string", "YW55IGNhcm5hbCBwbGVhcw==", false, None),
            ("string", "1700000000", true, None),
            ("string", "{\"a\": 1}", true, None),
            ("zset", "a b c", true, None),
            ("hash", "9b2e1c3a-0000-4000-8000-0123456789ab:7", true, Some("Redisson")),
            ("list", "", true, None),
        ] {
            let said = recognised(kind, text, ends);
            assert_eq!(said.is_some(), found.is_some(), "{text}");
            assert!(said.unwrap_or_default().contains(found.unwrap_or_default()), "{text}");
        }
    }
}
