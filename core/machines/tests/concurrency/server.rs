//! An etcd with leases, and the queue of one lock: keys that live as long as the lease that they were put under, and a
//! fence for each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::barrier_cell::Passage;
use lockwright_machines::lease::Card;
use lockwright_machines::protocol::{Arg, AttemptId, Protocol, Reply, Request, StoreEvent};
use lockwright_machines::share::Share;
use lockwright_machines::stores::etcd::layouts::barrier::Barrier;
use lockwright_machines::stores::etcd::layouts::concurrency::Concurrency;
use lockwright_machines::stores::etcd::layouts::part::Part;
use lockwright_machines::stores::etcd::layouts::seat::Seats;

use crate::setup::{COUNT, LATCH, PARTIES, Wish};

const LOCK: &str = "lk";
/// The lease of the latch, which nothing ends here.
const LATCHES: i64 = 1 << 40;

/// Whoever looks for a seat finds this one, as copies of a process do that had one.
#[derive(Debug)]
struct OneSeat;

impl Seats for OneSeat {
    fn take(&self) -> Option<AttemptId> {
        Some(AttemptId(0x5ea7))
    }

    fn leave(&self, _: AttemptId) {}
}

/// What makes the machine of whoever contends there.
pub fn speaks(wish: Wish) -> fn() -> Box<dyn Protocol> {
    fn of(part: Part) -> Box<dyn Protocol> {
        Box::new(Concurrency::of(LOCK.into(), Duration::from_secs(3), part))
    }
    match wish.share() {
        None if wish.is_of_gate() && !wish.meets() => {
            || Box::new(Concurrency::waiting(LOCK.into(), Duration::from_secs(3), LATCH))
        }
        None if wish.meets() => || Box::new(Barrier::new(LOCK.into(), PARTIES)),
        None if wish.is_copy() => || {
            let seats: Arc<dyn Seats> = Arc::new(OneSeat);
            Box::new(Concurrency::new(LOCK.into(), Duration::from_secs(3)).seated(&seats))
        },
        None => || of(Part::Lock),
        Some(Share::READ) => || of(Part::Read),
        Some(Share::WRITE) => || of(Part::Write),
        Some(Share { units: 1, .. }) => || of(Part::Permits { take: 1, permits: 2 }),
        Some(_) => || of(Part::Permits { take: 2, permits: 2 }),
    }
}

/// What the end of a watched key is told as.
pub fn told(path: Arc<str>) -> StoreEvent {
    StoreEvent::Gone { path }
}

/// Whether what is lost with a connection may be executed all the same, later: a transaction may be on its way between
/// the members.
pub const LATE: bool = true;

/// How a machine is told that events may have been missed.
pub fn missed() -> Option<StoreEvent> {
    Some(StoreEvent::Changed { path: LOCK.into() })
}

/// Under which lease a key was put, and at which revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    pub czxid: i64,
    pub session: i64,
}

/// Whose watch was fired, and which key is gone as of which revision.
pub type Fired = (usize, Arc<str>);

#[derive(Clone, Debug, Hash)]
pub struct Server {
    keys: BTreeMap<Arc<str>, Node>,
    /// What stands in them.
    values: BTreeMap<Arc<str>, String>,
    /// By lease, at which revision its fence was written.
    fences: BTreeMap<i64, i64>,
    /// Leases that ended.
    over: BTreeSet<i64>,
    /// Since which revision somebody watches the queue.
    watches: BTreeMap<usize, i64>,
    /// Who passed the barrier, as they are told.
    passages: BTreeSet<u64>,
    revision: i64,
    indexes: BTreeMap<Arc<str>, i64>,
    /// Of the latch.
    count: u32,
}

/// Nobody knows what became of it.
pub fn error(_: &str) -> Reply {
    Reply::Error { code: "Unavailable".into(), message: String::new() }
}

fn key(request: &Request, at: usize) -> Arc<str> {
    match &request.args[at] {
        Arg::Key(key) => key.clone(),
        other => panic!("{other:?} is no key"),
    }
}

