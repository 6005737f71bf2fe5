//! The latch, whose `wait` behaves as that of a `threading.Event`.

use std::sync::Arc;

use lockwright::blocking;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::Given;
use crate::asked::ask;
use crate::client::SharedClient;

/// Whoever waits goes on once so many have counted it down. Made by `Client.latch`; nothing is held, nothing to
/// release.
#[pyclass(frozen, weakref, module = "lockwright")]
pub(crate) struct Latch {
    pub(crate) core: blocking::Latch,
    pub(crate) shared: Arc<SharedClient>,
}

#[pymethods]
impl Latch {
    /// Waits until it is open, as `threading.Event.wait`. Whether it is; without a `timeout`, it is.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Given<'_>) -> PyResult<Py<PyAny>> {
        ask(py, self, "wait", &[timeout])
    }

    /// Counts it down by one; how many are still to come. An open one stays open.
    ///
    /// When it raises `Unavailable`, it is not known whether it was counted down. Two callers may be told the same
    /// number, where an answer was lost and asked for again: 0 does not mean that you were the last.
    fn count_down(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        ask(py, self, "count_down", &[])
    }

    /// How many are still to come; of a latch that nobody used yet, its count.
    fn count(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        ask(py, self, "count", &[])
    }

    /// Has it count from `count`, if it is open or nobody used it yet. Whether it does.
    fn try_set_count(&self, py: Python<'_>, count: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        ask(py, self, "try_set_count", &[Some(count)])
    }

    /// Its name, without the prefix of the address.
    #[getter]
    fn name(&self) -> &str {
        self.core.name()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let name = PyString::new(py, self.core.name()).repr()?;
        Ok(format!("<lockwright.Latch {name} on {}>", self.shared.address))
    }
}
