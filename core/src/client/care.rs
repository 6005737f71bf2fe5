//! What whoever runs a program asks of its client: whether the store serves it, and to hold nothing any more before it ends.

use std::time::Duration;

use super::{Async, Blocking, Client, Face, aside};
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
    /// What the store does when its memory is full, such as Redis' `noeviction`, where it has such a thing and this user may ask.
    pub eviction: Option<String>,
}

impl Health {
    /// Whether the store may throw held locks away when its memory is full.
    pub fn may_evict(&self) -> bool {
        self.eviction.as_deref().is_some_and(|policy| policy != "noeviction")
    }
}

impl<F: Face> Client<F> {
    fn ping_now(&self) -> Result<Health> {
        let began = clock::now();
        let here: Client<Blocking> = self.clone().into_face();
        let options = AcquireOptions { ttl: Duration::from_secs(1), renew: false, ..self.options() };
        let options =
            AcquireOptions { timeout: Some(Duration::ZERO), max_hold: None, fair: false, reentrant: false, ..options };
        // Somebody else may be at it: that is as good an answer.
        if let Some(guard) = here.lock(PING).options(options).try_acquire()? {
            let _ = guard.release()?;
        }
        let took = clock::now().since(began);
        Ok(Health { took, eviction: self.eviction()? })
    }

    fn eviction(&self) -> Result<Option<String>> {
        self.on_store(|engine| engine.inquire(engine.store.eviction()))
    }

    fn drain_now(&self, limit: Duration) -> Result<Vec<String>> {
        self.on_store(|engine| Ok(engine.drain(limit)))
    }
}

impl Client<Async> {
    /// Whether locks can be had here, now: a lock of its own ([`PING`]) is acquired and given back, with all the rights that takes.
    /// For readiness probes; about three requests.
    ///
    /// # Errors
    /// Why not: `unavailable` (at once where nobody listens, else after `store_timeout`), `auth`, `foreign_layout`, `protocol`, `closed`.
    pub async fn ping(&self) -> Result<Health> {
        let client = self.clone();
        aside(move || client.ping_now()).await
    }

    /// Begins nothing any more, and waits until everything that this client and its clones hold was released, for at most `limit`: for a program that is
    /// told to end. Acquisitions fail with `closed` from now on, also those that wait. The names of the locks that are held yet, none
    /// when it is done; [`close`](Client::close) gives them back.
    ///
    /// # Errors
    /// `closed`.
    pub async fn drain(&self, limit: Duration) -> Result<Vec<String>> {
        let client = self.clone();
        aside(move || client.drain_now(limit)).await
    }
}

impl Client<Blocking> {
    /// See the async [`ping`](crate::Client::ping).
    ///
    /// # Errors
    /// As there.
    pub fn ping(&self) -> Result<Health> {
        self.ping_now()
    }

    /// See the async [`drain`](crate::Client::drain).
    ///
    /// # Errors
    /// As there.
    pub fn drain(&self, limit: Duration) -> Result<Vec<String>> {
        self.drain_now(limit)
    }
}
