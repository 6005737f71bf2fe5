//! Handing a held lock to another process: [`Guard::export`](crate::Guard::export) makes a secret of it,
//! [`Client::resume`](crate::Client::resume) makes a guard of the secret.
//!
//! **When to use.** The holder ends before its work does, and somebody else goes on with it: a request handler that
//! leaves the rest to a worker, a deployment that replaces the process, a WASM instance that ends with its call. Nobody
//! can come in between, and the fencing token of whoever resumes is higher than the exporter's.
//!
//! **When not.** To let the next one have the lock, release it. To let tasks of one process take turns, let them
//! acquire it.
//!
//! The secret alone holds the lock for the time that was said, counted from the export, and nobody renews it: whoever
//! resumes must do so in time. Resuming is one compare-and-set in the store, which puts the resumer's own attempt in
//! the secret's place, so of several who know the secret one gets the lock and the others `not_owned`. Past its time a
//! secret still works until somebody else was granted the lock. An export whose caller went away, or whose outcome
//! never became known, is taken back: a secret that nobody was told keeps the lock from nobody.
//!
//! ```no_run
//! # async fn example(client: lockwright::Client) -> lockwright::Result<()> {
//! let mut guard = client.lock("orders:42").acquire().await?;
//! let secret = guard.export(std::time::Duration::from_secs(60)).await?;
//! // In another process, within a minute:
//! let guard = client.resume(secret.as_str()).await?;
//! # drop(guard);
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::error::recalled;
use lockwright_machines::secret;

use crate::Async;
use crate::blocking::Acquiring;
use crate::client::{Blocking, Client, Face, Guard, Holding, Lock, LockBuilder};
use crate::driver::engine::Trial;
use crate::driver::entry::Effects;
use crate::driver::road::Road;
use crate::driver::wait::{Settled, Waiter};
use crate::error::{Error, Result};
use crate::options::AcquireOptions;
use crate::protocol::AttemptId;

/// What an exported lock is resumed with: text of ASCII without spaces, about as long as the lock's name and 38
/// characters more. Whoever knows it may take the lock, so it is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text to hand over.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same, owned.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// An export under way. Dropping it takes the lock back.
struct Exporting {
    holding: Holding,
    waiter: Arc<Waiter>,
    effects: Option<Effects>,
}

impl Exporting {
    fn secret_or_why(&self, settled: Settled) -> Result<Secret> {
        let attempt = settled.secret().map_err(|error| self.explain(error))?;
        Ok(Secret(secret::text(attempt, &self.holding.entry.name)))
    }

    fn explain(&self, error: Error) -> Error {
        let Holding { engine, entry, .. } = &self.holding;
        error.on_lock(entry.name.clone()).on_store(engine.store.address().clone())
    }
}

impl Drop for Exporting {
    fn drop(&mut self) {
        let Holding { engine, entry, .. } = &self.holding;
        if let Some(effects) = self.effects.take() {
            engine.perform_in_background(entry, effects);
        }
        if let Some(Settled::Exported(secret)) = self.waiter.refuse() {
            engine.perform_in_background(entry, entry.retract(engine, secret));
        }
    }
}

impl<F: Face> Guard<F> {
    fn start_export(&self, ttl: Duration) -> Result<Exporting> {
        AcquireOptions { ttl, ..AcquireOptions::default() }.check()?;
        let holding = self.holding()?.clone();
        holding.engine.store.check_lease(ttl)?;
        let (secret, waiter) = (holding.engine.mint()?, Arc::default());
        let effects = holding.entry.export(&holding.engine, &holding.hold, secret, ttl, &waiter);
        Ok(Exporting { holding, waiter, effects: Some(effects) })
    }

    /// What is told of an export, and what gives back what was `is_recalled` by then.
    fn concluded(
        &mut self,
        exporting: &Exporting,
        settled: Settled,
        is_recalled: impl FnOnce() -> bool,
    ) -> (Result<Secret>, Option<Effects>) {
        let exported = match settled {
            Settled::Exported(secret) => Some(secret),
            _ => None,
        };
        let told = self.exported(exporting, settled);
        let Some(secret) = exported.filter(|_| is_recalled()) else { return (told, None) };
        let Holding { engine, entry, .. } = &exporting.holding;
        (Err(exporting.explain(recalled())), Some(entry.retract(engine, secret)))
    }

    /// The guard is dead, unless the lock was not touched.
    fn exported(&mut self, exporting: &Exporting, settled: Settled) -> Result<Secret> {
        if !settled.is_kept() {
            self.forget(matches!(settled, Settled::Exported(_)));
        }
        exporting.secret_or_why(settled)
    }
}

impl<F: Face> Lock<F> {
    /// The attempt to take over, where `secret` is one of this lock.
    fn attempt_of(&self, secret: &str) -> Result<AttemptId> {
        secret::of_lock(secret, self.name())
    }
}

impl<F: Face> Client<F> {
    fn lock_of(&self, secret: &str) -> Result<Lock<F>> {
        self.lock(&secret::read(secret)?.1).build()
    }
}

impl Guard {
    /// Leaves the lock to a secret, under which [`Client::resume`] takes it over, in this process or another, within
    /// `ttl` (20 ms to 24 h) from now. Nobody renews it meanwhile. The guard is dead then: it holds nothing, and
    /// dropping it does nothing. One request. Dropping the future takes the lock back.
    ///
    /// # Errors
    /// `unsupported` where the layout cannot, or its owner entered the lock more than once, and `invalid_config`: these
    /// leave the guard as it was. `lost` when it was not held any more; `unavailable` when the store did not say, and
    /// the lock is given back; `forked`.
    pub async fn export(&mut self, ttl: Duration) -> Result<Secret> {
        self.export_unless(Road::Task, ttl, || false).await
    }

