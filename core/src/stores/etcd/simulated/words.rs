//! What is said to a member and by it, as etcd's `rpc.proto` has it: the client library shows its answers alone.

use prost::Message;

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Header {
    #[prost(int64, tag = "3")]
    pub(super) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub(super) created: i64,
    #[prost(int64, tag = "3")]
    pub(super) written: i64,
    #[prost(int64, tag = "4")]
    pub(super) version: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) value: Vec<u8>,
    #[prost(int64, tag = "6")]
    pub(super) lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Range {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) limit: i64,
    #[prost(int64, tag = "4")]
    pub(super) revision: i64,
    #[prost(int32, tag = "5")]
    pub(super) order: i32,
    #[prost(int32, tag = "6")]
    pub(super) target: i32,
    #[prost(bool, tag = "7")]
    pub(super) serializable: bool,
    #[prost(bool, tag = "8")]
    pub(super) keys_only: bool,
    #[prost(bool, tag = "9")]
    pub(super) count_only: bool,
    #[prost(int64, tag = "10")]
    pub(super) written_from: i64,
    #[prost(int64, tag = "11")]
    pub(super) written_until: i64,
    #[prost(int64, tag = "12")]
    pub(super) created_from: i64,
    #[prost(int64, tag = "13")]
    pub(super) created_until: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Ranged {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub(super) kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub(super) more: bool,
    #[prost(int64, tag = "4")]
    pub(super) count: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Put {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) value: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Delete {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) end: Vec<u8>,
}

/// What was done, where nothing but that or a number is told.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Done {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    /// How many were deleted.
    #[prost(int64, tag = "2")]
    pub(super) deleted: i64,
}

/// One of them.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Op {
    #[prost(message, optional, tag = "1")]
    pub(super) range: Option<Range>,
    #[prost(message, optional, tag = "2")]
    pub(super) put: Option<Put>,
    #[prost(message, optional, tag = "3")]
    pub(super) delete: Option<Delete>,
}

/// One of them.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OpDone {
    #[prost(message, optional, tag = "1")]
    pub(super) range: Option<Ranged>,
    #[prost(message, optional, tag = "2")]
    pub(super) put: Option<Done>,
    #[prost(message, optional, tag = "3")]
    pub(super) delete: Option<Done>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Compare {
    #[prost(int32, tag = "1")]
    pub(super) result: i32,
    #[prost(int32, tag = "2")]
    pub(super) target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "64")]
    pub(super) end: Vec<u8>,
    #[prost(int64, optional, tag = "4")]
    pub(super) version: Option<i64>,
    #[prost(int64, optional, tag = "5")]
    pub(super) created: Option<i64>,
    #[prost(int64, optional, tag = "6")]
    pub(super) written: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "7")]
    pub(super) value: Option<Vec<u8>>,
    #[prost(int64, optional, tag = "8")]
    pub(super) lease: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Txn {
    #[prost(message, repeated, tag = "1")]
    pub(super) compares: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(super) success: Vec<Op>,
    #[prost(message, repeated, tag = "3")]
    pub(super) failure: Vec<Op>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnDone {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub(super) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(super) done: Vec<OpDone>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    /// 0 for what was put, 1 for what was deleted.
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) kv: Option<KeyValue>,
}

/// One of them.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Watch {
    #[prost(message, optional, tag = "1")]
    pub(super) create: Option<WatchCreate>,
    #[prost(message, optional, tag = "2")]
    pub(super) cancel: Option<WatchCancel>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchCreate {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) from: i64,
    /// 0 where puts, 1 where deletions are not to be told.
    #[prost(int32, repeated, tag = "5")]
    pub(super) filters: Vec<i32>,
    #[prost(int64, tag = "7")]
    pub(super) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchCancel {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Watched {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(int64, tag = "2")]
    pub(super) id: i64,
    #[prost(bool, tag = "3")]
    pub(super) created: bool,
    #[prost(bool, tag = "4")]
    pub(super) canceled: bool,
    #[prost(int64, tag = "5")]
    pub(super) compacted: i64,
    #[prost(string, tag = "6")]
    pub(super) reason: String,
    #[prost(message, repeated, tag = "11")]
    pub(super) events: Vec<Event>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Grant {
    #[prost(int64, tag = "1")]
    pub(super) ttl: i64,
}

/// What is asked of a lease.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OfLease {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
    #[prost(bool, tag = "2")]
    pub(super) keys: bool,
}

/// What is told of a lease; the answers to all that is asked of one begin so.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Leased {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(int64, tag = "2")]
    pub(super) id: i64,
    #[prost(int64, tag = "3")]
    pub(super) ttl: i64,
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub(super) keys: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Leases {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub(super) leases: Vec<OfLease>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Status {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(int64, tag = "3")]
    pub(super) size: i64,
    #[prost(uint64, tag = "4")]
    pub(super) leader: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Members {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub(super) members: Vec<OneMember>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OneMember {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
}
