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
//! * [`connect`] gives a [`Client`] of one place; [`Client::lock`] a [`LockBuilder`], that a [`Lock`], that a [`Guard`] of what is
//!   held. [`blocking`] has the same for threads. [`export`] hands a held lock to another process, [`multi`] takes several,
//!   [`striped`] one of several. [`latch`] has some wait until others are done. [`once`] lets one caller do what many want done, [`election`] has one of many lead, and [`kit`]
//!   has what the protected resource asks of a token. [`Error`] has a stable code; [`guarantee`] says what each store promises.
//! * Inside, four rooms: a [`protocol`] per lock layout, the [`session`] that alone reasons about time, the [`queue`] of one
//!   process, and the driver with its [`stores`]. The first three are pure: no clock, no socket, no task. They build
//!   for WebAssembly (`--no-default-features`), and they are what the explorer explores.
//! * [`cell`] is the reference semantics of our own layout, [`native`] its wire form and machine. [`shared_cell`] and [`shared`]
//!   are the same for what has several holders: [`Client::rwlock`] and [`Client::semaphore`]; [`latch_cell`] and [`latch_layout`] for
//!   [`Client::latch`].

#![deny(unsafe_code)]

#[cfg(feature = "net")]
pub mod blocking;
pub mod cell;
#[cfg(feature = "net")]
mod client;
#[cfg(feature = "net")]
mod driver;
#[cfg(feature = "net")]
pub mod election;
pub mod error;
#[cfg(feature = "net")]
pub mod event_loop;
#[cfg(feature = "net")]
pub mod events;
#[cfg(feature = "net")]
pub mod export;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub mod guarantee;
mod inspection;
pub mod kit;
#[cfg(feature = "net")]
pub mod latch;
pub mod latch_cell;
pub mod latch_layout;
pub mod lease;
mod lent;
#[cfg(feature = "net")]
pub mod metrics;
#[cfg(feature = "net")]
pub mod multi;
pub mod name;
pub mod native;
#[cfg(feature = "net")]
pub mod once;
pub mod options;
pub mod protocol;
pub mod queue;
mod replies;
#[cfg(feature = "net")]
pub mod require;
#[cfg(feature = "net")]
pub mod rwlock;
#[cfg(feature = "net")]
pub mod semaphore;
pub mod session;
pub mod shared;
pub mod shared_cell;
pub mod store_clock;
pub mod stores;
#[cfg(feature = "net")]
pub mod striped;
pub mod time;
#[cfg(feature = "net")]
mod together;
pub mod token;
pub mod uri;

#[cfg(feature = "net")]
pub use client::{Async, Client, Face, Guard, Lock, LockBuilder, connect};
pub use error::{Error, Kind, Result};
#[cfg(feature = "net")]
pub use latch::{Latch, LatchBuilder};
#[cfg(feature = "net")]
pub use rwlock::RwLock;
pub use token::Token;
