//! What a guard shares with the engine: until when the lock is held, and whether it was lost.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use lockwright_machines::lease::LossReason;
use lockwright_machines::machine::{self, Held};
use lockwright_machines::options::CLAIM;
use lockwright_machines::queue::{HoldId, OwnerId};
use lockwright_machines::time::Time;
use lockwright_machines::token::Token;

/// One hold of a lock, from its grant to its release or loss.
#[derive(Clone, Debug)]
pub(crate) struct Hold(Rc<State>);

#[derive(Debug)]
struct State {
    id: HoldId,
    by: Option<OwnerId>,
    token: Cell<Option<Token>>,
    since: Time,
    /// Until when it was granted.
    granted_until: Time,
    valid_until: Cell<Time>,
    expires_as: RefCell<LossReason>,
    abandoned: Cell<bool>,
    lost: RefCell<Option<LossReason>>,
}

impl machine::Hold for Hold {
    fn new(Held { id, token, since, valid_until, by }: Held) -> Self {
        Hold(Rc::new(State {
            id,
            by,
            token: Cell::new(token),
            since,
            granted_until: valid_until,
            valid_until: Cell::new(valid_until),
            expires_as: RefCell::new(LossReason::Expired),
            abandoned: Cell::new(false),
            lost: RefCell::new(None),
        }))
    }

    fn id(&self) -> HoldId {
        self.0.id
    }

    fn by(&self) -> Option<OwnerId> {
        self.0.by
    }

    fn shown(&self) -> Option<Token> {
        self.0.token.get()
    }

    fn show(&mut self, token: u64) {
        self.0.token.set(Some(Token::new(token)));
    }

    fn since(&self) -> Time {
        self.0.since
    }

    fn prolong(&mut self, valid_until: Time, expires_as: &LossReason) {
        *self.0.expires_as.borrow_mut() = expires_as.clone();
        self.0.valid_until.set(self.0.valid_until.get().max(valid_until));
    }

    fn abandon(&mut self, abandoned: bool) {
        self.0.abandoned.set(abandoned);
    }

    fn reason(&self, reason: LossReason) -> LossReason {
        match reason {
            LossReason::MaxHold if self.0.abandoned.get() => LossReason::Abandoned,
            other => other,
        }
    }
}

impl Hold {
    pub(crate) fn lose(&self, reason: LossReason) {
        self.0.lost.borrow_mut().get_or_insert(reason);
    }

    /// Whether it is handed over and not renewed yet.
    fn is_only_claimed(&self) -> bool {
        let State { since, granted_until, ref valid_until, .. } = *self.0;
        granted_until.since(since) <= CLAIM && valid_until.get() == granted_until
    }

    /// Whether it lasts for more than the moment that a hand-over does, or is over; of a short `ttl` that moment is a
    /// good part.
    pub(crate) fn is_firm(&self, now: Time, ttl: Duration) -> bool {
        ttl <= 2 * CLAIM || !self.is_only_claimed() || self.remaining(now).is_zero()
    }

    /// How long it lasts at `now`; nothing once it is lost.
    pub(crate) fn remaining(&self, now: Time) -> Duration {
        if self.0.lost.borrow().is_some() { Duration::ZERO } else { self.0.valid_until.get().since(now) }
    }

    /// Why it is lost, if it is at `now`.
    pub(crate) fn why_lost(&self, now: Time) -> Option<LossReason> {
        let told = self.0.lost.borrow().clone();
        let expired = || (self.0.valid_until.get() <= now).then(|| self.0.expires_as.borrow().clone());
        told.or_else(expired)
    }
}
