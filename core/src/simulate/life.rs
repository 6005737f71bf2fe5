//! What programs do with their clients, and what has to be so of it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::{Belief, NAMES, READERS, SEGMENTS, Setup, World};
use crate::barrier::Arrival;
use crate::client::{Client, Guard, Lock, LockBuilder};
use crate::error::{Error, Kind};
use crate::latch::Latch;
use crate::lease::ReleaseOutcome;
use crate::multi::MultiGuard;
use crate::options::AcquireOptions;
use crate::platform::clock;
use crate::platform::mutex::locked;
use crate::queue::OwnerId;
use crate::time::Time;

/// The latch counts from this.
pub(super) const COUNT: u32 = 10_000;
/// So many meet at the barrier.
const PARTIES: u32 = 2;
/// How long the store may be asked in vain.
pub(super) const STORE_TIMEOUT: Duration = Duration::from_secs(5);
/// How much later than its time something may end.
const SLACK: Duration = Duration::from_millis(120);

/// One client after the other, until that time; the last of them.
pub(super) async fn program(world: Arc<World>, who: usize, until: Time) -> Client {
    loop {
        let client = world.open();
        let ends = clock::now().after(world.span(20_000)).min(until);
        let is_closed = Arc::new(AtomicBool::new(false));
        let task = || Task { world: world.clone(), who, client: client.clone(), is_closed: is_closed.clone() };
        let tasks: Vec<_> = (0..1 + world.below(4)).map(|_| tokio::spawn(task().live(ends))).collect();
        let is_cut_off = ends < until && world.chance(300);
        if is_cut_off {
            sleep(ends.since(clock::now())).await;
            world.note(format!("client {who} is closed"));
            is_closed.store(true, Ordering::Relaxed);
            client.close().await;
        }
        for task in tasks {
            task.await.expect("no panic");
        }
        if clock::now() >= until && !is_cut_off {
            return client;
        }
        // Else it is gone with its last task.
        if world.chance(500) {
            client.close().await;
        }
    }
}

/// One that is never open.
pub(super) fn latch(client: &Client) -> Latch {
    client.latch("latch", COUNT).build().expect("a latch")
}

/// One of a client's tasks.
struct Task {
    world: Arc<World>,
    who: usize,
    client: Client,
    is_closed: Arc<AtomicBool>,
}

impl Task {
    async fn live(self, until: Time) {
        while clock::now() < until {
            sleep(self.world.span(1000)).await;
            if self.is_closed.load(Ordering::Relaxed) {
                return;
            }
            self.act().await;
        }
    }

    async fn act(&self) {
        // What a latch and a barrier remember is not to be lost.
        let counts = self.world.setup.has_lines() && self.world.setup.keeps_all();
        match self.world.below(100) {
            0..5 => self.ask().await,
            5..15 => self.acquire_both().await,
            15..25 => self.acquire_any().await,
            25..35 if counts => self.count_down().await,
            35..45 if counts => self.meet().await,
            45..55 => self.resume().await,
            _ => self.acquire().await,
        }
    }

    fn patience(&self) -> Duration {
        self.world.setup.patience()
    }

    /// How long an acquisition with that time limit may take: who only tries waits for an answer to each of its `asks`.
    fn most(&self, timeout: Option<Duration>, asks: u32) -> Duration {
        timeout.map_or(Duration::MAX, |timeout| if timeout.is_zero() { asks * self.patience() } else { timeout })
    }

    /// The outcome of what may be given up, and takes no longer than `most`; `None` where it was given up.
    async fn patiently<T>(&self, what: &str, most: Duration, work: impl Future<Output = T>) -> Option<T> {
        let patience = if self.world.chance(150) { self.world.span(1000) } else { Duration::MAX };
        let began = Instant::now();
        let outcome = timeout(patience, work).await.ok();
        let took = began.elapsed();
        self.world.note(format!("client {} was kept for {took:?}: {what}", self.who));
        assert!(took <= most.saturating_add(SLACK), "{what} took {took:?} instead of {most:?}");
        outcome
    }

