//! Tasks that meet at a barrier.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lockwright::{Barrier, Client};
use tokio::runtime::Runtime;

use super::awaited::{driven, runtime};
use super::{Contend, Crowd, Tally};
use crate::Result;

/// How long a task waits for those who may have left at the end.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) struct Meeting {
    runtime: Arc<Runtime>,
    client: Client,
}

impl Meeting {
    pub(super) fn connect(url: &str) -> Result<Self> {
        let runtime = Arc::new(runtime()?);
        let client = runtime.block_on(lockwright::connect(url))?;
        Ok(Meeting { runtime, client })
    }

    fn barrier(&self, parties: usize) -> Result<Barrier> {
        Ok(self.client.barrier(&format!("bench:meeting:{parties}"), u32::try_from(parties)?).build()?)
    }
}

impl Contend for Meeting {
    fn pair(&mut self) -> Result<()> {
        self.runtime.block_on(self.barrier(1)?.wait())?;
        Ok(())
    }

    fn crowd(&mut self, keys: Vec<String>, stop: Arc<AtomicBool>) -> Result<Crowd> {
        let barrier = self.barrier(keys.len())?;
        let start = |_| self.runtime.spawn(meet(barrier.clone(), stop.clone()));
        Ok(driven(self.runtime.clone(), keys.iter().map(start).collect()))
    }
}

async fn meet(barrier: Barrier, stop: Arc<AtomicBool>) -> lockwright::Result<Tally> {
    let mut tally = Tally::default();
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        if barrier.wait_within(Some(PATIENCE)).await?.is_some() {
            tally.add(start, &stop);
        }
    }
    Ok(tally)
}
