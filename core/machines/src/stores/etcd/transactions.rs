//! The layout's requests as transactions of etcd, and what was answered as replies.

use std::sync::Arc;

use super::copy::Copy;
use super::latch;
use super::layouts::concurrency_layout::RESERVED;
use super::layouts::part::Part;
use super::lease::Lease;
use super::wire::{Compare, Done, First, Get, Got, Is, KeyValue, Keys, Op, Response, Shown, Transaction};
use crate::error::{Error, Kind, Result};
use crate::lease::Card;
use crate::protocol::{Arg, Reply, Request, StoreEvent};

/// Under which lease a request is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// Its client's, which is granted if there is none.
    Lease,
    /// The same, if there is one: what was to be put under one that is over cannot be any more.
    LeaseIfAny,
    /// None: another client's, at most.
    Nothing,
}

impl Under {
    /// That of this request.
    pub fn of(request: &Request) -> Self {
        match request.call.name {
            "acquire" | "try" | "yield" | "arrive" | "look" | "open" | "fate" | "exists" => Under::Lease,
            "undo" => Under::LeaseIfAny,
            _ => Under::Nothing,
        }
    }
}

/// What is done for `request`, by a client whose keys begin with `prefix`, [under](Under) this lease.
///
/// # Errors
/// `internal` for what is no transaction, or has no lease that it needs.
pub fn ask(request: &Request, lease: Option<&Lease>, prefix: &str) -> Result<Transaction> {
    match (request.call.name, lease) {
        ("acquire" | "try" | "yield" | "arrive", Some(lease)) => join(request, lease, lease.fence(), true),
        ("look", Some(_)) => look(request),
        ("open", Some(lease)) => open(request, lease),
        ("fate", Some(_)) => fate(request),
        ("exists", Some(_)) => exists(request),
        ("release", _) => release(request),
        ("break", _) => break_hold(request, prefix),
        ("delete", _) => delete(request, None),
        ("undo", lease) => delete(request, lease),
        ("first", _) => first(request),
        ("keys", _) => keys(request),
        ("latch.look", _) => Ok(latch::look(&request.key)),
        _ => Err(strange(request)),
    }
}

/// The answer to what was [asked](ask) when the fence was known to be written at that revision.
pub fn answer(request: &Request, response: &Response, lease: Option<&Lease>, fence: i64) -> Reply {
    match (request.call.name, lease) {
        ("acquire" | "try" | "yield" | "arrive", Some(lease)) => match joined(request, response, lease, fence) {
            Joined::Told(reply) => reply,
            Joined::Fenced { fence, reply } => {
                lease.learn(fence);
                reply
            }
            Joined::Unseen { .. } => unavailable("its line was not seen"),
        },
        ("look", Some(lease)) => looked(response, lease),
        ("open", _) => Reply::Int(response.succeeded.into()),
        ("fate", Some(lease)) => fated(response, lease),
        ("exists", Some(lease)) => existing(response, lease),
        ("release" | "break", _) => released(response),
        ("undo", Some(lease)) => {
            lease.is_fenced(response);
            deleted(response)
        }
        ("delete" | "undo", _) => deleted(response),
        ("first", _) => firsts(response),
        ("keys", _) => listed(response),
        ("latch.look", _) => latch::looked(&request.key, response),
        _ => Reply::Nil,
    }
}

/// Where the arguments of a request are.
fn key(request: &Request, at: usize) -> Result<Arc<str>> {
    match request.args.get(at) {
        Some(Arg::Key(key) | Arg::Text(key)) => Ok(key.clone()),
        Some(Arg::Nothing) => Ok("".into()),
        _ => Err(strange(request)),
    }
}

/// The number that is the argument `at`.
///
/// # Errors
/// `internal` where it is none.
pub fn int(request: &Request, at: usize) -> Result<i64> {
    match request.args.get(at) {
        Some(Arg::Int(number)) => Ok(*number),
        _ => Err(strange(request)),
    }
}

/// The error for a request that no layout of etcd's makes.
pub fn strange(request: &Request) -> Error {
    Error::new(Kind::Internal, "acquire", format!("etcd has no procedure for {request}"))
}

/// Everything below a lock.
pub fn below(lock: &str) -> String {
    format!("{lock}/")
}

/// Below what the queue of a request lies, which may name a part of it.
fn line(request: &Request) -> &str {
    let part = match request.call.name {
        "look" => request.args.get(3),
        "acquire" | "try" => request.args.get(4),
        _ => None,
    };
    if let Some(Arg::Key(part)) = part { part } else { &request.key }
}

