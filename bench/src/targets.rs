//! The figures to reach, and whether they are.

use serde::Deserialize;

use crate::Result;
use crate::report::Report;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {
    pub(crate) row: String,
    pub(crate) contender: String,
    /// The key of a column.
    pub(crate) figure: String,
    /// What it is, for people.
    pub(crate) says: String,
    #[serde(default)]
    pub(crate) at_most: Option<f64>,
    #[serde(default)]
    pub(crate) at_least: Option<f64>,
}

#[derive(Deserialize)]
struct Targets {
    target: Vec<Target>,
}

pub(crate) fn all() -> Result<Vec<Target>> {
    Ok(toml::from_str::<Targets>(include_str!("../targets.toml"))?.target)
}

impl Target {
    /// The median of the rounds, where it was measured.
    pub(crate) fn measured(&self, reports: &[Report]) -> Option<f64> {
        let report = reports.iter().find(|report| report.row == self.row)?;
        let of = report.results.iter().find(|result| result.name == self.contender)?;
        Some(of.figure(&self.figure)?.median)
    }

    pub(crate) fn is_reached(&self, figure: f64) -> bool {
        self.at_most.is_none_or(|limit| figure <= limit) && self.at_least.is_none_or(|limit| figure >= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::ROWS;

    #[test]
    fn every_target_is_of_a_row_that_there_is_and_has_one_limit() {
        for target in all().unwrap() {
            assert!(ROWS.iter().any(|row| row.id == target.row), "{target:?}");
            assert!(target.at_most.is_some() != target.at_least.is_some(), "{target:?}");
        }
    }

    #[test]
    fn a_limit_itself_is_reached() {
        let target = |at_most, at_least| Target {
            row: "S1".into(),
            contender: "x".into(),
            figure: "raw".into(),
            says: "raw pairs".into(),
            at_most,
            at_least,
        };
        let reached = |target: Target| [1.1, 1.2, 1.3].map(|figure| target.is_reached(figure));
        assert_eq!(reached(target(Some(1.2), None)), [true, true, false]);
        assert_eq!(reached(target(None, Some(1.2))), [false, true, true]);
    }
}
