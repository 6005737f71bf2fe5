//! The courier: takes what many locks write in the background to the store together, a cartload at a time.
//!
//! A client that holds very many locks has as many renewals due at once. Were each sent at once, the last would be answered
//! too late, and a store that does not answer would be asked by every lock again and again. So a few cartloads at most are
//! under way, and after one that came back unanswered the next one waits.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::engine::{Engine, no_background};
use super::entry::{Entry, Outbound};
use crate::platform::fence;
use crate::platform::mutex::locked;
use crate::platform::{clock, runtime};
use crate::protocol::{Op, Requests};
use crate::session::RequestId;
use crate::stores::{Answered, BATCH, Outcome};

/// Cartloads under way at once, so that the store need not wait for us while we read its answers.
const CARTS: usize = 2;
/// First and longest pause after a cartload that came back unanswered.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(320));

/// What travels together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freight {
    /// Requests of one call that the store takes as one.
    Renewals,
    /// Requests of their own, in one write.
    Returns,
    /// The same, of those who wait and ask again: very many may at once.
    Asks,
}

impl Freight {
    /// What kind of freight this write is; none where it must not wait for others.
    pub(crate) fn of(send: &Outbound) -> Option<Self> {
        match (send.id.op, send.requests.as_slice()) {
            (Op::Renew, [only]) if only.call.batch => Some(Freight::Renewals),
            (Op::Release | Op::Undo, _) => Some(Freight::Returns),
            (Op::Acquire, _) => Some(Freight::Asks),
            _ => None,
        }
    }

    /// Writes in one cartload: what a store does at once without keeping others waiting for more than milliseconds.
    pub(crate) const fn load(self) -> usize {
        match self {
            Freight::Renewals => BATCH,
            Freight::Returns | Freight::Asks => 100,
        }
    }
}

/// See the [module](self).
pub(crate) struct Courier {
    freight: Freight,
    office: Mutex<Office>,
}

#[derive(Default)]
struct Office {
    parcels: VecDeque<Outbound>,
    carts: usize,
}

impl Courier {
    pub(crate) fn of(freight: Freight) -> Self {
        Courier { freight, office: Mutex::default() }
    }

    /// Sends all of `parcels`, which are freight of this kind.
    pub(crate) fn take(&self, engine: &Arc<Engine>, parcels: impl IntoIterator<Item = Outbound>) {
        let mut office = locked(&self.office);
        office.parcels.extend(parcels);
        while office.carts < CARTS && office.carts * self.freight.load() < office.parcels.len() {
            match runtime::handle() {
                Ok(handle) => {
                    office.carts += 1;
                    handle.spawn(keep_driving(engine.clone(), self.freight));
                }
                Err(error) => return no_background(&error),
            }
        }
    }

    /// The next cartload; none ends a cart's work.
    fn load(&self) -> Option<Vec<Outbound>> {
        let mut office = locked(&self.office);
        let count = office.parcels.len().min(self.freight.load());
        if count == 0 {
            office.carts -= 1;
            // What a burst needed is not kept for ever.
            office.parcels.shrink_to(self.freight.load());
            return None;
        }
        Some(office.parcels.drain(..count).collect())
    }
}

async fn keep_driving(engine: Arc<Engine>, freight: Freight) {
    fence::kept_up("a batch", engine.store.address(), || drive(&engine, freight)).await;
}

