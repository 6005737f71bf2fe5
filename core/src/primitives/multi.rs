//! Several locks as one: [`Client::multi_lock`](crate::Client::multi_lock).
//!
//! **When to use.** What is to be done needs several things at once, such as both accounts of a transfer, and each of
//! them has a lock that others take alone.
//!
//! **When not.** For things that are always used together one lock is simpler and cheaper. For one of several things
//! that are alike take [`striped`](crate::striped).
//!
//! All or nothing: first all are tried by one request (where the layout can; by one after the other elsewhere), which
//! takes all or none. If somebody has one of them, they are acquired one after the other, in the order of their keys in
//! the store; those already taken are kept and renewed meanwhile; should one be lost nevertheless, all are given back
//! and waited for again. Since everybody goes in that order, no circle of waiters can come about, whatever order the
//! names were given in (ordered resource allocation, E. W. Dijkstra, *Hierarchical ordering of sequential processes*,
//! 1971). The timeout covers all of it; when it runs out, everything is given back. Each lock has a fencing token of
//! its own, and the loss of one is the loss of all: [`MultiGuard::is_held`] is false then. A name given twice counts
//! once.
//!
//! ```no_run
//! # async fn example(client: lockwright::Client) -> lockwright::Result<()> {
//! let transfer = client.multi_lock(["account:7", "account:3"])?;
//! let guard = transfer.acquire().await?;
//! for (name, token) in guard.tokens() {
//!     println!("{name}: fencing token {token}");
//! }
//! let _ = guard.release().await?;
//! # Ok(())
//! # }
//! ```

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use lockwright_machines::error::{left_of, lost_meanwhile, of_several};

use crate::Async;
use crate::blocking::{Acquiring, Wait};
use crate::client::{Blocking, Client, Face, Guard, Lock, left};
use crate::driver::engine::Trial;
use crate::driver::owners::this_thread;
use crate::driver::road::Road;
use crate::error::{Error, Kind, Result};
use crate::lease::{LossReason, ReleaseOutcome};
use crate::options::AcquireOptions;
use crate::platform::clock;
use crate::platform::mutex::locked;
use crate::protocol::Policy;
use crate::queue::OwnerId;
use crate::release::{Outcomes, Releases};
use crate::time::Time;
use crate::together::{Taken, Trying, try_together};
use crate::token::Token;

/// Several named locks that are acquired together. Cheap to clone.
pub struct MultiLock<F: Face = Async> {
    /// In the order in which everybody takes them.
    locks: Arc<[Lock<F>]>,
}

impl<F: Face> Client<F> {
    /// The locks called `names`, to be held all at once, with this client's options.
    ///
    /// # Errors
    /// `invalid_config` for no name at all; else as [`LockBuilder::build`](crate::LockBuilder::build) for each.
    pub fn multi_lock(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Result<MultiLock<F>> {
        self.multi_lock_with(names, &self.options())
    }

    /// The same with other options, each of which every one of the locks gets; the timeout is for all of them.
    ///
    /// # Errors
    /// As there; `unsupported` for `reentrant`.
    pub fn multi_lock_with(
        &self,
        names: impl IntoIterator<Item = impl AsRef<str>>,
        options: &AcquireOptions,
    ) -> Result<MultiLock<F>> {
        if options.reentrant {
            return Err(Error::unsupported("lock", "several locks at once cannot be reentrant; leave it out"));
        }
        let lock = |name: &str| self.lock(name).options(options.clone()).build();
        let mut locks = names.into_iter().map(|name| lock(name.as_ref())).collect::<Result<Vec<_>>>()?;
        locks.sort_by(|a, b| a.key().cmp(b.key()));
        locks.dedup_by(|a, b| a.key() == b.key());
        if locks.is_empty() {
            return Err(Error::invalid("lock", "no lock is named; name at least one"));
        }
        Ok(MultiLock { locks: locks.into() })
    }
}

impl<F: Face> MultiLock<F> {
    /// The names, each once, in the order in which they are taken.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.locks.iter().map(Lock::name)
    }

    #[cfg(feature = "bindings")]
    pub(crate) fn client(&self) -> Option<&Client<F>> {
        self.locks.first().map(Lock::client)
    }

    /// The same locks for callers that wait in another way.
    pub fn into_face<G: Face>(self) -> MultiLock<G> {
        MultiLock { locks: self.locks.iter().map(|lock| lock.clone().into_face()).collect() }
    }

    /// The same locks for an owner; see [`Lock::for_owner`].
    #[must_use]
    pub fn for_owner(&self, owner: OwnerId) -> Self {
        MultiLock { locks: self.locks.iter().map(|lock| lock.clone().for_owner(owner)).collect() }
    }

