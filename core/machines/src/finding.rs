//! What an examination of a store finds: whether it is fit to keep locks in.

use std::fmt;

pub mod clock;
pub mod said;

/// How much a [`Finding`] matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// It is as it should be.
    Ok,
    /// It is worth knowing: a guarantee ends there.
    Note,
    /// Locks may be lost, or fail to exclude, in a case that can be ruled out.
    Warning,
    /// Locks cannot be had, or do not exclude one another.
    Problem,
}

impl Severity {
    /// Its word, as programs know it: `ok`, `note`, `warning`, `problem`.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Ok => "ok",
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Problem => "problem",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One thing that an examination of a store found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at, by one word that does not change, such as `eviction`.
    pub check: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What was found.
    pub found: String,
    /// What to do about it; `None` where nothing is to be done.
    pub advice: Option<&'static str>,
}

impl Finding {
    /// It is as it should be.
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Finding { check, severity: Severity::Ok, found: found.into(), advice: None }
    }

    /// It is not, or not quite.
    pub fn of(severity: Severity, check: &'static str, found: impl Into<String>, advice: &'static str) -> Self {
        Finding { check, severity, found: found.into(), advice: Some(advice) }
    }
}

/// This is wrong in these places; `None` where there are none.
pub fn in_places(
    severity: Severity,
    check: &'static str,
    what: &str,
    places: &[impl AsRef<str>],
    advice: &'static str,
) -> Option<Finding> {
    let named = || some_of(places.iter().map(AsRef::as_ref));
    (!places.is_empty()).then(|| Finding::of(severity, check, format!("{what} in {}", named()), advice))
}

/// What is `wrong` where the locks are, or that it is nothing in all of these `places`.
pub fn of_locks(places: &str, wrong: impl IntoIterator<Item = Option<Finding>>) -> Vec<Finding> {
    let mut found: Vec<_> = wrong.into_iter().flatten().collect();
    if found.is_empty() {
        found.push(Finding::ok("locks", format!("nothing is wrong in {places}")));
    }
    found
}

/// Most names that are told of many.
const SHOWN: usize = 3;

/// The first of these names, as a finding shows them.
pub fn some_of<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names = names.map(|name| format!("{name:?}"));
    let few: Vec<_> = names.by_ref().take(SHOWN).collect();
    format!("{}{}", few.join(", "), if names.next().is_some() { " and others" } else { "" })
}
