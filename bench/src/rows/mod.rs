//! The rows of figures: what is to be done, and how it is measured. One file a kind of work.

mod cold;
mod crowd;
mod held;
mod pairs;

use crate::Result;
use crate::entrant::Entrant;
use crate::report::{Better, Column, Role};
use crate::server::{Server, Store};

/// One row.
pub(crate) struct Row {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) work: &'static str,
    pub(crate) store: Store,
    kind: Kind,
}

enum Kind {
    Pairs,
    Crowd { processes: usize, tasks: usize, own_keys: bool },
    Cold,
    Held,
}

pub(crate) const ROWS: &[Row] = &[
    Row {
        id: "S1",
        title: "A free lock, blocking",
        work: "One thread acquires and releases a lock that nobody else wants. Contenders take turns of 50 pairs.",
        store: Store::Redis,
        kind: Kind::Pairs,
    },
    Row {
        id: "S2",
        title: "A free lock, awaited",
        work: "One task awaits and releases a lock that nobody else wants. Contenders take turns of 50 pairs.",
        store: Store::Redis,
        kind: Kind::Pairs,
    },
    Row {
        id: "S3",
        title: "16 tasks, 16 locks",
        work: "16 tasks of one process acquire and release, each a lock of its own, for 3 seconds.",
        store: Store::Redis,
        kind: Kind::Crowd { processes: 1, tasks: 16, own_keys: true },
    },
    Row {
        id: "S4",
        title: "16 tasks of one process, one lock",
        work: "16 tasks of one process acquire and release the same lock for 3 seconds.",
        store: Store::Redis,
        kind: Kind::Crowd { processes: 1, tasks: 16, own_keys: false },
    },
    Row {
        id: "S4Q",
        title: "10,000 tasks in line for one lock",
        work: "10,000 tasks of one process acquire and release the same fair lock for 3 seconds, so that as many wait in its queue \
               at the store.",
        store: Store::Redis,
        kind: Kind::Crowd { processes: 1, tasks: 10_000, own_keys: false },
    },
    Row {
        id: "S4B",
        title: "16 tasks of one process, one barrier",
        work: "16 tasks of one process wait for one another at the same barrier, again and again, for 3 seconds. A pair is one \
               task's passage, and 16 of them are an opening.",
        store: Store::Redis,
        kind: Kind::Crowd { processes: 1, tasks: 16, own_keys: false },
    },
    Row {
        id: "S5",
        title: "4 processes of 4 tasks, one lock",
        work: "4 processes with 4 tasks each acquire and release the same lock for 3 seconds.",
        store: Store::Redis,
        kind: Kind::Crowd { processes: 4, tasks: 4, own_keys: false },
    },
    Row {
        id: "S1R",
        title: "A free read/write lock",
        work: "One thread acquires and releases, as a reader, a read/write lock that nobody else wants. Contenders take turns of 50 \
               pairs.",
        store: Store::Redis,
        kind: Kind::Pairs,
    },
    Row {
        id: "S5R",
        title: "4 processes of 4 tasks, one read/write lock",
        work: "4 processes with 4 tasks each acquire and release the same read/write lock for 3 seconds; the first task of each \
               writes, the others read.",
        store: Store::Redis,
        kind: Kind::Crowd { processes: 4, tasks: 4, own_keys: false },
    },
    Row {
        id: "S1P",
        title: "A free semaphore",
        work: "One thread acquires and releases a permit of a semaphore that has 4 and that nobody else wants. Contenders take \
               turns of 50 pairs.",
        store: Store::Redis,
        kind: Kind::Pairs,
    },
    Row {
        id: "S5P",
        title: "4 processes of 4 tasks, one semaphore",
        work: "4 processes with 4 tasks each acquire and release a permit of the same semaphore, which has 4, for 3 seconds.",
        store: Store::Redis,
        kind: Kind::Crowd { processes: 4, tasks: 4, own_keys: false },
    },
    Row {
        id: "S8",
        title: "A free lock on etcd",
        work: "One task acquires and releases a lock that nobody else wants. Contenders take turns of 50 pairs.",
        store: Store::Etcd,
        kind: Kind::Pairs,
    },
    Row {
        id: "S8C",
        title: "16 tasks of one process, one lock on etcd",
        work: "16 tasks of one process acquire and release the same lock for 3 seconds.",
        store: Store::Etcd,
        kind: Kind::Crowd { processes: 1, tasks: 16, own_keys: false },
    },
    Row {
        id: "S9",
        title: "A free lock on ZooKeeper",
        work: "One task acquires and releases a lock that nobody else wants. Contenders take turns of 50 pairs.",
        store: Store::ZooKeeper,
        kind: Kind::Pairs,
    },
    Row {
        id: "S9C",
        title: "16 tasks of one process, one lock on ZooKeeper",
        work: "16 tasks of one process acquire and release the same lock for 3 seconds.",
        store: Store::ZooKeeper,
        kind: Kind::Crowd { processes: 1, tasks: 16, own_keys: false },
    },
    Row {
        id: "S10",
        title: "A free lock on PostgreSQL",
        work: "One task acquires and releases a lock that nobody else wants. Contenders take turns of 50 pairs. Requests are \
               statements, as the server counts them.",
        store: Store::Postgres,
        kind: Kind::Pairs,
    },
    Row {
        id: "S10C",
        title: "16 tasks of one process, one lock on PostgreSQL",
        work: "16 tasks of one process acquire and release the same lock for 3 seconds. Requests are statements, as the server \
               counts them.",
        store: Store::Postgres,
        kind: Kind::Crowd { processes: 1, tasks: 16, own_keys: false },
    },
    Row {
        id: "S10M",
        title: "A free lock on MariaDB",
        work: "One task acquires and releases a lock that nobody else wants. Contenders take turns of 50 pairs. Requests are \
               statements, as the server counts them.",
        store: Store::MariaDb,
        kind: Kind::Pairs,
    },
    Row {
        id: "S10MC",
        title: "16 tasks of one process, one lock on MariaDB",
        work: "16 tasks of one process acquire and release the same lock for 3 seconds. Requests are statements, as the server \
               counts them.",
        store: Store::MariaDb,
        kind: Kind::Crowd { processes: 1, tasks: 16, own_keys: false },
    },
    Row {
        id: "S11",
        title: "Many locks, held and renewed",
        work: "One process holds 100,000 locks and renews them.",
        store: Store::Redis,
        kind: Kind::Held,
    },
    Row {
        id: "S12",
        title: "Cold start",
        work: "A new process imports the library, connects and has its first lock; its runtime alone beside it.",
        store: Store::Redis,
        kind: Kind::Cold,
    },
];

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) rounds: usize,
    pub(crate) quick: bool,
}

