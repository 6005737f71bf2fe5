//! The timer queue: looks at every entry when it is due, for renewals, deadlines and retries. One task per client,
//! started when first needed, on the background runtime.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::sync::Notify;

use super::engine::{Engine, no_background};
use super::entry::Entry;
use super::flusher::BatchKind;
use crate::platform::clock;
use crate::platform::fence;
use crate::platform::mutex::locked;
use crate::platform::runtime;
use crate::platform::timer::Timer;
use crate::protocol::BATCH;
use crate::time::Time;

/// See the [module](self). Scheduling costs the fast path one atomic load when the queue's task comes early enough.
pub(crate) struct TimerQueue {
    engine: Weak<Engine>,
    new: Mutex<Vec<Timed>>,
    /// At how many new timers the task takes them up, though none is due, to forget those of locks that nobody names
    /// any more: a timer keeps the memory of its entry.
    most_new: AtomicUsize,
    /// When the task will wake by itself.
    next: AtomicU64,
    running: AtomicBool,
    wake: Arc<Notify>,
}

/// New timers of which not much is made.
const FEW: usize = 1024;

struct Timed {
    due: Time,
    entry: Weak<Entry>,
}

/// When a timer for `due` comes that is set at `now`: up to a thousandth of the time later, so that those of many locks
/// come together. Else the task would wake for each lock that was acquired, to find that the store did answer in time.
fn together(due: Time, now: Time) -> Time {
    let slack = due.since(now).as_nanos() / 1024;
    let grain = 1 << slack.max(1).ilog2().min(63);
    Time::from_nanos(due.as_nanos().checked_next_multiple_of(grain).unwrap_or(due.as_nanos()))
}

impl TimerQueue {
    pub(crate) fn new(engine: Weak<Engine>) -> Self {
        TimerQueue {
            engine,
            new: Mutex::default(),
            most_new: AtomicUsize::new(FEW),
            next: AtomicU64::new(u64::MAX),
            running: AtomicBool::new(false),
            wake: Arc::new(Notify::new()),
        }
    }

    /// The task will look at `entry` at `due`, or a little later [with others](together).
    pub(crate) fn schedule(&self, entry: &Arc<Entry>, due: Time, now: Time) {
        let due = together(due, now);
        let new = {
            let mut new = locked(&self.new);
            new.push(Timed { due, entry: Arc::downgrade(entry) });
            new.len()
        };
        if new == self.most_new.load(Ordering::Relaxed) {
            self.wake.notify_one();
        }
        if due.as_nanos() < self.next.load(Ordering::SeqCst) {
            self.next.fetch_min(due.as_nanos(), Ordering::SeqCst);
            if !self.running.swap(true, Ordering::AcqRel) {
                self.start();
            }
            self.wake.notify_one();
        }
    }

    /// The engine is gone or closed: lets the task find out.
    pub(crate) fn stop(&self) {
        self.wake.notify_one();
    }

    /// Never looks at anything, as if its thread got no time.
    #[cfg(test)]
    pub(crate) fn starve(&self) {
        self.running.store(true, Ordering::SeqCst);
    }

    /// Whether the task of a closed engine, which has nothing to look at any more, may end: who schedules something
    /// after this starts another one.
    fn may_end(&self) -> bool {
        self.next.store(u64::MAX, Ordering::SeqCst);
        self.running.store(false, Ordering::SeqCst);
        locked(&self.new).is_empty() || self.running.swap(true, Ordering::AcqRel)
    }

    fn start(&self) {
        let (engine, wake) = (self.engine.clone(), self.wake.clone());
        match runtime::handle() {
            Ok(handle) => drop(handle.spawn(keep_turning(engine, wake))),
            Err(error) => no_background(&error),
        }
    }

    /// The task has nothing to do before this, the `first` of what it took up: when it wakes by itself. Whoever set a
    /// timer during its turn did not wake it; only for one that is due sooner need it wake sooner, else it would turn
    /// once for each lock that a thread acquires meanwhile.
    fn sleeps_until(&self, first: Option<Time>) -> Time {
        let first = first.unwrap_or(Time::from_nanos(u64::MAX));
        self.next.store(first.as_nanos(), Ordering::SeqCst);
        locked(&self.new).iter().map(|timed| timed.due).fold(first, Time::min)
    }

