//! A machine as whoever has very many keeps it.
//!
//! Most of a machine is of use only while somebody asks, waits or gives back. Of one that holds, and at most renews, a
//! quarter is kept while it rests; the next step wakes it in memory that is lent. The one that goes on then is as the
//! one before, but for what cannot matter any more. For a renewal nothing wakes but the session whose it is.

use std::num::NonZeroU64;

use super::effects::Outgoing;
use super::environment::{Handles, Hold, Kind, Scratch, Step};
use super::slots::Slot;
use super::{Event, LockMachine, refresh, renewed};
use crate::protocol::Push;
use crate::queue::{self, TaskId};
use crate::session::{self, Action, Session};
use crate::time::Time;
use crate::token::Token;

/// A machine that takes little memory while it rests.
pub struct Kept<H: Handles> {
    kind: Kind,
    /// While it does not rest, and was wanted at all.
    working: Option<Box<LockMachine<H>>>,
    resting: Option<Resting<H>>,
}

/// What goes on of a machine that holds.
struct Resting<H: Handles> {
    hold: H::Hold,
    slot: u64,
    queue: queue::Resting,
    /// Not there while it works alone.
    session: Option<session::Resting>,
}

impl<H: Handles> Kept<H> {
    /// The machine of a lock that nobody here wanted yet.
    pub fn new(kind: Kind) -> Self {
        Kept { kind, working: None, resting: None }
    }

    /// A machine of this kind as it is.
    pub fn of(kind: Kind, machine: Box<LockMachine<H>>) -> Self {
        Kept { kind, working: Some(machine), resting: None }
    }

    /// See [`LockMachine::handle`]. Of one that rests, the session works alone as long as that is about renewing.
    pub fn handle(&mut self, step: &mut Step<'_, H>, spare: &mut Spare<H>, event: Event<'_, H>) {
        match &self.resting {
            Some(resting) if resting.is_for_session(&event) => self.renew(step, spare, event),
            _ => self.wake(step, spare).handle(step, event),
        }
    }

    /// The session of what rests takes `event`. Where more comes of that than a renewal, the whole machine wakes.
    fn renew(&mut self, step: &mut Step<'_, H>, spare: &mut Spare<H>, event: Event<'_, H>) {
        let Some(resting) = &mut self.resting else { return };
        let Some(session) = resting.session.take() else { return };
        let mut session = session.wake(step.env.name().clone(), step.env.store_timeout());
        session.lend(&mut step.scratch.session);
        match event {
            Event::Answered { id, sent, answer, .. } => {
                let token = known(&resting.hold).token.map(NonZeroU64::get);
                step.effects.notices.extend(renewed(&mut session, token, step.now, (id, sent, answer)));
            }
            _ => session.look(step.now),
        }
        if session.may_rest() {
            resting.go_on(step, session);
        } else if let Some(resting) = self.resting.take() {
            let machine = self.working.insert(spare.lend(self.kind));
            machine.wake_with(session, resting, step);
            machine.work(step, |_, _| {});
        }
    }

    /// The machine: woken, if it rested, in memory that is lent to it.
    pub fn wake(&mut self, step: &mut Step<'_, H>, spare: &mut Spare<H>) -> &mut LockMachine<H> {
        let Kept { kind, working, resting } = self;
        working.get_or_insert_with(|| {
            let mut machine = spare.lend(*kind);
            if let Some(resting) = resting.take() {
                machine.wake(resting, step);
            }
            machine
        })
    }

    /// Has it rest, if it may, after a step at `now`.
    pub fn rest(&mut self, now: Time, scratch: &mut Scratch<H>, spare: &mut Spare<H>) {
        let resting = self.working.as_mut().and_then(|machine| machine.rest(now, scratch));
        if resting.is_some() {
            self.resting = resting;
            self.working.take().into_iter().for_each(|memory| spare.take_back(memory));
        }
    }

    /// The machine, while it does not rest.
    pub fn machine(&self) -> Option<&LockMachine<H>> {
        self.working.as_deref()
    }

    /// See [`LockMachine::give_up`].
    pub fn give_up(&mut self, step: &mut Step<'_, H>, said: String) {
        let Kept { kind, working, resting } = self;
        let machine = working.get_or_insert_with(|| Box::new(LockMachine::new(*kind)));
        machine.holds.extend(resting.take().map(|resting| resting.hold));
        machine.give_up(step, *kind, said);
    }

    /// See [`LockMachine::next_look`].
    pub fn next_look(&mut self, now: Time) -> Option<Time> {
        match &mut self.working {
            Some(machine) => machine.next_look(now),
            None => self.resting.as_ref()?.session.as_ref().map(|session| session.next_look(now)),
        }
    }

    /// See [`LockMachine::is_idle`].
    pub fn is_idle(&self) -> bool {
        self.resting.is_none() && self.working.as_ref().is_none_or(|machine| machine.is_idle())
    }

    /// See [`LockMachine::is_at_store`].
    pub fn is_at_store(&self) -> bool {
        self.resting.is_some() || self.working.as_ref().is_some_and(|machine| machine.is_at_store())
    }

    /// See [`LockMachine::waits`].
    pub fn waits(&self, task: TaskId) -> bool {
        self.working.as_ref().is_some_and(|machine| machine.waits(task))
    }

