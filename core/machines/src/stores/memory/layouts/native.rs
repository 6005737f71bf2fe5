//! `native` in memory: the [cells](crate::cell) as they stand.

use crate::cell_layout;
use crate::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use crate::native_machine::{self, NativeLayout};

/// The layout, for a connection that puts `prefix` before every name.
pub fn layout(prefix: &str) -> NativeLayout {
    cell_layout::layout(prefix, guarantees)
}

fn guarantees() -> Guarantees {
    let notes = &["It excludes the threads and tasks of one process only."];
    let promised = native_machine::guarantees("memory", ExclusiveUntil::Deadline, TokenRises::WithProcess, notes);
    Guarantees { shared: false, ..promised }
}
