//! Whoever is more urgent goes first, over all tasks of all clients.

mod test_stores;

use std::sync::{Arc, Mutex};

use lockwright::Kind;
use test_stores::TestStore;

/// Tasks come in this order with these ranks, each with a client of its own or all with one, while somebody holds the
/// lock; in which order they have it.
async fn served(store: &TestStore, ranks: &[u8], alone: bool) -> Vec<u8> {
    let holder = lockwright::connect(&store.uri).await.unwrap();
    let name = format!("ranked-{}-{alone}", store.name);
    let guard = holder.lock(&name).acquire().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let (mut tasks, shared) = (Vec::new(), lockwright::connect(&store.uri).await.unwrap());
    for (before, rank) in ranks.iter().copied().enumerate() {
        let client = if alone { lockwright::connect(&store.uri).await.unwrap() } else { shared.clone() };
        let (lock, order) = (client.lock(&name).fair().rank(rank).build().unwrap(), order.clone());
        tasks.push(tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            order.lock().unwrap().push(rank);
            let _ = guard.release().await.unwrap();
        }));
        while holder.inspect(&name).await.unwrap().waiters <= before as u64 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
    let queue: Vec<u8> = holder.inspect(&name).await.unwrap().queue.iter().map(|one| one.rank).collect();
    let _ = guard.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    holder.close().await;
    let served = Arc::into_inner(order).unwrap().into_inner().unwrap();
    assert_eq!(queue, served, "inspect tells who is served next");
    served
}

#[tokio::test]
async fn higher_ranks_are_served_first() {
    for store in TestStore::all() {
        for alone in [false, true] {
            assert_eq!(served(&store, &[0, 3, 9, 3, 0], alone).await, [9, 3, 3, 0, 0], "{}", store.uri);
        }
    }
}

#[tokio::test]
async fn a_rank_that_cannot_be_honoured_is_an_error_when_the_lock_is_built() {
    let refused = |built: lockwright::Result<lockwright::Lock>| built.map(|_| ()).unwrap_err();
    let client = lockwright::connect("memory://").await.unwrap();
    let without_fair = refused(client.lock("x").rank(1).build());
    assert!(without_fair.kind() == Kind::InvalidConfig && without_fair.to_string().contains("fair"), "{without_fair}");
    let too_high = refused(client.lock("x").fair().rank(10).build());
    assert!(too_high.kind() == Kind::InvalidConfig && too_high.to_string().contains("0 to 9"), "{too_high}");
    for store in TestStore::all().into_iter().filter(|store| store.uri.starts_with("redis")) {
        let client = lockwright::connect(&store.uri).await.unwrap();
        let joined = refused(client.lock("x").layout("redisson").fair().rank(1).build());
        assert_eq!(joined.kind(), Kind::Unsupported, "{joined}");
        let shared = refused(client.semaphore("x", 2).fair().rank(1).build());
        assert_eq!(shared.kind(), Kind::Unsupported, "{shared}");
    }
}
