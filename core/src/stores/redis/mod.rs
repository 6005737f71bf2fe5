#![doc = include_str!("docs.md")]

mod client;
mod config;
mod exchange;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod greeting;
mod inbox;
mod input;
mod parse;
mod sentinels;
mod shared_connection;
mod shortcut;
mod socket;
mod tasks;
mod topics;
mod wire;

use lockwright_machines::stores::redis::layouts;

pub(crate) use config::open;
