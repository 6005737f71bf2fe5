//! What a contender wants of a name, the key that says so, and who of those who stand in line holds it.
//!
//! | key below the name | is of |
//! |---|---|
//! | `<seat>` | a contender for the lock |
//! | `<lease>` | the same, of Go's `concurrency.Mutex`, `concurrency.Election` and `etcdctl` |
//! | `read/<seat>.read`, `write/<seat>.write` | a reader, a writer |
//! | `read/<time>`, `write/<time>` | the same, of Go's `recipes.RWMutex` (Unix time in ns) |
//! | `permits/<seat>.<take>.<permits>` | who wants `take` permits of a semaphore that it says has `permits` |
//! | `latch/state/count`, `latch/state/shut` | a latch's count, and what stands there while it is not 0 |
//! | `latch/<client>.counted` | what a client counted down last |
//! | `latch/<seat>.wait` | who waits for the latch |
//! | `barrier/<attempt>.<parties>.party` | a place at a barrier that is for so many |
//! | `barrier/<attempt>.passed` | that place, once it passed; its value is its index |
//! | `barrier/opened` | that the barrier opened, for as long as the client lives that opened it last |
//!
//! Whatever else lies there is of another name, which goes on after a slash. An attempt and a [seat](super::seat) have
//! 32 hexadecimal digits, a lease 16 at most, a time at least 17 decimal ones; so each key says what it is. All stand
//! in one line, in the order in which their keys were created, and those at its head hold: readers up to the first
//! writer, permits up to as many as there are. So whoever holds goes on to hold while others come and go.
//!
//! Source: `client/v3/experimental/recipes/rwmutex.go` of etcd 3.4 to 3.6; semaphores are ours.

use std::sync::Arc;

use crate::error::{Error, Kind};
use crate::hex::Hex;
use crate::lease::{BARRIER, LATCH, LOCK};
use crate::protocol::AttemptId;
use crate::share::{Primitive, Share};

const READ: &str = "read";
const WRITE: &str = "write";
const PERMITS: &str = "permits";
const LATCH_FOLDER: &str = "latch";
const STATE: &str = "state";
const COUNT: &str = "count";
const SHUT: &str = "shut";
const COUNTED: &str = "counted";
const WAIT: &str = "wait";
const BARRIER_FOLDER: &str = "barrier";
const PARTY: &str = "party";
const PASSED: &str = "passed";
const OPENED: &str = "opened";

/// How many permits a semaphore can have: whoever asks reads that many keys.
pub const MOST_PERMITS: u32 = 1000;

/// What somebody wants of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The lock.
    Lock,
    /// To read.
    Read,
    /// To write.
    Write,
    /// Permits of a semaphore.
    Permits {
        /// How many.
        take: u32,
        /// How many there are, as far as it knows; what the first in line says counts.
        permits: u32,
    },
    /// What lies there of a latch.
    Latch,
    /// That it is open.
    Wait,
    /// A place at a barrier.
    Party {
        /// For how many it is, as far as it knows; what the first in line says counts.
        parties: u32,
    },
    /// A place that passed.
    Passed,
    /// A barrier that opened.
    Opened,
}

impl Part {
    /// The part that `share` is.
    pub fn of(share: Share) -> Self {
        match share.primitive {
            Primitive::Semaphore => Part::Permits { take: share.units, permits: share.capacity },
            Primitive::RwLock if share == Share::READ => Part::Read,
            Primitive::RwLock => Part::Write,
        }
    }

    /// What it is of; none for a lock.
    pub fn primitive(self) -> Option<Primitive> {
        match self {
            Part::Lock | Part::Latch | Part::Wait | Part::Party { .. } | Part::Passed | Part::Opened => None,
            Part::Read | Part::Write => Some(Primitive::RwLock),
            Part::Permits { .. } => Some(Primitive::Semaphore),
        }
    }

