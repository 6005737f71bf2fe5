//! What `lockwright.aio` asks of the core, from inside an event loop and for its tasks.
//!
//! Each event loop has one [`Reactor`]. What a task asks becomes a job of it; the task awaits a future, and then takes the
//! answer, which the future never has: whoever is called by a future keeps it a while, and with it a guard. Jobs own
//! no Python object, for the driver's thread may drop what a job holds; futures and answers are kept here, where only
//! the loop's own thread looks.

use std::collections::HashMap;
use std::future::Future;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lockwright::event_loop::{EventLoop, JobId};
use lockwright::lease::Inspection;
use lockwright::share::Share;
use lockwright::{Async, Error, Kind, Result};
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use pyo3::{IntoPyObjectExt, PyTraverseError};

use crate::barrier::{Arrival, Barrier};
use crate::care::health_record;
use crate::client::{Client, Shared, count, inspection_record, token};
use crate::error::{Raised, lost_track};
use crate::guard::{Ending, Exported, Guard};
use crate::latch::Latch;
use crate::lock::Lock;
use crate::several::{Bundle, Returning, Segments, merge, split};
use crate::{Span, locked, outside, text};

/// The jobs of one event loop.
#[pyclass(frozen, weakref, module = "lockwright._lockwright")]
pub(crate) struct Reactor {
    core: EventLoop,
    next: AtomicU64,
    /// Locked by attached threads only, and never across a detach.
    asked: Mutex<HashMap<u64, Question>>,
    /// Jobs that ended since the last look.
    ended: Arc<Mutex<Vec<u64>>>,
}

/// Makes what the task gets of what its job left.
type Answer = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// What a task asked.
enum Question {
    Open { job: JobId, future: Py<PyAny>, answer: Answer },
    Answered(PyResult<Py<PyAny>>),
}

impl Question {
    /// For the collector.
    fn object(&self) -> Option<&Py<PyAny>> {
        match self {
            Question::Open { future, .. } => Some(future),
            Question::Answered(answer) => answer.as_ref().ok(),
        }
    }
}

/// Where a job leaves its result. Dropping it, as a job that panics does, reports the job as ended without one.
struct Delivery<T> {
    number: u64,
    ended: Arc<Mutex<Vec<u64>>>,
    result: Arc<Mutex<Option<Result<T>>>>,
}

impl<T> Drop for Delivery<T> {
    fn drop(&mut self) {
        locked(&self.ended).push(self.number);
    }
}

