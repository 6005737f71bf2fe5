//! Ending an attempt: whatever it may have left at the store is undone.

use super::{Action, Phase, RETRY, Session, may_pass};
use crate::error::{Error, silent_store};
use crate::lease::ReleaseOutcome;
use crate::protocol::{Input, Intent, Op, Verdict};
use crate::time::Time;
use crate::token::Tokens;

impl Session {
    pub(super) fn cancel(&mut self, now: Time) {
        match self.phase {
            // A release is on its way already.
            Phase::Idle | Phase::Undoing | Phase::Releasing => {}
            _ => {
                self.stop_extending();
                self.finish(now);
            }
        }
    }

    pub(super) fn fail(&mut self, now: Time, error: Error) {
        self.actions.push_back(Action::Failed(error));
        self.finish(now);
    }

    /// The store has not answered for too long.
    pub(super) fn fail_in_silence(&mut self, now: Time) {
        // So has whoever gave it back: an answer that is still to come is for neither.
        self.gave_back_late(None);
        let error = self.asked.trouble.take().unwrap_or_else(|| silent_store("acquire"));
        self.fail(now, error);
    }

    /// Ends the attempt: at once when nothing can be left at the store, else by undoing it.
    pub(super) fn finish(&mut self, now: Time) {
        if self.flight(Op::Acquire).is_none() {
            // Whoever gave it back need not wait until the undo is answered.
            self.gave_back_late(None);
        }
        self.asked.wake = None;
        self.stop_renewing();
        self.asked.silent_since = None;
        if self.asked.touched || self.flight(Op::Acquire).is_some() {
            if self.waits && !self.has_place() {
                // Its place in the queue was not forgotten meanwhile, however long it waited: it is kept for as long as
                // somebody listens.
                self.asked.first_sent = Some(now);
            }
            self.phase = Phase::Undoing;
            self.asked.retries = 0;
            return self.undo(now);
        }
        self.end();
    }

    pub(super) fn end(&mut self) {
        self.phase = Phase::Idle;
        self.asked.wake = None;
        self.gave_back_late(None);
        self.giving.prev = None;
        self.actions.push_back(Action::Ended);
    }

    pub(super) fn undo(&mut self, now: Time) {
        self.asked.wake = None;
        self.asked.ask_again = false;
        // Whatever can no longer run when this leaves is covered by it.
        self.asked.doubt.take_if(|until| *until <= now);
        let intent = Intent::Undo { terms: self.terms.clone(), prev: self.giving.prev.as_deref().cloned() };
        self.converse(now, now, Op::Undo, Input::Begin(intent));
    }

    /// No acquire of this attempt ever left, so there is nothing to undo.
    pub(super) fn never_asked(&mut self) {
        if self.is_final() {
            self.actions.push_back(Action::Parted(None));
        }
        self.end();
    }

    /// Whatever the acquire did was done before or after the undo; only asking once more makes sure.
    pub(super) fn answered_after_the_undo(&mut self, now: Time, prev: Option<ReleaseOutcome>) {
        self.gave_back_late(prev);
        self.undo_again(now);
    }

    /// Something may have happened since the undo in flight was sent.
    pub(super) fn undo_again(&mut self, now: Time) {
        if self.flight(Op::Undo).is_some() {
            self.asked.ask_again = true;
        } else {
            self.undo(now);
        }
    }

    pub(super) fn undo_concluded(&mut self, now: Time, verdict: Verdict) {
        if let Verdict::Failed(error) = verdict {
            match may_pass(&error) {
                true => self.asked.wake = Some(now.after(self.pause(RETRY))),
                false => self.end(),
            }
            return;
        }
        let granted = match verdict {
            Verdict::Granted(grant) => Some(grant.tokens.map_or(0, Tokens::first)),
            _ => None,
        };
        if self.is_final() && (granted.is_some() || !self.is_forgotten(now)) {
            self.actions.push_back(Action::Parted(granted));
        }
        let is_answered = self.flight(Op::Acquire).is_none();
        if is_answered {
            self.giving.prev = None;
        }
        if self.asked.ask_again {
            return self.undo(now);
        }
        if !is_answered {
            return;
        }
        match self.asked.doubt {
            Some(until) => {
                // Most often it is only a little slower than its undo. What it does meanwhile keeps the lock from
                // everybody.
                let soon = now.after(RETRY.0.saturating_mul(1 << (2 * self.asked.retries.min(8))));
                self.asked.retries = self.asked.retries.saturating_add(1);
                self.asked.wake = Some(soon.min(until));
            }
            None => self.end(),
        }
    }

    /// When the store will have forgotten this attempt by itself, however often undoing it failed; `None` where no time
    /// makes it.
    pub(super) fn forgotten_at(&self) -> Option<Time> {
        let asked = self.asked.doubt.or(self.asked.first_sent).unwrap_or(Time::ZERO);
        let ends = self.lease.store_until.max(asked.after(self.store_timeout).after(self.terms.ttl));
        Some(ends).filter(|_| !self.is_kept_by_session())
    }
}
