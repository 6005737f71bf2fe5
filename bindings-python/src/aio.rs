//! What `lockwright.aio` asks of the core, from inside an event loop and for its tasks.
//!
//! Each event loop has one [`Reactor`]. What a task asks becomes a job of it; the task awaits a future, and then takes
//! the answer, which the future never has: whoever is called by a future keeps it a while, and with it a guard. Jobs
//! own no Python object, for the driver's thread may drop what a job holds; futures and answers are kept here, where
//! only the loop's own thread looks.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex};

use lockwright::binding::held::Group;
use lockwright::binding::operation::Operation;
use lockwright::binding::{Argument, Handle, Held, Jobs, Outcome, Value, lost_track};
use lockwright::{Error, Kind, Result};
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use pyo3::{IntoPyObjectExt, PyTraverseError};

use crate::asked::{any, asked};
use crate::client::SharedClient;
use crate::error::Raised;
use crate::guard::{Exported, Guard};
use crate::lock::Lock;
use crate::several::each;
use crate::value::{plain, told};
use crate::{Given, Span, aside, locked, outside, text};

/// The jobs of one event loop.
#[pyclass(frozen, weakref, module = "lockwright._lockwright")]
pub(crate) struct Reactor {
    jobs: Jobs,
    /// Locked by attached threads only, and never across a detach.
    asked: Mutex<HashMap<u32, Question>>,
}

/// Makes what the task gets of what came of its job.
enum Answer {
    /// A guard, or whatever else is told, of this client.
    Told(Arc<SharedClient>),
    /// Whatever is no guard.
    Plain,
    Made(Maker),
}

