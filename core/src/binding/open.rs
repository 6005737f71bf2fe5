//! What a language has in its own words, and every language looks at alike, before something is made of it.

use std::fmt::Display;
use std::time::Duration;

use crate::client::{Client, Face};
use crate::error::{Error, Result};
use crate::primitives::barrier::Barrier;
use crate::primitives::latch::Latch;
use crate::share::Share;
use crate::striped::{self, Striped};

/// The latch of that name, remembered for as long as the core says where nothing is given.
///
/// # Errors
/// As [`LatchBuilder::build`](crate::primitives::latch::LatchBuilder::build).
pub fn latch<F: Face>(client: &Client<F>, name: &str, count: u32, idle: Option<Duration>) -> Result<Latch<F>> {
    let latch = client.latch(name, count);
    if let Some(idle) = idle { latch.idle(idle).build() } else { latch.build() }
}

/// The barrier of that name, at which a place stands for as long as the core says where nothing is given.
///
/// # Errors
/// As [`BarrierBuilder::build`](crate::primitives::barrier::BarrierBuilder::build).
pub fn barrier<F: Face>(client: &Client<F>, name: &str, parties: u32, ttl: Option<Duration>) -> Result<Barrier<F>> {
    let barrier = client.barrier(name, parties);
    if let Some(ttl) = ttl { barrier.ttl(ttl).build() } else { barrier.build() }
}

/// The index of a segment that there is.
///
/// # Errors
/// `invalid_config` for any other.
pub fn segment<F: Face>(of: &Striped<F>, index: impl TryInto<usize> + Copy + Display) -> Result<usize> {
    let known = index.try_into().ok().filter(|index| *index < of.count());
    known.ok_or_else(|| Error::invalid("lock", format!("there is no segment {index}; there are {}", of.count())))
}

/// That a semaphore may have so many `permits` (1 to 1,000,000), of which `take` are taken together (1 to `permits`).
///
/// # Errors
/// `invalid_config`.
pub fn check_permits(permits: u32, take: u32) -> Result<()> {
    Share::permits(take, permits, false).map(drop)
}

/// That a lock may be cut into so many segments, 1 to 256.
///
/// # Errors
/// `invalid_config`.
pub fn check_segments(segments: u32) -> Result<()> {
    striped::check_segments(usize::try_from(segments).unwrap_or(usize::MAX))
}

#[cfg(all(test, feature = "memory"))]
mod tests {
    use super::super::client_of_test;
    use super::*;

    #[test]
    fn a_segment_that_there_is_not_is_an_error_and_no_panic() {
        let client: Client = client_of_test();
        let segments = client.striped("x", 2).unwrap();
        assert_eq!(segment(&segments, 1).unwrap(), 1);
        assert_eq!(segment(&segments, -1).unwrap_err().context(), "there is no segment -1; there are 2");
        assert_eq!(segment(&segments, 2).unwrap_err().context(), "there is no segment 2; there are 2");
    }

    #[test]
    fn what_is_given_is_looked_at() {
        let client: Client = client_of_test();
        assert!(check_permits(3, 3).is_ok() && check_permits(0, 1).is_err() && check_permits(3, 4).is_err());
        assert!(check_segments(256).is_ok() && check_segments(0).is_err() && check_segments(257).is_err());
        assert!(latch(&client, "x", 1, None).is_ok() && latch(&client, "x", 1, Some(Duration::ZERO)).is_err());
        assert!(barrier(&client, "y", 1, None).is_ok() && barrier(&client, "y", 1, Some(Duration::ZERO)).is_err());
    }
}
