//! The guard of what is held, and what it was asked to do that is under way.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use lockwright_machines::error::no_longer_held;
use lockwright_machines::queue::Refusal;
use tracing::{Instrument, Span, debug_span};

use super::lock::cannot_stay;
use super::{Async, Face};
use crate::driver::engine::Engine;
use crate::driver::entry::{Effects, Entry};
use crate::driver::hold::{Hold, SharedHold};
use crate::driver::owners;
use crate::driver::road::Road;
use crate::driver::wait::{Settled, Waiter};
use crate::error::{Error, Kind, Result};
use crate::lease::{LossReason, ReleaseOutcome};
use crate::options::{AcquireOptions, MIN_TTL};
use crate::platform::clock;
use crate::platform::fork;
use crate::share::Share;
use crate::time::Time;
use crate::token::Token;

/// What is wrong with a guard that is used again.
pub(crate) const RELEASED: &str = "this guard was released already";
pub(crate) const EXPORTED: &str = "this guard was exported: whoever resumes the secret has the lock";
const LEFT: &str = "the export of this guard failed, and it holds nothing any more";

#[derive(Clone)]
pub(crate) struct Holding {
    pub(crate) engine: Arc<Engine>,
    pub(crate) entry: Arc<Entry>,
    pub(crate) hold: SharedHold,
}

/// A lock that is held, until it is released, dropped or lost.
///
/// Dropping releases in the background. In a forked child a guard made by the parent is inert: the parent still holds.
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard<F: Face = Async> {
    /// `None` once it was released or exported.
    holding: Option<Holding>,
    /// Until when the lock stays taken though it is released.
    not_before: Option<Time>,
    over: &'static str,
    depth: u32,
    generation: u64,
    face: PhantomData<F>,
}

impl<F: Face> Guard<F> {
    /// What an acquisition ended with, in the process of this fork `generation`.
    pub(super) fn new(holding: Holding, depth: u32, generation: u64, at_least_for: Option<Duration>) -> Self {
        let not_before = at_least_for.map(|span| holding.hold.since.after(span));
        Guard { holding: Some(holding), not_before, over: RELEASED, depth, generation, face: PhantomData }
    }

    /// However early it is released, or dropped, the lock stays taken until so long after the grant (at most 24 h): so
    /// that whoever comes a little later, by a clock that is a little late, finds that it was done. The store keeps it,
    /// also when this process ends; only [`Client::close`](crate::Client::close) with the guard unreleased gives it
    /// back before.
    ///
    /// # Errors
    /// `unsupported` where the layout cannot pass a held lock on, `invalid_config` for more than 24 h, `forked`,
    /// `not_owned`.
    pub fn hold_at_least_for(&mut self, span: Duration) -> Result<()> {
        AcquireOptions { at_least_for: Some(span), ..AcquireOptions::default() }.check()?;
        let Holding { entry, hold, .. } = self.holding()?;
        if !entry.layout.passes(entry.key.clone()) {
            return Err(cannot_stay(&*entry.layout).on_lock(entry.name.clone()));
        }
        self.not_before = Some(hold.since.after(span));
        Ok(())
    }

    /// What is left of that.
    fn early(&self) -> Option<Duration> {
        let left = self.not_before?.since(clock::now());
        (!left.is_zero() && self.depth == 1).then(|| left.max(MIN_TTL))
    }

    /// The fencing token: hand it to whatever the lock protects. [`Token::NONE`] where the layout has no tokens.
    pub fn token(&self) -> Token {
        self.holding.as_ref().map_or(Token::NONE, |holding| holding.hold.token())
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        self.holding.as_ref().map_or("", |holding| &holding.entry.name)
    }

    /// How many levels deep its owner holds the lock; 1 unless it is reentrant.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Whether the lock is certainly held at this moment, by the local clock.
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How much longer the lock is certainly held without a further renewal; zero when it is lost or belongs to the
    /// parent of this forked process.
    pub fn remaining(&self) -> Duration {
        match self.holding() {
            Ok(holding) => holding.hold.remaining(),
            Err(_) => Duration::ZERO,
        }
    }

