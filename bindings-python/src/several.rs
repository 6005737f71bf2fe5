//! Several locks that are taken together, and one of several: what `lockwright._several` and `lockwright.aio` make their
//! classes of.

use std::sync::Arc;
use std::time::Duration;

use lockwright::blocking::Blocking;
use lockwright::lease::{LossReason, ReleaseOutcome};
use lockwright::multi::{MultiGuard, MultiLock};
use lockwright::striped::Striped;
use lockwright::{Error, Face, Result, blocking, fork_generation};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::client::Shared;
use crate::error::{Raised, lost_track};
use crate::guard::{Ending, Guard, Released, Standing};
use crate::lock::{Lock, limit};
use crate::{Span, in_slices, outside, text};

/// Locks that are acquired together.
#[pyclass(frozen, module = "lockwright._lockwright")]
pub(crate) struct Bundle {
    core: MultiLock<Blocking>,
    pub(crate) shared: Arc<Shared>,
}

impl Bundle {
    pub(crate) fn new(core: MultiLock<Blocking>, shared: Arc<Shared>) -> Self {
        Bundle { core, shared }
    }

    pub(crate) fn core(&self) -> MultiLock<Blocking> {
        self.core.clone()
    }

    pub(crate) fn limit(&self, timeout: Option<Span>) -> PyResult<Option<Duration>> {
        limit(timeout, self.core.options().timeout)
    }

    /// The guard of each lock.
    pub(crate) fn guards<F: Face>(&self, py: Python<'_>, all: MultiGuard<F>) -> PyResult<Vec<Py<Guard>>> {
        let guards = all.into_guards().into_iter();
        guards.map(|guard| wrapped(py, guard.into_face(), &self.shared)).collect()
    }
}

/// Guards that are given back together. What became of each is a text, or the exception that says why it could not be.
pub(crate) struct Returning {
    guards: Vec<Py<Guard>>,
    /// What was taken of each, or why nothing was.
    taken: Vec<std::result::Result<Released, Option<Raised>>>,
    /// Whether they are of a block, in which a loss is an error and a guard that is over already none.
    of_block: bool,
}

/// How each of those that were taken ended, in their order.
pub(crate) type Ended = Vec<Result<Ending>>;

/// The core's guards of what was taken, and why each was lost if it was.
type Cores = Vec<Result<(blocking::Guard, Option<LossReason>)>>;

impl Returning {
    pub(crate) fn take(guards: Vec<Py<Guard>>, of_block: bool) -> Self {
        let take = |guard: &Py<Guard>| {
            let guard = guard.get();
            if of_block && guard.standing(fork_generation()) != Standing::Open {
                return Err(None);
            }
            guard.own("release").and_then(|()| guard.take("release")).map_err(Some)
        };
        let taken = guards.iter().map(take).collect();
        Returning { guards, taken, of_block }
    }

    /// The core's guards. Once nobody uses them any more, which may take a while.
    pub(crate) fn cores(&mut self) -> Cores {
        let both = self.guards.iter().zip(&mut self.taken);
        let core = |(guard, taken): (&Py<Guard>, &mut std::result::Result<Released, _>)| {
            let core = guard.get().sole(taken.as_mut().ok()?, "release");
            Some(core.map(|core| {
                let why = core.why_lost();
                (core, why)
            }))
        };
        both.filter_map(core).collect()
    }

    pub(crate) fn told(self, py: Python<'_>, ended: Ended) -> PyResult<Py<PyAny>> {
        let mut ended = ended.into_iter();
        let mut told = Vec::with_capacity(self.guards.len());
        for (guard, taken) in self.guards.iter().zip(self.taken) {
            let guard = guard.get();
            let result = match taken {
                Err(None) => Ok("released"),
                Err(Some(error)) => Err(error),
                Ok(released) => {
                    let ending = ended.next().unwrap_or_else(|| Err(lost_track("release").0)).map_err(Raised);
                    let result = ending.and_then(|ending| {
                        guard.ended(&ending);
                        if self.of_block {
                            guard.unless_lost(&ending).map(|()| ending.code())
                        } else {
                            Ok(ending.code())
                        }
                    });
                    drop(released);
                    guard.forget_callbacks();
                    result
                }
            };
            told.push(match result {
                Ok(outcome) => PyString::intern(py, outcome).into_any().unbind(),
                Err(error) => PyErr::from(error).into_value(py).into_any(),
            });
        }
        told.into_py_any(py)
    }
}

/// The guards that can be given back in one write, and what is known of each already.
pub(crate) fn split(cores: Cores) -> (MultiGuard<Blocking>, Vec<Result<Option<LossReason>>>) {
    let mut guards = Vec::with_capacity(cores.len());
    let known = cores.into_iter().map(|core| {
        core.map(|(core, why)| {
            guards.push(core);
            why
        })
    });
    let known = known.collect();
    (MultiGuard::of(guards), known)
}

