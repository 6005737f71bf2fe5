//! The recipes whose nodes stand in one line: what each calls its nodes, by what it sorts them, and for whom it waits.
//!
//! | recipe | joins | nodes |
//! |---|---|---|
//! | [`Mutex`](Recipe::Mutex) | Curator's `InterProcessMutex` and `LeaderSelector`, go-zookeeper's `Lock` | `_c_<uuid>-lock-<number>` |
//! | [`LeaderLatch`](Recipe::LeaderLatch) | Curator's `LeaderLatch` | `_c_<uuid>-latch-<number>` |
//! | [`Read`](Recipe::Read), [`Write`](Recipe::Write) | Curator's `InterProcessReadWriteLock` | `_c_<uuid>-__READ__<number>`, `..__WRIT__..` |
//! | [`KazooLock`](Recipe::KazooLock) | kazoo's `Lock`, `WriteLock`, `Election` | `<uuid>__lock__<number>` |
//! | [`KazooRead`](Recipe::KazooRead) | kazoo's `ReadLock` | `<uuid>__rlock__<number>` |
//!
//! The nodes of semaphores are Curator's and kazoo's, too, and lie in two directories; those of latches and barriers
//! are ours.
//!
//! Sources: `LockInternals`, `StandardLockInternalsDriver`, `InterProcessReadWriteLock` and `LeaderLatch` of Curator 5,
//! `kazoo.recipe.lock` of kazoo 2.10. A number is that of the directory's `cversion`: `%010d` of 32 bits.

use std::sync::Arc;

use super::{CONTAINER, PERSISTENT};
use crate::lease::{BARRIER, LATCH};
use crate::protocol::{AttemptId, Call};
use crate::share::ALL;
use crate::uuid::uuid;

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recipe {
    /// A lock of Curator's.
    Mutex,
    /// A candidate of Curator's leader latch.
    LeaderLatch,
    /// A reader of Curator's.
    Read,
    /// A writer of Curator's.
    Write,
    /// A lock of kazoo's, or a writer.
    KazooLock,
    /// A reader of kazoo's.
    KazooRead,
}

/// The library whose nodes they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// Apache Curator, and those that write the same.
    Curator,
    /// kazoo.
    Kazoo,
}

const RECIPES: [Recipe; 6] =
    [Recipe::Mutex, Recipe::LeaderLatch, Recipe::Read, Recipe::Write, Recipe::KazooLock, Recipe::KazooRead];

impl Recipe {
    /// Whose it is.
    pub fn library(self) -> Library {
        match self {
            Recipe::KazooLock | Recipe::KazooRead => Library::Kazoo,
            _ => Library::Curator,
        }
    }

