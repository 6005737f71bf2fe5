//! The ways to keep a lock in a file, one module each.

pub(crate) mod native;
mod shared;
