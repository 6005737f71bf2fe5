//! The layout `string`: the lock that most libraries keep, `SET name owner NX PX ttl` and a compare-and-delete.
//!
//! The libraries differ in what they write as owner, and that is the [`Format`]; everything else is the same:
//!
//! | key | holds |
//! |---|---|
//! | the name, with the connection's prefix, byte for byte | the holder's owner text; goes with the lease |
//! | [`record_key`] of that | `<first token> <owner> <card>` of our last grant; goes 10 minutes after its lease |
//!
//! The record is ours alone. It makes tokens rise over a lock that is deleted after each hold, and shows others the holder's
//! card; another library neither reads nor writes it, so its holders have no token. Both keys lie in one slot of a cluster.
//!
//! Every conversation is one request, and waiters ask again by a timer, since nothing is told when such a lock becomes free:
//!
//! ```text
//!   acquire  record owner ttl-ms not-after card  ->  first token                         granted, also when asked again
//!                                                |   [0, now, remaining-ms, owner]       held
//!                                                |   [2, now]                            late
//!   renew    owner ttl-ms                        ->  1 | 0
//!   release  record owner                        ->  1 | 0 (nobody holds it) | card of the thief
//!   undo     owner...                            ->  1
//!   inspect  record                              ->  nil | [owner, remaining-ms, now, first token, card]
//!   break    record token                        ->  1 | 0
//! ```
//!
//! A plain `SET NX` would do for an acquire that is answered. One whose connection broke may be executed much later, and only
//! a script can refuse then; so it is one. Its effect on the lock's key is the same.
//!
//! Sources: redis-py 8.1 `lock.py`; redsync v4 `mutex.go`; node-redlock 5 `index.ts`; the article "Correct implementation of
//! a Redis distributed lock" with its Predis code; Spring Data's `StringRedisTemplate.opsForValue().setIfAbsent`.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use super::NOTES;
use crate::cell::BLOCK;
use crate::error::{Error, Kind, Result};
use crate::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use crate::lease::{Card, Holder, Inspection, ReleaseOutcome};
use crate::native::Calls;
use crate::protocol::{
    Arg, AttemptId, Call, Grant, Input, Intent, Layout, Op, Protocol, Push, Reply, Request, Requests, Step, Term,
    Traits, Verdict,
};
use crate::replies::{int, listed, nonsense, operation, refusal};
use crate::time::StoreTime;

macro_rules! script {
    ($($part:literal)+) => { concat!($(include_str!(concat!("scripts/", $part, ".lua"))),+) };
}

/// The scripts.
pub static CALLS: Calls = Calls {
    acquire: Call { name: "acquire", body: script!("string/read" "time" "string/acquire"), batch: false },
    renew: Call { name: "renew", body: script!("string/renew"), batch: true },
    release: Call { name: "release", body: script!("string/read" "string/release"), batch: false },
    undo: Call { name: "undo", body: script!("string/read" "string/undo"), batch: false },
    inspect: Call { name: "inspect", body: script!("string/read" "time" "string/inspect"), batch: false },
    break_hold: Call { name: "break", body: script!("string/read" "string/break"), batch: false },
    list: Call { name: "list", body: script!("string/list" "page"), batch: false },
};

