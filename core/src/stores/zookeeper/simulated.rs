//! An ensemble on the simulated network, as ZooKeeper's are: a leader that orders what changes anything, and servers
//! that have it some time later, each with its own clients. Sessions are the leader's, who hears from the servers now
//! and then of whom they heard; they end, go on at other servers, and are kept by whoever leads next. Servers are
//! restarted with what they have.
//!
//! Sources: the pages and the code of ZooKeeper 3.8 (`PrepRequestProcessor`, `CommitProcessor`, `SessionTrackerImpl`,
//! `LearnerHandler`, `DataTree`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::wire::{self, Jute, Reader, code};
use crate::error::Result;
use crate::platform::clock;
use crate::platform::mutex::locked;
use crate::platform::simulated::network::{At, Network};
use crate::platform::simulated::sockets::{Connection, Host, Sockets, host};
use crate::time::Time;

/// So many servers have clients.
const MEMBERS: usize = 3;
/// The servers' `tickTime`.
pub(crate) const TICK: Duration = Duration::from_millis(200);
/// How often the leader looks for sessions that are over.
const LOOKS: Duration = Duration::from_millis(50);
/// How often it looks for containers that nobody needs.
const SWEEPS: Duration = Duration::from_secs(1);

const BAD_VERSION: i32 = -103;
const NOT_EMPTY: i32 = -111;
const DELETED: i32 = 2;
const CHANGED: i32 = 3;
const CHILDREN: i32 = 4;

/// See the [module](self).
pub(crate) struct Ensemble {
    pub(crate) sockets: Arc<Sockets>,
    network: Arc<Network>,
    state: Mutex<State>,
}

struct State {
    /// As it is after all that was ordered.
    tree: Tree,
    zxid: i64,
    /// When all is committed that was ordered.
    committed: Time,
    sessions: BTreeMap<i64, Session>,
    members: [Member; MEMBERS],
    talks: BTreeMap<Connection, Talk>,
    numbers: u64,
}

/// A session, as the leader knows it.
struct Session {
    password: Vec<u8>,
    timeout: Duration,
    ends: Time,
    /// The server that it goes on at.
    member: usize,
}

struct Member {
    tree: Tree,
    /// The last transaction that it has.
    zxid: i64,
    /// Counts its restarts, and those who led.
    run: u64,
    /// When the last of what was said to the leader, and by it, arrives.
    last: [Time; 2],
    /// Whose clients were heard of since the leader was told.
    touched: BTreeSet<i64>,
    /// What its clients had it ask the leader to change, in this order.
    writes: VecDeque<(i64, Place)>,
    /// By event, the paths that are watched and by whom.
    watches: BTreeMap<(Watch, String), BTreeSet<Connection>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Watch {
    Data,
    Children,
}

/// A connection to a server.
struct Talk {
    member: usize,
    come: Vec<u8>,
    /// None before it was greeted.
    session: Option<i64>,
    /// What was asked, in this order, and is not answered.
    asked: VecDeque<Asked>,
}

struct Asked {
    number: u64,
    xid: i32,
    what: What,
}

/// Where something was asked, and under which number.
#[derive(Clone, Copy)]
struct Place {
    member: usize,
    connection: Connection,
    number: u64,
    xid: i32,
}

enum What {
    Read(Read),
    /// The leader was asked.
    Waits,
    Answered(Answer),
    /// That the session is over.
    Closed,
}

/// An error, or what answers.
type Answer = std::result::Result<Vec<u8>, i32>;

enum Read {
    Ping,
    Exists(String),
    Data(String, bool),
    Names { path: String, watches: bool, has_stat: bool },
    Watches { seen: i64, data: Vec<String>, children: Vec<String> },
}

#[derive(Clone)]
enum Write {
    Make { path: String, data: Vec<u8>, kind: i32 },
    Set { path: String, data: Vec<u8>, version: i32 },
    Delete { path: String, version: i32 },
    Check { path: String, version: i32 },
    Together(Vec<Write>),
    End,
}

#[derive(Clone, Default)]
struct Tree(BTreeMap<String, Node>);

#[derive(Clone, Default)]
struct Node {
    data: Vec<u8>,
    czxid: i64,
    mzxid: i64,
    pzxid: i64,
    mtime: i64,
    version: i32,
    /// How many children it ever had.
    made: i32,
    owner: i64,
    is_container: bool,
}

/// When something was done, and in which session.
#[derive(Clone, Copy)]
struct Transaction {
    zxid: i64,
    millis: i64,
    session: i64,
    /// Of the request, where somebody asked for it.
    xid: Option<i32>,
}

type Fired = Vec<(i32, String)>;

fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

impl Tree {
    fn names(&self, path: &str) -> Vec<String> {
        let prefix = if path == "/" { "/".to_owned() } else { format!("{path}/") };
        let below = self.0.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        let names = below.map(|(path, _)| path[prefix.len()..].to_owned());
        names.filter(|name| !name.is_empty() && !name.contains('/')).collect()
    }

