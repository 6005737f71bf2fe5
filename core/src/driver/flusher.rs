//! The flusher: takes what many locks write in the background to the store in batches.
//!
//! A client that holds very many locks has as many renewals due at once. Were each sent at once, the last would be
//! answered too late, and a store that does not answer would be asked by every lock again and again. So a few batches
//! at most are under way, and after one that came back unanswered the next one waits.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::engine::{Engine, no_background};
use super::entry::{Entry, Outbound};
use crate::platform::fence;
use crate::platform::mutex::locked;
use crate::platform::{clock, runtime};
use crate::protocol::{BATCH, Op, Reply, Requests, share_of_batch};
use crate::session::{Answer, RequestId};
use crate::stores::{Answered, Outcome};

/// Batches under way at once, so that the store need not wait for us while we read its answers.
const AT_ONCE: usize = 2;
/// First and longest pause after a batch that came back unanswered.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(320));

/// Which writes share a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchKind {
    /// Requests of one call that the store takes as one.
    Renewals,
    /// Requests of their own, in one write.
    Returns,
    /// The same, of those who wait and ask again: very many may at once.
    Asks,
}

impl BatchKind {
    /// In which kind of batch this write goes; none where it must not wait for others.
    pub(crate) fn of(send: &Outbound) -> Option<Self> {
        match (send.id.op, send.requests.as_slice()) {
            (Op::Renew, [only]) if only.call.batch => Some(BatchKind::Renewals),
            (Op::Release | Op::Undo, _) => Some(BatchKind::Returns),
            (Op::Acquire, _) => Some(BatchKind::Asks),
            _ => None,
        }
    }

    /// Writes in one batch: what a store does at once without keeping others waiting for more than milliseconds.
    pub(crate) const fn size(self) -> usize {
        match self {
            BatchKind::Renewals => BATCH,
            BatchKind::Returns | BatchKind::Asks => 100,
        }
    }

    /// How many of those that are `waiting` go in the next batch.
    fn share(self, waiting: usize) -> usize {
        match self {
            BatchKind::Renewals => share_of_batch(waiting),
            BatchKind::Returns | BatchKind::Asks => waiting.min(self.size()),
        }
    }
}

/// See the [module](self).
pub(crate) struct Flusher {
    kind: BatchKind,
    state: Mutex<State>,
    /// Notified when a batch is taken.
    taken: Notify,
}

#[derive(Default)]
struct State {
    writes: VecDeque<Outbound>,
    /// Tasks that take batches of them to the store.
    tasks: usize,
}

impl Flusher {
    pub(crate) fn of(kind: BatchKind) -> Self {
        Flusher { kind, state: Mutex::default(), taken: Notify::new() }
    }

    /// Waits until everything that it was given is on its way, for at most `limit`.
    pub(crate) async fn taken(&self, limit: Duration) {
        let all_taken = async {
            loop {
                let taken = self.taken.notified();
                if locked(&self.state).writes.is_empty() {
                    return;
                }
                taken.await;
            }
        };
        let _ = tokio::time::timeout(limit, all_taken).await;
    }

    /// Has this write of `engine`, which is of this kind, taken to the store with the next batch.
    pub(crate) fn add(&self, write: Outbound, engine: &Weak<Engine>) {
        let mut state = locked(&self.state);
        state.writes.push_back(write);
        if state.tasks == AT_ONCE || state.tasks * self.kind.size() >= state.writes.len() {
            return;
        }
        let Some(engine) = engine.upgrade() else { return };
        match runtime::handle() {
            Ok(handle) => {
                state.tasks += 1;
                handle.spawn(keep_flushing(engine, self.kind));
            }
            Err(error) => no_background(&error),
        }
    }

    /// The writes of the next batch; none ends the work of the task that asks.
    fn next(&self) -> Option<Vec<Outbound>> {
        let mut state = locked(&self.state);
        let count = self.kind.share(state.writes.len());
        if count == 0 {
            state.tasks -= 1;
            // What a burst needed is not kept for ever.
            state.writes.shrink_to(self.kind.size());
            return None;
        }
        let batch = state.writes.drain(..count).collect();
        self.taken.notify_waiters();
        Some(batch)
    }
}

async fn keep_flushing(engine: Arc<Engine>, kind: BatchKind) {
    fence::kept_up("a batch", engine.store.address(), || flush(&engine, kind)).await;
}

