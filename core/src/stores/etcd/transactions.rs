//! The layout's requests as transactions of etcd, and what was answered as replies.

use std::sync::Arc;

use etcd_client::{
    Compare, CompareOp, DeleteOptions, GetOptions, GetResponse, KeyValue, LeaseLeasesResponse, LeaseTimeToLiveResponse,
    MemberListResponse, PutOptions, SortOrder, SortTarget, StatusResponse, Txn, TxnOp, TxnOpResponse, TxnResponse,
};

use super::copy::Copy;
use super::layouts::concurrency_layout::RESERVED;
use super::layouts::part::Part;
use super::lease::Lease;
use crate::error::{Error, Kind, Result};
use crate::lease::Card;
use crate::protocol::{Arg, Reply, Request};

/// Where the arguments of a request are.
fn key(request: &Request, at: usize) -> Result<Arc<str>> {
    match request.args.get(at) {
        Some(Arg::Key(key) | Arg::Text(key)) => Ok(key.clone()),
        Some(Arg::Nothing) => Ok("".into()),
        _ => Err(strange(request)),
    }
}

pub(super) fn int(request: &Request, at: usize) -> Result<i64> {
    match request.args.get(at) {
        Some(Arg::Int(number)) => Ok(*number),
        _ => Err(strange(request)),
    }
}

pub(super) fn strange(request: &Request) -> Error {
    Error::new(Kind::Internal, "acquire", format!("etcd has no procedure for {request}"))
}

/// Everything below a lock.
pub(super) fn below(lock: &str) -> String {
    format!("{lock}/")
}

/// Below what the queue of a request lies, of which the argument `at` may name a part.
fn line(request: &Request, at: usize) -> &str {
    match request.args.get(at) {
        Some(Arg::Key(part)) => part,
        _ => &request.key,
    }
}

fn read(key: &str) -> TxnOp {
    TxnOp::get(key, Some(GetOptions::new().with_keys_only()))
}

/// The last keys there, up to one that was created then; those of a queue that come first are the last to be told.
fn queue(line: &str, limit: i64, create: i64) -> TxnOp {
    let options = GetOptions::new().with_prefix().with_limit(limit).with_keys_only();
    let options = options.with_sort(SortTarget::Create, SortOrder::Descend);
    TxnOp::get(below(line), Some(if create > 0 { options.with_max_create_revision(create) } else { options }))
}

/// `acquire`, `try` and `arrive`, with the fence as it is known to be; the queue is read or not.
pub(super) fn join(request: &Request, lease: &Lease, fence: i64, reads: bool) -> Result<Txn> {
    let arrives = request.call.name == "arrive";
    let line = if arrives { &request.key } else { line(request, 4) };
    let (own, limit) = (key(request, 0)?, int(request, 2)?);
    let card = Card::decode(&key(request, 1)?);
    let mut compares = vec![
        Compare::create_revision(&*own, CompareOp::Equal, 0),
        Compare::mod_revision(&*lease.fence_key, CompareOp::Equal, fence),
    ];
    if request.call.name == "try" {
        compares.push(Compare::create_revision(below(line), CompareOp::Equal, 0).with_prefix());
    }
    if arrives {
        // Whoever passed does not come again, however late its copies.
        compares.push(Compare::create_revision(&*key(request, 4)?, CompareOp::Equal, 0));
    }
    let kept = || Some(PutOptions::new().with_lease(lease.id));
    let put = TxnOp::put(&*own, &*value(request, &card), kept());
    let says = || TxnOp::put(card_key(&lease.fence_key), Card { label: String::new(), ..card }.encode(), kept());
    let queue = || reads.then(|| queue(line, limit, 0));
    let joins = [put].into_iter().chain(queue()).chain((!lease.is_told()).then(says));
    let looks = [TxnOp::get(&*own, None), read(&lease.fence_key)].into_iter().chain(queue());
    Ok(Txn::new().when(compares).and_then(joins.collect::<Vec<_>>()).or_else(looks.collect::<Vec<_>>()))
}

/// What came of [`join`].
pub(super) enum Joined {
    /// The answer.
    Told(Reply),
    /// Nothing was done; the fence is at this revision.
    Fenced { fence: i64, reply: Reply },
    /// The own key was created then, or is not there, and the queue was not read.
    Unseen { create: i64 },
}

