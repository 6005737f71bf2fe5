//! What goes over the wire: frames of jute, which are a length of four bytes and as many bytes; numbers are big-endian,
//! and texts and lists come behind their lengths.
//!
//! Sources: `zookeeper.jute` and the constants of `ZooDefs` and `DriverException` in ZooKeeper 3.8.

use std::ops::Range;
use std::sync::Arc;

use super::layouts::{Change, changes};
use crate::error::{Error, Kind, Result};
use crate::protocol::{Arg, Call, Reply, Request};

/// The most bytes one reply may have: the names of 100,000 contenders fit.
const MOST_BYTES: usize = 8 << 20;

/// The `xid` of what the server says of a watch.
pub(super) const NOTIFICATION: i32 = -1;
/// Of a ping and its answer.
pub(super) const PING: i32 = -2;
/// Of a login.
pub(super) const AUTH: i32 = -4;
/// Of watches that are set again.
pub(super) const SET_WATCHES: i32 = -8;

/// Nodes that live as long as their session and get a number.
const EPHEMERAL_SEQUENTIAL: i32 = 3;
/// The same without a number.
const EPHEMERAL: i32 = 1;
const PERSISTENT: i32 = 0;
const CONTAINER: i32 = 4;

/// What asks for nothing but proves that a majority of the servers keeps this session alive: a transaction which all
/// of them write down and which changes nothing.
pub(super) static HEARTBEAT: Call = Call { name: "heartbeat", body: &[], batch: false };

/// What is told of an answer that no ZooKeeper gives.
pub(super) const NO_ANSWER: &str =
    "the server sent something that is no answer of ZooKeeper; see what answers at that address";

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    /// Makes a node of this kind, and tells of it.
    Create(Node),
    Container,
    /// Lists children, with a watch or without.
    Children {
        watches: bool,
    },
    /// Lists children, and tells of the node.
    Directory,
    Exists,
    /// Reads data, with a watch or without.
    Data {
        watches: bool,
    },
    /// Reads data and all of the stat.
    Read,
    Set,
    Multi,
    Delete,
    Sync,
    Heartbeat,
    /// Makes a node, writes to it and deletes it, and tells when that was: only a write in a transaction is told with
    /// its time.
    Clock,
}

/// How long a node lasts, and how it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// As long as its session, with a number behind its name.
    Numbered,
    /// As long as its session.
    Ephemeral,
    /// Until it is deleted.
    Persistent,
}

impl Node {
    const fn kind(self) -> i32 {
        match self {
            Node::Numbered => EPHEMERAL_SEQUENTIAL,
            Node::Ephemeral => EPHEMERAL,
            Node::Persistent => PERSISTENT,
        }
    }
}

impl Opcode {
    /// What `request` does.
    ///
    /// # Errors
    /// `internal` for a request that is of no layout of this store.
    pub(super) fn of(request: &Request) -> Result<Self> {
        Ok(match request.call.name {
            "create" => Opcode::Create(Node::Numbered),
            "ephemeral" => Opcode::Create(Node::Ephemeral),
            "persistent" => Opcode::Create(Node::Persistent),
            "container" => Opcode::Container,
            "children" => Opcode::Children { watches: false },
            "watch_children" => Opcode::Children { watches: true },
            "directory" => Opcode::Directory,
            "exists" => Opcode::Exists,
            "watch" => Opcode::Data { watches: true },
            "get" => Opcode::Data { watches: false },
            "read" => Opcode::Read,
            "set" => Opcode::Set,
            "multi" if changes(&request.args).is_some() => Opcode::Multi,
            "delete" => Opcode::Delete,
            "sync" => Opcode::Sync,
            "heartbeat" => Opcode::Heartbeat,
            "clock" => Opcode::Clock,
            _ => {
                return Err(Error::new(Kind::Internal, "connect", format!("ZooKeeper has no operation for {request}")));
            }
        })
    }

