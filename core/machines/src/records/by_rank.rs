//! Who waits for a lock, in memory: a queue in order of arrival for each rank.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::convert::Infallible;

use crate::in_order::InOrder;
use crate::lock_cell::{LockStorage, Place, Waiter};
use crate::protocol::{AttemptId, InboxId};
use crate::rank::Rank;
use crate::time::StoreTime;

/// See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ByRank {
    /// Those of the lowest rank: mostly all.
    lowest: InOrder<Place>,
    /// The others, of whom there is somebody.
    higher: BTreeMap<Rank, InOrder<Place>>,
}

impl ByRank {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.lowest.is_empty() && self.higher.is_empty()
    }

    /// How many wait.
    pub fn len(&self) -> u32 {
        self.higher.values().map(InOrder::len).fold(self.lowest.len(), u32::saturating_add)
    }

    /// Everybody who waits, by rank and arrival.
    pub fn iter(&self) -> impl Iterator<Item = &Place> {
        self.higher.values().rev().chain([&self.lowest]).flat_map(InOrder::iter)
    }

    /// The rank whose first is served next: the one that waits longest, as its rank counts.
    fn next(&self) -> Option<Rank> {
        if self.higher.is_empty() {
            return (!self.lowest.is_empty()).then_some(Rank::LOWEST);
        }
        let lines = self.higher.values().chain([&self.lowest]);
        let firsts = lines.filter_map(|line| line.get(0));
        firsts.min_by_key(|first| turn(first)).map(|first| first.rank)
    }

    fn of(&mut self, rank: Rank) -> &mut InOrder<Place> {
        if rank == Rank::LOWEST { &mut self.lowest } else { self.higher.entry(rank).or_default() }
    }

    fn each(&mut self, mut does: impl FnMut(&mut InOrder<Place>)) {
        does(&mut self.lowest);
        self.higher.values_mut().for_each(does);
        self.higher.retain(|_, line| !line.is_empty());
    }
}

/// Of the firsts of several ranks the one for which this is the least is served next.
fn turn(first: &Place) -> (StoreTime, Reverse<Rank>) {
    (first.rank.turn(first.since), Reverse(first.rank))
}

impl LockStorage for ByRank {
    type Error = Infallible;

    fn join(&mut self, place: &Place) -> Result<u32, Infallible> {
        let attempt = place.waiter.owner.attempt;
        let known = self.higher.iter().find(|(_, line)| line.contains(attempt)).map(|(rank, _)| *rank);
        let rank = known.unwrap_or(if self.lowest.contains(attempt) { Rank::LOWEST } else { place.rank });
        let others = self.len() - if rank == Rank::LOWEST { self.lowest.len() } else { self.of(rank).len() };
        Ok(self.of(rank).join(place).saturating_add(others))
    }

    fn first(&mut self) -> Result<Option<Waiter>, Infallible> {
        Ok(self.next().and_then(|rank| self.of(rank).get(0)).map(|first| first.waiter.clone()))
    }

    fn count(&mut self) -> Result<u32, Infallible> {
        Ok(self.len())
    }

    fn list(&mut self, most: usize) -> Result<Vec<Place>, Infallible> {
        let lines = self.higher.values().chain([&self.lowest]);
        let mut lines: Vec<_> = lines.map(|line| line.iter().peekable()).collect();
        let next = || {
            let firsts = lines.iter_mut().filter_map(|line| Some((turn(line.peek()?), line)));
            firsts.min_by_key(|(turn, _)| *turn)?.1.next().cloned()
        };
        Ok(std::iter::from_fn(next).take(most).collect())
    }

    fn pop(&mut self) -> Result<Option<Waiter>, Infallible> {
        let Some(rank) = self.next() else { return Ok(None) };
        let first = self.of(rank).pop();
        self.higher.retain(|_, line| !line.is_empty());
        Ok(first.map(|first| first.waiter))
    }

    fn contains(&mut self, attempt: AttemptId) -> Result<bool, Infallible> {
        Ok(self.lowest.contains(attempt) || self.higher.values().any(|line| line.contains(attempt)))
    }

    fn leave(&mut self, attempt: AttemptId) -> Result<(), Infallible> {
        self.each(|line| line.leave(attempt));
        Ok(())
    }

    fn drop_inbox(&mut self, inbox: InboxId) -> Result<(), Infallible> {
        self.each(|line| line.drop_inbox(inbox));
        Ok(())
    }
}
