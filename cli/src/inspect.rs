use clap::Args;
use lockwright::Result;

use crate::args::Place;
use crate::exit;
use crate::output::{self, LockJson};

/// Shows who holds a lock, since when, and how many wait for it.
#[derive(Debug, Args)]
#[command(after_help = "Takes nothing and changes nothing. JSON spans are in milliseconds.\n\n\
    Example: lockwright inspect orders:42 --json | jq .holder.pid")]
pub(crate) struct Inspect {
    /// The lock's name: 1 to 1024 bytes of UTF-8
    name: String,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

impl Inspect {
    pub(crate) fn go(self, place: &Place) -> Result<u8> {
        let seen = place.open()?.inspect(&self.name)?;
        if self.json {
            output::json(&LockJson::from(&seen));
        } else {
            output::line(&output::card(&seen));
        }
        Ok(exit::OK)
    }
}
