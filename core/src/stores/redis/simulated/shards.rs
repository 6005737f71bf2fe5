//! What a node of a cluster knows of who has which slot, and what it says to those who ask it for what others have.
//!
//! Sources: `getNodeByQuery` and `clusterUpdateState` in `cluster.c` of Redis 7.2, and the page of `CLUSTER SETSLOT`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::node::{Answer, refused};
use crate::platform::clock;
use crate::platform::simulated::sockets::host;
use crate::protocol::Reply;
use crate::stores::redis::slots::{self, SLOTS};
use crate::time::Time;

/// The port of every node.
const PORT: u16 = 6379;
/// So long a node of a cluster that was restarted serves no keys: it may have been replaced.
const WRITABLE_DELAY: Duration = Duration::from_secs(2);

/// See the [module](self).
pub(super) struct Slots {
    me: usize,
    owners: Vec<usize>,
    /// Which move it was that brought a slot to its owner.
    moves: BTreeMap<u16, u64>,
    /// Slots on their way to another node, and which one that is.
    pub(super) leaving: BTreeMap<u16, usize>,
    /// Slots on their way here.
    pub(super) coming: BTreeMap<u16, usize>,
    /// The cluster is down for it until then.
    down_until: Time,
}

impl Slots {
    /// Those of one of so many nodes, where each has as many as the others.
    pub(super) fn of(me: usize, count: usize) -> Self {
        let owners = (0..SLOTS).map(|slot| slot * count / SLOTS).collect();
        Slots {
            me,
            owners,
            moves: BTreeMap::new(),
            leaving: BTreeMap::new(),
            coming: BTreeMap::new(),
            down_until: Time::ZERO,
        }
    }

    pub(super) fn owner(&self, slot: u16) -> usize {
        self.owners[usize::from(slot)]
    }

    /// It hears that `node` has it since that move, unless it knows of a later one.
    pub(super) fn set(&mut self, slot: u16, node: usize, number: u64) {
        if self.moves.get(&slot).is_some_and(|known| *known > number) {
            return;
        }
        self.moves.insert(slot, number);
        self.owners[usize::from(slot)] = node;
        self.leaving.remove(&slot);
        self.coming.remove(&slot);
    }

    pub(super) fn restarted(&mut self, up: Time) {
        self.down_until = up.after(WRITABLE_DELAY);
    }

    /// The answer to `CLUSTER SLOTS`.
    pub(super) fn told(&self) -> Reply {
        let mut first = 0;
        let ranges = self.owners.chunk_by(|one, next| one == next).map(|range| {
            let last = first + range.len() as i64 - 1;
            let node =
                vec![Reply::Text(host(range[0])), Reply::Int(PORT.into()), Reply::Text(format!("{:040x}", range[0]))];
            let range = Reply::List(vec![Reply::Int(first), Reply::Int(last), Reply::List(node)]);
            first = last + 1;
            range
        });
        Reply::List(ranges.collect())
    }

    /// What is said to a command with these keys that is not for this node, or not now.
    pub(super) fn redirect(&self, keys: &[&str], asking: bool, is_here: impl Fn(&str) -> bool) -> Option<Answer> {
        let slot = slots::of(keys[0]);
        if keys.iter().any(|key| slots::of(key) != slot) {
            return Some(refused("CROSSSLOT", "Keys in request don't hash to the same slot"));
        }
        if clock::now() < self.down_until {
            return Some(refused("CLUSTERDOWN", "The cluster is down"));
        }
        let here = keys.iter().filter(|key| is_here(key)).count();
        let (owner, is_whole) = (self.owner(slot), here == keys.len());
        match (self.leaving.get(&slot), self.coming.contains_key(&slot)) {
            (Some(_), _) if here > 0 && !is_whole => Some(again()),
            (Some(node), _) if !is_whole => Some(elsewhere("ASK", slot, *node)),
            (None, true) if asking => (keys.len() > 1 && !is_whole).then(again),
            _ => (owner != self.me).then(|| elsewhere("MOVED", slot, owner)),
        }
    }
}

fn again() -> Answer {
    refused("TRYAGAIN", "Multiple keys request during rehashing of slot")
}

fn elsewhere(code: &str, slot: u16, node: usize) -> Answer {
    refused(code, format!("{slot} {}:{PORT}", host(node)))
}
