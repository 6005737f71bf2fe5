//! The layouts `curator` and `kazoo`: how their locks are called, looked at, broken and listed. Who contends for one
//! is a machine: a [line](super::line), or one for [permits](super::permits).
//!
//! ```text
//! list     Root: sync, children        the directories there are
//!          Part: children of some      those with a contender; then the next part
//!          Leases: children of those with leases below
//! ```
//!
//! How one is looked at and broken is `seen.rs`.

use std::sync::Arc;
use std::time::Duration;

use super::gate_layout::GateLayout;
use super::kazoo_permits::KazooPermits;
use super::line::Line;
use super::paths::{directory, name_of};
use super::permits::Permits;
use super::recipe::{BESIDE, GATES, Library, Recipe, SEMAPHORE, is_contender, is_permit_of_kazoo};
use super::seen::{Look, MAX_ROUNDS, Place, ask_back, break_of, look};
use super::{CHILDREN, after_sync, child, first, names, on, synced};
use crate::error::{Error, Result};
use crate::gate::Gate;
use crate::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use crate::lease::Inspection;
use crate::options::AcquireOptions;
use crate::protocol::{Inquiry, Layout, Protocol, irrevocable};
use crate::share::{Primitive, Share};
use crate::span::written;

/// Directories that are looked into in one write.
const PART: usize = 100;

/// One of the layouts, for locks whose directories lie in `root`, an absolute path.
#[derive(Clone, Debug)]
pub struct LineLayout {
    /// Where the locks' directories lie.
    pub root: Arc<str>,
    /// The connection's prefix, put before every name.
    pub prefix: String,
    /// How long the client's session certainly lasts without a word from the ensemble.
    pub ttl: Duration,
    /// What is in a directory.
    pub place: Place,
    /// What of it is wanted, where several may hold.
    pub share: Option<Share>,
}

impl LineLayout {
    /// The layout of locks by `recipe`.
    pub fn new(root: Arc<str>, prefix: String, ttl: Duration, recipe: Recipe) -> Self {
        LineLayout { root, prefix, ttl, place: Place::Line(recipe), share: None }
    }

    fn library(&self) -> Library {
        match self.place {
            Place::Line(recipe) => recipe.library(),
            Place::KazooPermits => Library::Kazoo,
            Place::Permits | Place::Latch | Place::Barrier => Library::Curator,
        }
    }
}

const ENDS: &str =
    "A lock is bound to its session: a crash is noticed when that times out, which is later than the ttl.";
const RESTORED: &str = "An ensemble that is restored from a backup, or built anew, gives lower tokens than before.";

