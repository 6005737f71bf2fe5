//! The face for tasks.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use lockwright::{Client, Lock};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::{Contend, Crowd, Of, Tally, lock, nanos};
use crate::Result;

/// One thread: there is one CPU.
pub(super) fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// Awaits `pair` so many times on `runtime`; how long each took, in nanoseconds.
pub(super) fn timed(runtime: &Runtime, count: usize, mut pair: impl AsyncFnMut() -> Result<()>) -> Result<Vec<u64>> {
    runtime.block_on(async {
        let mut ns = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Instant::now();
            pair().await?;
            ns.push(nanos(start));
        }
        Ok(ns)
    })
}

pub(super) struct Awaited {
    runtime: Arc<Runtime>,
    client: Client,
    lock: Lock,
    of: Of,
}

/// The lock that nobody else wants, not the blocking contender either: a database's row that two clients use in turn is
/// read anew at each turn.
const FREE: &str = "bench:free:awaited";

impl Awaited {
    pub(super) fn connect(url: &str, of: Of) -> Result<Self> {
        let runtime = Arc::new(runtime()?);
        let client = runtime.block_on(lockwright::connect(url))?;
        Ok(Awaited { lock: lock(&client, FREE, of, usize::MAX)?, runtime, client, of })
    }
}

impl Contend for Awaited {
    fn pair(&mut self) -> Result<()> {
        self.pairs(1).map(drop)
    }

    fn pairs(&mut self, count: usize) -> Result<Vec<u64>> {
        timed(&self.runtime, count, async || {
            let _ = self.lock.acquire().await?.release().await?;
            Ok(())
        })
    }

    fn crowd(&mut self, keys: Vec<String>, stop: Arc<AtomicBool>) -> Result<Crowd> {
        let start = |(task, key): (usize, String)| {
            let (lock, stop) = (lock(&self.client, &key, self.of, task)?, stop.clone());
            Ok(self.runtime.spawn(contend(lock, stop)))
        };
        let tasks = keys.into_iter().enumerate().map(start).collect::<Result<Vec<_>>>()?;
        Ok(driven(self.runtime.clone(), tasks))
    }
}

/// Waits for tasks of `runtime`, which runs where they are waited for.
pub(super) fn driven<E: Display + Send + 'static>(
    runtime: Arc<Runtime>,
    tasks: Vec<JoinHandle<std::result::Result<Tally, E>>>,
) -> Crowd {
    let driver = std::thread::spawn(move || runtime.block_on(all(tasks)));
    Box::new(|| driver.join().map_err(|_| "a thread panicked")?.map_err(Into::into))
}

async fn all<E: Display>(
    tasks: Vec<JoinHandle<std::result::Result<Tally, E>>>,
) -> std::result::Result<Vec<Tally>, String> {
    let mut tallies = Vec::new();
    for task in tasks {
        let ended = task.await.map_err(|error| error.to_string())?;
        tallies.push(ended.map_err(|error| error.to_string())?);
    }
    Ok(tallies)
}

async fn contend(lock: Lock, stop: Arc<AtomicBool>) -> lockwright::Result<Tally> {
    let mut tally = Tally::default();
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        let guard = lock.acquire().await?;
        tally.add(start, &stop);
        let _ = guard.release().await?;
    }
    Ok(tally)
}
