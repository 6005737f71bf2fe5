//! Read/write locks and semaphores beside the layout `native`: one hash per record, changed by scripts alone.
//!
//! The semantics are those of [`crate::shared_cell`], told there and checked against these scripts on random commands.
//! A record lies under the key that a lock of its name would have, so that nothing is two things at once. Times are
//! microseconds of the server's clock.
//!
//! | field | holds |
//! |---|---|
//! | `v` | what it is, and the version of the layout: `rwlock1` or `semaphore1` |
//! | `m`, `u` | how many units there are, and how many are held |
//! | `z` | `1` once it was resized: it keeps its size, and the key goes 30 days after its last lease |
//! | `e` | no lease ends before this |
//! | `t` | the highest token granted |
//! | `g` | when the key itself goes: always later than any lease's end |
//! | `o<attempt>` | a hold: [`Claimant`](crate::lock_cell::Claimant) (56 characters), whether it is a claim (1), units (10), token, since and end of its lease (16 each), card |
//! | `w`, `h`, `n`, `a<attempt>`, `x<n>` | the queue, as in the layout `native` |
//! | `q<n>` | a waiter: claimant (56), whether in order (1), units (10), card |
//!
//! A hand-off is published as `taken <attempt> <token> <now> <key>`; see
//! [`parse_push`](super::native_scripts::parse_push).

use crate::protocol::Call;
use crate::shared_machine::SharedCalls;

/// A script that changes a record.
macro_rules! change {
    ($part:literal) => {
        &[part!("time"), part!("shared/record"), part!("line"), part!("shared/hall"), part!(concat!("shared/", $part))]
    };
}

/// The scripts.
pub static CALLS: SharedCalls = SharedCalls {
    acquire: Call {
        name: "shared.acquire",
        body: script!("time" "shared/record" "shared/acquire_free" "line" "shared/hall" "shared/acquire"),
        batch: false,
    },
    renew: Call { name: "shared.renew", body: script!("time" "shared/renew"), batch: true },
    change: Call { name: "shared.change", body: change!("change"), batch: false },
    release: Call {
        name: "shared.release",
        body: script!("shared/record" "shared/release_free" "time" "line" "shared/hall" "shared/release"),
        batch: false,
    },
    undo: Call { name: "shared.undo", body: change!("undo"), batch: false },
    break_hold: Call { name: "shared.break", body: change!("break"), batch: false },
    resize: Call { name: "shared.resize", body: change!("resize"), batch: false },
};
