//! The clock that every process of one machine shares and that also runs while the machine is suspended.

use std::time::Duration;

/// Nanoseconds of that clock.
pub type Nanos = u64;

/// Now.
pub fn now() -> Nanos {
    let at = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}

/// `seconds` after `at`; before it when negative.
pub fn after(at: Nanos, seconds: f64) -> Nanos {
    at.saturating_add_signed((seconds * 1e9) as i64)
}

/// Seconds from `from` to `to`; negative when `to` came first.
pub fn between(from: Nanos, to: Nanos) -> f64 {
    (to as f64 - from as f64) / 1e9
}

/// A duration in nanoseconds.
pub fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
