use clap::Args;
use lockwright::Result;
use lockwright::lease::{Holder, Inspection};

use crate::args::Place;
use crate::exit;
use crate::output::{self, LockJson};

/// Lists the locks there are, held or remembered, with their holders.
#[derive(Debug, Args)]
#[command(after_help = "Lists the locks of one layout under one prefix.\n\nExample: lockwright ls --held")]
pub(crate) struct Ls {
    /// Only locks that somebody holds
    #[arg(long)]
    held: bool,
    /// Print one line with a JSON array
    #[arg(long)]
    json: bool,
}

impl Ls {
    pub(crate) fn go(self, place: &Place) -> Result<u8> {
        let client = place.open()?;
        let mut locks = Vec::new();
        for name in client.list()? {
            let seen = client.inspect(&name)?;
            if seen.holder.is_some() || !self.held {
                locks.push(seen);
            }
        }
        if self.json {
            output::json(&locks.iter().map(LockJson::from).collect::<Vec<_>>());
        } else {
            table(&locks);
        }
        Ok(exit::OK)
    }
}

fn table(locks: &[Inspection]) {
    let head = ["LOCK", "TOKEN", "HELD FOR", "REMAINING", "WAITERS", "HOLDER"].map(str::to_owned);
    let rows: Vec<_> = std::iter::once(head).chain(locks.iter().flat_map(rows)).collect();
    let widths: Vec<_> =
        (0..5).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()).collect();
    for row in &rows {
        let cells = row.iter().zip(widths.iter().chain([&0])).map(|(cell, &width)| format!("{cell:width$}"));
        output::line(cells.collect::<Vec<_>>().join("  ").trim_end());
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

fn row(seen: &Inspection, holder: Option<&Holder>) -> [String; 6] {
    let (name, waiters) = (output::plain(&seen.name), seen.waiters.to_string());
    match holder {
        None => [name, "-".into(), "-".into(), "-".into(), waiters, "-".into()],
        Some(holder) => [
            name,
            if holder.first_token == 0 { "-".into() } else { holder.first_token.to_string() },
            holder.held_for.map_or("?".to_owned(), output::span),
            output::span(holder.remaining),
            waiters,
            output::who(holder),
        ],
    }
}