impl Layout for LineLayout {
    fn name(&self) -> &'static str {
        match self.library() {
            Library::Curator => "curator",
            Library::Kazoo => "kazoo",
        }
    }

    fn format(&self) -> Option<&'static str> {
        matches!(self.place, Place::Line(Recipe::LeaderLatch)).then_some("leader-latch")
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            store: "zookeeper",
            layout: self.name(),
            exclusive_until: ExclusiveUntil::Deadline,
            token: TokenRises::WithStoreData,
            fair: true,
            reentrant: self.share.is_none(),
            shared: true,
            push: true,
            survives_disconnect: true,
            incarnation: true,
            notes: match self.place {
                Place::Line(_) | Place::KazooPermits | Place::Latch | Place::Barrier => &[ENDS, RESTORED],
                Place::Permits => &[
                    ENDS,
                    RESTORED,
                    "How many permits there are is what each client says, as with Curator: all have to say the same.",
                ],
            },
        }
    }

    fn key(&self, name: &str) -> Result<Arc<str>> {
        Ok(directory(&self.root, &format!("{}{name}", self.prefix)))
    }

    fn check(&self, options: &AcquireOptions) -> Result<()> {
        if self.share.is_some_and(|share| share.units > MOST_TAKEN && share.primitive == Primitive::Semaphore) {
            let message = format!("take is more than {MOST_TAKEN}: on ZooKeeper each permit is a node of its own");
            return Err(Error::unsupported("lock", message));
        }
        if options.ttl <= self.ttl {
            return Ok(());
        }
        let (wanted, most) = (written(options.ttl), written(self.ttl));
        let message = format!(
            "a lock on ZooKeeper lasts as long as its client's session, whose ttl is {most}; ttl={wanted} has to stand in the \
             address: zookeeper://host?ttl={wanted}"
        );
        Err(Error::unsupported("lock", message))
    }

    fn protocol(&self, key: Arc<str>) -> Box<dyn Protocol> {
        match (self.place, self.share) {
            (Place::Line(recipe), _) => Box::new(Line::new(key, recipe)),
            (Place::KazooPermits, share) => {
                let (wanted, capacity) = share.map_or((1, 1), |share| (share.units, share.capacity));
                Box::new(KazooPermits::new(key, wanted, capacity))
            }
            (_, Some(share)) => Box::new(Permits::new(key, share.units, share.capacity)),
            (_, None) => Box::new(Permits::new(key, 1, 1)),
        }
    }

    fn shared(&self, share: Share) -> Option<Arc<dyn Layout>> {
        let writes = share == Share::WRITE;
        let place = match (self.place, share.primitive) {
            (Place::Line(Recipe::Mutex), Primitive::RwLock) if writes => Place::Line(Recipe::Write),
            (Place::Line(Recipe::Mutex), Primitive::RwLock) => Place::Line(Recipe::Read),
            (Place::Line(Recipe::Mutex), Primitive::Semaphore) => Place::Permits,
            (Place::Line(Recipe::KazooLock), Primitive::RwLock) if writes => Place::Line(Recipe::KazooLock),
            (Place::Line(Recipe::KazooLock), Primitive::RwLock) => Place::Line(Recipe::KazooRead),
            (Place::Line(Recipe::KazooLock), Primitive::Semaphore) => Place::KazooPermits,
            _ => return None,
        };
        Some(Arc::new(LineLayout { place, share: Some(share), ..self.clone() }))
    }

    fn share(&self) -> Option<Share> {
        self.share
    }

    fn gate(&self, gate: Gate) -> Option<Arc<dyn Layout>> {
        let is_curators = matches!(self.place, Place::Line(Recipe::Mutex));
        is_curators.then(|| Arc::new(GateLayout { locks: self.clone(), gate }) as Arc<dyn Layout>)
    }

    fn inspect<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        self.seen(self.place, name, key, false)
    }

    fn identify<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        self.seen(self.place, name, key, true)
    }

    fn is_revocable(&self) -> bool {
        // Curator's read/write locks take the message, too; but a node's data is where one of ours keeps its token when
        // its writer comes to read.
        self.place == Place::Line(Recipe::Mutex)
    }

    fn ask_back(&self, key: Arc<str>, token: u64) -> Inquiry<'_, bool> {
        if !self.is_revocable() {
            return Inquiry::Done(Err(Error::unsupported("request_release", irrevocable(self.name()))));
        }
        ask_back(key, token)
    }

    fn break_hold(&self, key: Arc<str>, token: u64) -> Inquiry<'_, bool> {
        break_of(self.place, key, token)
    }

    fn list(&self) -> Inquiry<'static, Vec<String>> {
        let this = self.clone();
        Inquiry::ask(synced(&self.root, [on(&CHILDREN, &self.root)]), move |replies| {
            let children = after_sync("list", replies).and_then(|reads| names("list", first("list", reads)?));
            match children {
                Ok(children) => {
                    let children = children.unwrap_or_default().1;
                    // Whoever wants a permit of kazoo's stands beside those: it has its turn when that has a holder.
                    let is_beside = |name: &&str| name.strip_suffix(BESIDE).is_some_and(|of| children.contains(&of));
                    let names = children.iter().copied().filter(|name| !is_beside(name));
                    let keys = names.map(|name| child(this.under(), name)).collect();
                    this.contended(keys, Vec::new())
                }
                Err(error) => Inquiry::Done(Err(error)),
            }
        })
    }
}

