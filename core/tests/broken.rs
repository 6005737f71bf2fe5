//! Who breaks a lock is heard at once by whoever had it, whatever it was, and with one reason.

mod test_stores;

use std::sync::mpsc;
use std::time::Duration;

use lockwright::blocking;
use lockwright::blocking::{Client, Guard};
use lockwright::lease::LossReason;
use lockwright::options::ConnectOptions;
use test_stores::TestStore;

/// Renewals of a lease as long as this come too late to tell anybody.
const TTL: Duration = Duration::from_secs(60);
/// How long after something was acquired its client listens.
const A_WHILE: Duration = Duration::from_millis(1500);
const AT_ONCE: Duration = Duration::from_secs(3);

const KINDS: [&str; 4] = ["lock", "reader", "writer", "permit"];

fn hold(client: &Client, kind: &str, name: &str) -> Guard {
    let built = match kind {
        "lock" => client.lock(name),
        "reader" => client.rwlock(name).read(),
        "writer" => client.rwlock(name).write(),
        _ => client.semaphore(name, 1),
    };
    built.ttl(TTL).acquire().unwrap()
}

fn told(guard: &Guard) -> mpsc::Receiver<LossReason> {
    let (tell, hear) = mpsc::channel();
    guard.on_lost(move |reason| _ = tell.send(reason.clone()));
    hear
}

#[test]
fn whoever_breaks_a_lock_elsewhere_is_heard_at_once() {
    for store in TestStore::all() {
        let (holder, operator) = (store.client(), store.client());
        let names = store.names(KINDS);
        let guards: Vec<_> = KINDS.iter().zip(&names).map(|(kind, name)| hold(&holder, kind, name)).collect();
        let hears: Vec<_> = guards.iter().map(told).collect();
        std::thread::sleep(A_WHILE);
        for ((guard, hear), name) in guards.iter().zip(hears).zip(&names) {
            assert!(operator.break_lock(name, guard.token()).unwrap());
            assert_eq!(hear.recv_timeout(AT_ONCE), Ok(LossReason::Broken), "{} {name}", store.uri);
        }
    }
}

#[test]
fn whoever_breaks_a_lock_of_its_own_client_is_heard_at_once() {
    for store in TestStore::all() {
        let client = store.client();
        for (kind, name) in KINDS.iter().zip(store.names(KINDS)) {
            let guard = hold(&client, kind, &name);
            let hear = told(&guard);
            assert!(client.break_lock(&name, guard.token()).unwrap());
            assert_eq!(hear.try_recv(), Ok(LossReason::Broken), "{} {name}", store.uri);
        }
    }
}

#[test]
fn a_joined_lock_that_its_own_client_breaks_is_broken() {
    let store = TestStore::all().pop().unwrap();
    for layout in ["string&format=redis-py", "redisson"] {
        let uri = format!("{}?layout={layout}", store.uri);
        let client = blocking::Client::open(Some(&uri), ConnectOptions::default()).unwrap();
        let name = format!("{}-{layout}", store.name);
        let guard = client.lock(&name).ttl(TTL).acquire().unwrap();
        let hear = told(&guard);
        assert!(client.break_lock(&name, guard.token()).unwrap());
        assert_eq!(hear.try_recv(), Ok(LossReason::Broken), "{uri}");
    }
}
