#![doc = include_str!("docs.md")]

mod client;
mod config;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod inbox;
mod shared_connection;
mod socket;
mod tasks;
mod topics;

use lockwright_machines::stores::redis::layouts;
use lockwright_resp::{exchange, greeting, input, parse, shortcut, wire};

pub(crate) use config::open;
