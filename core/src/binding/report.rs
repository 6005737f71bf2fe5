//! What the library tells of itself: events, and distributions of times.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::record::{Record, Value, fields};
use crate::error::{Error, Kind, Result};
pub use crate::events::backlog::Backlog;
use crate::events::{self, Event, Events, Level};
use crate::metrics::Histogram;
use crate::platform::thread;

/// Has a thread of its own tell the library's events of `level` and above, one after the other; at most `capacity` wait
/// for it. See [`events::collect`].
///
/// # Errors
/// Those of [`events::collect`], and `internal` when no thread can be started.
pub fn tell(
    level: Option<Level>,
    capacity: usize,
    mut tell: impl FnMut(Event) + Send + 'static,
) -> Result<Arc<Events>> {
    let events = events::collect(level, capacity)?;
    let serving = events.clone();
    let serve = move || {
        while let Some(come) = serving.wait(Duration::MAX) {
            come.into_iter().for_each(&mut tell);
        }
    };
    let refused = |error| {
        let message = "the thread for events could not be started; raise the limit of threads";
        Error::new(Kind::Internal, "connect", message).caused_by(error)
    };
    thread::spawn("lockwright-log", serve).map_err(refused)?;
    Ok(events)
}

/// An event as a language's own log is told of it: its level as a number, from 0 for errors to 4 for traces.
pub fn event(mut event: Event) -> Record {
    let fields = Record { class: "", fields: fields(&mut event) };
    let at = event.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let parts = [
        ("at", Value::Span(at)),
        ("level", u32::from(event.level as u8).into()),
        ("target", event.target.into()),
        ("message", event.message.into()),
        ("fields", fields.into()),
        ("missed", event.missed.into()),
    ];
    Record { class: "", fields: parts.into() }
}

/// The time within which the fraction `q` of what was measured lies.
///
/// # Errors
/// `invalid_argument` unless `q` is from 0 to 1.
pub fn quantile(of: &Histogram, q: f64) -> Result<Duration> {
    match (0.0..=1.0).contains(&q) {
        true => Ok(of.quantile(q)),
        false => Err(Error::invalid("metrics", "a quantile is a number from 0 to 1")),
    }
}
