//! The rows that a client wrote or read last, as many as fit.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use super::table::Row;

/// So many rows are kept at least, and twice as many at most.
const ROOM: usize = 2048;

/// See the [module](self). `None` is a row that was not there.
#[derive(Debug, Default)]
pub(super) struct Known {
    young: HashMap<Arc<str>, Option<Row>>,
    old: HashMap<Arc<str>, Option<Row>>,
}

impl Known {
    /// What was known of the row last.
    pub(super) fn get(&self, key: &str) -> Option<Option<Row>> {
        self.young.get(key).or_else(|| self.old.get(key)).cloned()
    }

    /// The row is this one now.
    pub(super) fn learn(&mut self, key: Arc<str>, row: Option<Row>) {
        if self.young.len() >= ROOM {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key, row);
    }

    /// Nothing is known of the row any more.
    pub(super) fn forget(&mut self, key: &str) {
        self.young.remove(key);
        self.old.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_is_known_and_the_rest_is_bounded() {
        let mut known = Known::default();
        for n in 0..10 * ROOM {
            known.learn(format!("{n}").into(), None);
            assert!(known.young.len() + known.old.len() <= 2 * ROOM);
        }
        assert_eq!(known.get(&format!("{}", 10 * ROOM - 1)), Some(None));
        assert_eq!(known.get("0"), None);
        known.forget(&format!("{}", 10 * ROOM - 1));
        assert_eq!(known.get(&format!("{}", 10 * ROOM - 1)), None);
    }
}
