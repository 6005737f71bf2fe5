//! Holding the lock: until when it may be believed, renewing it, and changing what is held.

use std::time::Duration;

use super::state::{Changing, CompactService, Span};
use super::{Action, Phase, RETRY, Service, Session, margin, may_pass, renewal_due};
use crate::lease::LossReason;
use crate::protocol::{Change, Input, Intent, Op, Verdict};
use crate::time::Time;
use crate::token::Tokens;

impl Session {
    /// When the next renewal will be due if the one under way is answered soon; it is no time limit. A driver that
    /// looks at the session then need not be told of it once more.
    pub fn next_renewal(&self, now: Time) -> Option<Time> {
        let renews = self.flight(Op::Renew).is_some() && self.service.renew;
        renews.then(|| renewal_due(now, self.renewal.ttl.get()))
    }

    /// How the hold ends if it is not renewed any more.
    pub fn expires_as(&self) -> LossReason {
        match self.service.get() {
            Service { renew: false, .. } => LossReason::NotRenewed,
            Service { max_hold: Some(max), .. } if self.lease.valid_until >= self.lease.granted_at.after(max) => {
                LossReason::MaxHold
            }
            _ => LossReason::Expired,
        }
    }

    /// Remembers until when the store may see a lease of this attempt, `lease` after `now` at most.
    pub(super) fn lasts(&mut self, from: Time, now: Time, lease: Duration) {
        self.lease.store_until = self.lease.store_until.max(from.max(now).after(lease).after(margin(lease)));
    }

    pub(super) fn hold(&mut self, now: Time, from: Time, lease: Duration) {
        self.phase = Phase::Held;
        self.giving.secret = None;
        (self.renewal.heeds, self.renewal.again) = (false, false);
        self.asked.wake = None;
        self.asked.silent_since = None;
        self.asked.trouble = None;
        self.asked.retries = 0;
        self.actions.push_back(Action::Granted { tokens: self.lease.tokens });
        self.schedule_renewal(from, lease);
        self.renew_if_due(now);
    }

    /// The next renewal of a lease that began at `from` and lasts for `lease`.
    pub(super) fn schedule_renewal(&mut self, from: Time, lease: Duration) {
        if self.bound {
            return self.follow_session();
        }
        let Service { ttl, renew, .. } = self.service.get();
        self.renewal.due = match renew {
            true => Some(renewal_due(from, lease)),
            // A hand-on inside the process takes a moment off; only a real difference is worth a request.
            false => (lease < ttl - ttl / 16).then_some(from),
        };
    }

    pub(super) fn renew_if_due(&mut self, now: Time) {
        if self.renewal.due.is_some_and(|at| now >= at) && self.flight(Op::Renew).is_none() {
            match self.may_renew(now) {
                true => self.renew(now),
                false => self.renewal.due = None,
            }
        }
    }

    /// Whether the hold may be renewed yet: not once it has lasted as long as it is to.
    pub(super) fn may_renew(&self, now: Time) -> bool {
        let is_over = |max| now >= self.lease.granted_at.after(max);
        let is_asked_for =
            self.phase == Phase::Confirming || self.renewal.extending.is_some() || self.renewal.changing.is_some();
        is_asked_for || !self.service.get().max_hold.is_some_and(is_over)
    }

    pub(super) fn renew(&mut self, now: Time) {
        self.renewal.due = None;
        let ttl = self.renewal.extending.map_or_else(|| self.ttl(), Span::get);
        self.renewal.ttl = Span::of(ttl);
        self.lasts(now, now.after(self.store_timeout), ttl);
        let terms = self.terms.clone();
        match &self.renewal.changing {
            Some(changing) => {
                let change = Change { terms, token: self.first_token().unwrap_or(0), ttl, units: changing.units };
                let step = self.protocol.change(change);
                self.follow(now, now, Op::Renew, false, step);
            }
            None => self.converse(now, now, Op::Renew, Input::Begin(Intent::Renew { terms, ttl })),
        }
    }

    /// The hold ends: a renewal still under way does not count any more.
    pub(super) fn stop_renewing(&mut self) {
        self.renewal.due = None;
        self.flights[Op::Renew as usize] = None;
        self.stop_extending();
    }

    pub(super) fn stop_extending(&mut self) {
        if self.renewal.extending.take().is_some() {
            self.actions.push_back(Action::Extended(false));
        }
        if self.renewal.changing.take().is_some() {
            self.actions.push_back(Action::Changed(None));
        }
    }

