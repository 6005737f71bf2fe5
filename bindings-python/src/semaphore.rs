//! The semaphore, which behaves as `threading.BoundedSemaphore`.

use lockwright::Error;
use lockwright::lease::Inspection;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::asked::ask;
use crate::error::Raised;
use crate::green::me;
use crate::lock::{Lock, end};
use crate::{Span, outside};

/// A named semaphore that behaves as `threading.BoundedSemaphore`, and whose permits end with their holder.
#[pyclass(frozen, extends = Lock, weakref, module = "lockwright")]
pub(crate) struct Semaphore {
    pub(crate) take: u32,
}

/// Whether `take` permits could not be had at once.
pub(crate) fn is_locked(seen: &Inspection, take: u32) -> bool {
    let Some(shared) = &seen.shared else { return false };
    seen.waiters > 0 || shared.permits.is_some_and(|permits| shared.held + u64::from(take) > u64::from(permits))
}

#[pymethods]
impl Semaphore {
    /// Whether the permits were acquired in time. Without a `timeout`, the semaphore's own.
    #[pyo3(signature = (blocking=true, timeout=None))]
    fn acquire(slf: &Bound<'_, Self>, blocking: bool, timeout: Option<Span>) -> PyResult<bool> {
        slf.as_super().get().acquire(slf.py(), blocking, timeout.unwrap_or(Span::FOR_EVER))
    }

    /// Gives back what `n` acquisitions took: this thread's, else those of other threads.
    ///
    /// Raises `OverReleased`, which is a `ValueError`, and gives back nothing, when fewer are held through this object;
    /// `LockLost` when one was lost before.
    #[pyo3(signature = (n=1))]
    fn release(slf: &Bound<'_, Self>, n: i128) -> PyResult<()> {
        let (py, lock) = (slf.py(), slf.as_super().get());
        if n < 1 {
            let message = "n must be one or more";
            return Err(Raised(Error::invalid("release", message).on_lock(lock.name.clone())).into());
        }
        let (mut guards, me) = (Vec::new(), me(py)?);
        for _ in 0..n {
            match lock.unpin(py, me) {
                Ok(guard) => guards.push(guard),
                Err(error) => {
                    // All or none.
                    guards.into_iter().for_each(|guard| lock.pin(guard, false, me));
                    return Err(over_released(py, error)?);
                }
            }
        }
        // One that was lost does not keep the others from being given back.
        let ended: Vec<_> = guards.iter().map(|guard| end(py, guard)).collect();
        ended.into_iter().collect()
    }

    /// Whether an acquisition would have to wait at this moment.
    fn locked(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let lock = slf.as_super().get();
        lock.shared.prepare(slf.py())?;
        let seen = outside(slf.py(), || lock.core.inspect()).map_err(Raised)?;
        Ok(is_locked(&seen, slf.get().take))
    }

    /// Gives it so many permits, for everybody and for good. Nobody loses what it holds.
    fn resize<'py>(slf: &Bound<'py, Self>, permits: Bound<'py, PyAny>) -> PyResult<()> {
        ask(slf.py(), slf.as_super().get(), "resize", &[Some(permits)]).map(drop)
    }

    /// How many permits each acquisition takes.
    #[getter]
    fn take(&self) -> u32 {
        self.take
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let lock = slf.as_super().get();
        let name = PyString::new(slf.py(), &lock.name).repr()?;
        Ok(format!("<lockwright.Semaphore {name} on {}>", lock.shared.origin.address))
    }
}

/// What `threading` raises as a `ValueError`.
fn over_released(py: Python<'_>, error: PyErr) -> PyResult<PyErr> {
    let errors = py.import("lockwright._errors")?;
    Ok(PyErr::from_value(errors.call_method1("over_released", (error,))?))
}
