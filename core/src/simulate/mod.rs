//! Whole clients, and a server, the nodes of a quorum, a Redis server, a Redis Cluster, a Redis master with a replica
//! and sentinels, a memcached, an ensemble of ZooKeeper's, or a cluster of etcd's, on a simulated network and clock, by
//! seed: the driver with its tasks, timers and batches, and for the last six its connections, of bytes on sockets,
//! where the machines' own simulations have sessions alone.
//!
//! Connections are refused, and break without a word; requests and pushes are late or lost; nodes are restarted, empty
//! or not; the machine is suspended; tasks give up whatever they wait for; clients are closed, and new ones come. A
//! failing seed prints the end of its history.

mod life;
mod servers;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use crate::client::{Client, Guard};
use crate::driver::hold::SharedHold;
use crate::lease::ReleaseOutcome;
use crate::options::ConnectOptions;
use crate::platform::mutex::locked;
use crate::platform::simulated::network::Network;
use crate::platform::simulated::random::{MS, Random};
use crate::platform::simulated::sockets::BROKEN;
use crate::platform::{clock, simulated};
use crate::stores::etcd::simulated::Cluster;
use crate::stores::memcached::simulated::Server as Memcached;
use crate::stores::redis::simulated::Server;
use crate::stores::zookeeper::simulated::Ensemble;
use crate::time::Time;
use servers::Servers;

/// How many seeds are tried with one server, with nodes of a quorum, with Redis, with a Redis Cluster, with a Redis
/// master and its replica, with memcached, with an ensemble of ZooKeeper's, and with a cluster of etcd's.
const RUNS: u64 = 100;
const QUORUM_RUNS: u64 = 50;
const REDIS_RUNS: u64 = 40;
const CLUSTER_RUNS: u64 = 30;
const SENTINEL_RUNS: u64 = 40;
const MEMCACHED_RUNS: u64 = 40;
const ZOOKEEPER_RUNS: u64 = 40;
const ETCD_RUNS: u64 = 20;
/// For so long things go wrong.
const BAD: Duration = Duration::from_secs(20);
/// Then everybody stops, and goes home within this.
const ENDS: Duration = Duration::from_secs(60);
/// How a lock is handed over then: in order or not, and whether all connections break meanwhile.
const ROUNDS: [(bool, bool); 3] = [(false, false), (true, false), (false, true)];
/// How long a request may take in the end, when all is well.
const SOON: Duration = Duration::from_millis(20);
/// How long it may take to have from a quorum what was given back: whoever waits there asks again now and then.
const LATER: Duration = Duration::from_millis(200);
/// The longest lease.
const LONGEST_TTL: Duration = Duration::from_secs(3);
/// So many nodes are a quorum.
const NODES: usize = 3;
/// What lies at the server, and how many may have it at once. The last two are the segments of one.
const NAMES: [(&str, u32); 6] = [("a", 1), ("b", 1), ("c", 2), ("d", READERS), ("e", 1), ("e", 1)];
const SEGMENTS: usize = 2;
const READERS: u32 = 1000;

/// See the [module](self).
struct World {
    network: Arc<Network>,
    setup: Setup,
    place: Place,
    random: Mutex<Random>,
    is_bad: Mutex<bool>,
    beliefs: Mutex<Vec<Arc<Belief>>>,
    /// What stays taken though it was given back, and until when.
    kept: Mutex<Vec<(usize, Time)>>,
    /// Exported locks: what of, and the secret.
    secrets: Mutex<VecDeque<(usize, String)>>,
    tokens: Mutex<BTreeMap<usize, u64>>,
    grants: AtomicU64,
    /// How often a latch was counted down, and how often that is not known.
    counts: [AtomicU32; 2],
    /// How parties went on: in which generation, as which of it.
    passages: Mutex<BTreeSet<(u64, u32)>>,
    history: Mutex<VecDeque<String>>,
}