fn int(request: &Request, at: usize) -> i64 {
    match request.args[at] {
        Arg::Int(number) => number,
        ref other => panic!("{other:?} is no number"),
    }
}

/// What a key's value becomes.
fn value(request: &Request) -> String {
    let text = |arg: &Arg| if let Arg::Text(text) = arg { Some(text.to_string()) } else { None };
    let mut texts = request.args.iter().filter_map(text);
    let card = texts.next().expect("a card");
    texts.next().unwrap_or_else(|| Card::decode(&card).label)
}

/// How many keys a request wants to see, and with what they begin.
fn queue_of(request: &Request, at: usize) -> (usize, String) {
    let limit = int(request, if at == 4 { 2 } else { 1 }) as usize;
    let line = match request.args.get(at) {
        Some(Arg::Key(line)) => line,
        _ => &request.key,
    };
    (limit, format!("{line}/"))
}

impl Server {
    pub fn new() -> Self {
        let (keys, fences, watches) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Server {
            keys,
            values: BTreeMap::new(),
            fences,
            over: BTreeSet::new(),
            watches,
            passages: BTreeSet::new(),
            revision: 100,
            indexes: BTreeMap::new(),
            count: COUNT,
        }
    }

    /// A request as it leaves: with the fence as it is known.
    pub fn stamped(&self, session: i64, mut request: Request) -> Request {
        let fences = request.args.iter_mut().filter(|arg| **arg == Arg::NotAfter);
        fences.for_each(|arg| *arg = Arg::Int(self.fence(session)));
        request
    }

    fn fence(&self, session: i64) -> i64 {
        self.fences.get(&session).copied().unwrap_or(1)
    }

    /// Whether somebody passed the barrier so.
    pub fn passed(&self, token: u64) -> bool {
        self.passages.contains(&token)
    }

    /// How many places stand there.
    pub fn stands(&self) -> usize {
        self.keys.keys().filter(|key| key.ends_with(".party")).count()
    }

    /// All of these places pass, or none.
    fn open(&mut self, request: &Request) -> (Reply, Vec<Fired>) {
        let of: Vec<_> = (0..request.args.len()).step_by(4).collect();
        let is_there =
            |at: &usize| self.keys.get(&key(request, *at)).is_some_and(|node| node.czxid == int(request, at + 1));
        if !of.iter().all(is_there) {
            return (Reply::Int(0), Vec::new());
        }
        assert_eq!(of.len(), 2, "all pass whom it takes");
        let places: Vec<_> = of.iter().map(|at| key(request, *at)).collect();
        let fired = self.remove(&places);
        for (index, at) in of.into_iter().enumerate() {
            let node = Node { czxid: self.revision, session: int(request, at + 2) };
            self.keys.insert(key(request, at + 3), node);
            self.indexes.insert(key(request, at + 3), index as i64);
            let passage = Passage::new(index as i64, self.revision).expect("in range");
            self.passages.insert(passage.token().n);
        }
        (Reply::Int(1), fired)
    }

    /// Whoever came first has the lock, or writes; readers before the first writer read; and permits are given until
    /// there are none.
    fn holders(&self) -> Vec<Node> {
        let mut line: Vec<_> = self.keys.iter().map(|(key, node)| (&**key, *node)).collect();
        line.sort_by_key(|(_, node)| node.czxid);
        let reads = |key: &str| key.ends_with(".read");
        let taken = |key: &str| key.split('.').nth(1).and_then(|take| take.parse::<u32>().ok());
        let at_head = match line.first() {
            Some((first, _)) if reads(first) => line.iter().take_while(|(key, _)| reads(key)).count(),
            Some((first, _)) if taken(first).is_some() => {
                let sums = line.iter().scan(0, |sum, (key, _)| {
                    *sum += taken(key).unwrap_or(u32::MAX / 2);
                    Some(*sum)
                });
                sums.take_while(|sum| *sum <= 2).count()
            }
            first => first.map_or(0, |_| 1),
        };
        line.into_iter().take(at_head).map(|(_, node)| node).collect()
    }