/// The answer to [`join`].
pub(super) fn joined(request: &Request, response: &TxnResponse, lease: &Lease, fence: i64) -> Joined {
    let revision = revision_of(response);
    let responses = response.op_responses();
    let (own, queue) = match &responses[..] {
        [TxnOpResponse::Put(_), read @ ..] => {
            lease.tells();
            (Some((revision, lease.id)), read.first())
        }
        [TxnOpResponse::Get(own), TxnOpResponse::Get(known), read @ ..] => {
            let now = known.kvs().first().map_or(0, KeyValue::mod_revision);
            let value = key(request, 1).map(|card| value(request, &Card::decode(&card)));
            if own.kvs().first().is_some_and(|kv| value.is_ok_and(|value| kv.value() != value.as_bytes())) {
                return Joined::Told(taken());
            }
            let own = own.kvs().first().map(|kv| (kv.create_revision(), kv.lease()));
            if own.is_none() && (now != fence || request.call.name == "acquire") {
                return Joined::Fenced { fence: now, reply: fenced() };
            }
            (own, read.first())
        }
        _ => return Joined::Told(Reply::Nil),
    };
    match queue {
        Some(TxnOpResponse::Get(queue)) => Joined::Told(told(lease, revision, own, entries(queue))),
        _ => Joined::Unseen { create: own.map_or(0, |(create, _)| create) },
    }
}

/// The only key of which a `watch` wants to be told, and since when.
pub(super) fn one_key(request: &Request) -> Option<(Arc<str>, i64)> {
    Some((key(request, 0).ok()?, int(request, 1).ok()?))
}

/// Asking again may help.
pub(super) fn unavailable(message: &str) -> Reply {
    Reply::Error { code: "Unavailable".into(), message: message.into() }
}

/// What becomes the value of the own key: the tag, or else the card's label.
fn value(request: &Request, card: &Card) -> Arc<str> {
    tag(request, 2).unwrap_or_else(|| card.label.as_str().into())
}

fn tag(request: &Request, from: usize) -> Option<Arc<str>> {
    request.args.iter().skip(from).find_map(|arg| if let Arg::Text(tag) = arg { Some(tag.clone()) } else { None })
}

fn taken() -> Reply {
    Reply::Error { code: "Taken".into(), message: "another attempt has that key".into() }
}

fn fenced() -> Reply {
    Reply::Error { code: "Fenced".into(), message: "something was undone meanwhile".into() }
}

pub(super) fn look(request: &Request) -> Result<Txn> {
    Ok(Txn::new().and_then([read(&key(request, 0)?), queue(line(request, 3), int(request, 1)?, int(request, 2)?)]))
}

pub(super) fn looked(response: &TxnResponse, lease: &Lease) -> Reply {
    match &response.op_responses()[..] {
        [TxnOpResponse::Get(own), TxnOpResponse::Get(queue)] => {
            let own = own.kvs().first().map(|kv| (kv.create_revision(), kv.lease()));
            told(lease, revision_of(response), own, entries(queue))
        }
        _ => Reply::Nil,
    }
}

/// The keys of a queue that was read, the last first, as it is told.
fn entries(queue: &GetResponse) -> impl Iterator<Item = Reply> + '_ {
    queue.kvs().iter().rev().map(|kv| entry(text(kv.key()), kv.create_revision(), kv.lease()))
}

fn entry(key: Reply, create: i64, lease: i64) -> Reply {
    Reply::List(vec![key, Reply::Int(create), Reply::Int(lease)])
}

fn told(lease: &Lease, revision: i64, own: Option<(i64, i64)>, entries: impl Iterator<Item = Reply>) -> Reply {
    let (create, owner) = own.unwrap_or_default();
    let head = [lease.id, revision, create, owner].map(Reply::Int);
    Reply::List(head.into_iter().chain(entries).collect())
}

/// The same as of a copy of the line, for a request that was to read it.
pub(super) fn told_by(copy: &Copy, request: &Request, lease: &Lease, created: i64) -> Result<Reply> {
    let (limit_at, line_at) = if request.call.name == "look" { (1, 3) } else { (2, 4) };
    let own = copy.own(&key(request, 0)?).filter(|(create, _)| created == 0 || *create == created);
    let limit = int(request, limit_at)?;
    let ahead = copy.ahead(&below(line(request, line_at)), own.map(|(create, _)| create), limit);
    let entries = ahead.into_iter().map(|(key, create, lease)| entry(Reply::Text(key.to_string()), create, lease));
    Ok(told(lease, copy.revision(), own, entries))
}

/// Whether as much of a queue is told as was to be told at most.
pub(super) fn is_cut(request: &Request, queue: &Reply) -> bool {
    let limit = int(request, if request.call.name == "look" { 1 } else { 2 });
    matches!((queue, limit), (Reply::List(parts), Ok(limit)) if parts.len() as i64 >= limit + 4)
}