/// What clients connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setup {
    Server,
    /// Nodes of a quorum: fewer things can lie there, and nobody waits in order.
    Nodes(usize),
    /// A Redis server, restarted with what it has.
    Redis,
    /// The nodes of a Redis Cluster, between which slots are moved.
    RedisCluster,
    /// A Redis master with a replica, and sentinels.
    RedisSentinel,
    /// A memcached: one alone holds what lies there, and nobody waits in order.
    Memcached,
    /// An ensemble of ZooKeeper's, where what lies lasts as long as a client's session.
    ZooKeeper,
    /// A cluster of etcd's, where what lies lasts as long as a client's lease.
    Etcd,
}

impl Setup {
    fn is_quorum(self) -> bool {
        matches!(self, Setup::Nodes(_))
    }

    /// Whether there are lines, semaphores, latches and barriers. Else whoever waits asks again now and then.
    fn has_lines(self) -> bool {
        !self.is_quorum() && self != Setup::Memcached
    }

    /// Whether nothing is lost that was answered.
    fn keeps_all(self) -> bool {
        self != Setup::RedisSentinel
    }

    /// How long leases are, in milliseconds.
    fn ttls(self) -> [u64; 3] {
        match self {
            Setup::Memcached => [1000, 2000, 3000],
            Setup::Nodes(_) => [600, 1000, 3000],
            _ => [300, 1000, 3000],
        }
    }

    /// How long it may take in the end, when all is well, to have what is free.
    fn soon(self) -> Duration {
        // Where there are sessions it takes several steps.
        match self {
            Setup::ZooKeeper | Setup::RedisCluster | Setup::RedisSentinel => 5 * SOON,
            Setup::Etcd => 10 * SOON,
            _ => SOON,
        }
    }

    /// Whether what is held lasts as long as its client's session, or lease.
    fn has_sessions(self) -> bool {
        matches!(self, Setup::ZooKeeper | Setup::Etcd)
    }

    /// For how long the store may be asked in vain. On ZooKeeper and etcd that is one thing after the other.
    fn patience(self) -> Duration {
        life::STORE_TIMEOUT * if self.has_sessions() { 4 } else { 1 }
    }

    /// Whether what is held has a lease of its own, which can be extended, passed on and kept for a while.
    fn have_leases(self) -> bool {
        matches!(self, Setup::Server | Setup::Redis | Setup::RedisCluster | Setup::RedisSentinel)
    }

    /// After how long everything that went wrong is over, and each side of a connection that broke knows that: whoever
    /// asks nothing by itself finds out late.
    fn settles(self) -> Duration {
        let found = if self == Setup::Server || self.is_quorum() { Duration::ZERO } else { BROKEN };
        found + Duration::from_secs(5)
    }
}

/// Where they find it.
enum Place {
    Servers(Arc<Servers>),
    Redis(Arc<Server>),
    RedisCluster(Arc<Server>),
    RedisSentinel(Arc<Server>),
    Memcached(Arc<Memcached>),
    ZooKeeper(Arc<Ensemble>),
    Etcd(Arc<Cluster>),
}

impl Place {
    fn address(&self) -> String {
        match self {
            Place::Servers(servers) => servers.address(),
            Place::Redis(_) => Server::address(),
            Place::RedisCluster(_) => Server::cluster_address(),
            Place::RedisSentinel(_) => Server::watched_address(),
            Place::Memcached(_) => Memcached::address(LONGEST_TTL),
            Place::ZooKeeper(_) => Ensemble::address(LONGEST_TTL),
            Place::Etcd(_) => Cluster::address(LONGEST_TTL),
        }
    }

    /// Something goes wrong.
    fn fail(&self) {
        match self {
            Place::Servers(servers) => servers.fail(),
            Place::Redis(server) | Place::RedisCluster(server) | Place::RedisSentinel(server) => server.fail(),
            Place::Memcached(server) => server.fail(),
            Place::ZooKeeper(ensemble) => ensemble.fail(),
            Place::Etcd(cluster) => cluster.fail(),
        }
    }

