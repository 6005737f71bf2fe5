//! What a lost master granted and nobody else heard of: with `failover_delay` no other one grants it meanwhile.

#![cfg(all(unix, feature = "redis"))]

use std::time::{Duration, Instant};

use lockwright::blocking::Client;
use lockwright::lease::ReleaseOutcome;
use lockwright::token::Token;
use lockwright::{Kind, blocking};
use redis_servers::{Sentinel, Server, until};
use rustix::process::Signal;

mod redis_servers;

/// The shortest, and how long a server is young with it at least.
const DELAY: (&str, Duration) = ("failover_delay=1s", Duration::from_millis(2_000));
/// One that is as long as a lease which outlives the stalls of a loaded machine, and an answer of [`PATIENCE`] that
/// never comes.
const CALM: (&str, Duration) = ("failover_delay=3s", Duration::from_millis(3_500));

/// For how long an answer is waited for.
const PATIENCE: &str = "response_timeout=500ms";

fn client(sentinel: &Sentinel, options: &str) -> Client {
    let uri = format!("redis+sentinel://127.0.0.1:{}/mymaster?ttl=3s&{PATIENCE}&{options}", sentinel.port);
    blocking::connect(&uri).unwrap()
}

/// A master and its replica, whom a sentinel names the first of, where a lock was had before.
fn pair(options: &str) -> (Server, Server, Sentinel) {
    let (one, other) = (Server::start(), Server::start());
    let sentinel = Sentinel::naming(Some(one.port));
    let before = client(&sentinel, options).lock("before").acquire().unwrap();
    other.follow(&one);
    assert_eq!(before.release().unwrap(), ReleaseOutcome::Released);
    (one, other, sentinel)
}

/// Whether two believed to hold a lock at once which the lost master granted when nobody followed it any more.
fn two_hold(options: &str) -> bool {
    let (one, other, sentinel) = pair(options);
    let client = |options: &str| client(&sentinel, options);
    let (first, second, third) = (client(options), client(options), client(options));
    let heard_of = third.lock("y").acquire().unwrap();
    until("the replica has heard of it", || other.ask(&["dbsize"]) == one.ask(&["dbsize"]));
    other.ask(&["replicaof", "no", "one"]);
    let held = first.lock("x").acquire().unwrap();
    sentinel.name(&other);
    one.signal(Signal::STOP);
    let promoted = Instant::now();
    let lock = second.lock("x").build().unwrap();
    let tried = lock.try_acquire();
    let overlaps = match tried {
        Ok(granted) => granted.is_some() && held.is_held(),
        Err(error) => {
            let said = error.to_string();
            assert!(error.kind() == Kind::Unavailable && said.contains("failover_delay"), "{said}");
            let in_time = second.lock("x").timeout(Duration::from_millis(100)).acquire().unwrap_err();
            assert!(in_time.kind() == Kind::Unavailable && in_time.to_string().contains("grants in"), "{in_time}");
            let granted = lock.acquire().unwrap();
            let overlaps = held.is_held();
            assert!(promoted.elapsed() >= CALM.1, "{:?}", promoted.elapsed());
            assert!(heard_of.is_held(), "what it has heard of is renewed meanwhile: {:?}", heard_of.why_lost());
            assert_eq!(granted.release().unwrap(), ReleaseOutcome::Released);
            overlaps
        }
    };
    one.signal(Signal::CONT);
    overlaps
}

