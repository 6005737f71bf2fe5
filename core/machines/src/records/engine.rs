//! The engine of stores that keep [cells](crate::cell) and run their requests themselves: which kinds there are, and
//! that one name is one thing.

use std::borrow::Cow;
use std::convert::Infallible;

use crate::barrier_cell::BarrierCell;
use crate::cell::{Cell, Runs, foreign};
use crate::latch_cell::LatchCell;
use crate::lock_cell::{LockCell, Surroundings};
use crate::protocol::{Reply, Request};
use crate::shared_cell::SharedCell;
use crate::time::StoreTime;

/// Where a store keeps its records, as it is for one request: one key, at one moment.
pub trait Backend {
    /// Why keeping them can fail.
    type Error;

    /// What lies under the key, if anything does. Where two things may, of which one is in nobody's use, what is
    /// `wanted` is looked for first.
    ///
    /// # Errors
    /// What the store failed with.
    fn found(&mut self, wanted: RecordKind) -> Result<Option<Found>, Self::Error>;

    /// Removes what was found and is in nobody's use, since something else is to lie there.
    ///
    /// # Errors
    /// What the store failed with.
    fn make_room(&mut self, found: RecordKind) -> Result<(), Self::Error>;

    /// Runs a request on the record of its kind, which is made if there is none, and keeps what becomes of it.
    ///
    /// # Errors
    /// What the store failed with.
    fn run(&mut self, procedure: Procedure, env: &mut Surroundings<'_>) -> Result<Reply, Self::Error>;
}

/// What lies under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Of which kind it is; none that this version knows.
    pub kind: Option<RecordKind>,
    /// The word for it.
    pub word: Cow<'static, str>,
    /// Whether nothing else may lie there.
    pub in_use: bool,
}

/// Runs a request for one record, if what lies under the key is of its kind, in nobody's use, or nothing.
///
/// # Errors
/// What the store failed with.
pub fn execute<B: Backend>(
    backend: &mut B,
    procedure: Procedure,
    env: &mut Surroundings<'_>,
) -> Result<Reply, B::Error> {
    let found = backend.found(procedure.kind())?;
    if procedure.inspects() {
        // A look tells of whatever is there.
        return match found {
            Some(Found { kind: Some(kind), .. }) => backend.run(kind.inspect(), env),
            Some(other) => Ok(foreign(&other.word)),
            None => Ok(Reply::Nil),
        };
    }
    if let Some(other) = found.filter(|found| found.kind != Some(procedure.kind())) {
        if other.in_use {
            return Ok(foreign(&other.word));
        }
        if !procedure.only_looks()
            && let Some(kind) = other.kind
        {
            backend.make_room(kind)?;
        }
    }
    backend.run(procedure, env)
}

macro_rules! kinds {
    ($($(#[$doc:meta])+ $kind:ident: $cell:ty,)+) => {
        /// The kinds of things that a name can be.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum RecordKind {
            $($(#[$doc])+ $kind,)+
        }

        /// A request, as the cell of its kind takes it.
        #[derive(Clone, Debug)]
        pub enum Procedure {
            $($(#[$doc])+ $kind(<$cell as Cell>::Procedure),)+
        }

        /// A record in memory: a cell and what lies beside it.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Record {
            $($(#[$doc])+ $kind($cell, <$cell as Cell>::InMemory),)+
        }

        impl RecordKind {
            /// The request that tells how one stands.
            pub fn inspect(self) -> Procedure {
                match self {
                    $(RecordKind::$kind => Procedure::$kind(<$cell>::INSPECT),)+
                }
            }
        }

        impl Procedure {
            /// Reads a request; `None` when it is none that concerns one record.
            pub fn read(request: &Request) -> Option<Self> {
                $(if let Some(procedure) = <$cell>::read(request) {
                    return Some(Procedure::$kind(procedure));
                })+
                None
            }

            /// The kind that it is for.
            pub fn kind(&self) -> RecordKind {
                match self {
                    $(Procedure::$kind(_) => RecordKind::$kind,)+
                }
            }

            /// Whether it changes nothing.
            pub fn only_looks(&self) -> bool {
                match self {
                    $(Procedure::$kind(procedure) => <$cell>::only_looks(procedure),)+
                }
            }
        }

        impl Record {
            /// One of that kind, which nobody used yet.
            pub fn new(kind: RecordKind) -> Self {
                match kind {
                    $(RecordKind::$kind => Record::$kind(Default::default(), Default::default()),)+
                }
            }

            /// What it is.
            pub fn found(&self, now: StoreTime) -> Found {
                let (kind, word) = match self {
                    $(Record::$kind(cell, _) => (RecordKind::$kind, cell.word()),)+
                };
                Found { kind: Some(kind), word: word.into(), in_use: self.is_in_use(now) }
            }

            /// Whether anything would be different if it were not there.
            pub fn is_in_use(&self, now: StoreTime) -> bool {
                match self {
                    $(Record::$kind(cell, beside) => !cell.is_idle(beside, now),)+
                }
            }

            /// The highest token that it set aside.
            pub fn last(&self) -> u64 {
                match self {
                    $(Record::$kind(cell, _) => cell.last(),)+
                }
            }

            /// Runs a request on it, which refuses one for another kind.
            pub fn run(&mut self, procedure: Procedure, env: &mut Surroundings<'_>) -> Reply {
                match (self, procedure) {
                    $((Record::$kind(cell, beside), Procedure::$kind(procedure)) => {
                        let Ok(reply): Result<_, Infallible> = cell.run(procedure, beside, env);
                        reply
                    })+
                    (other, _) => foreign(&other.found(env.now).word),
                }
            }
        }
    };
}

kinds! {
    /// A lock.
    Lock: LockCell,
    /// A read/write lock or a semaphore.
    Shared: SharedCell,
    /// A latch.
    Latch: LatchCell,
    /// A barrier.
    Barrier: BarrierCell,
}

impl Procedure {
    /// Whether it looks at whatever lies there, which a lock's machine asks for.
    fn inspects(&self) -> bool {
        matches!(self, Procedure::Lock(crate::native_machine::Procedure::Inspect))
    }
}