    /// All connections break.
    fn cut(&self) {
        match self {
            Place::Servers(servers) => servers.cut(),
            Place::Redis(server) | Place::RedisCluster(server) | Place::RedisSentinel(server) => {
                server.sockets.cut(None)
            }
            Place::Memcached(server) => server.sockets.cut(None),
            Place::ZooKeeper(ensemble) => ensemble.sockets.cut(None),
            Place::Etcd(cluster) => cluster.sockets.cut(None),
        }
    }
}

/// Somebody has a guard.
struct Belief {
    who: usize,
    name: usize,
    units: AtomicU32,
    hold: SharedHold,
}

impl Belief {
    fn left(&self) -> Duration {
        if self.hold.is_over() { Duration::ZERO } else { self.hold.remaining() }
    }
}

impl World {
    fn new(seed: u64, setup: Setup) -> Arc<Self> {
        let seed = seed.wrapping_mul(0x2545_F491_4F6C_DD1D) + 1;
        let network = Network::new(seed);
        Arc::new(World {
            setup,
            place: match setup {
                Setup::Server => Place::Servers(Servers::new(&network, 1)),
                Setup::Nodes(count) => Place::Servers(Servers::new(&network, count)),
                Setup::Redis => Place::Redis(Server::new(&network)),
                Setup::RedisCluster => Place::RedisCluster(Server::cluster(&network)),
                Setup::RedisSentinel => Place::RedisSentinel(Server::watched(&network)),
                Setup::Memcached => Place::Memcached(Memcached::new(&network)),
                Setup::ZooKeeper => Place::ZooKeeper(Ensemble::new(&network)),
                Setup::Etcd => Place::Etcd(Cluster::new(&network)),
            },
            network,
            random: Mutex::new(Random(seed ^ 1)),
            is_bad: Mutex::new(true),
            beliefs: Mutex::default(),
            kept: Mutex::default(),
            secrets: Mutex::default(),
            tokens: Mutex::default(),
            grants: AtomicU64::new(0),
            counts: Default::default(),
            passages: Mutex::default(),
            history: Mutex::default(),
        })
    }

    fn below(&self, end: u64) -> u64 {
        locked(&self.random).below(end)
    }

    fn chance(&self, per_thousand: u64) -> bool {
        locked(&self.random).chance(per_thousand)
    }

    /// Some time below `millis`.
    fn span(&self, millis: u64) -> Duration {
        Duration::from_nanos(self.below(millis * MS))
    }

    fn is_bad(&self) -> bool {
        *locked(&self.is_bad)
    }

    /// Tells of what happened until something went wrong.
    fn note(&self, what: impl AsRef<str>) {
        if PANICS.get() > 0 {
            return;
        }
        let mut history = locked(&self.history);
        if history.len() == 200 {
            history.pop_front();
        }
        history.push_back(format!("{:>12.6} {}", clock::now().as_nanos() as f64 / 1e9, what.as_ref()));
    }

    /// Nobody believes to have what others have.
    fn check(&self) {
        let mut held: [Vec<String>; NAMES.len()] = Default::default();
        let mut units = [0; NAMES.len()];
        for belief in locked(&self.beliefs).iter() {
            let (left, of) = (belief.left(), belief.units.load(Ordering::Relaxed));
            if !left.is_zero() {
                units[belief.name] += of;
                let token = belief.hold.token();
                held[belief.name].push(format!("client {} has {of} by {token} for {left:?}", belief.who));
            }
        }
        let mut kept = locked(&self.kept);
        kept.retain(|(_, until)| *until > clock::now());
        for (name, until) in kept.iter() {
            units[*name] += 1;
            held[*name].push(format!("it stays taken for {:?}", until.since(clock::now())));
        }
        for ((units, (name, capacity)), held) in units.into_iter().zip(NAMES).zip(held) {
            assert!(units <= capacity, "too many hold {name}: {}", held.join(", "));
        }
    }

