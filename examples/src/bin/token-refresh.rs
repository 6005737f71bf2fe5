//! An access token that ends when a new one is fetched, used by many nodes: whoever finds it expired fetches the next.
//! Two at once end each other's; with a lock and a second look under it, nobody ever sends a dead one.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lockwright::Lock;
use lockwright_examples::{Failure, client, name_of, place, verdict};

const NODES: usize = 8;
const LIFE: Duration = Duration::from_millis(60);
const RUN: Duration = Duration::from_millis(900);

/// The other side, which knows one valid token, and counts what comes with another.
#[derive(Default)]
struct Provider {
    valid: AtomicU32,
    fetched: AtomicU32,
    refused: AtomicU32,
}

impl Provider {
    async fn fetch(&self) -> u32 {
        self.fetched.fetch_add(1, Ordering::SeqCst);
        let token = self.valid.fetch_add(1, Ordering::SeqCst) + 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
        token
    }

    fn call(&self, token: u32) {
        if self.valid.load(Ordering::SeqCst) != token {
            self.refused.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Where all nodes keep the token: it, and until when it is good.
type Cached = Mutex<Option<(u32, Instant)>>;

fn good(kept: &Cached) -> Option<u32> {
    kept.lock().expect("nobody panics").filter(|(_, until)| Instant::now() < *until).map(|(token, _)| token)
}

async fn token(lock: Option<&Lock>, provider: &Provider, kept: &Cached) -> Result<u32, Failure> {
    let guard = match lock {
        Some(lock) => Some(lock.acquire().await?),
        None => None,
    };
    let token = match good(kept) {
        Some(token) => token,
        None => {
            let token = provider.fetch().await;
            *kept.lock().expect("nobody panics") = Some((token, Instant::now() + LIFE));
            token
        }
    };
    // Sent under the lock too: else it may be ended on its way.
    provider.call(token);
    if let Some(guard) = guard {
        let _ = guard.release().await?;
    }
    Ok(token)
}

/// How many requests the provider refused, and how many tokens were fetched.
async fn run(place: Option<&str>) -> Result<(u32, u32), Failure> {
    let (provider, kept, name) = (Arc::new(Provider::default()), Arc::new(Cached::default()), name_of("token"));
    let until = Instant::now() + RUN;
    let mut nodes = Vec::new();
    for _ in 0..NODES {
        let lock = place.map(|place| client(place)?.lock(&name).build()).transpose()?;
        let (provider, kept) = (provider.clone(), kept.clone());
        nodes.push(tokio::spawn(async move {
            while Instant::now() < until {
                token(lock.as_ref(), &provider, &kept).await?;
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
            Ok::<_, Failure>(())
        }));
    }
    for node in nodes {
        node.await??;
    }
    Ok((provider.refused.load(Ordering::SeqCst), provider.fetched.load(Ordering::SeqCst)))
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<ExitCode, Failure> {
    let place = place();
    let without = run(None).await?;
    let with = run(Some(&place)).await?;
    println!("{NODES} nodes, a token lives {LIFE:?}, locks in {place}");
    println!("without a lock: {} requests refused, {} tokens fetched", without.0, without.1);
    println!("with a lock:    {} requests refused, {} tokens fetched", with.0, with.1);
    Ok(verdict(&[
        (without.0 > 0, "without a lock, nodes ended each other's tokens"),
        (with.0 == 0, "with it, none did"),
    ]))
}
