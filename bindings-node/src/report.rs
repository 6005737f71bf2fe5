//! What the core tells of itself: distributions of times, and events on their way to the process's warnings.

use std::sync::{Arc, Mutex, OnceLock, Weak};

use lockwright::binding::report::{self, Backlog};
use lockwright::binding::{Given, Record};
use lockwright::events::{Event, Events, Level};
use lockwright::{Result, metrics};
use napi_derive::napi;

use crate::error::{Answer, answer};
use crate::locked;
use crate::reactor::Notifier;
use crate::value::{NODE, number};

/// A distribution of times, in milliseconds.
#[napi]
pub struct Histogram(pub(crate) metrics::Histogram);

#[napi]
impl Histogram {
    #[napi(getter, catch_unwind)]
    pub fn count(&self) -> f64 {
        number(self.0.count())
    }

    #[napi(getter, catch_unwind)]
    pub fn sum(&self) -> f64 {
        NODE.number(self.0.sum())
    }

    #[napi(getter, catch_unwind)]
    pub fn max(&self) -> f64 {
        NODE.number(self.0.max())
    }

    #[napi(catch_unwind)]
    pub fn quantile(&self, q: f64) -> Answer<f64> {
        answer(report::quantile(&self.0, q).map(|time| NODE.number(time)))
    }

    #[napi(catch_unwind)]
    pub fn at_most(&self, bound: f64) -> Answer<f64> {
        let bound = NODE.span("metrics", "bound", &Given::Number(bound));
        answer(bound.map(|bound| number(self.0.at_most(bound))))
    }

    #[napi(catch_unwind)]
    pub fn buckets(&self) -> Vec<Vec<f64>> {
        self.0.buckets().map(|(bound, count)| vec![NODE.number(bound), number(count)]).collect()
    }
}

/// How many events wait for an environment to take them; and how many in the core.
const CAPACITY: usize = 10_000;

/// What is told where nobody said what it wants.
const UNASKED: Option<Level> = Some(Level::Warn);

/// The environments that may be told what happens in this process.
struct Listeners(Vec<Listener>);

/// One environment: the main thread's, a worker's, that of another copy of the wrapper.
struct Listener {
    notifier: Weak<Notifier>,
    /// Of what level it wants events; `None` while it did not say.
    wants: Option<Option<Level>>,
    backlog: Backlog,
}

impl Listener {
    fn is(&self, notifier: &Arc<Notifier>) -> bool {
        self.notifier.ptr_eq(&Arc::downgrade(notifier))
    }

    fn take(&mut self, event: &Event) {
        if self.backlog.push(event.clone(), CAPACITY)
            && let Some(notifier) = self.notifier.upgrade()
        {
            notifier.notify();
        }
    }
}

impl Listeners {
    /// The most that anybody wants.
    fn level(&self) -> Option<Level> {
        self.0.iter().filter_map(|listener| listener.wants).max().unwrap_or(UNASKED)
    }

    /// Tells everybody who asked for it; while nobody asked for anything, the first one.
    fn tell(&mut self, event: &Event) {
        let level = Some(event.level);
        if self.0.iter().any(|listener| listener.wants.is_some()) {
            let wants = |listener: &&mut Listener| listener.wants.flatten() >= level;
            self.0.iter_mut().filter(wants).for_each(|listener| listener.take(event));
        } else if UNASKED >= level {
            self.0.iter_mut().take(1).for_each(|first| first.take(event));
        }
    }

    fn listener(&mut self, notifier: &Arc<Notifier>) -> &mut Listener {
        let known = self.0.iter().position(|listener| listener.is(notifier));
        let place = known.unwrap_or_else(|| {
            let notifier = Arc::downgrade(notifier);
            self.0.push(Listener { notifier, wants: None, backlog: Backlog::default() });
            self.0.len() - 1
        });
        &mut self.0[place]
    }
}

static LISTENERS: Mutex<Listeners> = Mutex::new(Listeners(Vec::new()));
static EVENTS: OnceLock<Result<Arc<Events>>> = OnceLock::new();

/// Has events told to this environment, of `level` (0, errors, to 4, traces; above, none) from now on. Without one, as
/// it said before; if it never did, warnings, while no environment said anything and this is the first.
pub(crate) fn listen(notifier: &Arc<Notifier>, level: Option<u8>) -> Result<()> {
    let events =
        EVENTS.get_or_init(|| report::tell(UNASKED, CAPACITY, |event| locked(&LISTENERS).tell(&event))).clone()?;
    let mut all = locked(&LISTENERS);
    let listener = all.listener(notifier);
    if let Some(number) = level {
        listener.wants = Some(Level::numbered(number));
    }
    events.set_level(all.level());
    Ok(())
}

/// What happened, for this environment to tell.
pub(crate) fn news(notifier: &Arc<Notifier>) -> Vec<Record> {
    let mut all = locked(&LISTENERS);
    let listener = all.0.iter_mut().find(|listener| listener.is(notifier));
    listener.map_or_else(Vec::new, |listener| listener.backlog.take().into_iter().map(report::event).collect())
}

/// This environment ends.
pub(crate) fn leave(notifier: &Arc<Notifier>) {
    let mut all = locked(&LISTENERS);
    all.0.retain(|listener| !listener.is(notifier));
    if let Some(Ok(events)) = EVENTS.get() {
        events.set_level(all.level());
    }
}
