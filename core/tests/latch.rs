//! Latches, the whole way down and back, over each store.

mod test_stores;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockwright::blocking::{Client, Latch};
use lockwright::options::ConnectOptions;
use lockwright::{Error, Kind};
use test_stores::TestStore;

fn latch(client: &Client, name: &str, count: u32) -> Latch {
    client.latch(name, count).build().unwrap()
}

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> Kind {
    result.unwrap_err().kind()
}

#[test]
fn who_waits_goes_on_once_all_have_counted_down() {
    for store in TestStore::all() {
        let (here, there) = (store.client(), store.client());
        let waiting: Vec<_> = (0..4)
            .map(|n| {
                let latch = latch(if n % 2 == 0 { &here } else { &there }, &store.name, 3);
                std::thread::spawn(move || latch.wait())
            })
            .collect();
        let (mine, theirs) = (latch(&here, &store.name, 3), latch(&there, &store.name, 3));
        assert!(!mine.wait_within(Some(Duration::ZERO)).unwrap(), "{}", store.uri);
        assert_eq!(mine.count_down().unwrap(), 2);
        assert!(!theirs.wait_within(Some(Duration::from_millis(300))).unwrap());
        assert_eq!(theirs.count_down().unwrap(), 1);
        assert_eq!((mine.count().unwrap(), theirs.count().unwrap()), (1, 1));
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()), "nobody is let in before");
        assert_eq!(mine.count_down().unwrap(), 0);
        for waiting in waiting {
            waiting.join().unwrap().unwrap();
        }
        // Open stays open.
        assert!(theirs.wait_within(Some(Duration::ZERO)).unwrap());
        theirs.wait().unwrap();
        assert_eq!((theirs.count_down().unwrap(), theirs.count().unwrap()), (0, 0));
    }
}

#[test]
fn whoever_comes_first_says_how_many_and_an_open_one_can_count_again() {
    for store in TestStore::all() {
        let client = store.client();
        let (two, five) = (latch(&client, &store.name, 2), latch(&client, &store.name, 5));
        assert_eq!((two.count().unwrap(), five.count().unwrap()), (2, 5), "nobody used it: {}", store.uri);
        assert_eq!(five.count_down().unwrap(), 4);
        assert_eq!(two.count_down().unwrap(), 3);
        assert!(!two.try_set_count(7).unwrap());
        assert_eq!((0..3).map(|_| two.count_down().unwrap()).collect::<Vec<_>>(), [2, 1, 0]);
        assert!(two.try_set_count(1).unwrap());
        assert_eq!(five.count().unwrap(), 1);
        assert!(!five.wait_within(Some(Duration::ZERO)).unwrap());
        assert_eq!(five.count_down().unwrap(), 0);
        let [fresh] = store.names(["fresh"]);
        assert!(latch(&client, &fresh, 3).try_set_count(6).unwrap());
        assert_eq!(latch(&client, &fresh, 3).count().unwrap(), 6);
    }
}

