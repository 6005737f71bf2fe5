//! What is asked of a database: one statement for each of these.

use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::written::Written;

use crate::error::Error;
use crate::protocol::InboxId;
use crate::time::StoreTime;

/// A row but for its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// A number of this one write, which no other write of the row has: whoever knows it knows the whole row.
    pub(crate) version: i64,
    pub(crate) written: Written,
}

/// A row as it is expected to be, and what is to be written where it is.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) key: Arc<str>,
    pub(crate) expected: Expected,
    /// Nothing where it is only asked whether it is as expected.
    pub(crate) write: Option<Row>,
    /// What is told once it is written, as [texts](lockwright_machines::push).
    pub(crate) pushes: Vec<(InboxId, String)>,
}

impl Change {
    /// As the writing of a row that is there, where nobody is told of it.
    pub(crate) fn as_update(&self) -> Option<Update<'_>> {
        let (Expected::Version(expected), Some(row), []) = (self.expected, &self.write, &*self.pushes) else {
            return None;
        };
        Some(Update { key: &self.key, expected, row })
    }
}

/// The row of a version, and what is to be written in its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Update<'a> {
    pub(crate) key: &'a Arc<str>,
    pub(crate) expected: i64,
    pub(crate) row: &'a Row,
}

/// What is thought to lie there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Nobody knows: the row is read.
    Unknown,
    /// No row.
    Nothing,
    /// The row of this version.
    Version(i64),
}

impl Expected {
    /// As a number, which is none that a version has.
    pub(crate) fn number(self) -> i64 {
        match self {
            Expected::Unknown => -1,
            Expected::Nothing => 0,
            Expected::Version(version) => version,
        }
    }
}

/// When the database may do what it is asked for, by its own clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) from: StoreTime,
    pub(crate) until: StoreTime,
    /// How long an answer is waited for.
    pub(crate) patience: Duration,
}

/// What became of a change.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    /// The row was as expected, and is as it was to be written.
    Done,
    /// It was not, or it was not the time.
    Other(Option<Row>),
}

/// What became of all of them, and what the database's clock said.
#[derive(Debug)]
pub(crate) struct Exchanged {
    pub(crate) seen: Vec<Seen>,
    pub(crate) now: StoreTime,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The database undid it, since others were at the same rows: it is to be asked again.
    Again,
    /// It was not done and never will be.
    NotDone(Error),
    /// It may have been done, or may be yet.
    Unknown(Error),
}

/// A row with its key.
pub(crate) type Listed = (Arc<str>, Row);

/// Rows of records in some database.
pub(crate) trait Table: Send + Sync + std::fmt::Debug + 'static {
    /// Writes the rows that are as expected, each by itself, and tells of those that are not.
    fn exchange(&self, changes: &[&Change], window: Window) -> impl Future<Output = Result<Exchanged, Failure>> + Send;

    /// Writes the row if it is as expected, and says when; nothing of one that is not, or where it is not the time.
    fn update(
        &self,
        update: Update<'_>,
        window: Window,
    ) -> impl Future<Output = Result<Option<StoreTime>, Failure>> + Send;

    /// At most `count` rows whose keys follow `after` and lie between `from` and `to`, by their keys, and the time.
    fn page(
        &self,
        range: Range<'_>,
        patience: Duration,
    ) -> impl Future<Output = Result<(Vec<Listed>, StoreTime), Failure>> + Send;

    /// Removes those of the rows that still have these versions.
    fn remove(&self, rows: &[(Arc<str>, i64)], patience: Duration) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Which rows a page has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range<'a> {
    pub(crate) after: &'a str,
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
    /// Not written since so long.
    pub(crate) idle: Duration,
    pub(crate) count: usize,
}
