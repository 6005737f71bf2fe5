//! What a client knows of the clock of its memcached, by which it says when a lock ends.
//!
//! Whatever is stored ends at a second of the server's clock and not after a time: so it ends when it was meant to,
//! however late the request comes. The server tells the second that its clock shows, which may be as good as over.

use std::time::Duration;

use crate::session::DRIFT_DIVISOR;
use crate::time::Time;

/// For how long a reading is used: by then it may be half a second off.
const HOLDS: Duration = Duration::from_secs(50);
/// That the server may take a second to do what it is told, and the lease is as long as promised all the same.
const SLACK: i64 = 1;

/// The last reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerClock {
    reading: Option<(Time, i64)>,
}

impl ServerClock {
    /// A request that left at `sent` was answered with the second `shown`, counted from 1970.
    pub fn learn(&mut self, sent: Time, shown: i64) {
        self.reading = Some((sent, shown));
    }

    /// It cannot be right.
    pub fn forget(&mut self) {
        self.reading = None;
    }

    /// The second in which what is sent at `now` and is to last for `ttl` has to end; nothing where the clock has to be
    /// read first.
    pub fn end(&self, now: Time, ttl: Duration) -> Option<i64> {
        let (sent, shown) = self.reading?;
        let age = now.since(sent);
        if age > HOLDS {
            return None;
        }
        // The second that it showed may have been over, and its clock may be faster than ours.
        let latest = shown.checked_add(1)?.checked_add(seconds(age + age / DRIFT_DIVISOR))?;
        latest.checked_add(SLACK)?.checked_add(seconds(ttl))
    }

    /// Whether what was stored to last for `ttl` may well end in `left` seconds, as the server says.
    pub fn agrees(ttl: Duration, left: i64) -> bool {
        // Both readings, the drift of a minute and the slack are a second each at most.
        (seconds(ttl) + 1..=seconds(ttl) + 6).contains(&left)
    }
}

/// As many whole seconds as last at least as long.
pub fn seconds(span: Duration) -> i64 {
    let more = i64::from(span.subsec_nanos() > 0);
    i64::try_from(span.as_secs()).unwrap_or(i64::MAX / 4).saturating_add(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_000_000;
    const TTL: Duration = Duration::from_secs(10);

    fn at(millis: u64) -> Time {
        Time::from_nanos((START + millis) * 1_000_000)
    }

    fn learnt() -> ServerClock {
        let mut clock = ServerClock::default();
        clock.learn(at(0), 1_700_000_000);
        clock
    }

    #[test]
    fn what_is_stored_lasts_as_long_as_promised_though_the_second_was_nearly_over() {
        // The server's clock stood at ...000.999 when it said ...000. What is sent at once has ten seconds from there,
        // though the server takes another one until it does it.
        assert!(learnt().end(at(0), TTL).unwrap() >= 1_700_000_001 + 1 + 10);
        // So has what is sent 30.5 seconds later, of which the server's clock made 30.8.
        assert!(learnt().end(at(30_500), TTL).unwrap() >= 1_700_000_031 + 1 + 1 + 10);
    }

    #[test]
    fn a_clock_that_is_faster_is_allowed_for() {
        // 40 seconds of ours are up to 40.4 of the server's.
        assert!(learnt().end(at(40_000), TTL).unwrap() >= 1_700_000_041 + 1 + 1 + 10);
    }

    #[test]
    fn it_lasts_little_longer() {
        for millis in [0, 1, 999, 1000, 30_500, 50_000] {
            let most = 1_700_000_000 + (millis as i64) / 1000 + 10 + 4;
            assert!(learnt().end(at(millis), TTL).unwrap() <= most, "{millis}");
        }
    }

    #[test]
    fn it_is_read_again_when_it_is_old_or_forgotten() {
        let mut clock = learnt();
        assert!(clock.end(at(50_000), TTL).is_some());
        assert_eq!(clock.end(at(50_001), TTL), None);
        clock.learn(at(50_001), 1_700_000_051);
        assert!(clock.end(at(50_001), TTL).is_some());
        clock.forget();
        assert_eq!(clock.end(at(50_001), TTL), None);
        assert_eq!(ServerClock::default().end(at(0), TTL), None);
    }

    #[test]
    fn no_number_of_a_server_runs_over() {
        let mut clock = ServerClock::default();
        clock.learn(at(0), i64::MAX);
        assert_eq!(clock.end(at(0), TTL), None);
    }

    #[test]
    fn an_end_that_is_too_near_or_too_far_is_told() {
        let agrees = |left| ServerClock::agrees(TTL, left);
        assert_eq!([10, 11, 12, 16, 17].map(agrees), [false, true, true, true, false]);
        assert_eq!(seconds(Duration::from_millis(1_001)), 2);
    }
}
