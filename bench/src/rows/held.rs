//! Many locks held at once: a contender's program holds them, and ends with its figures as one JSON object.

use serde_json::Value;

use super::{MeasuredStore, Size, column, main_column, progress};
use crate::Result;
use crate::entrant::Entrant;
use crate::report::{Better, Column, Figures};

/// What a contender is to hold: how many locks, the seconds of their leases, how long it is looked at, and the pairs of
/// another lock before and meanwhile.
const WHOLE: [&str; 4] = ["100000", "30", "60", "5000"];
const QUICK: [&str; 4] = ["1000", "3", "3", "100"];

/// A round takes minutes, and does not vary as pairs do.
const ROUNDS: usize = 3;

pub(super) fn measure(store: &mut MeasuredStore, entrants: &mut [Entrant], size: Size) -> Result<Vec<Column>> {
    let rounds = size.rounds.min(ROUNDS);
    let task = if size.quick { QUICK } else { WHOLE };
    for round in 0..rounds {
        for entrant in entrants.iter_mut() {
            let Some(figures) = entrant.attempt(|entrant| figures(&entrant.contender.hold(&store.url, &task)?)) else {
                continue;
            };
            progress("S11", round, rounds, &format!("{}: {figures:?}", entrant.name()));
            entrant.record_all(figures);
        }
    }
    Ok(vec![
        column("locks", "locks", 0),
        main_column("above_idle_mib", "MiB above idle", 1, Some(Better::Less)),
        main_column("cpu_a_minute", "CPU seconds a minute", 3, None),
        main_column("locks_a_request", "locks a request", 0, None),
        column("threads", "threads", 0),
        column("lost", "lost", 0),
        column("acquire_us_a_lock", "to acquire one, us", 1),
        column("pair_us_before", "a pair without them, us", 1),
        column("pair_us_held", "a pair beside them, us", 1),
    ])
}

/// The numbers of the object that `output` ends with, and what follows from them.
fn figures(output: &str) -> Result<Figures> {
    let begin = output.find('{').ok_or("said nothing")?;
    let object: serde_json::Map<String, Value> = serde_json::from_str(&output[begin..])?;
    let mut figures: Figures = object.into_iter().filter_map(|(key, value)| Some((key, value.as_f64()?))).collect();
    if let (Some(held), Some(idle)) = (figures.get("held_kib"), figures.get("idle_kib")) {
        figures.insert("above_idle_mib".to_owned(), (held - idle) / 1024.0);
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::figures;

    #[test]
    fn the_numbers_of_the_last_object_are_figures() {
        let said =
            "holding...\n{\n \"locks\": 1000,\n \"store\": \"x\",\n \"idle_kib\": 1024,\n \"held_kib\": 4096\n}\n";
        let found = figures(said).unwrap();
        let found: Vec<_> = found.iter().map(|(key, value)| (key.as_str(), *value)).collect();
        assert_eq!(found, [("above_idle_mib", 3.0), ("held_kib", 4096.0), ("idle_kib", 1024.0), ("locks", 1000.0)]);
        assert!(figures("\n").is_err());
    }
}
