//! The timer queue: looks at every entry when it is due, for renewals, deadlines and retries. One task per client,
//! started when first needed, on the background runtime.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;

use tokio::sync::Notify;

use super::engine::{Engine, no_background};
use super::entry::{Entry, Outbound};
use crate::platform::clock;
use crate::platform::fence;
use crate::platform::mutex::locked;
use crate::platform::runtime;
use crate::platform::timer::Timer;
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

    /// The task will look at `entry` at `due`.
    pub(crate) fn schedule(&self, entry: &Arc<Entry>, due: Time) {
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

    fn collect(&self, timers: &mut Timers) {
        // From here on, whoever comes sooner than what is already taken up must wake us.
        let mut new = locked(&self.new);
        for Timed { due, entry } in new.drain(..) {
            timers.heap.push(Reverse((due, Due(entry))));
            timers.new += 1;
        }
        // What a burst needed is not kept for ever.
        new.shrink_to(FEW);
        drop(new);
        if timers.new >= self.most_new.load(Ordering::Relaxed) {
            timers.forget(|entry| entry.strong_count() > 0);
            // A quarter as many as there are: looking through all of them costs each new one little.
            self.most_new.store(FEW + timers.heap.len() / 4, Ordering::Relaxed);
        }
    }
}

/// The timers that the task has taken up.
#[derive(Default)]
struct Timers {
    heap: BinaryHeap<Reverse<(Time, Due)>>,
    /// How many of them came since those of no use were looked for.
    new: usize,
}

impl Timers {
    /// Keeps those of the entries that are `wanted`.
    fn forget(&mut self, wanted: impl Fn(&Weak<Entry>) -> bool) {
        self.heap.retain(|Reverse((_, Due(entry)))| wanted(entry));
        self.heap.shrink_to(self.heap.len() + FEW);
        self.new = 0;
    }
}

/// An entry in the heap; all are equal there, only the time orders them.
struct Due(Weak<Entry>);

impl PartialEq for Due {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
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
            let sends = visit_due(&engine, &mut timers.heap);
            engine.send_in_background(sends);
            if engine.check_open().is_err() {
                timers.forget(|entry| entry.upgrade().is_some_and(|entry| !entry.is_idle()));
                if timers.heap.is_empty() && engine.timer_queue.may_end() {
                    return;
                }
            }
            let next = timers.heap.peek().map_or(Time::from_nanos(u64::MAX), |Reverse((due, _))| *due);
            engine.timer_queue.next.store(next.as_nanos(), Ordering::SeqCst);
            // A timer set while `next` was 0 did not wake us: look once more before sleeping.
            if locked(&engine.timer_queue.new).is_empty() { next } else { clock::now() }
        };
        let mut woken = std::pin::pin!(wake.notified());
        poll_fn(|context| {
            let rung = woken.as_mut().poll(context).is_ready();
            if rung || timer.poll_reached(next, context).is_ready() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

fn visit_due(engine: &Engine, heap: &mut BinaryHeap<Reverse<(Time, Due)>>) -> Vec<Outbound> {
    let now = clock::now();
    let mut sends = Vec::new();
    while heap.peek().is_some_and(|Reverse((due, _))| *due <= now) {
        let Some(Reverse((_, Due(entry)))) = heap.pop() else { break };
        if let Some(entry) = entry.upgrade() {
            let effects = entry.tick(engine);
            sends.extend(engine.perform_local(&entry, effects));
        }
    }
    sends
}
