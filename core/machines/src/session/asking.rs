//! Asking for the lock: what to send, what the answers and pushes mean until it is held, and how long to wait.

use std::time::Duration;

use super::state::{Asked, GivingBack, Lease, Renewal};
use super::{Action, DRIFT_DIVISOR, Inbox, LONGEST_PATIENCE, Phase, Service, Session, margin};
use crate::error::{Error, Kind, not_yet};
use crate::lease::ReleaseOutcome;
use crate::options::Retry;
use crate::protocol::{Grant, Input, Intent, Op, Push, StoreEvent, Term, Terms, Verdict, Wait};
use crate::time::{StoreTime, Time};

impl Session {
    pub(super) fn contend(&mut self, now: Time, terms: Terms, wait: bool, service: Service, inbox: Inbox) {
        debug_assert_eq!(self.phase, Phase::Idle);
        self.start_attempt(terms, service);
        self.lease = Lease::NONE;
        self.waits = wait;
        self.inbox = inbox;
        self.ask(now);
    }

    pub(super) fn resume(&mut self, now: Time, terms: Terms, secret: Terms, service: Service) {
        debug_assert_eq!(self.phase, Phase::Idle);
        self.start_attempt(terms, service);
        self.lease = Lease::NONE;
        self.waits = false;
        self.giving.secret = Some(Box::new(secret));
        self.ask(now);
    }

    /// Whether the layout can give a held lock from one attempt to another.
    pub fn can_pass(&self) -> bool {
        self.protocol.pass(&self.terms, &self.terms).is_some()
    }

    pub(super) fn start_attempt(&mut self, terms: Terms, service: Service) {
        self.terms = terms;
        self.service = service.into();
        self.flights = [None; 4];
        self.asked = Asked::NOTHING;
        self.renewal = Renewal::NONE;
        self.giving = GivingBack::NOTHING;
    }

    pub(super) fn ask(&mut self, now: Time) {
        self.phase = Phase::Asking;
        self.asked.wake = None;
        self.stop_renewing();
        self.asked.silent_since.get_or_insert(now);
        // Two acquires of one attempt under way could not be told apart: whether the older still runs would be
        // forgotten.
        self.asked.ask_again = self.flight(Op::Acquire).is_some();
        if self.asked.ask_again {
            return;
        }
        if self.is_forgotten(now) {
            let message = "this process was stopped, or the store silent, for so long that it is not known any more whether it was granted \
                           what it waited for; see whether the others went on";
            return self.fail(now, Error::new(Kind::Lost, "acquire", message));
        }
        self.asked.asked_to_queue = self.waits && self.can_queue();
        (self.asked.stale, self.asked.orphaned) = (false, false);
        self.asked.first_sent.get_or_insert(now);
        if let Some(secret) = &self.giving.secret {
            return match self.protocol.pass(secret, &self.terms) {
                Some(requests) => self.send(Op::Acquire, requests),
                None => self.fail(now, Error::unsupported("resume", "this layout cannot pass a held lock on")),
            };
        }
        let intent = Intent::Acquire {
            terms: self.terms.clone(),
            wait: self.asked.asked_to_queue,
            prev: self.giving.prev.as_deref().cloned(),
        };
        self.converse(now, now, Op::Acquire, Input::Begin(intent));
    }

    pub(super) fn can_queue(&self) -> bool {
        match self.protocol.traits().push {
            Push::Inbox => self.inbox == Inbox::Live,
            // Where there is a queue at all, a place in it is kept by asking again.
            Push::Watch | Push::Hint | Push::Place | Push::WatchedPlace => true,
            Push::None | Push::HintOfSome => false,
        }
    }

    pub(super) fn has_place(&self) -> bool {
        self.protocol.traits().push == Push::Place
    }

    /// Whether whoever gives up has to be told whether it was granted what it waited for.
    pub(super) fn is_final(&self) -> bool {
        self.protocol.traits().push.is_final()
    }

    /// Whether the store may remember no more what became of this attempt's place, which it does for at least a ttl
    /// longer than is allowed here. Then the place must not be asked for again: it might be counted twice.
    pub(super) fn is_forgotten(&self, now: Time) -> bool {
        self.place_forgotten_at().is_some_and(|at| now >= at)
    }

    /// From when on that is so.
    pub(super) fn place_forgotten_at(&self) -> Option<Time> {
        let allowed = self.terms.ttl.saturating_mul(2).saturating_add(self.store_timeout);
        let answered = self.asked.answered_write.or(self.asked.first_sent).filter(|_| self.has_place());
        answered.map(|at| at.after(allowed))
    }

