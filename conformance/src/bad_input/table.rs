//! The table as it is written; its head says what the words mean.

use std::collections::BTreeSet;
use std::fs;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::hostile::Script;
use crate::rows;

/// One row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) name: String,
    /// What is wrong, in words for the documentation.
    pub(super) when: String,

    // Where.
    /// Stores by their names; empty for every one that is played whole.
    pub(super) stores: Option<Vec<String>>,
    pub(super) uri: Option<String>,
    pub(super) server: Option<Script>,
    pub(super) redis: Option<Redis>,
    pub(super) file: Option<String>,
    /// More options of the address.
    #[serde(default)]
    pub(super) options: String,

    // What.
    /// The commands given, all at once.
    #[serde(default, rename = "do")]
    pub(super) commands: Vec<String>,
    /// The name of the lock, unless it is an ordinary one.
    pub(super) lock: Option<String>,
    pub(super) lock_bytes: Option<usize>,
    pub lock_utf16: Option<Vec<u16>>,
    /// Names of locks that are held all at the same time.
    #[serde(default)]
    pub(super) locks: Vec<String>,
    /// How the lock is acquired.
    #[serde(default)]
    pub(super) with: Map<String, Value>,

    // What comes.
    pub(super) fails: Option<String>,
    #[serde(default)]
    pub(super) says: Vec<String>,
    #[serde(default)]
    pub(super) works: bool,
    /// One waits for the other, who gives it back.
    #[serde(default)]
    pub(super) waits: bool,
    #[serde(default = "within")]
    pub(super) within: f64,

    /// The languages of which it is true, and why not of the others.
    pub(super) only: Option<Only>,
}

/// See [`Row::only`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Only {
    pub(super) languages: Vec<String>,
    pub(super) reason: String,
}

/// A Redis server with settings of its own, and who comes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Redis {
    #[serde(default)]
    pub(super) config: Vec<String>,
    /// `user:password@`, with `{secret}`.
    #[serde(default)]
    pub(super) login: String,
    #[serde(default)]
    pub(super) database: String,
}

/// More than the `store_timeout` that the run gives every client, by what a busy machine may need.
fn within() -> f64 {
    3.0
}

/// What a row asks for that does not say.
const COMMANDS: [&str; 5] = ["acquire", "try", "inspect", "list", "break"];

/// What takes the row's options.
const TAKING: [&str; 8] = ["acquire", "try", "segment", "campaign", "resume", "latch", "require", "barrier"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    row: Vec<Row>,
}

/// Every row.
pub(super) fn read() -> Result<Vec<Row>, String> {
    let file = rows::here().join("bad-input.toml");
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    parse(&text).map_err(|error| format!("{}: {error}", file.display()))
}

fn parse(text: &str) -> Result<Vec<Row>, String> {
    let Table { mut row } = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut names = BTreeSet::new();
    for row in &mut row {
        if !names.insert(row.name.clone()) {
            return Err(format!("{} is there twice", row.name));
        }
        row.check().map_err(|error| format!("{}: {error}", row.name))?;
    }
    Ok(row)
}

impl Row {
    fn check(&mut self) -> Result<(), String> {
        let grounds = [
            self.stores.is_some(),
            self.uri.is_some(),
            self.server.is_some(),
            self.redis.is_some(),
            self.file.is_some(),
        ];
        if grounds.iter().filter(|is| **is).count() != 1 {
            return Err("it needs one of stores, uri, server, redis and file".into());
        }
        let ends = [self.fails.is_some(), self.works, self.waits];
        if ends.iter().filter(|is| **is).count() != 1 {
            return Err("it either fails, works or waits".into());
        }
        if self.fails.is_some() == self.says.is_empty() {
            return Err("what fails says why, and nothing else does".into());
        }
        if self.commands.is_empty() {
            let some: &[&str] =
                if self.uri.is_some() || !self.with.is_empty() { &["acquire", "try"] } else { &COMMANDS };
            self.commands = some.iter().map(|name| (*name).to_owned()).collect();
        }
        let known = |name: &str| COMMANDS.contains(&name) || TAKING.contains(&name);
        match self.commands.iter().find(|name| !known(name)) {
            Some(unknown) => Err(format!("there is no command {unknown:?}")),
            None => Ok(()),
        }
    }

    /// The options that `command` takes.
    pub(super) fn options_of(&self, command: &str) -> impl Iterator<Item = (&String, &Value)> {
        self.with.iter().filter(move |_| TAKING.contains(&command))
    }

    /// The name of the lock as an argument; `word` is in every ordinary one.
    pub(super) fn lock(&self, word: &str) -> (&'static str, Value) {
        match (&self.lock, self.lock_bytes, &self.lock_utf16) {
            (Some(name), ..) => ("lock", json!(name)),
            (_, Some(bytes), _) => ("lock", json!("n".repeat(bytes))),
            (.., Some(units)) => ("lock_utf16", json!(units)),
            _ => ("lock", json!(word)),
        }
    }

    /// Whether the lock's name is one that an error can show.
    pub(super) fn has_a_good_name(&self) -> bool {
        self.lock.is_none() && self.lock_bytes.is_none() && self.lock_utf16.is_none()
    }

    /// Whether the error comes from a store that was asked.
    pub(super) fn reaches_a_store(&self) -> bool {
        self.server.is_some() || self.redis.is_some() || self.file.is_some()
    }

    /// Why a face of this language does not take part.
    pub(super) fn skips(&self, language: &str) -> Option<&str> {
        let only = self.only.as_ref()?;
        (!only.languages.iter().any(|known| known == language)).then_some(only.reason.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read() {
        let rows = read().unwrap();
        assert!(rows.len() > 50, "{}", rows.len());
    }

    #[test]
    fn slips_of_the_pen_are_found() {
        let row = |more: &str| parse(&format!("[[row]]\nname = 'x'\nwhen = 'y'\n{more}")).unwrap_err();
        assert!(row("stores = []").contains("either fails"));
        assert!(row("works = true").contains("needs one of"));
        assert!(row("stores = []\nfile = 'z'\nworks = true").contains("needs one of"));
        assert!(row("stores = []\nfails = 'timeout'").contains("says why"));
        assert!(row("stores = []\nworks = true\ndo = ['dance']").contains("dance"));
        assert!(row("stores = []\nworks = true\nwhatever = 1").contains("whatever"));
    }
}
