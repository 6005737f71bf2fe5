//! The tasks that want a lock: granted, refused, said to wait.

use std::sync::Arc;

use smallvec::SmallVec;

use super::LockMachine;
use super::effects::{Settled, Waiting};
use super::environment::{Handles, Held, Hold, Step};
use super::notice::{Notice, Way, Why};
use super::pending::{Demand, Task};
use super::slots::Slot;
use crate::error::{Error, Kind};
use crate::protocol::Push;
use crate::queue::{self, ContenderId, HoldId, Refusal, TaskId};
use crate::time::Time;
use crate::token::Token;

impl<H: Handles> LockMachine<H> {
    pub(super) fn acquire(&mut self, step: &mut Step<'_, H>, demand: Demand<'_>, waiter: H::Waiter) {
        let Demand { ask, card, by, holds_nothing, lenient, secret, insists, hurries } = demand;
        if self.card.as_ref().is_none_or(|known| !Arc::ptr_eq(known, card)) {
            self.card = Some(card.clone());
        }
        // The timer may be late: a hold that is over refuses nobody who only tries.
        if self.next_look(step.now).is_some_and(|due| due <= step.now) {
            self.tick(step.now);
            self.talk(step);
        }
        step.effects.notices.push(Notice::Asked);
        let behind = !ask.tries && !self.queue.is_idle();
        let is_endless = !ask.tries && ask.deadline.is_none();
        let waits_as = by.filter(|_| is_endless && !holds_nothing && self.is_of_holders);
        let (id, since, said, parts) = (ask.task, step.now, false, None);
        self.tasks.push_back(Task { id, waiter, since, behind, said, by, waits_as, lenient, insists, hurries, parts });
        self.unsaid += 1;
        self.hurrying += u32::from(hurries);
        if self.closed {
            return self.refuse(step, ask.task, Refusal::Failed(closed()));
        }
        let event = match secret {
            Some(secret) => queue::Event::Resume { ask, secret },
            None => queue::Event::Acquire(ask),
        };
        self.queue.handle(step.now, event);
    }

    pub(super) fn cancel(&mut self, step: &mut Step<'_, H>, task: TaskId, granted: Option<H::Hold>) {
        if let Some(task) = self.take_task(step, task) {
            let why = if task.parts.is_some() { Why::TimedOut } else { Why::Cancelled };
            step.effects.notices.push(Notice::Refused { why, waited: step.now.since(task.since) });
        }
        match granted {
            Some(hold) => {
                let (id, token) = (hold.id(), hold.shown());
                step.effects.ended.push(hold);
                self.release(step, id, token, H::Waiter::default());
            }
            None => self.queue.handle(step.now, queue::Event::Cancel(task)),
        }
    }

    /// The task is told so, and nobody wants anything for it any more.
    pub(super) fn turn_away(&mut self, step: &mut Step<'_, H>, task: TaskId, error: Error) {
        self.queue.handle(step.now, queue::Event::Cancel(task));
        self.refuse(step, task, Refusal::Failed(error));
    }

    pub(super) fn turn_all_away(&mut self, step: &mut Step<'_, H>, error: &Error) {
        while let Some(task) = self.tasks.front().map(|task| task.id) {
            self.turn_away(step, task, error.clone());
        }
    }

    /// There is nobody at the store's address.
    pub(super) fn refuse_who_hurries(&mut self, step: &mut Step<'_, H>, error: &Error) {
        while self.hurrying > 0
            && let Some(task) = self.tasks.iter().find(|task| task.hurries).map(|task| task.id)
        {
            self.turn_away(step, task, error.clone());
        }
    }

    /// Whoever polls is served in no order.
    pub(super) fn refuse_the_fair(&mut self, step: &mut Step<'_, H>) {
        let insists = |id: &TaskId| self.task(*id).is_some_and(|task| task.insists);
        let tasks: SmallVec<[TaskId; 4]> = self.queue.waiting_fairly().filter(insists).collect();
        for task in tasks {
            self.turn_away(step, task, unfair());
        }
    }

