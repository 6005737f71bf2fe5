//! The layout `string`: the lock that most libraries keep, `SET name owner NX PX ttl` and a compare-and-delete.
//!
//! The libraries differ in what they write as owner, and that is the [`Format`]; everything else is the same: under the name lies
//! the holder's owner text, which goes with the lease. What else there is, and the wire form: [`joined`](super::joined).
//!
//! Waiters ask again by a timer, since nothing is told when such a lock becomes free.
//!
//! A plain `SET NX` would do for an acquire that is answered. One whose connection broke may be executed much later, and only
//! a script can refuse then; so it is one. Its effect on the lock's key is the same.
//!
//! Sources: redis-py 8.1 `lock.py`; redsync v4 `mutex.go`; node-redlock 5 `index.ts`; the article "Correct implementation of
//! a Redis distributed lock" with its Predis code; Spring Data's `StringRedisTemplate.opsForValue().setIfAbsent`.

use std::sync::Arc;

use super::joined::{JoinedLayout, JoinedLock, Manner, calls, is_hex, is_uuid, script, uuid};
use super::{NO_TOKEN, NOTES};
use crate::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use crate::native::Calls;
use crate::protocol::{AttemptId, Call, Layout, Push};

/// The scripts.
pub static CALLS: Calls = calls!("string/read", "string/free", "string/holds", "joined/no_queue");

/// Whose locks are joined: what an owner looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `redis.lock.Lock` of redis-py, sync and asyncio: 32 hexadecimal digits. May be held without an end.
    RedisPy,
    /// go-redsync's `Mutex`: 16 bytes in base64.
    Redsync,
    /// node-redlock 4 and 5: 32 hexadecimal digits.
    NodeRedlock,
    /// Predis or phpredis with `SET key id PX ttl NX`: whatever id the program makes up.
    Predis,
    /// `StringRedisTemplate.opsForValue().setIfAbsent(key, id, ttl)`: whatever id the program makes up.
    SpringTemplate,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 5] =
        [Format::RedisPy, Format::Redsync, Format::NodeRedlock, Format::Predis, Format::SpringTemplate];

    /// Its name, as in the option `format=`.
    pub const fn name(self) -> &'static str {
        match self {
            Format::RedisPy => "redis-py",
            Format::Redsync => "redsync",
            Format::NodeRedlock => "node-redlock",
            Format::Predis => "predis",
            Format::SpringTemplate => "spring-template",
        }
    }

    /// An attempt as this library would write an owner.
    pub fn owner(self, attempt: AttemptId) -> String {
        match self {
            Format::RedisPy | Format::NodeRedlock => attempt.to_string(),
            Format::Redsync => base64(attempt.0.to_be_bytes()),
            Format::Predis | Format::SpringTemplate => uuid(attempt),
        }
    }

    /// Whether this library may have written a value of this kind, that `ends` by itself or not.
    fn writes(self, kind: Kindred, ends: bool) -> bool {
        match self {
            Format::RedisPy => kind == Kindred::Hex,
            Format::NodeRedlock => kind == Kindred::Hex && ends,
            Format::Redsync => kind == Kindred::Base64 && ends,
            Format::Predis | Format::SpringTemplate => match kind {
                Kindred::Nothing | Kindred::Java | Kindred::ShedLock => false,
                Kindred::Number => ends,
                _ => true,
            },
        }
    }
}

/// What a value found under a lock's name looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kindred {
    Nothing,
    Hex,
    Base64,
    Uuid,
    Number,
    Java,
    ShedLock,
    Other,
}

