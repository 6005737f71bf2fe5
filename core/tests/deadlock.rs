//! Whoever would wait for itself is told so, and whoever waits in vain is told for whom.

mod test_stores;

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use lockwright::blocking::{self, Lock};
use lockwright::options::ConnectOptions;
use lockwright::queue::OwnerId;
use lockwright::{Error, Kind};
use test_stores::TestStore;

const SHORT: Duration = Duration::from_millis(300);

fn is_deadlock(error: &Error, says: &str) {
    assert!(error.kind() == Kind::Deadlock && error.to_string().contains(says), "{error}");
}

#[test]
fn a_lock_in_itself_is_a_deadlock() {
    for store in TestStore::all() {
        let lock = store.lock().build().unwrap();
        let guard = lock.acquire().unwrap();
        is_deadlock(&lock.acquire().unwrap_err(), "the caller has held it itself for");
        assert!(guard.is_held());
        let _ = guard.release().unwrap();
        let _ = lock.acquire().unwrap().release().unwrap();
    }
}

#[test]
fn who_gave_back_the_guard_of_another_thread_holds_its_own_yet() {
    let client = blocking::connect("memory://deadlock-given").unwrap();
    let theirs = thread::scope(|scope| scope.spawn(|| client.lock("theirs").acquire().unwrap()).join().unwrap());
    let mine = client.lock("mine").build().unwrap();
    let guard = mine.acquire().unwrap();
    drop(theirs);
    is_deadlock(&mine.acquire().unwrap_err(), "itself");
    drop(guard);
    let _ = mine.acquire().unwrap().release().unwrap();
}

#[test]
fn a_hold_that_ends_by_itself_is_waited_for() {
    for store in TestStore::all() {
        let short = store.lock().ttl(SHORT).renew(false).build().unwrap();
        let guard = short.acquire().unwrap();
        let _ = short.acquire().unwrap().release().unwrap();
        assert!(!guard.is_held());
    }
}

#[test]
fn several_locks_with_one_that_is_held_already_are_a_deadlock() {
    let client = blocking::connect("memory://deadlock-multi").unwrap();
    let guard = client.lock("b").acquire().unwrap();
    is_deadlock(&client.multi_lock(["a", "b"]).unwrap().acquire().unwrap_err(), "itself");
    let _ = client.lock("a").timeout(Duration::from_secs(9)).acquire().unwrap().release().unwrap();
    drop(guard);
}

#[test]
fn a_reader_that_wants_to_write_and_a_writer_that_wants_to_read_are_deadlocks() {
    for store in TestStore::all() {
        let rwlock = store.client().rwlock(&store.name);
        let reads = rwlock.read().acquire().unwrap();
        is_deadlock(&rwlock.write().acquire().unwrap_err(), "try_upgrade");
        let again = rwlock.read().acquire().unwrap();
        let _ = again.release().unwrap();
        let _ = reads.release().unwrap();
        let writes = rwlock.write().acquire().unwrap();
        is_deadlock(&rwlock.read().acquire().unwrap_err(), "itself");
        is_deadlock(&rwlock.write().acquire().unwrap_err(), "itself");
        let _ = writes.release().unwrap();
        let _ = rwlock.write().acquire().unwrap().release().unwrap();
    }
}

#[test]
fn two_permits_are_none() {
    let client = blocking::connect("memory://deadlock-permits").unwrap();
    let first = client.semaphore("x", 1).acquire().unwrap();
    let other = client.semaphore("x", 1);
    let (begun, begins) = mpsc::channel();
    let waits = thread::spawn(move || {
        begun.send(()).unwrap();
        let _ = other.acquire().unwrap().release().unwrap();
    });
    begins.recv().unwrap();
    let _ = first.release().unwrap();
    waits.join().unwrap();
}

