//! What one look at a record of the `native` layout tells, whichever kind of record it is.
//!
//! ```text
//!   inspect  ->  nil                                                               nothing lies there
//!            |   ["lock", claimant or "", held-us, remaining-us, first token, last token, card, waiters,
//!            |    [[waited-us, rank, card]...]]
//!            |   ["rwlock" or "semaphore", units there are, waiters, [[units, card]...], [claimant, held-us, remaining-us, token, units, card]...]
//!            |   ["latch", count, waiters]
//!            |   ["barrier", parties, waiters]
//! ```
//!
//! The stores whose records are [`cell`](crate::lock_cell)s answer so, and Redis by scripts.

use crate::error::Result;
use crate::lease::{BARRIER, Inspection, LATCH, LOCK};
use crate::protocol::Reply;
use crate::replies::{nonsense, refusal};
use crate::{barrier_machine, latch_machine, native_machine, shared_machine};

/// The layout whose records these are.
const LAYOUT: &str = "native";

/// Reads the answer to a look at the record `name`.
pub(crate) fn read(name: &str, reply: &Reply) -> Result<Inspection> {
    let nothing = Inspection::of_nothing(LAYOUT, name);
    let seen = match reply {
        Reply::Nil => Some(nothing),
        Reply::Error { code, message } => return Err(refusal("inspect", code, message)),
        Reply::List(list) => match list.as_slice() {
            [Reply::Text(kind), rest @ ..] if kind == LOCK => native_machine::read_inspection(rest, nothing.of_lock()),
            [Reply::Text(kind), rest @ ..] if kind == LATCH => latch_machine::read_inspection(rest, nothing),
            [Reply::Text(kind), rest @ ..] if kind == BARRIER => barrier_machine::read_inspection(rest, nothing),
            several => shared_machine::read_inspection(several, nothing),
        },
        _ => None,
    };
    seen.ok_or_else(|| nonsense("inspect", std::slice::from_ref(reply)))
}

/// The same for whoever means one of these `primitives`.
pub(crate) fn read_only(primitives: &[&str], name: &str, reply: &Reply) -> Result<Inspection> {
    let seen = read(name, reply)?;
    match seen.primitive.filter(|primitive| !primitives.contains(primitive)) {
        Some(other) => Err(refusal("inspect", "FOREIGN", &format!("this name is a {other}'s"))),
        None => Ok(seen),
    }
}
