//! What one row of measurements leaves behind: everything a page says is computed from this.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::machine::Machine;
use crate::stats::{Spread, spread};

/// The figures of one contender in one round, by the key of their column.
pub(crate) type Figures = BTreeMap<String, f64>;

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub(crate) struct Report {
    /// Such as `S1`.
    pub(crate) row: String,
    pub(crate) title: String,
    /// What each contender had to do.
    pub(crate) work: String,
    /// UTC.
    pub(crate) taken: String,
    /// Too short to be relied on.
    pub(crate) quick: bool,
    pub(crate) machine: Machine,
    pub(crate) versions: BTreeMap<String, String>,
    pub(crate) columns: Vec<Column>,
    pub(crate) results: Vec<Measured>,
}

/// A figure that every contender has.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub(crate) struct Column {
    pub(crate) key: String,
    pub(crate) heading: String,
    pub(crate) decimals: usize,
    /// Also the least and the greatest of the rounds are shown.
    pub(crate) spread: bool,
    /// The figure of the picture, and whether less of it is better.
    pub(crate) picture: Option<Better>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Less,
    More,
}

/// What a contender is in a comparison.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    Ours,
    Peer,
    /// What all others are multiples of.
    Yardstick,
    /// The language's runtime, doing nothing.
    Bare,
}

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) role: Role,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) versions: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) rounds: Vec<Figures>,
    /// Why it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) absent: Option<String>,
}

impl Measured {
    /// A figure over the rounds; `None` where it was not measured in each of them.
    pub(crate) fn figure(&self, key: &str) -> Option<Spread> {
        let values: Option<Vec<f64>> = self.rounds.iter().map(|round| round.get(key).copied()).collect();
        spread(values?)
    }
}

impl Report {
    /// The file in `folder` that this row is kept in.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let path = folder.join(self.row.to_lowercase()).with_extension("json");
        fs::write(path, serde_json::to_string_pretty(self)? + "\n")?;
        Ok(())
    }

    /// All rows in `folder`, in the order of their numbers.
    pub(crate) fn read_all(folder: &Path) -> Result<Vec<Report>> {
        let mut reports = Vec::new();
        for file in fs::read_dir(folder)? {
            let path = file?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                let report: Report = serde_json::from_str(&fs::read_to_string(&path)?)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                reports.push(report);
            }
        }
        reports.sort_by_key(|report| report.row.get(1..).and_then(|number| number.parse::<u32>().ok()));
        Ok(reports)
    }

    /// The picture's column.
    pub(crate) fn picture(&self) -> Option<(&Column, Better)> {
        self.columns.iter().find_map(|column| Some((column, column.picture?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(rounds: &[&[(&str, f64)]]) -> Measured {
        let rounds = rounds.iter().map(|round| round.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect());
        Measured {
            name: "x".into(),
            role: Role::Peer,
            versions: BTreeMap::new(),
            rounds: rounds.collect(),
            absent: None,
        }
    }

    #[test]
    fn a_figure_is_its_spread_over_the_rounds() {
        let of = measured(&[&[("us", 3.0)], &[("us", 1.0)], &[("us", 2.0)]]);
        assert_eq!(of.figure("us"), Some(Spread { min: 1.0, median: 2.0, max: 3.0 }));
    }

    #[test]
    fn a_figure_missing_in_one_round_is_no_figure() {
        let of = measured(&[&[("us", 3.0), ("raw", 1.0)], &[("us", 1.0)]]);
        assert_eq!(of.figure("raw"), None);
        assert_eq!(measured(&[]).figure("us"), None);
    }
}