async fn flush(engine: &Arc<Engine>, kind: BatchKind) {
    let mut pause = PAUSE.0;
    while let Some(writes) = engine.flusher(kind).next() {
        let (requests, parts) = joined(writes);
        let limit = engine.limit(clock::now(), None);
        let answered = match kind {
            BatchKind::Renewals => {
                engine.survive(async { engine.store.clone().call_batch(requests, limit).await }, limit).await
            }
            BatchKind::Returns | BatchKind::Asks => {
                engine.survive(async { engine.store.call_async(&requests, limit).await }, limit).await
            }
        };
        let reached = matches!(answered.outcome, Outcome::Replies(_) | Outcome::Partly { .. });
        distribute(engine, parts, answered);
        if reached {
            pause = PAUSE.0;
            // Where a store answers at once and work never ends, nobody else on this thread would have a turn.
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }
}

/// Who waits for the answer to how many requests of a batch.
pub(crate) struct Part {
    entry: Arc<Entry>,
    slot: u64,
    id: RequestId,
    requests: usize,
}

/// All requests of `writes`, and who waits for their answers.
pub(crate) fn joined(writes: Vec<Outbound>) -> (Requests, Vec<Part>) {
    let mut all = Vec::with_capacity(writes.len());
    let part = |Outbound { entry, slot, id, requests }| {
        let count = requests.len();
        all.extend(requests);
        Part { entry, slot, id, requests: count }
    };
    let parts = writes.into_iter().map(part).collect();
    (Requests::from_vec(all), parts)
}

/// Gives each write of a batch its part of the answer.
pub(crate) fn distribute(engine: &Engine, parts: Vec<Part>, answered: Answered) {
    let Answered { sent, outcome } = engine.heard(parts.len() as u64, answered);
    let mut from = 0;
    for Part { entry, slot, id, requests } in parts {
        let partly;
        let answer = match &outcome {
            Outcome::Replies(replies) => Answer::Replies(answers_to(replies, from, requests)),
            Outcome::Partly { replies, error, void_after } => {
                partly = Outcome::of(answers_to(replies, from, requests).to_vec(), Some(error.clone()), *void_after);
                partly.as_answer()
            }
            of_all => of_all.as_answer(),
        };
        from += requests;
        let follow = entry.answered(engine, (slot, id), sent, answer);
        engine.perform_in_background(&entry, follow);
    }
}

/// The replies to `count` requests that stand there, or as many of them as there are.
fn answers_to(replies: &[Reply], from: usize, count: usize) -> &[Reply] {
    let left = replies.get(from..).unwrap_or_default();
    left.get(..count).unwrap_or(left)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Instant;

    use super::*;
    use crate::driver::engine::{Wish, begin};
    use crate::driver::wait::Settled;
    use crate::options::{AcquireOptions, ConnectOptions};
    use crate::protocol::Layout;
    use crate::stores::{self, BoxFuture, Sink, Store, Subscription, Topic};
    use crate::time::Time;
    use crate::uri::Uri;

    /// A panic without its backtrace, which a loaded machine writes for longer than leases last.
    fn falls(when: &'static str) -> ! {
        std::panic::resume_unwind(Box::new(when))
    }

    /// A memory whose batches of renewals panic so many times, before and while they are awaited.
    #[derive(Debug)]
    struct Frail {
        memory: Arc<dyn Store>,
        falls: AtomicU64,
    }

    impl Store for Frail {
        fn address(&self) -> &Arc<str> {
            self.memory.address()
        }
        fn layouts(&self) -> &[Arc<dyn Layout>] {
            self.memory.layouts()
        }
        fn call(&self, requests: &Requests, limit: Time) -> Answered {
            self.memory.call(requests, limit)
        }
        fn call_async<'a>(&'a self, requests: &'a Requests, limit: Time) -> BoxFuture<'a, Answered> {
            self.memory.call_async(requests, limit)
        }
        fn void_after(&self, given_up: Time, _: Time) -> Time {
            given_up
        }
        fn call_batch(self: Arc<Self>, requests: Requests, limit: Time) -> BoxFuture<'static, Answered> {
            match self.falls.fetch_sub(1, Ordering::SeqCst) as i64 {
                ..=0 => self.memory.clone().call_batch(requests, limit),
                fall if fall % 2 == 0 => falls("before it is awaited"),
                _ => Box::pin(async { falls("while it is awaited") }),
            }
        }
        fn subscribe(self: Arc<Self>, topic: Topic<'_>, sink: Weak<dyn Sink>) -> Subscription {
            self.memory.clone().subscribe(topic, sink)
        }
    }

    #[test]
    fn a_batch_that_panics_is_one_that_was_not_answered() {
        let memory = stores::open(&mut Uri::parse("memory://frail", ConnectOptions::default()).unwrap()).unwrap();
        let store = Arc::new(Frail { memory, falls: AtomicU64::new(3) });
        let engine = Engine::new(store.clone(), ConnectOptions::default()).unwrap();
        let options = AcquireOptions { ttl: Duration::from_secs(6), ..AcquireOptions::default() };
        let wish = Wish::new(options, None);
        let held = ["a", "b", "c"].map(|name| {
            let entry = engine.entry(&store.layouts()[0], &name.into(), &name.into());
            let (_, waiter, effects) = begin(&engine, &entry, &wish, &"".into(), None);
            engine.perform(&entry, effects, None);
            let Some(Settled::Granted { hold, .. }) = waiter.take() else { panic!("it is free") };
            hold
        });
        let began = Instant::now();
        while engine.counters.snapshot().renewals < 3 {
            assert!(began.elapsed() < Duration::from_secs(60), "in vain");
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(store.falls.load(Ordering::SeqCst) as i64 <= 0);
        assert!(held.iter().all(|hold| hold.why_lost().is_none()));
        assert!(locked(&engine.flusher(BatchKind::Renewals).state).tasks <= AT_ONCE);
    }
}