/// What the keys of our records begin with.
const RECORD: &str = "lwt:";

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
            Format::Predis | Format::SpringTemplate => {
                let hex = attempt.to_string();
                format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
            }
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
enum Kindred {
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
    fn of(text: &str) -> Self {
        let hex = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        let is_uuid = || {
            let parts: Vec<_> = text.split('-').collect();
            parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(|part| hex(part))
        };
        let is_base64 = || {
            let digits = text.strip_suffix("==").unwrap_or_default();
            digits.len() == 22 && digits.bytes().all(|b| BASE64.contains(&b))
        };
        match text {
            "" => Kindred::Nothing,
            _ if text.len() == 32 && hex(text) => Kindred::Hex,
            _ if is_base64() => Kindred::Base64,
            _ if is_uuid() => Kindred::Uuid,
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

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// RFC 4648 base64 with padding, of 16 bytes: 24 characters.
fn base64(bytes: [u8; 16]) -> String {
    let digit = |at: usize| {
        let pair = [bytes[at * 6 / 8], bytes.get(at * 6 / 8 + 1).copied().unwrap_or(0)];
        char::from(BASE64[usize::from(u16::from_be_bytes(pair) >> (10 - at * 6 % 8)) % 64])
    };
    (0..22).map(digit).chain("==".chars()).collect()
}

/// The key of the record that lies beside the lock `key`, in the same slot of a cluster: the key's own hash tag, or the whole
/// key as one. A key that has braces but no tag cannot be made one, so its record lies in another slot.
pub fn record_key(key: &str) -> String {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    match tag {
        Some(tag) if !tag.is_empty() => format!("{RECORD}{{{tag}}}{key}"),
        None if !key.contains('}') => format!("{RECORD}{{{key}}}"),
        _ => format!("{RECORD}{key}"),
    }
}

/// The lock's key from its record's; `None` for what is no record's key.
fn key_of(record: &str) -> Option<&str> {
    let rest = record.strip_prefix(RECORD)?;
    let (tag, behind) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).unwrap_or_default();
    [tag, behind, rest].into_iter().find(|key| !key.is_empty() && record_key(key) == record)
}

/// The layout in each of its formats, for locks whose names get `prefix` put before them.
pub fn layouts(prefix: &str) -> impl Iterator<Item = Arc<dyn Layout>> {
    Format::ALL.into_iter().map(move |format| Arc::new(layout(format, prefix)) as Arc<dyn Layout>)
}

/// The layout in one format.
pub fn layout(format: Format, prefix: impl Into<String>) -> StringLayout {
    StringLayout { format, prefix: prefix.into() }
}

/// See the [module](self).
#[derive(Debug)]
pub struct StringLayout {
    format: Format,
    prefix: String,
}

impl Layout for StringLayout {
    fn name(&self) -> &'static str {
        "string"
    }

    fn format(&self) -> Option<&'static str> {
        Some(self.format.name())
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
                "Holders that use the other library have no token, and a token says nothing of the order among them and ours.",
                "Whoever deletes or overwrites the key without comparing takes the lock from its holder, who is told at its next renewal.",
                "Waiters ask again by a timer, so nobody is served in order: among several processes one may wait long.",
                "A lock that redis-py holds without a timeout never ends by itself.",
            ],
        }
    }

    fn key(&self, name: &str) -> Result<Arc<str>> {
        let key = format!("{}{name}", self.prefix);
        if key.starts_with(RECORD) {
            let message = format!("a name of the layout string cannot begin with {RECORD}, where tokens are kept");
            return Err(Error::invalid("lock", message));
        }
        Ok(key.into())
    }

    fn protocol(&self, key: Arc<str>) -> Box<dyn Protocol> {
        Box::new(StringLock::new(self.format, key))
    }

    fn inspect(&self, key: Arc<str>) -> Request {
        let record = Arg::Key(record_key(&key).into());
        Request::new(&CALLS.inspect, key, [record])
    }

    fn inspected(&self, name: &str, reply: &Reply) -> Result<Inspection> {
        let free = Inspection { name: name.into(), layout: "string".into(), holder: None, waiters: 0, shared: None };
        match reply {
            Reply::Nil => Ok(free),
            Reply::Error { code, message } => Err(refused("inspect", self.format, code, message)),
            Reply::List(list) => match list.as_slice() {
                [Reply::Text(owner), Reply::Int(left), Reply::Int(now), Reply::Int(first), Reply::Text(card)] => {
                    check(self.format, "inspect", owner, *left)?;
                    let holder = self.holder(owner, *left, now.saturating_sub(*first), *first, card);
                    Ok(Inspection { holder: Some(holder), ..free })
                }
                _ => Err(nonsense("inspect", std::slice::from_ref(reply))),
            },
            _ => Err(nonsense("inspect", std::slice::from_ref(reply))),
        }
    }

    fn break_hold(&self, key: Arc<str>, token: u64) -> Request {
        let record = Arg::Key(record_key(&key).into());
        Request::new(&CALLS.break_hold, key, [record, Arg::Int(i64::try_from(token).unwrap_or(i64::MAX))])
    }

    fn list(&self, cursor: &str) -> Request {
        Request::new(&CALLS.list, format!("{RECORD}*").into(), [cursor.into()])
    }

    fn listed(&self, reply: &Reply) -> Result<(Vec<String>, Option<String>)> {
        let list = listed(reply)?;
        let mut texts = list.iter().filter_map(|item| match item {
            Reply::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let next = texts.next().filter(|cursor| !cursor.is_empty()).map(str::to_owned);
        let names = texts.filter_map(key_of).filter_map(|key| key.strip_prefix(&*self.prefix));
        Ok((names.map(str::to_owned).collect(), next))
    }
}

impl StringLayout {
    /// A holder that has no record is one of the other library's.
    fn holder(&self, owner: &str, left: i64, held: i64, first: i64, card: &str) -> Holder {
        let first_token = u64::try_from(first).unwrap_or(0);
        let (last_token, held_for, card) = match first_token {
            0 => (0, None, Card { language: self.format.name().into(), ..Card::default() }),
            first => (first.saturating_add(BLOCK - 1), Some(held), Card::decode(card)),
        };
        Holder {
            owner: sha1_smol::Sha1::from(owner).digest().to_string()[..12].to_owned(),
            card,
            held_for: held_for.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0))),
            remaining: remaining(left),
            first_token,
            last_token,
        }
    }
}

