//! Whoever waits at a server leaves it in peace while somebody holds the lock, and does not wait for the dead.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lockwright::Client;

/// The name of the lock, for the process that takes it with all places ahead, and is killed.
const DOOMED: &str = "LOCKWRIGHT_TEST_DOOMED";
const PLACES: u64 = 400;
const TTL: Duration = Duration::from_secs(3);

fn server() -> String {
    std::env::var("LOCKWRIGHT_TEST_REDIS").expect("LOCKWRIGHT_TEST_REDIS is the address of a server")
}

async fn until(what: impl Fn() -> bool) {
    let began = Instant::now();
    while !what() {
        assert!(began.elapsed() < Duration::from_secs(100));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Says so when it holds the lock and has all the places behind that; never returns.
async fn be_doomed(name: &str) {
    let client = lockwright::connect(&server()).await.unwrap();
    let _held = client.lock(name).ttl(TTL).acquire().await.unwrap();
    for _ in 0..PLACES {
        let lock = client.lock(name).ttl(TTL).fair();
        tokio::spawn(async move { lock.acquire().await });
    }
    while client.inspect(name).await.unwrap().waiters < PLACES {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("doomed");
    std::future::pending().await
}

#[tokio::test]
async fn a_lock_whose_holder_is_killed_with_all_places_ahead_is_soon_somebodys() {
    if let Ok(name) = std::env::var(DOOMED) {
        return be_doomed(&name).await;
    }
    let name = format!("doomed {}", std::process::id());
    let mut doomed = Command::new(std::env::current_exe().unwrap())
        .args(["--nocapture", "--exact", "a_lock_whose_holder_is_killed_with_all_places_ahead_is_soon_somebodys"])
        .env(DOOMED, &name)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(doomed.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.into_iter().any(|line| line.ends_with("doomed")));
    let client = lockwright::connect(&server()).await.unwrap();
    let waiting = tokio::spawn({
        let lock = client.lock(&name).ttl(TTL);
        async move { lock.acquire().await }
    });
    while client.inspect(&name).await.unwrap().waiters <= PLACES {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    doomed.kill().unwrap();
    let killed = Instant::now();
    doomed.wait().unwrap();
    let guard = waiting.await.unwrap().unwrap();
    let idle = killed.elapsed();
    println!("after {idle:?}");
    assert!(idle < TTL + Duration::from_secs(2), "{idle:?}");
    let _ = guard.release().await.unwrap();
    client.close().await;
}

#[tokio::test]
async fn whoever_waits_for_a_lock_that_is_held_and_renewed_asks_nobody() {
    let uri = server();
    let (holder, waiter): (Client, Client) =
        (lockwright::connect(&uri).await.unwrap(), lockwright::connect(&uri).await.unwrap());
    let name = format!("held {}", std::process::id());
    let held = holder.lock(&name).acquire().await.unwrap();
    let waiting = tokio::spawn({
        let lock = waiter.lock(&name);
        async move { lock.acquire().await }
    });
    until(|| waiter.metrics().contended == 1).await;
    // It asks once more when pushes can come, and has a place once that is answered.
    while waiter.inspect(&name).await.unwrap().ahead.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let asked = waiter.metrics().requests;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(waiter.metrics().requests, asked);
    let _ = held.release().await.unwrap();
    let _ = waiting.await.unwrap().unwrap().release().await.unwrap();
    holder.close().await;
    waiter.close().await;
}
