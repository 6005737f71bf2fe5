//! A suite that cannot fail proves nothing: played by a face that locks nothing at all, every scenario must fail.

use std::sync::Mutex;

use lockwright_conformance::matrix::Outcome;
use lockwright_conformance::rows::Face;
use lockwright_conformance::run::{self, Selection, Suite};
use lockwright_conformance::scenario::Peer;
use lockwright_conformance::torture::{self, languages};

/// The suite with the Rust shim of that kind in place of all faces.
fn with_shim(kind: &str) -> Suite {
    let mut suite = Suite::read().unwrap();
    suite.faces = vec![Face {
        name: kind.into(),
        folder: "core".into(),
        command: vec!["{bin}/lockwright-shim-rust".into(), kind.into()],
        ..Face::default()
    }];
    suite
}

/// The suite with a face that locks nothing.
fn unlocked() -> Suite {
    with_shim("unlocked")
}

#[test]
fn a_face_that_locks_nothing_is_convicted() {
    let suite = unlocked();
    let wanted = Selection { stores: vec!["memory".into()], jobs: 8, patience: 2.0, ..Selection::default() };
    let said = Mutex::new(String::new());
    let report = run::run(&suite, &wanted, &|line| said.lock().unwrap().push_str(line)).unwrap();
    assert!(report.unaccounted.is_empty());
    assert_eq!(report.outcomes.len(), suite.scenarios.iter().filter(|scenario| scenario.peer == Peer::No).count());
    let passed: Vec<_> = report.outcomes.iter().filter(|(_, outcome)| **outcome == Outcome::Passed).collect();
    assert!(passed.is_empty(), "{passed:?}");
    let said = said.into_inner().unwrap();
    for words in ["store truth: ", "it should fail with timeout", "taken: expected true"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_play_that_leaves_something_in_its_shim_fails() {
    let scenarios = vec!["try".into(), "stale-release".into()];
    let wanted = Selection { stores: vec!["sqlite".into()], scenarios, jobs: 1, patience: 2.0, ..Selection::default() };
    let said = Mutex::new(String::new());
    let tell = |line: &str| said.lock().unwrap().push_str(line);
    let played = |kind| run::run(&with_shim(kind), &wanted, &tell).unwrap().counts();
    assert_eq!(played("blocking"), (2, 0, 0));
    assert_eq!(played("keeping"), (0, 2, 0));
    let said = said.into_inner().unwrap();
    assert_eq!(said.matches("the shim of keeping had").count(), 2, "{said}");
}

#[test]
fn torture_convicts_a_face_that_locks_nothing() {
    let wanted = torture::Options { store: "sqlite".into(), faces: Vec::new(), minutes: 0.05, seed: 3 };
    let said = Mutex::new(String::new());
    assert!(!torture::run(&unlocked(), &wanted, &|line| said.lock().unwrap().push_str(line)).unwrap());
    let said = said.into_inner().unwrap();
    assert!(said.contains("WRONG  store truth: "), "{said}");
}

#[test]
fn languages_that_lock_nothing_are_convicted() {
    let wanted = languages::Options {
        store: "sqlite".into(),
        faces: Vec::new(),
        increments: 400,
        tasks: 4,
        restarts: 0,
        replicated: false,
        seed: 3,
    };
    let said = Mutex::new(String::new());
    let tell = |line: &str| said.lock().unwrap().push_str(line);
    assert!(!languages::run(&unlocked(), &wanted, &tell).unwrap());
    assert!(languages::run(&with_shim("blocking"), &wanted, &tell).unwrap());
    let said = said.into_inner().unwrap();
    assert!(said.contains("WRONG  store truth: "), "{said}");
    assert!(said.contains(", 400 increments are logged (rust 400), 0 whose"), "{said}");
}