    /// The error is one of these kinds, or nothing that a sound client says.
    fn expect(&self, error: &Error, kinds: &[Kind]) {
        self.world.note(format!("client {}: {error}", self.who));
        let may_be = match error.kind() {
            Kind::Closed => true,
            Kind::Quorum => self.world.setup.is_quorum(),
            kind => kinds.contains(&kind),
        };
        assert!(may_be, "{error}");
    }

    /// Something beside the locks.
    async fn ask(&self) {
        let most = self.patience();
        let asked = match self.world.below(3) {
            // Which keys there are memcached does not tell.
            0 if self.world.setup != Setup::Memcached => {
                self.patiently("list", most, self.client.list()).await.map(|told| told.map(drop))
            }
            0 | 1 => {
                let lock = self.client.lock("a").build().expect("a lock");
                self.patiently("inspect", most, lock.inspect()).await.map(|told| told.map(drop))
            }
            // It acquires, and gives back.
            _ => self.patiently("ping", 2 * most, self.client.ping()).await.map(|told| told.map(drop)),
        };
        if let Some(Err(error)) = asked {
            self.expect(&error, &[Kind::Unavailable]);
        }
    }

    async fn count_down(&self) {
        let most = self.patience();
        let counted = self.patiently("count", most, async { latch(&self.client).count_down().await }).await;
        let is_known = matches!(counted, Some(Ok(_)));
        self.world.counts[usize::from(!is_known)].fetch_add(1, Ordering::Relaxed);
        if let Some(Err(error)) = counted {
            self.expect(&error, &[Kind::Unavailable]);
        }
    }

    async fn meet(&self) {
        let barrier = self.client.barrier("barrier", PARTIES).ttl(Duration::from_secs(2)).build().expect("a barrier");
        let limit = self.world.span(5000);
        self.world.note(format!("client {} waits at the barrier for {limit:?}", self.who));
        // Whether it passed is known before it goes.
        match self.patiently("meet", limit + self.patience(), barrier.wait_within(Some(limit))).await {
            Some(Ok(Some(Arrival { index, generation }))) => {
                assert!(index < PARTIES, "{index} is the place of none");
                let is_new = locked(&self.world.passages).insert((generation, index));
                assert!(is_new, "two are {index} of generation {generation}");
            }
            Some(Err(error)) => self.expect(&error, &[Kind::Unavailable, Kind::Lost, Kind::Timeout]),
            _ => {}
        }
    }

    fn options(&self) -> AcquireOptions {
        let world = &self.world;
        let ttl = Duration::from_millis(world.setup.ttls()[world.below(3) as usize]);
        let renew = world.chance(if world.setup.has_lines() { 900 } else { 600 });
        let fair = world.chance(300) && world.setup.has_lines();
        let max_hold = (renew && world.chance(100)).then(|| ttl + world.span(1000));
        AcquireOptions { ttl, fair, renew, max_hold, ..AcquireOptions::default() }
    }

    fn timeout(&self) -> Option<Duration> {
        match self.world.below(4) {
            0 => Some(Duration::ZERO),
            1 => Some(Duration::from_millis(1 + self.world.below(3000))),
            _ => None,
        }
    }

    /// What of a name is to be acquired, and how many units that is.
    fn builder(&self, name: usize) -> (LockBuilder, u32) {
        let (text, capacity) = NAMES[name];
        match capacity {
            1 => (self.client.lock(text), 1),
            _ if self.world.setup == Setup::Memcached => (self.client.lock(text), 1),
            READERS if self.world.chance(300) => (self.client.rwlock(text).write(), READERS),
            READERS => (self.client.rwlock(text).read(), 1),
            _ if !self.world.setup.has_lines() => (self.client.lock(text), 1),
            permits => (self.client.semaphore(text, permits), 1),
        }
    }

