//! The lock layouts, and the words in which they and the driver talk.
//!
//! A request's key is the path it works on. ACLs and the chroot are the driver's. `session` is the id of the session
//! under which the answer came: with it a machine knows its own session without being told when it changes.
//!
//! | call | does | arguments | answer |
//! |---|---|---|---|
//! | `create` | create2, ephemeral and sequential | data | `[session, path, czxid, ephemeralOwner]` |
//! | `ephemeral` | create2, ephemeral | data | as `create` |
//! | `container` | createContainer | | nil |
//! | `persistent` | create2, persistent | | as `create`, with 0 for the owner |
//! | `children` | getChildren, unordered | | `[session, name, name, ...]` |
//! | `watch_children` | the same with a watch of them; none is left when the node is missing | | as `children` |
//! | `exists` | exists, without a watch | | `[session, czxid, ephemeralOwner]` |
//! | `watch` | getData with a watch; no watch is left when the node is missing | | `[session, czxid, ephemeralOwner]` |
//! | `get` | getData, without a watch | | `[session, czxid, ephemeralOwner, data]` |
//! | `read` | the same | | `[session, czxid, ephemeralOwner, data, version, mzxid, mtime]` |
//! | `set` | setData, of any version | data | nil |
//! | `multi` | all of it or nothing | changes, see [`Change`] | nil, or the first refusal |
//! | `delete` | delete | version, -1 for any | nil |
//! | `sync` | sync | | nil |
//! | `directory` | getChildren2 | | `[session, ephemeralOwner, cversion, name, name, ...]` |
//! | `clock` | create, setData and delete in one transaction | | `[session, mtime]` |
//! | `member` | asks one of the servers by itself; the argument is its number | number | `[address, what it says to srvr, shortest and longest session in ms]`, shorter where it does not answer |
//!
//! A refusal is an error reply with the name that ZooKeeper gives to the code: `NoNode`, `NodeExists`,
//! `ConnectionLoss`, `SessionExpired`, `NoAuth`, ... A request whose answer will never come is answered
//! `ConnectionLoss`.

use std::sync::Arc;

use crate::error::{Error, Kind, Result};
use crate::protocol::{Arg, Call, Op, Reply, Request, Requests};

pub mod barrier;
mod change;
pub mod counting;
pub mod examination;
mod front;
pub mod gate_layout;
pub mod kazoo_permits;
mod keeping;
pub mod latch;
pub mod line;
pub mod line_layout;
pub mod paths;
pub mod permits;
pub mod recipe;
mod seen;
mod servers;
mod sweep;

const fn call(name: &'static str) -> Call {
    Call { name, body: &[], batch: false }
}

/// Creates an ephemeral sequential node.
pub static CREATE: Call = call("create");
/// Creates an ephemeral node of exactly that name.
pub static EPHEMERAL: Call = call("ephemeral");
/// Creates a node that stays.
pub static PERSISTENT: Call = call("persistent");
/// Creates a container: a persistent node that the server removes some time after its last child.
pub static CONTAINER: Call = call("container");
/// Lists the names of a node's children.
pub static CHILDREN: Call = call("children");
/// Lists the names of a node's children, and asks to be told when there are others.
pub static WATCH_CHILDREN: Call = call("watch_children");
/// Reads a node's stat.
pub static EXISTS: Call = call("exists");
/// Reads a node's stat and asks to be told when the node goes or its data changes.
pub static WATCH: Call = call("watch");
/// Reads a node's data and stat, without a watch.
pub static GET: Call = call("get");
/// Gives a node other data.
pub static SET: Call = call("set");
/// Reads a node's data and all of its stat that a layout needs, without a watch.
pub static READ: Call = call("read");
/// Does several [changes](Change), or none of them.
pub static MULTI: Call = call("multi");
/// Deletes a node.
pub static DELETE: Call = call("delete");
/// Makes the reads that follow see everything the ensemble had accepted before.
pub static SYNC: Call = call("sync");

/// Lists a directory, and how many children it ever had.
pub static DIRECTORY: Call = call("directory");
/// Asks for the ensemble's time, by a node that is gone before anybody can see it.
pub static CLOCK: Call = call("clock");
/// Asks one server what it says of itself.
pub static MEMBER: Call = call("member");

/// What is asked of a node without arguments.
fn on(call: &'static Call, path: &Arc<str>) -> Request {
    Request::new(call, path.clone(), [])
}

fn delete(path: Arc<str>) -> Request {
    Request::new(&DELETE, path, [Arg::Int(-1)])
}

/// These reads, answered from a state of the ensemble that is no older than the asking.
fn synced(dir: &Arc<str>, reads: impl IntoIterator<Item = Request>) -> Requests {
    [on(&SYNC, dir)].into_iter().chain(reads).collect()
}

