//! A look at what lies in a lock's directory, and a hold that is broken.
//!
//! ```text
//! look    List: sync, children        nobody there: free
//!         Look: sync, get the holders who they are; NoNode, all of them: they went meanwhile, List again
//! break   List, then Look             one holds under that token: Take; else nobody does
//!         Take: delete what it has    that it was broken; NoNode: it went by itself
//! ```
//!
//! A name that is a contender's never comes back, since its uuid is an attempt's: what is deleted is what was looked
//! at.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::change::split;
use super::line::foreign;
use super::recipe::{
    LEASE, REVOKE, Recipe, SEMAPHORE, WAITER, beside, is_certainly_ours, is_permit_of_kazoo, numbered,
};
use super::{
    CHILDREN, GET, READ, SET, after_sync, barrier, child, counting, delete, deleted, found, garbled, missing, names,
    on, synced,
};
use crate::error::{Error, Kind, Result};
use crate::lease::{BARRIER, Card, Counting, Holder, Inspection, LATCH, Part, Sharing, TOLD, Waiting};
use crate::protocol::{Arg, Inquiry, Reply, Request, Requests};
use crate::share::Primitive;

/// A line whose holders go under each of so many looks in a row is left alone.
pub(super) const MAX_ROUNDS: u8 = 32;
/// The most holders that are told of one by one.
const MOST_LISTED: usize = 100;

/// What is in a lock's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// One line.
    Line(Recipe),
    /// The two directories of a semaphore.
    Permits,
    /// That of a semaphore of kazoo's, and the one beside it.
    KazooPermits,
    /// That of a latch.
    Latch,
    /// That of a barrier.
    Barrier,
}

/// Who holds by the names of their nodes, and how many wait.
struct Standing {
    /// Where the holders' nodes lie.
    dir: Arc<str>,
    /// For each, how many nodes it has, by the first of them.
    holders: Vec<Vec<String>>,
    waiting: u64,
    /// The nodes of the first of those who wait to hold, and for how many units.
    queue: Vec<(Arc<str>, u32)>,
    /// The count of a latch.
    latch: Option<Counting>,
}

/// One who holds.
struct Node {
    names: Vec<String>,
    czxid: u64,
    data: String,
}

/// What a look finds.
pub(super) struct Seen {
    place: Place,
    dir: Arc<str>,
    nodes: Vec<Node>,
    /// The nodes of further holders.
    unlisted: Vec<Vec<String>>,
    waiting: u64,
    queue: Vec<Waiting>,
    latch: Option<Counting>,
}

impl Place {
    /// What several may hold of it.
    fn primitive(self) -> Option<Primitive> {
        match self {
            Place::Line(Recipe::Read | Recipe::Write | Recipe::KazooRead) => Some(Primitive::RwLock),
            Place::Permits | Place::KazooPermits => Some(Primitive::Semaphore),
            Place::Line(_) | Place::Latch | Place::Barrier => None,
        }
    }

    /// What is there, if these are the children where a lock was looked for.
    fn really(self, names: &[&str]) -> Self {
        let has = |recipe: Recipe| names.iter().any(|name| numbered(name, recipe.word()).is_some());
        match self {
            Place::Line(Recipe::Mutex) if has(Recipe::Read) || has(Recipe::Write) => Place::Line(Recipe::Read),
            Place::Line(Recipe::Mutex) if has(Recipe::LeaderLatch) => Place::Line(Recipe::LeaderLatch),
            Place::Line(Recipe::Mutex) if SEMAPHORE.iter().all(|name| names.contains(name)) => Place::Permits,
            Place::Line(Recipe::Mutex) if names.contains(&LATCH) => Place::Latch,
            Place::Line(Recipe::Mutex) if names.contains(&BARRIER) => Place::Barrier,
            Place::Line(Recipe::KazooLock) if has(Recipe::KazooRead) => Place::Line(Recipe::KazooRead),
            Place::Line(Recipe::KazooLock) if names.iter().any(|name| is_permit_of_kazoo(name)) => Place::KazooPermits,
            _ => self,
        }
    }

