//! The core's words as those of the interface.

use std::time::Duration;

use lockwright_machines::error::{Error, Kind};
use lockwright_machines::guarantee::Guarantees;
use lockwright_machines::lease::{Holder, Inspection, LossReason, ReleaseOutcome, Waiting};
use lockwright_machines::options::AcquireOptions;
use lockwright_machines::share::Primitive;

use crate::bindings::api;

pub(crate) fn refused(error: Error) -> api::Error {
    let details = api::Details {
        text: error.to_string(),
        advice: error.context().to_owned(),
        code: error.code().to_owned(),
        retryable: error.retryable(),
    };
    match error.kind() {
        Kind::Timeout => api::Error::Timeout(details),
        Kind::NotOwned => api::Error::NotOwned(details),
        Kind::Lost => api::Error::Lost(details),
        Kind::Unavailable => api::Error::Unavailable(details),
        Kind::InvalidConfig => api::Error::InvalidConfig(details),
        Kind::Unsupported => api::Error::Unsupported(details),
        Kind::ForeignLayout => api::Error::ForeignLayout(details),
        Kind::Closed => api::Error::Closed(details),
        Kind::Auth => api::Error::Auth(details),
        Kind::Protocol => api::Error::Protocol(details),
        _ => api::Error::Internal(details),
    }
}

pub(crate) fn loss(reason: &LossReason) -> api::Loss {
    match reason {
        LossReason::Expired => api::Loss::Expired,
        // A guard that is dropped gives its lock back, so none is forgotten.
        LossReason::MaxHold | LossReason::Abandoned => api::Loss::MaxHold,
        LossReason::NotRenewed => api::Loss::NotRenewed,
        LossReason::Gone => api::Loss::Gone,
        LossReason::Broken => api::Loss::Broken,
        LossReason::Closed => api::Loss::Closed,
    }
}

pub(crate) fn outcome(outcome: ReleaseOutcome) -> api::ReleaseOutcome {
    match outcome {
        // No lock is reentrant here.
        ReleaseOutcome::Released | ReleaseOutcome::Kept(_) => api::ReleaseOutcome::Released,
        ReleaseOutcome::Expired => api::ReleaseOutcome::Expired,
        ReleaseOutcome::StolenBy(card) => api::ReleaseOutcome::Stolen(card),
        ReleaseOutcome::Unknown => api::ReleaseOutcome::Unknown,
    }
}

/// The options of the address with those that are given.
pub(crate) fn options(mut all: AcquireOptions, given: api::LockOptions) -> AcquireOptions {
    let api::LockOptions { ttl, renew, max_hold, fair, rank, layout, format, label } = given;
    all.ttl = ttl.map_or(all.ttl, Duration::from_millis);
    all.renew = renew.unwrap_or(all.renew);
    all.max_hold = max_hold.map(Duration::from_millis).or(all.max_hold);
    all.fair = fair.unwrap_or(all.fair);
    all.rank = rank.unwrap_or(all.rank);
    if let Some(layout) = layout {
        all.set_layout(&layout);
    }
    all.format = format.map(Into::into).or(all.format);
    all.label = label.map(Into::into).or(all.label);
    all
}

/// As the interface counts time.
pub(crate) fn milliseconds(span: Duration) -> api::Milliseconds {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn microseconds(span: Duration) -> api::Microseconds {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

fn holder(holder: Holder) -> api::Holder {
    let Holder { owner, card, held_for, remaining, first_token, last_token } = holder;
    api::Holder {
        owner,
        host: card.host,
        pid: card.pid,
        language: card.language,
        label: card.label,
        held_for: held_for.map(milliseconds),
        // A lease of another library's that has no end.
        remaining: Some(remaining).filter(|left| *left != Duration::MAX).map(milliseconds),
        first_token,
        last_token,
    }
}

fn waiting(waiting: Waiting, primitive: Option<Primitive>) -> api::Waiting {
    let wants = primitive.map(|primitive| waiting.describe(primitive));
    let Waiting { card, waited, rank, .. } = waiting;
    let waited = waited.map(milliseconds);
    api::Waiting { host: card.host, pid: card.pid, language: card.language, label: card.label, waited, rank, wants }
}

pub(crate) fn inspection(seen: Inspection) -> api::Inspection {
    let primitive = seen.shared.as_ref().map(|shared| shared.primitive);
    let shared = seen.shared.map(|shared| api::Sharing {
        primitive: shared.primitive.name().to_owned(),
        permits: shared.permits,
        unlisted: shared.unlisted,
        holders: shared
            .holders
            .into_iter()
            .map(|part| api::Part { holds: part.describe(shared.primitive), holder: holder(part.holder) })
            .collect(),
    });
    api::Inspection {
        name: seen.name,
        layout: seen.layout,
        holder: seen.holder.map(holder),
        waiters: seen.waiters,
        queue: seen.queue.into_iter().map(|one| waiting(one, primitive)).collect(),
        primitive: seen.primitive.map(str::to_owned),
        shared,
        count: seen.latch.map(|latch| latch.count),
    }
}

pub(crate) fn guarantees(promised: &Guarantees) -> api::Guarantees {
    api::Guarantees {
        store: promised.store.to_owned(),
        layout: promised.layout.to_owned(),
        exclusive_until: promised.exclusive_until.to_string(),
        token: promised.token.to_string(),
        fair: promised.fair,
        push: promised.push,
        survives_disconnect: promised.survives_disconnect,
        incarnation: promised.incarnation,
        notes: promised.notes.iter().map(|note| (*note).to_owned()).collect(),
    }
}