    fn stat(&self, path: &str) -> Vec<u8> {
        let node = &self.0[path];
        let mut out = Vec::new();
        for number in [node.czxid, node.mzxid, node.mtime, node.mtime] {
            out.long(number);
        }
        [node.version, node.made, 0].iter().for_each(|number| out.int(*number));
        out.long(node.owner);
        out.int(node.data.len() as i32);
        out.int(self.names(path).len() as i32);
        out.long(node.pzxid);
        out
    }

    fn has(&self, path: &str, version: i32) -> std::result::Result<(), i32> {
        match self.0.get(path) {
            None => Err(code::NO_NODE),
            Some(node) if version != -1 && version != node.version => Err(BAD_VERSION),
            Some(_) => Ok(()),
        }
    }

    fn remove(&mut self, path: &str, zxid: i64, fired: &mut Fired) {
        self.0.remove(path);
        if let Some(above) = self.0.get_mut(parent(path)) {
            above.pzxid = zxid;
        }
        fired.extend([(DELETED, path.to_owned()), (CHILDREN, parent(path).to_owned())]);
    }

    /// Does it, or says why not; the same at whichever server.
    fn perform(&mut self, write: &Write, by: Transaction, fired: &mut Fired) -> Answer {
        match write {
            Write::Make { path, data, kind } => self.make(path, data, *kind, by, fired),
            Write::Set { path, data, version } => {
                self.has(path, *version)?;
                let node = self.0.get_mut(path).expect("it is there");
                (node.data, node.version) = (data.clone(), node.version + 1);
                (node.mzxid, node.mtime) = (by.zxid, by.millis);
                fired.push((CHANGED, path.clone()));
                Ok(self.stat(path))
            }
            Write::Delete { path, version } => {
                self.has(path, *version)?;
                if !self.names(path).is_empty() {
                    return Err(NOT_EMPTY);
                }
                self.remove(path, by.zxid, fired);
                Ok(Vec::new())
            }
            Write::Check { path, version } => self.has(path, *version).map(|()| Vec::new()),
            Write::Together(parts) => Ok(self.together(parts, by, fired)),
            Write::End => {
                let own: Vec<_> = self.0.iter().filter(|(_, node)| node.owner == by.session).collect();
                let paths: Vec<_> = own.into_iter().map(|(path, _)| path.clone()).collect();
                paths.iter().for_each(|path| self.remove(path, by.zxid, fired));
                Ok(Vec::new())
            }
        }
    }

    fn make(&mut self, path: &str, data: &[u8], kind: i32, by: Transaction, fired: &mut Fired) -> Answer {
        let (is_ephemeral, is_numbered, is_container) = (matches!(kind, 1 | 3), kind == 3, kind == 4);
        let above = self.0.get_mut(parent(path)).ok_or(code::NO_NODE)?;
        let path = if is_numbered { format!("{path}{:010}", above.made) } else { path.to_owned() };
        if self.0.contains_key(&path) {
            return Err(code::NODE_EXISTS);
        }
        let above = self.0.get_mut(parent(&path)).expect("it is there");
        (above.made, above.pzxid) = (above.made + 1, by.zxid);
        let (czxid, mtime) = (by.zxid, by.millis);
        let owner = if is_ephemeral { by.session } else { 0 };
        let (mzxid, pzxid, data) = (czxid, czxid, data.to_vec());
        let node = Node { data, czxid, mzxid, pzxid, mtime, owner, is_container, ..Node::default() };
        self.0.insert(path.clone(), node);
        fired.push((CHILDREN, parent(&path).to_owned()));
        let mut out = Vec::new();
        out.text(&path);
        out.extend(self.stat(&path));
        Ok(out)
    }

