//! How sessions hear that it is their turn: by the client's inbox, or on a channel of the store.

use std::sync::Arc;

use super::LockMachine;
use super::environment::{Environment, Handles, Step};
use super::slots::Slot;
use crate::protocol::{Channel, Terms};
use crate::session::{self, Inbox};
use crate::time::Time;

/// What became of a contender that was to be [let in](LockMachine::let_in).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Turn {
    /// It asks for its place.
    Asks,
    /// It will, once it is answered.
    AsksAgain,
    /// It has to be answered first.
    Later,
    /// It needs none.
    Over,
}

impl Slot {
    /// Its session is about to contend on `terms`: listens from the start where that costs nothing.
    pub(super) fn overhear(&mut self, env: &mut dyn Environment, terms: &Terms) -> Inbox {
        let overhear = |name| env.subscribe(self.id, Channel { name: &name, own: terms.fair, overheard: true });
        self.listens = self.session.channel_of(terms).map(overhear) == Some(Inbox::Live);
        if self.listens { Inbox::Live } else { Inbox::Closed }
    }

    /// Its session has to wait: listens from now on.
    fn hear(&mut self, env: &mut dyn Environment, now: Time) {
        if self.listens {
            return;
        }
        let Some(name) = self.session.channel() else { return };
        self.listens = true;
        let own = self.session.is_fair();
        let state = env.subscribe(self.id, Channel { name: &name, own, overheard: false });
        if state != Inbox::Closed {
            self.session.handle(now, session::Event::Inbox(state));
        }
    }

    /// Its session is about to wait in order. Whoever came before it and has no place yet has one before it: then it is
    /// told only in its turn that the store pushes to this client.
    pub(super) fn line_up(&mut self, env: &mut dyn Environment) -> Inbox {
        let (inbox, behind) = env.line_up(self.id);
        self.behind = behind;
        inbox
    }

    /// Whether it does not stand behind others any more: it has its place, or wants none.
    pub(super) fn is_through(&mut self) -> bool {
        let wants = self.contender.is_some() && !self.idle;
        let has = self.session.ahead().is_some() || self.session.valid_until().is_some();
        self.behind && (has || !wants) && std::mem::take(&mut self.behind)
    }

    pub(super) fn forget(&mut self, env: &mut dyn Environment) {
        if std::mem::take(&mut self.listens) {
            env.unsubscribe(self.id);
        }
    }
}

impl<H: Handles> LockMachine<H> {
    /// The channels of the store on which it listens.
    pub fn channels(&self) -> impl Iterator<Item = Arc<str>> {
        self.slots.iter().filter(|slot| slot.listens).filter_map(|slot| slot.session.channel())
    }

    /// The session at `at` has to wait and hears nothing yet.
    pub(super) fn open_inbox(&mut self, step: &mut Step<'_, H>, at: usize) {
        if self.push.is_hint() {
            step.effects.hear_hints = true;
            self.slots[at].hear(step.env, step.now);
        } else {
            step.effects.open_inbox = true;
        }
    }

    /// Nobody listens, or stands behind others, who has no use for that any more.
    pub(super) fn stop_listening(&mut self, step: &mut Step<'_, H>) {
        let hints = self.push.is_hint();
        self.slots.each_worked(|slot| {
            if hints && !slot.session.listens() {
                slot.forget(step.env);
            }
            if slot.is_through() {
                step.effects.let_through.push(slot.id);
            }
        });
    }

    pub(super) fn inbox_changed(&mut self, step: &mut Step<'_, H>, inbox: Inbox) {
        if self.push.is_hint() {
            return;
        }
        if inbox == Inbox::Unavailable {
            self.refuse_the_fair(step);
        }
        self.slots.each(|slot| {
            slot.behind &= inbox != Inbox::Unavailable;
            // Whoever stands behind others is told in its turn.
            if !(slot.behind && inbox == Inbox::Live) {
                slot.session.handle(step.now, session::Event::Inbox(inbox));
            }
        });
    }

    pub(super) fn channel_changed(&mut self, now: Time, channel: &str, state: Inbox) {
        let listens = |slot: &Slot| slot.listens && slot.session.channel().as_deref() == Some(channel);
        for at in 0..self.slots.len() {
            if listens(&self.slots[at]) {
                self.slots[at].session.handle(now, session::Event::Inbox(state));
            }
        }
    }

    pub(super) fn let_one_in(&mut self, now: Time, slot: u64, first: bool) -> Turn {
        let Some(at) = self.slots.position(slot, now).filter(|at| self.slots[*at].behind) else { return Turn::Over };
        let turn = match self.slots[at].session.is_waiting() {
            true => Turn::Asks,
            false if first => Turn::AsksAgain,
            false => return Turn::Later,
        };
        self.slots[at].session.handle(now, session::Event::Inbox(Inbox::Live));
        turn
    }
}
