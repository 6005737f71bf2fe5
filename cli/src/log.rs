//! What the library tells of its work, on standard error, for whoever asks for it.

use lockwright::{Error, Result};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

/// Writes what `filter` lets through to standard error; without one nothing is written, and nothing is spent on it.
///
/// # Errors
/// `invalid_config` for a filter that is none.
pub(crate) fn start(filter: Option<&str>) -> Result<()> {
    let Some(filter) = filter.filter(|text| !text.trim().is_empty()) else { return Ok(()) };
    let refused = || {
        let message = format!(
            "{filter:?} is not a log filter; write a level (error, warn, info, debug, trace) or lockwright::lost=warn"
        );
        Error::invalid("log", message)
    };
    // A bare word would be taken for the name of a target that nobody has.
    let is_known =
        |part: &str| part.contains('=') || part.starts_with("lockwright") || part.parse::<LevelFilter>().is_ok();
    if !filter.split(',').map(str::trim).all(is_known) {
        return Err(refused());
    }
    let targets: Targets = filter.parse().map_err(|error| refused().caused_by(error))?;
    // A closed standard error is no reason to fail.
    let lines =
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false).log_internal_errors(false);
    tracing_subscriber::registry().with(lines.with_filter(targets)).init();
    Ok(())
}
