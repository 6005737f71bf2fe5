//! What the locks of other libraries have in common, whatever lies there: one machine, one wire form, and a record of
//! ours.
//!
//! | key | holds |
//! |---|---|
//! | the name, with the connection's prefix | the lock, as the other library keeps it |
//! | [`record_key`] of that | `<first token> <owner> <card>` of our last grant; goes 10 minutes after its lease |
//!
//! The record is ours alone. It makes tokens rise over a lock that is deleted after each hold, and shows others the
//! holder's card; another library neither reads nor writes it, so its holders have no token. Both keys lie in one slot
//! of a cluster.
//!
//! Every conversation is one request:
//!
//! ```text
//!   acquire  record owner ttl-ms not-after card ..  ->  first token                                   granted, also when asked again
//!                                                   |   [0, now, remaining-ms, owner]                 held
//!                                                   |   [1, now, remaining-ms, owner or -, position]  queued
//!                                                   |   [2, now]                                      late
//!   renew    owner ttl-ms                           ->  1 | 0
//!   release  record owner ..                        ->  1 | 0 (nobody holds it) | card of the thief
//!   undo     record owner ..                        ->  1
//!   raise    record owner token                     ->  1 | 0
//!   inspect  record ..                              ->  nil | [owner, remaining-ms, now, first token, card, waiters]
//!   break    record token ..                        ->  1 | 0
//! ```
//!
//! What stands for `..` is the layout's: further keys, and the channel that releases are told on.
//!
//! A layout is a [`Manner`] and three pieces of script: `read` says who holds (`value`) and how to become the holder
//! (`take`), `free` ends a hold, `holds` tells whether somebody does. The rest of the scripts is in `scripts/joined`.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::shapes;
use crate::error::{Error, Kind, Result};
use crate::guarantee::Guarantees;
use crate::lease::{Card, Holder, Inspection, ReleaseOutcome};
use crate::lock_cell::BLOCK;
use crate::native_machine::Calls;
use crate::protocol::{
    Arg, AttemptId, Call, Grant, Input, Inquiry, Intent, Layout, Op, Protocol, Push, Reply, Request, Requests, Step,
    Term, Terms, Traits, Verdict, Wait,
};
use crate::replies::{answered, done, int, names, nonsense, operation, refusal};
use crate::share::Share;
use crate::time::StoreTime;
use crate::token::Tokens;

/// The scripts of a layout whose own pieces lie in the folders named.
macro_rules! calls {
    ($read:literal, $free:literal, $holds:literal, $inspect:literal) => {
        Calls {
            acquire: Call { name: "acquire", body: script!("joined/foreign" "joined/beside" $read "time" "joined/block" "joined/grant" "joined/acquire"), batch: false },
            renew: Call { name: "renew", body: script!($holds "joined/renew"), batch: true },
            release: Call { name: "release", body: script!("joined/foreign" "joined/beside" $read $free "joined/release"), batch: false },
            undo: Call { name: "undo", body: script!("joined/foreign" "joined/beside" $read $free "joined/undo"), batch: false },
            inspect: Call { name: "inspect", body: script!("joined/foreign" "joined/beside" $read "time" $inspect "joined/inspect"), batch: false },
            break_hold: Call { name: "break", body: script!("joined/foreign" "joined/beside" $read $free "joined/break"), batch: false },
            list: Call { name: "list", body: script!("joined/list" "page"), batch: false },
        }
    };
    // Where the clock is needed to say who holds, and renewal is a script of its own.
    (clock $read:literal, $free:literal, $renew:literal, $inspect:literal) => {
        Calls {
            acquire: Call { name: "acquire", body: script!("joined/foreign" "joined/beside" "time" $read "joined/block" "joined/grant" "joined/acquire"), batch: false },
            renew: Call { name: "renew", body: script!("time" $renew), batch: true },
            release: Call { name: "release", body: script!("joined/foreign" "joined/beside" "time" $read $free "joined/release"), batch: false },
            undo: Call { name: "undo", body: script!("joined/foreign" "joined/beside" "time" $read $free "joined/undo"), batch: false },
            inspect: Call { name: "inspect", body: script!("joined/foreign" "joined/beside" "time" $read $inspect "joined/inspect"), batch: false },
            break_hold: Call { name: "break", body: script!("joined/foreign" "joined/beside" "time" $read $free "joined/break"), batch: false },
            list: Call { name: "list", body: script!("joined/list" "page"), batch: false },
        }
    };
}