impl Reactor {
    /// Begins `work`; `answer` makes of its result that of `future`. Returns the number of the job.
    fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        future: Py<PyAny>,
        work: impl Future<Output = Result<T>> + Send + 'static,
        answer: impl FnOnce(Python<'_>, Result<T>) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let result = Arc::new(Mutex::new(None));
        let delivery = Delivery { number, ended: self.ended.clone(), result: result.clone() };
        let job = self.core.spawn(async move {
            let result = work.await;
            *locked(&delivery.result) = Some(result);
        });
        let answer = Box::new(move |py: Python<'_>| {
            let result = locked(&result).take();
            answer(py, result.unwrap_or_else(|| Err(panicked())))
        });
        locked(&self.asked).insert(number, Question::Open { job, future, answer });
        self.turn(py)?;
        Ok(number)
    }

    fn deliver(&self, py: Python<'_>) -> PyResult<()> {
        let ended = std::mem::take(&mut *locked(&self.ended));
        for number in ended {
            let asked = locked(&self.asked).remove(&number);
            if let Some(Question::Open { future, answer, .. }) = asked {
                let answer = answer(py);
                let future = future.bind(py);
                if future.call_method0(intern!(py, "done"))?.is_truthy()? {
                    // Its task was cancelled meanwhile.
                    self.return_it(py, answer)?;
                } else {
                    locked(&self.asked).insert(number, Question::Answered(answer));
                    future.call_method1(intern!(py, "set_result"), (py.None(),))?;
                }
            }
        }
        Ok(())
    }

    /// Has a guard that nobody wants any more, or a lock whose secret nobody was told, given back, in the background.
    fn return_it(&self, py: Python<'_>, answer: PyResult<Py<PyAny>>) -> PyResult<()> {
        let Ok(answer) = answer else { return Ok(()) };
        let answer = answer.bind(py);
        if answer.is_instance_of::<PyList>() || answer.is_instance_of::<PyTuple>() {
            // Guards of several locks, or a segment and its guard.
            return answer.try_iter()?.try_for_each(|part| self.return_it(py, part.map(Bound::unbind)));
        }
        if let Ok(exported) = answer.cast::<Exported>() {
            self.core.spawn(exported.get().take_back());
            let turn = || {
                self.core.turn();
                Ok(())
            };
            return outside(py, turn).map_err(|error| Raised(error).into());
        }
        if let Ok(guard) = answer.cast::<Guard>()
            && let Ok(released) = guard.get().take("release")
        {
            outside(py, move || {
                drop(released);
                Ok(())
            })
            .map_err(Raised)?;
        }
        Ok(())
    }

    /// Everything begins here: what belongs to the parent of this process is not touched.
    fn own(&self, operation: &'static str) -> PyResult<()> {
        if self.core.is_forked() {
            let message = "this event loop was used before a fork and belongs to the parent process; run a new one";
            return Err(Raised(Error::new(Kind::Forked, operation, message)).into());
        }
        Ok(())
    }
}

fn panicked() -> Error {
    Error::new(Kind::Internal, "call", "the library panicked; please report this")
}

