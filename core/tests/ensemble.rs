//! Locks on an ensemble of three ZooKeeper servers, of which some are killed, stopped and started again, cut off from
//! the others and from clients, or have no room left on their disk, while locks are held and waited for.

mod disk;
mod zookeeper_server;

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use disk::Disk;
use lockwright::Kind;
use lockwright::blocking::{Client, Guard};
use lockwright::finding::Severity;
use lockwright::lease::{LossReason, ReleaseOutcome};
use rustix::process::Signal;
use zookeeper_server::{Ensemble, Gate, PATIENCE, Server, open, until};

/// Somebody waits for the lock, and has the line already.
fn waiting(client: &Client, name: &'static str, line: u64) -> mpsc::Receiver<Guard> {
    let (tell, hear) = mpsc::channel();
    let lock = client.lock(name).build().unwrap();
    thread::spawn(move || tell.send(lock.acquire().unwrap()));
    until("it waits", || client.inspect(name).unwrap().waiters == line);
    hear
}

/// One before each member, and the hosts of an address through them.
fn gates(ensemble: &Ensemble) -> (Vec<Gate>, String) {
    let gates: Vec<_> = ensemble.servers.iter().map(Server::gate).collect();
    let hosts = gates.iter().map(Gate::address).collect::<Vec<_>>().join(",");
    (gates, hosts)
}

#[test]
fn what_is_held_and_waited_for_survives_the_leader_and_then_a_follower() {
    let ensemble = Ensemble::start();
    // A waiter looks by itself when that is over, and that is longer than this test waits.
    let clients = [0, 1, 2].map(|_| ensemble.client("ttl=90s&store_timeout=60s"));
    let mut guard = clients[0].lock("x").acquire().unwrap();
    for (round, next) in [1, 2, 0, 1].into_iter().enumerate() {
        let hear = waiting(&clients[next], "x", 1);
        let victim = if round % 2 == 0 { ensemble.leader() } else { ensemble.follower() };
        ensemble.servers[victim].kill();
        assert!(guard.is_held() && hear.try_recv().is_err());
        let token = guard.token();
        assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
        guard = hear.recv_timeout(PATIENCE).unwrap();
        assert!(guard.token() > token, "{round}");
        ensemble.servers[victim].come_back();
        ensemble.is_whole();
    }
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    assert!(clients[0].inspect("x").unwrap().is_free());
}

#[test]
fn each_member_is_examined_and_one_that_is_away_is_told_of() {
    let ensemble = Ensemble::start();
    let client = ensemble.client("store_timeout=60s");
    drop(client.lock("x").acquire().unwrap());
    ensemble.is_whole();
    let checks = || -> Vec<_> { client.examine().unwrap().iter().map(|one| (one.check, one.severity)).collect() };
    let fit = ["members", "version", "leader", "sessions", "clock", "locks", "containers"];
    assert_eq!(checks(), fit.map(|check| (check, Severity::Ok)));
    let leads = client.examine().unwrap().into_iter().find(|one| one.check == "leader").unwrap();
    assert!(leads.found.contains(&ensemble.servers[ensemble.leader()].port), "{leads:?}");
    let victim = ensemble.follower();
    ensemble.servers[victim].kill();
    let nodes = client.examine().unwrap().into_iter().find(|one| one.check == "nodes").unwrap();
    assert_eq!(nodes.severity, Severity::Warning);
    assert!(nodes.found.contains(&ensemble.servers[victim].port), "{nodes:?}");
}

