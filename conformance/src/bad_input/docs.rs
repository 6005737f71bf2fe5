//! `docs/errors.md`, written from the table and from what a run was told.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use lockwright::Kind;

use super::table::Row;
use crate::rows;

/// The messages are the core's own: those of other languages differ where a language has words of its own.
const LANGUAGE: &str = "rust";

/// Whether it quotes what a face of this language was told; several may be quotable.
pub(super) fn quotes(row: &Row, language: &str) -> bool {
    language == LANGUAGE || row.skips(LANGUAGE).is_some()
}

const HEAD: &str = "\
# Errors

Every error has one of these codes, the same in every language. Its message is one line: what was being done, on which lock and
store, what happened, and what to do about it. *Retryable* means that the same call may succeed later without a change to the program.

";

const ROWS: &str = "
## What each says

Written by `lockwright-conformance bad-input --write` from the errors of a run; the inputs are in `conformance/bad-input.toml`.
Passwords are never shown. `127.0.0.1:6379` and the paths stand for the addresses of the run.
";

fn path() -> PathBuf {
    rows::here().join("../docs/errors.md")
}

/// Writes it.
pub(super) fn write(rows: &[Row], told: &BTreeMap<String, String>) -> Result<(), String> {
    let text = text(rows, told);
    fs::write(path(), text).map_err(|error| format!("{}: {error}", path().display()))
}

fn text(rows: &[Row], told: &BTreeMap<String, String>) -> String {
    let mut text = String::from(HEAD);
    text.push_str("| code | retryable | meaning |\n|---|---|---|\n");
    for kind in Kind::ALL {
        let retryable = if kind.retryable() { "yes" } else { "" };
        let _ = writeln!(text, "| `{kind}` | {retryable} | {} |", kind.meaning());
    }
    text.push_str(ROWS);
    for kind in Kind::ALL {
        let of_kind = |row: &&Row| row.fails.as_deref() == Some(kind.code()) && told.contains_key(&row.name);
        let mut rows = rows.iter().filter(of_kind).peekable();
        if rows.peek().is_none() {
            continue;
        }
        let _ = write!(text, "\n### `{kind}`\n\n| when | it says |\n|---|---|\n");
        for row in rows {
            let _ = writeln!(text, "| {} | {} |", row.when, cell(&told[&row.name]));
        }
    }
    text
}

/// A message without its code, as a cell of a table.
fn cell(message: &str) -> String {
    let message = message.split_once(": ").map_or(message, |(_, message)| message);
    message.replace('|', "\\|").replace('<', "&lt;").replace('*', "\\*")
}

/// What of the table is missing in it. Messages are examples and may change; what happens may not go unsaid.
pub(super) fn missing(rows: &[Row]) -> Vec<String> {
    let text = fs::read_to_string(path()).unwrap_or_default();
    let section = |code: &str| {
        let (_, rest) = text.split_once(&format!("\n### `{code}`\n"))?;
        Some(rest.split("\n### ").next().unwrap_or_default().to_owned())
    };
    let is_there = |row: &&Row| {
        let section = row.fails.as_deref().and_then(section).unwrap_or_default();
        row.fails.is_none() || section.contains(&format!("| {} |", row.when))
    };
    rows.iter().filter(|row| !is_there(row)).map(|row| row.name.clone()).collect()
}
