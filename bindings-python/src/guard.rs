//! The guard: what is held, how it ends, and how its loss is told.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lockwright::binding::{Ending, Held, Standing};
use lockwright::{Async, blocking};
use pyo3::PyTraverseError;
use pyo3::exceptions::PyResourceWarning;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::dispatcher::{self, Message};
use crate::error::Raised;
use crate::{Given, Span, callable, in_slices, locked, outside, report, warn_in_event_loop};

/// A lock that is held.
///
/// One that is collected unreleased gives a `ResourceWarning` and is not renewed any more, but not released: the
/// collector may come in the middle of what the lock protects. To use one that was made before a fork raises `Forked`
/// in the child, except that leaving its `with` block does nothing.
#[pyclass(frozen, weakref, module = "lockwright")]
pub(crate) struct Guard {
    pub(crate) held: Arc<Held>,
    /// That of its lock.
    pub(crate) client: blocking::Client,
    callbacks: Arc<Callbacks>,
    /// What is called when it is asked back.
    asked: Arc<Callbacks>,
}

/// A lock that was exported, for a task that may be gone before it is told the secret.
#[pyclass(frozen, module = "lockwright._lockwright")]
pub(crate) struct Exported {
    #[pyo3(get)]
    pub(crate) secret: String,
    pub(crate) client: blocking::Client,
}

impl Exported {
    /// Has the lock given back, since nobody knows the secret.
    pub(crate) fn take_back(&self) -> impl Future<Output = ()> + Send + use<> {
        let (client, secret) = (self.client.clone().into_face::<Async>(), self.secret.clone());
        async move { drop(client.resume(&secret).await) }
    }
}

impl Guard {
    pub(crate) fn new(guard: lockwright::Guard, client: &blocking::Client) -> Self {
        let (held, client) = (Arc::new(Held::new(guard)), client.clone());
        Guard { held, client, callbacks: Arc::default(), asked: Arc::default() }
    }

    /// What was to be called when the lock is lost, or asked back, never will be.
    pub(crate) fn forget_callbacks(&self) {
        drop((self.callbacks.take(), self.asked.take()));
    }

    /// Gives the lock back.
    pub(crate) fn end(&self, py: Python<'_>) -> Result<Ending, Raised> {
        let ended = outside(py, || self.held.release());
        self.forget_callbacks();
        Ok(ended?)
    }

    /// Ends what was held for a block of code: a loss is an error of the block, unless it has one already.
    pub(crate) fn end_block(&self, py: Python<'_>, failed: bool) -> PyResult<()> {
        if self.held.standing() != Standing::Open {
            return Ok(());
        }
        match self.end_strictly(py) {
            Err(_) if failed => Ok(()),
            result => result,
        }
    }

    /// The same, where a loss is an error.
    pub(crate) fn end_strictly(&self, py: Python<'_>) -> PyResult<()> {
        let why = self.end(py)?.why;
        Ok(why.map_or(Ok(()), |why| Err(Raised(self.held.loss(&why))))?)
    }
}

#[pymethods]
impl Guard {
    /// The fencing token: whatever the lock protects refuses one that is lower than it has seen.
    #[getter]
    fn token(&self) -> u64 {
        self.held.token()
    }

    /// Changes only where tokens start again; goes before the token when two are compared.
    #[getter]
    fn epoch(&self) -> u64 {
        self.held.epoch()
    }

    /// The name of its lock.
    #[getter]
    fn name(&self) -> &str {
        self.held.name()
    }

    /// How many times its thread holds it.
    #[getter]
    fn depth(&self) -> u32 {
        self.held.depth()
    }

    /// Whether the lock is certainly held at this moment.
    #[getter]
    fn is_held(&self) -> bool {
        self.held.is_held()
    }

    /// Seconds that the lock is certainly held without a further renewal.
    fn remaining(&self) -> f64 {
        self.held.remaining().unwrap_or_default().as_secs_f64()
    }

