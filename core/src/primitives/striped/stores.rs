//! Which of the stores that segments lie with are asked: one that nobody can reach is left out while others answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Place, is_over};
use crate::client::{Face, Guard, Lock, left};
use crate::driver::engine::Trial;
use crate::error::{Error, Kind, Result};
use crate::platform::clock;
use crate::time::Time;

/// For how long a store that could not be reached is asked no more, unless no other answers either.
const LEFT_OUT: Duration = Duration::from_secs(10);

/// The stores of a striped lock, of which segment `i` lies with number `i` modulo how many there are.
pub(super) struct Stores {
    /// Until when each is left out, in nanoseconds; 0 where it answers.
    left_out: Vec<AtomicU64>,
}

impl Stores {
    pub(super) fn new(count: usize) -> Self {
        Stores { left_out: (0..count).map(|_| AtomicU64::new(0)).collect() }
    }

    pub(super) fn count(&self) -> usize {
        self.left_out.len()
    }

    pub(super) fn of(&self, segment: usize) -> usize {
        segment % self.count()
    }

    fn is_left_out(&self, store: usize, now: Time) -> bool {
        self.left_out[store].load(Ordering::Relaxed) > now.as_nanos()
    }

    /// Whether it is asked now. Once it was left out for long enough, one caller finds out what it does now.
    fn begin(&self, store: usize, now: Time) -> bool {
        let left_out = &self.left_out[store];
        let (until, again) = (left_out.load(Ordering::Relaxed), now.after(LEFT_OUT).as_nanos());
        let claim = || left_out.compare_exchange(until, again, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        until == 0 || until <= now.as_nanos() && claim()
    }

    fn note(&self, store: usize, is_reachable: bool) {
        let until = if is_reachable { 0 } else { clock::now().after(LEFT_OUT).as_nanos() };
        self.left_out[store].store(until, Ordering::Relaxed);
    }
}

/// The segments at one store that are not sold out, in the order in which they are tried.
pub(super) struct Part<F: Face> {
    store: usize,
    indices: Vec<usize>,
    pub(super) locks: Vec<Lock<F>>,
}

/// What a look at every segment found.
pub(super) enum Found<F: Face> {
    Free(usize, Guard<F>),
    /// All are taken; one of them is this.
    Taken(usize, Lock<F>),
    SoldOut,
}

/// A look at the segments, store after store.
pub(super) struct Look<F: Face> {
    stores: Arc<Stores>,
    timeout: Option<Duration>,
    deadline: Option<Time>,
    /// Those still to be asked, the next one last.
    parts: Vec<Part<F>>,
    taken: Option<(usize, Lock<F>)>,
    /// A store said that they are taken, where else the time of a trial was over.
    is_answered: bool,
    failed: Option<Error>,
}

impl<F: Face> Look<F> {
    /// Of the segments `open`, in the order in which they are to be tried.
    pub(super) fn new(
        stores: Arc<Stores>,
        open: impl Iterator<Item = (usize, Lock<F>)>,
        timeout: Option<Duration>,
        deadline: Option<Time>,
    ) -> Self {
        let now = clock::now();
        let mut parts: Vec<Part<F>> = Vec::with_capacity(stores.count());
        for (index, lock) in open {
            let store = stores.of(index);
            let place = parts.iter().position(|part| part.store == store).unwrap_or_else(|| {
                parts.push(Part { store, indices: Vec::new(), locks: Vec::new() });
                parts.len() - 1
            });
            parts[place].indices.push(index);
            parts[place].locks.push(lock);
        }
        parts.sort_by_key(|part| stores.is_left_out(part.store, now));
        parts.reverse();
        Look { stores, timeout, deadline, parts, taken: None, is_answered: false, failed: None }
    }

    /// The segments that are to be tried next, and how.
    pub(super) fn next(&mut self) -> Option<(Part<F>, Trial)> {
        let now = clock::now();
        loop {
            let part = self.parts.pop()?;
            if self.stores.begin(part.store, now) || self.taken.is_none() {
                return Some((part, self.trial()));
            }
        }
    }

    /// The only hope has all the time there is. Any other store has its share of it, and if nobody listens there it is
    /// not waited for.
    fn trial(&self) -> Trial {
        if self.parts.is_empty() && self.taken.is_none() {
            return Trial::within(self.timeout, self.deadline);
        }
        let stores = u32::try_from(self.parts.len() + 1).unwrap_or(u32::MAX);
        let share = |deadline| clock::now().after(left(deadline) / stores);
        Trial { until: self.deadline.map(share), hurries: true }
    }

    /// What came of that; the segment that was had.
    pub(super) fn answered(&mut self, part: &Part<F>, trial: Trial, result: Result<Place<F>>) -> Result<Place<F>> {
        let is_reachable = !matches!(&result, Err(error) if error.kind() == Kind::Unavailable);
        self.stores.note(part.store, is_reachable);
        match result {
            Ok(Some((place, guard))) => return Ok(Some((part.indices[place], guard))),
            Ok(None) => {
                self.taken = part.indices.last().copied().zip(part.locks.last().cloned());
                self.is_answered |= !is_over(trial.until);
            }
            Err(error) if is_reachable => return Err(error),
            Err(error) => self.failed = Some(error),
        }
        Ok(None)
    }

    /// What there is where no segment was free.
    pub(super) fn end(self) -> Result<Found<F>> {
        match (self.taken, self.failed) {
            (Some(_), Some(error)) if !self.is_answered && is_over(self.deadline) => Err(error),
            (Some((index, lock)), _) => Ok(Found::Taken(index, lock)),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(Found::SoldOut),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LEFT_OUT, Stores};
    use crate::platform::clock;

    #[test]
    fn one_caller_finds_out_whether_a_store_can_be_reached_again() {
        let stores = Stores::new(2);
        let now = clock::now();
        stores.note(1, false);
        assert!(stores.begin(0, now) && !stores.begin(1, now) && stores.is_left_out(1, now));
        let later = clock::now().after(LEFT_OUT);
        assert!(!stores.is_left_out(1, later) && stores.begin(1, later) && !stores.begin(1, later));
        stores.note(1, true);
        assert!(stores.begin(1, later) && stores.begin(1, later));
    }
}
