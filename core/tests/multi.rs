//! Several locks at once, on every store.

mod test_stores;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lockwright::lease::ReleaseOutcome;
use lockwright::multi::MultiGuard;
use lockwright::options::AcquireOptions;
use lockwright::{Async, Error, Kind};
use test_stores::TestStore;

#[test]
fn all_are_held_or_none() {
    for place in TestStore::all() {
        let (a, b) = (place.client(), place.client());
        let names = place.names(["b", "a", "c", "a"]);
        let lock = a.multi_lock(&names).unwrap();
        assert_eq!(lock.names().collect::<Vec<_>>(), place.names(["a", "b", "c"]));
        let guard = lock.acquire().unwrap();
        assert!(guard.is_held() && guard.why_lost().is_none() && guard.tokens().count() == 3);
        assert!(guard.remaining() > Duration::from_secs(5));
        for name in &names {
            assert!(b.lock(name).try_acquire().unwrap().is_none());
            assert!(guard.token_of(name).is_some());
        }
        assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
        let one = b.lock(&names[0]).acquire().unwrap();
        assert!(lock.try_acquire().unwrap().is_none());
        let short = a.multi_lock_with(
            &names,
            &lockwright::options::AcquireOptions { timeout: Some(Duration::from_millis(50)), ..a.options() },
        );
        assert_eq!(short.unwrap().acquire().unwrap_err().kind(), Kind::Timeout);
        for name in &names[1..] {
            let held = b.lock(name).timeout(Duration::from_secs(20)).acquire();
            assert!(held.is_ok(), "{name} is still held");
        }
        drop(one);
        let guard = lock.acquire().unwrap();
        assert_eq!(guard.into_guards().len(), 3);
        assert_eq!(a.multi_lock(&names[..0]).unwrap_err().kind(), Kind::InvalidConfig);
    }
}

#[tokio::test]
async fn an_error_names_what_was_waited_for_and_what_was_wanted_with_it() {
    let place = TestStore::all().pop().unwrap();
    let (names, holder) = (place.names(["a", "b", "c"]), place.client());
    let _held = holder.lock(&names[1]).acquire().unwrap();
    let tasks = lockwright::Client::<Async>::open(Some(&place.uri), Default::default()).unwrap();
    // What is only tried is tried in one request, which does not say who kept it from all.
    for (limit, waited) in [(Duration::ZERO, None), (Duration::from_millis(50), Some(&*names[1]))] {
        let options = AcquireOptions { timeout: Some(limit), ..tasks.options() };
        let locks = tasks.multi_lock_with(&names, &options).unwrap();
        let of_a_thread = locks.clone().into_face::<lockwright::blocking::Blocking>().acquire().unwrap_err();
        for error in [locks.acquire().await.unwrap_err(), of_a_thread] {
            assert_eq!((error.kind(), error.lock(), error.store()), (Kind::Timeout, waited, Some(tasks.address())));
            let all = format!("wanted together are {}", names.clone().map(|name| format!("{name:?}")).join(", "));
            assert!(error.context().ends_with(&all), "{error}");
        }
    }
}

#[test]
fn one_that_is_taken_leaves_the_others_free_at_once() {
    let place = TestStore::all().pop().unwrap();
    let names = place.names(["a", "b", "c"]);
    let (a, b, c) = (place.client(), place.client(), place.client());
    let held = a.lock(&names[1]).acquire().unwrap();
    assert!(b.multi_lock(&names).unwrap().try_acquire().unwrap().is_none());
    for name in [&names[0], &names[2]] {
        assert!(c.inspect(name).unwrap().holder.is_none(), "{name}");
    }
    assert!(held.is_held());
}

#[test]
fn a_lock_held_by_another_task_of_this_process_is_waited_for_too() {
    for place in TestStore::all() {
        let client = place.client();
        let names = place.names(["a", "b"]);
        let held = client.lock(&names[1]).acquire().unwrap();
        let lock = client.multi_lock(&names).unwrap();
        assert!(lock.try_acquire().unwrap().is_none());
        let waiting = std::thread::spawn(move || lock.acquire().unwrap());
        while client.lock(&names[0]).try_acquire().unwrap().is_some() {
            std::thread::yield_now();
        }
        assert!(!waiting.is_finished());
        let _ = held.release().unwrap();
        assert!(waiting.join().unwrap().is_held());
    }
}

#[test]
fn the_loss_of_one_is_the_loss_of_all() {
    for place in TestStore::all() {
        let client = place.client();
        let names = place.names(["a", "b"]);
        // Who has held something for less than a second is told of a break by the next renewal.
        let options = AcquireOptions { ttl: Duration::from_secs(3), ..AcquireOptions::default() };
        let guard = client.multi_lock_with(&names, &options).unwrap().acquire().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        guard.on_lost(move |reason| tell.send(reason.clone()).unwrap());
        let token = guard.token_of(&names[1]).unwrap();
        assert!(place.client().break_lock(&names[1], token).unwrap());
        told.recv().unwrap();
        assert!(!guard.is_held() && guard.remaining().is_zero());
        assert_eq!(guard.why_lost().map(|(name, _)| name), Some(&*names[1]));
        assert_ne!(guard.release().unwrap(), ReleaseOutcome::Released);
        assert!(client.lock(&names[0]).try_acquire().unwrap().is_some());
    }
}

