//! A cluster on the simulated network, as etcd's are: a leader that orders what changes anything, and members that have
//! it some time later, each with its own clients and what they watch. Leases end by the leader's clock, and last for
//! their whole time again where another one leads. Members are restarted with what they have, and are cut off from the
//! leader; history is compacted; what was asked may be done after its time was over.
//!
//! Sources: the pages and the code of etcd 3.5 (`v3_server.go`, `lessor.go`, `watchable_store.go`, `v3rpc/watch.go`,
//! `v3rpc/lease.go`, `v3rpc/interceptor.go`).

mod grpc;
mod kv;
mod words;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prost::Message;

use self::grpc::{Call, Heard, Said, Talk, parsed};
use self::kv::{Entry, Kv, Made, is_of};
use self::words::{
    Done, Event, Grant, Leased, Leases, Members, OfLease, OneMember, Op, Range, Status, Txn, Watch, WatchCreate,
    Watched,
};
use crate::platform::clock;
use crate::platform::mutex::locked;
use crate::platform::simulated::network::{At, Network};
use crate::platform::simulated::random::SECOND;
use crate::platform::simulated::sockets::{Connection, Host, Sockets, host};
use crate::time::Time;

/// So many members.
const MEMBERS: usize = 3;
/// How often the leader looks for leases that are over; etcd does every half second, which hides who errs by less.
const LOOKS: Duration = Duration::from_millis(50);
/// How long leases last beyond their time where another one leads: that may have taken it so long.
const ELECTION: Duration = Duration::from_secs(1);
/// No lease lasts for less, in seconds.
const SHORTEST: i64 = 2;
/// Within this it is tried again to tell a watch what happened before it was there.
const SYNCS: u64 = SECOND / 10;
/// How often history is compacted, at most.
const COMPACTS: u64 = 8 * SECOND;
/// For how long a member knows no leader before it ends the streams of those who want one.
const LEADERLESS: Duration = Duration::from_secs(3);

/// For how long a member that is to stop answers what it was asked.
const FAREWELL: Duration = Duration::from_secs(1);
/// What goes on for as long as somebody listens.
const STREAMS: [&str; 2] = ["/etcdserverpb.Watch/Watch", "/etcdserverpb.Lease/LeaseKeepAlive"];

const NOT_FOUND: u8 = 5;
const UNAVAILABLE: u8 = 14;
const NO_LEASE: Said = Said::Error(NOT_FOUND, "etcdserver: requested lease not found");
const NO_LEADER: Said = Said::Error(UNAVAILABLE, "etcdserver: no leader");
const LEADER_CHANGED: Said = Said::Error(UNAVAILABLE, "etcdserver: leader changed");
const TIMED_OUT: Said = Said::Error(UNAVAILABLE, "etcdserver: request timed out");
const TOO_MANY: Said = Said::Error(8, "etcdserver: too many requests");

/// See the [module](self).
pub(crate) struct Cluster {
    pub(crate) sockets: Arc<Sockets>,
    network: Arc<Network>,
    state: Mutex<State>,
    talks: Mutex<BTreeMap<Connection, Talk>>,
}

struct State {
    /// As it is after all that was ordered.
    kv: Kv,
    leases: BTreeMap<i64, Lease>,
    members: [Member; MEMBERS],
    leader: usize,
    /// Counts those who led.
    term: u64,
    /// Nobody leads before this.
    leads_from: Time,
    numbers: u64,
}

/// A lease, as the leader knows it.
struct Lease {
    ttl: Duration,
    ends: Time,
    is_ending: bool,
}

struct Member {
    kv: Kv,
    /// Counts its restarts.
    run: u64,
    /// When the last of what was said to the leader, and by it, arrives.
    last: [Time; 2],
    /// It neither hears the leader nor is heard before this.
    cut_off_until: Time,
    /// When it finds that it hears none.
    misses_from: Time,
    watches: BTreeMap<(Connection, Call, i64), Watches>,
}

/// What somebody watches.
struct Watches {
    create: WatchCreate,
    /// All before this was told.
    next: i64,
    /// It is told what happens when it does.
    is_synced: bool,
}

/// Who asked.
#[derive(Clone, Copy)]
struct Place {
    member: usize,
    connection: Connection,
    call: Call,
}

const TO_LEADER: usize = 0;
const TO_MEMBER: usize = 1;

