#![doc = include_str!("docs.md")]

mod client;
mod config;
mod lease;
mod line;
mod watches;
mod words;

use lockwright_machines::stores::etcd::layouts;

pub(crate) use config::open;
