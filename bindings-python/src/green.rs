//! Programs whose threads are greenlets, as gevent and eventlet make them by patching `threading`: what may wait lets
//! the other greenlets of its thread run meanwhile, and who holds a lock is a greenlet.
//!
//! `lockwright._green` knows the two libraries. A greenlet's stack is moved away while another runs: nothing here lets
//! another thread point into it.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use lockwright::blocking::Wait;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyModule};

use crate::dispatcher::Answer;
use crate::error::Raised;
use crate::lock::this_thread;
use crate::{locked, outside};

/// How often whatever waits looks though nobody rang: a wait that has no end keeps the hub from ending the program as
/// one that blocks for ever.
const ROUND: Duration = Duration::from_secs(1);

/// How often a time limit that is over is looked at, until the store has taken back what was asked of it.
const PARTING: Duration = Duration::from_millis(5);

/// How often the library's own threads look for something to do.
const PAUSE: f64 = 0.05;

/// The hub that runs the greenlets of this thread.
pub(crate) struct Hub<'py>(Bound<'py, PyAny>);

/// The hub of this thread; none in a program whose threads are threads.
pub(crate) fn hub(py: Python<'_>) -> PyResult<Option<Hub<'_>>> {
    if !is_patched(py)? {
        return Ok(None);
    }
    let hub = of_python(py)?.call_method0(intern!(py, "here"))?;
    Ok((!hub.is_none()).then_some(Hub(hub)))
}

/// Who acquires and releases: the thread, or its greenlet.
pub(crate) fn me(py: Python<'_>) -> PyResult<u64> {
    if is_patched(py)? { of_python(py)?.call_method0(intern!(py, "who"))?.extract() } else { Ok(this_thread()) }
}

/// Has a thread that is one ask for credentials, and answer.
pub(crate) fn beside(py: Python<'_>, callable: Option<&Py<PyAny>>, answer: Py<Answer>) -> PyResult<()> {
    of_python(py)?.call_method1(intern!(py, "ask_beside"), (callable, answer)).map(drop)
}

pub(crate) fn is_patched(py: Python<'_>) -> PyResult<bool> {
    static THREADS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let threads = THREADS.get_or_try_init(py, || py.import("_thread").map(Bound::unbind))?.bind(py);
    Ok(!threads.getattr(intern!(py, "start_new_thread"))?.is_instance_of::<PyCFunction>())
}

fn of_python(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static GREEN: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    Ok(GREEN.get_or_try_init(py, || py.import("lockwright._green").map(Bound::unbind))?.bind(py))
}

impl Hub<'_> {
    /// Repeats `look`, which must not block, until it has a result; other greenlets run meanwhile.
    pub(crate) fn wait<T: Send>(
        &self,
        limit: Option<Duration>,
        mut look: impl FnMut(Wait<'_>) -> Option<T> + Send,
    ) -> PyResult<T> {
        let py = self.0.py();
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let notifier = self.0.getattr(intern!(py, "notifier"))?.cast_into::<Notifier>()?;
        let number = notifier.get().0.next.fetch_add(1, Ordering::Relaxed);
        let waker = Waker::from(Arc::new(NotifierWaker { notifier: notifier.get().0.clone(), number }));
        loop {
            if let Some(result) = outside(py, || Ok(look(Wait::Wake(&waker)))).map_err(Raised)? {
                return Ok(result);
            }
            let left = deadline.map_or(ROUND, |deadline| deadline.saturating_duration_since(Instant::now()));
            let round = left.clamp(PARTING, ROUND).as_secs_f64();
            self.0.call_method1(intern!(py, "wait"), (number, round))?;
        }
    }

    /// Lets other greenlets run, for a thread of the library's own: it does not keep the program going.
    pub(crate) fn pause(&self) -> PyResult<()> {
        self.0.call_method1(intern!(self.0.py(), "pause"), (PAUSE,)).map(drop)
    }
}

/// What the driver's thread notifies, without entering Python: a descriptor that the hub watches, and for whom it was
/// notified.
#[pyclass(frozen, module = "lockwright._lockwright")]
pub(crate) struct Notifier(Arc<Notifications>);

struct Notifications {
    reader: PipeReader,
    writer: PipeWriter,
    /// While there are any, one byte is in the pipe.
    numbers: Mutex<Vec<u64>>,
    next: AtomicU64,
}

/// The notifier as the waker of one who waits.
struct NotifierWaker {
    notifier: Arc<Notifications>,
    number: u64,
}

impl Wake for NotifierWaker {
    fn wake(self: Arc<Self>) {
        let mut numbers = locked(&self.notifier.numbers);
        // A pipe that refuses a byte is looked at a round later.
        if numbers.is_empty() {
            let _ = (&self.notifier.writer).write(&[0]);
        }
        numbers.push(self.number);
    }
}

#[pymethods]
impl Notifier {
    #[new]
    fn new() -> PyResult<Self> {
        let (reader, writer) = std::io::pipe()?;
        Ok(Notifier(Arc::new(Notifications { reader, writer, numbers: Mutex::default(), next: AtomicU64::new(1) })))
    }

    fn fileno(&self) -> RawFd {
        self.0.reader.as_raw_fd()
    }

    /// For whom it was notified since the last look.
    fn notified(&self) -> Vec<u64> {
        let mut numbers = locked(&self.0.numbers);
        if !numbers.is_empty() {
            let _ = (&self.0.reader).read(&mut [0]);
        }
        std::mem::take(&mut *numbers)
    }
}
