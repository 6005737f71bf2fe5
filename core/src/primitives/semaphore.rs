//! The semaphore: so many permits, which any number of holders share.
//!
//! ```no_run
//! # async fn example(client: lockwright::Client) -> lockwright::Result<()> {
//! let guard = client.semaphore("reports", 5).acquire().await?;        // one of five
//! let many = client.semaphore("reports", 5).take(2).try_acquire().await?;
//! let _ = guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! **Use it** to bound how many do something at once, over all processes and hosts: calls of a service that takes no
//! more, licences, heavy jobs. **Use something else** to bound how *often* something is done (that is a rate limit), or
//! within one process only (its own semaphore is a thousand times cheaper). With one permit it is a lock that costs
//! more and knows less.
//!
//! * **Permits end with their holder.** Each acquisition has a lease of its own, renewed while its guard lives: when
//!   the holder crashes its permits are free after the ttl at the latest.
//! * **Order**: first come, first served. Without `fair` (the default) an acquisition that wants more than is free is
//!   passed over by those that want less, so that nothing free lies idle: it may wait for long while small ones keep
//!   coming. With `fair` it is overtaken by nobody, and free permits gather for it. Where everybody takes one permit
//!   the two are the same.
//! * **Size.** Whoever first uses an idle semaphore (nobody holds, nobody waits) says how many permits it has; a client
//!   that names another number meanwhile goes by the one there is, which `inspect` shows and an event
//!   `lockwright::permits` tells once (in our own layout), and one that wants to take more than that gets
//!   `invalid_config`. [`Lock::resize`] changes it for everybody, and that stays until the next `resize`, or until
//!   nobody has used it for 15 to 30 days. When it is shrunk below what is held nobody loses anything: no permit is
//!   given until enough came back.
//! * **Another library's** semaphore, in a layout that joins it, promises less: there `guarantees()` of the [`Lock`]
//!   says what.
//! * **Tokens** rise from grant to grant, but several hold at once: a resource that fences must do so by holder.

use crate::client::{Blocking, Client, Face, Lock, LockBuilder, Of};
use crate::driver::road::{Road, here};
use crate::error::Result;

impl<F: Face> Client<F> {
    /// One permit, or as many as are [taken](LockBuilder::take), of the semaphore called `name`, which has `permits` of
    /// them (1 to 1,000,000) unless it is in use with another number; see the [module](crate::semaphore). Names as for
    /// [`lock`](Self::lock).
    pub fn semaphore(&self, name: &str, permits: u32) -> LockBuilder<F> {
        self.builder(name, Of::Permits { take: 1, permits })
    }
}

impl<F: Face> LockBuilder<F> {
    /// How many permits of a semaphore each acquisition takes, all or none; default 1. More than there are, or for a
    /// lock that is none, is `invalid_config` when it is built.
    pub fn take(mut self, take: u32) -> Self {
        self.of = match self.of {
            Of::Permits { permits, .. } => Of::Permits { take, permits },
            _ => Of::Nothing,
        };
        self
    }
}

impl Lock {
    /// Gives the semaphore `permits` permits (1 to 1,000,000), from now on and for everybody; who waits may have some
    /// at once. See the [module](crate::semaphore) for what it means to those who hold.
    ///
    /// # Errors
    /// `unsupported` for what is no semaphore, `invalid_config` for a number out of range, `foreign_layout` when
    /// something else lies under its name; `unavailable`, `auth` or `protocol` from the store.
    pub async fn resize(&self, permits: u32) -> Result<()> {
        self.resize_by(Road::Task, permits).await
    }
}

impl Lock<Blocking> {
    /// See the async [`resize`](Lock::resize).
    ///
    /// # Errors
    /// As there.
    pub fn resize(&self, permits: u32) -> Result<()> {
        here(self.resize_by(Road::Thread, permits))
    }
}
