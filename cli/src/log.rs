//! What the library tells of its work, on standard error, for whoever asks for it.

use lockwright::{Error, Result};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

/// Writes what `filter` lets through to standard error; without one nothing is written, and nothing is spent on it.
///
/// # Errors
/// `invalid_config` for a filter that is none.
pub(crate) fn start(filter: Option<&str>) -> Result<()> {
    let Some(filter) = filter.filter(|text| !text.trim().is_empty()) else { return Ok(()) };
    let targets: Targets = filter.parse().map_err(|error| {
        let message = format!("{filter:?} is no filter for logs; write one such as debug or lockwright::lost=warn");
        Error::invalid("log", message).caused_by(error)
    })?;
    // A closed standard error is no reason to fail.
    let lines =
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false).log_internal_errors(false);
    tracing_subscriber::registry().with(lines.with_filter(targets)).init();
    Ok(())
}
