//! The layout `curator`: how its locks are called, looked at, broken and listed. Who contends for one is its
//! [machine](super::curator).
//!
//! ```text
//! inspect  List: sync, children        nobody there: free
//!          Look: sync, get the first   that it is and who; NoNode: it went meanwhile, List again
//! break    List, then Look             the first has that czxid: Take; else nobody held it under that token
//!          Take: delete the first      that it was broken; NoNode: it went by itself
//! list     Root: sync, children        the directories there are
//!          Part: children of some      those with a contender; then the next part
//! ```
//!
//! A name that is a contender's never comes back, since its uuid is an attempt's: what is deleted is what was looked
//! at.

use std::sync::Arc;
use std::time::Duration;

use super::curator::{Curator, order};
use super::paths::{directory, name_of};
use super::{CHILDREN, GET, after_sync, child, delete, deleted, first, found, names, on, synced};
use crate::error::{Error, Kind, Result};
use crate::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use crate::lease::{Card, Holder, Inspection};
use crate::options::AcquireOptions;
use crate::protocol::{Inquiry, Layout, Protocol, Reply};
use crate::span::written;

/// A queue whose first contender goes under each of so many looks in a row is left alone.
const MAX_ROUNDS: u8 = 32;
/// Directories that are looked into in one write.
const PART: usize = 100;

/// The layout, for locks whose directories lie in `root`, an absolute path.
#[derive(Clone, Debug)]
pub struct CuratorLayout {
    /// Where the locks' directories lie.
    pub root: Arc<str>,
    /// The connection's prefix, put before every name.
    pub prefix: String,
    /// How long the client's session certainly lasts without a word from the ensemble.
    pub ttl: Duration,
}

/// The contender that holds a lock.
struct First {
    name: String,
    czxid: u64,
    data: String,
    others: u64,
}

impl Layout for CuratorLayout {
    fn name(&self) -> &'static str {
        "curator"
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            store: "zookeeper",
            layout: "curator",
            exclusive_until: ExclusiveUntil::Deadline,
            token: TokenRises::WithStoreData,
            fair: true,
            reentrant: true,
            shared: true,
            push: true,
            survives_disconnect: true,
            incarnation: true,
            notes: &[
                "A lock is bound to its session: a crash is noticed when that times out, which is later than the ttl.",
                "An ensemble that is restored from a backup, or built anew, gives lower tokens than before.",
            ],
        }
    }

    fn key(&self, name: &str) -> Result<Arc<str>> {
        Ok(directory(&self.root, &format!("{}{name}", self.prefix)))
    }

    fn check(&self, options: &AcquireOptions) -> Result<()> {
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
        Box::new(Curator::new(key))
    }

    fn inspect<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        let nothing = Inspection::of_nothing(self.name(), name);
        look("inspect", key, MAX_ROUNDS, |first| {
            let Some(first) = first else { return Inquiry::Done(Ok(nothing)) };
            let seen = Inspection { waiters: first.others, ..nothing.of_lock() };
            Inquiry::Done(Ok(Inspection { holder: Some(holder(&first)), ..seen }))
        })
    }

    fn break_hold(&self, key: Arc<str>, token: u64) -> Inquiry<'_, bool> {
        look("break", key.clone(), MAX_ROUNDS, move |first| {
            let Some(first) = first.filter(|first| first.czxid == token) else { return Inquiry::Done(Ok(false)) };
            Inquiry::of(delete(child(&key, &first.name)), |reply| deleted("break", reply))
        })
    }

    fn list(&self) -> Inquiry<'_, Vec<String>> {
        Inquiry::ask(synced(&self.root, [on(&CHILDREN, &self.root)]), |replies| {
            let children = after_sync("list", replies).and_then(|reads| names("list", first("list", reads)?));
            match children {
                Ok(children) => {
                    let keys = children.unwrap_or_default().1.into_iter().map(|name| child(self.under(), name));
                    self.contended(keys.collect(), Vec::new())
                }
                Err(error) => Inquiry::Done(Err(error)),
            }
        })
    }
}

impl CuratorLayout {
    /// The root as paths below it begin.
    fn under(&self) -> &str {
        self.root.trim_end_matches('/')
    }

