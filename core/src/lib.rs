//! Distributed locks that programs in every language share.

#![deny(unsafe_code)]

#[cfg(feature = "net")]
pub mod blocking;
pub mod cell;
#[cfg(feature = "net")]
mod client;
#[cfg(feature = "net")]
mod driver;
pub mod error;
pub mod guarantee;
pub mod lease;
pub mod name;
pub mod native;
pub mod options;
pub mod protocol;
pub mod queue;
pub mod session;
pub mod stores;
pub mod time;
pub mod token;
pub mod uri;

#[cfg(feature = "net")]
pub use client::{Async, Client, Face, Guard, Lock, LockBuilder, connect};
pub use error::{Error, Kind, Result};
pub use token::Token;
