//! What `lockwright.aio` asks of the core, from inside an event loop and for its tasks.
//!
//! Each event loop has one [`Reactor`]. What a task asks becomes a job of it; the task awaits a future, and then takes
//! the answer, which the future never has: whoever is called by a future keeps it a while, and with it a guard. Jobs
//! own no Python object, for the driver's thread may drop what a job holds; futures and answers are kept here, where
//! only the loop's own thread looks.

use std::collections::HashMap;
use std::future::Future;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lockwright::binding::held::Group;
use lockwright::binding::jobs::{Ended, Sends};
use lockwright::binding::{Held, Jobs, Outcome, Road, lost_track};
use lockwright::queue::OwnerId;
use lockwright::{Async, Error, Kind, Result, blocking};
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::asked::{any, asked};
use crate::error::Raised;
use crate::guard::{Exported, Guard};
use crate::lock::Lock;
use crate::value::told;
use crate::{Given, Span, aside, locked, outside};

/// The jobs of one event loop.
#[pyclass(frozen, weakref, module = "lockwright._lockwright")]
pub(crate) struct Reactor {
    jobs: Jobs,
    /// Locked by attached threads only, and never across a detach.
    asked: Mutex<HashMap<u32, Question>>,
    /// `call_soon` of the loop.
    call_soon: Py<PyAny>,
    /// Since when what is asked is gathered for one write, which the loop will call for.
    gathers: Mutex<Option<Instant>>,
}

/// Those who are told in the same moment ask in the same moment again, and all of it goes out in one write. What is
/// asked later than this does not wait for what other tasks do meanwhile.
const MOMENT: Duration = Duration::from_millis(1);

/// What a task asked.
enum Question {
    /// What is acquired is of this client.
    Open {
        future: Py<PyAny>,
        client: blocking::Client,
    },
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

impl Reactor {
    fn ask(
        &self,
        py: Python<'_>,
        future: Py<PyAny>,
        work: impl Future<Output = Result<Outcome>> + Send + 'static,
        client: &blocking::Client,
    ) -> PyResult<u32> {
        let job = self.jobs.begin(work);
        locked(&self.asked).insert(job, Question::Open { future, client: client.clone() });
        if locked(&self.gathers).is_none_or(|since| since.elapsed() > MOMENT) {
            aside(py, || self.jobs.go_on())?;
            self.deliver(py, self.jobs.ended())?;
        }
        Ok(job)
    }

    /// What is asked of a guard begins here.
    fn ask_guard<W: Future<Output = Result<Outcome>> + Send + 'static>(
        &self,
        future: Py<PyAny>,
        guard: &Bound<'_, Guard>,
        operation: &'static str,
        begin: impl FnOnce(Arc<Held>) -> Result<W>,
    ) -> PyResult<u32> {
        let Guard { held, client, .. } = guard.get();
        held.own(operation).map_err(Raised)?;
        self.own(operation)?;
        self.ask(guard.py(), future, begin(held.clone()).map_err(Raised)?, client)
    }

    /// Has jobs polled so, unless they are the parent's, those that ended told, a portion at a time, and what they ask
    /// next sent in one write.
    fn hear(reactor: &Bound<'_, Self>, run: impl FnOnce(&Jobs) + Send) -> PyResult<()> {
        let this = reactor.get();
        if this.jobs.is_forked() {
            return Ok(());
        }
        aside(reactor.py(), || run(&this.jobs))?;
        let (ended, are_more) = this.jobs.ended_portion();
        let gathers = ended.len() > 1;
        this.deliver(reactor.py(), ended)?;
        if gathers || are_more {
            let go_on = reactor.getattr(intern!(reactor.py(), "go_on"))?;
            // Behind the tasks that were told.
            this.call_soon.call1(reactor.py(), (go_on,))?;
        }
        *locked(&this.gathers) = gathers.then(Instant::now);
        Ok(())
    }

