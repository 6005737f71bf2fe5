//! Trying several locks at once: all of them or none, or any one of them. One request where the layout has a procedure
//! for it.

use std::future::poll_fn;
use std::time::Duration;

use crate::blocking::Wait;
use crate::client::{Acquisition, Async, Blocking, Face, Guard, Lock};
use crate::driver::batch::Batch;
use crate::driver::engine::Trial;
use crate::driver::entry::{Effects, Outbound};
use crate::driver::road::{Road, here};
use crate::driver::wait::Settled;
use crate::error::{Kind, Result};
use crate::protocol::Policy;

/// Most locks that are tried by one request: a script blocks the server while it runs.
pub(crate) const MOST: usize = 256;

/// Which of the locks were had, by their places in what was asked.
pub(crate) type Taken<F> = Vec<(usize, Guard<F>)>;

/// Several acquisitions that were begun, and what is to be sent for them.
struct Begun<F: Face> {
    acquisitions: Vec<Acquisition<F>>,
    batch: Batch,
    /// One of those that must all be had is taken by another task of this process.
    hopeless: bool,
}

impl<F: Face> Begun<F> {
    /// `None` where the layout has no procedure for it, or one is held already by others in this process and `policy`
    /// wants all.
    fn begin(locks: &[Lock<F>], policy: Policy, trial: Trial) -> Result<Option<Self>> {
        let layout = match locks.first() {
            Some(first) if (2..=MOST).contains(&locks.len()) => first.layout(),
            _ => return Ok(None),
        };
        if !layout.tries_together() {
            return Ok(None);
        }
        let mut acquisitions = Vec::with_capacity(locks.len());
        let mut sends: Vec<Outbound> = Vec::with_capacity(locks.len());
        for lock in locks {
            match lock.start_trying(trial) {
                Ok((acquisition, effects)) => {
                    sends.extend(local(&acquisition, effects));
                    acquisitions.push(acquisition);
                }
                Err(error) => {
                    if let Some(begun) = acquisitions.first() {
                        Batch::new(sends, None).withdraw(&begun.engine);
                    }
                    return Err(error);
                }
            }
        }
        let hopeless = policy == Policy::All && sends.len() < acquisitions.len();
        let requests: Vec<_> = sends.iter().filter_map(|send| send.requests.first()).collect();
        let merged = if requests.len() > 1 { layout.together(policy, &requests) } else { None };
        Ok(Some(Begun { acquisitions, batch: Batch::new(sends, merged), hopeless }))
    }
}

fn local<F: Face>(acquisition: &Acquisition<F>, effects: Effects) -> impl Iterator<Item = Outbound> + use<F> {
    acquisition.engine.perform_local(&acquisition.entry, effects).into_iter()
}

/// The guards of what was granted, with the places of their locks. Whatever else went wrong than that somebody has a
/// lock is the error, and the guards are dropped.
fn granted<F: Face>(results: Vec<Result<Guard<F>>>) -> Result<Taken<F>> {
    let mut guards = Vec::new();
    for (place, result) in results.into_iter().enumerate() {
        match result {
            Ok(guard) => guards.push((place, guard)),
            Err(error) if error.kind() == Kind::Timeout => {}
            Err(error) => return Err(error),
        }
    }
    Ok(guards)
}

/// Tries `locks` by one request, as `trial` says. `None` where that cannot be.
pub(crate) async fn try_together(locks: &[Lock], policy: Policy, trial: Trial) -> Result<Option<Taken<Async>>> {
    let Some(Begun { mut acquisitions, batch, hopeless }) = Begun::begin(locks, policy, trial)? else {
        return Ok(None);
    };
    let Some(engine) = acquisitions.first().map(|first| first.engine.clone()) else { return Ok(None) };
    if hopeless {
        batch.withdraw(&engine);
        return Ok(Some(Vec::new()));
    }
    batch.perform(Road::Task, &engine, trial.until).await?;
    let mut results = Vec::with_capacity(acquisitions.len());
    for acquisition in &mut acquisitions {
        let settled: Settled = poll_fn(|context| acquisition.waiter.poll(context)).await;
        results.push(acquisition.conclude(settled));
    }
    granted(results).map(Some)
}

/// The same in this thread, which asks the store as it begins, and waits in slices for what comes of it. Dropping it
/// gives up.
pub(crate) struct Trying {
    acquisitions: Vec<Acquisition<Blocking>>,
    /// Of the first of them.
    results: Vec<Result<Guard<Blocking>>>,
}

impl Trying {
    /// As [`try_together`].
    pub(crate) fn begin(locks: &[Lock<Blocking>], policy: Policy, trial: Trial) -> Result<Option<Self>> {
        let Some(Begun { mut acquisitions, batch, hopeless }) = Begun::begin(locks, policy, trial)? else {
            return Ok(None);
        };
        let Some(engine) = acquisitions.first().map(|first| first.engine.clone()) else { return Ok(None) };
        if hopeless {
            batch.withdraw(&engine);
            acquisitions.clear();
        } else {
            here(batch.perform(Road::Thread, &engine, trial.until))?;
        }
        Ok(Some(Trying { acquisitions, results: Vec::new() }))
    }

    /// Waits as `how` says; `None` when there is no result yet.
    pub(crate) fn wait(&mut self, how: Wait<'_>) -> Option<Result<Taken<Blocking>>> {
        while let Some(acquisition) = self.acquisitions.get_mut(self.results.len()) {
            if let Some(error) = acquisition.forked() {
                return Some(Err(error));
            }
            let settled = acquisition.settled(how, Duration::MAX)?;
            self.results.push(acquisition.conclude(settled));
        }
        Some(granted(std::mem::take(&mut self.results)))
    }
}
