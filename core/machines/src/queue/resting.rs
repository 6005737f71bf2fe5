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
    token: Option<NonZeroU64>,
    owner: Option<OwnerId>,
    depth: u32,
    abandoned: u32,
    /// Whether its contender stands for the holder alone.
    fair: bool,
}

impl Queue {
    /// What goes on of it where one contender holds, and nobody waits; nothing where others do, or a turn may go on.
    pub(crate) fn resting(&self, now: Time) -> Option<Resting> {
        let Queue { block: _, next_contender: _, shared, own, waiting, waiting_fairly, .. } = self;
        let Queue { deadlines, hold, turn, actions, .. } = self;
        let Hold { id, contender, token, owner, depth, abandoned } = hold.clone()?;
        let is_the_holders = |own: &Contender| own.id == contender && own.fair_for == Some(TaskId(id.0));
        let fair = match shared {
            Some(shared) if shared.id == contender && own.is_empty() => false,
            None if own.len() == 1 && own.iter().all(is_the_holders) => true,
            _ => return None,
        };
        let nobody_waits = waiting.is_empty() && waiting_fairly.is_empty() && deadlines.is_none();
        // Whoever may not hand it on has no turn.
        let over = |turn: &Turn| turn.holders_left == NonZeroU32::MIN || now >= turn.ends;
        let rests = nobody_waits && turn.as_ref().is_none_or(over) && actions.is_empty();
        rests.then_some(Resting { token, owner, depth, abandoned, fair })
    }

    /// It goes on by what was kept [of it](Self::resting): nothing is left of it here.
    pub(crate) fn rest(&mut self, scratch: &mut Scratch) {
        (self.shared, self.hold, self.turn) = (None, None, None);
        if !self.own.is_empty() {
            self.own.clear();
        }
        scratch.own.take_back(&mut self.own);
    }

    /// Goes on from what rested, as `id`, which is held on the terms of `service`: the contender that has it.
    pub(crate) fn wake(
        &mut self,
        resting: Resting,
        id: HoldId,
        service: CompactService,
        scratch: &mut Scratch,
    ) -> ContenderId {
        let Resting { token, owner, depth, abandoned, fair } = resting;
        self.next_contender = HOLDER.0 + 1;
        self.hold = Some(Hold { id, contender: HOLDER, token, owner, depth, abandoned });
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
