//! What is made of locks: one file each, with an `impl Client` of its own, the same for every face.
//!
//! Nothing here knows of sessions and leases: what has a record of its own has it in a
//! [cell](lockwright_machines::cell), and everything else takes locks. The clock is read where a time limit of the
//! caller's becomes a deadline, and a store is asked directly for nothing but what no session is concerned with: a
//! latch's count, how many stand at a barrier, another size of a semaphore.

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
