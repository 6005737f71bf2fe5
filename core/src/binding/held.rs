//! A guard as an object of a language whose threads may share it: it is given back once, by whoever comes first, and
//! says afterwards how it ended.
//!
//! In a forked child nothing behind a parent's is touched, for it may be locked for ever: it is [`Standing::Inherited`]
//! there.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::{self, ThreadId};
use std::time::Duration;

use lockwright_machines::error::being_exported;

use super::lost_track;
use super::operation::{Outcome, Work};
use super::watch::{Fate, Watch};
use crate::blocking;
use crate::client::{EXPORTED, Face, Guard, RELEASED};
use crate::driver::road::Road;
use crate::error::{Error, Kind, Result};
use crate::export::Secret;
use crate::lease::{LossReason, ReleaseOutcome};
use crate::multi::MultiGuard;
use crate::platform::fork;
use crate::platform::mutex::locked;
use crate::share::Share;

/// A lock that is held, or was.
#[derive(Debug)]
pub struct Held {
    /// Of the process that acquired it.
    generation: u64,
    name: Arc<str>,
    store: Arc<str>,
    token: AtomicU64,
    epoch: u64,
    depth: u32,
    state: Mutex<State>,
    /// Taken for reading by whoever uses the core's guard while it does I/O, for writing by the one who ends it.
    in_use: RwLock<()>,
    exported: AtomicBool,
}

/// An export under way, which a release recalls: nobody knows the secret yet.
#[derive(Debug)]
struct Leaving {
    /// The thread that it is done in, which goes on with it only once whatever it calls meanwhile returns.
    within: Option<ThreadId>,
    is_recalled: AtomicBool,
    is_over: AtomicBool,
    /// What came of it, for whoever recalled it.
    ending: Mutex<Option<Ending>>,
    over: Arc<Watch>,
}

impl Leaving {
    /// One that is done in this thread, unless it is a task's.
    fn of(road: Road) -> Self {
        let within = match road {
            Road::Thread => Some(thread::current().id()),
            Road::Task => None,
        };
        let (is_recalled, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        Leaving { within, is_recalled, is_over, ending: Mutex::new(None), over: Arc::default() }
    }

    /// Whether it can end while this thread waits for it.
    fn can_end(&self) -> bool {
        self.within != Some(thread::current().id())
    }

    /// Waits until it is over, unless that waits for this thread.
    fn wait(&self) {
        if self.can_end() {
            self.over.register().wait(blocking::Wait::Park(Duration::MAX), None);
        }
    }

    /// The same in a task.
    async fn told(&self) {
        if self.can_end() {
            self.over.clone().told().await;
        }
    }

    /// How the hold ended, once it is over; not known of an export that was cut off, or is not.
    fn ending(&self) -> Ending {
        locked(&self.ending).clone().unwrap_or_else(|| Ending::new(ReleaseOutcome::Unknown, None))
    }
}

/// Whoever exports. Dropping it tells whoever waits for that.
struct Leaver {
    leaving: Arc<Leaving>,
    taken: Taken,
}

impl Drop for Leaver {
    fn drop(&mut self) {
        self.leaving.is_over.store(true, Ordering::Relaxed);
        self.leaving.over.ring(Fate::Over);
    }
}

#[derive(Debug)]
struct State {
    /// `None` once it was released.
    guard: Option<Arc<blocking::Guard>>,
    /// Why it was lost, for whoever asks after the release.
    why: Option<LossReason>,
    watch: Option<Arc<Watch>>,
    /// The export under way, unless it was recalled.
    leaving: Option<Arc<Leaving>>,
}

impl State {
    /// The export under way. One whose task is gone has given the lock back.
    fn leaving(&self) -> Option<&Arc<Leaving>> {
        self.leaving.as_ref().filter(|leaving| !leaving.is_over.load(Ordering::Relaxed))
    }
}

/// How things stand with a [`Held`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It was not given back yet. It may be on its way to a secret.
    Open,
    /// It was released or exported.
    Released,
    /// The parent's: nobody here knows whether it is held.
    Inherited,
}

/// How a hold ended.
#[derive(Clone, Debug)]
pub struct Ending {
    /// What the store found.
    pub outcome: ReleaseOutcome,
    /// Why it was lost, if it was.
    pub why: Option<LossReason>,
}

