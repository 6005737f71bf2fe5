//! The locks, which behave as those of `threading`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright::blocking::{self, Acquiring};
use lockwright::queue::OwnerId;
use lockwright::{Error, Kind};
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::client::{Orphan, Shared, guarantees_record, inspection_record, token};
use crate::error::Raised;
use crate::guard::{Guard, Standing};
use crate::{Seconds, in_slices, locked, outside, text};

/// This thread's id, never used again for another thread; the operating system's ids are.
pub(crate) fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static MINE: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    MINE.try_with(|id| *id).unwrap_or_else(|_| NEXT.fetch_add(1, Ordering::Relaxed))
}

#[pyclass(frozen, subclass, weakref, module = "lockwright")]
pub(crate) struct Lock {
    pub(crate) core: blocking::Lock,
    pub(crate) name: Arc<str>,
    reentrant: bool,
    pub(crate) shared: Arc<Shared>,
    /// What `acquire` and `with` took and nobody gave back yet.
    pins: Mutex<Vec<Pin>>,
}

struct Pin {
    /// The thread, or in asyncio the task.
    who: u64,
    block: bool,
    guard: Py<Guard>,
}

/// A lock that the thread which holds it may acquire again.
#[pyclass(frozen, extends = Lock, weakref, module = "lockwright")]
pub(crate) struct RLock;

/// A time limit as `threading` takes it: -1 is none but `own`.
pub(crate) fn limit(timeout: Option<Seconds>, own: Option<Duration>) -> Result<Option<Duration>, Raised> {
    match timeout {
        None | Some(Seconds(-1.0)) => Ok(own),
        Some(seconds) => seconds.check("acquire", "timeout").map(Some),
    }
}

impl Lock {
    pub(crate) fn new(core: blocking::Lock, name: Arc<str>, reentrant: bool, shared: Arc<Shared>) -> Self {
        Lock { core, name, reentrant, shared, pins: Mutex::default() }
    }

