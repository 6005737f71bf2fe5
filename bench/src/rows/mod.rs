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

const FREE: &str = "One task acquires and releases a lock that nobody else wants. Contenders take turns of 50 pairs.";
const FREE_BY_STATEMENTS: &str = "One task acquires and releases a lock that nobody else wants. Contenders take turns of 50 \
                                  pairs. Requests are statements, as the server counts them.";
const FREE_ON_NODES: &str = "One task acquires and releases a lock that nobody else wants. Contenders take turns of 50 pairs. \
                             Requests are those to all nodes together. The peers have no fencing tokens, and ours do without \
                             them, too (layout `string`, `tokens=false`), but for the one that has them (layout `native`, as \
                             without any option). Each of ours also looks at a node's age, behind its try and in the same \
                             write: a `GET` that is not among the requests, and that the peers do without.";
const CROWDED: &str = "16 tasks of one process acquire and release the same lock for 3 seconds.";
const CROWDED_BY_STATEMENTS: &str = "16 tasks of one process acquire and release the same lock for 3 seconds. Requests are \
                                     statements, as the server counts them.";

/// A row of one task that has a lock for itself.
const fn free(id: &'static str, title: &'static str, store: Store, work: &'static str) -> Row {
    Row { id, title, work, store, kind: Kind::Pairs }
}

/// A row of 16 tasks of one process that want the same lock.
const fn crowded(id: &'static str, title: &'static str, store: Store, work: &'static str) -> Row {
    Row { id, title, work, store, kind: Kind::Crowd { processes: 1, tasks: 16, own_keys: false } }
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
    free("S1C", "A free lock on a Redis Cluster", Store::Cluster, FREE),
    Row {
        id: "S5C",
        title: "4 processes of 4 tasks, one lock on a Redis Cluster",
        work: "4 processes with 4 tasks each acquire and release the same lock for 3 seconds.",
        store: Store::Cluster,
        kind: Kind::Crowd { processes: 4, tasks: 4, own_keys: false },
    },
    free("S7", "A free lock on five Redis nodes (Redlock)", Store::Quorum, FREE_ON_NODES),
    free("S8", "A free lock on etcd", Store::Etcd, FREE),
    crowded("S8C", "16 tasks of one process, one lock on etcd", Store::Etcd, CROWDED),
    free("S9", "A free lock on ZooKeeper", Store::ZooKeeper, FREE),
    crowded("S9C", "16 tasks of one process, one lock on ZooKeeper", Store::ZooKeeper, CROWDED),
    free("S10", "A free lock on PostgreSQL", Store::Postgres, FREE_BY_STATEMENTS),
    crowded("S10C", "16 tasks of one process, one lock on PostgreSQL", Store::Postgres, CROWDED_BY_STATEMENTS),
    free("S10M", "A free lock on MariaDB", Store::MariaDb, FREE_BY_STATEMENTS),
    crowded("S10MC", "16 tasks of one process, one lock on MariaDB", Store::MariaDb, CROWDED_BY_STATEMENTS),
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
    /// The processes of its servers.
    pub(crate) pids: Vec<u32>,
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
