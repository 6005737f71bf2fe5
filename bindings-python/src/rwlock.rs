//! The read/write lock: two locks of one name.

use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::lock::Lock;

/// A named read/write lock, of which `read()` and `write()` are locks like any other.
#[pyclass(frozen, weakref, module = "lockwright")]
pub(crate) struct RwLock {
    read: Py<Lock>,
    write: Py<Lock>,
}

impl RwLock {
    pub(crate) fn new(py: Python<'_>, read: Lock, write: Lock) -> PyResult<Self> {
        Ok(RwLock { read: Py::new(py, read)?, write: Py::new(py, write)? })
    }
}

#[pymethods]
impl RwLock {
    /// The lock of readers: held by any number at once, while nobody writes.
    fn read(&self, py: Python<'_>) -> Py<Lock> {
        self.read.clone_ref(py)
    }

    /// The lock of the writer, who is alone.
    fn write(&self, py: Python<'_>) -> Py<Lock> {
        self.write.clone_ref(py)
    }

    /// Its name, without the prefix of the address.
    #[getter]
    fn name(&self) -> &str {
        &self.write.get().name
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let name = PyString::new(py, self.name()).repr()?;
        Ok(format!("<lockwright.RwLock {name} on {}>", self.write.get().shared.origin.address))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.read)?;
        visit.call(&self.write)
    }
}