#[test]
fn what_is_lost_while_others_are_waited_for_is_waited_for_again() {
    for place in TestStore::all() {
        let (a, b, c) = (place.client(), place.client(), place.client());
        let names = place.names(["a", "b"]);
        let held = a.lock(&names[1]).acquire().unwrap();
        let lock = b.multi_lock(&names).unwrap();
        let waiting = std::thread::spawn(move || lock.acquire().unwrap());
        while c.inspect(&names[1]).unwrap().waiters == 0 {
            std::thread::yield_now();
        }
        let broken = c.inspect(&names[0]).unwrap().holder.unwrap().first_token;
        assert!(c.break_lock(&names[0], lockwright::Token::new(broken)).unwrap());
        // That is pushed, and the store confirms it.
        while b.metrics().lost.total() == 0 {
            std::thread::yield_now();
        }
        let _ = held.release().unwrap();
        let guard = waiting.join().unwrap();
        assert!(guard.is_held() && guard.token_of(&names[0]).unwrap().n > broken);
        let _ = guard.release().unwrap();
    }
}

/// In opposite order, from two processes' worth of clients and two threads each.
fn crossing(place: &TestStore, times: u64) {
    let (one, other) = (place.names(["x", "y", "z"]), place.names(["z", "y", "x"]));
    let inside = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..4)
        .map(|i| {
            let lock = place.client().multi_lock(if i % 2 == 0 { &one } else { &other }).unwrap();
            let inside = inside.clone();
            std::thread::spawn(move || {
                for _ in 0..times / 4 {
                    let guard = lock.acquire().unwrap();
                    assert!(!inside.swap(true, Ordering::SeqCst));
                    inside.store(false, Ordering::SeqCst);
                    let _ = guard.release().unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn opposite_orders_never_deadlock() {
    for place in TestStore::all() {
        crossing(&place, 400);
    }
}

#[test]
#[ignore = "takes minutes; scripts/full.d asks for it"]
fn opposite_orders_never_deadlock_10_000_times() {
    for place in TestStore::all() {
        crossing(&place, 10_000);
    }
}

#[tokio::test]
async fn tasks_take_several_too() {
    for place in TestStore::all() {
        let client = lockwright::Client::<Async>::open(Some(&place.uri), Default::default()).unwrap();
        let names = place.names(["a", "b"]);
        let lock = client.multi_lock(&names).unwrap();
        let guard = lock.acquire().await.unwrap();
        assert!(lock.try_acquire().await.unwrap().is_none());
        let waiting = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire().await.unwrap().release().await.unwrap() }
        });
        tokio::task::yield_now().await;
        guard.extend(Duration::from_secs(60)).await.unwrap();
        assert!(guard.is_held());
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
        assert_eq!(waiting.await.unwrap(), ReleaseOutcome::Released);
    }
}

#[tokio::test]
async fn whoever_goes_away_in_the_middle_leaves_nothing() {
    use std::future::Future;
    use std::task::{Context, Waker};
    for place in TestStore::all() {
        let client = lockwright::Client::<Async>::open(Some(&place.uri), Default::default()).unwrap();
        let names = place.names(["a", "b", "c"]);
        let lock = client.multi_lock(&names).unwrap();
        for _ in 0..20 {
            let mut acquiring = Box::pin(lock.acquire());
            let _ = acquiring.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            drop(acquiring);
        }
        let begun = Instant::now();
        let _ = lock.acquire().await.unwrap().release().await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}

#[test]
fn all_are_given_back_in_one_write_and_each_says_how_it_went() {
    for place in TestStore::all() {
        let (a, b) = (place.client(), place.client());
        let names = place.names(["a", "b", "c", "d"]);
        let guard = a.multi_lock(&names).unwrap().acquire().unwrap();
        let before = a.metrics().round_trips;
        let (broken, token) = guard.tokens().nth(1).map(|(name, token)| (name.to_owned(), token)).unwrap();
        assert!(b.break_lock(&broken, token).unwrap());
        let outcomes: Vec<_> = guard.release_each().into_iter().map(|each| each.unwrap().code()).collect();
        assert_eq!([outcomes[0], outcomes[2], outcomes[3]], ["released"; 3], "{outcomes:?}");
        assert_ne!(outcomes[1], "released");
        if place.uri.starts_with("redis") {
            let sent = a.metrics().round_trips - before;
            assert!(sent <= 1, "{sent} writes for {} locks", names.len());
        }
        for name in &names {
            let free = b.lock(name).try_acquire().unwrap().unwrap_or_else(|| panic!("{name} is not free"));
            let _ = free.release().unwrap();
        }
        let one_by_one = vec![a.lock(&names[0]).acquire().unwrap(), b.lock(&names[1]).acquire().unwrap()];
        let outcomes = MultiGuard::of(one_by_one).release_each();
        assert!(outcomes.iter().all(|each| *each.as_ref().unwrap() == ReleaseOutcome::Released), "{outcomes:?}");
        assert!(a.multi_lock(&names).unwrap().try_acquire().unwrap().is_some());
    }
}

#[tokio::test]
async fn guards_that_were_taken_apart_are_given_back_together_and_none_stays_for_anothers_failure() {
    for place in TestStore::all() {
        let client: lockwright::Client = place.client().into_face();
        let names = place.names(["a", "b", "c"]);
        let mut guards = client.multi_lock(&names).unwrap().acquire().await.unwrap().into_guards();
        guards[1].export(Duration::from_secs(20)).await.unwrap();
        let outcomes = MultiGuard::of(guards).release_each().await;
        let told: Vec<_> =
            outcomes.iter().map(|outcome| outcome.as_ref().map_or_else(Error::code, |told| told.code())).collect();
        assert_eq!(told, ["released", "not_owned", "released"]);
        for free in [&names[0], &names[2]] {
            let _ = client.lock(free).try_acquire().await.unwrap().unwrap().release().await.unwrap();
        }
    }
}
