#![doc = include_str!("docs.md")]

#[cfg(feature = "redis")]
mod client;
#[cfg(feature = "redis")]
mod config;
#[cfg(feature = "redis")]
mod exchange;
#[cfg(all(any(test, fuzzing), feature = "redis"))]
pub(crate) mod fuzz;
#[cfg(feature = "redis")]
mod greeting;
#[cfg(feature = "redis")]
mod inbox;
pub mod layouts;
#[cfg(feature = "redis")]
mod parse;
#[cfg(feature = "redis")]
mod shortcut;
#[cfg(feature = "redis")]
mod socket;
#[cfg(feature = "redis")]
mod tasks;
#[cfg(feature = "redis")]
mod topics;
#[cfg(feature = "redis")]
mod wire;

#[cfg(feature = "redis")]
pub(crate) use config::open;