/// How many permits one acquisition may take: each is a node, and all are made in one write.
const MOST_TAKEN: u32 = 1000;

impl LineLayout {
    pub(super) fn seen<'a>(&'a self, place: Place, name: &'a str, key: Arc<str>, any: bool) -> Inquiry<'a, Inspection> {
        let nothing = Inspection::of_nothing(self.name(), name);
        let primitive = self.share.map(|share| share.primitive);
        let wanted = Look { doing: "inspect", place, any };
        look(wanted, key, MAX_ROUNDS, move |seen| Inquiry::Done(Ok(seen.told(nothing, primitive))))
    }

    /// The root as paths below it begin.
    fn under(&self) -> &str {
        self.root.trim_end_matches('/')
    }

    fn name_of(&self, key: &str) -> Option<String> {
        let name = name_of(key.strip_prefix(self.under())?.strip_prefix('/')?)?;
        name.strip_prefix(&self.prefix).map(str::to_owned)
    }

    /// The names of those `keys` whose directories have contenders, behind those that were `found`. A semaphore's are
    /// in a directory of their own.
    fn contended(self, mut keys: Vec<Arc<str>>, mut found: Vec<String>) -> Inquiry<'static, Vec<String>> {
        let rest = keys.split_off(keys.len().min(PART));
        if keys.is_empty() {
            return Inquiry::Done(Ok(found));
        }
        let requests: Vec<_> = keys.iter().map(|key| on(&CHILDREN, key)).collect();
        Inquiry::ask(requests, move |replies| {
            let mut below = Vec::new();
            for (key, reply) in keys.iter().zip(replies) {
                let children = match names("list", reply) {
                    Ok(children) => children.unwrap_or_default().1,
                    Err(error) => return Inquiry::Done(Err(error)),
                };
                let ([_, leases], [latch, barrier]) = (SEMAPHORE, GATES);
                let of = [leases, barrier].iter().find_map(|below| key.strip_suffix(below)?.strip_suffix('/'));
                let of = of.filter(|key| *key != self.under());
                match of {
                    Some(of) if !children.is_empty() => found.extend(self.name_of(of)),
                    _ if self.library() == Library::Kazoo && children.iter().any(|name| is_permit_of_kazoo(name)) => {
                        found.extend(self.name_of(key));
                    }
                    _ if children.iter().any(|name| is_contender(self.library(), name)) => {
                        found.extend(self.name_of(key))
                    }
                    _ if self.library() == Library::Curator && children.contains(&latch) => {
                        found.extend(self.name_of(key));
                    }
                    _ if self.library() == Library::Curator && children.contains(&barrier) => {
                        below.push(child(key, barrier));
                    }
                    _ if self.library() == Library::Curator && SEMAPHORE.iter().all(|name| children.contains(name)) => {
                        below.push(child(key, leases));
                    }
                    _ => {}
                }
            }
            below.extend(rest);
            self.contended(below, found)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::error::Kind;
    use crate::lease::Card;
    use crate::protocol::{Arg, Reply, Request, Requests};

    /// What a server has: nodes, each with its czxid and data; `going` goes when it has been seen once.
    #[derive(Default)]
    struct Server {
        nodes: BTreeMap<String, (i64, String)>,
        going: Option<String>,
        requests: usize,
    }

    impl Server {
        fn with(mut self, nodes: &[(&str, i64, &str)]) -> Self {
            self.nodes.extend(nodes.iter().map(|(path, czxid, data)| ((*path).into(), (*czxid, (*data).into()))));
            self
        }

        fn answer(&mut self, request: &Request) -> Reply {
            let (path, session) = (&*request.key, Reply::Int(7));
            let no_node = || Reply::Error { code: "NoNode".into(), message: String::new() };
            self.requests += 1;
            match request.call.name {
                "sync" => Reply::Nil,
                "children" if path == "/" || self.nodes.contains_key(path) => {
                    let below = format!("{}/", path.trim_end_matches('/'));
                    let children = self.nodes.keys().filter_map(|node| node.strip_prefix(&below));
                    let names: Vec<_> =
                        children.filter(|name| !name.contains('/')).map(|name| Reply::Text(name.into())).collect();
                    if let Some(going) = self.going.take_if(|going| going.starts_with(&below)) {
                        self.nodes.remove(&going);
                    }
                    Reply::List([vec![session], names].concat())
                }
                "get" => match self.nodes.get(path) {
                    Some((czxid, data)) => {
                        Reply::List(vec![session, Reply::Int(*czxid), Reply::Int(7), Reply::Text(data.clone())])
                    }
                    None => no_node(),
                },
                "set" if self.nodes.contains_key(path) => {
                    let Some(Arg::Text(data)) = request.args.first() else { return no_node() };
                    self.nodes.entry(path.to_owned()).and_modify(|(_, old)| *old = data.to_string());
                    Reply::Nil
                }
                "delete" if self.nodes.remove(path).is_some() => Reply::Nil,
                _ => no_node(),
            }
        }

        fn tell<T>(&mut self, inquiry: Inquiry<'_, T>) -> Result<T> {
            inquiry.conclude(|requests: &Requests| Ok(requests.iter().map(|request| self.answer(request)).collect()))
        }
    }

    fn layout() -> LineLayout {
        LineLayout::new("/locks".into(), "app:".into(), Duration::from_secs(30), Recipe::Mutex)
    }

    const FIRST: &str = "/locks/app:x/_c_z-lock-0000000003";
    const SECOND: &str = "/locks/app:x/_c_a-lock-0000000004";

    fn server() -> Server {
        let card = Card { host: "h".into(), pid: 5, ..Card::default() }.encode();
        let nodes = [("/locks", 1, ""), ("/locks/app:x", 2, ""), (SECOND, 20, "10.0.0.1"), (FIRST, 10, &*card)];
        Server::default().with(&nodes)
    }

    fn seen(server: &mut Server) -> Inspection {
        let layout = layout();
        server.tell(layout.inspect("x", layout.key("x").unwrap())).unwrap()
    }

    #[test]
    fn no_lock_outlasts_its_session() {
        let of = |seconds| AcquireOptions { ttl: Duration::from_secs(seconds), ..AcquireOptions::default() };
        assert!(layout().check(&of(30)).is_ok());
        let error = layout().check(&of(31)).unwrap_err();
        assert!(error.kind() == Kind::Unsupported && error.to_string().contains("ttl is 30s; ttl=31s"), "{error}");
    }

    #[test]
    fn who_stands_first_by_the_order_holds_it() {
        let mut server = server();
        let (found, requests) = (seen(&mut server), server.requests);
        let holder = found.holder.unwrap();
        assert_eq!((holder.first_token, holder.card.pid, found.waiters, requests), (10, 5, 1, 5));
        let queue: Vec<_> = found.queue.iter().map(|one| (one.card.host.as_str(), one.units)).collect();
        assert_eq!(queue, [("10.0.0.1", 1)]);
        server.nodes.remove(FIRST);
        let found = seen(&mut server);
        assert_eq!((found.holder.unwrap().card.host.as_str(), found.waiters), ("10.0.0.1", 0));
        server.nodes.remove(SECOND);
        assert!(seen(&mut server).is_free());
        server.nodes.clear();
        assert!(seen(&mut server).is_free());
    }

    #[test]
    fn a_holder_that_goes_under_the_look_is_not_shown() {
        let mut server = Server { going: Some(FIRST.into()), ..server() };
        assert_eq!(seen(&mut server).holder.unwrap().first_token, 20);
    }

    #[test]
    fn who_holds_it_under_that_token_is_broken_and_nobody_else() {
        let (mut server, layout) = (server(), layout());
        let mut broken = |token| server.tell(layout.break_hold(layout.key("x").unwrap(), token)).unwrap();
        assert_eq!([20, 10, 10, 20, 20].map(&mut broken), [false, true, false, true, false]);
    }

    #[test]
    fn who_holds_it_under_that_token_is_asked_and_nobody_else() {
        let (mut server, layout) = (server(), layout());
        let key = || layout.key("x").unwrap();
        let mut asked = |token| server.tell(layout.ask_back(key(), token)).unwrap();
        assert_eq!([20, 11, 10].map(&mut asked), [false, false, true]);
        assert_eq!([FIRST, SECOND].map(|path| server.nodes[path].1 == "__REVOKE__"), [true, false]);
        let found = seen(&mut server).holder.unwrap();
        assert_eq!((found.first_token, found.card), (10, Card::default()), "the message says nothing of the holder");
        let mut late = Server { going: Some(FIRST.into()), ..self::server() };
        assert!(!late.tell(layout.ask_back(key(), 10)).unwrap());
        for share in [Share::READ, Share::permits(1, 2, false).unwrap()] {
            let other = layout.shared(share).unwrap();
            assert!(!other.is_revocable());
            let error = server.tell(other.ask_back(key(), 10)).unwrap_err();
            assert_eq!(error.kind(), Kind::Unsupported);
        }
    }

    #[test]
    fn a_break_that_comes_too_late_breaks_nobody_else() {
        let (mut server, layout) = (Server { going: Some(FIRST.into()), ..server() }, layout());
        assert!(!server.tell(layout.break_hold(layout.key("x").unwrap(), 10)).unwrap());
        assert!(server.nodes.contains_key(SECOND));
    }

    #[test]
    fn a_queue_that_never_stands_still_is_left_alone() {
        let layout = layout();
        let mut rounds = 0;
        let ask = |requests: &Requests| {
            rounds += 1;
            let names = vec![Reply::Int(7), Reply::Text("_c_a-lock-0000000001".into())];
            Ok(match requests[1].call.name {
                "children" => vec![Reply::Nil, Reply::List(names)],
                _ => vec![Reply::Nil, Reply::Error { code: "NoNode".into(), message: String::new() }],
            })
        };
        let error = layout.inspect("x", "/locks/x".into()).conclude(ask).unwrap_err();
        assert_eq!((error.kind(), rounds), (Kind::Unavailable, 2 * usize::from(MAX_ROUNDS)));
    }

    #[test]
    fn directories_with_contenders_are_listed() {
        let many: Vec<_> =
            (0..250).map(|n| (format!("/locks/app:{n}"), format!("/locks/app:{n}/_c_a-lock-0000000001"))).collect();
        let mut server = server().with(&[
            ("/locks/app:empty", 3, ""),
            ("/locks/other", 4, ""),
            ("/locks/other/_c_a-lock-0000000001", 5, ""),
        ]);
        for (directory, contender) in &many {
            server.nodes.extend([directory, contender].map(|path| (path.clone(), (9, String::new()))));
        }
        let strange = layout().key("a/b%").unwrap();
        server.nodes.extend(
            [strange.to_string(), format!("{strange}/_c_a-lock-0000000001")].map(|path| (path, (9, String::new()))),
        );
        let found = server.tell(layout().list()).unwrap();
        assert_eq!(found.len(), 252);
        assert!(["x", "7", "249", "a/b%"].iter().all(|name| found.iter().any(|found| found == name)), "{found:?}");
        let nothing = LineLayout { root: "/".into(), ..layout() };
        assert!(Server::default().tell(nothing.list()).unwrap().is_empty());
    }
}