    fn reads(self, dir: &Arc<str>) -> Requests {
        let below = SEMAPHORE.map(|below| child(dir, below));
        match self {
            Place::Line(_) => synced(dir, [on(&CHILDREN, dir)]),
            Place::Permits => synced(dir, [dir, &below[0], &below[1]].map(|path| on(&CHILDREN, path))),
            Place::KazooPermits => synced(dir, [dir, &beside(dir)].map(|path| on(&CHILDREN, path))),
            Place::Latch | Place::Barrier => {
                let below = child(dir, if self == Place::Latch { LATCH } else { BARRIER });
                synced(dir, [on(&CHILDREN, dir), on(&READ, &below), on(&CHILDREN, &below)])
            }
        }
    }

    /// What is there by these answers to its [`reads`](Self::reads).
    fn found(self, doing: &'static str, replies: &[Reply]) -> Result<Self> {
        let children = after_sync(doing, replies)?.first().ok_or_else(|| garbled(doing))?;
        Ok(self.really(&names(doing, children)?.unwrap_or_default().1))
    }

    fn standing(self, doing: &'static str, dir: &Arc<str>, replies: &[Reply]) -> Result<Standing> {
        match self {
            Place::Latch => return at_latch(doing, dir, after_sync(doing, replies)?),
            Place::Barrier => {
                let waiting = barrier::count(doing, dir, after_sync(doing, replies)?)?.into();
                let (dir, holders, queue) = (dir.clone(), Vec::new(), Vec::new());
                return Ok(Standing { dir, holders, waiting, queue, latch: None });
            }
            Place::Line(_) | Place::Permits | Place::KazooPermits => {}
        }
        let lists = after_sync(doing, replies)?.iter().map(|list| Ok(names(doing, list)?.unwrap_or_default().1));
        let lists: Vec<Vec<&str>> = lists.collect::<Result<_>>()?;
        let stranger = |what: &str| Err(foreign(doing, dir, what));
        match (self, &lists[..]) {
            (Place::Line(recipe), [names]) => {
                if let Some(what) = names.iter().find_map(|name| recipe.foreign(name)) {
                    return stranger(what);
                }
                Ok(in_line(recipe, dir, names))
            }
            (Place::Permits, [beside, locks, leases]) => {
                if let Some(what) = beside.iter().find_map(|name| Recipe::beside_permits(name)) {
                    return stranger(what);
                }
                Ok(with_leases(dir, locks, leases))
            }
            (Place::KazooPermits, [permits, line]) => {
                if let Some(what) = permits.iter().find_map(|name| Recipe::beside_kazoos_permits(name)) {
                    return stranger(what);
                }
                Ok(with_permits(dir, permits, line))
            }
            _ => Err(garbled(doing)),
        }
    }
}

/// A reader that came to write has a writer's node, too, which stands first here.
fn in_line(recipe: Recipe, dir: &Arc<str>, names: &[&str]) -> Standing {
    let mut line: Vec<_> = names.iter().filter_map(|name| Some((recipe.place(name)?, *name))).collect();
    line.sort();
    let writes = |name: &str| recipe.pair().is_none_or(|(_, write)| numbered(name, write).is_some());
    let readers = line.iter().take_while(|(_, name)| !writes(name)).count();
    let (held, others) = line.split_at(readers.max(1).min(line.len()));
    let mut holders: Vec<_> = held.iter().map(|(_, name)| vec![(*name).to_owned()]).collect();
    let mut waiting = Vec::new();
    for (_, name) in others {
        let owner = recipe.owner(name);
        match held.iter().position(|(_, held)| recipe.owner(held) == owner) {
            Some(at) => holders[at].insert(0, (*name).to_owned()),
            None => waiting.push(*name),
        }
    }
    let queue = waiting.iter().take(TOLD).map(|name| (child(dir, name), recipe.units(name))).collect();
    Standing { dir: dir.clone(), holders, waiting: waiting.len() as u64, queue, latch: None }
}

