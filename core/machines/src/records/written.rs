//! A record as a word and a text, for stores that keep those and know nothing of cells: what requests make of it.
//! It is read, the cell runs, and what became of it is written.

use std::convert::Infallible;
use std::sync::Arc;

use crate::cell::foreign;
use crate::engine::{Backend, Found, Procedure, Record, RecordKind, execute};
use crate::lock_cell::Surroundings;

use super::text;
use crate::protocol::{InboxId, Reply, Request, StoreEvent};
use crate::time::StoreTime;

/// What lies under a key.
#[derive(Clone, Debug)]
pub struct Written {
    /// The word for what it is.
    pub kind: Arc<str>,
    /// The record: JSON, with times in microseconds since 1970.
    pub record: Arc<str>,
    /// What that says, where it was written here: whoever uses a record alone need not read its text again.
    read: Option<Arc<Record>>,
}

impl Written {
    /// Those texts.
    pub fn of(kind: impl Into<Arc<str>>, record: impl Into<Arc<str>>) -> Self {
        Written { kind: kind.into(), record: record.into(), read: None }
    }
}

impl PartialEq for Written {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.record == other.record
    }
}

impl Eq for Written {}

/// What requests come to that concern one record.
#[derive(Debug)]
pub struct Computed {
    /// One for each.
    pub replies: Vec<Reply>,
    /// What is to be told once it is kept.
    pub pushes: Vec<(InboxId, StoreEvent)>,
    /// What lies there then; none where nothing changed.
    pub kept: Option<Written>,
}

/// Runs `requests`, one after the other, on what is `written` there at `now`. Whether somebody listens at an inbox is
/// `alive`'s to say.
pub fn compute<'a>(
    written: Option<&Written>,
    requests: impl Iterator<Item = &'a Request>,
    now: StoreTime,
    alive: &dyn Fn(InboxId) -> bool,
) -> Computed {
    let mut key = Key::of(written, now);
    let (mut replies, mut pushes) = (Vec::new(), Vec::new());
    for request in requests {
        let Some(procedure) = Procedure::read(request) else {
            let message = format!("the request `{}` is none of this layout's", request.call.name);
            replies.push(Reply::Error { code: "ERR".into(), message });
            continue;
        };
        let token_floor = u64::try_from(now.0).unwrap_or(0);
        let mut around = Surroundings { now, token_floor, alive, pushes: Vec::new() };
        let Ok(reply) = execute(&mut key, procedure, &mut around);
        replies.push(reply);
        pushes.append(&mut around.pushes);
    }
    Computed { replies, pushes, kept: key.kept(written) }
}

/// Whether nothing would be different if it were not there.
pub fn is_idle(written: &Written, now: StoreTime) -> bool {
    text::read(&written.record).is_some_and(|record| !record.is_in_use(now))
}

/// Whether nobody needs it who used it last: what leases there are ended before `then`, and whoever waits would have
/// asked since.
pub fn is_over(written: &Written, then: StoreTime) -> bool {
    match text::read(&written.record) {
        Some(Record::Lock(cell, _)) => cell.hold.is_none_or(|hold| hold.expires < then),
        Some(Record::Shared(cell, beside)) => {
            !cell.resized && beside.holders.values().all(|holder| holder.expires < then)
        }
        Some(gate) => !gate.is_in_use(then),
        None => false,
    }
}

/// One key, at one moment.
struct Key {
    lies: Lies,
    /// The highest token of what lay there and went.
    gone: u64,
    now: StoreTime,
}

enum Lies {
    Nothing,
    Record(Record),
    /// What this version cannot read, by its word.
    Unknown(Arc<str>),
}

impl Key {
    fn of(written: Option<&Written>, now: StoreTime) -> Self {
        let lies = match written {
            None => Lies::Nothing,
            Some(Written { read: Some(record), .. }) => Lies::Record(Record::clone(record)),
            Some(it) => text::read(&it.record).map_or_else(|| Lies::Unknown(it.kind.clone()), Lies::Record),
        };
        Key { lies, gone: 0, now }
    }

    fn kept(self, before: Option<&Written>) -> Option<Written> {
        let Lies::Record(record) = self.lies else { return None };
        let length = before.map_or(0, |before| before.record.len());
        let text = text::write(&record, length);
        if before.is_some_and(|before| *before.record == *text) || (before.is_none() && !record.is_in_use(self.now)) {
            return None;
        }
        let word = record.found(self.now).word;
        let known = before.filter(|before| *before.kind == *word);
        let kind = known.map_or_else(|| word.into(), |before| before.kind.clone());
        // Those at a barrier have numbers, which begin anew when it is read.
        let read = (!matches!(record, Record::Barrier(..))).then(|| Arc::new(record));
        debug_assert!(read.is_none() || text::read(&text).as_ref() == read.as_deref(), "others read something else");
        Some(Written { kind, record: text.into(), read })
    }
}

impl Backend for Key {
    type Error = Infallible;

    fn found(&mut self, _: RecordKind) -> Result<Option<Found>, Infallible> {
        Ok(match &self.lies {
            Lies::Nothing => None,
            Lies::Unknown(word) => Some(Found { kind: None, word: word.to_string().into(), in_use: true }),
            // A latch or a barrier that is over is not there any more.
            Lies::Record(record @ (Record::Latch(..) | Record::Barrier(..))) => {
                Some(record.found(self.now)).filter(|found| found.in_use)
            }
            Lies::Record(record) => Some(record.found(self.now)),
        })
    }

    fn make_room(&mut self, _: RecordKind) -> Result<(), Infallible> {
        if let Lies::Record(record) = &self.lies {
            self.gone = record.last();
            self.lies = Lies::Nothing;
        }
        Ok(())
    }

    fn run(&mut self, procedure: Procedure, env: &mut Surroundings<'_>) -> Result<Reply, Infallible> {
        let kind = procedure.kind();
        let is_other = |record: &Record| record.found(self.now).kind != Some(kind);
        if let Lies::Unknown(word) = &self.lies {
            return Ok(foreign(word));
        }
        if !matches!(&self.lies, Lies::Record(record) if !is_other(record)) {
            let fresh = Record::new(kind);
            if procedure.only_looks() {
                // What lies there in nobody's use is not taken away by a look.
                return Ok(fresh.clone().run(procedure, env));
            }
            if let Lies::Record(other) = &self.lies {
                self.gone = other.last();
            }
            env.token_floor = env.token_floor.max(self.gone + 1);
            self.lies = Lies::Record(fresh);
        }
        let Lies::Record(record) = &mut self.lies else { return Ok(Reply::Nil) };
        Ok(record.run(procedure, env))
    }
}
