//! A lock, its options, and an acquisition of it that is under way.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::error::timed_out;
use lockwright_machines::layout_choice;
pub(crate) use lockwright_machines::layout_choice::Of;
use lockwright_machines::machine::{PARTING, unfair};
use lockwright_machines::queue::{OwnerId, Refusal, TaskId};
use tracing::field::Empty;
use tracing::{Instrument, Span, debug_span};

use super::guard::{Guard, Holding};
use super::{Async, Client, Face, left};
use crate::driver::engine::{self, Engine, Trial, Wish};
use crate::driver::entry::{Effects, Entry};
use crate::driver::hold::SharedHold;
use crate::driver::notice;
use crate::driver::owners;
use crate::driver::road::Road;
use crate::driver::turnstile::{Passage, Turnstile};
use crate::driver::wait::{Settled, Waiter};
use crate::error::{Error, Kind, Result};
use crate::guarantee::Guarantees;
use crate::lease::Inspection;
use crate::name;
use crate::options::{AcquireOptions, Retry};
use crate::platform::clock;
use crate::platform::fork::{self, Generational};
use crate::platform::runtime;
use crate::protocol::{AttemptId, Layout};
use crate::share::Share;
use crate::stores::{self, LayoutChoice};
use crate::time::Time;
use crate::token::Token;

/// A lock whose options are being set. See [`AcquireOptions`] for ranges and defaults.
#[derive(Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct LockBuilder<F: Face = Async> {
    pub(super) client: Client<F>,
    pub(super) name: String,
    pub(crate) of: Of,
    pub(super) options: AcquireOptions,
    pub(super) owner: Option<OwnerId>,
}

impl<F: Face> LockBuilder<F> {
    /// How long the lock stays ours without a renewal, 20 ms to 24 h; default 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = ttl;
        self
    }

    /// How long `acquire` waits for other holders; default for ever. When it ends with `timeout` its place in the queue
    /// is gone, for which it may take up to 0.1 s longer where the store answers slowly.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Whether the watchdog renews the lease every ttl/3; default yes.
    pub fn renew(mut self, renew: bool) -> Self {
        self.options.renew = renew;
        self
    }

    /// Ends renewal this long after the grant; default never.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options.max_hold = Some(max_hold);
        self
    }

    /// However early it is released, the lock stays taken until so long after the grant; see
    /// [`Guard::hold_at_least_for`]. Default: it is free at once.
    pub fn at_least_for(mut self, span: Duration) -> Self {
        self.options.at_least_for = Some(span);
        self
    }

    /// First come, first served over all tasks of all processes.
    pub fn fair(mut self) -> Self {
        self.options.fair = true;
        self
    }

    /// How urgent it is, from 0 (the default) to 9, for locks that are [fair](Self::fair). Higher ranks are served
    /// first, and within a rank whoever came first; every 10 s of waiting count as much as one rank, so that nobody
    /// waits for ever. Only the layout `native` has ranks.
    pub fn rank(mut self, rank: u8) -> Self {
        self.options.rank = rank;
        self
    }

    /// Acquisitions of the same `owner` re-enter: they are granted at once, and the lock is free when each was
    /// released.
    pub fn reentrant(mut self, owner: OwnerId) -> Self {
        self.options.reentrant = true;
        self.owner = Some(owner);
        self
    }

    /// Whether its holder listens for others who ask for the lock back ([`Lock::request_release`], or Curator's
    /// `Revoker`), which its guard then tells: [`Guard::on_release_requested`]. Costs a request more at each
    /// acquisition, for which nobody waits; default no. Only the layout `curator` has such a message.
    pub fn revocable(mut self) -> Self {
        self.options.revocable = true;
        self
    }

    /// The layout at the store. A format that was set before goes with another layout and is dropped.
    pub fn layout(mut self, layout: &str) -> Self {
        self.options.set_layout(layout);
        self
    }

    /// The format of a layout that has several, such as the library whose locks are joined.
    pub fn format(mut self, format: &str) -> Self {
        self.options.format = Some(format.into());
        self
    }

    /// How often a waiter asks where it cannot be told that it is its turn; default 2 ms to 64 ms.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.options.retry = retry;
        self
    }

    /// A text of at most 128 bytes that others read with `inspect`.
    pub fn label(mut self, label: &str) -> Self {
        self.options.label = Some(label.into());
        self
    }

    /// All options at once.
    pub fn options(mut self, options: AcquireOptions) -> Self {
        self.options = options;
        self
    }

    /// The options as they stand.
    pub fn current_options(&self) -> &AcquireOptions {
        &self.options
    }

    /// The lock, ready to be acquired as often as wanted.
    ///
    /// # Errors
    /// `invalid_config` for a bad name or a value out of range, `unsupported` for what this store or layout cannot do.
    pub fn build(self) -> Result<Lock<F>> {
        let LockBuilder { client, name, of, options, owner } = self;
        let build = || {
            let name = name::check(&name)?;
            options.check()?;
            client.inner.store.check_lease(options.ttl)?;
            let layout =
                of.layout(stores::layout_of(client.inner.store.layouts(), LayoutChoice::of(&options))?, &options)?;
            layout_choice::check(&*layout, &client.promises(&*layout), &options)?;
            let spot = Spot::new(layout, name)?;
            if options.at_least_for.is_some() && !spot.layout.passes(spot.key.clone()) {
                return Err(cannot_stay(&*spot.layout));
            }
            let at_work = AtWork::of_this_process(client.inner.engine()?, &spot, &options);
            Ok((spot, at_work))
        };
        let (spot, at_work) = build().map_err(|error: Error| error.on_store(client.address()))?;
        Ok(Lock { client, spot: Arc::new(spot), wish: Wish::new(options, owner), at_work })
    }
}

