//! What nobody holds, and many wait at: latches and barriers.

use ext_php_rs::exception::PhpResult;
use ext_php_rs::prelude::*;
use ext_php_rs::types::Zval;
use lockwright::binding::Handle;

use crate::asked::ask;

/// Whoever waits goes on once so many have counted it down.
#[php_class]
#[php(name = "Lockwright\\Latch", flags = ext_php_rs::flags::ClassFlags::Final)]
#[derive(Debug)]
pub struct Latch {
    pub(crate) core: lockwright::Latch,
}

#[php_impl]
impl Latch {
    /// Waits until it is open. Whether it is; without a `timeout`, it is.
    pub fn wait(&self, timeout: Option<&Zval>) -> PhpResult<Zval> {
        ask(Handle::Latch(self.core.clone()), "wait", &[timeout])
    }

    /// Counts it down by one; how many are still to come.
    pub fn count_down(&self) -> PhpResult<Zval> {
        ask(Handle::Latch(self.core.clone()), "count_down", &[])
    }

    /// How many are still to come; of a latch that nobody used yet, its count.
    pub fn count(&self) -> PhpResult<Zval> {
        ask(Handle::Latch(self.core.clone()), "count", &[])
    }

    /// Has it count from `count`, if it is open or nobody used it yet. Whether it does.
    pub fn try_set_count(&self, count: &Zval) -> PhpResult<Zval> {
        ask(Handle::Latch(self.core.clone()), "try_set_count", &[Some(count)])
    }

    /// Its name, without the prefix of the address.
    pub fn name(&self) -> String {
        self.core.name().to_owned()
    }
}

/// Opens whenever so many wait for it at the same time.
#[php_class]
#[php(name = "Lockwright\\Barrier", flags = ext_php_rs::flags::ClassFlags::Final)]
#[derive(Debug)]
pub struct Barrier {
    pub(crate) core: lockwright::Barrier,
}

#[php_impl]
impl Barrier {
    /// Waits until all are there: which of them this one is, and in which generation; null when the time is over.
    pub fn wait(&self, timeout: Option<&Zval>) -> PhpResult<Zval> {
        ask(Handle::Barrier(self.core.clone()), "wait", &[timeout])
    }

    /// How many wait now.
    pub fn waiting(&self) -> PhpResult<Zval> {
        ask(Handle::Barrier(self.core.clone()), "waiting", &[])
    }

    /// Its name, without the prefix of the address.
    pub fn name(&self) -> String {
        self.core.name().to_owned()
    }
}
