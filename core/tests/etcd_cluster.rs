//! What befalls a cluster of etcd while its locks are held and waited for.
//!
//! Each test is alone with the cluster, since all of them break it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use lockwright::Kind;
use lockwright::blocking::{Client, Guard};
use lockwright::lease::LossReason;

const WAIT: Duration = Duration::from_secs(60);

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/services/etcd-cluster.sh")
}

fn asked(words: &[&str]) -> String {
    let done = Command::new(script()).args(words).output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < WAIT, "not for {WAIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The cluster, to whoever breaks it, and as it was once that is over.
struct Cluster {
    uri: String,
    _alone: MutexGuard<'static, ()>,
}

impl Cluster {
    fn new() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let uri = std::env::var("LOCKWRIGHT_TEST_ETCD_CLUSTER").unwrap_or_else(|_| {
            panic!(
                "these tests need a cluster of etcd: run `conformance/services/etcd-cluster.sh start` and set \
                 LOCKWRIGHT_TEST_ETCD_CLUSTER to the address it prints"
            )
        });
        let cluster = Cluster { uri, _alone: alone };
        until("all members answer", || cluster.members().iter().all(|member| cluster.answers(member)));
        cluster
    }

    fn client(&self, options: &str) -> Client {
        lockwright::blocking::connect(&format!("{}?{options}", self.uri)).unwrap()
    }

    fn members(&self) -> Vec<String> {
        self.uri.trim_start_matches("etcd://").split(',').map(str::to_owned).collect()
    }

    fn etcdctl(&self, endpoints: &str, arguments: &[&str]) -> Option<String> {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", endpoints, "--command-timeout", "2s"]).args(arguments);
        let done = command.output().unwrap();
        done.status.success().then(|| String::from_utf8(done.stdout).unwrap())
    }

    /// Only with a leader, and once it has applied what was committed.
    fn answers(&self, member: &str) -> bool {
        self.etcdctl(member, &["get", "nothing"]).is_some()
    }

    /// While one is being chosen, the members may say nothing that can be read.
    fn leader(&self) -> String {
        let began = Instant::now();
        loop {
            let said = Command::new(script()).arg("leader").output().unwrap();
            let leader = String::from_utf8_lossy(&said.stdout).trim().to_owned();
            if leader.len() == 1 {
                return leader;
            }
            assert!(began.elapsed() < WAIT, "nobody leads: {}", String::from_utf8_lossy(&said.stderr));
        }
    }

    fn follower(&self) -> String {
        let leader = self.leader();
        ["1", "2", "3"].into_iter().find(|member| *member != leader).unwrap().to_owned()
    }

    fn befalls(&self, member: &str, what: &str) {
        asked(&["member", member, what]);
    }

    /// None while no member answers, such as one that was just behind the others.
    fn keys(&self, prefix: &str) -> Option<String> {
        self.etcdctl(&self.members().join(","), &["get", "--prefix", "--keys-only", prefix])
    }

    /// None as in [`keys`](Self::keys).
    fn leases(&self) -> Option<usize> {
        let leases = self.etcdctl(&self.members().join(","), &["lease", "list"])?;
        Some(leases.lines().filter(|line| !line.starts_with("found")).count())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in ["1", "2", "3"] {
            for what in ["up", "cont"] {
                let _ = Command::new(script()).args(["member", member, what]).output();
            }
        }
    }
}

