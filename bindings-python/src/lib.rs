//! The Python face, a skin of [`lockwright::binding`]: [`client`], [`lock`] and [`guard`] as Python sees them,
//! [`error`] as Python raises it, a [`value`] as Python has it, and the [`dispatcher`], the one Python thread that the
//! driver can ask for something; a [`semaphore`] is a further lock, [`latch`] and [`barrier`] are none;
//! whatever is seldom done is [`asked`] by name; [`aio`] is the same inside an event loop; [`report`] has events;
//! [`green`] is for programs whose threads are greenlets.
//!
//! What holds everywhere here:
//! - Whatever may wait or do I/O goes through [`outside`]: the GIL is released and a panic becomes an error.
//! - The driver's thread never enters Python and never owns a Python object: while the interpreter exits, both can
//!   crash.
//! - No fork leaves a lock taken that the child needs. What both processes use is locked by threads attached to the
//!   interpreter alone, and never across a detach, so that `os.fork` finds it free. All else carries the id of its
//!   process, and the child looks at that first.

#![deny(unsafe_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod aio;
mod asked;
mod barrier;
mod client;
mod dispatcher;
mod error;
mod green;
mod guard;
mod latch;
mod lock;
mod report;
mod semaphore;
mod several;
mod value;

use std::cell::Cell;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) use lockwright::binding::locked;
use lockwright::binding::{Outcome, Waiting, panicked};
use lockwright::blocking::Wait;
use lockwright::{Error, Token, binding, fork_generation, kit, options};
use pyo3::exceptions::{PyOverflowError, PyRuntimeWarning, PyTypeError, PyUserWarning};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyType};

use error::Raised;
use value::PYTHON;

#[pymodule(gil_used = false)]
mod _lockwright {
    #[pymodule_export]
    use crate::{
        advisory_key,
        aio::Reactor,
        barrier::Barrier,
        callable, checked_token,
        client::{Client, connect},
        dispatcher::{Answer, Mailbox},
        generation,
        green::Notifier,
        guard::{Exported, Guard, Lost},
        header_value, key_range,
        latch::Latch,
        lock::{Lock, RLock, is_blocking},
        main_thread, read_header,
        report::{Events, Histogram},
        restored,
        semaphore::Semaphore,
        several::{Bundle, Segments, release_all},
        sql_condition,
        value::manifest,
    };
    use pyo3::prelude::*;
    #[pymodule_export]
    const _HEADER: &str = lockwright::kit::HEADER;
    #[pymodule_export]
    const _SET_SCRIPT: &str = lockwright::kit::SET_SCRIPT;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

/// Says that this process was restored from a snapshot or a checkpoint of itself, which others may have been too.
///
/// Call it once, before anything else uses this library. Every client then dials anew, as in a forked child. Guards
/// made before are not believed: they are lost with the reason `closed`, using them raises `Forked`, and so does
/// whatever waits; nothing is sent for them, since a copy of this process may still hold the lock. What nobody else
/// gives back ends with its lease.
#[pyfunction]
fn restored(py: Python<'_>) -> PyResult<()> {
    aside(py, lockwright::restored)
}

/// Differs between a process and each that it was forked from; ids of processes may be the same in two namespaces.
#[pyfunction(name = "_generation")]
fn generation() -> u64 {
    fork_generation()
}

/// A condition for the `WHERE` of an `UPDATE` that sets `column` to the token: rows that a higher token wrote stay as
/// they are. That it changed no row means that the token is stale, or the row is not there. Raises `InvalidConfig` for
/// a column or a placeholder that is empty, has more than 1024 bytes or a control character.
#[pyfunction]
#[pyo3(signature = (column, placeholder=None), text_signature = "(column, placeholder='?')")]
fn sql_condition(column: &Bound<'_, PyAny>, placeholder: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
    let placeholder = placeholder.map(|placeholder| text("kit", "placeholder", placeholder)).transpose()?;
    let column = text("kit", "column", column)?;
    Ok(kit::sql_condition(&column, placeholder.as_deref().unwrap_or("?")).map_err(Raised)?)
}

/// The keys below `key`, a lock's name with the address's prefix before it, in a store of keys and revisions: from the
/// first to before the second. A transaction that compares the creation revisions of this range with the token to be
/// *not equal* finds them so once the lock is lost; what is to be written only while it is held stands in its failure
/// branch. Raises `InvalidConfig` for what is no lock's key: empty, above 1536 bytes, or with a control character.
#[pyfunction]
fn key_range(key: &Bound<'_, PyAny>) -> PyResult<(String, String)> {
    Ok(kit::key_range(&text("kit", "key", key)?).map_err(Raised)?.into())
}

/// The number by which PostgreSQL knows the advisory lock of `key`, a lock's name with the address's prefix before it:
/// for `pg_advisory_xact_lock`, as `kit.advisory_lock` says it. Raises `InvalidConfig` as `kit.key_range` does.
#[pyfunction]
fn advisory_key(key: &Bound<'_, PyAny>) -> PyResult<i64> {
    Ok(kit::advisory_key(&text("kit", "key", key)?).map_err(Raised)?)
}

/// The value of the header.
#[pyfunction]
#[pyo3(signature = (token, epoch=Whole(0)), text_signature = "(token, epoch=0)")]
fn header_value(token: Whole, epoch: Whole) -> PyResult<String> {
    let (epoch, n) = checked_token(token, epoch)?;
    Ok(kit::header_value(Token { epoch, n }))
}

/// Epoch and token, if they can be that.
#[pyfunction(name = "_checked_token")]
fn checked_token(token: Whole, epoch: Whole) -> PyResult<(u64, u64)> {
    Ok((epoch.token("kit")?, token.token("kit")?))
}

/// Epoch and token of a header; None for what is none. What comes without one is to be refused as well.
#[pyfunction]
fn read_header(value: &Bound<'_, PyAny>) -> PyResult<Option<(u64, u64)>> {
    Ok(kit::read_header(&text("kit", "header", value)?).map(|token| (token.epoch, token.n)))
}

/// What Python gave, if it did.
pub(crate) type Given<'py> = Option<Bound<'py, PyAny>>;

/// What it gave by keywords.
pub(crate) type Keywords<'a, 'py> = &'a Bound<'py, PyDict>;

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
        result.unwrap_or_else(|_| Err(panicked()))
    })
}

