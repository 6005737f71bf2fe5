#![doc = include_str!("docs.md")]

mod client;
mod config;

use lockwright_machines::stores::memory::layouts;

pub(crate) use config::open;
