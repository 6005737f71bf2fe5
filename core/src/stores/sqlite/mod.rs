#![doc = include_str!("docs.md")]

mod client;
mod config;
mod database;
mod examination;
mod file;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod host;
mod inbox;
mod layouts;
mod place;
#[cfg(test)]
mod tests;

pub(crate) use config::open;