type Maker = Box<dyn FnOnce(Python<'_>, Result<Outcome>) -> PyResult<Py<PyAny>> + Send>;

/// What a task asked.
enum Question {
    Open { future: Py<PyAny>, answer: Answer },
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

impl Answer {
    fn of(answer: impl FnOnce(Python<'_>, Result<Outcome>) -> PyResult<Py<PyAny>> + Send + 'static) -> Self {
        Answer::Made(Box::new(answer))
    }

    fn make(self, py: Python<'_>, result: Result<Outcome>) -> PyResult<Py<PyAny>> {
        match self {
            Answer::Told(shared) => told(py, result.map_err(Raised)?, &shared),
            Answer::Plain => plain(py, result.map_err(Raised)?),
            Answer::Made(answer) => answer(py, result),
        }
    }
}

impl Reactor {
    /// The job of that number ends as `answer` says.
    fn ask(&self, py: Python<'_>, future: Py<PyAny>, job: u32, answer: Answer) -> PyResult<u32> {
        locked(&self.asked).insert(job, Question::Open { future, answer });
        self.turn(py)?;
        Ok(job)
    }

    fn deliver(&self, py: Python<'_>) -> PyResult<()> {
        for (job, result) in self.jobs.ended() {
            let asked = locked(&self.asked).remove(&job);
            if let Some(Question::Open { future, answer }) = asked {
                let answer = answer.make(py, result);
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

    /// What is asked of a guard begins here.
    fn held<'a>(&self, guard: &'a Py<Guard>, operation: &'static str) -> PyResult<&'a Held> {
        let held = &guard.get().held;
        held.own(operation).map_err(Raised)?;
        self.own(operation).map(|()| held)
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
    fn new(py: Python<'_>) -> PyResult<Self> {
        let jobs = outside(py, || Jobs::new(None)).map_err(Raised)?;
        Ok(Reactor { jobs, asked: Mutex::default() })
    }

    fn fileno(&self) -> RawFd {
        self.jobs.descriptor().as_raw_fd()
    }

    fn turn(&self, py: Python<'_>) -> PyResult<()> {
        if self.jobs.is_forked() {
            return Ok(());
        }
        aside(py, || self.jobs.turn())?;
        self.deliver(py)
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

    /// Begins the operation of that name of a client, a lock, or whatever else is asked something.
    #[pyo3(signature = (future, of, name, *given))]
    fn begin<'py>(
        &self,
        future: Bound<'py, PyAny>,
        of: &Bound<'py, PyAny>,
        name: &str,
        given: Vec<Given<'py>>,
    ) -> PyResult<u32> {
        let (py, (handle, shared)) = (future.py(), any(of)?);
        let (operation, arguments) = asked(&handle, name, &given)?;
        self.own(operation.operation)?;
        shared.prepare(py)?;
        let answer = match name {
            // A client that is closed has nothing left to release.
            "close" => {
                let over = shared.take_orphans();
                Answer::of(move |py, closed| {
                    drop(over);
                    closed.map_err(Raised)?;
                    Ok(py.None())
                })
            }
            _ => Answer::Told(shared),
        };
        self.ask(py, future.unbind(), self.jobs.begin(operation.run(handle, arguments)), answer)
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
        let job = self.jobs.acquire(wanted.into_face(), limit);
        self.ask(py, future, job, Answer::Told(lock.shared.clone()))
    }

    fn resume(
        &self,
        py: Python<'_>,
        future: Py<PyAny>,
        lock: &Bound<'_, Lock>,
        secret: &Bound<'_, PyAny>,
        who: u64,
    ) -> PyResult<u32> {
        self.own("resume")?;
        let (lock, secret) = (lock.get(), text("resume", "secret", secret)?);
        lock.shared.prepare(py)?;
        let handle = Handle::Lock(lock.wanted_by(who).into_face());
        let operation = Operation::find(handle.of(), "resume").ok_or_else(|| Raised(lost_track("resume")))?;
        let job = self.jobs.begin(operation.run(handle, vec![Argument::Text(secret)]));
        self.ask(py, future, job, Answer::Told(lock.shared.clone()))
    }

    fn export(&self, py: Python<'_>, future: Py<PyAny>, guard: Py<Guard>, ttl: Span) -> PyResult<u32> {
        let held = self.held(&guard, "export")?;
        let ttl = ttl.check_ttl(py, "export")?;
        let mut taken = held.take("export").map_err(Raised)?;
        let core = taken.guard("export").map_err(Raised)?;
        let job = self.jobs.export(core, ttl);
        let answer = Answer::of(move |py, exported| {
            let Outcome::Exported(both) = exported.map_err(Raised)? else {
                return Err(Raised(lost_track("export")).into());
            };
            let (core, secret) = *both;
            let secret = guard.get().held.exported(taken, core, secret).map_err(Raised)?;
            guard.get().exported(secret).into_py_any(py)
        });
        self.ask(py, future, job, answer)
    }

    /// `strictly`: a loss is an error.
    fn release(&self, py: Python<'_>, future: Py<PyAny>, guard: Py<Guard>, strictly: bool) -> PyResult<u32> {
        let held = self.held(&guard, "release")?;
        let mut taken = held.take("release").map_err(Raised)?;
        let core = taken.guard("release").map_err(Raised)?;
        let job = self.jobs.release(core);
        let answer = Answer::of(move |py, ended| {
            let Outcome::Ended(ending) = ended.map_err(Raised)? else {
                return Err(Raised(lost_track("release")).into());
            };
            guard.get().held.ended(&ending);
            drop(taken);
            if strictly {
                guard.get().unless_lost(&ending)?;
            }
            Ok(PyString::intern(py, ending.outcome.code()).unbind().into_any())
        });
        self.ask(py, future, job, answer)
    }

    /// As `_release_all`.
    fn release_all(&self, py: Python<'_>, future: Py<PyAny>, guards: Vec<Py<Guard>>, of_block: bool) -> PyResult<u32> {
        self.own("release")?;
        let held: Vec<_> = guards.iter().map(|guard| &guard.get().held).collect();
        let mut group = Group::take(held.iter().copied(), of_block);
        let cores = outside(py, || Ok(group.guards(held.iter().copied()))).map_err(Raised)?;
        let job = self.jobs.release_all(cores);
        let answer = Answer::of(move |py, ended| {
            let Outcome::AllEnded(ended) = ended.map_err(Raised)? else {
                return Err(Raised(lost_track("release")).into());
            };
            let told = group.told(guards.iter().map(|guard| &guard.get().held), ended);
            each(py, &guards, told)
        });
        self.ask(py, future, job, answer)
    }

    fn extend(&self, py: Python<'_>, future: Py<PyAny>, guard: Py<Guard>, ttl: Span) -> PyResult<u32> {
        let held = self.held(&guard, "extend")?;
        let ttl = ttl.check_ttl(py, "extend")?;
        let job = self.jobs.begin(held.begin_extend(ttl).map_err(Raised)?);
        self.ask(py, future, job, Answer::Plain)
    }

    /// Whether it holds now what it is to hold: all of a read/write lock with `writes`, else a reader's part.
    fn change(&self, py: Python<'_>, future: Py<PyAny>, guard: Py<Guard>, writes: bool) -> PyResult<u32> {
        let held = self.held(&guard, "change")?;
        let job = self.jobs.begin(held.begin_change(writes).map_err(Raised)?);
        let answer = Answer::of(move |py, changed| {
            let changed = changed.map_err(Raised)?;
            guard.get().held.refresh_token();
            plain(py, changed)
        });
        self.ask(py, future, job, answer)
    }

    /// Why the guard was lost, or `None` when it was released.
    fn lost(&self, py: Python<'_>, future: Py<PyAny>, guard: Py<Guard>) -> PyResult<u32> {
        let held = self.held(&guard, "lost")?;
        let (watch, known) = (held.watch(), held.why().map(|why| why.code()));
        let job = self.jobs.begin(Box::pin(async move {
            let why = match (known, watch) {
                (None, Some(watch)) => watch.told().await,
                (known, _) => known,
            };
            Ok(Outcome::Told(Value::from(why)))
        }));
        self.ask(py, future, job, Answer::Plain)
    }

    /// Has a guard that is of no use any more given back, in the background.
    fn give_back(&self, py: Python<'_>, guard: &Bound<'_, Guard>) -> PyResult<()> {
        guard.get().held.own("release").map_err(Raised)?;
        self.return_it(py, Ok(guard.clone().unbind().into_any()))
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