    fn collect(&self, timers: &mut Timers) {
        // From here on, whoever comes sooner than what is already taken up must wake us.
        let mut new = locked(&self.new);
        for timed in new.drain(..) {
            timers.add(timed);
        }
        // What a burst needed is not kept for ever.
        new.shrink_to(FEW);
        drop(new);
        if timers.new >= self.most_new.load(Ordering::Relaxed) {
            let left = timers.forget(|entry| entry.strong_count() > 0);
            // A quarter as many as there are: looking through all of them costs each new one little.
            self.most_new.store(FEW + left / 4, Ordering::Relaxed);
        }
    }
}

/// Those of one moment.
type Entries = SmallVec<[Weak<Entry>; 1]>;

/// The timers that the task has taken up. Those that are due at once are looked at in the order in which they were set:
/// locks that were taken one after another, whose renewals fall on common ticks, lie one after another in memory.
#[derive(Default)]
struct Timers {
    by_due: BTreeMap<Time, Entries>,
    /// Those of a moment that came which were not looked at yet.
    due: Option<smallvec::IntoIter<[Weak<Entry>; 1]>>,
    /// How many of them came since those of no use were looked for.
    new: usize,
}

impl Timers {
    fn add(&mut self, Timed { due, entry }: Timed) {
        self.by_due.entry(due).or_default().push(entry);
        self.new += 1;
    }

    /// When the first is due.
    fn next(&self) -> Option<Time> {
        self.by_due.first_key_value().map(|(due, _)| *due)
    }

    /// The next whose time has come.
    fn take_due(&mut self, now: Time) -> Option<Weak<Entry>> {
        loop {
            if let Some(entry) = self.due.as_mut().and_then(Iterator::next) {
                return Some(entry);
            }
            let first = self.by_due.first_entry().filter(|first| *first.key() <= now)?;
            self.due = Some(first.remove().into_iter());
        }
    }

    /// Keeps those of the entries that are `wanted`: how many.
    fn forget(&mut self, wanted: impl Fn(&Weak<Entry>) -> bool) -> usize {
        self.by_due.retain(|_, entries| {
            entries.retain(|entry| wanted(entry));
            entries.shrink_to_fit();
            !entries.is_empty()
        });
        self.new = 0;
        self.due.as_ref().map_or(0, |due| due.len()) + self.by_due.values().map(SmallVec::len).sum::<usize>()
    }
}

/// Whatever a turn may die of, the timers outlive it.
async fn keep_turning(engine: Weak<Engine>, wake: Arc<Notify>) {
    let mut timers = Timers::default();
    while let Err(panicked) = fence::contained(turn(&engine, &wake, &mut timers)).await {
        let Some(engine) = engine.upgrade() else { return };
        panicked.tell("the timer queue", None, engine.store.address());
        drop(engine);
        tokio::time::sleep(fence::PAUSE).await;
    }
}

