//! What leaves a machine.

use super::environment::{Handles, Hold};
use super::notice::Notice;
use crate::error::{Error, Kind, Result};
use crate::lease::{LossReason, ReleaseOutcome};
use crate::protocol::{AttemptId, Requests};
use crate::queue::{OwnerId, Refusal, TaskId};
use crate::session::RequestId;
use crate::time::{StoreTime, Time};

/// An answer, and who gets it.
pub type Settlement<H> = (<H as Handles>::Waiter, Settled<<H as Handles>::Hold>);

/// What is to be done after a step. The order of the lists among each other does not matter.
#[must_use = "effects must be performed"]
pub struct Effects<H: Handles> {
    /// Writes to send; each is answered by one [`Event::Answered`](super::Event::Answered), whatever happens.
    pub sends: Vec<Outgoing>,
    /// Answers to what was asked.
    pub settled: Vec<Settlement<H>>,
    /// Holds that are over before their time, and why.
    pub lost: Vec<(H::Hold, LossReason)>,
    /// Holds that somebody asks to be given back.
    pub wanted: Vec<H::Hold>,
    /// Holds that were given back.
    pub ended: Vec<H::Hold>,
    /// A request answered at this time of the store was sent then: correct the idea of its clock.
    pub learnt: Vec<(Time, StoreTime)>,
    /// Subscribe the inbox, and report each [change](super::Event::Inbox).
    pub open_inbox: bool,
    /// Keep this client's session at the store alive, and report each [change](super::Event::Alive).
    pub open_session: bool,
    /// Somebody [listens](super::Environment::subscribe) on a channel of the store.
    pub hear_hints: bool,
    /// Somebody has it from now on, and hears of it by the inbox when it is broken.
    pub heeds: bool,
    /// Slots that need not be [let in](super::LockMachine::let_in) any more.
    pub let_through: Vec<u64>,
    /// Who waits without a limit from now on, or no more.
    pub waits: Vec<Waiting>,
    /// What happened, for logs and figures.
    pub notices: Vec<Notice>,
    /// When all this was decided.
    pub at: Time,
}

impl<H: Handles> Effects<H> {
    /// Nothing, of a step at `now`.
    pub fn at(now: Time) -> Self {
        Effects {
            sends: Vec::new(),
            settled: Vec::new(),
            lost: Vec::new(),
            wanted: Vec::new(),
            ended: Vec::new(),
            learnt: Vec::new(),
            open_inbox: false,
            open_session: false,
            hear_hints: false,
            heeds: false,
            let_through: Vec::new(),
            waits: Vec::new(),
            notices: Vec::new(),
            at: now,
        }
    }

    /// Forgets everything, and keeps the memory for another step.
    pub fn clear(&mut self) {
        clear(&mut self.sends);
        clear(&mut self.settled);
        clear(&mut self.lost);
        clear(&mut self.wanted);
        clear(&mut self.ended);
        clear(&mut self.learnt);
        clear(&mut self.let_through);
        clear(&mut self.waits);
        clear(&mut self.notices);
        (self.open_inbox, self.open_session, self.hear_hints, self.heeds) = (false, false, false, false);
    }

    /// Whether there is what a lock that is free does not want.
    pub fn is_rare(&self) -> bool {
        let opens = self.open_inbox || self.open_session || self.hear_hints;
        let tells = !(self.lost.is_empty() && self.wanted.is_empty() && self.learnt.is_empty());
        opens || tells || !self.let_through.is_empty()
    }

    /// Whether somebody gets an answer.
    pub fn tells(&self) -> bool {
        !self.settled.is_empty()
    }

    /// Whether somebody has it from now on.
    pub fn grants(&self) -> bool {
        self.settled.iter().any(|(_, settled)| matches!(settled, Settled::Granted { .. }))
    }

    pub(super) fn lose(&mut self, hold: H::Hold, reason: LossReason) {
        let (token, held) = (hold.shown(), self.at.since(hold.since()));
        let reason = hold.reason(reason);
        self.notices.push(Notice::Lost { token, reason: reason.clone(), held });
        self.lost.push((hold, reason));
    }

    pub(super) fn end(&mut self, hold: H::Hold) {
        self.notices.push(Notice::Over { held: self.at.since(hold.since()) });
        self.ended.push(hold);
    }

    pub(super) fn settle(&mut self, waiter: H::Waiter, settled: Settled<H::Hold>) {
        self.settled.push((waiter, settled));
    }
}

/// Empties a list; one that had very many in it once keeps no memory for them.
fn clear<T>(list: &mut Vec<T>) {
    if list.capacity() > 64 {
        *list = Vec::new();
    } else {
        list.clear();
    }
}

impl<H: Handles> std::fmt::Debug for Effects<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Effects")
            .field("sends", &self.sends)
            .field("settled", &self.settled)
            .field("lost", &self.lost)
            .field("ended", &self.ended)
            .field("notices", &self.notices)
            .finish_non_exhaustive()
    }
}

/// A write to send.
#[derive(Debug)]
pub struct Outgoing {
    /// Which contender asks.
    pub slot: u64,
    /// What its answer is matched by.
    pub id: RequestId,
    /// What to write.
    pub requests: Requests,
}

/// The answer to what somebody asked of a machine.
#[derive(Debug)]
pub enum Settled<Hold> {
    /// The task has the lock; `depth` counts its owner's levels from 1.
    Granted { hold: Hold, depth: u32 },
    /// The task does not get the lock, or the hold is as it was.
    Refused(Refusal),
    /// What became of the hold that was given back.
    Released(ReleaseOutcome),
    /// Whether the lease is extended.
    Extended(bool),
    /// Whether it holds now what it wanted to.
    Changed(bool),
    /// The secret has the lock.
    Exported(AttemptId),
}

impl<Hold> Settled<Hold> {
    /// The secret to which an export left the lock.
    ///
    /// # Errors
    /// Why it did not: `unsupported` where the layout cannot, or its owner entered the lock more than once;
    /// `unavailable` where the store did not say, `lost`.
    pub fn secret(self) -> Result<AttemptId> {
        let error = match self {
            Settled::Exported(secret) => return Ok(secret),
            Settled::Refused(Refusal::Failed(error)) => error,
            Settled::Released(ReleaseOutcome::Kept(levels)) => Error::unsupported(
                "export",
                format!("its owner entered it {levels} times; release the inner levels before exporting the outermost"),
            ),
            Settled::Released(ReleaseOutcome::Unknown) => {
                let message =
                    "the store did not say whether it was exported, so the lock is given back; acquire it again";
                Error::new(Kind::Unavailable, "export", message)
            }
            _ => Error::new(Kind::Lost, "export", "the lock was no longer held; acquire it again"),
        };
        Err(error)
    }

    /// Whether what was to be given back or exported is held as before.
    pub fn is_kept(&self) -> bool {
        matches!(self, Settled::Refused(_) | Settled::Released(ReleaseOutcome::Kept(_)))
    }
}

/// A task waits without a limit from now on, or no more.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// Whose task.
    pub owner: OwnerId,
    /// Which.
    pub task: TaskId,
    /// Somebody else may release what the owner holds.
    pub lenient: bool,
    /// It begins to wait.
    pub begins: bool,
}