/// One of several changes that are made together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Gives a node that has this version other data.
    Set(Arc<str>, Arc<str>, i64),
    /// Makes a persistent node with this data.
    Make(Arc<str>, Arc<str>),
    /// Deletes a node, whatever its version.
    Remove(Arc<str>),
}

/// Has `changes` of what lies in the directory `dir` done together.
fn together(dir: &Arc<str>, changes: impl IntoIterator<Item = Change>) -> Request {
    let mut request = on(&MULTI, dir);
    for change in changes {
        request.args.extend(match change {
            Change::Set(path, data, version) => vec!["set".into(), Arg::Key(path), data.into(), Arg::Int(version)],
            Change::Make(path, data) => vec!["make".into(), Arg::Key(path), data.into()],
            Change::Remove(path) => vec!["remove".into(), Arg::Key(path)],
        });
    }
    request
}

/// The changes that a `multi` with these arguments is of; `None` where they are none.
pub fn changes(mut args: &[Arg]) -> Option<Vec<Change>> {
    let mut changes = Vec::new();
    while let [Arg::Text(does), Arg::Key(path), rest @ ..] = args {
        let (change, rest) = match (&**does, rest) {
            ("set", [Arg::Text(data), Arg::Int(version), rest @ ..]) => {
                (Change::Set(path.clone(), data.clone(), *version), rest)
            }
            ("make", [Arg::Text(data), rest @ ..]) => (Change::Make(path.clone(), data.clone()), rest),
            ("remove", rest) => (Change::Remove(path.clone()), rest),
            _ => return None,
        };
        changes.push(change);
        args = rest;
    }
    args.is_empty().then_some(changes)
}

/// Whether what was to be done together was done; else somebody was faster.
fn is_done(doing: impl Into<Doing>, reply: &Reply) -> Result<bool> {
    match reply {
        Reply::Nil => Ok(true),
        Reply::Error { code, .. } if matches!(code.as_str(), "BadVersion" | "NoNode" | "NodeExists") => Ok(false),
        Reply::Error { code, message } => Err(refused(doing, code, message)),
        _ => Err(garbled(doing)),
    }
}

/// What was being done, for errors.
#[derive(Clone, Copy)]
struct Doing(&'static str);

impl From<Op> for Doing {
    fn from(op: Op) -> Self {
        Doing(match op {
            Op::Acquire => "acquire",
            Op::Renew => "renew",
            Op::Release => "release",
            Op::Undo => "undo",
        })
    }
}

impl From<&'static str> for Doing {
    fn from(doing: &'static str) -> Self {
        Doing(doing)
    }
}

/// The answers to the reads of [`synced`].
fn after_sync(doing: impl Into<Doing>, replies: &[Reply]) -> Result<&[Reply]> {
    let doing = doing.into();
    match replies {
        [Reply::Nil, reads @ ..] => Ok(reads),
        [Reply::Error { code, message }, ..] => Err(refused(doing, code, message)),
        _ => Err(garbled(doing)),
    }
}

fn first(doing: impl Into<Doing>, replies: &[Reply]) -> Result<&Reply> {
    replies.first().ok_or_else(|| garbled(doing))
}

fn child(dir: &str, name: &str) -> Arc<str> {
    [dir, "/", name].concat().into()
}

/// What identifies one node: a name can come back, its `czxid` cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Stat {
    session: i64,
    czxid: u64,
    owner: i64,
}

impl Stat {
    /// Whether the session that asked keeps this node alive.
    fn ours(self) -> bool {
        self.session == self.owner
    }
}

/// The answer to `exists` or `watch`; `None` when there is no such node.
fn stat(doing: impl Into<Doing>, reply: &Reply) -> Result<Option<Stat>> {
    let doing = doing.into();
    match reply {
        Reply::List(parts) => match parts[..] {
            [Reply::Int(session), Reply::Int(czxid), Reply::Int(owner)] if czxid > 0 => {
                Ok(Some(Stat { session, czxid: czxid.unsigned_abs(), owner }))
            }
            _ => Err(garbled(doing)),
        },
        other => missing(doing, other),
    }
}

/// The answer to `get`: czxid and data; `None` when there is no such node.
fn found(doing: impl Into<Doing>, reply: &Reply) -> Result<Option<(u64, String)>> {
    let doing = doing.into();
    match reply {
        Reply::List(parts) => match &parts[..] {
            [Reply::Int(_), Reply::Int(czxid), Reply::Int(_), Reply::Text(data)] if *czxid > 0 => {
                Ok(Some((czxid.unsigned_abs(), data.clone())))
            }
            _ => Err(garbled(doing)),
        },
        other => missing(doing, other),
    }
}

/// A node as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Read {
    stat: Stat,
    data: String,
    version: i64,
    /// The transaction that gave it its data.
    mzxid: u64,
    /// When that was, in milliseconds of the ensemble's clock.
    mtime: i64,
}

