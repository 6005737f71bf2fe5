//! Locks on five Redis servers, some of which are killed, stopped, emptied and started again, or have a wrong clock.

#![cfg(all(unix, feature = "redis"))]

mod node_clock;
mod ports;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lockwright::blocking::Guard;
use lockwright::guarantee::{ExclusiveUntil, Requirements};
use lockwright::lease::ReleaseOutcome;
use lockwright::options::ConnectOptions;
use lockwright::{Kind, blocking};
use node_clock::NodeClock;
use rustix::process::{Pid, Signal, kill_process};

/// A server that keeps nothing on disk: whoever restarts it finds it empty.
struct Server {
    port: u16,
    folder: PathBuf,
    process: Option<Child>,
    /// Its own, where it has one.
    clock: Option<NodeClock>,
}

impl Server {
    fn start(number: usize) -> Self {
        let port = ports::port();
        let folder = std::env::temp_dir().join(format!("lockwright-quorum-{}-{number}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut server = Server { port, folder, process: None, clock: None };
        server.launch();
        server
    }

    /// Started again, with a clock of its own.
    fn with_clock(mut self) -> Self {
        self.kill();
        self.clock = Some(NodeClock::new(&self.folder));
        self.launch();
        self
    }

    fn clock(&mut self) -> &mut NodeClock {
        self.clock.as_mut().unwrap()
    }

    fn launch(&mut self) {
        let port = self.port.to_string();
        let words = ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        let mut server = Command::new("redis-server");
        server.args(words).current_dir(&self.folder).stdout(Stdio::null());
        if let Some(clock) = &self.clock {
            clock.given_to(&mut server);
        }
        self.process = Some(server.spawn().expect("these tests need redis-server"));
        until("it serves", || std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.as_ref().unwrap().id() as i32).unwrap();
        kill_process(pid, signal).unwrap();
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    fn address(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// How far its clock is ahead of this host's.
    fn ahead(&self) -> Duration {
        let said = Command::new("redis-cli").args(["-p", &self.port.to_string(), "time"]).output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        let seconds = Duration::from_secs(said.lines().next().unwrap().parse().unwrap());
        seconds.saturating_sub(SystemTime::now().duration_since(UNIX_EPOCH).unwrap())
    }

    /// Whether this node alone has the lock as somebody's.
    fn has(&self, name: &str) -> bool {
        let client = blocking::Client::open(Some(&self.address()), ConnectOptions::default()).unwrap();
        client.inspect(name).unwrap().holder.is_some()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(30), "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

struct Five(Vec<Server>);

impl Five {
    /// Five servers that are old enough, and a client of theirs.
    fn start() -> (Self, blocking::Client) {
        let five = Five((0..5).map(Server::start).collect());
        let client = five.client("");
        assert_eq!(client.lock("age").acquire().unwrap().release().unwrap(), ReleaseOutcome::Released);
        (five, client)
    }

    fn client(&self, options: &str) -> blocking::Client {
        blocking::Client::open(Some(&self.address(options)), ConnectOptions::default()).unwrap()
    }

    fn address(&self, options: &str) -> String {
        let each: Vec<_> = self.0.iter().map(Server::address).collect();
        format!("{}?max_ttl=2s&ttl=2s&node_timeout=100ms{options}", each.join(" "))
    }
}

/// The median of so many acquisitions with their release.
fn took(client: &blocking::Client, name: &str) -> Duration {
    let lock = client.lock(name).build().unwrap();
    let once = |_| {
        let began = Instant::now();
        assert_eq!(lock.acquire().unwrap().release().unwrap(), ReleaseOutcome::Released);
        began.elapsed()
    };
    let mut all: Vec<_> = (0..200).map(once).collect();
    all.sort_unstable();
    all[all.len() / 2]
}

#[test]
fn two_of_five_may_be_killed_or_stopped_and_with_three_there_is_no_lock() {
    let (mut five, client) = Five::start();
    let healthy = took(&client, "x");
    five.0[0].kill();
    five.0[1].signal(Signal::STOP);
    let without_two = took(&client, "x");
    // A figure for whoever looks; what is asserted is that nobody waits for the silent ones again and again.
    println!("healthy {healthy:?}, one of five killed and one stopped {without_two:?}");
    assert!(without_two < Duration::from_millis(50), "{without_two:?}");
    let held = client.lock("held").acquire().unwrap();
    five.0[2].signal(Signal::STOP);
    let began = Instant::now();
    let error = client.lock("y").timeout(Duration::from_millis(500)).acquire().unwrap_err();
    assert_eq!(error.kind(), Kind::Quorum, "{error}");
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(client.lock("y").try_acquire().unwrap_err().kind(), Kind::Quorum);
    until("nothing is left on the living nodes", || !five.0[3].has("y") && !five.0[4].has("y"));
    until("what was held is lost at its deadline", || !held.is_held());
    five.0[1].signal(Signal::CONT);
    five.0[2].signal(Signal::CONT);
    let guard = client.lock("y").acquire().unwrap();
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn a_node_that_was_restarted_or_flushed_cannot_give_a_second_grant() {
    let (mut five, holder) = Five::start();
    let other = five.client("");
    other.lock("y").acquire().unwrap().release().map(drop).unwrap();
    // Three have it.
    five.0[3].kill();
    five.0[4].kill();
    let guard = holder.lock("x").acquire().unwrap();
    five.0[3].launch();
    five.0[4].launch();
    five.0[0].kill();
    five.0[0].launch();
    let flushed = Command::new("redis-cli").args(["-p", &five.0[1].port.to_string(), "flushall"]).status();
    assert!(flushed.is_ok_and(|status| status.success()));
    // Four have not got it any more, but are young.
    let mut told = None;
    let began = Instant::now();
    while guard.is_held() && began.elapsed() < Duration::from_secs(10) {
        match other.lock("x").try_acquire() {
            Ok(grant) => assert!(grant.is_none() || !guard.is_held(), "a second grant"),
            Err(error) => told = Some(error),
        }
    }
    let told = told.expect("no majority was to be had").to_string();
    assert!(told.contains("quorum: acquire"), "{told}");
    assert!(!guard.is_held(), "a majority has forgotten it, so it is lost");
    let next = other.lock("x").acquire().unwrap();
    assert_eq!(next.release().unwrap(), ReleaseOutcome::Released);
}

#[tokio::test]
async fn tasks_and_the_layouts_of_others_lie_on_five_nodes_too() {
    let (five, blocking) = Five::start();
    let client = lockwright::connect(&five.address("")).await.unwrap();
    let guard = client.lock("x").acquire().await.unwrap();
    assert!(five.0.iter().all(|server| server.has("x")), "late grants are kept, too");
    assert!(blocking.lock("x").try_acquire().unwrap().is_none());
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    for options in ["&layout=string&format=redsync", "&layout=redisson"] {
        let (one, other) = (five.client(options), five.client(options));
        let guard = one.lock("joined").acquire().unwrap();
        assert!(other.lock("joined").try_acquire().unwrap().is_none());
        assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
        assert!(other.lock("joined").try_acquire().unwrap().is_some());
    }
    let reader = client.rwlock("rw").read().acquire().await.unwrap();
    assert!(client.rwlock("rw").read().try_acquire().await.unwrap().is_some());
    assert!(client.rwlock("rw").write().try_acquire().await.unwrap().is_none());
    assert_eq!(reader.release().await.unwrap(), ReleaseOutcome::Released);
    assert!(client.examine().await.unwrap().iter().any(|finding| finding.check == "quorum"));
}

#[test]
fn where_fenced_is_required_tokens_rise_over_different_majorities() {
    let (five, _) = Five::start();
    for options in ["", "&layout=string&format=node-redlock"] {
        let clients = [five.client(options), five.client(options)];
        for client in &clients {
            client.require(Requirements { fenced: true, ..Requirements::default() }).unwrap();
        }
        let mut last = 0;
        for round in 0..20 {
            // Each time other nodes are away, as if they could not be reached.
            let away = [round % 5, (round + 2) % 5].map(|number| &five.0[number]);
            let client = five.client(options);
            client.require(Requirements { fenced: true, ..Requirements::default() }).unwrap();
            if round % 4 == 0 {
                away.iter().for_each(|server| server.signal(Signal::STOP));
            }
            let guard = client.lock("fenced").acquire().unwrap();
            away.iter().for_each(|server| server.signal(Signal::CONT));
            assert!(guard.token().n > last, "{round}: {} after {last}", guard.token().n);
            last = guard.token().n;
            assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
            let guard = clients[round % 2].lock("fenced").acquire().unwrap();
            assert!(guard.token().n > last);
            last = guard.token().n;
            assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
        }
    }
}

#[test]
fn a_leader_is_known_by_one_token_whichever_nodes_answer() {
    let (five, client) = Five::start();
    // A plain lock of the same name has tokens as the nodes have them.
    let plain = client.lock("leader").acquire().unwrap();
    assert_eq!(plain.release().unwrap(), ReleaseOutcome::Released);
    let leads = client.election("leader").campaign("a").unwrap();
    for away in &five.0 {
        away.signal(Signal::STOP);
        // One that need not find out first that those which were away before are back.
        let seen = five.client("").election("leader").leader();
        away.signal(Signal::CONT);
        assert_eq!(seen.unwrap().unwrap().token, leads.token().n);
    }
    assert_eq!(leads.release().unwrap(), ReleaseOutcome::Released);
    assert_eq!(five.client("").election("leader").leader().unwrap(), None);
}

const TOKENLESS: &str = "&layout=string&format=redsync&tokens=false";

#[test]
fn without_tokens_a_lock_on_five_nodes_is_had_by_one_and_shared_with_redsync() {
    let (five, _) = Five::start();
    let clients = [five.client(TOKENLESS), five.client(TOKENLESS), five.client("&layout=string&format=redsync")];
    let counter = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for client in clients.iter().cycle().take(6) {
            let (lock, counter) = (client.lock("count").build().unwrap(), &counter);
            scope.spawn(move || {
                for _ in 0..25 {
                    let guard = lock.acquire().unwrap();
                    let seen = counter.load(Ordering::Relaxed);
                    std::thread::yield_now();
                    counter.store(seen + 1, Ordering::Relaxed);
                    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
                }
            });
        }
    });
    assert_eq!(counter.into_inner(), 6 * 25);
    let guard = clients[0].lock("held").acquire().unwrap();
    assert_eq!(guard.token().n, 0);
    // As redsync asks: a plain `SET` on each node.
    let theirs = |server: &Server, name: &str| {
        let (port, owner) = (server.port.to_string(), "3q2+7wABAgMEBQYHCAkKCw==");
        let said = Command::new("redis-cli").args(["-p", &port, "set", name, owner, "nx", "px", "800"]).output();
        String::from_utf8(said.unwrap().stdout).unwrap().trim() == "OK"
    };
    assert_eq!(five.0.iter().filter(|server| theirs(server, "held")).count(), 0);
    assert!(clients[1].lock("held").try_acquire().unwrap().is_none());
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    assert_eq!(five.0.iter().filter(|server| theirs(server, "held")).count(), 5);
    assert!(clients[0].lock("held").try_acquire().unwrap().is_none());
    assert_eq!(clients[0].lock("held").acquire().unwrap().release().unwrap(), ReleaseOutcome::Released);
    assert_eq!(
        clients[0].require(Requirements { fenced: true, ..Requirements::default() }).unwrap_err().kind(),
        Kind::Unsupported
    );
}

#[test]
fn without_tokens_a_node_that_was_restarted_or_flushed_cannot_give_a_second_grant() {
    let (mut five, _) = Five::start();
    let (holder, other) = (five.client(TOKENLESS), five.client(TOKENLESS));
    other.lock("y").acquire().unwrap().release().map(drop).unwrap();
    five.0[3].kill();
    five.0[4].kill();
    let guard = holder.lock("x").acquire().unwrap();
    five.0[3].launch();
    five.0[4].launch();
    let flushed = Command::new("redis-cli").args(["-p", &five.0[1].port.to_string(), "flushall"]).status();
    assert!(flushed.is_ok_and(|status| status.success()));
    let (mut told, began) = (None, Instant::now());
    while guard.is_held() && began.elapsed() < Duration::from_secs(10) {
        match other.lock("x").try_acquire() {
            Ok(grant) => assert!(grant.is_none() || !guard.is_held(), "a second grant"),
            Err(error) => told = Some(error),
        }
    }
    assert_eq!(told.expect("no majority was to be had").kind(), Kind::Quorum);
    assert_eq!(other.lock("x").acquire().unwrap().release().unwrap(), ReleaseOutcome::Released);
}

/// The cost that `docs/adr/0143` states.
#[test]
fn without_tokens_a_try_that_is_executed_late_keeps_a_node_until_its_ttl_ends_and_nobody_else_longer() {
    let (five, _) = Five::start();
    let client = five.client(TOKENLESS);
    client.lock("y").acquire().unwrap().release().map(drop).unwrap();
    for server in &five.0[..3] {
        server.signal(Signal::STOP);
    }
    let error = client.lock("x").timeout(Duration::from_millis(300)).acquire().unwrap_err();
    assert_eq!(error.kind(), Kind::Quorum, "{error}");
    // What undoes it is over by then, and their tries have not been executed yet.
    std::thread::sleep(Duration::from_millis(1_500));
    for server in &five.0[..3] {
        server.signal(Signal::CONT);
    }
    let other = five.client(TOKENLESS);
    let guard = other.lock("x").timeout(Duration::from_secs(10)).acquire().unwrap();
    assert!(guard.is_held() && client.lock("x").try_acquire().unwrap().is_none());
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
}

/// How often a lock was granted while tasks of two clients contended for it, and when whoever got it found another one
/// who believed to hold it yet: since when that one did, and when it was found.
struct Contention {
    grants: usize,
    overlaps: Vec<(Instant, Instant)>,
}

/// Has them contend for so long. Each holds the lock for a moment, and now and then beyond a renewal.
fn contend(five: &mut Five, span: Duration, mut meanwhile: impl FnMut(&mut Five)) -> Contention {
    let clients = [five.client(""), five.client("")];
    let (over, grants) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (holders, overlaps) = (Mutex::new(Vec::<(Instant, Arc<Guard>)>::new()), Mutex::new(Vec::new()));
    let contends = |client: &blocking::Client| {
        let lock = client.lock("x").timeout(Duration::from_secs(3)).build().unwrap();
        while !over.load(Ordering::Relaxed) {
            let guard = match lock.acquire() {
                Ok(guard) => Arc::new(guard),
                Err(error) => {
                    assert!(error.retryable(), "{error}");
                    continue;
                }
            };
            let (now, number) = (Instant::now(), grants.fetch_add(1, Ordering::Relaxed));
            let mut all = holders.lock().unwrap();
            let believes = all.iter().filter(|(_, other)| other.is_held() && guard.is_held());
            overlaps.lock().unwrap().extend(believes.map(|(since, _)| (*since, now)));
            all.push((now, guard.clone()));
            drop(all);
            std::thread::sleep(Duration::from_millis(if number % 64 == 63 { 900 } else { 3 }));
            holders.lock().unwrap().retain(|(_, other)| !Arc::ptr_eq(other, &guard));
            let _ = Arc::into_inner(guard).map(Guard::release);
        }
    };
    std::thread::scope(|scope| {
        for client in clients.iter().cycle().take(6) {
            let contends = &contends;
            scope.spawn(move || contends(client));
        }
        let began = Instant::now();
        while began.elapsed() < span {
            meanwhile(five);
            std::thread::sleep(Duration::from_millis(500));
        }
        over.store(true, Ordering::Relaxed);
    });
    Contention { grants: grants.into_inner(), overlaps: overlaps.into_inner().unwrap() }
}

/// Five nodes that are old enough, of which the first has a clock of its own.
fn five_with_a_clock() -> Five {
    let mut servers: Vec<_> = (1..5).map(Server::start).collect();
    servers.insert(0, Server::start(0).with_clock());
    let five = Five(servers);
    assert_eq!(five.client("").lock("age").acquire().unwrap().release().unwrap(), ReleaseOutcome::Released);
    five
}

#[test]
fn a_node_whose_clock_is_a_tenth_too_fast_makes_no_second_holder() {
    let mut five = five_with_a_clock();
    five.0[0].clock().runs(1.1);
    // What matters is how fast it runs, and not what it says by now.
    five.0[0].clock().steps(Duration::from_secs(100));
    let found = contend(&mut five, Duration::from_secs(8), |_| ());
    assert!(five.0[0].ahead() > Duration::from_secs(99), "{:?}", five.0[0].ahead());
    println!("{} grants, {} overlaps", found.grants, found.overlaps.len());
    assert!(found.grants > 20 && found.overlaps.is_empty(), "{} {:?}", found.grants, found.overlaps);
}

#[test]
fn a_node_whose_clock_steps_makes_a_second_holder_by_a_step_alone() {
    let (mut five, mut steps) = (five_with_a_clock(), Vec::new());
    let found = contend(&mut five, Duration::from_secs(8), |five| {
        five.0[0].clock().steps(Duration::from_secs(60));
        steps.push(Instant::now());
    });
    println!("{} grants, {} overlaps, {} steps", found.grants, found.overlaps.len(), steps.len());
    assert!(found.grants > 20);
    for (since, seen) in found.overlaps {
        assert!(steps.iter().any(|step| since <= *step && *step <= seen), "nothing stepped meanwhile");
    }
    assert!(five.0[0].ahead() > Duration::from_secs(50 * steps.len() as u64), "{:?}", five.0[0].ahead());
}

#[test]
fn two_hold_where_a_clock_steps_of_a_bare_majority_and_as_the_guarantee_says() {
    let mut five = five_with_a_clock();
    let mut reached = five.address("");
    // The holder reaches three of the nodes.
    for (closed, server) in ["redis://127.0.0.1:1", "redis://127.0.0.1:2"].iter().zip(&five.0[3..]) {
        reached = reached.replace(&server.address(), closed);
    }
    let holder = blocking::Client::open(Some(&reached), ConnectOptions::default()).unwrap();
    let other = five.client("");
    let guard = holder.lock("x").acquire().unwrap();
    assert!(other.lock("x").try_acquire().unwrap().is_none());
    five.0[0].clock().steps(Duration::from_secs(60));
    let second = other.lock("x").timeout(Duration::from_secs(1)).acquire().unwrap();
    assert!(guard.is_held() && second.is_held(), "it took a lease");
    assert_eq!(holder.guarantees().unwrap().exclusive_until, ExclusiveUntil::NodeClock);
}