    /// Whoever has this guard believes so until it is forgotten.
    fn believe(&self, who: usize, name: usize, units: u32, guard: &Guard) -> Arc<Belief> {
        let hold = guard.holding().expect("it is held").hold.clone();
        let belief = Arc::new(Belief { who, name, units: AtomicU32::new(units), hold });
        locked(&self.beliefs).push(belief.clone());
        self.check();
        belief
    }

    fn forget(&self, belief: &Arc<Belief>) {
        locked(&self.beliefs).retain(|known| !Arc::ptr_eq(known, belief));
    }

    /// Tokens of what one alone holds rise. Those of nodes are only as good as their clocks, which these do not go by.
    fn rises(&self, name: usize, token: u64, resumed: bool) {
        if NAMES[name].1 > 1 || self.setup.is_quorum() {
            return;
        }
        let last = locked(&self.tokens).insert(name, token).unwrap_or_default();
        assert!(token > last || resumed && token == last, "token {token} after {last}");
    }

    /// What goes wrong.
    async fn fail(&self) {
        loop {
            sleep(self.span(2000)).await;
            if self.chance(150) {
                let span = self.span(4000);
                self.note(format!("the machine is suspended for {span:?}"));
                self.network.suspend(span);
                self.check();
            } else {
                self.note("connections break");
                self.place.fail();
            }
        }
    }

    fn open(&self) -> Client {
        Client::open(Some(&self.place.address()), ConnectOptions::default()).expect("a client")
    }

    /// Each gets within that time what is free.
    async fn get_all(&self, clients: &[Client], within: Duration) {
        for (client, (name, capacity)) in clients.iter().flat_map(|client| NAMES.map(|of| (client, of))) {
            let builder = match capacity {
                1 => client.lock(name),
                READERS if self.setup != Setup::Memcached => client.rwlock(name).write(),
                _ if !self.setup.has_lines() => continue,
                permits => client.semaphore(name, permits),
            };
            let held = timeout(within, builder.acquire()).await.expect("it is free").expect("a guard");
            assert_eq!(held.release().await.expect("an answer"), ReleaseOutcome::Released);
        }
    }

    /// Each hands a lock to each of the others, in order or not, as soon as it is given back, also where all
    /// connections broke meanwhile.
    async fn hand_over(&self, clients: &[Client]) {
        let soon = if self.setup.has_lines() { self.setup.soon() } else { LATER };
        let rounds: &[_] = if self.setup.has_lines() { &ROUNDS } else { &[(false, false)] };
        for (is_fair, breaks) in rounds {
            let pairs = clients.iter().flat_map(|from| clients.iter().map(move |to| (from, to)));
            for (from, to) in pairs {
                let lock = |client: &Client| {
                    let builder = client.lock("a");
                    if *is_fair { builder.fair() } else { builder }.build().expect("a lock")
                };
                let held =
                    timeout(self.setup.soon(), lock(from).acquire()).await.expect("it is free").expect("a guard");
                let (to, waits) = (lock(to), tokio::time::Instant::now());
                let next = tokio::spawn(async move { to.acquire().await });
                sleep(Duration::from_secs(1)).await;
                if *breaks {
                    self.place.cut();
                    sleep(Duration::from_secs(1)).await;
                }
                assert_eq!(held.release().await.expect("an answer"), ReleaseOutcome::Released);
                let next = timeout(soon, next).await;
                assert!(next.is_ok(), "it was not handed over, {:?} after it was asked for", waits.elapsed());
                let next = next.map(Result::unwrap).expect("in time").expect("a guard");
                assert_eq!(next.release().await.expect("an answer"), ReleaseOutcome::Released);
            }
        }
    }

    /// What counted a latch down did so once.
    async fn count(&self, client: &Client) {
        let left = life::latch(client).count().await.expect("an answer");
        let [known, unknown] = [0, 1].map(|i| self.counts[i].load(Ordering::Relaxed));
        let down = life::COUNT - left;
        assert!((known..=known + unknown).contains(&down), "{down} times, and {known} or {unknown} more were to be");
    }

