//! What any system gives, by the standard library: there are no forks, and the clock may stand still while the machine
//! is suspended.

use std::sync::LazyLock;
use std::time::Instant;

use crate::time::Time;

/// Now.
pub(crate) fn now() -> Time {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    Time::ZERO.after(START.elapsed())
}

/// This host's name, as its environment says.
pub(crate) fn host_name() -> String {
    ["COMPUTERNAME", "HOSTNAME"].into_iter().find_map(|name| std::env::var(name).ok()).unwrap_or_default()
}

/// What a forked child would have to close.
#[derive(Debug)]
pub(crate) struct Registered;

/// Nothing is to be done.
pub(crate) fn register<T>(_: &T) -> Registered {
    Registered
}

/// There are no signals.
#[derive(Debug)]
pub(crate) struct SignalsBlocked;

pub(crate) fn block_signals() -> SignalsBlocked {
    SignalsBlocked
}

/// Nothing is to be done.
pub(super) fn watch_forks() {}