impl Ending {
    fn new(outcome: ReleaseOutcome, known: Option<LossReason>) -> Self {
        let why = known.or(outcome.loss());
        Ending { outcome, why }
    }

    /// How the hold of this guard ends, which is given back.
    pub(super) async fn of(road: Road, guard: Guard) -> Result<Self> {
        let why = guard.why_lost();
        Ok(Ending::new(guard.release_by(road).await?, why))
    }

    /// The same of several, in one write.
    pub(super) async fn of_all(road: Road, guards: Vec<Guard>) -> Vec<Result<Self>> {
        let why = known(&guards);
        Ending::each(why, MultiGuard::of(guards).release_each_by(road).await)
    }

    fn each(known: Vec<Option<LossReason>>, outcomes: Vec<Result<ReleaseOutcome>>) -> Vec<Result<Ending>> {
        known.into_iter().zip(outcomes).map(|(why, outcome)| Ok(Ending::new(outcome?, why))).collect()
    }
}

/// Why each was lost, as far as it is known here.
fn known<F: Face>(guards: &[Guard<F>]) -> Vec<Option<LossReason>> {
    guards.iter().map(Guard::why_lost).collect()
}

/// What of a read/write lock is held.
pub(super) fn part(writes: bool) -> Share {
    if writes { Share::WRITE } else { Share::READ }
}

/// What a release has to do with.
enum Released {
    /// It gives this back.
    Here(Taken),
    /// Whoever exports gives it back.
    Leaving(Arc<Leaving>),
}

/// A hold being given back. Dropping it tells whoever waits for its loss that there will be none.
#[derive(Debug)]
pub struct Taken {
    guard: Option<Arc<blocking::Guard>>,
    watch: Option<Arc<Watch>>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.take() {
            watch.ring(Fate::Over);
        }
    }
}

impl Held {
    /// What an acquisition got, in this process.
    pub fn new(guard: Guard) -> Self {
        let guard: blocking::Guard = guard.into_face();
        let of = guard.holding().ok().map(|of| (of.entry.name.clone(), of.engine.store.address().clone()));
        let ((name, store), token) = (of.unwrap_or_default(), guard.token());
        Held {
            generation: fork::generation(),
            name,
            store,
            token: AtomicU64::new(token.n),
            epoch: token.epoch,
            depth: guard.depth(),
            state: Mutex::new(State { guard: Some(Arc::new(guard)), why: None, watch: None, leaving: None }),
            in_use: RwLock::new(()),
            exported: AtomicBool::new(false),
        }
    }

    /// The name of its lock.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its fencing token, which a reader gets anew that becomes the writer.
    pub fn token(&self) -> u64 {
        self.token.load(Ordering::Relaxed)
    }

    /// The token's epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How many times its owner holds the lock.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// How things stand in this process.
    pub fn standing(&self) -> Standing {
        if self.is_inherited() {
            return Standing::Inherited;
        }
        let state = locked(&self.state);
        if state.guard.is_none() && state.leaving().is_none() { Standing::Released } else { Standing::Open }
    }

    fn is_inherited(&self) -> bool {
        self.generation != fork::generation()
    }

    /// Asks the core's guard something that it knows by itself.
    fn ask<T>(&self, question: impl FnOnce(&blocking::Guard) -> T) -> Option<T> {
        if self.is_inherited() {
            return None;
        }
        locked(&self.state).guard.as_deref().map(question)
    }

    /// Whether the lock is certainly held at this moment.
    pub fn is_held(&self) -> bool {
        self.ask(blocking::Guard::is_held).unwrap_or(false)
    }

    /// How much longer the lock is certainly held without a further renewal; `None` once it was given back, or is the
    /// parent's.
    pub fn remaining(&self) -> Option<Duration> {
        self.ask(blocking::Guard::remaining)
    }

    /// Why it was lost, if it was.
    pub fn why(&self) -> Option<LossReason> {
        let kept = || if self.is_inherited() { None } else { locked(&self.state).why.clone() };
        self.ask(blocking::Guard::why_lost).unwrap_or_else(kept)
    }

    fn error(&self, kind: Kind, operation: &'static str, message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
        Error::new(kind, operation, message).on_lock(self.name.clone()).on_store(self.store.clone())
    }

    /// The error for whoever uses a parent's.
    pub fn forked(&self, operation: &'static str) -> Error {
        let message =
            "this guard was made before a fork and belongs to the parent process; acquire the lock in this process";
        self.error(Kind::Forked, operation, message)
    }