    /// Why the lock was lost; `None` while it is held.
    pub fn why_lost(&self) -> Option<LossReason> {
        self.holding().ok()?.hold.why_lost()
    }

    /// Has `callback` run once when the lock is lost, at once if it is lost already; never after a release. It runs on
    /// the driver's thread, or on one that waits for the store's answer just then: so it must return quickly, must not
    /// use the client, and must not want a mutex that is held over calls of it.
    pub fn on_lost(&self, callback: impl FnOnce(&LossReason) + Send + 'static) {
        if let Ok(holding) = self.holding() {
            holding.hold.on_lost(Box::new(callback));
        }
    }

    /// Whether somebody asked for the lock back since it was granted; only known of
    /// [revocable](crate::LockBuilder::revocable) locks.
    pub fn release_requested(&self) -> bool {
        self.holding().is_ok_and(|holding| holding.hold.is_wanted())
    }

    /// Has `callback` run once when somebody asks for the lock back, at once if that was done already; never after it
    /// was released or lost, and never for a lock that is not [revocable](crate::LockBuilder::revocable). The lock
    /// stays held until this guard gives it back. It runs where [`on_lost`](Self::on_lost) does, on the same
    /// conditions.
    pub fn on_release_requested(&self, callback: impl FnOnce() + Send + 'static) {
        if let Ok(holding) = self.holding() {
            holding.hold.on_wanted(Box::new(callback));
        }
    }

    /// Whether it was released or exported: then it holds nothing any more.
    pub fn is_over(&self) -> bool {
        self.holding.is_none()
    }

    /// Lets the lease run out: nothing renews it any more, and dropping the guard does nothing. For languages whose
    /// guards are collected at unknown moments, maybe inside the critical section.
    pub fn abandon(mut self) {
        if let Ok(Some(holding)) = self.take() {
            let effects = holding.entry.abandon(&holding.engine, &holding.hold);
            holding.engine.perform_in_background(&holding.entry, effects);
        }
    }

    /// Whether this guard was made before a fork, by the parent, or before this process was
    /// [restored](crate::restored).
    pub fn is_forked(&self) -> bool {
        self.generation != fork::image()
    }

    pub(crate) fn holding(&self) -> Result<&Holding> {
        if self.is_forked() {
            return Err(forked());
        }
        self.holding.as_ref().ok_or_else(|| self.over())
    }

    /// The hold is somebody else's now: that of whoever resumes what was `exported`.
    pub(crate) fn forget(&mut self, exported: bool) {
        (self.holding, self.over) = (None, if exported { EXPORTED } else { LEFT });
    }

    /// The error for whatever is asked of a guard that holds nothing any more.
    fn over(&self) -> Error {
        Error::new(Kind::NotOwned, "release", self.over)
    }

    fn take(&mut self) -> Result<Option<Holding>> {
        if self.is_forked() {
            std::mem::forget(self.holding.take());
            return Err(forked());
        }
        Ok(self.holding.take())
    }

    pub(crate) fn start_release(&mut self) -> Result<Call> {
        let early = self.early();
        let holding = self.take()?;
        let holding = holding.ok_or_else(|| self.over())?;
        let waiter = Waiter::new();
        let effects = match left_to_itself(&holding, early, &waiter) {
            Ok(effects) => effects,
            Err(error) => {
                self.holding = Some(holding);
                return Err(error);
            }
        };
        owners::gave_back(holding.hold.by());
        let (lock, store) = (&*holding.entry.name, &**holding.engine.store.address());
        let span = debug_span!(target: "lockwright::release", "release", lock, store, token = %holding.hold.token());
        Ok(Call { engine: holding.engine, entry: holding.entry, waiter, effects: Some(effects), span })
    }

