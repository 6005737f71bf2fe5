//! Recipes for locks by Redis that are often copied and wrong: each is convicted by a scenario that all our faces pass.

use std::sync::Mutex;

use lockwright_conformance::matrix::Outcome;
use lockwright_conformance::rows::Face;
use lockwright_conformance::run::{self, Selection, Suite};

/// How often a mistake may be missed: a machine under load may take both ways at once.
const ATTEMPTS: u32 = 5;

/// The mistake, the scenario that convicts it, and what that has to say.
const MISTAKES: [(&str, &str, &str); 6] = [
    ("setnx-expire", "crash-while-acquiring", "timeout"),
    ("del", "stale-release", "outcome: expected one of expired, stolen"),
    ("get-del", "release-at-the-last-moment", "taken: expected true"),
    ("getset", "stale-release", "outcome: expected one of expired, stolen"),
    // Who holds for longer than the ttl has no lock, and nobody renews it.
    ("del", "renewal", "it should fail with timeout"),
    ("getset", "renewal", "it should fail with timeout"),
];

fn naive(words: &[&str]) -> Face {
    let command = ["{bin}/lockwright-shim-naive"].iter().chain(words).map(|word| (*word).to_owned()).collect();
    Face { name: words.join("-"), folder: "core".into(), command, ..Face::default() }
}

/// What was said when the scenario failed.
fn convicted(faces: &[Face], scenario: &str, team: &str) -> Option<String> {
    let mut suite = Suite::read().unwrap();
    suite.faces = faces.to_vec();
    let wanted = Selection {
        stores: vec!["redis".into()],
        scenarios: vec![scenario.into()],
        faces: vec![team.into()],
        full: true,
        jobs: 1,
        patience: 10.0,
        ..Selection::default()
    };
    let said = Mutex::new(String::new());
    let report = run::run(&suite, &wanted, &|line| said.lock().unwrap().push_str(line)).unwrap();
    assert_eq!(report.outcomes.len(), 1, "{:?}", report.outcomes);
    let is_failed = report.outcomes.values().all(|outcome| *outcome == Outcome::Failed);
    is_failed.then(|| said.into_inner().unwrap())
}

fn assert_convicted(faces: &[Face], scenario: &str, team: &str, words: &str) {
    let said = (0..ATTEMPTS).find_map(|_| convicted(faces, scenario, team));
    let said = said.unwrap_or_else(|| panic!("{team} passes {scenario}"));
    assert!(said.contains(words), "{scenario} of {team}: {said}");
}

#[test]
fn each_common_mistake_is_convicted() {
    for (mistake, scenario, words) in MISTAKES {
        assert_convicted(&[naive(&[mistake])], scenario, mistake, words);
    }
}

#[test]
fn a_clock_that_is_ahead_takes_a_lock_that_is_held() {
    let both = [naive(&["getset"]), naive(&["getset", "60"])];
    assert_convicted(&both, "wrong-clock", "getset+getset-60", "taken: expected true");
}
