//! Errors of the core as the exceptions of `lockwright._errors`.

use lockwright::Error;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// An error on its way to Python, for `?`.
#[derive(Debug)]
pub(crate) struct Raised(pub(crate) Error);

impl From<Error> for Raised {
    fn from(error: Error) -> Self {
        Raised(error)
    }
}

impl From<Raised> for PyErr {
    fn from(Raised(error): Raised) -> Self {
        Python::attach(|py| exception(py, &error).unwrap_or_else(|failure| failure))
    }
}

fn exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let attributes = PyDict::new(py);
    attributes.set_item("operation", error.operation())?;
    attributes.set_item("lock", error.lock())?;
    attributes.set_item("store", error.store())?;
    let class = py.import("lockwright._errors")?.getattr("BY_CODE")?.get_item(error.code())?;
    Ok(PyErr::from_value(class.call((error.to_string(),), Some(&attributes))?))
}
