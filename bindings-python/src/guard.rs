//! The guard: what is held, how it ends, and how its loss is told.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use lockwright::blocking;
use lockwright::blocking::Wait;
use lockwright::export::Secret;
use lockwright::lease::{LossReason, ReleaseOutcome};
use lockwright::{Async, Error, Kind, fork_generation};
use pyo3::PyTraverseError;
use pyo3::exceptions::PyResourceWarning;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::client::{Origin, Shared};
use crate::error::{Raised, lost_track};
use crate::herald::{self, Message};
use crate::{Span, in_slices, locked, outside, report};

/// A lock that is held.
///
/// One that is collected unreleased gives a `ResourceWarning` and is not renewed any more, but not released: the
/// collector may come in the middle of what the lock protects. To use one that was made before a fork raises `Forked`
/// in the child, except that leaving its `with` block does nothing.
#[pyclass(frozen, weakref, module = "lockwright")]
pub(crate) struct Guard {
    /// Of the process that acquired it: in a forked child nothing behind this is touched, for it may be locked for ever.
    generation: u64,
    origin: Arc<Origin>,
    client: blocking::Client,
    name: Arc<str>,
    token: AtomicU64,
    epoch: u64,
    depth: u32,
    state: Mutex<State>,
    /// Taken for reading by whoever uses the core's guard while it does I/O, for writing by the one who ends it.
    in_use: RwLock<()>,
    callbacks: Arc<Callbacks>,
    exported: AtomicBool,
}

struct State {
    /// `None` once it was released.
    core: Option<Arc<blocking::Guard>>,
    /// Why it was lost, for whoever asks after the release.
    why: Option<LossReason>,
    watch: Option<Arc<Watch>>,
}

#[derive(PartialEq)]
pub(crate) enum Standing {
    Open,
    Released,
    /// The parent's: nobody here knows whether it is held.
    Inherited,
}

/// A lock that was exported, for a task that may be gone before it is told the secret.
#[pyclass(frozen, module = "lockwright._lockwright")]
pub(crate) struct Exported {
    #[pyo3(get)]
    secret: String,
    client: blocking::Client,
}

impl Exported {
    /// Has the lock given back, since nobody knows the secret.
    pub(crate) fn take_back(&self) -> impl Future<Output = ()> + Send + use<> {
        let (client, secret) = (self.client.clone().into_face::<Async>(), self.secret.clone());
        async move { drop(client.resume(&secret).await) }
    }
}

/// How a hold ended.
pub(crate) struct Ending {
    outcome: ReleaseOutcome,
    why: Option<LossReason>,
}

impl Ending {
    pub(crate) fn new(outcome: ReleaseOutcome, known: Option<LossReason>) -> Self {
        let why = known.or(outcome.loss());
        Ending { outcome, why }
    }

    pub(crate) fn code(&self) -> &'static str {
        self.outcome.code()
    }
}

/// A hold being given back. Dropping it tells whoever waits for its loss that there will be none.
pub(crate) struct Released {
    pub(crate) core: Option<Arc<blocking::Guard>>,
    watch: Option<Arc<Watch>>,
}

impl Drop for Released {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.take() {
            watch.ring(Fate::Over);
        }
    }
}

impl Guard {
    pub(crate) fn new(core: blocking::Guard, name: Arc<str>, shared: &Shared) -> Self {
        let token = core.token();
        Guard {
            generation: fork_generation(),
            origin: shared.origin.clone(),
            client: shared.client.clone(),
            name,
            token: AtomicU64::new(token.n),
            epoch: token.epoch,
            depth: core.depth(),
            state: Mutex::new(State { core: Some(Arc::new(core)), why: None, watch: None }),
            in_use: RwLock::new(()),
            callbacks: Arc::default(),
            exported: AtomicBool::new(false),
        }
    }

    fn is_inherited(&self) -> bool {
        self.generation != fork_generation()
    }

