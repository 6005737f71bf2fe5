//! Whole clients and a lock server on a simulated network and clock, by seed.
//!
//! Connections are refused, cut without a word, and stand still; the server is restarted, or begun again under its
//! connections; clients pause, and their clocks run up to 0.9 % fast or slow. A failing seed prints the end of its
//! history.

#[path = "simulate/network.rs"]
mod network;
#[allow(unreachable_pub, reason = "each simulation uses its part")]
#[path = "../../../core/machines/tests/random/mod.rs"]
mod random;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use lockwright_lock_server::{Connection, IDLE};
use lockwright_machines::barrier_cell::Passage;
use lockwright_machines::error::{Error, Kind};
use lockwright_machines::layout_choice::Of;
use lockwright_machines::options::AcquireOptions;
use lockwright_machines::share::Share;
use lockwright_machines::time::Time;
use lockwright_wasm_engine::redis::{Config, Redis};
use lockwright_wasm_engine::{Asked, Engine, Guard, Latch, Outcome, Ticket};
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
/// For how long the store may be asked in vain, by the clock of whoever asks.
const STORE_TIMEOUT: u64 = 5 * SECOND + 50 * MS;
/// What lies at the server, and how many may have it at once.
const NAMES: [(&str, u32); 4] = [("a", 1), ("b", 1), ("c", 2), ("d", READERS)];
const READERS: u32 = 1000;
/// The latch counts from this.
const COUNT: u32 = 10_000;
/// So many meet at the barrier.
const PARTIES: u32 = 2;

enum Doing {
    /// Nothing, until then.
    Rests(u64),
    Acquires {
        asked: Asked,
        of: Held,
        /// It does not look before.
        from: u64,
        /// When it is given up.
        until: u64,
    },
    Holds {
        guard: Guard,
        of: Held,
        until: u64,
    },
    Renews {
        guard: Guard,
        of: Held,
        until: u64,
        ticket: Ticket,
    },
    /// A reader would write, or a writer only read.
    Changes {
        guard: Guard,
        of: Held,
        to: Share,
        until: u64,
        ticket: Ticket,
    },
    Exports {
        guard: Guard,
        of: Held,
        /// Then it is released after all.
        until: u64,
        ticket: Ticket,
    },
    /// Two locks together.
    AcquiresAll(Ticket, u64),
    HoldsAll(Vec<Guard>, u64),
    Releases(Ticket),
    /// Something beside the locks, which is answered by then.
    Inquires(Ticket, u64),
    Counts(Ticket),
    Meets(Asked),
    Ended,
}

/// What a task has, or wants.
#[derive(Clone, Copy, Debug)]
struct Held {
    name: usize,
    units: u32,
    resumed: bool,
}

struct Client {
    engine: Engine<Redis>,
    /// Its clock runs so many parts in a million too fast.
    drift: i64,
    paused_until: u64,
    /// What came meanwhile.
    unheard: VecDeque<(Connection, News)>,
    tasks: Vec<Doing>,
}

impl Client {
    /// What its clock shows.
    fn local(&self, now: u64) -> Time {
        let ahead = i128::from(now) * i128::from(self.drift) / 1_000_000;
        Time::from_nanos((SECOND + now).saturating_add_signed(ahead as i64))
    }

