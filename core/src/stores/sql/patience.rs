//! How long a database is waited for, and until when it may do what it was asked for all the same.

use std::time::Duration;

use super::table::Failure;
use crate::error::{Error, Kind};
use crate::time::Time;

/// A clock that runs wrong by this at most.
pub(super) const DRIFT_DIVISOR: u32 = 100;
/// What is not in the drift.
const SLACK: Duration = Duration::from_millis(2);

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// How long an answer is waited for.
    pub(crate) response_timeout: Duration,
    /// How long a statement may last at the server that began there.
    pub(crate) longest: Duration,
}

impl Patience {
    /// How long an answer to what is asked at `now` is waited for, where it is given up at `limit`.
    ///
    /// # Errors
    /// That the database was silent, once there is no time left.
    pub(super) fn until(&self, limit: Time, now: Time) -> Result<Duration, Failure> {
        Some(self.response_timeout.min(limit.since(now)))
            .filter(|left| !left.is_zero())
            .ok_or_else(|| Failure::NotDone(silent()))
    }

    /// Until when what was asked for at `given_up` may still be done. A statement that begins in time may wait for a
    /// row.
    pub(crate) fn void_after(&self, given_up: Time) -> Time {
        let lasts = self.response_timeout + self.longest;
        given_up.after(lasts + lasts / DRIFT_DIVISOR + SLACK)
    }
}

/// No answer came in time.
pub(crate) fn silent() -> Error {
    let message = "the database did not answer in time; see whether it runs and is reachable";
    Error::new(Kind::Unavailable, "connect", message)
}