/// The first in `locks`, if there is one, waits with what leases it has: the newest, where they do not say whose they
/// are.
fn with_leases(dir: &Arc<str>, locks: &[&str], leases: &[&str]) -> Standing {
    let mut sorted: Vec<_> = leases.iter().map(|name| (numbered(name, LEASE), *name)).collect();
    sorted.sort();
    let mut owners = BTreeMap::new();
    let mut holders: Vec<Vec<String>> = Vec::new();
    for (_, name) in sorted {
        let owner = name.rfind(LEASE).map_or(name, |at| &name[..at]);
        let at = *owners.entry(owner).or_insert(holders.len());
        match holders.get_mut(at) {
            Some(of) => of.push(name.to_owned()),
            None => holders.push(vec![name.to_owned()]),
        }
    }
    let first = locks.iter().filter_map(|name| Some((Recipe::Mutex.place(name)?, *name))).min();
    if let Some((_, first)) = first {
        match owners.get(Recipe::Mutex.owner(first)) {
            Some(at) => drop(holders.remove(*at)),
            None if is_certainly_ours(first) => {}
            None => drop(holders.pop()),
        }
    }
    let (waiting, queue) = for_permits(&child(dir, SEMAPHORE[0]), Recipe::Mutex, locks);
    Standing { dir: child(dir, SEMAPHORE[1]), holders, waiting, queue, latch: None }
}

/// How many stand in the line of the lock in `dir` to be let at the permits, and the nodes of the first of them. For
/// how many permits one waits shows when it is the first.
fn for_permits(dir: &Arc<str>, recipe: Recipe, names: &[&str]) -> (u64, Vec<(Arc<str>, u32)>) {
    let mut asking: Vec<_> = names.iter().filter_map(|name| Some((recipe.place(name)?, *name))).collect();
    asking.sort();
    let queue = asking.iter().take(TOLD).map(|(_, name)| (child(dir, name), 1)).collect();
    (asking.len() as u64, queue)
}

/// Whoever stands in line for kazoo's lock beside them waits; all other nodes are permits.
fn with_permits(dir: &Arc<str>, permits: &[&str], line: &[&str]) -> Standing {
    let mut owners: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for name in permits {
        owners.entry(name.get(..32).unwrap_or(name)).or_default().push((*name).to_owned());
    }
    let mut holders: Vec<_> = owners.into_values().collect();
    holders.iter_mut().for_each(|names| names.sort_unstable());
    let (waiting, queue) = for_permits(&beside(dir), Recipe::KazooLock, line);
    Standing { dir: dir.clone(), holders, waiting, queue, latch: None }
}

fn at_latch(doing: &'static str, dir: &Arc<str>, reads: &[Reply]) -> Result<Standing> {
    let [_, _, waiters] = reads else { return Err(garbled(doing)) };
    let count = counting::counted(doing, dir, &reads[..2])?;
    let waiters = names(doing, waiters)?.unwrap_or_default().1;
    let waiting = waiters.iter().filter(|name| numbered(name, WAITER).is_some()).count() as u64;
    let latch = count.map(|count| Counting { count });
    Ok(Standing { dir: dir.clone(), holders: Vec::new(), waiting, queue: Vec::new(), latch })
}

/// What is looked for, and whether something else may be found.
#[derive(Clone, Copy)]
pub(super) struct Look {
    pub(super) doing: &'static str,
    pub(super) place: Place,
    pub(super) any: bool,
}