    const fn number(self) -> i32 {
        match self {
            Opcode::Create(_) => 15,
            Opcode::Container => 19,
            Opcode::Children { .. } => 8,
            Opcode::Directory => 12,
            Opcode::Exists => 3,
            Opcode::Data { .. } | Opcode::Read => 4,
            Opcode::Set => 5,
            Opcode::Delete => 2,
            Opcode::Sync => 9,
            Opcode::Heartbeat | Opcode::Multi | Opcode::Clock => 14,
        }
    }

    /// Whether a majority of the servers has a part in the answer `error`, or in success: what the leader found wrong
    /// is a transaction, too.
    pub(super) fn is_of_majority(self, error: i32) -> bool {
        let writes = match self {
            Opcode::Create(_)
            | Opcode::Container
            | Opcode::Set
            | Opcode::Multi
            | Opcode::Delete
            | Opcode::Heartbeat
            | Opcode::Clock => true,
            Opcode::Children { .. }
            | Opcode::Directory
            | Opcode::Exists
            | Opcode::Data { .. }
            | Opcode::Read
            | Opcode::Sync => false,
        };
        writes && matches!(error, 0 | code::NO_NODE | code::NO_AUTH | code::NODE_EXISTS)
    }
}

/// Who may do what to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Acl {
    pub(super) scheme: String,
    pub(super) id: String,
    pub(super) rights: i32,
}

impl Acl {
    /// Everybody.
    pub(super) fn open(rights: i32) -> Self {
        Acl { scheme: "world".into(), id: "anyone".into(), rights }
    }

    /// Whoever made it.
    pub(super) fn creator(rights: i32) -> Self {
        Acl { scheme: "auth".into(), id: String::new(), rights }
    }
}

/// Where frames are written.
pub(super) trait Jute {
    fn bytes(&mut self, bytes: &[u8]);

    fn int(&mut self, number: i32) {
        self.bytes(&number.to_be_bytes());
    }

    fn long(&mut self, number: i64) {
        self.bytes(&number.to_be_bytes());
    }

    fn flag(&mut self, flag: bool) {
        self.bytes(&[u8::from(flag)]);
    }

