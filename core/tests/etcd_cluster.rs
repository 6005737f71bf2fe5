//! What befalls a cluster of etcd while its locks are held and waited for.
//!
//! Each test is alone with the cluster, since all of them break it; what stays broken befalls one of the test's own.

mod disk;
mod gate;

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use disk::Disk;
use gate::{Between, Gate};
use lockwright::Kind;
use lockwright::blocking::{Client, Guard};
use lockwright::lease::LossReason;

const WAIT: Duration = Duration::from_secs(60);

fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < WAIT, "not for {WAIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A cluster, to whoever breaks it, and as it was once that is over.
struct Cluster {
    uri: String,
    /// Of one of the test's own, which ends with it: where it runs, and what it was set up with.
    own: Option<(tempfile::TempDir, Vec<(&'static str, String)>)>,
    _alone: MutexGuard<'static, ()>,
}

impl Cluster {
    fn new() -> Self {
        let uri = std::env::var("LOCKWRIGHT_TEST_ETCD_CLUSTER").unwrap_or_else(|_| {
            panic!(
                "these tests need a cluster of etcd: run `conformance/services/etcd-cluster.sh start` and set \
                 LOCKWRIGHT_TEST_ETCD_CLUSTER to the address it prints"
            )
        });
        Cluster { uri, own: None, _alone: alone() }.whole()
    }

    /// One of the test's own.
    fn start() -> Self {
        Cluster::start_at(ports(), "", tempfile::tempdir().unwrap())
    }

    /// The same, whose members can be cut off from one another.
    fn apart() -> (Self, Between) {
        let (ports, folder) = (ports(), tempfile::tempdir().unwrap());
        let pids = folder.path().join("etcd-cluster");
        let pid =
            move |member: usize| fs::read_to_string(pids.join(format!("{}.pid", member + 1))).ok()?.trim().parse().ok();
        let between = Between::new(3, pid);
        let found = [0, 1, 2].map(|member| between.gate(member, ports + 2 * member as u16 + 1).to_string());
        (Cluster::start_at(ports, &found.join(" "), folder), between)
    }

    fn start_at(ports: u16, found: &str, folder: tempfile::TempDir) -> Self {
        let settings = vec![
            ("LOCKWRIGHT_RUN_DIR", folder.path().to_str().unwrap().to_owned()),
            ("LOCKWRIGHT_ETCD_CLUSTER_PORT", ports.to_string()),
            ("LOCKWRIGHT_ETCD_PEERS", found.to_owned()),
            // On a busy machine a leader is silent for a second, and another one, and nobody leads for long.
            ("LOCKWRIGHT_ETCD_ELECTION", "3000".to_owned()),
        ];
        let mut cluster = Cluster { uri: String::new(), own: Some((folder, settings)), _alone: alone() };
        cluster.uri = cluster.asked(&["start"]);
        cluster.whole()
    }

    fn whole(self) -> Self {
        until("all members answer", || self.members().iter().all(|member| self.answers(member)));
        self
    }

    fn script(&self, words: &[&str]) -> Output {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/services/etcd-cluster.sh");
        let settings = self.own.iter().flat_map(|(_, settings)| settings.iter().map(|(name, value)| (name, value)));
        Command::new(path).args(words).envs(settings).output().unwrap()
    }

    fn asked(&self, words: &[&str]) -> String {
        let done = self.script(words);
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    fn client(&self, options: &str) -> Client {
        connect(&self.uri, options)
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

    fn leader(&self) -> String {
        self.asked(&["leader"])
    }

    fn follower(&self) -> String {
        let leader = self.leader();
        ["1", "2", "3"].into_iter().find(|member| *member != leader).unwrap().to_owned()
    }

    fn befalls(&self, member: &str, what: &str) {
        self.asked(&["member", member, what]);
    }

    /// Has the member keep its data there from now on; of a cluster of the test's own.
    fn moves(&self, member: &str, to: &Path) {
        let (folder, _) = self.own.as_ref().unwrap();
        let folder = folder.path().join("etcd-cluster");
        let process = Path::new("/proc").join(fs::read_to_string(folder.join(format!("{member}.pid"))).unwrap().trim());
        self.befalls(member, "down");
        until("it is gone", || !process.exists());
        let (from, to) = (folder.join(format!("data-m{member}")), to.join("data"));
        assert!(Command::new("cp").arg("-a").args([&from, &to]).status().unwrap().success());
        fs::remove_dir_all(&from).unwrap();
        std::os::unix::fs::symlink(&to, &from).unwrap();
        self.befalls(member, "up");
        let address = &self.members()[member.parse::<usize>().unwrap() - 1];
        until("it is back", || self.answers(address));
    }

    fn is_led_by(&self, member: &str) {
        let (members, at) = (self.members(), member.parse::<usize>().unwrap() - 1);
        let status = self.etcdctl(&members[at], &["endpoint", "status"]).unwrap();
        let id = status.split(", ").nth(1).unwrap();
        let leader = &members[self.leader().parse::<usize>().unwrap() - 1];
        assert!(leader == &members[at] || self.etcdctl(leader, &["move-leader", id]).is_some());
        until("it leads", || self.leader() == member);
    }

    /// How many watches all members have.
    fn watches(&self) -> u64 {
        let of = |member: &String| {
            let done = Command::new("curl").args(["-sf", &format!("http://{member}/metrics")]).output().unwrap();
            let text = String::from_utf8(done.stdout).unwrap();
            let line = text.lines().find(|line| line.starts_with("etcd_debugging_mvcc_watcher_total "));
            line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).unwrap_or_default() as u64
        };
        self.members().iter().map(of).sum()
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
                self.script(&["member", member, what]);
            }
        }
        if self.own.is_some() {
            self.script(&["stop"]);
        }
    }
}

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first of six ports, one after the other, that nobody has.
fn ports() -> u16 {
    let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
    (20_000..30_000).step_by(10).find(|first| (*first..*first + 6).all(is_free)).unwrap()
}

fn name(of: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("cluster-{}-{}/{of}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn connect(uri: &str, options: &str) -> Client {
    lockwright::blocking::connect(&format!("{uri}?{options}")).unwrap()
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
    fn new(uri: &str, name: &str) -> Self {
        let clients: Vec<_> = (0..4).map(|_| connect(uri, "ttl=5s")).collect();
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

    /// Stops them. No two overlapped, and they leave nothing in the cluster, which had so many leases before.
    fn judge(self, cluster: &Cluster, name: &str, leases: usize) {
        self.over.store(true, Ordering::Relaxed);
        let refused: Vec<_> = self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        drop(self.clients);
        let mut holds = self.holds.lock().unwrap().clone();
        holds.sort_by_key(|hold| hold.began);
        let overlaps: Vec<_> = holds.windows(2).filter(|two| two[1].began < two[0].ended).collect();
        assert!(overlaps.is_empty(), "{} of {} overlap: {:?}", overlaps.len(), holds.len(), overlaps.first());
        let falls: Vec<_> = holds.windows(2).filter(|two| two[1].token <= two[0].token).collect();
        assert!(falls.is_empty(), "tokens rise: {:?}", falls.first());
        println!("{} holds, none overlaps; {} refused: {:?}", holds.len(), refused.len(), refused.first());
        until("no key is left", || cluster.keys(name).is_some_and(|keys| keys.trim().is_empty()));
        until("no lease is left", || cluster.leases().is_some_and(|left| left <= leases));
        until("no watch is left", || cluster.watches() == 0);
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
    let contenders = Contenders::new(&cluster.uri, &name);
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
    contenders.judge(&cluster, &name, leases);
}

#[test]
fn a_member_that_is_cut_off_from_the_others_makes_no_second_holder() {
    let (cluster, between) = Cluster::apart();
    let members = cluster.members();
    let gates: Vec<_> =
        members.iter().map(|host| Gate::before(host.rsplit(':').next().unwrap().parse().unwrap())).collect();
    let uri = format!("etcd://{}", gates.iter().map(Gate::address).collect::<Vec<_>>().join(","));
    let name = name("x");
    let contenders = Contenders::new(&uri, &name);
    for member in [Cluster::leader, Cluster::follower] {
        for is_cut_off_from_clients in [false, true] {
            let victim = member(&cluster).parse::<usize>().unwrap() - 1;
            between.cut_off(victim);
            if is_cut_off_from_clients {
                gates[victim].shut();
            }
            until("it serves nobody", || !cluster.answers(&members[victim]));
            contenders.go_on("a member was cut off");
            between.heal();
            gates[victim].open();
            until("it is back", || cluster.answers(&members[victim]));
            contenders.go_on("it came back");
        }
    }
    contenders.judge(&cluster, &name, 0);
}

#[test]
fn a_member_whose_disk_is_full_takes_no_lock_along() {
    let Some(disk) = Disk::of("320m") else { return };
    let (cluster, name) = (Cluster::start(), name("x"));
    cluster.moves("3", disk.path());
    cluster.is_led_by("3");
    let full = &cluster.members()[2];
    let contenders = Contenders::new(&cluster.uri, &name);
    contenders.go_on("the beginning");
    disk.fill();
    until("it serves nobody", || !cluster.answers(full));
    contenders.go_on("a disk was full");
    disk.make_room();
    until("it is back", || cluster.answers(full));
    contenders.go_on("there is room");
    contenders.judge(&cluster, &name, 0);
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
