//! What the core tells: promises, who holds a lock, figures, and events on their way to the process's warnings.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, SystemTime};

use lockwright::Health;
use lockwright::events::{self, Event, Level, Value};
use lockwright::guarantee::Guarantees;
use lockwright::lease::{Holder, Inspection};
use lockwright::metrics::{self, Metrics};
use lockwright::options::milliseconds;
use lockwright::{Error, Result};
use napi::Either;
use napi_derive::napi;

use crate::error::{Answer, answer};
use crate::locked;
use crate::reactor::Bell;

/// As `Guarantees` of `ts/records.ts`.
#[napi(object, object_from_js = false)]
pub struct Promises {
    pub store: String,
    pub layout: String,
    pub exclusive_until: String,
    pub token: String,
    pub fair: bool,
    pub reentrant: bool,
    pub shared: bool,
    pub push: bool,
    pub survives_disconnect: bool,
    pub incarnation: bool,
    pub notes: Vec<String>,
}

pub(crate) fn promises(promised: &Guarantees) -> Promises {
    Promises {
        store: promised.store.to_owned(),
        layout: promised.layout.to_owned(),
        exclusive_until: promised.exclusive_until.to_string(),
        token: promised.token.to_string(),
        fair: promised.fair,
        reentrant: promised.reentrant,
        shared: promised.shared,
        push: promised.push,
        survives_disconnect: promised.survives_disconnect,
        incarnation: promised.incarnation,
        notes: promised.notes.iter().map(|note| (*note).to_owned()).collect(),
    }
}

/// As `Inspection` of `ts/records.ts`.
#[napi(object, object_from_js = false)]
pub struct Seen {
    pub name: String,
    pub layout: String,
    pub holder: Option<SeenHolder>,
    pub waiters: f64,
    pub ahead: Vec<u32>,
    pub primitive: Option<&'static str>,
    pub shared: Option<SeenSharing>,
    pub latch: Option<SeenCounting>,
}

/// As `Counting` of `ts/records.ts`.
#[napi(object, object_from_js = false)]
pub struct SeenCounting {
    pub count: u32,
}

/// As `Sharing` of `ts/records.ts`.
#[napi(object, object_from_js = false)]
pub struct SeenSharing {
    pub primitive: &'static str,
    pub permits: Option<u32>,
    pub holders: Vec<SeenPart>,
    pub unlisted: f64,
}

/// As `Part` of `ts/records.ts`.
#[napi(object, object_from_js = false)]
pub struct SeenPart {
    pub holds: String,
    pub holder: SeenHolder,
}

/// As `Holder` of `ts/records.ts`.
#[napi(object, object_from_js = false)]
pub struct SeenHolder {
    pub owner: String,
    pub host: String,
    pub pid: u32,
    pub language: String,
    pub label: String,
    pub held_for: Option<f64>,
    pub remaining: f64,
    pub first_token: u64,
    pub last_token: u64,
}

pub(crate) fn seen(seen: Inspection) -> Seen {
    let shared = seen.shared.map(|shared| SeenSharing {
        primitive: shared.primitive.name(),
        permits: shared.permits,
        holders: shared
            .holders
            .into_iter()
            .map(|part| SeenPart { holds: part.describe(shared.primitive), holder: seen_holder(part.holder) })
            .collect(),
        unlisted: number(shared.unlisted),
    });
    let holder = seen.holder.map(seen_holder);
    let latch = seen.latch.map(|latch| SeenCounting { count: latch.count });
    let Inspection { name, layout, primitive, waiters, ahead, .. } = seen;
    Seen { name, layout, holder, waiters: number(waiters), ahead, primitive, shared, latch }
}

fn seen_holder(holder: Holder) -> SeenHolder {
    SeenHolder {
        owner: holder.owner,
        host: holder.card.host,
        pid: holder.card.pid,
        language: holder.card.language,
        label: holder.card.label,
        held_for: holder.held_for.map(in_ms),
        remaining: if holder.remaining == Duration::MAX { f64::INFINITY } else { in_ms(holder.remaining) },
        first_token: holder.first_token,
        last_token: holder.last_token,
    }
}

pub(crate) fn in_ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1_000.0
}

/// A count as JavaScript has numbers; exact up to 2^53.
#[allow(clippy::cast_precision_loss)]
fn number(count: u64) -> f64 {
    count as f64
}

/// As `Metrics` of `ts/records.ts`, which takes it apart.
#[napi]
pub struct Figures(Metrics);

