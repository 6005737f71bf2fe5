//! The `native` layout of stores that run the [cells](crate::cell) themselves: the names of its procedures say it all.

use crate::barrier_machine::BarrierCalls;
use crate::engine::Procedure;
use crate::guarantee::Guarantees;
use crate::latch_machine::LatchCalls;
use crate::native_machine::{Calls, NativeLayout, OwnCalls};
use crate::protocol::Request;
use crate::shared_machine::SharedCalls;

/// The procedures of locks.
pub static LOCK: Calls = Calls::of_cell();
/// Those that only locks of this layout have.
pub static OWN: OwnCalls = OwnCalls::of_cell();
static SHARED: SharedCalls = SharedCalls::of_cell();
static LATCH: LatchCalls = LatchCalls::of_cell();
static BARRIER: BarrierCalls = BarrierCalls::of_cell();

/// The layout of a store with these `guarantees`, for a connection that puts `prefix` before every name.
pub fn layout(prefix: &str, guarantees: fn() -> Guarantees) -> NativeLayout {
    NativeLayout {
        calls: &LOCK,
        own: &OWN,
        shared: &SHARED,
        latch: &LATCH,
        barrier: &BARRIER,
        guarantees,
        key: |prefix, name| format!("{prefix}{name}"),
        name_of: |prefix, key| key.strip_prefix(prefix).map(str::to_owned),
        prefix: prefix.to_owned(),
    }
}

/// Whether the request is one for a page of names.
pub fn lists(request: &Request) -> bool {
    request.call.name == LOCK.list.name
}

/// Whether the request changes nothing.
pub fn only_looks(request: &Request) -> bool {
    lists(request) || Procedure::read(request).is_some_and(|procedure| procedure.only_looks())
}
