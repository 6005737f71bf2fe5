//! A queue in which somebody holds and nobody waits, in little memory.

use std::num::{NonZeroU32, NonZeroU64};

use super::{Contender, ContenderId, Hold, HoldId, OwnerId, Queue, Scratch, TaskId, Turn};
use crate::session::CompactService;
use crate::time::Time;

/// Its only contender holds: numbers of contenders begin anew with it, since nobody else knows them.
const HOLDER: ContenderId = ContenderId(0);

/// What goes on of such a queue. Which hold it is, and on what terms, its caller knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resting {
    depth: u32,
    /// Whether its owner may re-enter.
    reenters: bool,
    /// Whether its contender stands for the holder alone.
    fair: bool,
}

/// A hold as its caller knows it too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) id: HoldId,
    pub(crate) token: Option<NonZeroU64>,
    /// Whose it is, also where that one may not re-enter.
    pub(crate) by: Option<OwnerId>,
}

impl Queue {
    /// What goes on of it where one contender holds, and nobody waits; nothing where others do, or a turn may go on.
    /// Nor where the hold is not as it is `known`, or a guard of it was forgotten: such holds are few.
    pub(crate) fn resting(&self, known: Known, now: Time) -> Option<Resting> {
        let Queue { block: _, next_contender: _, shared, own, waiting, waiting_fairly, .. } = self;
        let Queue { deadlines, hold, turn, actions, .. } = self;
        let Hold { id, contender, token, owner, depth, abandoned: 0 } = *hold.as_ref()? else { return None };
        let is_the_holders = |own: &Contender| own.id == contender && own.fair_for == Some(TaskId(id.0));
        let fair = match shared {
            Some(shared) if shared.id == contender && own.is_empty() => false,
            None if own.len() == 1 && own.iter().all(is_the_holders) => true,
            _ => return None,
        };
        let nobody_waits = waiting.is_empty() && waiting_fairly.is_empty() && deadlines.is_none();
        // Whoever may not hand it on has no turn.
        let over = |turn: &Turn| turn.holders_left == NonZeroU32::MIN || now >= turn.ends;
        let is_known = known.id == id && known.token == token && (owner.is_none() || known.by == owner);
        let rests = is_known && nobody_waits && turn.as_ref().is_none_or(over) && actions.is_empty();
        rests.then_some(Resting { depth, reenters: owner.is_some(), fair })
    }

    /// It goes on by what was kept [of it](Self::resting): nothing is left of it here.
    pub(crate) fn rest(&mut self, scratch: &mut Scratch) {
        (self.shared, self.hold, self.turn) = (None, None, None);
        if !self.own.is_empty() {
            self.own.clear();
        }
        scratch.own.take_back(&mut self.own);
    }

    /// Goes on from what rested, as the hold `known`, which is held on the terms of `service`: the contender that has
    /// it.
    pub(crate) fn wake(
        &mut self,
        resting: Resting,
        known: Known,
        service: CompactService,
        scratch: &mut Scratch,
    ) -> ContenderId {
        let (Resting { depth, reenters, fair }, Known { id, token, by }) = (resting, known);
        let owner = by.filter(|_| reenters);
        self.next_contender = HOLDER.0 + 1;
        self.hold = Some(Hold { id, contender: HOLDER, token, owner, depth, abandoned: 0 });
        let contender = |fair_for| Contender { id: HOLDER, fair_for, tried_by: None, service };
        if fair {
            scratch.own.lend(&mut self.own);
            self.own.push_back(contender(Some(TaskId(id.0))));
        } else {
            self.shared = Some(contender(None));
        }
        HOLDER
    }

    /// A queue of another layout, while nobody is in it.
    pub(crate) fn set_block(&mut self, block: u64) {
        self.block = block;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Ask, Event};
    use super::*;
    use crate::options::Retry;
    use crate::rank::Rank;
    use crate::session::Service;
    use crate::token::Tokens;

    const NOW: Time = Time::ZERO;

    fn ask(task: u64, owner: Option<OwnerId>) -> Ask {
        let service = Service { ttl: Duration::from_secs(10), renew: true, max_hold: None, retry: Retry::DEFAULT };
        Ask { task: TaskId(task), owner, fair: false, rank: Rank::LOWEST, tries: false, deadline: None, service }
    }

    /// Task 1 has it under token 100.
    fn held(owner: Option<OwnerId>) -> Queue {
        let mut queue = Queue::new(1);
        queue.handle(NOW, Event::Acquire(ask(1, owner)));
        queue.handle(NOW, Event::Granted { contender: HOLDER, tokens: Tokens::one(100) });
        while queue.poll_action().is_some() {}
        queue
    }

    fn known(token: u64, by: Option<OwnerId>) -> Known {
        Known { id: HoldId(1), token: NonZeroU64::new(token), by }
    }

    #[test]
    fn a_queue_whose_hold_is_not_as_its_caller_knows_it_does_not_rest() {
        let (me, other) = (Some(OwnerId(7)), Some(OwnerId(8)));
        assert!(held(me).resting(known(100, me), NOW).is_some());
        assert!(held(None).resting(known(100, me), NOW).is_some(), "its owner may not enter again");
        assert!(held(me).resting(known(101, me), NOW).is_none(), "a change raised the token that it shows");
        assert!(held(me).resting(known(100, other), NOW).is_none());
        assert!(held(me).resting(Known { id: HoldId(2), ..known(100, me) }, NOW).is_none());
        let mut forgotten = held(me);
        forgotten.handle(NOW, Event::Acquire(ask(2, me)));
        forgotten.handle(NOW, Event::Abandon { hold: HoldId(1) });
        while forgotten.poll_action().is_some() {}
        assert!(forgotten.resting(known(100, me), NOW).is_none(), "a guard of two is forgotten");
    }

    #[test]
    fn what_rested_is_as_it_was_when_it_wakes() {
        for (owner, by) in [(None, None), (None, Some(OwnerId(7))), (Some(OwnerId(7)), Some(OwnerId(7)))] {
            let mut queue = held(owner);
            let rested = queue.resting(known(100, by), NOW).unwrap();
            // A turn in which nobody may have it any more is none.
            queue.turn = None;
            let before = format!("{queue:?}");
            let scratch = &mut Scratch::default();
            queue.rest(scratch);
            queue.wake(rested, known(100, by), ask(1, owner).service.into(), scratch);
            assert_eq!(format!("{queue:?}"), before);
        }
    }
}