#[test]
fn a_look_tells_by_one_request_how_a_latch_stands() {
    for store in TestStore::all() {
        let (here, there) = (store.client(), store.client());
        let inspect = || {
            let before = here.metrics().requests;
            let seen = here.inspect(&store.name).unwrap();
            assert_eq!(here.metrics().requests - before, 1, "{}", store.uri);
            (seen.primitive, seen.latch.map(|latch| latch.count), seen.waiters, seen.is_free())
        };
        assert_eq!(inspect(), (None, None, 0, true));
        let theirs = latch(&there, &store.name, 2);
        let waiting = {
            let theirs = theirs.clone();
            std::thread::spawn(move || theirs.wait())
        };
        while inspect() != (Some("latch"), Some(2), 1, false) {
            std::thread::yield_now();
        }
        assert_eq!(here.list().unwrap().iter().filter(|name| **name == store.name).count(), 1);
        theirs.count_down().unwrap();
        assert_eq!(inspect(), (Some("latch"), Some(1), 1, false));
        theirs.count_down().unwrap();
        waiting.join().unwrap().unwrap();
        assert_eq!(inspect(), (Some("latch"), Some(0), 0, true));
        // Who means another primitive is told that it is none.
        assert_eq!(kind(here.lock(&store.name).build().unwrap().inspect()), Kind::ForeignLayout);
        assert_eq!(kind(here.semaphore(&store.name, 2).build().unwrap().inspect()), Kind::ForeignLayout);
        assert_eq!(kind(here.break_lock(&store.name, lockwright::Token::new(1))), Kind::ForeignLayout);
        assert!(theirs.gate().inspect().unwrap().latch.is_some());

        let [name] = store.names(["shared"]);
        let reading = there.rwlock(&name).read().acquire().unwrap();
        let before = here.metrics().requests;
        assert_eq!(here.inspect(&name).unwrap().primitive, Some("rwlock"));
        assert_eq!(here.metrics().requests - before, 1, "{}", store.uri);
        drop(reading);
    }
}

#[test]
fn waits_that_are_given_up_and_clients_that_are_closed_leave_the_latch_as_it_is() {
    for store in TestStore::all() {
        let (here, there) = (store.client(), store.client());
        let mine = latch(&here, &store.name, 1);
        let given_up = mine.gate().begin(None).unwrap();
        drop(given_up);
        let closed = {
            let waiting = latch(&there, &store.name, 1);
            std::thread::spawn(move || waiting.wait())
        };
        there.close();
        assert_eq!(kind(closed.join().unwrap()), Kind::Closed, "{}", store.uri);
        assert_eq!(kind(latch(&here, &store.name, 1).try_set_count(0)), Kind::InvalidConfig);
        assert_eq!(mine.count().unwrap(), 1);
        assert_eq!(mine.count_down().unwrap(), 0);
        mine.wait().unwrap();
    }
}

#[test]
fn what_is_wrong_is_said_when_it_is_built() {
    for store in TestStore::all() {
        let client = store.client();
        for count in [0, 1_000_001, u32::MAX] {
            assert_eq!(kind(client.latch(&store.name, count).build()), Kind::InvalidConfig, "{count}");
        }
        for idle in [Duration::ZERO, Duration::from_secs(59), Duration::from_secs(31 * 24 * 3600), Duration::MAX] {
            assert_eq!(kind(client.latch(&store.name, 1).idle(idle).build()), Kind::InvalidConfig, "{idle:?}");
        }
        for name in ["", "a\nb"] {
            assert_eq!(kind(client.latch(name, 1).build()), Kind::InvalidConfig, "{name:?}");
        }
        let built = client.latch(&store.name, 1_000_000).idle(Duration::from_secs(60)).build().unwrap();
        assert_eq!((built.name(), built.count().unwrap()), (&*store.name, 1_000_000));
    }
    let joined = Client::open(Some("redis://localhost?layout=redisson"), ConnectOptions::default()).unwrap();
    assert_eq!(kind(joined.latch("x", 1).build()), Kind::Unsupported);
}

