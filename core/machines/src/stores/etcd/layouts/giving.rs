//! An earlier attempt of the same client that the next one gives back, most often by the transaction that puts its own
//! key.
//!
//! A *yield* compares when the earlier key was created. So one that was never answered cannot be executed once that key
//! was deleted, by whomever: whoever asks again deletes it first.

use std::sync::Arc;

use super::{is, on_keys, release};
use crate::lease::ReleaseOutcome;
use crate::protocol::{Arg, AttemptId, Call, Reply, Request};

/// See the [module](self).
#[derive(Clone, Debug, Hash)]
pub(super) struct Given {
    pub(super) attempt: AttemptId,
    pub(super) key: Arc<str>,
    /// Where it sat; none if its key was called after itself alone.
    pub(super) seat: Option<AttemptId>,
    /// When its key was created; none where that is not known, or an acquire of it may be executed yet.
    pub(super) create: Option<u64>,
    /// What stands in its key.
    pub(super) tag: Option<Arg>,
    /// Something that gives it back was sent, and not answered.
    pub(super) unsure: bool,
    /// What became of it, once that is known.
    pub(super) outcome: Option<ReleaseOutcome>,
}

impl Given {
    /// Whether its key may be there.
    pub(super) fn is_there(&self) -> bool {
        self.outcome.is_none()
    }

    /// When its key was created, if one transaction can give it back and put the next one.
    pub(super) fn yields(&self) -> Option<u64> {
        self.create.filter(|_| self.is_there() && !self.unsure)
    }

    /// What deletes its key: where an acquire of it may be executed yet, this call has to keep that out.
    pub(super) fn request(&self, call: &'static Call, lock: &Arc<str>) -> Request {
        match self.create {
            Some(create) => release(lock, &self.key, create),
            None => delete(call, lock, self.key.clone(), self.tag.clone()),
        }
    }

    /// That was answered so, which `deleted` counts.
    pub(super) fn is_gone(&mut self, deleted: i64) {
        self.outcome = Some(match deleted {
            1 => ReleaseOutcome::Released,
            _ if self.unsure => ReleaseOutcome::Unknown,
            2 => ReleaseOutcome::StolenBy(String::new()),
            _ => ReleaseOutcome::Expired,
        });
    }
}

/// Deletes that key, if it has this value.
pub(super) fn delete(call: &'static Call, lock: &Arc<str>, key: Arc<str>, tag: Option<Arg>) -> Request {
    let mut request = on_keys(call, lock, [key]);
    request.args.extend(tag);
    request
}

/// Whether what is left of an attempt is deleted: whatever was put under a lease is gone with it.
pub(super) fn is_of_ended_lease(reply: &Reply) -> bool {
    is(reply, "LeaseNotFound")
}