#[test]
fn a_leader_that_is_stopped_makes_no_second_holder() {
    let ensemble = Ensemble::start();
    let [holder, other] = [0, 1].map(|_| ensemble.client("ttl=60s&store_timeout=60s"));
    let guard = holder.lock("x").acquire().unwrap();
    let hear = waiting(&other, "x", 1);
    let leader = ensemble.leader();
    ensemble.servers[leader].signal(Signal::STOP);
    until("another one leads", || {
        let leads = |server: &zookeeper_server::Server| server.ask("srvr").contains("Mode: leader");
        ensemble.servers.iter().enumerate().any(|(at, server)| at != leader && leads(server))
    });
    assert!(guard.is_held() && hear.try_recv().is_err());
    let token = guard.token();
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    let next = hear.recv_timeout(PATIENCE).unwrap();
    assert!(next.token() > token);
    ensemble.servers[leader].signal(Signal::CONT);
    ensemble.is_whole();
    assert!(next.is_held());
    assert_eq!(next.release().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn one_member_alone_grants_nothing_and_what_was_held_is_lost_at_its_deadline() {
    let ensemble = Ensemble::start();
    let client = ensemble.client("ttl=3s&store_timeout=2s");
    let guard = client.lock("x").acquire().unwrap();
    let began = Instant::now();
    ensemble.servers[0].kill();
    ensemble.servers[1].kill();
    let error = client.lock("y").try_acquire().unwrap_err();
    let took = began.elapsed();
    assert!(error.kind() == Kind::Unavailable && took < Duration::from_secs(8), "{error} after {took:?}");
    until("it is lost", || !guard.is_held());
    assert!(began.elapsed() < Duration::from_secs(12));
    assert_eq!(guard.why_lost(), Some(LossReason::Expired));
    thread::scope(|scope| {
        ensemble.servers[..2].iter().for_each(|server| drop(scope.spawn(|| server.come_back())));
    });
    ensemble.is_whole();
    let mut next = None;
    until("it is had again", || {
        next = client.lock("x").timeout(Duration::from_secs(5)).acquire().ok();
        next.is_some()
    });
    let next = next.unwrap();
    assert!(next.token() > guard.token());
    assert_eq!(next.release().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn servers_that_are_stopped_for_longer_than_the_session_make_no_holder_before_the_other_has_lost_it() {
    let ensemble = Ensemble::start();
    let [holder, other] = [0, 1].map(|_| ensemble.client("ttl=2s&store_timeout=60s"));
    let guard = holder.lock("x").acquire().unwrap();
    let lock = other.lock("x").build().unwrap();
    let (tell, hear) = mpsc::channel();
    let waits = thread::spawn(move || {
        let next = lock.acquire().unwrap();
        tell.send((Instant::now(), next)).unwrap();
    });
    until("it waits", || other.inspect("x").unwrap().waiters == 1);
    ensemble.servers.iter().for_each(|server| server.signal(Signal::STOP));
    let began = Instant::now();
    until("it is lost", || !guard.is_held());
    let lost = Instant::now();
    assert!(lost - began <= Duration::from_secs(2), "{:?}", lost - began);
    thread::sleep(Duration::from_secs(6));
    ensemble.servers.iter().for_each(|server| server.signal(Signal::CONT));
    let (granted, next) = hear.recv_timeout(PATIENCE).unwrap();
    waits.join().unwrap();
    assert!(lost < granted && next.token() > guard.token());
    assert_eq!(next.release().unwrap(), ReleaseOutcome::Released);
}

/// What those who count under a lock find out.
#[derive(Default)]
struct Count {
    over: AtomicBool,
    holders: Mutex<Vec<(usize, Arc<Guard>)>>,
    grants: AtomicU64,
    lost: AtomicU64,
    failures: AtomicU64,
    overlaps: AtomicU64,
    /// Tokens that were no higher than an earlier one.
    stale: AtomicU64,
    highest: AtomicU64,
}

impl Count {
    /// Takes the lock again and again until all is over; whoever holds it looks whether somebody else does who has not
    /// lost it.
    fn work(&self, who: usize, client: &Client) {
        let lock = client.lock("counted").timeout(Duration::from_secs(5)).build().unwrap();
        while !self.over.load(Ordering::Relaxed) {
            let Ok(guard) = lock.acquire() else {
                self.failures.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            self.grants.fetch_add(1, Ordering::Relaxed);
            let token = guard.token().n;
            let guard = Arc::new(guard);
            if self.highest.fetch_max(token, Ordering::SeqCst) >= token {
                self.stale.fetch_add(1, Ordering::SeqCst);
            }
            let mut holders = self.holders.lock().unwrap();
            if holders.iter().any(|(_, other)| other.is_held()) && guard.is_held() {
                self.overlaps.fetch_add(1, Ordering::SeqCst);
            }
            holders.push((who, guard.clone()));
            drop(holders);
            thread::sleep(Duration::from_micros(200));
            let is_held = guard.is_held();
            self.holders.lock().unwrap().retain(|(holder, _)| *holder != who);
            self.lost.fetch_add(u64::from(!is_held), Ordering::Relaxed);
            // While no server answers it may be unknown.
            let _ = Arc::into_inner(guard).map(Guard::release);
        }
    }

    /// Waits until they go on, long after whatever is on its way has come.
    fn go_on(&self, after: &str) {
        let before = self.grants.load(Ordering::Relaxed);
        until(&format!("they go on after {after}"), || self.grants.load(Ordering::Relaxed) > before + 40);
    }

    fn judge(&self) {
        let of = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        println!(
            "{} grants, {} lost, {} not in time, {} overlaps, {} tokens that did not rise",
            of(&self.grants),
            of(&self.lost),
            of(&self.failures),
            of(&self.overlaps),
            of(&self.stale)
        );
        assert!(of(&self.grants) > 40);
        assert_eq!((of(&self.overlaps), of(&self.stale)), (0, 0));
    }
}

/// Has tasks of several clients contend for one lock while things befall the ensemble: no two hold it at once,
/// everybody is served afterwards, and then nothing is left.
fn contend_while(ensemble: &Ensemble, hosts: &str, faults: impl FnOnce(&Count)) {
    const CLIENTS: usize = 4;
    const TASKS: usize = 4;
    let uri = format!("zookeeper://{hosts}/locks?tick=100ms&ttl=4s&store_timeout=20s");
    let (clients, count) = ([(); CLIENTS].map(|()| open(&uri).unwrap()), Count::default());
    thread::scope(|scope| {
        for (number, client) in clients.iter().enumerate() {
            for task in 0..TASKS {
                let count = &count;
                scope.spawn(move || count.work(number * TASKS + task, client));
            }
        }
        // Else nobody would be told that it is over.
        let made = panic::catch_unwind(AssertUnwindSafe(|| faults(&count)));
        count.over.store(true, Ordering::Relaxed);
        made.unwrap_or_else(|panic| {
            ensemble.tell();
            clients.iter().for_each(|client| println!("{:?}", client.inspect("counted")));
            panic::resume_unwind(panic)
        });
    });
    count.judge();
    for client in &clients {
        let served = client.lock("counted").timeout(PATIENCE).acquire().unwrap();
        assert_eq!(served.release().unwrap(), ReleaseOutcome::Released);
    }
    assert!(clients[0].inspect("counted").unwrap().is_free());
    clients.iter().for_each(Client::close);
    until("no session and no watch is left", || {
        ensemble.servers.iter().all(|server| {
            server.ask("dump").contains("Sessions with Ephemerals (0)")
                && server.ask("wchs").contains("Total watches:0")
        })
    });
}

/// How long faults are made: longer where that is asked for.
fn span() -> Duration {
    let seconds = std::env::var("LOCKWRIGHT_TEST_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(20))
}

#[test]
fn no_two_hold_while_members_are_killed_stopped_and_cut_off_and_nothing_is_left() {
    let ensemble = Ensemble::start();
    let (gates, hosts) = gates(&ensemble);
    contend_while(&ensemble, &hosts, |count| {
        let (until_then, mut round) = (Instant::now() + span(), 0);
        while Instant::now() + Duration::from_secs(5) < until_then {
            let victim = if (round / 3) % 2 == 1 { ensemble.follower() } else { ensemble.leader() };
            match round % 3 {
                0 => {
                    ensemble.servers[victim].kill();
                    ensemble.servers[victim].come_back();
                }
                1 => {
                    // All clients are cut off from it, and it from none of the others.
                    gates[victim].shut();
                    thread::sleep(Duration::from_secs(3));
                    gates[victim].open();
                }
                _ => {
                    ensemble.servers[victim].signal(Signal::STOP);
                    thread::sleep(Duration::from_secs(4));
                    ensemble.servers[victim].signal(Signal::CONT);
                }
            }
            ensemble.is_whole();
            round += 1;
        }
        count.go_on("all that");
    });
}

#[test]
fn a_member_that_is_cut_off_from_the_others_makes_no_second_holder() {
    let ensemble = Ensemble::start();
    let (gates, hosts) = gates(&ensemble);
    contend_while(&ensemble, &hosts, |count| {
        for member in [Ensemble::leader, Ensemble::follower] {
            for is_cut_off_from_clients in [false, true] {
                let victim = member(&ensemble);
                ensemble.between.cut_off(victim);
                if is_cut_off_from_clients {
                    gates[victim].shut();
                }
                until("it serves nobody", || !ensemble.servers[victim].serves());
                count.go_on("a member was cut off");
                ensemble.between.heal();
                gates[victim].open();
                ensemble.is_whole();
                count.go_on("it came back");
            }
        }
    });
}

#[test]
fn a_member_whose_disk_is_full_takes_no_lock_along() {
    let Some(disk) = Disk::of("16m") else { return };
    let ensemble = Ensemble::start_on(Some(disk.path()));
    let full = &ensemble.servers[2];
    println!("the member whose disk is filled: {}", if ensemble.leader() == 2 { "it leads" } else { "it follows" });
    contend_while(&ensemble, &ensemble.hosts(), |count| {
        count.go_on("the beginning");
        disk.fill();
        until("it serves nobody", || !full.serves());
        // It goes on voting, and a leader that only such a member follows gives up 10 s later, perhaps again and again.
        full.kill();
        count.go_on("a disk was full");
        disk.make_room();
        full.come_back();
        ensemble.is_whole();
        count.go_on("there is room");
    });
}

#[test]
fn whoever_is_cut_off_from_one_member_after_the_other_goes_on_at_the_next() {
    let ensemble = Ensemble::start();
    let (gates, hosts) = gates(&ensemble);
    let [holder, waiter] =
        [0, 1].map(|_| open(&format!("zookeeper://{hosts}/locks?tick=100ms&ttl=6s&store_timeout=60s")).unwrap());
    let guard = holder.lock("x").acquire().unwrap();
    let hear = waiting(&waiter, "x", 1);
    for gate in &gates {
        gate.shut();
        // A server that owes an answer for 2 s is left, and one is asked for each 1.5 s.
        thread::sleep(Duration::from_secs(4));
        assert!(guard.is_held() && hear.try_recv().is_err());
        gate.open();
    }
    let token = guard.token();
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    let next = hear.recv_timeout(PATIENCE).unwrap();
    assert!(next.token() > token);
    assert_eq!(next.release().unwrap(), ReleaseOutcome::Released);
    holder.close();
    waiter.close();
    let says = |server: &Server| server.ask("dump").contains("Sessions with Ephemerals (0)");
    until("nothing is left", || says(&ensemble.servers[ensemble.leader()]));
}
