//! The one clock of the driver.

use crate::time::Time;

/// Now, on a clock that also runs while the machine is suspended (on Linux; elsewhere it may stand still meanwhile, and
/// the guarantees say so).
pub(crate) fn now() -> Time {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = rustix::time::ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = rustix::time::ClockId::Monotonic;
    let at = rustix::time::clock_gettime(clock);
    Time::from_nanos((at.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(at.tv_nsec as u64))
}
