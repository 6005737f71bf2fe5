#![doc = include_str!("docs.md")]

mod broker;
mod client;
mod config;
mod driver;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;

use lockwright_machines::stores::memcached::{clock, layouts, wire};

pub(crate) use config::open;
