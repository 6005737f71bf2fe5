//! The same locks for threads: every call blocks its thread, does its I/O there, and starts nothing else until it has
//! to wait.
//!
//! ```no_run
//! # fn main() -> lockwright::Result<()> {
//! let client = lockwright::blocking::connect("memory://")?;
//! let guard = client.lock("orders:42").acquire()?;
//! println!("fencing token {}", guard.token());
//! guard.release()?;
//! # Ok(())
//! # }
//! ```

use std::task::Waker;
use std::time::Duration;

pub use crate::client::Blocking;
use lockwright_machines::machine::PARTING;

use crate::client::{Acquisition, Extension, extended, free, left, outcome_of};
use crate::driver::engine::Trial;
use crate::driver::entry::Effects;
use crate::driver::owners::this_thread;
use crate::driver::road::{Road, here};
use crate::driver::wait::Settled;
use crate::error::{Error, Kind, Result};
use crate::lease::{Inspection, ReleaseOutcome, Sighting};
use crate::options::ConnectOptions;
use crate::token::Token;

/// See [`crate::Client`].
pub type Client = crate::client::Client<Blocking>;
/// See [`crate::LockBuilder`].
pub type LockBuilder = crate::client::LockBuilder<Blocking>;
/// See [`crate::Lock`].
pub type Lock = crate::client::Lock<Blocking>;
/// See [`crate::RwLock`].
pub type RwLock = crate::rwlock::RwLock<Blocking>;
/// See [`crate::Latch`].
pub type Latch = crate::latch::Latch<Blocking>;
/// See [`crate::Barrier`].
pub type Barrier = crate::barrier::Barrier<Blocking>;
/// See [`crate::Guard`].
pub type Guard = crate::client::Guard<Blocking>;

/// Connects to the place that `uri` names; nothing is sent before the first use.
///
/// # Errors
/// `invalid_config` or `unsupported` when the address or an option cannot be honoured.
pub fn connect(uri: &str) -> Result<Client> {
    Client::open(Some(uri), ConnectOptions::default())
}

impl Client {
    /// See the async [`inspect`](crate::Client::inspect).
    ///
    /// # Errors
    /// As there.
    pub fn inspect(&self, name: &str) -> Result<Inspection> {
        here(self.inspect_by(Road::Thread, name))
    }

    /// See the async [`list`](crate::Client::list).
    ///
    /// # Errors
    /// As there.
    pub fn list(&self) -> Result<Vec<String>> {
        here(self.list_by(Road::Thread))
    }

    /// See the async [`others`](crate::Client::others).
    ///
    /// # Errors
    /// As there.
    pub fn others(&self, name: Option<&str>) -> Result<Vec<Sighting>> {
        here(self.others_by(Road::Thread, name))
    }

    /// See the async [`break_lock`](crate::Client::break_lock).
    ///
    /// # Errors
    /// As there.
    pub fn break_lock(&self, name: &str, expected: Token) -> Result<bool> {
        here(self.break_by(Road::Thread, name, expected))
    }

    /// See the async [`close`](crate::Client::close).
    pub fn close(&self) {
        drop(here(self.close_by(Road::Thread)));
    }
}

impl LockBuilder {
    /// Acquires the lock: [`build`](Self::build) and [`Lock::acquire`](crate::Lock).
    ///
    /// # Errors
    /// As both.
    pub fn acquire(self) -> Result<Guard> {
        self.build()?.acquire()
    }

    /// Acquires the lock if it is free; `None` when somebody else holds it.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), but never `timeout`.
    pub fn try_acquire(self) -> Result<Option<Guard>> {
        self.build()?.try_acquire()
    }
}

impl Lock {
    /// Waits for the lock, as long as the options say. Other threads of this process wait in line behind one another;
    /// the store hears only from the first.
    ///
    /// # Errors
    /// `timeout` when others held it all the time, and who they are; `unavailable` when the store did not answer within
    /// the time limit, or for `store_timeout`; `deadlock` when this thread holds it itself, or would wait for itself
    /// over other locks, without a limit; `auth`, `foreign_layout` and `protocol` from the store; `closed`.
    pub fn acquire(&self) -> Result<Guard> {
        Acquiring::begin(self.start_for(self.options().timeout, this_thread())?).finish()
    }