/// The error for what is to stay taken though it is released, in a layout that cannot leave a lock to nobody.
pub(super) fn cannot_stay(layout: &dyn Layout) -> Error {
    let message = format!(
        "layout {} cannot keep a lock that was released taken for a time; leave at_least_for out, or choose the store's own layout on one server",
        layout.name()
    );
    Error::unsupported("lock", message)
}

/// Where a lock lies.
pub(super) struct Spot {
    pub(super) layout: Arc<dyn Layout>,
    pub(super) name: Arc<str>,
    pub(super) key: Arc<str>,
}

impl Spot {
    pub(super) fn new(layout: Arc<dyn Layout>, name: Arc<str>) -> Result<Self> {
        let key = layout.key(&name)?;
        // In some stores they are the same text, of which one is enough.
        let key = if key == name { name.clone() } else { key };
        Ok(Spot { layout, name, key })
    }
}

/// A named lock, to be acquired as often as wanted. Cheap to clone.
pub struct Lock<F: Face = Async> {
    client: Client<F>,
    spot: Arc<Spot>,
    wish: Wish,
    at_work: Arc<Generational<AtWork>>,
}

/// What a lock needs of its client's engine at every acquisition; each process has its own.
struct AtWork {
    /// None where each acquisition has its own.
    entry: Option<Arc<Entry>>,
    card: Arc<str>,
}

impl AtWork {
    fn of_this_process(engine: &Engine, spot: &Spot, options: &AcquireOptions) -> Arc<Generational<Self>> {
        Arc::new(Generational::of_image(Arc::new(AtWork::new(engine, spot, options))))
    }

    fn new(engine: &Engine, Spot { layout, name, key }: &Spot, options: &AcquireOptions) -> Self {
        let entry = (!layout.has_many_holders()).then(|| engine.entry(layout, name, key));
        AtWork { entry, card: engine.card(options.label.as_deref().unwrap_or_default()) }
    }

    fn entry(&self, engine: &Engine, Spot { layout, name, key }: &Spot) -> Arc<Entry> {
        self.entry.clone().unwrap_or_else(|| engine.own_entry(layout, name, key))
    }
}

