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
//! * Inside, the crate `lockwright_machines` decides: a protocol for each lock layout, the session that alone reasons
//!   about time, the queue of one process, the machine that joins them, all of it pure and explored exhaustively. This
//!   crate is all that touches a socket, a thread or a clock: the driver with its [`stores`]. What of the machines
//!   concerns users is here under paths of its own, such as [`options`] and [`lease`].

#![deny(unsafe_code)]

/// The README's Rust program compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

#[cfg(feature = "bindings")]
pub mod binding;
pub mod blocking;
mod client;
mod driver;
pub mod events;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod machines;
pub mod metrics;
mod platform;
mod primitives;
pub mod require;
#[cfg(all(
    test,
    feature = "memory",
    feature = "unstable-store",
    feature = "etcd",
    feature = "memcached",
    feature = "redis",
    feature = "zookeeper"
))]
mod simulate;
pub mod stores;

pub use barrier::{Arrival, Barrier, BarrierBuilder};
pub use client::{Async, Client, Face, Guard, Health, Lock, LockBuilder, PING, connect};
pub use driver::engine::restored;
pub use error::{Error, Kind, Result};
pub use latch::{Latch, LatchBuilder};
pub use machines::{error, finding, gate, guarantee, kit, lease, name, options, queue, share, token, uri};
pub use platform::companion::outlived_by;
#[cfg(unix)]
pub use platform::event_loop;
pub use platform::fork::generation as fork_generation;
pub use primitives::{barrier, election, export, latch, multi, once, rwlock, semaphore, striped};
pub(crate) use primitives::{release, together};
pub use rwlock::RwLock;
pub use token::Token;

// The inside, in the words in which the driver talks with its machines and a store talks with the driver.
#[cfg(feature = "unstable-store")]
#[doc(inline)]
pub use lockwright_machines::{protocol, session, time};
#[cfg(not(feature = "unstable-store"))]
use lockwright_machines::{protocol, session, time};
