//! Several locks that are taken together, and one of several: what `ts/several.ts` makes its classes of.

use std::time::Duration;

use lockwright::multi::MultiLock;
use lockwright::striped::Striped;
use lockwright::{Error, Result};
use napi_derive::napi;

use crate::error::{Answer, answer};
use crate::lock::{Client, Lock, Wanted, limit_of};

/// Locks that are acquired together.
#[napi]
pub struct Bundle {
    pub(crate) core: MultiLock,
}

#[napi]
impl Bundle {
    #[napi(getter, catch_unwind)]
    pub fn names(&self) -> Vec<String> {
        self.core.names().map(str::to_owned).collect()
    }
}

impl Bundle {
    pub(crate) fn limit(&self, timeout: Option<f64>) -> Result<Option<Duration>> {
        limit_of(timeout, self.core.options().timeout)
    }
}

/// The segments of a hot lock.
#[napi]
pub struct Segments {
    pub(crate) core: Striped,
}

#[napi]
impl Segments {
    #[napi(getter, catch_unwind)]
    pub fn count(&self) -> u32 {
        u32::try_from(self.core.count()).unwrap_or(u32::MAX)
    }

    #[napi(catch_unwind)]
    pub fn index_for(&self, key: String) -> u32 {
        u32::try_from(self.core.index_for(&key)).unwrap_or(u32::MAX)
    }

    #[napi(catch_unwind)]
    pub fn lock(&self, index: u32) -> Answer<Lock> {
        answer(self.check(index).map(|index| Lock::new(self.core.segment(index).clone(), false)))
    }

    #[napi(catch_unwind)]
    pub fn mark_sold_out(&self, index: u32) -> Answer<bool> {
        let marked = self.check(index).map(|index| self.core.mark_sold_out(index));
        answer(marked.map(|()| true))
    }

    #[napi(catch_unwind)]
    pub fn restock(&self) {
        self.core.restock();
    }
}

impl Segments {
    pub(crate) fn limit(&self, timeout: Option<f64>) -> Result<Option<Duration>> {
        limit_of(timeout, self.core.options().timeout)
    }

    fn check(&self, index: u32) -> Result<usize> {
        let known = usize::try_from(index).ok().filter(|index| *index < self.core.count());
        let message = || format!("there is no segment {index}; there are {}", self.core.count());
        known.ok_or_else(|| Error::invalid("lock", message()))
    }
}

#[napi]
impl Client {
    #[napi(catch_unwind)]
    pub fn multi_lock(&self, names: Vec<String>, wanted: Wanted) -> Answer<Bundle> {
        let made = wanted.options(&self.core).and_then(|options| self.core.multi_lock_with(names, &options));
        answer(made.map(|core| Bundle { core }))
    }

    #[napi(catch_unwind)]
    pub fn striped(&self, name: String, segments: u32, wanted: Wanted) -> Answer<Segments> {
        let made = wanted.options(&self.core);
        let made = made.and_then(|options| self.core.striped_with(&name, segments as usize, &options));
        answer(made.map(|core| Segments { core }))
    }
}
