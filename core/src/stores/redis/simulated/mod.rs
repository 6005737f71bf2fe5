//! A Redis server, the nodes of a cluster, or a master and its replica with their sentinels, on the simulated network.
//! They are restarted with what they have, and stand still now and then; slots move from one node to another while
//! their locks are in use.

mod node;
mod replicas;
mod shards;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use self::node::{Come, Node, Published, Role, Said, Talk};
use self::replicas::Pair;
use self::shards::Slots;
use super::slots;
use crate::platform::clock;
use crate::platform::mutex::locked;
use crate::platform::simulated::network::{At, Network};
use crate::platform::simulated::random::{MS, SECOND};
use crate::platform::simulated::sockets::{Connection, Host, Sockets, host};
use crate::time::Time;

/// So many nodes are a cluster, and so many sentinels watch.
const NODES: usize = 3;

/// See the [module](self).
pub(crate) struct Server {
    pub(crate) sockets: Arc<Sockets>,
    network: Arc<Network>,
    state: Mutex<State>,
}

struct State {
    nodes: Vec<Node>,
    /// The node at the other end of each connection.
    ends: BTreeMap<Connection, usize>,
    /// When the last of what one node told another arrives.
    told: BTreeMap<(usize, usize), Time>,
    /// How many slots were moved.
    moves: u64,
    /// The master and its replica, where sentinels watch over them.
    pair: Option<Pair>,
}

/// A slot on its way from one node to another.
#[derive(Clone, Copy)]
struct Move {
    number: u64,
    slot: u16,
    from: usize,
    to: usize,
}

impl State {
    fn slots(&mut self, node: usize) -> &mut Slots {
        self.nodes[node].slots.as_mut().expect("it is one of a cluster")
    }
}

impl Server {
    /// One on this network.
    pub(crate) fn new(network: &Arc<Network>) -> Arc<Self> {
        Server::of(network, vec![Node::default()], None)
    }

    /// The nodes of a cluster on this network.
    pub(crate) fn cluster(network: &Arc<Network>) -> Arc<Self> {
        Server::of(
            network,
            (0..NODES).map(|me| Node::new(me, Role::Master, Some(Slots::of(me, NODES)))).collect(),
            None,
        )
    }

    /// A master, its replica, and sentinels on this network.
    pub(crate) fn watched(network: &Arc<Network>) -> Arc<Self> {
        Server::of(network, replicas::nodes(), Some(Pair::new()))
    }

    fn of(network: &Arc<Network>, nodes: Vec<Node>, pair: Option<Pair>) -> Arc<Self> {
        Arc::new_cyclic(|me| Server {
            sockets: Sockets::new(network, me.clone()),
            network: network.clone(),
            state: Mutex::new(State { nodes, ends: BTreeMap::new(), told: BTreeMap::new(), moves: 0, pair }),
        })
    }

    /// Where clients find it.
    pub(crate) fn address() -> String {
        format!("redis://{}", host(0))
    }

    /// Where clients find the nodes of a cluster.
    pub(crate) fn cluster_address() -> String {
        format!("redis+cluster://{}", [0, 1, 2].map(host).join(","))
    }

    /// Where clients find sentinels.
    pub(crate) fn watched_address() -> String {
        replicas::address()
    }

    fn comes(self: &Arc<Self>, node: usize, come: Come) {
        locked(&self.state).nodes[node].come(come);
        self.look(node);
    }

    fn look(self: &Arc<Self>, node: usize) {
        loop {
            let Some(Said { on, published, wrote }) = locked(&self.state).nodes[node].look() else { return };
            on.into_iter().for_each(|(connection, bytes)| self.sockets.send(connection, bytes));
            published.into_iter().for_each(|published| self.tell_others(node, &published));
            self.replicate(node, wrote);
        }
    }

    /// The nodes of a cluster tell one another what is published.
    fn tell_others(self: &Arc<Self>, from: usize, published: &Published) {
        let nodes = if locked(&self.state).nodes[from].slots.is_some() { NODES } else { 0 };
        for to in (0..nodes).filter(|to| *to != from) {
            let due = self.due(from, to);
            let (server, published) = (self.clone(), published.clone());
            self.network.say(due, At::Server, move || server.comes(to, Come::Published(published)));
        }
    }

    /// When what one tells another now arrives there, which is after all that it told it before.
    fn due(&self, from: usize, to: usize) -> Time {
        let delay = self.network.delay();
        let mut state = locked(&self.state);
        let told = state.told.entry((from, to)).or_insert(Time::ZERO);
        *told = (*told).max(clock::now().after(delay));
        *told
    }

    /// One does nothing for so long, while connections are made, and bytes come.
    fn stand_still(self: &Arc<Self>, node: usize, span: Duration) {
        let until = clock::now().after(span);
        locked(&self.state).nodes[node].stands_until(until);
        let server = self.clone();
        self.network.say(until, At::Server, move || server.look(node));
    }

