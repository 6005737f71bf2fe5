//! Writes of several locks that go to the store together, in the caller's own thread or task, as one write or one request.

use super::courier::{Receipt, deliver, send_off};
use super::engine::Engine;
use super::entry::Outbound;
use crate::error::{Error, Kind};
use crate::platform::clock;
use crate::protocol::{Reply, Request, Requests};
use crate::stores::{Answered, Outcome};
use crate::time::Time;

/// See the [module](self).
pub(crate) struct Convoy {
    sends: Vec<Outbound>,
    /// The one request that stands for all of them.
    merged: Option<Request>,
}

impl Convoy {
    /// All of `sends` as they are, or `merged` in their place, which is answered with a list of their replies.
    pub(crate) fn new(sends: Vec<Outbound>, merged: Option<Request>) -> Self {
        Convoy { sends, merged }
    }

    /// Sends it in this thread; what follows from the answers is done in the background.
    pub(crate) fn perform(self, engine: &Engine, deadline: Option<Time>) {
        if self.sends.is_empty() {
            return;
        }
        let limit = engine.limit(clock::now(), deadline);
        let (requests, transit) = self.leave(engine, limit);
        transit.arrive(engine.store.call(&requests, limit));
    }

    /// Sends it in this task. When the task is dropped meanwhile, the background goes on.
    pub(crate) async fn perform_async(self, engine: &Engine, deadline: Option<Time>) {
        if self.sends.is_empty() {
            return;
        }
        let limit = engine.limit(clock::now(), deadline);
        let (requests, transit) = self.leave(engine, limit);
        let answered = engine.call_async(&requests, limit).await;
        transit.arrive(answered);
    }

    /// It stays here: nothing of it was sent, and never will be.
    pub(crate) fn stay(self, engine: &Engine) {
        let error = Error::new(Kind::Cancelled, "acquire", "another of the locks wanted together is taken");
        let answered = Answered { sent: clock::now(), outcome: Outcome::NotSent(error) };
        deliver(engine, send_off(self.sends).1, answered);
    }

    fn leave(self, engine: &Engine, limit: Time) -> (Requests, Transit<'_>) {
        let (all, receipts) = send_off(self.sends);
        let is_merged = self.merged.is_some();
        let requests = self.merged.map_or(all, |one| Requests::from_iter([one]));
        (requests, Transit { engine, is_merged, receipts, limit })
    }
}

/// A convoy on its way.
struct Transit<'a> {
    engine: &'a Engine,
    is_merged: bool,
    receipts: Vec<Receipt>,
    limit: Time,
}

impl Transit<'_> {
    fn arrive(mut self, answered: Answered) {
        let receipts = std::mem::take(&mut self.receipts);
        let answered = if self.is_merged { spread(answered, receipts.len()) } else { answered };
        deliver(self.engine, receipts, answered);
    }
}

impl Drop for Transit<'_> {
    fn drop(&mut self) {
        let receipts = std::mem::take(&mut self.receipts);
        if !receipts.is_empty() {
            deliver(self.engine, receipts, self.engine.abandoned(self.limit));
        }
    }
}

/// The answer to the one request as that of `count` requests.
fn spread(answered: Answered, count: usize) -> Answered {
    let Outcome::Replies(mut replies) = answered.outcome else { return answered };
    let replies = match replies.pop() {
        Some(Reply::List(list)) if list.len() == count => list,
        other => vec![other.unwrap_or(Reply::Nil); count],
    };
    Answered { outcome: Outcome::Replies(replies), ..answered }
}