impl<F: Face> Lock<F> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.spot.name
    }

    pub(crate) fn client(&self) -> &Client<F> {
        &self.client
    }

    /// What it promises, in its layout; see [`Client::guarantees`].
    pub fn guarantees(&self) -> Guarantees {
        self.client.promises(&*self.spot.layout)
    }

    pub(crate) async fn inspect_by(&self, road: Road) -> Result<Inspection> {
        let Spot { layout, name, key } = &*self.spot;
        let engine = self.engine()?;
        let seen = self.client.inquire(road, &engine, layout.inspect(name, key.clone())).await;
        seen.map(|seen| engine.with_places(key, seen)).map_err(|error| self.explain(error))
    }

    /// What the store says of this lock.
    pub(crate) fn on_store<T>(&self, call: impl FnOnce(&Engine) -> Result<T>) -> Result<T> {
        self.client.on_store(call).map_err(|error| error.on_lock(self.spot.name.clone()))
    }

    pub(crate) async fn resize_by(&self, road: Road, permits: u32) -> Result<()> {
        let Spot { layout, key, .. } = &*self.spot;
        let share = Share::permits(1, permits, false)?;
        let of_its_kind = layout.share().filter(|is| is.primitive == share.primitive);
        let inquiry = of_its_kind.and_then(|_| layout.resize(key.clone(), permits));
        let inquiry = inquiry.ok_or_else(|| match of_its_kind {
            Some(_) => Error::unsupported("resize", "a semaphore of this layout cannot be resized"),
            None => Error::unsupported("resize", "only a semaphore can be resized"),
        })?;
        let engine = self.engine()?;
        let resized = engine.inquire_by(road, inquiry);
        resized.await.map_err(|error| self.explain(error))
    }

    /// What asks the store.
    pub(crate) fn engine(&self) -> Result<Arc<Engine>> {
        self.client.inner.engine().cloned().map_err(|error| self.explain(error))
    }

    pub(crate) async fn break_by(&self, road: Road, expected: Token) -> Result<bool> {
        let Spot { layout, key, .. } = &*self.spot;
        let engine = self.engine()?;
        let broken = self.client.inquire(road, &engine, layout.break_hold(key.clone(), expected.n)).await;
        let broken = broken.map_err(|error| self.explain(error))?;
        self.client.asked_to_break(road, &engine, &self.spot, expected, broken).await;
        Ok(broken)
    }

    pub(crate) async fn ask_back_by(&self, road: Road, expected: Token) -> Result<bool> {
        let Spot { layout, key, .. } = &*self.spot;
        let engine = self.engine()?;
        let asked = self.client.inquire(road, &engine, layout.ask_back(key.clone(), expected.n)).await;
        let asked = asked.map_err(|error| self.explain(error))?;
        notice::asked_back(&self.spot.name, self.client.address(), expected, asked);
        Ok(asked)
    }

    pub(crate) fn layout(&self) -> &Arc<dyn Layout> {
        &self.spot.layout
    }

    /// What orders locks in the same way in every process.
    pub(crate) fn key(&self) -> &Arc<str> {
        &self.spot.key
    }

    /// Its options.
    pub fn options(&self) -> &AcquireOptions {
        &self.wish.options
    }

    /// The same lock for an owner: where it is reentrant, acquisitions of the same one re-enter; else one that would
    /// wait without a limit for what its owner holds itself is `deadlock`, also over several locks of this client. An
    /// owner is whatever waits for one thing at a time, such as a thread or a task; 0 is nobody. Rust's threads are
    /// known without this.
    pub fn for_owner(mut self, owner: OwnerId) -> Self {
        self.wish.owner = Some(owner);
        self
    }

    /// The same lock, where somebody else than its owner may release what that one holds: instead of `deadlock`, a
    /// warning after a second.
    pub fn released_by_anybody(mut self) -> Self {
        self.wish.lenient = true;
        self
    }

    /// The same lock, whose `timeout` does not say who holds it, which takes a request when the time is over: for
    /// whoever does not show it.
    pub fn quietly(mut self) -> Self {
        self.wish.quiet = true;
        self
    }

    /// The same lock with another waiting time; `None` waits for ever, zero only tries.
    pub fn with_timeout(&self, timeout: Option<Duration>) -> Self {
        let mut lock = self.clone();
        lock.wish.options.timeout = timeout;
        lock
    }

    /// The same lock as candidates for the lead acquire it, and as observers look at it. It is acquired first come,
    /// first served where its layout promises `fair` and the store allows it, else in no order; `fair` itself is
    /// `unsupported` there. Over several nodes its holder is known by one token, whichever nodes answer.
    ///
    /// # Errors
    /// `closed`, `forked`.
    pub fn for_election(mut self) -> Result<Self> {
        self.wish.prefers_order = true;
        if let Some(layout) = self.spot.layout.agreed() {
            let spot = Spot { layout, name: self.spot.name.clone(), key: self.spot.key.clone() };
            self.at_work = AtWork::of_this_process(&*self.engine()?, &spot, &self.wish.options);
            self.spot = Arc::new(spot);
        }
        Ok(self)
    }

    /// The same lock for callers that wait in another way.
    pub fn into_face<G: Face>(self) -> Lock<G> {
        let Lock { client, spot, wish, at_work } = self;
        Lock { client: client.into_face(), spot, wish, at_work }
    }

    pub(crate) fn start(&self, timeout: Option<Duration>) -> Result<(Acquisition<F>, Effects)> {
        self.start_for(timeout, None)
    }

    /// Begins to acquire the lock for `by`, unless it is somebody's already.
    pub(crate) fn start_for(
        &self,
        timeout: Option<Duration>,
        by: Option<OwnerId>,
    ) -> Result<(Acquisition<F>, Effects)> {
        self.start_as(timeout, Trial::AT_ONCE, None, by)
    }

    /// Begins to try the lock, for a caller that may wait longer than that.
    pub(crate) fn start_trying(&self, trial: Trial) -> Result<(Acquisition<F>, Effects)> {
        self.start_as(Some(Duration::ZERO), trial, None, None)
    }

    /// Begins to acquire the lock, or to take it over from a secret.
    pub(crate) fn start_as(
        &self,
        timeout: Option<Duration>,
        trial: Trial,
        secret: Option<AttemptId>,
        by: Option<OwnerId>,
    ) -> Result<(Acquisition<F>, Effects)> {
        let engine = self.client.inner.engine().map_err(|error| self.explain(error))?.clone();
        let options = &self.wish.options;
        let prefers_order = self.wish.prefers_order;
        let fair = (options.fair || prefers_order) && self.guarantees().fair;
        if options.fair && !fair && !prefers_order {
            return Err(self.explain(unfair()));
        }
        let make = || Arc::new(AtWork::new(&engine, &self.spot, options));
        let at_work = &**self.at_work.get_or_make(make);
        let entry = at_work.entry(&engine, &self.spot);
        let (at_least_for, revocable) = (options.at_least_for, options.revocable);
        let options = AcquireOptions { timeout, fair, ..options.clone() };
        let owner = self.wish.owner.or(by);
        let Wish { quiet, lenient, .. } = self.wish;
        let wish = Wish { options, owner, prefers_order, trial, quiet, lenient };
        let (ask, waiter, effects) = engine::begin(&engine, &entry, &wish, &at_work.card, secret);
        let acquisition = Acquisition {
            engine,
            entry,
            waiter,
            task: ask.task,
            deadline: ask.deadline,
            timeout,
            owner,
            at_least_for,
            revocable,
            tells_who: !quiet && self.spot.layout.is_held(),
            generation: fork::image(),
            over: false,
            span: self.span(timeout),
            face: PhantomData,
        };
        Ok((acquisition, effects))
    }

    /// What an acquisition is traced as; costs an atomic load when nobody listens.
    fn span(&self, timeout: Option<Duration>) -> Span {
        let (lock, store, ttl) = (self.name(), self.client.address(), self.wish.options.ttl.as_secs_f64());
        let timeout = timeout.map(|timeout| timeout.as_secs_f64());
        debug_span!(target: "lockwright::acquire", "acquire", lock, store, ttl, timeout, token = Empty, outcome = Empty)
    }

    pub(crate) fn explain(&self, error: Error) -> Error {
        error.on_lock(self.spot.name.clone()).on_store(self.client.address())
    }
}