    /// For how long it is away.
    fn restart(&self, node: usize) -> Duration {
        let (down, loads) = (self.network.below(2 * SECOND), self.network.below(500 * MS));
        let up = clock::now().after(down);
        locked(&self.state).nodes[node].restart(up, up.after(loads));
        self.sockets.shut_out(node, down);
        down + loads
    }

    /// One ends one of its connections, as an administrator may have it do.
    fn end_one(&self, node: usize) {
        let talks: Vec<_> = locked(&self.state).nodes[node].talks.keys().copied().collect();
        let at = self.network.one_of(talks.len());
        if let Some(connection) = talks.get(at) {
            locked(&self.state).nodes[node].talks.remove(connection);
            self.sockets.close(*connection);
        }
    }

    /// A slot in which something lies is brought to another node.
    fn begin_move(self: &Arc<Self>) {
        let (one, other) = (self.network.one_of(usize::MAX), 1 + self.network.one_of(NODES - 1));
        let moved = {
            let mut state = locked(&self.state);
            let all = state.nodes.iter().enumerate();
            let keys: Vec<_> =
                all.flat_map(|(from, node)| node.records.keys().map(move |key| (from, slots::of(key)))).collect();
            let Some((from, slot)) = keys.get(one % keys.len().max(1)).copied() else { return };
            let to = (from + other) % NODES;
            // Both know who has it.
            let is_known = [from, to].iter().all(|node| state.slots(*node).owner(slot) == from);
            if !is_known || !state.slots(from).leaving.is_empty() {
                return;
            }
            state.moves += 1;
            state.slots(to).coming.insert(slot, from);
            state.slots(from).leaving.insert(slot, to);
            Move { number: state.moves, slot, from, to }
        };
        self.go_on(moved);
    }

    fn go_on(self: &Arc<Self>, moved: Move) {
        let server = self.clone();
        self.network.after(self.network.below(50 * MS), At::Server, move || server.carry(moved));
    }

    /// The next of its locks is brought there. Behind the last the node that has them knows that the slot is its own,
    /// and the others hear of it.
    fn carry(self: &Arc<Self>, moved @ Move { number, slot, from, to }: Move) {
        {
            let mut state = locked(&self.state);
            if state.nodes[from].is_away() || state.nodes[to].is_away() {
                drop(state);
                return self.go_on(moved);
            }
            let next = state.nodes[from].records.keys().find(|key| slots::of(key) == slot).cloned();
            if let Some((key, record)) = next.and_then(|key| state.nodes[from].records.remove_entry(&key)) {
                state.nodes[to].records.insert(key, record);
                drop(state);
                return self.go_on(moved);
            }
            state.slots(to).set(slot, to, number);
        }
        for node in (0..NODES).filter(|node| *node != to) {
            let server = self.clone();
            let heard = move || locked(&server.state).slots(node).set(slot, to, number);
            self.network.after(self.network.below(SECOND), At::Server, heard);
        }
    }

    /// Something goes wrong: connections break or go silent, a node ends one, is restarted, lets nobody in, stands
    /// still, or forgets the scripts; or a slot moves, or a replica takes over.
    pub(crate) fn fail(self: &Arc<Self>) {
        let (nodes, is_pair) = {
            let state = locked(&self.state);
            (state.nodes.len(), state.pair.is_some())
        };
        let node = self.network.one_of(nodes);
        match self.network.below(if nodes > 1 { 24 } else { 14 }).as_nanos() {
            0 | 1 | 14.. if is_pair => self.fail_over(),
            0 | 1 => drop(self.restart(node)),
            2 => self.sockets.shut_out(node, self.network.below(4 * SECOND)),
            3 => self.stand_still(node, self.network.below(3 * SECOND)),
            4 => self.end_one(node),
            5 => locked(&self.state).nodes[node].scripts.clear(),
            6 | 7 => self.sockets.go_silent(),
            8..14 => self.sockets.cut_one(),
            _ => self.begin_move(),
        }
    }
}

impl Host for Server {
    fn opened(&self, connection: Connection, server: usize) {
        let mut state = locked(&self.state);
        state.ends.insert(connection, server);
        state.nodes[server].talks.insert(connection, Talk::default());
    }

    fn came(self: Arc<Self>, connection: Connection, bytes: &[u8]) {
        let node = locked(&self.state).ends[&connection];
        self.comes(node, Come::Bytes(connection, bytes.to_vec()));
    }

    fn ended(&self, connection: Connection) {
        let mut state = locked(&self.state);
        if let Some(node) = state.ends.remove(&connection) {
            // It is looked at before the next command.
            state.nodes[node].come(Come::End(connection));
        }
    }
}
