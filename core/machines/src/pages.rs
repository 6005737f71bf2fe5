//! An end for answers that come in pages: a server that is broken, or hostile, would have them turned for ever.

use crate::error::{Error, Kind, Result};

/// More pages than an honest answer has: a Redis server keeps at most 2^32 keys, and each page looks at 500 of them.
const MOST: u32 = 1 << 23;

/// The pages of one answer, as they are turned.
///
/// Each begins behind the one before, also in a table of keys that grows or shrinks meanwhile, so that no cursor comes
/// twice. One that comes again is found with a single one in memory, which is changed at the pages 1, 2, 4, 8 and so
/// on: one of those lies in the circle, however long that is and whatever came before it (Brent, *An improved Monte
/// Carlo factorization algorithm*, 1980).
#[derive(Debug, Default)]
pub(crate) struct Pages {
    turned: u32,
    /// Empty is the cursor of the first page.
    kept: String,
}

impl Pages {
    /// The answer goes on at `cursor`.
    ///
    /// # Errors
    /// `protocol` where it would never end.
    pub(crate) fn turn(&mut self, operation: &'static str, cursor: &str) -> Result<()> {
        self.turned += 1;
        if self.turned > MOST || cursor == self.kept {
            let message = "the server's answer has no end: it says again and again that there is more; see what \
                           answers at that address";
            return Err(Error::new(Kind::Protocol, operation, message));
        }
        if self.turned.is_power_of_two() {
            cursor.clone_into(&mut self.kept);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turned(cursors: impl Iterator<Item = String>) -> Option<usize> {
        let mut pages = Pages::default();
        let mut errors = cursors.map(|cursor| pages.turn("list", &cursor));
        let at = errors.position(|turned| turned.is_err_and(|error| error.kind() == Kind::Protocol));
        at.map(|at| at + 1)
    }

    #[test]
    fn a_cursor_that_comes_again_is_found_soon() {
        assert_eq!(turned(["".to_owned()].into_iter()), Some(1));
        assert_eq!(turned(std::iter::repeat_n("7".to_owned(), 9)), Some(2));
        for (before, circle) in [(0, 2), (1, 3), (5, 7), (100, 1), (1_000, 1_000)] {
            let cursor = |page: usize| page.checked_sub(before).map_or(page, |inside| before + inside % circle);
            let found = turned((0..).map(|page| (cursor(page) + 1).to_string()));
            assert!(found.is_some_and(|at| at <= 4 * (before + circle)), "{before} and {circle}: {found:?}");
        }
    }

    #[test]
    fn as_many_pages_as_a_server_has_keys_for_are_turned_and_no_more() {
        let mut pages = Pages { turned: MOST - 1, kept: "7".into() };
        assert!(pages.turn("list", "8").is_ok());
        assert!(pages.turn("list", "9").is_err());
        assert_eq!(turned((1..100_000).map(|page| page.to_string())), None);
    }
}