    /// Whether whoever has this session and token holds it.
    pub fn holds(&self, session: i64, token: i64) -> bool {
        self.holders().contains(&Node { czxid: token, session })
    }

    /// Whether nothing is there but a latch, which stays.
    pub fn is_empty(&self) -> bool {
        self.keys.keys().all(|key| key.starts_with("lk/latch/state/"))
    }

    /// No directory is removed here.
    pub fn has_empty_directory(&self) -> bool {
        false
    }

    pub fn may_be_cleared(&mut self) {}

    pub fn clear(&mut self) {}

    /// Whether the latch was counted down.
    pub fn is_open(&self) -> bool {
        self.count == 0
    }

    /// There is a latch, since somebody uses it.
    fn make_latch(&mut self) {
        for key in [Part::count_key(LOCK), Part::shut_key(LOCK)] {
            if self.count == COUNT && !self.keys.contains_key(&*key) {
                self.revision += 1;
                self.keys.insert(key.into(), Node { czxid: self.revision, session: LATCHES });
            }
        }
    }

    /// Somebody else counts it down.
    pub fn count_down(&mut self) -> Vec<Fired> {
        self.make_latch();
        self.count -= 1;
        self.revision += 1;
        if self.count == 0 { self.remove(&[Part::shut_key(LOCK).into()]) } else { Vec::new() }
    }

    pub fn execute(&mut self, who: usize, session: i64, request: &Request) -> (Reply, Vec<Fired>) {
        let keys = || {
            request
                .args
                .iter()
                .enumerate()
                .filter(|(_, arg)| matches!(arg, Arg::Key(_)))
                .map(|(at, _)| key(request, at))
        };
        let needs_lease = matches!(request.call.name, "acquire" | "try" | "yield" | "arrive" | "undo");
        if needs_lease && self.over.contains(&session) {
            return (Reply::Error { code: "LeaseNotFound".into(), message: String::new() }, Vec::new());
        }
        let reply = match request.call.name {
            call @ ("acquire" | "try") => {
                if key(request, 0).ends_with(".wait") {
                    self.make_latch();
                }
                let own = key(request, 0);
                let is_there = self.keys.contains_key(&own);
                let value = value(request);
                if is_there && self.values.get(&own) != Some(&value) {
                    return (Reply::Error { code: "Taken".into(), message: String::new() }, Vec::new());
                }
                if !is_there && int(request, 3) != self.fence(session) {
                    return (Reply::Error { code: "Fenced".into(), message: String::new() }, Vec::new());
                }
                let (_, line) = queue_of(request, 4);
                let is_empty = !self.keys.keys().any(|key| key.starts_with(&line));
                if !is_there && (call == "acquire" || is_empty) {
                    self.revision += 1;
                    self.keys.insert(own.clone(), Node { czxid: self.revision, session });
                    self.values.insert(own.clone(), value);
                }
                self.queue(session, &own, queue_of(request, 4), 0)
            }
            "yield" => {
                let (own, earlier) = (key(request, 0), key(request, 4));
                assert_ne!(own, earlier, "no transaction puts and deletes one key");
                let is_there = self.keys.get(&earlier).is_some_and(|node| node.czxid == int(request, 5));
                if !is_there || self.keys.contains_key(&own) || int(request, 3) != self.fence(session) {
                    return (Reply::Error { code: "Kept".into(), message: String::new() }, Vec::new());
                }
                let fired = self.remove(&[earlier]);
                self.keys.insert(own.clone(), Node { czxid: self.revision, session });
                self.values.insert(own.clone(), value(request));
                let limit = int(request, 2) as usize;
                return (self.queue(session, &own, (limit, format!("{LOCK}/")), 0), fired);
            }
            "arrive" => {
                let own = key(request, 0);
                let is_there = self.keys.contains_key(&own);
                let has_passed = self.keys.contains_key(&key(request, 4));
                if !is_there && int(request, 3) != self.fence(session) {
                    return (Reply::Error { code: "Fenced".into(), message: String::new() }, Vec::new());
                }
                if !is_there && !has_passed {
                    self.revision += 1;
                    self.keys.insert(own.clone(), Node { czxid: self.revision, session });
                }
                self.queue(session, &own, (100, format!("{LOCK}/")), 0)
            }
            "open" => return self.open(request),
            "fate" => {
                let created = |at| self.keys.get(&key(request, at)).map_or(0, |node| node.czxid);
                let index = self.indexes.get(&key(request, 1)).copied().unwrap_or(-1);
                Reply::List([session, created(0), created(1), index].map(Reply::Int).into())
            }
            "look" => self.queue(session, &key(request, 0), queue_of(request, 3), int(request, 2)),
            "exists" => match self.keys.get(&key(request, 0)) {
                Some(node) => Reply::List([session, node.czxid, node.session].map(Reply::Int).into()),
                None => Reply::Nil,
            },
            "watch" => {
                let since = *self.watches.entry(who).or_insert(self.revision);
                Reply::List([since, 1_000].map(Reply::Int).into())
            }
            "release" => {
                let own = key(request, 0);
                match self.keys.get(&own) {
                    Some(node) if node.czxid == int(request, 1) => return (Reply::Int(1), self.remove(&[own])),
                    _ => Reply::Int(if self.keys.is_empty() { 0 } else { 2 }),
                }
            }
            call @ ("delete" | "undo") => {
                let tag =
                    request.args.iter().find_map(|arg| if let Arg::Text(tag) = arg { Some(&**tag) } else { None });
                let is_its =
                    |key: &Arc<str>| tag.is_none_or(|tag| self.values.get(key).is_some_and(|value| value == tag));
                let there: Vec<_> = keys().filter(|key| self.keys.contains_key(key) && is_its(key)).collect();
                let count = Reply::Int(there.len() as i64);
                if call == "undo" {
                    self.revision += 1;
                    self.fences.insert(session, self.revision);
                }
                return (count, self.remove(&there));
            }
            other => panic!("no etcd has {other}"),
        };
        (reply, Vec::new())
    }

