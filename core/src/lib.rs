//! Distributed locks that programs in every language share.
//!
//! ```no_run
//! # async fn example() -> lockwright::Result<()> {
//! let client = lockwright::connect("redis://127.0.0.1").await?;
//! let guard = client.lock("orders:42").acquire().await?;
//! println!("fencing token {}", guard.token());
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # A tour
//! * [`connect`] gives a [`Client`] of one place; [`Client::lock`] a [`LockBuilder`], that a [`Lock`], that a [`Guard`]
//!   of what is held. [`blocking`] has the same for threads. [`export`] hands a held lock to another process, [`multi`]
//!   takes several, [`striped`] one of several. [`latch`] has some wait until others are done, [`barrier`] until others
//!   wait too. [`once`] lets one caller do what many want done, [`election`] has one of many lead, and [`kit`] has what
//!   the protected resource asks of a token. [`Error`] has a stable code; [`guarantee`] says what each store promises.
//! * Inside, five rooms: a [`protocol`] per lock layout, the [`session`] that alone reasons about time, the [`queue`]
//!   of one process, the [`machine`] that joins the two, and the driver with its [`stores`]. All but the last are pure:
//!   no clock, no socket, no task. They build for WebAssembly (`--no-default-features`), and they are what the explorer
//!   explores.
//! * [`lock_cell`] is the reference semantics of our own layout, [`native_machine`] its wire form and machine.
//!   [`shared_cell`] and [`shared_machine`] are the same for what has several holders: [`Client::rwlock`] and
//!   [`Client::semaphore`]; [`latch_cell`] and [`latch_machine`] for [`Client::latch`], [`barrier_cell`] and
//!   [`barrier_machine`] for [`Client::barrier`].

#![deny(unsafe_code)]

/// The README's Rust program compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

#[cfg(feature = "bindings")]
pub mod binding;
#[cfg(feature = "net")]
pub mod blocking;
#[cfg(feature = "net")]
mod client;
#[cfg(feature = "net")]
mod driver;
pub mod error;
#[cfg(feature = "net")]
pub mod events;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub mod gate;
pub mod guarantee;
pub mod kit;
pub mod lease;
mod lent;
pub mod machine;
#[cfg(feature = "net")]
pub mod metrics;
pub mod name;
pub mod options;
#[cfg(feature = "net")]
mod platform;
#[cfg(feature = "net")]
mod primitives;
pub mod protocol;
pub mod queue;
mod records;
pub mod relative;
mod replies;
#[cfg(feature = "net")]
pub mod require;
pub mod session;
pub mod share;
mod span;
pub mod store_clock;
pub mod stores;
pub mod time;
pub mod token;
pub mod uri;

#[cfg(feature = "net")]
pub use barrier::{Arrival, Barrier, BarrierBuilder};
#[cfg(feature = "net")]
pub use client::{Async, Client, Face, Guard, Health, Lock, LockBuilder, PING, connect};
#[cfg(feature = "net")]
pub use driver::engine::restored;
pub use error::{Error, Kind, Result};
#[cfg(feature = "net")]
pub use latch::{Latch, LatchBuilder};
#[cfg(feature = "net")]
pub use platform::companion::outlived_by;
#[cfg(all(feature = "net", unix))]
pub use platform::event_loop;
#[cfg(feature = "net")]
pub use platform::fork::generation as fork_generation;
#[cfg(feature = "net")]
pub use primitives::{barrier, election, export, latch, multi, once, rwlock, semaphore, striped};
#[cfg(feature = "net")]
pub(crate) use primitives::{release, together};
pub(crate) use records::{arguments, inspection};
pub use records::{
    barrier_cell, barrier_machine, gate_layout, in_order, latch_cell, latch_machine, lock_cell, native_machine,
    remembered, shared_cell, shared_machine,
};
#[cfg(feature = "net")]
pub use rwlock::RwLock;
pub use token::Token;
