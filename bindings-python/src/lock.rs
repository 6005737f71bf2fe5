//! The locks, which behave as those of `threading`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright::binding::{Outcome, Standing, Waiting, lost_track};
use lockwright::blocking::{self, Acquiring};
use lockwright::queue::OwnerId;
use lockwright::{Error, Kind};
use pyo3::PyTraverseError;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::asked::ask;
use crate::client::{Orphan, SharedClient};
use crate::error::Raised;
use crate::green::me;
use crate::guard::Guard;
use crate::value::record;
use crate::{Given, Span, locked, outside, text, waited};

/// This thread's id, never used again for another thread; the operating system's ids are.
pub(crate) fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static MINE: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    MINE.try_with(|id| *id).unwrap_or_else(|_| NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A named lock that behaves as `threading.Lock`. What `acquire` took outlives this object.
#[pyclass(frozen, subclass, weakref, module = "lockwright")]
pub(crate) struct Lock {
    pub(crate) core: blocking::Lock,
    pub(crate) shared: Arc<SharedClient>,
    /// What `acquire` and `with` took and nobody gave back yet.
    pins: Mutex<Vec<Pin>>,
}

struct Pin {
    /// The thread, or in asyncio the task.
    who: u64,
    block: bool,
    guard: Py<Guard>,
}

/// A lock that the thread which holds it may acquire again, and no other thread release; as `threading.RLock`.
#[pyclass(frozen, extends = Lock, weakref, module = "lockwright")]
pub(crate) struct RLock;

/// `threading.TIMEOUT_MAX`, beyond which `threading` raises an `OverflowError`.
const TIMEOUT_MAX: f64 = 9_223_372_036.0;

/// A time limit as `threading` takes it: -1 is none but `own`.
pub(crate) fn limit(timeout: Option<Span>, own: Option<Duration>) -> PyResult<Option<Duration>> {
    match timeout {
        None | Some(Span::FOR_EVER) => Ok(own),
        Some(Span::Seconds(seconds)) if seconds > TIMEOUT_MAX => Err(PyOverflowError::new_err(
            "timeout is greater than threading.TIMEOUT_MAX; leave it out to wait for ever",
        )),
        Some(span) => span.check("acquire", "timeout").map(Some),
    }
}

impl Lock {
    pub(crate) fn new(core: blocking::Lock, shared: Arc<SharedClient>) -> Self {
        Lock { core, shared, pins: Mutex::default() }
    }

    /// The guard, or why there is none. The inner error is the core's, the outer one a signal handler's.
    fn attempt(
        &self,
        py: Python<'_>,
        limit: Option<Duration>,
        begin: impl FnOnce() -> lockwright::Result<Acquiring> + Send,
    ) -> PyResult<lockwright::Result<Py<Guard>>> {
        self.shared.prepare(py)?;
        match waited(py, limit, || begin().map(Waiting::Lock))? {
            Ok(Outcome::Granted(guard)) => Ok(Ok(Py::new(py, Guard::new(guard, &self.shared.client))?)),
            Ok(_) => Ok(Err(lost_track("acquire"))),
            Err(error) => Ok(Err(error)),
        }
    }

    /// What `who` is to acquire.
    pub(crate) fn wanted_by(&self, who: u64) -> blocking::Lock {
        self.core.clone().for_owner(OwnerId(who))
    }

    /// The same, where anybody may release it as `threading` has it, and nobody is told who holds it.
    pub(crate) fn wanted_as_in_threading(&self, who: u64) -> blocking::Lock {
        let wanted = self.wanted_by(who).quietly();
        if self.is_reentrant() { wanted } else { wanted.released_by_anybody() }
    }

    /// As [`attempt`](Self::attempt) in the style of `threading`, where somebody else's lock is no error.
    fn try_attempt(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<Option<Py<Guard>>> {
        let me = me(py)?;
        match self.attempt(py, timeout, || self.wanted_as_in_threading(me).begin(timeout))? {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if error.kind() == Kind::Timeout => Ok(None),
            Err(error) => Err(Raised(error).into()),
        }
    }

    fn is_reentrant(&self) -> bool {
        self.core.options().reentrant
    }

    pub(crate) fn limit(&self, timeout: Option<Span>) -> PyResult<Option<Duration>> {
        limit(timeout, self.core.options().timeout)
    }

    /// The guard, waited for as long as `limit` says.
    pub(crate) fn wait_for(&self, py: Python<'_>, limit: Option<Duration>) -> PyResult<Py<Guard>> {
        let me = me(py)?;
        Ok(self.attempt(py, limit, || self.wanted_by(me).begin(limit))?.map_err(Raised)?)
    }

    fn not_held(&self) -> Raised {
        let message = if self.is_reentrant() {
            "this thread or task does not hold the lock"
        } else {
            "this lock object does not hold the lock"
        };
        let error = Error::new(Kind::NotOwned, "release", message).on_lock(self.core.name());
        Raised(error.on_store(&*self.shared.address))
    }

    fn adopt(&self, me: u64) -> Option<Py<Guard>> {
        let mut orphans = locked(&self.shared.orphans);
        let mine = |orphan: &Orphan| {
            let held = &orphan.guard.get().held;
            let same = &**held.name() == self.core.name() && orphan.reentrant == self.is_reentrant();
            let whose = !self.is_reentrant() || orphan.who == me;
            same && whose && held.standing() == Standing::Open
        };
        let at = orphans.iter().rposition(mine)?;
        Some(orphans.remove(at).guard)
    }

    /// Holds outlive the lock that took them: whoever called `acquire` may still be in the critical section.
    fn orphan_pins(&self) {
        let pins = std::mem::take(&mut *locked(&self.pins));
        if !pins.is_empty() {
            let reentrant = self.is_reentrant();
            let orphan = |Pin { who, guard, .. }| Orphan { reentrant, who, guard };
            locked(&self.shared.orphans).extend(pins.into_iter().map(orphan));
        }
    }
}

/// Where the block is that ends, of those that did not. Where it is not known which, one that holds nothing any more
/// goes before one that does: that one is given back when the other block ends.
fn block_of(pins: &[Pin], who: u64) -> Option<usize> {
    let mine = pins.iter().rposition(|pin| pin.block && pin.who == who);
    let over = || pins.iter().rposition(|pin| pin.block && !pin.guard.get().held.is_held());
    mine.or_else(over).or_else(|| pins.iter().rposition(|pin| pin.block))
}

/// Whether a call waits. Programs of `threading` say it by 1 and 0, too; any other number was meant as a time limit.
pub(crate) struct Blocking(pub(crate) bool);

impl FromPyObject<'_, '_> for Blocking {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        if let Ok(blocking) = object.extract() {
            return Ok(Blocking(blocking));
        }
        if let Ok(number @ 0..=1) = object.extract::<i64>() {
            return Ok(Blocking(number == 1));
        }
        let given = object.repr()?;
        let hint = match object.extract::<f64>() {
            Ok(_) => format!("; if that is a time limit, write timeout={given}"),
            Err(_) => String::new(),
        };
        Err(PyTypeError::new_err(format!("blocking must be True or False, not {given}{hint}")))
    }
}

/// Whether a call of asyncio waits, as one of a thread does.
#[pyfunction(name = "_is_blocking")]
pub(crate) fn is_blocking(blocking: Blocking) -> bool {
    blocking.0
}

#[pymethods]
impl Lock {
    /// Whether the lock was acquired in time. A `timeout` of -1 is the lock's own.
    #[pyo3(signature = (blocking=Blocking(true), timeout=Span::FOR_EVER), text_signature = "($self, blocking=True, timeout=-1)")]
    pub(crate) fn acquire(&self, py: Python<'_>, blocking: Blocking, timeout: Span) -> PyResult<bool> {
        let limit = if blocking.0 {
            self.limit(Some(timeout))?
        } else if timeout == Span::FOR_EVER {
            Some(Duration::ZERO)
        } else {
            let message = "a timeout was given for a call that shall not block; give one of the two";
            return Err(Raised(Error::invalid("acquire", message).on_lock(self.core.name())).into());
        };
        match self.try_attempt(py, limit)? {
            Some(guard) => {
                self.pin(guard, false, me(py)?);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Whether this object holds the lock.
    #[pyo3(name = "_is_held_here")]
    pub(crate) fn is_held_here(&self) -> bool {
        locked(&self.pins).iter().any(|pin| pin.guard.get().held.is_held())
    }

    /// Keeps what `who` acquired, so that a release finds it.
    #[pyo3(name = "_pin")]
    pub(crate) fn pin(&self, guard: Py<Guard>, block: bool, who: u64) {
        locked(&self.pins).push(Pin { who, block, guard });
    }

    /// What the innermost block of `who` took; when the block gave that back and acquired again, what it has now. A
    /// block that began elsewhere, such as one of a generator that is closed in another task, ends here as well.
    #[pyo3(name = "_unpin_block")]
    pub(crate) fn unpin_block(&self, who: u64) -> Option<Py<Guard>> {
        let mut pins = locked(&self.pins);
        let at = block_of(&pins, who)?;
        let who = pins[at].who;
        let standing = |pin: &Pin| pin.guard.get().held.standing();
        let again = |pin: &Pin| !pin.block && pin.who == who && standing(pin) == Standing::Open;
        if standing(&pins[at]) == Standing::Released
            && let Some(later) = pins.iter().rposition(again).filter(|later| *later > at)
        {
            pins.swap(at, later);
            let over = pins.remove(later);
            let guard = pins.remove(at).guard;
            drop(pins);
            drop(over);
            return Some(guard);
        }
        Some(pins.remove(at).guard)
    }

    /// The hold that `release` means: the latest of `me`, else anybody's where `threading` allows that, else one of a
    /// lock of this name that was collected.
    #[pyo3(name = "_unpin")]
    pub(crate) fn unpin(&self, py: Python<'_>, me: u64) -> PyResult<Py<Guard>> {
        let mut over = Vec::new();
        let found = {
            let mut pins = locked(&self.pins);
            over.extend(pins.extract_if(.., |pin| !pin.block && pin.guard.get().held.standing() == Standing::Released));
            let usable = |pin: &Pin| pin.guard.get().held.standing() == Standing::Open;
            let mine = pins.iter().rposition(|pin| usable(pin) && pin.who == me);
            let found = mine.or_else(|| pins.iter().rposition(usable).filter(|_| !self.is_reentrant()));
            // A block finds what it took when it ends, released or not, and not what the block around it took.
            found.map(|at| if pins[at].block { pins[at].guard.clone_ref(py) } else { pins.remove(at).guard })
        };
        drop(over);
        if let Some(guard) = found.or_else(|| self.adopt(me)) {
            return Ok(guard);
        }
        let inherited = locked(&self.pins)
            .iter()
            .rev()
            .map(|pin| pin.guard.get())
            .find(|guard| guard.held.standing() == Standing::Inherited)
            .map(|guard| Raised(guard.held.forked("release")));
        Err(inherited.unwrap_or_else(|| self.not_held()).into())
    }

    fn _for_election(&self) -> PyResult<Self> {
        let seat = self.core.clone().for_election().map_err(Raised)?;
        Ok(Lock::new(seat, self.shared.clone()))
    }

    /// Gives back what this thread acquired, else what another thread did.
    ///
    /// Raises `NotOwned` when nothing is held through this lock, `LockLost` when it was lost before.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        let guard = self.unpin(py, me(py)?)?;
        guard.get().end_strictly(py)
    }

    /// Whether anybody holds the lock at this moment, in any process.
    fn locked(&self, py: Python<'_>) -> PyResult<bool> {
        if self.is_held_here() {
            return Ok(true);
        }
        self.shared.prepare(py)?;
        let seen = outside(py, || self.core.inspect()).map_err(Raised)?;
        Ok(seen.holder.is_some())
    }

    /// Who holds it, and how many wait for it.
    fn inspect(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        ask(py, self, "inspect", &[])
    }

    /// Takes it from whoever holds it under that token, which `inspect` shows. Whether somebody did.
    fn break_lock(&self, py: Python<'_>, expected_token: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        ask(py, self, "break_lock", &[Some(expected_token)])
    }

    /// Asks whoever holds it under that token, which `inspect` shows, to give it back. Whether somebody does.
    ///
    /// Whose lock is `revocable` is told, here or with Curator, and goes on as it likes: `break_lock` takes it. Raises
    /// `Unsupported` where the layout has no such message.
    fn request_release(&self, py: Python<'_>, expected_token: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        ask(py, self, "request_release", &[Some(expected_token)])
    }

    /// What it promises in its layout.
    fn guarantees<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        record(py, self.core.guarantees().into())
    }

    fn __enter__(&self, py: Python<'_>) -> PyResult<Py<Guard>> {
        let guard = self.wait_for(py, self.limit(None)?)?;
        self.pin(guard.clone_ref(py), true, me(py)?);
        Ok(guard)
    }

    #[pyo3(signature = (exc_type=None, exc=None, traceback=None, /))]
    fn __exit__(&self, py: Python<'_>, exc_type: Given<'_>, exc: Given<'_>, traceback: Given<'_>) -> PyResult<()> {
        let _ = (exc, traceback);
        match self.unpin_block(me(py)?) {
            Some(guard) => guard.get().end_block(py, exc_type.is_some()),
            None => Ok(()),
        }
    }

    /// Waits for the lock. Raises `LockTimeout` when others held it all the time.
    #[pyo3(signature = (timeout=None))]
    fn acquire_guard(&self, py: Python<'_>, timeout: Option<Span>) -> PyResult<Py<Guard>> {
        self.wait_for(py, self.limit(timeout)?)
    }

    /// The lock, if it is free.
    fn try_acquire(&self, py: Python<'_>) -> PyResult<Option<Py<Guard>>> {
        self.try_attempt(py, Some(Duration::ZERO))
    }

    /// Takes the lock over from `secret`, as `Client.resume` does, with this lock's options.
    pub(crate) fn resume(&self, py: Python<'_>, secret: &Bound<'_, PyAny>) -> PyResult<Py<Guard>> {
        let secret = text("resume", "secret", secret)?;
        let me = me(py)?;
        Ok(self.attempt(py, None, || self.wanted_by(me).begin_resume(&secret))?.map_err(Raised)?)
    }

    /// Decorates a function, so that every call of it holds the lock.
    fn guarded<'py>(slf: Bound<'py, Self>, function: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        py.import("lockwright._guarded")?.call_method1("guarded", (slf, function))
    }

    /// Its name, without the prefix of the address.
    #[getter]
    fn name(&self) -> &str {
        self.core.name()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let (class, lock) = (slf.get_type().name()?, slf.get());
        let name = PyString::new(slf.py(), lock.core.name()).repr()?;
        Ok(format!("<lockwright.{class} {name} on {}>", lock.shared.address))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.pins.try_lock() {
            Ok(pins) => pins.iter().try_for_each(|pin| visit.call(&pin.guard)),
            Err(_) => Ok(()),
        }
    }

    fn __clear__(&self) {
        self.orphan_pins();
    }
}

/// What `threading.Condition` asks a lock for that its owner may have acquired several times.
#[pymethods]
impl RLock {
    fn _is_owned(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let me = me(slf.py())?;
        Ok(locked(&slf.as_super().get().pins).iter().any(|pin| pin.who == me && pin.guard.get().held.is_held()))
    }

    /// Gives all back that the caller has of it. Which of them are blocks, whose ends are to find what is taken again.
    fn _release_save(slf: &Bound<'_, Self>) -> PyResult<Vec<bool>> {
        let (py, lock) = (slf.py(), slf.as_super().get());
        let me = me(py)?;
        let mine: Vec<Pin> = locked(&lock.pins).extract_if(.., |pin| pin.who == me).collect();
        if mine.is_empty() {
            return Err(lock.not_held().into());
        }
        let ended: Vec<_> = mine.iter().rev().map(|pin| pin.guard.get().end_strictly(py)).collect();
        let saved = mine.iter().map(|pin| pin.block).collect();
        ended.into_iter().collect::<PyResult<()>>().map(|()| saved)
    }

    /// Waits for as long as it takes, as `threading` does.
    fn _acquire_restore(slf: &Bound<'_, Self>, saved: Vec<bool>) -> PyResult<()> {
        let (py, lock) = (slf.py(), slf.as_super().get());
        for block in saved {
            let guard = lock.wait_for(py, None)?;
            lock.pin(guard, block, me(py)?);
        }
        Ok(())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.orphan_pins();
    }
}
