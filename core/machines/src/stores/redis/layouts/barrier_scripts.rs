//! Barriers beside the layout `native`: one hash each, changed by scripts alone.
//!
//! The semantics are those of [`crate::barrier_cell`], told there and checked against these scripts on random commands.
//! A barrier lies under the key that a lock of its name would have, so that nothing is two things at once. Times are
//! microseconds of the server's clock.
//!
//! | field | holds |
//! |---|---|
//! | `v` | what it is, and the version of the layout: `barrier1` |
//! | `c` | how many parties there are, as those who stand there say |
//! | `g` | when the key itself goes |
//! | `e` | the last generation that passed |
//! | `w<attempt>` | a place: its party's inbox, when it ends, its number in the order of arrival, for how long its party is remembered |
//! | `b`, `s`, `o` | how many of these there are, a time before which none of them ends, and the number of the next one |
//!
//! What became of parties is remembered in another hash, under the same key with [`PAST`] behind it: a barrier that
//! opens a thousand times a second remembers some hundred thousand, and reads none of them to open.
//!
//! | field | holds |
//! |---|---|
//! | `d<attempt>` | what became of a party: until when that is remembered; if it passed, its index and generation |
//! | `h`, `n`, `q<n>`, `g` | as in a [latch](super::latch_scripts) |
//!
//! That a party passed is published as `taken <attempt> <generation><index in four digits> <now> <key>`; see
//! [`parse_push`](super::native_scripts::parse_push).

use super::latch_scripts::PAST;
use crate::barrier_machine::BarrierCalls;
use crate::protocol::Call;

/// The scripts.
pub static CALLS: BarrierCalls = BarrierCalls {
    arrive: Call {
        name: "barrier.arrive",
        body: script!(
            "barrier/kind" "time" "latch/record" "latch/keep" "latch/remember" "barrier/places" "barrier/arrive"
        ),
        batch: false,
    },
    leave: Call {
        name: "barrier.leave",
        body: script!(
            "barrier/kind" "time" "latch/record" "latch/keep" "latch/remember" "barrier/places" "barrier/leave"
        ),
        batch: false,
    },
    look: Call {
        name: "barrier.look",
        body: script!("barrier/kind" "time" "latch/record" "barrier/places" "barrier/look"),
        batch: false,
    },
    past: Some(PAST),
};
