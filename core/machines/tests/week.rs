//! A week of renewals, in simulated time: nothing drifts.
//!
//! The shipped Session and `native` protocol hold a lock of the reference record over a clock that runs up to 0.9 %
//! fast or slow beside the store's, timers that come late, answers that take their time or are lost. `week_full` does
//! the same for a lease of 20 ms, whose week has 90 million renewals.

#![allow(unreachable_pub, dead_code, reason = "the module is shared, and each test uses its part")]

#[path = "week/mod.rs"]
mod week;

use std::time::Duration;

use week::{DAY, Week};

#[test]
fn a_lease_of_thirty_seconds_is_held_for_a_week_whatever_the_clocks_do() {
    for drift in [-9_000, -50, 0, 50, 9_000] {
        Week::new(Duration::from_secs(30), drift).lasts(7 * DAY);
    }
}

#[test]
fn a_lease_of_a_second_is_held_for_a_week() {
    Week::new(Duration::from_secs(1), 9_000).lasts(7 * DAY);
}

#[test]
fn a_lease_of_a_day_is_held_for_a_week() {
    for drift in [-9_000, 9_000] {
        Week::new(Duration::from_secs(86_400), drift).lasts(7 * DAY);
    }
}

#[test]
fn a_lease_of_twenty_milliseconds_is_held_for_hours() {
    for drift in [-9_000, 9_000] {
        Week::new(Duration::from_millis(20), drift).lasts(DAY / 24);
    }
}

#[test]
fn lost_answers_do_not_end_a_lease() {
    Week::new(Duration::from_secs(30), -9_000).losing_one_in(100).lasts(7 * DAY);
    Week::new(Duration::from_secs(2), 9_000).losing_one_in(100).lasts(7 * DAY);
}