    /// The error for whoever uses one that was given back.
    pub fn over(&self, operation: &'static str) -> Error {
        let message = if self.exported.load(Ordering::Relaxed) { EXPORTED } else { RELEASED };
        self.error(Kind::NotOwned, operation, message)
    }

    /// Why there is nothing to ask.
    fn absent(&self, state: &State, operation: &'static str) -> Error {
        if state.leaving().is_none() {
            return self.over(operation);
        }
        being_exported(operation).on_lock(self.name.clone()).on_store(self.store.clone())
    }

    /// The core's guard.
    ///
    /// # Errors
    /// `not_owned` once it was given back, `unavailable` while it is exported.
    fn present(&self, operation: &'static str) -> Result<Arc<blocking::Guard>> {
        let state = locked(&self.state);
        state.guard.clone().ok_or_else(|| self.absent(&state, operation))
    }

    /// The error of a block in which it was lost.
    pub fn loss(&self, why: &LossReason) -> Error {
        self.error(Kind::Lost, "release", format!("the lock was lost while it was held: {}", why.sentence()))
    }

    /// That it is this process's.
    ///
    /// # Errors
    /// `forked`.
    pub fn own(&self, operation: &'static str) -> Result<()> {
        if self.is_inherited() { Err(self.forked(operation)) } else { Ok(()) }
    }

    /// That it is this process's and was not given back.
    ///
    /// # Errors
    /// `forked`, `not_owned`.
    pub fn is_open(&self, operation: &'static str) -> Result<()> {
        match self.standing() {
            Standing::Open => Ok(()),
            Standing::Released => Err(self.over(operation)),
            Standing::Inherited => Err(self.forked(operation)),
        }
    }

    /// Has the core's guard do something that takes a while.
    fn using<T>(&self, operation: &'static str, work: impl FnOnce(&blocking::Guard) -> Result<T>) -> Result<T> {
        self.own(operation)?;
        let _in_use = self.in_use.read().unwrap_or_else(PoisonError::into_inner);
        let guard = self.present(operation)?;
        work(&guard)
    }

    /// Makes the lease last at least `ttl` from now, and at every renewal.
    ///
    /// # Errors
    /// As [`blocking::Guard::extend`], and `not_owned`; `unavailable` while it is exported.
    pub fn extend(&self, ttl: Duration) -> Result<()> {
        self.using("extend", |guard| guard.extend(ttl))
    }

    /// The same as a job.
    ///
    /// # Errors
    /// As [`Guard::begin_extend`], and `not_owned`.
    pub fn begin_extend(&self, road: Road, ttl: Duration) -> Result<Work> {
        self.own("extend")?;
        let begun = self.present("extend")?.extend_by(road, ttl)?;
        Ok(Box::pin(async move { begun.await.map(|()| Outcome::DONE) }))
    }

    /// Has a read/write lock's writer go on as a reader, or with `writes` a reader become the writer: whether it did.
    ///
    /// # Errors
    /// As [`blocking::Guard::try_upgrade`], and `not_owned`.
    pub fn change(&self, writes: bool) -> Result<bool> {
        let changed = self.using("change", |guard| match writes {
            true => guard.try_upgrade(),
            false => guard.downgrade().map(|()| true),
        })?;
        self.refresh_token();
        Ok(changed)
    }

    /// The same as a job.
    ///
    /// # Errors
    /// As [`Guard::begin_change`], and `not_owned`.
    pub fn begin_change(self: Arc<Self>, road: Road, writes: bool) -> Result<Work> {
        self.own("change")?;
        let begun = self.present("change")?.change_by(road, part(writes))?;
        Ok(Box::pin(async move {
            let changed = begun.await?;
            self.refresh_token();
            Ok(Outcome::Told(changed.into()))
        }))
    }

    /// A reader that became the writer has a new one.
    fn refresh_token(&self) {
        if let Some(token) = self.ask(blocking::Guard::token) {
            self.token.store(token.n, Ordering::Relaxed);
        }
    }

    /// As [`Guard::hold_at_least_for`].
    ///
    /// # Errors
    /// As there.
    pub fn hold_at_least_for(&self, span: Duration) -> Result<()> {
        let operation = "hold_at_least_for";
        self.own(operation)?;
        let _alone = self.in_use.write().unwrap_or_else(PoisonError::into_inner);
        let mut state = locked(&self.state);
        let Some(guard) = state.guard.as_mut() else { return Err(self.absent(&state, operation)) };
        Arc::get_mut(guard).ok_or_else(|| lost_track(operation))?.hold_at_least_for(span)
    }

