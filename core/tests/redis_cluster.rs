//! Locks in a Redis Cluster, while slots move and masters are killed and stopped.
//!
//! Each test is alone with the cluster, since some break it.

#![cfg(all(unix, feature = "redis"))]

use std::time::{Duration, Instant};

use lockwright::blocking::Client;
use lockwright::lease::ReleaseOutcome;
use lockwright::{Kind, blocking};

use redis_servers::cluster::{ask, first_port, key, owner, password};
use redis_servers::{Contenders, Servers, name, until};

mod redis_servers;

fn cluster() -> Servers {
    Servers::of("redis-cluster", &["1", "2", "3", "4", "5", "6"])
}

/// The number of a server that follows this one.
fn replica_of(cluster: &Servers, master: &str) -> String {
    let id = ask(cluster, master, &["cluster", "myid"]);
    let nodes = ask(cluster, master, &["cluster", "replicas", &id]);
    let port: u16 = nodes.split([':', '@']).nth(1).unwrap().parse().unwrap();
    (port - first_port(cluster) + 1).to_string()
}

/// A slot on its way from one master to another.
struct Move<'a> {
    cluster: &'a Servers,
    name: &'a str,
    from: String,
    to: String,
    slot: String,
}

impl<'a> Move<'a> {
    /// Both know that it moves: whoever asks the old one for what is not there is sent to the new one.
    fn begin(cluster: &'a Servers, name: &'a str) -> Self {
        let from = owner(cluster, name, "1");
        let masters: Vec<String> = ["a", "b", "c", "d", "e", "f", "g"].map(|other| owner(cluster, other, "1")).into();
        let to = masters.into_iter().find(|master| *master != from).unwrap();
        let slot = ask(cluster, "1", &["cluster", "keyslot", &key(name)]);
        let id = |node: &str| ask(cluster, node, &["cluster", "myid"]);
        ask(cluster, &to, &["cluster", "setslot", &slot, "importing", &id(&from)]);
        ask(cluster, &from, &["cluster", "setslot", &slot, "migrating", &id(&to)]);
        Move { cluster, name, from, to, slot }
    }

    /// The lock lies at the new one from now on.
    fn carry(&self) {
        let port = (first_port(self.cluster) + self.to.parse::<u16>().unwrap() - 1).to_string();
        let keys = ask(self.cluster, &self.from, &["cluster", "getkeysinslot", &self.slot, "100"]);
        let moved = ["migrate", "127.0.0.1", &port, "", "0", "1000", "auth", password(self.cluster), "keys"];
        ask(self.cluster, &self.from, &moved.into_iter().chain(keys.lines()).collect::<Vec<_>>());
    }

    /// Everybody knows that the new one has the slot.
    fn end(self) {
        let id = ask(self.cluster, &self.to, &["cluster", "myid"]);
        // Replicas refuse it, and hear of it from their masters.
        for node in [&*self.to, &*self.from, "1", "2", "3", "4", "5", "6"] {
            ask(self.cluster, node, &["cluster", "setslot", &self.slot, "node", &id]);
        }
        until("all know", || ["1", "2", "3"].iter().all(|node| owner(self.cluster, self.name, node) == self.to));
    }
}

/// Somebody who waits for the lock, and its token then.
fn waiting(client: &Client, name: &str) -> std::thread::JoinHandle<u64> {
    let lock = client.lock(name).build().unwrap();
    let waits = std::thread::spawn(move || {
        let guard = lock.acquire().unwrap();
        let token = guard.token().n;
        let _ = guard.release().unwrap();
        token
    });
    until("it waits", || client.inspect(name).is_ok_and(|seen| seen.waiters == 1));
    waits
}

