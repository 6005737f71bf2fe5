//! Locks that another library keeps too: one machine for all layouts that differ in what lies under the lock's key only.
//!
//! A [`Family`] is such a layout: its scripts, and the [`Format`]s in which libraries of that family write owners and keys.
//! Whatever the family, this is the same:
//!
//! | key | holds |
//! |---|---|
//! | [`Format::before`], the connection's prefix and the name, byte for byte | what the other library keeps there |
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
//!   undo     record owner...                     ->  1
//!   inspect  record                              ->  nil | [owner, remaining-ms, now, first token, card]
//!   break    record token                        ->  1 | 0
//! ```
//!
//! Where a family needs more, such as another key, a request ends with [`Format::rest`].
//!
//! A plain `SET NX PX` would do for an acquire that is answered. One whose connection broke may be executed much later, and
//! only a script can refuse then; so it is one. Its effect on the lock's key is the same.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use super::NOTES;
use super::shapes::{self, Shape};
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
pub(super) use script;

/// The scripts of a family from its own parts: how to read the key (by the clock, where `clock` says so), how much is left of
/// a hold, how to take it, how to free it, and the renewal of many.
macro_rules! calls {
    (clock [$($clock:literal)*], read $read:literal, left $left:literal, take $take:literal, free $free:literal, renew $renew:expr) => {
        Calls {
            acquire: Call {
                name: "acquire",
                body: script!("joined/keys" "time" $read "joined/foreign" $left $take "joined/acquire"),
                batch: false,
            },
            renew: $renew,
            release: Call {
                name: "release",
                body: script!("joined/keys" $($clock)* $read $free "joined/release"),
                batch: false,
            },
            undo: Call { name: "undo", body: script!("joined/keys" $($clock)* $read $free "joined/undo"), batch: false },
            inspect: Call {
                name: "inspect",
                body: script!("joined/keys" "time" $read "joined/foreign" $left "joined/inspect"),
                batch: false,
            },
            break_hold: Call {
                name: "break",
                body: script!("joined/keys" $($clock)* $read "joined/foreign" $free "joined/break"),
                batch: false,
            },
            list: Call { name: "list", body: script!("joined/list" "page"), batch: false },
        }
    };
}
pub(super) use calls;

/// What holds for every lock on such a server, and what holds for those of one family.
pub(super) const fn notes(own: [&'static str; 4]) -> [&'static str; 8] {
    [NOTES[0], NOTES[1], NOTES[2], NOTES[3], own[0], own[1], own[2], own[3]]
}

/// What the keys of our records begin with.
const RECORD: &str = "lwt:";

/// A layout of such locks.
#[derive(Debug)]
pub struct Family {
    /// Its name, as in the option `layout=`.
    pub name: &'static str,
    /// Its scripts.
    pub calls: &'static Calls,
    /// Whose locks it joins.
    pub formats: &'static [Format],
    /// Until when a holder is the only one.
    pub exclusive_until: ExclusiveUntil,
    /// What a person should know, one sentence each.
    pub notes: &'static [&'static str],
    /// Whether a renewal needs what all other requests need.
    pub renews_record: bool,
}

/// Whose locks are joined: how a library writes keys and owners.
#[derive(Clone, Copy)]
pub struct Format {
    /// Its name, as in the option `format=`; empty for the only one of its layout.
    pub name: &'static str,
    /// Whose locks these are, as told of a holder that is not one of us.
    pub library: &'static str,
    /// What the library itself puts before a lock's name.
    pub before: &'static str,
    /// An attempt as this library would write an owner.
    pub owner: fn(AttemptId) -> String,
    /// What this library may have written as owner.
    pub writes: &'static [Shape],
    /// The same of a lock that never ends by itself.
    pub writes_endless: &'static [Shape],
    /// What its family's scripts are told besides, for the lock kept under this key.
    pub rest: fn(&str) -> Option<Arg>,
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.library)
    }
}

impl Format {
    /// Refuses an owner that the library of this format does not write.
    fn check(&self, operation: &'static str, owner: &str, left: i64) -> Result<()> {
        let (shape, ends) = (Shape::of(owner), left >= 0);
        let known = if ends { self.writes } else { self.writes_endless };
        if known.contains(&shape) {
            return Ok(());
        }
        let endless = if ends { "" } else { ", without an end" };
        Err(self.foreign(operation, &format!("{}{endless}", shape.described())))
    }