/// What is known now of each.
pub(crate) fn merge(known: Vec<Result<Option<LossReason>>>, outcomes: Vec<Result<ReleaseOutcome>>) -> Ended {
    let mut outcomes = outcomes.into_iter();
    let ended = |why: Result<Option<LossReason>>| {
        let why = why?;
        let outcome = outcomes.next().unwrap_or_else(|| Err(lost_track("release").0))?;
        Ok(Ending::new(outcome, why))
    };
    known.into_iter().map(ended).collect()
}

/// Gives all of them back in one write. What became of each; see [`Returning`].
#[pyfunction(name = "_release_all")]
pub(crate) fn release_all(py: Python<'_>, guards: Vec<Py<Guard>>, of_block: bool) -> PyResult<Py<PyAny>> {
    let mut returning = Returning::take(guards, of_block);
    let ended = outside(py, || {
        let (guards, known) = split(returning.cores());
        Ok(merge(known, guards.release_each()))
    });
    returning.told(py, ended.map_err(Raised)?)
}

/// To give up may cost more than a moment with the GIL held.
fn let_go(py: Python<'_>, waiting: impl Send) -> PyResult<()> {
    let given_up = outside(py, move || {
        drop(waiting);
        Ok(())
    });
    Ok(given_up.map_err(Raised)?)
}

fn wrapped(py: Python<'_>, guard: blocking::Guard, shared: &Shared) -> PyResult<Py<Guard>> {
    let name = guard.name().into();
    Py::new(py, Guard::new(guard, name, shared))
}

#[pymethods]
impl Bundle {
    #[getter]
    fn names(&self) -> Vec<&str> {
        self.core.names().collect()
    }

    #[getter]
    fn address(&self) -> &str {
        &self.shared.origin.address
    }

    #[pyo3(signature = (timeout=None))]
    fn acquire(&self, py: Python<'_>, timeout: Option<Span>) -> PyResult<Vec<Py<Guard>>> {
        let limit = self.limit(timeout)?;
        self.shared.prepare(py)?;
        let mut acquiring = outside(py, || self.core.begin(limit)).map_err(Raised)?;
        // Each that is free is one look, where the store takes them one by one.
        let at_once =
            outside(py, || Ok(self.core.names().find_map(|_| acquiring.wait(Duration::ZERO)))).map_err(Raised)?;
        let waited = match at_once {
            Some(result) => Ok(result),
            None => in_slices(py, limit, |how| acquiring.wait(how)),
        };
        let_go(py, acquiring)?;
        self.guards(py, waited?.map_err(Raised)?)
    }
}

/// The segments of a hot lock.
#[pyclass(frozen, module = "lockwright._lockwright")]
pub(crate) struct Segments {
    core: Striped<Blocking>,
    pub(crate) shared: Arc<Shared>,
}

impl Segments {
    pub(crate) fn new(core: Striped<Blocking>, shared: Arc<Shared>) -> Self {
        Segments { core, shared }
    }

    pub(crate) fn core(&self) -> Striped<Blocking> {
        self.core.clone()
    }

    pub(crate) fn limit(&self, timeout: Option<Span>) -> PyResult<Option<Duration>> {
        limit(timeout, self.core.options().timeout)
    }

    pub(crate) fn guard<F: Face>(&self, py: Python<'_>, guard: lockwright::Guard<F>) -> PyResult<Py<Guard>> {
        wrapped(py, guard.into_face(), &self.shared)
    }

    fn check(&self, index: usize) -> std::result::Result<usize, Raised> {
        if index < self.core.count() {
            return Ok(index);
        }
        let message = format!("there is no segment {index}; there are {}", self.core.count());
        Err(Raised(Error::invalid("lock", message)))
    }
}

#[pymethods]
impl Segments {
    #[getter]
    fn count(&self) -> usize {
        self.core.count()
    }

    #[getter]
    fn address(&self) -> &str {
        &self.shared.origin.address
    }

    fn index_for(&self, key: &Bound<'_, PyAny>) -> PyResult<usize> {
        Ok(self.core.index_for(&text("lock", "key", key)?))
    }

    fn lock(&self, index: usize) -> PyResult<Lock> {
        let core = self.core.segment(self.check(index)?).clone();
        let name = core.name().into();
        Ok(Lock::new(core, name, false, self.shared.clone()))
    }

    fn mark_sold_out(&self, index: usize) -> PyResult<()> {
        self.core.mark_sold_out(self.check(index)?);
        Ok(())
    }

    fn restock(&self) {
        self.core.restock();
    }

    /// Which segment, and its guard; `None` once all are sold out.
    #[pyo3(signature = (timeout=None))]
    fn any(&self, py: Python<'_>, timeout: Option<Span>) -> PyResult<Option<(usize, Py<Guard>)>> {
        let limit = self.limit(timeout)?;
        self.shared.prepare(py)?;
        let mut choosing = self.core.begin_any(limit);
        let at_once = outside(py, || Ok(choosing.wait(Duration::ZERO))).map_err(Raised)?;
        let waited = match at_once {
            Some(result) => Ok(result),
            None => in_slices(py, limit, |how| choosing.wait(how)),
        };
        let_go(py, choosing)?;
        match waited?.map_err(Raised)? {
            Some(segment) => Ok(Some((segment.index(), self.guard(py, segment.into_guard())?))),
            None => Ok(None),
        }
    }
}
