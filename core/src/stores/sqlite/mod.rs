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

use std::sync::Arc;

use crate::error::Result;
use crate::stores::Store;
use crate::uri::Uri;

/// The store of `sqlite:`. Opens nothing yet.
pub(crate) fn open(uri: &mut Uri) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(client::SqliteStore::new(config::Config::read(uri)?)))
}
