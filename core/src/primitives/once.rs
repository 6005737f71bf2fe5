//! One caller does what many want done: [`Client::once`](crate::Client::once).
//!
//! **When to use.** A cache entry that expired is costly to make again, and a thousand callers notice at the same
//! moment: one of them makes it, the others go on with the stale value, or wait for the new one where there is none.
//!
//! **When not.** To do something once and never again, keep a mark of it with its result: a lock only says who is at it
//! now.
//!
//! The library keeps no values: the caller says how to look at the cache, and how to make and keep a value. Whoever
//! gets the job looks once more first, since somebody may have just done it. If whoever has the job dies, its lease
//! runs out after `ttl` at most, and the next one has the job; if it fails, the next one has it at once, and the
//! failure is its own. A job that outlives its lease may be done twice: the fencing token that it is given lets the
//! cache refuse the older value ([`kit`](crate::kit)).
//!
//! ```no_run
//! # use lockwright::once::Found;
//! # async fn look() -> lockwright::Result<Found<String>> { Ok(Found::Missing) }
//! # async fn render(token: lockwright::Token) -> lockwright::Result<String> { Ok(String::new()) }
//! # async fn example(client: lockwright::Client) -> lockwright::Result<()> {
//! let page = client.once("cache:front-page", std::time::Duration::from_secs(10))?.get(look, render).await?;
//! # drop(page);
//! # Ok(())
//! # }
//! ```

use std::future::Future;
use std::time::Duration;

use crate::Async;
use crate::client::{Blocking, Client, Face, Guard, Lock};
use crate::error::{Error, Result};
use crate::options::AcquireOptions;
use crate::token::Token;

/// What a look at the cache found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<T> {
    /// A value that is good.
    Fresh(T),
    /// One that is to be made anew, and does meanwhile.
    Stale(T),
    /// None that would do.
    Missing,
}

/// A job that one caller at a time does. Cheap to clone.
pub struct Once<F: Face = Async> {
    lock: Lock<F>,
    waits: bool,
}

impl<F: Face> Client<F> {
    /// The job called `name`: the lock of that name, held for as long as the job takes. If whoever does it dies, the
    /// job goes to the next after `ttl` (20 ms to 24 h) at most.
    ///
    /// # Errors
    /// As [`LockBuilder::build`](crate::LockBuilder::build).
    pub fn once(&self, name: &str, ttl: Duration) -> Result<Once<F>> {
        self.once_with(name, &AcquireOptions { ttl, ..self.options() })
    }

    /// The same with other options. The timeout says how long to wait where there is no value at all.
    ///
    /// # Errors
    /// As there.
    pub fn once_with(&self, name: &str, options: &AcquireOptions) -> Result<Once<F>> {
        Ok(Once { lock: self.lock(name).options(options.clone()).build()?, waits: false })
    }
}

impl<F: Face> Once<F> {
    /// The same job, whose callers wait for a fresh value though there is a stale one.
    pub fn waiting(self) -> Self {
        Once { waits: true, ..self }
    }

    /// The lock that whoever does the job holds.
    pub fn lock(&self) -> &Lock<F> {
        &self.lock
    }
}

impl Once {
    /// The value: as `look` finds it while it is fresh; else as `make` makes and keeps it, if the job falls to this
    /// caller; else the stale one, or what `look` finds once whoever had the job is through. `make` is given the
    /// fencing token.
    ///
    /// Dropping the future gives the job back.
    ///
    /// # Errors
    /// Those of `look` and `make`, and of [`Lock::acquire`]: `timeout` where there was no value within the time limit.
    pub async fn get<T, E, Looking, Making>(
        &self,
        mut look: impl FnMut() -> Looking,
        make: impl FnOnce(Token) -> Making,
    ) -> std::result::Result<T, E>
    where
        E: From<Error>,
        Looking: Future<Output = std::result::Result<Found<T>, E>>,
        Making: Future<Output = std::result::Result<T, E>>,
    {
        let guard: Guard = match look().await? {
            Found::Fresh(value) => return Ok(value),
            Found::Stale(value) if !self.waits => match self.lock.try_acquire().await? {
                Some(guard) => guard,
                None => return Ok(value),
            },
            Found::Stale(_) | Found::Missing => self.lock.acquire().await?,
        };
        let value = match look().await {
            Ok(Found::Fresh(value)) => Ok(value),
            Ok(_) => make(guard.token()).await,
            Err(error) => Err(error),
        };
        // What was made is as good if the lock was lost meanwhile: whoever made it showed its token.
        let _ = guard.release().await?;
        value
    }
}

impl Once<Blocking> {
    /// See the async [`get`](crate::once::Once::get).
    ///
    /// # Errors
    /// As there.
    pub fn get<T, E: From<Error>>(
        &self,
        mut look: impl FnMut() -> std::result::Result<Found<T>, E>,
        make: impl FnOnce(Token) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let guard = match look()? {
            Found::Fresh(value) => return Ok(value),
            Found::Stale(value) if !self.waits => match self.lock.try_acquire()? {
                Some(guard) => guard,
                None => return Ok(value),
            },
            Found::Stale(_) | Found::Missing => self.lock.acquire()?,
        };
        let value = match look() {
            Ok(Found::Fresh(value)) => Ok(value),
            Ok(_) => make(guard.token()),
            Err(error) => Err(error),
        };
        let _ = guard.release()?;
        value
    }
}

impl<F: Face> Clone for Once<F> {
    fn clone(&self) -> Self {
        Once { lock: self.lock.clone(), waits: self.waits }
    }
}

impl<F: Face> std::fmt::Debug for Once<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Once({:?})", self.lock.name())
    }
}
