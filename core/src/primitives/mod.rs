//! What is made of locks: one file each, with an `impl Client` of its own, the same for every face. Here nothing speaks to a store and nothing
//! tells the time: what has a record of its own has it in [`records`](crate::records), and everything else takes locks.

pub mod barrier;
pub mod election;
pub mod export;
pub mod latch;
pub mod multi;
pub mod once;
mod pass;
pub(crate) mod release;
pub mod rwlock;
pub mod semaphore;
pub mod striped;
pub(crate) mod together;