pub(super) use calls;

/// Has the tokens of a holder begin higher, where a lock lies on several nodes.
pub static RAISE: Call = Call { name: "raise", body: script!("joined/raise"), batch: false };

/// What the keys of our records begin with.
const RECORD: &str = "lwt:";

/// The same where several may hold.
pub(super) const NOTES_RECORD: &str = "lws:";

/// The key of the record that lies beside the lock `key`, in the same slot of a cluster: the key's own hash tag, or the
/// whole key as one. A key that has braces but no tag cannot be made one, so its record lies in another slot.
pub fn record_key(key: &str) -> String {
    match tag(key) {
        Some(tag) if !tag.is_empty() => format!("{RECORD}{{{tag}}}{key}"),
        None if !key.contains('}') => format!("{RECORD}{{{key}}}"),
        _ => format!("{RECORD}{key}"),
    }
}

/// What is in the first braces of a key, from which a cluster takes its slot unless it is empty.
fn tag(key: &str) -> Option<&str> {
    key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag)
}

/// Whether the record of this key is in its slot of a cluster: with a brace that closes nothing, no key that has more
/// than this one in it can be.
pub(super) fn has_record_in_its_slot(key: &str) -> bool {
    tag(key).map_or(!key.contains('}'), |tag| !tag.is_empty())
}

/// The same of every key that has this one in braces, or behind something else where it has some.
pub(super) fn has_all_in_its_slot(key: &str) -> bool {
    tag(key).map_or(!key.contains(['{', '}']), |tag| !tag.is_empty())
}

/// The error for a key that is not so.
pub(super) fn not_in_one_slot(key: &str) -> Error {
    let message = format!(
        "the key {key:?} has braces by which no key beside it can be in its slot of the cluster, as those of this layout \
         have to be; choose another name"
    );
    Error::unsupported("lock", message)
}

/// The lock's key from its record's; `None` for what is no record's key.
fn key_of(record: &str) -> Option<&str> {
    let rest = record.strip_prefix(RECORD).or_else(|| record.strip_prefix(NOTES_RECORD))?;
    let (tag, behind) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).unwrap_or_default();
    let is_its = |key: &&str| !key.is_empty() && record_key(key).strip_prefix(RECORD) == Some(rest);
    [tag, behind, rest].into_iter().find(is_its)
}

/// What is asked of a store, as far as layouts differ in what they add to it.
#[derive(Clone, Copy, Debug)]
pub enum Verb<'a> {
    /// To become the holder, or take a place where there are places.
    Hold { terms: &'a Terms, wait: bool },
    /// That a hold ends.
    Free,
    /// A look.
    Look,
}

/// Further arguments of a request.
pub type More = SmallVec<[Arg; 3]>;

/// In what one joined layout differs from the others.
pub trait Manner: Clone + fmt::Debug + Hash + Send + Sync + 'static {
    /// Its name among the formats of its layout, where that has several.
    fn format(&self) -> Option<&'static str>;

    /// What cards say of a holder that uses the other library.
    fn library(&self) -> &'static str;

    /// What it promises.
    fn guarantees(&self) -> Guarantees;

    /// How waiters learn of a release.
    fn push(&self) -> Push;

    /// Its scripts.
    fn calls(&self) -> &'static Calls;

    /// The script by which these terms are asked for.
    fn acquire(&self, terms: &Terms) -> &'static Call {
        let _ = terms;
        &self.calls().acquire
    }

    /// An attempt as the other library would write an owner; never the same for two.
    fn owner(&self, attempt: AttemptId) -> String;

    /// What an owner found looks like, if the other library cannot have written it; `ends` unless the key stays for
    /// ever.
    fn alien(&self, owner: &str, ends: bool) -> Option<String>;

    /// What the library itself puts before a lock's name.
    fn before(&self) -> &'static str {
        ""
    }

    /// Whether a token tells, in microseconds of Unix time, when it was granted.
    fn dates_tokens(&self) -> bool {
        true
    }

    /// Whether a renewal needs the record, and what a look has besides.
    fn renews_record(&self) -> bool {
        false
    }

    /// Fails for a key under which the other library keeps no locks.
    ///
    /// # Errors
    /// `invalid_config`, and why.
    fn check_key(&self, key: &str) -> Result<()> {
        let _ = key;
        Ok(())
    }

    /// What a request for the lock `key` has beside what all layouts send.
    fn more(&self, wanted: Verb<'_>, key: &str) -> More {
        let _ = (wanted, key);
        More::new()
    }

    /// See [`Layout::shared`]; names get `prefix` put before them.
    fn shared(&self, share: Share, prefix: &str) -> Option<Arc<dyn Layout>> {
        let _ = (share, prefix);
        None
    }

    /// See [`Protocol::channel`].
    fn channel(&self, key: &str, terms: &Terms) -> Option<Arc<str>> {
        let _ = (key, terms);
        None
    }
}

