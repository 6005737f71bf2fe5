//! What a contender knows of a line at whose front it stood.
//!
//! A directory numbers its children as they come. Whoever had nobody to wait for with number n, has deleted that node
//! and is given n + 1 next has nobody to wait for: nobody came between, and nobody comes before. So it holds without
//! having the directory listed.
//!
//! That needs the same directory. One that was removed meanwhile, as containers are, and made again numbers from 0:
//! n + 1 others stood in it and may stand there yet. Each was created by a transaction of its own, as contenders are by
//! every library, so that the ensemble did at least as many since; where it did fewer, nobody made the directory again.

/// A node that had nobody to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Front {
    number: i32,
    /// The transaction that created it.
    czxid: u64,
    /// It was the next after another such node, so that the next may be expected to be one, too.
    again: bool,
}

impl Front {
    /// The node with that number, created by that transaction, has nobody to wait for; `earlier` is the one before it
    /// of the same client that had not.
    pub(super) fn at(number: i32, czxid: u64, earlier: Option<Self>) -> Self {
        let again = earlier.is_some_and(|earlier| earlier.is_followed_by(number, czxid));
        Front { number, czxid, again }
    }

    /// Whether the next one will probably have nobody to wait for.
    pub(super) fn is_likely_again(self) -> bool {
        self.again
    }

    /// Whether, once this one is deleted, a node with that number, created by that transaction, has nobody to wait for.
    pub(super) fn is_followed_by(self, number: i32, czxid: u64) -> bool {
        // In a directory that was made again: the deletion, nodes from 0 to this number, and the one that was created.
        let elsewhere = u64::try_from(self.number).map_or(0, |number| number + 3);
        let writes = czxid.saturating_sub(self.czxid);
        self.number.checked_add(1) == Some(number) && writes > 0 && writes < elsewhere
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_number_follows_if_too_little_was_written_for_another_directory() {
        let front = Front::at(7, 100, None);
        // Deleted, and created.
        assert!(front.is_followed_by(8, 102));
        // Ten writes could be the deletion, eight nodes of another directory, and this one.
        assert!(front.is_followed_by(8, 109) && !front.is_followed_by(8, 110));
        assert!(!front.is_followed_by(9, 102), "somebody came between");
        assert!(!front.is_followed_by(7, 102) && !front.is_followed_by(0, 102), "it is another directory");
        assert!(!front.is_followed_by(8, 100) && !front.is_followed_by(8, 99), "no server says so");
        assert!(!Front::at(i32::MAX, 100, None).is_followed_by(i32::MIN, 102), "the numbers turned negative");
        assert!(!Front::at(-4, 100, None).is_followed_by(-3, 102));
    }

    #[test]
    fn who_stood_there_twice_in_a_row_is_expected_to_again() {
        let first = Front::at(7, 100, None);
        assert!(!first.is_likely_again());
        assert!(Front::at(8, 102, Some(first)).is_likely_again());
        assert!(!Front::at(9, 104, Some(first)).is_likely_again());
    }
}