async fn turn(engine: &Weak<Engine>, wake: &Notify, timers: &mut Timers) {
    let mut timer = Timer::new();
    loop {
        let next = {
            let Some(engine) = engine.upgrade() else { return };
            engine.timer_queue.next.store(0, Ordering::SeqCst);
            engine.timer_queue.collect(timers);
            visit_due(&engine, timers).await;
            if engine.check_open().is_err() {
                let left = timers.forget(|entry| entry.upgrade().is_some_and(|entry| !entry.is_idle()));
                if left == 0 && engine.timer_queue.may_end() {
                    return;
                }
            }
            engine.timer_queue.sleeps_until(timers.next())
        };
        let mut woken = std::pin::pin!(wake.notified());
        poll_fn(|context| {
            let rung = woken.as_mut().poll(context).is_ready();
            if rung || timer.poll_reached(next, context).is_ready() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Of very many locks that are due at once so many are looked at before the store has taken what came of them: else
/// all their renewals would be in memory together, and none of the locks in the processor's when it is answered.
const PORTION: usize = 2 * BATCH;
/// For how long that is waited for in all: deadlines that come meanwhile are looked at afterwards.
const PATIENCE: Duration = Duration::from_millis(100);

async fn visit_due(engine: &Engine, timers: &mut Timers) {
    let now = clock::now();
    let (mut sent, patient_until) = (0, now.after(PATIENCE));
    while let Some(entry) = timers.take_due(now) {
        let Some(entry) = entry.upgrade() else { continue };
        let effects = entry.tick(engine);
        let sends = engine.perform_local(&entry, effects);
        drop(entry);
        sent += sends.len();
        engine.send_in_background(sends);
        if sent >= PORTION {
            sent = 0;
            engine.flusher(BatchKind::Renewals).taken(patient_until.since(clock::now())).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::options::ConnectOptions;
    use crate::stores;
    use crate::uri::Uri;

    #[test]
    fn timers_that_are_far_off_come_together_and_those_that_are_near_when_they_are_due() {
        let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
        let comes = |due: Time, now: Time| together(due, now).since(due);
        for (now, after) in [(0, 1), (7, 10), (123, 5_000), (456, 30_000), (1, 86_400_000)] {
            let late = comes(at(now + after), at(now));
            assert!(late.as_nanos() as u64 <= after * 1_000_000 / 1024, "{after} ms: {late:?} late");
        }
        let moments: BTreeSet<_> = (0..1_000).map(|now| together(at(now + 5_000), at(now))).collect();
        assert!(moments.len() < 250, "{} in a second", moments.len());
        assert_eq!(together(at(3), at(5)), at(3), "what was due before is due at once");
        let never = Time::from_nanos(u64::MAX);
        assert_eq!(together(never, at(0)), never);
    }

    #[test]
    fn a_timer_set_during_a_turn_wakes_the_task_when_it_is_due_and_no_sooner() {
        let store = stores::open(&mut Uri::parse("memory://turn", ConnectOptions::default()).unwrap()).unwrap();
        let engine = Engine::new(store.clone(), ConnectOptions::default()).unwrap();
        let queue = &engine.timer_queue;
        queue.starve();
        let entry = engine.entry(&store.layouts()[0], &"x".into(), &"x".into());
        let at = Time::from_nanos;
        // As during a turn.
        queue.next.store(0, Ordering::SeqCst);
        assert_eq!(queue.sleeps_until(None), at(u64::MAX));
        queue.next.store(0, Ordering::SeqCst);
        queue.schedule(&entry, at(7), at(3));
        assert_eq!((queue.sleeps_until(Some(at(5))), queue.sleeps_until(Some(at(9)))), (at(5), at(7)));
        assert_eq!(queue.sleeps_until(None), at(7));
    }

    /// A client of 100,000 locks waits for memory for half the time that its renewals take, unless these follow each
    /// other there.
    #[test]
    fn timers_of_one_moment_are_looked_at_in_the_order_in_which_they_were_set() {
        let store = stores::open(&mut Uri::parse("memory://timers", ConnectOptions::default()).unwrap()).unwrap();
        let engine = Engine::new(store.clone(), ConnectOptions::default()).unwrap();
        let at = Time::from_nanos;
        let set = [("a", 7), ("b", 5), ("c", 7), ("d", 9), ("e", 5), ("f", 7)];
        let set = set.map(|(name, due)| (engine.entry(&store.layouts()[0], &name.into(), &name.into()), at(due)));
        let mut timers = Timers::default();
        for (entry, due) in &set {
            timers.add(Timed { due: *due, entry: Arc::downgrade(entry) });
        }
        let due = |timers: &mut Timers, now| {
            let due = std::iter::from_fn(|| timers.take_due(now));
            due.map(|entry| entry.upgrade().unwrap().name.to_string()).collect::<String>()
        };
        assert_eq!((due(&mut timers, at(4)), timers.next()), (String::new(), Some(at(5))));
        assert_eq!(timers.take_due(at(8)).unwrap().upgrade().unwrap().name.as_ref(), "b");
        assert_eq!(timers.forget(|entry| entry.upgrade().unwrap().name.as_ref() != "c"), 4);
        assert_eq!(due(&mut timers, at(8)), "eaf");
        assert_eq!((timers.by_due.len(), timers.next()), (1, Some(at(9))));
    }
}
