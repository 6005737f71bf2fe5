#![doc = include_str!("docs.md")]

mod channels;
mod client;
mod config;
mod connection;
mod failure;
mod inbox;
mod pinned;
mod statements;

pub(crate) use config::open;