    pub(super) fn grant(
        &mut self,
        step: &mut Step<'_, H>,
        task: TaskId,
        (id, token): (HoldId, Option<Token>),
        depth: u32,
        contender: ContenderId,
    ) {
        let at = self.slots.position_of(contender, step.now);
        let Some(Slot { session, .. }) = at.and_then(|at| self.slots.get(at)) else {
            let nobody =
                Error::new(Kind::Internal, "acquire", "granted to a contender that is gone; please report this");
            return self.refuse(step, task, Refusal::Failed(nobody));
        };
        let way = match depth {
            1 if session.first_token() != token.map(|token| token.n) => Way::HandOff,
            1 if step.pushed => Way::Push,
            1 => Way::Answer,
            _ => Way::Reentry,
        };
        let (attempt, ttl) = (session.attempt(), session.ttl());
        let valid_until = session.valid_until().unwrap_or(Time::ZERO);
        let by = self.task(task).and_then(|task| task.by);
        let hold = self.hold_of(id).cloned().unwrap_or_else(|| {
            let hold = H::Hold::new(Held { id, token, since: step.now, valid_until, by });
            self.holds.push(hold.clone());
            hold
        });
        step.effects.heeds = self.push == Push::Inbox;
        if let Some(task) = self.take_task(step, task) {
            let (token, waited) = (hold.shown(), step.now.since(task.since));
            step.effects.notices.push(Notice::Granted { token, attempt, ttl, waited, way });
            step.effects.settle(task.waiter, Settled::Granted { hold, depth });
        }
    }

    pub(super) fn refuse(&mut self, step: &mut Step<'_, H>, task: TaskId, refused: Refusal) {
        if let Some(task) = self.take_task(step, task) {
            let (why, waited) = (Why::from(&refused), step.now.since(task.since));
            step.effects.notices.push(Notice::Refused { why, waited });
            step.effects.settle(task.waiter, Settled::Refused(refused));
        }
    }

    /// Tells everybody who waits the same, without asking the queue.
    pub(super) fn refuse_everybody(&mut self, step: &mut Step<'_, H>, why: impl Fn() -> Error) {
        while let Some(task) = self.tasks.front().map(|task| task.id) {
            self.refuse(step, task, Refusal::Failed(why()));
        }
    }

    /// A task waits once somebody else of this process, or at the store, is known to have the lock or to come before
    /// it.
    pub(super) fn say_who_waits(&mut self, step: &mut Step<'_, H>) {
        if self.unsaid == 0 {
            return;
        }
        let wait = self.slots.any_worked(|slot| !slot.idle && slot.session.is_waiting());
        // Who came last stands behind; of those before, only who found nobody may not have been said to wait.
        for task in self.tasks.iter_mut().rev() {
            // None of very many before is left unsaid.
            if self.unsaid == 0 || (task.said && !wait) {
                break;
            }
            if task.said || !(wait || task.behind) {
                continue;
            }
            task.said = true;
            self.unsaid -= 1;
            let begun = |owner| Waiting { owner, task: task.id, lenient: task.lenient, begins: true };
            step.effects.waits.extend(task.waits_as.map(begun));
            step.effects.notices.push(Notice::Waits);
        }
    }

    pub(super) fn task_at(&self, task: TaskId) -> Option<usize> {
        queue::place(&self.tasks, task, |other| Some(other.id))
    }

    pub(super) fn task(&self, task: TaskId) -> Option<&Task<H::Waiter>> {
        self.tasks.get(self.task_at(task)?)
    }

    pub(super) fn take_task(&mut self, step: &mut Step<'_, H>, task: TaskId) -> Option<Task<H::Waiter>> {
        let at = self.task_at(task)?;
        let task = self.tasks.remove(at)?;
        let over = |owner| Waiting { owner, task: task.id, lenient: task.lenient, begins: false };
        step.effects.waits.extend(task.waits_as.filter(|_| task.said).map(over));
        self.unsaid -= u32::from(!task.said);
        self.hurrying -= u32::from(task.hurries);
        Some(task)
    }
}

/// The error for a task that asked for `fair` where the store lets no client of ours subscribe.
pub fn unfair() -> Error {
    let message = "it cannot be fair here: the store does not let this user subscribe, so waiters poll in no order; grant \
                   the right, or leave fair out";
    Error::unsupported("acquire", message)
}

/// The error for a task that waits when its client is closed, or comes later.
pub(super) fn closed() -> Error {
    Error::new(Kind::Closed, "acquire", "the client was closed; connect again")
}
