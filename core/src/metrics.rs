//! What a client did so far, in figures: [`Client::metrics`](crate::Client::metrics).

use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

use crate::lease::LossReason;

/// The shortest and the longest time that is told apart, in microseconds: 1 us to about 19 hours.
const RANGE: (u64, u64) = (1, 1 << 36);
/// Significant decimal digits of a recorded time.
const DIGITS: u8 = 2;

/// The figures of one client in one process, since it was connected. A forked child begins at zero.
///
/// All figures are of the same moment. Those of several clients can be added with `+=`.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Metrics {
    /// Locks held now. A lock entered again by its owner is held once.
    pub held: u64,
    /// Acquisitions under way now: asked for, and neither granted nor given up.
    pub waiting: u64,
    /// Acquisitions granted.
    pub acquired: u64,
    /// Of these: by the lock's holder, which entered it again.
    pub reentered: u64,
    /// Of these: passed from one task of this process to the next without a word to the store.
    pub hand_offs: u64,
    /// Acquisitions that found the lock taken and waited for it, whatever became of them.
    pub contended: u64,
    /// Acquisitions that only tried and found the lock taken.
    pub refused: u64,
    /// Acquisitions that reached their time limit.
    pub timeouts: u64,
    /// Acquisitions whose caller went away.
    pub cancelled: u64,
    /// Acquisitions that failed for another reason, such as a store that did not answer.
    pub failed: u64,
    /// Renewals that the store confirmed.
    pub renewals: u64,
    /// Renewals without an answer, or refused; each is tried again until the lease is over.
    pub renewal_failures: u64,
    /// Holds that were lost, by reason.
    pub lost: Losses,
    /// Requests made of the store, each renewal of a batch counted.
    pub requests: u64,
    /// Round trips to the store: a batch of renewals is one.
    pub round_trips: u64,
    /// Times that the store answered again after it had not.
    pub reconnects: u64,
    /// How long the granted acquisitions took, from asking to having.
    pub wait: Histogram,
    /// How long locks were held, from the grant to the release or the loss.
    pub hold: Histogram,
}

impl AddAssign<&Metrics> for Metrics {
    fn add_assign(&mut self, other: &Metrics) {
        self.held += other.held;
        self.waiting += other.waiting;
        self.acquired += other.acquired;
        self.reentered += other.reentered;
        self.hand_offs += other.hand_offs;
        self.contended += other.contended;
        self.refused += other.refused;
        self.timeouts += other.timeouts;
        self.cancelled += other.cancelled;
        self.failed += other.failed;
        self.renewals += other.renewals;
        self.renewal_failures += other.renewal_failures;
        self.requests += other.requests;
        self.round_trips += other.round_trips;
        self.reconnects += other.reconnects;
        self.lost.0.iter_mut().zip(other.lost.0).for_each(|(mine, theirs)| *mine += theirs);
        self.wait.add(&other.wait);
        self.hold.add(&other.hold);
    }
}

/// Where a reason stands in [`LossReason::ALL`].
pub(crate) fn position(reason: &LossReason) -> u8 {
    match reason {
        LossReason::Expired => 0,
        LossReason::MaxHold => 1,
        LossReason::Abandoned => 2,
        LossReason::NotRenewed => 3,
        LossReason::Gone => 4,
        LossReason::Broken => 5,
        LossReason::Closed => 6,
    }
}

/// How many holds were lost, by reason.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses([u64; LossReason::ALL.len()]);

impl Losses {
    /// For this reason.
    pub fn of(&self, reason: &LossReason) -> u64 {
        self.0[usize::from(position(reason))]
    }

    /// For any reason.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Every reason with its number, also those that never were.
    pub fn each(&self) -> impl Iterator<Item = (LossReason, u64)> {
        LossReason::ALL.into_iter().zip(self.0)
    }

    pub(crate) fn count(&mut self, reason: &LossReason) {
        self.0[usize::from(position(reason))] += 1;
    }
}

impl fmt::Debug for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.each().map(|(reason, count)| (reason.code(), count))).finish()
    }
}

/// A distribution of times from 1 us to 19 hours, each kept to two digits; shorter and longer ones count as the
/// shortest and the longest. Its memory is fixed: 31 KiB.
#[derive(Clone, PartialEq)]
pub struct Histogram {
    counts: hdrhistogram::Histogram<u64>,
    sum: Duration,
}