async fn drive(engine: &Arc<Engine>, freight: Freight) {
    let mut pause = PAUSE.0;
    while let Some(load) = engine.courier(freight).load() {
        let (requests, receipts) = send_off(load);
        let limit = engine.limit(clock::now(), None);
        let answered = match freight {
            Freight::Renewals => {
                engine.survive(async { engine.store.clone().call_batch(requests, limit).await }, limit).await
            }
            Freight::Returns | Freight::Asks => {
                engine.survive(async { engine.store.call_async(&requests, limit).await }, limit).await
            }
        };
        let reached = matches!(answered.outcome, Outcome::Replies(_));
        deliver(engine, receipts, answered);
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

/// Who waits for the answer to how many requests of a cartload.
pub(crate) struct Receipt {
    entry: Arc<Entry>,
    slot: u64,
    id: RequestId,
    requests: usize,
}

/// All requests of a cartload, and who waits for their answers.
pub(crate) fn send_off(load: Vec<Outbound>) -> (Requests, Vec<Receipt>) {
    let mut all = Vec::with_capacity(load.len());
    let receipt = |Outbound { entry, slot, id, requests }| {
        let count = requests.len();
        all.extend(requests);
        Receipt { entry, slot, id, requests: count }
    };
    let receipts = load.into_iter().map(receipt).collect();
    (Requests::from_vec(all), receipts)
}

/// Gives each write of a cartload its part of the answer.
pub(crate) fn deliver(engine: &Engine, receipts: Vec<Receipt>, answered: Answered) {
    let Answered { sent, outcome } = engine.heard(receipts.len() as u64, answered);
    let mut answer: Box<dyn FnMut(usize) -> Outcome> = match outcome {
        Outcome::Replies(replies) => {
            let mut replies = replies.into_iter();
            Box::new(move |count| Outcome::Replies(replies.by_ref().take(count).collect()))
        }
        Outcome::NotSent(error) => Box::new(move |_| Outcome::NotSent(error.clone())),
        Outcome::Unknown { error, void_after } => {
            Box::new(move |_| Outcome::Unknown { error: error.clone(), void_after })
        }
    };
    for Receipt { entry, slot, id, requests } in receipts {
        let outcome = answer(requests);
        let follow = entry.answered(engine, slot, id, Answered { sent, outcome });
        engine.perform_in_background(&entry, follow);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Instant;

    use super::*;
    use crate::driver::engine::{Wish, begin};
    use crate::driver::wait::Settled;
    use crate::options::{AcquireOptions, ConnectOptions};
    use crate::protocol::{InboxId, Layout};
    use crate::stores::{self, BoxFuture, Sink, Store};
    use crate::time::Time;
    use crate::uri::Uri;

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
                fall if fall % 2 == 0 => panic!("before it is awaited"),
                _ => Box::pin(async { panic!("while it is awaited") }),
            }
        }
        fn open_inbox(self: Arc<Self>, inbox: InboxId, sink: Weak<dyn Sink>) -> BoxFuture<'static, ()> {
            self.memory.clone().open_inbox(inbox, sink)
        }
    }

    #[test]
    fn a_batch_that_panics_is_one_that_was_not_answered() {
        let memory = stores::open(&mut Uri::parse("memory://frail", ConnectOptions::default()).unwrap()).unwrap();
        let store = Arc::new(Frail { memory, falls: AtomicU64::new(3) });
        let engine = Engine::new(store.clone(), ConnectOptions::default()).unwrap();
        let options = AcquireOptions { ttl: Duration::from_secs(2), ..AcquireOptions::default() };
        let wish = Wish::new(options, None);
        let held = ["a", "b", "c"].map(|name| {
            let entry = engine.entry(&store.layouts()[0], &name.into(), &name.into());
            let (_, waiter, effects) = begin(&engine, &entry, &wish, &"".into(), None);
            engine.perform(&entry, effects, None);
            let Some(Settled::Granted { hold, .. }) = waiter.take() else { panic!("it is free") };
            hold
        });
        let began = Instant::now();
        while engine.counters.snapshot().renewals < 6 {
            assert!(began.elapsed() < Duration::from_secs(20), "in vain");
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(store.falls.load(Ordering::SeqCst) as i64 <= 0);
        assert!(held.iter().all(|hold| hold.why_lost().is_none()));
        assert!(locked(&engine.courier(Freight::Renewals).office).carts <= CARTS);
    }
}
