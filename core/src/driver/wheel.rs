//! The wheel: looks at every entry when it is due, for renewals, deadlines and retries. One task per client, started when
//! first needed, on the background runtime.

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

/// See the [module](self). Making an appointment costs the fast path one atomic load when the wheel comes early enough.
pub(crate) struct Wheel {
    engine: Weak<Engine>,
    appointments: Mutex<Vec<Appointment>>,
    /// At how many new appointments the wheel takes them up, though none is due, to forget those of locks that nobody names any more: an
    /// appointment keeps the memory of its entry.
    most_new: AtomicUsize,
    /// When the wheel will wake by itself.
    next: AtomicU64,
    running: AtomicBool,
    wake: Arc<Notify>,
}

/// New appointments of which not much is made.
const FEW: usize = 1024;

struct Appointment {
    due: Time,
    entry: Weak<Entry>,
}

impl Wheel {
    pub(crate) fn new(engine: Weak<Engine>) -> Self {
        Wheel {
            engine,
            appointments: Mutex::default(),
            most_new: AtomicUsize::new(FEW),
            next: AtomicU64::new(u64::MAX),
            running: AtomicBool::new(false),
            wake: Arc::new(Notify::new()),
        }
    }

    /// The wheel will look at `entry` at `due`.
    pub(crate) fn appoint(&self, entry: &Arc<Entry>, due: Time) {
        let new = {
            let mut appointments = locked(&self.appointments);
            appointments.push(Appointment { due, entry: Arc::downgrade(entry) });
            appointments.len()
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

    /// The engine is gone or closed: lets the wheel's task find out.
    pub(crate) fn stop(&self) {
        self.wake.notify_one();
    }

    /// Never looks at anything, as if its thread got no time.
    #[cfg(test)]
    pub(crate) fn starve(&self) {
        self.running.store(true, Ordering::SeqCst);
    }

    /// Whether the task of a closed engine, which has nothing to look at any more, may end: who makes an appointment after
    /// this starts another one.
    fn may_end(&self) -> bool {
        self.next.store(u64::MAX, Ordering::SeqCst);
        self.running.store(false, Ordering::SeqCst);
        locked(&self.appointments).is_empty() || self.running.swap(true, Ordering::AcqRel)
    }

    fn start(&self) {
        let (engine, wake) = (self.engine.clone(), self.wake.clone());
        match runtime::handle() {
            Ok(handle) => drop(handle.spawn(keep_turning(engine, wake))),
            Err(error) => no_background(&error),
        }
    }

    fn collect(&self, known: &mut Known) {
        // From here on, whoever comes sooner than what is already known must wake us.
        let mut appointments = locked(&self.appointments);
        for Appointment { due, entry } in appointments.drain(..) {
            known.heap.push(Reverse((due, Due(entry))));
            known.new += 1;
        }
        // What a burst needed is not kept for ever.
        appointments.shrink_to(FEW);
        drop(appointments);
        if known.new >= self.most_new.load(Ordering::Relaxed) {
            known.forget(|entry| entry.strong_count() > 0);
            // A quarter as many as there are: looking through all of them costs each new one little.
            self.most_new.store(FEW + known.heap.len() / 4, Ordering::Relaxed);
        }
    }
}

/// The appointments that the wheel has taken up.
#[derive(Default)]
struct Known {
    heap: BinaryHeap<Reverse<(Time, Due)>>,
    /// How many of them came since those of no use were looked for.
    new: usize,
}

impl Known {
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

/// Whatever a turn may die of, the appointments outlive it.
async fn keep_turning(engine: Weak<Engine>, wake: Arc<Notify>) {
    let mut known = Known::default();
    while let Err(panicked) = fence::contained(turn(&engine, &wake, &mut known)).await {
        let Some(engine) = engine.upgrade() else { return };
        panicked.tell("the timer queue", None, engine.store.address());
        drop(engine);
        tokio::time::sleep(fence::PAUSE).await;
    }
}

async fn turn(engine: &Weak<Engine>, wake: &Notify, known: &mut Known) {
    let mut timer = Timer::new();
    loop {
        let next = {
            let Some(engine) = engine.upgrade() else { return };
            engine.wheel.next.store(0, Ordering::SeqCst);
            engine.wheel.collect(known);
            let sends = visit_due(&engine, &mut known.heap);
            engine.send_in_background(sends);
            if engine.check_open().is_err() {
                known.forget(|entry| entry.upgrade().is_some_and(|entry| !entry.is_idle()));
                if known.heap.is_empty() && engine.wheel.may_end() {
                    return;
                }
            }
            let next = known.heap.peek().map_or(Time::from_nanos(u64::MAX), |Reverse((due, _))| *due);
            engine.wheel.next.store(next.as_nanos(), Ordering::SeqCst);
            // An appointment made while `next` was 0 did not wake us: look once more before sleeping.
            if locked(&engine.wheel.appointments).is_empty() { next } else { clock::now() }
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
