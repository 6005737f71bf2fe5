#![doc = include_str!("docs.md")]

mod client;
mod config;
mod failure;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod inbox;
mod line;
mod pinned;
mod statements;
mod wire;

pub(crate) use config::open;