/// The same of what cannot fail.
pub(crate) fn aside<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    Ok(outside(py, || Ok(work())).map_err(Raised)?)
}

/// Whether this thread is one of Python's that is in [`outside`]: it may come back, other than the driver's.
pub(crate) fn is_outside() -> bool {
    OUTSIDE.get()
}

/// How long a wait goes on before it looks for signals.
const SLICE: Duration = Duration::from_millis(50);

/// Repeats `wait` until it has a result or a signal handler raises; it may take as long as `limit` says. Only the main
/// thread runs signal handlers; every other one waits in one piece. A greenlet lets others run meanwhile.
pub(crate) fn in_slices<T: Send>(
    py: Python<'_>,
    limit: Option<Duration>,
    mut wait: impl FnMut(Wait<'_>) -> Option<T> + Send,
) -> PyResult<T> {
    if let Some(hub) = green::hub(py)? {
        return hub.wait(limit, wait);
    }
    let slice = if is_main_thread(py)? { SLICE } else { Duration::MAX };
    loop {
        if let Some(result) = aside(py, || wait(Wait::Park(slice)))? {
            return Ok(result);
        }
        py.check_signals()?;
    }
}

/// What comes of what `begin` begins, waited for as long as `limit` says. The inner error is the core's, the outer one
/// a signal handler's.
pub(crate) fn waited(
    py: Python<'_>,
    limit: Option<Duration>,
    begin: impl FnOnce() -> lockwright::Result<Waiting> + Send,
) -> PyResult<lockwright::Result<Outcome>> {
    let begun = outside(py, || {
        let mut waiting = begin()?;
        Ok((waiting.at_once(), waiting))
    });
    match begun {
        Err(error) => Ok(Err(error)),
        Ok((Some(result), _)) => Ok(result),
        Ok((None, mut waiting)) => {
            let may_wait = warn_in_event_loop(py, limit);
            let waited = may_wait.and_then(|()| in_slices(py, limit, |how| waiting.wait(how)));
            if waited.is_err() {
                // To give up may cost more than a moment with the GIL held.
                aside(py, move || drop(waiting))?;
            }
            waited
        }
    }
}

/// The identity of the main thread, as `_thread` has it.
static MAIN_THREAD: AtomicU64 = AtomicU64::new(0);

/// Tells which thread runs signal handlers: at the import, and again in a forked child.
#[pyfunction(name = "_main_thread")]
fn main_thread(ident: u64) {
    MAIN_THREAD.store(ident, Ordering::Relaxed);
}

/// Without code of Python's: while that runs below a frame of Rust, the interpreter's exit aborts the process.
fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    static IDENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let ident: u64 = IDENT.import(py, "_thread", "get_ident")?.call0()?.extract()?;
    Ok(ident == MAIN_THREAD.load(Ordering::Relaxed))
}

/// Nothing else that the loop runs goes on before the wait is over; not even what would end it, if that is in the same
/// loop.
pub(crate) fn warn_in_event_loop(py: Python<'_>, limit: Option<Duration>) -> PyResult<()> {
    if limit == Some(Duration::ZERO) || green::hub(py)?.is_some() {
        return Ok(());
    }
    static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let asyncio = MODULES.import(py, "sys", "modules")?.get_item(intern!(py, "_asyncio"))?;
    let Some(asyncio) = asyncio.filter(|asyncio| !asyncio.is_none()) else { return Ok(()) };
    if asyncio.call_method0(intern!(py, "_get_running_loop"))?.is_none() {
        return Ok(());
    }
    let message = "this call waits and blocks the event loop of this thread meanwhile; use lockwright.aio";
    warn(py, message, &py.get_type::<PyRuntimeWarning>())
}

/// Warns of the line of the program that led here.
fn warn(py: Python<'_>, message: &str, category: &Bound<'_, PyType>) -> PyResult<()> {
    py.import("lockwright._warn")?.call_method1("warn", (message, category)).map(drop)
}

