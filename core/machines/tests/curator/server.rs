//! A server with sessions, and the directories of one lock: nodes that live as long as the session that made them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockwright_machines::barrier_cell::Passage;
use lockwright_machines::protocol::{Arg, Protocol, Reply, Request, StoreEvent};
use lockwright_machines::share::Share;
use lockwright_machines::stores::zookeeper::layouts::barrier::Barrier;
use lockwright_machines::stores::zookeeper::layouts::kazoo_permits::KazooPermits;
use lockwright_machines::stores::zookeeper::layouts::latch::Latch;
use lockwright_machines::stores::zookeeper::layouts::line::Line;
use lockwright_machines::stores::zookeeper::layouts::permits::Permits;
use lockwright_machines::stores::zookeeper::layouts::recipe::{Recipe, beside};
use lockwright_machines::stores::zookeeper::layouts::{Change, changes};

use crate::setup::{COUNT, LATCH, PARTIES, Wish};

const DIR: &str = "/lk";
const LATCH_DIR: &str = "/lk/latch";
const LEASES: &str = "/lk/leases";
/// How many permits there are.
const PERMITS: u32 = 1;

/// What makes the machine of whoever contends there.
pub fn speaks(wish: Wish) -> fn() -> Box<dyn Protocol> {
    match wish.share() {
        None if wish.is_of_gate() && !wish.meets() => || Box::new(Latch::new(DIR.into(), LATCH)),
        None if wish.meets() => || Box::new(Barrier::new(DIR.into(), PARTIES)),
        None if wish.is_kazoos() => || Box::new(KazooPermits::new(DIR.into(), 1, PERMITS)),
        None => || Box::new(Line::new(DIR.into(), Recipe::Mutex)),
        Some(Share::READ) => || Box::new(Line::new(DIR.into(), Recipe::Read)),
        Some(Share::WRITE) => || Box::new(Line::new(DIR.into(), Recipe::Write)),
        Some(_) => || Box::new(Permits::new(DIR.into(), 1, PERMITS)),
    }
}

/// What a fired watch is told as: of a node that it is gone, of permits that there are others.
pub fn told(path: Arc<str>) -> StoreEvent {
    if [LEASES, DIR].contains(&&*path) { StoreEvent::Changed { path } } else { StoreEvent::Gone { path } }
}

/// Whether what is lost with a connection may be executed all the same, later: a session goes on with its requests in
/// their order, or not at all.
pub const LATE: bool = false;

/// How a machine is told that events may have been missed, if not by a look at all that it has.
pub fn missed() -> Option<StoreEvent> {
    None
}

/// Who made a node, and when in the order of all that the server did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    pub czxid: i64,
    pub session: i64,
}

/// Whose watch was fired, and of what.
pub type Fired = (usize, Arc<str>);

#[derive(Clone, Debug, Default, Hash)]
pub struct Server {
    /// With the number of the next child.
    dirs: BTreeMap<Arc<str>, u32>,
    nodes: BTreeMap<Arc<str>, Node>,
    /// What was written to nodes and directories, how often, and by which transaction last.
    written: BTreeMap<Arc<str>, (Arc<str>, i64, i64)>,
    /// Who passed the barrier, as they are told.
    passages: BTreeSet<u64>,
    /// Those of kazoo's permits that were made by whoever was first in the line beside them.
    permits: BTreeSet<i64>,
    watches: BTreeSet<(Arc<str>, usize)>,
    zxid: i64,
    /// Whether what makes no node of a contender's counts as a transaction, too: it tells one directory from another of
    /// the same name, and else only makes states differ.
    counts_all: bool,
}

