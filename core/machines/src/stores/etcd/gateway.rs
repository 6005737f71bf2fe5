//! The [wire](super::wire) as JSON: what is posted to a server's gateway, for hosts without gRPC, and what it answers.
//!
//! The gateway is the server's own, on the port of its clients. Keys and values are in base64, numbers of 64 bits are
//! texts, and what is nothing is left out. A stream of the server's is a line of JSON for each message.
//!
//! Sources: `rpc.swagger.json` of etcd 3.4 to 3.6, and a server of 3.4.

use std::fmt::Write as _;
use std::io;

use serde_json::Value;

use super::failure::{Failure, silent};
use super::wire::{Compare, Done, First, Get, Got, Is, KeyValue, Keys, Op, Response, Shown, Transaction};
use crate::base64;
use crate::error::{Error, Kind};

/// Where a transaction is posted.
pub const TRANSACTION: &str = "/v3/kv/txn";
/// Where a lease is granted.
pub const GRANT: &str = "/v3/lease/grant";
/// Where a lease is kept alive, once.
pub const KEEP_ALIVE: &str = "/v3/lease/keepalive";
/// Where a lease is given back.
pub const REVOKE: &str = "/v3/lease/revoke";
/// Where it is asked how long a lease lasts yet.
pub const TIME_TO_LIVE: &str = "/v3/lease/timetolive";
/// Where changes are heard of, as a stream.
pub const WATCH: &str = "/v3/watch";
/// Where a user and a password give a token, which is posted with the rest as `authorization`.
pub const AUTHENTICATE: &str = "/v3/auth/authenticate";
/// The header that has a member refuse what it cannot ask its leader, instead of answering what it last knew.
pub const REQUIRES_LEADER: (&str, &str) = ("grpc-metadata-hasleader", "true");