    pub(crate) fn start_extend(&self, ttl: Duration) -> Result<Extension> {
        let wanted = AcquireOptions { ttl, ..AcquireOptions::default() };
        wanted.check()?;
        let Holding { engine, entry, hold } = self.holding()?;
        engine.store.check_lease(ttl)?;
        entry.layout.check(&wanted)?;
        let waiter = Waiter::new();
        let effects = entry.extend(engine, hold, ttl, &waiter);
        let span = Span::none();
        let call = Call { engine: engine.clone(), entry: entry.clone(), waiter, effects: Some(effects), span };
        Ok(Extension { call, hold: hold.clone() })
    }

    /// Begins to hold another part of a read/write lock.
    pub(crate) fn start_change(&self, to: Share) -> Result<Change> {
        let Holding { engine, entry, hold } = self.holding()?;
        if entry.layout.share().is_none_or(|share| share.primitive != to.primitive) {
            let message = "only a guard of a read/write lock can be downgraded or upgraded";
            return Err(Error::unsupported("change", message).on_lock(entry.name.clone()));
        }
        let waiter = Waiter::new();
        let effects = entry.change(engine, hold, to.units, &waiter);
        let span = Span::none();
        let call = Call { engine: engine.clone(), entry: entry.clone(), waiter, effects: Some(effects), span };
        Ok(Change { call, hold: hold.clone() })
    }

    /// [`extend`](Guard::extend) for whoever cannot keep the guard meanwhile: begun at once, ended by awaiting what
    /// this returns.
    ///
    /// # Errors
    /// As there.
    pub fn begin_extend(&self, ttl: Duration) -> Result<impl Future<Output = Result<()>> + Send + use<F>> {
        self.extend_by(Road::Task, ttl)
    }

    pub(crate) fn extend_by(
        &self,
        road: Road,
        ttl: Duration,
    ) -> Result<impl Future<Output = Result<()>> + Send + use<F>> {
        let Extension { call, hold } = self.start_extend(ttl)?;
        Ok(async move {
            let entry = call.entry.clone();
            extended(&entry, &hold, &call.finish_by(road).await)
        })
    }

    pub(crate) async fn release_by(mut self, road: Road) -> Result<ReleaseOutcome> {
        let call = self.start_release()?;
        Ok(outcome_of(call.finish_by(road).await))
    }

    /// The same guard for callers that wait in another way.
    pub fn into_face<G: Face>(mut self) -> Guard<G> {
        let (holding, not_before) = (self.holding.take(), self.not_before);
        let (depth, generation) = (self.depth, self.generation);
        Guard { holding, not_before, over: self.over, depth, generation, face: PhantomData }
    }
}

/// A change under way, of the hold that it is about.
pub(crate) struct Change {
    pub(crate) call: Call,
    hold: SharedHold,
}

impl Change {
    /// Whether it holds now what was wanted.
    pub(crate) fn outcome(entry: &Entry, hold: &Hold, settled: &Settled) -> Result<bool> {
        match (settled, hold.why_lost()) {
            (Settled::Changed(true), _) => Ok(true),
            (Settled::Refused(Refusal::Failed(error)), None) => Err(error.clone().on_lock(entry.name.clone())),
            (_, None) if !hold.is_over() => Ok(false),
            (_, reason) => Err(no_longer_held("change", reason).on_lock(entry.name.clone())),
        }
    }

    pub(crate) async fn finish_by(self, road: Road) -> Result<bool> {
        let (entry, hold) = (self.call.entry.clone(), self.hold);
        Change::outcome(&entry, &hold, &self.call.finish_by(road).await)
    }

    pub(crate) fn finish_here(self) -> Result<bool> {
        let (entry, hold) = (self.call.entry.clone(), self.hold);
        Change::outcome(&entry, &hold, &self.call.finish_here())
    }
}

/// An extension under way, of the hold that it is about.
pub(crate) struct Extension {
    pub(crate) call: Call,
    pub(crate) hold: SharedHold,
}

/// What became of an extension.
pub(crate) fn extended(entry: &Entry, hold: &Hold, settled: &Settled) -> Result<()> {
    match settled {
        Settled::Extended(true) => return Ok(()),
        Settled::Refused(Refusal::Failed(error)) if hold.why_lost().is_none() => {
            return Err(error.clone().on_lock(entry.name.clone()));
        }
        _ => {}
    }
    Err(no_longer_held("extend", hold.why_lost()).on_lock(entry.name.clone()))
}

