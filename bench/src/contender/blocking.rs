//! The face for threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use lockwright::blocking::{Client, Lock, connect};

use super::{Contend, Crowd, Of, Tally, lock};
use crate::Result;

/// A lock that is kept and acquired again and again.
pub(super) struct Blocking {
    client: Client,
    lock: Lock,
    of: Of,
}

impl Blocking {
    pub(super) fn connect(url: &str, of: Of) -> Result<Self> {
        let client = connect(url)?;
        Ok(Blocking { lock: lock(&client, "bench:free", of, usize::MAX)?, client, of })
    }
}

impl Contend for Blocking {
    fn pair(&mut self) -> Result<()> {
        let _ = self.lock.acquire()?.release()?;
        Ok(())
    }

    fn crowd(&mut self, keys: Vec<String>, stop: Arc<AtomicBool>) -> Result<Crowd> {
        let start = |(task, key): (usize, String)| {
            let (lock, stop) = (lock(&self.client, &key, self.of, task)?, stop.clone());
            Ok(std::thread::spawn(move || contend(&lock, &stop)))
        };
        let threads = keys.into_iter().enumerate().map(start).collect::<Result<Vec<_>>>()?;
        let join = |thread: std::thread::JoinHandle<lockwright::Result<Tally>>| {
            Ok(thread.join().map_err(|_| "a thread panicked")??)
        };
        Ok(Box::new(move || threads.into_iter().map(join).collect()))
    }
}

fn contend(lock: &Lock, stop: &AtomicBool) -> lockwright::Result<Tally> {
    let mut tally = Tally::default();
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        let guard = lock.acquire()?;
        tally.add(start, stop);
        let _ = guard.release()?;
    }
    Ok(tally)
}

/// A lock that is named at every use.
pub(super) struct Anew(pub(super) Client);

impl Contend for Anew {
    fn pair(&mut self) -> Result<()> {
        let _ = self.0.lock("bench:free").acquire()?.release()?;
        Ok(())
    }
}