impl Cluster {
    /// One on this network.
    pub(crate) fn new(network: &Arc<Network>) -> Arc<Self> {
        let kv = Kv::new();
        let members = [(); MEMBERS].map(|()| Member {
            kv: kv.clone(),
            run: 0,
            last: [Time::ZERO; 2],
            cut_off_until: Time::ZERO,
            misses_from: Time::ZERO,
            watches: BTreeMap::new(),
        });
        let leases = BTreeMap::new();
        let state = State { kv, leases, members, leader: 0, term: 1, leads_from: Time::ZERO, numbers: 0 };
        Arc::new_cyclic(|me| Cluster {
            sockets: Sockets::new(network, me.clone()),
            network: network.clone(),
            state: Mutex::new(state),
            talks: Mutex::default(),
        })
    }

    /// Begins to do what it does by itself.
    pub(crate) fn begin(self: &Arc<Self>) {
        self.clone().ends_leases();
        self.clone().compacts();
    }

    /// Where clients find it, whose locks last for so long.
    pub(crate) fn address(ttl: Duration) -> String {
        let hosts: Vec<_> = (0..MEMBERS).map(host).collect();
        format!("etcd://{}/?ttl={}ms", hosts.join(","), ttl.as_millis())
    }

    /// Has a connection go on after something came, or is to be said.
    fn go_on(self: &Arc<Self>, connection: Connection, with: impl FnOnce(&mut Talk)) {
        let (member, heard, leaves, is_over) = {
            let mut talks = locked(&self.talks);
            let Some(talk) = talks.get_mut(&connection) else { return };
            with(talk);
            (talk.member, talk.go_on(), talk.leaves(), talk.is_over())
        };
        if !leaves.is_empty() {
            self.sockets.send(connection, leaves);
        }
        for heard in heard {
            match heard {
                Heard::Asked(call, path, message) => self.asked(Place { member, connection, call }, &path, &message),
                Heard::Left(call) => self.left(Place { member, connection, call }),
            }
        }
        if is_over {
            self.forget(connection);
            self.sockets.close(connection);
        }
    }

    fn say(self: &Arc<Self>, to: Place, said: Said) {
        self.go_on(to.connection, |talk| talk.say(to.call, said));
    }

    fn forget(&self, connection: Connection) {
        locked(&self.talks).remove(&connection);
        let mut state = locked(&self.state);
        state.members.iter_mut().for_each(|member| member.watches.retain(|known, _| known.0 != connection));
    }

    /// Something said between a member and the leader comes to pass behind all that was said before, unless the member
    /// was restarted.
    fn between(self: &Arc<Self>, member: usize, to: usize, event: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let delay = self.network.delay();
        let (due, run) = {
            let mut state = locked(&self.state);
            let State { members, leader, leads_from, .. } = &mut *state;
            let known = &mut members[member];
            let arrives = clock::now().after(if member == *leader { Duration::ZERO } else { delay });
            let arrives = arrives.max(known.cut_off_until);
            let arrives = if to == TO_LEADER { arrives.max(*leads_from) } else { arrives };
            known.last[to] = known.last[to].max(arrives);
            (known.last[to], known.run)
        };
        let cluster = self.clone();
        let event = move || {
            if locked(&cluster.state).members[member].run == run {
                event(&cluster);
            }
        };
        self.network.say(due, At::Server, event);
    }

    /// Something that is to be ordered; where another one leads by then, it is lost, or forwarded.
    fn asks_leader(self: &Arc<Self>, member: usize, event: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let term = locked(&self.state).term;
        self.between(member, TO_LEADER, move |cluster| {
            if locked(&cluster.state).term == term {
                event(cluster);
            } else if cluster.network.chance(500) {
                cluster.asks_leader(member, event);
            }
        });
    }

    fn leader_says(self: &Arc<Self>, member: usize, event: impl FnOnce(&Arc<Self>) + Send + 'static) {
        self.between(member, TO_MEMBER, event);
    }

    /// The leader orders something, and all members make it; what became of it is for whoever asked.
    fn order(self: &Arc<Self>, entry: Entry, asked: Option<(Place, Telling)>) {
        {
            let mut state = locked(&self.state);
            let _ = state.kv.make(&entry);
            if let Entry::Revoke { id } = entry {
                state.leases.remove(&id);
            }
        }
        let mut asked = asked;
        for member in 0..MEMBERS {
            let entry = entry.clone();
            let asked = asked.take_if(|(place, _)| place.member == member);
            self.leader_says(member, move |cluster| cluster.make(member, &entry, asked));
        }
    }

