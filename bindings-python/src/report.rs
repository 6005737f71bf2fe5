//! What locks did: figures, and events on their way to Python's `logging`.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use lockwright::binding::report;
use lockwright::events::{self, Level};
use lockwright::{Result, fork_generation, metrics};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::error::Raised;
use crate::value::record;
use crate::{Span, green, locked, outside};

/// How many events wait for Python's thread; it takes them within milliseconds, but for a handler that is slow.
const CAPACITY: usize = 10_000;

/// A distribution of times from 1 us to 19 hours, in seconds, each kept to two digits.
#[pyclass(frozen, module = "lockwright")]
pub(crate) struct Histogram(pub(crate) metrics::Histogram);

#[pymethods]
impl Histogram {
    /// How many times it has.
    #[getter]
    fn count(&self) -> u64 {
        self.0.count()
    }

    /// The sum of all, in seconds.
    #[getter]
    fn sum(&self) -> f64 {
        self.0.sum().as_secs_f64()
    }

    /// The longest of all, in seconds.
    #[getter]
    fn max(&self) -> f64 {
        self.0.max().as_secs_f64()
    }

    /// The time within which the fraction `q` (0 to 1) of all lies; 0 while there is none.
    fn quantile(&self, q: f64) -> PyResult<f64> {
        Ok(report::quantile(&self.0, q).map_err(Raised)?.as_secs_f64())
    }

    /// How many are not longer than `bound`: what a cumulative bucket of Prometheus counts.
    fn at_most(&self, bound: Span) -> PyResult<u64> {
        Ok(self.0.at_most(bound.check("metrics", "bound")?))
    }

    /// The buckets that are not empty: the longest time of each, and how many are in it.
    fn buckets(&self) -> Vec<(f64, u64)> {
        self.0.buckets().map(|(bound, count)| (bound.as_secs_f64(), count)).collect()
    }

    fn __repr__(&self) -> String {
        let [half, most, longest] =
            [self.0.quantile(0.5), self.0.quantile(0.99), self.0.max()].map(|time| time.as_secs_f64());
        format!("<lockwright.Histogram of {}: p50 {half:.6} s, p99 {most:.6} s, max {longest:.6} s>", self.0.count())
    }
}

static LOG: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Python's end of the events.
fn log(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    let log = || py.import("lockwright._log").map(|log| log.into_any().unbind());
    Ok(LOG.get_or_try_init(py, log)?.bind(py))
}

/// Logs that a guard was collected, unless it was by the interpreter's exit: what is held then is no mistake.
pub(crate) fn tell_collected(py: Python<'_>, message: &str) -> PyResult<()> {
    static IS_FINALIZING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let Some(log) = LOG.get(py) else { return Ok(()) };
    // It is none of the modules that the exit takes apart.
    match IS_FINALIZING.import(py, "sys", "is_finalizing") {
        Ok(is_finalizing) if !is_finalizing.call0()?.extract()? => {
            log.call_method1(py, "collected", (message,)).map(drop)
        }
        _ => Ok(()),
    }
}

/// What of `logging` says what is to be told, and in which process.
type Setup = (u64, [i64; 7]);

/// Has the levels of `logging` looked at again, if anything was set up since the last time. What nothing changed costs
/// no code of Python's, which could not be ended by the interpreter's exit below a frame of Rust.
pub(crate) fn follow_logging(py: Python<'_>) -> PyResult<()> {
    static FOLLOWED: Mutex<Option<Setup>> = Mutex::new(None);
    let log = log(py)?;
    let setup = setup(log)?;
    if locked(&FOLLOWED).replace(setup) == Some(setup) {
        return Ok(());
    }
    log.call_method0(intern!(py, "follow")).map(drop)
}

fn setup(log: &Bound<'_, PyAny>) -> PyResult<Setup> {
    let py = log.py();
    let logger = log.getattr(intern!(py, "_logger"))?;
    let root = logger.getattr(intern!(py, "root"))?;
    let number = |of: &Bound<'_, PyAny>, name| of.getattr(name)?.extract::<i64>();
    let handlers = |of: &Bound<'_, PyAny>| of.getattr(intern!(py, "handlers"))?.len().map(|count| count as i64);
    let looked_at = [
        handlers(&logger)?,
        number(&logger, intern!(py, "level"))?,
        number(&logger, intern!(py, "disabled"))?,
        number(&logger, intern!(py, "propagate"))?,
        handlers(&root)?,
        number(&root, intern!(py, "level"))?,
        number(&logger.getattr(intern!(py, "manager"))?, intern!(py, "_disable"))?,
    ];
    Ok((fork_generation(), looked_at))
}

/// The mailbox of the core's events. One for the process; a forked child has an empty one of its own.
#[pyclass(frozen, module = "lockwright._lockwright")]
pub(crate) struct Events(Arc<events::Events>);

#[pymethods]
impl Events {
    #[new]
    fn new() -> PyResult<Self> {
        static EVENTS: OnceLock<Result<Arc<events::Events>>> = OnceLock::new();
        let events = EVENTS.get_or_init(|| events::collect(None, CAPACITY)).clone();
        Ok(Events(events.map_err(Raised)?))
    }

    /// Levels are numbered from 0, errors, to 4, traces.
    fn set_level(&self, level: Option<u8>) {
        self.0.set_level(level.and_then(Level::numbered));
    }

    /// What there is to tell of each, by name; `None` when there will be no more.
    fn wait<'py>(&self, py: Python<'py>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
        let hub = green::hub(py)?;
        let limit = if hub.is_some() { Duration::ZERO } else { Duration::MAX };
        let taken = loop {
            let taken = outside(py, || Ok(self.0.wait(limit))).map_err(Raised)?;
            match &hub {
                Some(hub) if taken.as_ref().is_some_and(Vec::is_empty) => hub.pause()?,
                _ => break taken,
            }
        };
        taken.map(|events| events.into_iter().map(|event| record(py, report::event(event))).collect()).transpose()
    }

    fn close(&self) {
        self.0.close();
    }
}