impl Kindred {
    pub(super) fn of(text: &str) -> Self {
        let is_base64 = || {
            let digits = text.strip_suffix("==").unwrap_or_default();
            digits.len() == 22 && digits.bytes().all(|b| BASE64.contains(&b))
        };
        match text {
            "" => Kindred::Nothing,
            _ if text.len() == 32 && is_hex(text) => Kindred::Hex,
            _ if is_base64() => Kindred::Base64,
            _ if is_uuid(text) => Kindred::Uuid,
            _ if text.bytes().all(|b| b.is_ascii_digit() || b == b'.') => Kindred::Number,
            // The stream magic AC ED and version 0005 of Java serialization; the first two are no UTF-8.
            _ if text.starts_with("\u{FFFD}\u{FFFD}\0\u{5}") => Kindred::Java,
            _ if text.starts_with("ADDED:") => Kindred::ShedLock,
            _ => Kindred::Other,
        }
    }

    const fn described(self) -> &'static str {
        match self {
            Kindred::Nothing => "an empty text",
            Kindred::Hex => "32 hexadecimal digits, as redis-py and node-redlock write them",
            Kindred::Base64 => "16 bytes in base64, as redsync writes them",
            Kindred::Uuid => "a UUID, as Spring, Predis and many others write one",
            Kindred::Number => "a number, as counters and SETNX locks with a time in them write one",
            Kindred::Java => "a serialized Java object, as a RedisTemplate without string serializers writes one",
            Kindred::ShedLock => "a lock of ShedLock",
            Kindred::Other => "a text of another kind",
        }
    }
}

