//! A lock that lies on several nodes and is held by whoever has it on a majority of them: Redlock, with what its
//! critics asked for.
//!
//! ```text
//!   acquire   every node at once: the layout's own try, and behind it a look at the node's marker
//!               a majority granted, and counts         the lock is ours, from the sending
//!               else                                   what was granted is given back, everywhere and before anything else is said
//!   renew     every node at once                       held while a majority has it
//!   release   every node that has or may have it       and again where a node was silent
//!   undo      the same
//! ```
//!
//! **Age.** A node that was restarted, emptied or promoted has forgotten what it granted, and would grant it again. So
//! each node has a [`marker`](Marker), by which it says since when it is the one that it is; it counts once that is
//! longer ago than any lease that it may have forgotten (`max_ttl`). The look comes *behind* the grant, so that no loss
//! can lie between the two: whatever is older than that then was there when the lock was granted.
//!
//! **Time.** The lease counts from when the first node was asked, less the drift, as everywhere; no client's clock is
//! compared with another's, or with a node's.
//!
//! A lock has no queue here: nodes would put different ones first. Whoever waits asks again after a pause that differs
//! from attempt to attempt, until its time limit.
//!
//! Sources: S. Sanfilippo, "Distributed Locks with Redis" (the algorithm, and the delayed restart); M. Kleppmann, "How
//! to do distributed locking", 2016 (tokens, clocks); see `docs/redlock.md`.

mod ballot;
mod inquiries;
mod layout;
mod machine;
mod marker;
mod nodes;

pub use inquiries::everywhere;
pub use layout::{Leases, Member, QuorumLayout};
pub use machine::QuorumMachine;
pub use marker::{Age, Marker};
pub use nodes::MOST;

/// How many of so many nodes decide.
pub const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}
