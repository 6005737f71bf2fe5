//! From the start of a process to its first lock.

use super::{MeasuredStore, Size, main_column, progress};
use crate::Result;
use crate::entrant::{Entrant, order};
use crate::report::{Better, Column, Role};
use crate::stats::quantile;

pub(super) fn measure(store: &mut MeasuredStore, entrants: &mut [Entrant], size: Size) -> Result<Vec<Column>> {
    let starts = if size.quick { 3 } else { 20 };
    for entrant in entrants.iter_mut() {
        // Files are in memory, Python's are compiled.
        entrant.attempt(|entrant| entrant.contender.cold_start(&store.url));
    }
    for round in 0..size.rounds {
        let mut samples = vec![Vec::new(); entrants.len()];
        for start in 0..starts {
            for i in order(entrants.len(), round + start) {
                let took = entrants[i].attempt(|entrant| entrant.contender.cold_start(&store.url));
                samples[i].extend(took.map(|took| took.as_nanos() as u64));
            }
        }
        let medians: Vec<Option<f64>> = samples.into_iter().map(median_ms).collect();
        let above: Vec<Option<f64>> = entrants
            .iter()
            .zip(&medians)
            .map(|(entrant, ms)| Some((*ms)? - bare(entrant, entrants, &medians)?))
            .collect();
        for ((entrant, ms), above) in entrants.iter_mut().zip(&medians).zip(above) {
            entrant.record([("ms", *ms), ("above_ms", above)]);
        }
        let said = entrants.iter().zip(&medians).filter_map(|(e, ms)| Some(format!("{} {:.1} ms", e.name(), (*ms)?)));
        progress("S12", round, size.rounds, &said.collect::<Vec<_>>().join(", "));
    }
    Ok(vec![
        main_column("ms", "start to first lock, ms", 1, None),
        main_column("above_ms", "above the bare runtime, ms", 1, Some(Better::Less)),
    ])
}

/// What the runtime of an entrant's language takes alone.
fn bare(entrant: &Entrant, entrants: &[Entrant], medians: &[Option<f64>]) -> Option<f64> {
    let language = &entrant.contender.offer.language;
    let same = |other: &Entrant| other.is(Role::Bare) && other.contender.offer.language == *language;
    entrants.iter().zip(medians).find(|(other, _)| same(other)).and_then(|(_, ms)| *ms)
}

fn median_ms(mut samples: Vec<u64>) -> Option<f64> {
    samples.sort_unstable();
    (!samples.is_empty()).then(|| quantile(&samples, 0.5) as f64 / 1e6)
}
