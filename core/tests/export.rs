//! A held lock goes from hand to hand: exported by one client, resumed by another, on every store that can.

mod test_stores;

use std::time::Duration;

use lockwright::lease::ReleaseOutcome;
use lockwright::options::ConnectOptions;
use lockwright::queue::OwnerId;
use lockwright::{Async, Kind};
use test_stores::TestStore;

const TTL: Duration = Duration::from_secs(60);

#[test]
fn a_held_lock_moves_and_its_exporter_is_dead() {
    for store in TestStore::all() {
        let (a, b) = (store.client(), store.client());
        let mut guard = a.lock(&store.name).label("first").acquire().unwrap();
        let before = guard.token();
        let secret = guard.export(TTL).unwrap();
        assert!(!guard.is_held() && guard.export(TTL).unwrap_err().kind() == Kind::NotOwned);
        assert!(guard.release().unwrap_err().context().contains("exported"));
        assert_eq!(
            b.lock(&store.name).timeout(Duration::from_millis(300)).acquire().unwrap_err().kind(),
            Kind::Timeout
        );
        let seen = b.inspect(&store.name).unwrap().holder.unwrap();
        assert!(seen.remaining > TTL - Duration::from_secs(20) && seen.card.label == "first", "{seen:?}");
        let resumed = b.resume(secret.as_str()).unwrap();
        assert!(resumed.is_held() && resumed.token() > before);
        for client in [&a, &b] {
            assert_eq!(client.resume(secret.as_str()).unwrap_err().kind(), Kind::NotOwned, "{}", store.uri);
        }
        assert!(resumed.is_held() && a.lock(&store.name).try_acquire().unwrap().is_none());
        assert_eq!(resumed.release().unwrap(), ReleaseOutcome::Released);
        assert!(a.lock(&store.name).try_acquire().unwrap().is_some());
    }
}

#[test]
fn a_thousand_hops_keep_exclusion_and_tokens_rise() {
    for store in TestStore::all() {
        let clients = [store.client(), store.client(), store.client()];
        let rival = store.lock().timeout(Duration::ZERO).build().unwrap();
        let mut guard = store.lock().acquire().unwrap();
        let mut token = guard.token();
        for hop in 0..1000 {
            let secret = guard.export(TTL).unwrap();
            assert!(rival.try_acquire().unwrap().is_none());
            guard = clients[hop % 3].resume(secret.as_str()).unwrap();
            assert!(guard.token() > token && guard.is_held());
            token = guard.token();
            assert!(rival.try_acquire().unwrap().is_none());
        }
        assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    }
}

#[test]
fn the_resumed_lock_goes_on_to_whoever_waits() {
    for store in TestStore::all() {
        let mut guard = store.lock().acquire().unwrap();
        let (there, here) = (store.client(), store.client());
        let waiting = there.lock(&store.name).build().unwrap();
        let waiter = std::thread::spawn(move || waiting.acquire().unwrap().token());
        while here.inspect(&store.name).unwrap().waiters == 0 {
            std::thread::yield_now();
        }
        let secret = guard.export(TTL).unwrap();
        let resumed = here.resume(secret.as_str()).unwrap();
        assert!(!waiter.is_finished());
        let token = resumed.token();
        let _ = resumed.release().unwrap();
        assert!(waiter.join().unwrap() > token);
    }
}

#[test]
fn a_secret_lasts_as_long_as_was_said_and_no_longer_than_the_next_holder() {
    for store in TestStore::all() {
        let mut guard = store.lock().acquire().unwrap();
        let secret = guard.export(Duration::from_millis(200)).unwrap();
        // Nobody renews it, and nobody else came: late, but not too late.
        while store.client().inspect(&store.name).unwrap().holder.is_some() {
            std::thread::yield_now();
        }
        let mut guard = store.client().resume(secret.as_str()).unwrap();
        let secret = guard.export(Duration::from_millis(20)).unwrap();
        let next = store.lock().acquire().unwrap();
        assert_eq!(store.client().resume(secret.as_str()).unwrap_err().kind(), Kind::NotOwned);
        assert!(next.is_held());
    }
}

#[test]
fn what_cannot_be_exported_stays_as_it_is() {
    for store in TestStore::all() {
        let client = store.client();
        let lock = client.lock(&store.name).reentrant(OwnerId(1)).build().unwrap();
        let (mut outer, inner) = (lock.acquire().unwrap(), lock.acquire().unwrap());
        assert_eq!(outer.export(TTL).unwrap_err().kind(), Kind::Unsupported);
        assert_eq!(outer.export(Duration::ZERO).unwrap_err().kind(), Kind::InvalidConfig);
        assert_eq!(inner.release().unwrap(), ReleaseOutcome::Kept(1));
        assert!(outer.is_held());
        let secret = outer.export(TTL).unwrap();
        assert_eq!(
            client.lock("other").build().unwrap().resume(secret.as_str()).unwrap_err().kind(),
            Kind::InvalidConfig
        );
        let _ = client.resume(secret.as_str()).unwrap().release().unwrap();
    }
    let redis = TestStore::all().pop().unwrap();
    let joined = redis.client().lock(&redis.name).layout("string").format("redis-py").build().unwrap();
    let mut guard = joined.acquire().unwrap();
    assert_eq!(guard.export(TTL).unwrap_err().kind(), Kind::Unsupported);
    assert!(guard.is_held());
    assert_eq!(joined.resume("lwx1.").unwrap_err().kind(), Kind::InvalidConfig);
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
}

#[tokio::test]
async fn an_export_that_nobody_waits_for_is_taken_back() {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};
    for store in TestStore::all() {
        let client = lockwright::Client::<Async>::open(Some(&store.uri), ConnectOptions::default()).unwrap();
        for polls in 0..2 {
            let mut guard = client.lock(&store.name).acquire().await.unwrap();
            let mut export = Box::pin(guard.export(TTL));
            for _ in 0..polls {
                if let Poll::Ready(secret) = export.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    // Answered at once, as memory does: told, so it stays.
                    let _ = client.resume(secret.unwrap().as_str()).await.unwrap().release().await.unwrap();
                }
            }
            drop(export);
            drop(guard);
            // Long before the secret would have ended by itself.
            let next = client.lock(&store.name).timeout(TTL / 3).acquire().await;
            let _ = next.unwrap().release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn tasks_export_and_resume_too() {
    for store in TestStore::all() {
        let client = || lockwright::Client::<Async>::open(Some(&store.uri), ConnectOptions::default()).unwrap();
        let mut guard = client().lock(&store.name).acquire().await.unwrap();
        let before = guard.token();
        let secret = guard.export(TTL).await.unwrap();
        let guard = client().resume(secret.as_str()).await.unwrap();
        assert!(guard.token() > before);
        assert_eq!(client().resume(secret.as_str()).await.unwrap_err().kind(), Kind::NotOwned);
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    }
}