    /// The word for that.
    pub fn word(self) -> &'static str {
        match self {
            Part::Latch | Part::Wait => LATCH,
            Part::Party { .. } | Part::Passed | Part::Opened => BARRIER,
            _ => self.primitive().map_or(LOCK, Primitive::name),
        }
    }

    /// Why there can be no `other` of a name that this is of.
    pub(super) fn excludes(self, other: Part) -> Error {
        let message = format!("a {} is called so, and no {} can be; choose another name", self.word(), other.word());
        Error::new(Kind::ForeignLayout, "acquire", message)
    }

    /// How many units it is, as [`Share`] counts them.
    pub fn units(self) -> u32 {
        match self {
            Part::Lock | Part::Write => Share::WRITE.units,
            Part::Read | Part::Latch | Part::Wait | Part::Party { .. } | Part::Passed | Part::Opened => {
                Share::READ.units
            }
            Part::Permits { take, .. } => take,
        }
    }

    /// The key of an attempt at this part of `name`, or of the seat that it has.
    pub fn own_key(self, name: &str, attempt: AttemptId) -> Arc<str> {
        match self {
            Part::Lock => [name, "/", &Hex::of(attempt.0)].concat(),
            Part::Read => format!("{name}/{READ}/{attempt}.{READ}"),
            Part::Write => format!("{name}/{WRITE}/{attempt}.{WRITE}"),
            Part::Permits { take, permits } => format!("{name}/{PERMITS}/{attempt}.{take}.{permits}"),
            Part::Latch => format!("{name}/{LATCH_FOLDER}/{attempt}.{COUNTED}"),
            Part::Wait => format!("{name}/{LATCH_FOLDER}/{attempt}.{WAIT}"),
            Part::Party { parties } => format!("{name}/{BARRIER_FOLDER}/{attempt}.{parties}.{PARTY}"),
            Part::Passed => format!("{name}/{BARRIER_FOLDER}/{attempt}.{PASSED}"),
            Part::Opened => format!("{name}/{BARRIER_FOLDER}/{OPENED}"),
        }
        .into()
    }

    /// Below what all lie whom it has to wait for, if that is not all of `name`.
    pub fn queue(self, name: &str) -> Option<Arc<str>> {
        match self {
            Part::Read => Some(format!("{name}/{WRITE}").into()),
            // Others wait for the same, and are in nobody's way.
            Part::Wait => Some(format!("{name}/{LATCH_FOLDER}/{STATE}").into()),
            _ => None,
        }
    }

    /// How many keys have to be shown, so that there is no room where not all are.
    pub fn shown(self, at_least: i64) -> i64 {
        match self {
            Part::Permits { permits, .. } => at_least.max(i64::from(permits) + 1),
            _ => at_least,
        }
    }

    /// What `key` is, if it is of `name`.
    pub fn of_key(name: &str, key: &str) -> Option<Self> {
        let below = key.strip_prefix(name)?.strip_prefix('/')?;
        let Some((folder, rest)) = below.split_once('/') else { return Some(Part::Lock) };
        match folder {
            READ => is_of(rest, READ).then_some(Part::Read),
            WRITE => is_of(rest, WRITE).then_some(Part::Write),
            PERMITS => permits(rest),
            LATCH_FOLDER => match (rest.split_once('/'), rest.split_once('.')) {
                (Some((STATE, COUNT | SHUT)), _) => Some(Part::Latch),
                (_, Some((attempt, COUNTED))) => attempt_of(attempt).map(|_| Part::Latch),
                (_, Some((attempt, WAIT))) => attempt_of(attempt).map(|_| Part::Wait),
                _ => None,
            },
            BARRIER_FOLDER if rest == OPENED => Some(Part::Opened),
            BARRIER_FOLDER => place(rest),
            _ => None,
        }
    }

    /// Where it lies that the barrier `name` opened.
    pub fn opened_key(name: &str) -> String {
        format!("{name}/{BARRIER_FOLDER}/{OPENED}")
    }

    /// Where the count of the latch `name` lies.
    pub fn count_key(name: &str) -> String {
        format!("{name}/{LATCH_FOLDER}/{STATE}/{COUNT}")
    }

    /// Where something lies while it is not open.
    pub fn shut_key(name: &str) -> String {
        format!("{name}/{LATCH_FOLDER}/{STATE}/{SHUT}")
    }

    /// The name of the latch of which `key` is the count.
    pub fn of_count(key: &str) -> Option<&str> {
        let state = key.strip_suffix(COUNT)?.strip_suffix('/')?.strip_suffix(STATE)?;
        state.strip_suffix('/')?.strip_suffix(LATCH_FOLDER)?.strip_suffix('/')
    }

    /// The name that `key` is of and the attempt or seat whose it is, if it is one of ours.
    pub fn of_ours(key: &str) -> Option<(&str, AttemptId)> {
        let (folder, rest) = key.rsplit_once('/')?;
        let (attempt, of) = rest.split_once('.').unwrap_or((rest, ""));
        let attempt = attempt_of(attempt)?;
        let name = match of {
            "" => Some(folder),
            READ | WRITE => folder.strip_suffix(of)?.strip_suffix('/'),
            WAIT | COUNTED => folder.strip_suffix(LATCH_FOLDER)?.strip_suffix('/'),
            _ if place(rest).is_some() => folder.strip_suffix(BARRIER_FOLDER)?.strip_suffix('/'),
            _ => permits(rest).and_then(|_| folder.strip_suffix(PERMITS)?.strip_suffix('/')),
        };
        Some((name?, attempt))
    }
}

/// How many of those who stand in this line hold: all up to the first that has to wait.
pub fn holding(line: impl IntoIterator<Item = Part>) -> usize {
    let (mut first, mut units) = (None, 0);
    let holds = |part: Part| {
        let first = *first.get_or_insert(part);
        match (first, part) {
            (Part::Read, Part::Read) => true,
            (Part::Permits { permits, .. }, Part::Permits { take, .. }) => {
                units += u64::from(take);
                units <= u64::from(permits)
            }
            // Whoever is alone at the head.
            _ => std::mem::replace(&mut units, 1) == 0 && first == part,
        }
    };
    line.into_iter().map(holds).take_while(|holds| *holds).count()
}