impl<F: Face> Clone for Lock<F> {
    fn clone(&self) -> Self {
        let Lock { client, spot, wish, at_work } = self;
        Lock { client: client.clone(), spot: spot.clone(), wish: wish.clone(), at_work: at_work.clone() }
    }
}

impl<F: Face> std::fmt::Debug for Lock<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lock({:?} on {})", self.name(), self.client.address())
    }
}

/// What came of trying a lock: `None` when somebody else holds it.
pub(crate) fn free<F: Face>(tried: Result<Guard<F>>) -> Result<Option<Guard<F>>> {
    match tried {
        Err(error) if error.kind() == Kind::Timeout => Ok(None),
        result => result.map(Some),
    }
}

/// One acquisition under way. Dropping it gives up: what was asked of the store is undone in the background.
pub(crate) struct Acquisition<F: Face> {
    pub(crate) engine: Arc<Engine>,
    pub(crate) entry: Arc<Entry>,
    pub(crate) waiter: Arc<Waiter>,
    pub(crate) task: TaskId,
    pub(crate) deadline: Option<Time>,
    timeout: Option<Duration>,
    owner: Option<OwnerId>,
    at_least_for: Option<Duration>,
    revocable: bool,
    /// When its time is over the error says who holds the lock.
    tells_who: bool,
    generation: u64,
    over: bool,
    pub(crate) span: Span,
    face: PhantomData<F>,
}

