//! The page `docs/interop.md`: which scenarios each library and we have played together.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::matrix::{Outcome, Triple};
use crate::run::Suite;
use crate::scenario::Peer;

const HEAD: &str = "# Interop

What was played by each library and Lockwright together, over one server, a cluster (`-cluster`) or five (`-five`, and `redisson-redlock`, its RedissonRedLock), in both orders. Made by
`lockwright-conformance interop --write`, and with `--full` by more of our faces; [conformance/README.md](../conformance/README.md) says what a peer is.

";

const TAIL: &str = "
What is not there has its reason in the library's `peer.toml`. The other libraries of the layout `string` write the same keys and
owners byte for byte, which is compared in a table (`core/machines/src/stores/redis/layouts/string.rs`); they are not played.
[migration.md](migration.md) says what the two sides guarantee one another.
";

/// The scenarios that libraries play, as columns, and the libraries with their versions, as rows.
pub fn heading(suite: &Suite) -> (Vec<&str>, Vec<(&str, &str)>) {
    let columns =
        suite.scenarios.iter().filter(|scenario| scenario.peer != Peer::No).map(|scenario| scenario.name.as_str());
    let peers = suite.faces.iter().filter(|face| face.joins.is_some());
    let rows = peers.map(|face| (face.name.as_str(), face.version.as_deref().unwrap_or_default()));
    (columns.collect(), rows.collect())
}

/// The page.
pub fn page(suite: &Suite, outcomes: &BTreeMap<Triple, Outcome>, full: bool) -> String {
    let (columns, rows) = heading(suite);
    let mut text = String::from(HEAD);
    let _ = writeln!(text, "This page shows the {} run.\n", if full { "full" } else { "everyday" });
    let _ = writeln!(text, "| library | version | {} |", columns.join(" | "));
    let _ = writeln!(text, "|---|---|{}", "---|".repeat(columns.len()));
    for (library, version) in rows {
        let cells: Vec<_> = columns.iter().map(|column| cell(outcomes, library, column)).collect();
        let _ = writeln!(text, "| {library} | {version} | {} |", cells.join(" | "));
    }
    text.push('\n');
    for scenario in suite.scenarios.iter().filter(|scenario| scenario.peer != Peer::No) {
        let _ = writeln!(text, "- `{}`: {}.", scenario.name, scenario.title);
    }
    text + TAIL
}

/// How often it passed.
fn cell(outcomes: &BTreeMap<Triple, Outcome>, library: &str, scenario: &str) -> String {
    let of = |triple: &Triple| triple.scenario == scenario && triple.team.split('+').any(|face| face == library);
    let played = || outcomes.iter().filter(|(triple, _)| of(triple)).map(|(_, outcome)| outcome);
    let failed = played().filter(|outcome| **outcome == Outcome::Failed).count();
    match (played().filter(|outcome| **outcome == Outcome::Passed).count(), failed) {
        (0, 0) => "-".into(),
        (passed, 0) => format!("{passed} of {passed}"),
        (passed, failed) => format!("**{passed} of {}**", passed + failed),
    }
}

/// What the page as it is written lacks, or has too much.
pub fn stale(suite: &Suite, written: &str) -> Vec<String> {
    let (columns, rows) = heading(suite);
    let begins = std::iter::once(format!("| library | version | {} |", columns.join(" | ")));
    let wanted: Vec<_> =
        begins.chain(rows.iter().map(|(library, version)| format!("| {library} | {version} | "))).collect();
    let table: Vec<_> = written.lines().filter(|line| line.starts_with("| ")).collect();
    let mut wrong: Vec<_> = wanted
        .iter()
        .filter(|begin| !table.iter().any(|line| line.starts_with(begin.as_str())))
        .map(|begin| format!("docs/interop.md lacks the line {begin}"))
        .collect();
    if table.len() != wanted.len() {
        wrong.push("docs/interop.md has a library that is no peer".into());
    }
    wrong.extend(table.iter().filter(|line| line.contains("**")).map(|line| format!("docs/interop.md: {line}")));
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows;

    #[test]
    fn the_page_has_every_library_and_every_scenario_that_it_plays() {
        let suite = Suite::read().unwrap();
        let written = std::fs::read_to_string(rows::here().join("../docs/interop.md")).unwrap();
        assert_eq!(stale(&suite, &written), [""; 0], "run lockwright-conformance interop --write");
    }

    #[test]
    fn a_page_of_another_version_or_with_a_failure_is_stale() {
        let suite = Suite::read().unwrap();
        let (columns, rows) = heading(&suite);
        let triple = |outcome| {
            let team = format!("rust+{}", rows[0].0);
            BTreeMap::from([(Triple { scenario: columns[0].into(), store: "x".into(), team }, outcome)])
        };
        let fine = page(&suite, &triple(Outcome::Passed), true);
        assert_eq!(stale(&suite, &fine), [""; 0]);
        assert!(fine.contains("1 of 1"));
        let version = format!("| {} | {} |", rows[0].0, rows[0].1);
        assert_eq!(stale(&suite, &fine.replace(&version, "| other | 1 |")).len(), 1);
        assert_eq!(stale(&suite, &page(&suite, &triple(Outcome::Failed), true)).len(), 1);
    }
}