    /// Bytes behind their number. None is longer than what a name, a card or a password may be.
    fn buffer(&mut self, bytes: &[u8]) {
        self.int(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
        self.bytes(bytes);
    }

    fn text(&mut self, text: &str) {
        self.buffer(text.as_bytes());
    }
}

impl Jute for Vec<u8> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Writes what `body` writes, behind its length.
fn frame(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.int(0);
    body(out);
    let length = i32::try_from(out.len() - start - 4).unwrap_or(i32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Writes `request`, which does `opcode`, as the one with this `xid`.
pub(super) fn request(out: &mut Vec<u8>, xid: i32, opcode: Opcode, request: &Request, acl: &[Acl]) {
    let path = &*request.key;
    frame(out, |out| {
        out.int(xid);
        out.int(opcode.number());
        match opcode {
            Opcode::Create(node) => create(out, path, data(request), acl, node.kind()),
            Opcode::Set => set(out, path, data(request), -1),
            Opcode::Multi => {
                for change in changes(&request.args).unwrap_or_default() {
                    together(out, &change, acl);
                }
                part(out, -1, true);
            }
            Opcode::Container => create(out, path, &[], acl, CONTAINER),
            Opcode::Exists | Opcode::Read | Opcode::Directory => {
                out.text(path);
                out.flag(false);
            }
            Opcode::Data { watches } | Opcode::Children { watches } => {
                out.text(path);
                out.flag(watches);
            }
            Opcode::Delete => {
                let version = match request.args.first() {
                    Some(Arg::Int(version)) => i32::try_from(*version).unwrap_or(-1),
                    _ => -1,
                };
                out.text(path);
                out.int(version);
            }
            Opcode::Sync => out.text(path),
            Opcode::Clock => {
                let (path, nothing) = (|| request.key.clone(), Arc::<str>::from(""));
                let changes =
                    [Change::Make(path(), nothing.clone()), Change::Set(path(), nothing, -1), Change::Remove(path())];
                changes.iter().for_each(|change| together(out, change, acl));
                part(out, -1, true);
            }
            Opcode::Heartbeat => {
                part(out, CHECK, false);
                out.text("/");
                out.int(-1);
                part(out, -1, true);
            }
        }
    });
}

fn set(out: &mut Vec<u8>, path: &str, data: &[u8], version: i64) {
    out.text(path);
    out.buffer(data);
    out.int(i32::try_from(version).unwrap_or(-1));
}

/// A change as a part of a transaction.
fn together(out: &mut Vec<u8>, change: &Change, acl: &[Acl]) {
    match change {
        Change::Set(path, data, version) => {
            part(out, SET, false);
            set(out, path, data.as_bytes(), *version);
        }
        Change::Make(path, data) => {
            part(out, MAKE, false);
            create(out, path, data.as_bytes(), acl, PERSISTENT);
        }
        Change::Remove(path) => {
            part(out, REMOVE, false);
            out.text(path);
            out.int(-1);
        }
    }
}

fn data(request: &Request) -> &[u8] {
    match request.args.first() {
        Some(Arg::Text(data)) => data.as_bytes(),
        _ => &[],
    }
}

/// Says what version a node has to have; only part of a transaction.
const CHECK: i32 = 13;
/// What else a transaction is of.
const MAKE: i32 = 1;
const REMOVE: i32 = 2;
const SET: i32 = 5;

/// The head of a part of a transaction, or its end.
fn part(out: &mut Vec<u8>, kind: i32, is_end: bool) {
    out.int(kind);
    out.flag(is_end);
    out.int(-1);
}

fn create(out: &mut Vec<u8>, path: &str, data: &[u8], acl: &[Acl], kind: i32) {
    out.text(path);
    out.buffer(data);
    out.int(i32::try_from(acl.len()).unwrap_or(i32::MAX));
    for Acl { scheme, id, rights } in acl {
        out.int(*rights);
        out.text(scheme);
        out.text(id);
    }
    out.int(kind);
}

pub(super) fn ping(out: &mut Vec<u8>) {
    frame(out, |out| {
        out.int(PING);
        out.int(11);
    });
}

/// Ends the session.
pub(super) fn close(out: &mut Vec<u8>, xid: i32) {
    frame(out, |out| {
        out.int(xid);
        out.int(-11);
    });
}

/// Logs in by the scheme `digest`.
pub(super) fn login(out: &mut Vec<u8>, user: &str, password: &str) {
    frame(out, |out| {
        out.int(AUTH);
        out.int(100);
        out.int(0);
        out.text("digest");
        out.int(i32::try_from(user.len() + 1 + password.len()).unwrap_or(i32::MAX));
        [user, ":", password].iter().for_each(|part| out.bytes(part.as_bytes()));
    });
}

/// The `xid` of what is said to log in by SASL: nothing else is asked before that is over.
pub(super) const SASL: i32 = 0;

/// Says the next of a login by SASL.
pub(super) fn sasl(out: &mut Vec<u8>, token: &[u8]) {
    frame(out, |out| {
        out.int(SASL);
        out.int(102);
        out.buffer(token);
    });
}

/// Asks to be told of these nodes again, also of what happened to them after the transaction `seen`.
pub(super) fn set_watches(out: &mut Vec<u8>, seen: i64, watched: &[Watched]) {
    let of_children = watched.iter().filter(|watched| matches!(watched, Watched::Children(_)));
    let of_data = watched.iter().filter(|watched| matches!(watched, Watched::Node(_)));
    let list = |out: &mut Vec<u8>, paths: Vec<&Watched>| {
        out.int(i32::try_from(paths.len()).unwrap_or(i32::MAX));
        paths.iter().for_each(|watched| out.text(watched.path()));
    };
    frame(out, |out| {
        out.int(SET_WATCHES);
        out.int(101);
        out.long(seen);
        list(out, of_data.collect());
        // Nodes that are not there.
        out.int(0);
        list(out, of_children.collect());
    });
}

/// What the server is to tell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Watched {
    /// The end of a node, and other data.
    Node(Arc<str>),
    /// That a node has other children.
    Children(Arc<str>),
}

impl Watched {
    pub(super) fn path(&self) -> &Arc<str> {
        let (Watched::Node(path) | Watched::Children(path)) = self;
        path
    }
}

/// What is said first on a connection: that a session is wanted, or that the one of this number and password is to go
/// on.
pub(super) fn greeting(out: &mut Vec<u8>, seen: i64, timeout: i32, session: i64, password: &[u8]) {
    frame(out, |out| {
        out.int(0);
        out.long(seen);
        out.int(timeout);
        out.long(session);
        out.buffer(password);
        // Not by a server that lost the others and serves what it has.
        out.flag(false);
    });
}

/// The first whole frame of what has come: where its content lies. None if more has to come.
///
/// # Errors
/// `protocol` for a length that no answer has.
pub(super) fn first_frame(come: &[u8]) -> Result<Option<Range<usize>>> {
    let Some(length) = come.first_chunk() else { return Ok(None) };
    let length = usize::try_from(i32::from_be_bytes(*length)).ok().filter(|length| *length <= MOST_BYTES);
    let end = 4 + length.ok_or_else(garbled)?;
    Ok((come.len() >= end).then_some(4..end))
}

pub(super) fn garbled() -> Error {
    Error::new(Kind::Protocol, "connect", NO_ANSWER)
}

/// What is left to be read of a frame.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk().ok_or_else(garbled)?;
        self.0 = rest;
        Ok(*array)
    }