#[test]
fn what_a_lost_master_granted_is_nobody_else_s_until_it_is_over() {
    let played = std::thread::scope(|scope| {
        let layouts = ["layout=native", "layout=string&format=redis-py", "layout=redisson"];
        let play = |layout: &str, delay: &str| (format!("{layout} {delay}"), two_hold(&format!("{layout}&{delay}")));
        let threads: Vec<_> = layouts
            .into_iter()
            .flat_map(|layout| ["failover_delay=0", CALM.0].map(|delay| scope.spawn(move || play(layout, delay))))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    for (options, overlap) in played {
        assert_eq!(overlap, options.ends_with("=0"), "{options}");
    }
}

#[test]
fn a_lock_that_a_young_server_hands_over_is_not_believed_either() {
    let server = Server::start();
    let connect =
        || blocking::connect(&format!("redis://127.0.0.1:{}?ttl=3s&{PATIENCE}&{}", server.port, CALM.0)).unwrap();
    let (one, other) = (connect(), connect());
    let held = one.lock("x").acquire().unwrap();
    let lock = other.lock("x").build().unwrap();
    let waits = std::thread::spawn(move || {
        let guard = lock.acquire().unwrap();
        let at = Instant::now();
        (at, guard.release().unwrap())
    });
    until("it waits", || one.inspect("x").is_ok_and(|seen| seen.waiters == 1));
    // As after a fail-over: the marker, if there is one, is not that of this server.
    let forgot = Instant::now();
    assert_eq!(server.ask(&["del", "lwf:{}"]), "1");
    assert_eq!(held.release().unwrap(), ReleaseOutcome::Released);
    let (granted, released) = waits.join().unwrap();
    assert!(granted - forgot >= CALM.1, "{:?}", granted - forgot);
    assert_eq!(released, ReleaseOutcome::Released);
}

/// The token of the last grant of a lost master, and that of the next one after it by the new master, which was asked
/// before. Nothing where that last one was not believed any more.
fn granted_by_one_after_the_other() -> Option<(Token, Token)> {
    let (one, other, sentinel) = pair(CALM.0);
    let (early, late) = (client(&sentinel, CALM.0), client(&sentinel, CALM.0));
    assert_eq!(late.lock("before").acquire().unwrap().release().unwrap(), ReleaseOutcome::Released);
    other.ask(&["replicaof", "no", "one"]);
    sentinel.name(&other);
    let waits = std::thread::spawn(move || {
        let guard = early.lock("x").acquire().unwrap();
        (guard.token(), guard.release().unwrap()).0
    });
    until("the new master was asked", || other.has("x"));
    let granted = late.lock("x").try_acquire().ok().flatten().filter(|_| one.has("x"));
    let last = granted.map(|guard| (guard.token(), guard.release().unwrap()).0);
    let next = waits.join().unwrap();
    last.map(|last| (last, next))
}

#[test]
fn tokens_rise_though_a_lost_master_grants_after_the_new_one_was_asked() {
    let (last, next) = (0..10).find_map(|_| granted_by_one_after_the_other()).expect("a second is enough, once");
    assert!(last < next, "{last} and then {next}");
}

#[tokio::test]
async fn leases_are_no_longer_than_the_delay_and_all_clients_agree_on_it() {
    let server = Server::start();
    let uri = format!("redis://127.0.0.1:{}?ttl=1s", server.port);
    let client = lockwright::connect(&format!("{uri}&{}", DELAY.0)).await.unwrap();
    let error = client.lock("x").ttl(Duration::from_secs(2)).build().unwrap_err();
    assert!(error.kind() == Kind::InvalidConfig && error.to_string().contains("failover_delay"), "{error}");
    // On a new server too the first lock is had a while later.
    let began = Instant::now();
    let guard = client.lock("x").acquire().await.unwrap();
    assert!(began.elapsed() >= DELAY.1, "{:?}", began.elapsed());
    assert_eq!(guard.extend(Duration::from_secs(2)).await.unwrap_err().kind(), Kind::InvalidConfig);
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    let other = lockwright::connect(&format!("{uri}&failover_delay=2s")).await.unwrap();
    let error = other.lock("y").try_acquire().await.unwrap_err();
    assert!(error.kind() == Kind::InvalidConfig && error.to_string().contains("lwf:"), "{error}");
    let quorum = format!("{uri}&{} redis://127.0.0.1:1", DELAY.0);
    let error = lockwright::connect(&quorum).await.unwrap_err();
    assert!(error.kind() == Kind::Unsupported && error.to_string().contains("max_ttl"), "{error}");
}
