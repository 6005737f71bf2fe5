//! The barrier, whose `wait` counts as that of a `threading.Barrier` does.

use std::sync::Arc;

use lockwright::blocking;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::client::Shared;
use crate::error::Raised;
use crate::latch::{Latch, pass_within};
use crate::{Seconds, outside};

#[pyclass(frozen, weakref, module = "lockwright")]
pub(crate) struct Barrier {
    pub(crate) core: blocking::Barrier,
    pub(crate) shared: Arc<Shared>,
}

/// How a party went on.
#[pyclass(frozen, get_all, eq, hash, module = "lockwright")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Arrival {
    index: u32,
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
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Option<Arrival>> {
        let limit = Latch::limit(timeout)?;
        self.shared.prepare(py)?;
        let passed = pass_within(py, self.core.gate(), limit)?;
        Ok(passed.map(|token| lockwright::Arrival::from(token).into()))
    }

    fn waiting(&self, py: Python<'_>) -> PyResult<u32> {
        self.shared.prepare(py)?;
        Ok(outside(py, || self.core.waiting()).map_err(Raised)?)
    }

    #[getter]
    fn name(&self) -> &str {
        self.core.name()
    }

    #[getter]
    fn parties(&self) -> u32 {
        self.core.parties()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (name, parties) = (PyString::new(py, self.core.name()).repr()?, self.core.parties());
        Ok(format!("<lockwright.Barrier {name} of {parties} on {}>", self.shared.origin.address))
    }
}
