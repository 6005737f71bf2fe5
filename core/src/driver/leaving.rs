//! The end of a client: it gives everything back, in the caller's thread or task, or in the background when that task
//! is dropped.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::batch::Batch;
use super::engine::{Engine, no_background};
use super::entry::{Entry, Outbound};
use super::flusher::BatchKind;
use super::road::Road;
use crate::error::Result;
use crate::platform::{fork, runtime};

impl Engine {
    /// Gives back everything that is held, refuses everybody who waits, and returns when the store knows, or after
    /// `store_timeout`.
    ///
    /// # Errors
    /// Where there is nothing to wait with.
    pub(crate) async fn close(self: &Arc<Self>, road: Road) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let left = Left { entries: self.live_entries(), told: 0, sends: Vec::new() };
        Leaving { engine: self, left: Some(left) }.go(road).await
    }
}

/// What a client that is closed has still to do.
struct Left {
    entries: Vec<Arc<Entry>>,
    /// How many of them know of it.
    told: usize,
    /// What those want sent.
    sends: Vec<Outbound>,
}

impl Left {
    /// The next writes to be sent.
    fn next(&mut self, engine: &Engine) -> Option<Vec<Outbound>> {
        let size = BatchKind::Returns.size();
        while self.sends.is_empty() {
            let some = self.entries[self.told..].chunks(size).next()?;
            self.told += some.len();
            self.sends.extend(some.iter().flat_map(|entry| engine.perform_local(entry, entry.close(engine))));
        }
        Some(self.sends.drain(..size.min(self.sends.len())).collect())
    }
}

/// A client being closed. When its task is dropped meanwhile, the background goes on.
struct Leaving<'a> {
    engine: &'a Arc<Engine>,
    /// None once it is done.
    left: Option<Left>,
}

impl Leaving<'_> {
    async fn go(mut self, road: Road) -> Result<()> {
        let engine = self.engine;
        while let Some(writes) = self.left.as_mut().and_then(|left| left.next(engine)) {
            Batch::new(writes, None).perform(road, engine, None).await?;
        }
        let is_idle = || self.left.iter().flat_map(|left| &left.entries).all(|entry| entry.is_idle());
        let waited = road.wait_until(is_idle, &engine.happened, engine.options.store_timeout).await;
        engine.store.close();
        engine.timer_queue.stop();
        self.left = None;
        waited
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let (Some(left), engine) = (self.left.take(), self.engine.clone()) else { return };
        if engine.image != fork::image() {
            return;
        }
        let rest = async move { drop(Leaving { engine: &engine, left: Some(left) }.go(Road::Task).await) };
        match runtime::handle() {
            Ok(handle) => drop(handle.spawn(rest)),
            Err(error) => no_background(&error),
        }
    }
}
