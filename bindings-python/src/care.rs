//! What a program asks of its client as a whole: whether the store serves it, and to hold nothing any more before it ends.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use lockwright::blocking::{Client, Wait};
use lockwright::{Async, Health, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::client::record;
use crate::error::Raised;
use crate::{SLICE, green, is_main_thread, outside};

pub(crate) fn ping<'py>(py: Python<'py>, client: &Client) -> PyResult<Bound<'py, PyAny>> {
    let health = match green::hub(py)? {
        Some(hub) => {
            let client = client.clone().into_face::<Async>();
            hub.wait(None, polled(async move { client.ping().await }))?
        }
        None => outside(py, || client.ping()),
    };
    health_record(py, health.map_err(Raised)?)
}

/// The names of the locks that are held yet. Signal handlers run meanwhile, and so do other greenlets, which may be those that are to
/// release something.
pub(crate) fn drain(py: Python<'_>, client: &Client, limit: Duration) -> PyResult<Vec<String>> {
    if let Some(hub) = green::hub(py)? {
        let client = client.clone().into_face::<Async>();
        return Ok(hub.wait(None, polled(async move { client.drain(limit).await }))?.map_err(Raised)?);
    }
    let slice = if is_main_thread(py)? { SLICE } else { Duration::MAX };
    let began = Instant::now();
    loop {
        let left = limit.saturating_sub(began.elapsed());
        let held = outside(py, || client.drain(left.min(slice))).map_err(Raised)?;
        if held.is_empty() || left <= slice {
            return Ok(held);
        }
        py.check_signals()?;
    }
}

/// Looks whether `work` is done. It is called with wakers only.
fn polled<T>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> impl FnMut(Wait<'_>) -> Option<Result<T>> + Send {
    let mut work: Pin<Box<dyn Future<Output = Result<T>> + Send>> = Box::pin(work);
    move |how| {
        let Wait::Wake(waker) = how else { return None };
        match work.as_mut().poll(&mut Context::from_waker(waker)) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }
}

pub(crate) fn health_record(py: Python<'_>, health: Health) -> PyResult<Bound<'_, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("took", health.took.as_secs_f64())?;
    fields.set_item("eviction", health.eviction)?;
    record(py, "Health", &fields)
}
