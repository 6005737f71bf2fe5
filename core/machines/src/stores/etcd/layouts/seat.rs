//! What a contender's key is called below the lock.
//!
//! A key that was deleted stays in etcd's index until the cluster is compacted, and every read of the queue goes past it.
//! Were each attempt's key called after the attempt, twenty thousand acquisitions would make the next one twice as slow,
//! for everybody who contends there (measured on etcd 3.4; many a cluster is never compacted). So an attempt takes the
//! seat of one that is over, of the same client.
//!
//! A seat is only taken again if nothing that was sent for it can put or delete a key under this name any more: what
//! puts is answered, and what deletes names the revision at which the key was created. Where it cannot be known, as
//! after a lost connection, the seat is given up, and the next attempt has one that is called after itself.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::protocol::AttemptId;

/// More than this many are forgotten: a client that had so many contenders at once may well have them again.
const MOST: usize = 1024;

/// The seats of a client that nobody has: the one that was left last is the first to be taken, so that they are few.
#[derive(Debug, Default)]
pub struct Seats(Mutex<Vec<AttemptId>>);

impl Seats {
    fn free(&self) -> MutexGuard<'_, Vec<AttemptId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The seat that one contender's attempts take, one after the other; while one has it, it is not here.
#[derive(Debug, Default)]
pub(super) struct Seat {
    free: Option<AttemptId>,
    others: Option<Arc<Seats>>,
}

impl Seat {
    /// None yet: it will be one of these, if there is one.
    pub(super) fn of(seats: &Arc<Seats>) -> Self {
        Seat { free: None, others: Some(seats.clone()) }
    }

    /// For `attempt`, after which it is called if it is new.
    pub(super) fn take(&mut self, attempt: AttemptId) -> AttemptId {
        let other = || self.others.as_ref().and_then(|seats| seats.free().pop());
        self.free.take().or_else(other).unwrap_or(attempt)
    }

    /// Nothing is left of whoever had `seat`, and nothing will be.
    pub(super) fn leave(&mut self, seat: AttemptId) {
        self.free = Some(seat);
    }

    /// Something may yet be done under the name of `seat`.
    pub(super) fn give_up(&mut self, seat: AttemptId) {
        self.free.take_if(|free| *free == seat);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let (Some(seat), Some(others)) = (self.free, &self.others) {
            let mut free = others.free();
            if free.len() < MOST {
                free.push(seat);
            }
        }
    }
}

/// A copy is for those who explore what could happen next: it leaves its seat to nobody, for it is the original's.
impl Clone for Seat {
    fn clone(&self) -> Self {
        Seat { free: self.free, others: None }
    }
}

impl Hash for Seat {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.free.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: AttemptId = AttemptId(1);
    const B: AttemptId = AttemptId(2);
    const C: AttemptId = AttemptId(3);

    #[test]
    fn a_seat_is_taken_again_once_it_was_left_and_never_by_two() {
        let seats = Arc::new(Seats::default());
        let (mut one, mut two) = (Seat::of(&seats), Seat::of(&seats));
        assert_eq!((one.take(A), two.take(B)), (A, B));
        one.leave(A);
        assert_eq!((one.take(C), two.take(C)), (A, C));
        one.leave(A);
        drop(one.clone());
        assert!(seats.free().is_empty(), "a copy leaves nothing");
        drop(one);
        // Whoever left none has nothing to leave.
        drop(two);
        let (mut next, mut last) = (Seat::of(&seats), Seat::of(&seats));
        assert_eq!((next.take(B), last.take(B)), (A, B));
    }

    #[test]
    fn what_is_given_up_is_taken_by_nobody() {
        let seats = Arc::new(Seats::default());
        let mut seat = Seat::of(&seats);
        assert_eq!(seat.take(A), A);
        seat.leave(A);
        seat.give_up(B);
        seat.give_up(A);
        assert_eq!(seat.take(B), B);
        drop(seat);
        assert!(seats.free().is_empty());
    }

    #[test]
    fn no_more_are_kept_than_are_of_use() {
        let seats = Arc::new(Seats::default());
        for n in 0..MOST as u128 + 5 {
            let mut seat = Seat { free: None, others: Some(seats.clone()) };
            seat.leave(AttemptId(n));
        }
        assert_eq!(seats.free().len(), MOST);
    }
}