    fn name_of(&self, key: &str) -> Option<String> {
        let name = name_of(key.strip_prefix(self.under())?.strip_prefix('/')?)?;
        name.strip_prefix(&self.prefix).map(str::to_owned)
    }

    /// The names of those `keys` whose directories have contenders, behind those that were `found`.
    fn contended(&self, mut keys: Vec<Arc<str>>, mut found: Vec<String>) -> Inquiry<'_, Vec<String>> {
        let rest = keys.split_off(keys.len().min(PART));
        if keys.is_empty() {
            return Inquiry::Done(Ok(found));
        }
        let requests: Vec<_> = keys.iter().map(|key| on(&CHILDREN, key)).collect();
        Inquiry::ask(requests, move |replies| {
            for (key, reply) in keys.iter().zip(replies) {
                let children = match names("list", reply) {
                    Ok(children) => children.unwrap_or_default().1,
                    Err(error) => return Inquiry::Done(Err(error)),
                };
                if children.iter().any(|name| order(name) != *name) {
                    found.extend(self.name_of(key));
                }
            }
            self.contended(rest, found)
        })
    }
}

/// Finds out who stands first in the directory `key`, and goes on with that.
fn look<'a, T: 'a>(
    doing: &'static str,
    key: Arc<str>,
    rounds: u8,
    next: impl FnOnce(Option<First>) -> Inquiry<'a, T> + Send + 'a,
) -> Inquiry<'a, T> {
    if rounds == 0 {
        let message = "whoever holds the lock changes all the time; look again";
        return Inquiry::Done(Err(Error::new(Kind::Unavailable, doing, message)));
    }
    Inquiry::ask(synced(&key, [on(&CHILDREN, &key)]), move |replies| {
        let (name, others) = match standing(doing, replies) {
            Ok(Some(standing)) => standing,
            Ok(None) => return next(None),
            Err(error) => return Inquiry::Done(Err(error)),
        };
        let path = child(&key, &name);
        Inquiry::ask(synced(&key, [on(&GET, &path)]), move |replies| match node(doing, replies) {
            Ok(Some((czxid, data))) => next(Some(First { name, czxid, data, others })),
            Ok(None) => look(doing, key, rounds - 1, next),
            Err(error) => Inquiry::Done(Err(error)),
        })
    })
}

/// Who stands first, and before how many others.
fn standing(doing: &'static str, replies: &[Reply]) -> Result<Option<(String, u64)>> {
    let names = names(doing, first(doing, after_sync(doing, replies)?)?)?.unwrap_or_default().1;
    let others = names.len().saturating_sub(1) as u64;
    Ok(names.into_iter().min_by_key(|name| order(name)).map(|name| (name.to_owned(), others)))
}

fn node(doing: &'static str, replies: &[Reply]) -> Result<Option<(u64, String)>> {
    found(doing, first(doing, after_sync(doing, replies)?)?)
}

fn holder(first: &First) -> Holder {
    // Other libraries write their address, or nothing.
    let card = match first.data.contains('\t') {
        true => Card::decode(&first.data),
        false => Card { host: first.data.clone(), ..Card::default() },
    };
    Holder {
        owner: sha1_smol::Sha1::from(&first.name).digest().to_string()[..12].to_owned(),
        card,
        held_for: None,
        // For as long as its session lives.
        remaining: Duration::MAX,
        first_token: first.czxid,
        last_token: first.czxid,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::protocol::{Request, Requests};

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
                "delete" if self.nodes.remove(path).is_some() => Reply::Nil,
                _ => no_node(),
            }
        }

        fn tell<T>(&mut self, inquiry: Inquiry<'_, T>) -> Result<T> {
            inquiry.conclude(|requests: &Requests| Ok(requests.iter().map(|request| self.answer(request)).collect()))
        }
    }

    fn layout() -> CuratorLayout {
        CuratorLayout { root: "/locks".into(), prefix: "app:".into(), ttl: Duration::from_secs(30) }
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
        assert_eq!((holder.first_token, holder.card.pid, found.waiters, requests), (10, 5, 1, 4));
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
        let nothing = CuratorLayout { root: "/".into(), ..layout() };
        assert!(Server::default().tell(nothing.list()).unwrap().is_empty());
    }
}