    /// Has `tell` called on the driver's thread when the lock is lost before it is given back. Whether it was not given
    /// back yet.
    pub fn on_lost(&self, tell: Box<dyn FnOnce(&'static str) + Send>) -> bool {
        self.ask(|guard| guard.on_lost(move |why| tell(why.code()))).is_some()
    }

    /// Has `tell` called on the driver's thread when somebody asks for the lock back. Whether it was not given back
    /// yet.
    pub fn on_release_requested(&self, tell: Box<dyn FnOnce() + Send>) -> bool {
        self.ask(|guard| guard.on_release_requested(tell)).is_some()
    }

    /// Whether somebody asked for the lock back since it was granted.
    pub fn release_requested(&self) -> bool {
        self.ask(blocking::Guard::release_requested).unwrap_or(false)
    }

    /// Where to wait for its loss; none once it was given back.
    pub fn watch(&self) -> Option<Arc<Watch>> {
        let mut state = locked(&self.state);
        let guard = state.guard.clone()?;
        let watch = state.watch.get_or_insert_with(|| {
            let watch = Arc::new(Watch::default());
            let ringing = watch.clone();
            guard.on_lost(move |why| ringing.ring(Fate::Lost(why.code())));
            watch
        });
        Some(watch.clone())
    }

    /// Takes away what is held: whoever has it gives it back.
    ///
    /// # Errors
    /// `forked`, `not_owned`; `unavailable` while it is exported.
    pub fn take(&self, operation: &'static str) -> Result<Taken> {
        self.own(operation)?;
        self.taken(&mut locked(&self.state), operation)
    }

    fn taken(&self, state: &mut State, operation: &'static str) -> Result<Taken> {
        let guard = state.guard.take().ok_or_else(|| self.absent(state, operation))?;
        Ok(Taken { guard: Some(guard), watch: state.watch.take() })
    }

    /// Takes away what is to be released, or recalls the export that has it.
    fn take_or_recall(&self, operation: &'static str) -> Result<Released> {
        self.own(operation)?;
        let mut state = locked(&self.state);
        let Some(leaving) = state.leaving().cloned() else {
            return Ok(Released::Here(self.taken(&mut state, operation)?));
        };
        state.leaving = None;
        leaving.is_recalled.store(true, Ordering::Relaxed);
        Ok(Released::Leaving(leaving))
    }

    /// The core's guard of what was taken away, once nobody uses it any more, which may take a while.
    fn sole(&self, taken: &mut Taken, operation: &'static str) -> Result<Guard> {
        let _alone = self.in_use.write().unwrap_or_else(PoisonError::into_inner);
        let guard = taken.guard.take().and_then(Arc::into_inner).ok_or_else(|| lost_track(operation))?;
        Ok(guard.into_face())
    }

    /// Keeps how the hold ended.
    fn ended(&self, ending: &Ending) {
        locked(&self.state).why.clone_from(&ending.why);
    }

    /// Gives the lock back.
    ///
    /// # Errors
    /// `forked`, `not_owned`.
    pub fn release(&self) -> Result<Ending> {
        let mut taken = match self.take_or_recall("release")? {
            Released::Here(taken) => taken,
            Released::Leaving(leaving) => {
                leaving.wait();
                return Ok(leaving.ending());
            }
        };
        let guard: blocking::Guard = self.sole(&mut taken, "release")?.into_face();
        let why = guard.why_lost();
        let ending = Ending::new(guard.release()?, why);
        self.ended(&ending);
        Ok(ending)
    }

    /// The same as a job, in which with `strictly` a loss is an error.
    ///
    /// # Errors
    /// `forked`, `not_owned`.
    pub fn begin_release(
        self: Arc<Self>,
        road: Road,
        strictly: bool,
    ) -> Result<impl Future<Output = Result<Outcome>> + Send + use<>> {
        let released = match self.take_or_recall("release")? {
            Released::Here(mut taken) => Ok((self.sole(&mut taken, "release")?, taken)),
            Released::Leaving(leaving) => Err(leaving),
        };
        Ok(async move {
            let ending = match released {
                Ok((guard, taken)) => {
                    let ending = Ending::of(road, guard).await?;
                    self.ended(&ending);
                    // Whoever waits for its loss is told after why it was lost is known.
                    drop(taken);
                    ending
                }
                Err(leaving) => {
                    leaving.told().await;
                    leaving.ending()
                }
            };
            match &ending.why {
                Some(why) if strictly => Err(self.loss(why)),
                _ => Ok(Outcome::Ended(ending)),
            }
        })
    }

    /// Leaves the lock to a secret, unless it is released meanwhile.
    ///
    /// # Errors
    /// As [`blocking::Guard::export`], and `not_owned`; `unavailable` while another export is under way.
    pub fn export(&self, ttl: Duration) -> Result<Secret> {
        let mut leaver = self.leave(Road::Thread)?;
        let mut guard: blocking::Guard = self.sole(&mut leaver.taken, "export")?.into_face();
        let secret = guard.export_unless(ttl, || self.is_recalled(&leaver));
        if let Some(guard) = self.exported(&mut leaver, guard.into_face(), &secret) {
            let guard: blocking::Guard = guard.into_face();
            let why = guard.why_lost();
            self.recalled(&leaver, Ending::new(guard.release()?, why));
        }
        secret
    }

    /// The same as a job.
    ///
    /// # Errors
    /// `forked`, `not_owned`; `unavailable` while another export is under way.
    pub fn begin_export(self: Arc<Self>, road: Road, ttl: Duration) -> Result<Work> {
        let mut leaver = self.leave(road)?;
        let mut guard = self.sole(&mut leaver.taken, "export")?;
        Ok(Box::pin(async move {
            let secret = guard.export_unless(road, ttl, || self.is_recalled(&leaver)).await;
            if let Some(guard) = self.exported(&mut leaver, guard, &secret) {
                self.recalled(&leaver, Ending::of(road, guard).await?);
            }
            secret.map(Outcome::Secret)
        }))
    }

    /// Takes away what is to be exported; it may be recalled from now on.
    fn leave(&self, road: Road) -> Result<Leaver> {
        self.own("export")?;
        let mut state = locked(&self.state);
        let taken = self.taken(&mut state, "export")?;
        let leaving = Arc::new(Leaving::of(road));
        state.leaving = Some(leaving.clone());
        Ok(Leaver { leaving, taken })
    }

    /// Whether a release recalled what was exported just now. None can any more.
    fn is_recalled(&self, leaver: &Leaver) -> bool {
        let mut state = locked(&self.state);
        state.leaving = None;
        let is_recalled = leaver.leaving.is_recalled.load(Ordering::Relaxed);
        self.exported.store(!is_recalled, Ordering::Relaxed);
        is_recalled
    }

    /// Takes up how an export ended: one that changed nothing leaves the guard as it was, or returns it for whoever
    /// recalled it.
    fn exported(&self, leaver: &mut Leaver, guard: Guard, secret: &Result<Secret>) -> Option<Guard> {
        let mut state = locked(&self.state);
        state.leaving = None;
        let is_recalled = leaver.leaving.is_recalled.load(Ordering::Relaxed);
        let (outcome, why) = match secret {
            Ok(_) => return None,
            Err(_) if !guard.is_over() && is_recalled => return Some(guard),
            Err(_) if !guard.is_over() => {
                state.watch = leaver.taken.watch.take();
                state.guard = Some(Arc::new(guard.into_face()));
                return None;
            }
            Err(error) => match error.kind() {
                Kind::NotOwned => (ReleaseOutcome::Released, None),
                Kind::Lost => (ReleaseOutcome::Expired, Some(LossReason::Gone)),
                _ => (ReleaseOutcome::Unknown, None),
            },
        };
        drop(state);
        if is_recalled {
            self.recalled(leaver, Ending::new(outcome, why));
        }
        None
    }

    /// Keeps how a hold ended that was released while it was exported.
    fn recalled(&self, leaver: &Leaver, ending: Ending) {
        self.ended(&ending);
        *locked(&leaver.leaving.ending) = Some(ending);
    }

    /// Lets the lease run out, for one that a collector found: it may come in the middle of what the lock protects. For
    /// how much longer it was still held; `None` where it was given back, or is the parent's.
    pub fn abandon(&self) -> Option<Duration> {
        if self.is_inherited() {
            return None;
        }
        let taken = self.take("abandon").ok()?;
        let guard = self.sole(&mut { taken }, "abandon").ok()?;
        let left = guard.remaining();
        guard.abandon();
        Some(left)
    }
}

/// Several that are given back together, in one write. What became of each is told apart from the others.
#[derive(Debug)]
pub struct Group {
    /// What was taken of each, or why nothing was.
    taken: Vec<std::result::Result<Taken, Untaken>>,
    /// Whether they are of a block, in which a loss is an error and one that is over already none.
    of_block: bool,
}

/// Why nothing was taken.
#[derive(Debug)]
enum Untaken {
    /// It was over before its block was.
    Over,
    /// It cannot be released.
    Refused(Error),
    /// Whoever exports it gives it back.
    Leaving(Arc<Leaving>),
}

impl Group {
    /// Takes away what is held.
    fn take(all: &[Arc<Held>], of_block: bool) -> Self {
        let take = |held: &Arc<Held>| match held.standing() {
            Standing::Released | Standing::Inherited if of_block => Err(Untaken::Over),
            _ => match held.take_or_recall("release") {
                Ok(Released::Here(taken)) => Ok(taken),
                Ok(Released::Leaving(leaving)) => Err(Untaken::Leaving(leaving)),
                Err(error) => Err(Untaken::Refused(error)),
            },
        };
        Group { taken: all.iter().map(take).collect(), of_block }
    }

