//! The whole way down and back over an etcd.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lockwright::Kind;
use lockwright::blocking::Client;
use lockwright::lease::{LossReason, ReleaseOutcome};

fn address() -> String {
    std::env::var("LOCKWRIGHT_TEST_ETCD").unwrap_or_else(|_| {
        panic!(
            "these tests need an etcd: run `conformance/services/etcd.sh start` and set LOCKWRIGHT_TEST_ETCD to the \
             address it prints"
        )
    })
}

fn client(uri: &str, options: &str) -> Client {
    lockwright::blocking::connect(&format!("{uri}?{options}")).unwrap()
}

fn name(of: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("test-{}-{}/{of}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn etcdctl(uri: &str, arguments: &[&str]) -> String {
    let endpoint = uri.trim_start_matches("etcd://");
    let done = Command::new("etcdctl").env("ETCDCTL_API", "3").args(["--endpoints", endpoint]).args(arguments).output();
    String::from_utf8(done.unwrap().stdout).unwrap()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_lock_is_taken_and_given_back_and_nothing_is_left() {
    let uri = address();
    let (client, name) = (client(&uri, ""), name("x"));
    let mut last = 0;
    for _ in 0..3 {
        let guard = client.lock(&name).acquire().unwrap();
        assert!(guard.is_held() && guard.token().n > last);
        assert!(guard.remaining() > Duration::from_secs(25) && guard.remaining() < Duration::from_secs(30));
        last = guard.token().n;
        assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    }
    assert_eq!(etcdctl(&uri, &["get", "--prefix", &name]), "");
}

#[test]
fn whoever_only_tries_leaves_no_key_and_whoever_waits_is_served_in_order() {
    let uri = address();
    let (clients, name) = ([0, 1, 2].map(|_| client(&uri, "")), name("x"));
    let held = clients[0].lock(&name).acquire().unwrap();
    assert!(clients[1].lock(&name).try_acquire().unwrap().is_none());
    assert_eq!(etcdctl(&uri, &["get", "--prefix", "--keys-only", &name]).split_whitespace().count(), 1);
    let order = Arc::new(AtomicU64::new(0));
    let waiters: Vec<_> = [1, 2]
        .map(|at| {
            let (lock, order) = (clients[at].lock(&name).build().unwrap(), order.clone());
            let waits = std::thread::spawn(move || {
                let guard = lock.acquire().unwrap();
                let came = order.fetch_add(1, Ordering::Relaxed) as usize;
                (came + 1 == at, guard.token().n, guard.release().unwrap())
            });
            until("it waits", || clients[0].inspect(&name).unwrap().waiters == at as u64);
            waits
        })
        .into();
    let seen = clients[2].inspect(&name).unwrap().holder.unwrap();
    assert_eq!((seen.first_token, seen.card.pid), (held.token().n, std::process::id()));
    assert!(seen.remaining > Duration::from_secs(20) && seen.remaining <= Duration::from_secs(30));
    assert_eq!(held.release().unwrap(), ReleaseOutcome::Released);
    let served: Vec<_> = waiters.into_iter().map(|waits| waits.join().unwrap()).collect();
    assert!(
        served.iter().all(|(in_order, _, outcome)| *in_order && *outcome == ReleaseOutcome::Released),
        "{served:?}"
    );
    assert!(served[0].1 < served[1].1);
    assert_eq!(etcdctl(&uri, &["get", "--prefix", &name]), "");
}

#[test]
fn a_time_limit_and_a_ttl_beyond_the_lease_are_told() {
    let uri = address();
    let (one, other, name) = (client(&uri, ""), client(&uri, ""), name("x"));
    let held = one.lock(&name).acquire().unwrap();
    let error = other.lock(&name).timeout(Duration::from_millis(150)).acquire().unwrap_err();
    assert_eq!(error.kind(), Kind::Timeout);
    assert_eq!(etcdctl(&uri, &["get", "--prefix", "--keys-only", &name]).split_whitespace().count(), 1);
    let error = one.lock(&name).ttl(Duration::from_secs(31)).acquire().unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    drop(held);
    until("it is free", || one.inspect(&name).unwrap().is_free());
}

#[test]
fn locks_whose_names_go_on_after_a_slash_are_not_in_the_way() {
    let uri = address();
    let (client, name) = (client(&uri, ""), name("x"));
    let below = client.lock(&format!("{name}/y")).acquire().unwrap();
    let tried = client.lock(&name).try_acquire().unwrap().unwrap();
    let names = client.list().unwrap();
    assert!([name.clone(), format!("{name}/y")].iter().all(|name| names.contains(name)), "{names:?}");
    assert!(client.inspect(&name).unwrap().waiters == 0);
    drop((below, tried));
}

#[test]
fn a_lease_that_is_revoked_ends_every_hold_of_its_client() {
    let uri = address();
    let (client, name) = (client(&uri, "ttl=3s"), name("x"));
    let guard = client.lock(&name).acquire().unwrap();
    let leases = etcdctl(&uri, &["get", "--prefix", "-w", "json", &name]);
    let lease = leases.split("\"lease\":").nth(1).unwrap().split(['}', ',']).next().unwrap().parse::<i64>().unwrap();
    let began = Instant::now();
    etcdctl(&uri, &["lease", "revoke", &format!("{lease:x}")]);
    until("it is lost", || !guard.is_held());
    assert!(began.elapsed() < Duration::from_secs(3));
    assert_eq!(guard.why_lost(), Some(LossReason::Expired));
    // The client has another lease by then, or gets one.
    let next = client.lock(&name).acquire().unwrap();
    assert!(next.is_held());
}

#[test]
fn a_holder_hears_that_it_is_broken() {
    let uri = address();
    let (one, other, name) = (client(&uri, ""), client(&uri, ""), name("x"));
    let guard = one.lock(&name).acquire().unwrap();
    let token = guard.token();
    assert!(!other.break_lock(&name, lockwright::Token::new(token.n + 1)).unwrap());
    assert!(other.break_lock(&name, token).unwrap());
    until("it is lost", || !guard.is_held());
    assert_eq!(guard.why_lost(), Some(LossReason::Broken));
    assert!(other.lock(&name).try_acquire().unwrap().is_some());
}

#[test]
fn a_queue_behind_a_lock_that_is_held_for_longer_than_the_lease_keeps_its_places() {
    let uri = address();
    let (one, other, name) = (client(&uri, ""), client(&uri, "ttl=2s"), name("x"));
    let held = one.lock(&name).acquire().unwrap();
    let waits = {
        let (other, name) = (other.clone(), name.clone());
        std::thread::spawn(move || other.lock(&name).acquire().unwrap().release().unwrap())
    };
    until("it waits", || one.inspect(&name).unwrap().waiters == 1);
    let place = etcdctl(&uri, &["get", "--prefix", "--keys-only", &name]);
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(etcdctl(&uri, &["get", "--prefix", "--keys-only", &name]), place);
    drop(held);
    assert_eq!(waits.join().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn etcdctl_and_ours_exclude_one_another() {
    let uri = address();
    let (client, name) = (client(&uri, ""), name("x"));
    let held = client.lock(&name).acquire().unwrap();
    let endpoint = uri.trim_start_matches("etcd://").to_owned();
    let theirs = |what: &str| {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &endpoint, "lock", &name, "--"]).args(["sh", "-c", what]);
        command.spawn().unwrap()
    };
    let mut waits = theirs("exit 7");
    until("theirs waits", || client.inspect(&name).unwrap().waiters == 1);
    assert!(waits.try_wait().unwrap().is_none());
    assert_eq!(held.release().unwrap(), ReleaseOutcome::Released);
    // That version of it always ends well.
    waits.wait().unwrap();
    let mut holds = theirs("sleep 0.5");
    until("theirs holds", || client.inspect(&name).unwrap().holder.is_some());
    assert!(client.lock(&name).try_acquire().unwrap().is_none());
    let guard = client.lock(&name).acquire().unwrap();
    assert!(holds.try_wait().unwrap().is_some() || guard.is_held());
    holds.wait().unwrap();
}

#[test]
fn nobody_at_the_address_is_told_at_once() {
    let client = lockwright::blocking::connect("etcd://127.0.0.1:1").unwrap();
    let began = Instant::now();
    let error = client.lock("x").try_acquire().unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}: {error}", began.elapsed());
    // Of a list, the next is asked.
    let uri = address().replace("etcd://", "etcd://127.0.0.1:1,");
    let guard = lockwright::blocking::connect(&uri).unwrap().lock(&name("x")).acquire().unwrap();
    assert!(guard.is_held());
}
