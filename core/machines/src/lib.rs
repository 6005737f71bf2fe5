//! The inside of [Lockwright](https://docs.rs/lockwright): its lock protocols, as machines that are told what happened
//! and say what is to be done.
//!
//! **To use locks, depend on `lockwright`.** This crate is for those who carry its machines somewhere else, such as
//! into a WebAssembly host that has a client of its own for the store, and for those who check them. Nothing here is
//! promised to stay as it is: any version may change any of it.
//!
//! Nothing here reads a clock, draws a random number, opens a socket, starts a thread or takes a mutex; whoever drives
//! a machine hands all that in. So everything that can happen to it can be played, and is: the explorer visits every
//! interleaving in bounded worlds, and the simulation random ones, with these machines as they ship.
//!
//! # A tour
//! * A [`protocol`] for each lock layout: what to say to a store, and what its answers mean. The layouts lie with
//!   [their stores](stores).
//! * A [`session`] for each contender: it alone reasons about time.
//! * A [`queue`] for the tasks of one process that want one lock.
//! * A [`machine`] for a lock of a client, which joins the two: events go in, effects come out.
//! * [`lock_cell`] is the reference semantics of our own layout, [`native_machine`] its wire form and machine.
//!   [`shared_cell`] and [`shared_machine`] are the same for what has several holders (read/write locks, semaphores),
//!   [`latch_cell`] and [`latch_machine`] for latches, [`barrier_cell`] and [`barrier_machine`] for barriers.
//! * [`tables`] are the machine and the wire form of locks in tables of other libraries.
//! * A [`quorum`] makes of the machine of a layout that of a lock on several nodes.
//! * The words that they share with whoever uses Lockwright: its [`error`]s, [`options`], [`guarantee`]s, addresses
//!   ([`uri`]), and what is told of a [`lease`]. `lockwright` has them under the same paths.

#![forbid(unsafe_code)]

pub mod address;
pub mod base64;
pub mod error;
pub mod finding;
pub mod gate;
pub mod guarantee;
mod hex;
pub mod kit;
pub mod layout_choice;
pub mod lease;
mod lent;
pub mod machine;
pub mod md5;
pub mod name;
pub mod options;
mod pages;
pub mod ping;
pub mod protocol;
pub mod queue;
pub mod quorum;
pub mod rank;
pub mod reach;
mod records;
pub mod relative;
mod replies;
pub mod secret;
pub mod session;
pub mod share;
mod span;
pub mod store_clock;
pub mod stores;
pub mod tables;
pub mod time;
pub mod token;
pub mod uri;
mod uuid;

pub use error::{Error, Kind, Result};
pub(crate) use records::{arguments, inspection};
pub use records::{
    barrier_cell, barrier_machine, by_rank, cell, cell_layout, engine, gate_layout, in_order, latch_cell,
    latch_machine, lock_cell, native_machine, push, remembered, shared_cell, shared_machine, text, written,
};
pub use replies::{OTHER_LEASES, YOUNG, young};
pub use token::Token;