/// A release or an extension under way.
pub(crate) struct Call {
    pub(crate) engine: Arc<Engine>,
    pub(crate) entry: Arc<Entry>,
    pub(crate) waiter: Arc<Waiter>,
    pub(crate) effects: Option<Effects>,
    pub(crate) span: Span,
}

impl Call {
    /// What comes of it. On [`Road::Thread`] whoever polls asks the store, and waits for what the background brings.
    pub(crate) async fn finish_by(mut self, road: Road) -> Settled {
        if let Some(effects) = self.effects.take() {
            let asked = self.engine.perform_by(road, &self.entry, effects);
            asked.instrument(self.span.clone()).await;
        }
        poll_fn(|context| self.waiter.poll(context)).await
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(effects) = self.effects.take() {
            self.engine.perform_in_background(&self.entry, effects);
        }
        Waiter::give_back(&mut self.waiter);
    }
}

pub(crate) fn outcome_of(settled: Settled) -> ReleaseOutcome {
    match settled {
        Settled::Released(outcome) => outcome,
        // Nobody knows the secret that has it yet.
        Settled::Exported(_) => ReleaseOutcome::Released,
        _ => ReleaseOutcome::Unknown,
    }
}

impl Guard {
    /// Gives the lock back, and says what the store found. Dropping the future does not take the release back.
    ///
    /// # Errors
    /// `forked` when the guard belongs to the parent of this process.
    pub async fn release(self) -> Result<ReleaseOutcome> {
        self.release_by(Road::Task).await
    }

    /// Makes the lease last at least `ttl` (20 ms to 24 h) from now, and renewals from now on.
    ///
    /// # Errors
    /// `lost` when the lock is not held any more, `forked`, `invalid_config`; `unavailable` when the store did not
    /// answer for `store_timeout`: it may yet, and the lock stays held for as long as `remaining` says; what the store
    /// says when it refuses for good, such as `auth` or `foreign_layout`: then the lease runs out.
    pub async fn extend(&self, ttl: Duration) -> Result<()> {
        self.begin_extend(ttl)?.await
    }

    /// Waits until the lock is lost. Never ends for a lock that is released.
    pub async fn lost(&self) -> LossReason {
        poll_fn(|context| match self.holding() {
            Ok(holding) => holding.hold.poll_lost(context),
            Err(_) => Poll::Ready(LossReason::Closed),
        })
        .await
    }
}

/// Gives back what is held: now, or by itself after `early`, until when a secret has it that nobody is told.
fn left_to_itself(
    Holding { engine, entry, hold }: &Holding,
    early: Option<Duration>,
    waiter: &Arc<Waiter>,
) -> Result<Effects> {
    Ok(match early {
        Some(left) => entry.export(engine, hold, engine.mint()?, left, waiter),
        None => entry.release(engine, hold, waiter),
    })
}

impl<F: Face> Drop for Guard<F> {
    fn drop(&mut self) {
        let early = self.early();
        if let Ok(Some(holding)) = self.take() {
            owners::gave_back(holding.hold.by());
            let waiter = Waiter::new();
            // Without randomness nothing can hold it on: its lease runs out, which is no sooner.
            let effects = left_to_itself(&holding, early, &waiter)
                .unwrap_or_else(|_| holding.entry.abandon(&holding.engine, &holding.hold));
            holding.engine.perform_in_background(&holding.entry, effects);
        }
    }
}

impl<F: Face> std::fmt::Debug for Guard<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Guard({:?}, token {}, {:?} left)", self.name(), self.token(), self.remaining())
    }
}

fn forked() -> Error {
    let message = "this guard was made before a fork, or before this process was restored from a copy of itself, and belongs to the other \
         process; acquire the lock in this one";
    Error::new(Kind::Forked, "release", message)
}
