use clap::Args;
use lockwright::lease::{Holder, Inspection};
use lockwright::{Kind, Result};

use crate::args::StoreArgs;
use crate::exit;
use crate::output::{self, LockJson, SightingJson};

/// Lists what is held or waited for, with its holders: locks, read/write locks, semaphores, latches and barriers.
#[derive(Debug, Args)]
#[command(after_help = "Lists the locks of one layout under one prefix.\n\nExample: lockwright ls --prefix shop:")]
pub(crate) struct Ls {
    /// Free ones too, which a store remembers for some minutes
    #[arg(long)]
    all: bool,
    /// Instead, what looks like locks of other libraries under the prefix; looks at every key that there is
    #[arg(long, conflicts_with = "all")]
    foreign: bool,
    /// Print one line with a JSON array
    #[arg(long)]
    json: bool,
}

impl Ls {
    pub(crate) fn go(self, store: &StoreArgs) -> Result<u8> {
        let client = store.open()?;
        if self.foreign {
            let found = client.others(None)?;
            if self.json {
                output::json(&found.iter().map(SightingJson::from).collect::<Vec<_>>());
            } else {
                let rows = found.iter().map(|one| {
                    let remaining = one.remaining.map_or_else(|| "without an end".to_owned(), output::span);
                    [output::plain(&one.key), remaining, one.looks_like.clone()]
                });
                output::table(["KEY", "REMAINING", "LOOKS LIKE"], rows);
            }
            return Ok(exit::OK);
        }
        let mut locks = Vec::new();
        for name in client.list()? {
            match client.inspect(&name) {
                Ok(seen) if self.all || !seen.is_free() || seen.waiters > 0 => locks.push(seen),
                // Records of joined locks are alike: this one lies beside a lock of another layout.
                Err(error) if error.kind() != Kind::ForeignLayout => return Err(error),
                _ => {}
            }
        }
        if self.json {
            output::json(&locks.iter().map(LockJson::from).collect::<Vec<_>>());
        } else {
            let head = ["LOCK", "TOKEN", "HELD FOR", "REMAINING", "WAITERS", "HOLDER"];
            output::table(head, locks.iter().flat_map(rows));
        }
        Ok(exit::OK)
    }
}

/// One for each holder, or one for a lock that is free.
fn rows(seen: &Inspection) -> Vec<[String; 6]> {
    match &seen.shared {
        Some(shared) if !shared.holders.is_empty() => {
            shared.holders.iter().map(|part| row(seen, Some(&part.holder))).collect()
        }
        _ => vec![row(seen, seen.holder.as_ref())],
    }
}

/// What there is to say of what nobody holds.
fn standing(seen: &Inspection) -> String {
    match seen.latch {
        Some(latch) if latch.count > 0 => format!("latch, {} still to come", latch.count),
        Some(_) => "latch, open".into(),
        None if seen.is_barrier() => "barrier".into(),
        None => match &seen.shared {
            Some(shared) => format!("free ({})", shared.primitive.name()),
            None => "free".into(),
        },
    }
}

fn row(seen: &Inspection, holder: Option<&Holder>) -> [String; 6] {
    let (name, waiters) = (output::plain(&seen.name), seen.waiters.to_string());
    match holder {
        None => [name, "-".into(), "-".into(), "-".into(), waiters, standing(seen)],
        Some(holder) => [
            name,
            if holder.first_token == 0 { "-".into() } else { holder.first_token.to_string() },
            holder.held_for.map_or("?".to_owned(), output::span),
            output::span(holder.remaining),
            waiters,
            output::who(&holder.card),
        ],
    }
}
