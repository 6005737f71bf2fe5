//! The ways to keep a lock in a file, one module each.

mod barrier_rows;
mod gate_rows;
mod latch_rows;
pub(crate) mod marker_row;
mod native_rows;
pub(crate) mod record_rows;
mod shared_rows;
