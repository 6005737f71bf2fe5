//! Giving up at a time limit. A task whose limit passed is told so once the place that was asked for it at the store is
//! gone, so that nobody finds the lock handed to a place that was left; a store that does not answer keeps it for no
//! longer than [`PARTING`]. Where a grant [cannot be given back](crate::protocol::Push::is_final) the task waits for as
//! long as for any answer whether the grant came first, and is told then that it has what it waited for.

use std::time::Duration;

use super::LockMachine;
use super::effects::Settled;
use super::environment::{Handles, Held, Hold, Step};
use super::notice::{Notice, Way};
use super::pending::Left;
use crate::error::{Error, Kind};
use crate::lent::Lent;
use crate::queue::{ContenderId, Refusal, TaskId};
use crate::session::{self, Silence};
use crate::time::Time;
use crate::token::Token;

/// How much longer than its time limit an acquisition may take, so that its place among the waiters is gone by then.
/// Whoever gave up shall not find the lock handed to the place it left; a store that does not answer keeps nobody
/// longer.
pub const PARTING: Duration = Duration::from_millis(100);

impl<H: Handles> LockMachine<H> {
    /// Nobody wants the contender's lock any more.
    pub(super) fn withdraw(&mut self, step: &mut Step<'_, H>, contender: ContenderId) {
        let session = self.slot_of(contender, step.now).map(|slot| &slot.session);
        step.withdrawn =
            session.map_or_else(Left::default, |session| Left { silence: session.silence(), ahead: session.ahead() });
        self.tell(contender, step.now, session::Event::Cancel);
        self.detach(contender, step.now);
    }

    /// The time limit of a task passed.
    pub(super) fn time_out(&mut self, step: &mut Step<'_, H>, task: TaskId) {
        let left = std::mem::take(&mut step.withdrawn);
        let why = self.why_out_of_time(step.now, task, left);
        if !self.slots.is_undoing(step.now) {
            return self.refuse(step, task, why);
        }
        // What may have been granted is worth waiting for as long as for any answer.
        let patience = if self.push.is_final() { step.env.store_timeout() } else { PARTING };
        self.let_part(task, step.now.after(patience), why);
    }

    /// Why a task whose time limit passed did not get the lock: others have it, as far as anybody here knows, or the
    /// store has not said since it asked. `left` is how the contender stood that stood for the task alone.
    fn why_out_of_time(&mut self, now: Time, task: TaskId, left: Left) -> Refusal {
        let Left { silence, ahead } = left;
        let ahead = ahead.or_else(|| self.ahead_of(now, task));
        let held = self.queue.held().is_some();
        let Some(since) = self.task(task).filter(|_| !held).map(|task| task.since) else {
            return Refusal::TimedOut(ahead);
        };
        let silence = silence.or_else(|| self.silence(now)).and_then(|silence| silence.after(since, now));
        silence.map_or(Refusal::TimedOut(ahead), Refusal::Failed)
    }

    /// How many are ahead of a task that is not fair at most: at the store, and of this process.
    fn ahead_of(&mut self, now: Time, task: TaskId) -> Option<u32> {
        let here = u32::try_from(self.task_at(task)?).ok()?;
        let contender = self.queue.shared_contender()?;
        Some(self.slot_of(contender, now)?.session.ahead()?.saturating_add(here))
    }

    /// Why a task that only tries does not get the lock: somebody has it, or others here have asked for it in vain.
    pub(super) fn why_taken(&mut self, now: Time) -> Refusal {
        let silence = if self.queue.held().is_none() { self.silence(now) } else { None };
        silence.and_then(|silence| silence.trouble).map_or(Refusal::Taken, Refusal::Failed)
    }

    /// What the store owes to the contender of all tasks that are not fair.
    fn silence(&mut self, now: Time) -> Option<Silence> {
        let contender = self.queue.shared_contender()?;
        self.slot_of(contender, now)?.session.silence()
    }

    /// The task gave up, and is told so by [`part`](Self::part).
    fn let_part(&mut self, task: TaskId, by: Time, why: Refusal) {
        if let Some(task) = self.task_at(task).and_then(|at| self.tasks.get_mut(at)) {
            task.parts = Some(why);
            self.parting.push_back((by, task.id));
        }
    }

    /// The first of those who gave up and are not told yet, and what it will be told by when.
    fn first_parting(&mut self) -> Option<(Time, TaskId, Refusal)> {
        while let Some((by, task)) = self.parting.front().copied() {
            if let Some(why) = self.task(task).and_then(|task| task.parts.clone()) {
                return Some((by, task, why));
            }
            self.parting.pop_front();
        }
        self.parting = Lent::new();
        None
    }

    /// When the first of those who gave up is told so at the latest.
    pub(super) fn next_parting(&self) -> Option<Time> {
        self.parting.front().map(|(by, _)| *by)
    }

    /// The store says what became of the place that a task gave up: granted before that, or not at all.
    pub(super) fn parted(&mut self, step: &mut Step<'_, H>, at: usize, granted: Option<u64>) {
        let Some((_, id, why)) = self.first_parting() else { return };
        let Some(token) = granted.map(Token::new) else { return self.refuse(step, id, why) };
        let session = &self.slots[at].session;
        let (now, attempt, ttl) = (step.now, session.attempt(), session.ttl());
        let hold =
            H::Hold::new(Held { id: id.into(), token: Some(token), since: now, valid_until: now.after(ttl), by: None });
        self.holds.push(hold.clone());
        if let Some(task) = self.take_task(step, id) {
            let waited = now.since(task.since);
            let token = Some(token);
            step.effects.notices.push(Notice::Granted { token, attempt, ttl, waited, way: Way::Answer });
            step.effects.settle(task.waiter, Settled::Granted { hold, depth: 1 });
        }
    }

    /// Tells those who gave up so, once their places are gone or have taken too long to go.
    pub(super) fn part(&mut self, step: &mut Step<'_, H>) {
        if self.parting.is_empty() {
            return;
        }
        let undoing = self.slots.is_undoing(step.now);
        while let Some((by, task, why)) = self.first_parting()
            && (!undoing || by <= step.now)
        {
            let why = if self.push.is_final() { Refusal::Failed(unsaid()) } else { why };
            self.refuse(step, task, why);
        }
    }
}

/// The error for a task whose time limit passed when what it waited for may have been granted.
fn unsaid() -> Error {
    let message = "the time limit is over, and the store does not say whether that was too late to give up; see whether the others went on";
    Error::new(Kind::Unavailable, "acquire", message)
}