    /// What stands before the number in the names of its nodes.
    pub const fn word(self) -> &'static str {
        match self {
            Recipe::Mutex => "lock-",
            Recipe::LeaderLatch => "latch-",
            Recipe::Read => "__READ__",
            Recipe::Write => "__WRIT__",
            Recipe::KazooLock => "__lock__",
            Recipe::KazooRead => "__rlock__",
        }
    }

    /// What lies there, in words.
    fn described(self) -> &'static str {
        match self {
            Recipe::Mutex => "a lock of Curator",
            Recipe::LeaderLatch => "a leader latch of Curator",
            Recipe::Read | Recipe::Write => "a read/write lock of Curator",
            Recipe::KazooLock => "a lock of kazoo",
            Recipe::KazooRead => "a read/write lock of kazoo",
        }
    }

    /// The words of all who stand in one line with it.
    fn words(self) -> &'static [&'static str] {
        match self {
            Recipe::Mutex => &["lock-"],
            Recipe::LeaderLatch => &["latch-"],
            Recipe::Read | Recipe::Write => &["__READ__", "__WRIT__"],
            Recipe::KazooLock | Recipe::KazooRead => &["__lock__", "__rlock__"],
        }
    }

    /// How the nodes made by one attempt begin.
    pub fn prefix(self, attempt: AttemptId) -> Arc<str> {
        match self.library() {
            Library::Curator => protection(attempt),
            Library::Kazoo => attempt.to_string().into(),
        }
    }

    /// What the children of the directory are sorted by, as text; `None` for one that does not count.
    ///
    /// Curator counts every child: by what follows the last of its words, or by the whole name. Java compares UTF-16
    /// units and Rust bytes; the two differ only for characters that ZooKeeper refuses. kazoo counts what ends with one
    /// of its words and a number.
    pub fn place(self, name: &str) -> Option<&str> {
        match self.library() {
            Library::Curator => Some(
                self.words()
                    .iter()
                    .fold(name, |name, word| name.rfind(word).map_or(name, |at| &name[at + word.len()..])),
            ),
            Library::Kazoo => self.words().iter().find_map(|word| numbered(name, word)),
        }
    }

    /// What the nodes of one attempt have in common.
    pub(super) fn owner(self, name: &str) -> &str {
        let word = self.words().iter().find(|word| numbered(name, word).is_some());
        word.and_then(|word| name.rfind(word)).map_or(name, |at| &name[..at])
    }

    /// Whether it waits for `name`, if that stands before it.
    pub fn waits_for(self, name: &str) -> bool {
        match self {
            Recipe::Read => name.contains(Recipe::Write.word()),
            Recipe::KazooRead => numbered(name, Recipe::KazooLock.word()).is_some(),
            _ => true,
        }
    }

    /// The words of a reader's node and a writer's, of a read/write lock.
    pub(super) fn pair(self) -> Option<(&'static str, &'static str)> {
        match self {
            Recipe::Read | Recipe::Write => Some((Recipe::Read.word(), Recipe::Write.word())),
            Recipe::KazooRead | Recipe::KazooLock => Some((Recipe::KazooRead.word(), Recipe::KazooLock.word())),
            Recipe::Mutex | Recipe::LeaderLatch => None,
        }
    }

    /// For how many units a node of that `name` stands, of a read/write lock.
    pub(super) fn units(self, name: &str) -> u32 {
        match self.pair() {
            Some((_, write)) if numbered(name, write).is_some() => ALL,
            _ => 1,
        }
    }

    /// Whether several may hold at once.
    pub(super) fn is_shared(self) -> bool {
        matches!(self, Recipe::Read | Recipe::KazooRead)
    }

    /// What lies there, in words, if `name` is beside the two directories of a semaphore and of another kind.
    pub(super) fn beside_permits(name: &str) -> Option<&'static str> {
        let line = RECIPES.iter().find(|recipe| numbered(name, recipe.word()).is_some());
        line.map(|recipe| recipe.described()).or_else(|| gate(name))
    }

    /// The same in the directory of a semaphore of kazoo's.
    pub(super) fn beside_kazoos_permits(name: &str) -> Option<&'static str> {
        if SEMAPHORE.contains(&name) { Some(PERMITS) } else { Recipe::beside_permits(name) }
    }

    /// The same beside the directory of this gate.
    pub(super) fn beside_gate(name: &str, own: &str) -> Option<&'static str> {
        match name {
            _ if name == own => None,
            _ if SEMAPHORE.contains(&name) => Some(PERMITS),
            _ => Recipe::beside_permits(name),
        }
    }

    /// Whether somebody may come to stand before it after it was made: a writer that becomes a reader makes a node with
    /// its old number before it deletes the old one.
    pub(super) fn may_be_overtaken(self) -> bool {
        matches!(self, Recipe::Write | Recipe::KazooLock)
    }

    /// What lies there, in words, if a child called `name` belongs to users of the path who would not see this one.
    pub(super) fn foreign(self, name: &str) -> Option<&'static str> {
        if self.library() == Library::Curator && SEMAPHORE.contains(&name) {
            return Some(PERMITS);
        }
        if let Some(what) = gate(name).filter(|_| self.library() == Library::Curator) {
            return Some(what);
        }
        if is_permit_of_kazoo(name) {
            return Some("a semaphore of kazoo");
        }
        let other = |other: &&Recipe| !self.words().contains(&other.word()) && numbered(name, other.word()).is_some();
        RECIPES.iter().find(other).map(|other| other.described())
    }

    /// How the directory is made where there is none: kazoo makes it once and relies on it, so that it may not go by
    /// itself.
    pub(super) fn parent(self) -> &'static Call {
        match self.library() {
            Library::Curator => &CONTAINER,
            Library::Kazoo => &PERSISTENT,
        }
    }
}

const PERMITS: &str = "a semaphore of Curator";

/// What is written to a holder's node to ask for the lock back (`Revoker`, `LockInternals.REVOKE_MESSAGE`).
pub const REVOKE: &str = "__REVOKE__";

/// The directories of Curator's semaphore.
pub const SEMAPHORE: [&str; 2] = ["locks", "leases"];

/// What stands behind the path of kazoo's semaphore in that of its lock.
pub const BESIDE: &str = "-__lock__";

/// The directory of the lock of kazoo's semaphore that is kept in `dir`.
pub fn beside(dir: &str) -> Arc<str> {
    format!("{dir}{BESIDE}").into()
}

/// Whether a child of this name is a permit of kazoo's semaphore: a uuid, or one of several of ours.
pub(super) fn is_permit_of_kazoo(name: &str) -> bool {
    permit_of_kazoo(name).is_some()
}