    fn queue(&self, session: i64, own: &str, (limit, line): (usize, String), until: i64) -> Reply {
        let (create, owner) = self.keys.get(own).map_or((0, 0), |node| (node.czxid, node.session));
        let mut entries: Vec<_> = self.keys.iter().filter(|(key, _)| key.starts_with(&line)).collect();
        entries.retain(|(_, node)| until == 0 || node.czxid <= until);
        entries.sort_by_key(|(_, node)| node.czxid);
        entries.drain(..entries.len().saturating_sub(limit));
        let entry = |(key, node): (&Arc<str>, &Node)| {
            Reply::List(vec![Reply::Text(key.to_string()), Reply::Int(node.czxid), Reply::Int(node.session)])
        };
        let head = [session, self.revision, create, owner].map(Reply::Int);
        Reply::List(head.into_iter().chain(entries.into_iter().map(entry)).collect())
    }

    fn remove(&mut self, keys: &[Arc<str>]) -> Vec<Fired> {
        if keys.is_empty() {
            return Vec::new();
        }
        self.revision += 1;
        let mut fired = Vec::new();
        for key in keys {
            self.keys.remove(key);
            self.values.remove(key);
            let path: Arc<str> = format!("{}:{key}", self.revision).into();
            fired.extend(self.watches.keys().map(|who| (*who, path.clone())));
        }
        fired
    }

    /// A lease is not kept alive for too long.
    pub fn end(&mut self, session: i64) -> Vec<Fired> {
        self.fences.remove(&session);
        self.over.insert(session);
        let keys = self.keys.iter().filter(|(_, node)| node.session == session);
        let gone: Vec<_> = keys.map(|(key, _)| key.clone()).collect();
        self.remove(&gone)
    }

    /// Watches go with the connection.
    pub fn disconnect(&mut self, who: usize) {
        self.watches.remove(&who);
    }
}
