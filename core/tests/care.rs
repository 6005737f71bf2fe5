//! What is refused is said, why a hold ended is said as it was, and what a program does around its locks: ping, drain,
//! leadership, a least time.

mod test_stores;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use lockwright::blocking::{self, Client};
use lockwright::lease::{LossReason, ReleaseOutcome};
use lockwright::options::{AcquireOptions, ConnectOptions};
use lockwright::queue::OwnerId;
use lockwright::{Kind, PING};
use test_stores::TestStore;

const SHORT: Duration = Duration::from_millis(300);

/// The Redis server that tests share, and a name of this test's own whose record `spoil` replaces.
fn redis() -> (Client, String, redis::Connection) {
    let store = TestStore::all().pop().unwrap();
    let raw = redis::Client::open(store.uri.as_str()).unwrap().get_connection().unwrap();
    (store.client(), store.name, raw)
}

fn spoil(raw: &mut redis::Connection, name: &str) {
    let key = format!("lw:{{{name}}}");
    let _: () = redis::pipe().del(&key).set(&key, "somebody else's").query(raw).unwrap();
}

#[test]
fn an_extension_that_the_store_refuses_says_why() {
    let (client, name, mut raw) = redis();
    let guard = client.lock(&name).acquire().unwrap();
    spoil(&mut raw, &name);
    let error = guard.extend(Duration::from_secs(60)).unwrap_err();
    assert_eq!(error.kind(), Kind::ForeignLayout, "{error}");
    let again = guard.extend(Duration::from_secs(60)).unwrap_err();
    assert_eq!((again.kind(), guard.why_lost()), (Kind::ForeignLayout, None), "the lease runs yet: {again}");
}

#[test]
fn a_downgrade_that_the_store_refuses_says_why() {
    let (client, name, mut raw) = redis();
    let guard = client.rwlock(&name).write().acquire().unwrap();
    spoil(&mut raw, &name);
    let error = guard.downgrade().unwrap_err();
    assert_eq!(error.kind(), Kind::ForeignLayout, "{error}");
    assert_eq!(guard.try_upgrade().unwrap_err().kind(), Kind::ForeignLayout);
}

#[test]
fn what_was_abandoned_is_lost_for_that_reason() {
    let client = blocking::connect("memory://abandoned").unwrap();
    let guard = client.lock("x").ttl(SHORT).acquire().unwrap();
    let (tell, hear) = std::sync::mpsc::channel();
    guard.on_lost(move |reason| tell.send(reason.clone()).unwrap());
    guard.abandon();
    assert_eq!(hear.recv_timeout(Duration::from_secs(9)).unwrap(), LossReason::Abandoned);
    assert_eq!(client.metrics().lost.of(&LossReason::Abandoned), 1);
}

#[test]
fn one_guard_of_several_that_is_abandoned_takes_nothing_from_the_others() {
    let client = blocking::connect("memory://abandoned-level").unwrap();
    let lock = client.lock("x").ttl(SHORT).reentrant(OwnerId(7)).build().unwrap();
    let (outer, inner) = (lock.acquire().unwrap(), lock.acquire().unwrap());
    inner.abandon();
    std::thread::sleep(3 * SHORT);
    assert!(outer.is_held());
    let (tell, hear) = std::sync::mpsc::channel();
    outer.on_lost(move |reason| tell.send(reason.clone()).unwrap());
    assert_eq!(outer.release().unwrap(), ReleaseOutcome::Kept(1));
    // Whoever forgot the inner one may yet be at work under it.
    assert_eq!(hear.recv_timeout(Duration::from_secs(9)).unwrap(), LossReason::Abandoned);
    assert!(lock.acquire().unwrap().is_held());
}

#[test]
fn a_store_that_serves_is_well() {
    for store in TestStore::all() {
        let client = store.client();
        let health = client.ping().unwrap();
        assert!(health.took < Duration::from_secs(5), "{health:?}");
        let expected = store.uri.starts_with("redis").then_some("noeviction");
        assert!(health.eviction.as_deref() == expected && !health.may_evict(), "{health:?}");
        let held = client.lock(PING).acquire().unwrap();
        store.client().ping().unwrap();
        let _ = held.release().unwrap();
    }
}

