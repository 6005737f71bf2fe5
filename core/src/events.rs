//! The library's events for a language that has a logging of its own.
//!
//! A Rust program installs whatever `tracing` subscriber it likes and needs none of this. A binding cannot let the
//! thread on which an event happens run the language's code; so it [`collect`]s events in a mailbox of fixed size,
//! which one of the language's own threads empties. `docs/observability.md` lists the events.

pub(crate) mod backlog;

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber};

use self::backlog::Backlog;
use crate::error::{Error, Result};
use crate::platform::fork::Generational;
use crate::platform::mutex::locked;

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The library cannot do its work.
    Error,
    /// A lock was lost, or the store does not answer.
    Warn,
    /// The store answers again.
    Info,
    /// A lock was granted, released, waited for.
    Debug,
    /// A lease was renewed.
    Trace,
}

impl Level {
    /// That of a number, from 0 for errors to 4 for traces, as a language may have it.
    pub fn numbered(number: u8) -> Option<Self> {
        use Level::{Debug, Error, Info, Trace, Warn};
        [Error, Warn, Info, Debug, Trace].get(usize::from(number)).copied()
    }
}

impl Level {
    fn filter(number: u8) -> LevelFilter {
        match number {
            0 => LevelFilter::ERROR,
            1 => LevelFilter::WARN,
            2 => LevelFilter::INFO,
            3 => LevelFilter::DEBUG,
            4 => LevelFilter::TRACE,
            _ => LevelFilter::OFF,
        }
    }
}

impl From<tracing::Level> for Level {
    fn from(level: tracing::Level) -> Self {
        match level {
            tracing::Level::ERROR => Level::Error,
            tracing::Level::WARN => Level::Warn,
            tracing::Level::INFO => Level::Info,
            tracing::Level::DEBUG => Level::Debug,
            tracing::Level::TRACE => Level::Trace,
        }
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When, by the host's clock.
    pub at: SystemTime,
    /// How much it matters.
    pub level: Level,
    /// What kind it is, such as `lockwright::lost`.
    pub target: &'static str,
    /// A sentence for a person.
    pub message: String,
    /// What it concerns.
    pub fields: Vec<(&'static str, Value)>,
    /// How many events before this one found the mailbox full and are lost.
    pub missed: u64,
}

/// One field of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A name, a code, a token.
    Text(String),
    /// A span of time in seconds.
    Seconds(f64),
    /// A number.
    Number(i64),
    /// Yes or no.
    Flag(bool),
}

/// Collects the library's events of `level` and above from now on, in a mailbox of `capacity` events, for whoever calls
/// [`Events::wait`]. Not more than once in a process; a forked child goes on with an empty mailbox of its own.
///
/// # Errors
/// `unsupported` when this program has a `tracing` subscriber already, which then gets the events.
pub fn collect(level: Option<Level>, capacity: usize) -> Result<Arc<Events>> {
    let level = AtomicU8::new(number(level));
    let events = Arc::new(Events {
        boxes: Generational::new(Arc::default()),
        level,
        spans: AtomicU64::new(1),
        capacity,
        bell: OnceLock::new(),
    });
    let refused = |_| Error::unsupported("connect", "this process has a tracing subscriber already; use that one");
    tracing::subscriber::set_global_default(Collector(events.clone())).map_err(refused)?;
    Ok(events)
}

fn number(level: Option<Level>) -> u8 {
    level.map_or(u8::MAX, |level| level as u8)
}

/// The mailbox; see [`collect`].
pub struct Events {
    boxes: Generational<Mailbox>,
    level: AtomicU8,
    spans: AtomicU64,
    capacity: usize,
    bell: OnceLock<fn()>,
}

#[derive(Default)]
struct Mailbox {
    queue: Mutex<EventQueue>,
    arrived: Condvar,
}

#[derive(Default)]
struct EventQueue {
    backlog: Backlog,
    closed: bool,
}

impl Events {
    /// From now on only events of `level` and above; `None` for none at all, which then cost nothing.
    pub fn set_level(&self, level: Option<Level>) {
        self.level.store(number(level), Ordering::Relaxed);
        tracing::callsite::rebuild_interest_cache();
    }

    /// Takes all events there are; waits for one for at most `limit` if there is none. `None` once the mailbox is
    /// closed and empty. Blocks its thread, which must not hold what other threads need to go on.
    pub fn wait(&self, limit: Duration) -> Option<Vec<Event>> {
        let mailbox = self.mailbox();
        let give_up = Instant::now().checked_add(limit);
        let mut queue = locked(&mailbox.queue);
        while queue.backlog.is_empty() && !queue.closed {
            let left = give_up.map_or(Duration::from_secs(3600), |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            queue = mailbox.arrived.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let over = queue.closed && queue.backlog.is_empty();
        (!over).then(|| queue.backlog.take().into())
    }

    /// Has `bell` called whenever an event arrives, by the thread on which it happens: for a language that has no
    /// thread to wait with. Only the first one counts.
    pub fn ring(&self, bell: fn()) {
        self.bell.get_or_init(|| bell);
    }

    /// Ends every wait, now and later, and takes no more events: the program ends.
    pub fn close(&self) {
        let mailbox = self.mailbox();
        locked(&mailbox.queue).closed = true;
        mailbox.arrived.notify_all();
    }

    fn mailbox(&self) -> &Mailbox {
        self.boxes.get_or_make(Arc::default)
    }

    fn leave(&self, event: Event) {
        let mailbox = self.mailbox();
        let mut queue = locked(&mailbox.queue);
        if !queue.closed && queue.backlog.push(event, self.capacity) {
            mailbox.arrived.notify_one();
            drop(queue);
            self.bell.get().into_iter().for_each(|bell| bell());
        }
    }

    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        let ours =
            metadata.target().strip_prefix("lockwright").is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
        ours && metadata.is_event() && *metadata.level() <= Level::filter(self.level.load(Ordering::Relaxed))
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Events(at most {})", self.capacity)
    }
}

/// What `tracing` hands events to.
struct Collector(Arc<Events>);

impl Subscriber for Collector {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.0.wants(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.0.wants(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(Level::filter(self.0.level.load(Ordering::Relaxed)))
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let metadata = event.metadata();
        let (level, target) = ((*metadata.level()).into(), metadata.target());
        let mut fields =
            Event { at: SystemTime::now(), level, target, message: String::new(), fields: Vec::new(), missed: 0 };
        event.record(&mut fields);
        self.0.leave(fields);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(self.0.spans.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Visit for Event {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.fields.push((field.name(), Value::Seconds(value)));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields.push((field.name(), Value::Number(value)));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.push((field.name(), Value::Number(i64::try_from(value).unwrap_or(i64::MAX))));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.push((field.name(), Value::Flag(value)));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.push((field.name(), Value::Text(value.to_owned())));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            name => self.fields.push((name, Value::Text(text))),
        }
    }
}