/// All there is to a key but its value.
fn read(key: &str) -> Op {
    Op::Get(Get::keys(Keys::one(key)))
}

/// The same with its value.
fn read_all(key: &str) -> Op {
    Op::Get(Get::all(Keys::one(key)))
}

/// How many others there are below a lock.
fn count_others(lock: &str) -> Op {
    Op::Get(Get { of: Shown::Count, ..Get::keys(Keys::beginning(&below(lock))) })
}

/// The last keys there, up to one that was created then; those of a queue that come first are the last to be told.
fn queue(line: &str, limit: i64, create: i64) -> Op {
    let keys = Get::keys(Keys::beginning(&below(line)));
    Op::Get(Get { limit, first: Some(First::Newest), created_until: create, ..keys })
}

fn put(key: &str, value: &str, lease: i64) -> Op {
    Op::Put { key: key.into(), value: value.into(), lease }
}

/// `acquire`, `try`, `yield` and `arrive`, with the fence as it is known to be; the queue is read or not.
///
/// # Errors
/// `internal` for arguments of another request.
pub fn join(request: &Request, lease: &Lease, fence: i64, reads: bool) -> Result<Transaction> {
    let arrives = request.call.name == "arrive";
    let earlier = match request.call.name {
        "yield" => Some((key(request, 4)?, int(request, 5)?)),
        _ => None,
    };
    let (own, limit) = (key(request, 0)?, int(request, 2)?);
    let card = key(request, 1)?;
    let mut compares = vec![Compare::key(&own, Is::CreatedAt(0)), Compare::key(&lease.fence_key, Is::WrittenAt(fence))];
    if request.call.name == "try" {
        compares.push(Compare { keys: Keys::beginning(&below(line(request))), is: Is::CreatedAt(0) });
    }
    if arrives {
        // Whoever passed does not come again, however late its copies.
        compares.push(Compare::key(&key(request, 4)?, Is::CreatedAt(0)));
    }
    if let Some((earlier, create)) = &earlier {
        compares.push(Compare::key(earlier, Is::CreatedAt(*create)));
    }
    let gives = earlier.as_ref().map(|(earlier, _)| Op::Delete(earlier.to_string()));
    let own_put = put(&own, &value(request, &card), lease.id);
    let says = || {
        let card = Card { label: String::new(), ..Card::decode(&card) };
        put(&card_key(&lease.fence_key), &card.encode(), lease.id)
    };
    let queue = || reads.then(|| queue(line(request), limit, 0));
    let joins = gives.into_iter().chain([own_put]).chain(queue()).chain((!lease.is_told()).then(says));
    let joins = Transaction::when(compares).then(joins);
    if earlier.is_some() {
        // Whatever it was, the earlier one is given back by itself.
        return Ok(joins.or_else([read(&lease.fence_key)]));
    }
    Ok(joins.or_else([read_all(&own), read(&lease.fence_key)].into_iter().chain(queue())))
}

/// What came of [`join`].
#[derive(Debug)]
pub enum Joined {
    /// The answer.
    Told(Reply),
    /// Nothing was done; the fence is at this revision.
    Fenced {
        /// The revision.
        fence: i64,
        /// The answer.
        reply: Reply,
    },
    /// The queue was not read.
    Unseen {
        /// When the own key was created; 0 where it is not there.
        create: i64,
    },
}

/// The answer to [`join`].
pub fn joined(request: &Request, response: &Response, lease: &Lease, fence: i64) -> Joined {
    let (own, queue) = match &response.done[..] {
        [Done::Put, read @ ..] | [Done::Deleted(_), Done::Put, read @ ..] => {
            lease.tells();
            (Some((response.revision, lease.id)), read.first())
        }
        [Done::Got(known)] if request.call.name == "yield" => {
            let fence = known.kvs.first().map_or(0, |kv| kv.written);
            return Joined::Fenced { fence, reply: kept() };
        }
        [Done::Got(own), Done::Got(known), read @ ..] => {
            let now = known.kvs.first().map_or(0, |kv| kv.written);
            let value = key(request, 1).map(|card| value(request, &card));
            if own.kvs.first().is_some_and(|kv| value.is_ok_and(|value| kv.value != value.as_bytes())) {
                return Joined::Told(taken());
            }
            let own = own.kvs.first().map(created_with);
            if own.is_none() && (now != fence || request.call.name == "acquire") {
                return Joined::Fenced { fence: now, reply: fenced() };
            }
            (own, read.first())
        }
        _ => return Joined::Told(Reply::Nil),
    };
    match queue {
        Some(Done::Got(queue)) => Joined::Told(told(lease, response.revision, own, entries(queue))),
        _ => Joined::Unseen { create: own.map_or(0, |(create, _)| create) },
    }
}