    pub(super) fn int(&mut self) -> Result<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn long(&mut self) -> Result<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// Older servers leave the last of a frame out.
    pub(super) fn flag(&mut self) -> bool {
        self.array::<1>().is_ok_and(|[flag]| flag != 0)
    }

    /// Nothing may have been sent as a length of -1.
    pub(super) fn buffer(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.int()?.max(0)).map_err(|_| garbled())?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(garbled)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn text(&mut self) -> Result<String> {
        Ok(String::from_utf8_lossy(self.buffer()?).into_owned())
    }

    fn texts(&mut self) -> Result<Vec<Reply>> {
        let mut texts = Vec::new();
        for _ in 0..self.int()?.max(0) {
            texts.push(Reply::Text(self.text()?));
        }
        Ok(texts)
    }

    /// Who made a node, and the session that keeps it alive.
    fn stat(&mut self) -> Result<[Reply; 2]> {
        self.whole_stat().map(|Stat { czxid, owner, .. }| [czxid, owner].map(Reply::Int))
    }

    fn whole_stat(&mut self) -> Result<Stat> {
        let (czxid, mzxid, _ctime, mtime) = (self.long()?, self.long()?, self.long()?, self.long()?);
        let (version, cversion, _aversion) = (self.int()?, self.int()?, self.int()?);
        let owner = self.long()?;
        // dataLength, numChildren, pzxid.
        self.array::<16>()?;
        Ok(Stat { czxid, mzxid, mtime, version: version.into(), cversion: cversion.into(), owner })
    }

    /// When a transaction was made that made a node and wrote to it.
    fn written_at(&mut self) -> Result<i64> {
        loop {
            let (kind, _, _) = (self.int()?, self.flag(), self.int()?);
            match kind {
                MAKE => drop(self.buffer()?),
                SET => return self.whole_stat().map(|stat| stat.mtime),
                _ => return Err(garbled()),
            }
        }
    }

    /// The first refusal among the answers to the parts of a transaction, if there is one.
    fn refusal(&mut self) -> Result<i32> {
        const NOT_DONE: i32 = -2;
        loop {
            let (kind, is_end, _) = (self.int()?, self.flag(), self.int()?);
            match kind {
                _ if is_end => return Ok(0),
                -1 => match self.int()? {
                    // Those before the one that was refused, and behind it.
                    0 | NOT_DONE => {}
                    refused => return Ok(refused),
                },
                MAKE => drop(self.buffer()?),
                SET => {
                    self.whole_stat()?;
                }
                REMOVE | CHECK => {}
                _ => return Err(garbled()),
            }
        }
    }
}

/// What is told of a node.
struct Stat {
    czxid: i64,
    mzxid: i64,
    /// Milliseconds since 1970.
    mtime: i64,
    version: i64,
    cversion: i64,
    owner: i64,
}