/// A layout that joins the locks of another library.
#[derive(Clone, Debug)]
pub struct JoinedLayout<M> {
    /// In what it differs from the others.
    pub manner: M,
    /// The connection's prefix, put before every name.
    pub prefix: String,
}

impl<M: Manner> Layout for JoinedLayout<M> {
    fn name(&self) -> &'static str {
        self.manner.guarantees().layout
    }

    fn format(&self) -> Option<&'static str> {
        self.manner.format()
    }

    fn guarantees(&self) -> Guarantees {
        self.manner.guarantees()
    }

    fn key(&self, name: &str) -> Result<Arc<str>> {
        let key = format!("{}{}{name}", self.manner.before(), self.prefix);
        if key.starts_with(RECORD) {
            let message =
                format!("a name of the layout {} cannot begin with {RECORD}, where tokens are kept", self.name());
            return Err(Error::invalid("lock", message));
        }
        self.manner.check_key(&key)?;
        Ok(key.into())
    }

    fn protocol(&self, key: Arc<str>) -> Box<dyn Protocol> {
        Box::new(JoinedLock::new(self.manner.clone(), key))
    }

    fn shared(&self, share: Share) -> Option<Arc<dyn Layout>> {
        self.manner.shared(share, &self.prefix)
    }

    fn inspect<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        let more = self.manner.more(Verb::Look, &key);
        let mut request = with_record(&self.manner.calls().inspect, key, []);
        request.args.extend(more);
        Inquiry::of(request, move |reply| self.inspected(name, reply))
    }

    fn break_hold(&self, key: Arc<str>, token: u64) -> Inquiry<'_, bool> {
        let more = self.manner.more(Verb::Free, &key);
        let token = Arg::Int(i64::try_from(token).unwrap_or(i64::MAX));
        let mut request = with_record(&self.manner.calls().break_hold, key, [token]);
        request.args.extend(more);
        let refused = |operation, code: &str, message: &str| refused(operation, &self.manner, code, message);
        Inquiry::of(request, move |reply| done("break", reply, refused))
    }

    fn list(&self) -> Inquiry<'static, Vec<String>> {
        self.clone().listing()
    }
}