impl Figures {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Figures(metrics)
    }
}

#[napi]
impl Figures {
    #[napi(catch_unwind)]
    pub fn counts(&self) -> BTreeMap<&'static str, f64> {
        let metrics = &self.0;
        let counts = [
            ("held", metrics.held),
            ("waiting", metrics.waiting),
            ("acquired", metrics.acquired),
            ("reentered", metrics.reentered),
            ("handOffs", metrics.hand_offs),
            ("contended", metrics.contended),
            ("refused", metrics.refused),
            ("timeouts", metrics.timeouts),
            ("cancelled", metrics.cancelled),
            ("failed", metrics.failed),
            ("renewals", metrics.renewals),
            ("renewalFailures", metrics.renewal_failures),
            ("requests", metrics.requests),
            ("roundTrips", metrics.round_trips),
            ("reconnects", metrics.reconnects),
        ];
        counts.into_iter().map(|(name, count)| (name, number(count))).collect()
    }

    #[napi(catch_unwind)]
    pub fn lost(&self) -> BTreeMap<&'static str, f64> {
        self.0.lost.each().map(|(reason, count)| (reason.code(), number(count))).collect()
    }

    #[napi(catch_unwind)]
    pub fn wait(&self) -> Histogram {
        Histogram(self.0.wait.clone())
    }

    #[napi(catch_unwind)]
    pub fn hold(&self) -> Histogram {
        Histogram(self.0.hold.clone())
    }
}

/// A distribution of times, in milliseconds.
#[napi]
pub struct Histogram(metrics::Histogram);

#[napi]
impl Histogram {
    #[napi(getter, catch_unwind)]
    pub fn count(&self) -> f64 {
        number(self.0.count())
    }

    #[napi(getter, catch_unwind)]
    pub fn sum(&self) -> f64 {
        in_ms(self.0.sum())
    }

    #[napi(getter, catch_unwind)]
    pub fn max(&self) -> f64 {
        in_ms(self.0.max())
    }

    #[napi(catch_unwind)]
    pub fn quantile(&self, q: f64) -> Answer<f64> {
        let inside = (0.0..=1.0).contains(&q);
        let refused = || Error::invalid("metrics", "a quantile is a number from 0 to 1");
        answer(if inside { Ok(in_ms(self.0.quantile(q))) } else { Err(refused()) })
    }

    #[napi(catch_unwind)]
    pub fn at_most(&self, bound: f64) -> Answer<f64> {
        answer(milliseconds("metrics", "bound", bound).map(|bound| number(self.0.at_most(bound))))
    }

    #[napi(catch_unwind)]
    pub fn buckets(&self) -> Vec<Vec<f64>> {
        self.0.buckets().map(|(bound, count)| vec![in_ms(bound), number(count)]).collect()
    }
}

/// As `LogEvent` of `ts/log.ts`.
#[napi(object, object_from_js = false)]
pub struct Heard {
    pub at: f64,
    pub level: u8,
    pub target: &'static str,
    pub message: String,
    pub fields: Vec<Said>,
    pub missed: f64,
}

/// A field of an event.
#[napi(object, object_from_js = false)]
pub struct Said {
    pub name: &'static str,
    pub value: Either<Either<String, f64>, bool>,
}

fn heard(event: Event) -> Heard {
    let field = |value| match value {
        Value::Text(text) => Either::A(Either::A(text)),
        Value::Seconds(seconds) => Either::A(Either::B(seconds)),
        #[allow(clippy::cast_precision_loss)]
        Value::Number(number) => Either::A(Either::B(number as f64)),
        Value::Flag(flag) => Either::B(flag),
    };
    Heard {
        at: in_ms(event.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()),
        level: event.level as u8,
        target: event.target,
        message: event.message,
        fields: event.fields.into_iter().map(|(name, value)| Said { name, value: field(value) }).collect(),
        missed: number(event.missed),
    }
}

/// How many events wait for an environment to take them; and how many in the core's mailbox.
const CAPACITY: usize = 10_000;

/// What is told where nobody said what it wants.
const UNASKED: Option<Level> = Some(Level::Warn);

/// The environments that may be told what happens in this process.
struct Hall {
    listeners: Vec<Listener>,
}

/// One environment: the main thread's, a worker's, that of another copy of the wrapper.
struct Listener {
    bell: Weak<Bell>,
    /// Of what level it wants events; `None` while it did not say.
    wants: Option<Option<Level>>,
    events: VecDeque<Event>,
    /// How many found no room since the last one that did.
    missed: u64,
}

