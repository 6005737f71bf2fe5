#![doc = include_str!("docs.md")]

#[cfg(feature = "sqlite")]
mod client;
#[cfg(feature = "sqlite")]
mod config;
#[cfg(feature = "sqlite")]
mod database;
#[cfg(feature = "sqlite")]
mod file;
#[cfg(all(any(test, fuzzing), feature = "sqlite"))]
pub(crate) mod fuzz;
#[cfg(feature = "sqlite")]
mod host;
#[cfg(feature = "sqlite")]
mod inbox;
#[cfg(feature = "sqlite")]
mod layouts;
#[cfg(feature = "sqlite")]
mod place;
#[cfg(all(test, feature = "sqlite"))]
mod tests;

#[cfg(feature = "sqlite")]
pub(crate) use config::open;