    /// When its clock shows that.
    fn at(&self, due: Time) -> u64 {
        let mut at = (due.as_nanos().saturating_sub(SECOND) as i64 * 1_000_000 / (1_000_000 + self.drift)) as u64;
        while self.local(at) < due {
            at += MS;
        }
        at
    }
}

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
        let clients = (0..2 + random.below(4)).map(|_| client(&mut random)).collect();
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

    /// Whether a task went on.
    fn advance(&mut self, client: usize, task: usize) -> bool {
        let doing = std::mem::replace(&mut self.clients[client].tasks[task], Doing::Ended);
        let (doing, went_on) = match self.next_doing(client, doing) {
            Ok(next) => (next, true),
            Err(same) => (*same, false),
        };
        self.clients[client].tasks[task] = doing;
        went_on
    }

    /// What a task does next, or the same where that is not over.
    fn next_doing(&mut self, client: usize, doing: Doing) -> Result<Doing, Box<Doing>> {
        let known = &mut self.clients[client];
        let now = known.local(self.now);
        let Client { engine, paused_until, .. } = known;
        match doing {
            Doing::Rests(until) if until <= self.now => Ok(self.begin(client)),
            Doing::Acquires { asked, of, from, .. } if from <= self.now && engine.is_settled(asked.ticket) => {
                let outcome = engine.conclude(now, asked);
                Ok(self.acquired(client, of, outcome))
            }
            Doing::Acquires { asked, until, .. } if until <= self.now => {
                engine.abandon(now, asked);
                self.note(format!("client {client} gives up an acquisition"));
                Ok(self.rest())
            }
            Doing::Holds { guard, of, until } if until <= self.now => Ok(self.end_of(client, guard, of)),
            Doing::Renews { guard, of, until, ticket } if engine.is_settled(ticket) => {
                if let Err(error) = engine.renewed(now, &guard, ticket) {
                    expect(&error, &[Kind::Lost, Kind::Unavailable]);
                }
                Ok(Doing::Holds { guard, of, until })
            }
            Doing::Changes { guard, of, to, until, ticket } if engine.is_settled(ticket) => {
                let changed = engine.changed(now, &guard, ticket);
                if let Err(error) = &changed {
                    expect(error, &[Kind::Lost, Kind::Unavailable]);
                }
                let writes = to == Share::WRITE && matches!(changed, Ok(true));
                Ok(Doing::Holds { guard, of: Held { units: if writes { READERS } else { 1 }, ..of }, until })
            }
            Doing::Exports { mut guard, of, until, ticket } if until <= self.now => {
                engine.release(now, &mut guard).unwrap();
                Ok(Doing::Exports { guard, of, until: u64::MAX, ticket })
            }
            Doing::Exports { mut guard, of, ticket, .. } if engine.is_settled(ticket) => {
                let is_released = guard.is_over();
                match engine.exported(now, &mut guard, ticket) {
                    Ok(secret) => {
                        assert!(!is_released, "who released it has it no more");
                        self.secrets.push((of.name, secret));
                    }
                    Err(error) => expect(&error, &[Kind::Lost, Kind::Unavailable, Kind::NotOwned]),
                }
                Ok(self.rest())
            }
            Doing::AcquiresAll(ticket, _) if engine.is_settled(ticket) => {
                let all = engine.acquired_all(ticket);
                Ok(self.acquired_all(client, all))
            }
            Doing::AcquiresAll(ticket, until) if until <= self.now => {
                engine.abandon_all(now, ticket);
                Ok(self.rest())
            }
            Doing::HoldsAll(mut guards, until) if until <= self.now => {
                assert!(engine.release_all(now, &mut guards).iter().all(Result::is_ok));
                Ok(self.rest())
            }
            Doing::Releases(ticket) if engine.is_settled(ticket) => {
                let outcome = engine.released(ticket);
                self.note(format!("client {client} released: {outcome:?}"));
                Ok(self.rest())
            }
            Doing::Inquires(ticket, by) if engine.is_settled(ticket) => {
                let is_late = self.now > by && *paused_until < by - STORE_TIMEOUT;
                assert!(!is_late, "a question outlasts the store's time limit");
                if let Err(error) = engine.listed(ticket) {
                    expect(&error, &[Kind::Unavailable]);
                }
                Ok(self.rest())
            }
            Doing::Counts(ticket) if engine.is_settled(ticket) => {
                let left = engine.left(&latch(engine), ticket);
                self.counted(left);
                Ok(self.rest())
            }
            Doing::Meets(asked) if engine.is_settled(asked.ticket) => {
                let passed = engine.passed(now, asked);
                self.met(passed);
                Ok(self.rest())
            }
            same => Err(Box::new(same)),
        }
    }

    fn rest(&mut self) -> Doing {
        if self.now > QUIET { Doing::Ended } else { Doing::Rests(self.now + self.random.below(SECOND)) }
    }

    fn begin(&mut self, client: usize) -> Doing {
        if self.now > QUIET {
            return Doing::Ended;
        }
        let now = self.clients[client].local(self.now);
        if self.random.chance(50) {
            let ticket = self.clients[client].engine.list(now).unwrap();
            return Doing::Inquires(ticket, self.now + STORE_TIMEOUT);
        }
        if self.random.chance(100) {
            return self.acquire_all(client);
        }
        if self.random.chance(100) {
            let engine = &mut self.clients[client].engine;
            return Doing::Counts(engine.count_down(now, &latch(engine)).unwrap());
        }
        if self.random.chance(100) {
            let limit = Duration::from_millis(self.random.below(5000));
            let engine = &mut self.clients[client].engine;
            let barrier = engine.barrier("barrier", PARTIES, Duration::from_secs(2)).unwrap();
            return Doing::Meets(engine.acquire(now, barrier.gate(), Some(limit)).unwrap());
        }
        let ttl = Duration::from_millis([300, 1000, 3000][self.random.below(3) as usize]);
        let fair = self.random.chance(300);
        let options = AcquireOptions { ttl, fair, renew: self.random.chance(900), ..AcquireOptions::default() };
        if !self.secrets.is_empty() && self.random.chance(500) {
            let (name, secret) = self.secrets.remove(0);
            let asked = self.clients[client].engine.resume(now, &secret, options).unwrap();
            let of = Held { resumed: true, ..one_of(name) };
            return Doing::Acquires { asked, of, from: 0, until: u64::MAX };
        }
        let name = self.random.below(NAMES.len() as u64) as usize;
        let timeout = match self.random.below(4) {
            0 => Some(Duration::ZERO),
            1 => Some(Duration::from_millis(1 + self.random.below(3000))),
            _ => None,
        };
        let until = if self.random.chance(100) { self.now + self.random.below(SECOND) } else { u64::MAX };
        self.acquire(client, name, options, timeout, until)
    }

    fn acquire(
        &mut self,
        client: usize,
        name: usize,
        options: AcquireOptions,
        timeout: Option<Duration>,
        until: u64,
    ) -> Doing {
        let (of, units) = match NAMES[name].1 {
            1 => (Of::Lock, 1),
            READERS if self.random.chance(300) => (Of::Write, READERS),
            READERS => (Of::Read, 1),
            permits => (Of::Permits { take: 1, permits }, 1),
        };
        let now = self.clients[client].local(self.now);
        let engine = &mut self.clients[client].engine;
        let lock = engine.lock_of(of, NAMES[name].0, options).unwrap();
        let asked = engine.acquire(now, &lock, timeout).unwrap();
        self.note(format!("client {client} asks for {units} of {} within {timeout:?}", NAMES[name].0));
        let from = if until < u64::MAX { self.now + self.random.below(SECOND) } else { 0 };
        Doing::Acquires { asked, of: Held { name, units, resumed: false }, from, until }
    }

    /// Both that one alone can hold.
    fn acquire_all(&mut self, client: usize) -> Doing {
        let now = self.clients[client].local(self.now);
        let engine = &mut self.clients[client].engine;
        let options = AcquireOptions { ttl: Duration::from_secs(1), ..AcquireOptions::default() };
        let all = engine.multi_lock([NAMES[1].0, NAMES[0].0], &options).unwrap();
        let ticket = engine.acquire_all(now, &all, None).unwrap();
        self.note(format!("client {client} asks for both"));
        let until = if self.random.chance(200) { self.now + self.random.below(SECOND) } else { u64::MAX };
        Doing::AcquiresAll(ticket, until)
    }

    fn acquired_all(&mut self, client: usize, all: Result<Option<Vec<Guard>>, Error>) -> Doing {
        match all {
            Ok(Some(guards)) => {
                self.note(format!("client {client} has both by {} and {}", guards[0].token(), guards[1].token()));
                for (name, guard) in guards.iter().enumerate() {
                    self.rises(one_of(name), guard.token().n);
                }
                Doing::HoldsAll(guards, self.now + self.random.below(300 * MS))
            }
            Ok(None) => panic!("they were waited for"),
            Err(error) => {
                expect(&error, &[Kind::Unavailable, Kind::Lost]);
                self.rest()
            }
        }
    }

    fn acquired(&mut self, client: usize, of: Held, outcome: Result<Outcome, Error>) -> Doing {
        let name = NAMES[of.name].0;
        match outcome {
            Ok(Outcome::Granted(guard)) => {
                self.note(format!("client {client} has {} of {name} by {}", of.units, guard.token()));
                self.grants += 1;
                self.rises(of, guard.token().n);
                let longest = if self.random.chance(100) { 4 * SECOND } else { 300 * MS };
                let hold = self.random.below(longest);
                Doing::Holds { guard, of, until: if self.by_hand { u64::MAX } else { self.now + hold } }
            }
            Ok(Outcome::Taken) => self.rest(),
            Err(error) => {
                self.note(format!("client {client} has none of {name}: {error}"));
                let also = if of.resumed { Kind::NotOwned } else { Kind::Timeout };
                expect(&error, &[Kind::Unavailable, Kind::Lost, also]);
                self.rest()
            }
        }
    }

    /// Tokens of what one alone holds rise.
    fn rises(&mut self, of: Held, token: u64) {
        if NAMES[of.name].1 > 1 {
            return;
        }
        let last = self.tokens.insert(of.name, token).unwrap_or_default();
        assert!(token > last || of.resumed && token == last, "token {token} after {last}");
    }

    /// A latch was counted down, or it is not known whether.
    fn counted(&mut self, left: Result<Option<u32>, Error>) {
        match left {
            Ok(left) => {
                assert!(left.is_some(), "nobody sets its count");
                self.counts.0 += 1;
            }
            Err(error) => {
                expect(&error, &[Kind::Unavailable]);
                self.counts.1 += 1;
            }
        }
    }

    /// A party went on, or gave up.
    fn met(&mut self, passed: Result<Option<Passage>, Error>) {
        match passed {
            Ok(Some(Passage { index, generation })) => {
                assert!(index < PARTIES, "{index} is the place of none");
                assert!(self.passages.insert((generation, index)), "two are {index} of generation {generation}");
            }
            Ok(None) => {}
            Err(error) => expect(&error, &[Kind::Unavailable, Kind::Lost]),
        }
    }

    /// What counted a latch down did so once.
    fn count(&mut self) {
        let now = self.clients[0].local(self.now);
        let engine = &mut self.clients[0].engine;
        let (latch, ticket) = (latch(engine), engine.ask_count(now, &latch(engine)).unwrap());
        self.run(self.now + SECOND, |world| world.clients[0].engine.is_settled(ticket));
        let left = self.clients[0].engine.left(&latch, ticket).unwrap().unwrap();
        let (known, unknown) = self.counts;
        let down = COUNT - left;
        assert!((known..=known + unknown).contains(&down), "{down} times, and {known} or {unknown} more were to be");
    }

    /// Whoever has held it long enough.
    fn end_of(&mut self, client: usize, mut guard: Guard, of: Held) -> Doing {
        let now = self.clients[client].local(self.now);
        let is_bad = self.is_bad();
        let engine = &mut self.clients[client].engine;
        let (choice, until) = (self.random.below(20), self.now + self.random.below(300 * MS));
        match choice {
            0 if is_bad => {
                let ticket = engine.renew(now, &guard, Duration::from_secs(1)).unwrap();
                self.note(format!("client {client} renews {}", NAMES[of.name].0));
                Doing::Renews { guard, of, until, ticket }
            }
            1 if is_bad && NAMES[of.name].1 == READERS => {
                let to = if of.units == 1 { Share::WRITE } else { Share::READ };
                let ticket = engine.change(now, &guard, to).unwrap();
                self.note(format!("client {client} changes {} from {}", NAMES[of.name].0, of.units));
                // Who would only read lets others in at any time.
                Doing::Changes { guard, of: Held { units: 1, ..of }, to, until, ticket }
            }
            1 if is_bad && NAMES[of.name].1 == 1 => {
                let ttl = Duration::from_millis(100 + self.random.below(1000));
                let ticket = engine.export(now, &mut guard, ttl).unwrap();
                self.note(format!("client {client} exports {}", NAMES[of.name].0));
                Doing::Exports { guard, of, until, ticket }
            }
            2 => {
                engine.let_go(now, &mut guard);
                self.rest()
            }
            _ => {
                let ticket = engine.release(now, &mut guard).unwrap();
                self.note(format!("client {client} gives back {}", NAMES[of.name].0));
                Doing::Releases(ticket)
            }
        }
    }

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

