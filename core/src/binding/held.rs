//! A guard as an object of a language whose threads may share it: it is given back once, by whoever comes first, and
//! says afterwards how it ended.
//!
//! In a forked child nothing behind a parent's is touched, for it may be locked for ever: it is [`Standing::Inherited`]
//! there.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use super::lost_track;
use super::operation::{Outcome, Work};
use super::watch::{Fate, Watch};
use crate::blocking;
use crate::client::{Face, Guard};
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

#[derive(Debug)]
struct State {
    /// `None` once it was released.
    guard: Option<Arc<blocking::Guard>>,
    /// Why it was lost, for whoever asks after the release.
    why: Option<LossReason>,
    watch: Option<Arc<Watch>>,
}

/// How things stand with a [`Held`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It was not given back yet.
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
    pub(super) async fn of(guard: Guard) -> Result<Self> {
        let why = guard.why_lost();
        Ok(Ending::new(guard.release().await?, why))
    }

    /// The same of several, in one write.
    pub(super) async fn of_all(guards: Vec<Guard>) -> Vec<Result<Self>> {
        let why = known(&guards);
        Ending::each(why, MultiGuard::of(guards).release_each().await)
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
            state: Mutex::new(State { guard: Some(Arc::new(guard)), why: None, watch: None }),
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
            Standing::Inherited
        } else if locked(&self.state).guard.is_none() {
            Standing::Released
        } else {
            Standing::Open
        }
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
        let message = match self.exported.load(Ordering::Relaxed) {
            true => "this guard was exported: whoever resumes the secret has the lock",
            false => "this guard was released already",
        };
        self.error(Kind::NotOwned, operation, message)
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
        let guard = locked(&self.state).guard.clone();
        work(&*guard.ok_or_else(|| self.over(operation))?)
    }

    /// Makes the lease last at least `ttl` from now, and at every renewal.
    ///
    /// # Errors
    /// As [`blocking::Guard::extend`], and `not_owned`.
    pub fn extend(&self, ttl: Duration) -> Result<()> {
        self.using("extend", |guard| guard.extend(ttl))
    }

    /// The same as a job.
    ///
    /// # Errors
    /// As [`Guard::begin_extend`], and `not_owned`.
    pub fn begin_extend(&self, ttl: Duration) -> Result<Work> {
        self.own("extend")?;
        let begun = self.ask(|guard| guard.begin_extend(ttl)).ok_or_else(|| self.over("extend"))??;
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
    pub fn begin_change(self: Arc<Self>, writes: bool) -> Result<Work> {
        self.own("change")?;
        let begun = self.ask(|guard| guard.begin_change(part(writes))).ok_or_else(|| self.over("change"))??;
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
        let guard = state.guard.as_mut().ok_or_else(|| self.over(operation))?;
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
    /// `forked`, `not_owned`.
    pub fn take(&self, operation: &'static str) -> Result<Taken> {
        self.own(operation)?;
        let mut state = locked(&self.state);
        let guard = state.guard.take().ok_or_else(|| self.over(operation))?;
        Ok(Taken { guard: Some(guard), watch: state.watch.take() })
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
        let mut taken = self.take("release")?;
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
        strictly: bool,
    ) -> Result<impl Future<Output = Result<Outcome>> + Send + use<>> {
        let mut taken = self.take("release")?;
        let guard = self.sole(&mut taken, "release")?;
        Ok(async move {
            let ending = Ending::of(guard).await?;
            self.ended(&ending);
            // Whoever waits for its loss is told after why it was lost is known.
            drop(taken);
            match &ending.why {
                Some(why) if strictly => Err(self.loss(why)),
                _ => Ok(Outcome::Ended(ending)),
            }
        })
    }

    /// Leaves the lock to a secret.
    ///
    /// # Errors
    /// As [`blocking::Guard::export`], and `not_owned`.
    pub fn export(&self, ttl: Duration) -> Result<Secret> {
        let mut taken = self.take("export")?;
        let mut guard: blocking::Guard = self.sole(&mut taken, "export")?.into_face();
        let secret = guard.export(ttl);
        self.exported(taken, guard.into_face(), secret)
    }

    /// The same as a job.
    ///
    /// # Errors
    /// `forked`, `not_owned`.
    pub fn begin_export(self: Arc<Self>, ttl: Duration) -> Result<Work> {
        let mut taken = self.take("export")?;
        let mut guard = self.sole(&mut taken, "export")?;
        Ok(Box::pin(async move {
            let secret = guard.export(ttl).await;
            self.exported(taken, guard, secret).map(Outcome::Secret)
        }))
    }

    /// Takes up how an export ended: one that changed nothing leaves it as it was.
    fn exported(&self, mut taken: Taken, guard: Guard, secret: Result<Secret>) -> Result<Secret> {
        if secret.is_ok() {
            self.exported.store(true, Ordering::Relaxed);
        } else if !guard.is_over() {
            let mut state = locked(&self.state);
            state.watch = taken.watch.take();
            state.guard = Some(Arc::new(guard.into_face()));
        }
        secret
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
    taken: Vec<std::result::Result<Taken, Option<Error>>>,
    /// Whether they are of a block, in which a loss is an error and one that is over already none.
    of_block: bool,
}

impl Group {
    /// Takes away what is held.
    fn take(all: &[Arc<Held>], of_block: bool) -> Self {
        let take = |held: &Arc<Held>| match held.standing() {
            Standing::Open => held.take("release").map_err(Some),
            _ if of_block => Err(None),
            _ => Err(held.is_open("release").err()),
        };
        Group { taken: all.iter().map(take).collect(), of_block }
    }

    /// The core's guards of those, which are to be released; once nobody uses them any more, which may take a while.
    fn guards(&mut self, all: &[Arc<Held>]) -> Vec<Guard> {
        let mut guards = Vec::with_capacity(self.taken.len());
        for (held, taken) in all.iter().zip(&mut self.taken) {
            match taken.as_mut().map(|taken| held.sole(taken, "release")) {
                Ok(Ok(guard)) => guards.push(guard),
                Ok(Err(error)) => *taken = Err(Some(error)),
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
        group.told(all, ended)
    }

    /// The same as a job.
    pub fn begin_release(all: Vec<Arc<Held>>, of_block: bool) -> Work {
        let mut group = Group::take(&all, of_block);
        let guards = group.guards(&all);
        Box::pin(async move {
            let ended = Ending::of_all(guards).await;
            Ok(Outcome::AllEnded(group.told(&all, ended)))
        })
    }

    fn told(self, all: &[Arc<Held>], ended: Vec<Result<Ending>>) -> Vec<Result<Ending>> {
        let mut ended = ended.into_iter();
        let told = |(held, taken): (&Arc<Held>, std::result::Result<Taken, Option<Error>>)| match taken {
            Err(None) => Ok(Ending::new(ReleaseOutcome::Released, None)),
            Err(Some(error)) => Err(error),
            // Whoever waits for its loss is told after why it was lost is known.
            Ok(_taken) => {
                let ending = ended.next().unwrap_or_else(|| Err(lost_track("release")))?;
                held.ended(&ending);
                match &ending.why {
                    Some(why) if self.of_block => Err(held.loss(why)),
                    _ => Ok(ending),
                }
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
        let client = client();
        let lost = || {
            let guard = Arc::new(held(&client, "x"));
            assert!(client.break_lock("x", crate::Token::new(guard.token())).unwrap());
            guard
        };
        let Ok(Outcome::Ended(ending)) = lost().begin_release(false).unwrap().await else { panic!("not ended") };
        assert_eq!(ending.why, Some(LossReason::Broken));
        let guard = lost();
        assert_eq!(guard.clone().begin_release(true).unwrap().await.unwrap_err().code(), "lost");
        assert_eq!((guard.standing(), guard.why()), (Standing::Released, Some(LossReason::Broken)));
        let guard = Arc::new(held(&client, "x"));
        let Ok(Outcome::Secret(secret)) = guard.clone().begin_export(Duration::from_secs(10)).unwrap().await else {
            panic!("not exported")
        };
        assert!(guard.release().unwrap_err().context().contains("was exported"));
        let guard = Arc::new(Held::new(client.resume(secret.as_str()).unwrap().into_face()));
        assert!(guard.clone().begin_export(Duration::ZERO).unwrap().await.is_err() && guard.is_held());
        let Ok(Outcome::AllEnded(all)) = Group::begin_release(vec![guard.clone()], false).await else {
            panic!("not ended")
        };
        assert!(matches!(&all[..], [Ok(_)]) && guard.standing() == Standing::Released);
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
