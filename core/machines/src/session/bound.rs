//! A lock that lasts as long as a session of its client at the store, which the store keeps alive for all its locks.
//! None is renewed. Until when the session lives is told by the store, and the end that was told last is the deadline
//! of whatever is held: it is lost then, whether the store says so or not.

use super::{Phase, RETRY, Service, Session};
use crate::error::{Error, Kind};
use crate::lease::LossReason;
use crate::protocol::Op;
use crate::time::Time;

impl Session {
    /// The client's session lives until then.
    pub(super) fn alive(&mut self, now: Time, until: Time) {
        if self.phase == Phase::Idle {
            self.alive_until = until;
            return;
        }
        self.alive_until = self.alive_until.max(until);
        // Whatever is at the store stays there for as long.
        self.lasts(now, now, self.terms.ttl);
        if self.phase == Phase::Held {
            self.follow_session();
        }
    }

    /// The client's session ended. What is asked again is asked in another one, of which nothing is known yet.
    pub(super) fn session_over(&mut self, now: Time) {
        self.alive_until = Time::ZERO;
        self.asked.stale = self.flight(Op::Acquire).is_some();
        // What is on its way may yet be done in the next one.
        self.asked.orphaned = !self.asked.stale;
        match self.phase {
            // What was granted for good needs no session.
            Phase::Held if self.is_final() => {}
            Phase::Held => self.lose(now, LossReason::Expired),
            Phase::Waiting => self.ask(now),
            _ => {}
        }
    }

    /// The lock is ours as long as the session lives, unless that is over as far as is known: whoever was stopped for
    /// that long reads old answers in their order.
    pub(super) fn granted_in_session(&mut self, now: Time, sent: Time) {
        self.lasts(sent, now, self.terms.ttl);
        if self.has_no_life(now) {
            self.phase = Phase::Asking;
            self.asked.silent_since.get_or_insert(now);
            self.asked.trouble.get_or_insert_with(no_life);
            self.asked.wake = Some(now.after(self.pause(RETRY)));
            return;
        }
        self.lease.granted_at = now;
        self.hold(now, now, self.terms.ttl);
    }

    /// Whether the session keeps what this attempt may have left at the store, for however long that is: whoever was
    /// stopped beyond its deadline does not know that it is over.
    pub(super) fn is_kept_by_session(&self) -> bool {
        self.bound && !self.asked.orphaned
    }

    /// Whether the session that a grant is bound to is over, as far as is known.
    pub(super) fn has_no_life(&self, now: Time) -> bool {
        self.bound && self.alive_until <= now
    }

    /// The deadline is the session's, or the end that the holder wants.
    pub(super) fn follow_session(&mut self) {
        let Service { ttl, renew, max_hold, .. } = self.service.get();
        let since = self.lease.granted_at;
        if self.is_final() {
            (self.lease.valid_until, self.renewal.due) = (since.after(ttl), None);
            return;
        }
        let ends = match max_hold {
            _ if !renew => since.after(ttl),
            Some(max) => since.after(max).after(ttl),
            None => self.alive_until,
        };
        self.lease.valid_until = self.alive_until.min(ends);
        // The session's life says nothing of whether the lock is asked back: a look that failed is due again.
        self.renewal.due.take_if(|_| !self.renewal.heeds);
    }
}

fn no_life() -> Error {
    let message = "the store answers, but keeps no session of this client alive; see the store's log";
    Error::new(Kind::Unavailable, "acquire", message)
}
