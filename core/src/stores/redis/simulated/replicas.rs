//! A master with a replica, over which sentinels watch: the master is stopped, killed, or well, another one takes over
//! that may not have heard of the last writes, and the lost one follows it in the end. What is lost, and who still
//! serves when, is within what the page of the store asks of an operator (`docs.md`, "Fail-over").
//!
//! Sources: the pages of replication and of Sentinel, and `sentinel.c` of Redis 7.2
//! (`sentinelFailoverReconfNextSlave`, `sentinelRefreshInstanceInfo`: a master that comes back is told to follow after
//! some seconds, by `CLIENT KILL` as well).

use std::sync::Arc;
use std::time::Duration;

use super::node::{Node, Role, Wrote};
use super::{NODES, Server};
use crate::platform::clock;
use crate::platform::mutex::locked;
use crate::platform::simulated::network::At;
use crate::platform::simulated::random::{MS, SECOND};
use crate::platform::simulated::sockets::host;
use crate::time::Time;

/// The first is the master at first, the other one follows it.
const PAIR: usize = 2;
/// What clients say as `failover_delay`, in seconds: no lease is longer.
const DELAY: u64 = 3;
/// There and back it does not go sooner.
const SELDOM: Duration = Duration::from_secs(DELAY + 1);

/// How it stands with them.
pub(super) struct Pair {
    master: usize,
    /// Whether the other one follows it.
    is_followed: bool,
    /// Which line of replication it is: of those before it nothing arrives any more.
    line: u64,
    promoted: Time,
}

/// A master with a replica, and sentinels.
pub(super) fn nodes() -> Vec<Node> {
    let sentinels = [Role::Sentinel { named: 0 }; NODES];
    let roles = [Role::Master, Role::Replica].into_iter().chain(sentinels);
    roles.enumerate().map(|(me, role)| Node::new(me, role, None)).collect()
}

/// Where clients find the sentinels, how long a new master grants nothing, and the longest lease.
pub(super) fn address() -> String {
    let sentinels: Vec<_> = (PAIR..PAIR + NODES).map(host).collect();
    format!("redis+sentinel://{}/mymaster?failover_delay={DELAY}s&ttl={DELAY}s", sentinels.join(","))
}

impl Pair {
    pub(super) fn new() -> Self {
        Pair { master: 0, is_followed: true, line: 0, promoted: Time::ZERO }
    }
}

impl Server {
    /// The replica hears of what was written at its master.
    pub(super) fn replicate(self: &Arc<Self>, from: usize, wrote: Vec<Wrote>) {
        let (to, line) = match &locked(&self.state).pair {
            Some(pair) if pair.master == from && pair.is_followed => (PAIR - 1 - from, pair.line),
            _ => return,
        };
        if wrote.is_empty() {
            return;
        }
        let server = self.clone();
        let due = self.due(from, to);
        self.network.say(due, At::Server, move || {
            let mut state = locked(&server.state);
            if state.pair.as_ref().is_some_and(|pair| pair.line == line) {
                wrote.into_iter().for_each(|wrote| state.nodes[to].keep(wrote));
            }
        });
    }

    /// The replica takes over: the master was stopped, or killed, or nothing is wrong with it.
    pub(super) fn fail_over(self: &Arc<Self>) {
        let master = match &locked(&self.state).pair {
            Some(pair) if pair.is_followed && clock::now() >= pair.promoted.after(SELDOM) => pair.master,
            _ => return,
        };
        let span = match self.network.below(3).as_nanos() {
            0 => {
                let span = self.network.below(8 * SECOND);
                self.stand_still(master, span);
                span
            }
            1 => self.restart(master),
            _ => Duration::ZERO,
        };
        let up = clock::now().after(span);
        let server = self.clone();
        self.network.after(self.network.below(2 * SECOND), At::Server, move || server.promote(master, up));
    }

    /// The other one is the master from now on, as the sentinels hear. The lost one, which goes on then, is told within
    /// a second, or, if it comes back later, some seconds behind that.
    fn promote(self: &Arc<Self>, lost: usize, up: Time) {
        let (now, master) = (clock::now(), PAIR - 1 - lost);
        {
            let mut state = locked(&self.state);
            let Some(pair) = state.pair.as_mut().filter(|pair| pair.master == lost && pair.is_followed) else { return };
            pair.line += 1;
            (pair.master, pair.is_followed, pair.promoted) = (master, false, now);
            state.nodes[master].role = Role::Master;
        }
        for sentinel in PAIR..PAIR + NODES {
            let server = self.clone();
            let hears = move || locked(&server.state).nodes[sentinel].role = Role::Sentinel { named: master };
            self.network.after(self.network.below(SECOND), At::Server, hears);
        }
        let told = if up > now { self.network.below(8 * SECOND) } else { self.network.below(SECOND) };
        let server = self.clone();
        self.network.say(up.max(now).after(told), At::Server, move || server.demote(lost));
    }

    /// It follows the other one, and its connections are ended.
    fn demote(self: &Arc<Self>, lost: usize) {
        {
            let mut state = locked(&self.state);
            state.nodes[lost].role = Role::Replica;
            state.nodes[lost].talks.clear();
        }
        self.sockets.cut(Some(lost));
        self.follow(lost);
    }

    /// As soon as both are there it gets all that the master has.
    fn follow(self: &Arc<Self>, replica: usize) {
        let server = self.clone();
        self.network.after(self.network.below(500 * MS), At::Server, move || {
            let mut state = locked(&server.state);
            let master = PAIR - 1 - replica;
            if state.nodes[master].is_away() || state.nodes[replica].is_away() {
                drop(state);
                return server.follow(replica);
            }
            let all = state.nodes[master].data();
            state.nodes[replica].replace(all);
            if let Some(pair) = &mut state.pair {
                pair.line += 1;
                pair.is_followed = true;
            }
        });
    }
}
