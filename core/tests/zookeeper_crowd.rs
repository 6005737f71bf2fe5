//! Very many waiters for one lock on ZooKeeper, and very many held locks over one session: what that costs in requests,
//! watches and memory. Small by itself; `LOCKWRIGHT_TEST_CROWD` says how many, and then the figures mean something.

mod zookeeper_server;

use std::time::{Duration, Instant};

use lockwright::lease::ReleaseOutcome;
use lockwright::options::ConnectOptions;
use lockwright::{Client, Guard};
use tokio::task::JoinSet;
use zookeeper_server::{PLAIN, Server, until};

fn many(usual: usize) -> usize {
    std::env::var("LOCKWRIGHT_TEST_CROWD").ok().and_then(|many| many.parse().ok()).unwrap_or(usual)
}

/// A number that the server counts.
fn counted(server: &Server, name: &str) -> u64 {
    let said = server.ask("mntr");
    let line = said.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    line.unwrap_or_else(|| panic!("no {name} in {said}"))
}

/// In KiB, what this process has in memory.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn open(server: &Server) -> Client {
    Client::open(Some(&format!("{}&ttl=60s&store_timeout=60s", server.uri)), ConnectOptions::default()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_release_wakes_one_of_many_waiters() {
    let (server, many) = (Server::start_by(PLAIN, "-Xmx2g"), many(200));
    let clients = [(); 4].map(|()| open(&server));
    let first = clients[0].lock("x").acquire().await.unwrap();
    let before = memory();
    let mut waiters: JoinSet<Guard> = JoinSet::new();
    for waiter in 0..many {
        let lock = clients[waiter % clients.len()].lock("x").fair().build().unwrap();
        waiters.spawn(async move { lock.acquire().await.unwrap() });
    }
    let began = Instant::now();
    while clients[0].inspect("x").await.unwrap().waiters < many as u64 {
        assert!(began.elapsed() < Duration::from_secs(540));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    until("each has its watch", || counted(&server, "zk_watch_count") >= many as u64);
    println!(
        "{many} wait after {:?}: {} watches, {} KiB more",
        began.elapsed(),
        counted(&server, "zk_watch_count"),
        memory().saturating_sub(before)
    );
    let (received, sent) = (counted(&server, "zk_packets_received"), counted(&server, "zk_packets_sent"));
    let began = Instant::now();
    let mut token = first.token();
    assert_eq!(first.release().await.unwrap(), ReleaseOutcome::Released);
    while let Some(guard) = waiters.join_next().await {
        let guard = guard.unwrap();
        assert!(guard.token() > token, "nobody overtakes");
        token = guard.token();
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    }
    let took = began.elapsed();
    let received = counted(&server, "zk_packets_received") - received;
    let sent = counted(&server, "zk_packets_sent") - sent;
    let each = |count: u64| count as f64 / many as f64;
    println!(
        "{many} hand-offs in {took:?}: {:.2} requests and {:.2} answers and events each",
        each(received),
        each(sent)
    );
    // A release, an event, and a look (`sync`, children) of the one that is told; what more there is are heartbeats.
    assert!(each(received) < 3.5 && each(sent) < 4.5);
    until("no watch is left", || server.ask("wchs").contains("Total watches:0"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_held_locks_cost_what_their_session_costs() {
    let (server, many) = (Server::start_by(PLAIN, "-Xmx2g"), many(500));
    let client = open(&server);
    let (before, began) = (memory(), Instant::now());
    let mut held = Vec::with_capacity(many);
    for part in (0..many).collect::<Vec<_>>().chunks(200) {
        let mut acquiring: JoinSet<Guard> = JoinSet::new();
        for number in part {
            let lock = client.lock(&format!("lock-{number}")).build().unwrap();
            acquiring.spawn(async move { lock.acquire().await.unwrap() });
        }
        held.extend(acquiring.join_all().await);
    }
    println!("{many} held after {:?}, {} KiB more", began.elapsed(), memory().saturating_sub(before));
    // Once each is watched: by then they were held for longer than between two heartbeats.
    until("each is watched", || counted(&server, "zk_watch_count") >= many as u64);
    let (received, began) = (counted(&server, "zk_packets_received"), Instant::now());
    tokio::time::sleep(Duration::from_secs(20)).await;
    let received = counted(&server, "zk_packets_received") - received;
    println!("{many} held: {received} requests in {:?}", began.elapsed());
    assert!(received < 20 && held.iter().all(Guard::is_held));
    let began = Instant::now();
    client.close().await;
    println!("{many} given back in {:?}", began.elapsed());
    until("nothing is left", || server.ask("dump").contains("Sessions with Ephemerals (0)"));
}
