//! The one clock of the driver, by which every lease is judged, and the host's wall clock, by which none is: SQLite
//! alone looks at it, for a floor under the tokens of a new record, and for when a latch or a barrier that outlived a
//! boot is forgotten.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::time::Time;

/// Now.
pub(crate) fn now() -> Time {
    #[cfg(test)]
    if let Some(now) = super::simulated::now() {
        return now;
    }
    super::os::now()
}

/// What the wall clock shows, in microseconds since 1970: it may be wrong, and may be set at any moment.
pub(crate) fn wall() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