#[pymethods]
impl Reactor {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        let core = outside(py, EventLoop::new).map_err(Raised)?;
        Ok(Reactor { core, next: AtomicU64::new(1), asked: Mutex::default(), ended: Arc::default() })
    }

    fn fileno(&self) -> RawFd {
        self.core.descriptor().as_raw_fd()
    }

    fn turn(&self, py: Python<'_>) -> PyResult<()> {
        if self.core.is_forked() {
            return Ok(());
        }
        outside(py, || {
            self.core.turn();
            Ok(())
        })
        .map_err(Raised)?;
        self.deliver(py)
    }

    /// The answer, once the future is done.
    fn take(&self, number: u64) -> PyResult<Py<PyAny>> {
        match locked(&self.asked).remove(&number) {
            Some(Question::Answered(answer)) => answer,
            _ => Err(lost_track("call").into()),
        }
    }

    /// The task that awaited the future is gone: nobody wants what it asked for.
    fn forget(&self, py: Python<'_>, number: u64) -> PyResult<()> {
        if self.core.is_forked() {
            return Ok(());
        }
        let asked = locked(&self.asked).remove(&number);
        match asked {
            Some(Question::Open { job, .. }) => outside(py, || {
                self.core.abandon(job);
                Ok(())
            })
            .map_err(|error| Raised(error).into()),
            Some(Question::Answered(answer)) => self.return_it(py, answer),
            None => Ok(()),
        }
    }

    fn acquire(
        &self,
        py: Python<'_>,
        future: Py<PyAny>,
        lock: Py<Lock>,
        timeout: Option<Span>,
        who: u64,
        as_in_threading: bool,
    ) -> PyResult<u64> {
        self.own("acquire")?;
        let limit = lock.get().limit(timeout)?;
        lock.get().shared.prepare(py)?;
        let wanted = match as_in_threading {
            true => lock.get().wanted_as_in_threading(who),
            false => lock.get().wanted_by(who),
        };
        let wanted = wanted.into_face::<Async>();
        let work = async move { wanted.acquire_within(limit).await };
        self.ask(py, future, work, move |py, granted| {
            let guard = lock.get().guard(py, granted.map_err(Raised)?.into_face())?;
            Ok(guard.into_any())
        })
    }

    fn resume(
        &self,
        py: Python<'_>,
        future: Py<PyAny>,
        lock: Py<Lock>,
        secret: &Bound<'_, PyAny>,
        who: u64,
    ) -> PyResult<u64> {
        self.own("resume")?;
        let secret = text("resume", "secret", secret)?;
        lock.get().shared.prepare(py)?;
        let wanted = lock.get().wanted_by(who).into_face::<Async>();
        let work = async move { wanted.resume(&secret).await };
        self.ask(py, future, work, move |py, resumed| {
            let guard = lock.get().guard(py, resumed.map_err(Raised)?.into_face())?;
            Ok(guard.into_any())
        })
    }

    fn acquire_all(
        &self,
        py: Python<'_>,
        future: Py<PyAny>,
        bundle: Py<Bundle>,
        timeout: Option<Span>,
    ) -> PyResult<u64> {
        self.own("acquire")?;
        let limit = bundle.get().limit(timeout)?;
        bundle.get().shared.prepare(py)?;
        let wanted = bundle.get().core().into_face::<Async>();
        let work = async move { wanted.acquire_within(limit).await };
        self.ask(py, future, work, move |py, granted| {
            bundle.get().guards(py, granted.map_err(Raised)?)?.into_py_any(py)
        })
    }

    fn any(&self, py: Python<'_>, future: Py<PyAny>, segments: Py<Segments>, timeout: Option<Span>) -> PyResult<u64> {
        self.own("acquire")?;
        let limit = segments.get().limit(timeout)?;
        segments.get().shared.prepare(py)?;
        let wanted = segments.get().core().into_face::<Async>();
        let work = async move { wanted.any_within(limit).await };
        self.ask(py, future, work, move |py, found| match found.map_err(Raised)? {
            Some(segment) => {
                let index = segment.index();
                (index, segments.get().guard(py, segment.into_guard())?).into_py_any(py)
            }
            None => Ok(py.None()),
        })
    }

    fn export(&self, py: Python<'_>, future: Py<PyAny>, guard: Py<Guard>, ttl: Span) -> PyResult<u64> {
        guard.get().own("export")?;
        self.own("export")?;
        let ttl = ttl.check_ttl(py, "export")?;
        let mut released = guard.get().take("export")?;
        let core = released.core.take();
        let work = async move {
            let mut core = core.and_then(Arc::into_inner).ok_or_else(|| lost_track("export").0)?.into_face::<Async>();
            let secret = core.export(ttl).await;
            Ok((core.into_face(), secret))
        };
        self.ask(py, future, work, move |py, exported| {
            let (core, secret) = exported.map_err(Raised)?;
            Ok(Py::new(py, guard.get().exported(released, core, secret)?)?.into_any())
        })
    }

    /// `strictly`: a loss is an error.
    fn release(&self, py: Python<'_>, future: Py<PyAny>, guard: Py<Guard>, strictly: bool) -> PyResult<u64> {
        guard.get().own("release")?;
        self.own("release")?;
        let mut released = guard.get().take("release")?;
        let core = released.core.take();
        let work = async move {
            let core = core.and_then(Arc::into_inner).ok_or_else(|| lost_track("release").0)?.into_face::<Async>();
            let why = core.why_lost();
            Ok(Ending::new(core.release().await?, why))
        };
        self.ask(py, future, work, move |py, ended| {
            let (guard, ending) = (guard.get(), ended.map_err(Raised)?);
            guard.ended(&ending);
            drop(released);
            if strictly {
                guard.unless_lost(&ending)?;
            }
            Ok(PyString::intern(py, ending.code()).unbind().into_any())
        })
    }

    /// As `_release_all`.
    fn release_all(&self, py: Python<'_>, future: Py<PyAny>, guards: Vec<Py<Guard>>, of_block: bool) -> PyResult<u64> {
        self.own("release")?;
        let mut returning = Returning::take(guards, of_block);
        let cores = outside(py, || Ok(returning.cores())).map_err(Raised)?;
        let (guards, known) = split(cores);
        let each = guards.into_face::<Async>();
        let work = async move { Ok(merge(known, each.release_each().await)) };
        self.ask(py, future, work, move |py, ended| returning.told(py, ended.map_err(Raised)?))
    }

    fn extend(&self, py: Python<'_>, future: Py<PyAny>, guard: &Bound<'_, Guard>, ttl: Span) -> PyResult<u64> {
        let guard = guard.get();
        guard.own("extend")?;
        self.own("extend")?;
        let ttl = ttl.check_ttl(py, "extend")?;
        let begun = guard.ask(|core| core.begin_extend(ttl)).ok_or_else(|| guard.not_owned("extend"))?;
        self.ask(py, future, begun.map_err(Raised)?, |py, extended| {
            extended.map_err(Raised)?;
            Ok(py.None())
        })
    }

    /// Whether it holds now what it is to hold: all of a read/write lock with `writes`, else a reader's part.
    fn change(&self, py: Python<'_>, future: Py<PyAny>, guard: Py<Guard>, writes: bool) -> PyResult<u64> {
        guard.get().own("change")?;
        self.own("change")?;
        let to = if writes { Share::WRITE } else { Share::READ };
        let begun = guard.get().ask(|core| core.begin_change(to)).ok_or_else(|| guard.get().not_owned("change"))?;
        self.ask(py, future, begun.map_err(Raised)?, move |py, changed| {
            let changed = changed.map_err(Raised)?;
            guard.get().refresh_token();
            changed.into_py_any(py)
        })
    }

    /// Why the guard was lost, or `None` when it was released.
    fn lost(&self, py: Python<'_>, future: Py<PyAny>, guard: &Bound<'_, Guard>) -> PyResult<u64> {
        let guard = guard.get();
        guard.own("lost")?;
        self.own("lost")?;
        let (watch, known) = (guard.watch(), guard.why().map(|why| why.code()));
        let work = async move {
            match (known, watch) {
                (None, Some(watch)) => Ok(watch.told().await),
                (known, _) => Ok(known),
            }
        };
        self.ask(py, future, work, |py, told| told.map_err(Raised)?.into_py_any(py))
    }

    /// Has a guard that is of no use any more given back, in the background.
    fn give_back(&self, py: Python<'_>, guard: &Bound<'_, Guard>) -> PyResult<()> {
        guard.get().own("release")?;
        self.return_it(py, Ok(guard.clone().unbind().into_any()))
    }

    fn locked(&self, py: Python<'_>, future: Py<PyAny>, lock: &Bound<'_, Lock>) -> PyResult<u64> {
        let held_here = lock.get().is_held_here();
        let lock = self.lock(py, "inspect", lock)?;
        let work = async move { Ok(held_here || lock.inspect().await?.holder.is_some()) };
        self.ask(py, future, work, |py, held| held.map_err(Raised)?.into_py_any(py))
    }

    fn inspect_lock(&self, py: Python<'_>, future: Py<PyAny>, lock: &Bound<'_, Lock>) -> PyResult<u64> {
        let lock = self.lock(py, "inspect", lock)?;
        self.ask(py, future, async move { lock.inspect().await }, seen_by_python)
    }

    fn resize(&self, py: Python<'_>, future: Py<PyAny>, lock: &Bound<'_, Lock>, permits: i128) -> PyResult<u64> {
        let lock = self.lock(py, "resize", lock)?;
        let work = async move { lock.resize(count(permits)).await };
        self.ask(py, future, work, |py, resized| {
            resized.map_err(Raised)?;
            Ok(py.None())
        })
    }

    fn latch_wait(
        &self,
        py: Python<'_>,
        future: Py<PyAny>,
        latch: &Bound<'_, Latch>,
        timeout: Option<Span>,
    ) -> PyResult<u64> {
        let limit = Latch::limit(timeout)?;
        let latch = self.latch(py, latch)?;
        let work = async move { latch.wait_within(limit).await };
        self.ask(py, future, work, |py, open| open.map_err(Raised)?.into_py_any(py))
    }

    fn latch_count_down(&self, py: Python<'_>, future: Py<PyAny>, latch: &Bound<'_, Latch>) -> PyResult<u64> {
        let latch = self.latch(py, latch)?;
        let work = async move { latch.count_down().await };
        self.ask(py, future, work, |py, left| left.map_err(Raised)?.into_py_any(py))
    }

    fn latch_count(&self, py: Python<'_>, future: Py<PyAny>, latch: &Bound<'_, Latch>) -> PyResult<u64> {
        let latch = self.latch(py, latch)?;
        let work = async move { latch.count().await };
        self.ask(py, future, work, |py, left| left.map_err(Raised)?.into_py_any(py))
    }

    fn latch_set(&self, py: Python<'_>, future: Py<PyAny>, latch: &Bound<'_, Latch>, to: i128) -> PyResult<u64> {
        let latch = self.latch(py, latch)?;
        let work = async move { latch.try_set_count(count(to)).await };
        self.ask(py, future, work, |py, set| set.map_err(Raised)?.into_py_any(py))
    }

    fn barrier_wait(
        &self,
        py: Python<'_>,
        future: Py<PyAny>,
        barrier: &Bound<'_, Barrier>,
        timeout: Option<Span>,
    ) -> PyResult<u64> {
        let limit = Latch::limit(timeout)?;
        let barrier = self.barrier(py, barrier)?;
        let work = async move { barrier.wait_within(limit).await };
        self.ask(py, future, work, |py, passed| passed.map_err(Raised)?.map(Arrival::from).into_py_any(py))
    }

    fn barrier_waiting(&self, py: Python<'_>, future: Py<PyAny>, barrier: &Bound<'_, Barrier>) -> PyResult<u64> {
        let barrier = self.barrier(py, barrier)?;
        let work = async move { barrier.waiting().await };
        self.ask(py, future, work, |py, waiting| waiting.map_err(Raised)?.into_py_any(py))
    }

    fn break_hold(
        &self,
        py: Python<'_>,
        future: Py<PyAny>,
        lock: &Bound<'_, Lock>,
        expected_token: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let token = token(py, expected_token)?;
        let lock = self.lock(py, "break", lock)?;
        let work = async move { lock.break_lock(token).await };
        self.ask(py, future, work, |py, broken| broken.map_err(Raised)?.into_py_any(py))
    }

    fn inspect(
        &self,
        py: Python<'_>,
        future: Py<PyAny>,
        client: &Bound<'_, Client>,
        name: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let name = text("inspect", "name", name)?;
        let client = self.client(py, "inspect", &client.get().0)?;
        self.ask(py, future, async move { client.inspect(&name).await }, seen_by_python)
    }

    fn ping(&self, py: Python<'_>, future: Py<PyAny>, client: &Bound<'_, Client>) -> PyResult<u64> {
        let client = self.client(py, "ping", &client.get().0)?;
        let work = async move { client.ping().await };
        self.ask(py, future, work, |py, health| Ok(health_record(py, health.map_err(Raised)?)?.unbind()))
    }

    fn drain(&self, py: Python<'_>, future: Py<PyAny>, client: &Bound<'_, Client>, limit: Span) -> PyResult<u64> {
        let limit = limit.check("drain", "limit")?;
        let client = self.client(py, "drain", &client.get().0)?;
        let work = async move { client.drain(limit).await };
        self.ask(py, future, work, |py, held| held.map_err(Raised)?.into_py_any(py))
    }

    fn list(&self, py: Python<'_>, future: Py<PyAny>, client: &Bound<'_, Client>) -> PyResult<u64> {
        let client = self.client(py, "list", &client.get().0)?;
        let work = async move { client.list().await };
        self.ask(py, future, work, |py, names| names.map_err(Raised)?.into_py_any(py))
    }

    fn break_lock(
        &self,
        py: Python<'_>,
        future: Py<PyAny>,
        client: &Bound<'_, Client>,
        name: &Bound<'_, PyAny>,
        expected_token: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let (name, token) = (text("break", "name", name)?, token(py, expected_token)?);
        let client = self.client(py, "break", &client.get().0)?;
        let work = async move { client.break_lock(&name, token).await };
        self.ask(py, future, work, |py, broken| broken.map_err(Raised)?.into_py_any(py))
    }

    fn close(&self, py: Python<'_>, future: Py<PyAny>, client: &Bound<'_, Client>) -> PyResult<u64> {
        let over = client.get().0.take_orphans();
        let client = self.client(py, "close", &client.get().0)?;
        let work = async move {
            client.close().await;
            Ok(())
        };
        self.ask(py, future, work, move |py, closed| {
            drop(over);
            closed.map_err(Raised)?;
            Ok(py.None())
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        match self.asked.try_lock() {
            Ok(asked) => asked.values().try_for_each(|question| visit.call(question.object())),
            Err(_) => Ok(()),
        }
    }

    fn __clear__(&self) {
        let asked = std::mem::take(&mut *locked(&self.asked));
        drop(asked);
    }
}

impl Reactor {
    fn client(&self, py: Python<'_>, operation: &'static str, shared: &Shared) -> PyResult<lockwright::Client> {
        self.own(operation)?;
        shared.prepare(py)?;
        Ok(shared.client.clone().into_face())
    }

    fn latch(&self, py: Python<'_>, latch: &Bound<'_, Latch>) -> PyResult<lockwright::Latch> {
        self.own("latch")?;
        latch.get().shared.prepare(py)?;
        Ok(latch.get().core.clone().into_face())
    }

    fn barrier(&self, py: Python<'_>, barrier: &Bound<'_, Barrier>) -> PyResult<lockwright::Barrier> {
        self.own("barrier")?;
        barrier.get().shared.prepare(py)?;
        Ok(barrier.get().core.clone().into_face())
    }

    fn lock(&self, py: Python<'_>, operation: &'static str, lock: &Bound<'_, Lock>) -> PyResult<lockwright::Lock> {
        self.own(operation)?;
        lock.get().shared.prepare(py)?;
        Ok(lock.get().core.clone().into_face())
    }
}

fn seen_by_python(py: Python<'_>, seen: Result<Inspection>) -> PyResult<Py<PyAny>> {
    Ok(inspection_record(py, seen.map_err(Raised)?)?.unbind())
}

/// Keeps what `who` acquired with the lock, so that a release finds it.
#[pyfunction(name = "_pin")]
pub(crate) fn pin(lock: &Bound<'_, Lock>, guard: Py<Guard>, block: bool, who: u64) {
    lock.get().pin(guard, block, who);
}

/// What a release by `who` means.
#[pyfunction(name = "_unpin")]
pub(crate) fn unpin(py: Python<'_>, lock: &Bound<'_, Lock>, who: u64) -> PyResult<Py<Guard>> {
    lock.get().unpin(py, who)
}

/// What the innermost block of `who` took.
#[pyfunction(name = "_unpin_block")]
pub(crate) fn unpin_block(lock: &Bound<'_, Lock>, who: u64) -> Option<Py<Guard>> {
    lock.get().unpin_block(who)
}

/// The error that a lost guard means for its block.
#[pyfunction(name = "_loss")]
pub(crate) fn loss(py: Python<'_>, guard: &Bound<'_, Guard>) -> Option<Py<PyAny>> {
    let why = guard.get().why()?;
    Some(PyErr::from(guard.get().loss(&why)).into_value(py).into_any())
}