/// At which revision the own key of an `exists` was created; 0 where it is not there.
pub(super) fn created(response: &TxnResponse) -> i64 {
    match &response.op_responses()[..] {
        [TxnOpResponse::Get(own)] => own.kvs().first().map_or(0, KeyValue::create_revision),
        _ => 0,
    }
}

pub(super) fn exists(request: &Request) -> Result<Txn> {
    Ok(Txn::new().and_then([read(&key(request, 0)?)]))
}

/// Lets places pass: if each is there as it was seen, it is deleted, and it is said how it passed.
pub(super) fn open(request: &Request, lease: &Lease) -> Result<Txn> {
    let mut compares = Vec::new();
    let mut opens = vec![TxnOp::put(Part::opened_key(&request.key), "", Some(PutOptions::new().with_lease(lease.id)))];
    for (index, at) in (0..request.args.len()).step_by(4).enumerate() {
        let (place, create, keeps) = (key(request, at)?, int(request, at + 1)?, int(request, at + 2)?);
        compares.push(Compare::create_revision(&*place, CompareOp::Equal, create));
        opens.push(TxnOp::delete(&*place, None));
        let kept = Some(PutOptions::new().with_lease(keeps));
        opens.push(TxnOp::put(&*key(request, at + 3)?, index.to_string(), kept));
    }
    Ok(Txn::new().when(compares).and_then(opens))
}

pub(super) fn fate(request: &Request) -> Result<Txn> {
    Ok(Txn::new().and_then([read(&key(request, 0)?), TxnOp::get(&*key(request, 1)?, None)]))
}

/// The answer to [`fate`].
pub(super) fn fated(response: &TxnResponse, lease: &Lease) -> Reply {
    let [TxnOpResponse::Get(place), TxnOpResponse::Get(passed)] = &response.op_responses()[..] else {
        return Reply::Nil;
    };
    let created = |got: &GetResponse| got.kvs().first().map_or(0, KeyValue::create_revision);
    let index = passed.kvs().first().and_then(|kv| std::str::from_utf8(kv.value()).ok()?.parse().ok());
    Reply::List([lease.id, created(place), created(passed), index.unwrap_or(-1)].map(Reply::Int).into())
}

pub(super) fn existing(response: &TxnResponse, lease: &Lease) -> Reply {
    match &response.op_responses()[..] {
        [TxnOpResponse::Get(own)] => own
            .kvs()
            .first()
            .map_or(Reply::Nil, |kv| Reply::List([lease.id, kv.create_revision(), kv.lease()].map(Reply::Int).into())),
        _ => Reply::Nil,
    }
}

pub(super) fn release(request: &Request) -> Result<Txn> {
    let own = key(request, 0)?;
    let mine = [Compare::create_revision(&*own, CompareOp::Equal, int(request, 1)?)];
    let others = TxnOp::get(below(&request.key), Some(GetOptions::new().with_prefix().with_count_only()));
    Ok(Txn::new().when(mine).and_then([TxnOp::delete(&*own, None)]).or_else([others]))
}

/// A `release` of another client's key. If that is one of ours, its client hears of it by its fence.
pub(super) fn break_hold(request: &Request, prefix: &str) -> Result<Txn> {
    let (own, create, lease) = (key(request, 0)?, int(request, 1)?, int(request, 2)?);
    let theirs = [Compare::create_revision(&*own, CompareOp::Equal, create)];
    let others = TxnOp::get(below(&request.key), Some(GetOptions::new().with_prefix().with_count_only()));
    let tells = Part::of_ours(&own)
        .map(|_| TxnOp::put(fence_key(prefix, lease), &*own, Some(PutOptions::new().with_lease(lease))));
    let breaks: Vec<_> = [TxnOp::delete(&*own, None)].into_iter().chain(tells).collect();
    Ok(Txn::new().when(theirs).and_then(breaks).or_else([others]))
}

/// Where the fence of a lease lies.
pub(super) fn fence_key(prefix: &str, lease: i64) -> String {
    format!("{prefix}{RESERVED}/-{lease:x}")
}

/// Where it lies who keeps the lease of that fence.
pub(super) fn card_key(fence_key: &str) -> String {
    format!("{fence_key}.card")
}

pub(super) fn released(response: &TxnResponse) -> Reply {
    match &response.op_responses()[..] {
        [TxnOpResponse::Delete(_), ..] => Reply::Int(1),
        [TxnOpResponse::Get(others)] => Reply::Int(if others.count() > 0 { 2 } else { 0 }),
        _ => Reply::Nil,
    }
}