fn name(of: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("cluster-{}-{}/{of}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// From when to when somebody believed to hold it, under which token.
#[derive(Clone, Copy, Debug)]
struct Hold {
    began: Instant,
    ended: Instant,
    token: u64,
}

/// Some who contend for one lock all the time, until they are told to stop.
struct Contenders {
    clients: Vec<Client>,
    holds: Arc<Mutex<Vec<Hold>>>,
    over: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<Vec<String>>>,
}

impl Contenders {
    fn new(cluster: &Cluster, name: &str, options: &str) -> Self {
        let clients: Vec<_> = (0..4).map(|_| cluster.client(options)).collect();
        let (holds, over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let contend = |client: &Client| {
            let (lock, holds, over) = (client.lock(name).build().unwrap(), holds.clone(), over.clone());
            std::thread::spawn(move || {
                let mut refused = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    match lock.acquire() {
                        Ok(guard) => holds.lock().unwrap().push(held(guard)),
                        Err(error) if error.retryable() => refused.push(error.to_string()),
                        Err(error) => panic!("{error}"),
                    }
                }
                refused
            })
        };
        let threads = clients.iter().flat_map(|client| [contend(client), contend(client)]).collect();
        Contenders { clients, holds, over, threads }
    }

    fn count(&self) -> usize {
        self.holds.lock().unwrap().len()
    }

    /// Waits until they go on, long after whatever is on its way has come.
    fn go_on(&self, after: &str) {
        let before = self.count();
        until(&format!("they go on after {after}"), || self.count() > before + 40);
    }

    /// Stops them; how many holds there were, and what was refused meanwhile. No two overlap.
    fn judged(self) -> (usize, Vec<String>) {
        self.over.store(true, Ordering::Relaxed);
        let refused: Vec<_> = self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        drop(self.clients);
        let mut holds = self.holds.lock().unwrap().clone();
        holds.sort_by_key(|hold| hold.began);
        let overlaps: Vec<_> = holds.windows(2).filter(|two| two[1].began < two[0].ended).collect();
        assert!(overlaps.is_empty(), "{} of {} overlap: {:?}", overlaps.len(), holds.len(), overlaps.first());
        let falls: Vec<_> = holds.windows(2).filter(|two| two[1].token <= two[0].token).collect();
        assert!(falls.is_empty(), "tokens rise: {:?}", falls.first());
        (holds.len(), refused)
    }
}

/// Holds it for a moment, and for as long as it is believed to be held.
fn held(guard: Guard) -> Hold {
    let token = guard.token().n;
    let (began, mut ended) = (Instant::now(), Instant::now());
    while began.elapsed() < Duration::from_millis(3) {
        let now = Instant::now();
        if !guard.is_held() {
            break;
        }
        ended = now;
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = guard.release();
    Hold { began, ended, token }
}

#[test]
fn members_are_killed_and_stopped_while_a_lock_is_held_and_waited_for() {
    let cluster = Cluster::new();
    let name = name("x");
    let leases = cluster.leases().unwrap();
    let contenders = Contenders::new(&cluster, &name, "ttl=5s");
    contenders.go_on("the beginning");
    cluster.befalls(&cluster.leader(), "kill");
    contenders.go_on("the leader was killed");
    cluster.befalls(&cluster.follower(), "kill");
    contenders.go_on("a follower was killed");
    let stopped = cluster.leader();
    cluster.befalls(&stopped, "stop");
    contenders.go_on("the leader was stopped");
    // If it went on instead, this etcd would end leases that are kept alive: see the page of the store.
    cluster.befalls(&stopped, "kill");
    contenders.go_on("the one that was stopped is begun anew");
    let (holds, refused) = contenders.judged();
    println!("{holds} holds, none overlaps; {} refused: {:?}", refused.len(), refused.first());
    until("no key is left", || cluster.keys(&name).is_some_and(|keys| keys.trim().is_empty()));
    until("no lease is left", || cluster.leases().is_some_and(|left| left <= leases));
}

#[test]
fn a_hold_outlives_its_leader_and_whoever_waits_is_served_by_the_next() {
    let cluster = Cluster::new();
    let (one, other, name) = (cluster.client("ttl=10s"), cluster.client("ttl=10s"), name("x"));
    for member in [Cluster::leader, Cluster::follower] {
        let guard = one.lock(&name).acquire().unwrap();
        let waits = {
            let lock = other.lock(&name).build().unwrap();
            std::thread::spawn(move || lock.acquire().map(|guard| guard.token().n).unwrap())
        };
        until("it waits", || one.inspect(&name).is_ok_and(|seen| seen.waiters == 1));
        cluster.befalls(&member(&cluster), "kill");
        until("there is a leader again", || one.ping().is_ok());
        assert!(guard.is_held() && !waits.is_finished());
        let token = guard.token().n;
        let _ = guard.release().unwrap();
        assert!(waits.join().unwrap() > token);
    }
}

#[test]
fn a_minority_grants_nothing_and_says_so_and_what_is_held_is_lost_in_time() {
    let cluster = Cluster::new();
    let client = cluster.client("ttl=4s&store_timeout=3s");
    let (held, free) = (name("held"), name("free"));
    let guard = client.lock(&held).acquire().unwrap();
    let mut told = Vec::new();
    for member in ["1", "2"] {
        cluster.befalls(member, "down");
    }
    let cut = Instant::now();
    for _ in 0..2 {
        let began = Instant::now();
        let error = client.lock(&free).try_acquire().unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable, "{error}");
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}: {error}", began.elapsed());
        told.push(error.to_string());
    }
    assert!(told[1].contains("no lock is granted by a minority"), "{told:?}");
    until("it is lost", || !guard.is_held());
    assert!(cut.elapsed() < Duration::from_secs(8), "{:?}", cut.elapsed());
    assert_eq!(guard.why_lost(), Some(LossReason::Expired));
    for member in ["1", "2"] {
        cluster.befalls(member, "up");
    }
    until("locks are granted again", || client.lock(&free).try_acquire().is_ok_and(|guard| guard.is_some()));
}

#[test]
fn servers_that_are_stopped_for_longer_than_the_lease_give_nothing_away_before_it_is_lost() {
    let cluster = Cluster::new();
    let (one, other, name) = (cluster.client("ttl=3s"), cluster.client("ttl=3s&store_timeout=30s"), name("x"));
    let guard = one.lock(&name).acquire().unwrap();
    let (tells, lost) = mpsc::channel();
    guard.on_lost(move |why| tells.send((Instant::now(), why.clone())).unwrap());
    let next = {
        let lock = other.lock(&name).build().unwrap();
        std::thread::spawn(move || {
            let guard = lock.acquire().unwrap();
            (Instant::now(), guard.token().n)
        })
    };
    until("it waits", || one.inspect(&name).is_ok_and(|seen| seen.waiters == 1));
    for member in ["1", "2", "3"] {
        cluster.befalls(member, "stop");
    }
    let stopped = Instant::now();
    let (lost, why) = lost.recv_timeout(WAIT).unwrap();
    assert!(stopped.elapsed() < Duration::from_secs(4), "{:?}", stopped.elapsed());
    until("the lease is over", || stopped.elapsed() > Duration::from_secs(5));
    for member in ["1", "2", "3"] {
        cluster.befalls(member, "cont");
    }
    let (had, token) = next.join().unwrap();
    assert_eq!(why, LossReason::Expired);
    assert!(lost < had && token > guard.token().n);
}
