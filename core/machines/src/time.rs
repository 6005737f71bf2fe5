//! Points in time, as plain numbers. The machines never read a clock: whoever drives them hands these in.

use std::num::NonZeroU64;
use std::time::Duration;

/// A point on this host's own clock, in nanoseconds since an arbitrary start.
///
/// The driver takes it from a clock that also runs while the machine is suspended (`CLOCK_BOOTTIME` on Linux), so that
/// a laptop that slept through its lease knows it. Kept as one more than its nanoseconds, so that an `Option` of it
/// takes no more room: a client may hold very many locks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(NonZeroU64);

impl Time {
    /// The start of the clock.
    pub const ZERO: Time = Time(NonZeroU64::MIN);

    /// The point `nanos` nanoseconds after the clock's start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Time(NonZeroU64::MIN.saturating_add(nanos))
    }

    /// Nanoseconds since the clock's start.
    pub const fn as_nanos(self) -> u64 {
        self.0.get() - 1
    }

    /// This point moved `by` into the future; stops at the end of the clock.
    pub fn after(self, by: Duration) -> Self {
        Time(self.0.saturating_add(nanos(by)))
    }

    /// This point moved `by` into the past; stops at the start of the clock.
    pub fn before(self, by: Duration) -> Self {
        Time::from_nanos(self.as_nanos().saturating_sub(nanos(by)))
    }

    /// How long after `earlier` this point lies; zero when it does not.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.as_nanos().saturating_sub(earlier.as_nanos()))
    }
}

impl Default for Time {
    fn default() -> Self {
        Time::ZERO
    }
}

impl std::fmt::Debug for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Time").field(&self.as_nanos()).finish()
    }
}

/// A point on the *store's* clock, in microseconds; comparable only with other points of the same store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreTime(pub i64);

impl StoreTime {
    /// This point moved `by` into the future.
    pub fn after(self, by: Duration) -> Self {
        StoreTime(self.0.saturating_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Microseconds from `earlier` to this point; negative when this point is the earlier one.
    pub fn micros_since(self, earlier: StoreTime) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