    async fn play(self: Arc<Self>) {
        match &self.place {
            Place::ZooKeeper(ensemble) => ensemble.begin(),
            Place::Etcd(cluster) => cluster.begin(),
            _ => {}
        }
        let (looking, failing) = (self.clone(), self.clone());
        let network = tokio::spawn(self.network.clone().run(move || looking.check()));
        let failures = tokio::spawn(async move { failing.fail().await });
        let programs: Vec<_> = (0..2 + self.below(4) as usize)
            .map(|who| tokio::spawn(life::program(self.clone(), who, clock::now().after(BAD))))
            .collect();
        sleep(BAD).await;
        failures.abort();
        self.network.calm_down();
        *locked(&self.is_bad) = false;
        let mut clients = Vec::new();
        for program in programs {
            clients.push(timeout(ENDS, program).await.expect("somebody waits for ever").expect("no panic"));
        }
        // What was exported, or left to its lease, is free by then.
        sleep(self.setup.settles()).await;
        if !matches!(self.setup, Setup::Server | Setup::ZooKeeper | Setup::Etcd) {
            // Each client finds that servers are there again, that nodes are not young which nobody asked since their
            // restart, and which of its connections are of no use.
            self.get_all(&clients, ENDS).await;
        }
        if self.setup.has_lines() && self.setup.keeps_all() {
            self.count(&clients[0]).await;
        }
        self.get_all(&clients, self.setup.soon()).await;
        self.hand_over(&clients).await;
        // What was given up was undone, and cannot come to pass any more.
        sleep(Duration::from_secs(10)).await;
        for client in &clients {
            let engine = client.lock("a").build().expect("a lock").engine().expect("an engine");
            assert!(engine.live_entries().iter().all(|entry| entry.is_idle()), "somebody is not through with a lock");
        }
        clients.truncate(1);
        clients[0].close().await;
        sleep(Duration::from_secs(120)).await;
        let alive = Handle::current().metrics().num_alive_tasks();
        assert!(!network.is_finished(), "what came to pass was looked at");
        network.abort();
        assert_eq!(alive, 2, "tasks of clients that are gone");
    }
}

thread_local! {
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// Counts what panics in a simulation, also where the driver survives it.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.set(PANICS.get() + 1);
            before(panic);
        }));
    });
}

/// Plays one seed with these servers.
fn play(seed: u64, setup: Setup) -> Arc<World> {
    count_panics();
    PANICS.set(0);
    let world = World::new(seed, setup);
    let playing = world.clone();
    let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| simulated::run(playing.play())));
    if played.is_err() || PANICS.get() > 0 {
        panic!("seed {seed}\n{}", locked(&world.history).make_contiguous().join("\n"));
    }
    world
}

/// How often in one seed something is granted, a latch counted down, a barrier passed.
fn simulate(seed: u64, setup: Setup) -> [u64; 3] {
    let world = play(seed, setup);
    let passages = locked(&world.passages).len() as u64;
    [world.grants.load(Ordering::Relaxed), world.counts[0].load(Ordering::Relaxed).into(), passages]
}

/// Plays so many seeds, in each of which everything is done a few times.
fn simulate_all(runs: u64, setup: Setup) {
    let add = |sum: [u64; 3], played: [u64; 3]| std::array::from_fn(|i| sum[i] + played[i]);
    let done = (0..runs).map(|seed| simulate(seed, setup)).fold([0; 3], add);
    println!("{runs} seeds: grants, counts and passages {done:?}");
    assert!(done.iter().all(|done| *done > runs * 2), "hardly anything was done: {done:?}");
}

/// The same where there are locks alone.
fn simulate_locks(runs: u64, setup: Setup) {
    let grants: u64 = (0..runs).map(|seed| simulate(seed, setup)[0]).sum();
    println!("{runs} seeds: {grants} grants");
    assert!(grants > runs * 4, "hardly anything was done: {grants}");
}

