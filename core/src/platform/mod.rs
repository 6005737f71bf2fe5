//! What the operating system and the runtime give: time, randomness, threads, descriptors, forks. Feature `net`.
//!
//! Nothing here knows of a lock or a store: the stores and the driver stand on it.

pub(crate) mod clock;
pub(crate) mod companion;
pub mod event_loop;
pub(crate) mod fence;
pub(crate) mod fork;
pub(crate) mod mutex;
pub(crate) mod poller;
pub(crate) mod random;
pub(crate) mod runtime;
pub(crate) mod timer;
