//! The holds of a lock: kept up to date, extended, changed, ended.

use std::time::Duration;

use super::effects::Settled;
use super::environment::{Handles, Hold, Step};
use super::notice::Notice;
use super::pending::Wish;
use super::{LockMachine, refresh};
use crate::error::{Error, Kind};
use crate::lease::LossReason;
use crate::lent::Lent;
use crate::queue::{ContenderId, HoldId, Refusal};
use crate::session::{self, Service, Session};
use crate::time::Time;

/// The answer that what was wanted is not done, and why that is so is not known.
fn denied<Hold>(changes: bool) -> Settled<Hold> {
    if changes { Settled::Changed(false) } else { Settled::Extended(false) }
}

/// The store said nothing of what was wanted of a hold.
fn silent(changes: bool) -> Error {
    let (operation, message) = if changes {
        ("change", "the store did not say in time whether it was changed; see whether it runs and is reachable")
    } else {
        ("extend", "the store did not extend the lease in time; see whether it runs and is reachable")
    };
    Error::new(Kind::Unavailable, operation, message)
}

impl<H: Handles> LockMachine<H> {
    /// What the caller knows a hold by, while it is neither given back nor lost.
    pub fn hold_of(&self, id: HoldId) -> Option<&H::Hold> {
        self.holds.iter().find(|hold| hold.id() == id)
    }

    /// The hold in force.
    fn present_hold(&mut self) -> Option<&mut H::Hold> {
        let id = self.queue.held()?;
        self.holds.iter_mut().find(|hold| hold.id() == id)
    }

    fn take_hold(&mut self, id: HoldId) -> Option<H::Hold> {
        let at = self.holds.iter().position(|hold| hold.id() == id)?;
        Some(self.holds.remove(at))
    }

    pub(super) fn end_hold(&mut self, step: &mut Step<'_, H>, id: HoldId) {
        if let Some(hold) = self.take_hold(id) {
            step.effects.end(hold);
        }
    }

    pub(super) fn lose_hold(&mut self, step: &mut Step<'_, H>, id: HoldId, reason: LossReason) {
        if let Some(hold) = self.take_hold(id) {
            step.effects.lose(hold, reason);
        }
    }

    pub(super) fn lose_all(&mut self, step: &mut Step<'_, H>, reason: &LossReason) {
        for hold in self.holds.drain(..) {
            step.effects.lose(hold, reason.clone());
        }
    }

    /// The contender's lease is held on these terms from now on.
    pub(super) fn serve(&mut self, now: Time, contender: ContenderId, service: Service) {
        if let Some(hold) = self.present_hold() {
            hold.abandon(false);
        }
        self.tell(contender, now, session::Event::Serve(service));
    }

    /// Nothing is to prolong the contender's lease any more.
    pub(super) fn run_out(&mut self, now: Time, contender: ContenderId, id: HoldId) {
        if let Some(hold) = self.holds.iter_mut().find(|hold| hold.id() == id) {
            hold.abandon(true);
        }
        if let Some(slot) = self.slot_of(contender, now) {
            let left = slot.session.valid_until().map_or(Duration::ZERO, |until| until.since(now));
            slot.session.handle(now, session::Event::Serve(Service::that_runs_out(left)));
        }
    }

    /// Tells the holds in force until when they last.
    pub(super) fn refresh_holds(&mut self, now: Time) {
        for hold in &mut self.holds {
            let contender = self.queue.holder(hold.id());
            let at = contender.and_then(|contender| self.slots.position_of(contender, now));
            let Some(session) = at.and_then(|at| self.slots.get(at)).map(|slot| &slot.session) else { continue };
            refresh(hold, session);
        }
    }

    pub(super) fn extend(&mut self, step: &mut Step<'_, H>, hold: HoldId, ttl: Duration, waiter: H::Waiter) {
        self.wish(step, hold, session::Event::Extend(ttl), false, waiter);
    }

    pub(super) fn change(&mut self, step: &mut Step<'_, H>, hold: HoldId, units: u32, waiter: H::Waiter) {
        // One at a time: an answer says nothing of what was wanted.
        let contender = self.queue.holder(hold);
        let slot = contender.and_then(|contender| self.slot_of(contender, step.now));
        if slot.is_some_and(|slot| slot.session.is_changing()) || self.wishes.iter().any(|wish| wish.changes) {
            let message = "another change of this guard is under way; wait for it, then change it again";
            let refused = Refusal::Failed(Error::new(Kind::Unavailable, "change", message));
            return step.effects.settle(waiter, Settled::Refused(refused));
        }
        self.wish(step, hold, session::Event::Change(units), true, waiter);
    }