    /// How things stand in the process of this generation, which is this one.
    pub(crate) fn standing(&self, generation: u64) -> Standing {
        if self.generation != generation {
            Standing::Inherited
        } else if locked(&self.state).core.is_none() {
            Standing::Released
        } else {
            Standing::Open
        }
    }

    /// Asks the core's guard something that it knows by itself.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(&blocking::Guard) -> T) -> Option<T> {
        if self.is_inherited() {
            return None;
        }
        locked(&self.state).core.as_deref().map(question)
    }

    pub(crate) fn why(&self) -> Option<LossReason> {
        self.ask(blocking::Guard::why_lost)
            .unwrap_or_else(|| if self.is_inherited() { None } else { locked(&self.state).why.clone() })
    }

    fn error(&self, kind: Kind, operation: &'static str, message: impl Into<std::borrow::Cow<'static, str>>) -> Raised {
        Raised(Error::new(kind, operation, message).on_lock(self.name.clone()).on_store(&*self.origin.address))
    }

    pub(crate) fn forked(&self, operation: &'static str) -> Raised {
        let message =
            "this guard was made before a fork and belongs to the parent process; acquire the lock in this process";
        self.error(Kind::Forked, operation, message)
    }

    pub(crate) fn not_owned(&self, operation: &'static str) -> Raised {
        let message = match self.exported.load(Ordering::Relaxed) {
            true => "this guard was exported: whoever resumes the secret has the lock",
            false => "this guard was released already",
        };
        self.error(Kind::NotOwned, operation, message)
    }

    pub(crate) fn own(&self, operation: &'static str) -> Result<(), Raised> {
        if self.is_inherited() { Err(self.forked(operation)) } else { Ok(()) }
    }

    /// Has the core's guard do something that takes a while.
    fn using<T: Send>(
        &self,
        py: Python<'_>,
        operation: &'static str,
        work: impl FnOnce(&blocking::Guard) -> lockwright::Result<T> + Send,
    ) -> PyResult<T> {
        self.own(operation)?;
        let done = outside(py, || {
            let _in_use = self.in_use.read().unwrap_or_else(PoisonError::into_inner);
            let core = locked(&self.state).core.clone();
            work(&*core.ok_or_else(|| self.not_owned(operation).0)?)
        });
        Ok(done.map_err(Raised)?)
    }

    fn change<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&blocking::Guard) -> lockwright::Result<T> + Send,
    ) -> PyResult<T> {
        let changed = self.using(py, "change", work)?;
        self.refresh_token();
        Ok(changed)
    }

    /// After a change: a reader that became the writer has a new one.
    pub(crate) fn refresh_token(&self) {
        if let Some(token) = self.ask(blocking::Guard::token) {
            self.token.store(token.n, Ordering::Relaxed);
        }
    }

    /// Takes away what is held, for a guard of this process: whoever has it gives it back.
    pub(crate) fn take(&self, operation: &'static str) -> Result<Released, Raised> {
        let mut state = locked(&self.state);
        let core = state.core.take().ok_or_else(|| self.not_owned(operation))?;
        Ok(Released { core: Some(core), watch: state.watch.take() })
    }

    /// The core's guard of what was taken away, once nobody uses it any more.
    pub(crate) fn sole(&self, released: &mut Released, operation: &'static str) -> lockwright::Result<blocking::Guard> {
        let core = released.core.take();
        let sole = self.in_use.write().unwrap_or_else(PoisonError::into_inner);
        let guard = core.and_then(Arc::into_inner).ok_or_else(|| lost_track(operation).0);
        drop(sole);
        guard
    }

    /// Takes up how an export ended: one that changed nothing leaves the guard as it was.
    pub(crate) fn exported(
        &self,
        mut released: Released,
        core: blocking::Guard,
        secret: lockwright::Result<Secret>,
    ) -> Result<Exported, Raised> {
        match secret {
            Ok(secret) => {
                drop(released);
                self.forget_callbacks();
                self.exported.store(true, Ordering::Relaxed);
                Ok(Exported { secret: secret.into_string(), client: self.client.clone() })
            }
            Err(error) => {
                if !core.is_over() {
                    let mut state = locked(&self.state);
                    state.watch = released.watch.take();
                    state.core = Some(Arc::new(core));
                }
                Err(Raised(error))
            }
        }
    }

    /// Keeps why the hold was lost, when it has ended.
    pub(crate) fn ended(&self, ending: &Ending) {
        locked(&self.state).why.clone_from(&ending.why);
    }

    /// What was to be called when the lock is lost never will be.
    pub(crate) fn forget_callbacks(&self) {
        drop(self.callbacks.take());
    }

    /// For a guard of this process.
    pub(crate) fn end(&self, py: Python<'_>) -> Result<Ending, Raised> {
        let mut released = self.take("release")?;
        let ended = outside(py, || {
            let guard = self.sole(&mut released, "release")?;
            let why = guard.why_lost();
            Ok(Ending::new(guard.release()?, why))
        });
        if let Ok(ending) = &ended {
            self.ended(ending);
        }
        drop(released);
        self.forget_callbacks();
        ended.map_err(Raised)
    }

    /// Ends what was held for a block of code: a loss is an error of the block, unless it has one already.
    pub(crate) fn end_block(&self, py: Python<'_>, failed: bool) -> PyResult<()> {
        if self.standing(fork_generation()) != Standing::Open {
            return Ok(());
        }
        match self.end(py).and_then(|ending| self.unless_lost(&ending)) {
            Err(_) if failed => Ok(()),
            result => Ok(result?),
        }
    }

    pub(crate) fn unless_lost(&self, ending: &Ending) -> Result<(), Raised> {
        ending.why.as_ref().map_or(Ok(()), |why| Err(self.loss(why)))
    }

    pub(crate) fn loss(&self, why: &LossReason) -> Raised {
        self.error(Kind::Lost, "release", format!("the lock was lost while it was held: {}", why.sentence()))
    }
}