    /// A member makes what was ordered, tells who watches it, and answers who asked it for that.
    fn make(self: &Arc<Self>, member: usize, entry: &Entry, asked: Option<(Place, Telling)>) {
        let (told, answer) = {
            let mut state = locked(&self.state);
            let Member { kv, watches, .. } = &mut state.members[member];
            let made = kv.make(entry);
            let told = watches.iter_mut().filter(|(_, watched)| watched.is_synced);
            let told: Vec<_> = told
                .filter_map(|(known, watched)| Some((place(member, *known), watched.tells(known.2, kv)?)))
                .collect();
            (told, asked.map(|(place, tells)| (place, tells(kv, made))))
        };
        told.into_iter().for_each(|(to, watched)| self.say(to, Said::Part(watched.encode_to_vec())));
        if let Some((place, said)) = answer {
            self.say(place, said);
        }
    }

    fn asked(self: &Arc<Self>, from: Place, path: &str, message: &[u8]) {
        let member = from.member;
        if self.knows_no_leader(member) && !self.watches(from) {
            return self.say(from, NO_LEADER);
        }
        match path {
            "/etcdserverpb.Watch/Watch" => return self.watch(from, parsed(message)),
            "/etcdserverpb.Lease/LeaseKeepAlive" => {
                let OfLease { id, .. } = parsed(message);
                return self.renew(from, id);
            }
            _ => {}
        }
        if self.network.chance(2) {
            return self.say(from, TOO_MANY);
        }
        // Whether that is done then or not.
        let (late, cluster) = (self.timeout(), self.clone());
        self.network.after(late, At::Server, move || cluster.say(from, TIMED_OUT));
        match path {
            "/etcdserverpb.KV/Range" => {
                let range: Range = parsed(message);
                self.read(from, move |kv| kv.range(&range).encode_to_vec());
            }
            "/etcdserverpb.KV/Txn" => {
                let txn: Txn = parsed(message);
                let is_write = |op: &Op| op.put.is_some() || op.delete.is_some();
                if !txn.success.iter().chain(&txn.failure).any(is_write) {
                    return self.read(from, move |kv| kv.read(&txn).encode_to_vec());
                }
                self.write(from, Entry::Txn(txn), |_, made| match made {
                    Made::Txn(done) => Said::All(done.encode_to_vec()),
                    _ => NO_LEASE,
                });
            }
            "/etcdserverpb.Lease/LeaseGrant" => {
                let Grant { ttl } = parsed(message);
                let ttl = ttl.max(SHORTEST);
                self.asks_leader(member, move |cluster| cluster.grant(from, ttl));
            }
            "/etcdserverpb.Lease/LeaseRevoke" => {
                let OfLease { id, .. } = parsed(message);
                self.write(from, Entry::Revoke { id }, |kv, made| match made {
                    Made::Done => Said::All(Done { header: kv.header(), deleted: 0 }.encode_to_vec()),
                    _ => NO_LEASE,
                });
            }
            "/etcdserverpb.Lease/LeaseTimeToLive" => self.lives(from, parsed(message)),
            "/etcdserverpb.Lease/LeaseLeases" => self.read(from, |kv| {
                let leases = kv.leases.keys().map(|id| OfLease { id: *id, keys: false }).collect();
                Leases { header: kv.header(), leases }.encode_to_vec()
            }),
            "/etcdserverpb.Maintenance/Status" => {
                let header = locked(&self.state).members[member].kv.header();
                let status = Status { header, version: "3.5.21".into(), size: 4096, leader: 1 };
                self.say(from, Said::All(status.encode_to_vec()));
            }
            "/etcdserverpb.Cluster/MemberList" => self.read(from, |kv| {
                let members = (1..=MEMBERS as u64).map(|id| OneMember { id }).collect();
                Members { header: kv.header(), members }.encode_to_vec()
            }),
            other => panic!("no member here knows {other}"),
        }
    }

    fn knows_no_leader(&self, member: usize) -> bool {
        let state = locked(&self.state);
        let (now, known) = (clock::now(), &state.members[member]);
        // It takes it a while to find out.
        now >= known.misses_from && now < known.cut_off_until.max(state.leads_from)
    }