/// Threads each of which holds its own of so many locks, then wants the next one's: what each got, once all have asked.
fn in_a_circle(client: &blocking::Client, count: usize) -> Vec<Result<(), Kind>> {
    let name = move |i: usize| format!("circle-{}", i % count);
    let barrier = std::sync::Barrier::new(count);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|i| {
                let (client, barrier) = (client.clone(), &barrier);
                scope.spawn(move || {
                    let mine = client.lock(&name(i)).acquire().unwrap();
                    barrier.wait();
                    let next = client.lock(&name(i + 1)).acquire();
                    drop(mine);
                    next.map(drop).map_err(|error| error.kind())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn a_circle_of_waiters_is_broken_by_one_of_them() {
    for store in TestStore::all() {
        let client = store.client();
        for count in [2, 3, 5] {
            let ended = in_a_circle(&client, count);
            let refused = ended.iter().filter(|end| **end == Err(Kind::Deadlock)).count();
            let granted = ended.iter().filter(|end| end.is_ok()).count();
            assert_eq!((refused, granted), (1, count - 1), "{ended:?}");
        }
    }
}

#[test]
fn who_waits_for_another_that_waits_for_a_third_is_no_circle() {
    let client = blocking::connect("memory://no-circle").unwrap();
    let (a, b) = (client.lock("a").build().unwrap(), client.lock("b").build().unwrap());
    let held = a.acquire().unwrap();
    let chain = thread::spawn({
        let (a, b) = (a.clone(), b.clone());
        move || {
            let mine = b.acquire().unwrap();
            let _ = a.acquire().unwrap().release().unwrap();
            let _ = mine.release().unwrap();
        }
    });
    while client.metrics().contended == 0 {
        thread::yield_now();
    }
    let last = thread::spawn(move || b.acquire().unwrap().release().unwrap());
    while client.metrics().contended < 2 {
        thread::yield_now();
    }
    let _ = held.release().unwrap();
    chain.join().unwrap();
    let _ = last.join().unwrap();
}

#[test]
fn who_waits_with_a_limit_is_told_for_whom() {
    for store in TestStore::all() {
        let client = store.client();
        let lock = client.lock(&store.name).label("night run").build().unwrap();
        let guard = thread::Builder::new().name("holder".into()).spawn({
            let lock = lock.clone();
            move || lock.acquire().unwrap()
        });
        let guard = guard.unwrap().join().unwrap();
        let limited = lock.with_timeout(Some(SHORT));
        let says = |lock: &Lock, parts: &[&str]| {
            let error = lock.acquire().unwrap_err();
            let said = error.to_string();
            assert!(error.kind() == Kind::Timeout && parts.iter().all(|part| said.contains(part)), "{said}");
        };
        says(&limited, &["held by this process", " ms;"]);
        let other = store.client().lock(&store.name).timeout(SHORT).build().unwrap();
        says(&other, &["held by this process \"night run\" for "]);
        let _ = guard.release().unwrap();
        let mine = lock.acquire().unwrap();
        says(&limited, &["held by the caller itself for "]);
        let _ = mine.release().unwrap();
        let reader = client.rwlock(&store.names(["shared"])[0]);
        let reads = (reader.read().acquire().unwrap(), reader.read().acquire().unwrap());
        says(&reader.write().timeout(SHORT).build().unwrap(), &["held by this process and 1 more for "]);
        drop(reads);
    }
}

#[test]
fn whoever_hears_late_that_its_time_is_over_is_told_who_holds_it_here() {
    let lock = blocking::connect("memory://late").unwrap().lock("x").build().unwrap();
    let held = lock.acquire().unwrap();
    let mut waiting = lock.begin(Some(SHORT)).unwrap();
    assert!(waiting.wait(Duration::ZERO).is_none());
    // More than is left for asking a store.
    thread::sleep(SHORT + Duration::from_millis(150));
    let error = waiting.wait(Duration::MAX).unwrap().unwrap_err();
    assert!(error.to_string().contains("held by this process "), "{error}");
    let _ = held.release().unwrap();
}

#[test]
fn a_thread_that_lives_is_called_by_its_name() {
    let client = blocking::connect("memory://thread-name").unwrap();
    let lock = client.lock("x").build().unwrap();
    let ((held, holds), (done, ends)) = (mpsc::channel(), mpsc::channel::<()>());
    let holder = thread::Builder::new().name("the-holder".into()).spawn({
        let lock = lock.clone();
        move || {
            let guard = lock.acquire().unwrap();
            held.send(()).unwrap();
            ends.recv().unwrap();
            drop(guard);
        }
    });
    holds.recv().unwrap();
    let error = lock.with_timeout(Some(SHORT)).acquire().unwrap_err();
    assert!(error.to_string().contains("this process (thread the-holder) for"), "{error}");
    done.send(()).unwrap();
    holder.unwrap().join().unwrap();
}

#[test]
fn to_be_told_takes_no_longer_than_the_limit_and_a_moment_and_many_ask_once() {
    let holder = blocking::connect("memory://told-once").unwrap();
    let _guard = holder.lock("x").acquire().unwrap();
    let client = blocking::connect("memory://told-once").unwrap();
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| client.lock("x").timeout(SHORT).acquire().unwrap_err());
        }
    });
    let (took, requests) = (began.elapsed(), client.metrics().requests);
    assert!(took < SHORT * 4 && requests < 20, "{took:?}, {requests} requests");
}

