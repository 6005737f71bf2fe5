//! The inside of [Lockwright](https://docs.rs/lockwright): what is said to a Redis server, and what it answers.
//!
//! **To use locks, depend on `lockwright`.** Nothing here is promised to stay as it is. Like the
//! [machines](lockwright_machines) it is pure: it is handed bytes and time, and has no socket. Whoever drives the
//! machines over Redis, natively or in WebAssembly, speaks by it.
//!
//! | module | what it is about |
//! |---|---|
//! | [`place`] | an address: where the server listens, and which database is meant |
//! | [`greeting`] | the first words on a connection |
//! | [`wire`] | requests as commands, values as replies, where a reply ends |
//! | [`input`] | what a connection reads |
//! | [`parse`] | a whole reply as a value |
//! | [`exchange`] | which commands the requests of a write travel in, and again |
//! | [`outgoing`] | what many callers ask on one connection, with one command for several of them |
//! | [`shortcut`] | a server's own command for what a script of ours does |
//! | [`slots`] | in which slot of a cluster a key is, and which node has it |

#![forbid(unsafe_code)]

pub mod exchange;
pub mod greeting;
pub mod input;
pub mod outgoing;
pub mod parse;
pub mod place;
pub mod shortcut;
pub mod slots;
pub mod wire;

pub use redis::Value;