/// The answer to `read`; `None` when there is no such node.
fn read(doing: impl Into<Doing>, reply: &Reply) -> Result<Option<Read>> {
    let doing = doing.into();
    let Reply::List(parts) = reply else { return missing(doing, reply) };
    let [head @ .., Reply::Text(data), Reply::Int(version), Reply::Int(mzxid), Reply::Int(mtime)] = &parts[..] else {
        return Err(garbled(doing));
    };
    let stat = stat(doing, &Reply::List(head.to_vec()))?;
    let (data, version, mzxid, mtime) = (data.clone(), *version, mzxid.unsigned_abs(), *mtime);
    Ok(stat.map(|stat| Read { stat, data, version, mzxid, mtime }))
}

/// The answer to `create`; `None` when the parent is missing.
fn created(doing: impl Into<Doing>, reply: &Reply) -> Result<Option<(&str, Stat)>> {
    let doing = doing.into();
    match reply {
        Reply::List(parts) => match &parts[..] {
            [Reply::Int(session), Reply::Text(path), Reply::Int(czxid), Reply::Int(owner)] if *czxid > 0 => {
                Ok(Some((path, Stat { session: *session, czxid: czxid.unsigned_abs(), owner: *owner })))
            }
            _ => Err(garbled(doing)),
        },
        other => missing(doing, other),
    }
}

/// The answer to `children`: the session and the names; `None` when the node is missing.
fn names(doing: impl Into<Doing>, reply: &Reply) -> Result<Option<(i64, Vec<&str>)>> {
    let doing = doing.into();
    let reply = if let Reply::Shared(reply) = reply { reply } else { reply };
    let Reply::List(parts) = reply else { return missing(doing, reply) };
    let [Reply::Int(session), names @ ..] = &parts[..] else { return Err(garbled(doing)) };
    let names = names.iter().map(|name| match name {
        Reply::Text(name) => Ok(name.as_str()),
        _ => Err(garbled(doing)),
    });
    Ok(Some((*session, names.collect::<Result<_>>()?)))
}

/// The answer to `delete`: whether the node was there.
fn deleted(doing: impl Into<Doing>, reply: &Reply) -> Result<bool> {
    let doing = doing.into();
    match reply {
        Reply::Nil => Ok(true),
        other => missing::<()>(doing, other).map(|_| false),
    }
}

fn missing<T>(doing: impl Into<Doing>, reply: &Reply) -> Result<Option<T>> {
    let doing = doing.into();
    match reply {
        Reply::Error { code, .. } if code == "NoNode" => Ok(None),
        Reply::Error { code, message } => Err(refused(doing, code, message)),
        _ => Err(garbled(doing)),
    }
}

/// An answer that no ZooKeeper gives.
fn garbled(doing: impl Into<Doing>) -> Error {
    let message = "the answer has not the shape of a ZooKeeper answer; is something else listening at this address?";
    Error::new(Kind::Protocol, doing.into().0, message)
}

/// A refusal as an error. `unavailable` means that the outcome is unknown and asking again may help.
fn refused(doing: impl Into<Doing>, code: &str, message: &str) -> Error {
    let doing = doing.into();
    let (kind, advice) = match code {
        "ConnectionLoss" | "OperationTimeout" | "SessionExpired" | "SessionMoved" | "RequestTimeout" => {
            (Kind::Unavailable, "ask again")
        }
        "NoAuth" | "AuthFailed" | "InvalidACL" => (Kind::Auth, "check the credentials and the ACL of the directory"),
        "Unimplemented" => (Kind::Unsupported, "ZooKeeper 3.5 or newer is needed"),
        "NoChildrenForEphemerals" => (
            Kind::ForeignLayout,
            "the lock's path is an ephemeral node, as Symfony's lock makes it; choose another name",
        ),
        _ => (Kind::Protocol, "no ZooKeeper gives this answer to this request"),
    };
    Error::new(kind, doing.0, format!("ZooKeeper answered {code} ({message}): {advice}"))
}

/// Why the lock's directory is still missing after its containers were asked for. One in another is missing, too, where
/// the server removed that between the two.
fn unmade(containers: &[Reply]) -> Error {
    let refusal = containers.iter().find_map(|reply| match reply {
        Reply::Error { code, .. } if code == "NodeExists" || code == "NoNode" => None,
        Reply::Error { code, message } => Some(refused(Op::Acquire, code, message)),
        _ => None,
    });
    let vanishing = "the lock's directory vanishes as soon as it is made; try again";
    refusal.unwrap_or_else(|| Error::new(Kind::Unavailable, "acquire", vanishing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_removed_while_one_is_made_in_it_is_asked_for_again() {
        let answers = |codes: [&str; 2]| codes.map(|code| Reply::Error { code: code.into(), message: String::new() });
        assert_eq!(unmade(&answers(["NodeExists", "NoNode"])).kind(), Kind::Unavailable);
        assert_eq!(unmade(&answers(["NodeExists", "NoAuth"])).kind(), Kind::Auth);
    }
}