#[test]
fn locks_of_every_kind_lie_in_a_cluster() {
    let cluster = cluster();
    let (one, other) = (cluster.client("ttl=5s"), cluster.client("ttl=5s"));
    for number in 0..12 {
        let name = name(&number.to_string());
        let guard = one.lock(&name).acquire().unwrap();
        assert!(other.lock(&name).try_acquire().unwrap().is_none());
        let waits = waiting(&other, &name);
        let began = Instant::now();
        let token = guard.token().n;
        assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
        assert!(waits.join().unwrap() > token);
        // By a timer it would be after the lease.
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
    let fair = one.lock(&name("fair")).fair().acquire().unwrap();
    assert_eq!(fair.release().unwrap(), ReleaseOutcome::Released);
    let shared = name("rw");
    let reader = one.rwlock(&shared).read().acquire().unwrap();
    let second = other.rwlock(&shared).read().try_acquire().unwrap().unwrap();
    assert!(other.rwlock(&shared).write().try_acquire().unwrap().is_none());
    assert_eq!(reader.release().unwrap(), ReleaseOutcome::Released);
    assert_eq!(second.release().unwrap(), ReleaseOutcome::Released);
    assert!(other.rwlock(&shared).write().try_acquire().unwrap().is_some());
    let permits = name("permits");
    let [a, b] = [&one, &other].map(|client| client.semaphore(&permits, 2).acquire().unwrap());
    assert!(one.semaphore(&permits, 2).try_acquire().unwrap().is_none());
    assert_eq!(a.release().unwrap(), ReleaseOutcome::Released);
    assert_eq!(b.release().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn what_a_cluster_cannot_do_is_refused() {
    let cluster = cluster();
    for layout in ["symfony", "spring&format=pub-sub"] {
        let error = blocking::connect(&format!("{}?layout={layout}", cluster.uri)).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    }
    for (layout, name) in [
        ("string&format=redis-py", "no {} tag"),
        ("redisson", "no {} tag"),
        ("redisson", "an { alone"),
        ("redisson", "a }"),
    ] {
        let joined = cluster.client(&format!("layout={layout}"));
        let error = joined.lock(name).build().unwrap_err();
        assert!(error.kind() == Kind::Unsupported && error.to_string().contains("braces"), "{layout} {name}: {error}");
    }
    let (_, hosts) = cluster.uri.split_once("://").unwrap();
    let one = blocking::connect(&format!("redis://{}", hosts.split(',').next().unwrap())).unwrap();
    let told = (0..8).find_map(|number| one.lock(&name(&number.to_string())).try_acquire().err()).unwrap();
    assert!(told.kind() == Kind::Unsupported && told.to_string().contains("redis+cluster://"), "{told}");
    let nowhere = blocking::connect("redis+cluster://127.0.0.1:1,127.0.0.1:2").unwrap();
    let error = nowhere.lock("x").try_acquire().unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
}

#[test]
fn several_locks_on_several_masters_are_held_and_renewed_together() {
    let cluster = cluster();
    let client = cluster.client("ttl=1500ms");
    let names: Vec<_> = (0..300).map(|number| name(&number.to_string())).collect();
    let guards: Vec<_> = names.iter().map(|name| client.lock(name).acquire().unwrap()).collect();
    let began = Instant::now();
    until("several leases have passed", || began.elapsed() > Duration::from_secs(4));
    assert!(guards.iter().all(|guard| guard.is_held()));
    for guard in guards {
        assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    }
    let held = client.multi_lock(&names[..5]).unwrap().acquire().unwrap();
    assert!(names.iter().take(5).all(|name| client.inspect(name).unwrap().holder.is_some()));
    let _ = held.release();
    until("all are free", || names.iter().take(5).all(|name| client.inspect(name).unwrap().holder.is_none()));
    for options in ["ttl=20s", "ttl=20s&layout=redisson"] {
        let stock = cluster.client(options).striped(&name("sale"), 8).unwrap();
        let taken: Vec<_> = (0..8).map(|_| stock.any().unwrap().unwrap()).collect();
        let masters = taken.iter().map(|taken| owner(&cluster, stock.segment(taken.index()).name(), "1"));
        assert!(masters.collect::<std::collections::BTreeSet<_>>().len() > 1, "{options}");
        assert_eq!(stock.any_within(Some(Duration::ZERO)).unwrap_err().kind(), Kind::Timeout);
    }
}

#[tokio::test]
async fn tasks_find_their_way_too() {
    let cluster = cluster();
    let client = lockwright::connect(&cluster.uri).await.unwrap();
    for number in 0..12 {
        let name = name(&number.to_string());
        let guard = client.lock(&name).acquire().await.unwrap();
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    }
    let moved = name("moved");
    let guard = client.lock(&moved).acquire().await.unwrap();
    let step = Move::begin(&cluster, &moved);
    step.carry();
    assert!(client.lock(&moved).try_acquire().await.unwrap().is_none(), "it is where it was carried");
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    step.end();
    assert!(client.lock(&moved).try_acquire().await.unwrap().is_some());
}

#[test]
fn a_lock_is_held_and_waited_for_while_its_slot_moves() {
    let cluster = cluster();
    let (one, other, name) = (cluster.client("ttl=5s"), cluster.client("ttl=5s"), name("x"));
    for stage in 0..4 {
        let guard = one.lock(&name).acquire().unwrap();
        let waits = waiting(&other, &name);
        let step = Move::begin(&cluster, &name);
        if stage == 0 {
            let token = guard.token().n;
            assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
            assert!(waits.join().unwrap() > token);
            step.carry();
            step.end();
            continue;
        }
        step.carry();
        let token = guard.token().n;
        if stage == 1 {
            assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
            assert!(waits.join().unwrap() > token);
            step.end();
        } else {
            step.end();
            assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
            assert!(waits.join().unwrap() > token);
        }
    }
}

#[test]
fn slots_go_back_and_forth_while_many_contend_and_no_two_hold() {
    let cluster = cluster();
    let name = name("x");
    let contenders = Contenders::new(&cluster, &name, "ttl=4s");
    contenders.go_on("the beginning");
    for _ in 0..3 {
        let step = Move::begin(&cluster, &name);
        contenders.go_on("the slot began to move");
        step.carry();
        contenders.go_on("the lock was carried");
        step.end();
        contenders.go_on("the slot has moved");
    }
    println!("{}", contenders.judged(&[]));
}

#[test]
fn masters_are_killed_and_stopped_while_a_lock_is_held_and_waited_for() {
    let cluster = cluster();
    let name = name("x");
    let contenders = Contenders::new(&cluster, &name, "ttl=4s");
    contenders.go_on("the beginning");
    let mut faults = Vec::new();
    for (what, back) in [("down", "up"), ("stop", "cont")] {
        let master = owner(&cluster, &name, "1");
        let witness = if master == "1" { "2" } else { "1" };
        faults.push(Instant::now());
        cluster.befalls(&master, what);
        until("another one has the slot", || !["", &*master].contains(&&*owner(&cluster, &name, witness)));
        contenders.go_on(what);
        faults.push(Instant::now());
        cluster.befalls(&master, back);
        contenders.go_on(back);
        cluster.are_well();
    }
    println!("{}", contenders.judged(&faults));
}

#[test]
fn a_hold_outlives_its_master_and_whoever_waits_is_served_by_the_next() {
    let cluster = cluster();
    let (one, other, name) = (cluster.client("ttl=8s"), cluster.client("ttl=8s&store_timeout=30s"), name("x"));
    let guard = one.lock(&name).acquire().unwrap();
    let waits = waiting(&other, &name);
    let master = owner(&cluster, &name, "1");
    let witness = if master == "1" { "2" } else { "1" };
    cluster.befalls(&master, "down");
    until("another one has the slot", || !["", &*master].contains(&&*owner(&cluster, &name, witness)));
    until("it serves", || one.inspect(&name).is_ok_and(|seen| seen.holder.is_some()));
    assert!(guard.is_held() && !waits.is_finished());
    let token = guard.token().n;
    let _ = guard.release().unwrap();
    assert!(waits.join().unwrap() > token);
}

#[test]
fn a_new_master_of_a_cluster_grants_nothing_for_a_while_and_the_others_go_on() {
    let cluster = cluster();
    let client = cluster.client("ttl=1s&failover_delay=1s");
    let name = name("x");
    let master = owner(&cluster, &name, "1");
    let elsewhere = (0..).map(|number| format!("{name}{number}")).find(|other| owner(&cluster, other, "1") != master);
    let (lock, elsewhere) =
        (client.lock(&name).build().unwrap(), client.lock(elsewhere.as_deref().unwrap()).build().unwrap());
    for lock in [&lock, &elsewhere] {
        assert_eq!(lock.acquire().unwrap().release().unwrap(), ReleaseOutcome::Released);
    }
    let held = lock.acquire().unwrap();
    let replica = replica_of(&cluster, &master);
    assert_eq!(ask(&cluster, &replica, &["cluster", "failover"]), "OK");
    until("the replica has the slot", || owner(&cluster, &name, "1") == replica);
    assert_eq!(held.release().unwrap(), ReleaseOutcome::Released);
    let began = Instant::now();
    let error = lock.try_acquire().unwrap_err();
    assert!(error.kind() == Kind::Unavailable && error.to_string().contains("failover_delay"), "{error}");
    let young = Instant::now();
    assert_eq!(elsewhere.acquire().unwrap().release().unwrap(), ReleaseOutcome::Released);
    assert!(young.elapsed() < Duration::from_secs(1), "{:?}", young.elapsed());
    assert_eq!(lock.acquire().unwrap().release().unwrap(), ReleaseOutcome::Released);
    assert!(began.elapsed() > Duration::from_millis(1_900), "{:?}", began.elapsed());
}

/// Names of locks that lie with every master.
fn one_for_each_master(cluster: &Servers) -> Vec<String> {
    let mut names: Vec<(String, String)> = Vec::new();
    while names.len() < 3 {
        let name = name("of each");
        let owner = owner(cluster, &name, "1");
        if names.iter().all(|(known, _)| *known != owner) {
            names.push((owner, name));
        }
    }
    names.into_iter().map(|(_, name)| name).collect()
}

#[test]
fn the_locks_of_all_masters_are_listed_looked_at_and_broken() {
    let cluster = cluster();
    for options in ["ttl=20s", "ttl=20s&layout=string&format=redis-py"] {
        let client = cluster.client(options);
        let names = one_for_each_master(&cluster);
        let guards: Vec<_> = names.iter().map(|name| client.lock(name).acquire().unwrap()).collect();
        let listed = client.list().unwrap();
        assert!(names.iter().all(|name| listed.contains(name)), "{options}: {listed:?} of {names:?}");
        for (name, guard) in names.iter().zip(guards) {
            let holder = client.inspect(name).unwrap().holder.unwrap();
            assert_eq!(holder.first_token, guard.token().n);
            assert!(client.break_lock(name, guard.token()).unwrap());
            assert!(client.inspect(name).unwrap().holder.is_none());
        }
    }
    assert!(cluster.client("").ping().is_ok());
}

/// As they do first of all where slots are brought to another master.
#[test]
fn locks_are_listed_and_masters_examined_while_the_first_slot_moves() {
    let cluster = cluster();
    let client = cluster.client("ttl=30s");
    let names = one_for_each_master(&cluster);
    let guards: Vec<_> = names.iter().map(|name| client.lock(name).acquire().unwrap()).collect();
    // Others move slots meanwhile, and what moves while it is listed may be left out.
    let are_listed = || names.iter().all(|name| client.list().unwrap().contains(name));
    let in_the_first = "06S";
    let step = Move::begin(&cluster, in_the_first);
    assert_eq!(step.slot, "0");
    until("all are listed", are_listed);
    let found = client.examine().unwrap();
    assert_eq!(found.iter().filter(|finding| finding.check == "version").count(), 3, "{found:?}");
    step.end();
    until("all are listed", are_listed);
    drop(guards);
}

#[test]
fn each_master_is_examined_and_one_that_is_away_is_told_of() {
    let cluster = cluster();
    let client = cluster.client("");
    let found = client.examine().unwrap();
    let of = |check: &str| found.iter().filter(|finding| finding.check == check).count();
    assert_eq!((of("version"), of("replication"), of("slots"), of("nodes")), (3, 3, 1, 0), "{found:?}");
    assert_eq!((of("versions"), of("clocks"), of("rights")), (0, 1, 0), "{found:?}");
    let stopped = owner(&cluster, "x", "1");
    cluster.befalls(&stopped, "stop");
    let found = client.examine().unwrap();
    let silent = found.iter().find(|finding| finding.check == "nodes");
    let port = first_port(&cluster) + stopped.parse::<u16>().unwrap() - 1;
    assert!(silent.is_some_and(|finding| finding.found.contains(&port.to_string())), "{found:?}");
    cluster.befalls(&stopped, "cont");
}

/// What redis-py and others send: `SET key owner NX PX`, and a script that compares.
#[test]
fn a_lock_of_layout_string_in_a_cluster_is_the_one_that_others_set() {
    let cluster = cluster();
    let client = cluster.client("ttl=4s&layout=string&format=redis-py");
    for name in one_for_each_master(&cluster) {
        let slot_owner = |name: &str| {
            let slot = ask(&cluster, "1", &["cluster", "keyslot", name]);
            let nodes = (1..=6).map(|node| node.to_string());
            let mut masters = nodes.filter(|node| ask(&cluster, node, &["role"]).starts_with("master"));
            masters.find(|node| !ask(&cluster, node, &["cluster", "countkeysinslot", &slot]).starts_with("0"))
        };
        let guard = client.lock(&name).acquire().unwrap();
        let node = slot_owner(&name).unwrap();
        assert_eq!(ask(&cluster, &node, &["set", &name, "0123456789abcdef0123456789abcdef", "nx", "px", "9000"]), "");
        assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
        assert_eq!(ask(&cluster, &node, &["set", &name, "0123456789abcdef0123456789abcdef", "nx", "px", "9000"]), "OK");
        assert!(client.lock(&name).try_acquire().unwrap().is_none());
        assert_eq!(ask(&cluster, &node, &["del", &name]), "1");
        assert_eq!(client.lock(&name).try_acquire().unwrap().unwrap().release().unwrap(), ReleaseOutcome::Released);
    }
}

/// How many listen on the channel of a lock of Redisson's whose name has braces, in its shard.
fn listeners(cluster: &Servers, node: &str, name: &str) -> String {
    let channel = format!("redisson_lock__channel:{name}");
    ask(cluster, node, &["pubsub", "shardnumsub", &channel]).lines().nth(1).unwrap_or_default().to_owned()
}

/// Somebody waits for a lock of Redisson's.
fn waits_and_releases(client: &Client, name: &str, fair: bool) -> std::thread::JoinHandle<()> {
    let lock = if fair { client.lock(name).fair().build() } else { client.lock(name).build() }.unwrap();
    std::thread::spawn(move || drop(lock.acquire().unwrap().release().unwrap()))
}

#[test]
fn locks_of_redisson_lie_in_a_cluster_and_who_waits_is_told_in_their_shards() {
    let cluster = cluster();
    let options = "ttl=20s&layout=redisson";
    let (one, other) = (cluster.client(options), cluster.client(options));
    for tag in one_for_each_master(&cluster) {
        let node = owner(&cluster, &tag, "1");
        let mut handing_over = Duration::ZERO;
        for turn in 0..10 {
            let (name, fair) = (format!("{{{tag}}} {turn}"), turn % 2 == 1);
            let guard = one.lock(&name).acquire().unwrap();
            let waits = waits_and_releases(&other, &name, fair);
            until("it waits", || match fair {
                true => one.inspect(&name).unwrap().waiters == 1,
                false => listeners(&cluster, &node, &name) == "1",
            });
            let began = Instant::now();
            assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
            waits.join().unwrap();
            handing_over += began.elapsed();
        }
        // By a timer each would last for half a second.
        assert!(handing_over < Duration::from_secs(2), "{handing_over:?}");
    }
    for format in ["", "&format=counted", "&format=fenced"] {
        let client = cluster.client(&format!("{options}{format}"));
        let guard = client.lock(&name("x")).acquire().unwrap();
        assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
        let shared = name("{rw} of a tag");
        let reader = client.rwlock(&shared).read().acquire().unwrap();
        assert!(client.rwlock(&shared).write().try_acquire().unwrap().is_none());
        assert_eq!(reader.release().unwrap(), ReleaseOutcome::Released);
        let permit = client.semaphore(&name("permits"), 1).acquire().unwrap();
        assert_eq!(permit.release().unwrap(), ReleaseOutcome::Released);
    }
}

#[test]
fn who_waits_for_a_lock_of_redisson_listens_where_its_slot_is() {
    let cluster = cluster();
    let options = "ttl=20s&layout=redisson";
    let (one, other, tag) = (cluster.client(options), cluster.client(options), name("x"));
    let name = format!("{{{tag}}}");
    let listens_at = |node: &str| until("it listens there", || listeners(&cluster, node, &name) == "1");
    let guard = one.lock(&name).acquire().unwrap();
    let waits = waits_and_releases(&other, &name, false);
    let step = Move::begin(&cluster, &tag);
    listens_at(&step.from);
    step.carry();
    let (from, to) = (step.from.clone(), step.to.clone());
    step.end();
    listens_at(&to);
    until("nobody does where it was", || listeners(&cluster, &from, &name) != "1");
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    waits.join().unwrap();
    let guard = one.lock(&name).acquire().unwrap();
    let waits = waits_and_releases(&other, &name, false);
    listens_at(&to);
    let next = replica_of(&cluster, &to);
    cluster.befalls(&to, "down");
    listens_at(&next);
    let _ = guard.release();
    waits.join().unwrap();
}

#[test]
fn whoever_is_handed_a_lock_asks_and_those_behind_do_not() {
    let cluster = cluster();
    let (one, other) = (cluster.client(""), cluster.client(""));
    // The inbox is open from here on: whoever waits while it is being opened asks once more.
    let name = name("handed");
    let held = one.lock(&name).fair().acquire().unwrap();
    let waits = waits_and_releases(&other, &name, true);
    until("it waits", || one.inspect(&name).unwrap().waiters == 1);
    let _ = held.release().unwrap();
    waits.join().unwrap();
    let held = one.lock(&name).fair().acquire().unwrap();
    let (tell, granted) = std::sync::mpsc::channel();
    for _ in 0..3 {
        let (lock, tell) = (other.lock(&name).fair().build().unwrap(), tell.clone());
        std::thread::spawn(move || tell.send(lock.acquire().unwrap()).unwrap());
    }
    until("three wait", || one.inspect(&name).unwrap().waiters == 3);
    let scripts = || cluster.script(&["requests"]).parse::<u64>().unwrap();
    let before = scripts();
    let _ = held.release().unwrap();
    let first = granted.recv().unwrap();
    // The release, and whoever asks for what it was told of.
    assert_eq!(scripts() - before, 2);
    let _ = first.release().unwrap();
    (0..2).for_each(|_| drop(granted.recv().unwrap()));
}
