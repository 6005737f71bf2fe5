//! The layout `string`: the lock that most libraries keep, `SET name owner NX PX ttl` and a compare-and-delete.
//!
//! The libraries differ in what they write as owner, and some put a word of theirs before the name; that is the
//! [`Format`]. Everything else is told in [`joined`](super::joined).
//!
//! Sources: redis-py 8.1 `lock.py`; redsync v4 `mutex.go`; node-redlock 5 `index.ts`; the article "Correct
//! implementation of a Redis distributed lock" with its Predis code; Spring Data's
//! `StringRedisTemplate.opsForValue().setIfAbsent`; the article with `SETNX` and `PEXPIRE` in one script; pottery 3.0
//! `redlock.py`; aioredlock 0.7 `redis.py`; redis-semaphore 5.7 `mutex`; redlock-rb `client.rb`; bsm/redislock 0.9
//! `redislock.go`; rueidislock `lock.go`; ShedLock 7 `RedisLockProvider`; DistributedLock 2.8 for .NET
//! `RedisMutexPrimitive`; rslock 0.6 `lock.rs`; sherlock 0.4 `lock.py`.

use super::joined::calls;
use super::recipe::{Family, Format, notes};
use super::shapes::Shape;
use crate::base64;
use crate::guarantee::ExclusiveUntil;
use crate::native_machine::Calls;
use crate::protocol::{Arg, AttemptId, Call, Request};
use crate::uuid::uuid;

/// The scripts.
pub static CALLS: Calls = calls!("string/read", "string/free", "string/holds", "joined/no_queue");

/// The layout.
pub static FAMILY: Family = Family {
    name: "string",
    calls: &CALLS,
    formats: &FORMATS,
    exclusive_until: ExclusiveUntil::StoreFailover,
    renews_record: false,
    notes: &notes([
        "Deleting or overwriting the key without comparing the owner takes the lock from its holder, who is told at its next renewal.",
        "Waiters poll, in no order: with several processes, one of them may wait long.",
        "A lock that the other library took without a time to live never expires.",
    ]),
};

/// The owner whose lock `request` deletes, where that is all it does: a release. It leaves the record as it is, and
/// nobody is told. What answers 1 to it has deleted; any other answer is to a request that did nothing.
pub fn deleted_owner(request: &Request) -> Option<&str> {
    match request.args.as_slice() {
        [Arg::Key(_), Arg::Text(owner)] if std::ptr::eq(request.call, &raw const CALLS.release) => Some(owner),
        _ => None,
    }
}

/// Every format.
pub const FORMATS: [Format; 16] = [
    REDIS_PY,
    REDSYNC,
    NODE_REDLOCK,
    PREDIS,
    SPRING_TEMPLATE,
    SETNX_LUA,
    POTTERY,
    AIOREDLOCK,
    REDIS_SEMAPHORE,
    REDLOCK_RB,
    BSM_REDISLOCK,
    RUEIDISLOCK,
    SHEDLOCK,
    DISTRIBUTED_LOCK,
    RSLOCK,
    SHERLOCK,
];

/// `redis.lock.Lock` of redis-py, sync and asyncio: 32 hexadecimal digits. May be held without an end.
pub const REDIS_PY: Format = Format { writes_endless: &[Shape::Hex], ..format("redis-py", hex, &[Shape::Hex]) };

/// go-redsync's `Mutex`: 16 bytes in base64.
pub const REDSYNC: Format = format("redsync", base64_of::<16>, &[Shape::Base64]);

/// node-redlock 4 and 5: 32 hexadecimal digits.
pub const NODE_REDLOCK: Format = format("node-redlock", hex, &[Shape::Hex]);

/// Predis or phpredis with `SET key id PX ttl NX`: whatever id the program makes up.
pub const PREDIS: Format = free("predis");

/// `StringRedisTemplate.opsForValue().setIfAbsent(key, id, ttl)`: whatever id the program makes up.
pub const SPRING_TEMPLATE: Format = free("spring-template");

/// `SETNX` and `PEXPIRE` in one script, released by one that compares: whatever id the program makes up.
pub const SETNX_LUA: Format = free("setnx-lua");

/// pottery's `Redlock`, on one server: a UUID, under `redlock:`.
pub const POTTERY: Format = Format { before: "redlock:", ..format("pottery", uuid, &[Shape::Uuid]) };