    async fn acquire(&self) {
        let name = self.world.below(4) as usize;
        let (builder, units) = self.builder(name);
        let (options, timeout) = (self.options(), self.timeout());
        let owner = (NAMES[name].1 == 1 && self.world.chance(200)).then(|| OwnerId(1 + self.world.below(1 << 40)));
        let builder = builder.options(options);
        let lock = match owner {
            Some(owner) => builder.reentrant(owner),
            None => builder,
        };
        let lock = lock.build().expect("a lock");
        self.world.note(format!("client {} asks for {units} of {} within {timeout:?}", self.who, lock.name()));
        match self.patiently("acquire", self.most(timeout, 1), lock.acquire_within(timeout)).await {
            Some(Ok(guard)) => {
                let belief = self.has(name, units, &guard, false);
                if owner.is_some() && self.world.chance(500) {
                    self.enter_again(&lock, &guard).await;
                }
                self.use_it(guard, belief).await;
            }
            Some(Err(error)) => self.expect(&error, &[Kind::Unavailable, Kind::Lost, Kind::Timeout]),
            None => self.world.note(format!("client {} gives up an acquisition", self.who)),
        }
    }

    /// Whoever has it has it once more, unless it is lost.
    async fn enter_again(&self, lock: &Lock, outer: &Guard) {
        if let Ok(inner) = lock.acquire_within(Some(Duration::from_millis(500))).await {
            let is_again = inner.depth() == 2 && inner.token() == outer.token();
            assert!(is_again || !outer.is_held(), "it was entered {} deep by another token", inner.depth());
            if inner.release().await.is_err() {
                self.world.note("the inner one was not released");
            }
        }
    }

    async fn resume(&self) {
        let Some((name, secret)) = locked(&self.world.secrets).pop_front() else { return };
        let resumed =
            self.patiently("resume", self.patience(), self.client.resume_with(&secret, &self.options())).await;
        match resumed {
            Some(Ok(guard)) => {
                let belief = self.has(name, 1, &guard, true);
                self.use_it(guard, belief).await;
            }
            Some(Err(error)) => self.expect(&error, &[Kind::Unavailable, Kind::Lost, Kind::NotOwned]),
            None => {}
        }
    }

    /// Both that one alone can hold.
    async fn acquire_both(&self) {
        let options = AcquireOptions { ttl: Duration::from_secs(1), ..AcquireOptions::default() };
        let both = self.client.multi_lock_with(["b", "a"], &options).expect("a lock");
        let timeout = self.timeout();
        match self.patiently("both", self.most(timeout, 2), both.acquire_within(timeout)).await {
            Some(Ok(guards)) => {
                let guards = guards.into_guards();
                let beliefs: Vec<_> =
                    guards.iter().map(|guard| self.has(usize::from(guard.name() == "b"), 1, guard, false)).collect();
                sleep(self.world.span(300)).await;
                beliefs.iter().for_each(|belief| self.world.forget(belief));
                let all = MultiGuard::of(guards);
                if let Some(Err(error)) = self.patiently("release all", 2 * self.patience(), all.release()).await {
                    self.expect(&error, &[]);
                }
            }
            Some(Err(error)) => self.expect(&error, &[Kind::Unavailable, Kind::Lost, Kind::Timeout]),
            None => {}
        }
    }

    async fn acquire_any(&self) {
        let striped = self.client.striped_with("e", SEGMENTS, &self.options()).expect("segments");
        let timeout = self.timeout();
        match self.patiently("any", self.most(timeout, 2), striped.any_within(timeout)).await {
            Some(Ok(Some(segment))) => {
                let name = 4 + segment.index();
                let guard = segment.into_guard();
                let belief = self.has(name, 1, &guard, false);
                self.use_it(guard, belief).await;
            }
            Some(Err(error)) => self.expect(&error, &[Kind::Unavailable, Kind::Lost, Kind::Timeout]),
            _ => {}
        }
    }