/// Finds out who holds in the directory `dir`, and goes on with that.
pub(super) fn look<'a, T: 'a>(
    wanted: Look,
    dir: Arc<str>,
    rounds: u8,
    next: impl FnOnce(Seen) -> Inquiry<'a, T> + Send + 'a,
) -> Inquiry<'a, T> {
    let Look { doing, place, any } = wanted;
    if rounds == 0 {
        let message = "whoever holds the lock changes all the time; look again";
        return Inquiry::Done(Err(Error::new(Kind::Unavailable, doing, message)));
    }
    Inquiry::ask(place.reads(&dir), move |replies| {
        let really = if any { place.found(doing, replies) } else { Ok(place) };
        match really {
            Ok(really) if really != place => return look(Look { place: really, ..wanted }, dir, rounds - 1, next),
            Ok(_) => {}
            Err(error) => return Inquiry::Done(Err(error)),
        }
        let Standing { dir: at, mut holders, waiting, queue, latch } = match place.standing(doing, &dir, replies) {
            Ok(standing) => standing,
            Err(error) => return Inquiry::Done(Err(error)),
        };
        let unlisted = holders.split_off(holders.len().min(MOST_LISTED));
        if holders.is_empty() {
            return next(Seen { place, dir: at, nodes: Vec::new(), unlisted, waiting, queue: Vec::new(), latch });
        }
        let held = holders.iter().filter_map(|names| Some(on(&GET, &child(&at, names.first()?))));
        let reads: Vec<_> = held.chain(queue.iter().map(|(path, _)| on(&GET, path))).collect();
        Inquiry::ask(synced(&at, reads), move |replies| {
            let (nodes, queue) = match read(doing, holders, &queue, replies) {
                Ok(found) => found,
                Err(error) => return Inquiry::Done(Err(error)),
            };
            match nodes.is_empty() {
                true => look(wanted, dir, rounds - 1, next),
                false => next(Seen { place, dir: at, nodes, unlisted, waiting, queue, latch }),
            }
        })
    })
}

/// Who of the holders, and of those who wait, is still there.
fn read(
    doing: &'static str,
    holders: Vec<Vec<String>>,
    queue: &[(Arc<str>, u32)],
    replies: &[Reply],
) -> Result<(Vec<Node>, Vec<Waiting>)> {
    let replies = after_sync(doing, replies)?;
    if replies.len() != holders.len() + queue.len() {
        return Err(garbled(doing));
    }
    let (held, behind) = replies.split_at(holders.len());
    let mut nodes = Vec::with_capacity(holders.len());
    for (names, reply) in holders.into_iter().zip(held) {
        nodes.extend(found(doing, reply)?.map(|(czxid, data)| Node { names, czxid, data }));
    }
    let mut waiting = Vec::with_capacity(queue.len());
    for ((_, units), reply) in queue.iter().zip(behind) {
        let of = |(_, data): (u64, String)| Waiting { card: card(&data), units: *units, ..Waiting::default() };
        waiting.extend(found(doing, reply)?.map(of));
    }
    Ok((nodes, waiting))
}

/// What whoever made a node says of itself. Other libraries write their address, or nothing.
fn card(data: &str) -> Card {
    let (data, _) = split(data);
    match data {
        _ if data.contains('\t') => Card::decode(data),
        // It lies where the holder had written who it is.
        REVOKE => Card::default(),
        _ => Card { host: data.to_owned(), ..Card::default() },
    }
}

/// Takes the lock in the directory `dir` from whoever holds it with `token`.
pub(super) fn break_of<'a>(place: Place, dir: Arc<str>, token: u64) -> Inquiry<'a, bool> {
    look(Look { doing: "break", place, any: true }, dir, MAX_ROUNDS, move |seen| {
        let Some(node) = seen.nodes.iter().find(|node| node.token() == token) else { return Inquiry::Done(Ok(false)) };
        let requests: Requests = node.names.iter().map(|name| delete(child(&seen.dir, name))).collect();
        Inquiry::ask(requests, |replies| {
            let mut was_there = false;
            for reply in replies {
                match deleted("break", reply) {
                    Ok(there) => was_there |= there,
                    Err(error) => return Inquiry::Done(Err(error)),
                }
            }
            Inquiry::Done(Ok(was_there))
        })
    })
}

/// Asks whoever holds the lock in the directory `dir` with `token` to give it back: by writing Curator's message where
/// it has its data.
pub(super) fn ask_back<'a>(dir: Arc<str>, token: u64) -> Inquiry<'a, bool> {
    const DOING: &str = "request_release";
    look(Look { doing: DOING, place: Place::Line(Recipe::Mutex), any: false }, dir, MAX_ROUNDS, move |seen| {
        let holder = seen.nodes.iter().find(|node| node.token() == token);
        let Some(name) = holder.and_then(|node| node.names.first()) else { return Inquiry::Done(Ok(false)) };
        let request = Request::new(&SET, child(&seen.dir, name), [Arg::Text(REVOKE.into())]);
        Inquiry::of(request, |reply| match reply {
            Reply::Nil => Ok(true),
            other => missing::<()>(DOING, other).map(|_| false),
        })
    })
}