    /// The exports under way that were recalled.
    fn leaving(&self) -> Vec<Arc<Leaving>> {
        let leaving = |taken: &std::result::Result<Taken, Untaken>| match taken {
            Err(Untaken::Leaving(leaving)) => Some(leaving.clone()),
            _ => None,
        };
        self.taken.iter().filter_map(leaving).collect()
    }

    /// The core's guards of those, which are to be released; once nobody uses them any more, which may take a while.
    fn guards(&mut self, all: &[Arc<Held>]) -> Vec<Guard> {
        let mut guards = Vec::with_capacity(self.taken.len());
        for (held, taken) in all.iter().zip(&mut self.taken) {
            match taken.as_mut().map(|taken| held.sole(taken, "release")) {
                Ok(Ok(guard)) => guards.push(guard),
                Ok(Err(error)) => *taken = Err(Untaken::Refused(error)),
                Err(_) => {}
            }
        }
        guards
    }

    /// Gives them back in this thread, in one write: what became of each. Where they are `of_block`, a loss is an
    /// error, and one that is over already none.
    pub fn release(all: &[Arc<Held>], of_block: bool) -> Vec<Result<Ending>> {
        let mut group = Group::take(all, of_block);
        let guards = group.guards(all);
        let why = known(&guards);
        let ended = Ending::each(why, MultiGuard::of(guards).into_face::<blocking::Blocking>().release_each());
        group.leaving().iter().for_each(|leaving| leaving.wait());
        group.told(all, ended)
    }

