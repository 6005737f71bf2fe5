//! Whole clients and a lock server on a simulated network and clock, by seed.
//!
//! Connections are refused, cut without a word, and stand still; the server is restarted, or begun again under its
//! connections; clients pause, and their clocks run up to 0.9 % fast or slow. A failing seed prints the end of its
//! history.

#[path = "simulate/client.rs"]
mod client;
#[path = "simulate/doing.rs"]
mod doing;
#[path = "simulate/network.rs"]
mod network;
#[allow(unreachable_pub, reason = "each simulation uses its part")]
#[path = "../../../core/machines/tests/random/mod.rs"]
mod random;
#[path = "simulate/tasks.rs"]
mod tasks;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use client::Client;
use doing::Doing;
use lockwright_lock_server::{Connection, IDLE};
use lockwright_machines::options::AcquireOptions;
use network::{Network, News};
use random::{MS, Random, SECOND};

/// How many seeds are tried.
const RUNS: u64 = 400;
/// Nothing new goes wrong after this.
const CALM: u64 = 20 * SECOND;
/// By then pauses are over and messages have arrived.
const QUIET: u64 = CALM + 10 * SECOND;
/// By then everybody must be through.
const END: u64 = 120 * SECOND;
/// How long a hand-over may take in the end, when all is well.
const SOON: u64 = 20 * MS;
/// What lies at the server, and how many may have it at once.
const NAMES: [(&str, u32); 4] = [("a", 1), ("b", 1), ("c", 2), ("d", READERS)];
const READERS: u32 = 1000;