/// Milliseconds as Redis tells them: below zero where there is no end.
fn remaining(millis: i64) -> Duration {
    u64::try_from(millis).map_or(Duration::MAX, Duration::from_millis)
}

/// Refuses an owner that the library of this format does not write.
fn check(format: Format, operation: &'static str, owner: &str, left: i64) -> Result<()> {
    let (kind, ends) = (Kindred::of(owner), left >= 0);
    if format.writes(kind, ends) {
        return Ok(());
    }
    let endless = if ends { "" } else { ", without an end" };
    Err(foreign(operation, format, &format!("{}{endless}", kind.described())))
}

fn foreign(operation: &'static str, format: Format, found: &str) -> Error {
    let message = format!(
        "under this name lies {found}, which is no lock in the format {}; see who else uses the name, or choose another \
         name, prefix or format",
        format.name()
    );
    Error::new(Kind::ForeignLayout, operation, message)
}

/// The error for what the server refuses; a key of another type is told by that.
fn refused(operation: &'static str, format: Format, code: &str, message: &str) -> Error {
    let found = match (code, message) {
        ("FOREIGN", "hash") => "a hash, as Redisson's locks and Lockwright's layout native are",
        ("FOREIGN", "zset") => "a sorted set, as Symfony's locks are",
        ("FOREIGN", "list") => "a list",
        ("FOREIGN", "set") => "a set",
        ("FOREIGN", "stream") => "a stream",
        ("FOREIGN", _) => "something that is no text",
        _ => return refusal(operation, code, message),
    };
    foreign(operation, format, found)
}

/// The machine.
#[derive(Clone)]
pub struct StringLock {
    format: Format,
    key: Arc<str>,
    record: Arc<str>,
    /// The attempt served at present, as written.
    owner: Option<(AttemptId, Arc<str>)>,
}

impl StringLock {
    /// The machine for the lock kept under `key`.
    pub fn new(format: Format, key: Arc<str>) -> Self {
        StringLock { format, record: record_key(&key).into(), key, owner: None }
    }

    fn begin(&mut self, intent: &Intent) -> Result<Request> {
        let me = self.owner(intent.terms().attempt);
        let record = Arg::Key(self.record.clone());
        Ok(match intent {
            Intent::Acquire { prev: Some(_), .. } => {
                return Err(Error::new(
                    Kind::Internal,
                    "acquire",
                    "the layout string cannot yield, yet it was asked to",
                ));
            }
            Intent::Acquire { terms, .. } => {
                let card = terms.card.clone().into();
                self.request(&CALLS.acquire, [record, me, millis(terms.ttl), Arg::NotAfter, card])
            }
            Intent::Renew { ttl, .. } => self.request(&CALLS.renew, [me, millis(*ttl)]),
            Intent::Release { .. } => self.request(&CALLS.release, [record, me]),
            Intent::Undo { prev, .. } => {
                let mut request = self.request(&CALLS.undo, [me]);
                let prev = prev.as_ref().map(|prev| self.format.owner(prev.terms.attempt));
                request.args.extend(prev.map(|owner| Arg::Text(owner.into())));
                request
            }
        })
    }

    /// The owner that `attempt` is written as, made once per attempt.
    fn owner(&mut self, attempt: AttemptId) -> Arg {
        match &self.owner {
            Some((of, text)) if *of == attempt => Arg::Text(text.clone()),
            _ => {
                let text: Arc<str> = self.format.owner(attempt).into();
                self.owner = Some((attempt, text.clone()));
                Arg::Text(text)
            }
        }
    }

    fn request<const N: usize>(&self, call: &'static Call, args: [Arg; N]) -> Request {
        Request::new(call, self.key.clone(), args)
    }

    fn answer(&self, op: Op, reply: &Reply) -> Option<Verdict> {
        if let Reply::Error { code, message } = reply {
            return Some(Verdict::Failed(refused(operation(op), self.format, code, message)));
        }
        Some(match op {
            Op::Acquire => self.acquired(reply)?,
            Op::Renew => match int(reply)? {
                0 => Verdict::Gone(ReleaseOutcome::Expired),
                _ => Verdict::Renewed,
            },
            Op::Release => Verdict::Released(match reply {
                Reply::Text(card) => ReleaseOutcome::StolenBy(card.clone()),
                other if int(other)? == 0 => ReleaseOutcome::Expired,
                _ => ReleaseOutcome::Released,
            }),
            Op::Undo => {
                int(reply)?;
                Verdict::Undone
            }
        })
    }

