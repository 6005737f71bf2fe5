//! What machines tell those who explore them: times and names as they matter, not as they are.

use crate::protocol::AttemptId;
use crate::time::{StoreTime, Time};

/// How those who explore what could happen next name times, attempts and tokens, so that states that will behave alike
/// look alike.
///
/// Machines feed what they know through it, and say of each time what it matters for.
pub trait Relative {
    /// A time that matters only as long as it is ahead: a deadline, a timer.
    fn ahead(&self, at: Time) -> u64;
    /// A time that matters by how long ago it was.
    fn ago(&self, at: Time) -> u64;
    /// A request sent at `sent` was executed when the store's clock stood at `at`: how long it was under way.
    fn lag(&self, sent: Time, at: StoreTime) -> u64;
    /// An attempt, of which only matters whose it is and whether two are the same.
    fn attempt(&self, attempt: AttemptId) -> u64;
    /// A fencing token, of which only order and distance matter.
    fn token(&self, token: u64) -> u64;
}
