//! The [seats](super::layouts::seat) of a client that nobody has.

use std::sync::{Arc, Mutex};

use super::layouts::seat::Seats;
use crate::platform::fork::Generational;
use crate::platform::mutex::locked;
use crate::protocol::AttemptId;

/// More than this many are forgotten: a client that had so many contenders at once may well have them again.
const MOST: usize = 1024;

/// The one that was left last is the first to be taken, so that few are in use. A forked process begins without any:
/// whoever was at its parent's when it was forked is not there to be waited for.
#[derive(Debug)]
pub(super) struct ClientSeats(Generational<Mutex<Vec<AttemptId>>>);

impl Default for ClientSeats {
    fn default() -> Self {
        ClientSeats(Generational::of_image(Arc::default()))
    }
}

impl ClientSeats {
    fn here(&self) -> &Mutex<Vec<AttemptId>> {
        self.0.get_or_make(Arc::default)
    }
}

impl Seats for ClientSeats {
    fn take(&self) -> Option<AttemptId> {
        locked(self.here()).pop()
    }

    fn leave(&self, seat: AttemptId) {
        let mut free = locked(self.here());
        if free.len() < MOST {
            free.push(seat);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_that_was_left_is_taken_first_and_no_more_are_kept_than_are_of_use() {
        let seats = ClientSeats::default();
        assert_eq!(seats.take(), None);
        (0..MOST as u128 + 5).for_each(|seat| seats.leave(AttemptId(seat)));
        assert_eq!((seats.take(), locked(seats.here()).len()), (Some(AttemptId(MOST as u128 - 1)), MOST - 1));
    }
}
