//! What the tests of a store that is one server have in common.

#![allow(unreachable_pub, dead_code, reason = "each test uses its part")]

pub mod tables;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lockwright::blocking::{self, Client};
use lockwright::lease::ReleaseOutcome;

pub fn client(uri: &str, options: &str) -> Client {
    blocking::connect(&format!("{uri}?{options}")).unwrap()
}

pub fn name(of: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("test-{}-{}/{of}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Takes a lock and gives it back, three times, each time under a higher token.
pub fn is_taken_and_given_back(client: &Client, name: &str) {
    let mut last = 0;
    for _ in 0..3 {
        let guard = client.lock(name).acquire().unwrap();
        assert!(guard.is_held() && guard.token().n > last);
        assert!(guard.remaining() > Duration::from_secs(25) && guard.remaining() < Duration::from_secs(30));
        last = guard.token().n;
        assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    }
}

/// A lock that a client had for itself so far is not free for it while another has it.
pub fn is_anothers_after_all(client: &Client, other: &Client, name: &str) {
    is_taken_and_given_back(client, name);
    let held = other.lock(name).acquire().unwrap();
    assert!(client.lock(name).try_acquire().unwrap().is_none());
    assert_eq!(held.release().unwrap(), ReleaseOutcome::Released);
    is_taken_and_given_back(client, name);
}

/// A thousand tasks of two clients are served, one at a time, each under a token of its own.
pub async fn serves_a_thousand_tasks(uri: &str, name: &str) {
    let mut clients = Vec::new();
    for _ in 0..2 {
        clients.push(lockwright::connect(uri).await.unwrap());
    }
    let inside = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..1000)
        .map(|at| {
            let (lock, inside) = (clients[at % 2].lock(name).build().unwrap(), inside.clone());
            tokio::spawn(async move {
                let guard = lock.acquire().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                let token = guard.token().n;
                assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                let _ = guard.release().await.unwrap();
                token
            })
        })
        .collect();
    let mut tokens = Vec::new();
    for task in tasks {
        tokens.push(tokio::time::timeout(Duration::from_secs(60), task).await.expect("nobody starves").unwrap());
    }
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 1000);
}
