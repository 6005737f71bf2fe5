//! Several locks that are taken together, and one of several: what `lockwright._several` and `lockwright.aio` make
//! their classes of.

use std::sync::Arc;

use lockwright::binding::held::Group;
use lockwright::blocking::Blocking;
use lockwright::multi::MultiLock;
use lockwright::striped::Striped;
use lockwright::{Error, Result};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::asked::ask;
use crate::client::SharedClient;
use crate::error::Raised;
use crate::guard::Guard;
use crate::lock::Lock;
use crate::{Given, outside, text};

/// Locks that are acquired together.
#[pyclass(frozen, module = "lockwright._lockwright")]
pub(crate) struct Bundle {
    pub(crate) core: MultiLock<Blocking>,
    pub(crate) shared: Arc<SharedClient>,
}

/// Gives all of them back in one write. What became of each: a text, or the exception that says why it could not be.
#[pyfunction(name = "_release_all")]
pub(crate) fn release_all(py: Python<'_>, guards: Vec<Py<Guard>>, of_block: bool) -> PyResult<Py<PyAny>> {
    let held: Vec<_> = guards.iter().map(|guard| &guard.get().held).collect();
    let told = outside(py, || Ok(Group::take(held.iter().copied(), of_block).release(held.iter().copied())));
    each(py, &guards, told.map_err(Raised)?)
}

/// What became of each, as Python has it.
pub(crate) fn each(py: Python<'_>, guards: &[Py<Guard>], told: Vec<Result<&'static str>>) -> PyResult<Py<PyAny>> {
    guards.iter().for_each(|guard| guard.get().forget_callbacks());
    let object = |told| match told {
        Ok(outcome) => PyString::intern(py, outcome).into_any().unbind(),
        Err(error) => PyErr::from(Raised(error)).into_value(py).into_any(),
    };
    told.into_iter().map(object).collect::<Vec<_>>().into_py_any(py)
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
    fn acquire(&self, py: Python<'_>, timeout: Given<'_>) -> PyResult<Py<PyAny>> {
        ask(py, self, "acquire", &[timeout])
    }
}

/// The segments of a hot lock.
#[pyclass(frozen, module = "lockwright._lockwright")]
pub(crate) struct Segments {
    pub(crate) core: Striped<Blocking>,
    pub(crate) shared: Arc<SharedClient>,
}

impl Segments {
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
    fn any(&self, py: Python<'_>, timeout: Given<'_>) -> PyResult<Py<PyAny>> {
        ask(py, self, "any", &[timeout])
    }
}
