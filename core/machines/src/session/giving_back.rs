//! Giving the lock back, or on to another attempt.

use super::{Action, Phase, Service, Session, claim, may_pass};
use crate::lease::ReleaseOutcome;
use crate::protocol::{AttemptId, Input, Intent, Op, Previous, Terms, Verdict};
use crate::time::Time;

impl Session {
    /// An answer to the acquire came: whatever it was to give back is given back.
    pub(super) fn gave_back(&mut self, outcome: Option<ReleaseOutcome>) {
        if self.giving.prev.take().is_some() {
            self.tell_released(outcome.unwrap_or(ReleaseOutcome::Unknown));
        }
    }

    /// When whoever gave back the earlier attempt is told that what became of it is not known: an acquire that gives
    /// back may be refused for longer than anybody waits for a release, by a server that grants nothing yet.
    pub(super) fn gave_back_by(&self) -> Option<Time> {
        let owed = self.asked.first_sent.filter(|_| self.giving.prev.is_some() && !self.asked.told)?;
        Some(owed.after(self.store_timeout))
    }

    /// What became of the earlier attempt, once the acquire that was to give it back is being undone. The undo gives
    /// back the same and may have come first; so only that it was the holder until then says anything.
    pub(super) fn gave_back_late(&mut self, outcome: Option<ReleaseOutcome>) {
        if self.giving.prev.is_some() {
            self.tell_released(outcome.filter(|o| *o == ReleaseOutcome::Released).unwrap_or(ReleaseOutcome::Unknown));
        }
    }

    pub(super) fn release(&mut self, now: Time, used: u64) {
        if self.phase != Phase::Held {
            // It was lost in the same moment: whoever gives it back is answered all the same.
            return self.actions.push_back(Action::Released(ReleaseOutcome::Expired));
        }
        self.phase = Phase::Releasing;
        self.stop_renewing();
        self.asked.told = false;
        self.lease.used = used;
        // An acquire that is still under way may be executed after the release, and be answered before it.
        self.asked.touched = !self.is_settled();
        self.asked.silent_since = Some(now);
        self.asked.retries = 0;
        self.send_release(now);
    }

    pub(super) fn export(&mut self, now: Time, secret: Terms, used: u64) {
        if self.phase == Phase::Held {
            self.lasts(now, now.after(self.store_timeout), secret.ttl);
            self.giving.secret = Some(Box::new(secret));
        }
        self.release(now, used);
    }

    pub(super) fn send_release(&mut self, now: Time) {
        self.asked.wake = None;
        let passed = self.giving.secret.as_ref().map(|secret| self.protocol.pass(&self.terms, secret));
        if let Some(passed) = passed {
            return match passed {
                Some(requests) => self.send(Op::Release, requests),
                None => self.retract(now),
            };
        }
        let intent = Intent::Release { terms: self.terms.clone(), used: self.lease.used };
        self.converse(now, now, Op::Release, Input::Begin(intent));
    }

    pub(super) fn release_concluded(&mut self, now: Time, verdict: Verdict) {
        if let Verdict::Failed(error) = verdict {
            if may_pass(&error) {
                return self.unanswered(now, Op::Release, error);
            }
            self.asked.touched = true;
            return self.retract(now);
        }
        let outcome = match verdict {
            Verdict::Released(ReleaseOutcome::Released) => ReleaseOutcome::Released,
            // An earlier copy of this release may be what ended the hold.
            Verdict::Released(_) if self.asked.repeated => ReleaseOutcome::Unknown,
            Verdict::Released(outcome) => outcome,
            _ => ReleaseOutcome::Unknown,
        };
        self.asked.touched |= self.asked.placed && outcome != ReleaseOutcome::Released;
        self.tell_released(outcome);
        self.finish(now);
    }

    /// Whether the store did as it was told is not known, and will not be: whoever gave back need not wait any more. A
    /// secret that nobody was told would keep the lock from everybody.
    pub(super) fn retract(&mut self, now: Time) {
        self.tell_released(ReleaseOutcome::Unknown);
        self.asked.touched |= self.is_kept_by_session();
        if let Some(secret) = self.giving.secret.take() {
            self.asked.touched = true;
            self.giving.prev = Some(Box::new(Previous { terms: *secret, used: self.lease.used }));
        }
        self.finish(now);
    }

    pub(super) fn tell_released(&mut self, outcome: ReleaseOutcome) {
        if !std::mem::replace(&mut self.asked.told, true) {
            self.actions.push_back(Action::Released(outcome));
        }
    }

    pub(super) fn hand_back_and_contend(&mut self, now: Time, attempt: AttemptId, used: u64, service: Service) {
        if !self.is_certain(now) || !self.protocol.traits().yields {
            return self.release(now, used);
        }
        self.stop_extending();
        let given_until = self.lease.valid_until;
        let terms = Terms { attempt, ttl: service.ttl, claim: claim(service.ttl), ..self.terms.clone() };
        let given = std::mem::replace(&mut self.terms, terms.clone());
        self.start_attempt(terms, service);
        self.giving.prev = Some(Box::new(Previous { terms: given, used }));
        self.giving.given_until = given_until;
        self.waits = true;
        self.asked.touched = true;
        self.ask(now);
    }
}