    fn deliver(&self, py: Python<'_>, ended: Vec<Ended>) -> PyResult<()> {
        for (job, result) in ended {
            let asked = locked(&self.asked).remove(&job);
            if let Some(Question::Open { future, client }) = asked {
                let answer =
                    result.map_err(|error| Raised(error).into()).and_then(|outcome| told(py, outcome, &client));
                let future = future.bind(py);
                if future.call_method0(intern!(py, "done"))?.is_truthy()? {
                    // Its task was cancelled meanwhile.
                    self.return_it(py, answer)?;
                } else {
                    locked(&self.asked).insert(job, Question::Answered(answer));
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
            let back = exported.get().take_back();
            aside(py, || self.jobs.spawn_aside(back))
        } else if let Ok(guard) = answer.cast::<Guard>()
            && let Ok(taken) = guard.get().held.take("release")
        {
            aside(py, move || drop(taken))
        } else {
            Ok(())
        }
    }

    /// Everything begins here: what belongs to the parent of this process is not touched.
    fn own(&self, operation: &'static str) -> PyResult<()> {
        if self.jobs.is_forked() {
            let message = "this event loop was used before a fork and belongs to the parent process; run a new one";
            return Err(Raised(Error::new(Kind::Forked, operation, message)).into());
        }
        Ok(())
    }
}

#[pymethods]
impl Reactor {
    #[new]
    fn new(py: Python<'_>, call_soon: Py<PyAny>) -> PyResult<Self> {
        let jobs = outside(py, || Jobs::new(None, Sends::AtOnce)).map_err(Raised)?;
        Ok(Reactor { jobs, asked: Mutex::default(), call_soon, gathers: Mutex::default() })
    }

    fn fileno(&self) -> RawFd {
        self.jobs.descriptor().as_raw_fd()
    }

    /// What the loop calls when the descriptor is readable.
    fn turn(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::hear(slf, Jobs::turn)
    }

    /// What it calls behind the tasks that were told: sends what was gathered, and tells those that are left.
    fn go_on(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::hear(slf, Jobs::go_on)
    }

    /// The answer, once the future is done.
    fn take(&self, number: u32) -> PyResult<Py<PyAny>> {
        match locked(&self.asked).remove(&number) {
            Some(Question::Answered(answer)) => answer,
            _ => Err(Raised(lost_track("call")).into()),
        }
    }

    /// The task that awaited the future is gone: nobody wants what it asked for.
    fn forget(&self, py: Python<'_>, number: u32) -> PyResult<()> {
        if self.jobs.is_forked() {
            return Ok(());
        }
        let asked = locked(&self.asked).remove(&number);
        match asked {
            Some(Question::Open { .. }) => aside(py, || self.jobs.forget(number)),
            Some(Question::Answered(answer)) => self.return_it(py, answer),
            None => Ok(()),
        }
    }

    /// Begins the operation of that name of a client, a lock, or whatever else is asked something, for `who`.
    #[pyo3(signature = (future, of, who, name, *given))]
    fn begin<'py>(
        &self,
        future: Bound<'py, PyAny>,
        of: &Bound<'py, PyAny>,
        who: Option<u64>,
        name: &str,
        given: Vec<Given<'py>>,
    ) -> PyResult<u32> {
        let py = future.py();
        let (handle, shared) = any(py, of)?;
        let (operation, arguments) = asked(&handle, name, &given)?;
        self.own(operation.operation)?;
        let handle = handle.for_owner(who.map(OwnerId));
        self.ask(py, future.unbind(), operation.run(handle, arguments), &shared.client)
    }

    fn acquire(
        &self,
        py: Python<'_>,
        future: Py<PyAny>,
        lock: &Bound<'_, Lock>,
        timeout: Option<Span>,
        who: u64,
        as_in_threading: bool,
    ) -> PyResult<u32> {
        self.own("acquire")?;
        let lock = lock.get();
        let limit = lock.limit(timeout)?;
        lock.shared.prepare(py)?;
        let wanted = if as_in_threading { lock.wanted_as_in_threading(who) } else { lock.wanted_by(who) };
        let wanted = wanted.into_face::<Async>();
        let work = async move { wanted.acquire_within(limit).await.map(Outcome::Granted) };
        self.ask(py, future, work, &lock.shared.client)
    }

    fn export(&self, py: Python<'_>, future: Py<PyAny>, guard: &Bound<'_, Guard>, ttl: Span) -> PyResult<u32> {
        let ttl = ttl.check_ttl(py, "export")?;
        self.ask_guard(future, guard, "export", |held| held.begin_export(Road::Task, ttl))
    }

    /// `strictly`: a loss is an error.
    fn release(&self, future: Py<PyAny>, guard: &Bound<'_, Guard>, strictly: bool) -> PyResult<u32> {
        self.ask_guard(future, guard, "release", |held| held.begin_release(Road::Task, strictly))
    }

    /// As `_release_all`.
    fn release_all(&self, py: Python<'_>, future: Py<PyAny>, guards: Vec<Py<Guard>>, of_block: bool) -> PyResult<u32> {
        self.own("release")?;
        let Some(first) = guards.first() else { return Err(Raised(lost_track("release")).into()) };
        let held = guards.iter().map(|guard| guard.get().held.clone()).collect();
        let work = aside(py, || Group::begin_release(Road::Task, held, of_block))?;
        self.ask(py, future, work, &first.get().client)
    }

    fn extend(&self, py: Python<'_>, future: Py<PyAny>, guard: &Bound<'_, Guard>, ttl: Span) -> PyResult<u32> {
        let ttl = ttl.check_ttl(py, "extend")?;
        self.ask_guard(future, guard, "extend", |held| held.begin_extend(Road::Task, ttl))
    }

    /// Whether it holds now what it is to hold: all of a read/write lock with `writes`, else a reader's part.
    fn change(&self, future: Py<PyAny>, guard: &Bound<'_, Guard>, writes: bool) -> PyResult<u32> {
        self.ask_guard(future, guard, "change", |held| held.begin_change(Road::Task, writes))
    }

    /// Why the guard was lost, or `None` when it was released.
    fn lost(&self, future: Py<PyAny>, guard: &Bound<'_, Guard>) -> PyResult<u32> {
        self.ask_guard(future, guard, "lost", |held| {
            let (watch, known) = (held.watch(), held.why().map(|why| why.code()));
            Ok(async move {
                let why = match (known, watch) {
                    (None, Some(watch)) => watch.told().await,
                    (known, _) => known,
                };
                Ok(Outcome::Told(why.into()))
            })
        })
    }

    /// Has a guard that is of no use any more given back, in the background.
    fn give_back(&self, py: Python<'_>, guard: &Bound<'_, Guard>) -> PyResult<()> {
        guard.get().held.own("release").map_err(Raised)?;
        self.return_it(py, Ok(guard.clone().unbind().into_any()))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        if let Ok(asked) = self.asked.try_lock() {
            asked.values().try_for_each(|question| visit.call(question.object()))?;
        }
        visit.call(&self.call_soon)
    }

    fn __clear__(&self) {
        let asked = std::mem::take(&mut *locked(&self.asked));
        drop(asked);
    }
}
