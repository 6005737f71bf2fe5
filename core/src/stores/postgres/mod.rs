#![doc = include_str!("docs.md")]

mod client;
mod config;
mod connection;
mod ears;
mod failure;
mod inbox;
mod pinned;
mod statements;

pub(crate) use config::open;
