//! What a client knows of its store's clock.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crate::session::DRIFT_DIVISOR;
use crate::time::{StoreTime, Time};

/// How long an estimate is used before the clock is asked for again. By then it may be a hundredth of this behind.
const HOLDS: Duration = Duration::from_secs(10);

/// An estimate of the store's clock that is never ahead of it, so that what must not be executed late is not.
///
/// An answer was a while on its way when it comes in, and our clock may run 1 % faster than the store's: both are
/// allowed for in the same direction. Where the store's clock is set back, the estimate is ahead until it is learnt
/// anew.
#[derive(Debug, Default)]
pub struct StoreClock {
    /// Microseconds from our clock to the store's.
    offset: AtomicI64,
    /// When that was learnt, in nanoseconds of our clock; 0 for never.
    learnt: AtomicU64,
}

impl StoreClock {
    /// An answer that comes in at `now` says that the store's clock stood at `at`.
    pub fn learn(&self, now: Time, at: StoreTime) {
        self.offset.store(at.0.saturating_sub(micros(now)), Ordering::Relaxed);
        self.learnt.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// What the store's clock certainly shows at `time`, which may be that and up to 1 % of the time since it was
    /// learnt more.
    pub fn at(&self, time: Time) -> StoreTime {
        let drift = self.age(time) / DRIFT_DIVISOR;
        StoreTime(micros(time.before(drift)).saturating_add(self.offset.load(Ordering::Relaxed)))
    }

    /// Whether it is time to ask for the clock again.
    pub fn is_old(&self, now: Time) -> bool {
        self.age(now) > HOLDS
    }

    fn age(&self, now: Time) -> Duration {
        now.since(Time::from_nanos(self.learnt.load(Ordering::Relaxed)))
    }
}

fn micros(time: Time) -> i64 {
    i64::try_from(time.as_nanos() / 1000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_000_000;

    fn at(millis: u64) -> Time {
        Time::from_nanos((START + millis) * 1_000_000)
    }

    #[test]
    fn an_estimate_is_never_ahead_though_our_clock_runs_one_percent_fast() {
        let clock = StoreClock::default();
        clock.learn(at(0), StoreTime(5_000_000));
        // Ours says ten seconds; 9.9 have passed at the store.
        assert!(clock.at(at(10_000)) <= StoreTime(5_000_000 + 9_900_990));
        assert!(clock.at(at(10_000)) >= StoreTime(5_000_000 + 9_900_000));
    }

    #[test]
    fn it_is_asked_for_again_and_then_holds_anew() {
        let clock = StoreClock::default();
        assert!(clock.is_old(at(0)), "never learnt");
        clock.learn(at(0), StoreTime(0));
        assert!(!clock.is_old(at(10_000)) && clock.is_old(at(10_001)));
        clock.learn(at(10_001), StoreTime(7));
        assert_eq!(clock.at(at(10_001)), StoreTime(7));
    }
}
