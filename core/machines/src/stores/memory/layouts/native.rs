//! `native` in memory: [`crate::lock_cell`], [`crate::shared_cell`], [`crate::latch_cell`] and [`crate::barrier_cell`]
//! as they stand.

use crate::barrier_machine::BarrierCalls;
use crate::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use crate::latch_machine::LatchCalls;
use crate::native_machine::{Calls, NativeLayout, OwnCalls};
use crate::shared_machine::SharedCalls;

static CALLS: Calls = Calls::of_cell();
static OWN: OwnCalls = OwnCalls::of_cell();
static SHARED: SharedCalls = SharedCalls::of_cell();
static LATCH: LatchCalls = LatchCalls::of_cell();
static BARRIER: BarrierCalls = BarrierCalls::of_cell();

/// The layout, for a connection that puts `prefix` before every name.
pub fn layout(prefix: &str) -> NativeLayout {
    NativeLayout {
        calls: &CALLS,
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

fn guarantees() -> Guarantees {
    Guarantees {
        store: "memory",
        layout: "native",
        exclusive_until: ExclusiveUntil::Deadline,
        token: TokenRises::WithProcess,
        fair: true,
        reentrant: true,
        shared: false,
        push: true,
        survives_disconnect: true,
        incarnation: true,
        notes: &["It excludes the threads and tasks of one process only."],
    }
}
