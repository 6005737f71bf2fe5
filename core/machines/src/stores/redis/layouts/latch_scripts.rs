//! Latches beside the layout `native`: one hash each, changed by scripts alone.
//!
//! The semantics are those of [`crate::latch_cell`], told there and checked against these scripts on random commands. A
//! latch lies under the key that a lock of its name would have, so that nothing is two things at once. Times are
//! microseconds of the server's clock.
//!
//! | field | holds |
//! |---|---|
//! | `v` | what it is, and the version of the layout: `latch1` |
//! | `c` | how many are still to come |
//! | `g` | when the key itself goes |
//! | `w<attempt>` | the inbox of somebody who waits |
//!
//! Who changed the count is remembered in another hash, under the same key with [`PAST`] behind it, so that nobody who
//! looks for those who wait has to read it:
//!
//! | field | holds |
//! |---|---|
//! | `d<attempt>` | somebody changed the count: until when a copy of that may come |
//! | `h`, `n`, `q<n>` | the attempts of those in the order in which they came: the first that is left, the next to come, and each |
//! | `g` | when the key itself goes: later than any of these is needed |
//!
//! That it is open is published as `taken <attempt> 1 <now> <key>`; see
//! [`parse_push`](super::native_scripts::parse_push).

use crate::latch_machine::LatchCalls;
use crate::protocol::Call;

/// What stands behind the key of a latch or a barrier in that of what is remembered of attempts there. The braces of a
/// name are written otherwise, so that no name has such a key, and what stands within these keeps both in one slot of a
/// cluster.
pub const PAST: &str = ":past";

/// The scripts.
pub static CALLS: LatchCalls = LatchCalls {
    wait: Call {
        name: "latch.wait",
        body: script!("latch/kind" "time" "latch/record" "latch/keep" "latch/wait"),
        batch: false,
    },
    leave: Call { name: "latch.leave", body: script!("latch/kind" "latch/record" "latch/leave"), batch: false },
    change: Call {
        name: "latch.change",
        body: script!("latch/kind" "time" "latch/record" "latch/keep" "latch/remember" "latch/change"),
        batch: false,
    },
    look: Call { name: "latch.look", body: script!("latch/kind" "latch/record" "latch/look"), batch: false },
    past: Some(PAST),
};
