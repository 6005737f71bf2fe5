//! What a contender's key is called below the lock.
//!
//! A key that was deleted stays in etcd's index until the cluster is compacted, and every read of the queue goes past
//! it. Were each attempt's key called after the attempt, twenty thousand acquisitions would make the next one twice as
//! slow, for everybody who contends there (measured on etcd 3.4; many a cluster is never compacted). So an attempt
//! takes the seat of one that is over, of the same client.
//!
//! A seat says nothing of whose it is: a copy of this process's memory may take the same one, and a request that was
//! lost may be executed when another attempt has it. So the key's value is the attempt's tag, and nothing is done by
//! the key's name alone: who finds another's tag there goes on under a name of its own, and what undoes an attempt
//! compares the tag. Where the value is a label, which Go's observers read as what a leader proclaims, the key is
//! called after the attempt, and nobody else ever has that name.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::hex::Hex;
use crate::lease::Card;
use crate::protocol::AttemptId;

/// How the value of a key begins that says whose it is.
const TAG: &str = "attempt ";

/// The label that a key's value is.
pub fn label(value: &str) -> &str {
    if value.starts_with(TAG) { "" } else { value }
}

/// What stands in the key of an attempt with that card; none if it has a label, which stands there instead.
pub(super) fn tag_of(card: &str, attempt: AttemptId) -> Option<String> {
    Card::label_of(card).is_empty().then(|| [TAG, &Hex::of(attempt.0)].concat())
}

/// The seats of a client that nobody has.
pub trait Seats: fmt::Debug + Send + Sync {
    /// One of them, which nobody else has from now on.
    fn take(&self) -> Option<AttemptId>;

    /// Nobody has it any more.
    fn leave(&self, seat: AttemptId);
}

/// Each contender keeps its own.
impl Seats for () {
    fn take(&self) -> Option<AttemptId> {
        None
    }

    fn leave(&self, _: AttemptId) {}
}

/// The seats that one contender's attempts take, one after the other; while one has it, it is not here. Where a hold is
/// handed on two take turns; a client may hold very many locks, and few of them are.
#[derive(Debug, Default)]
pub(super) struct Seat {
    free: Option<AttemptId>,
    spare: Option<Box<AttemptId>>,
    others: Option<Arc<dyn Seats>>,
}

impl Seat {
    /// None yet: it will be one of these, if there is one.
    pub(super) fn of(seats: &Arc<dyn Seats>) -> Self {
        Seat { free: None, spare: None, others: Some(seats.clone()) }
    }

    /// For `attempt`, after which it is called if it is new.
    pub(super) fn take(&mut self, attempt: AttemptId) -> AttemptId {
        let own = self.free.take().or_else(|| self.spare.take().map(|spare| *spare));
        own.or_else(|| self.others.as_ref().and_then(|seats| seats.take())).unwrap_or(attempt)
    }

    /// Nothing is left of whoever had `seat`, and nothing will be.
    pub(super) fn leave(&mut self, seat: AttemptId) {
        let Some(other) = self.free.replace(seat) else { return };
        if let (Some(spare), Some(others)) = (self.spare.replace(Box::new(other)), &self.others) {
            others.leave(*spare);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let Some(others) = &self.others else { return };
        self.free.into_iter().chain(self.spare.as_deref().copied()).for_each(|seat| others.leave(seat));
    }
}

/// A copy is for those who explore what could happen next: it leaves its seat to nobody, for it is the original's.
impl Clone for Seat {
    fn clone(&self) -> Self {
        Seat { free: self.free, spare: self.spare.clone(), others: None }
    }
}

impl Hash for Seat {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.free, &self.spare).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Room for one.
    #[derive(Debug, Default)]
    struct Room(AtomicU64);

    impl Seats for Room {
        fn take(&self) -> Option<AttemptId> {
            Some(self.0.swap(0, Ordering::Relaxed)).filter(|seat| *seat > 0).map(|seat| AttemptId(seat.into()))
        }

        fn leave(&self, seat: AttemptId) {
            self.0.store(seat.0 as u64, Ordering::Relaxed);
        }
    }

    const A: AttemptId = AttemptId(1);
    const B: AttemptId = AttemptId(2);
    const C: AttemptId = AttemptId(3);

    #[test]
    fn a_seat_is_taken_again_once_it_was_left_and_never_by_two() {
        let seats: Arc<dyn Seats> = Arc::new(Room::default());
        let (mut one, mut two) = (Seat::of(&seats), Seat::of(&seats));
        assert_eq!((one.take(A), two.take(B)), (A, B));
        one.leave(A);
        assert_eq!((one.take(C), two.take(C)), (A, C));
        one.leave(A);
        drop(one.clone());
        assert_eq!(seats.take(), None, "a copy leaves nothing");
        drop(one);
        // Whoever left none has nothing to leave.
        drop(two);
        let (mut next, mut last) = (Seat::of(&seats), Seat::of(&seats));
        assert_eq!((next.take(B), last.take(B)), (A, B));
        // Who has two goes on with the one that it left last; a third one is for others.
        [A, B, C].into_iter().for_each(|seat| next.leave(seat));
        let taken = [(); 3].map(|()| next.take(AttemptId(4)));
        assert_eq!((taken, seats.take()), ([C, B, A], None));
        [A, B].into_iter().for_each(|seat| last.leave(seat));
        drop(last);
        assert_eq!(seats.take(), Some(A));
    }
}
