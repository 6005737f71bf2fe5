//! Every name that a language must have: for the test of each binding that compares its stubs, types and classes with
//! it.

use super::operation::{self, Of};
use super::options::{CONNECT, Choice, LOCK, REQUIRE, Shape};
use super::record::{Record, Value, samples};
use crate::error::Kind;
use crate::lease::LossReason;

/// The targets of events, behind `lockwright::`, as `docs/observability.md` explains them.
pub const EVENTS: [&str; 20] = [
    "acquire", "release", "wait", "grant", "refuse", "renew", "change", "lost", "export", "yield", "undo", "permits",
    "request", "break", "store", "restart", "inbox", "poll", "runtime", "panic",
];

/// What a release may find.
pub const OUTCOMES: [&str; 5] = ["released", "kept", "expired", "stolen", "unknown"];

/// What a guard can be asked, and with what arguments.
const GUARD: [(&str, &[&str]); 7] = [
    ("release", &[]),
    ("extend", &["ttl"]),
    ("hold_at_least_for", &["span"]),
    ("export", &["ttl"]),
    ("downgrade", &[]),
    ("try_upgrade", &[]),
    ("remaining", &[]),
];

/// The options by name, each with its shape; names are in snake case.
pub fn options() -> Record {
    fields([("lock", shapes(&LOCK)), ("connect", shapes(&CONNECT)), ("require", shapes(&REQUIRE))])
}

/// Operations, options, records, errors, reasons of losses, outcomes of releases and events. Names are in snake case.
pub fn manifest() -> Record {
    fields([
        ("operations", operations()),
        ("options", options().into()),
        ("records", records()),
        ("errors", Value::List(Kind::ALL.map(error).into())),
        ("losses", texts(LossReason::ALL.map(|reason| reason.code()))),
        ("outcomes", texts(OUTCOMES)),
        ("events", texts(EVENTS)),
    ])
}

fn fields(fields: impl IntoIterator<Item = (&'static str, Value)>) -> Record {
    Record { class: "", fields: fields.into_iter().collect() }
}

fn texts(texts: impl IntoIterator<Item = &'static str>) -> Value {
    Value::List(texts.into_iter().map(Value::from).collect())
}

/// Those of one kind of handle together, each with the names of its arguments.
fn operations() -> Value {
    let class = |(of, class): (Of, &'static str)| {
        let its = operation::ALL.iter().filter(|operation| operation.of == of);
        let its = its.map(|operation| (operation.name, texts(operation.takes.iter().map(|(name, _)| *name))));
        (class, Value::Record(fields(its)))
    };
    let guard = GUARD.iter().map(|(name, takes)| (*name, texts(takes.iter().copied())));
    fields(CLASSES.map(class).into_iter().chain([("Guard", Value::Record(fields(guard)))])).into()
}

/// What each kind of handle is of in a language.
const CLASSES: [(Of, &str); 6] = [
    (Of::Client, "Client"),
    (Of::Lock, "Lock"),
    (Of::Locks, "MultiLock"),
    (Of::Segments, "Striped"),
    (Of::Latch, "Latch"),
    (Of::Barrier, "Barrier"),
];

fn shapes<T>(choices: &[Choice<T>]) -> Value {
    fields(choices.iter().map(|choice| (choice.name, Value::from(shape(choice.shape()))))).into()
}

/// What a language calls it.
const fn shape(shape: Shape) -> &'static str {
    match shape {
        Shape::Span => "span",
        Shape::Limit => "limit",
        Shape::Flag => "flag",
        Shape::Text => "text",
        Shape::Path => "path",
        Shape::Range => "range",
        Shape::Count => "count",
    }
}

fn records() -> Value {
    let names = |record: Record| (record.class, texts(record.fields.into_iter().map(|(name, _)| name)));
    fields(samples().into_iter().map(names)).into()
}

fn error(kind: Kind) -> Value {
    let (code, retryable, meaning) = (kind.code(), kind.retryable(), kind.meaning());
    fields([("code", code.into()), ("retryable", retryable.into()), ("meaning", meaning.into())]).into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::lease::ReleaseOutcome;

    /// What stands between `before` and `after`, wherever `before` does.
    fn between<'a>(text: &'a str, before: &str, after: char) -> impl Iterator<Item = &'a str> {
        text.split(before).skip(1).filter_map(move |rest| rest.split(after).next()).collect::<Vec<_>>().into_iter()
    }

    fn told(folder: &Path, targets: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                told(&entry, targets);
            } else if entry.extension().is_some_and(|extension| extension == "rs")
                && !entry.ends_with("binding/manifest.rs")
            {
                let text = fs::read_to_string(&entry).unwrap();
                targets.extend(between(&text, "target: \"lockwright::", '"').map(str::to_owned));
            }
        }
    }

    #[test]
    fn every_event_is_listed_and_explained() {
        let listed: BTreeSet<String> = EVENTS.iter().map(|event| (*event).to_owned()).collect();
        let mut targets = BTreeSet::new();
        told(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut targets);
        assert_eq!(targets, listed);
        let page = include_str!("../../../docs/observability.md");
        let table = page.split("| target `lockwright::`").nth(1).unwrap().split("\n\n").next().unwrap();
        assert_eq!(between(table, "\n| `", '`').map(str::to_owned).collect::<BTreeSet<_>>(), listed);
    }

    #[test]
    fn every_outcome_of_a_release_is_listed() {
        let all = [
            ReleaseOutcome::Released,
            ReleaseOutcome::Kept(1),
            ReleaseOutcome::Expired,
            ReleaseOutcome::StolenBy(String::new()),
            ReleaseOutcome::Unknown,
        ];
        assert_eq!(all.map(|outcome| outcome.code()), OUTCOMES);
    }

    #[test]
    fn every_kind_of_handle_has_a_class() {
        let classes: BTreeSet<_> = CLASSES.iter().map(|(of, _)| format!("{of:?}")).collect();
        assert!(operation::ALL.iter().all(|operation| classes.contains(&format!("{:?}", operation.of))));
    }
}
