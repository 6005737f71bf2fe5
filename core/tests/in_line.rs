//! Tasks of one client that want to be served in order: they get in line as they come, and who leaves it is told where
//! it stood.

mod ordered;
mod test_stores;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lockwright::blocking::LockBuilder;
use lockwright::{Client, Kind};
use ordered::Ordered;
use test_stores::TestStore;

/// Clients whose inbox is opened while tasks come; LOCKWRIGHT_ROUNDS says how many instead.
const ROUNDS: usize = 20;
const TASKS: usize = 8;

/// In which order the tasks of a client that waits for the first time are served, some of which come while its inbox is
/// being opened.
async fn served(uri: &str, holder: &Client, wanted: Ordered, name: &str, pause: Duration) -> Vec<usize> {
    let guard = wanted.acquire(holder, name).await.unwrap();
    let client = lockwright::connect(uri).await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for i in 0..TASKS {
        let (client, name, order) = (client.clone(), name.to_owned(), order.clone());
        tasks.push(tokio::spawn(async move {
            let guard = wanted.acquire(&client, &name).await.unwrap();
            order.lock().unwrap().push(i);
            let _ = guard.release().await.unwrap();
        }));
        let began = Instant::now();
        while began.elapsed() < pause {
            tokio::task::yield_now().await;
        }
    }
    while holder.inspect(name).await.unwrap().waiters < TASKS as u64 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let _ = guard.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    client.close().await;
    Arc::into_inner(order).unwrap().into_inner().unwrap()
}

#[tokio::test]
async fn tasks_are_served_as_they_came_also_while_the_inbox_opens() {
    let rounds = std::env::var("LOCKWRIGHT_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    for store in TestStore::all() {
        let holder = lockwright::connect(&store.uri).await.unwrap();
        for wanted in Ordered::ALL {
            let name = format!("{}-{wanted:?}", store.name);
            for round in 0..rounds {
                let pause = Duration::from_micros(17 * (round as u64 % 12));
                let order = served(&store.uri, &holder, wanted, &name, pause).await;
                assert!(order.is_sorted(), "{} {wanted:?}, {pause:?} between two: {order:?}", store.uri);
            }
        }
        holder.close().await;
    }
}

#[test]
fn who_gives_up_is_told_where_it_stood() {
    for store in TestStore::all() {
        let (holder, client) = (store.client(), store.client());
        let name = &store.name;
        let guard = holder.lock(name).acquire().unwrap();
        let waits = |ahead: u64| {
            let lock = client.lock(name).fair().timeout(Duration::from_secs(30)).build().unwrap();
            let waiting = std::thread::spawn(move || lock.acquire().map(drop));
            while holder.inspect(name).unwrap().waiters < ahead {
                std::thread::yield_now();
            }
            waiting
        };
        let before = [waits(1), waits(2)];
        let error = client.lock(name).fair().timeout(Duration::from_millis(300)).acquire().unwrap_err();
        let said = error.to_string();
        assert!(error.kind() == Kind::Timeout && said.contains("; this call was 3rd in line; "), "{said}");
        let seen = client.inspect(name).unwrap();
        assert_eq!((seen.waiters, &seen.ahead[..]), (2, &[0, 1][..]));
        assert!(holder.inspect(name).unwrap().ahead.is_empty());
        let _ = guard.release().unwrap();
        before.into_iter().for_each(|waiting| waiting.join().unwrap().unwrap());
    }
}

#[test]
fn who_waits_is_told_as_it_will_be_served() {
    for store in TestStore::all() {
        let (holder, client) = (store.client(), store.client());
        let [name, plain] = &["of-several", "of-one"].map(|of| format!("{}-{of}", store.name));
        let guard = holder.rwlock(name).write().acquire().unwrap();
        let before = Instant::now();
        let waits = |ahead: u64, lock: LockBuilder, label: &str| {
            let lock = lock.label(label).timeout(Duration::from_secs(30)).build().unwrap();
            let name = lock.name().to_owned();
            let waiting = std::thread::spawn(move || lock.acquire().map(drop));
            while holder.inspect(&name).unwrap().waiters < ahead {
                std::thread::yield_now();
            }
            waiting
        };
        let both = client.rwlock(name);
        let tasks = [waits(1, both.read(), "first"), waits(2, both.write(), "second")];
        let seen = holder.inspect(name).unwrap();
        let primitive = seen.shared.unwrap().primitive;
        let told: Vec<_> = seen.queue.iter().map(|one| (one.card.label.clone(), one.describe(primitive))).collect();
        assert_eq!(told, [("first", "read"), ("second", "write")].map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert!(seen.queue.iter().all(|one| one.card.pid == std::process::id() && one.rank == 0));
        let _ = guard.release().unwrap();
        tasks.into_iter().for_each(|waiting| waiting.join().unwrap().unwrap());

        let guard = holder.lock(plain).acquire().unwrap();
        let task = waits(1, client.lock(plain), "of a lock");
        let queue = holder.inspect(plain).unwrap().queue;
        assert_eq!((queue.len(), queue[0].card.label.as_str()), (1, "of a lock"));
        let waited = queue[0].waited.unwrap();
        assert!(waited <= before.elapsed() + Duration::from_secs(1), "{waited:?}");
        let _ = guard.release().unwrap();
        task.join().unwrap().unwrap();
    }
}

#[test]
fn who_waits_behind_others_of_its_process_is_told_where_it_stood() {
    let store = &TestStore::all()[0];
    let (holder, client) = (store.client(), store.client());
    let guard = holder.lock("x").acquire().unwrap();
    let lock = client.lock("x").timeout(Duration::from_secs(30)).build().unwrap();
    let first = std::thread::spawn(move || lock.acquire().map(drop));
    while holder.inspect("x").unwrap().waiters < 1 {
        std::thread::yield_now();
    }
    let said = client.lock("x").timeout(Duration::from_millis(50)).acquire().unwrap_err().to_string();
    assert!(said.contains("; this call was 2nd in line; "), "{said}");
    let _ = guard.release().unwrap();
    first.join().unwrap().unwrap();
}
