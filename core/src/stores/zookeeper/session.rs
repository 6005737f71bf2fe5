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

    /// Until when the session certainly lives, if a majority answered what was sent at `sent`.
    pub(super) fn lives_until(self, sent: Time) -> Time {
        sent.after(self.ttl).before(margin(self.ttl))
    }

    /// Whether whoever knows that it lives until `told` need not be told of `until`.
    pub(super) fn is_told(self, told: Time, until: Time) -> bool {
        until < told.after(self.ttl / 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