    pub(super) fn acquire_concluded(&mut self, now: Time, sent: Time, verdict: Verdict) {
        let is_said = match verdict {
            Verdict::Failed(_) | Verdict::Spent(_) | Verdict::NotYet(_) | Verdict::Late { .. } => false,
            Verdict::Granted(_) => !self.has_no_life(now),
            _ => true,
        };
        if is_said {
            self.asked.silent_since = None;
            self.asked.trouble = None;
        }
        self.asked.not_yet = match &verdict {
            Verdict::NotYet(_) => true,
            Verdict::Failed(error) => not_yet(error).is_some(),
            _ => false,
        };
        match verdict {
            Verdict::Granted(Grant { term: Term::Pushed(at), .. }) if !self.is_plausible(now, at) => self.ask(now),
            Verdict::Granted(grant) => self.granted(now, sent, grant),
            Verdict::Implausible => self.ask(now),
            Verdict::Held { remaining, at, prev } => {
                self.learn(sent, at);
                self.gave_back(prev);
                self.held_by_another(now, remaining);
            }
            Verdict::Late { at } => {
                self.learn(sent, Some(at));
                if self.is_silent_too_long(now) {
                    let late = "the store finds every request too late; see whether its clock runs evenly";
                    return self.fail(now, Error::new(Kind::Unavailable, "acquire", late));
                }
                self.ask(now);
            }
            Verdict::Spent(_) if self.waits => {
                self.asked.touched = true;
                self.actions.push_back(Action::Refused);
                self.finish(now);
            }
            // Whoever only tries is told why at once.
            Verdict::NotYet(error) | Verdict::Spent(error) | Verdict::Failed(error)
                if !self.waits && (error.kind() == Kind::Quorum || not_yet(&error).is_some()) =>
            {
                self.asked.touched = true;
                self.fail(now, error);
            }
            Verdict::NotYet(error) | Verdict::Spent(error) | Verdict::Failed(error) => {
                self.asked.touched = true;
                let left = not_yet(&error).unwrap_or(Duration::ZERO);
                self.unanswered(now, Op::Acquire, error);
                // Asked again before, what was granted and does not count would last until it does, under a token that
                // may be lower than the last ones of the master that was lost.
                self.asked.wake = self.asked.wake.map(|at| at.after(left));
            }
            Verdict::Gone(_) if self.giving.secret.is_some() => {
                let message = "the secret no longer holds the lock: it was resumed already, or its time ended";
                self.fail(now, Error::new(Kind::NotOwned, "resume", message));
            }
            Verdict::Gone(_) => {
                let message = "the store's reply makes no sense for this layout: a grant without a token; see what answers at \
                               that address";
                self.fail(now, Error::new(Kind::Protocol, "acquire", message));
            }
            _ => {
                self.fail(now, Error::new(Kind::Internal, "acquire", "an acquire ended with another verdict's answer"))
            }
        }
    }

    pub(super) fn held_by_another(&mut self, now: Time, remaining: Duration) {
        if !self.waits {
            self.actions.push_back(Action::Refused);
            return self.finish(now);
        }
        if self.can_queue() && !self.asked.asked_to_queue {
            return self.ask(now);
        }
        if self.is_hinted() && self.asked.ask_again {
            return self.ask(now);
        }
        self.phase = Phase::Waiting;
        self.asked.ahead = u32::MAX;
        let push = self.protocol.traits().push;
        if self.inbox == Inbox::Closed && (push == Push::Inbox || push.is_hint()) {
            self.actions.push_back(Action::OpenInbox);
        }
        let pause = match (push, self.inbox) {
            (Push::Inbox, Inbox::Closed) | (Push::Hint, Inbox::Closed | Inbox::Live) => self.jittered(self.terms.claim),
            _ => self.poll_pause(),
        };
        self.asked.wake = Some(now.after(self.jittered(remaining).min(pause)));
    }

    pub(super) fn is_hinted(&self) -> bool {
        self.protocol.traits().push.is_hint()
    }

    /// The next pause of a waiter whom nobody tells of anything.
    pub(super) fn poll_pause(&mut self) -> Duration {
        let Retry { min, max } = self.service.get().retry;
        self.pause((min, max))
    }

    pub(super) fn queued(&mut self, now: Time, sent: Time, wait: Wait) {
        if !matches!(self.phase, Phase::Asking) {
            // Overtaken by the push for this very place; or the hold is lost already, and this place is a new one.
            self.asked.placed = true;
            if self.phase == Phase::Undoing {
                self.answered_after_the_undo(now, wait.prev);
            }
            return;
        }
        self.learn(sent, wait.at);
        self.gave_back(wait.prev);
        self.asked.ahead = wait.position;
        self.asked.touched = true;
        self.asked.silent_since = None;
        if let Some(at) = wait.at {
            self.asked.anchor = Some((sent, at));
        }
        if self.asked.ask_again {
            return self.ask(now);
        }
        self.phase = Phase::Waiting;
        if self.has_place() {
            self.lasts(sent, now, self.terms.ttl);
        }
        match self.inbox {
            Inbox::Closed if self.is_hinted() || self.has_place() => self.actions.push_back(Action::OpenInbox),
            Inbox::Unavailable if self.is_hinted() || self.has_place() => {
                let pause = self.poll_pause();
                self.asked.wake = Some(now.after(self.jittered(wait.remaining).min(pause)));
                return;
            }
            _ => {}
        }
        self.asked.retries = 0;
        let patience = match wait.at {
            Some(_) => self.patience(wait.remaining, wait.position),
            // Grants that are no claims need no watching in the meantime.
            None => self.jittered(wait.remaining),
        };
        self.asked.wake = Some(now.after(patience));
    }