    pub(super) fn renew_concluded(&mut self, now: Time, sent: Time, verdict: Verdict) {
        let ttl = self.renewal.ttl.get();
        match verdict {
            Verdict::Renewed | Verdict::Wanted | Verdict::Changed(_) => {
                self.asked.trouble = None;
                self.asked.retries = 0;
                // A change may have left before that.
                self.asked.broken &= matches!(verdict, Verdict::Changed(_));
                self.lasts(sent, now, ttl);
                if !self.bound {
                    self.lease.valid_until = self.lease.valid_until.max(sent.after(ttl).before(margin(ttl)));
                }
                // An answer that comes after the lease's end is no yes: the loss will be told, and with it that nothing
                // was got.
                let in_force = now < self.lease.valid_until;
                match verdict {
                    Verdict::Changed(Some(_)) if !in_force => {}
                    Verdict::Changed(token) => self.changed(now, token),
                    Verdict::Wanted if in_force && self.renewal.heeds => self.actions.push_back(Action::Wanted),
                    _ => {}
                }
                let again = std::mem::take(&mut self.renewal.again);
                if in_force && self.renewal.extending.take_if(|wanted| wanted.get() == ttl).is_some() {
                    self.service = Service { ttl, ..self.service.get() }.into();
                    self.actions.push_back(Action::Extended(true));
                }
                match self.phase {
                    Phase::Confirming if self.lease.valid_until <= now => self.ask(now),
                    Phase::Confirming => self.hold(now, sent, ttl),
                    _ if self.renewal.extending.is_some() || self.asked.broken || again => self.renew(now),
                    _ => {
                        self.schedule_renewal(sent, ttl);
                        // What was refused while an earlier copy may still run is asked for again when that is over.
                        let doubt = self.renewal.changing.as_ref().and_then(|changing| changing.doubt);
                        self.renewal.due = [self.renewal.due, doubt].into_iter().flatten().min();
                    }
                }
            }
            Verdict::Late { at } => {
                self.learn(sent, Some(at));
                self.renewal.due = Some(now.after(self.pause(RETRY)));
            }
            Verdict::Gone(_) if self.phase == Phase::Confirming => self.ask(now),
            Verdict::Gone(_) if self.asked.broken => self.lose(now, LossReason::Broken),
            Verdict::Gone(_) => self.lose(now, LossReason::Gone),
            Verdict::Failed(error) => {
                if !may_pass(&error) {
                    self.stop_extending();
                }
                self.asked.trouble = Some(error);
                self.renewal.due = Some(now.after(self.pause(RETRY)));
            }
            _ => self.renewal.due = Some(now.after(self.pause(RETRY))),
        }
    }

    pub(super) fn serve(&mut self, now: Time, service: Service) {
        self.stop_extending();
        let wanted = CompactService::from(service);
        // How whoever waited asked again is nothing to whoever holds.
        self.service.retry = wanted.retry;
        if self.service == wanted && service.max_hold.is_none() {
            return;
        }
        self.service = wanted;
        self.lease.granted_at = now;
        if self.phase == Phase::Held {
            let left = self.lease.valid_until.since(now);
            // What is left was promised to the task before; a shorter lease of the next one begins to be renewed at
            // once.
            self.schedule_renewal(now, left.min(service.ttl));
            self.renew_if_due(now);
        }
    }

    pub(super) fn extend(&mut self, now: Time, ttl: Duration) {
        if self.phase != Phase::Held {
            return self.actions.push_back(Action::Extended(false));
        }
        // Whoever asked before and has no answer yet has what it wants with the longer of the two.
        self.renewal.extending = self.renewal.extending.max(Some(Span::of(ttl)));
        self.renew_unless_changing(now);
    }

    pub(super) fn heed(&mut self, now: Time) {
        if self.phase == Phase::Held && !self.renewal.heeds {
            self.renewal.heeds = true;
            self.protocol.heed();
            self.look_whether_wanted(now);
        }
    }

    /// The renewal under way may have looked too early.
    pub(super) fn look_whether_wanted(&mut self, now: Time) {
        match self.flight(Op::Renew) {
            Some(_) => self.renewal.again = true,
            None => self.renew(now),
        }
    }

    pub(super) fn change(&mut self, now: Time, units: u32) {
        if self.phase != Phase::Held || self.renewal.changing.is_some() {
            return self.actions.push_back(Action::Changed(None));
        }
        self.renewal.changing = Some(Box::new(Changing { units, doubt: None }));
        self.renew(now);
    }

    pub(super) fn changed(&mut self, now: Time, token: Option<u64>) {
        let in_doubt = |changing: &Changing| changing.doubt.is_some_and(|until| now < until);
        if token.is_none() && self.renewal.changing.as_deref().is_some_and(in_doubt) {
            return;
        }
        if let Some(token) = token {
            self.lease.tokens = Tokens::one(token);
        }
        if self.renewal.changing.take().is_some() {
            self.actions.push_back(Action::Changed(token));
        }
    }

    /// Two changes under way could not be told apart: whether the older still runs would be forgotten.
    pub(super) fn renew_unless_changing(&mut self, now: Time) {
        if self.renewal.changing.is_none() || self.flight(Op::Renew).is_none() {
            self.renew(now);
        }
    }

    pub(super) fn verify(&mut self, now: Time) {
        if self.phase == Phase::Held {
            self.renew_unless_changing(now);
        } else if self.phase == Phase::Waiting {
            self.ask(now);
        }
    }

    pub(super) fn lose(&mut self, now: Time, reason: LossReason) {
        let known_gone = matches!(reason, LossReason::Gone | LossReason::Broken);
        self.actions.push_back(Action::Lost(reason));
        self.asked.touched = !known_gone || self.asked.placed || !self.is_settled();
        self.finish(now);
    }
}