    /// Whether something is watched by this call.
    fn watches(&self, by: Place) -> bool {
        let (from, to) = ((by.connection, by.call, i64::MIN), (by.connection, by.call, i64::MAX));
        locked(&self.state).members[by.member].watches.range(from..=to).next().is_some()
    }

    /// How long a member tries; by its configuration that is seven seconds, unless it says less.
    fn timeout(&self) -> Duration {
        let shorter = if self.network.chance(200) { self.network.below(5 * SECOND) } else { Duration::ZERO };
        Duration::from_secs(7) - shorter
    }

    /// Reads what is newest: the member has all that was ordered until then when it hears of the leader.
    fn read(self: &Arc<Self>, from: Place, reads: impl FnOnce(&Kv) -> Vec<u8> + Send + 'static) {
        let term = locked(&self.state).term;
        self.between(from.member, TO_LEADER, move |cluster| {
            cluster.leader_says(from.member, move |cluster| {
                let answer = {
                    let state = locked(&cluster.state);
                    let is_same = state.term == term;
                    if is_same { Said::All(reads(&state.members[from.member].kv)) } else { LEADER_CHANGED }
                };
                cluster.say(from, answer);
            });
        });
    }

    fn write(self: &Arc<Self>, from: Place, entry: Entry, tells: impl FnOnce(&Kv, Made) -> Said + Send + 'static) {
        self.asks_leader(from.member, move |cluster| cluster.order(entry, Some((from, Box::new(tells)))));
    }

    fn grant(self: &Arc<Self>, from: Place, seconds: i64) {
        let id = {
            let mut state = locked(&self.state);
            state.numbers += 1;
            let (id, ttl) = (0x1000 + state.numbers as i64, Duration::from_secs(seconds as u64));
            state.leases.insert(id, Lease { ttl, ends: clock::now().after(ttl), is_ending: false });
            id
        };
        let tells = move |kv: &Kv, _| {
            Said::All(Leased { header: kv.header(), id, ttl: seconds, keys: Vec::new() }.encode_to_vec())
        };
        self.order(Entry::Grant { id }, Some((from, Box::new(tells))));
    }

    /// Between members, aside from the log: it may overtake what was ordered.
    fn aside(self: &Arc<Self>, member: usize, event: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let now = clock::now();
        let (delay, run) = {
            let state = locked(&self.state);
            let known = &state.members[member];
            let held = known.cut_off_until.max(state.leads_from).since(now);
            (held, known.run)
        };
        let cluster = self.clone();
        self.network.after(delay + self.network.delay(), At::Server, move || {
            if locked(&cluster.state).members[member].run == run {
                event(&cluster);
            }
        });
    }

    /// A lease lasts for its whole time from when the leader hears of this.
    fn renew(self: &Arc<Self>, from: Place, id: i64) {
        self.aside(from.member, move |cluster| {
            let now = clock::now();
            let ttl = {
                let mut state = locked(&cluster.state);
                if now < state.leads_from {
                    drop(state);
                    return cluster.renew(from, id);
                }
                match state.leases.get_mut(&id) {
                    None => 0,
                    // It is told when it has ended.
                    Some(lease) if lease.is_ending || lease.ends <= now => {
                        drop(state);
                        let again = cluster.clone();
                        cluster.network.after(LOOKS, At::Server, move || again.renew(from, id));
                        return;
                    }
                    Some(lease) => {
                        lease.ends = now.after(lease.ttl);
                        lease.ttl.as_secs() as i64
                    }
                }
            };
            cluster.aside(from.member, move |cluster| {
                let header = locked(&cluster.state).members[from.member].kv.header();
                let alive = Leased { header, id, ttl, keys: Vec::new() };
                cluster.say(from, Said::Part(alive.encode_to_vec()));
            });
        });
    }

    fn lives(self: &Arc<Self>, from: Place, asked: OfLease) {
        self.aside(from.member, move |cluster| {
            let left = |lease: &Lease| lease.ends.since(clock::now()).as_secs() as i64;
            let ttl = locked(&cluster.state).leases.get(&asked.id).map_or(-1, left);
            cluster.aside(from.member, move |cluster| {
                let told = {
                    let kv = &locked(&cluster.state).members[from.member].kv;
                    let keys = kv.leases.get(&asked.id).filter(|_| asked.keys && ttl >= 0).into_iter().flatten();
                    Leased { header: kv.header(), id: asked.id, ttl, keys: keys.cloned().collect() }
                };
                cluster.say(from, Said::All(told.encode_to_vec()));
            });
        });
    }