    fn foreign(&self, operation: &'static str, found: &str) -> Error {
        let message = format!(
            "under this name lies {found}, which is no lock in the format {}; see who else uses the name, or choose \
             another name, prefix or format",
            self.library
        );
        Error::new(Kind::ForeignLayout, operation, message)
    }

    /// The error for what the server refuses; a key of another type is told by that, and by the names in it.
    fn refused(&self, operation: &'static str, code: &str, message: &str) -> Error {
        if code != "FOREIGN" {
            return refusal(operation, code, message);
        }
        let (kind, names) = message.split_once(' ').unwrap_or((message, ""));
        self.foreign(operation, shapes::described(kind, names))
    }
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

impl Family {
    /// The layout in each of its formats, for locks whose names get `prefix` put before them.
    pub fn layouts(&'static self, prefix: &str) -> impl Iterator<Item = Arc<dyn Layout>> {
        self.formats.iter().map(move |format| Arc::new(self.layout(format, prefix)) as Arc<dyn Layout>)
    }

    /// The layout in one format.
    pub fn layout(&'static self, format: &'static Format, prefix: impl Into<String>) -> JoinedLayout {
        JoinedLayout { family: self, format, prefix: prefix.into() }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct JoinedLayout {
    family: &'static Family,
    format: &'static Format,
    prefix: String,
}

impl Layout for JoinedLayout {
    fn name(&self) -> &'static str {
        self.family.name
    }

    fn format(&self) -> Option<&'static str> {
        Some(self.format.name).filter(|name| !name.is_empty())
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            store: "redis",
            layout: self.family.name,
            exclusive_until: self.family.exclusive_until,
            token: TokenRises::WithStoreClock,
            fair: false,
            reentrant: true,
            shared: true,
            push: false,
            survives_disconnect: true,
            incarnation: true,
            notes: self.family.notes,
        }
    }

    fn key(&self, name: &str) -> Result<Arc<str>> {
        let key = format!("{}{}{name}", self.format.before, self.prefix);
        if key.starts_with(RECORD) {
            let layout = self.family.name;
            let message = format!("a name of the layout {layout} cannot begin with {RECORD}, where tokens are kept");
            return Err(Error::invalid("lock", message));
        }
        Ok(key.into())
    }

    fn protocol(&self, key: Arc<str>) -> Box<dyn Protocol> {
        Box::new(Joined::new(self.family, self.format, key))
    }

    fn inspect(&self, key: Arc<str>) -> Request {
        self.request(&self.family.calls.inspect, key, None)
    }

    fn inspected(&self, name: &str, reply: &Reply) -> Result<Inspection> {
        let free = Inspection { name: name.into(), layout: self.family.name.into(), holder: None, waiters: 0 };
        match reply {
            Reply::Nil => Ok(free),
            Reply::Error { code, message } => Err(self.format.refused("inspect", code, message)),
            Reply::List(list) => match list.as_slice() {
                [Reply::Text(owner), Reply::Int(left), Reply::Int(now), Reply::Int(first), Reply::Text(card)] => {
                    self.format.check("inspect", owner, *left)?;
                    let holder = self.holder(owner, *left, now.saturating_sub(*first), *first, card);
                    Ok(Inspection { holder: Some(holder), ..free })
                }
                _ => Err(nonsense("inspect", std::slice::from_ref(reply))),
            },
            _ => Err(nonsense("inspect", std::slice::from_ref(reply))),
        }
    }

    fn break_hold(&self, key: Arc<str>, token: u64) -> Request {
        let token = Arg::Int(i64::try_from(token).unwrap_or(i64::MAX));
        self.request(&self.family.calls.break_hold, key, Some(token))
    }

    fn list(&self, cursor: &str) -> Request {
        Request::new(&self.family.calls.list, format!("{RECORD}*").into(), [cursor.into()])
    }

