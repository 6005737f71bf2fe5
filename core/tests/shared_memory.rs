//! Read/write locks and semaphores, the whole way down and back, over the reference store.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use lockwright::blocking;
use lockwright::lease::ReleaseOutcome;
use lockwright::options::ConnectOptions;
use lockwright::{Error, Kind};

const SOON: Duration = Duration::from_millis(20);

fn client(space: &str) -> blocking::Client {
    blocking::Client::open(Some(&format!("memory://shared-{space}")), ConnectOptions::default()).unwrap()
}

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> Kind {
    result.unwrap_err().kind()
}

/// The first to wait opens its inbox before it takes its place.
fn until_so_many_wait(client: &blocking::Client, waiters: u64) {
    while client.inspect("x").unwrap().waiters != waiters {
        std::thread::yield_now();
    }
}

#[test]
fn readers_share_and_a_writer_is_alone() {
    let (a, b) = (client("rw"), client("rw"));
    let first = a.rwlock("x").read().acquire().unwrap();
    let second = b.rwlock("x").read().acquire().unwrap();
    let third = a.rwlock("x").read().label("third").try_acquire().unwrap().expect("one client may read twice");
    assert!(second.token() > first.token() && third.token() > second.token());
    assert!(b.rwlock("x").write().try_acquire().unwrap().is_none());
    assert_eq!(kind(b.rwlock("x").write().timeout(SOON).acquire()), Kind::Timeout);
    for guard in [first, second, third] {
        assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    }
    let writer = b.rwlock("x").write().acquire().unwrap();
    assert!(a.rwlock("x").read().try_acquire().unwrap().is_none());
    assert!(b.rwlock("x").write().try_acquire().unwrap().is_none(), "not reentrant, in one process either");
    assert_eq!(writer.release().unwrap(), ReleaseOutcome::Released);
    assert_eq!(a.list().unwrap(), Vec::<String>::new());
}

#[test]
fn a_reader_that_comes_later_waits_for_the_writer_that_waits() {
    let client = client("order");
    let rw = client.rwlock("x");
    let reader = rw.read().acquire().unwrap();
    let writing = {
        let lock = rw.write().build().unwrap();
        std::thread::spawn(move || lock.acquire().unwrap())
    };
    until_so_many_wait(&client, 1);
    assert!(rw.read().try_acquire().unwrap().is_none());
    let late = {
        let lock = rw.read().build().unwrap();
        std::thread::spawn(move || lock.acquire().unwrap())
    };
    until_so_many_wait(&client, 2);
    let _ = reader.release().unwrap();
    let writer = writing.join().unwrap();
    assert!(writer.is_held() && !late.is_finished());
    let token = writer.token();
    let _ = writer.release().unwrap();
    assert!(late.join().unwrap().token() > token);
}

#[test]
fn a_writer_that_gives_up_lets_those_behind_it_in() {
    let client = client("give-up");
    let rw = client.rwlock("x");
    let reader = rw.read().acquire().unwrap();
    let writing = rw.write().build().unwrap().begin(None).unwrap();
    until_so_many_wait(&client, 1);
    let late = {
        let lock = rw.read().build().unwrap();
        std::thread::spawn(move || lock.acquire().unwrap())
    };
    until_so_many_wait(&client, 2);
    assert!(reader.is_held());
    drop(writing);
    assert!(late.join().unwrap().is_held());
}

#[test]
fn the_writer_becomes_a_reader_and_the_only_reader_the_writer() {
    let (a, b) = (client("change"), client("change"));
    let (here, there) = (a.rwlock("x"), b.rwlock("x"));
    let guard = here.write().acquire().unwrap();
    let written = guard.token();
    guard.downgrade().unwrap();
    guard.downgrade().unwrap();
    assert_eq!(guard.token(), written);
    let other = there.read().acquire().unwrap();
    assert!(there.write().try_acquire().unwrap().is_none());
    // Both want to write: neither waits for the other.
    assert!(!guard.try_upgrade().unwrap());
    assert!(!other.try_upgrade().unwrap());
    assert_eq!(guard.token(), written);
    let read = other.token();
    let _ = other.release().unwrap();
    assert!(guard.try_upgrade().unwrap());
    assert!(guard.token() > read && guard.token() > written);
    assert!(there.read().try_acquire().unwrap().is_none());
    assert!(b.break_lock("x", guard.token()).unwrap());
    assert_eq!(kind(guard.try_upgrade()), Kind::Lost);
    assert_eq!(kind(guard.downgrade()), Kind::Lost);
    let lock = a.lock("lock").acquire().unwrap();
    assert_eq!(kind(lock.downgrade()), Kind::Unsupported);
    let permit = a.semaphore("permits", 2).acquire().unwrap();
    assert_eq!(kind(permit.try_upgrade()), Kind::Unsupported);
}