/// The only key of which a `watch` wants to be told, and since when.
pub fn one_key(request: &Request) -> Option<(Arc<str>, i64)> {
    Some((key(request, 0).ok()?, int(request, 1).ok()?))
}

/// Asking again may help.
pub fn unavailable(message: &str) -> Reply {
    Reply::Error { code: "Unavailable".into(), message: message.into() }
}

/// What becomes the value of the own key: the tag, or else the card's label.
fn value(request: &Request, card: &str) -> Arc<str> {
    tag(request, 2).unwrap_or_else(|| Card::label_of(card).into())
}

fn tag(request: &Request, from: usize) -> Option<Arc<str>> {
    request.args.iter().skip(from).find_map(|arg| if let Arg::Text(tag) = arg { Some(tag.clone()) } else { None })
}

fn taken() -> Reply {
    Reply::Error { code: "Taken".into(), message: "another attempt has that key".into() }
}

fn kept() -> Reply {
    Reply::Error { code: "Kept".into(), message: "the earlier hold is not there, or something was undone".into() }
}

fn fenced() -> Reply {
    Reply::Error { code: "Fenced".into(), message: "something was undone meanwhile".into() }
}

/// `look`.
///
/// # Errors
/// `internal` for arguments of another request.
pub fn look(request: &Request) -> Result<Transaction> {
    let queue = queue(line(request), int(request, 1)?, int(request, 2)?);
    Ok(Transaction::of([read(&key(request, 0)?), queue]))
}

/// The answer to [`look`].
pub fn looked(response: &Response, lease: &Lease) -> Reply {
    match &response.done[..] {
        [Done::Got(own), Done::Got(queue)] => {
            told(lease, response.revision, own.kvs.first().map(created_with), entries(queue))
        }
        _ => Reply::Nil,
    }
}

fn created_with(kv: &KeyValue) -> (i64, i64) {
    (kv.created, kv.lease)
}

/// The keys of a queue that was read, the last first, as it is told.
fn entries(queue: &Got) -> impl Iterator<Item = Reply> + '_ {
    queue.kvs.iter().rev().map(|kv| entry(kv.name(), kv.created, kv.lease))
}

fn entry(key: String, create: i64, lease: i64) -> Reply {
    Reply::List(vec![Reply::Text(key), Reply::Int(create), Reply::Int(lease)])
}

fn told(lease: &Lease, revision: i64, own: Option<(i64, i64)>, entries: impl Iterator<Item = Reply>) -> Reply {
    let (create, owner) = own.unwrap_or_default();
    let head = [lease.id, revision, create, owner].map(Reply::Int);
    Reply::List(head.into_iter().chain(entries).collect())
}

/// The same as of a copy of the line, for a request that was to read it.
///
/// # Errors
/// `internal` for arguments of another request.
pub fn told_by(copy: &Copy, request: &Request, lease: &Lease, created: i64) -> Result<Reply> {
    let limit_at = if request.call.name == "look" { 1 } else { 2 };
    let own = copy.own(&key(request, 0)?).filter(|(create, _)| created == 0 || *create == created);
    let limit = int(request, limit_at)?;
    let ahead = copy.ahead(&below(line(request)), own.map(|(create, _)| create), limit);
    let entries = ahead.into_iter().map(|(key, create, lease)| entry(key.to_string(), create, lease));
    Ok(told(lease, copy.revision(), own, entries))
}

/// Whether as much of a queue is told as was to be told at most.
pub fn is_cut(request: &Request, queue: &Reply) -> bool {
    let limit = int(request, if request.call.name == "look" { 1 } else { 2 });
    matches!((queue, limit), (Reply::List(parts), Ok(limit)) if parts.len() as i64 >= limit + 4)
}

/// The first key that was read by the first that was done.
fn first_read(response: &Response) -> Option<&KeyValue> {
    match response.done.first() {
        Some(Done::Got(got)) => got.kvs.first(),
        _ => None,
    }
}

/// At which revision the own key of an `exists` was created; 0 where it is not there.
pub fn created(response: &Response) -> i64 {
    first_read(response).map_or(0, |kv| kv.created)
}

