//! Locks of which replicas have to hear.

#![cfg(all(unix, feature = "redis"))]

use std::time::{Duration, Instant};

use lockwright::lease::ReleaseOutcome;
use lockwright::{Kind, blocking};
use redis_servers::{Server, until};
use rustix::process::Signal;

mod redis_servers;

/// A master with a replica, and the address of the master.
fn pair() -> (Server, Server, String) {
    let (master, replica) = (Server::start(), Server::start());
    replica.follow(&master);
    let uri = format!("redis://127.0.0.1:{}?ttl=2s&store_timeout=1s&wait_timeout=100ms&wait_replicas=1", master.port);
    (master, replica, uri)
}

#[test]
fn what_no_replica_heard_of_is_no_grant_and_is_given_back() {
    let (master, replica, uri) = pair();
    let client = blocking::connect(&format!("{uri}&wait_policy=fail")).unwrap();
    let guard = client.lock("x").acquire().unwrap();
    assert!(replica.has("x"), "it had heard before the grant was believed");
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    replica.signal(Signal::STOP);
    let began = Instant::now();
    for number in 0..2 {
        let error = match number {
            0 => client.lock("y").try_acquire().unwrap_err(),
            _ => client.lock("y").acquire().unwrap_err(),
        };
        assert!(error.kind() == Kind::Unavailable && error.to_string().contains("0 of 1 replicas"), "{error}");
    }
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    let seen = blocking::connect(&format!("redis://127.0.0.1:{}", master.port)).unwrap();
    until("what was taken is given back", || seen.inspect("y").unwrap().holder.is_none());
    replica.signal(Signal::CONT);
    let guard = client.lock("y").acquire().unwrap();
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn with_another_policy_it_is_granted_all_the_same() {
    let (_master, replica, uri) = pair();
    replica.signal(Signal::STOP);
    for policy in ["", "&wait_policy=warn", "&wait_policy=ignore"] {
        let client = blocking::connect(&format!("{uri}{policy}")).unwrap();
        let guard = client.lock("x").acquire().unwrap();
        assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    }
    replica.signal(Signal::CONT);
}

#[test]
fn whoever_waits_is_served_though_nothing_is_handed_over_unheard() {
    let (_master, _replica, uri) = pair();
    let [one, other] = ["ttl", "ttl"].map(|_| blocking::connect(&format!("{uri}&wait_policy=fail")).unwrap());
    let held = one.lock("y").acquire().unwrap();
    let refused = other.lock("y").timeout(Duration::from_millis(50)).acquire().unwrap_err();
    assert_eq!((refused.kind(), other.guarantees().unwrap().push), (Kind::Timeout, false));
    assert_eq!(held.release().unwrap(), ReleaseOutcome::Released);
    for _ in 0..5 {
        let guard = one.lock("x").acquire().unwrap();
        let lock = other.lock("x").build().unwrap();
        let waits = std::thread::spawn(move || lock.acquire().unwrap());
        assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
        assert_eq!(waits.join().unwrap().release().unwrap(), ReleaseOutcome::Released);
    }
}

#[tokio::test]
async fn tasks_wait_for_replicas_too() {
    let (_master, replica, uri) = pair();
    let client = lockwright::connect(&format!("{uri}&wait_policy=fail")).await.unwrap();
    let guard = client.lock("x").acquire().await.unwrap();
    assert!(replica.has("x"));
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    replica.signal(Signal::STOP);
    let error = client.lock("y").try_acquire().await.unwrap_err();
    assert!(error.kind() == Kind::Unavailable && error.to_string().contains("0 of 1 replicas"), "{error}");
    replica.signal(Signal::CONT);
}