/// The attempt whose permit it would be.
fn permit_of_kazoo(name: &str) -> Option<AttemptId> {
    let (uuid, rest) = name.split_at_checked(32)?;
    let is_numbered = |rest: &str| rest.strip_prefix('-').is_some_and(|number| number.parse::<u32>().is_ok());
    let attempt = u128::from_str_radix(uuid, 16).ok().map(AttemptId)?;
    ((rest.is_empty() || is_numbered(rest)) && attempt.to_string() == uuid).then_some(attempt)
}

/// The directories of what is waited for and not held.
pub const GATES: [&str; 2] = [LATCH, BARRIER];

/// What stands before the number of one who waits for a latch.
pub(super) const WAITER: &str = "wait-";

/// What stands before how many parties there are and the number of a party at a barrier.
pub(super) const PARTY: &str = "party-";

/// What a child called `name` is of, in words, if it is the directory of a gate.
fn gate(name: &str) -> Option<&'static str> {
    match name {
        LATCH => Some("a latch"),
        BARRIER => Some("a barrier"),
        _ => None,
    }
}

/// What stands before the number of a lease.
pub(super) const LEASE: &str = "lease-";

/// The number at the end of `name`, if this word stands before it.
pub(super) fn numbered<'a>(name: &'a str, word: &str) -> Option<&'a str> {
    let number = &name[name.rfind(word)? + word.len()..];
    let digits = number.strip_prefix('-').unwrap_or(number);
    (digits.len() == 10 && digits.bytes().all(|digit| digit.is_ascii_digit())).then_some(number)
}

/// Whether a child of this name stands in a line of this library's.
pub(super) fn is_contender(library: Library, name: &str) -> bool {
    let stands = |recipe: &Recipe| recipe.library() == library && numbered(name, recipe.word()).is_some();
    RECIPES.iter().any(stands)
}

/// The number of a contender, or of a lease, whose name this is.
pub(super) fn sequence_of(name: &str) -> Option<i32> {
    let words = RECIPES.iter().map(|recipe| recipe.word()).chain([LEASE, WAITER]);
    words.filter_map(|word| numbered(name, word)).find_map(|number| number.parse().ok())
}

/// How Curator marks what one attempt made (`ProtectedUtils`): the attempt is the uuid.
pub(super) fn protection(attempt: AttemptId) -> Arc<str> {
    ["_c_", &uuid(attempt), "-"].concat().into()
}

/// Whether the child `name` is none of Curator's, whose uuids are of version 4, as one in 64 of ours is.
pub(super) fn is_certainly_ours(name: &str) -> bool {
    attempt_of(name).is_some_and(|AttemptId(number)| number >> 76 & 0xf != 4 || number >> 62 & 0b11 != 0b10)
}

