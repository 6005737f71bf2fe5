//! How long a session has to last at the ensemble for what is held to last for a ttl, and how often it is to be proven
//! alive.
//!
//! ```text
//!   heartbeat sent   answered by a majority             deadline of all that is held
//!   |--------------------|------------------------------------|
//!   |<------------------------- ttl ------------------------->|
//!   |<-------->|next one                                              |
//!   |<------------- timeout: what the ensemble keeps it for --------->|
//! ```
//!
//! The leader hears from the client's server, with each half of a tick, which sessions it was asked something in. A
//! server that ends takes the last of that with it: then the leader counts from a heartbeat earlier and half a tick
//! before. So the timeout is longer than the ttl by as much. A leader that others have replaced may answer for a
//! while, but nothing that takes a majority; so nothing else proves that a session is alive.
//!
//! A heartbeat may be late, as where the machine was suspended. Then a majority may answer it just before the leader,
//! who has yet to hear of it, ends the session. So what is answered proves the session alive for no longer than the
//! ensemble keeps one without a word, counted from what the leader had certainly [heard](Heard) of by then.

use std::collections::VecDeque;
use std::time::Duration;

use super::config::Config;
use crate::error::{Error, Result};
use crate::session::margin;
use crate::time::Time;

/// The longest that a server may be silent which owes an answer, where the ttl allows so much.
const PATIENCE: Duration = Duration::from_secs(1);

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    ttl: Duration,
    tick: Duration,
}

impl Pace {
    pub(super) fn of(config: &Config) -> Self {
        Pace { ttl: config.ttl, tick: config.tick }
    }

    /// How often the session is proven alive.
    pub(super) fn heartbeat(self) -> Duration {
        self.ttl / 4
    }

    /// How long a server may owe an answer before another one is asked.
    pub(super) fn patience(self) -> Duration {
        PATIENCE.max(self.ttl / 3)
    }

    /// For how long the ensemble has to keep the session.
    pub(super) fn wanted(self) -> Duration {
        self.ttl + self.heartbeat() + self.tick / 2
    }

    /// What is asked of the ensemble, in milliseconds.
    pub(super) fn timeout(self) -> i32 {
        i32::try_from(self.wanted().as_millis()).unwrap_or(i32::MAX).saturating_add(1)
    }

    /// Whether the ensemble keeps a session for long enough, if it does for `timeout`.
    ///
    /// # Errors
    /// `unsupported`, with the ttl that can be had.
    pub(super) fn check(self, timeout: Duration) -> Result<()> {
        if timeout >= self.wanted() {
            return Ok(());
        }
        let most = timeout.saturating_sub(self.tick / 2) * 4 / 5;
        let message = format!(
            "the servers keep a silent session for {timeout:?} at most, which is too short for a ttl of {:?}; write \
             ?ttl={}ms in the address, or raise their maxSessionTimeout to {}",
            self.ttl,
            most.as_millis(),
            self.timeout()
        );
        Err(Error::unsupported("connect", message))
    }

    /// As of when the session is proven alive by what a majority answers that is sent at `sent`, if the leader has
    /// heard of what was sent at `heard` by then: earlier than it is sent where that proves less than a ttl.
    pub(super) fn proves(self, sent: Time, heard: Time, timeout: Duration) -> Time {
        sent.min(heard.after(timeout.saturating_sub(self.ttl)))
    }

    /// Until when the session certainly lives that is proven alive as of `proven`.
    pub(super) fn lives_until(self, proven: Time) -> Time {
        proven.after(self.ttl).before(margin(self.ttl))
    }

    /// How long it takes at most until the leader hears of what a server was asked: half a tick, and what their own
    /// messages may take.
    fn hears_within(self) -> Duration {
        self.tick / 2 + self.tick / 8
    }

    /// When the session is to be proven alive again which is so as of `proven`, by what was sent last at `beat`. Where
    /// that proved less than a ttl, as soon as the leader has heard of it.
    pub(super) fn next_heartbeat(self, proven: Time, beat: Time) -> Time {
        let soonest = self.heartbeat().min(self.hears_within() * 9 / 8);
        proven.after(self.heartbeat()).max(beat.after(soonest))
    }

    /// Whether whoever knows that it lives until `told` need not be told of `until`.
    pub(super) fn is_told(self, told: Time, until: Time) -> bool {
        until < told.after(self.ttl / 16)
    }
}