    /// The same as a job.
    pub fn begin_release(road: Road, all: Vec<Arc<Held>>, of_block: bool) -> Work {
        let mut group = Group::take(&all, of_block);
        let guards = group.guards(&all);
        Box::pin(async move {
            let ended = Ending::of_all(road, guards).await;
            for leaving in group.leaving() {
                leaving.told().await;
            }
            Ok(Outcome::AllEnded(group.told(&all, ended)))
        })
    }

    fn told(self, all: &[Arc<Held>], ended: Vec<Result<Ending>>) -> Vec<Result<Ending>> {
        let mut ended = ended.into_iter();
        let told = |(held, taken): (&Arc<Held>, std::result::Result<Taken, Untaken>)| {
            let ending = match taken {
                Err(Untaken::Over) => Ending::new(ReleaseOutcome::Released, None),
                Err(Untaken::Refused(error)) => return Err(error),
                Err(Untaken::Leaving(leaving)) => leaving.ending(),
                // Whoever waits for its loss is told after why it was lost is known.
                Ok(_taken) => {
                    let ending = ended.next().unwrap_or_else(|| Err(lost_track("release")))?;
                    held.ended(&ending);
                    ending
                }
            };
            match &ending.why {
                Some(why) if self.of_block => Err(held.loss(why)),
                _ => Ok(ending),
            }
        };
        all.iter().zip(self.taken).map(told).collect()
    }
}

#[cfg(all(test, feature = "memory"))]
mod tests {
    use super::super::client_of_test as client;
    use super::*;