    /// The same, but that a lock which was exported is given back where `is_recalled` says so then: `not_owned`.
    pub(crate) async fn export_unless(
        &mut self,
        road: Road,
        ttl: Duration,
        is_recalled: impl FnOnce() -> bool,
    ) -> Result<Secret> {
        let mut exporting = self.start_export(ttl)?;
        let Holding { engine, entry, .. } = exporting.holding.clone();
        if let Some(effects) = exporting.effects.take() {
            engine.perform_by(road, &entry, effects).await;
        }
        let settled = poll_fn(|context| exporting.waiter.poll(context)).await;
        let (told, undoes) = self.concluded(&exporting, settled, is_recalled);
        if let Some(effects) = undoes {
            engine.perform_by(road, &entry, effects).await;
        }
        told
    }
}

impl Lock {
    /// Takes the lock over from `secret`, as [`Client::resume`] does, with this lock's options.
    ///
    /// # Errors
    /// As there.
    pub async fn resume(&self, secret: &str) -> Result<Guard> {
        let attempt = self.attempt_of(secret)?;
        let (acquisition, effects) = self.start_as(Some(Duration::ZERO), Trial::AT_ONCE, Some(attempt), None)?;
        acquisition.finish(effects, None).await
    }
}

impl LockBuilder {
    /// [`build`](Self::build) and [`Lock::resume`].
    ///
    /// # Errors
    /// As both.
    pub async fn resume(self, secret: &str) -> Result<Guard> {
        self.build()?.resume(secret).await
    }
}

impl Client<Async> {
    /// Takes over a lock that somebody [exported](crate::Guard::export) from the same store, under the same prefix,
    /// with this client's options. The token is higher than the exporter's. One request; the secret is used up. When
    /// the future is dropped, or the store does not answer, the lock stays with the secret or is given back.
    ///
    /// # Errors
    /// `not_owned` when somebody resumed it before, or its time ran out and somebody else has the lock;
    /// `invalid_config` for what is no secret; `unavailable`, `auth`, `foreign_layout` and `protocol` from the store;
    /// `closed`.
    pub async fn resume(&self, secret: &str) -> Result<Guard> {
        self.lock_of(secret)?.resume(secret).await
    }

    /// The same with other options, such as the `ttl` that it is held with from now on.
    ///
    /// # Errors
    /// As there, and as [`LockBuilder::build`].
    pub async fn resume_with(&self, secret: &str, options: &AcquireOptions) -> Result<Guard> {
        self.lock(&secret::read(secret)?.1).options(options.clone()).resume(secret).await
    }
}

impl Guard<Blocking> {
    /// See the async [`export`](crate::Guard::export).
    ///
    /// # Errors
    /// As there.
    pub fn export(&mut self, ttl: Duration) -> Result<Secret> {
        self.export_unless(ttl, || false)
    }

    /// See the async [`export_unless`](crate::Guard::export_unless).
    pub(crate) fn export_unless(&mut self, ttl: Duration, is_recalled: impl FnOnce() -> bool) -> Result<Secret> {
        let mut exporting = self.start_export(ttl)?;
        let Holding { engine, entry, .. } = exporting.holding.clone();
        if let Some(effects) = exporting.effects.take() {
            engine.perform(&entry, effects, None);
        }
        let settled = exporting.waiter.park_until_settled();
        let (told, undoes) = self.concluded(&exporting, settled, is_recalled);
        if let Some(effects) = undoes {
            engine.perform(&entry, effects, None);
        }
        told
    }
}

impl Lock<Blocking> {
    /// See the async [`resume`](crate::Lock::resume).
    ///
    /// # Errors
    /// As there.
    pub fn resume(&self, secret: &str) -> Result<Guard<Blocking>> {
        self.begin_resume(secret)?.finish()
    }

    /// Begins to take the lock over, as [`begin`](Self::begin) begins to acquire it.
    ///
    /// # Errors
    /// As [`resume`](Self::resume).
    pub fn begin_resume(&self, secret: &str) -> Result<Acquiring> {
        let attempt = self.attempt_of(secret)?;
        Ok(Acquiring::begin(self.start_as(Some(Duration::ZERO), Trial::AT_ONCE, Some(attempt), None)?))
    }
}

impl Client<Blocking> {
    /// See the async [`resume`](crate::Client::resume).
    ///
    /// # Errors
    /// As there.
    pub fn resume(&self, secret: &str) -> Result<Guard<Blocking>> {
        self.lock_of(secret)?.resume(secret)
    }

    /// See the async [`resume_with`](crate::Client::resume_with).
    ///
    /// # Errors
    /// As there.
    pub fn resume_with(&self, secret: &str, options: &AcquireOptions) -> Result<Guard<Blocking>> {
        self.lock(&secret::read(secret)?.1).options(options.clone()).build()?.resume(secret)
    }
}

impl<F: Face> Client<F> {
    /// The lock that `secret` holds, for callers that [begin](Lock::begin_resume) to resume it.
    ///
    /// # Errors
    /// `invalid_config` for what is no secret; else as [`LockBuilder::build`].
    pub fn exported(&self, secret: &str) -> Result<Lock<F>> {
        self.lock_of(secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_shown_nowhere() {
        let secret = Secret(secret::text(AttemptId(7), "orders:42"));
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }
}
