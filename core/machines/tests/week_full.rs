//! The week of the shortest lease: a minute or two. See `week`.

#![allow(unreachable_pub, dead_code, reason = "the module is shared, and each test uses its part")]

#[path = "week/mod.rs"]
mod week;

use std::time::Duration;

use week::{DAY, Week};

#[test]
fn a_lease_of_twenty_milliseconds_is_held_for_a_week() {
    Week::new(Duration::from_millis(20), 9_000).lasts(7 * DAY);
}