    fn watch(self: &Arc<Self>, from: Place, asked: Watch) {
        let Place { member, connection, call } = from;
        let (mut told, mut syncs) = (None, false);
        {
            let mut state = locked(&self.state);
            let Member { kv, watches, .. } = &mut state.members[member];
            let header = kv.header();
            if let Some(create) = asked.create {
                let id = create.id;
                let next = if create.from == 0 { kv.revision + 1 } else { create.from };
                syncs = next <= kv.revision;
                let before = watches.insert((connection, call, id), Watches { create, next, is_synced: !syncs });
                assert!(before.is_none(), "two are to be watched as {id}");
                told = Some(Watched { header, id, created: true, ..Watched::default() });
            }
            if let Some(cancel) = asked.cancel
                && watches.remove(&(connection, call, cancel.id)).is_some()
            {
                told = Some(Watched { header, id: cancel.id, canceled: true, ..Watched::default() });
            }
        }
        told.into_iter().for_each(|told| self.say(from, Said::Part(told.encode_to_vec())));
        if syncs {
            let cluster = self.clone();
            self.network.after(self.network.below(SYNCS), At::Server, move || cluster.sync(member));
        }
    }

    /// Those who watch what happened before hear of it, unless it is not known any more.
    fn sync(self: &Arc<Self>, member: usize) {
        let mut told = Vec::new();
        {
            let mut state = locked(&self.state);
            let Member { kv, watches, .. } = &mut state.members[member];
            watches.retain(|known, watched| {
                let is_gone = !watched.is_synced && watched.next < kv.compacted;
                if is_gone {
                    let reason = "mvcc: required revision has been compacted".into();
                    let (header, id, compacted) = (kv.header(), known.2, kv.compacted);
                    let (canceled, created, events) = (true, false, Vec::new());
                    let told_that = Watched { header, id, created, canceled, compacted, reason, events };
                    told.push((place(member, *known), told_that));
                } else if !watched.is_synced {
                    watched.is_synced = true;
                    told.extend(watched.tells(known.2, kv).map(|watched| (place(member, *known), watched)));
                }
                !is_gone
            });
        }
        told.into_iter().for_each(|(to, watched)| self.say(to, Said::Part(watched.encode_to_vec())));
    }

    fn ends_leases(self: Arc<Self>) {
        let over: Vec<i64> = {
            let mut state = locked(&self.state);
            let now = clock::now();
            let leads = now >= state.leads_from;
            let over = state.leases.iter_mut().filter(|(_, lease)| leads && lease.ends <= now && !lease.is_ending);
            over.map(|(id, lease)| {
                lease.is_ending = true;
                *id
            })
            .collect()
        };
        for id in over {
            let delay = self.network.delay();
            let cluster = self.clone();
            let term = locked(&self.state).term;
            self.network.after(delay, At::Server, move || {
                if locked(&cluster.state).term == term {
                    cluster.order(Entry::Revoke { id }, None);
                }
            });
        }
        let network = self.network.clone();
        network.after(LOOKS, At::Server, move || self.ends_leases());
    }

    fn compacts(self: Arc<Self>) {
        let until = locked(&self.state).kv.revision;
        let is_new = until > locked(&self.state).kv.compacted;
        if is_new {
            self.order(Entry::Compact { until }, None);
        }
        let network = self.network.clone();
        network.after(network.below(COMPACTS), At::Server, move || self.compacts());
    }

    /// Another one leads after a while; what was asked until then is lost or not, and leases last for their whole time
    /// again.
    fn elect(self: &Arc<Self>) {
        let from = clock::now().after(self.network.below(4 * SECOND));
        {
            let mut state = locked(&self.state);
            state.leader = (state.leader + 1) % MEMBERS;
            state.term += 1;
            state.leads_from = state.leads_from.max(from);
            let from = state.leads_from;
            for lease in state.leases.values_mut() {
                (lease.ends, lease.is_ending) = (from.after(lease.ttl).after(ELECTION), false);
            }
        }
        (0..MEMBERS).for_each(|member| self.misses_leader(member));
    }

    /// A member neither hears the leader nor is heard for so long.
    fn cut_off(self: &Arc<Self>, member: usize, span: Duration) {
        if locked(&self.state).leader == member {
            self.elect();
        }
        locked(&self.state).members[member].cut_off_until = clock::now().after(span);
        self.misses_leader(member);
    }

