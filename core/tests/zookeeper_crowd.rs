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
    memory_of("self")
}

fn memory_of(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Long enough for a crowd to come and be served.
const TTL: Duration = Duration::from_secs(60);

fn open(server: &Server) -> Client {
    let uri = format!("{}&ttl={}s&store_timeout=60s", server.uri, TTL.as_secs());
    Client::open(Some(&uri), ConnectOptions::default()).unwrap()
}

/// In KiB, what the server has in memory.
fn servers_memory(server: &Server) -> u64 {
    memory_of(&server.pid().as_raw_nonzero().to_string())
}

/// So many wait for one lock of these clients, which then goes from one to the next.
async fn line_up(server: &Server, clients: &[Client], many: usize) {
    let first = clients[0].lock("x").acquire().await.unwrap();
    let before = memory();
    let mut waiters: JoinSet<Guard> = JoinSet::new();
    for waiter in 0..many {
        let lock = clients[waiter % clients.len()].lock("x").fair().build().unwrap();
        waiters.spawn(async move { lock.acquire().await.unwrap() });
    }
    let began = Instant::now();
    while counted(server, "zk_watch_count") < many as u64
        || clients[0].inspect("x").await.unwrap().waiters < many as u64
    {
        assert!(began.elapsed() < Duration::from_secs(540));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!(
        "{many} of {} sessions wait after {:?}: {} watches, {} KiB more here, {} KiB at the server",
        clients.len(),
        began.elapsed(),
        counted(server, "zk_watch_count"),
        memory().saturating_sub(before),
        servers_memory(server),
    );
    let (received, sent) = (counted(server, "zk_packets_received"), counted(server, "zk_packets_sent"));
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
    let received = counted(server, "zk_packets_received") - received;
    let sent = counted(server, "zk_packets_sent") - sent;
    // What proves a session alive each quarter of a ttl, and watches its node then, has nothing to do with hand-offs.
    let beats = 2.0 * clients.len() as f64 * took.as_secs_f64() / (TTL.as_secs_f64() / 4.0) + 1.0;
    let each = |count: u64| (count as f64 - beats) / many as f64;
    println!(
        "{many} hand-offs in {took:?}: {:.2} requests and {:.2} answers and events each, without heartbeats",
        each(received),
        each(sent)
    );
    // A release, an event, and a look (`sync`, children) of the one that is told. The end of its own node is told to
    // who held it, too, if it stood there for long.
    assert!(each(received) < 3.5 && each(sent) < 5.5);
    until("no watch is left", || server.ask("wchs").contains("Total watches:0"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_release_wakes_one_of_many_waiters() {
    let (server, many) = (Server::start_by(PLAIN, "-Xmx2g"), many(200));
    for clients in [1, 4] {
        let clients: Vec<_> = (0..clients).map(|_| open(&server)).collect();
        line_up(&server, &clients, many).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_release_wakes_one_of_many_sessions() {
    let (server, many) = (Server::start_by(PLAIN, "-Xmx2g"), many(50));
    let clients: Vec<_> = (0..many).map(|_| open(&server)).collect();
    line_up(&server, &clients, many).await;
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
