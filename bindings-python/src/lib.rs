//! The Python face: [`client`], [`lock`] and [`guard`] as Python sees them, [`error`] as Python raises it, and the
//! [`herald`], the one Python thread that the driver can ask for something; [`rwlock`] and [`semaphore`] are further locks, [`latch`] and [`barrier`] are none; [`aio`] is the same inside an event loop;
//! [`report`] has figures and events.
//!
//! What holds everywhere here:
//! - Whatever may wait or do I/O goes through [`outside`]: the GIL is released and a panic becomes an error.
//! - The driver's thread never enters Python and never owns a Python object: while the interpreter exits, both can crash.
//! - No fork leaves a lock taken that the child needs. What both processes use is locked by threads attached to the
//!   interpreter alone, and never across a detach, so that `os.fork` finds it free. All else carries the id of its
//!   process, and the child looks at that first.

#![deny(unsafe_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod aio;
mod barrier;
mod client;
mod error;
mod guard;
mod herald;
mod latch;
mod lock;
mod report;
mod rwlock;
mod semaphore;
mod several;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockwright::{Error, Kind, Token, kit, options};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use error::Raised;

#[pymodule(gil_used = false)]
fn _lockwright(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<client::Client>()?;
    module.add_class::<lock::Lock>()?;
    module.add_class::<lock::RLock>()?;
    module.add_class::<rwlock::RwLock>()?;
    module.add_class::<semaphore::Semaphore>()?;
    module.add_class::<latch::Latch>()?;
    module.add_class::<barrier::Barrier>()?;
    module.add_class::<barrier::Arrival>()?;
    module.add_class::<guard::Guard>()?;
    module.add_class::<several::Bundle>()?;
    module.add_class::<several::Segments>()?;
    module.add_class::<guard::Exported>()?;
    module.add_class::<guard::Lost>()?;
    module.add_class::<aio::Reactor>()?;
    module.add_class::<report::Events>()?;
    module.add_class::<report::Histogram>()?;
    module.add_class::<herald::Mailbox>()?;
    module.add_class::<herald::Answer>()?;
    module.add_function(wrap_pyfunction!(aio::pin, module)?)?;
    module.add_function(wrap_pyfunction!(aio::unpin, module)?)?;
    module.add_function(wrap_pyfunction!(aio::unpin_block, module)?)?;
    module.add_function(wrap_pyfunction!(aio::loss, module)?)?;
    module.add_function(wrap_pyfunction!(client::connect, module)?)?;
    module.add_function(wrap_pyfunction!(restored, module)?)?;
    module.add_function(wrap_pyfunction!(error::codes, module)?)?;
    module.add("_SET_SCRIPT", kit::SET_SCRIPT)?;
    module.add("_HEADER", kit::HEADER)?;
    module.add_function(wrap_pyfunction!(sql_condition, module)?)?;
    module.add_function(wrap_pyfunction!(header_value, module)?)?;
    module.add_function(wrap_pyfunction!(read_header, module)?)?;
    Ok(())
}

/// Says that this process was restored from a snapshot or a checkpoint of itself, which others may have been too.
///
/// Call it once, before anything else uses this library. Every client then dials anew, as in a forked child. Guards made before are not
/// believed: they are lost with the reason `closed`, using them raises `Forked`, and so does whatever waits; nothing is sent for them, since
/// a copy of this process may still hold the lock. What nobody else gives back ends with its lease.
#[pyfunction]
fn restored(py: Python<'_>) -> PyResult<()> {
    let restored = outside(py, || {
        lockwright::restored();
        Ok(())
    });
    restored.map_err(|error| Raised(error).into())
}

#[pyfunction(name = "_sql_condition")]
fn sql_condition(column: &str, placeholder: &str) -> String {
    kit::sql_condition(column, placeholder)
}

#[pyfunction(name = "_header_value")]
fn header_value(n: u64, epoch: u64) -> String {
    kit::header_value(Token { epoch, n })
}

/// Epoch and number.
#[pyfunction(name = "_read_header")]
fn read_header(value: &str) -> Option<(u64, u64)> {
    kit::read_header(value).map(|token| (token.epoch, token.n))
}

thread_local! {
    static OUTSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` without the GIL.
pub(crate) fn outside<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> lockwright::Result<T> + Send,
) -> lockwright::Result<T> {
    py.detach(|| {
        let before = OUTSIDE.replace(true);
        let result = catch_unwind(AssertUnwindSafe(work));
        OUTSIDE.set(before);
        result.unwrap_or_else(|_| Err(Error::new(Kind::Internal, "call", "the library panicked; please report this")))
    })
}

/// Whether this thread is one of Python's that is in [`outside`]: it may come back, other than the driver's.
pub(crate) fn is_outside() -> bool {
    OUTSIDE.get()
}

/// How long a wait goes on before it looks for signals.
const SLICE: Duration = Duration::from_millis(50);

/// Repeats `wait`, which waits for at most what it is given, until it has a result or a signal handler raises. Only the
/// main thread runs signal handlers; every other one waits in one piece.
pub(crate) fn in_slices<T: Send>(py: Python<'_>, mut wait: impl FnMut(Duration) -> Option<T> + Send) -> PyResult<T> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    let slice = if threading.call_method0("get_ident")?.eq(main)? { SLICE } else { Duration::MAX };
    loop {
        if let Some(result) = outside(py, || Ok(wait(slice))).map_err(Raised)? {
            return Ok(result);
        }
        py.check_signals()?;
    }
}

/// A text from Python, which may hold what no UTF-8 can.
pub(crate) fn text(operation: &'static str, what: &str, text: &Bound<'_, PyString>) -> Result<String, Raised> {
    let no_utf8 =
        |_| Error::invalid(operation, format!("the {what} holds a lone surrogate, which UTF-8 cannot; encode it"));
    Ok(text.to_cow().map_err(no_utf8)?.into_owned())
}

/// A number of seconds from Python, not checked yet.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub(crate) struct Seconds(pub(crate) f64);

impl FromPyObject<'_, '_> for Seconds {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        match object.extract::<f64>() {
            Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) => Ok(Seconds(f64::INFINITY)),
            seconds => seconds.map(Seconds),
        }
    }
}

impl Seconds {
    /// For time limits that a caller computes, which may have passed meanwhile.
    pub(crate) fn not_negative(self) -> Self {
        if self.0 < 0.0 { Seconds(0.0) } else { self }
    }

    pub(crate) fn check(self, operation: &'static str, what: &str) -> Result<Duration, Raised> {
        Ok(options::seconds(operation, what, self.0)?)
    }
}

/// Locks a mutex whose holders never leave it half changed.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
