//! In which order the waiters of a client get in line while its inbox is being opened.
//!
//! A place in a store's queue is asked for only once pushes can come: who waits before that has none yet. When the
//! inbox is open, those who come then would ask for a place at once, and come before those who have been waiting. So
//! whoever waits in order and has no place *stands behind*: the ones that came first are let in, so many at a time, the
//! next once those have their places, and who comes meanwhile stands behind them.
//!
//! A waiter is known by its slot's number; numbers rise in the order in which the contenders came. Whoever has a line
//! tries to [begin](LineUp::begin) a round after each change. In it they are [let in](LineUp::let_in_next) one by one,
//! how each took that is [told](LineUp::taken), and when what they asked is sent the round [ends](LineUp::end).

use std::collections::BTreeSet;

use super::Turn;
use crate::session::Inbox;

/// In which order the waiters of a client get in line while its inbox is being opened: who is behind whom, and who may
/// ask for a place now.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LineUp {
    /// How many are let in at a time.
    at_once: usize,
    behind: BTreeSet<u64>,
    /// Those that may ask for their places, and do not have them yet.
    let_in: BTreeSet<u64>,
    /// Somebody is letting in the next.
    round: Option<Round>,
}

/// What is left of letting in so many at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Round {
    left: usize,
    /// Nobody asked in it yet.
    first: bool,
}

impl LineUp {
    /// A line of which so many are let in at a time: what goes to a store in one write, which keeps their order.
    pub fn new(at_once: usize) -> Self {
        LineUp { at_once, behind: BTreeSet::new(), let_in: BTreeSet::new(), round: None }
    }

    /// Whether nobody stands in it.
    pub fn is_empty(&self) -> bool {
        self.behind.is_empty() && self.let_in.is_empty()
    }

    /// What `slot`, which is about to ask, is to know of the client's `inbox`, and whether it stands behind others, or
    /// is the first to.
    pub fn join(&mut self, slot: u64, inbox: Inbox) -> (Inbox, bool) {
        match inbox {
            Inbox::Live if self.is_empty() => (Inbox::Live, false),
            Inbox::Unavailable => (Inbox::Unavailable, false),
            Inbox::Live | Inbox::Closed => {
                self.behind.insert(slot);
                (Inbox::Closed, true)
            }
        }
    }

    /// This one has its place, or wants none any more.
    pub fn went_through(&mut self, slot: u64) {
        self.behind.remove(&slot);
        self.let_in.remove(&slot);
    }

    /// The inbox is another one, or is being opened anew: who was let in may have asked in vain.
    pub fn inbox_changed(&mut self, inbox: Inbox) {
        self.behind.append(&mut self.let_in);
        if let Some(round) = &mut self.round {
            round.left = 0;
        }
        if inbox == Inbox::Unavailable {
            // Whoever polls is served in no order.
            self.behind.clear();
        }
    }

    /// Whether the caller is to let in the next ones, as long as the `inbox` is live: not while others do, or those
    /// that were let in have no places yet.
    pub fn begin(&mut self, inbox: Inbox) -> bool {
        let begins = inbox == Inbox::Live && self.round.is_none() && self.let_in.is_empty() && !self.behind.is_empty();
        if begins {
            self.round = Some(Round { left: self.at_once, first: true });
        }
        begins
    }

    /// The next to be let in, and whether it is the first; none when these are enough.
    pub fn let_in_next(&mut self) -> Option<(u64, bool)> {
        let round = self.round.as_mut()?;
        round.left = round.left.checked_sub(1)?;
        let slot = self.behind.pop_first()?;
        self.let_in.insert(slot);
        Some((slot, round.first))
    }

    /// How the one that was let in last took that.
    pub fn taken(&mut self, slot: u64, turn: Turn) {
        let Some(round) = &mut self.round else { return };
        match turn {
            Turn::Asks => round.first = false,
            Turn::Over => _ = self.let_in.remove(&slot),
            Turn::AsksAgain => round.left = 0,
            Turn::Later => {
                round.left = 0;
                // Unless it went through meanwhile.
                if self.let_in.remove(&slot) {
                    self.behind.insert(slot);
                }
            }
        }
    }

    /// What they asked is on its way, in their order: others may be let in once these have their places.
    pub fn end(&mut self) {
        self.round = None;
    }
}