struct World {
    random: Random,
    now: u64,
    network: Network,
    clients: Vec<Client>,
    /// Exported locks: what of, and the secret.
    secrets: Vec<(usize, String)>,
    tokens: BTreeMap<usize, u64>,
    next_failure: u64,
    grants: u64,
    /// How often a latch was counted down, and how often that is not known.
    counts: (u32, u32),
    /// How parties went on: in which generation, as which of it.
    passages: BTreeSet<(u64, u32)>,
    /// What is held is given back by the test.
    by_hand: bool,
    history: VecDeque<String>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x2545_F491_4F6C_DD1D) + 1);
        let clients = (0..2 + random.below(4)).map(|_| Client::new(&mut random)).collect();
        World {
            random,
            now: 0,
            network: Network::new(),
            clients,
            secrets: Vec::new(),
            tokens: BTreeMap::new(),
            next_failure: 0,
            grants: 0,
            counts: (0, 0),
            passages: BTreeSet::new(),
            by_hand: false,
            history: VecDeque::new(),
        }
    }

    fn note(&mut self, what: impl AsRef<str>) {
        if self.history.len() == 200 {
            self.history.pop_front();
        }
        self.history.push_back(format!("{:>12.6} {}", self.now as f64 / SECOND as f64, what.as_ref()));
    }

    fn is_bad(&self) -> bool {
        self.now < CALM
    }

    /// Until `is_so`, which takes no longer than until `end`.
    fn run(&mut self, end: u64, is_so: impl Fn(&Self) -> bool) {
        while !is_so(self) {
            let goes_on = self.step(end);
            assert!(goes_on || is_so(self), "somebody waits for ever");
        }
    }

    /// So much time passes.
    fn pass(&mut self, time: u64) {
        let end = self.now + time;
        while self.step(end) {}
    }

    /// Whether anything comes to pass before `end`.
    fn step(&mut self, end: u64) -> bool {
        self.settle();
        self.check();
        let next = self.next().filter(|next| *next <= end);
        self.now = self.now.max(next.unwrap_or(end));
        self.arrive();
        next.is_some()
    }

    fn next(&self) -> Option<u64> {
        let failure = self.is_bad().then_some(self.next_failure);
        let of_clients = self.clients.iter().flat_map(|client| {
            let look = client.engine.next_look().map(|due| client.at(due));
            let tasks = client.tasks.iter().filter_map(|doing| doing.due(self.now));
            look.into_iter().chain(tasks).map(|at| at.max(client.paused_until))
        });
        of_clients.chain(failure).chain(self.network.next()).min()
    }

    /// What is due now: first what came, so that nothing counts as late that is there.
    fn arrive(&mut self) {
        if self.is_bad() && self.next_failure <= self.now {
            self.next_failure = self.now + self.random.below(2 * SECOND);
            self.fail();
        }
        for client in 0..self.clients.len() {
            if self.clients[client].paused_until <= self.now {
                let unheard = std::mem::take(&mut self.clients[client].unheard);
                unheard.into_iter().for_each(|(link, news)| self.hear(link, news));
            }
        }
        let bad = self.is_bad();
        while let Some((link, news)) = self.network.deliver(self.now, &mut self.random, bad) {
            match self.network.client(link).map(|client| &mut self.clients[client]) {
                Some(client) if client.paused_until > self.now => client.unheard.push_back((link, news)),
                _ => self.hear(link, news),
            }
        }
        for client in self.clients.iter_mut().filter(|client| client.paused_until <= self.now) {
            let now = client.local(self.now);
            if client.engine.next_look().is_some_and(|due| due <= now) {
                client.engine.look(now);
            }
        }
    }

    fn hear(&mut self, link: Connection, news: News) {
        let Some((client, which)) = self.network.hears(link, &news) else { return };
        let known = &mut self.clients[client];
        let now = known.local(self.now);
        match news {
            News::Dialled => known.engine.dialled(which, now),
            News::Bytes(bytes) => known.engine.came(which, now, &bytes),
            News::Ended(kind) => known.engine.ended(which, now, kind.into()),
        }
        self.act(client);
    }

    /// Does what a client's engine wants done; whether there was anything.
    fn act(&mut self, client: usize) -> bool {
        let mut more = false;
        while let Some(action) = self.clients[client].engine.next_action() {
            let delay = self.random.delay_if(self.is_bad());
            self.network.act(self.now, client, action, delay);
            more = true;
        }
        more
    }

    fn fail(&mut self) {
        let what = if self.random.chance(200) {
            let client = self.random.below(self.clients.len() as u64) as usize;
            self.clients[client].paused_until = self.now + self.random.below(6 * SECOND);
            format!("client {client} pauses")
        } else {
            self.network.fail(self.now, &mut self.random)
        };
        self.note(what);
    }

    /// Everybody goes on until there is nothing to do at once.
    fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 1000, "somebody works for ever");
            let mut more = false;
            for client in 0..self.clients.len() {
                if self.clients[client].paused_until > self.now {
                    continue;
                }
                for task in 0..self.clients[client].tasks.len() {
                    more |= self.advance(client, task);
                }
                more |= self.act(client);
            }
            if !more {
                return;
            }
        }
    }

    /// Nobody believes to have what others have.
    /// Nobody believes to have what others have.
    fn check(&self) {
        let mut held: [Vec<String>; NAMES.len()] = Default::default();
        let mut units = [0; NAMES.len()];
        for (number, client) in self.clients.iter().enumerate() {
            let now = client.local(self.now);
            for (guard, of) in client.tasks.iter().flat_map(Doing::held) {
                let left = guard.remaining(now);
                if !left.is_zero() {
                    units[of.name] += of.units;
                    held[of.name].push(format!("client {number} has {} by {} for {left:?}", of.units, guard.token()));
                }
            }
        }
        for ((units, (name, capacity)), held) in units.into_iter().zip(NAMES).zip(held) {
            assert!(units <= capacity, "too many hold {name}: {}", held.join(", "));
        }
    }

    /// Each hands a lock to each of the others, in order or not, as soon as it is given back.
    fn hand_over(&mut self) {
        self.by_hand = true;
        let all = 0..self.clients.len();
        for (from, to) in all.clone().flat_map(|from| all.clone().map(move |to| (from, to))) {
            let options = AcquireOptions { fair: from < to, ..AcquireOptions::default() };
            let asks = self.acquire(from, 0, options.clone(), None, u64::MAX);
            self.clients[from].tasks = vec![asks];
            self.run(self.now + SECOND, |world| world.holds(from));
            let waits = self.acquire(to, 0, options, None, u64::MAX);
            let held = std::mem::take(&mut self.clients[from].tasks);
            self.clients[to].tasks = vec![waits];
            self.pass(SECOND);
            self.give_back(from, held);
            self.pass(SOON);
            assert!(self.holds(to), "client {from} does not hand over to client {to}");
            let held = std::mem::take(&mut self.clients[to].tasks);
            self.give_back(to, held);
            self.pass(SOON);
        }
    }

    fn holds(&self, client: usize) -> bool {
        self.clients[client].tasks.iter().any(|doing| !doing.held().is_empty())
    }

    fn give_back(&mut self, client: usize, held: Vec<Doing>) {
        let now = self.clients[client].local(self.now);
        for doing in held {
            let Doing::Holds { mut guard, .. } = doing else { panic!("it is held") };
            self.clients[client].engine.let_go(now, &mut guard);
        }
    }

    /// Everybody goes, and leaves nothing.
    fn close(&mut self) {
        for client in &mut self.clients {
            let now = client.local(self.now);
            client.engine.close(now);
        }
        self.run(self.now + SECOND, |world| world.clients.iter().all(|client| client.engine.is_over()));
        let later = self.network.store_time(self.now + 400 * SECOND).after(IDLE);
        let Network { server, disk, .. } = &mut self.network;
        assert!(!server.sweep(later, disk), "{:?} are left", disk.keys().collect::<Vec<_>>());
    }
}

/// Plays one seed; how often something was granted, a latch counted down, a barrier passed.
fn simulate(seed: u64) -> [u64; 3] {
    let mut world = World::new(seed);
    let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let is_through = |client: &Client| client.tasks.iter().all(|doing| matches!(doing, Doing::Ended));
        world.run(END, |world| world.clients.iter().all(is_through));
        // A server that refused a subscription is asked again after a minute.
        world.pass(70 * SECOND);
        world.count();
        world.hand_over();
        world.close();
    }));
    if played.is_err() {
        panic!("seed {seed}\n{}", world.history.make_contiguous().join("\n"));
    }
    [world.grants, world.counts.0.into(), world.passages.len() as u64]
}

#[test]
fn nobody_believes_what_others_hold_and_everybody_hears_again() {
    let add = |sum: [u64; 3], played: [u64; 3]| std::array::from_fn(|i| sum[i] + played[i]);
    let done = (0..RUNS).map(simulate).fold([0; 3], add);
    println!("{RUNS} seeds: grants, counts and passages {done:?}");
    assert!(done.iter().all(|done| *done > RUNS * 4), "hardly anything was done: {done:?}");
}