impl<F: Face> Acquisition<F> {
    /// Who holds what it did not get in time, where that is to be told: known here, or until when to ask the store.
    pub(crate) fn who(&self, settled: &Settled) -> std::result::Result<Option<Arc<str>>, Time> {
        let (Settled::Refused(Refusal::TimedOut(_)), Some(deadline), true) = (settled, self.deadline, self.tells_who)
        else {
            return Ok(None);
        };
        if let Some(here) = self.entry.holder_here() {
            return Ok(Some(here.describe(self.owner).into()));
        }
        // Whoever is late already waits for no store.
        let limit = Some(deadline.after(PARTING)).filter(|limit| !left(*limit).is_zero());
        limit.map_or(Ok(None), |limit| self.engine.looked_at(&self.entry).ok_or(limit))
    }

    /// What the waiter got, as what the caller gets.
    pub(crate) fn conclude(&mut self, settled: Settled) -> Result<Guard<F>> {
        self.conclude_with(settled, None)
    }

    /// The same where it is known who holds the lock.
    pub(crate) fn conclude_with(&mut self, settled: Settled, who: Option<&str>) -> Result<Guard<F>> {
        self.over = true;
        let result = self.result(settled, who);
        if !self.span.is_disabled() {
            self.span.record("outcome", result.as_ref().map_or_else(Error::code, |_| "granted"));
            self.span.record("token", result.as_ref().ok().map(|guard| tracing::field::display(guard.token())));
        }
        result
    }

    fn result(&self, settled: Settled, who: Option<&str>) -> Result<Guard<F>> {
        let error = match settled {
            Settled::Granted { hold, depth: 1 } if hold.remaining().is_zero() && self.entry.layout.is_held() => {
                let effects = self.entry.release(&self.engine, &hold, &Arc::default());
                self.engine.perform_in_background(&self.entry, effects);
                let message = "the lock was granted, but its lease was over before this call could return: the process was stopped, or \
                               its machine suspended, for longer than the ttl, or for a second when its holder handed it on; \
                               acquire it again";
                Error::new(Kind::Lost, "acquire", message)
            }
            Settled::Granted { hold, depth } => return Ok(self.guard(hold, depth)),
            Settled::Refused(Refusal::Taken) => Error::timeout(Duration::ZERO),
            Settled::Refused(Refusal::TimedOut(ahead)) => {
                let ahead = ahead.filter(|_| self.entry.layout.is_held());
                timed_out(self.timeout.unwrap_or_default(), who, ahead)
            }
            Settled::Refused(Refusal::Failed(error)) => error,
            Settled::Released(_) | Settled::Extended(_) | Settled::Changed(_) | Settled::Exported(_) => {
                Error::new(Kind::Internal, "acquire", "an acquisition got another call's result; please report this")
            }
        };
        Err(error.on_lock(self.entry.name.clone()).on_store(self.engine.store.address().clone()))
    }

    fn guard(&self, hold: SharedHold, depth: u32) -> Guard<F> {
        owners::has_guard(hold.by());
        if self.revocable {
            let effects = self.entry.heed(&self.engine, &hold);
            self.engine.perform_in_background(&self.entry, effects);
        }
        let holding = Holding { engine: self.engine.clone(), entry: self.entry.clone(), hold };
        Guard::new(holding, depth, self.generation, self.at_least_for)
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.generation != fork::image()
    }
}

impl<F: Face> Drop for Acquisition<F> {
    fn drop(&mut self) {
        if !self.over && !self.is_forked() {
            let _inside = self.span.enter();
            self.span.record("outcome", Kind::Cancelled.code());
            let effects = self.entry.cancel(&self.engine, self.task, &self.waiter);
            self.engine.perform_in_background(&self.entry, effects);
        }
        Waiter::give_back(&mut self.waiter);
    }
}

impl LockBuilder {
    /// Acquires the lock: [`build`](Self::build) and [`Lock::acquire`].
    ///
    /// # Errors
    /// As both.
    pub async fn acquire(self) -> Result<Guard> {
        self.build()?.acquire().await
    }

    /// Acquires the lock if it is free: [`build`](Self::build) and [`Lock::try_acquire`].
    ///
    /// # Errors
    /// As both.
    pub async fn try_acquire(self) -> Result<Option<Guard>> {
        self.build()?.try_acquire().await
    }
}