/// aioredlock, on one server: a UUID.
pub const AIOREDLOCK: Format = format("aioredlock", uuid, &[Shape::Uuid]);

/// redis-semaphore's `Mutex`: a UUID, under `mutex:`.
pub const REDIS_SEMAPHORE: Format = Format { before: "mutex:", ..format("redis-semaphore", uuid, &[Shape::Uuid]) };

/// redlock-rb, on one server: a UUID.
pub const REDLOCK_RB: Format = format("redlock-rb", uuid, &[Shape::Uuid]);

/// bsm/redislock: 16 bytes in base64 for URLs, and the metadata behind.
pub const BSM_REDISLOCK: Format = format("bsm-redislock", for_urls, &[Shape::UrlBase64, Shape::Base64Of18]);

/// rueidislock with a majority of one key: 24 bytes, under `rueidislock:0:`.
pub const RUEIDISLOCK: Format =
    Format { before: "rueidislock:0:", ..format("rueidislock", hex, &[Shape::Bytes, Shape::Hex]) };

/// ShedLock's `RedisLockProvider` in its default environment: a text with time and host, under `job-lock:default:`.
pub const SHEDLOCK: Format = Format { before: "job-lock:default:", ..format("shedlock", added, &[Shape::ShedLock]) };

/// `RedisDistributedLock` of DistributedLock for .NET, on one server: machine, process id and GUID.
pub const DISTRIBUTED_LOCK: Format = format("distributedlock", machine_guid, &[Shape::MachineGuid]);

/// rslock, on one server: 20 bytes.
pub const RSLOCK: Format = format("rslock", hex, &[Shape::Bytes, Shape::Hex]);

/// sherlock's `RedisLock`: a UUID.
pub const SHERLOCK: Format = format("sherlock", uuid, &[Shape::Uuid]);

const fn format(name: &'static str, owner: fn(AttemptId) -> String, writes: &'static [Shape]) -> Format {
    Format { name, library: name, before: "", owner, writes, writes_endless: &[], rest: |_, _| None }
}

/// A recipe that leaves the owner to the program.
const fn free(name: &'static str) -> Format {
    Format { writes_endless: ANY.split_at(ANY.len() - 1).0, ..format(name, uuid, &ANY) }
}

/// What a program may have made up; a number without an end is a counter.
pub(super) const ANY: [Shape; 10] = [
    Shape::Hex,
    Shape::Base64,
    Shape::Base64Of18,
    Shape::Base64Of32,
    Shape::UrlBase64,
    Shape::Uuid,
    Shape::MachineGuid,
    Shape::Bytes,
    Shape::Other,
    Shape::Number,
];

pub(super) fn hex(attempt: AttemptId) -> String {
    attempt.to_string()
}

/// So many bytes in base64, of which the first 16 are the attempt.
pub(super) fn base64_of<const N: usize>(attempt: AttemptId) -> String {
    let mut bytes = [0; N];
    bytes[..16].copy_from_slice(&attempt.0.to_be_bytes());
    base64::encode(&bytes)
}

fn for_urls(attempt: AttemptId) -> String {
    base64_of::<16>(attempt).trim_end_matches('=').replace('+', "-").replace('/', "_")
}

/// Nobody reads the time and the host in it, which are not ours to say here.
fn added(attempt: AttemptId) -> String {
    format!("ADDED:@lockwright:{}", uuid(attempt))
}

