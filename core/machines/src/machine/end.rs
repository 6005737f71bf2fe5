//! The end of all that is wanted and held: a client that closes, a process that is not the one it was, a defect.

use super::LockMachine;
use super::environment::{Handles, Kind, Step};
use super::notice::Notice;
use super::slots::Slots;
use super::tasks::closed;
use crate::error::{self, Error};
use crate::lease::LossReason;
use crate::queue::Queue;
use crate::session;

impl<H: Handles> LockMachine<H> {
    pub(super) fn close(&mut self, step: &mut Step<'_, H>) {
        self.closed = true;
        self.refuse_everybody(step, closed);
        self.lose_all(step, &LossReason::Closed);
        let used = self.queue.held_token().unwrap_or(0);
        let holder = self.queue.held().and_then(|hold| self.queue.holder(hold));
        self.queue = Queue::new(1);
        for at in 0..self.slots.len() {
            let slot = &mut self.slots[at];
            let holds = holder.is_some() && slot.contender == holder;
            slot.contender = None;
            let event = if holds { session::Event::Release { used } } else { session::Event::Cancel };
            slot.session.handle(step.now, event);
        }
    }

    pub(super) fn forsake(&mut self, step: &mut Step<'_, H>) {
        self.closed = true;
        self.refuse_everybody(step, restored);
        self.lose_all(step, &LossReason::Closed);
        self.leave_releases_open(step);
        self.deny_wishes(step);
        self.queue = Queue::new(1);
        self.slots = Slots::new();
    }

    /// The last step panicked with what it `said`, which is a defect of ours: what it left half done is not gone on
    /// with. Everybody is told the worst, nothing is renewed, what the store knows ends with its lease, and the lock
    /// may be asked for anew.
    pub fn give_up(&mut self, step: &mut Step<'_, H>, kind: Kind, said: String) {
        step.effects.sends.clear();
        (step.effects.open_inbox, step.effects.open_session, step.effects.hear_hints) = (false, false, false);
        self.refuse_everybody(step, defect);
        self.lose_all(step, &LossReason::Expired);
        self.leave_releases_open(step);
        self.deny_wishes(step);
        step.effects.notices.push(Notice::Panicked { said });
        *self = LockMachine { closed: self.closed, ..LockMachine::new(kind) };
    }
}

fn restored() -> Error {
    let message = "this process was restored from a copy of itself while it waited; acquire the lock again";
    Error::new(error::Kind::Forked, "acquire", message)
}

/// The error for a task that waited when its lock was given up.
fn defect() -> Error {
    let message = "this library panicked, and gave up what it was doing with this lock; please report the panic, which the log has";
    Error::new(error::Kind::Internal, "acquire", message)
}
