//! A batch: writes of several locks that go to the store together, as one write or one request.

use super::engine::Engine;
use super::entry::Outbound;
use super::flusher::{Part, distribute, joined};
use super::road::Road;
use crate::error::{Error, Kind, Result};
use crate::platform::clock;
use crate::protocol::{Reply, Request, Requests};
use crate::stores::{Answered, Outcome};
use crate::time::Time;

/// Writes that the caller's own thread or task takes to the store.
pub(crate) struct Batch {
    sends: Vec<Outbound>,
    /// The one request that stands for all of them.
    merged: Option<Request>,
}

impl Batch {
    /// All of `sends` as they are, or `merged` in their place, which is answered with a list of their replies.
    pub(crate) fn new(sends: Vec<Outbound>, merged: Option<Request>) -> Self {
        Batch { sends, merged }
    }

    /// Sends it; what follows from the answers is done in the background, which also goes on when a task is dropped
    /// meanwhile.
    pub(crate) async fn perform(self, road: Road, engine: &Engine, deadline: Option<Time>) -> Result<()> {
        if self.sends.is_empty() {
            return Ok(());
        }
        let limit = engine.limit(clock::now(), deadline);
        let (requests, sent) = self.into_requests(engine, limit);
        let answered = road.call(&*engine.store, &requests, limit).await;
        sent.finish(answered);
        Ok(())
    }

    /// Nothing of it was sent, and never will be.
    pub(crate) fn withdraw(self, engine: &Engine) {
        let error = Error::new(Kind::Cancelled, "acquire", "another of the locks wanted together is taken");
        let answered = Answered { sent: clock::now(), outcome: Outcome::NotSent(error) };
        distribute(engine, joined(self.sends).1, answered);
    }

    fn into_requests(self, engine: &Engine, limit: Time) -> (Requests, Sent<'_>) {
        let (all, parts) = joined(self.sends);
        let is_merged = self.merged.is_some();
        let requests = self.merged.map_or(all, |one| Requests::from_iter([one]));
        (requests, Sent { engine, is_merged, parts, limit })
    }
}

/// A batch whose answer is not there yet.
struct Sent<'a> {
    engine: &'a Engine,
    is_merged: bool,
    parts: Vec<Part>,
    limit: Time,
}

impl Sent<'_> {
    fn finish(mut self, answered: Answered) {
        let parts = std::mem::take(&mut self.parts);
        let answered = if self.is_merged { spread(answered, parts.len()) } else { answered };
        distribute(self.engine, parts, answered);
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        let parts = std::mem::take(&mut self.parts);
        if !parts.is_empty() {
            distribute(self.engine, parts, self.engine.abandoned(self.limit));
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