    /// Acquires the lock if it is free; `None` when somebody else holds it.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), but never `timeout`.
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        free(self.begin_trying(Trial::AT_ONCE)?.finish())
    }

    /// Begins to acquire the lock if it is free, for a caller that may wait longer than that.
    pub(crate) fn begin_trying(&self, trial: Trial) -> Result<Acquiring> {
        Ok(Acquiring::begin(self.start_trying(trial)?))
    }

    /// See the async [`inspect`](crate::Lock::inspect).
    ///
    /// # Errors
    /// As there.
    pub fn inspect(&self) -> Result<Inspection> {
        here(self.inspect_by(Road::Thread))
    }

    /// See the async [`request_release`](crate::Lock::request_release).
    ///
    /// # Errors
    /// As there.
    pub fn request_release(&self, expected: Token) -> Result<bool> {
        here(self.ask_back_by(Road::Thread, expected))
    }

    /// See the async [`break_lock`](crate::Lock::break_lock).
    ///
    /// # Errors
    /// As there.
    pub fn break_lock(&self, expected: Token) -> Result<bool> {
        here(self.break_by(Road::Thread, expected))
    }

    /// Begins to acquire the lock, with a waiting time of its own, for callers that wait in slices to look at signals
    /// in between. The first request is made before this returns.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub fn begin(&self, timeout: Option<Duration>) -> Result<Acquiring> {
        Ok(Acquiring::begin(self.start(timeout)?))
    }
}

/// How a call waits for what was begun.
#[derive(Clone, Copy, Debug)]
pub enum Wait<'a> {
    /// Blocks the thread, for at most so long.
    Park(Duration),
    /// Does not block: for threads that have other work, such as greenlets. Has the waker called, once, when it is
    /// worth looking again; when the time limit is over, whoever waits has to look by itself.
    Wake(&'a Waker),
}

impl From<Duration> for Wait<'_> {
    fn from(slice: Duration) -> Self {
        Wait::Park(slice)
    }
}

/// A lock being acquired. Dropping it gives up.
pub struct Acquiring(Acquisition<Blocking>);

impl Acquiring {
    pub(crate) fn begin((acquisition, effects): (Acquisition<Blocking>, Effects)) -> Self {
        acquisition.span.in_scope(|| acquisition.engine.perform(&acquisition.entry, effects, acquisition.deadline));
        Acquiring(acquisition)
    }

    pub(crate) fn finish(mut self) -> Result<Guard> {
        loop {
            if let Some(result) = self.wait(Duration::MAX) {
                return result;
            }
        }
    }

    /// Waits as `how` says; `None` when there is no result yet. Call it no more after a result.
    pub fn wait<'a>(&mut self, how: impl Into<Wait<'a>>) -> Option<Result<Guard>> {
        let acquisition = &mut self.0;
        if let Some(error) = acquisition.forked() {
            return Some(Err(error));
        }
        let left = acquisition.give_up_in_time();
        let settled = acquisition.settled(how.into(), left)?;
        let who = match acquisition.who(&settled) {
            Ok(who) => who,
            Err(limit) => acquisition.engine.look_at(&acquisition.entry, limit),
        };
        Some(acquisition.conclude_with(settled, who.as_deref()))
    }
}

impl Acquisition<Blocking> {
    /// The error of one that was begun by the parent of this process.
    pub(crate) fn forked(&self) -> Option<Error> {
        let message = "this acquisition was begun before a fork; begin it in this process";
        self.is_forked().then(|| Error::new(Kind::Forked, "acquire", message))
    }

    /// The result, if it comes while this thread waits as `how` says, for at most `left`.
    pub(crate) fn settled(&self, how: Wait<'_>, left: Duration) -> Option<Settled> {
        match how {
            Wait::Park(slice) => {
                let slice = slice.min(left);
                self.waiter.park((slice < Duration::MAX).then_some(slice))
            }
            Wait::Wake(waker) => self.waiter.take_or_wake(waker),
        }
    }

    /// How much longer it may wait. Once that is over, this thread undoes here what it asked of the store.
    fn give_up_in_time(&self) -> Duration {
        let Some(deadline) = self.deadline else { return Duration::MAX };
        let left = left(deadline);
        if !left.is_zero() {
            return left;
        }
        let _inside = self.span.enter();
        let effects = self.entry.expire(&self.engine);
        let limit = effects.machine.at.after(PARTING);
        self.engine.perform(&self.entry, effects, Some(limit));
        PARTING
    }
}

impl std::fmt::Debug for Acquiring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Acquiring({:?})", self.0.entry.name)
    }
}

impl crate::client::Call {
    pub(crate) fn finish_here(mut self) -> Settled {
        if let Some(effects) = self.effects.take() {
            self.span.in_scope(|| self.engine.perform(&self.entry, effects, None));
        }
        self.waiter.park_until_settled()
    }
}

impl Guard {
    /// Gives the lock back, and says what the store found.
    ///
    /// # Errors
    /// `forked` when the guard belongs to the parent of this process.
    pub fn release(mut self) -> Result<ReleaseOutcome> {
        let call = self.start_release()?;
        Ok(outcome_of(call.finish_here()))
    }

    /// Makes the lease last at least `ttl` (20 ms to 24 h) from now, and renewals from now on.
    ///
    /// # Errors
    /// As the async [`extend`](crate::Guard::extend).
    pub fn extend(&self, ttl: Duration) -> Result<()> {
        let Extension { call, hold } = self.start_extend(ttl)?;
        let entry = call.entry.clone();
        extended(&entry, &hold, &call.finish_here())
    }
}