/// How an answer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) xid: i32,
    /// The last transaction that the server had seen.
    pub(super) zxid: i64,
    pub(super) error: i32,
}

impl Head {
    /// # Errors
    /// `protocol` where there is none.
    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Head { xid: from.int()?, zxid: from.long()?, error: from.int()? })
    }
}

/// What the server answers to `opcode`, asked in `session`.
///
/// # Errors
/// `protocol` for what is no answer to that.
pub(super) fn reply(opcode: Opcode, session: i64, error: i32, from: &mut Reader<'_>) -> Result<Reply> {
    if error != 0 {
        return Ok(refusal(error));
    }
    let mut parts = vec![Reply::Int(session)];
    match opcode {
        Opcode::Create(_) => {
            parts.push(Reply::Text(from.text()?));
            parts.extend(from.stat()?);
        }
        Opcode::Exists => parts.extend(from.stat()?),
        Opcode::Data { watches } => {
            let data = from.text()?;
            parts.extend(from.stat()?);
            if !watches {
                parts.push(Reply::Text(data));
            }
        }
        Opcode::Read => {
            let data = from.text()?;
            let Stat { czxid, owner, version, mzxid, mtime, .. } = from.whole_stat()?;
            parts.extend([czxid, owner].map(Reply::Int).into_iter().chain([Reply::Text(data)]));
            parts.extend([version, mzxid, mtime].map(Reply::Int));
        }
        Opcode::Multi => {
            return Ok(match from.refusal()? {
                0 => Reply::Nil,
                refused => refusal(refused),
            });
        }
        Opcode::Children { .. } => parts.extend(from.texts()?),
        Opcode::Directory => {
            let names = from.texts()?;
            let Stat { owner, cversion, .. } = from.whole_stat()?;
            parts.extend([owner, cversion].map(Reply::Int).into_iter().chain(names));
        }
        Opcode::Clock => match Reader(from.0).refusal()? {
            0 => parts.push(Reply::Int(from.written_at()?)),
            refused => return Ok(refusal(refused)),
        },
        Opcode::Container | Opcode::Set | Opcode::Delete | Opcode::Sync | Opcode::Heartbeat => return Ok(Reply::Nil),
    }
    Ok(Reply::List(parts))
}

fn refusal(error: i32) -> Reply {
    Reply::Error { code: code::name(error).into(), message: format!("code {error}") }
}

/// What happened to a node that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum News {
    Deleted(String),
    Changed(String),
    /// It has other children.
    Children(String),
    /// What nobody asked for.
    Other,
}

/// # Errors
/// `protocol` for what tells of nothing.
pub(super) fn news(from: &mut Reader<'_>) -> Result<News> {
    let (kind, _state, path) = (from.int()?, from.int()?, from.text()?);
    Ok(match kind {
        2 => News::Deleted(path),
        3 => News::Changed(path),
        4 => News::Children(path),
        _ => News::Other,
    })
}

/// Why a request was refused.
pub(super) mod code {
    pub(crate) const NO_NODE: i32 = -101;
    pub(crate) const NO_AUTH: i32 = -102;
    pub(crate) const NODE_EXISTS: i32 = -110;
    pub(crate) const SESSION_EXPIRED: i32 = -112;
    pub(crate) const SESSION_MOVED: i32 = -118;

