//! What a task that works under a lock writes down, one JSON object a line, as things happen.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::clock::Nanos;

/// One line.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Record {
    /// When, on the boot clock. Each event says of what.
    pub at: Nanos,
    /// The process.
    pub pid: u32,
    /// The task, unique among all processes.
    pub task: String,
    /// The token it held.
    pub token: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// `acquire` returned at `at`; it was called at `asked`, and the guard said that it would hold until `until`. Of
    /// what several may hold it has `units`: as many as it took permits, 1 as a reader, [`ALL`] as the writer.
    Grant {
        asked: Nanos,
        until: Nanos,
        #[serde(default = "one")]
        units: u64,
    },
    /// The counter was read after `begin` and `value` was in place before `at`; then the guard said whether it still
    /// `held`, and until when.
    Increment { begin: Nanos, value: u64, held: bool, until: Nanos },
    /// `release` returned at `at`.
    Released { outcome: String },
    /// The guard said at `at` that the lock was lost.
    Lost { why: String },
}

/// The units of a read/write lock.
pub const ALL: u64 = 1 << 30;

fn one() -> u64 {
    1
}

/// Appends lines to a file that others append to as well.
#[derive(Debug)]
pub struct Log(File);

impl Log {
    /// Opens the log, or makes it.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Log(File::options().create(true).append(true).open(path)?))
    }

    /// Appends a line, in one write: whoever is killed has written all of it or nothing.
    pub fn write(&self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        (&self.0).write_all(&line)
    }
}

/// Reads a log.
pub fn read(path: &Path) -> io::Result<Vec<Record>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => file?,
    };
    BufReader::new(file).lines().map(|line| Ok(serde_json::from_str(&line?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_what_the_readme_shows() {
        let line = r#"{"at":9,"pid":7,"task":"a-1","token":42,"event":"increment","begin":5,"value":3,"held":true,"until":99}"#;
        let record: Record = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&record).unwrap(), line);
        assert!(include_str!("../README.md").contains(line));
    }
}