    /// All of it, or nothing; which of it was refused.
    fn together(&mut self, parts: &[Write], by: Transaction, fired: &mut Fired) -> Vec<u8> {
        let (mut done, mut told, mut out) = (self.clone(), Fired::new(), Vec::new());
        let head = |out: &mut Vec<u8>, kind: i32, is_end: bool, error: i32| {
            out.int(kind);
            out.flag(is_end);
            out.int(error);
        };
        let performed: Vec<_> = parts.iter().map(|part| done.perform(part, by, &mut told)).collect();
        let refused = performed.iter().position(std::result::Result::is_err);
        for (at, (part, answer)) in parts.iter().zip(performed).enumerate() {
            match (refused, answer) {
                (None, Ok(body)) => {
                    head(&mut out, part.kind(), false, 0);
                    match part {
                        // Not with the stat, as it was asked for by the older word.
                        Write::Make { path, .. } => out.text(path),
                        _ => out.extend(body),
                    }
                }
                (Some(refused), answer) => {
                    let error = match answer {
                        Err(error) if at == refused => error,
                        _ if at < refused => 0,
                        _ => -2,
                    };
                    head(&mut out, -1, false, error);
                    out.int(error);
                }
                (None, Err(_)) => unreachable!("none was refused"),
            }
        }
        head(&mut out, -1, true, -1);
        if refused.is_none() {
            *self = done;
            fired.extend(told);
        }
        out
    }

    fn read(&self, read: &Read) -> Answer {
        match read {
            Read::Ping | Read::Watches { .. } => Ok(Vec::new()),
            Read::Exists(path) => self.has(path, -1).map(|()| self.stat(path)),
            Read::Data(path, _) => {
                let node = self.0.get(path).ok_or(code::NO_NODE)?;
                let mut out = Vec::new();
                out.buffer(&node.data);
                out.extend(self.stat(path));
                Ok(out)
            }
            Read::Names { path, has_stat, .. } => {
                self.has(path, -1)?;
                let (names, mut out) = (self.names(path), Vec::new());
                out.int(names.len() as i32);
                names.iter().for_each(|name| out.text(name));
                if *has_stat {
                    out.extend(self.stat(path));
                }
                Ok(out)
            }
        }
    }
}

impl Write {
    fn kind(&self) -> i32 {
        match self {
            Write::Make { .. } => 1,
            Write::Delete { .. } => 2,
            Write::Set { .. } => 5,
            Write::Check { .. } => 13,
            Write::Together(_) => 14,
            Write::End => -11,
        }
    }

