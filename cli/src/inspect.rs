use clap::Args;
use lockwright::Result;

use crate::args::StoreArgs;
use crate::exit;
use crate::output::{self, LockJson};

/// Shows who holds a lock, since when, and how many wait for it; of a latch, how many are still to come.
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
    pub(crate) fn go(self, store: &StoreArgs) -> Result<u8> {
        let client = store.open()?;
        let seen = client.inspect(&self.name)?;
        // A joined lock lies under the bare name itself. Whoever may only lock may not look there, and has asked for
        // the lock.
        let is_native = client.guarantees()?.layout == "native";
        let others = if is_native { client.others(Some(&self.name)).unwrap_or_default() } else { Vec::new() };
        if self.json {
            output::json(&LockJson::from(&seen).beside(&others));
        } else {
            output::line(&output::card(&seen));
            for other in &others {
                let looks_like = &other.looks_like;
                output::line(&format!(
                    "  beside it  {looks_like}, lies under the name: its programs take another lock"
                ));
            }
        }
        Ok(exit::OK)
    }
}
