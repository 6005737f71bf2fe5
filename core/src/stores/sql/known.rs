//! The rows that a client wrote or read last, as many as fit.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use super::table::Row;

/// So many rows are kept at least, and twice as many at most.
const ROOM: usize = 2048;

/// A row is taken for ours alone once this client wrote it so often without finding that somebody else had: of a row
/// that several use, it mostly has an old idea.
const OURS: u32 = 4;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Known {
    young: HashMap<Arc<str>, Entry>,
    old: HashMap<Arc<str>, Entry>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// `None` where it was not there, or nothing is known of it.
    pub(super) row: Option<Row>,
    /// How often this client wrote it since it read it.
    writes: u32,
}

impl Entry {
    /// The row was read, and is this one.
    pub(super) fn read(row: Option<Row>) -> Self {
        Entry { row, writes: 0 }
    }

    /// This client wrote the row in its place.
    pub(super) fn written(&self, row: Row) -> Self {
        Entry { row: Some(row), writes: self.writes.saturating_add(1) }
    }

    pub(super) fn is_ours(&self) -> bool {
        self.writes >= OURS
    }
}

impl Known {
    /// What was known of the row last.
    pub(super) fn get(&self, key: &str) -> Entry {
        self.young.get(key).or_else(|| self.old.get(key)).cloned().unwrap_or_default()
    }

    /// This is what is known of the row now.
    pub(super) fn learn(&mut self, key: Arc<str>, entry: Entry) {
        if self.young.len() >= ROOM {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key, entry);
    }

    /// Nothing is known of the row any more.
    pub(super) fn forget(&mut self, key: &str) {
        self.young.remove(key);
        self.old.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use lockwright_machines::written::Written;

    use super::*;

    fn row(version: i64) -> Row {
        let written = Written::of("lock", "{}");
        Row { version, written }
    }

    #[test]
    fn what_was_used_last_is_known_and_the_rest_is_bounded() {
        let mut known = Known::default();
        for n in 0..10 * ROOM {
            known.learn(format!("{n}").into(), Entry::read(Some(row(1))));
            assert!(known.young.len() + known.old.len() <= 2 * ROOM);
        }
        let last = format!("{}", 10 * ROOM - 1);
        assert_eq!(known.get(&last).row, Some(row(1)));
        assert_eq!(known.get("0"), Entry::default());
        known.forget(&last);
        assert_eq!(known.get(&last), Entry::default());
    }

    #[test]
    fn a_row_is_ours_until_somebody_else_wrote_it_or_nothing_is_known_of_it() {
        let mut known = Known::default();
        let write = |known: &mut Known| known.learn("x".into(), known.get("x").written(row(1)));
        (1..OURS).for_each(|_| write(&mut known));
        assert!(!known.get("x").is_ours());
        write(&mut known);
        assert!(known.get("x").is_ours() && !known.get("y").is_ours());
        known.learn("x".into(), Entry::read(Some(row(1))));
        assert!(!known.get("x").is_ours());
        (0..OURS).for_each(|_| write(&mut known));
        known.forget("x");
        assert!(!known.get("x").is_ours());
    }
}
