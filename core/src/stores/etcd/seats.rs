//! The [seats](super::layouts::seat) of a client that nobody has.

use std::sync::Mutex;

use super::layouts::seat::Seats;
use crate::platform::mutex::locked;
use crate::protocol::AttemptId;

/// More than this many are forgotten: a client that had so many contenders at once may well have them again.
const MOST: usize = 1024;

/// The one that was left last is the first to be taken, so that few are in use.
#[derive(Debug, Default)]
pub(super) struct FreeSeats(Mutex<Vec<AttemptId>>);

impl Seats for FreeSeats {
    fn take(&self) -> Option<AttemptId> {
        locked(&self.0).pop()
    }

    fn leave(&self, seat: AttemptId) {
        let mut free = locked(&self.0);
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
        let seats = FreeSeats::default();
        assert_eq!(seats.take(), None);
        (0..MOST as u128 + 5).for_each(|seat| seats.leave(AttemptId(seat)));
        assert_eq!((seats.take(), locked(&seats.0).len()), (Some(AttemptId(MOST as u128 - 1)), MOST - 1));
    }
}