/// `exists`.
///
/// # Errors
/// `internal` for arguments of another request.
pub fn exists(request: &Request) -> Result<Transaction> {
    Ok(Transaction::of([read(&key(request, 0)?)]))
}

/// Lets places pass: if each is there as it was seen, it is deleted, and it is said how it passed.
fn open(request: &Request, lease: &Lease) -> Result<Transaction> {
    let mut compares = Vec::new();
    let mut opens = vec![put(&Part::opened_key(&request.key), "", lease.id)];
    for (index, at) in (0..request.args.len()).step_by(4).enumerate() {
        let (place, create, keeps) = (key(request, at)?, int(request, at + 1)?, int(request, at + 2)?);
        compares.push(Compare::key(&place, Is::CreatedAt(create)));
        opens.push(Op::Delete(place.to_string()));
        opens.push(put(&key(request, at + 3)?, &index.to_string(), keeps));
    }
    Ok(Transaction::when(compares).then(opens))
}

fn fate(request: &Request) -> Result<Transaction> {
    Ok(Transaction::of([read(&key(request, 0)?), read_all(&key(request, 1)?)]))
}

/// The answer to [`fate`].
fn fated(response: &Response, lease: &Lease) -> Reply {
    let [Done::Got(place), Done::Got(passed)] = &response.done[..] else {
        return Reply::Nil;
    };
    let created = |got: &Got| got.kvs.first().map_or(0, |kv| kv.created);
    let index = passed.kvs.first().and_then(|kv| std::str::from_utf8(&kv.value).ok()?.parse().ok());
    Reply::List([lease.id, created(place), created(passed), index.unwrap_or(-1)].map(Reply::Int).into())
}

fn existing(response: &Response, lease: &Lease) -> Reply {
    let found = first_read(response).map(|kv| [lease.id, kv.created, kv.lease].map(Reply::Int));
    found.map_or(Reply::Nil, |found| Reply::List(found.into()))
}

fn release(request: &Request) -> Result<Transaction> {
    let own = key(request, 0)?;
    let mine = Compare::key(&own, Is::CreatedAt(int(request, 1)?));
    Ok(Transaction::when([mine]).then([Op::Delete(own.to_string())]).or_else([count_others(&request.key)]))
}

/// A `release` of another client's key. If that is one of ours, its client hears of it by its fence.
fn break_hold(request: &Request, prefix: &str) -> Result<Transaction> {
    let (own, create, lease) = (key(request, 0)?, int(request, 1)?, int(request, 2)?);
    let theirs = Compare::key(&own, Is::CreatedAt(create));
    let tells = Part::of_ours(&own).map(|_| put(&fence_key(prefix, lease), &own, lease));
    let breaks = [Op::Delete(own.to_string())].into_iter().chain(tells);
    Ok(Transaction::when([theirs]).then(breaks).or_else([count_others(&request.key)]))
}

/// What is told by a fence that was written with this, and of which lock; nothing where its own client wrote it.
pub fn broken(fence: &[u8]) -> Option<(Arc<str>, StoreEvent)> {
    let own = std::str::from_utf8(fence).ok()?;
    let (lock, _) = Part::of_ours(own)?;
    Some((lock.into(), StoreEvent::BrokenAt { path: own.into() }))
}

/// Where the fence of a lease lies.
pub fn fence_key(prefix: &str, lease: i64) -> String {
    format!("{prefix}{RESERVED}/-{lease:x}")
}

/// Where it lies who keeps the lease of that fence.
fn card_key(fence_key: &str) -> String {
    format!("{fence_key}.card")
}

/// Reads who keeps a lease.
pub fn card_of(prefix: &str, lease: i64) -> Transaction {
    Transaction::of([read_all(&card_key(&fence_key(prefix, lease)))])
}

/// The answer to `lives`: for how many seconds the lease lasts yet, and what [`card_of`] it found.
pub fn lives(seconds: i64, card: &Response) -> Reply {
    let card = first_read(card).map(KeyValue::text).unwrap_or_default();
    Reply::List(vec![Reply::Int(seconds * 1000), Reply::Text(card)])
}

fn released(response: &Response) -> Reply {
    match &response.done[..] {
        [Done::Deleted(_), ..] => Reply::Int(1),
        [Done::Got(others)] => Reply::Int(if others.count > 0 { 2 } else { 0 }),
        _ => Reply::Nil,
    }
}

