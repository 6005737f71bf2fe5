//! The barrier, whose `wait` counts as that of a `threading.Barrier` does.

use std::sync::Arc;

use lockwright::blocking;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::client::Shared;
use crate::error::Raised;
use crate::latch::{Latch, pass_within};
use crate::{Span, outside};

/// Whoever waits goes on once as many wait as there are parties; then it starts over. Made by `Client.barrier`.
///
/// Unlike `threading.Barrier` it does not break: a party that dies, times out or is cancelled gives its place up, and the others go
/// on waiting for whoever replaces it.
#[pyclass(frozen, weakref, module = "lockwright")]
pub(crate) struct Barrier {
    pub(crate) core: blocking::Barrier,
    pub(crate) shared: Arc<Shared>,
}

/// How a party went on. Made by `Barrier.wait`.
#[pyclass(frozen, get_all, eq, hash, module = "lockwright")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Arrival {
    /// Which of its generation it was, in the order of arrival: 0 to one less than there are parties, each once.
    index: u32,
    /// Rises by one whenever the barrier opens. After minutes without use it goes on from the store's clock.
    generation: u64,
}

impl From<lockwright::Arrival> for Arrival {
    fn from(arrival: lockwright::Arrival) -> Self {
        let lockwright::Arrival { index, generation } = arrival;
        Arrival { index, generation }
    }
}

#[pymethods]
impl Arrival {
    fn __repr__(&self) -> String {
        format!("Arrival(index={}, generation={})", self.index, self.generation)
    }
}

#[pymethods]
impl Barrier {
    /// Waits until as many wait as there are parties, for at most `timeout` seconds: 0 goes on if this is the last one.
    ///
    /// `None` when it did not open in time. Raises `InvalidConfig` when those who wait name another number of parties, `LockLost`
    /// when this process was stopped for so long that it is not known whether it passed, and `Unavailable` when the store does not
    /// say so.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<Span>) -> PyResult<Option<Arrival>> {
        let limit = Latch::limit(timeout)?;
        self.shared.prepare(py)?;
        let passed = pass_within(py, self.core.gate(), limit)?;
        Ok(passed.map(|token| lockwright::Arrival::from(token).into()))
    }

    /// How many wait now; those whose process died count until their place's ttl is over.
    fn waiting(&self, py: Python<'_>) -> PyResult<u32> {
        self.shared.prepare(py)?;
        Ok(outside(py, || self.core.waiting()).map_err(Raised)?)
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
        Ok(format!("<lockwright.Barrier {name} of {parties} on {}>", self.shared.origin.address))
    }
}
