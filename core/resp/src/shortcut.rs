//! A command that some servers have for what a script of ours does, and what a connection knows of it.
//!
//! A release in the layout `string` deletes the key if it holds the owner. Valkey 9.0 and Redis 8.4 have a command for
//! that, each its own, whose answer is 1 or 0. Wherever the command deletes, the script would have, and would have
//! answered the same. Where it does not it did nothing, and the script is sent, which tells a lock that is free from
//! one that was taken.
//!
//! ```text
//!   the first release   COMMAND INFO DELIFEQ DELEX, and the script as ever
//!   later ones          DELIFEQ key owner | DELEX key IFEQ owner
//!                         1                  released
//!                         0, or an error     the script, whose answer counts
//!                         NOPERM, ERR        besides: scripts alone from now on
//! ```
//!
//! All of this holds for one connection: the next may lead to another server, or as another user. See ADR 0017.
//!
//! Sources: the commands' pages in the documentation of [Valkey](https://valkey.io/commands/delifeq/) and
//! [Redis](https://redis.io/docs/latest/commands/delex/).

use std::sync::Arc;

use redis::Value;

use crate::wire::Commands;
use lockwright_machines::protocol::Request;
use lockwright_machines::stores::redis::layouts::{marker, string};

/// A command that deletes a key whose value is the one it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortcut {
    /// Valkey since 9.0.
    DelIfEq,
    /// Redis since 8.4, Valkey since 9.2.
    DelEx,
}

impl Shortcut {
    const ALL: [Shortcut; 2] = [Shortcut::DelIfEq, Shortcut::DelEx];

    const fn name(self) -> &'static str {
        match self {
            Shortcut::DelIfEq => "DELIFEQ",
            Shortcut::DelEx => "DELEX",
        }
    }

    /// Writes the one for `request`, which is one that a shortcut [`is_for`].
    pub fn write(self, out: &mut Vec<u8>, request: &Request) {
        let owner = string::deleted_owner(request).unwrap_or_default();
        match self {
            Shortcut::DelIfEq => out.command(&[self.name(), &request.key, owner]),
            Shortcut::DelEx => out.command(&[self.name(), &request.key, "IFEQ", owner]),
        }
    }
}

/// Whether a server may have a command for `request`.
pub fn is_for(request: &Request) -> bool {
    string::deleted_owner(request).is_some()
}

/// Asks a server which of the commands it has.
pub fn ask(out: &mut Vec<u8>) {
    let [one, other] = Shortcut::ALL.map(Shortcut::name);
    out.command(&["COMMAND", "INFO", one, other]);
}

/// What a connection knows.
#[derive(Debug, Default)]
pub struct ShortcutProbe {
    is_asked: bool,
    pub has: Option<Shortcut>,
    /// The run of the server that it leads to.
    pub run: Option<Arc<str>>,
    /// A marker of that run, by its key, which counts for as long as it is there.
    pub marker: Option<(Arc<str>, Arc<str>)>,
}

/// Whether `request` looks at a marker.
pub fn looks_at_marker(request: &Request) -> bool {
    std::ptr::eq(request.call, &raw const marker::MARK)
}

impl ShortcutProbe {
    /// That of a connection to this run of the server.
    pub fn of(run: Option<&str>) -> Self {
        ShortcutProbe { run: run.map(Arc::from), ..Self::default() }
    }

    /// The marker under `key`, if it was seen to count.
    pub fn marker(&self, key: &str) -> Option<Arc<str>> {
        self.marker.as_ref().filter(|(known, _)| **known == *key).map(|(_, text)| text.clone())
    }

    /// The answer to the look at the marker under `key`: a text is one that counts from now on.
    pub fn learn_marker(&mut self, key: &Arc<str>, answer: &Value) {
        if let Value::BulkString(text) = answer
            && let Ok(text) = std::str::from_utf8(text)
        {
            self.marker = Some((key.clone(), text.into()));
        }
    }

    /// Whether the server is to be asked along with `requests`: once, and only if it matters.
    pub fn asks(&mut self, requests: &[Request]) -> bool {
        !self.is_asked && requests.iter().any(is_for) && !std::mem::replace(&mut self.is_asked, true)
    }

    /// Takes the answer to what is [asked](ask). Whoever may not ask is not told, and does without.
    pub fn learn(&mut self, answer: &Value) {
        let Value::Array(described) = answer else { return };
        let is_there = |described: &Value| matches!(described, Value::Array(parts) if !parts.is_empty());
        self.has = Shortcut::ALL.into_iter().zip(described).find_map(|(known, of)| is_there(of).then_some(known));
    }

    /// Takes the answer to the command: one that is refused whatever its key is not tried again.
    pub fn hear(&mut self, answer: &Value) {
        if matches!(answer, Value::ServerError(error) if matches!(error.code(), "NOPERM" | "ERR")) {
            self.has = None;
        }
    }
}
