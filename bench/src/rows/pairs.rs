//! One task, one lock that nobody else wants.

use super::{MeasuredStore, Size, column, main_column, progress, yardstick};
use crate::Result;
use crate::entrant::{Entrant, order};
use crate::report::{Better, Column};
use crate::stats::{quantile, ratio};

/// Short enough that whatever the machine does meanwhile it does to each contender.
const TURN: usize = 50;

pub(super) fn measure(
    row: &str,
    store: &mut MeasuredStore,
    entrants: &mut [Entrant],
    size: Size,
) -> Result<Vec<Column>> {
    let turns = if size.quick { 4 } else { 100 };
    for entrant in entrants.iter_mut() {
        entrant.start(&store.url);
        // Connections are dialled, scripts loaded, code compiled.
        entrant.pairs(4 * TURN);
    }
    for round in 0..size.rounds {
        let mut samples = vec![Vec::new(); entrants.len()];
        for turn in 0..turns {
            for i in order(entrants.len(), round + turn) {
                samples[i].extend(entrants[i].pairs(TURN).unwrap_or_default());
            }
        }
        for sample in &mut samples {
            sample.sort_unstable();
        }
        let raw = yardstick(entrants).map(|i| quantile(&samples[i], 0.5) as f64 / 1e3);
        for (entrant, sample) in entrants.iter_mut().zip(&samples) {
            let us = |q| quantile(sample, q) as f64 / 1e3;
            let requests = requests(store, entrant)?;
            entrant.record([
                ("us", Some(us(0.5))),
                ("raw", raw.and_then(|raw| ratio(us(0.5), raw))),
                ("p99_us", Some(us(0.99))),
                ("requests", requests),
            ]);
        }
        let medians = entrants.iter().zip(&samples).filter(|(_, sample)| !sample.is_empty());
        let said = medians.map(|(e, sample)| format!("{} {:.1} us", e.name(), quantile(sample, 0.5) as f64 / 1e3));
        progress(row, round, size.rounds, &said.collect::<Vec<_>>().join(", "));
    }
    for entrant in entrants {
        entrant.peer = None;
    }
    Ok(vec![
        main_column("us", "a pair, us", 1, None),
        main_column("raw", "raw pairs", 3, Some(Better::Less)),
        column("p99_us", "p99, us", 1),
        column("requests", "requests a pair", 2),
    ])
}

/// Requests of one pair, by the server's count.
fn requests(store: &mut MeasuredStore, entrant: &mut Entrant) -> Result<Option<f64>> {
    let names = entrant.contender.offer.requests.clone();
    if names.is_empty() {
        return Ok(None);
    }
    let before = store.server.calls(&names)?;
    let done = entrant.pairs(TURN).map(|ns| ns.len());
    let calls = store.server.calls(&names)? - before;
    Ok(done.and_then(|done| ratio(calls as f64, done as f64)))
}