    /// The options of each.
    pub fn options(&self) -> &AcquireOptions {
        // One is always named.
        self.locks[0].options()
    }

    fn deadline(timeout: Option<Duration>) -> Option<Time> {
        timeout.map(|timeout| clock::now().after(timeout))
    }

    /// The guard of all, if none was lost while the others were waited for.
    fn complete(guards: Vec<Guard<F>>) -> Result<MultiGuard<F>> {
        match guards.iter().find(|guard| !guard.is_held()) {
            None => Ok(MultiGuard { guards }),
            Some(lost) => Err(lost_meanwhile().on_lock(lost.name())),
        }
    }

    /// The error of an acquisition in which the lock of index `waited` was waited for, where it is known which.
    fn explain(&self, error: Error, waited: Option<usize>) -> Error {
        let error = match waited.and_then(|index| self.locks.get(index)) {
            Some(lock) => error.on_lock(lock.name()),
            None => error,
        };
        let error = of_several(error, self.locks.iter().map(Lock::name));
        match self.locks.first() {
            Some(lock) => error.on_store(lock.client().address()),
            None => error,
        }
    }

    /// Whether what was lost while others were waited for is waited for again. Without renewal it would only be lost
    /// again.
    fn begins_again(&self, deadline: Option<Time>) -> bool {
        self.options().renew && deadline.is_none_or(|deadline| !left(deadline).is_zero())
    }

    /// The guard of all where all were tried at once, and each of them was granted.
    fn all_of(&self, granted: Taken<F>) -> Result<MultiGuard<F>> {
        let all = Self::complete(granted.into_iter().map(|(_, guard)| guard).collect());
        all.map_err(|error| self.explain(error, None))
    }

    /// What comes of trying all at once, where nothing is to be waited for any more.
    fn tried(&self, granted: Taken<F>, timeout: Option<Duration>) -> Option<Result<MultiGuard<F>>> {
        if granted.len() == self.locks.len() {
            return Some(self.all_of(granted));
        }
        // Who was granted some gave them back, and does not know which others were taken.
        (timeout == Some(Duration::ZERO)).then(|| Err(self.explain(Error::timeout(Duration::ZERO), None)))
    }
}

impl MultiLock {
    /// Waits until all are held, as long as the options say.
    ///
    /// Cancelling, by dropping the future, is safe at every await: what was acquired is given back, in the background.
    ///
    /// # Errors
    /// `timeout` when others held one of them all the time; `lost` when one was lost while others were waited for, and
    /// it is not renewed or there is no time left; else as [`Lock::acquire`]. Then none is held.
    pub async fn acquire(&self) -> Result<MultiGuard> {
        self.acquire_within(self.options().timeout).await
    }

    /// Acquires all if all are free; `None` when somebody else holds one.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), but never `timeout`.
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>> {
        match self.acquire_within(Some(Duration::ZERO)).await {
            Err(error) if error.kind() == Kind::Timeout => Ok(None),
            result => result.map(Some),
        }
    }

    /// As [`acquire`](Self::acquire) with a waiting time of its own: `None` waits for ever, zero only tries.
    ///
    /// # Errors
    /// As there.
    pub async fn acquire_within(&self, timeout: Option<Duration>) -> Result<MultiGuard> {
        let deadline = Self::deadline(timeout);
        let tried = try_together(&self.locks, Policy::All, Trial::within(timeout, deadline)).await;
        let tried = tried.map_err(|error| self.explain(error, None))?;
        if let Some(result) = tried.and_then(|granted| self.tried(granted, timeout)) {
            return result;
        }
        loop {
            let mut guards = Vec::with_capacity(self.locks.len());
            for (index, lock) in self.locks.iter().enumerate() {
                let guard = async { lock.acquire_within(left_of(timeout, deadline.map(left))?).await };
                guards.push(guard.await.map_err(|error| self.explain(error, Some(index)))?);
            }
            match Self::complete(guards) {
                Err(_) if self.begins_again(deadline) => {}
                result => return result.map_err(|error| self.explain(error, None)),
            }
        }
    }
}

impl MultiLock<Blocking> {
    /// See the async [`acquire`](crate::multi::MultiLock::acquire).
    ///
    /// # Errors
    /// As there.
    pub fn acquire(&self) -> Result<MultiGuard<Blocking>> {
        let mut acquiring = self.begin_for(self.options().timeout, this_thread())?;
        loop {
            if let Some(result) = acquiring.wait(Duration::MAX) {
                return result;
            }
        }
    }

