//! Many locks held at once: the rig is a subcommand of this program, which prints its figures as one JSON object.

use std::process::{Command, Stdio};

use clap::CommandFactory;
use serde_json::Value;

use super::{Place, Size, main_column};
use crate::entrant::Entrant;
use crate::report::{Column, Figures};
use crate::{Arguments, Result};

const RIG: &str = "s11";

/// Whether this program has the rig.
pub(crate) fn is_there() -> bool {
    Arguments::command().find_subcommand(RIG).is_some()
}

pub(super) fn measure(place: &mut Place, entrants: &mut [Entrant], size: Size) -> Result<Vec<Column>> {
    let mut keys = Vec::new();
    for _ in 0..size.rounds {
        for entrant in entrants.iter_mut() {
            let Some(figures) = entrant.attempt(|_| rig(&place.url)) else { continue };
            keys = figures.keys().cloned().collect();
            entrant.record_all(figures);
        }
    }
    Ok(keys.iter().map(|key| main_column(key, &key.replace('_', " "), 1, None)).collect())
}

fn rig(url: &str) -> Result<Figures> {
    let output = Command::new(std::env::current_exe()?).args(["--url", url, RIG]).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("ended with {}", output.status).into());
    }
    figures(std::str::from_utf8(&output.stdout)?)
}

/// The numbers of the object in the last line.
fn figures(output: &str) -> Result<Figures> {
    let last = output.lines().rfind(|line| !line.trim().is_empty()).ok_or("said nothing")?;
    let object: serde_json::Map<String, Value> = serde_json::from_str(last)?;
    Ok(object.into_iter().filter_map(|(key, value)| Some((key, value.as_f64()?))).collect())
}

#[cfg(test)]
mod tests {
    use super::figures;

    #[test]
    fn the_numbers_of_the_last_object_are_figures() {
        let found = figures("holding...\n{\"locks\": 100000, \"note\": \"x\", \"cpu_s\": 0.5}\n\n").unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("cpu_s".to_owned(), 0.5), ("locks".to_owned(), 100_000.0)]);
        assert!(figures("\n").is_err());
    }
}