/// What was asked on one connection, as far as it says of what the leader certainly heard.
#[derive(Debug, Default)]
pub(super) struct Heard(VecDeque<Answered>);

#[derive(Clone, Copy, Debug)]
struct Answered {
    sent: Time,
    at: Time,
}

impl Heard {
    /// The leader itself let the session begin, or go on, at a server that was greeted at `sent`.
    pub(super) fn from(sent: Time) -> Self {
        Heard(VecDeque::from([Answered { sent, at: Time::ZERO }]))
    }

    /// The server answered now what was sent at `sent`: it had it before. Of many at a time one is noted.
    pub(super) fn answered(&mut self, sent: Time, now: Time, pace: Pace) {
        if self.0.back().is_none_or(|last| now >= last.at.after(pace.hears_within() / 8)) {
            self.0.push_back(Answered { sent, at: now });
        }
    }

    /// When the last was sent of which the leader has heard before anything arrives there that is sent now.
    pub(super) fn by(&mut self, now: Time, pace: Pace) -> Time {
        let has_heard = |answered: &&Answered| answered.at.after(pace.hears_within()) <= now;
        while self.0.get(1).as_ref().is_some_and(has_heard) {
            self.0.pop_front();
        }
        self.0.front().map_or(Time::ZERO, |answered| answered.sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many milliseconds after the clock's start.
    fn at(millis: u64) -> Time {
        Time::ZERO.after(Duration::from_millis(millis))
    }

    #[test]
    fn a_late_heartbeat_proves_a_session_alive_for_no_longer_than_the_leader_keeps_one_without_a_word() {
        let pace = Pace { ttl: Duration::from_secs(3), tick: Duration::from_millis(200) };
        let (timeout, margin) = (pace.wanted(), margin(pace.ttl));
        let mut heard = Heard::from(at(1000));
        let lives = |heard: &mut Heard, now| {
            let proven = pace.proves(at(now), heard.by(at(now), pace), timeout);
            pace.lives_until(proven).after(margin)
        };
        assert_eq!(lives(&mut heard, 1500), at(4500), "what is asked in time lasts for the ttl");
        heard.answered(at(1500), at(1501), pace);
        assert_eq!(lives(&mut heard, 4800), at(5350), "the leader may not have heard of what is only sent now");
        heard.answered(at(4800), at(4801), pace);
        assert_eq!(lives(&mut heard, 4900), at(5350), "nor half a tick later");
        assert_eq!(lives(&mut heard, 4930), at(7930), "it has after that");
    }

    #[test]
    fn a_session_is_proven_alive_four_times_a_ttl_and_again_soon_where_that_proved_less() {
        for ttl in [1, 30].map(Duration::from_secs) {
            let (pace, now) = (Pace { ttl, tick: Duration::from_secs(2) }, at(100_000));
            assert_eq!(pace.next_heartbeat(now, now), now.after(ttl / 4), "also where a tick is longer");
            let next = pace.next_heartbeat(now.before(ttl), now);
            assert!(next > now && next <= now.after(pace.hears_within() * 2).min(now.after(ttl / 4)), "{next:?}");
        }
    }

    #[test]
    fn of_many_answers_at_a_time_few_are_noted() {
        let pace = Pace { ttl: Duration::from_secs(3), tick: Duration::from_millis(200) };
        let mut heard = Heard::from(at(1));
        for millis in 0..100_000 {
            heard.answered(at(millis), at(millis), pace);
            heard.by(at(millis), pace);
        }
        assert!(heard.0.len() <= 10, "{}", heard.0.len());
        assert!(heard.by(at(100_000), pace) > at(100_000 - 200), "{heard:?}");
    }

    #[test]
    fn the_longest_session_of_a_server_as_it_comes_is_long_enough_for_the_default_ttl() {
        let pace = Pace { ttl: Duration::from_secs(30), tick: Duration::from_secs(2) };
        assert!(pace.check(Duration::from_secs(40)).is_ok());
        let error = pace.check(Duration::from_secs(20)).unwrap_err().to_string();
        assert!(error.contains("ttl=15200ms") && error.contains("maxSessionTimeout to 38501"), "{error}");
        let less = Pace { ttl: Duration::from_millis(15_200), ..pace };
        assert!(less.check(Duration::from_secs(20)).is_ok());
    }
}
