//! Redis behind a way that swallows what is sent: connections stay open and are made, and nothing ever comes back.

#![cfg(all(unix, feature = "redis"))]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lockwright::blocking::{self, Client};
use lockwright::lease::ReleaseOutcome;
use lockwright::{Kind, Result};
use redis_servers::{Sentinel, Server, Servers, name, until};

mod redis_servers;

/// Hands on what it gets, until it swallows it.
struct Way {
    port: u16,
    swallows: Arc<AtomicBool>,
}

impl Way {
    fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, swallows) = (listener.local_addr().unwrap().port(), Arc::new(AtomicBool::new(false)));
        let is_hole = swallows.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to, is_hole) = (from.try_clone().unwrap(), to.try_clone().unwrap(), is_hole.clone());
                    to.set_nodelay(true).unwrap();
                    std::thread::spawn(move || hand_on(from, to, &is_hole));
                }
            }
        });
        Way { port, swallows }
    }

    fn swallows(&self, is_hole: bool) {
        self.swallows.store(is_hole, Ordering::SeqCst);
    }
}

fn hand_on(mut from: TcpStream, mut to: TcpStream, is_hole: &AtomicBool) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if !is_hole.load(Ordering::SeqCst) && to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    // Not even an end comes out of a hole.
    if !is_hole.load(Ordering::SeqCst) {
        let _ = to.shutdown(Shutdown::Both);
    }
}

const NODE_TIMEOUT: Duration = Duration::from_millis(100);

/// Five nodes, the ways to them, and a client of theirs once they count.
fn five() -> (Vec<Server>, Vec<Way>, Client) {
    let servers: Vec<_> = (0..5).map(|_| Server::start()).collect();
    let ways: Vec<_> = servers.iter().map(|server| Way::to(server.port)).collect();
    let nodes: Vec<_> = ways.iter().map(|way| format!("redis://127.0.0.1:{}", way.port)).collect();
    let client = blocking::connect(&format!("{}?max_ttl=2s&ttl=2s&node_timeout=100ms", nodes.join(" "))).unwrap();
    assert_eq!(client.lock("age").acquire().unwrap().release().unwrap(), ReleaseOutcome::Released);
    (servers, ways, client)
}

/// The least of three medians, so that what else the host does meanwhile is left out, and the longest of all.
fn usually(client: &Client, name: &str) -> (Duration, Duration) {
    let all = [(); 3].map(|()| took(client, name));
    let longest = all.iter().map(|(_, longest)| *longest).max();
    (all.iter().map(|(median, _)| *median).min().unwrap(), longest.unwrap())
}

/// The median of so many acquisitions with their release, and the longest.
fn took(client: &Client, name: &str) -> (Duration, Duration) {
    let lock = client.lock(name).build().unwrap();
    let mut all: Vec<_> = (0..200)
        .map(|_| {
            let began = Instant::now();
            assert_eq!(lock.acquire().unwrap().release().unwrap(), ReleaseOutcome::Released);
            began.elapsed()
        })
        .collect();
    all.sort_unstable();
    (all[all.len() / 2], all[all.len() - 1])
}

#[test]
fn two_of_five_nodes_may_be_swallowed_and_with_three_there_is_no_lock_and_nothing_is_left() {
    let (servers, ways, client) = five();
    let healthy = usually(&client, "x");
    ways[0].swallows(true);
    ways[3].swallows(true);
    let without_two = usually(&client, "x");
    println!("median and longest: {healthy:?} with five nodes, {without_two:?} with two swallowed");
    assert!(without_two.0 <= healthy.0 * 2 + Duration::from_millis(2), "{without_two:?} after {healthy:?}");
    assert!(without_two.1 < Duration::from_secs(2), "{without_two:?}");
    ways[4].swallows(true);
    let lock = client.lock("y").build().unwrap();
    for _ in 0..3 {
        let began = Instant::now();
        let error = lock.try_acquire().unwrap_err();
        assert_eq!(error.kind(), Kind::Quorum, "{error}");
        assert!(began.elapsed() < NODE_TIMEOUT * 10, "{:?}: {error}", began.elapsed());
    }
    let began = Instant::now();
    let error = client.lock("y").timeout(Duration::from_secs(1)).acquire().unwrap_err();
    assert!(error.kind() == Kind::Quorum && began.elapsed() < Duration::from_secs(2), "{:?} {error}", began.elapsed());
    for living in [&servers[1], &servers[2]] {
        let alone = blocking::connect(&format!("redis://127.0.0.1:{}", living.port)).unwrap();
        until("what was granted is given back", || alone.inspect("y").unwrap().holder.is_none());
    }
    ways.iter().for_each(|way| way.swallows(false));
    until("it is had again", || matches!(lock.try_acquire(), Ok(Some(_))));
}