/// Runs a task to its end in this thread, with no runtime of anybody's around it.
fn run<T>(task: impl Future<Output = T>) -> T {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let mut task = pin!(task);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match task.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn a_task_of_an_executor_that_is_not_tokios_asks_the_store() {
    for store in TestStore::all() {
        let client: lockwright::Client = lockwright::Client::open(Some(&store.uri), ConnectOptions::default()).unwrap();
        let holder = store.client().lock(&store.name).acquire().unwrap();
        run(async {
            client.ping().await.unwrap();
            let waited = client.lock(&store.name).build().unwrap().acquire_within(Some(SHORT)).await;
            assert_eq!(waited.unwrap_err().kind(), Kind::Timeout);
            assert_eq!(holder.release().unwrap(), ReleaseOutcome::Released);
            drop(client.lock(&store.name).build().unwrap().acquire().await.unwrap());
        });
    }
}

#[test]
fn a_store_that_nobody_serves_is_not_well_at_once() {
    let began = Instant::now();
    let client = blocking::connect("redis://127.0.0.1:1").unwrap();
    assert_eq!(client.ping().unwrap_err().kind(), Kind::Unavailable);
    assert!(began.elapsed() < Duration::from_secs(4));
}

#[test]
fn a_drained_client_begins_nothing_and_waits_for_what_is_held() {
    for store in TestStore::all() {
        let client = store.client();
        let [first, second] = store.names(["first", "second"]);
        let guard = client.lock(&first).acquire().unwrap();
        let waits = thread::spawn({
            let lock = client.lock(&first);
            move || lock.acquire()
        });
        while client.metrics().waiting == 0 {
            thread::yield_now();
        }
        assert_eq!(client.drain(SHORT).unwrap(), std::slice::from_ref(&first));
        assert_eq!(waits.join().unwrap().unwrap_err().kind(), Kind::Closed);
        assert_eq!(client.lock(&second).try_acquire().unwrap_err().kind(), Kind::Closed);
        let done = thread::spawn({
            let client = client.clone();
            move || client.drain(Duration::from_secs(9))
        });
        assert!(guard.is_held());
        let _ = guard.release().unwrap();
        assert!(done.join().unwrap().unwrap().is_empty());
        client.close();
    }
}

#[test]
fn what_is_released_early_stays_taken_for_its_least_time() {
    for store in TestStore::all() {
        let (client, other) = (store.client(), store.client());
        let least = Duration::from_millis(900);
        let free_after = |began: Instant| {
            assert!(other.lock(&store.name).try_acquire().unwrap().is_none(), "it is taken yet");
            drop(other.lock(&store.name).timeout(Duration::from_secs(9)).acquire().unwrap());
            let after = began.elapsed();
            assert!(after >= least && after < least + Duration::from_secs(3), "{after:?}");
        };
        let began = Instant::now();
        let guard = client.lock(&store.name).at_least_for(least).acquire().unwrap();
        assert_eq!(guard.release().unwrap().code(), "released");
        free_after(began);

        let began = Instant::now();
        let mut guard = client.lock(&store.name).timeout(Duration::from_secs(9)).acquire().unwrap();
        guard.hold_at_least_for(least).unwrap();
        drop(guard);
        let until = Instant::now() + Duration::from_secs(5);
        while client.metrics().held > 0 && Instant::now() < until {
            thread::yield_now();
        }
        client.close();
        free_after(began);
    }
}

#[test]
fn a_least_time_that_is_over_holds_nothing_up() {
    let client = blocking::connect("memory://least-over").unwrap();
    let guard = client.lock("x").at_least_for(Duration::from_millis(1)).acquire().unwrap();
    thread::sleep(Duration::from_millis(5));
    let _ = guard.release().unwrap();
    assert!(client.lock("x").try_acquire().unwrap().is_some());
    let refused = client.rwlock("y").read().at_least_for(SHORT).acquire().unwrap_err();
    assert_eq!(refused.kind(), Kind::Unsupported, "{refused}");
    let too_long = client.lock("x").at_least_for(Duration::from_secs(90_000)).build().unwrap_err();
    assert_eq!(too_long.kind(), Kind::InvalidConfig);
}

#[test]
fn an_exported_lock_is_resumed_with_other_options() {
    for store in TestStore::all() {
        let client = store.client();
        let secret = client.lock(&store.name).acquire().unwrap().export(Duration::from_secs(20)).unwrap();
        let options = AcquireOptions { ttl: Duration::from_secs(500), label: Some("mine".into()), ..client.options() };
        let guard = store.client().resume_with(secret.as_str(), &options).unwrap();
        let holder = client.inspect(&store.name).unwrap().holder.unwrap();
        assert!(holder.remaining > Duration::from_secs(400) && holder.card.label == "mine", "{holder:?}");
        let _ = guard.release().unwrap();
    }
}

#[test]
fn who_loses_leadership_leads_again() {
    let client = blocking::connect("memory://reigns").unwrap();
    let operator = blocking::connect("memory://reigns").unwrap();
    let reigns = AtomicU32::new(0);
    let done = client.election("x").run("me", |guard| {
        if reigns.fetch_add(1, Ordering::SeqCst) == 0 {
            assert!(operator.break_lock("x", guard.token()).unwrap());
            while guard.is_held() {
                guard.extend(Duration::from_secs(30)).ok();
            }
        }
        guard.token().n
    });
    assert!(done.unwrap() > 0 && reigns.load(Ordering::SeqCst) == 2);
    assert!(operator.lock("x").try_acquire().unwrap().is_some(), "it resigned");
}

#[tokio::test]
async fn the_work_of_a_leader_that_is_no_more_is_dropped_and_begun_again() {
    let open = || lockwright::Client::open(Some("memory://async-reigns"), ConnectOptions::default()).unwrap();
    let (client, operator): (lockwright::Client, lockwright::Client) = (open(), open());
    let options = AcquireOptions { ttl: SHORT, ..client.options() };
    let reigns = AtomicU32::new(0);
    let work = |token: lockwright::Token| {
        let (first, operator) = (reigns.fetch_add(1, Ordering::SeqCst) == 0, operator.clone());
        async move {
            if first {
                assert!(operator.break_lock("x", token).await.unwrap());
                std::future::pending::<()>().await;
            }
            token.n
        }
    };
    assert!(client.election_with("x", &options).run("me", work).await.unwrap() > 0);
    assert_eq!(reigns.load(Ordering::SeqCst), 2);
    assert!(operator.lock("x").try_acquire().await.unwrap().is_some());
}
