//! The latch, whose `wait` behaves as that of a `threading.Event`.

use std::sync::Arc;
use std::time::Duration;

use lockwright::{Kind, Token, blocking};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::client::{Shared, count as in_range};
use crate::error::Raised;
use crate::lock::limit;
use crate::{Span, in_slices, outside};

/// Whoever waits goes on once so many have counted it down. Made by `Client.latch`; nothing is held, nothing to release.
#[pyclass(frozen, weakref, module = "lockwright")]
pub(crate) struct Latch {
    pub(crate) core: blocking::Latch,
    pub(crate) shared: Arc<Shared>,
}

impl Latch {
    /// How long a wait goes on.
    pub(crate) fn limit(timeout: Option<Span>) -> PyResult<Option<Duration>> {
        limit(timeout, None)
    }
}

/// Waits for what nobody has to give back; the token it was passed with, or `None` when the time limit was over before.
pub(crate) fn pass_within(py: Python<'_>, gate: &blocking::Lock, limit: Option<Duration>) -> PyResult<Option<Token>> {
    let mut waiting = outside(py, || gate.begin(limit)).map_err(Raised)?;
    let at_once = outside(py, || Ok(waiting.wait(Duration::ZERO))).map_err(Raised)?;
    let waited = match at_once {
        Some(result) => Ok(result),
        None => in_slices(py, limit, |how| waiting.wait(how)),
    };
    // Nothing is held, so nothing is to be given back; but to give up may cost more than a moment with the GIL held.
    let passed = outside(py, move || {
        drop(waiting);
        Ok(waited.map(|passed| passed.map(|pass| pass.token())))
    });
    match passed.map_err(Raised)?? {
        Ok(token) => Ok(Some(token)),
        Err(error) if error.kind() == Kind::Timeout => Ok(None),
        Err(error) => Err(Raised(error).into()),
    }
}

#[pymethods]
impl Latch {
    /// Waits until it is open, as `threading.Event.wait`. Whether it is; without a `timeout`, it is.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<Span>) -> PyResult<bool> {
        let limit = Latch::limit(timeout)?;
        self.shared.prepare(py)?;
        Ok(pass_within(py, self.core.gate(), limit)?.is_some())
    }

    /// Counts it down by one; how many are still to come. An open one stays open.
    ///
    /// When it raises `Unavailable`, it is not known whether it was counted down. Two callers may be told the same number, where an
    /// answer was lost and asked for again: 0 does not mean that you were the last.
    fn count_down(&self, py: Python<'_>) -> PyResult<u32> {
        self.shared.prepare(py)?;
        Ok(outside(py, || self.core.count_down()).map_err(Raised)?)
    }

    /// How many are still to come; of a latch that nobody used yet, its count.
    fn count(&self, py: Python<'_>) -> PyResult<u32> {
        self.shared.prepare(py)?;
        Ok(outside(py, || self.core.count()).map_err(Raised)?)
    }

    /// Has it count from `count`, if it is open or nobody used it yet. Whether it does.
    fn try_set_count(&self, py: Python<'_>, count: i128) -> PyResult<bool> {
        self.shared.prepare(py)?;
        Ok(outside(py, || self.core.try_set_count(in_range(count))).map_err(Raised)?)
    }

    /// Its name, without the prefix of the address.
    #[getter]
    fn name(&self) -> &str {
        self.core.name()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let name = PyString::new(py, self.core.name()).repr()?;
        Ok(format!("<lockwright.Latch {name} on {}>", self.shared.origin.address))
    }
}