#[test]
fn where_anybody_may_release_the_wait_goes_on() {
    let client = blocking::connect("memory://released-by-anybody").unwrap();
    let lock = client.lock("x").build().unwrap().for_owner(OwnerId(7)).released_by_anybody();
    let guard = lock.acquire().unwrap();
    let (begun, begins) = mpsc::channel();
    let other = thread::spawn(move || {
        begins.recv().unwrap();
        let _ = guard.release().unwrap();
    });
    let mut acquiring = lock.begin(None).unwrap();
    assert!(acquiring.wait(Duration::ZERO).is_none());
    begun.send(()).unwrap();
    let again = loop {
        if let Some(granted) = acquiring.wait(Duration::MAX) {
            break granted.unwrap();
        }
    };
    other.join().unwrap();
    let _ = again.release().unwrap();
}

#[tokio::test]
async fn a_task_that_says_who_it_is_is_told_the_same() {
    let client: lockwright::Client =
        lockwright::Client::open(Some("memory://deadlock-task"), ConnectOptions::default()).unwrap();
    let lock = client.lock("x").build().unwrap();
    let (mine, other) = (lock.clone().for_owner(OwnerId(1)), lock.for_owner(OwnerId(2)));
    let guard = mine.acquire().await.unwrap();
    is_deadlock(&mine.acquire().await.unwrap_err(), "itself");
    let waiting = tokio::spawn(async move { other.acquire().await.unwrap().release().await });
    let _ = guard.release().await.unwrap();
    let _ = waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_wait_that_is_awaited_by_who_is_in_its_way_is_endless() {
    let client: lockwright::Client =
        lockwright::Client::open(Some("memory://deadlock-awaited"), ConnectOptions::default()).unwrap();
    let lock = |name: &str, owner| client.lock(name).build().unwrap().for_owner(OwnerId(owner));
    let waits = |name: &'static str, owner| {
        let lock = lock(name, owner);
        tokio::spawn(async move { lock.acquire().await })
    };
    let ids = |pairs: &[(u64, u64)]| pairs.iter().map(|(a, b)| (OwnerId(*a), OwnerId(*b))).collect::<Vec<_>>();
    let (a, b) = (lock("a", 1).acquire().await.unwrap(), lock("b", 2).acquire().await.unwrap());
    let (for_b, for_a) = (waits("b", 3), waits("a", 4));
    while client.metrics().waiting < 2 {
        tokio::task::yield_now().await;
    }
    assert!(lock("a", 9).is_kept_by(&[OwnerId(2), OwnerId(1)]) && !lock("a", 9).is_kept_by(&[OwnerId(2)]));
    for no_circle in [&[][..], &[(1, 3)], &[(1, 9), (2, 4)]] {
        assert!(client.endless_wait(&ids(no_circle)).is_none(), "{no_circle:?}");
    }
    let (waiter, error) = client.endless_wait(&ids(&[(1, 3), (2, 4)])).unwrap();
    assert_eq!(waiter, OwnerId(3));
    is_deadlock(&error, "the circle is \"b\", then \"a\"");
    let (waiter, error) = client.endless_wait(&ids(&[(1, 3), (1, 4)])).unwrap();
    assert_eq!(waiter, OwnerId(4));
    is_deadlock(&error, "itself");
    let _ = a.release().await.unwrap();
    assert!(client.endless_wait(&ids(&[(1, 3), (2, 4)])).is_none(), "it was released");
    let _ = b.release().await.unwrap();
    drop((for_a.await.unwrap(), for_b.await.unwrap()));
}