#[test]
fn a_latch_and_a_lock_of_one_name_are_not_two_things() {
    for store in TestStore::all() {
        let client = store.client();
        let [lock, shared, counting, waited] = store.names(["lock", "shared", "counting", "waited"]);
        let held = client.lock(&lock).acquire().unwrap();
        let read = client.rwlock(&shared).read().acquire().unwrap();
        for name in [&lock, &shared] {
            let latch = latch(&client, name, 1);
            assert_eq!(kind(latch.wait()), Kind::ForeignLayout, "{}", store.uri);
            assert_eq!(kind(latch.count_down()), Kind::ForeignLayout, "{}", store.uri);
            assert_eq!(kind(latch.count()), Kind::ForeignLayout, "{}", store.uri);
        }
        assert_eq!(latch(&client, &counting, 2).count_down().unwrap(), 1);
        assert_eq!(kind(client.lock(&counting).acquire()), Kind::ForeignLayout, "{}", store.uri);
        assert_eq!(kind(client.rwlock(&counting).read().acquire()), Kind::ForeignLayout, "{}", store.uri);
        assert_eq!(kind(client.lock(&counting).build().unwrap().inspect()), Kind::ForeignLayout, "{}", store.uri);
        assert!(client.list().unwrap().contains(&counting), "{}", store.uri);
        assert!(held.is_held() && read.is_held());
        // Also while somebody of this client waits for it.
        let waits = {
            let latch = latch(&client, &waited, 1);
            std::thread::spawn(move || latch.wait())
        };
        while client.inspect(&waited).unwrap().waiters == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(kind(client.lock(&waited).try_acquire()), Kind::ForeignLayout, "{}", store.uri);
        assert_eq!(latch(&client, &waited, 1).count_down().unwrap(), 0);
        waits.join().unwrap().unwrap();
    }
}

#[test]
fn each_of_many_threads_of_many_clients_counts_once() {
    for store in TestStore::all() {
        let all = latch(&store.client(), &store.name, 40);
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let latch = latch(&store.client(), &store.name, 40);
                std::thread::spawn(move || (0..5).map(|_| latch.count_down().unwrap()).collect::<Vec<_>>())
            })
            .collect();
        all.wait().unwrap();
        let mut seen: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..40).collect::<Vec<_>>(), "{}", store.uri);
    }
}

/// A way to `server` that loses the answer to the next request once `cut` is set, and with it the connection.
fn way_that_loses_an_answer(server: SocketAddr, cut: &Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let cut = cut.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (server, cut) = (TcpStream::connect(server).unwrap(), cut.clone());
            let loses = Arc::new(AtomicBool::new(false));
            let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let asks = loses.clone();
            std::thread::spawn(move || {
                pass_on(from, to, || {
                    asks.fetch_or(cut.swap(false, Ordering::SeqCst), Ordering::SeqCst);
                    true
                });
            });
            std::thread::spawn(move || pass_on(server, client, || !loses.load(Ordering::SeqCst)));
        }
    });
    address
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, goes_on: impl Fn() -> bool) {
    let mut bytes = [0; 16384];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if !goes_on() || to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

#[test]
fn a_count_down_whose_answer_was_lost_counts_once() {
    let places = TestStore::all();
    let store = places.last().unwrap();
    let server = store.uri.strip_prefix("redis://").unwrap().parse().unwrap();
    let cut = Arc::new(AtomicBool::new(false));
    let way = way_that_loses_an_answer(server, &cut);
    let client = Client::open(Some(&format!("redis://{way}")), ConnectOptions::default()).unwrap();
    let latch = latch(&client, &store.name, 9);
    assert_eq!(latch.count_down().unwrap(), 8);
    for left in [7, 6, 5] {
        cut.store(true, Ordering::SeqCst);
        assert_eq!(latch.count_down().unwrap(), left);
        assert!(!cut.load(Ordering::SeqCst), "an answer was lost");
    }
    assert_eq!(latch.count().unwrap(), 5);
}

#[tokio::test]
async fn tasks_wait_as_threads_do() {
    for store in TestStore::all() {
        let client: lockwright::Client = store.client().into_face();
        let latch = client.latch(&store.name, 2).build().unwrap();
        let waiting = {
            let latch = latch.clone();
            tokio::spawn(async move { latch.wait().await })
        };
        assert!(!latch.wait_within(Some(Duration::from_millis(300))).await.unwrap());
        assert_eq!(latch.count_down().await.unwrap(), 1);
        assert!(!latch.try_set_count(9).await.unwrap());
        assert_eq!(latch.count().await.unwrap(), 1);
        assert_eq!(latch.count_down().await.unwrap(), 0);
        waiting.await.unwrap().unwrap();
        assert!(latch.wait_within(None).await.unwrap());
        client.close().await;
        assert_eq!(kind(latch.count().await), Kind::Closed);
    }
}