impl Listener {
    fn is(&self, bell: &Arc<Bell>) -> bool {
        self.bell.ptr_eq(&Arc::downgrade(bell))
    }

    fn take(&mut self, event: &Event) {
        if self.events.len() >= CAPACITY {
            self.missed += 1 + event.missed;
            return;
        }
        let missed = event.missed + std::mem::take(&mut self.missed);
        self.events.push_back(Event { missed, ..event.clone() });
        if let Some(bell) = self.bell.upgrade() {
            bell.ring();
        }
    }
}

impl Hall {
    /// The most that anybody wants.
    fn level(&self) -> Option<Level> {
        self.listeners.iter().filter_map(|listener| listener.wants).max().unwrap_or(UNASKED)
    }

    /// Tells everybody who asked for it; while nobody asked for anything, the first one.
    fn tell(&mut self, event: &Event) {
        let level = Some(event.level);
        if self.listeners.iter().any(|listener| listener.wants.is_some()) {
            let wants = |listener: &&mut Listener| listener.wants.flatten() >= level;
            self.listeners.iter_mut().filter(wants).for_each(|listener| listener.take(event));
        } else if UNASKED >= level {
            self.listeners.iter_mut().take(1).for_each(|first| first.take(event));
        }
    }

    fn listener(&mut self, bell: &Arc<Bell>) -> &mut Listener {
        let known = self.listeners.iter().position(|listener| listener.is(bell));
        let place = known.unwrap_or_else(|| {
            let bell = Arc::downgrade(bell);
            self.listeners.push(Listener { bell, wants: None, events: VecDeque::new(), missed: 0 });
            self.listeners.len() - 1
        });
        &mut self.listeners[place]
    }
}

static HALL: Mutex<Hall> = Mutex::new(Hall { listeners: Vec::new() });
static EVENTS: OnceLock<Result<Arc<events::Events>>> = OnceLock::new();

/// Has events told to this environment, of `level` (0, errors, to 4, traces; above, none) from now on. Without one, as it said
/// before; if it never did, warnings, while no environment said anything and this is the first.
pub(crate) fn listen(bell: &Arc<Bell>, level: Option<u8>) -> Result<()> {
    let events = EVENTS.get_or_init(begin).clone()?;
    let mut hall = locked(&HALL);
    let listener = hall.listener(bell);
    if let Some(number) = level {
        listener.wants = Some(match number {
            0 => Some(Level::Error),
            1 => Some(Level::Warn),
            2 => Some(Level::Info),
            3 => Some(Level::Debug),
            4 => Some(Level::Trace),
            _ => None,
        });
    }
    events.set_level(hall.level());
    Ok(())
}

fn begin() -> Result<Arc<events::Events>> {
    let events = events::collect(UNASKED, CAPACITY)?;
    let serving = events.clone();
    let refused = |error: std::io::Error| {
        let message = "the thread for events could not be started; raise the limit of threads";
        Error::new(lockwright::Kind::Internal, "connect", message).caused_by(error)
    };
    let named = std::thread::Builder::new().name("lockwright-log".into());
    named.spawn(move || serve(&serving)).map_err(refused)?;
    Ok(events)
}

fn serve(events: &events::Events) {
    while let Some(come) = events.wait(Duration::MAX) {
        let mut hall = locked(&HALL);
        come.iter().for_each(|event| hall.tell(event));
    }
}

/// What happened, for this environment to tell.
pub(crate) fn news(bell: &Arc<Bell>) -> Vec<Heard> {
    let mut hall = locked(&HALL);
    let listener = hall.listeners.iter_mut().find(|listener| listener.is(bell));
    listener.map_or_else(Vec::new, |listener| listener.events.drain(..).map(heard).collect())
}

/// This environment ends.
pub(crate) fn leave(bell: &Arc<Bell>) {
    let mut hall = locked(&HALL);
    hall.listeners.retain(|listener| !listener.is(bell));
    if let Some(Ok(events)) = EVENTS.get() {
        events.set_level(hall.level());
    }
}

/// As `Health` of `ts/records.ts`.
#[napi(object, object_from_js = false)]
pub struct Condition {
    pub took: f64,
    pub eviction: Option<String>,
    pub may_evict: bool,
}

impl From<Health> for Condition {
    fn from(health: Health) -> Self {
        Condition { took: in_ms(health.took), may_evict: health.may_evict(), eviction: health.eviction }
    }
}