    fn held(client: &blocking::Client, name: &str) -> Held {
        Held::new(client.lock(name).acquire().unwrap().into_face())
    }

    #[test]
    fn it_is_given_back_once() {
        let client = client();
        let guard = held(&client, "x");
        assert!(guard.is_held() && guard.standing() == Standing::Open && &**guard.name() == "x");
        assert_eq!(guard.release().unwrap().outcome, ReleaseOutcome::Released);
        let error = guard.release().unwrap_err();
        assert_eq!((error.code(), error.lock(), error.store()), ("not_owned", Some("x"), Some(client.address())));
        assert!(error.context().contains("released already") && guard.standing() == Standing::Released);
        assert!(client.lock("x").try_acquire().unwrap().is_some());
    }

    #[test]
    fn one_that_was_exported_says_so() {
        let client = client();
        let guard = held(&client, "x");
        let secret = guard.export(Duration::from_secs(10)).unwrap();
        assert!(guard.release().unwrap_err().context().contains("was exported"));
        assert!(client.resume(secret.as_str()).unwrap().is_held());
    }

    #[test]
    fn an_export_that_changed_nothing_leaves_it_held() {
        let guard = held(&client(), "x");
        assert!(guard.export(Duration::ZERO).is_err());
        assert!(guard.is_held());
        assert!(guard.release().is_ok());
    }

    #[test]
    fn what_was_lost_says_why_after_the_release() {
        let client = client();
        let guard = held(&client, "x");
        let watch = guard.watch().unwrap();
        assert!(client.break_lock("x", crate::Token::new(guard.token())).unwrap());
        assert_eq!(watch.register().wait(blocking::Wait::Park(Duration::MAX), None), Some(true));
        assert_eq!(guard.release().unwrap().why, Some(LossReason::Broken));
        assert_eq!(guard.why(), Some(LossReason::Broken));
    }

    #[tokio::test]
    async fn a_job_ends_as_a_thread_does() {
        for road in [Road::Task, Road::Thread] {
            ends_as_a_thread_does(road).await;
        }
    }

    async fn ends_as_a_thread_does(road: Road) {
        let client = client();
        let lost = || {
            let guard = Arc::new(held(&client, "x"));
            assert!(client.break_lock("x", crate::Token::new(guard.token())).unwrap());
            guard
        };
        let Ok(Outcome::Ended(ending)) = lost().begin_release(road, false).unwrap().await else { panic!("not ended") };
        assert_eq!(ending.why, Some(LossReason::Broken));
        let guard = lost();
        assert_eq!(guard.clone().begin_release(road, true).unwrap().await.unwrap_err().code(), "lost");
        assert_eq!((guard.standing(), guard.why()), (Standing::Released, Some(LossReason::Broken)));
        let guard = Arc::new(held(&client, "x"));
        let Ok(Outcome::Secret(secret)) = guard.clone().begin_export(road, Duration::from_secs(10)).unwrap().await
        else {
            panic!("not exported")
        };
        assert!(guard.release().unwrap_err().context().contains("was exported"));
        let guard = Arc::new(Held::new(client.resume(secret.as_str()).unwrap().into_face()));
        assert!(guard.clone().begin_export(road, Duration::ZERO).unwrap().await.is_err() && guard.is_held());
        let Ok(Outcome::AllEnded(all)) = Group::begin_release(road, vec![guard.clone()], false).await else {
            panic!("not ended")
        };
        assert!(matches!(&all[..], [Ok(_)]) && guard.standing() == Standing::Released);
    }

