//! Locks on a master that sentinels watch over, while it is killed, stopped, and made a replica.
//!
//! Those on the common set of servers are alone with it, since they break it.

#![cfg(all(unix, feature = "redis"))]

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lockwright::blocking::Client;
use lockwright::finding::Severity;
use lockwright::lease::ReleaseOutcome;
use lockwright::{Kind, blocking};

use redis_servers::{Contenders, Sentinel, Server, Servers, name, until};

mod redis_servers;

fn servers() -> Servers {
    Servers::of("redis-sentinel", &["1", "2", "3"])
}

/// The server that most sentinels name, once they agree.
fn master(servers: &Servers) -> String {
    until("there is a master", || !servers.script(&["master"]).is_empty());
    servers.script(&["master"])
}

/// The next one that they name.
fn another_than(servers: &Servers, server: &str) -> String {
    until("another server is the master", || master(servers) != server);
    master(servers)
}

#[test]
fn masters_are_killed_and_stopped_while_a_lock_is_held_and_waited_for() {
    let servers = servers();
    let contenders = Contenders::new(&servers, &name("x"), "ttl=4s");
    contenders.go_on("the beginning");
    let mut faults = Vec::new();
    let killed = master(&servers);
    faults.push(Instant::now());
    servers.befalls(&killed, "down");
    let next = another_than(&servers, &killed);
    contenders.go_on("the master was killed");
    servers.befalls(&killed, "up");
    servers.are_well();
    faults.push(Instant::now());
    servers.befalls(&next, "stop");
    another_than(&servers, &next);
    contenders.go_on("the master was stopped");
    faults.push(Instant::now());
    servers.befalls(&next, "cont");
    contenders.go_on("the one that was stopped goes on");
    servers.are_well();
    println!("{}", contenders.judged(&faults));
}

#[test]
fn a_hold_outlives_its_master_and_whoever_waits_is_served_by_the_next() {
    let servers = servers();
    let (one, other, name) = (servers.client("ttl=8s"), servers.client("ttl=8s&store_timeout=30s"), name("x"));
    let guard = one.lock(&name).acquire().unwrap();
    let waits = {
        let lock = other.lock(&name).build().unwrap();
        std::thread::spawn(move || lock.acquire().map(|guard| guard.token().n).unwrap())
    };
    until("it waits", || one.inspect(&name).is_ok_and(|seen| seen.waiters == 1));
    let killed = master(&servers);
    servers.befalls(&killed, "down");
    // Whoever comes while there is no master is told so, unless it waits.
    let (began, late) = (Instant::now(), servers.client("store_timeout=30s"));
    let error = late.lock(&name).try_acquire().unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    another_than(&servers, &killed);
    until("it serves", || late.inspect(&name).is_ok_and(|seen| seen.holder.is_some()));
    assert!(guard.is_held() && !waits.is_finished());
    let token = guard.token().n;
    let _ = guard.release().unwrap();
    assert!(waits.join().unwrap() > token);
}

fn client(sentinels: &[&Sentinel]) -> Client {
    let hosts: Vec<_> = sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port)).collect();
    blocking::connect(&format!("redis+sentinel://{}/mymaster?ttl=2s&store_timeout=3s", hosts.join(","))).unwrap()
}

#[test]
fn a_replica_that_a_sentinel_names_is_passed_over_and_the_next_sentinel_is_asked() {
    let (master, replica) = (Server::start(), Server::start());
    replica.follow(&master);
    let (behind, knows) = (Sentinel::naming(Some(replica.port)), Sentinel::naming(Some(master.port)));
    let guard = client(&[&behind, &knows]).lock("x").try_acquire().unwrap().unwrap();
    assert!(behind.asked.load(Ordering::SeqCst) > 0 && master.has("x"));
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    let error = client(&[&behind]).lock("x").try_acquire().unwrap_err();
    assert!(error.kind() == Kind::Unavailable && error.to_string().contains("is a replica"), "{error}");
}

#[test]
fn a_master_that_became_a_replica_is_left_for_the_one_that_the_sentinels_name() {
    let (one, other) = (Server::start(), Server::start());
    let sentinel = Sentinel::naming(Some(one.port));
    let client = client(&[&sentinel]);
    assert_eq!(client.lock("before").acquire().unwrap().release().unwrap(), ReleaseOutcome::Released);
    // Connections stay as they are: only the answer tells.
    one.ask(&["replicaof", "127.0.0.1", &other.port.to_string()]);
    sentinel.name(&other);
    let guard = client.lock("x").try_acquire().unwrap().unwrap();
    assert!(other.has("x"));
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    let errors = one.ask(&["info", "errorstats"]);
    let refused = errors.lines().find_map(|line| line.trim().strip_prefix("errorstat_READONLY:count="));
    assert!(refused.is_none_or(|count| count == "1"), "it is not asked again: {errors}");
}

