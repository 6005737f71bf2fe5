//! The ways to keep a lock in a file, one module each.

mod latch;
pub(crate) mod native;
mod shared;