/// `delete`, and with a lease `undo`.
fn delete(request: &Request, fenced: Option<&Lease>) -> Result<Transaction> {
    let keys: Vec<_> =
        request.args.iter().filter_map(|arg| if let Arg::Key(key) = arg { Some(&**key) } else { None }).collect();
    let fence = || fenced.map(Lease::put_fence).into_iter();
    let deletes = fence().chain(keys.iter().map(|key| Op::Delete((*key).to_owned())));
    Ok(match (tag(request, 0), keys.first()) {
        (Some(tag), Some(key)) => {
            Transaction::when([Compare::key(key, Is::Value(tag.to_string()))]).then(deletes).or_else(fence())
        }
        _ => Transaction::of(deletes),
    })
}

fn deleted(response: &Response) -> Reply {
    let count = |done: &Done| if let Done::Deleted(count) = done { *count } else { 0 };
    Reply::Int(response.done.iter().map(count).sum())
}

fn first(request: &Request) -> Result<Transaction> {
    let below = Get::all(Keys::beginning(&below(&request.key)));
    Ok(Transaction::of([Op::Get(Get { limit: int(request, 0)?, first: Some(First::Oldest), ..below })]))
}

fn firsts(response: &Response) -> Reply {
    let [Done::Got(got)] = &response.done[..] else { return Reply::Nil };
    let entry = |kv: &KeyValue| {
        Reply::List(vec![Reply::Text(kv.name()), Reply::Int(kv.created), Reply::Int(kv.lease), Reply::Text(kv.text())])
    };
    Reply::List([Reply::Int(got.count)].into_iter().chain(got.kvs.iter().map(entry)).collect())
}

/// The keys that begin with the request's, from its cursor on.
fn keys(request: &Request) -> Result<Transaction> {
    let keys = Get::keys(Keys::beginning_from(&request.key, &key(request, 0)?));
    Ok(Transaction::of([Op::Get(Get { limit: int(request, 1)?, ..keys })]))
}

fn listed(response: &Response) -> Reply {
    let [Done::Got(got)] = &response.done[..] else { return Reply::Nil };
    let last = got.kvs.last().filter(|_| got.more);
    let next = last.map_or_else(String::new, |kv| format!("{}\0", kv.name()));
    let keys = got.kvs.iter().flat_map(|kv| [Reply::Text(kv.name()), Reply::Int(kv.lease)]);
    Reply::List([Reply::Text(next)].into_iter().chain(keys).collect())
}

/// That this key of a queue was deleted, as it is told.
pub fn gone(deleted: &KeyValue) -> StoreEvent {
    StoreEvent::Gone { path: format!("{}:{}", deleted.written, deleted.name()).into() }
}

#[cfg(test)]
mod tests {
    use super::super::copy::News;
    use super::super::layouts::{ACQUIRE, LATCH_CHANGE, TRY, YIELD};
    use super::*;

    fn lease() -> Lease {
        let lease = Lease::granted("app/", 0x1f, 30);
        lease.learn(9);
        lease
    }

    fn asks(call: &'static crate::protocol::Call) -> Request {
        let own = Arg::Key("app/x/a".into());
        Request::new(call, "app/x".into(), [own, Arg::Nothing, Arg::Int(32), Arg::NotAfter, Arg::Text("me".into())])
    }

    fn own(value: &str) -> Done {
        let kv = KeyValue { value: value.into(), created: 5, lease: 0x1f, ..KeyValue::default() };
        Done::Got(Got { kvs: vec![kv], ..Got::default() })
    }

    fn refusal(reply: Reply) -> String {
        if let Reply::Error { code, .. } = reply { code } else { format!("{reply:?}") }
    }

    #[test]
    fn who_joins_puts_its_key_where_nobody_has_that_name_and_nothing_was_undone() {
        let joins = ask(&asks(&ACQUIRE), Some(&lease()), "app/").unwrap();
        let fence = Compare::key("app/lockwright/fence/-1f", Is::WrittenAt(9));
        assert_eq!(joins.compares, [Compare::key("app/x/a", Is::CreatedAt(0)), fence]);
        assert_eq!(joins.success[0], put("app/x/a", "me", 0x1f));
        // Who only tries joins nobody.
        let tries = ask(&asks(&TRY), Some(&lease()), "app/").unwrap();
        assert_eq!(tries.compares[2], Compare { keys: Keys::beginning("app/x/"), is: Is::CreatedAt(0) });
        // Who has no lease can put nothing, and not all is a transaction.
        assert_eq!(ask(&asks(&ACQUIRE), None, "app/").unwrap_err().kind(), Kind::Internal);
        assert_eq!(ask(&asks(&LATCH_CHANGE), Some(&lease()), "app/").unwrap_err().kind(), Kind::Internal);
    }

