//! A server with sessions, and the directory of one lock: nodes that live as long as the session that made them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockwright_machines::protocol::{Protocol, Reply, Request, StoreEvent};
use lockwright_machines::stores::zookeeper::layouts::curator::Curator;

use crate::setup::Wish;

const DIR: &str = "/lk";

/// What makes the machine of whoever contends there.
pub fn speaks(wish: Wish) -> fn() -> Box<dyn Protocol> {
    assert!(wish.share().is_none(), "there are locks only");
    || Box::new(Curator::new(DIR.into()))
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

/// Whose watch was fired, and the node that is gone.
pub type Fired = (usize, Arc<str>);

#[derive(Clone, Debug, Hash)]
pub struct Server {
    has_dir: bool,
    nodes: BTreeMap<Arc<str>, Node>,
    watches: BTreeSet<(Arc<str>, usize)>,
    sequence: u32,
    zxid: i64,
}

pub fn error(code: &str) -> Reply {
    Reply::Error { code: code.into(), message: String::new() }
}

impl Server {
    pub fn new() -> Self {
        Server { has_dir: false, nodes: BTreeMap::new(), watches: BTreeSet::new(), sequence: 0, zxid: 100 }
    }

    /// A request as it leaves: here as it is.
    pub fn stamped(&self, _session: i64, request: Request) -> Request {
        request
    }

    /// Whoever stands first has the lock.
    pub fn holders(&self) -> Vec<Node> {
        let sequence = |path: &str| path.rsplit('-').next().map(str::to_owned);
        self.nodes.iter().min_by_key(|(path, _)| sequence(path)).map(|(_, node)| *node).into_iter().collect()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub fn execute(&mut self, who: usize, session: i64, request: &Request) -> (Reply, Vec<Fired>) {
        let path = &request.key;
        let reply = match request.call.name {
            "sync" => Reply::Nil,
            "container" if std::mem::replace(&mut self.has_dir, true) => error("NodeExists"),
            "container" => Reply::Nil,
            "create" | "children" if !self.has_dir => error("NoNode"),
            "create" => self.create(path, session),
            "children" => {
                let names = self.nodes.keys().filter_map(|path| path.strip_prefix(DIR)?.strip_prefix('/'));
                let names = names.map(|name| Reply::Text(name.into()));
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

    fn create(&mut self, path: &str, session: i64) -> Reply {
        let path = format!("{path}{:010}", self.sequence);
        self.sequence += 1;
        self.zxid += 1;
        self.nodes.insert(path.as_str().into(), Node { czxid: self.zxid, session });
        Reply::List(vec![Reply::Int(session), Reply::Text(path), Reply::Int(self.zxid), Reply::Int(session)])
    }

    fn stat(&self, session: i64, path: &str) -> Reply {
        match self.nodes.get(path) {
            Some(node) => Reply::List([session, node.czxid, node.session].map(Reply::Int).into()),
            None => error("NoNode"),
        }
    }

    fn remove(&mut self, path: &Arc<str>) -> Vec<Fired> {
        self.nodes.remove(path);
        let fired: Vec<_> = self.watches.extract_if(.., |(watched, _)| watched == path).collect();
        fired.into_iter().map(|(path, who)| (who, path)).collect()
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