impl Node {
    /// What its holder was told.
    fn token(&self) -> u64 {
        split(&self.data).1.unwrap_or(self.czxid)
    }

    fn holder(&self) -> Holder {
        let owner = self.names.first().map_or("", String::as_str);
        Holder {
            owner: sha1_smol::Sha1::from(owner).digest().to_string()[..12].to_owned(),
            card: card(&self.data),
            held_for: None,
            // For as long as its session lives.
            remaining: Duration::MAX,
            first_token: self.token(),
            last_token: self.token(),
        }
    }
}

impl Seen {
    /// What is told of it, as of a lock or of what several may hold.
    pub(super) fn told(&self, nothing: Inspection, primitive: Option<Primitive>) -> Inspection {
        let primitive = primitive.or(self.place.primitive());
        let gate = match self.place {
            Place::Latch if self.latch.is_some() => Some(LATCH),
            Place::Barrier if self.waiting > 0 => Some(BARRIER),
            _ => None,
        };
        if let Some(gate) = gate {
            return Inspection { waiters: self.waiting, primitive: Some(gate), latch: self.latch, ..nothing };
        }
        if self.nodes.is_empty() && self.waiting == 0 {
            return nothing;
        }
        let (holder, mut queue) = (self.nodes.first().map(Node::holder), self.queue.clone());
        let Some(primitive) = primitive else {
            queue.iter_mut().for_each(|one| one.units = 1);
            return Inspection { waiters: self.waiting, holder, queue, ..nothing.of_lock() };
        };
        let units = |names: &[String]| match self.place {
            Place::Line(recipe) => names.iter().map(|name| recipe.units(name)).max().unwrap_or(1),
            Place::Permits | Place::KazooPermits | Place::Latch | Place::Barrier => {
                u32::try_from(names.len()).unwrap_or(u32::MAX)
            }
        };
        let holders: Vec<_> =
            self.nodes.iter().map(|node| Part { holder: node.holder(), units: units(&node.names) }).collect();
        let unlisted: u64 = self.unlisted.iter().map(|names| u64::from(units(names))).sum();
        let held = holders.iter().map(|part| u64::from(part.units)).sum::<u64>() + unlisted;
        let sharing = Sharing { primitive, permits: None, holders, unlisted: self.unlisted.len() as u64, held };
        Inspection {
            holder,
            waiters: self.waiting,
            queue,
            primitive: Some(primitive.name()),
            shared: Some(sharing),
            ..nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The holders of a semaphore by the first digit of their attempts, with `first` in its line.
    fn holders(first: &str) -> String {
        let leases = ["a", "b", "b"].iter().enumerate();
        let leases: Vec<_> = leases.map(|(at, of)| format!("{}lease-{at:010}", node(of, "8"))).collect();
        let leases: Vec<_> = leases.iter().map(String::as_str).collect();
        let standing = with_leases(&"/lk".into(), &[first, &format!("{}lock-0000000009", node("c", "4"))], &leases);
        standing.holders.iter().map(|names| &names[0][3..4]).collect()
    }

    fn node(of: &str, version: &str) -> String {
        format!("_c_{}-{}-{version}000-8000-{}-", of.repeat(8), of.repeat(4), of.repeat(12))
    }

    #[test]
    fn whoever_is_let_at_the_permits_is_no_holder_and_its_leases_are_its_own() {
        let first = |of, version| holders(&format!("{}lock-0000000003", node(of, version)));
        assert_eq!((first("a", "8"), first("b", "8")), ("b".into(), "a".into()));
        // It has none yet.
        assert_eq!(first("d", "8"), "ab");
        // Curator's leases have other numbers than its lock.
        assert_eq!(first("d", "4"), "a");
    }
}