fn machine_guid(attempt: AttemptId) -> String {
    format!("lockwright_0_{}", hex(attempt))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::joined::tests::NAMES;
    use super::*;
    use crate::error::Kind;
    use crate::protocol::{Layout as _, Reply};

    /// Name, key of the lock `orders`, owner.
    const GOLDEN: [(&str, &str, &str); 16] = [
        ("redis-py", "orders", "deadbeef000102030405060708090a0b"),
        ("redsync", "orders", "3q2+7wABAgMEBQYHCAkKCw=="),
        ("node-redlock", "orders", "deadbeef000102030405060708090a0b"),
        ("predis", "orders", "deadbeef-0001-0203-0405-060708090a0b"),
        ("spring-template", "orders", "deadbeef-0001-0203-0405-060708090a0b"),
        ("setnx-lua", "orders", "deadbeef-0001-0203-0405-060708090a0b"),
        ("pottery", "redlock:orders", "deadbeef-0001-0203-0405-060708090a0b"),
        ("aioredlock", "orders", "deadbeef-0001-0203-0405-060708090a0b"),
        ("redis-semaphore", "mutex:orders", "deadbeef-0001-0203-0405-060708090a0b"),
        ("redlock-rb", "orders", "deadbeef-0001-0203-0405-060708090a0b"),
        ("bsm-redislock", "orders", "3q2-7wABAgMEBQYHCAkKCw"),
        ("rueidislock", "rueidislock:0:orders", "deadbeef000102030405060708090a0b"),
        ("shedlock", "job-lock:default:orders", "ADDED:@lockwright:deadbeef-0001-0203-0405-060708090a0b"),
        ("distributedlock", "orders", "lockwright_0_deadbeef000102030405060708090a0b"),
        ("rslock", "orders", "deadbeef000102030405060708090a0b"),
        ("sherlock", "orders", "deadbeef-0001-0203-0405-060708090a0b"),
    ];

    #[test]
    fn keys_and_owners_are_byte_for_byte_what_each_library_finds() {
        let attempt = AttemptId(0xdead_beef_0001_0203_0405_0607_0809_0a0b);
        let written = FORMATS.each_ref().map(|format| {
            let key = FAMILY.layout(format, "").key("orders").unwrap();
            (format.name, key.to_string(), (format.owner)(attempt))
        });
        assert_eq!(written, GOLDEN.map(|(name, key, owner)| (name, key.to_owned(), owner.to_owned())));
    }

    #[test]
    fn what_each_library_writes_is_a_holder_in_its_format() {
        // As their sources make them: uuid1().hex; base64.StdEncoding; randomBytes(16) in hex; uuid4;
        // base64.RawURLEncoding and metadata; bytes; "ADDED:" time "@" host ":" uuid; machine, process and GUID.
        for (format, value) in [
            ("redis-py", "5f2c7cbe8b1f11eea3d20242ac120002"),
            ("redsync", "kM3WbVQ0VHj9cR9dYd0s4A=="),
            ("node-redlock", "9f86d081884c7d659a2feaa0c55ad015"),
            ("predis", "request-17"),
            ("spring-template", "1"),
            ("setnx-lua", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"),
            ("pottery", "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"),
            ("aioredlock", "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"),
            ("redis-semaphore", "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"),
            ("redlock-rb", "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"),
            ("bsm-redislock", "kM3WbVQ0VHj9cR9dYd0s4A"),
            ("bsm-redislock", "kM3WbVQ0VHj9cR9dYd0s4Amy metadata"),
            ("rueidislock", "\u{FFFD}\u{FFFD}a\u{FFFD}"),
            ("shedlock", "ADDED:2026-08-20T10:00:00.000Z@host:0b5c"),
            ("distributedlock", "web-1_4242_0123456789abcdef0123456789abcdef"),
            ("rslock", "\u{FFFD}\u{FFFD}a\u{FFFD}"),
            ("sherlock", "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"),
        ] {
            let of = FORMATS.iter().find(|known| known.name == format).unwrap();
            assert!(of.writes.contains(&Shape::of(value)), "{format}: {value}");
        }
    }

    #[test]
    fn owners_are_never_the_same_and_known_to_our_other_processes() {
        for format in &FORMATS {
            let mut some: Vec<_> = (0..=64).map(|n| (format.owner)(AttemptId(1 << n))).collect();
            assert!(some.iter().all(|owner| format.writes.contains(&Shape::of(owner))), "{format:?}");
            some.sort();
            some.dedup();
            assert_eq!(some.len(), 65);
        }
    }

    #[test]
    fn names_are_keys_byte_for_byte_except_where_records_lie() {
        let layout = |prefix| FAMILY.layout(&REDIS_PY, prefix);
        for prefix in ["", "lock:"] {
            for name in NAMES {
                assert_eq!(&*layout(prefix).key(name).unwrap(), format!("{prefix}{name}"));
            }
        }
        assert_eq!(layout("").key("lwt:{x}").unwrap_err().kind(), Kind::InvalidConfig);
        assert_eq!(layout("lwt").key(":x").unwrap_err().kind(), Kind::InvalidConfig);
    }

    #[test]
    fn a_holder_of_the_other_library_has_no_token() {
        let layout = FAMILY.layout(&PREDIS, "");
        let seen = |list: [Reply; 6]| {
            layout.inspect("x", "x".into()).answered(&Reply::List(list.into())).unwrap().holder.unwrap()
        };
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