/// Where it is done.
pub(crate) struct MeasuredStore {
    pub(crate) url: String,
    pub(crate) server: Box<dyn Server>,
    /// The server's process.
    pub(crate) pid: u32,
}

impl Row {
    /// Lets all entrants do this row's work, by turns.
    ///
    /// # Errors
    /// When the server cannot be asked; a contender that fails is out by itself.
    pub(crate) fn measure(
        &self,
        place: &mut MeasuredStore,
        entrants: &mut [Entrant],
        size: Size,
    ) -> Result<Vec<Column>> {
        match self.kind {
            Kind::Pairs => pairs::measure(self.id, place, entrants, size),
            Kind::Crowd { processes, tasks, own_keys } => {
                crowd::Crowd { row: self.id, processes, tasks, own_keys }.measure(place, entrants, size)
            }
            Kind::Cold => cold::measure(place, entrants, size),
            Kind::Held => held::measure(place, entrants, size),
        }
    }
}

fn column(key: &str, heading: &str, decimals: usize) -> Column {
    Column { key: key.to_owned(), heading: heading.to_owned(), decimals, spread: false, picture: None }
}

/// A column with the least and the greatest of the rounds beside the median.
fn main_column(key: &str, heading: &str, decimals: usize, picture: Option<Better>) -> Column {
    Column { spread: true, picture, ..column(key, heading, decimals) }
}

fn yardstick(entrants: &[Entrant]) -> Option<usize> {
    entrants.iter().position(|entrant| entrant.is(Role::Yardstick))
}

fn progress(row: &str, round: usize, rounds: usize, what: &str) {
    eprintln!("{row} round {} of {rounds}: {what}", round + 1);
}
