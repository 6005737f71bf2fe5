//! `native` in memory: the [cells](crate::cell) as they stand.

use crate::cell_layout;
use crate::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use crate::native_machine::NativeLayout;

/// The layout, for a connection that puts `prefix` before every name.
pub fn layout(prefix: &str) -> NativeLayout {
    cell_layout::layout(prefix, guarantees)
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
