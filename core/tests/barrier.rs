//! Barriers, the whole way down and back, over each store.

mod test_stores;

use std::time::Duration;

use lockwright::blocking::{Barrier, Client};
use lockwright::options::ConnectOptions;
use lockwright::{Arrival, Error, Kind};
use test_stores::TestStore;

fn barrier(client: &Client, name: &str, parties: u32) -> Barrier {
    client.barrier(name, parties).build().unwrap()
}

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> Kind {
    result.unwrap_err().kind()
}

/// Returns once so many wait.
fn until_waiting(barrier: &Barrier, wanted: u32) {
    while barrier.waiting().unwrap() != wanted {
        std::thread::yield_now();
    }
}

#[test]
fn all_go_on_once_as_many_wait_as_there_are_parties() {
    for store in TestStore::all() {
        let (here, there) = (store.client(), store.client());
        let mine = barrier(&here, &store.name, 3);
        assert_eq!((mine.name(), mine.parties(), mine.waiting().unwrap()), (&*store.name, 3, 0));
        let mut last = 0;
        for _ in 0..3 {
            let others: Vec<_> = (0..2)
                .map(|n| {
                    let theirs = barrier(if n == 0 { &here } else { &there }, &store.name, 3);
                    until_waiting(&mine, n);
                    let waiting = std::thread::spawn(move || theirs.wait().unwrap());
                    until_waiting(&mine, n + 1);
                    waiting
                })
                .collect();
            assert!(others.iter().all(|other| !other.is_finished()), "nobody goes on before: {}", store.uri);
            let Arrival { index, generation } = mine.wait().unwrap();
            assert_eq!(index, 2);
            for (index, other) in (0..).zip(others) {
                assert_eq!(other.join().unwrap(), Arrival { index, generation }, "{}", store.uri);
            }
            assert!(last == 0 || generation == last + 1, "{last} {generation}");
            last = generation;
        }
        assert_eq!(mine.waiting().unwrap(), 0);
    }
}