fn is_of(rest: &str, word: &str) -> bool {
    let is_time = rest.len() >= 17 && rest.bytes().all(|byte| byte.is_ascii_digit());
    let ours = || rest.split_once('.').is_some_and(|(attempt, of)| of == word && attempt_of(attempt).is_some());
    is_time || ours()
}

fn permits(rest: &str) -> Option<Part> {
    let mut parts = rest.split('.');
    let (attempt, take, permits) = (parts.next()?, parts.next()?, parts.next()?);
    let number = |text: &str| text.parse().ok().filter(|number| *number > 0);
    attempt_of(attempt)?;
    parts.next().is_none().then_some(Part::Permits { take: number(take)?, permits: number(permits)? })
}

/// A place at a barrier, or what became of it.
fn place(rest: &str) -> Option<Part> {
    let (attempt, of) = rest.split_once('.')?;
    attempt_of(attempt)?;
    if of == PASSED {
        return Some(Part::Passed);
    }
    let parties = of.strip_suffix(PARTY)?.strip_suffix('.')?.parse().ok().filter(|parties| *parties > 0)?;
    Some(Part::Party { parties })
}

fn attempt_of(text: &str) -> Option<AttemptId> {
    let is_one = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_one.then(|| u128::from_str_radix(text, 16).ok().map(AttemptId)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Part; 8] = [
        Part::Lock,
        Part::Read,
        Part::Write,
        Part::Permits { take: 2, permits: 5 },
        Part::Latch,
        Part::Wait,
        Part::Party { parties: 3 },
        Part::Passed,
    ];

    #[test]
    fn a_key_says_what_it_is_and_whose() {
        let attempt = AttemptId(0x1234);
        for part in ALL {
            let key = part.own_key("a/b", attempt);
            assert_eq!((Part::of_key("a/b", &key), Part::of_ours(&key)), (Some(part), Some(("a/b", attempt))), "{key}");
            assert_eq!(Part::of_key("a", &key), None, "{key}");
            // A lock whose name is that of the folder.
            let (folder, _) = key.rsplit_once('/').unwrap();
            assert_eq!(
                Part::of_key("a/b", &Part::Lock.own_key(folder, attempt)) == Some(Part::Lock),
                part == Part::Lock
            );
        }
        for (key, part) in [
            ("a/1f", Some(Part::Lock)),
            ("a/read/1700000000123456789", Some(Part::Read)),
            ("a/write/1700000000123456789", Some(Part::Write)),
            ("a/read/70cf8c1a2b3c4d5e", None),
            ("a/write/1234567890123456", None),
            ("a/permits/00000000000000000000000000000001.0.5", None),
            ("a/permits/00000000000000000000000000000001.1.5.9", None),
            ("a/permits/1.1.5", None),
            ("a/latch/state/count", Some(Part::Latch)),
            ("a/latch/state/shut", Some(Part::Latch)),
            ("a/latch/1f", None),
            ("a/barrier/opened", Some(Part::Opened)),
            ("a/barrier/00000000000000000000000000000001.0.party", None),
            ("a/barrier/00000000000000000000000000000001.party", None),
            ("a/latch/state/1f", None),
            ("a/latch/00000000000000000000000000000001.read", None),
            ("a/other/00000000000000000000000000000001.read", None),
            ("ab/1f", None),
        ] {
            assert_eq!(Part::of_key("a", key), part, "{key}");
        }
        assert_eq!(Part::of_ours("a/1f"), None);
        for name in ["a", "a/latch"] {
            assert_eq!(Part::of_count(&Part::count_key(name)), Some(name));
            assert_eq!(Part::of_key(name, &Part::shut_key(name)), Some(Part::Latch));
        }
        assert_eq!([Part::of_count("a/state/count"), Part::of_count("a/mylatch/state/count")], [None, None]);
        assert_eq!(Part::of_ours("a/write/00000000000000000000000000000001.read"), None);
    }

    #[test]
    fn those_at_the_head_hold() {
        let of = |take, permits| Part::Permits { take, permits };
        for (line, holds) in [
            (&[][..], 0),
            (&[Part::Lock, Part::Lock], 1),
            (&[Part::Read, Part::Read, Part::Write, Part::Read], 2),
            (&[Part::Write, Part::Read], 1),
            (&[Part::Write, Part::Write], 1),
            // What the first says counts, and nobody is overtaken.
            (&[of(2, 3), of(1, 9), of(1, 9)], 2),
            (&[of(2, 3), of(2, 3), of(1, 3)], 1),
            (&[of(1, 9), of(2, 3), of(3, 3)], 3),
            (&[of(4, 3)], 0),
            (&[Part::Wait], 1),
            // It is shut.
            (&[Part::Latch, Part::Wait], 1),
        ] {
            assert_eq!(holding(line.iter().copied()), holds, "{line:?}");
        }
    }
}