    /// Whoever has `hold` wants to hear when it is asked back.
    pub(super) fn heed(&mut self, now: Time, hold: HoldId) {
        if let Some(contender) = self.queue.holder(hold) {
            self.tell(contender, now, session::Event::Heed);
        }
    }

    /// What the session at `at` holds is asked back.
    pub(super) fn wanted(&mut self, step: &mut Step<'_, H>, at: usize) {
        let holder = self.slots.get(at).and_then(|slot| slot.contender);
        let held = self.queue.held().filter(|hold| self.queue.holder(*hold) == holder);
        if let Some(hold) = held.and_then(|hold| self.hold_of(hold)) {
            step.effects.notices.push(Notice::Wanted { token: hold.shown() });
            step.effects.wanted.push(hold.clone());
        }
    }

    /// Tells the session whose hold it is what is wanted of it, if there is one.
    fn wish(
        &mut self,
        step: &mut Step<'_, H>,
        hold: HoldId,
        event: session::Event<'_>,
        changes: bool,
        waiter: H::Waiter,
    ) {
        let contender = self.queue.holder(hold);
        let Some(slot) = contender.and_then(|contender| self.slot_of(contender, step.now)) else {
            return step.effects.settle(waiter, denied(changes));
        };
        slot.session.handle(step.now, event);
        let until = step.now.after(step.env.store_timeout());
        let wish = Wish { slot: slot.id, changes, until, waiter };
        self.wishes.push_back(wish);
    }

    /// When the first who wants something of a hold has waited for too long.
    pub(super) fn next_disappointment(&self) -> Option<Time> {
        self.wishes.front().map(|wish| wish.until)
    }

    /// Tells whoever has waited for too long why: the hold stands, and what was asked is asked for as long as it does.
    pub(super) fn disappoint(&mut self, step: &mut Step<'_, H>) {
        while self.next_disappointment().is_some_and(|until| until <= step.now)
            && let Some(wish) = self.wishes.pop_front()
        {
            let position = self.slots.position(wish.slot, step.now);
            let session = position.and_then(|at| self.slots.get(at)).map(|slot| &slot.session);
            let trouble = session.and_then(Session::not_renewed).cloned();
            let error = trouble.unwrap_or_else(|| silent(wish.changes));
            step.effects.settle(wish.waiter, Settled::Refused(Refusal::Failed(error)));
        }
    }

    /// The session of `slot` extended its lease, or cannot.
    pub(super) fn extended(&mut self, step: &mut Step<'_, H>, slot: u64, done: bool) {
        self.answer_wishes(step, slot, false, done);
    }

    /// What the session of `slot` holds is of other units from now on, under `token`; or it is what it was.
    pub(super) fn changed(&mut self, step: &mut Step<'_, H>, slot: u64, token: Option<u64>) {
        if let Some(token) = token
            && let Some(hold) = self.present_hold()
        {
            let before = hold.shown();
            hold.show(token);
            step.effects.notices.push(Notice::Changed { before, token: hold.shown() });
        }
        self.answer_wishes(step, slot, true, token.is_some());
    }

    /// One answer for all that are waiting for one: where it is not `done`, the store's refusal, if that is why.
    fn answer_wishes(&mut self, step: &mut Step<'_, H>, slot: u64, changes: bool, done: bool) {
        let session = self.slots.position(slot, step.now).and_then(|at| self.slots.get(at)).map(|slot| &slot.session);
        let refusal = session.filter(|_| !done).and_then(Session::refusal).cloned();
        let answer = || match &refusal {
            Some(error) => Settled::Refused(Refusal::Failed(error.clone())),
            None if changes => Settled::Changed(done),
            None => Settled::Extended(done),
        };
        let position =
            |all: &Lent<Wish<H::Waiter>>| all.iter().position(|wish| (wish.slot, wish.changes) == (slot, changes));
        while let Some(wish) = position(&self.wishes).and_then(|at| self.wishes.remove(at)) {
            step.effects.settle(wish.waiter, answer());
        }
    }

    /// Nobody will ever answer what is wanted of the holds.
    pub(super) fn deny_wishes(&mut self, step: &mut Step<'_, H>) {
        while let Some(wish) = self.wishes.pop_front() {
            step.effects.settle(wish.waiter, denied(wish.changes));
        }
    }
}