#[test]
fn nobody_is_ahead_of_the_others_by_more_than_one_generation() {
    const PARTIES: u32 = 4;
    for store in TestStore::all() {
        let threads: Vec<_> = (0..PARTIES)
            .map(|_| {
                let barrier = barrier(&store.client(), &store.name, PARTIES);
                std::thread::spawn(move || (0..25).map(|_| barrier.wait().unwrap()).collect::<Vec<_>>())
            })
            .collect();
        let seen: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        for round in 0..25 {
            let generation = seen[0][0].generation + round as u64;
            assert!(seen.iter().all(|party| party[round].generation == generation), "{}: {seen:?}", store.uri);
            let mut indexes: Vec<_> = seen.iter().map(|party| party[round].index).collect();
            indexes.sort_unstable();
            assert_eq!(indexes, (0..PARTIES).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_place_that_was_given_up_is_another_ones() {
    for store in TestStore::all() {
        let (here, there) = (store.client(), store.client());
        let mine = barrier(&here, &store.name, 2);
        assert_eq!(mine.wait_within(Some(Duration::ZERO)).unwrap(), None, "{}", store.uri);
        assert_eq!(mine.wait_within(Some(Duration::from_millis(300))).unwrap(), None);
        assert_eq!(mine.waiting().unwrap(), 0);
        let cancelled = mine.gate().begin(None).unwrap();
        until_waiting(&mine, 1);
        drop(cancelled);
        until_waiting(&mine, 0);
        let closed = {
            let waiting = barrier(&there, &store.name, 2);
            std::thread::spawn(move || waiting.wait())
        };
        until_waiting(&mine, 1);
        there.close();
        assert_eq!(kind(closed.join().unwrap()), Kind::Closed, "{}", store.uri);
        assert_eq!(mine.waiting().unwrap(), 0);
        let waiting = {
            let mine = mine.clone();
            std::thread::spawn(move || mine.wait().unwrap())
        };
        until_waiting(&mine, 1);
        let last = mine.wait_within(Some(Duration::ZERO)).unwrap().unwrap();
        assert_eq!((last.index, waiting.join().unwrap().index), (1, 0));
    }
}

#[test]
fn all_name_the_same_number_of_parties() {
    for store in TestStore::all() {
        let client = store.client();
        let (two, three) = (barrier(&client, &store.name, 2), barrier(&client, &store.name, 3));
        let waiting = two.gate().begin(None).unwrap();
        until_waiting(&two, 1);
        let error = three.wait().unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidConfig, "{}", store.uri);
        assert!(error.to_string().contains("for 3 parties here, but for 2"), "{error}");
        drop(waiting);
        until_waiting(&two, 0);
        assert_eq!(three.wait_within(Some(Duration::from_millis(300))).unwrap(), None);
        assert_eq!(barrier(&client, &store.name, 1).wait().unwrap().index, 0);
    }
}

#[test]
fn what_is_wrong_is_said_when_it_is_built() {
    for store in TestStore::all() {
        let client = store.client();
        for parties in [0, 10_001, u32::MAX] {
            assert_eq!(kind(client.barrier(&store.name, parties).build()), Kind::InvalidConfig, "{parties}");
        }
        for ttl in [Duration::ZERO, Duration::from_millis(19), Duration::from_secs(86_401), Duration::MAX] {
            assert_eq!(kind(client.barrier(&store.name, 1).ttl(ttl).build()), Kind::InvalidConfig, "{ttl:?}");
        }
        for name in ["", "a\nb"] {
            assert_eq!(kind(client.barrier(name, 1).build()), Kind::InvalidConfig, "{name:?}");
        }
        assert!(client.barrier(&store.name, 10_000).ttl(Duration::from_secs(1)).build().is_ok());
    }
    let joined = Client::open(Some("redis://localhost?layout=redisson"), ConnectOptions::default()).unwrap();
    assert_eq!(kind(joined.barrier("x", 1).build()), Kind::Unsupported);
}

#[test]
fn a_barrier_and_a_lock_of_one_name_are_not_two_things() {
    for store in TestStore::all() {
        let client = store.client();
        let [lock, shared, counting, mine] = store.names(["lock", "shared", "counting", "mine"]);
        let held = client.lock(&lock).acquire().unwrap();
        let read = client.rwlock(&shared).read().acquire().unwrap();
        client.latch(&counting, 2).build().unwrap().count_down().unwrap();
        for name in [&lock, &shared, &counting] {
            assert_eq!(kind(barrier(&client, name, 1).wait()), Kind::ForeignLayout, "{}", store.uri);
            assert_eq!(kind(barrier(&client, name, 1).waiting()), Kind::ForeignLayout, "{}", store.uri);
        }
        barrier(&client, &mine, 1).wait().unwrap();
        assert_eq!(kind(client.lock(&mine).acquire()), Kind::ForeignLayout, "{}", store.uri);
        assert_eq!(kind(client.rwlock(&mine).read().acquire()), Kind::ForeignLayout, "{}", store.uri);
        assert_eq!(kind(client.latch(&mine, 1).build().unwrap().count_down()), Kind::ForeignLayout, "{}", store.uri);
        let seen = client.inspect(&mine).unwrap();
        assert_eq!((seen.primitive, seen.waiters), (Some("barrier"), 0), "{}", store.uri);
        assert!(client.list().unwrap().contains(&mine), "{}", store.uri);
        assert!(held.is_held() && read.is_held());
    }
}

#[tokio::test]
async fn tasks_wait_as_threads_do() {
    for store in TestStore::all() {
        let client: lockwright::Client = store.client().into_face();
        let barrier = client.barrier(&store.name, 3).build().unwrap();
        let waiting: Vec<_> = (0..2)
            .map(|_| {
                let barrier = barrier.clone();
                tokio::spawn(async move { barrier.wait().await })
            })
            .collect();
        while barrier.waiting().await.unwrap() < 2 {
            tokio::task::yield_now().await;
        }
        let mine = barrier.wait_within(None).await.unwrap().unwrap();
        assert_eq!(mine.index, 2);
        for other in waiting {
            assert_eq!(other.await.unwrap().unwrap().generation, mine.generation);
        }
        assert_eq!(barrier.wait_within(Some(Duration::from_millis(300))).await.unwrap(), None);
        client.close().await;
        assert_eq!(kind(barrier.waiting().await), Kind::Closed);
    }
}
