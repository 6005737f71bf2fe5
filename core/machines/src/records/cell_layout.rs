//! The `native` layout of stores that run the [cells](crate::cell) themselves: the names of its procedures say it all.

use crate::barrier_machine::BarrierCalls;
use crate::engine::Procedure;
use crate::guarantee::Guarantees;
use crate::latch_machine::LatchCalls;
use crate::native_machine::{Calls, NativeLayout, OwnCalls};
use crate::protocol::{Arg, Call, Reply, Request};
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

/// The procedure of this name, if there is one.
pub fn call(name: &str) -> Option<&'static Call> {
    let Calls { acquire, renew, release, undo, inspect, break_hold, list } = &LOCK;
    let of_locks = [acquire, renew, release, undo, inspect, break_hold, list, &OWN.pass];
    let SharedCalls { acquire, renew, change, release, undo, break_hold, resize } = &SHARED;
    let of_shared = [acquire, renew, change, release, undo, break_hold, resize];
    let LatchCalls { wait, leave, change, look, past: _ } = &LATCH;
    let of_latches = [wait, leave, change, look];
    let BarrierCalls { arrive, leave, look, past: _ } = &BARRIER;
    let all = of_locks.into_iter().chain(of_shared).chain(of_latches).chain([arrive, leave, look]);
    all.into_iter().find(|call| call.name == name)
}

/// Whether the request is one for a page of names.
pub fn lists(request: &Request) -> bool {
    request.call.name == LOCK.list.name
}

/// Which page of names it is for: the prefix of their keys, and the key behind which to go on, nothing at first. The
/// request's key ends in `*`.
pub fn page_asked(request: &Request) -> (&str, &str) {
    let cursor = match request.args.first() {
        Some(Arg::Text(cursor)) => &**cursor,
        _ => "",
    };
    (request.key.strip_suffix('*').unwrap_or(&request.key), cursor)
}

/// A page with these keys, and the one behind which to go on where there may be more.
pub fn page(next: Option<String>, keys: impl IntoIterator<Item = String>) -> Reply {
    Reply::List(std::iter::once(next.unwrap_or_default()).chain(keys).map(Reply::Text).collect())
}

/// Whether the request changes nothing.
pub fn only_looks(request: &Request) -> bool {
    lists(request) || Procedure::read(request).is_some_and(|procedure| procedure.only_looks())
}
