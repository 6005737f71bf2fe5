//! What whoever runs a program asks of its client: whether the store serves it, and to hold nothing any more before it
//! ends.

use std::time::Duration;

use super::{Async, Blocking, Client, Face, Lock};
use crate::driver::road::{Road, here};
use crate::error::Result;
use crate::options::AcquireOptions;
use crate::platform::clock;

/// The lock that a [`ping`](Client::ping) tries.
pub const PING: &str = "lockwright-ping";

/// What a [`ping`](Client::ping) found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// How long it took to acquire a lock and to give it back: two round trips, and a connection where there was none.
    pub took: Duration,
    /// What the store does when its memory is full, such as Redis' `noeviction`, where it has such a thing and this
    /// user may ask.
    pub eviction: Option<String>,
}

impl Health {
    /// Whether the store may throw held locks away when its memory is full.
    pub fn may_evict(&self) -> bool {
        self.eviction.as_deref().is_some_and(|policy| policy != "noeviction")
    }
}

impl<F: Face> Client<F> {
    /// The lock that is tried.
    fn trial(&self) -> Result<Lock<F>> {
        let options = AcquireOptions { ttl: Duration::from_secs(1), renew: false, ..self.options() };
        let options = AcquireOptions {
            timeout: Some(Duration::ZERO),
            max_hold: None,
            fair: false,
            rank: 0,
            reentrant: false,
            ..options
        };
        self.lock(PING).options(options).build()
    }

    async fn eviction(&self, road: Road) -> Result<Option<String>> {
        let engine = self.engine()?;
        self.inquire(road, &engine, engine.store.eviction()).await
    }

    async fn drain_by(&self, road: Road, limit: Duration) -> Result<Vec<String>> {
        self.engine()?.drain(road, limit).await.map_err(|error| error.on_store(self.address()))
    }
}

impl Client<Async> {
    /// Whether locks can be had here, now: a lock of its own ([`PING`]) is acquired and given back, with all the rights
    /// that takes. For readiness probes; about three requests.
    ///
    /// # Errors
    /// Why not: `unavailable` (at once where nobody listens, else after `store_timeout`), `auth`, `foreign_layout`,
    /// `protocol`, `closed`.
    pub async fn ping(&self) -> Result<Health> {
        let began = clock::now();
        // Somebody else may be at it: that is as good an answer.
        if let Some(guard) = self.trial()?.try_acquire().await? {
            let _ = guard.release().await?;
        }
        let took = clock::now().since(began);
        Ok(Health { took, eviction: self.eviction(Road::Task).await? })
    }

    /// Begins nothing any more, and waits until everything that this client and its clones hold was released, for at
    /// most `limit`: for a program that is told to end. Acquisitions fail with `closed` from now on, also those that
    /// wait. The names of the locks that are held yet, none when it is done; [`close`](Client::close) gives them back.
    ///
    /// # Errors
    /// `closed`.
    pub async fn drain(&self, limit: Duration) -> Result<Vec<String>> {
        self.drain_by(Road::Task, limit).await
    }
}

impl Client<Blocking> {
    /// See the async [`ping`](crate::Client::ping).
    ///
    /// # Errors
    /// As there.
    pub fn ping(&self) -> Result<Health> {
        let began = clock::now();
        if let Some(guard) = self.trial()?.try_acquire()? {
            let _ = guard.release()?;
        }
        let took = clock::now().since(began);
        Ok(Health { took, eviction: here(self.eviction(Road::Thread))? })
    }

    /// See the async [`drain`](crate::Client::drain).
    ///
    /// # Errors
    /// As there.
    pub fn drain(&self, limit: Duration) -> Result<Vec<String>> {
        here(self.drain_by(Road::Thread, limit))
    }
}
