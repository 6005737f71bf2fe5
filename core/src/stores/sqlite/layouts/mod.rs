//! The ways to keep a lock in a file, one module each.

mod barrier;
mod gates;
mod latch;
pub(crate) mod native;
mod shared;
