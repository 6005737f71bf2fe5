//! The wheel: looks at every entry when it is due, for renewals, deadlines and retries. One task per client, started when
//! first needed, on the background runtime.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;

use tokio::sync::Notify;

use super::clock;
use super::engine::{Engine, no_background};
use super::entry::{Entry, Outbound};
use super::fence;
use super::runtime;
use super::timer::Timer;
use super::wait::locked;
use crate::time::Time;

/// See the [module](self). Making an appointment costs the fast path one atomic load when the wheel comes early enough.
pub(crate) struct Wheel {
    engine: Weak<Engine>,
    appointments: Mutex<Vec<Appointment>>,
    /// When the wheel will wake by itself.
    next: AtomicU64,
    running: AtomicBool,
    wake: Arc<Notify>,
}

struct Appointment {
    due: Time,
    entry: Weak<Entry>,
}

impl Wheel {
    pub(crate) fn new(engine: Weak<Engine>) -> Self {
        Wheel {
            engine,
            appointments: Mutex::default(),
            next: AtomicU64::new(u64::MAX),
            running: AtomicBool::new(false),
            wake: Arc::new(Notify::new()),
        }
    }

    /// The wheel will look at `entry` at `due`.
    pub(crate) fn appoint(&self, entry: &Arc<Entry>, due: Time) {
        locked(&self.appointments).push(Appointment { due, entry: Arc::downgrade(entry) });
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

    fn collect(&self, heap: &mut BinaryHeap<Reverse<(Time, Due)>>) {
        // From here on, whoever comes sooner than what is already known must wake us.
        let mut appointments = locked(&self.appointments);
        for Appointment { due, entry } in appointments.drain(..) {
            heap.push(Reverse((due, Due(entry))));
        }
        // What a burst needed is not kept for ever.
        appointments.shrink_to(1024);
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
    let mut heap = BinaryHeap::new();
    while let Err(panicked) = fence::contained(turn(&engine, &wake, &mut heap)).await {
        let Some(engine) = engine.upgrade() else { return };
        panicked.tell("the timer queue", None, engine.store.address());
        drop(engine);
        tokio::time::sleep(fence::PAUSE).await;
    }
}

async fn turn(engine: &Weak<Engine>, wake: &Notify, heap: &mut BinaryHeap<Reverse<(Time, Due)>>) {
    let mut timer = Timer::new();
    loop {
        let next = {
            let Some(engine) = engine.upgrade() else { return };
            engine.wheel.next.store(0, Ordering::SeqCst);
            engine.wheel.collect(heap);
            let sends = visit_due(&engine, heap);
            engine.send_in_background(sends);
            if engine.check_open().is_err() {
                heap.retain(|Reverse((_, Due(entry)))| entry.upgrade().is_some_and(|entry| !entry.is_idle()));
                if heap.is_empty() && engine.wheel.may_end() {
                    return;
                }
            }
            let next = heap.peek().map_or(Time::from_nanos(u64::MAX), |Reverse((due, _))| *due);
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
