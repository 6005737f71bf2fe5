//! Very many tasks of one process that want the same lock, each with a place of its own at the store. All of them get
//! it, each costs the store a few requests however many there are, and nobody is told that a store is silent that is
//! well.

mod ordered;

use std::time::{Duration, Instant};

use lockwright::{Client, Error};
use ordered::Ordered;

/// Tasks; LOCKWRIGHT_CROWD says how many instead.
const CROWD: usize = 1_000;
/// Requests that a task costs at most, of which asking and giving back are two, and asking again once pushes can come
/// is the third.
const REQUESTS: u64 = 5;

/// One of a crowd gets what it wants, or has passed a barrier of all of them where that is `None`.
async fn pass(client: &Client, wanted: Option<Ordered>, name: &str, crowd: usize) -> Result<(), Error> {
    match wanted {
        Some(wanted) => wanted.acquire(client, name).await?.release().await.map(drop),
        None => client.barrier(name, crowd as u32).build()?.wait().await.map(drop),
    }
}

async fn crowd(uri: &str) {
    let crowd = std::env::var("LOCKWRIGHT_CROWD").map_or(CROWD, |crowd| crowd.parse().unwrap());
    for wanted in Ordered::ALL.map(Some).into_iter().chain([None]) {
        let client = lockwright::connect(uri).await.unwrap();
        let name = format!("crowd {wanted:?} {}", std::process::id());
        let first = match wanted {
            Some(wanted) => Some(wanted.acquire(&client, &name).await.unwrap()),
            None => None,
        };
        let began = Instant::now();
        let tasks: Vec<_> = (0..crowd)
            .map(|_| {
                let (client, name) = (client.clone(), name.clone());
                tokio::spawn(async move { pass(&client, wanted, &name, crowd).await })
            })
            .collect();
        if let Some(first) = first {
            while client.metrics().contended < crowd as u64 {
                assert!(began.elapsed() < Duration::from_secs(100), "{:?}", client.metrics());
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            let _ = first.release().await.unwrap();
        }
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        let metrics = client.metrics();
        let requests = (metrics.requests - metrics.renewals) as f64 / crowd as f64;
        println!("{uri} {wanted:?} {crowd}: {:?}, {requests:.2} requests each", began.elapsed());
        assert!(requests <= REQUESTS as f64, "{metrics:?}");
        assert_eq!((metrics.failed, metrics.reconnects, metrics.lost.total()), (0, 0, 0), "{metrics:?}");
        client.close().await;
    }
}

#[tokio::test]
async fn a_crowd_in_memory_is_served_one_by_one() {
    crowd("memory://crowd").await;
}

#[tokio::test]
async fn a_crowd_at_a_file_is_served_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    crowd(&format!("sqlite://{}/locks.db", folder.path().display())).await;
}

#[tokio::test]
async fn a_crowd_at_a_server_is_served_one_by_one() {
    let uri = std::env::var("LOCKWRIGHT_TEST_REDIS").expect("LOCKWRIGHT_TEST_REDIS is the address of a server");
    crowd(&uri).await;
}

/// A step in which all of them give up that took time by the square of their number would keep the holder from
/// renewing, too.
#[tokio::test]
async fn a_crowd_whose_time_is_over_at_once_is_told_so_and_keeps_nobody_up() {
    let crowd = std::env::var("LOCKWRIGHT_CROWD").map_or(2 * CROWD, |crowd| crowd.parse().unwrap());
    let client = lockwright::connect("memory://crowd-out-of-time").await.unwrap();
    let held = client.lock("x").ttl(Duration::from_secs(10)).acquire().await.unwrap();
    let lock = client.lock("x").fair().build().unwrap().quietly();
    let give_up = Instant::now() + Duration::from_secs(4);
    let tasks: Vec<_> = (0..crowd)
        .map(|_| {
            let lock = lock.clone();
            let left = give_up.saturating_duration_since(Instant::now());
            tokio::spawn(async move { lock.acquire_within(Some(left)).await.map(drop) })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap_err().code(), "timeout");
    }
    println!("{crowd} are told {:?} after their time was over", give_up.elapsed());
    assert!(held.is_held());
    let metrics = client.metrics();
    assert_eq!((metrics.timeouts, metrics.lost.total()), (crowd as u64, 0), "{metrics:?}");
    let _ = held.release().await.unwrap();
}

#[tokio::test]
async fn a_crowd_that_gives_up_leaves_no_places() {
    const SOME: usize = 300;
    let client = lockwright::connect("memory://crowd-gives-up").await.unwrap();
    let held = client.lock("x").acquire().await.unwrap();
    let mut tasks: Vec<_> = (0..SOME)
        .map(|i| {
            let lock = client.lock("x").fair().timeout(Duration::from_millis(if i % 2 == 0 { 3_000 } else { 60_000 }));
            tokio::spawn(async move { lock.acquire().await.map(drop) })
        })
        .collect();
    while client.inspect("x").await.unwrap().waiters < SOME as u64 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // Half of them run out of time; of the others all but the last are cancelled, from within.
    let last = tasks.pop().unwrap();
    for (i, task) in tasks.into_iter().enumerate() {
        match i % 2 {
            0 => assert_eq!(task.await.unwrap().unwrap_err().code(), "timeout"),
            _ => task.abort(),
        }
    }
    while client.inspect("x").await.unwrap().waiters > 1 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(held.is_held());
    let _ = held.release().await.unwrap();
    last.await.unwrap().unwrap();
    let metrics = client.metrics();
    assert_eq!((metrics.timeouts, metrics.cancelled), (SOME as u64 / 2, SOME as u64 / 2 - 1));
    assert_eq!((metrics.waiting, metrics.held, metrics.failed), (0, 0, 0));
}
