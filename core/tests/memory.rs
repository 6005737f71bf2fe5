//! The whole way down and back, over the reference store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockwright::blocking;
use lockwright::lease::ReleaseOutcome;
use lockwright::options::ConnectOptions;
use lockwright::{Kind, queue::OwnerId};
use lockwright_machines::in_order::InOrder;
use lockwright_machines::lock_cell::{Claimant, Place, Waiter};
use lockwright_machines::protocol::{AttemptId, InboxId};
use lockwright_machines::rank::Rank;
use lockwright_machines::time::StoreTime;

fn client(space: &str) -> blocking::Client {
    blocking::Client::open(Some(&format!("memory://{space}")), ConnectOptions::default()).unwrap()
}

#[test]
fn a_lock_is_taken_refused_and_given_back() {
    let (a, b) = (client("basic"), client("basic"));
    let guard = a.lock("x").label("first").acquire().unwrap();
    assert!(guard.is_held());
    assert!(b.lock("x").try_acquire().unwrap().is_none());
    assert_eq!(b.lock("x").timeout(Duration::from_millis(20)).acquire().unwrap_err().kind(), Kind::Timeout);
    let seen = b.inspect("x").unwrap();
    assert_eq!(seen.holder.unwrap().card.label, "first");
    let first = guard.token();
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    let again = b.lock("x").acquire().unwrap();
    assert!(again.token() > first);
}

#[test]
fn threads_of_two_clients_exclude_each_other() {
    let counter = Arc::new(AtomicU64::new(0));
    let clients = [client("count"), client("count")];
    let threads: Vec<_> = (0..8)
        .map(|i| {
            let lock = clients[i % 2].lock("counter");
            let lock = if i % 4 < 2 { lock.build() } else { lock.fair().build() }.unwrap();
            let counter = counter.clone();
            std::thread::spawn(move || {
                for _ in 0..500 {
                    let guard = lock.acquire().unwrap();
                    let seen = counter.load(Ordering::Relaxed);
                    std::thread::yield_now();
                    counter.store(seen + 1, Ordering::Relaxed);
                    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(counter.load(Ordering::Relaxed), 4000);
}

#[test]
fn an_owner_re_enters() {
    let client = client("reenter");
    let lock = client.lock("x").reentrant(OwnerId(1)).build().unwrap();
    let outer = lock.acquire().unwrap();
    let inner = lock.acquire().unwrap();
    assert_eq!((outer.token(), inner.depth()), (inner.token(), 2));
    assert!(lock.for_owner(OwnerId(2)).try_acquire().unwrap().is_none());
    assert_eq!(inner.release().unwrap(), ReleaseOutcome::Kept(1));
    assert_eq!(outer.release().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn a_held_lock_is_renewed_and_an_unrenewed_one_is_lost() {
    let client = client("renew");
    let renewed = client.lock("kept").ttl(Duration::from_millis(600)).acquire().unwrap();
    let unrenewed = client.lock("lost").ttl(Duration::from_millis(600)).renew(false).acquire().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    unrenewed.on_lost(move |reason| tell.send(reason.clone()).unwrap());
    told.recv_timeout(Duration::from_secs(10)).unwrap();
    assert!(!unrenewed.is_held());
    let next = client.lock("lost").acquire().unwrap();
    assert!(next.token() > unrenewed.token());
    assert_eq!(unrenewed.release().unwrap(), ReleaseOutcome::Expired);
    assert!(next.is_held() && renewed.is_held());
    renewed.extend(Duration::from_secs(60)).unwrap();
    assert!(renewed.remaining() > Duration::from_secs(50));
}

#[test]
fn very_many_locks_are_renewed_together_and_given_back_together() {
    const MANY: u64 = 3000;
    let (client, other) = (client("many"), client("many"));
    let ttl = Duration::from_secs(3);
    let guards: Vec<_> = (0..MANY).map(|i| client.lock(&i.to_string()).ttl(ttl).acquire().unwrap()).collect();
    let acquired = client.metrics();
    while client.metrics().renewals < 2 * MANY {
        std::thread::sleep(Duration::from_millis(10));
    }
    let renewed = client.metrics();
    assert_eq!((renewed.held, renewed.lost.total(), renewed.renewal_failures), (MANY, 0, 0));
    assert!((renewed.round_trips - acquired.round_trips) * 20 < renewed.renewals, "{renewed:?}");
    assert!(guards.iter().all(blocking::Guard::is_held));
    let before = client.metrics().round_trips;
    client.close();
    let closed = client.metrics();
    assert!(closed.held == 0 && closed.round_trips - before < MANY / 20, "{closed:?}");
    assert_eq!(other.list().unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_wait_cancel_and_are_told_of_a_broken_lock() {
    let client = lockwright::connect("memory://tasks").await.unwrap();
    let guard = client.lock("x").acquire().await.unwrap();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.lock("x").acquire().await.unwrap().token() }
    });
    let given_up = tokio::time::timeout(Duration::from_millis(30), client.lock("x").acquire()).await;
    assert!(given_up.is_err());
    assert!(client.break_lock("x", guard.token()).await.unwrap());
    assert!(waiting.await.unwrap() > guard.token());
    assert!(!guard.is_held() || guard.lost().await.code() == "broken");
    client.close().await;
    assert_eq!(client.lock("x").acquire().await.unwrap_err().kind(), Kind::Closed);
}

#[test]
fn rule_3_a_waiter_that_asks_again_keeps_its_place() {
    let mut line = InOrder::default();
    let owner = |attempt| Claimant { attempt: AttemptId(attempt), inbox: InboxId(1), claim: Duration::from_secs(1) };
    let waiter = |attempt| Waiter { owner: owner(attempt), card: String::new() };
    let place = |attempt| Place { waiter: waiter(attempt), rank: Rank::LOWEST, since: StoreTime(1) };
    let places = [1, 2, 1].map(|attempt| line.join(&place(attempt)));
    assert_eq!((places, line.len()), ([0, 1, 0], 2));
}