    fn acquired(&self, reply: &Reply) -> Option<Verdict> {
        let list = match reply {
            Reply::Int(first) => {
                let first = u64::try_from(*first).ok().filter(|first| *first > 0)?;
                let last = first.checked_add(BLOCK - 1)?;
                return Some(Verdict::Granted(Grant { first, last, term: Term::FromRequest, prev: None }));
            }
            Reply::List(list) => list.as_slice(),
            _ => return None,
        };
        match list {
            [Reply::Int(0), Reply::Int(now), Reply::Int(left), Reply::Text(owner)] => {
                Some(match check(self.format, "acquire", owner, *left) {
                    Ok(()) => Verdict::Held { remaining: remaining(*left), at: Some(StoreTime(*now)), prev: None },
                    Err(error) => Verdict::Failed(error),
                })
            }
            [Reply::Int(2), Reply::Int(now)] => Some(Verdict::Late { at: StoreTime(*now) }),
            _ => None,
        }
    }
}

impl Protocol for StringLock {
    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin(intent) => match self.begin(&intent) {
                Ok(request) => Step::Ask(Requests::from_iter([request])),
                Err(error) => Step::Done(Verdict::Failed(error)),
            },
            Input::Reply(op, replies) => {
                let verdict = replies.first().and_then(|reply| self.answer(op, reply));
                Step::Done(verdict.unwrap_or_else(|| Verdict::Failed(nonsense(operation(op), replies))))
            }
            Input::Event(_) => Step::Ignore,
        }
    }

    fn traits(&self) -> Traits {
        Traits { block: BLOCK, yields: false, push: Push::None }
    }

    fn duplicate(&self) -> Box<dyn Protocol> {
        Box::new(self.clone())
    }

    fn fingerprint(&self, mut state: &mut dyn Hasher) {
        (self.format, &self.key).hash(&mut state);
    }
}

impl fmt::Debug for StringLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The owner would release the lock.
        write!(f, "StringLock({:?} {:?})", self.format, self.key)
    }
}

/// Whole milliseconds that last at least as long.
fn millis(span: Duration) -> Arg {
    let millis = span.as_millis() + u128::from(!span.subsec_nanos().is_multiple_of(1_000_000));
    Arg::Int(i64::try_from(millis).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 10] = ["orders", "a{b}c", "{b}", "a{b}{c}", "订单", "b", "a}b", "{}x", "{", "{a}lwt:"];

    /// What Redis takes a key's slot from, as its cluster specification says it.
    fn tag(key: &str) -> &str {
        let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
        tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
    }

    #[test]
    fn a_record_lies_in_the_slot_of_its_lock() {
        for key in &NAMES[..6] {
            assert_eq!(tag(&record_key(key)), tag(key), "{key}");
        }
    }

    #[test]
    fn names_and_records_are_one_to_one() {
        let mut records: Vec<_> = NAMES.iter().map(|key| record_key(key)).collect();
        for (name, record) in NAMES.iter().zip(&records) {
            assert_eq!(key_of(record), Some(*name));
        }
        records.sort();
        records.dedup();
        assert_eq!(records.len(), NAMES.len());
        for foreign in ["orders", "lwt:", "lwt:orders", "lwt:{a}b"] {
            assert_eq!(key_of(foreign), None, "{foreign}");
        }
    }

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
        let seen = |list: [Reply; 5]| layout.inspected("x", &Reply::List(list.into())).unwrap().holder.unwrap();
        let text = |text: &str| Reply::Text(text.into());
        let theirs = seen([text("request-17"), Reply::Int(-1), Reply::Int(5_000_000), Reply::Int(0), text("")]);
        assert_eq!((theirs.first_token, theirs.last_token, theirs.held_for), (0, 0, None));
        assert_eq!((theirs.remaining, &*theirs.card.language), (Duration::MAX, "predis"));
        let ours =
            seen([text("id"), Reply::Int(800), Reply::Int(5_000_000), Reply::Int(4_000_000), text("h\t7\trust\t")]);
        assert_eq!((ours.first_token, ours.last_token), (4_000_000, 4_000_063));
        assert_eq!((ours.held_for, ours.remaining), (Some(Duration::from_secs(1)), Duration::from_millis(800)));
        assert_eq!((ours.card.pid, &*ours.card.language), (7, "rust"));
    }
}