    #[tokio::test]
    async fn a_release_wins_over_an_export_under_way_and_all_else_is_refused() {
        const TTL: Duration = Duration::from_secs(10);
        let client = client();
        for (ttl, code) in [(TTL, "not_owned"), (Duration::ZERO, "invalid_config")] {
            for in_group in [false, true] {
                let guard = Arc::new(held(&client, "x"));
                let export = guard.clone().begin_export(Road::Task, ttl).unwrap();
                let refused = [
                    guard.begin_extend(Road::Task, TTL).err(),
                    guard.clone().begin_change(Road::Task, false).err(),
                    guard.clone().begin_export(Road::Task, TTL).err(),
                    guard.hold_at_least_for(TTL).err(),
                ];
                assert!(refused.iter().all(|error| error.as_ref().is_some_and(|error| error.code() == "unavailable")));
                assert_eq!(guard.standing(), Standing::Open);
                let release: Work = match in_group {
                    true => Group::begin_release(Road::Task, vec![guard.clone()], false),
                    false => Box::pin(guard.clone().begin_release(Road::Task, false).unwrap()),
                };
                assert_eq!((guard.standing(), guard.release().unwrap_err().code()), (Standing::Released, "not_owned"));
                let (exported, released) = tokio::join!(export, release);
                assert_eq!(exported.unwrap_err().code(), code);
                let ending = match released.unwrap() {
                    Outcome::Ended(ending) => ending,
                    Outcome::AllEnded(mut all) => all.remove(0).unwrap(),
                    other => panic!("{other:?}"),
                };
                assert_eq!((ending.outcome, ending.why), (ReleaseOutcome::Released, None));
                assert!(client.lock("x").try_acquire().unwrap().is_some());
            }
        }
    }

    #[tokio::test]
    async fn a_thread_that_releases_waits_for_the_export_under_way() {
        let client = client();
        let guard = Arc::new(held(&client, "x"));
        let export = guard.clone().begin_export(Road::Task, Duration::from_secs(10)).unwrap();
        let thread = std::thread::spawn({
            let guard = guard.clone();
            move || guard.release()
        });
        while guard.standing() == Standing::Open {
            std::thread::yield_now();
        }
        assert_eq!(export.await.unwrap_err().code(), "not_owned");
        assert_eq!(thread.join().unwrap().unwrap().outcome, ReleaseOutcome::Released);
        assert!(client.lock("x").try_acquire().unwrap().is_some());
    }

    #[tokio::test]
    async fn a_release_within_the_thread_of_an_export_does_not_wait_for_it() {
        let client = client();
        for in_group in [true, false] {
            let guard = Arc::new(held(&client, "x"));
            let export = guard.clone().begin_export(Road::Thread, Duration::from_secs(10)).unwrap();
            let ending = match in_group {
                true => Group::release(std::slice::from_ref(&guard), false).remove(0).unwrap(),
                false => guard.release().unwrap(),
            };
            assert_eq!((ending.outcome, guard.standing()), (ReleaseOutcome::Unknown, Standing::Released));
            assert_eq!(export.await.unwrap_err().code(), "not_owned");
            assert!(client.lock("x").try_acquire().unwrap().is_some());
        }
    }

    #[tokio::test]
    async fn an_export_that_is_cut_off_ends_the_release_that_recalled_it() {
        let client = client();
        for is_recalled in [true, false] {
            let guard = Arc::new(held(&client, "x"));
            let export = guard.clone().begin_export(Road::Task, Duration::from_secs(10)).unwrap();
            let release = is_recalled.then(|| guard.clone().begin_release(Road::Task, false).unwrap());
            drop(export);
            if let Some(release) = release {
                let Ok(Outcome::Ended(ending)) = release.await else { panic!("not ended") };
                assert_eq!(ending.outcome, ReleaseOutcome::Unknown);
            }
            let over = guard.begin_extend(Road::Task, Duration::from_secs(10)).err().map(|error| error.code());
            assert_eq!((guard.standing(), over), (Standing::Released, Some("not_owned")));
            assert!(client.lock("x").acquire().unwrap().is_held());
        }
    }

    #[test]
    fn of_several_each_is_told_by_itself() {
        let client = client();
        let all = ["a", "b", "c"].map(|name| Arc::new(held(&client, name)));
        let _ = all[1].release().unwrap();
        assert!(client.break_lock("c", crate::Token::new(all[2].token())).unwrap());
        let told = |of_block| {
            let told = Group::release(&all, of_block).into_iter();
            told.map(|told| told.map_or_else(|error| error.code(), |ending| ending.outcome.code())).collect::<Vec<_>>()
        };
        assert_eq!(told(true), ["released", "released", "lost"]);
        assert_eq!(told(false), ["not_owned", "not_owned", "not_owned"]);
        assert_eq!(told(true), ["released", "released", "released"]);
    }

    #[test]
    fn one_that_was_collected_is_not_renewed_and_not_released() {
        let client = client();
        let guard = held(&client, "x");
        assert!(guard.abandon().is_some_and(|left| left > Duration::from_secs(1)));
        assert!(guard.abandon().is_none());
        assert!(client.lock("x").try_acquire().unwrap().is_none());
    }
}