    #[test]
    fn a_key_that_is_there_is_ones_own_only_if_its_value_says_so() {
        let fence = KeyValue { written: 9, ..KeyValue::default() };
        let fence = Done::Got(Got { kvs: vec![fence], ..Got::default() });
        let seen = |own: Done| Response {
            revision: 12,
            done: vec![own, fence.clone(), Done::Got(Got::default())],
            ..Response::default()
        };
        let told = answer(&asks(&ACQUIRE), &seen(own("me")), Some(&lease()), 9);
        assert_eq!(told, Reply::List([0x1f, 12, 5, 0x1f].map(Reply::Int).into()));
        assert_eq!(refusal(answer(&asks(&ACQUIRE), &seen(own("another")), Some(&lease()), 9)), "Taken");
    }

    fn yields() -> Request {
        let mut request = asks(&YIELD);
        request.args.splice(4..4, [Arg::Key("app/x/b".into()), Arg::Int(7)]);
        request
    }

    #[test]
    fn who_hands_on_deletes_what_it_held_and_nothing_else() {
        let lease = lease();
        let hands_on = ask(&yields(), Some(&lease), "app/").unwrap();
        let fence = Compare::key(&lease.fence_key, Is::WrittenAt(9));
        let earlier = Compare::key("app/x/b", Is::CreatedAt(7));
        assert_eq!(hands_on.compares, [Compare::key("app/x/a", Is::CreatedAt(0)), fence, earlier]);
        let queue = queue("app/x", 32, 0);
        assert_eq!(hands_on.success[..3], [Op::Delete("app/x/b".into()), put("app/x/a", "me", 0x1f), queue]);
        assert_eq!(hands_on.failure, [read(&lease.fence_key)]);
        assert_eq!(Under::of(&yields()), Under::Lease);
        // Whoever has a copy of the line does not read it.
        let unread = join(&yields(), &lease, 9, false).unwrap();
        assert_eq!(unread.success.len() + 1, hands_on.success.len());
        let stands = ["app/x/c", "app/x/a"].into_iter().zip([(11, 3), (12, 0x1f)]);
        let stands = stands.map(|(key, stands)| News { key: key.into(), revision: stands.0, stands: Some(stands) });
        let told = told_by(&Copy::of("app/x".into(), 12, stands), &yields(), &lease, 12).unwrap();
        let entries = [("app/x/c", 11, 3), ("app/x/a", 12, 0x1f)].map(|(key, at, of)| entry(key.into(), at, of));
        assert_eq!(told, super::told(&lease, 12, Some((12, 0x1f)), entries.into_iter()));
    }

    #[test]
    fn what_came_of_a_hand_over_is_told() {
        let lease = lease();
        let done = |done: Vec<Done>| Response { revision: 12, done, ..Response::default() };
        let handed = done(vec![Done::Deleted(1), Done::Put, Done::Got(Got::default()), Done::Put]);
        let told = answer(&yields(), &handed, Some(&lease), 9);
        assert_eq!(told, Reply::List([0x1f, 12, 12, 0x1f].map(Reply::Int).into()));
        assert!(lease.is_told());
        let unseen = joined(&yields(), &done(vec![Done::Deleted(1), Done::Put]), &lease, 9);
        assert!(matches!(unseen, Joined::Unseen { create: 12 }), "{unseen:?}");
        let fence = KeyValue { written: 11, ..KeyValue::default() };
        let kept = done(vec![Done::Got(Got { kvs: vec![fence], ..Got::default() })]);
        assert_eq!(refusal(answer(&yields(), &kept, Some(&lease), 9)), "Kept");
        assert_eq!(lease.fence(), 11);
    }

    #[test]
    fn what_was_fenced_off_learns_where_the_fence_is() {
        let lease = lease();
        let fence = Done::Got(Got { kvs: vec![KeyValue { written: 11, ..KeyValue::default() }], ..Got::default() });
        let response = Response { done: vec![Done::Got(Got::default()), fence], ..Response::default() };
        assert_eq!(refusal(answer(&asks(&ACQUIRE), &response, Some(&lease), 9)), "Fenced");
        assert_eq!(lease.fence(), 11);
    }
}