    /// Acquires all if all are free; `None` when somebody else holds one.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), but never `timeout`.
    pub fn try_acquire(&self) -> Result<Option<MultiGuard<Blocking>>> {
        let mut acquiring = self.begin(Some(Duration::ZERO))?;
        loop {
            match acquiring.wait(Duration::MAX) {
                Some(Err(error)) if error.kind() == Kind::Timeout => return Ok(None),
                Some(result) => return result.map(Some),
                None => {}
            }
        }
    }

    /// Begins to acquire all, with a waiting time of its own, for callers that wait in slices to look at signals in
    /// between.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub fn begin(&self, timeout: Option<Duration>) -> Result<AcquiringAll> {
        self.begin_for(timeout, None)
    }

    fn begin_for(&self, timeout: Option<Duration>, by: Option<OwnerId>) -> Result<AcquiringAll> {
        let deadline = Self::deadline(timeout);
        let (lock, guards) = (self.clone(), Vec::new());
        let trying = Trying::begin(&self.locks, Policy::All, Trial::within(timeout, deadline))?;
        let mut acquiring = AcquiringAll { lock, by, timeout, deadline, trying, guards, next: None };
        if acquiring.trying.is_none() {
            acquiring.begin_next().map_err(|error| self.explain(error, Some(0)))?;
        }
        Ok(acquiring)
    }
}

/// Several locks being acquired. Dropping it gives up.
pub struct AcquiringAll {
    lock: MultiLock<Blocking>,
    by: Option<OwnerId>,
    timeout: Option<Duration>,
    deadline: Option<Time>,
    /// All of them at once.
    trying: Option<Trying>,
    guards: Vec<Guard<Blocking>>,
    next: Option<Acquiring>,
}

impl AcquiringAll {
    /// Waits as `how` says; `None` when there is no result yet. Call it no more after a result.
    pub fn wait<'a>(&mut self, how: impl Into<Wait<'a>>) -> Option<Result<MultiGuard<Blocking>>> {
        let how = how.into();
        loop {
            if let Some(trying) = &mut self.trying {
                let granted = trying.wait(how)?;
                self.trying = None;
                if let Some(result) = self.tried(granted) {
                    return Some(result);
                }
                continue;
            }
            let result = self.next.as_mut()?.wait(how)?;
            let result = result.and_then(|guard| {
                self.guards.push(guard);
                self.begin_next()
            });
            let result = match result {
                Ok(()) if self.next.is_none() => self.complete(),
                Ok(()) => None,
                Err(error) => {
                    let waited = self.guards.len();
                    self.guards.clear();
                    Some(Err(self.lock.explain(error, Some(waited))))
                }
            };
            // Nobody would wake whoever is to be woken for what was begun just now.
            if result.is_some() || matches!(how, Wait::Park(_)) {
                return result;
            }
        }
    }

    /// What comes of it that all were tried at once; else the first of them is waited for.
    fn tried(&mut self, granted: Result<Taken<Blocking>>) -> Option<Result<MultiGuard<Blocking>>> {
        match granted.map(|granted| self.lock.tried(granted, self.timeout)) {
            Ok(Some(result)) => Some(result),
            Ok(None) => self.begin_next().err().map(|error| Err(self.lock.explain(error, Some(0)))),
            Err(error) => Some(Err(self.lock.explain(error, None))),
        }
    }

    fn complete(&mut self) -> Option<Result<MultiGuard<Blocking>>> {
        match MultiLock::complete(std::mem::take(&mut self.guards)) {
            Err(_) if self.lock.begins_again(self.deadline) => {
                self.begin_next().err().map(|error| Err(self.lock.explain(error, Some(0))))
            }
            result => Some(result.map_err(|error| self.lock.explain(error, None))),
        }
    }

    fn begin_next(&mut self) -> Result<()> {
        let left = || left_of(self.timeout, self.deadline.map(left));
        let next = self.lock.locks.get(self.guards.len());
        self.next = next.map(|lock| Ok(Acquiring::begin(lock.start_for(left()?, self.by)?))).transpose()?;
        Ok(())
    }
}

impl std::fmt::Debug for AcquiringAll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AcquiringAll({} of {})", self.guards.len(), self.lock.locks.len())
    }
}

/// Several locks that are held together, until they are released, dropped, or one of them is lost.
#[must_use = "the locks are released when the guard is dropped"]
pub struct MultiGuard<F: Face = Async> {
    /// In the order of the lock.
    guards: Vec<Guard<F>>,
}

impl<F: Face> MultiGuard<F> {
    /// The fencing token of each lock, by its name.
    pub fn tokens(&self) -> impl Iterator<Item = (&str, Token)> {
        self.guards.iter().map(|guard| (guard.name(), guard.token()))
    }

    /// The fencing token of the lock `name`; `None` if it is not among them.
    pub fn token_of(&self, name: &str) -> Option<Token> {
        self.tokens().find(|(known, _)| *known == name).map(|(_, token)| token)
    }

