//! Read/write locks and semaphores beside the locks of the layout `concurrency`: the same
//! [machine](super::concurrency), for another [part](super::part).

use std::sync::Arc;

use super::concurrency::Concurrency;
use super::concurrency_layout::{ConcurrencyLayout, NOTES};
use super::part::{MOST_PERMITS, Part};
use super::survey::{self, Wanted};
use crate::error::{Error, Result};
use crate::guarantee::Guarantees;
use crate::lease::Inspection;
use crate::options::AcquireOptions;
use crate::protocol::{Inquiry, Layout, Protocol, Reply};
use crate::share::{Primitive, Share};

/// The layout of one of these.
#[derive(Clone, Debug)]
pub struct SharedLayout {
    /// The locks'.
    pub locks: ConcurrencyLayout,
    /// What is wanted.
    pub share: Share,
}

impl Layout for SharedLayout {
    fn name(&self) -> &'static str {
        self.locks.name()
    }

    fn guarantees(&self) -> Guarantees {
        let notes: &'static [&'static str] = match self.share.primitive {
            Primitive::RwLock => &[
                NOTES[0],
                NOTES[1],
                NOTES[2],
                "Go's `recipes.RWMutex` of the same name takes part: its holders and ours exclude each other, in one order.",
                "A writer cannot become a reader, nor a reader the writer: the order is that in which keys were created.",
            ],
            Primitive::Semaphore => &[
                NOTES[0],
                NOTES[1],
                NOTES[2],
                "Nobody is overtaken, `fair` or not: who wants many permits keeps those behind it waiting.",
                "It has as many permits as whoever uses it longest says, 1000 at most, and cannot be resized.",
            ],
        };
        Guarantees { reentrant: false, notes, ..self.locks.guarantees() }
    }

    fn key(&self, name: &str) -> Result<Arc<str>> {
        self.locks.key(name)
    }

    fn check(&self, options: &AcquireOptions) -> Result<()> {
        self.locks.check(options)?;
        if self.share.primitive == Primitive::Semaphore && self.share.capacity > MOST_PERMITS {
            let permits = self.share.capacity;
            let message = format!("permits is {permits}; on etcd it must be 1 to {MOST_PERMITS}");
            return Err(Error::unsupported("lock", message));
        }
        Ok(())
    }

    fn protocol(&self, key: Arc<str>) -> Box<dyn Protocol> {
        Box::new(Concurrency::of(key, self.locks.ttl, Part::of(self.share)).seated(&self.locks.seats))
    }

    fn share(&self) -> Option<Share> {
        Some(self.share)
    }

    fn other_permits(&self, replies: &[Reply]) -> Option<u32> {
        let Part::Permits { permits, .. } = Part::of(self.share) else { return None };
        let [Reply::List(queue)] = replies else { return None };
        let Some(Reply::List(first)) = queue.get(4) else { return None };
        let Some(Reply::Text(key)) = first.first() else { return None };
        match Part::of_key(Part::of_ours(key)?.0, key)? {
            Part::Permits { permits: theirs, .. } if theirs != permits => Some(theirs),
            _ => None,
        }
    }

    fn inspect<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        survey::inspect(self.name(), name, key, Wanted::One(self.share.primitive.name()))
    }

    fn break_hold(&self, key: Arc<str>, token: u64) -> Inquiry<'_, bool> {
        survey::break_hold(key, token, Wanted::One(self.share.primitive.name()))
    }

    fn list(&self) -> Inquiry<'static, Vec<String>> {
        self.locks.list()
    }
}
