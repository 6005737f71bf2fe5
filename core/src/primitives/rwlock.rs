//! The read/write lock: many readers at once, or one writer.
//!
//! ```no_run
//! # async fn example(client: lockwright::Client) -> lockwright::Result<()> {
//! let catalog = client.rwlock("catalog");
//! let guard = catalog.read().acquire().await?;
//! if guard.try_upgrade().await? {
//!     // Nobody else reads: this is the writer now, with a new fencing token.
//!     guard.downgrade().await?;
//! }
//! let _ = guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! **Use it** where many read for long what seldom changes, and a reader must not see a change half done. **Use a
//! [lock](crate::Client::lock)** where holds are short: a reader costs the store as much as a writer, and a lock's
//! tasks of one process share requests, which readers do not. Where readers can do with an older state, a version
//! beside the data is cheaper than either.
//!
//! * **Order**: first come, first served, over all tasks of all processes. A read waits for an earlier write, a write
//!   for anything earlier; so readers that come and go do not starve a writer, and the option `fair` adds nothing.
//!   Where the store can push nothing to this client ([`Guarantees::push`](crate::guarantee::Guarantees::push)) those
//!   who wait poll, in no order. Another library's read/write lock, in a layout that joins it, may have no order at
//!   all: there `guarantees()` of the [`Lock`](crate::Lock) says so, and readers that follow one another keep a writer
//!   out.
//! * **Each reader has a lease of its own**, which ends by itself when the reader dies, and renews by itself while it
//!   lives.
//! * **Tokens** rise from grant to grant, readers' too. A resource that fences writers compares the tokens of writers;
//!   a reader that becomes the writer gets a new one, a writer that becomes a reader keeps its own.
//! * **Not reentrant**: whoever reads and asks to read again while a writer waits would wait for that writer, which
//!   waits for it. A reader that wants to write must not `acquire` the write lock while it holds the read lock, for the
//!   same reason: [`Guard::try_upgrade`] is for that.

use lockwright_machines::error::not_downgraded;

use crate::client::{Async, Blocking, Client, Face, Guard, LockBuilder, Of};
use crate::driver::road::Road;
use crate::error::Result;
use crate::share::Share;

/// A named read/write lock, of which [`read`](Self::read) and [`write`](Self::write) are locks like any other. See the
/// [module](self) for when to use it and what it promises.
#[derive(Debug)]
pub struct RwLock<F: Face = Async> {
    client: Client<F>,
    name: String,
}

impl<F: Face> Client<F> {
    /// The read/write lock called `name`; names as for [`lock`](Self::lock). A lock and a read/write lock of one name
    /// are not two things: whoever comes second gets `foreign_layout`.
    pub fn rwlock(&self, name: &str) -> RwLock<F> {
        RwLock { client: self.clone(), name: name.to_owned() }
    }
}

impl<F: Face> RwLock<F> {
    /// The lock that a reader acquires: with other readers, but with no writer.
    pub fn read(&self) -> LockBuilder<F> {
        self.client.builder(&self.name, Of::Read)
    }

    /// The lock that a writer acquires, alone.
    pub fn write(&self) -> LockBuilder<F> {
        self.client.builder(&self.name, Of::Write)
    }
}

impl<F: Face> Clone for RwLock<F> {
    fn clone(&self) -> Self {
        RwLock { client: self.client.clone(), name: self.name.clone() }
    }
}

impl Guard {
    /// The writer becomes a reader, in one request: nobody else writes in between, and other readers may come in. The
    /// token stays. A reader stays one.
    ///
    /// # Errors
    /// `lost` when the lock is not held any more, `unsupported` for a guard that is not of a read/write lock, `forked`;
    /// `unavailable` while another change of this guard is under way, and when the store did not answer for
    /// `store_timeout`: it may yet be done; what the store says when it refuses for good. Then it is the writer as
    /// before.
    pub async fn downgrade(&self) -> Result<()> {
        self.begin_change(Share::READ)?.await.map(drop)
    }

    /// A reader becomes the writer, with a new token, if it is the only reader; else nothing changes and the answer is
    /// `false`, at once. It never waits, so two readers that both want to write cannot wait for one another. Writers
    /// that wait go on waiting. The writer stays it.
    ///
    /// # Errors
    /// As [`downgrade`](Self::downgrade).
    pub async fn try_upgrade(&self) -> Result<bool> {
        self.begin_change(Share::WRITE)?.await
    }
}

/// Whether it holds what it was `to`: a writer can always be a reader.
fn changed(done: bool, to: Share) -> Result<bool> {
    if done || to != Share::READ { Ok(done) } else { Err(not_downgraded()) }
}

impl<F: Face> Guard<F> {
    /// [`downgrade`](Guard::downgrade) (to [`Share::READ`]) or [`try_upgrade`](Guard::try_upgrade) (to
    /// [`Share::WRITE`]) for whoever cannot keep the guard meanwhile: begun at once, ended by awaiting what this
    /// returns.
    ///
    /// # Errors
    /// As there.
    pub fn begin_change(&self, to: Share) -> Result<impl Future<Output = Result<bool>> + Send + use<F>> {
        self.change_by(Road::Task, to)
    }

    pub(crate) fn change_by(
        &self,
        road: Road,
        to: Share,
    ) -> Result<impl Future<Output = Result<bool>> + Send + use<F>> {
        let begun = self.start_change(to)?;
        Ok(async move { changed(begun.finish_by(road).await?, to) })
    }
}

impl Guard<Blocking> {
    /// See the async [`downgrade`](Guard::downgrade).
    ///
    /// # Errors
    /// As there.
    pub fn downgrade(&self) -> Result<()> {
        changed(self.start_change(Share::READ)?.finish_here()?, Share::READ).map(drop)
    }

    /// See the async [`try_upgrade`](Guard::try_upgrade).
    ///
    /// # Errors
    /// As there.
    pub fn try_upgrade(&self) -> Result<bool> {
        self.start_change(Share::WRITE)?.finish_here()
    }
}