#[pymethods]
impl Guard {
    /// The fencing token: whatever the lock protects refuses one that is lower than it has seen.
    #[getter]
    fn token(&self) -> u64 {
        self.token.load(Ordering::Relaxed)
    }

    /// Changes only where tokens start again; goes before the token when two are compared.
    #[getter]
    fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The name of its lock.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// How many times its thread holds it.
    #[getter]
    fn depth(&self) -> u32 {
        self.depth
    }

    /// Whether the lock is certainly held at this moment.
    #[getter]
    pub(crate) fn is_held(&self) -> bool {
        self.ask(blocking::Guard::is_held).unwrap_or(false)
    }

    /// Seconds that the lock is certainly held without a further renewal.
    fn remaining(&self) -> f64 {
        self.ask(blocking::Guard::remaining).unwrap_or_default().as_secs_f64()
    }

    /// `expired`, `max_hold`, `abandoned`, `not_renewed`, `gone`, `broken` or `closed`; None unless it was lost.
    #[getter]
    fn why_lost(&self) -> Option<&'static str> {
        self.why().map(|why| why.code())
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
        self.own("on_lost")?;
        let post = herald::summon(py)?;
        self.callbacks.add(callback.unbind());
        let callbacks = Arc::downgrade(&self.callbacks);
        let tell = move |why: &LossReason| post.leave(Message::Lost(callbacks.clone(), why.code()));
        if self.ask(|core| core.on_lost(tell)).is_none() {
            // Released already: it will never be called.
            self.forget_callbacks();
        }
        Ok(())
    }

    /// Makes the lease last `ttl` seconds from now, and at every renewal.
    fn extend(&self, py: Python<'_>, ttl: Span) -> PyResult<()> {
        let ttl = ttl.check_ttl(py, "extend")?;
        self.using(py, "extend", |core| core.extend(ttl))
    }

    /// However early it is released, the lock stays taken until `span` seconds after it was acquired (at most 24 hours).
    ///
    /// For jobs that several hosts start by clocks that differ: whoever comes a little later finds that it was done. The store
    /// keeps the lock then, also when this process ends; only `Client.close` with this guard unreleased gives it back before.
    /// Raises `Unsupported` where the layout cannot, `InvalidConfig` for more than 24 hours, `NotOwned` when it was released.
    fn hold_at_least_for(&self, py: Python<'_>, span: Span) -> PyResult<()> {
        let span = span.check("hold_at_least_for", "span")?;
        self.own("hold_at_least_for")?;
        let kept = outside(py, || {
            let _alone = self.in_use.write().unwrap_or_else(PoisonError::into_inner);
            let mut state = locked(&self.state);
            let core = state.core.as_mut().ok_or_else(|| self.not_owned("hold_at_least_for").0)?;
            Arc::get_mut(core).ok_or_else(|| lost_track("hold_at_least_for").0)?.hold_at_least_for(span)
        });
        Ok(kept.map_err(Raised)?)
    }

    /// Leaves the lock to a secret, which `Client.resume` takes over within `ttl` seconds, in this process or another.
    ///
    /// Nobody renews it meanwhile, and this guard is dead. Whoever knows the secret may take the lock: treat it as a password.
    /// Raises `Unsupported` where the layout cannot, or its thread holds it more than once: then it is still held.
    fn export(&self, py: Python<'_>, ttl: Span) -> PyResult<String> {
        self.own("export")?;
        let ttl = ttl.check_ttl(py, "export")?;
        let mut released = self.take("export")?;
        let exported = outside(py, || {
            let mut core = self.sole(&mut released, "export")?;
            let secret = core.export(ttl);
            Ok((core, secret))
        });
        let (core, secret) = exported.map_err(Raised)?;
        Ok(self.exported(released, core, secret)?.secret)
    }

    /// Of a read/write lock: the writer becomes a reader, and nobody else writes in between. The token stays.
    fn downgrade(&self, py: Python<'_>) -> PyResult<()> {
        self.change(py, blocking::Guard::downgrade)
    }

    /// Of a read/write lock: whether this reader is the writer now, with a new token.
    ///
    /// It is if nobody else reads; else it says no at once, so that two readers cannot wait for one another.
    fn try_upgrade(&self, py: Python<'_>) -> PyResult<bool> {
        self.change(py, blocking::Guard::try_upgrade)
    }

    /// Gives the lock back, and says what the store found.
    ///
    /// `kept`: its thread still holds it. `expired`, `stolen`: it was lost before. `unknown`: the store did not say; the
    /// lock is free when its lease ends. Raises `NotOwned` the second time.
    fn release(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.own("release")?;
        Ok(self.end(py)?.outcome.code())
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        match slf.get().standing(fork_generation()) {
            Standing::Open => Ok(slf),
            Standing::Released => Err(slf.get().not_owned("enter").into()),
            Standing::Inherited => Err(slf.get().forked("enter").into()),
        }
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
        self.end_block(py, exc_type.is_some())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let name = PyString::new(py, &self.name).repr()?;
        let state = if self.is_inherited() {
            "of the parent process".into()
        } else if let Some(why) = self.why() {
            format!("lost: {}", why.code())
        } else {
            self.ask(|core| format!("held, {:.3} s left", core.remaining().as_secs_f64())).unwrap_or("released".into())
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
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.core.is_none() || self.generation != fork_generation() {
            return;
        }
        let released = Released { core: None, watch: state.watch.take() };
        let Some(core) = state.core.take().and_then(Arc::into_inner) else { return };
        drop(released);
        let left = core.remaining();
        let abandoned = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| core.abandon()));
        if abandoned.is_ok() && !left.is_zero() {
            Python::try_attach(|py| warn(py, &self.name, left));
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
        let guard = self.guard.get();
        guard.own("lost")?;
        Ok(guard.why().is_some())
    }

    /// Waits for the loss. False when the time is over, or the lock was released.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<Span>) -> PyResult<bool> {
        let guard = self.guard.get();
        guard.own("lost")?;
        let limit = timeout.map(|limit| limit.not_negative().check("lost", "timeout")).transpose()?;
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let Some(watch) = guard.watch() else { return self.is_set() };
        let place = watch.place();
        let told = in_slices(py, limit, |how| place.wait(how, deadline))?;
        Ok(told || self.is_set()?)
    }

    fn __repr__(&self) -> String {
        let guard = self.guard.get();
        let state = if guard.why().is_some() { "set" } else { "unset" };
        format!("<lockwright.Lost of {:?}: {state}>", guard.name)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.guard)
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Fate {
    Held,
    Lost(&'static str),
    Over,
}

/// Where threads and tasks wait for a loss, and the driver's thread rings.
pub(crate) struct Watch {
    news: Mutex<News>,
    bell: Condvar,
}

struct News {
    fate: Fate,
    tasks: HashMap<u64, Waker>,
    next: u64,
}

impl Guard {
    pub(crate) fn watch(&self) -> Option<Arc<Watch>> {
        let mut state = locked(&self.state);
        let core = state.core.clone()?;
        let watch = state.watch.get_or_insert_with(|| {
            let news = News { fate: Fate::Held, tasks: HashMap::new(), next: 0 };
            let watch = Arc::new(Watch { news: Mutex::new(news), bell: Condvar::new() });
            let ringing = watch.clone();
            core.on_lost(move |why| ringing.ring(Fate::Lost(why.code())));
            watch
        });
        Some(watch.clone())
    }
}

impl Watch {
    fn ring(&self, fate: Fate) {
        let mut news = locked(&self.news);
        if news.fate == Fate::Held {
            news.fate = fate;
        }
        let tasks = std::mem::take(&mut news.tasks);
        drop(news);
        self.bell.notify_all();
        tasks.into_values().for_each(Waker::wake);
    }

    /// A place to wait at.
    fn place(self: &Arc<Self>) -> Place {
        let mut news = locked(&self.news);
        news.next += 1;
        Place { watch: self.clone(), number: news.next }
    }

    /// Why the lock was lost; `None` once it was released.
    pub(crate) async fn told(self: Arc<Self>) -> Option<&'static str> {
        let place = self.place();
        match poll_fn(|context| place.look(context.waker()).map_or(Poll::Pending, Poll::Ready)).await {
            Fate::Lost(why) => Some(why),
            Fate::Held | Fate::Over => None,
        }
    }
}