#[test]
fn nobody_believes_what_others_hold_and_everybody_hears_again() {
    simulate_all(RUNS, Setup::Server);
}

#[test]
fn nobody_believes_what_others_hold_on_redis_and_everybody_hears_again() {
    simulate_all(REDIS_RUNS, Setup::Redis);
}

#[test]
fn nobody_believes_what_others_hold_on_a_redis_cluster_and_everybody_hears_again() {
    simulate_all(CLUSTER_RUNS, Setup::RedisCluster);
}

#[test]
fn nobody_believes_what_others_hold_while_sentinels_name_another_master() {
    simulate_locks(SENTINEL_RUNS, Setup::RedisSentinel);
}

#[test]
fn nobody_believes_what_others_hold_on_memcached() {
    simulate_locks(MEMCACHED_RUNS, Setup::Memcached);
}

#[test]
fn nobody_believes_what_others_hold_on_zookeeper_and_everybody_hears_again() {
    simulate_all(ZOOKEEPER_RUNS, Setup::ZooKeeper);
}

#[test]
fn nobody_believes_what_others_hold_on_etcd_and_everybody_hears_again() {
    simulate_all(ETCD_RUNS, Setup::Etcd);
}

#[test]
fn nobody_believes_what_others_hold_on_a_majority_of_nodes() {
    simulate_locks(QUORUM_RUNS, Setup::Nodes(NODES));
}

#[test]
fn a_seed_plays_the_same_history_each_time() {
    let of_one = [Setup::Server, Setup::Redis, Setup::Memcached];
    let of_several = [Setup::Nodes(NODES), Setup::RedisCluster, Setup::RedisSentinel, Setup::ZooKeeper, Setup::Etcd];
    for setup in of_one.into_iter().chain(of_several) {
        let [once, again] = [(), ()].map(|()| {
            let world = play(0, setup);
            let history = locked(&world.history);
            // Each server has a name of its own.
            let lines = history.iter().map(|line| line.split(" on memory:").next().unwrap_or_default().to_owned());
            lines.collect::<Vec<_>>()
        });
        assert!(once.len() > 20, "{once:?}");
        assert_eq!(once, again, "{setup:?}");
    }
}

/// A client of servers on a network that is well.
fn well(network: &Arc<Network>, address: &str) -> Client {
    network.calm_down();
    drop(tokio::spawn(network.clone().run(|| ())));
    Client::open(Some(address), ConnectOptions::default()).expect("a client")
}

#[test]
fn a_machine_that_is_suspended_during_a_ping_finds_that_locks_can_be_had() {
    simulated::run(async {
        let network = Network::new(u64::MAX);
        let client = well(&network, &Servers::new(&network, 1).address());
        let pings = tokio::spawn(async move { client.ping().await });
        tokio::task::yield_now().await;
        network.suspend(Duration::from_secs(3600));
        pings.await.expect("no panic").expect("an answer");
    });
}

#[test]
fn a_machine_that_is_suspended_while_it_reads_the_clock_of_a_memcached_stores_nothing_for_ever() {
    simulated::run(async {
        let network = Network::new(1);
        let _server = Memcached::new(&network);
        let client = well(&network, &Memcached::address(LONGEST_TTL));
        let lock = client.lock("a").build().expect("a lock");
        let held = lock.acquire().await.expect("a guard");
        assert_eq!(held.release().await.expect("an answer"), ReleaseOutcome::Released);
        // Then the clock has to be read again.
        sleep(Duration::from_secs(60)).await;
        let acquiring = tokio::spawn(async move { lock.acquire().await });
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        network.suspend(Duration::from_secs(60));
        // It may be too late for this one. The server takes nothing that never ends.
        drop(timeout(ENDS, acquiring).await.expect("an answer").expect("no panic"));
        let held = client.lock("a").build().expect("a lock").acquire().await.expect("a guard");
        assert_eq!(held.release().await.expect("an answer"), ReleaseOutcome::Released);
    });
}
