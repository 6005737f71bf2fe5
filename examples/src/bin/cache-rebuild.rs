//! A thousand callers find a cache entry missing, and later stale: each time one of them makes it anew. While there is
//! none the others wait for it; while there is a stale one they go on with that.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use lockwright::kit::Fence;
use lockwright::once::{Found, Once};
use lockwright_examples::{Failure, client, name_of, place, verdict};

const CALLERS: usize = 1000;
/// As many processes would have.
const CLIENTS: usize = 8;
const REBUILD: Duration = Duration::from_millis(200);

/// A cache that every process sees.
#[derive(Default)]
struct Cache {
    version: u32,
    expired: bool,
    rebuilds: u32,
    fence: Fence,
}

async fn call(job: &Once, cache: &Mutex<Cache>) -> Result<u32, Failure> {
    let look = || async {
        let cache = cache.lock().expect("nobody panics");
        Ok(match *cache {
            Cache { version: 0, .. } => Found::Missing,
            Cache { version, expired: true, .. } => Found::Stale(version),
            Cache { version, .. } => Found::Fresh(version),
        })
    };
    let make = |token| async move {
        tokio::time::sleep(REBUILD).await;
        let mut cache = cache.lock().expect("nobody panics");
        // Whoever was stopped for longer than the lease finds that somebody else was here.
        cache.fence.admit(token)?;
        cache.rebuilds += 1;
        cache.version += 1;
        cache.expired = false;
        Ok(cache.version)
    };
    job.get(look, make).await
}

/// What all of them got, how many rebuilds that took, and how long it took the quickest half.
async fn crowd(jobs: &[Once], cache: &Arc<Mutex<Cache>>) -> Result<(Vec<u32>, u32, Duration), Failure> {
    let before = cache.lock().expect("nobody panics").rebuilds;
    let callers: Vec<_> = (0..CALLERS)
        .map(|i| {
            let (job, cache) = (jobs[i % CLIENTS].clone(), cache.clone());
            tokio::spawn(async move {
                let begun = Instant::now();
                Ok::<_, Failure>((call(&job, &cache).await?, begun.elapsed()))
            })
        })
        .collect();
    let (mut values, mut times) = (Vec::new(), Vec::new());
    for caller in callers {
        let (value, took) = caller.await??;
        values.push(value);
        times.push(took);
    }
    times.sort();
    let rebuilds = cache.lock().expect("nobody panics").rebuilds - before;
    Ok((values, rebuilds, times[CALLERS / 2]))
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<ExitCode, Failure> {
    let (place, name) = (place(), name_of("cache"));
    let jobs: Vec<Once> = (0..CLIENTS)
        .map(|_| client(&place)?.once(&name, Duration::from_secs(10)))
        .collect::<lockwright::Result<_>>()?;
    let cache = Arc::new(Mutex::new(Cache::default()));
    println!("{CALLERS} callers of {CLIENTS} clients, {REBUILD:?} a rebuild, locks in {place}");
    let (missing, first, waited) = crowd(&jobs, &cache).await?;
    println!("nothing there: {first} rebuild, half of them had the value after {waited:?}");
    cache.lock().expect("nobody panics").expired = true;
    let (stale, second, at_once) = crowd(&jobs, &cache).await?;
    let old = stale.iter().filter(|version| **version == 1).count();
    println!("expired: {second} rebuild, {old} went on with the stale value, half of them after {at_once:?}");
    Ok(verdict(&[
        (first == 1 && second == 1, "one rebuild each time"),
        (missing.iter().all(|version| *version == 1), "with nothing there, all waited for the new value"),
        (old > 0 && stale.iter().all(|version| (1..=2).contains(version)), "with a stale value, nobody needed to wait"),
    ]))
}