impl Histogram {
    /// How many times there are in it.
    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// All of them together.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// The time within which the fraction `q` (0 to 1) of all lies, at most 1 % (or 1 us) more than it really is; zero
    /// while there is none.
    pub fn quantile(&self, q: f64) -> Duration {
        Duration::from_micros(self.counts.value_at_quantile(q))
    }

    /// The longest of all, at most 1 % (or 1 us) more than it really was; zero while there is none.
    pub fn max(&self) -> Duration {
        Duration::from_micros(self.counts.max())
    }

    /// How many are not longer than `bound`, to within 1 % of it: what a cumulative bucket of Prometheus counts.
    pub fn at_most(&self, bound: Duration) -> u64 {
        match micros(bound) {
            0 => 0,
            bound => self.counts.count_between(0, bound),
        }
    }

    /// The buckets that are not empty, from the shortest time on: a bucket's longest time, and how many are in it.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let recorded = self.counts.iter_recorded();
        recorded.map(|step| (Duration::from_micros(step.value_iterated_to()), step.count_at_value()))
    }

    pub(crate) fn record(&mut self, time: Duration) {
        // Rounded up, so that no figure is shorter than what it stands for.
        self.counts.saturating_record(micros(time.saturating_add(Duration::from_nanos(999))).max(RANGE.0));
        self.sum = self.sum.saturating_add(time);
    }

    fn add(&mut self, other: &Histogram) {
        // Both have the same bounds, so everything fits.
        let _ = self.counts.add(&other.counts);
        self.sum = self.sum.saturating_add(other.sum);
    }
}

impl Default for Histogram {
    fn default() -> Self {
        let counts = hdrhistogram::Histogram::new_with_bounds(RANGE.0, RANGE.1, DIGITS);
        Histogram { counts: counts.expect("the bounds are constant and good"), sum: Duration::ZERO }
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [half, most] = [0.5, 0.99].map(|q| self.quantile(q));
        write!(f, "Histogram({} times, p50 {half:?}, p99 {most:?}, max {:?})", self.count(), self.max())
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kept_to_two_digits() {
        let mut times = Histogram::default();
        assert_eq!((times.count(), times.quantile(0.5), times.max()), (0, Duration::ZERO, Duration::ZERO));
        (1..=1000).for_each(|ms| times.record(Duration::from_millis(ms)));
        assert_eq!((times.count(), times.sum()), (1000, Duration::from_micros(500_500_000)));
        let near = |found: Duration, ms: u64| {
            found >= Duration::from_millis(ms) && found <= Duration::from_millis(ms + ms / 100 + 1)
        };
        assert!(near(times.quantile(0.5), 500) && near(times.quantile(0.99), 990) && near(times.max(), 1000));
        assert!((250..=253).contains(&times.at_most(Duration::from_millis(250))));
        assert_eq!(times.at_most(Duration::ZERO), 0);
        assert_eq!(times.buckets().map(|(_, count)| count).sum::<u64>(), 1000);
    }

    #[test]
    fn no_time_is_too_short_or_too_long() {
        let mut times = Histogram::default();
        [Duration::ZERO, Duration::MAX].into_iter().for_each(|time| times.record(time));
        assert_eq!((times.count(), times.sum()), (2, Duration::MAX));
        assert_eq!(times.at_most(Duration::from_micros(1)), 1);
    }

    #[test]
    fn losses_are_printed_by_their_names_in_the_order_of_the_documentation() {
        let mut lost = Losses::default();
        lost.count(&LossReason::Gone);
        let said = format!("{lost:?}");
        assert!(
            said.starts_with(r#"{"expired": 0, "max_hold": 0, "#) && said.contains(r#""gone": 1, "broken": 0"#),
            "{said}"
        );
    }

    #[test]
    fn figures_of_two_clients_add_up() {
        let mut one = Metrics { acquired: 2, ..Metrics::default() };
        one.lost.count(&LossReason::Gone);
        one.wait.record(Duration::from_millis(5));
        let mut both = one.clone();
        both += &one;
        assert_eq!((both.acquired, both.lost.of(&LossReason::Gone), both.lost.total()), (4, 2, 2));
        assert_eq!((both.wait.count(), both.wait.sum()), (2, Duration::from_millis(10)));
    }
}