    /// Whether all are certainly held at this moment.
    pub fn is_held(&self) -> bool {
        self.guards.iter().all(Guard::is_held)
    }

    /// How much longer all are certainly held without a further renewal.
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(Guard::remaining).min().unwrap_or_default()
    }

    /// Which lock was lost, and why; `None` while all are held.
    pub fn why_lost(&self) -> Option<(&str, LossReason)> {
        self.guards.iter().find_map(|guard| Some((guard.name(), guard.why_lost()?)))
    }

    /// Has `callback` run once when the first of them is lost, as [`Guard::on_lost`] does.
    pub fn on_lost(&self, callback: impl FnOnce(&LossReason) + Send + 'static) {
        let callback = Arc::new(Mutex::new(Some(callback)));
        for guard in &self.guards {
            let callback = callback.clone();
            guard.on_lost(move |reason| {
                let callback = locked(&callback).take();
                if let Some(callback) = callback {
                    callback(reason);
                }
            });
        }
    }

    /// The same guard for callers that wait in another way.
    pub fn into_face<G: Face>(self) -> MultiGuard<G> {
        MultiGuard { guards: self.guards.into_iter().map(Guard::into_face).collect() }
    }

    /// Guards that were acquired one by one, to be released in one write; those of several clients are one write each.
    pub fn of(guards: Vec<Guard<F>>) -> Self {
        MultiGuard { guards }
    }

    pub(crate) async fn release_each_by(self, road: Road) -> Outcomes {
        Releases::of(self.guards).perform_by(road).await
    }

    /// The guards of the single locks, to be released each at its own time.
    pub fn into_guards(self) -> Vec<Guard<F>> {
        self.guards
    }
}

/// What became of all: the first error, else the first that was not simply released.
fn worst(outcomes: Outcomes) -> Result<ReleaseOutcome> {
    let outcomes = outcomes.into_iter().collect::<Result<Vec<_>>>()?.into_iter();
    Ok(outcomes.into_iter().find(|outcome| *outcome != ReleaseOutcome::Released).unwrap_or(ReleaseOutcome::Released))
}

impl MultiGuard {
    /// Gives all back, in one write, and says what the store found: of the first that was not simply released, if any.
    /// Dropping the future does not take the release back.
    ///
    /// # Errors
    /// `forked` when the guard belongs to the parent of this process.
    pub async fn release(self) -> Result<ReleaseOutcome> {
        worst(self.release_each().await)
    }

    /// The same, and says of each, in the order of [`tokens`](Self::tokens), what became of it: one that cannot be
    /// given back keeps no other from it.
    pub async fn release_each(self) -> Vec<Result<ReleaseOutcome>> {
        self.release_each_by(Road::Task).await
    }

    /// Makes every lease last at least `ttl` (20 ms to 24 h) from now, and renewals from now on.
    ///
    /// # Errors
    /// As [`Guard::extend`], of the first that fails.
    pub async fn extend(&self, ttl: Duration) -> Result<()> {
        for guard in &self.guards {
            guard.extend(ttl).await?;
        }
        Ok(())
    }

    /// Waits until one of them is lost. Never ends for what is released.
    pub async fn lost(&self) -> LossReason {
        poll_fn(|context| {
            for guard in &self.guards {
                if let Poll::Ready(reason) = pin!(guard.lost()).poll(context) {
                    return Poll::Ready(reason);
                }
            }
            Poll::Pending
        })
        .await
    }
}

impl MultiGuard<Blocking> {
    /// See the async [`release`](crate::multi::MultiGuard::release).
    ///
    /// # Errors
    /// As there.
    pub fn release(self) -> Result<ReleaseOutcome> {
        worst(self.release_each())
    }

    /// See the async [`release_each`](crate::multi::MultiGuard::release_each).
    pub fn release_each(self) -> Vec<Result<ReleaseOutcome>> {
        Releases::of(self.guards).perform()
    }

    /// See the async [`extend`](crate::multi::MultiGuard::extend).
    ///
    /// # Errors
    /// As there.
    pub fn extend(&self, ttl: Duration) -> Result<()> {
        self.guards.iter().try_for_each(|guard| guard.extend(ttl))
    }
}

impl<F: Face> Clone for MultiLock<F> {
    fn clone(&self) -> Self {
        MultiLock { locks: self.locks.clone() }
    }
}

impl<F: Face> std::fmt::Debug for MultiLock<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MultiLock")?;
        f.debug_list().entries(self.names()).finish()
    }
}

impl<F: Face> std::fmt::Debug for MultiGuard<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MultiGuard")?;
        f.debug_list().entries(&self.guards).finish()
    }
}
