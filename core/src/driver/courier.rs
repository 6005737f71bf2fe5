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
use super::wait::locked;
use super::{clock, runtime};
use crate::protocol::{Op, Request, Requests};
use crate::session::RequestId;
use crate::stores::{Answered, Outcome};

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
}

impl Freight {
    /// What kind of freight this write is; none where it must not wait for others.
    pub(crate) fn of(send: &Outbound) -> Option<Self> {
        match (send.id.op, send.requests.as_slice()) {
            (Op::Renew, [only]) if only.call.batch => Some(Freight::Renewals),
            (Op::Release | Op::Undo, _) => Some(Freight::Returns),
            _ => None,
        }
    }

    /// Writes in one cartload: what a store does at once without keeping others waiting for more than milliseconds.
    pub(crate) const fn load(self) -> usize {
        match self {
            Freight::Renewals => 512,
            Freight::Returns => 100,
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
                    handle.spawn(drive(engine.clone(), self.freight));
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

async fn drive(engine: Arc<Engine>, freight: Freight) {
    let mut pause = PAUSE.0;
    while let Some(load) = engine.courier(freight).load() {
        let (requests, receipts) = send_off(load);
        let answered = match freight {
            Freight::Renewals => engine.store.clone().call_batch(requests).await,
            Freight::Returns => {
                let limit = engine.limit(clock::now(), None);
                engine.store.call_async(&Requests::from_vec(requests), limit).await
            }
        };
        let reached = matches!(answered.outcome, Outcome::Replies(_));
        deliver(&engine, receipts, answered);
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
pub(crate) fn send_off(load: Vec<Outbound>) -> (Vec<Request>, Vec<Receipt>) {
    let mut all = Vec::with_capacity(load.len());
    let receipt = |Outbound { entry, slot, id, requests }| {
        let count = requests.len();
        all.extend(requests);
        Receipt { entry, slot, id, requests: count }
    };
    let receipts = load.into_iter().map(receipt).collect();
    (all, receipts)
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
