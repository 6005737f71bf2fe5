//! What Java has numbers of. None is given twice.

use std::sync::{Arc, Mutex, OnceLock};

use lockwright::binding::{Handle, Held, lost_track};
use lockwright::metrics::Histogram;
use lockwright::{Error, Kind, Result};
use rustc_hash::FxHashMap;

use crate::locked;

#[derive(Default)]
struct Table {
    kept: FxHashMap<u64, Thing>,
    last: u64,
}

enum Thing {
    Handle(Box<Handle>),
    Held(Arc<Held>),
    Histogram(Arc<Histogram>),
}

fn table() -> &'static Mutex<Table> {
    static TABLE: OnceLock<Mutex<Table>> = OnceLock::new();
    TABLE.get_or_init(Mutex::default)
}

fn keep(thing: Thing) -> u64 {
    let mut table = locked(table());
    table.last += 1;
    let number = table.last;
    table.kept.insert(number, thing);
    number
}

pub(crate) fn keep_handle(handle: Handle) -> u64 {
    keep(Thing::Handle(Box::new(handle)))
}

pub(crate) fn keep_held(held: Held) -> u64 {
    keep(Thing::Held(Arc::new(held)))
}

pub(crate) fn keep_histogram(histogram: Histogram) -> u64 {
    keep(Thing::Histogram(Arc::new(histogram)))
}

pub(crate) fn handle(number: u64) -> Result<Handle> {
    match locked(table()).kept.get(&number) {
        Some(Thing::Handle(handle)) => Ok((**handle).clone()),
        _ => Err(lost_track("call")),
    }
}

/// That a hold was released, and forgotten with that.
pub(crate) fn released(operation: &'static str) -> Error {
    Error::new(Kind::NotOwned, operation, "this guard was released already")
}

/// A hold that was not released yet.
pub(crate) fn held(operation: &'static str, number: u64) -> Result<Arc<Held>> {
    match locked(table()).kept.get(&number) {
        Some(Thing::Held(held)) => Ok(held.clone()),
        _ => Err(released(operation)),
    }
}

pub(crate) fn histogram(number: u64) -> Result<Arc<Histogram>> {
    match locked(table()).kept.get(&number) {
        Some(Thing::Histogram(histogram)) => Ok(histogram.clone()),
        _ => Err(lost_track("metrics")),
    }
}

/// Java has it no more.
pub(crate) fn forget(number: u64) {
    let forgotten = locked(table()).kept.remove(&number);
    drop(forgotten);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_was_forgotten_names_nothing_ever_again() {
        let first = keep_histogram(Histogram::default());
        forget(first);
        let second = keep_histogram(Histogram::default());
        assert!(histogram(first).is_err() && histogram(second).is_ok());
        assert!(handle(second).is_err() && held("release", second).is_err(), "it is something else");
        forget(second);
    }
}
