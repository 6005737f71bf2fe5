//! Several locks that are taken together, and one of several: what `lockwright._several` and `lockwright.aio` make
//! their classes of.

use std::sync::Arc;

use lockwright::binding::held::Group;
use lockwright::binding::open;
use lockwright::blocking::Blocking;
use lockwright::multi::MultiLock;
use lockwright::striped::Striped;
use pyo3::prelude::*;

use crate::asked::ask;
use crate::client::{Client, SharedClient};
use crate::error::Raised;
use crate::guard::Guard;
use crate::lock::Lock;
use crate::value::all_ended;
use crate::{Given, aside, text};

/// Locks that are acquired together.
#[pyclass(frozen, module = "lockwright._lockwright")]
pub(crate) struct Bundle {
    pub(crate) core: MultiLock<Blocking>,
    pub(crate) shared: Arc<SharedClient>,
}

/// Gives all of them back in one write. What became of each: a text, or the exception that says why it could not be.
#[pyfunction(name = "_release_all")]
pub(crate) fn release_all(py: Python<'_>, guards: Vec<Py<Guard>>, of_block: bool) -> PyResult<Py<PyAny>> {
    let held: Vec<_> = guards.iter().map(|guard| guard.get().held.clone()).collect();
    let ended = aside(py, || Group::release(&held, of_block))?;
    guards.iter().for_each(|guard| guard.get().forget_callbacks());
    all_ended(py, ended)
}

#[pymethods]
impl Bundle {
    #[getter]
    fn names(&self) -> Vec<&str> {
        self.core.names().collect()
    }

    #[getter]
    fn address(&self) -> &str {
        &self.shared.address
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
    /// The clients of the other stores that segments lie with, in their order.
    pub(crate) others: Vec<Arc<SharedClient>>,
}

impl Segments {
    /// That of the store of segment `index`.
    fn client(&self, index: usize) -> &Arc<SharedClient> {
        let place = (index % (self.others.len() + 1)).checked_sub(1);
        place.and_then(|place| self.others.get(place)).unwrap_or(&self.shared)
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
        &self.shared.address
    }

    fn index_for(&self, key: &Bound<'_, PyAny>) -> PyResult<usize> {
        Ok(self.core.index_for(&text("lock", "key", key)?))
    }

    fn lock(&self, index: usize) -> PyResult<Lock> {
        let core = self.core.segment(open::segment(&self.core, index).map_err(Raised)?).clone();
        Ok(Lock::new(core, self.client(index).clone()))
    }

    fn across(&self, others: Vec<Bound<'_, Client>>) -> PyResult<Self> {
        let more: Vec<_> = others.iter().map(|other| other.get().shared.clone()).collect();
        let clients: Vec<_> = more.iter().map(|other| other.client.clone()).collect();
        let core = self.core.across(&clients).map_err(Raised)?;
        Ok(Segments { core, shared: self.shared.clone(), others: [&self.others[..], &more].concat() })
    }

    fn mark_sold_out(&self, index: usize) -> PyResult<()> {
        self.core.mark_sold_out(open::segment(&self.core, index).map_err(Raised)?);
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