pub fn error(code: &str) -> Reply {
    Reply::Error { code: code.into(), message: String::new() }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

impl Server {
    pub fn new() -> Self {
        Server { zxid: 100, ..Server::default() }
    }

    /// A request as it leaves: here as it is.
    pub fn stamped(&self, _session: i64, request: Request) -> Request {
        request
    }

    /// Whether whoever has this session and token holds what it made: the first node, a reader's that has no writer
    /// before it, or one of the first leases.
    pub fn holds(&self, session: i64, token: i64) -> bool {
        let node = Node { czxid: token, session };
        let Some((own, _)) = self.nodes.iter().find(|(_, known)| **known == node) else { return false };
        if parent(own) == DIR && own.len() == DIR.len() + 33 {
            // kazoo's permits have no order: all there are have to be few enough. Whoever lost its place in the line
            // before it made one finds out, and takes that away.
            let is_one = |path: &str, node: &Node| parent(path) == DIR && self.permits.contains(&node.czxid);
            let there = self.nodes.iter().filter(|(path, node)| is_one(path, node)).count();
            return is_one(own, &node) && there <= PERMITS as usize;
        }
        let number = |path: &str| path[path.len() - 10..].to_owned();
        let beside = self.nodes.keys().filter(|path| parent(path) == parent(own));
        let before: Vec<_> = beside.filter(|path| number(path) < number(own)).collect();
        match () {
            () if own.contains("__READ__") => !before.iter().any(|path| path.contains("__WRIT__")),
            () if own.contains("lease-") => before.len() < PERMITS as usize,
            () => before.is_empty(),
        }
    }

    /// Whether this session is first in the line beside the directory of a permit of kazoo's.
    fn is_first_beside(&self, path: &str, session: i64) -> bool {
        let line = beside(parent(path));
        let waiting = self.nodes.iter().filter(|(node, _)| parent(node) == &*line);
        waiting
            .min_by_key(|(node, _)| node[node.len() - 10..].to_owned())
            .is_some_and(|(_, node)| node.session == session)
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether the lock's directory is there, and nothing in it.
    pub fn has_empty_directory(&self) -> bool {
        let below = self.nodes.keys().chain(self.dirs.keys()).filter(|path| parent(path) == DIR);
        self.dirs.contains_key(DIR) && below.count() == 0
    }

    /// Its directory may be removed.
    pub fn may_be_cleared(&mut self) {
        self.counts_all = true;
    }

    fn wrote(&mut self) {
        self.zxid += i64::from(self.counts_all);
    }

    /// It is removed, as containers are that nobody uses.
    pub fn clear(&mut self) {
        self.wrote();
        self.dirs.remove(DIR);
    }

    pub fn execute(&mut self, who: usize, session: i64, request: &Request) -> (Reply, Vec<Fired>) {
        let path = &request.key;
        let reply = match request.call.name {
            "sync" => Reply::Nil,
            "container" if self.dirs.contains_key(path) => error("NodeExists"),
            "container" => {
                self.wrote();
                self.dirs.insert(path.clone(), 0);
                Reply::Nil
            }
            "persistent" if self.dirs.contains_key(path) => error("NodeExists"),
            "persistent" => {
                self.dirs.insert(path.clone(), 0);
                self.zxid += 1;
                Reply::List(vec![
                    Reply::Int(session),
                    Reply::Text(path.to_string()),
                    Reply::Int(self.zxid),
                    Reply::Int(0),
                ])
            }
            "ephemeral" | "create" if !self.dirs.contains_key(parent(path)) => error("NoNode"),
            "ephemeral" if self.nodes.contains_key(path) => error("NodeExists"),
            "ephemeral" => {
                let is_first = self.is_first_beside(path, session);
                let made = self.make(path.clone(), session);
                self.permits.extend(is_first.then_some(self.zxid));
                return made;
            }
            "get" => match self.there(path) {
                Some(Node { czxid, session: owner }) => {
                    let data = self.written.get(path).map_or_else(String::new, |(data, ..)| data.to_string());
                    let [session, czxid, owner] = [session, czxid, owner].map(Reply::Int);
                    Reply::List(vec![session, czxid, owner, Reply::Text(data)])
                }
                None => error("NoNode"),
            },
            "create" => return self.create(path, session),
            "children" | "watch_children" if !self.dirs.contains_key(path) => error("NoNode"),
            "children" | "watch_children" => {
                if request.call.name == "watch_children" {
                    self.watches.insert((path.clone(), who));
                }
                let below = self.nodes.keys().chain(self.dirs.keys()).filter(|node| parent(node) == &**path);
                let names = below.map(|node| Reply::Text(node[path.len() + 1..].into()));
                Reply::List([Reply::Int(session)].into_iter().chain(names).collect())
            }
            "exists" => self.stat(session, path),
            "watch" => {
                if self.there(path).is_some() {
                    self.watches.insert((path.clone(), who));
                }
                self.stat(session, path)
            }
            "read" if self.there(path).is_some() => {
                let Node { czxid, session: owner } = self.there(path).expect("it is there");
                let (data, version, mzxid) = self.written.get(path).cloned().unwrap_or(("".into(), 0, czxid));
                let [session, czxid, owner, version, mzxid, mtime] =
                    [session, czxid, owner, version, mzxid, 0].map(Reply::Int);
                Reply::List(vec![session, czxid, owner, Reply::Text(data.to_string()), version, mzxid, mtime])
            }
            // Only the clock of a latch is written so, and nobody minds what it says: time stands still here.
            "set" if self.there(path).is_some() => Reply::Nil,
            "set" => error("NoNode"),
            "read" => error("NoNode"),
            "multi" => return self.together(&changes(&request.args).expect("changes")),
            "delete" if self.version(path) > 0 && request.args == [Arg::Int(0)] => error("BadVersion"),
            "delete" if self.nodes.contains_key(path) => {
                self.wrote();
                return (Reply::Nil, self.remove(path));
            }
            "delete" => error("NoNode"),
            other => panic!("no server has {other}"),
        };
        (reply, Vec::new())
    }

    fn create(&mut self, path: &str, session: i64) -> (Reply, Vec<Fired>) {
        let dir = parent(path);
        let number = self.dirs.get_mut(dir).expect("it is there");
        let path = format!("{path}{number:010}");
        *number += 1;
        self.make(path.into(), session)
    }

    fn make(&mut self, path: Arc<str>, session: i64) -> (Reply, Vec<Fired>) {
        let fired = fired(&mut self.watches, parent(&path));
        self.zxid += 1;
        self.nodes.insert(path.clone(), Node { czxid: self.zxid, session });
        let parts =
            vec![Reply::Int(session), Reply::Text(path.to_string()), Reply::Int(self.zxid), Reply::Int(session)];
        (Reply::List(parts), fired)
    }

    fn version(&self, path: &str) -> i64 {
        self.written.get(path).map_or(0, |(_, version, _)| *version)
    }

    /// All of these, or none.
    fn together(&mut self, changes: &[Change]) -> (Reply, Vec<Fired>) {
        for change in changes {
            let refused = match change {
                Change::Set(path, _, version) => match self.there(path) {
                    Some(_) if self.version(path) == *version => None,
                    Some(_) => Some("BadVersion"),
                    None => Some("NoNode"),
                },
                Change::Make(path, _) => self.there(path).map(|_| "NodeExists"),
                Change::Remove(path) => self.there(path).is_none().then_some("NoNode"),
            };
            if let Some(refused) = refused {
                return (error(refused), Vec::new());
            }
        }
        self.zxid += 1;
        let mut told = Vec::new();
        let mut pass = 0;
        for change in changes {
            match change {
                Change::Set(path, data, _) => {
                    if let Some(index) = data.strip_prefix("passed ") {
                        pass += 1;
                        let passage = Passage::new(index.parse().expect("a number"), self.zxid).expect("in range");
                        self.passages.insert(passage.token().n);
                    }
                    self.write(path, data);
                    told.extend(fired(&mut self.watches, path));
                }
                Change::Make(path, data) => {
                    self.dirs.insert(path.clone(), 0);
                    self.written.insert(path.clone(), (data.clone(), 0, self.zxid));
                }
                Change::Remove(path) => {
                    self.dirs.remove(path);
                    told.extend(self.remove(path));
                }
            }
        }
        assert!(pass == 0 || pass == 2, "all pass whom it takes");
        (Reply::Nil, told)
    }

    fn write(&mut self, path: &Arc<str>, data: &Arc<str>) {
        let version = self.version(path) + 1;
        self.written.insert(path.clone(), (data.clone(), version, self.zxid));
    }

    /// The node, or directory, of that name.
    fn there(&self, path: &str) -> Option<Node> {
        let of_dir = || self.dirs.contains_key(path).then_some(Node { czxid: 1, session: 0 });
        self.nodes.get(path).copied().or_else(of_dir)
    }

    /// The count of the latch; none where there is none.
    pub fn count(&self) -> Option<u32> {
        self.written.get(LATCH_DIR).and_then(|(data, ..)| data.split(' ').next()?.parse().ok())
    }

    pub fn is_open(&self) -> bool {
        self.count() == Some(0)
    }

    /// Whether what shuts the latch is there.
    pub fn is_shut(&self) -> bool {
        self.dirs.contains_key(&*format!("{LATCH_DIR}/shut"))
    }

    /// There is a latch, of which nobody counted.
    pub fn make_latch(&mut self) {
        let below = ["/clock", "/shut"].map(|below| format!("{LATCH_DIR}{below}").into());
        self.dirs.extend([DIR.into(), LATCH_DIR.into()].into_iter().chain(below).map(|path| (path, 0)));
        self.written.insert(LATCH_DIR.into(), (format!("{COUNT} 60").into(), 0, self.zxid));
    }

    /// Somebody else counts it down, as this library does.
    pub fn count_down(&mut self) -> Vec<Fired> {
        let (latch, shut): (Arc<str>, Arc<str>) = (LATCH_DIR.into(), format!("{LATCH_DIR}/shut").into());
        if self.count().is_none() {
            self.make_latch();
        }
        let left = self.count().unwrap_or(COUNT) - 1;
        self.zxid += 1;
        self.write(&latch, &format!("{left} 60").into());
        if left > 0 {
            return Vec::new();
        }
        self.dirs.remove(&shut);
        self.remove(&shut)
    }

    /// Whether somebody passed the barrier so.
    pub fn passed(&self, token: u64) -> bool {
        self.passages.contains(&token)
    }

    /// How many places stand there.
    pub fn stands(&self) -> usize {
        self.nodes.keys().filter(|path| self.version(path) == 0).count()
    }

    fn stat(&self, session: i64, path: &str) -> Reply {
        match self.there(path) {
            Some(node) => Reply::List([session, node.czxid, node.session].map(Reply::Int).into()),
            None => error("NoNode"),
        }
    }

    fn remove(&mut self, path: &Arc<str>) -> Vec<Fired> {
        self.nodes.remove(path);
        self.written.remove(path);
        let of_node = fired(&mut self.watches, path);
        of_node.into_iter().chain(fired(&mut self.watches, parent(path))).collect()
    }

    /// A session is not heard of for too long.
    pub fn end(&mut self, session: i64) -> Vec<Fired> {
        self.wrote();
        let nodes = self.nodes.iter().filter(|(_, node)| node.session == session);
        let gone: Vec<_> = nodes.map(|(path, _)| path.clone()).collect();
        gone.iter().flat_map(|path| self.remove(path)).collect()
    }

    /// Watches go with the connection.
    pub fn disconnect(&mut self, who: usize) {
        self.watches.retain(|(_, watcher)| *watcher != who);
    }
}

fn fired(watches: &mut BTreeSet<(Arc<str>, usize)>, path: &str) -> Vec<Fired> {
    let fired: Vec<_> = watches.extract_if(.., |(watched, _)| &**watched == path).collect();
    fired.into_iter().map(|(path, who)| (who, path)).collect()
}