/// A transaction.
pub fn transaction(Transaction { compares, success, failure }: &Transaction) -> String {
    let ops = |ops: &[Op]| list(ops.iter().map(op));
    let compares = list(compares.iter().map(compare));
    format!(r#"{{"compare":{compares},"success":{},"failure":{}}}"#, ops(success), ops(failure))
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

/// The members of an object that say which keys are meant.
fn keys(Keys { from, end }: &Keys) -> String {
    let mut said = format!(r#""key":"{}""#, base64::encode(from));
    if !end.is_empty() {
        let _ = write!(said, r#","range_end":"{}""#, base64::encode(end));
    }
    said
}

fn compare(Compare { keys: of, is }: &Compare) -> String {
    let (target, result, member, value) = match is {
        Is::CreatedAt(revision) => ("CREATE", "EQUAL", "create_revision", revision.to_string()),
        Is::CreatedBefore(revision) => ("CREATE", "LESS", "create_revision", revision.to_string()),
        Is::WrittenAt(revision) => ("MOD", "EQUAL", "mod_revision", revision.to_string()),
        Is::Value(value) => ("VALUE", "EQUAL", "value", base64::encode(value.as_bytes())),
    };
    format!(r#"{{{},"target":"{target}","result":"{result}","{member}":"{value}"}}"#, keys(of))
}

fn op(op: &Op) -> String {
    match op {
        Op::Get(get) => format!(r#"{{"request_range":{{{}}}}}"#, range(get)),
        Op::Put { key, value, lease } => format!(
            r#"{{"request_put":{{"key":"{}","value":"{}","lease":"{lease}"}}}}"#,
            base64::encode(key.as_bytes()),
            base64::encode(value.as_bytes())
        ),
        Op::Delete(key) => format!(r#"{{"request_delete_range":{{{}}}}}"#, keys(&Keys::one(key))),
    }
}

fn range(Get { keys: of, limit, first, created_until, of: shown }: &Get) -> String {
    let mut said = keys(of);
    if *limit > 0 {
        let _ = write!(said, r#","limit":"{limit}""#);
    }
    if let Some(first) = first {
        let order = if *first == First::Oldest { "ASCEND" } else { "DESCEND" };
        let _ = write!(said, r#","sort_target":"CREATE","sort_order":"{order}""#);
    }
    if *created_until > 0 {
        let _ = write!(said, r#","max_create_revision":"{created_until}""#);
    }
    said.push_str(match shown {
        Shown::All => "",
        Shown::Keys => r#","keys_only":true"#,
        Shown::Count => r#","count_only":true"#,
    });
    said
}

/// What grants a lease of so many seconds.
pub fn grant(seconds: u64) -> String {
    format!(r#"{{"TTL":"{seconds}"}}"#)
}

/// What is said of a lease, whatever is to be done with it.
pub fn of_lease(id: i64) -> String {
    format!(r#"{{"ID":"{id}"}}"#)
}

/// What of some keys is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// That one is deleted.
    Deletions,
    /// That one is written.
    Writes,
}

/// What has these changes of these keys told, from now on.
pub fn watch(of: &Keys, changes: Changes) -> String {
    let other = match changes {
        Changes::Deletions => "NOPUT",
        Changes::Writes => "NODELETE",
    };
    format!(r#"{{"create_request":{{{},"filters":["{other}"]}}}}"#, keys(of))
}

/// What gives a token.
pub fn authenticate(user: &str, password: &str) -> String {
    format!(r#"{{"name":{},"password":{}}}"#, Value::from(user), Value::from(password))
}

/// What became of a transaction; none where that is no answer.
pub fn response(body: &[u8]) -> Option<Response> {
    let value = read(body)?;
    let done = |value: &Value| {
        let (what, value) = value.as_object()?.iter().next()?;
        match what.as_str() {
            "response_range" => got(value).map(Done::Got),
            "response_put" => Some(Done::Put),
            "response_delete_range" => number(value, "deleted").map(Done::Deleted),
            _ => None,
        }
    };
    Some(Response {
        revision: revision(&value)?,
        succeeded: is(&value, "succeeded"),
        done: each(&value, "responses").map(done).collect::<Option<_>>()?,
    })
}

fn got(value: &Value) -> Option<Got> {
    let kvs = each(value, "kvs").map(key_value).collect::<Option<_>>()?;
    Some(Got { kvs, count: number(value, "count")?, more: is(value, "more") })
}

fn key_value(value: &Value) -> Option<KeyValue> {
    Some(KeyValue {
        key: bytes(value, "key")?,
        value: bytes(value, "value")?,
        created: number(value, "create_revision")?,
        written: number(value, "mod_revision")?,
        lease: number(value, "lease")?,
    })
}

/// The number of a lease that was granted, and for how many seconds.
pub fn granted(body: &[u8]) -> Option<(i64, i64)> {
    let value = read(body)?;
    let (id, seconds) = (number(&value, "ID")?, number(&value, "TTL")?);
    (id != 0 && revision(&value).is_some()).then_some((id, seconds))
}

/// For how many seconds a lease lasts that was kept alive; none where it is over.
pub fn alive(body: &[u8]) -> Option<i64> {
    number(&message(body)?, "TTL")
}

/// For how many seconds a lease lasts yet; less than none where it is over.
pub fn lives(body: &[u8]) -> Option<i64> {
    let value = read(body)?;
    revision(&value)?;
    number(&value, "TTL")
}

/// A token.
pub fn token(body: &[u8]) -> Option<String> {
    Some(read(body)?.get("token")?.as_str()?.to_owned())
}

/// What a watch tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It stands: what changes after this revision is told.
    Stands(i64),
    /// These changed as it was asked for.
    Changed(Vec<KeyValue>),
    /// It is over, for this reason.
    Ended(String),
}

/// What one line of a watch tells; none where that is no answer.
pub fn heard(line: &[u8]) -> Option<Heard> {
    let value = message(line)?;
    if is(&value, "canceled") {
        return Some(Heard::Ended(text(&value, "cancel_reason")));
    }
    if is(&value, "created") {
        return revision(&value).map(Heard::Stands);
    }
    each(&value, "events").map(|event| key_value(event.get("kv")?)).collect::<Option<_>>().map(Heard::Changed)
}

/// What an answer of this status says that is no answer to what was posted.
pub fn failure(status: u16, body: &[u8]) -> Failure {
    let error = read(body).map(|value| value.get("error").filter(|error| error.is_object()).cloned().unwrap_or(value));
    // What the server says of an error it says with its number, which has another name within a stream.
    let code = error.as_ref().and_then(|error| error.get("code").or(error.get("grpc_code"))).and_then(Value::as_i64);
    let words = error.as_ref().map(|error| text(error, "message")).unwrap_or_default();
    let lost = "the connection to etcd was lost, or the cluster did not answer in time";
    match code {
        Some(code) => {
            let cause = io::Error::other(words.clone());
            Failure::told(code, &words, cause, |cause| Failure::Unknown(silent(lost, cause)))
        }
        // So answers a proxy that does not reach the server, and so ends a server in the middle of it.
        None if matches!(status, 502..=504) || (status == 200 && body.is_empty()) => {
            Failure::Unknown(silent(lost, io::Error::other(format!("HTTP {status}"))))
        }
        None => Failure::NotSent(no_gateway(status)),
    }
}

/// The error for what is no gateway of etcd's.
fn no_gateway(status: u16) -> Error {
    let message = format!(
        "what answers at this address (HTTP {status}) is no etcd with a JSON gateway; correct the address, or write \
         enable-grpc-gateway: true into the server's file of settings, without which a server that has one runs without gateway"
    );
    Error::new(Kind::Protocol, "connect", message)
}

fn read(body: &[u8]) -> Option<Value> {
    serde_json::from_slice(body).ok().filter(Value::is_object)
}

/// One message of a stream.
fn message(line: &[u8]) -> Option<Value> {
    read(line)?.get_mut("result").map(Value::take)
}

fn revision(value: &Value) -> Option<i64> {
    number(value.get("header")?, "revision")
}

/// A number, which is 0 where it is left out.
fn number(value: &Value, name: &str) -> Option<i64> {
    match value.get(name) {
        None => Some(0),
        Some(Value::String(text)) => text.parse().ok(),
        Some(other) => other.as_i64(),
    }
}

fn is(value: &Value, name: &str) -> bool {
    value.get(name).and_then(Value::as_bool).unwrap_or_default()
}

fn text(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn bytes(value: &Value, name: &str) -> Option<Vec<u8>> {
    base64::decode(value.get(name).map_or(Some(""), Value::as_str)?)
}

fn each<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::super::layouts::{ACQUIRE, LOOK, RELEASE};
    use super::super::lease::Lease;
    use super::super::transactions;
    use super::*;
    use crate::protocol::{Arg, Call, Reply, Request};

    fn posts(call: &'static Call, args: &[Arg]) -> String {
        let lease = Lease::granted("", 0x1f, 30);
        lease.learn(9);
        lease.tells();
        let mut request = Request::new(call, "x".into(), [Arg::Key("x/a".into())]);
        request.args.extend(args.iter().cloned());
        transaction(&transactions::ask(&request, Some(&lease), "").unwrap())
    }

    #[test]
    fn transactions_are_posted_as_the_gateway_reads_them() {
        let acquire = posts(&ACQUIRE, &[Arg::Nothing, Arg::Int(32), Arg::NotAfter, Arg::Text("me".into())]);
        let queue = r#"{"request_range":{"key":"eC8=","range_end":"eDA=","limit":"32","sort_target":"CREATE","sort_order":"DESCEND","keys_only":true}}"#;
        let fence = "bG9ja3dyaWdodC9mZW5jZS8tMWY=";
        assert_eq!(
            acquire,
            format!(
                r#"{{"compare":[{{"key":"eC9h","target":"CREATE","result":"EQUAL","create_revision":"0"}},{{"key":"{fence}","target":"MOD","result":"EQUAL","mod_revision":"9"}}],"#
            ) + r#""success":[{"request_put":{"key":"eC9h","value":"bWU=","lease":"31"}},"#
                + queue
                + r#"],"failure":[{"request_range":{"key":"eC9h"}},"#
                + &format!(r#"{{"request_range":{{"key":"{fence}","keys_only":true}}}},"#)
                + queue
                + "]}"
        );
        let look = posts(&LOOK, &[Arg::Int(1), Arg::Int(7)]);
        assert_eq!(
            look,
            r#"{"compare":[],"success":[{"request_range":{"key":"eC9h","keys_only":true}},{"request_range":{"key":"eC8=","range_end":"eDA=","limit":"1","sort_target":"CREATE","sort_order":"DESCEND","max_create_revision":"7","keys_only":true}}],"failure":[]}"#
        );
        let release = posts(&RELEASE, &[Arg::Int(7)]);
        assert_eq!(
            release,
            r#"{"compare":[{"key":"eC9h","target":"CREATE","result":"EQUAL","create_revision":"7"}],"success":[{"request_delete_range":{"key":"eC9h"}}],"failure":[{"request_range":{"key":"eC8=","range_end":"eDA=","count_only":true}}]}"#
        );
        let made = Compare { keys: Keys::beginning("x/"), is: Is::CreatedBefore(5) };
        let value = Compare::key("x", Is::Value("v".into()));
        assert_eq!(
            transaction(&Transaction::when([made, value])),
            r#"{"compare":[{"key":"eC8=","range_end":"eDA=","target":"CREATE","result":"LESS","create_revision":"5"},{"key":"eA==","target":"VALUE","result":"EQUAL","value":"dg=="}],"success":[],"failure":[]}"#
        );
        for (changes, other) in [(Changes::Deletions, "NOPUT"), (Changes::Writes, "NODELETE")] {
            let asks = format!(r#"{{"create_request":{{"key":"eC9h","filters":["{other}"]}}}}"#);
            assert_eq!(watch(&Keys::one("x/a"), changes), asks);
        }
        assert_eq!(authenticate("u\"", "p"), r#"{"name":"u\"","password":"p"}"#);
    }

    #[test]
    fn what_the_gateway_answers_is_read() {
        let header = r#""header":{"cluster_id":"1","member_id":"2","revision":"12","raft_term":"3"}"#;
        let body = format!(
            r#"{{{header},"responses":[{{"response_range":{{{header},"kvs":[{{"key":"eC9h","create_revision":"5","mod_revision":"6","version":"1","value":"bWU=","lease":"31"}}],"more":true,"count":"4"}}}},{{"response_put":{{}}}},{{"response_delete_range":{{"deleted":"1"}}}}]}}"#
        );
        let read = response(body.as_bytes()).unwrap();
        let kv = KeyValue { key: "x/a".into(), value: "me".into(), created: 5, written: 6, lease: 31 };
        let got = Done::Got(Got { kvs: vec![kv], count: 4, more: true });
        assert_eq!(read, Response { revision: 12, succeeded: false, done: vec![got, Done::Put, Done::Deleted(1)] });
        assert!(response(format!(r#"{{{header},"succeeded":true}}"#).as_bytes()).unwrap().succeeded);
        assert_eq!(granted(format!(r#"{{{header},"ID":"77","TTL":"30"}}"#).as_bytes()), Some((77, 30)));
        assert_eq!(alive(format!(r#"{{"result":{{{header},"ID":"77","TTL":"30"}}}}"#).as_bytes()), Some(30));
        assert_eq!(alive(format!(r#"{{"result":{{{header},"ID":"77"}}}}"#).as_bytes()), Some(0));
        assert_eq!(lives(format!(r#"{{{header},"ID":"77","TTL":"-1"}}"#).as_bytes()), Some(-1));
        assert_eq!(token(br#"{"header":{},"token":"abc.9"}"#).as_deref(), Some("abc.9"));
    }

    #[test]
    fn what_no_gateway_answers_is_not_taken_for_an_answer() {
        for body in [&b""[..], b"404 page not found\n", b"{}", b"[1]", b"-ERR unknown command"] {
            assert_eq!((response(body), granted(body), lives(body), token(body)), (None, None, None, None), "{body:?}");
        }
        let key = br#"{"header":{"revision":"1"},"responses":[{"response_range":{"kvs":[{"key":"!"}]}}]}"#;
        assert_eq!((response(key), heard(key)), (None, None));
    }

    #[test]
    fn a_watch_tells_from_when_it_stands_and_what_changes() {
        let header = r#""header":{"revision":"12"}"#;
        let stands = format!(r#"{{"result":{{{header},"created":true}}}}"#);
        assert_eq!(heard(stands.as_bytes()), Some(Heard::Stands(12)));
        let gone = r#"{"type":"DELETE","kv":{"key":"eC9h","mod_revision":"13"}}"#;
        let written = r#"{"kv":{"key":"eC9i","mod_revision":"13","value":"eQ=="}}"#;
        let told = format!(r#"{{"result":{{{header},"events":[{gone},{written}]}}}}"#);
        let changed = [("x/a", ""), ("x/b", "y")].map(|(key, value)| KeyValue {
            key: key.into(),
            value: value.into(),
            written: 13,
            ..KeyValue::default()
        });
        assert_eq!(heard(told.as_bytes()), Some(Heard::Changed(changed.into())));
        let ended = format!(r#"{{"result":{{{header},"created":true,"canceled":true,"cancel_reason":"why"}}}}"#);
        assert_eq!(heard(ended.as_bytes()), Some(Heard::Ended("why".into())));
        assert_eq!(heard(b"{}"), None);
    }

    #[test]
    fn errors_are_those_that_grpc_has() {
        let refused = |status, body: &str| match failure(status, body.as_bytes()) {
            Failure::Refused(Reply::Error { code, .. }) => code,
            other => format!("{other:?}"),
        };
        let lease = r#"{"error":"etcdserver: requested lease not found","code":5,"message":"etcdserver: requested lease not found"}"#;
        assert_eq!(refused(404, lease), "LeaseNotFound");
        let denied = r#"{"error":{"grpc_code":7,"http_code":403,"message":"etcdserver: permission denied"}}"#;
        assert_eq!(refused(200, denied), "PermissionDenied");
        let user = r#"{"error":"etcdserver: user name is empty","code":3,"message":"etcdserver: user name is empty"}"#;
        assert_eq!(refused(400, user), "Unauthenticated");
        let leaderless = r#"{"code":14,"message":"etcdserver: no leader"}"#;
        assert!(matches!(failure(503, leaderless.as_bytes()), Failure::NoLeader(_)));
        assert!(matches!(failure(503, br#"{"code":14,"message":"x"}"#), Failure::Unknown(_)));
        assert!(matches!(failure(502, b"<html>"), Failure::Unknown(_)));
        assert!(matches!(failure(200, b""), Failure::Unknown(_)));
        let wrong = failure(404, b"404 page not found\n");
        assert!(matches!(&wrong, Failure::NotSent(error) if error.kind() == Kind::Protocol), "{wrong:?}");
    }
}