    fn listed(&self, reply: &Reply) -> Result<(Vec<String>, Option<String>)> {
        let list = listed(reply)?;
        let mut texts = list.iter().filter_map(|item| match item {
            Reply::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let next = texts.next().filter(|cursor| !cursor.is_empty()).map(str::to_owned);
        let name_of =
            |key: &'_ str| key.strip_prefix(self.format.before)?.strip_prefix(&*self.prefix).map(str::to_owned);
        Ok((texts.filter_map(key_of).filter_map(name_of).collect(), next))
    }
}

impl JoinedLayout {
    fn request(&self, call: &'static Call, key: Arc<str>, arg: Option<Arg>) -> Request {
        let record = Arg::Key(record_key(&key).into());
        let rest = (self.format.rest)(&key);
        let mut request = Request::new(call, key, [record]);
        request.args.extend(arg.into_iter().chain(rest));
        request
    }

    /// A holder that has no record is one of the other library's.
    fn holder(&self, owner: &str, left: i64, held: i64, first: i64, card: &str) -> Holder {
        let first_token = u64::try_from(first).unwrap_or(0);
        let (last_token, held_for, card) = match first_token {
            0 => (0, None, Card { language: self.format.library.into(), ..Card::default() }),
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

/// Milliseconds as Redis tells them: below zero where there is no end, and zero for less than one.
fn remaining(millis: i64) -> Duration {
    u64::try_from(millis).map_or(Duration::MAX, |millis| Duration::from_millis(millis.max(1)))
}

/// The machine.
#[derive(Clone)]
pub struct Joined {
    family: &'static Family,
    format: &'static Format,
    key: Arc<str>,
    record: Arc<str>,
    rest: Option<Arg>,
    /// The attempt served at present, as written.
    owner: Option<(AttemptId, Arc<str>)>,
}

impl Joined {
    /// The machine for the lock kept under `key`.
    pub fn new(family: &'static Family, format: &'static Format, key: Arc<str>) -> Self {
        let (record, rest) = (record_key(&key).into(), (format.rest)(&key));
        Joined { family, format, record, rest, key, owner: None }
    }

    fn begin(&mut self, intent: &Intent) -> Result<Request> {
        let me = self.owner(intent.terms().attempt);
        let calls = self.family.calls;
        Ok(match intent {
            Intent::Acquire { prev: Some(_), .. } => {
                let message = format!("the layout {} cannot yield, yet it was asked to", self.family.name);
                return Err(Error::new(Kind::Internal, "acquire", message));
            }
            Intent::Acquire { terms, .. } => {
                let card = terms.card.clone().into();
                self.request(&calls.acquire, [me, millis(terms.ttl), Arg::NotAfter, card])
            }
            Intent::Renew { ttl, .. } if self.family.renews_record => self.request(&calls.renew, [me, millis(*ttl)]),
            Intent::Renew { ttl, .. } => Request::new(&calls.renew, self.key.clone(), [me, millis(*ttl)]),
            Intent::Release { .. } => self.request(&calls.release, [me]),
            Intent::Undo { prev, .. } => {
                let prev = prev.as_ref().map(|prev| (self.format.owner)(prev.terms.attempt));
                self.request(&calls.undo, std::iter::once(me).chain(prev.map(|owner| Arg::Text(owner.into()))))
            }
        })
    }

    /// The owner that `attempt` is written as, made once per attempt.
    fn owner(&mut self, attempt: AttemptId) -> Arg {
        match &self.owner {
            Some((of, text)) if *of == attempt => Arg::Text(text.clone()),
            _ => {
                let text: Arc<str> = (self.format.owner)(attempt).into();
                self.owner = Some((attempt, text.clone()));
                Arg::Text(text)
            }
        }
    }

    fn request(&self, call: &'static Call, args: impl IntoIterator<Item = Arg>) -> Request {
        let mut request = Request::new(call, self.key.clone(), [Arg::Key(self.record.clone())]);
        request.args.extend(args.into_iter().chain(self.rest.clone()));
        request
    }

    fn answer(&self, op: Op, reply: &Reply) -> Option<Verdict> {
        if let Reply::Error { code, message } = reply {
            return Some(Verdict::Failed(self.format.refused(operation(op), code, message)));
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
                Some(match self.format.check("acquire", owner, *left) {
                    Ok(()) => Verdict::Held { remaining: remaining(*left), at: Some(StoreTime(*now)), prev: None },
                    Err(error) => Verdict::Failed(error),
                })
            }
            [Reply::Int(2), Reply::Int(now)] => Some(Verdict::Late { at: StoreTime(*now) }),
            _ => None,
        }
    }
}

impl Protocol for Joined {
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
        (self.family.name, self.format.name, &self.key).hash(&mut state);
    }
}

impl fmt::Debug for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The owner would release the lock.
        write!(f, "Joined({} {:?} {:?})", self.family.name, self.format, self.key)
    }
}

/// Whole milliseconds that last at least as long.
fn millis(span: Duration) -> Arg {
    let millis = span.as_millis() + u128::from(!span.subsec_nanos().is_multiple_of(1_000_000));
    Arg::Int(i64::try_from(millis).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::super::string::{self, FAMILY};
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
        let layout = |prefix| FAMILY.layout(&string::REDIS_PY, prefix);
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
        let layout = FAMILY.layout(&string::PREDIS, "");
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