/// `delete`, and with a lease `undo`.
pub(super) fn delete(request: &Request, fenced: Option<&Lease>) -> Result<Txn> {
    let keys: Vec<_> =
        request.args.iter().filter_map(|arg| if let Arg::Key(key) = arg { Some(&**key) } else { None }).collect();
    let deletes = keys.iter().map(|key| TxnOp::delete(*key, Some(DeleteOptions::new())));
    let fence = || fenced.map(Lease::put_fence).into_iter();
    let deletes = fence().chain(deletes).collect::<Vec<_>>();
    Ok(match (tag(request, 0), keys.first()) {
        (Some(tag), Some(key)) => {
            let own = Compare::value(*key, CompareOp::Equal, &*tag);
            Txn::new().when([own]).and_then(deletes).or_else(fence().collect::<Vec<_>>())
        }
        _ => Txn::new().and_then(deletes),
    })
}

pub(super) fn deleted(response: &TxnResponse) -> Reply {
    let count = |response: &TxnOpResponse| match response {
        TxnOpResponse::Delete(deleted) => deleted.deleted(),
        _ => 0,
    };
    Reply::Int(response.op_responses().iter().map(count).sum())
}

pub(super) fn first(request: &Request) -> Result<(String, GetOptions)> {
    let options = GetOptions::new().with_prefix().with_limit(int(request, 0)?);
    Ok((below(&request.key), options.with_sort(SortTarget::Create, SortOrder::Ascend)))
}

pub(super) fn firsts(response: &GetResponse) -> Reply {
    let entry = |kv: &KeyValue| {
        Reply::List(vec![text(kv.key()), Reply::Int(kv.create_revision()), Reply::Int(kv.lease()), text(kv.value())])
    };
    Reply::List([Reply::Int(response.count())].into_iter().chain(response.kvs().iter().map(entry)).collect())
}

/// The keys that begin with the request's, from its cursor on.
pub(super) fn keys(request: &Request) -> Result<(Vec<u8>, GetOptions)> {
    let (prefix, cursor) = (request.key.as_bytes(), key(request, 0)?);
    let from = if cursor.is_empty() { prefix } else { cursor.as_bytes() };
    // The first key that begins otherwise; after all keys where no byte can be counted up. An empty key is none.
    let mut end = prefix.to_vec();
    while end.pop_if(|byte| *byte == u8::MAX).is_some() {}
    let end = match end.last_mut() {
        Some(last) => {
            *last += 1;
            end
        }
        None => vec![0],
    };
    let from = if from.is_empty() { vec![0] } else { from.to_vec() };
    Ok((from, GetOptions::new().with_range(end).with_limit(int(request, 1)?).with_keys_only()))
}

pub(super) fn listed(response: &GetResponse) -> Reply {
    let last = response.kvs().last().filter(|_| response.more());
    let next = last.map_or_else(String::new, |kv| format!("{}\0", String::from_utf8_lossy(kv.key())));
    let keys = response.kvs().iter().flat_map(|kv| [text(kv.key()), Reply::Int(kv.lease())]);
    Reply::List([Reply::Text(next)].into_iter().chain(keys).collect())
}

pub(super) fn revision_of(response: &TxnResponse) -> i64 {
    response.header().map_or(0, |header| header.revision())
}

/// The value that was read; empty where there is none.
pub(super) fn text_of(response: &GetResponse) -> Reply {
    text(response.kvs().first().map_or(&[][..], KeyValue::value))
}

fn text(bytes: &[u8]) -> Reply {
    Reply::Text(String::from_utf8_lossy(bytes).into_owned())
}

pub(super) fn status(status: &StatusResponse) -> Reply {
    let head =
        [Reply::Text(status.version().into()), Reply::Int(status.db_size()), Reply::Int((status.leader() != 0).into())];
    Reply::List(head.into_iter().chain(status.errors().iter().map(|wrong| Reply::Text(wrong.clone()))).collect())
}

pub(super) fn members(list: &MemberListResponse) -> Reply {
    let (learning, voting): (Vec<_>, Vec<_>) = list.members().iter().partition(|member| member.is_learner());
    Reply::List([voting.len(), learning.len()].map(|count| Reply::Int(i64::try_from(count).unwrap_or(i64::MAX))).into())
}

pub(super) fn leases(list: &LeaseLeasesResponse) -> Reply {
    Reply::List(list.leases().iter().map(|lease| Reply::Int(lease.id())).collect())
}

/// How many keys a lease keeps.
pub(super) fn kept(lives: &LeaseTimeToLiveResponse) -> Reply {
    if lives.ttl() < 0 {
        return Reply::Nil;
    }
    Reply::Int(i64::try_from(lives.keys().len()).unwrap_or(i64::MAX))
}