/// What a value of this kind looks like, in words.
pub(super) fn written(kind: Kindred) -> String {
    kind.described().to_owned()
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// RFC 4648 base64 with padding, of 16 bytes: 24 characters.
fn base64(bytes: [u8; 16]) -> String {
    let digit = |at: usize| {
        let pair = [bytes[at * 6 / 8], bytes.get(at * 6 / 8 + 1).copied().unwrap_or(0)];
        char::from(BASE64[usize::from(u16::from_be_bytes(pair) >> (10 - at * 6 % 8)) % 64])
    };
    (0..22).map(digit).chain("==".chars()).collect()
}

/// The layout in each of its formats, for locks whose names get `prefix` put before them.
pub fn layouts(prefix: &str) -> impl Iterator<Item = Arc<dyn Layout>> {
    Format::ALL.into_iter().map(move |format| Arc::new(layout(format, prefix)) as Arc<dyn Layout>)
}

/// The layout in one format.
pub fn layout(format: Format, prefix: impl Into<String>) -> StringLayout {
    StringLayout { manner: format, prefix: prefix.into() }
}

/// See the [module](self).
pub type StringLayout = JoinedLayout<Format>;

/// Its machine.
pub type StringLock = JoinedLock<Format>;

impl Manner for Format {
    fn format(&self) -> Option<&'static str> {
        Some(self.name())
    }

    fn library(&self) -> &'static str {
        self.name()
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            store: "redis",
            layout: "string",
            exclusive_until: ExclusiveUntil::StoreFailover,
            token: TokenRises::WithStoreClock,
            fair: false,
            reentrant: true,
            shared: true,
            push: false,
            survives_disconnect: true,
            incarnation: true,
            notes: &[
                NOTES[0],
                NOTES[1],
                NOTES[2],
                NOTES[3],
                NO_TOKEN,
                "Whoever deletes or overwrites the key without comparing takes the lock from its holder, who is told at its next renewal.",
                "Waiters ask again by a timer, so nobody is served in order: among several processes one may wait long.",
                "A lock that redis-py holds without a timeout never ends by itself.",
            ],
        }
    }

    fn push(&self) -> Push {
        Push::None
    }

    fn calls(&self) -> &'static Calls {
        &CALLS
    }

    fn owner(&self, attempt: AttemptId) -> String {
        Format::owner(*self, attempt)
    }

    fn alien(&self, owner: &str, ends: bool) -> Option<String> {
        let kind = Kindred::of(owner);
        (!self.writes(kind, ends)).then(|| written(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::Duration;

    use super::super::joined::tests::NAMES;
    use crate::error::Kind;
    use crate::protocol::Reply;

    #[test]
    fn names_are_keys_byte_for_byte_except_where_records_lie() {
        for prefix in ["", "lock:"] {
            for name in NAMES {
                assert_eq!(&*layout(Format::RedisPy, prefix).key(name).unwrap(), format!("{prefix}{name}"));
            }
        }
        assert_eq!(layout(Format::RedisPy, "").key("lwt:{x}").unwrap_err().kind(), Kind::InvalidConfig);
        assert_eq!(layout(Format::RedisPy, "lwt").key(":x").unwrap_err().kind(), Kind::InvalidConfig);
    }

    #[test]
    fn owners_are_what_each_library_writes_and_never_the_same() {
        let attempt = AttemptId(0xdead_beef_0001_0203_0405_0607_0809_0a0b);
        let owners = Format::ALL.map(|format| format.owner(attempt));
        let (hex, uuid) = ("deadbeef000102030405060708090a0b", "deadbeef-0001-0203-0405-060708090a0b");
        assert_eq!(owners, [hex, "3q2+7wABAgMEBQYHCAkKCw==", hex, uuid, uuid]);
        for format in Format::ALL {
            let mut some: Vec<_> = (0..=64).map(|n| format.owner(AttemptId(1 << n))).collect();
            assert!(some.iter().all(|owner| format.writes(Kindred::of(owner), true)));
            some.sort();
            some.dedup();
            assert_eq!(some.len(), 65);
        }
    }

    #[test]
    fn base64_is_that_of_rfc_4648() {
        assert_eq!(base64([0; 16]), "AAAAAAAAAAAAAAAAAAAAAA==");
        assert_eq!(base64([255; 16]), "/////////////////////w==");
        assert_eq!(base64(*b"any carnal pleas"), "YW55IGNhcm5hbCBwbGVhcw==");
    }

    #[test]
    fn values_are_told_by_their_looks() {
        for (text, kind) in [
            ("", Kindred::Nothing),
            ("0123456789abcdef0123456789abcdef", Kindred::Hex),
            ("0123456789ABCDEF0123456789ABCDEF", Kindred::Other),
            ("YW55IGNhcm5hbCBwbGVhcw==", Kindred::Base64),
            ("9b2e1c3a-0000-4000-8000-0123456789ab", Kindred::Uuid),
            ("9b2e1c3a-0000-4000-8000-0123456789abc", Kindred::Other),
            ("1700000000.25", Kindred::Number),
            ("ADDED:2026-08-20T10:00:00.000Z@host:0b5c", Kindred::ShedLock),
            ("thread-7", Kindred::Other),
        ] {
            assert_eq!(Kindred::of(text), kind, "{text}");
        }
        let java = String::from_utf8_lossy(b"\xac\xed\x00\x05t\x00\x01x").into_owned();
        assert_eq!(Kindred::of(&java), Kindred::Java);
    }

    #[test]
    fn a_holder_of_the_other_library_has_no_token() {
        let layout = layout(Format::Predis, "");
        let seen = |list: [Reply; 6]| layout.inspected("x", &Reply::List(list.into())).unwrap().holder.unwrap();
        let text = |text: &str| Reply::Text(text.into());
        let theirs =
            seen([text("request-17"), Reply::Int(-1), Reply::Int(5_000_000), Reply::Int(0), text(""), Reply::Int(0)]);
        assert_eq!((theirs.first_token, theirs.last_token, theirs.held_for), (0, 0, None));
        assert_eq!((theirs.remaining, &*theirs.card.language), (Duration::MAX, "predis"));
        let ours = seen([
            text("id"),
            Reply::Int(800),
            Reply::Int(5_000_000),
            Reply::Int(4_000_000),
            text("h\t7\trust\t"),
            Reply::Int(0),
        ]);
        assert_eq!((ours.first_token, ours.last_token), (4_000_000, 4_000_063));
        assert_eq!((ours.held_for, ours.remaining), (Some(Duration::from_secs(1)), Duration::from_millis(800)));
        assert_eq!((ours.card.pid, &*ours.card.language), (7, "rust"));
    }
}
