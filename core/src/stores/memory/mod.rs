#![doc = include_str!("docs.md")]

#[cfg(feature = "memory")]
mod client;
#[cfg(feature = "memory")]
mod config;
pub mod layouts;

#[cfg(feature = "memory")]
pub(crate) use config::open;
