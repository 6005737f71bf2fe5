//! The client's lease, as it was granted, and the fence beside it.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use super::transactions::fence_key;
use super::wire::{Op, Response, Transaction};
use crate::session::margin;
use crate::time::Time;

/// See the [module](self).
#[derive(Debug)]
pub struct Lease {
    /// Its number.
    pub id: i64,
    /// How long it lasts without a sign of life.
    pub ttl: Duration,
    /// Where its fence lies.
    pub fence_key: String,
    /// At which revision the fence was written last, as far as is known: what was sent with a lower one does nothing.
    fence: AtomicI64,
    /// Whether it lies beside the fence who this client is.
    told: AtomicBool,
}

/// How many seconds a client's lease is to last, for locks that last for `ttl`: the server counts whole ones.
pub fn whole_seconds(ttl: Duration) -> Duration {
    Duration::from_secs(ttl.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX))
}

impl Lease {
    /// That of a client whose keys begin with `prefix`, for so many seconds.
    pub fn granted(prefix: &str, id: i64, seconds: i64) -> Self {
        Lease {
            id,
            ttl: Duration::from_secs(seconds.try_into().unwrap_or_default()),
            fence_key: fence_key(prefix, id),
            fence: AtomicI64::new(0),
            told: AtomicBool::new(false),
        }
    }

    /// At which revision the fence was written last, as far as is known.
    pub fn fence(&self) -> i64 {
        self.fence.load(Ordering::Acquire)
    }

    /// The fence is at another revision: it only rises, unless somebody deleted it.
    pub fn learn(&self, fence: i64) {
        if fence == 0 {
            self.fence.store(0, Ordering::Release);
        } else {
            self.fence.fetch_max(fence, Ordering::AcqRel);
        }
    }

    /// Whether it lies beside the fence who this client is.
    pub fn is_told(&self) -> bool {
        self.told.load(Ordering::Acquire)
    }

    /// That lies there.
    pub fn tells(&self) {
        self.told.store(true, Ordering::Release);
    }

    /// Writes the fence.
    pub fn put_fence(&self) -> Op {
        Op::Put { key: self.fence_key.clone(), value: String::new(), lease: self.id }
    }

    /// The first that is to be done under it.
    pub fn first_fence(&self) -> Transaction {
        Transaction::of([self.put_fence()])
    }

    /// That was done.
    pub fn is_fenced(&self, response: &Response) {
        self.learn(response.revision);
    }

    /// Until when it lasts at least, if a sign of life that left at `sent` was answered.
    pub fn lives(&self, sent: Time) -> Time {
        sent.after(self.ttl).before(margin(self.ttl))
    }
}