    /// The name that ZooKeeper gives to it.
    pub(crate) fn name(code: i32) -> &'static str {
        match code {
            -1 => "SystemError",
            -4 => "ConnectionLoss",
            -5 => "MarshallingError",
            -6 => "Unimplemented",
            -7 => "OperationTimeout",
            -8 => "BadArguments",
            NO_NODE => "NoNode",
            NO_AUTH => "NoAuth",
            -103 => "BadVersion",
            -108 => "NoChildrenForEphemerals",
            NODE_EXISTS => "NodeExists",
            -111 => "NotEmpty",
            SESSION_EXPIRED => "SessionExpired",
            -114 => "InvalidACL",
            -115 => "AuthFailed",
            SESSION_MOVED => "SessionMoved",
            -119 => "NotReadOnly",
            -122 => "RequestTimeout",
            -124 => "SessionClosedRequireAuth",
            -125 => "QuotaExceeded",
            -127 => "Throttled",
            _ => "Unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use lockwright_machines::stores::zookeeper::layouts;

    use super::*;

    fn written(call: &'static Call, path: &str, args: Vec<Arg>) -> Vec<u8> {
        let mut out = Vec::new();
        let mut asked = Request::new(call, path.into(), []);
        asked.args = args;
        request(&mut out, 7, Opcode::of(&asked).unwrap(), &asked, &[Acl::open(31)]);
        out
    }

    #[test]
    fn requests_are_written_as_zookeeper_reads_them() {
        assert_eq!(
            written(&layouts::DELETE, "/a", vec![Arg::Int(-1)]),
            b"\0\0\0\x12\0\0\0\x07\0\0\0\x02\0\0\0\x02/a\xff\xff\xff\xff"
        );
        assert_eq!(
            written(&layouts::CREATE, "/a", vec![Arg::Text("x".into())]),
            b"\0\0\0\x32\0\0\0\x07\0\0\0\x0f\0\0\0\x02/a\0\0\0\x01x\0\0\0\x01\0\0\0\x1f\0\0\0\x05world\0\0\0\x06anyone\0\0\0\x03"
        );
        assert_eq!(written(&layouts::WATCH, "/a", vec![]), b"\0\0\0\x0f\0\0\0\x07\0\0\0\x04\0\0\0\x02/a\x01");
        assert_eq!(written(&layouts::WATCH_CHILDREN, "/a", vec![]), b"\0\0\0\x0f\0\0\0\x07\0\0\0\x08\0\0\0\x02/a\x01");
        assert_eq!(
            written(&layouts::SET, "/a", vec![Arg::Text("x".into())]),
            b"\0\0\0\x17\0\0\0\x07\0\0\0\x05\0\0\0\x02/a\0\0\0\x01x\xff\xff\xff\xff"
        );
        for (call, kind) in [(&layouts::EPHEMERAL, 1), (&layouts::PERSISTENT, 0), (&layouts::CREATE, 3)] {
            assert_eq!(written(call, "/a", vec![]).last(), Some(&kind), "{call:?}");
        }
        let (mut out, [a, b]) = (Vec::new(), ["/a", "/b"].map(Arc::from));
        set_watches(&mut out, 5, &[Watched::Children(b), Watched::Node(a)]);
        assert_eq!(
            out,
            b"\0\0\0\x28\xff\xff\xff\xf8\0\0\0\x65\0\0\0\0\0\0\0\x05\0\0\0\x01\0\0\0\x02/a\0\0\0\0\0\0\0\x01\0\0\0\x02/b"
        );
        assert_eq!(
            written(&HEARTBEAT, "/", vec![]),
            b"\0\0\0\x23\0\0\0\x07\0\0\0\x0e\0\0\0\x0d\0\xff\xff\xff\xff\0\0\0\x01/\xff\xff\xff\xff\xff\xff\xff\xff\x01\xff\xff\xff\xff"
        );
    }

    #[test]
    fn a_frame_is_taken_when_all_of_it_is_here() {
        let bytes = b"\0\0\0\x02ab\0";
        assert!((0..6).all(|end| first_frame(&bytes[..end]).unwrap().is_none()));
        assert_eq!(first_frame(bytes).unwrap(), Some(4..6));
        for wrong in [b"HTTP".as_slice(), b"\xff\xff\xff\xff"] {
            assert_eq!(first_frame(wrong).unwrap_err().kind(), Kind::Protocol);
        }
    }

    #[test]
    fn what_the_leader_refuses_is_a_transaction_and_what_a_server_refuses_is_none() {
        assert!(Opcode::Delete.is_of_majority(code::NO_NODE) && Opcode::Heartbeat.is_of_majority(0));
        assert!(!Opcode::Delete.is_of_majority(code::SESSION_MOVED) && !Opcode::Heartbeat.is_of_majority(-4));
        assert!(!Opcode::Sync.is_of_majority(0) && !Opcode::Children { watches: true }.is_of_majority(0));
    }
}
