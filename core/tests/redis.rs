//! The whole way down and back over a Redis server.

#![cfg(feature = "redis")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lockwright::lease::ReleaseOutcome;
use lockwright::options::ConnectOptions;
use lockwright::{Kind, blocking};

fn address() -> String {
    std::env::var("LOCKWRIGHT_TEST_REDIS").unwrap_or_else(|_| {
        panic!(
            "these tests need a Redis server: run `conformance/services/redis.sh start` and set LOCKWRIGHT_TEST_REDIS \
             to the address it prints"
        )
    })
}

fn client() -> blocking::Client {
    blocking::Client::open(Some(&address()), ConnectOptions::default()).unwrap()
}

/// A name that no other run of these tests uses.
fn fresh(what: &str) -> String {
    format!("{what} {} {:?}", std::process::id(), std::time::SystemTime::now())
}

#[test]
fn threads_of_several_clients_exclude_each_other_and_tokens_rise() {
    let name = fresh("count");
    let (counter, highest) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let clients = [client(), client(), client()];
    let threads: Vec<_> = (0..12)
        .map(|i| {
            let lock = clients[i % 3].lock(&name);
            let lock = if i % 2 == 0 { lock.build() } else { lock.fair().build() }.unwrap();
            let (counter, highest) = (counter.clone(), highest.clone());
            std::thread::spawn(move || {
                for _ in 0..100 {
                    let guard = lock.acquire().unwrap();
                    let seen = counter.load(Ordering::Relaxed);
                    assert!(highest.swap(guard.token().n, Ordering::Relaxed) < guard.token().n);
                    std::thread::yield_now();
                    counter.store(seen + 1, Ordering::Relaxed);
                    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(counter.load(Ordering::Relaxed), 1_200);
    let left = clients[0].inspect(&name).unwrap();
    assert!(left.holder.is_none() && left.waiters == 0, "{left:?}");
}

#[tokio::test]
async fn tasks_and_threads_exclude_each_other() {
    let name = fresh("tasks");
    let held = client().lock(&name).acquire().unwrap();
    let tasks = lockwright::connect(&address()).await.unwrap();
    assert!(tasks.lock(&name).try_acquire().await.unwrap().is_none());
    let refused = tasks.lock(&name).timeout(Duration::from_millis(30)).acquire().await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Timeout);
    let waiting = tokio::spawn(async move {
        let guard = tasks.lock(&name).acquire().await.unwrap();
        (Instant::now(), guard.release().await.unwrap())
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let released = Instant::now();
    assert_eq!(held.release().unwrap(), ReleaseOutcome::Released);
    let (granted, outcome) = waiting.await.unwrap();
    assert_eq!(outcome, ReleaseOutcome::Released);
    assert!(granted - released < Duration::from_millis(200), "pushed, not polled: {:?}", granted - released);
}

#[test]
fn a_held_lock_is_renewed_and_a_broken_one_is_lost() {
    let name = fresh("renewed");
    let client = client();
    let guard = client.lock(&name).ttl(Duration::from_millis(300)).acquire().unwrap();
    std::thread::sleep(Duration::from_millis(900));
    assert!(guard.is_held());
    assert!(client.break_lock(&name, guard.token()).unwrap());
    let give_up = Instant::now() + Duration::from_secs(2);
    while guard.is_held() {
        assert!(Instant::now() < give_up);
        std::thread::sleep(Duration::from_millis(5));
    }
}
