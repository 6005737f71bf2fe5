//! Giving several locks back: one write for all that are of one client.

use std::future::poll_fn;
use std::sync::Arc;

use crate::client::{Call, Face, Guard, outcome_of};
use crate::driver::batch::Batch;
use crate::driver::engine::Engine;
use crate::driver::road::{Road, here};
use crate::error::Result;
use crate::lease::ReleaseOutcome;

/// What became of each guard, in the order in which they were given.
pub(crate) type Outcomes = Vec<Result<ReleaseOutcome>>;

/// Releases that were begun together. Dropping it leaves those that were not sent to the background.
pub(crate) struct Releases {
    /// From the last guard to the first.
    calls: Vec<Result<Call>>,
}

impl Releases {
    /// One that cannot be begun keeps no other from it.
    pub(crate) fn of<F: Face>(mut guards: Vec<Guard<F>>) -> Self {
        Releases { calls: guards.iter_mut().rev().map(Guard::start_release).collect() }
    }

    /// What one client still has to send.
    fn next(&mut self) -> Option<(Arc<Engine>, Batch)> {
        let engine = self.calls.iter().flatten().find(|call| call.effects.is_some())?.engine.clone();
        let its = self.calls.iter_mut().flatten().filter(|call| Arc::ptr_eq(&call.engine, &engine));
        let local =
            |call: &mut Call| call.effects.take().map(|effects| call.engine.perform_local(&call.entry, effects));
        let sends = its.filter_map(local).flatten().collect();
        Some((engine, Batch::new(sends, None)))
    }

    /// On [`Road::Thread`] whoever polls asks the store, and waits for what the background brings.
    pub(crate) async fn perform_by(mut self, road: Road) -> Outcomes {
        while let Some((engine, batch)) = self.next() {
            drop(batch.perform(road, &engine, None).await);
        }
        let mut outcomes = Vec::with_capacity(self.calls.len());
        for call in self.calls.into_iter().rev() {
            outcomes.push(match call {
                Ok(call) => Ok(outcome_of(poll_fn(|context| call.waiter.poll(context)).await)),
                Err(error) => Err(error),
            });
        }
        outcomes
    }

    pub(crate) fn perform(mut self) -> Outcomes {
        while let Some((engine, batch)) = self.next() {
            drop(here(batch.perform(Road::Thread, &engine, None)));
        }
        let settle = |call: Call| outcome_of(call.waiter.park_until_settled());
        self.calls.into_iter().rev().map(|call| call.map(settle)).collect()
    }
}