    fn has(&self, name: usize, units: u32, guard: &Guard, resumed: bool) -> Arc<Belief> {
        let token = guard.token();
        self.world.note(format!("client {} has {units} of {} by {token}", self.who, NAMES[name].0));
        self.world.grants.fetch_add(1, Ordering::Relaxed);
        self.world.rises(name, token.n, resumed);
        self.world.believe(self.who, name, units, guard)
    }

    async fn use_it(&self, mut guard: Guard, belief: Arc<Belief>) {
        // Without lines fewer come, and what lies there is the longer the same.
        let is_long = self.world.chance(if self.world.setup.has_lines() { 100 } else { 400 });
        let longest = if is_long { 4000 } else { 300 };
        sleep(self.world.span(longest)).await;
        match self.world.below(10) {
            0 if !self.world.setup.has_sessions() => self.extend(&guard).await,
            _ if !self.world.setup.has_lines() => {}
            1 | 2 if NAMES[belief.name].1 == READERS && self.world.setup != Setup::Etcd => {
                self.change(&guard, &belief).await
            }
            3 if NAMES[belief.name].1 == 1 && self.world.setup.have_leases() && self.world.is_bad() => {
                self.export(&mut guard, &belief).await;
                return;
            }
            _ => {}
        }
        self.give_back(guard, belief).await;
    }

    async fn extend(&self, guard: &Guard) {
        let extended = self.patiently("extend", self.patience(), guard.extend(Duration::from_secs(1))).await;
        if let Some(Err(error)) = extended {
            self.expect(&error, &[Kind::Lost, Kind::Unavailable]);
        }
        sleep(self.world.span(300)).await;
    }

    /// A reader would write, or a writer only read: who would only read lets others in at any time.
    async fn change(&self, guard: &Guard, belief: &Belief) {
        let writes = belief.units.swap(1, Ordering::Relaxed) == 1;
        let changed = match writes {
            true => self.patiently("upgrade", self.patience(), guard.try_upgrade()).await,
            false => {
                self.patiently("downgrade", self.patience(), async { guard.downgrade().await.map(|()| false) }).await
            }
        };
        match changed {
            Some(Ok(true)) => {
                belief.units.store(READERS, Ordering::Relaxed);
                self.world.check();
            }
            Some(Err(error)) => self.expect(&error, &[Kind::Lost, Kind::Unavailable]),
            _ => {}
        }
        sleep(self.world.span(300)).await;
    }

    async fn export(&self, guard: &mut Guard, belief: &Arc<Belief>) {
        self.world.forget(belief);
        let ttl = Duration::from_millis(100 + self.world.below(1000));
        match self.patiently("export", self.patience(), guard.export(ttl)).await {
            Some(Ok(secret)) => {
                self.world.note(format!("client {} exported {}", self.who, NAMES[belief.name].0));
                locked(&self.world.secrets).push_back((belief.name, secret.into_string()));
            }
            Some(Err(error)) => self.expect(&error, &[Kind::Lost, Kind::Unavailable]),
            None => {}
        }
    }

    async fn give_back(&self, mut guard: Guard, belief: Arc<Belief>) {
        let is_kept = NAMES[belief.name].1 == 1 && self.world.setup.have_leases() && self.world.chance(50);
        let span = Duration::from_millis(100 + self.world.below(1000));
        if is_kept && guard.hold_at_least_for(span).is_err() {
            self.world.note("it is over");
        }
        let until = belief.hold.since.after(span);
        self.world.forget(&belief);
        if self.world.chance(100) {
            drop(guard);
            return;
        }
        let released = self.patiently("release", self.patience(), guard.release()).await;
        self.world.note(format!("client {} released {}: {released:?}", self.who, NAMES[belief.name].0));
        match released {
            Some(Ok(ReleaseOutcome::Released)) if is_kept => {
                locked(&self.world.kept).push((belief.name, until));
                self.world.check();
            }
            Some(Err(error)) => self.expect(&error, &[]),
            _ => {}
        }
    }
}