#[test]
fn a_master_that_does_not_know_that_another_took_over_is_not_written_to_for_long() {
    let (one, other) = (Server::start(), Server::start());
    let sentinel = Sentinel::naming(Some(one.port));
    let client = client(&[&sentinel]);
    let _ = client.lock("x").acquire().unwrap().release().unwrap();
    sentinel.name(&other);
    // It is used all the time, and never refuses anything.
    let began = Instant::now();
    until("the other one is written to", || {
        let guard = client.lock("x").acquire().unwrap();
        let is_there = other.has("x");
        let _ = guard.release().unwrap();
        is_there
    });
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

#[test]
fn who_finds_no_master_is_told_why() {
    let (nobody, gone) = (Sentinel::naming(None), Sentinel::naming(Some(1)));
    for (sentinels, kind, said) in [
        (vec![&nobody], Kind::InvalidConfig, "knows no master \"mymaster\""),
        (vec![&nobody, &gone], Kind::Unavailable, "nothing listens there"),
    ] {
        let error = client(&sentinels).lock("x").try_acquire().unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(said), "{error}");
    }
    let server = Server::start();
    let error = blocking::connect(&format!("redis+sentinel://127.0.0.1:{}/mymaster", server.port)).unwrap();
    let error = error.lock("x").try_acquire().unwrap_err();
    assert!(error.to_string().contains(&format!("the sentinel 127.0.0.1:{}", server.port)), "{error}");
    let error = blocking::connect("redis+sentinel://127.0.0.1:1,127.0.0.1:2/mymaster").unwrap();
    let error = error.lock("x").try_acquire().unwrap_err();
    assert!(error.kind() == Kind::Unavailable && error.to_string().contains("nothing listens there"), "{error}");
}

#[tokio::test]
async fn tasks_find_the_master_too_and_a_sentinel_wants_its_own_password() {
    // Not broken by this one, but by others meanwhile.
    let servers = servers();
    let client = lockwright::connect(&servers.uri).await.unwrap();
    let guard = client.lock(&name("x")).acquire().await.unwrap();
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    let (address, _) = servers.uri.split_once('?').unwrap();
    let client = lockwright::connect(address).await.unwrap();
    let error = client.lock(&name("x")).try_acquire().await.unwrap_err();
    assert!(error.kind() == Kind::Auth && error.to_string().contains("sentinel_password"), "{error}");
    let wrong = servers.uri.replace("redis+sentinel://:", "redis+sentinel://:wrong");
    let error = lockwright::connect(&wrong).await.unwrap().lock(&name("x")).try_acquire().await.unwrap_err();
    assert!(error.kind() == Kind::Auth && !error.to_string().contains("sentinel_password"), "{error}");
}

#[test]
fn each_sentinel_is_examined_and_one_that_is_away_is_told_of() {
    let servers = servers();
    servers.are_well();
    let checks = |uri: &str| -> Vec<_> {
        let found = blocking::connect(uri).unwrap().examine().unwrap();
        let of_sentinels = found.into_iter().filter(|one| ["sentinels", "failover"].contains(&one.check));
        of_sentinels.map(|one| (one.check, one.severity)).collect()
    };
    let fit = ["sentinels", "failover"].map(|check| (check, Severity::Ok));
    until("the sentinels have heard of the replicas", || checks(&servers.uri) == fit);
    let one_more = servers.uri.replacen("/mymaster", ",127.0.0.1:1/mymaster", 1);
    assert_eq!(checks(&one_more), [("sentinels", Severity::Warning), ("failover", Severity::Ok)]);
}

#[tokio::test]
async fn a_task_examines_the_sentinels_as_a_thread_does() {
    let server = Server::start();
    let sentinel = Sentinel::naming(Some(server.port));
    let uri = format!("redis+sentinel://127.0.0.1:{}/mymaster", sentinel.port);
    let found = lockwright::connect(&uri).await.unwrap().examine().await.unwrap();
    // It knows of nobody else.
    assert!(found.iter().any(|one| one.check == "failover" && one.severity == Severity::Warning), "{found:?}");
}