impl Lock {
    /// Waits for the lock, as long as the options say.
    ///
    /// Cancelling, by dropping the future, is safe at every await: a place in the queue is left and a lock granted
    /// meanwhile is given back, in the background.
    ///
    /// # Errors
    /// `timeout` when others held it all the time, and who they are; `unavailable` when the store did not answer within
    /// the time limit, or for `store_timeout`; `deadlock` where an [owner](Self::for_owner) would wait for itself
    /// without end; `auth`, `foreign_layout` and `protocol` from the store; `lost` when this process was stopped just
    /// then for longer than the ttl, or for a second when its holder handed the lock on; `closed`.
    pub async fn acquire(&self) -> Result<Guard> {
        self.acquire_within(self.wish.options.timeout).await
    }

    /// Acquires the lock if it is free; `None` when somebody else holds it.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), but never `timeout`.
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        self.try_as(Trial::AT_ONCE).await
    }

    /// Acquires the lock if it is free, for a caller that may wait longer than that.
    pub(crate) async fn try_as(&self, trial: Trial) -> Result<Option<Guard>> {
        let (acquisition, effects) = self.start_trying(trial)?;
        free(acquisition.finish(effects, None).await)
    }

    /// Who holds it, since when, and how many wait; as [`Client::inspect`], in this lock's layout.
    ///
    /// # Errors
    /// As there.
    pub async fn inspect(&self) -> Result<Inspection> {
        self.inspect_by(Road::Task).await
    }

    /// Asks whoever holds it under `expected` to give it back; whether somebody does. That one is told if its lock is
    /// [revocable](LockBuilder::revocable), here or with Curator, and goes on as it likes: this waits for nothing, and
    /// [`break_lock`](Self::break_lock) is what takes it.
    ///
    /// # Errors
    /// `unsupported` where the layout has no such message; `unavailable`, `auth`, `foreign_layout` or `protocol` from
    /// the store, `closed`.
    pub async fn request_release(&self, expected: Token) -> Result<bool> {
        self.ask_back_by(Road::Task, expected).await
    }

    /// Takes it from whoever holds it under `expected`; as [`Client::break_lock`], in this lock's layout.
    ///
    /// # Errors
    /// As there.
    pub async fn break_lock(&self, expected: Token) -> Result<bool> {
        self.break_by(Road::Task, expected).await
    }

    /// As [`acquire`](Self::acquire) with a waiting time of its own: `None` waits for ever, zero only tries.
    ///
    /// # Errors
    /// As there.
    pub async fn acquire_within(&self, timeout: Option<Duration>) -> Result<Guard> {
        let turnstile = &self.client.inner.engine().map_err(|error| self.explain(error))?.turnstile;
        let (passage, left) = match turnstile.pass() {
            Some(passage) => (passage, timeout),
            None => self.line_up(turnstile, timeout).await?,
        };
        let (mut acquisition, effects) = self.start(left)?;
        acquisition.timeout = timeout;
        acquisition.finish(effects, Some(passage)).await
    }

    /// Waits until another task may ask the store, and says how long the lock may still be waited for then.
    async fn line_up<'a>(
        &self,
        turnstile: &'a Turnstile,
        timeout: Option<Duration>,
    ) -> Result<(Passage<'a>, Option<Duration>)> {
        // Who only tries does not wait for the lock, but for an answer.
        let Some(limit) = timeout.filter(|limit| !limit.is_zero()) else {
            return Ok((turnstile.enter().await, timeout));
        };
        let began = clock::now();
        let entered = runtime::within(async { tokio::time::timeout(limit, turnstile.enter()).await }).await?;
        let passage = entered.map_err(|_| self.explain(Error::timeout(limit)))?;
        let left = limit.saturating_sub(clock::now().since(began));
        Ok((passage, Some(left.max(Duration::from_nanos(1)))))
    }
}

impl Acquisition<Async> {
    /// Performs what it began with, and waits for the result. Others may ask in its place once the store has answered
    /// it.
    pub(crate) async fn finish(mut self, effects: Effects, passage: Option<Passage<'_>>) -> Result<Guard> {
        let span = self.span.clone();
        let settled = async {
            self.engine.perform_async(&self.entry, effects, self.deadline).await;
            drop(passage);
            poll_fn(|context| self.waiter.poll(context)).await
        };
        let settled = settled.instrument(span).await;
        let who = match self.who(&settled) {
            Ok(who) => who,
            Err(limit) => self.engine.look_at_async(&self.entry, limit).await,
        };
        self.conclude_with(settled, who.as_deref())
    }
}
