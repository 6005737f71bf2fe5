//! Our own layout: for each thing that a name can be, what its record does with each request (the reference semantics),
//! and the machine that asks for it in one wire form for every store that can run a procedure atomically. All of it is
//! pure.
//!
//! | a name is | what its record does | wire form and machine |
//! |---|---|---|
//! | a lock | [`lock_cell`] | [`native_machine`] |
//! | a read/write lock, a semaphore | [`shared_cell`] | [`shared_machine`] |
//! | a latch | [`latch_cell`] | [`latch_machine`] |
//! | a barrier | [`barrier_cell`] | [`barrier_machine`] |
//!
//! All of them are a [`cell::Cell`]; the stores that run them themselves have one [`engine`] and one layout
//! ([`cell_layout`]). Who waits for a lock, or for what is shared, stands in one kind of queue ([`in_order`]). What
//! latches and barriers have in common is in [`gate_layout`] (their layout) and [`remembered`] (attempts whose copies
//! may come). Where a store keeps no more than texts, a record is [`written`] as one ([`text`]), and so is what it
//! pushes ([`push`]). What lies there is told by one look, whichever it is ([`inspection`]).

pub(crate) mod arguments;
pub mod barrier_cell;
pub mod barrier_machine;
pub mod by_rank;
pub mod cell;
pub mod cell_layout;
pub mod engine;
pub mod gate_layout;
pub mod in_order;
pub(crate) mod inspection;
pub mod latch_cell;
pub mod latch_machine;
pub mod lock_cell;
pub mod native_machine;
pub mod push;
pub mod remembered;
pub mod shared_cell;
pub mod shared_machine;
pub mod text;
pub mod written;
