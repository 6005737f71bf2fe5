//! A session that simply holds, and at most renews, in little memory: most of what a session keeps is of use only while
//! it asks or gives back, and what all of a client have in common need not be kept for each.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::state::{Asked, CompactService, GivingBack, Lease, Renewal, Span};
use super::{Action, Inbox, Phase, RequestId, Session, claim, renewal_due};
use crate::lent::Lent;
use crate::protocol::{AttemptId, InboxId, Op, Protocol, Terms};
use crate::rank::Rank;
use crate::time::Time;
use crate::token::Tokens;

/// An id where numbers of 64 bits may lie: else all that it is kept with would be aligned as it is.
#[derive(Clone, Copy)]
#[repr(Rust, packed(8))]
struct Packed(AttemptId);

/// What goes on of a session that [may rest](Session::may_rest).
pub(crate) struct Resting {
    protocol: Box<dyn Protocol>,
    attempt: Packed,
    inbox_id: InboxId,
    card: Arc<str>,
    fair: bool,
    rank: Rank,
    waits: bool,
    bound: bool,
    published: bool,
    inbox: Inbox,
    renew: bool,
    /// What was sent last is a renewal for its `ttl`, which is on its way.
    renewing: bool,
    seq: u32,
    /// How long the attempt asked for.
    asked_ttl: Span,
    /// How long its present holder does.
    ttl: Span,
    max_hold: u64,
    alive_until: Time,
    tokens: Option<Tokens>,
    granted_at: Time,
    valid_until: Time,
    store_until: Time,
    due: Option<Time>,
}

impl Resting {
    /// When to look at it, for whoever would rather [come once too often](Session::next_renewal) than be told of each
    /// change.
    pub(crate) fn next_look(&self, now: Time) -> Time {
        let due = match self.renewing {
            true => self.renew.then(|| renewal_due(now, self.ttl.get())),
            false => self.due,
        };
        due.map_or(self.valid_until, |at| at.min(self.valid_until))
    }

    /// Whether `id` is of the renewal that is on its way.
    pub(crate) fn awaits(&self, id: RequestId) -> bool {
        self.renewing && id == RequestId { attempt: self.attempt.0, op: Op::Renew, seq: self.seq }
    }

    /// See [`Session::is_endless`].
    pub(crate) fn is_endless(&self) -> bool {
        self.renew && self.max_hold == CompactService::ENDLESS
    }

    /// The session again, for the lock `name` of a client that gives up on a store as silent as that.
    pub(crate) fn wake(self, name: Arc<str>, store_timeout: Duration) -> Session {
        let Resting { protocol, attempt, inbox_id, card, fair, rank, waits, bound, published, inbox, .. } = self;
        let Resting { ttl, tokens, granted_at, valid_until, store_until, due, seq, alive_until, .. } = self;
        let Resting { renew, renewing, max_hold, .. } = self;
        // How its holder once waited does not matter any more.
        let service = CompactService { ttl: ttl.nanos(), max_hold, renew, ..CompactService::NOTHING };
        let (attempt, asked_ttl) = (attempt.0, self.asked_ttl.get());
        let mut flights = [None; 4];
        flights[Op::Renew as usize] = NonZeroU32::new(seq).filter(|_| renewing);
        Session {
            protocol,
            store_timeout,
            phase: Phase::Held,
            terms: Terms { name, attempt, inbox: inbox_id, ttl: asked_ttl, claim: claim(asked_ttl), card, fair, rank },
            service,
            waits,
            bound,
            inbox,
            seq,
            alive_until,
            flights,
            asked: Asked { touched: true, published, ..Asked::NOTHING },
            lease: Lease { tokens, used: tokens.map_or(0, Tokens::first), granted_at, valid_until, store_until },
            renewal: Renewal { due, ttl, ..Renewal::NONE },
            giving: GivingBack::NOTHING,
            actions: Lent::new(),
        }
    }
}

impl Session {
    /// On what terms it is held.
    pub(crate) fn service(&self) -> CompactService {
        self.service
    }

    /// Whether it holds, and nothing is in doubt, wanted, or on its way but a renewal, which may be its last action.
    /// Each field is looked at here, or kept, or of no use to whoever holds.
    pub(crate) fn may_rest(&self) -> bool {
        let Session { phase, terms, service, flights, asked, renewal, giving, actions, seq, .. } = self;
        let Asked {
            // Of no use to whoever holds.
            asked_to_queue: _,
            ahead: _,
            first_sent: _,
            anchor: _,
            answered_write: _,
            published: _,
            doubt: None,
            broken: false,
            ask_again: false,
            stale: false,
            orphaned: false,
            touched: true,
            placed: false,
            silent_since: None,
            not_yet: false,
            trouble: None,
            retries: 0,
            wake: None,
            repeated: false,
            told: false,
        } = asked
        else {
            return false;
        };
        let Renewal { due: _, ttl, extending: None, changing: None, heeds: false, again: false } = renewal else {
            return false;
        };
        let mut others = *flights;
        let renews_as_kept = match others[Op::Renew as usize].take() {
            Some(renewing) => renewing.get() == *seq && ttl.nanos() == service.ttl,
            None => true,
        };
        let GivingBack { prev: None, given_until: _, secret: None } = giving else { return false };
        let is_as_asked = terms.claim == claim(terms.ttl) && Span::of(terms.ttl).get() == terms.ttl;
        let only_renews = renews_as_kept && others == [None; 4];
        let only_sends = actions.iter().all(|action| matches!(action, Action::Send { .. }));
        *phase == Phase::Held && only_renews && is_as_asked && only_sends
    }

    /// What goes on of a session that [may rest](Self::may_rest), and has no actions left.
    pub(crate) fn into_resting(self) -> Resting {
        let renewing = self.flight(Op::Renew).is_some();
        let Session { protocol, terms, service, waits, bound, inbox, seq, alive_until, asked, lease, .. } = self;
        let Terms { name: _, attempt, inbox: inbox_id, ttl, claim: _, card, fair, rank } = terms;
        let Lease { tokens, used: _, granted_at, valid_until, store_until } = lease;
        Resting {
            protocol,
            attempt: Packed(attempt),
            inbox_id,
            card,
            fair,
            rank,
            waits,
            bound,
            published: asked.published,
            inbox,
            renew: service.renew,
            renewing,
            seq,
            asked_ttl: Span::of(ttl),
            ttl: Span::of_nanos(service.ttl),
            max_hold: service.max_hold,
            alive_until,
            tokens,
            granted_at,
            valid_until,
            store_until,
            due: self.renewal.due,
        }
    }
}