#[test]
fn permits_are_never_more_than_there_are() {
    let held = Arc::new(AtomicI64::new(0));
    let clients = [client("count"), client("count")];
    let threads: Vec<_> = (0..8)
        .map(|i| {
            let take = i64::from(i % 3 == 0) + 1;
            let lock = clients[i as usize % 2].semaphore("x", 3).take(take as u32);
            let lock = if i % 4 < 2 { lock.build() } else { lock.fair().build() }.unwrap();
            let held = held.clone();
            std::thread::spawn(move || {
                for _ in 0..200 {
                    let guard = lock.acquire().unwrap();
                    assert!(held.fetch_add(take, Ordering::SeqCst) + take <= 3);
                    std::thread::yield_now();
                    held.fetch_sub(take, Ordering::SeqCst);
                    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(clients[0].list().unwrap(), Vec::<String>::new());
}

#[test]
fn permits_of_a_holder_that_is_gone_come_back_and_each_has_its_own_lease() {
    let client = client("expire");
    let pool = client.semaphore("x", 2);
    let kept = pool.acquire().unwrap();
    let gone = client.semaphore("x", 2).ttl(Duration::from_millis(400)).renew(false).acquire().unwrap();
    assert!(client.semaphore("x", 2).try_acquire().unwrap().is_none());
    let next = client.semaphore("x", 2).acquire().unwrap();
    assert!(!gone.is_held() && kept.is_held() && next.is_held());
    assert_eq!(gone.release().unwrap(), ReleaseOutcome::Expired);
}

#[test]
fn a_size_is_the_first_users_until_it_is_resized() {
    let (a, b) = (client("size"), client("size"));
    let first = a.semaphore("x", 2).acquire().unwrap();
    let second = b.semaphore("x", 5).acquire().unwrap();
    let lock = b.semaphore("x", 5).build().unwrap();
    assert!(lock.try_acquire().unwrap().is_none(), "there are two, whatever else is said");
    assert_eq!(kind(b.semaphore("x", 5).take(3).acquire()), Kind::InvalidConfig);
    lock.resize(3).unwrap();
    let third = lock.try_acquire().unwrap().unwrap();
    lock.resize(1).unwrap();
    assert!(first.is_held() && second.is_held() && third.is_held());
    let _ = first.release().unwrap();
    let _ = second.release().unwrap();
    assert!(lock.try_acquire().unwrap().is_none());
    let _ = third.release().unwrap();
    let only = lock.acquire().unwrap();
    assert!(lock.try_acquire().unwrap().is_none(), "it keeps its size though it was idle");
    let seen = a.inspect("x").unwrap();
    let shared = seen.shared.unwrap();
    assert_eq!((shared.permits, shared.holders.len()), (Some(1), 1));
    assert_eq!(shared.holders[0].holder.first_token, only.token().n);
    assert_eq!(kind(a.lock("y").build().unwrap().resize(3)), Kind::Unsupported);
    assert_eq!(kind(lock.resize(0)), Kind::InvalidConfig);
}

#[test]
fn big_requests_are_passed_over_unless_they_are_fair() {
    for fair in [false, true] {
        let client = client(if fair { "fair" } else { "unfair" });
        let held = client.semaphore("x", 3).take(2).acquire().unwrap();
        let big = client.semaphore("x", 3).take(3);
        let big = if fair { big.fair() } else { big }.build().unwrap();
        let waiting = std::thread::spawn(move || big.acquire().unwrap().token());
        while client.inspect("x").unwrap().waiters == 0 {
            std::thread::yield_now();
        }
        let small = client.semaphore("x", 3).try_acquire().unwrap();
        assert_eq!(small.is_none(), fair);
        drop((held, small));
        waiting.join().unwrap();
    }
}

#[test]
fn what_makes_no_sense_is_refused_when_it_is_built() {
    let client = client("bad");
    for (take, permits) in [(1, 0), (0, 2), (3, 2), (1, 1_000_001)] {
        let built = client.semaphore("x", permits).take(take).build();
        assert_eq!(kind(built.map(|_| ())), Kind::InvalidConfig, "{take} of {permits}");
    }
    let lock = client.lock("x").take(1).build();
    assert_eq!(kind(lock.map(|_| ())), Kind::InvalidConfig);
    let owner = lockwright::queue::OwnerId(1);
    assert_eq!(kind(client.rwlock("x").read().reentrant(owner).build().map(|_| ())), Kind::Unsupported);
    let _held = client.lock("taken").acquire().unwrap();
    assert_eq!(kind(client.rwlock("taken").read().acquire()), Kind::ForeignLayout);
    let _shared = client.semaphore("shared", 2).acquire().unwrap();
    assert_eq!(kind(client.rwlock("shared").read().acquire()), Kind::ForeignLayout);
    assert_eq!(kind(client.lock("shared").acquire()), Kind::ForeignLayout);
}

#[tokio::test]
async fn tasks_read_together_and_change_what_they_hold() {
    let client = lockwright::connect("memory://shared-tasks").await.unwrap();
    let rw = client.rwlock("x");
    let guard = rw.write().acquire().await.unwrap();
    guard.downgrade().await.unwrap();
    let other = rw.read().acquire().await.unwrap();
    assert!(!guard.try_upgrade().await.unwrap());
    let waiting = tokio::time::timeout(SOON, rw.write().acquire()).await;
    assert!(waiting.is_err());
    let _ = other.release().await.unwrap();
    assert!(guard.try_upgrade().await.unwrap());
    client.close().await;
    assert!(!guard.is_held());
}
