//! The semaphore, which behaves as `threading.BoundedSemaphore`.

use lockwright::Error;
use pyo3::prelude::*;

use crate::asked::ask;
use crate::error::Raised;
use crate::green::me;
use crate::guard::Guard;
use crate::lock::{Blocking, Lock};
use crate::{Span, Whole, outside};

/// A named semaphore that behaves as `threading.BoundedSemaphore`, and whose permits end with their holder.
#[pyclass(frozen, extends = Lock, weakref, module = "lockwright")]
pub(crate) struct Semaphore {
    /// How many permits each acquisition takes.
    #[pyo3(get)]
    pub(crate) take: u32,
}

#[pymethods]
impl Semaphore {
    /// Whether the permits were acquired in time. Without a `timeout`, the semaphore's own.
    #[pyo3(signature = (blocking=Blocking(true), timeout=None), text_signature = "($self, blocking=True, timeout=None)")]
    fn acquire(slf: &Bound<'_, Self>, blocking: Blocking, timeout: Option<Span>) -> PyResult<bool> {
        slf.as_super().get().acquire(slf.py(), blocking, timeout.unwrap_or(Span::FOR_EVER))
    }

    /// Gives back what `n` acquisitions took: this thread's, else those of other threads.
    ///
    /// Raises `OverReleased`, which is a `ValueError`, and gives back nothing, when fewer are held through this object;
    /// `LockLost` when one was lost before.
    #[pyo3(signature = (n=Whole(1)), text_signature = "($self, n=1)")]
    fn release(slf: &Bound<'_, Self>, n: Whole) -> PyResult<()> {
        let py = slf.py();
        let guards = Self::unpin_several(slf, n, me(py)?)?;
        // One that was lost does not keep the others from being given back.
        let ended: Vec<_> = guards.iter().map(|guard| guard.get().end_strictly(py)).collect();
        ended.into_iter().collect()
    }

    /// The holds that a release of `n` acquisitions of `me` means: all or none.
    #[pyo3(name = "_unpin_several")]
    fn unpin_several(slf: &Bound<'_, Self>, n: Whole, me: u64) -> PyResult<Vec<Py<Guard>>> {
        let (py, lock) = (slf.py(), slf.as_super().get());
        if n.0 < 1 {
            let message = "n must be one or more";
            return Err(Raised(Error::invalid("release", message).on_lock(lock.core.name())).into());
        }
        let mut guards = Vec::new();
        for _ in 0..n.0 {
            match lock.unpin(py, me) {
                Ok(guard) => guards.push(guard),
                Err(error) => {
                    guards.into_iter().for_each(|guard| lock.pin(guard, false, me));
                    let errors = py.import("lockwright._errors")?;
                    return Err(PyErr::from_value(errors.call_method1("over_released", (error,))?));
                }
            }
        }
        Ok(guards)
    }

    /// Whether an acquisition would have to wait at this moment.
    fn locked(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let lock = slf.as_super().get();
        lock.shared.prepare(slf.py())?;
        let seen = outside(slf.py(), || lock.core.inspect()).map_err(Raised)?;
        let take = u64::from(slf.get().take);
        Ok(seen.shared.is_some_and(|shared| {
            seen.waiters > 0 || shared.permits.is_some_and(|permits| shared.held + take > permits.into())
        }))
    }

    /// Gives it so many permits, for everybody and for good. Nobody loses what it holds.
    fn resize<'py>(slf: &Bound<'py, Self>, permits: Bound<'py, PyAny>) -> PyResult<()> {
        ask(slf.py(), slf.as_super().get(), "resize", &[Some(permits)]).map(drop)
    }
}
