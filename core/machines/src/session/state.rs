//! What a session keeps, by what it belongs to: an attempt, its lease, its renewal, other attempts.

use std::num::NonZeroU64;
use std::time::Duration;

use super::Service;
use crate::error::Error;
use crate::options::Retry;
use crate::protocol::{Previous, Terms};
use crate::time::{StoreTime, Time};
use crate::token::Tokens;

/// A [`Service`] as it is kept: a client may hold very many locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CompactService {
    pub(super) ttl: u64,
    /// [`ENDLESS`](Self::ENDLESS) for none.
    pub(super) max_hold: u64,
    pub(super) retry: (u64, u64),
    pub(super) renew: bool,
}

impl From<Service> for CompactService {
    fn from(Service { ttl, renew, max_hold, retry: Retry { min, max } }: Service) -> Self {
        let nanos = |span| Span::of(span).nanos();
        let retry = (nanos(min), nanos(max));
        CompactService { ttl: nanos(ttl), max_hold: max_hold.map_or(Self::ENDLESS, nanos), retry, renew }
    }
}

impl CompactService {
    pub(super) const ENDLESS: u64 = u64::MAX;
    pub(super) const NOTHING: CompactService =
        CompactService { ttl: 0, max_hold: Self::ENDLESS, retry: (0, 0), renew: false };

    pub(crate) fn get(self) -> Service {
        let [ttl, max_hold, min, max] = [self.ttl, self.max_hold, self.retry.0, self.retry.1].map(Duration::from_nanos);
        let max_hold = (self.max_hold < Self::ENDLESS).then_some(max_hold);
        Service { ttl, renew: self.renew, max_hold, retry: Retry { min, max } }
    }
}

/// A duration in half the memory. Kept as one more than its nanoseconds, so that an `Option` of it takes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Span(NonZeroU64);

impl Span {
    pub(super) const ZERO: Span = Span(NonZeroU64::MIN);

    pub(super) fn of(span: Duration) -> Self {
        Span::of_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(super) fn of_nanos(nanos: u64) -> Self {
        Span(NonZeroU64::MIN.saturating_add(nanos.min(u64::MAX - 2)))
    }

    pub(super) fn nanos(self) -> u64 {
        self.0.get() - 1
    }

    pub(super) fn get(self) -> Duration {
        Duration::from_nanos(self.nanos())
    }
}

/// A change that the store has not answered for good.
#[derive(Clone, Debug, Hash)]
pub(super) struct Changing {
    pub(super) units: u32,
    /// Until when one that was sent may still be executed.
    pub(super) doubt: Option<Time>,
}

/// What is known of the present attempt beside its lease.
#[derive(Clone)]
pub(super) struct Asked {
    /// Whether the acquire in flight asked for a place in the queue.
    pub(super) asked_to_queue: bool,
    /// How many were ahead of it in the queue by the last answer; the highest number there is while it has no place.
    pub(super) ahead: u32,
    /// Until when an acquire whose outcome is unknown may still be executed.
    pub(super) doubt: Option<Time>,
    /// When this attempt's first acquire was sent.
    pub(super) first_sent: Option<Time>,
    /// A grant of this attempt was pushed, so that others may know the attempt and push what they like.
    pub(super) published: bool,
    /// It was pushed that the hold was broken; a renewal sent since then tells.
    pub(super) broken: bool,
    /// Sending time of an acquire that was answered "queued", and the store's time in that answer.
    pub(super) anchor: Option<(Time, StoreTime)>,
    /// When the last acquire of this attempt that was answered left.
    pub(super) answered_write: Option<Time>,
    /// An event came that calls for asking again once the acquire in flight is answered.
    pub(super) ask_again: bool,
    /// The acquire in flight was begun in a session of the client that is over: its answers say nothing.
    pub(super) stale: bool,
    /// The client's session ended, and nothing was asked in another one: what is left at the store ends by itself.
    pub(super) orphaned: bool,
    /// Something of this attempt may be at the store.
    pub(super) touched: bool,
    /// The answer that it is queued came after its grant: should the hold turn out to be lost, a place may be left.
    pub(super) placed: bool,
    /// Since when the store has been owing an answer to the phase's conversation.
    pub(super) silent_since: Option<Time>,
    /// The nodes that it was asked of answer, and will grant it in a while.
    pub(super) not_yet: bool,
    /// Why the acquire that is asked again was not answered, or the last renewal of what is held not done.
    pub(super) trouble: Option<Error>,
    /// How often the present thing was retried in a row.
    pub(super) retries: u8,
    /// When the phase wants to be woken.
    pub(super) wake: Option<Time>,
    /// The release was sent before and its outcome is not known.
    pub(super) repeated: bool,
    /// The outcome of the release was told already.
    pub(super) told: bool,
}

impl Asked {
    pub(super) const NOTHING: Asked = Asked {
        asked_to_queue: false,
        ahead: u32::MAX,
        doubt: None,
        first_sent: None,
        published: false,
        broken: false,
        anchor: None,
        answered_write: None,
        ask_again: false,
        stale: false,
        orphaned: false,
        touched: false,
        placed: false,
        silent_since: None,
        not_yet: false,
        trouble: None,
        retries: 0,
        wake: None,
        repeated: false,
        told: false,
    };
}

/// What the last grant gave. Of use while it is held and while it is given back.
#[derive(Clone, Copy)]
pub(super) struct Lease {
    pub(super) tokens: Option<Tokens>,
    pub(super) used: u64,
    pub(super) granted_at: Time,
    pub(super) valid_until: Time,
    /// The latest time at which the store may still see a lease of this attempt.
    pub(super) store_until: Time,
}

impl Lease {
    pub(super) const NONE: Lease =
        Lease { tokens: None, used: 0, granted_at: Time::ZERO, valid_until: Time::ZERO, store_until: Time::ZERO };
}

/// How the lease is made to last, and the hold changed.
#[derive(Clone)]
pub(super) struct Renewal {
    pub(super) due: Option<Time>,
    /// What the renewal in flight asked for; the present task may want something else.
    pub(super) ttl: Span,
    /// The ttl that `Extend` asks for, until the store says yes or no.
    pub(super) extending: Option<Span>,
    /// What `Change` asks for, likewise.
    pub(super) changing: Option<Box<Changing>>,
    /// Its holder wants to hear whether somebody asked for the lock back, of which renewals tell.
    pub(super) heeds: bool,
    /// That may have been asked while a renewal was under way.
    pub(super) again: bool,
}

impl Renewal {
    pub(super) const NONE: Renewal =
        Renewal { due: None, ttl: Span::ZERO, extending: None, changing: None, heeds: false, again: false };
}

/// From which other attempt the lock comes, and to which it goes.
#[derive(Clone)]
pub(super) struct GivingBack {
    /// The earlier attempt that the acquire conversation gives back, until an answer says that it did.
    pub(super) prev: Option<Box<Previous>>,
    /// Until when that one's lease was ours.
    pub(super) given_until: Time,
    /// While asking, the secret that the lock is taken over from; while releasing, the one that it is passed to.
    pub(super) secret: Option<Box<Terms>>,
}

impl GivingBack {
    pub(super) const NOTHING: GivingBack = GivingBack { prev: None, given_until: Time::ZERO, secret: None };
}