    /// `expired`, `max_hold`, `abandoned`, `not_renewed`, `gone`, `broken` or `closed`; None unless it was lost.
    #[getter]
    fn why_lost(&self) -> Option<&'static str> {
        self.held.why().map(|why| why.code())
    }

    /// The loss as an event.
    #[getter]
    fn lost(slf: Bound<'_, Self>) -> Lost {
        Lost { guard: slf.unbind() }
    }

    /// Has `callback(why)` called once, if the lock is lost before it is released and this guard still exists.
    ///
    /// It is called on a thread of the library's, one callback after another; what it raises is logged.
    fn on_lost(&self, py: Python<'_>, callback: Bound<'_, PyAny>) -> PyResult<()> {
        self.held.own("on_lost").map_err(Raised)?;
        callable("callback", &callback)?;
        let messages = dispatcher::started(py)?;
        self.callbacks.add(callback.unbind());
        let callbacks = Arc::downgrade(&self.callbacks);
        if !self.held.on_lost(Box::new(move |why| messages.post(Message::Lost(callbacks, why)))) {
            // Released already: it will never be called.
            self.forget_callbacks();
        }
        Ok(())
    }

    /// Whether somebody asked for the lock back since it was granted; only known of one that is `revocable`.
    #[getter]
    fn release_requested(&self) -> bool {
        self.held.release_requested()
    }

    /// Has `callback()` called once, if somebody asks for the lock back before it is released and this guard still
    /// exists; at once if that was done already, and never where the lock is not `revocable`.
    ///
    /// The lock stays held until it is released. It is called as `on_lost` calls.
    fn on_release_requested(&self, py: Python<'_>, callback: Bound<'_, PyAny>) -> PyResult<()> {
        self.held.own("on_release_requested").map_err(Raised)?;
        callable("callback", &callback)?;
        let messages = dispatcher::started(py)?;
        self.asked.add(callback.unbind());
        let asked = Arc::downgrade(&self.asked);
        if !self.held.on_release_requested(Box::new(move || messages.post(Message::Wanted(asked)))) {
            self.forget_callbacks();
        }
        Ok(())
    }

    /// Makes the lease last at least `ttl` seconds from now, and at every renewal.
    ///
    /// Raises `LockLost` when it is not held any more, and `Unavailable` when the store did not answer for
    /// `store_timeout`: the lock stays held for as long as `remaining` says.
    fn extend(&self, py: Python<'_>, ttl: Span) -> PyResult<()> {
        let ttl = ttl.check_ttl(py, "extend")?;
        Ok(outside(py, || self.held.extend(ttl)).map_err(Raised)?)
    }

    /// However early it is released, the lock stays taken until `span` seconds after it was acquired (at most 24
    /// hours).
    ///
    /// For jobs that several hosts start by clocks that differ: whoever comes a little later finds that it was done.
    /// The store keeps the lock then, also when this process ends; only `Client.close` with this guard unreleased gives
    /// it back before. Raises `Unsupported` where the layout cannot, `InvalidConfig` for more than 24 hours, `NotOwned`
    /// when it was released.
    fn hold_at_least_for(&self, py: Python<'_>, span: Span) -> PyResult<()> {
        let span = span.check("hold_at_least_for", "span")?;
        Ok(outside(py, || self.held.hold_at_least_for(span)).map_err(Raised)?)
    }

    /// Leaves the lock to a secret, which `Client.resume` takes over within `ttl` seconds, in this process or another.
    ///
    /// Nobody renews it meanwhile, and this guard is dead. Whoever knows the secret may take the lock: treat it as a
    /// password. Raises `Unsupported` where the layout cannot, or its thread holds it more than once: then it is still
    /// held. A release by another thread meanwhile wins: then it raises `NotOwned`.
    fn export(&self, py: Python<'_>, ttl: Span) -> PyResult<String> {
        self.held.own("export").map_err(Raised)?;
        let ttl = ttl.check_ttl(py, "export")?;
        let secret = outside(py, || self.held.export(ttl)).map_err(Raised)?;
        self.forget_callbacks();
        Ok(secret.into_string())
    }

    /// Of a read/write lock: the writer becomes a reader, and nobody else writes in between. The token stays.
    fn downgrade(&self, py: Python<'_>) -> PyResult<()> {
        Ok(outside(py, || self.held.change(false).map(drop)).map_err(Raised)?)
    }

    /// Of a read/write lock: whether this reader is the writer now, with a new token.
    ///
    /// It is if nobody else reads; else it says no at once, so that two readers cannot wait for one another.
    fn try_upgrade(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(outside(py, || self.held.change(true)).map_err(Raised)?)
    }

    /// Gives the lock back, and says what the store found.
    ///
    /// `kept`: its thread still holds it. `expired`, `stolen`: it was lost before. `unknown`: the store did not say;
    /// the lock is free when its lease ends. Raises `NotOwned` the second time.
    fn release(&self, py: Python<'_>) -> PyResult<&'static str> {
        Ok(self.end(py)?.outcome.code())
    }

    /// The error that its loss means for its block.
    fn _loss(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        Some(PyErr::from(Raised(self.held.loss(&self.held.why()?))).into_value(py).into_any())
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().held.is_open("enter").map_err(Raised)?;
        Ok(slf)
    }

    #[pyo3(signature = (exc_type=None, exc=None, traceback=None, /))]
    fn __exit__(&self, py: Python<'_>, exc_type: Given<'_>, exc: Given<'_>, traceback: Given<'_>) -> PyResult<()> {
        let _ = (exc, traceback);
        self.end_block(py, exc_type.is_some())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let name = PyString::new(py, self.held.name()).repr()?;
        let state = match (self.held.standing(), self.held.why(), self.held.remaining()) {
            (Standing::Inherited, ..) => "of the parent process".into(),
            (_, Some(why), _) => format!("lost: {}", why.code()),
            (_, None, left) => left.map_or("released".into(), |left| format!("held, {:.3} s left", left.as_secs_f64())),
        };
        Ok(format!("<lockwright.Guard {name} token {}, {state}>", self.token()))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.callbacks.0.try_lock() {
            Ok(callbacks) => callbacks.iter().try_for_each(|callback| visit.call(callback)),
            Err(_) => Ok(()),
        }
    }

    fn __clear__(&self) {
        self.forget_callbacks();
    }
}