    /// See [`LockMachine::held`].
    pub fn held(&mut self, now: Time) -> Option<(&H::Hold, bool)> {
        match &mut self.working {
            Some(machine) => machine.held(now),
            None => {
                let Resting { hold, session, .. } = self.resting.as_ref()?;
                Some((hold, session.as_ref()?.is_endless()))
            }
        }
    }

    /// See [`LockMachine::places`].
    pub fn places(&self) -> impl Iterator<Item = (u64, u32)> {
        self.working.iter().flat_map(|machine| machine.places())
    }
}

impl<H: Handles> Resting<H> {
    /// Whether its session alone has to do with `event`.
    fn is_for_session(&self, event: &Event<'_, H>) -> bool {
        match event {
            Event::Tick => true,
            Event::Answered { slot, id, .. } => {
                *slot == self.slot && self.session.as_ref().is_some_and(|session| session.awaits(*id))
            }
            _ => false,
        }
    }

    /// It rests on, once what its session wants sent is taken out.
    fn go_on(&mut self, step: &mut Step<'_, H>, mut session: Session) {
        while let Some(Action::Send { id, requests }) = session.poll_action() {
            step.effects.sends.push(Outgoing { slot: self.slot, id, requests });
        }
        session.reclaim(&mut step.scratch.session);
        refresh(&mut self.hold, &session);
        self.session = Some(session.into_resting());
    }
}

/// The memory of machines that rest, for others that work.
pub struct Spare<H: Handles>(Vec<Box<LockMachine<H>>>);

impl<H: Handles> Spare<H> {
    /// For how many there is some at most: those that wait for an answer keep theirs meanwhile.
    const MOST: usize = 32;

    /// A machine that nobody wanted yet.
    fn lend(&mut self, kind: Kind) -> Box<LockMachine<H>> {
        let Some(mut machine) = self.0.pop() else { return Box::new(LockMachine::new(kind)) };
        machine.become_one_of(kind);
        machine
    }

    /// Takes the memory back of a machine of which nothing is left.
    fn take_back(&mut self, machine: Box<LockMachine<H>>) {
        if self.0.len() < Self::MOST {
            self.0.push(machine);
        }
    }
}

impl<H: Handles> Default for Spare<H> {
    fn default() -> Self {
        Spare(Vec::new())
    }
}

impl<H: Handles> LockMachine<H> {
    /// What goes on of it, if it may rest; nothing is left of it then.
    fn rest(&mut self, now: Time, scratch: &mut Scratch<H>) -> Option<Resting<H>> {
        let queue = self.queue.resting(known(self.holds.first()?), now)?;
        let nobody_waits = self.tasks.is_empty() && self.releases.is_empty() && self.wishes.is_empty();
        let nothing_is_due = self.parting.is_empty() && self.failure.is_none() && !self.closed;
        // Whoever has a place must not forget when it asked for that.
        if !(nobody_waits && nothing_is_due && self.push != Push::Place && self.holds_simply()) {
            return None;
        }
        let Slot { id: slot, session, .. } = self.slots.take_only()?;
        let hold = self.holds.pop()?;
        self.queue.rest(&mut scratch.queue);
        self.card = None;
        Some(Resting { hold, slot, queue, session: Some(session.into_resting()) })
    }

    /// Whether its only session simply holds for its only hold, and shows the card of whoever asked last.
    fn holds_simply(&self) -> bool {
        let ([slot], [hold]) = (&*self.slots, &*self.holds) else { return false };
        let is_the_holders = slot.contender.is_some() && slot.contender == self.queue.holder(hold.id());
        let is_known = !(slot.idle || slot.listens || slot.behind) && self.card.as_ref() == Some(slot.session.card());
        is_the_holders && is_known && slot.session.may_rest()
    }

    /// Goes on from what [rested](Self::rest), of this one or another of its kind of which nothing is left.
    fn wake(&mut self, mut resting: Resting<H>, step: &mut Step<'_, H>) {
        if let Some(session) = resting.session.take() {
            let session = session.wake(step.env.name().clone(), step.env.store_timeout());
            self.wake_with(session, resting, step);
        }
    }

    /// The same where the session woke before.
    fn wake_with(&mut self, session: Session, resting: Resting<H>, step: &mut Step<'_, H>) {
        let Resting { hold, slot: id, queue, session: _ } = resting;
        let contender = self.queue.wake(queue, known(&hold), session.service(), &mut step.scratch.queue);
        self.card = Some(session.card().clone());
        self.holds.push(hold);
        let contender = Some(contender);
        self.slots.push(Slot { id, contender, session, idle: false, listens: false, behind: false });
    }
}

/// What the queue need not keep of a hold, since whoever has that knows it.
fn known(hold: &impl Hold) -> queue::Known {
    let token = hold.shown().and_then(|Token { n, .. }| NonZeroU64::new(n));
    queue::Known { id: hold.id(), token, by: hold.by() }
}

impl<H: Handles> std::fmt::Debug for Kept<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("working", &self.working).finish_non_exhaustive()
    }
}

impl<H: Handles> std::fmt::Debug for Spare<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Spare")
    }
}
