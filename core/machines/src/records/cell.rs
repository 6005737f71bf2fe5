//! What the things that a name can be have in common. A *cell* is the state of one of them, as the `native` layout
//! keeps it; what lies beside it is its *storage*.

use std::fmt::Debug;

use crate::lock_cell::Surroundings;
use crate::protocol::{Reply, Request};
use crate::time::StoreTime;

/// The state of one thing that a name can be.
pub trait Cell: Clone + Debug + Default + PartialEq + 'static {
    /// A request of its machine, as the stores that run the cell themselves read it.
    type Procedure: Clone + Debug;
    /// What lies beside it, in memory.
    type InMemory: Clone + Debug + Default;

    /// Tells how it stands; asked for by a look at whatever lies under a name.
    const INSPECT: Self::Procedure;

    /// Reads a request; `None` when it is none of this cell's. An [`Arg::NotAfter`](crate::protocol::Arg::NotAfter)
    /// left in it means "never too late", which is right for stores whose calls cannot run late.
    fn read(request: &Request) -> Option<Self::Procedure>;

    /// Whether that changes nothing.
    fn only_looks(procedure: &Self::Procedure) -> bool;

    /// The word for what it is.
    fn word(&self) -> &'static str;

    /// The highest token that it set aside, or one above all that it gave.
    fn last(&self) -> u64;

    /// Whether nothing would be different if it were not there.
    fn is_idle(&self, beside: &Self::InMemory, now: StoreTime) -> bool;
}

/// A cell with a storage in which it can lie.
pub trait Runs<S>: Cell {
    /// Why that storage can fail.
    type Error;

    /// Runs a request on it.
    ///
    /// # Errors
    /// What the storage failed with.
    fn run(
        &mut self,
        procedure: Self::Procedure,
        storage: &mut S,
        env: &mut Surroundings<'_>,
    ) -> Result<Reply, Self::Error>;
}

/// What a store answers whose record under that name is something else.
pub fn foreign(what: &str) -> Reply {
    Reply::Error { code: "FOREIGN".into(), message: format!("this name is a {what}'s") }
}