#[test]
fn a_master_whose_way_swallows_is_left_once_another_one_is_named_and_a_sentinel_is_passed_over() {
    let (one, other) = (Server::start(), Server::start());
    let ways = [&one, &other].map(|server| Way::to(server.port));
    let (first, second) = (Sentinel::naming(Some(ways[0].port)), Sentinel::naming(Some(ways[0].port)));
    let to_first = Way::to(first.port);
    let uri = format!(
        "redis+sentinel://127.0.0.1:{},127.0.0.1:{}/mymaster?ttl=2s&response_timeout=500ms&connect_timeout=1s&store_timeout=2s",
        to_first.port, second.port
    );
    let client = blocking::connect(&uri).unwrap();
    let lock = client.lock("x").build().unwrap();
    assert_eq!(lock.acquire().unwrap().release().unwrap(), ReleaseOutcome::Released);
    to_first.swallows(true);
    let (again, began) = (blocking::connect(&uri).unwrap(), Instant::now());
    assert_eq!(again.lock("y").acquire().unwrap().release().unwrap(), ReleaseOutcome::Released);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    ways[0].swallows(true);
    let began = Instant::now();
    let error = lock.acquire().unwrap_err();
    assert!(
        error.kind() == Kind::Unavailable && began.elapsed() < Duration::from_secs(5),
        "{:?} {error}",
        began.elapsed()
    );
    for sentinel in [&first, &second] {
        sentinel.names(ways[1].port);
    }
    let began = Instant::now();
    let held = |result: Result<_>| result.is_ok();
    until("the other one is asked", || held(lock.acquire().map(|guard| guard.release())));
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

/// The servers of a cluster name one another by their own ports, so that only the way to those that an address names
/// can be swallowed here; what befalls a silent master is in `redis_cluster.rs`.
#[test]
fn a_node_of_a_cluster_whose_way_swallows_is_not_the_only_one_that_is_asked() {
    let cluster = Servers::of("redis-cluster", &["1", "2", "3", "4", "5", "6"]);
    let (login, hosts) = cluster.uri.split_once('@').unwrap();
    let first: u16 = hosts.split([':', ',']).nth(1).unwrap().parse().unwrap();
    let ways: Vec<_> = (0..3).map(|number| Way::to(first + number)).collect();
    ways[0].swallows(true);
    ways[1].swallows(true);
    let named: Vec<_> = ways.iter().map(|way| format!("127.0.0.1:{}", way.port)).collect();
    let client = blocking::connect(&format!("{login}@{}?connect_timeout=1s", named.join(","))).unwrap();
    let began = Instant::now();
    assert_eq!(client.lock(&name("x")).acquire().unwrap().release().unwrap(), ReleaseOutcome::Released);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    ways[2].swallows(true);
    let nobody =
        blocking::connect(&format!("{login}@{}?connect_timeout=1s&store_timeout=1s", named.join(","))).unwrap();
    let began = Instant::now();
    let error = nobody.lock(&name("x")).try_acquire().unwrap_err();
    assert!(
        error.kind() == Kind::Unavailable && began.elapsed() < Duration::from_secs(5),
        "{:?} {error}",
        began.elapsed()
    );
}

#[test]
fn what_is_asked_of_a_hold_is_unavailable_once_the_store_was_silent_for_too_long_and_the_hold_stands() {
    let server = Server::start();
    let way = Way::to(server.port);
    let limits = "ttl=20s&store_timeout=300ms&response_timeout=100ms";
    let client = blocking::connect(&format!("redis://127.0.0.1:{}?{limits}", way.port)).unwrap();
    let (guard, writer) = (client.lock("x").acquire().unwrap(), client.rwlock("y").write().acquire().unwrap());
    way.swallows(true);
    let began = Instant::now();
    for error in [guard.extend(Duration::from_secs(20)).unwrap_err(), writer.downgrade().unwrap_err()] {
        assert!(error.kind() == Kind::Unavailable && error.retryable(), "{error}");
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let error = writer.try_upgrade().unwrap_err();
    assert!(error.to_string().contains("another change of this guard is under way"), "{error}");
    assert!(guard.is_held() && writer.is_held());
    way.swallows(false);
    until("the lease is extended", || guard.extend(Duration::from_secs(20)).is_ok());
    until("the writer is a reader", || writer.downgrade().is_ok());
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    assert_eq!(writer.release().unwrap(), ReleaseOutcome::Released);
}