    fn parsed(kind: i32, from: &mut Reader<'_>) -> Result<Self> {
        Ok(match kind {
            1 | 15 | 19 => {
                let (path, data) = (from.text()?, from.buffer()?.to_vec());
                for _ in 0..from.int()? {
                    let _ = (from.int()?, from.text()?, from.text()?);
                }
                Write::Make { path, data, kind: from.int()? }
            }
            2 => Write::Delete { path: from.text()?, version: from.int()? },
            5 => Write::Set { path: from.text()?, data: from.buffer()?.to_vec(), version: from.int()? },
            13 => Write::Check { path: from.text()?, version: from.int()? },
            14 => {
                let mut parts = Vec::new();
                loop {
                    let (kind, is_end, _) = (from.int()?, from.flag(), from.int()?);
                    if is_end {
                        break Write::Together(parts);
                    }
                    parts.push(Write::parsed(kind, from)?);
                }
            }
            -11 => Write::End,
            other => panic!("no server here knows the word {other}"),
        })
    }
}

impl Read {
    /// What is answered by the server itself.
    fn parsed(kind: i32, from: &mut Reader<'_>) -> Result<Option<Self>> {
        let texts = |from: &mut Reader<'_>| (0..from.int()?).map(|_| from.text()).collect::<Result<Vec<_>>>();
        Ok(Some(match kind {
            11 => Read::Ping,
            3 => Read::Exists(from.text()?),
            4 => Read::Data(from.text()?, from.flag()),
            8 | 12 => Read::Names { path: from.text()?, watches: from.flag(), has_stat: kind == 12 },
            101 => {
                let (seen, data) = (from.long()?, texts(from)?);
                assert!(texts(from)?.is_empty(), "nobody watches what is not there");
                Read::Watches { seen, data, children: texts(from)? }
            }
            _ => return Ok(None),
        }))
    }
}

/// A frame of what `body` writes.
fn framed(body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = vec![0; 4];
    body(&mut out);
    let length = (out.len() - 4) as i32;
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

fn answer(xid: i32, zxid: i64, answer: &Answer) -> Vec<u8> {
    framed(|out| {
        out.int(xid);
        out.long(zxid);
        out.int(answer.as_ref().err().copied().unwrap_or_default());
        out.extend(answer.as_deref().unwrap_or_default());
    })
}

fn news((kind, path): &(i32, String)) -> Vec<u8> {
    framed(|out| {
        out.int(wire::NOTIFICATION);
        out.long(-1);
        [0, *kind, 3].iter().for_each(|number| out.int(*number));
        out.text(path);
    })
}

/// What is said on which connection, and which end behind that.
#[derive(Default)]
struct Said {
    bytes: Vec<(Connection, Vec<u8>)>,
    ended: Vec<Connection>,
}

impl Member {
    fn watch(&mut self, what: Watch, path: &str, by: Connection) {
        self.watches.entry((what, path.to_owned())).or_default().insert(by);
    }

    /// Tells who watches what was done.
    fn fire(&mut self, fired: &Fired, said: &mut Said) {
        for event in fired {
            let kinds: &[_] = match event.0 {
                DELETED => &[Watch::Data, Watch::Children],
                CHANGED => &[Watch::Data],
                _ => &[Watch::Children],
            };
            let watched = kinds.iter().filter_map(|kind| self.watches.remove(&(*kind, event.1.clone())));
            let told: BTreeSet<_> = watched.flatten().collect();
            said.bytes.extend(told.into_iter().map(|by| (by, news(event))));
        }
    }

    /// Answers from what it has.
    fn read(&mut self, by: Connection, read: &Read, said: &mut Said) -> Answer {
        let answer = self.tree.read(read);
        match read {
            Read::Data(path, true) if answer.is_ok() => self.watch(Watch::Data, path, by),
            Read::Names { path, watches: true, .. } if answer.is_ok() => self.watch(Watch::Children, path, by),
            Read::Watches { seen, data, children } => {
                let paths = |of, paths: &[String]| paths.iter().map(move |path| (of, path.clone())).collect::<Vec<_>>();
                let all = [paths(Watch::Data, data), paths(Watch::Children, children)].concat();
                for (of, path) in all {
                    let event = match (self.tree.0.get(&path), of) {
                        (None, _) => DELETED,
                        (Some(node), Watch::Data) if node.mzxid > *seen => CHANGED,
                        (Some(node), Watch::Children) if node.pzxid > *seen => CHILDREN,
                        _ => {
                            self.watch(of, &path, by);
                            continue;
                        }
                    };
                    said.bytes.push((by, news(&(event, path))));
                }
            }
            _ => {}
        }
        answer
    }

    fn forget(&mut self, connection: Connection) {
        self.watches.values_mut().for_each(|by| {
            by.remove(&connection);
        });
    }
}

impl State {
    /// Answers what is at the front of what was asked on a connection, as far as it can be.
    fn answer(&mut self, connection: Connection, said: &mut Said) {
        let Some(talk) = self.talks.get_mut(&connection) else { return };
        let member = &mut self.members[talk.member];
        while let Some(Asked { xid, what, .. }) = talk.asked.front() {
            let found = match what {
                What::Waits => return,
                What::Read(read) => member.read(connection, read, said),
                What::Answered(answer) => answer.clone(),
                What::Closed => Ok(Vec::new()),
            };
            let is_moved = matches!(found, Err(code::SESSION_MOVED));
            let is_over = matches!(what, What::Closed);
            if !is_moved {
                said.bytes.push((connection, answer(*xid, member.zxid, &found)));
            }
            talk.asked.pop_front();
            if is_moved || is_over {
                said.ended.push(connection);
                return;
            }
        }
    }

    /// The answer to what was asked under this number is there.
    fn tell(&mut self, connection: Connection, number: u64, what: What, said: &mut Said) {
        let Some(talk) = self.talks.get_mut(&connection) else { return };
        if let Some(asked) = talk.asked.iter_mut().find(|asked| asked.number == number) {
            asked.what = what;
            self.answer(connection, said);
        }
    }
}

impl Ensemble {
    /// One on this network.
    pub(crate) fn new(network: &Arc<Network>) -> Arc<Self> {
        let tree = Tree(BTreeMap::from([("/".to_owned(), Node::default())]));
        let members = [(); MEMBERS].map(|()| Member {
            tree: tree.clone(),
            zxid: 0,
            run: 0,
            last: [Time::ZERO; 2],
            touched: BTreeSet::new(),
            writes: VecDeque::new(),
            watches: BTreeMap::new(),
        });
        let (sessions, talks) = (BTreeMap::new(), BTreeMap::new());
        Arc::new_cyclic(|me| Ensemble {
            sockets: Sockets::new(network, me.clone()),
            network: network.clone(),
            state: Mutex::new(State { tree, zxid: 1, committed: Time::ZERO, sessions, members, talks, numbers: 0 }),
        })
    }

    /// Begins to do what it does by itself.
    pub(crate) fn begin(self: &Arc<Self>) {
        self.clone().every(TICK / 2, Self::tell_of_sessions);
        self.clone().every(LOOKS, Self::end_sessions);
        self.clone().every(SWEEPS, Self::sweep);
    }

    /// Where clients find it, whose locks last for so long.
    pub(crate) fn address(ttl: Duration) -> String {
        let hosts: Vec<_> = (0..MEMBERS).map(host).collect();
        format!("zookeeper://{}/?ttl={}ms&tick={}ms", hosts.join(","), ttl.as_millis(), TICK.as_millis())
    }

    fn every(self: Arc<Self>, span: Duration, does: fn(&Arc<Self>)) {
        let network = self.network.clone();
        let again = move || {
            does(&self);
            self.every(span, does);
        };
        network.after(span, At::Server, again);
    }

    fn say(&self, said: Said) {
        let sockets = &self.sockets;
        said.bytes.into_iter().for_each(|(connection, bytes)| sockets.send(connection, bytes));
        for connection in said.ended {
            self.forget(connection);
            sockets.close(connection);
        }
    }

    fn forget(&self, connection: Connection) {
        let mut state = locked(&self.state);
        if let Some(talk) = state.talks.remove(&connection) {
            state.members[talk.member].forget(connection);
        }
    }

    /// What is said between a server and the leader comes to pass behind all that was said before, unless either of
    /// them was restarted.
    fn between(self: &Arc<Self>, member: usize, to: usize, event: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let delay = self.network.delay();
        let (due, run) = {
            let mut state = locked(&self.state);
            let member = &mut state.members[member];
            member.last[to] = member.last[to].max(clock::now().after(delay));
            (member.last[to], member.run)
        };
        let ensemble = self.clone();
        let event = move || {
            if locked(&ensemble.state).members[member].run == run {
                event(&ensemble);
            }
        };
        self.network.say(due, At::Server, event);
    }

    fn asks_leader(self: &Arc<Self>, member: usize, event: impl FnOnce(&Arc<Self>) + Send + 'static) {
        self.between(member, 0, event);
    }

    fn leader_says(self: &Arc<Self>, member: usize, event: impl FnOnce(&Arc<Self>) + Send + 'static) {
        self.between(member, 1, event);
    }

    /// The leader orders a change, and all servers make it once it is committed; what became of it is for whoever
    /// asked.
    fn order(self: &Arc<Self>, session: i64, write: Write, asked: Option<Place>) {
        let (by, refused, due) = {
            let mut state = locked(&self.state);
            state.zxid += 1;
            let (millis, xid) = (clock::now().as_nanos() as i64 / 1_000_000, asked.map(|asked| asked.xid));
            let by = Transaction { zxid: state.zxid, millis, session, xid };
            let refused = match (state.sessions.get(&session), asked) {
                (None, Some(_)) => Some(code::SESSION_EXPIRED),
                (Some(known), Some(from)) if from.member != known.member => Some(code::SESSION_MOVED),
                _ => None,
            };
            if refused.is_none() {
                let _ = state.tree.perform(&write, by, &mut Fired::new());
                if matches!(write, Write::End) {
                    state.sessions.remove(&session);
                }
            }
            let takes = if self.network.chance(300) { self.network.delay() } else { Duration::ZERO };
            state.committed = state.committed.max(clock::now().after(takes));
            (by, refused, state.committed)
        };
        let ensemble = self.clone();
        self.network.say(due, At::Server, move || ensemble.commit(&write, by, refused));
    }

    /// The leader tells all servers that a majority has the change.
    fn commit(self: &Arc<Self>, write: &Write, by: Transaction, refused: Option<i32>) {
        if locked(&self.state).zxid >> 32 != by.zxid >> 32 {
            // Whoever leads now has it, and so have all.
            return;
        }
        for member in 0..MEMBERS {
            let write = write.clone();
            self.leader_says(member, move |ensemble| ensemble.make(member, &write, by, refused));
        }
    }

    /// A server makes a change, unless it was restarted with it, tells who watches it, and answers who asked it for
    /// that: what it asked first, if that is of the same session and number.
    fn make(&self, member: usize, write: &Write, by: Transaction, refused: Option<i32>) {
        let mut said = Said::default();
        {
            let mut state = locked(&self.state);
            let made = &mut state.members[member];
            if by.zxid <= made.zxid {
                return;
            }
            made.zxid = by.zxid;
            let is_it = |(session, asked): &&(i64, Place)| *session == by.session && Some(asked.xid) == by.xid;
            let is_its = made.writes.front().filter(is_it).is_some();
            let asked = if is_its { made.writes.pop_front() } else { None };
            let mut fired = Fired::new();
            let answer = refused.map_or_else(|| made.tree.perform(write, by, &mut fired), Err);
            made.fire(&fired, &mut said);
            let is_end = matches!(write, Write::End) && refused.is_none();
            if let Some((_, Place { connection, number, .. })) = asked {
                let what = if is_end { What::Closed } else { What::Answered(answer) };
                state.tell(connection, number, what, &mut said);
            } else if is_end {
                let of = |talk: &Talk| talk.member == member && talk.session == Some(by.session);
                said.ended.extend(state.talks.iter().filter(|(_, talk)| of(talk)).map(|(connection, _)| *connection));
            }
        }
        self.say(said);
    }

    /// What a client says first.
    fn greet(self: &Arc<Self>, connection: Connection, frame: &[u8]) -> Result<()> {
        let mut from = Reader(frame);
        let (_, seen, timeout, id) = (from.int()?, from.long()?, from.int()?, from.long()?);
        let password = from.buffer()?.to_vec();
        let timeout = Duration::from_millis(timeout as u64).clamp(TICK * 2, TICK * 20);
        let (member, is_ahead, others) = {
            let state = locked(&self.state);
            let Some(talk) = state.talks.get(&connection) else { return Ok(()) };
            let is_other = |(other, known): &(&Connection, &Talk)| {
                **other != connection && known.member == talk.member && id != 0 && known.session == Some(id)
            };
            let others: Vec<_> = state.talks.iter().filter(is_other).map(|(other, _)| *other).collect();
            (talk.member, seen > state.members[talk.member].zxid, others)
        };
        if is_ahead {
            self.say(Said { ended: vec![connection], ..Said::default() });
            return Ok(());
        }
        self.say(Said { ended: others, ..Said::default() });
        self.asks_leader(member, move |ensemble| {
            let given = ensemble.session(member, id, password, timeout);
            ensemble.leader_says(member, move |ensemble| ensemble.welcome(connection, given));
        });
        Ok(())
    }

    /// The leader makes a session, or lets one go on at that server: its number and password.
    fn session(
        &self,
        member: usize,
        id: i64,
        password: Vec<u8>,
        timeout: Duration,
    ) -> Option<(i64, Vec<u8>, Duration)> {
        let mut state = locked(&self.state);
        let ends = clock::now().after(timeout);
        if id == 0 {
            state.numbers += 1;
            let (id, password) = (state.numbers as i64, state.numbers.to_be_bytes().repeat(2));
            state.sessions.insert(id, Session { password: password.clone(), timeout, ends, member });
            return Some((id, password, timeout));
        }
        let session = state.sessions.get_mut(&id).filter(|session| session.password == password)?;
        (session.member, session.ends) = (member, clock::now().after(session.timeout));
        Some((id, password, session.timeout))
    }

    fn welcome(&self, connection: Connection, given: Option<(i64, Vec<u8>, Duration)>) {
        let mut said = Said::default();
        {
            let mut state = locked(&self.state);
            let Some(talk) = state.talks.get_mut(&connection) else { return };
            let (id, password, timeout) = given.unwrap_or((0, vec![0; 16], Duration::ZERO));
            talk.session = Some(id);
            let bytes = framed(|out| {
                out.int(0);
                out.int(timeout.as_millis() as i32);
                out.long(id);
                out.buffer(&password);
                out.flag(false);
            });
            said.bytes.push((connection, bytes));
            said.ended.extend((id == 0).then_some(connection));
        }
        self.say(said);
    }

    /// What a client asks.
    fn ask(self: &Arc<Self>, connection: Connection, session: i64, frame: &[u8]) -> Result<()> {
        let mut from = Reader(frame);
        let (xid, kind) = (from.int()?, from.int()?);
        let read = Read::parsed(kind, &mut from)?;
        let write = match (&read, kind) {
            (None, 9) => None,
            (None, kind) => Some(Write::parsed(kind, &mut from)?),
            _ => None,
        };
        let (mut said, is_read) = (Said::default(), read.is_some());
        let place = {
            let mut state = locked(&self.state);
            state.numbers += 1;
            let number = state.numbers;
            let Some(talk) = state.talks.get_mut(&connection) else { return Ok(()) };
            talk.asked.push_back(Asked { number, xid, what: read.map_or(What::Waits, What::Read) });
            let member = talk.member;
            state.members[member].touched.insert(session);
            let place = Place { member, connection, number, xid };
            if write.is_some() {
                state.members[member].writes.push_back((session, place));
            }
            state.answer(connection, &mut said);
            place
        };
        self.say(said);
        match write {
            _ if is_read => {}
            Some(write) => {
                self.asks_leader(place.member, move |ensemble| ensemble.order(session, write, Some(place)));
            }
            None => self.asks_leader(place.member, move |ensemble| ensemble.sync(place)),
        }
        Ok(())
    }

    /// A server has all that was ordered until now when it hears of this.
    fn sync(self: &Arc<Self>, Place { member, connection, number, .. }: Place) {
        let has_all = move |ensemble: &Arc<Self>| {
            let mut said = Said::default();
            let mut body = Vec::new();
            body.text("/");
            locked(&ensemble.state).tell(connection, number, What::Answered(Ok(body)), &mut said);
            ensemble.say(said);
        };
        let due = locked(&self.state).committed.max(clock::now());
        let ensemble = self.clone();
        self.network.say(due, At::Server, move || ensemble.leader_says(member, has_all));
    }

    /// The servers tell the leader of whom they heard.
    fn tell_of_sessions(self: &Arc<Self>) {
        for member in 0..MEMBERS {
            let touched = std::mem::take(&mut locked(&self.state).members[member].touched);
            self.asks_leader(member, move |ensemble| {
                let mut state = locked(&ensemble.state);
                for id in touched {
                    if let Some(session) = state.sessions.get_mut(&id) {
                        session.ends = session.ends.max(clock::now().after(session.timeout));
                    }
                }
            });
        }
    }

    fn end_sessions(self: &Arc<Self>) {
        let now = clock::now();
        let over = |(_, session): &(&i64, &Session)| session.ends <= now;
        let over: Vec<_> = locked(&self.state).sessions.iter().filter(over).map(|(id, _)| *id).collect();
        over.into_iter().for_each(|id| self.order(id, Write::End, None));
    }

    fn sweep(self: &Arc<Self>) {
        let empty: Vec<String> = {
            let State { tree, .. } = &*locked(&self.state);
            let is_empty =
                |(path, node): &(&String, &Node)| node.is_container && node.made > 0 && tree.names(path).is_empty();
            tree.0.iter().filter(is_empty).map(|(path, _)| path.clone()).collect()
        };
        for path in empty {
            if self.network.chance(300) {
                self.order(0, Write::Delete { path, version: -1 }, None);
            }
        }
    }

    /// A server is restarted and has what the leader has; or all have another leader, who keeps each session for as
    /// long again.
    fn restart(self: &Arc<Self>, member: Option<usize>) {
        let sockets = &self.sockets;
        let down = self.network.below(2_000_000_000);
        {
            let mut state = locked(&self.state);
            let State { tree, zxid, members, sessions, talks, .. } = &mut *state;
            if member.is_none() {
                *zxid = ((*zxid >> 32) + 1) << 32;
                let now = clock::now();
                sessions.values_mut().for_each(|session| session.ends = now.after(down).after(session.timeout));
            }
            for (number, known) in members.iter_mut().enumerate() {
                if member.is_some_and(|member| member != number) {
                    continue;
                }
                known.run += 1;
                (known.tree, known.zxid) = (tree.clone(), *zxid);
                known.touched.clear();
                known.writes.clear();
                known.watches.clear();
                talks.retain(|_, talk| talk.member != number);
            }
        }
        for number in (0..MEMBERS).filter(|number| member.is_none_or(|member| member == *number)) {
            sockets.shut_out(number, down);
        }
    }

    /// A server hears nothing of the leader, and the leader nothing of it, for a while.
    fn part(&self, member: usize) {
        let until = clock::now().after(self.network.below(6_000_000_000));
        for last in &mut locked(&self.state).members[member].last {
            *last = until.max(*last);
        }
    }

    /// Something goes wrong: connections break, a server is restarted, cut off from the others or lets nobody in, or
    /// another one leads.
    pub(crate) fn fail(self: &Arc<Self>) {
        let member = self.network.one_of(MEMBERS);
        match self.network.below(12).as_nanos() {
            0 => self.restart(None),
            1 | 2 => self.restart(Some(member)),
            3 => {
                self.sockets.shut_out(member, self.network.below(4_000_000_000));
            }
            4 | 5 => self.part(member),
            _ => self.sockets.cut_one(),
        }
    }
}

impl Host for Ensemble {
    fn opened(&self, connection: Connection, server: usize) {
        let talk = Talk { member: server, come: Vec::new(), session: None, asked: VecDeque::new() };
        locked(&self.state).talks.insert(connection, talk);
    }

    fn came(self: Arc<Self>, connection: Connection, bytes: &[u8]) {
        if let Some(talk) = locked(&self.state).talks.get_mut(&connection) {
            talk.come.extend(bytes);
        }
        loop {
            let (frame, session) = {
                let mut state = locked(&self.state);
                let Some(talk) = state.talks.get_mut(&connection) else { return };
                let Some(range) = wire::first_frame(&talk.come).expect("a frame") else { return };
                let frame = talk.come[range.clone()].to_vec();
                talk.come.drain(..range.end);
                (frame, talk.session)
            };
            match session {
                None => self.greet(connection, &frame).expect("a greeting"),
                Some(session) => self.ask(connection, session, &frame).expect("a request"),
            }
        }
    }

    fn ended(&self, connection: Connection) {
        self.forget(connection);
    }
}
