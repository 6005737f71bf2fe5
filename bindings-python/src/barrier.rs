//! The barrier, whose `wait` counts as that of a `threading.Barrier` does.

use std::sync::Arc;

use lockwright::blocking;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::Given;
use crate::asked::ask;
use crate::client::SharedClient;

/// Whoever waits goes on once as many wait as there are parties; then it starts over. Made by `Client.barrier`.
///
/// Unlike `threading.Barrier` it does not break: a party that dies, times out or is cancelled gives its place up, and
/// the others go on waiting for whoever replaces it.
#[pyclass(frozen, weakref, module = "lockwright")]
pub(crate) struct Barrier {
    pub(crate) core: blocking::Barrier,
    pub(crate) shared: Arc<SharedClient>,
}

#[pymethods]
impl Barrier {
    /// Waits until as many wait as there are parties, for at most `timeout` seconds: 0 goes on if this is the last one.
    ///
    /// `None` when it did not open in time. Raises `InvalidConfig` when those who wait name another number of parties,
    /// `LockLost` when this process was stopped for so long that it is not known whether it passed, and `Unavailable`
    /// when the store does not say so.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Given<'_>) -> PyResult<Py<PyAny>> {
        ask(py, self, "wait", &[timeout])
    }

    /// How many wait now; those whose process died count until their place's ttl is over.
    fn waiting(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        ask(py, self, "waiting", &[])
    }

    /// Its name, without the prefix of the address.
    #[getter]
    fn name(&self) -> &str {
        self.core.name()
    }

    /// How many have to wait for it to open.
    #[getter]
    fn parties(&self) -> u32 {
        self.core.parties()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (name, parties) = (PyString::new(py, self.core.name()).repr()?, self.core.parties());
        Ok(format!("<lockwright.Barrier {name} of {parties} on {}>", self.shared.address))
    }
}