/// The attempt that made the child `name`, if it was one of ours or looks like it.
pub fn attempt_of(name: &str) -> Option<AttemptId> {
    let read = |hex: &str| u128::from_str_radix(hex, 16).ok().map(AttemptId);
    if let Some(uuid) = name.strip_prefix("_c_").and_then(|rest| rest.get(..36)) {
        return read(&uuid.replace('-', "")).filter(|attempt| name.starts_with(&*protection(*attempt)));
    }
    let (uuid, rest) = name.split_at_checked(32)?;
    let words = [Recipe::KazooLock, Recipe::KazooRead].map(Recipe::word);
    let is_kazoos = words.iter().any(|word| rest.starts_with(word) && numbered(rest, word).is_some());
    read(uuid).filter(|attempt| is_kazoos && attempt.to_string() == uuid).or_else(|| permit_of_kazoo(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_sort_as_curator_sorts_them() {
        for (name, key) in [
            ("_c_7d1b0f7e-4b9f-4d5c-8a43-0d7d4a0f1c11-lock-0000000012", "0000000012"),
            ("_c_7d1b0f7e4b9f4d5c8a430d7d4a0f1c11-lock-0000000012", "0000000012"),
            ("lock-0000000012", "0000000012"),
            ("a-lock-b-lock-0000000012", "0000000012"),
            ("lock-lock-", ""),
            ("_c_x-lock--2147483648", "-2147483648"),
            (
                "f47ac10b58cc4372a5670e02b2c3d479__lock__0000000012",
                "f47ac10b58cc4372a5670e02b2c3d479__lock__0000000012",
            ),
            ("block", "block"),
            ("lock", "lock"),
            ("замок-lock-é", "é"),
            ("", ""),
        ] {
            assert_eq!(Recipe::Mutex.place(name), Some(key), "{name}");
        }
        for recipe in [Recipe::Read, Recipe::Write] {
            let places = ["_c_x-__READ__0000000003", "_c_x-__WRIT__0000000004", "lock-0000000001"]
                .map(|name| recipe.place(name));
            assert_eq!(places, [Some("0000000003"), Some("0000000004"), Some("lock-0000000001")]);
        }
        assert_eq!(Recipe::LeaderLatch.place("_c_x-latch-0000000003"), Some("0000000003"));
    }

    #[test]
    fn kazoo_counts_what_ends_with_its_words_and_a_number() {
        for recipe in [Recipe::KazooLock, Recipe::KazooRead] {
            for (name, place) in [
                ("f4__lock__0000000012", Some("0000000012")),
                ("f4__rlock__0000000013", Some("0000000013")),
                ("f4__lock__-2147483648", Some("-2147483648")),
                ("f4__lock__12", None),
                ("f4__lock__000000001x", None),
                ("_c_x-lock-0000000001", None),
                ("f4-é", None),
            ] {
                assert_eq!(recipe.place(name), place, "{name}");
            }
        }
    }

    #[test]
    fn readers_wait_for_writers_and_writers_for_everybody() {
        let (read, write) = ("_c_x-__READ__0000000001", "_c_x-__WRIT__0000000001");
        let waits = [Recipe::Read, Recipe::Write].map(|recipe| [read, write].map(|name| recipe.waits_for(name)));
        assert_eq!(waits, [[false, true], [true, true]]);
        let (read, write) = ("f4__rlock__0000000001", "f4__lock__0000000001");
        let waits =
            [Recipe::KazooRead, Recipe::KazooLock].map(|recipe| [read, write].map(|name| recipe.waits_for(name)));
        assert_eq!(waits, [[false, true], [true, true]]);
    }

    #[test]
    fn whoever_would_not_see_us_is_foreign() {
        let kazoo = "f47ac10b58cc4372a5670e02b2c3d479__lock__0000000012";
        let is_foreign = |recipe: Recipe, name| recipe.foreign(name).is_some();
        for (name, own) in [
            ("_c_x-lock-0000000001", &[Recipe::Mutex][..]),
            ("lock-0000000001", &[Recipe::Mutex]),
            ("_c_x-latch-0000000001", &[Recipe::LeaderLatch]),
            ("_c_x-__READ__0000000001", &[Recipe::Read, Recipe::Write]),
            ("_c_x-__WRIT__0000000001", &[Recipe::Read, Recipe::Write]),
            (kazoo, &[Recipe::KazooLock, Recipe::KazooRead]),
            ("f4__rlock__0000000012", &[Recipe::KazooLock, Recipe::KazooRead]),
            ("x-1-0000000001", &RECIPES),
            ("lock", &RECIPES),
        ] {
            let fine: Vec<_> = RECIPES.into_iter().filter(|recipe| !is_foreign(*recipe, name)).collect();
            assert_eq!(fine, own, "{name}");
        }
        assert!(is_foreign(Recipe::Mutex, "leases") && !is_foreign(Recipe::KazooLock, "locks"));
    }

    #[test]
    fn an_attempt_is_written_as_a_uuid() {
        let attempt = AttemptId(0x7d1b_0f7e_4b9f_4d5c_8a43_0d7d_4a0f_1c11);
        assert_eq!(&*protection(attempt), "_c_7d1b0f7e-4b9f-4d5c-8a43-0d7d4a0f1c11-");
        assert_eq!(&*protection(AttemptId(1)), "_c_00000000-0000-0000-0000-000000000001-");
        let made = format!("{}lock-0000000007", protection(attempt));
        assert_eq!(attempt_of(&made), Some(attempt));
        let kazoo = format!("{}__rlock__0000000007", Recipe::KazooRead.prefix(attempt));
        assert_eq!(kazoo, "7d1b0f7e4b9f4d5c8a430d7d4a0f1c11__rlock__0000000007");
        assert_eq!(attempt_of(&kazoo), Some(attempt));
        // A permit of kazoo's.
        assert_eq!(attempt_of("7d1b0f7e4b9f4d5c8a430d7d4a0f1c11"), Some(attempt));
        for other in [
            "lock-0000000007",
            "_c_7d1b0f7e4b9f4d5c8a430d7d4a0f1c11-lock-0000000007",
            "7d1b0f7e4b9f4d5c8a430d7d4a0f1c11-lock-0000000007",
            "_c_",
            &made.to_uppercase(),
        ] {
            assert_eq!(attempt_of(other), None, "{other}");
        }
    }
}