impl<M: Manner> JoinedLayout<M> {
    /// The names of the locks there are.
    pub(super) fn listing(self) -> Inquiry<'static, Vec<String>> {
        let list = &self.manner.calls().list;
        let page = move |cursor: &str| Request::new(list, format!("{RECORD}*").into(), [cursor.into()]);
        Inquiry::pages(page, move |reply| names(reply, |record| self.name_of(record)))
    }

    fn name_of(&self, record: &str) -> Option<String> {
        let key = key_of(record)?.strip_prefix(self.manner.before())?;
        key.strip_prefix(&*self.prefix).map(str::to_owned)
    }

    fn inspected(&self, name: &str, reply: &Reply) -> Result<Inspection> {
        let nothing = Inspection::of_nothing(self.name(), name);
        match reply {
            Reply::Nil => Ok(nothing),
            Reply::Error { code, message } => Err(refused("inspect", &self.manner, code, message)),
            Reply::List(list) => match list.as_slice() {
                [
                    Reply::Text(owner),
                    Reply::Int(left),
                    Reply::Int(now),
                    Reply::Int(first),
                    Reply::Text(card),
                    Reply::Int(waiters),
                ] => {
                    check(&self.manner, "inspect", owner, *left)?;
                    let holder = (!owner.is_empty())
                        .then(|| self.holder(owner, *left, now.saturating_sub(*first), *first, card));
                    Ok(Inspection { holder, waiters: u64::try_from(*waiters).unwrap_or(0), ..nothing.of_lock() })
                }
                _ => Err(nonsense("inspect", std::slice::from_ref(reply))),
            },
            _ => Err(nonsense("inspect", std::slice::from_ref(reply))),
        }
    }

    /// A holder that has no record is one of the other library's.
    fn holder(&self, owner: &str, left: i64, held: i64, first: i64, card: &str) -> Holder {
        let first_token = u64::try_from(first).unwrap_or(0);
        let (last_token, held_for, card) = match first_token {
            0 => (0, None, Card { language: self.manner.library().into(), ..Card::default() }),
            first => (first.saturating_add(BLOCK - 1), self.manner.dates_tokens().then_some(held), Card::decode(card)),
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

/// A request that names the lock and its record.
fn with_record<const N: usize>(call: &'static Call, key: Arc<str>, args: [Arg; N]) -> Request {
    let record = Arg::Key(record_key(&key).into());
    let mut request = Request::new(call, key, [record]);
    request.args.extend(args);
    request
}

/// Milliseconds as Redis tells them: below zero where there is no end. In its last one a key has none left and is there
/// yet.
fn remaining(millis: i64) -> Duration {
    u64::try_from(millis).map_or(Duration::MAX, |millis| Duration::from_millis(millis.max(1)))
}

/// Refuses an owner that the other library does not write; none is fine.
fn check(manner: &impl Manner, operation: &'static str, owner: &str, left: i64) -> Result<()> {
    let ends = left >= 0;
    match manner.alien(owner, ends) {
        Some(found) => {
            let endless = if ends { "" } else { ", without an end" };
            Err(foreign(operation, manner, &format!("{found}{endless}")))
        }
        None => Ok(()),
    }
}

fn foreign(operation: &'static str, manner: &impl Manner, found: &str) -> Error {
    let kind = if manner.format().is_some() { "format" } else { "layout" };
    let message = format!(
        "under this name lies {found}, which is no lock of {}; see who else uses the name, or choose another name, prefix \
         or {kind}",
        manner.library()
    );
    Error::new(Kind::ForeignLayout, operation, message)
}

/// The error for what the server refuses; a key of another type is told by that, and by the names in it.
fn refused(operation: &'static str, manner: &impl Manner, code: &str, message: &str) -> Error {
    if code != "FOREIGN" {
        return refusal(operation, code, message);
    }
    let (kind, names) = message.split_once(' ').unwrap_or((message, ""));
    foreign(operation, manner, shapes::described(kind, names))
}

/// The machine.
#[derive(Clone)]
pub struct JoinedLock<M> {
    manner: M,
    key: Arc<str>,
    record: Arc<str>,
    /// The attempt served at present, as written.
    owner: Option<(AttemptId, Arc<str>)>,
}

impl<M: Manner> JoinedLock<M> {
    /// The machine for the lock kept under `key`.
    pub fn new(manner: M, key: Arc<str>) -> Self {
        JoinedLock { manner, record: record_key(&key).into(), key, owner: None }
    }

    fn begin(&mut self, intent: &Intent) -> Result<Request> {
        let me = self.owner(intent.terms().attempt);
        let record = Arg::Key(self.record.clone());
        let calls = self.manner.calls();
        let (mut request, wanted) = match intent {
            Intent::Acquire { prev: Some(_), .. } | Intent::Undo { prev: Some(_), .. } => {
                let message = "a joined layout cannot yield, yet it was asked to";
                return Err(Error::new(Kind::Internal, operation(intent.op()), message));
            }
            Intent::Acquire { terms, wait, .. } => {
                let card = terms.card.clone().into();
                let args = [record, me, millis(terms.ttl), Arg::NotAfter, card];
                (self.request(self.manner.acquire(terms), args), Verb::Hold { terms, wait: *wait })
            }
            Intent::Renew { ttl, .. } if self.manner.renews_record() => {
                (self.request(&calls.renew, [record, me, millis(*ttl)]), Verb::Look)
            }
            Intent::Renew { ttl, .. } => return Ok(self.request(&calls.renew, [me, millis(*ttl)])),
            Intent::Release { .. } => (self.request(&calls.release, [record, me]), Verb::Free),
            Intent::Undo { .. } => (self.request(&calls.undo, [record, me]), Verb::Free),
        };
        request.args.extend(self.manner.more(wanted, &self.key));
        Ok(request)
    }

    /// The owner that `attempt` is written as, made once per attempt.
    pub(super) fn owner(&mut self, attempt: AttemptId) -> Arg {
        match &self.owner {
            Some((of, text)) if *of == attempt => Arg::Text(text.clone()),
            _ => {
                let text: Arc<str> = self.manner.owner(attempt).into();
                self.owner = Some((attempt, text.clone()));
                Arg::Text(text)
            }
        }
    }

    pub(super) fn request<const N: usize>(&self, call: &'static Call, args: [Arg; N]) -> Request {
        Request::new(call, self.key.clone(), args)
    }

    pub(super) fn answer(&self, op: Op, reply: &Reply) -> Option<Step> {
        if let Reply::Error { code, message } = reply {
            return Some(Step::Done(Verdict::Failed(refused(operation(op), &self.manner, code, message))));
        }
        Some(Step::Done(match op {
            Op::Acquire => return self.acquired(reply),
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
        }))
    }

    fn acquired(&self, reply: &Reply) -> Option<Step> {
        let list = match reply {
            Reply::Int(first) => {
                let first = u64::try_from(*first).ok()?;
                let tokens = Some(Tokens::new(first, first.checked_add(BLOCK - 1)?)?);
                let grant = Grant { tokens, term: Term::FromRequest, prev: None };
                return Some(Step::Done(Verdict::Granted(grant)));
            }
            Reply::List(list) => list.as_slice(),
            _ => return None,
        };
        let check = |owner: &str, left| check(&self.manner, "acquire", owner, left);
        Some(match list {
            [Reply::Int(0), Reply::Int(now), Reply::Int(left), Reply::Text(owner)] => {
                Step::Done(match check(owner, *left) {
                    Ok(()) => Verdict::Held { remaining: remaining(*left), at: Some(StoreTime(*now)), prev: None },
                    Err(error) => Verdict::Failed(error),
                })
            }
            [Reply::Int(1), Reply::Int(now), Reply::Int(left), Reply::Text(owner), Reply::Int(ahead)] => {
                match check(owner, *left) {
                    Ok(()) => Step::Wait(Wait {
                        at: Some(StoreTime(*now)),
                        remaining: remaining(*left),
                        position: u32::try_from(*ahead).ok()?,
                        prev: None,
                    }),
                    Err(error) => Step::Done(Verdict::Failed(error)),
                }
            }
            [Reply::Int(2), Reply::Int(now)] => Step::Done(Verdict::Late { at: StoreTime(*now) }),
            _ => return None,
        })
    }
}

impl<M: Manner> Protocol for JoinedLock<M> {
    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin(intent) => match self.begin(&intent) {
                Ok(request) => Step::Ask(Requests::from_iter([request])),
                Err(error) => Step::Done(Verdict::Failed(error)),
            },
            Input::Reply(op, replies) => answered(op, replies, |reply| self.answer(op, reply)),
            Input::Event(_) => Step::Ignore,
        }
    }

    fn raise(&self, terms: &Terms, token: u64) -> Option<Request> {
        let (record, me) = (Arg::Key(self.record.clone()), self.manner.owner(terms.attempt));
        Some(self.request(&RAISE, [record, Arg::Text(me.into()), Arg::Int(i64::try_from(token).ok()?)]))
    }

    fn traits(&self) -> Traits {
        Traits { block: BLOCK, yields: false, push: self.manner.push(), bound: false }
    }

    fn channel(&self, terms: &Terms) -> Option<Arc<str>> {
        self.manner.channel(&self.key, terms)
    }

    fn duplicate(&self) -> Box<dyn Protocol> {
        Box::new(self.clone())
    }

    fn fingerprint(&self, mut state: &mut dyn Hasher) {
        (&self.manner, &self.key).hash(&mut state);
    }
}

impl<M: Manner> fmt::Debug for JoinedLock<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The owner would release the lock.
        write!(f, "JoinedLock({:?} {:?})", self.manner, self.key)
    }
}

/// Whole milliseconds that last at least as long.
pub(super) fn millis(span: Duration) -> Arg {
    let millis = span.as_millis() + u128::from(!span.subsec_nanos().is_multiple_of(1_000_000));
    Arg::Int(i64::try_from(millis).unwrap_or(i64::MAX))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) const NAMES: [&str; 10] =
        ["orders", "a{b}c", "{b}", "a{b}{c}", "订单", "b", "a}b", "{}x", "{", "{a}lwt:"];

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
}