    /// How long whoever has `position` others ahead does not look after a holder whose lease lasts for `remaining`:
    /// until that is over, and a little longer the more come before it.
    ///
    /// While claims follow each other, each an eighth of one more: one is enough to see a claim run out, and if all of
    /// a long queue looked, each hand-off would cost as many requests as there are waiters. A lease that is longer than
    /// any claim ends at most once, so then it is an eighth for each doubling of the place: all of a process may have
    /// died, at the head of the queue.
    pub(super) fn patience(&self, remaining: Duration, position: u32) -> Duration {
        let eighth = self.terms.claim / 8;
        if self.is_hinted() {
            // In another library's queue, whoever does not show itself is thrown out.
            let until = remaining.min(self.terms.claim);
            return self.jittered(until.saturating_add(eighth.saturating_mul(position.min(1 << 20))));
        }
        let place = if remaining > crate::options::CLAIM {
            eighth * position.saturating_add(1).ilog2()
        } else {
            eighth.saturating_mul(position).min(self.terms.ttl)
        };
        let until_over = remaining.saturating_add(margin(remaining)).min(LONGEST_PATIENCE);
        let apart = self.terms.claim - self.jittered(self.terms.claim);
        until_over.saturating_add(place).saturating_add(apart)
    }

    pub(super) fn granted(&mut self, now: Time, sent: Time, grant: Grant) {
        self.asked.touched = true;
        // A push may overtake the reply to the yield. The lease given back was still ours when that was executed, if it
        // is now.
        let overtaken = matches!(grant.term, Term::Pushed(_)) && now < self.giving.given_until;
        self.gave_back(grant.prev.or(overtaken.then_some(ReleaseOutcome::Released)));
        let (from, lease) = match grant.term {
            Term::FromRequest => (sent, self.terms.ttl),
            Term::ForGood => (now, self.terms.ttl),
            Term::Pushed(at) => (self.local_time_of(now, at), self.terms.claim),
        };
        self.lease.tokens = grant.tokens;
        self.lease.used = self.first_token().unwrap_or(0);
        if self.bound && grant.term != Term::ForGood {
            return self.granted_in_session(now, sent);
        }
        self.lasts(from, now, lease);
        self.lease.valid_until = from.after(lease).before(margin(lease));
        if self.lease.valid_until <= now {
            return self.ask(now);
        }
        self.lease.granted_at = now;
        if self.lease.valid_until.since(now) < lease / 2 {
            self.phase = Phase::Confirming;
            self.asked.wake = None;
            return self.renew(now);
        }
        self.hold(now, from, lease);
    }

    /// When, on our clock, the store's clock stood at `at`: never later than it really was.
    ///
    /// A push has no sending time. It is dated from an earlier request that the store answered with its time; drift
    /// stretches or shrinks the distance, whichever makes it earlier. Without such a request the grant came after the
    /// attempt's first sending.
    pub(super) fn local_time_of(&self, now: Time, at: StoreTime) -> Time {
        let Some((sent, anchor)) = self.asked.anchor else { return self.asked.first_sent.unwrap_or(now).min(now) };
        let distance = at.micros_since(anchor);
        let span = Duration::from_micros(distance.unsigned_abs());
        let drift = span / DRIFT_DIVISOR;
        let dated = if distance >= 0 { sent.after(span - drift) } else { sent.before(span + drift) };
        dated.min(now)
    }

    /// Whether a grant that was pushed as of `at` may be believed. Whoever may publish can say anything to whom it
    /// knows the attempt of; so only the first push counts, as that is what publishes the attempt, and only if the
    /// store's clock did not jump since an answer told it.
    pub(super) fn is_plausible(&mut self, now: Time, at: StoreTime) -> bool {
        const FAR: Duration = Duration::from_secs(24 * 60 * 60);
        let is_near = |(sent, anchor): (Time, StoreTime)| at <= anchor.after(now.since(sent)).after(FAR);
        !std::mem::replace(&mut self.asked.published, true) && self.asked.anchor.is_none_or(is_near)
    }

    /// Somebody gave the lock back, or may have. It proves nothing.
    pub(super) fn hinted(&mut self, now: Time, channel: &str) {
        match self.phase {
            _ if self.channel().as_deref() != Some(channel) => {}
            Phase::Waiting => self.ask(now),
            // The answer on its way may be older.
            Phase::Asking => self.asked.ask_again = true,
            _ => {}
        }
    }

    /// An event has no sending time: what it grants counts from the last acquire that was answered.
    pub(super) fn heard(&mut self, now: Time, event: &StoreEvent) {
        let sent = self.asked.answered_write.or(self.asked.first_sent).unwrap_or(now);
        self.converse(now, sent, Op::Acquire, Input::Event(event));
    }

    pub(super) fn inbox_changed(&mut self, now: Time, inbox: Inbox) {
        self.inbox = inbox;
        match self.phase {
            Phase::Waiting if inbox != Inbox::Closed => self.ask(now),
            // A push for the place that the reply still on its way tells of may have been missed.
            Phase::Asking if inbox == Inbox::Live => self.asked.ask_again = true,
            _ => {}
        }
    }
}
