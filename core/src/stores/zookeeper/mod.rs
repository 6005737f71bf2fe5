#![doc = include_str!("docs.md")]

mod client;
mod config;
mod desk;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod greeting;
mod keeper;
mod session;
mod wire;

use lockwright_machines::stores::zookeeper::layouts;

pub(crate) use config::open;
