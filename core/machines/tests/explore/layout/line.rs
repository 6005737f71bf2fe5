//! The queue of one lock, in memory.

use std::cmp::Reverse;
use std::convert::Infallible;

use lockwright_machines::lock_cell::{LockStorage, Place, Waiter};
use lockwright_machines::protocol::{AttemptId, InboxId};
use lockwright_machines::rank::AGE;

#[derive(Clone, Debug, Default)]
pub struct Queued(pub Vec<Place>);

impl Queued {
    /// Who is served next: it has waited the longest, where every rank counts as so much waiting.
    pub fn next(&self) -> Option<usize> {
        let waited = |place: &Place| place.since.0 - i64::from(place.rank.get()) * AGE.as_micros() as i64;
        let firsts =
            self.0.iter().enumerate().filter(|(at, place)| self.0[..*at].iter().all(|other| other.rank != place.rank));
        firsts.min_by_key(|(_, place)| (waited(place), Reverse(place.rank))).map(|(at, _)| at)
    }
}

impl LockStorage for Queued {
    type Error = Infallible;

    fn join(&mut self, place: &Place) -> Result<u32, Infallible> {
        let known = self.0.iter().position(|known| known.waiter.owner.attempt == place.waiter.owner.attempt);
        let at = known.unwrap_or_else(|| {
            self.0.push(place.clone());
            self.0.len() - 1
        });
        let rank = self.0[at].rank;
        let others = self.0.iter().enumerate().filter(|(other, place)| *other < at || place.rank != rank);
        Ok(others.filter(|(other, _)| *other != at).count() as u32)
    }

    fn first(&mut self) -> Result<Option<Waiter>, Infallible> {
        Ok(self.next().map(|at| self.0[at].waiter.clone()))
    }

    fn count(&mut self) -> Result<u32, Infallible> {
        Ok(self.0.len() as u32)
    }

    fn list(&mut self, most: usize) -> Result<Vec<Place>, Infallible> {
        let mut left = self.clone();
        let next = || left.next().map(|at| left.0.remove(at));
        Ok(std::iter::from_fn(next).take(most).collect())
    }

    fn pop(&mut self) -> Result<Option<Waiter>, Infallible> {
        Ok(self.next().map(|at| self.0.remove(at).waiter))
    }

    fn contains(&mut self, attempt: AttemptId) -> Result<bool, Infallible> {
        Ok(self.0.iter().any(|place| place.waiter.owner.attempt == attempt))
    }

    fn leave(&mut self, attempt: AttemptId) -> Result<(), Infallible> {
        self.0.retain(|place| place.waiter.owner.attempt != attempt);
        Ok(())
    }

    fn drop_inbox(&mut self, inbox: InboxId) -> Result<(), Infallible> {
        self.0.retain(|place| place.waiter.owner.inbox != inbox);
        Ok(())
    }
}