    /// The guard, or why there is none. The inner error is the core's, the outer one a signal handler's.
    fn attempt(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<lockwright::Result<Py<Guard>>> {
        self.finish(py, || match self.reentrant {
            true => self.wanted_by(this_thread()).begin(timeout),
            false => self.core.begin(timeout),
        })
    }

    fn finish(
        &self,
        py: Python<'_>,
        begin: impl FnOnce() -> lockwright::Result<Acquiring> + Send,
    ) -> PyResult<lockwright::Result<Py<Guard>>> {
        self.shared.prepare(py)?;
        let begun = outside(py, || {
            let mut acquiring = begin()?;
            let at_once = acquiring.wait(Duration::ZERO);
            Ok((at_once, acquiring))
        });
        let granted = match begun {
            Err(error) => Err(error),
            Ok((Some(result), _)) => result,
            Ok((None, mut acquiring)) => {
                let waited = in_slices(py, |slice| acquiring.wait(slice));
                if waited.is_err() {
                    // To give up may cost more than a moment with the GIL held.
                    let given_up = outside(py, move || {
                        drop(acquiring);
                        Ok(())
                    });
                    given_up.map_err(Raised)?;
                }
                waited?
            }
        };
        match granted {
            Ok(core) => Ok(Ok(self.guard(py, core)?)),
            Err(error) => Ok(Err(error)),
        }
    }

    pub(crate) fn guard(&self, py: Python<'_>, core: blocking::Guard) -> PyResult<Py<Guard>> {
        Py::new(py, Guard::new(core, self.name.clone(), &self.shared))
    }

    /// What `who` is to acquire.
    pub(crate) fn wanted_by(&self, who: u64) -> blocking::Lock {
        if self.reentrant { self.core.for_owner(OwnerId(who)) } else { self.core.clone() }
    }

    /// As [`attempt`](Self::attempt), where somebody else's lock is no error.
    fn try_attempt(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<Option<Py<Guard>>> {
        match self.attempt(py, timeout)? {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if error.kind() == Kind::Timeout => Ok(None),
            Err(error) => Err(Raised(error).into()),
        }
    }

    fn own_timeout(&self) -> Option<Duration> {
        self.core.options().timeout
    }

    pub(crate) fn limit(&self, timeout: Option<Seconds>) -> Result<Option<Duration>, Raised> {
        limit(timeout, self.own_timeout())
    }

    /// The guard, waited for as long as `limit` says.
    pub(crate) fn wait_for(&self, py: Python<'_>, limit: Option<Duration>) -> PyResult<Py<Guard>> {
        Ok(self.attempt(py, limit)?.map_err(Raised)?)
    }

    pub(crate) fn is_held_here(&self) -> bool {
        locked(&self.pins).iter().any(|pin| pin.guard.get().is_held())
    }

    pub(crate) fn pin(&self, guard: Py<Guard>, block: bool, who: u64) {
        locked(&self.pins).push(Pin { who, block, guard });
    }

    /// What the innermost block of `who` took; none when the block gave it back itself.
    pub(crate) fn unpin_block(&self, who: u64) -> Option<Py<Guard>> {
        let mut pins = locked(&self.pins);
        let at = pins.iter().rposition(|pin| pin.block && pin.who == who)?;
        Some(pins.remove(at).guard)
    }

    /// The hold that `release` means: the latest of `me`, else anybody's where `threading` allows that, else one of a lock
    /// of this name that was collected.
    pub(crate) fn unpin(&self, py: Python<'_>, me: u64) -> PyResult<Py<Guard>> {
        let pid = std::process::id();
        let mut over = Vec::new();
        let found = {
            let mut pins = locked(&self.pins);
            over.extend(pins.extract_if(.., |pin| !pin.block && pin.guard.get().standing(pid) == Standing::Released));
            let usable = |pin: &Pin| pin.guard.get().standing(pid) == Standing::Open;
            let mine = pins.iter().rposition(|pin| usable(pin) && pin.who == me);
            let found = mine.or_else(|| pins.iter().rposition(usable).filter(|_| !self.reentrant));
            // A block finds what it took when it ends, released or not, and not what the block around it took.
            found.map(|at| if pins[at].block { pins[at].guard.clone_ref(py) } else { pins.remove(at).guard })
        };
        drop(over);
        if let Some(guard) = found.or_else(|| self.adopt(me, pid)) {
            return Ok(guard);
        }
        let inherited = locked(&self.pins)
            .iter()
            .rev()
            .map(|pin| pin.guard.get())
            .find(|guard| guard.standing(pid) == Standing::Inherited)
            .map(|guard| guard.forked("release"));
        Err(inherited.unwrap_or_else(|| self.not_held()).into())
    }

    fn not_held(&self) -> Raised {
        let message = if self.reentrant {
            "this thread or task does not hold the lock"
        } else {
            "this lock object does not hold the lock"
        };
        let error = Error::new(Kind::NotOwned, "release", message).on_lock(self.name.clone());
        Raised(error.on_store(&*self.shared.origin.address))
    }

    fn adopt(&self, me: u64, pid: u32) -> Option<Py<Guard>> {
        let mut orphans = locked(&self.shared.orphans);
        let mine = |orphan: &Orphan| {
            let same = orphan.name == self.name && orphan.reentrant == self.reentrant;
            let whose = !self.reentrant || orphan.who == me;
            same && whose && orphan.guard.get().standing(pid) == Standing::Open
        };
        let at = orphans.iter().rposition(mine)?;
        Some(orphans.remove(at).guard)
    }

    /// Holds outlive the lock that took them: whoever called `acquire` may still be in the critical section.
    fn orphan_pins(&self) {
        let pins = std::mem::take(&mut *locked(&self.pins));
        if !pins.is_empty() {
            let orphan = |pin: Pin| Orphan {
                name: self.name.clone(),
                reentrant: self.reentrant,
                who: pin.who,
                guard: pin.guard,
            };
            locked(&self.shared.orphans).extend(pins.into_iter().map(orphan));
        }
    }
}

/// Gives back what was taken out of a lock's pins.
pub(crate) fn end(py: Python<'_>, guard: &Py<Guard>) -> PyResult<()> {
    let ending = guard.get().end(py)?;
    Ok(guard.get().unless_lost(&ending)?)
}

#[pymethods]
impl Lock {
    #[pyo3(signature = (blocking=true, timeout=Seconds(-1.0)), text_signature = "($self, blocking=True, timeout=-1)")]
    pub(crate) fn acquire(&self, py: Python<'_>, blocking: bool, timeout: Seconds) -> PyResult<bool> {
        let limit = if blocking {
            self.limit(Some(timeout))?
        } else if timeout == Seconds(-1.0) {
            Some(Duration::ZERO)
        } else {
            let message = "a timeout was given for a call that shall not block; give one of the two";
            return Err(Raised(Error::invalid("acquire", message).on_lock(self.name.clone())).into());
        };
        match self.try_attempt(py, limit)? {
            Some(guard) => {
                self.pin(guard, false, this_thread());
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn _fair_if_possible(&self) -> Self {
        Lock::new(self.core.fair_if_possible(), self.name.clone(), self.reentrant, self.shared.clone())
    }

    fn release(&self, py: Python<'_>) -> PyResult<()> {
        let guard = self.unpin(py, this_thread())?;
        end(py, &guard)
    }

    fn locked(&self, py: Python<'_>) -> PyResult<bool> {
        if self.is_held_here() {
            return Ok(true);
        }
        self.shared.prepare(py)?;
        let seen = outside(py, || self.core.inspect()).map_err(Raised)?;
        Ok(seen.holder.is_some())
    }

    fn inspect<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.shared.prepare(py)?;
        inspection_record(py, outside(py, || self.core.inspect()).map_err(Raised)?)
    }

    fn break_lock(&self, py: Python<'_>, expected_token: &Bound<'_, PyAny>) -> PyResult<bool> {
        let token = token(py, expected_token)?;
        self.shared.prepare(py)?;
        Ok(outside(py, || self.core.break_lock(token)).map_err(Raised)?)
    }

    fn guarantees<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        guarantees_record(py, &self.core.guarantees())
    }

    fn __enter__(&self, py: Python<'_>) -> PyResult<Py<Guard>> {
        let guard = self.wait_for(py, self.own_timeout())?;
        self.pin(guard.clone_ref(py), true, this_thread());
        Ok(guard)
    }

    #[pyo3(signature = (exc_type=None, exc=None, traceback=None, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Option<Bound<'_, PyAny>>,
        exc: Option<Bound<'_, PyAny>>,
        traceback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let _ = (exc, traceback);
        match self.unpin_block(this_thread()) {
            Some(guard) => guard.get().end_block(py, exc_type.is_some()),
            None => Ok(()),
        }
    }

    #[pyo3(signature = (timeout=None))]
    fn acquire_guard(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Py<Guard>> {
        self.wait_for(py, self.limit(timeout)?)
    }

    fn try_acquire(&self, py: Python<'_>) -> PyResult<Option<Py<Guard>>> {
        self.try_attempt(py, Some(Duration::ZERO))
    }

    pub(crate) fn resume(&self, py: Python<'_>, secret: &Bound<'_, PyString>) -> PyResult<Py<Guard>> {
        let secret = text("resume", "secret", secret)?;
        Ok(self.finish(py, || self.wanted_by(this_thread()).begin_resume(&secret))?.map_err(Raised)?)
    }

    fn guarded<'py>(slf: Bound<'py, Self>, function: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        py.import("lockwright._guarded")?.call_method1("guarded", (slf, function))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let class = if self.reentrant { "RLock" } else { "Lock" };
        let name = PyString::new(py, &self.name).repr()?;
        Ok(format!("<lockwright.{class} {name} on {}>", self.shared.origin.address))
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

impl Drop for Lock {
    fn drop(&mut self) {
        self.orphan_pins();
    }
}
