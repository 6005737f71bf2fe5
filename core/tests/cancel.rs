//! Acquisitions that are given up at arbitrary moments leave nothing behind and wake whoever comes next.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockwright::Client;

/// Small, seeded, and the same on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

async fn contend(client: Client, fair: bool, seed: u64, counter: Arc<AtomicU64>) -> u64 {
    let mut dice = Dice(seed);
    let lock = client.lock("contended").ttl(Duration::from_secs(20));
    let lock = if fair { lock.fair() } else { lock }.build().unwrap();
    let mut done = 0;
    for _ in 0..40 {
        let patience = Duration::from_micros(dice.roll(4000));
        let Ok(guard) = tokio::time::timeout(patience, lock.acquire()).await else { continue };
        let guard = guard.unwrap();
        let seen = counter.load(Ordering::Relaxed);
        tokio::task::yield_now().await;
        counter.store(seen + 1, Ordering::Relaxed);
        done += 1;
        match dice.roll(3) {
            0 => drop(guard),
            1 => drop(tokio::time::timeout(Duration::from_micros(dice.roll(50)), guard.release()).await),
            _ => drop(guard.release().await),
        }
    }
    // Whoever waits without a limit is served once the others are through.
    let guard = lock.acquire().await.unwrap();
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    drop(guard.release().await);
    done + 1
}

async fn nothing_is_left(client: &Client) {
    let all_gone = async {
        loop {
            let seen = client.inspect("contended").await.unwrap();
            if seen.holder.is_none() && seen.waiters == 0 {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), all_gone).await.expect("a cancelled acquisition left something");
}

async fn torture(uri: &str, fair: impl Fn(u64) -> bool) {
    let clients = [lockwright::connect(uri).await.unwrap(), lockwright::connect(uri).await.unwrap()];
    let counter = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> =
        (0..24).map(|i| tokio::spawn(contend(clients[i as usize % 2].clone(), fair(i), i, counter.clone()))).collect();
    let mut done = 0;
    for task in tasks {
        done += task.await.unwrap();
    }
    assert_eq!(counter.load(Ordering::Relaxed), done, "an increment was lost");
    nothing_is_left(&clients[0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn default_tasks_in_memory() {
    torture("memory://cancel-default", |_| false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fair_tasks_in_memory() {
    torture("memory://cancel-fair", |_| true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mixed_tasks_in_memory() {
    torture("memory://cancel-mixed", |i| i % 3 == 0).await;
}