/// A text from Python, which may hold what no UTF-8 can.
pub(crate) fn text(operation: &'static str, what: &str, text: &Bound<'_, PyAny>) -> PyResult<String> {
    let Ok(text) = text.cast::<PyString>() else {
        return Err(PyTypeError::new_err(format!("{what} must be a str, not {}", type_name(text))));
    };
    let no_utf8 = |_| {
        Raised(Error::invalid(operation, format!("the {what} holds a lone surrogate, which UTF-8 cannot; encode it")))
    };
    Ok(text.to_cow().map_err(no_utf8)?.into_owned())
}

/// Refuses what cannot be called later.
#[pyfunction(name = "_check_callable")]
pub(crate) fn callable(what: &str, given: &Bound<'_, PyAny>) -> PyResult<()> {
    if given.is_callable() {
        return Ok(());
    }
    Err(PyTypeError::new_err(format!("{what} must be callable, not {}", type_name(given))))
}

/// A whole number of any size, as near as it can be told.
pub(crate) struct Whole(pub(crate) i128);

impl FromPyObject<'_, '_> for Whole {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        match object.extract::<i128>() {
            Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) => {
                Ok(Whole(if object.lt(0)? { i128::MIN } else { i128::MAX }))
            }
            number => number.map(Whole),
        }
    }
}

impl Whole {
    /// As the core takes a count, which refuses the smallest and the largest.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.0).unwrap_or(if self.0 < 0 { 0 } else { u32::MAX })
    }

    /// A token, or a part of one.
    pub(crate) fn token(&self, operation: &'static str) -> PyResult<u64> {
        let out_of_range =
            |_| Raised(Error::invalid(operation, "the token is out of range; give one that a guard or inspect showed"));
        Ok(u64::try_from(self.0).map_err(out_of_range)?)
    }
}

fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "that".into(), |name| name.to_string())
}

/// A length of time from Python, not checked yet.
#[derive(Clone, PartialEq)]
pub(crate) enum Span {
    /// A bare number of seconds.
    Seconds(f64),
    /// A `timedelta`, in seconds.
    Delta(f64),
    /// With its unit, such as `10s`.
    Text(String),
    /// Of this type, and none at all.
    Other(String),
}

impl FromPyObject<'_, '_> for Span {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.cast::<PyString>() {
            return Ok(Span::Text(text.to_string_lossy().into_owned()));
        }
        match object.extract::<f64>() {
            Ok(seconds) => Ok(Span::Seconds(seconds)),
            Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) => Ok(Span::Seconds(f64::INFINITY)),
            Err(_) => {
                let total = object.call_method0(intern!(object.py(), "total_seconds"));
                let total = total.and_then(|seconds| seconds.extract::<f64>());
                Ok(total.map_or_else(|_| Span::Other(type_name(&object)), Span::Delta))
            }
        }
    }
}

/// What a bare number of seconds is likely to mean as a ttl.
const LIKELY: RangeInclusive<f64> = 1.0..=HOUR;
const HOUR: f64 = 3600.0;

impl Span {
    /// As `threading` has it.
    pub(crate) const FOR_EVER: Span = Span::Seconds(-1.0);

    /// For time limits that a caller computes, which may have passed meanwhile.
    pub(crate) fn not_negative(self) -> Self {
        match self {
            Span::Seconds(seconds) | Span::Delta(seconds) if seconds < 0.0 => Span::Seconds(0.0),
            other => other,
        }
    }

    /// The value of the option `what`.
    pub(crate) fn given(&self, what: &str) -> PyResult<binding::Given> {
        match self {
            Span::Seconds(seconds) | Span::Delta(seconds) => Ok(binding::Given::Number(*seconds)),
            Span::Text(text) => Ok(binding::Given::Text(text.clone())),
            Span::Other(kind) => Err(PyTypeError::new_err(format!(
                "{what} must be a number of seconds, a text such as '10s' or '500ms', or a timedelta, not {kind}"
            ))),
        }
    }

    pub(crate) fn check(&self, operation: &'static str, what: &str) -> PyResult<Duration> {
        Ok(PYTHON.span(operation, what, &self.given(what)?).map_err(Raised)?)
    }

    /// As [`check`](Self::check), of a ttl: many a library counts those in milliseconds.
    pub(crate) fn check_ttl(&self, py: Python<'_>, operation: &'static str) -> PyResult<Duration> {
        let ttl = self.check(operation, "ttl")?;
        if let Span::Seconds(seconds) = self
            && !LIKELY.contains(seconds)
            // What is shorter or longer still is refused.
            && (options::MIN_TTL..=options::MAX_TTL).contains(&ttl)
        {
            let (is, such_as) = if *seconds < 1.0 {
                (format!("{:.0} ms", seconds * 1000.0), "500ms")
            } else {
                (format!("{:.1} hours", seconds / HOUR), "2h")
            };
            let message = format!(
                "a ttl of {seconds} is {is}, since numbers are seconds; if it is meant, write a timedelta or a text such as '{such_as}'"
            );
            warn(py, &message, &py.get_type::<PyUserWarning>())?;
        }
        Ok(ttl)
    }
}
