//! Several locks that are taken together, and one of several: what `lockwright._several` and `lockwright.aio` make their
//! classes of.

use std::sync::Arc;
use std::time::Duration;

use lockwright::blocking::Blocking;
use lockwright::multi::{MultiGuard, MultiLock};
use lockwright::striped::Striped;
use lockwright::{Error, Face, blocking};
use pyo3::prelude::*;

use crate::client::Shared;
use crate::error::Raised;
use crate::guard::Guard;
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

    fn check(&self, index: usize) -> Result<usize, Raised> {
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