impl Doing {
    /// When it goes on by itself.
    fn due(&self, now: u64) -> Option<u64> {
        match self {
            Doing::Rests(until)
            | Doing::Holds { until, .. }
            | Doing::Exports { until, .. }
            | Doing::AcquiresAll(_, until)
            | Doing::HoldsAll(_, until) => Some(*until),
            Doing::Acquires { from, until, .. } if *from > now => Some(*until.min(from)),
            Doing::Acquires { until, .. } => Some(*until),
            _ => None,
        }
    }

    fn held(&self) -> Vec<(&Guard, Held)> {
        match self {
            Doing::Holds { guard, of, .. }
            | Doing::Renews { guard, of, .. }
            | Doing::Changes { guard, of, .. }
            | Doing::Exports { guard, of, .. } => vec![(guard, *of)],
            Doing::HoldsAll(guards, _) => {
                guards.iter().enumerate().map(|(name, guard)| (guard, one_of(name))).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// One that is never open.
fn latch(engine: &Engine<Redis>) -> Latch {
    engine.latch("latch", COUNT, Duration::from_secs(300)).expect("a latch")
}

/// The lock of that number, which one alone can hold.
fn one_of(name: usize) -> Held {
    Held { name, units: 1, resumed: false }
}

/// The error is one of these kinds, or nothing that a sound client says.
fn expect(error: &Error, kinds: &[Kind]) {
    assert!(kinds.contains(&error.kind()), "{error}");
}

fn client(random: &mut Random) -> Client {
    let mut numbers = Random(random.next());
    let draw = move || Some(u128::from(numbers.next()) << 64 | u128::from(numbers.next()));
    let config = Config::read("lockwright://simulated", "test").expect("an address");
    Client {
        engine: Engine::new(Redis::new(config), Box::new(draw)),
        drift: random.below(18_001) as i64 - 9000,
        paused_until: 0,
        unheard: VecDeque::new(),
        tasks: (0..1 + random.below(4)).map(|_| Doing::Rests(random.below(SECOND))).collect(),
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