/// A place at a watch of one who waits, which is left when it is dropped.
struct Place {
    watch: Arc<Watch>,
    number: u64,
}

impl Place {
    /// What became of the lock; while it is held, `waker` is called when it is not any more.
    fn look(&self, waker: &Waker) -> Option<Fate> {
        let mut news = locked(&self.watch.news);
        if news.fate == Fate::Held {
            news.tasks.insert(self.number, waker.clone());
        }
        (news.fate != Fate::Held).then_some(news.fate)
    }

    fn park(&self, slice: Duration) -> Option<Fate> {
        let (watch, news) = (&self.watch, locked(&self.watch.news));
        let is_held = |news: &mut News| news.fate == Fate::Held;
        let fate = if slice == Duration::MAX {
            watch.bell.wait_while(news, is_held).unwrap_or_else(PoisonError::into_inner).fate
        } else {
            let waited = watch.bell.wait_timeout_while(news, slice, is_held);
            waited.unwrap_or_else(PoisonError::into_inner).0.fate
        };
        (fate != Fate::Held).then_some(fate)
    }

    /// Whether the lock was lost; `None` when nothing happened yet.
    fn wait(&self, how: Wait<'_>, deadline: Option<Instant>) -> Option<bool> {
        let left = || deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        let fate = match how {
            Wait::Park(slice) => self.park(slice.min(left())),
            Wait::Wake(waker) => self.look(waker),
        };
        match fate {
            None => left().is_zero().then_some(false),
            Some(fate) => Some(fate != Fate::Over),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        locked(&self.watch.news).tasks.remove(&self.number);
    }
}