    /// A member finds some time that it hears no leader, and tells those who want one when that has been so for long.
    fn misses_leader(self: &Arc<Self>, member: usize) {
        let finds = self.network.below(SECOND);
        locked(&self.state).members[member].misses_from = clock::now().after(finds);
        let cluster = self.clone();
        self.network.after(LEADERLESS, At::Server, move || {
            if cluster.knows_no_leader(member) {
                cluster.end_streams_of(member);
            }
        });
    }

    fn end_streams_of(self: &Arc<Self>, member: usize) {
        let talks = locked(&self.talks);
        let of_it = talks.iter().filter(|(_, talk)| talk.member == member);
        let streams = of_it.flat_map(|(connection, talk)| talk.calls_of(&STREAMS).map(|call| (*connection, call)));
        let streams: Vec<_> = streams.map(|(connection, call)| Place { member, connection, call }).collect();
        drop(talks);
        for stream in streams {
            self.left(stream);
            self.say(stream, NO_LEADER);
        }
    }

    /// Nobody waits for more that this call was to tell.
    fn left(&self, by: Place) {
        let is_other = |known: &(Connection, Call, i64)| (known.0, known.1) != (by.connection, by.call);
        locked(&self.state).members[by.member].watches.retain(|known, _| is_other(known));
    }

    /// A member is stopped, after it said so or not, and comes again with what the leader has.
    fn restart(self: &Arc<Self>, member: usize) {
        if !self.network.chance(300) {
            return self.stop(member);
        }
        let of_it = |(number, talk): (&Connection, &Talk)| (talk.member == member).then_some(*number);
        let talks: Vec<_> = locked(&self.talks).iter().filter_map(of_it).collect();
        talks.into_iter().for_each(|connection| self.go_on(connection, Talk::says_farewell));
        let cluster = self.clone();
        self.network.after(FAREWELL, At::Server, move || cluster.stop(member));
    }

    fn stop(self: &Arc<Self>, member: usize) {
        let (sockets, down) = (&self.sockets, self.network.below(2 * SECOND));
        if locked(&self.state).leader == member {
            self.elect();
        }
        {
            let mut state = locked(&self.state);
            let State { kv, members, .. } = &mut *state;
            let known = &mut members[member];
            (known.run, known.kv) = (known.run + 1, kv.clone());
            known.watches.clear();
        }
        locked(&self.talks).retain(|_, talk| talk.member != member);
        sockets.shut_out(member, down);
    }

    /// Something goes wrong: connections break, a member is restarted, lets nobody in or is cut off from the leader, or
    /// another one leads.
    pub(crate) fn fail(self: &Arc<Self>) {
        let member = self.network.one_of(MEMBERS);
        match self.network.below(12).as_nanos() {
            0 | 1 => self.elect(),
            2 | 3 => self.restart(member),
            4 => {
                self.sockets.shut_out(member, self.network.below(4 * SECOND));
            }
            5 | 6 => self.cut_off(member, self.network.below(5 * SECOND)),
            _ => self.sockets.cut_one(),
        }
    }
}

/// How whoever asked is answered.
type Telling = Box<dyn FnOnce(&Kv, Made) -> Said + Send>;

fn place(member: usize, (connection, call, _): (Connection, Call, i64)) -> Place {
    Place { member, connection, call }
}

impl Watches {
    /// What happened since it was told of it last; nothing where that is nothing it wants.
    fn tells(&mut self, id: i64, kv: &Kv) -> Option<Watched> {
        let create = &self.create;
        let is_wanted = |event: &&Event| {
            let is_in = event.kv.as_ref().is_some_and(|kv| is_of(&kv.key, &create.key, &create.end));
            is_in && !create.filters.contains(&event.kind)
        };
        let events: Vec<_> = kv.happened(self.next).iter().filter(is_wanted).cloned().collect();
        self.next = self.next.max(kv.revision + 1);
        (!events.is_empty()).then(|| Watched { header: kv.header(), id, events, ..Watched::default() })
    }
}

impl Host for Cluster {
    fn opened(&self, connection: Connection, server: usize) {
        locked(&self.talks).insert(connection, Talk::new(server));
    }

    fn came(self: Arc<Self>, connection: Connection, bytes: &[u8]) {
        self.go_on(connection, |talk| talk.came(bytes));
    }

    fn ended(&self, connection: Connection) {
        self.forget(connection);
    }
}
