//! A server with sessions, and the directories of one lock: nodes that live as long as the session that made them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockwright_machines::protocol::{Protocol, Reply, Request, StoreEvent};
use lockwright_machines::share::Share;
use lockwright_machines::stores::zookeeper::layouts::line::Line;
use lockwright_machines::stores::zookeeper::layouts::permits::Permits;
use lockwright_machines::stores::zookeeper::layouts::recipe::Recipe;

use crate::setup::Wish;

const DIR: &str = "/lk";
const LEASES: &str = "/lk/leases";
/// How many permits there are.
const PERMITS: u32 = 1;

/// What makes the machine of whoever contends there.
pub fn speaks(wish: Wish) -> fn() -> Box<dyn Protocol> {
    match wish.share() {
        None => || Box::new(Line::new(DIR.into(), Recipe::Mutex)),
        Some(Share::READ) => || Box::new(Line::new(DIR.into(), Recipe::Read)),
        Some(Share::WRITE) => || Box::new(Line::new(DIR.into(), Recipe::Write)),
        Some(_) => || Box::new(Permits::new(DIR.into(), 1, PERMITS)),
    }
}

/// What a fired watch is told as: of a node that it is gone, of leases that there are others.
pub fn told(path: Arc<str>) -> StoreEvent {
    if &*path == LEASES { StoreEvent::Changed { path } } else { StoreEvent::Gone { path } }
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

#[derive(Clone, Debug, Hash)]
pub struct Server {
    /// With the number of the next child.
    dirs: BTreeMap<Arc<str>, u32>,
    nodes: BTreeMap<Arc<str>, Node>,
    watches: BTreeSet<(Arc<str>, usize)>,
    zxid: i64,
}

pub fn error(code: &str) -> Reply {
    Reply::Error { code: code.into(), message: String::new() }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

impl Server {
    pub fn new() -> Self {
        Server { dirs: BTreeMap::new(), nodes: BTreeMap::new(), watches: BTreeSet::new(), zxid: 100 }
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
        let number = |path: &str| path[path.len() - 10..].to_owned();
        let beside = self.nodes.keys().filter(|path| parent(path) == parent(own));
        let before: Vec<_> = beside.filter(|path| number(path) < number(own)).collect();
        match () {
            () if own.contains("__READ__") => !before.iter().any(|path| path.contains("__WRIT__")),
            () if own.contains("lease-") => before.len() < PERMITS as usize,
            () => before.is_empty(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub fn execute(&mut self, who: usize, session: i64, request: &Request) -> (Reply, Vec<Fired>) {
        let path = &request.key;
        let reply = match request.call.name {
            "sync" => Reply::Nil,
            "container" if self.dirs.contains_key(path) => error("NodeExists"),
            "container" => {
                self.dirs.insert(path.clone(), 0);
                Reply::Nil
            }
            "create" if !self.dirs.contains_key(parent(path)) => error("NoNode"),
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
                if self.nodes.contains_key(path) {
                    self.watches.insert((path.clone(), who));
                }
                self.stat(session, path)
            }
            "delete" if self.nodes.contains_key(path) => return (Reply::Nil, self.remove(path)),
            "delete" => error("NoNode"),
            other => panic!("no server has {other}"),
        };
        (reply, Vec::new())
    }

    fn create(&mut self, path: &str, session: i64) -> (Reply, Vec<Fired>) {
        let dir = parent(path);
        let number = self.dirs.get_mut(dir).expect("it is there");
        let fired = fired(&mut self.watches, dir);
        let path = format!("{path}{number:010}");
        *number += 1;
        self.zxid += 1;
        self.nodes.insert(path.as_str().into(), Node { czxid: self.zxid, session });
        let parts = vec![Reply::Int(session), Reply::Text(path), Reply::Int(self.zxid), Reply::Int(session)];
        (Reply::List(parts), fired)
    }

    fn stat(&self, session: i64, path: &str) -> Reply {
        match self.nodes.get(path) {
            Some(node) => Reply::List([session, node.czxid, node.session].map(Reply::Int).into()),
            None => error("NoNode"),
        }
    }

    fn remove(&mut self, path: &Arc<str>) -> Vec<Fired> {
        self.nodes.remove(path);
        let of_node = fired(&mut self.watches, path);
        of_node.into_iter().chain(fired(&mut self.watches, parent(path))).collect()
    }

    /// A session is not heard of for too long.
    pub fn end(&mut self, session: i64) -> Vec<Fired> {
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