impl Drop for Guard {
    /// The collector may run inside the critical section, so the lock is not released: its lease runs out.
    fn drop(&mut self) {
        let abandoned = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.held.abandon()));
        if let Ok(Some(left)) = abandoned
            && !left.is_zero()
        {
            Python::try_attach(|py| warn(py, self.held.name(), left));
        }
    }
}

fn warn(py: Python<'_>, name: &str, left: Duration) {
    // The collector may have come while another exception was on its way.
    let pending = PyErr::take(py);
    let lock = PyString::new(py, name);
    let shown = lock.repr().map_or_else(|_| String::new(), |name| name.to_string());
    let message = format!(
        "a guard of lock {shown} was collected without a release; the lock is not renewed any more and free in {:.1} s; \
         keep what try_acquire and acquire_guard return, best in a `with`",
        left.as_secs_f64()
    );
    // Python hides the warning unless it is asked for.
    let logged = report::tell_collected(py, &message);
    let warned = std::ffi::CString::new(message).map_err(PyErr::from);
    let category = py.get_type::<PyResourceWarning>();
    let warned = warned.and_then(|message| PyErr::warn(py, &category, &message, 1));
    for error in [logged.err(), warned.err()].into_iter().flatten() {
        error.write_unraisable(py, Some(&lock));
    }
    if let Some(pending) = pending {
        pending.restore(py);
    }
}

/// What a guard's owner wants called when the lock is lost. Owned by the guard alone, so that the collector sees them.
#[derive(Default)]
pub(crate) struct Callbacks(Mutex<Vec<Py<PyAny>>>);

impl Callbacks {
    fn add(&self, callback: Py<PyAny>) {
        locked(&self.0).push(callback);
    }

    pub(crate) fn take(&self) -> Vec<Py<PyAny>> {
        std::mem::take(&mut *locked(&self.0))
    }
}

/// A guard's loss, as a `threading.Event` that nobody can set.
#[pyclass(frozen, module = "lockwright")]
pub(crate) struct Lost {
    guard: Py<Guard>,
}

#[pymethods]
impl Lost {
    /// Whether the lock was lost.
    fn is_set(&self) -> PyResult<bool> {
        let held = &self.guard.get().held;
        held.own("lost").map_err(Raised)?;
        Ok(held.why().is_some())
    }

    /// Waits for the loss. False when the time is over, or the lock was released.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<Span>) -> PyResult<bool> {
        let held = &self.guard.get().held;
        held.own("lost").map_err(Raised)?;
        let limit = timeout.map(|limit| limit.not_negative().check("lost", "timeout")).transpose()?;
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let Some(watch) = held.watch() else { return self.is_set() };
        let registration = watch.register();
        warn_in_event_loop(py, limit)?;
        let told = in_slices(py, limit, |how| registration.wait(how, deadline))?;
        Ok(told || self.is_set()?)
    }

    fn __repr__(&self) -> String {
        let held = &self.guard.get().held;
        let state = if held.why().is_some() { "set" } else { "unset" };
        format!("<lockwright.Lost of {:?}: {state}>", held.name())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.guard)
    }
}
