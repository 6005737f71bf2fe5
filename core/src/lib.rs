//! Distributed locks that programs in every language share.

#![deny(unsafe_code)]

pub mod cell;
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

pub use error::{Error, Kind, Result};
pub use token::Token;
