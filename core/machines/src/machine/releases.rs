//! Giving a lock back, or leaving it to a secret.

use std::time::Duration;

use super::LockMachine;
use super::effects::Settled;
use super::environment::{Handles, Step};
use super::notice::Notice;
use super::pending::Release;
use crate::error::Error;
use crate::lease::ReleaseOutcome;
use crate::options::{MIN_TTL, Retry};
use crate::protocol::{AttemptId, Terms};
use crate::queue::{self, ContenderId, HoldId, Refusal};
use crate::session::{self, Service};
use crate::token::Token;

impl<H: Handles> LockMachine<H> {
    pub(super) fn release(&mut self, step: &mut Step<'_, H>, hold: HoldId, token: Option<Token>, waiter: H::Waiter) {
        let now = step.now;
        let left = self.queue.holder(hold).and_then(|contender| {
            let slot = self.slot_of(contender, now)?;
            let left = slot.session.valid_until()?.since(now);
            slot.session.is_certain(now).then_some(left)
        });
        // The deadline is the truth, however late the timer is.
        self.tick(now);
        self.releases.push_back(Release { hold, token, asked: None, heir: None, waiter });
        self.queue.handle(now, queue::Event::Release { hold, left });
    }

    pub(super) fn export(
        &mut self,
        step: &mut Step<'_, H>,
        release: Release<H::Waiter>,
        secret: AttemptId,
        ttl: Duration,
    ) {
        let hold = release.hold;
        // The deadline is the truth, however late the timer is.
        self.tick(step.now);
        self.talk(step);
        let slot = self.queue.holder(hold).and_then(|contender| self.slot_of(contender, step.now));
        if slot.is_some_and(|slot| !slot.session.can_pass()) {
            let message = "this layout cannot pass a held lock on, nor can a quorum; take one that can, such as native on one \
                           server";
            let refused = Refusal::Failed(Error::unsupported("export", message));
            return step.effects.settle(release.waiter, Settled::Refused(refused));
        }
        self.releases.push_back(release);
        self.queue.handle(step.now, queue::Event::Export { hold, secret, ttl });
    }

    /// The lock is the secret's now, and given back as if it had been resumed.
    pub(super) fn retract(&mut self, step: &mut Step<'_, H>, secret: AttemptId) {
        let service = Service { ttl: MIN_TTL, renew: false, max_hold: None, retry: Retry::DEFAULT };
        // Else it is free once the secret's time is over.
        let Ok(terms) = self.terms(step, service) else { return };
        let secret = Terms::of_secret(step.env.name().clone(), secret, MIN_TTL, "".into());
        let slot = self.idle_slot(step);
        slot.contender = None;
        slot.idle = false;
        slot.session.handle(step.now, session::Event::Resume { terms, secret, service });
    }

    /// The release of `hold` will be answered by the session of `contender`.
    pub(super) fn release_goes_to(&mut self, step: &mut Step<'_, H>, contender: ContenderId, hold: HoldId) {
        let slot = self.slot_of(contender, step.now).map(|slot| slot.id);
        for release in self.releases.iter_mut().filter(|r| r.hold == hold && r.asked.is_none()) {
            release.asked = slot;
        }
        self.end_hold(step, hold);
    }

    /// The queue says what became of a release that the store need not hear of.
    pub(super) fn released_here(&mut self, step: &mut Step<'_, H>, hold: HoldId, outcome: ReleaseOutcome) {
        if !matches!(outcome, ReleaseOutcome::Kept(_)) {
            self.end_hold(step, hold);
        }
        self.settle_release(step, |release| release.hold == hold && release.asked.is_none(), outcome);
    }

    /// The session of `slot` says what became of the release that it was told of.
    pub(super) fn released_there(&mut self, step: &mut Step<'_, H>, slot: u64, outcome: ReleaseOutcome) {
        self.settle_release(step, |release| release.asked == Some(slot), outcome);
    }

    fn settle_release(
        &mut self,
        step: &mut Step<'_, H>,
        which: impl Fn(&Release<H::Waiter>) -> bool,
        outcome: ReleaseOutcome,
    ) {
        let at = self.releases.iter().position(which);
        let Some(release) = at.and_then(|at| self.releases.remove(at)) else { return };
        let token = release.token;
        let settled = match release.heir {
            Some(secret) if outcome == ReleaseOutcome::Released => {
                step.effects.notices.push(Notice::Exported { token });
                Settled::Exported(secret)
            }
            _ => {
                step.effects.notices.push(Notice::Released { token, outcome: outcome.clone() });
                Settled::Released(outcome)
            }
        };
        step.effects.settle(release.waiter, settled);
    }

    /// Nobody will ever say what became of what was given back.
    pub(super) fn leave_releases_open(&mut self, step: &mut Step<'_, H>) {
        while let Some(release) = self.releases.pop_front() {
            step.effects.settle(release.waiter, Settled::Released(ReleaseOutcome::Unknown));
        }
    }
}
