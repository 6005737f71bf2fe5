#![doc = include_str!("docs.md")]

mod client;
mod config;
mod connection;
mod copy;
mod latch;
mod lease;
mod seats;
mod transactions;
mod watches;

use lockwright_machines::stores::etcd::layouts;

pub(crate) use config::open;
