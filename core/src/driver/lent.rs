//! Memory that a thread lends to one piece of work after the other, which would else ask the allocator for it each
//! time.

use std::cell::Cell;
use std::thread::LocalKey;

/// Memory of a thread, while nobody has borrowed it.
pub(super) type Lendable<T> = Cell<Option<T>>;

/// Nothing where it is lent already, and where the thread is ending.
pub(super) fn borrow<T>(memory: &'static LocalKey<Lendable<T>>) -> Option<T> {
    memory.try_with(Cell::take).ok().flatten()
}

pub(super) fn give_back<T>(memory: &'static LocalKey<Lendable<T>>, lent: T) {
    let _ = memory.try_with(|kept| kept.set(Some(lent)));
}
