#![doc = include_str!("docs.md")]

mod broker;
mod client;
mod config;
mod driver;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod greeting;
mod members;
mod sasl;
mod session;
mod wire;

use lockwright_machines::stores::zookeeper::layouts;

pub(crate) use config::open;
