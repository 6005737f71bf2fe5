//! The locks.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use ext_php_rs::convert::IntoZval;
use ext_php_rs::exception::PhpResult;
use ext_php_rs::prelude::*;
use ext_php_rs::types::Zval;
use lockwright::binding::{Handle, Outcome, lost_track};
use lockwright::blocking::Blocking;
use lockwright::lease::Inspection;
use lockwright::queue::OwnerId;
use lockwright::{Error, Kind};

use crate::asked::{ask, tried};
use crate::guard::{Guard, released_yet};
use crate::once::{callable, called};
use crate::thrown::thrown;
use crate::value::record;
use crate::waiting::caught_up;

/// A named lock, a part of a read/write lock, or a semaphore.
#[php_class]
#[php(name = "Lockwright\\Lock", flags = ext_php_rs::flags::ClassFlags::Final)]
#[derive(Debug)]
pub struct Lock {
    core: lockwright::Lock,
}

/// Who acquires: the thread that runs this request, so that whoever may acquire again does.
fn me() -> OwnerId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static MINE: Cell<u64> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    OwnerId(MINE.get())
}

impl Lock {
    pub(crate) fn new(core: lockwright::Lock) -> Self {
        Lock { core }
    }

    fn handle(&self) -> Handle {
        Handle::Lock(self.core.clone()).for_owner(Some(me()))
    }

    /// As `acquire` does it.
    pub(crate) fn acquired(&self, timeout: Option<&Zval>) -> PhpResult<Guard> {
        self.acquired_or(timeout)?.map_err(thrown)
    }

    /// The same with the core's own error.
    pub(crate) fn acquired_or(&self, timeout: Option<&Zval>) -> PhpResult<Result<Guard, Error>> {
        Ok(match tried(self.handle(), "acquire", &[timeout])? {
            Ok(Outcome::Granted(guard)) => Ok(caught_up("acquire", Guard::new(guard))?),
            Ok(_) => Err(lost_track("acquire")),
            Err(error) => Err(error),
        })
    }

    /// As `tryAcquire` does it.
    pub(crate) fn tried(&self) -> PhpResult<Option<Guard>> {
        match self.acquired_or(Some(&0_i64.into_zval(false)?))? {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if error.kind() == Kind::Timeout => Ok(None),
            Err(error) => Err(thrown(error)),
        }
    }

    pub(crate) fn resumed(&self, secret: &Zval) -> PhpResult<Zval> {
        ask(self.handle(), "resume", &[Some(secret)])
    }

    pub(crate) fn for_election(self) -> PhpResult<Self> {
        Ok(Lock { core: self.core.for_election().map_err(thrown)? })
    }

    pub(crate) fn looked_at(&self) -> PhpResult<Inspection> {
        self.core.clone().into_face::<Blocking>().inspect().map_err(thrown)
    }
}

#[php_impl]
impl Lock {
    /// Waits for the lock, for at most `timeout`: what the lock's own option says where that is null, and without a
    /// limit where it is -1. Throws LockTimeout when others held it all the time.
    pub fn acquire(&self, timeout: Option<&Zval>) -> PhpResult<Guard> {
        self.acquired(timeout)
    }

    /// The lock if it is free, else null.
    pub fn try_acquire(&self) -> PhpResult<Option<Guard>> {
        self.tried()
    }

    /// Calls `work` with the guard while the lock is held, and returns what that returns. Throws LockLost when the lock
    /// was lost meanwhile and the work threw nothing.
    pub fn run(&self, work: &Zval, timeout: Option<&Zval>) -> PhpResult<Zval> {
        let work = callable(work, "work")?;
        let guard = self.acquired(timeout)?;
        let held = guard.held.clone();
        let guard = guard.into_zval(false)?;
        let done = called(&work, vec![&guard]);
        let ended = released_yet(&held);
        let done = done?;
        if let Some(why) = ended?.and_then(|ending| ending.why) {
            return Err(thrown(held.loss(&why)));
        }
        Ok(done)
    }

    /// Takes the lock over from `secret`, as `Client::resume` does, with this lock's options.
    pub fn resume(&self, secret: &Zval) -> PhpResult<Zval> {
        self.resumed(secret)
    }

    /// Who holds it, and how many wait for it.
    pub fn inspect(&self) -> PhpResult<Zval> {
        ask(self.handle(), "inspect", &[])
    }

    /// Takes it from whoever holds it under that token, which `inspect` shows. Whether somebody did.
    pub fn break_lock(&self, expectedToken: &Zval) -> PhpResult<Zval> {
        ask(self.handle(), "break_lock", &[Some(expectedToken)])
    }

    /// Asks whoever holds it under that token, which `inspect` shows, to give it back. Whether somebody does. Whose
    /// lock is `revocable` is told, here or with Curator, and goes on as it likes: `breakLock` takes it.
    pub fn request_release(&self, expectedToken: &Zval) -> PhpResult<Zval> {
        ask(self.handle(), "request_release", &[Some(expectedToken)])
    }

    /// Of a semaphore: how many permits it has from now on.
    pub fn resize(&self, permits: &Zval) -> PhpResult<()> {
        ask(self.handle(), "resize", &[Some(permits)]).map(drop)
    }

    /// What it promises in its layout.
    pub fn guarantees(&self) -> PhpResult<Zval> {
        record(self.core.guarantees().into())
    }

    /// Its name, without the prefix of the address.
    pub fn name(&self) -> String {
        self.core.name().to_owned()
    }
}

/// Many readers at once, or one writer, first come, first served.
#[php_class]
#[php(name = "Lockwright\\RwLock", flags = ext_php_rs::flags::ClassFlags::Final)]
#[derive(Debug)]
pub struct RwLock {
    pub(crate) read: lockwright::Lock,
    pub(crate) write: lockwright::Lock,
}

#[php_impl]
impl RwLock {
    /// The reader's part.
    pub fn read(&self) -> Lock {
        Lock::new(self.read.clone())
    }

    /// The writer's part.
    pub fn write(&self) -> Lock {
        Lock::new(self.write.clone())
    }
}
