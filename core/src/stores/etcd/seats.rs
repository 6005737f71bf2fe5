//! The [seats](super::layouts::seat) of a client that nobody has.

use std::sync::{Arc, Mutex};

use super::layouts::seat::{FreeSeats, Seats};
use crate::platform::fork::Generational;
use crate::platform::mutex::locked;
use crate::protocol::AttemptId;

/// More than this many are forgotten: a client that had so many contenders at once may well have them again.
const MOST: usize = 1024;

/// See the [module](self). A forked child has none at first, nor has a process that goes on from a copy of its memory.
#[derive(Debug)]
pub(super) struct ClientSeats(Generational<Free>);

impl Default for ClientSeats {
    fn default() -> Self {
        ClientSeats(Generational::of_image(Arc::default()))
    }
}

impl Seats for ClientSeats {
    fn here(&self) -> Arc<dyn FreeSeats> {
        self.0.get_or_make(Arc::default).clone()
    }
}

/// The one that was left last is the first to be taken, so that few are in use.
#[derive(Debug, Default)]
struct Free(Mutex<Vec<AttemptId>>);

impl FreeSeats for Free {
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
        let seats = Free::default();
        assert_eq!(seats.take(), None);
        (0..MOST as u128 + 5).for_each(|seat| seats.leave(AttemptId(seat)));
        assert_eq!((seats.take(), locked(&seats.0).len()), (Some(AttemptId(MOST as u128 - 1)), MOST - 1));
    }
}
