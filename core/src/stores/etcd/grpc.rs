//! The words of the [wire](lockwright_machines::stores::etcd::wire) as those of the client library, which speaks gRPC.

use etcd_client::{
    Compare, CompareOp, GetOptions, GetResponse, LeaseLeasesResponse, LeaseTimeToLiveResponse, MemberListResponse,
    PutOptions, SortOrder, SortTarget, StatusResponse, Txn, TxnOp, TxnOpResponse, TxnResponse,
};
use lockwright_machines::protocol::Reply;
use lockwright_machines::stores::etcd::wire::{
    self, Done, First, Get, Got, Is, KeyValue, Op, Response, Shown, Transaction,
};

/// A transaction as the library has it.
pub(super) fn txn(transaction: &Transaction) -> Txn {
    let Transaction { compares, success, failure } = transaction;
    let ops = |ops: &[Op]| ops.iter().map(op).collect::<Vec<_>>();
    let compares = compares.iter().map(compare).collect::<Vec<_>>();
    Txn::new().when(compares).and_then(ops(success)).or_else(ops(failure))
}

fn compare(wire::Compare { keys, is }: &wire::Compare) -> Compare {
    let key = keys.from.as_slice();
    let one = match is {
        Is::CreatedAt(revision) => Compare::create_revision(key, CompareOp::Equal, *revision),
        Is::CreatedBefore(revision) => Compare::create_revision(key, CompareOp::Less, *revision),
        Is::WrittenAt(revision) => Compare::mod_revision(key, CompareOp::Equal, *revision),
        Is::Value(value) => Compare::value(key, CompareOp::Equal, value.as_str()),
    };
    if keys.end.is_empty() { one } else { one.with_range(keys.end.as_slice()) }
}

fn op(op: &Op) -> TxnOp {
    match op {
        Op::Get(get) => TxnOp::get(get.keys.from.as_slice(), Some(options(get))),
        Op::Put { key, value, lease } => {
            TxnOp::put(key.as_str(), value.as_str(), Some(PutOptions::new().with_lease(*lease)))
        }
        Op::Delete(key) => TxnOp::delete(key.as_str(), None),
    }
}

fn options(get: &Get) -> GetOptions {
    let Get { keys, limit, first, created_until, of } = get;
    let mut options = GetOptions::new().with_limit(*limit).with_max_create_revision(*created_until);
    if !keys.end.is_empty() {
        options = options.with_range(keys.end.as_slice());
    }
    options = match first {
        Some(First::Oldest) => options.with_sort(SortTarget::Create, SortOrder::Ascend),
        Some(First::Newest) => options.with_sort(SortTarget::Create, SortOrder::Descend),
        None => options,
    };
    match of {
        Shown::All => options,
        Shown::Keys => options.with_keys_only(),
        Shown::Count => options.with_count_only(),
    }
}

/// What the library says of a transaction.
pub(super) fn response(response: &TxnResponse) -> Response {
    let done = |done| match done {
        TxnOpResponse::Get(response) => Done::Got(got(&response)),
        TxnOpResponse::Delete(response) => Done::Deleted(response.deleted()),
        TxnOpResponse::Put(_) | TxnOpResponse::Txn(_) => Done::Put,
    };
    Response {
        revision: response.header().map_or(0, |header| header.revision()),
        succeeded: response.succeeded(),
        done: response.op_responses().into_iter().map(done).collect(),
    }
}

fn got(response: &GetResponse) -> Got {
    Got { kvs: response.kvs().iter().map(key_value).collect(), count: response.count(), more: response.more() }
}

/// A key as the library has it.
pub(super) fn key_value(kv: &etcd_client::KeyValue) -> KeyValue {
    KeyValue {
        key: kv.key().to_vec(),
        value: kv.value().to_vec(),
        created: kv.create_revision(),
        written: kv.mod_revision(),
        lease: kv.lease(),
    }
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
