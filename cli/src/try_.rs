use std::time::Duration;

use clap::Args;
use lockwright::Result;

use crate::args::{StoreArgs, What};
use crate::exit;
use crate::output::{self, LockJson};

/// Says whether a lock is free right now: takes it and gives it back at once.
#[derive(Debug, Args)]
#[command(after_help = "Exits with 0 when it was free and 75 when it is taken, then showing by whom.\n\n\
    Example: lockwright try nightly-report && echo free")]
pub(crate) struct Try {
    /// The lock's name: 1 to 1024 bytes of UTF-8
    name: String,
    #[command(flatten)]
    what: What,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// When this process dies between taking and giving back, nobody shall wait long for that.
const TTL: Duration = Duration::from_secs(2);

impl Try {
    pub(crate) fn go(self, store: &StoreArgs) -> Result<u8> {
        let client = store.open()?;
        let tried = self.what.of(&client, &self.name).ttl(TTL).label("lockwright try").try_acquire();
        let code = match tried.map_err(|error| self.what.explain(&client, &self.name, error))? {
            Some(guard) => {
                let _ = guard.release()?;
                exit::OK
            }
            None => exit::TAKEN,
        };
        let mut seen = client.inspect(&self.name)?;
        if code == exit::OK {
            // Whoever has taken it since: the answer is what was found.
            seen.holder = None;
        }
        if self.json {
            let mut lock = LockJson::from(&seen);
            lock.free = code == exit::OK;
            output::json(&lock);
        } else if seen.holder.is_none() && code == exit::TAKEN {
            output::line(&format!("{}: taken a moment ago, given back since", output::plain(&self.name)));
        } else {
            output::line(&output::card(&seen));
        }
        Ok(code)
    }
}
