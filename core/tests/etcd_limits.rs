//! Very many who wait and very many that are held over etcd, and a server whose database is full. Each test has a
//! server of its own.

mod ports;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lockwright::Kind;
use lockwright::finding::Severity;
use lockwright::lease::ReleaseOutcome;

/// An etcd that ends with the test.
struct Server {
    uri: String,
    endpoint: String,
    process: Child,
    _folder: tempfile::TempDir,
}

impl Server {
    fn new(options: &[&str]) -> Self {
        let [clients, peers] = ports::ports::<2>().map(|port| format!("127.0.0.1:{port}"));
        let folder = tempfile::tempdir().unwrap();
        let url = |host: &str| format!("http://{host}");
        let process = Command::new("etcd")
            .args(["--name", "alone", "--log-level", "error", "--data-dir"])
            .arg(folder.path().join("data"))
            .args(["--listen-client-urls", &url(&clients), "--advertise-client-urls", &url(&clients)])
            .args(["--listen-peer-urls", &url(&peers), "--initial-advertise-peer-urls", &url(&peers)])
            .args(["--initial-cluster", &format!("alone={}", url(&peers))])
            .args(options)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Server { uri: format!("etcd://{clients}"), endpoint: clients, process, _folder: folder };
        let began = Instant::now();
        while server.etcdctl(&["get", "nothing"]).is_err() {
            assert!(began.elapsed() < Duration::from_secs(30), "it starts");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// What it prints, or says of what went wrong.
    fn etcdctl(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new("etcdctl");
        let done =
            command.env("ETCDCTL_API", "3").args(["--endpoints", &self.endpoint]).args(arguments).output().unwrap();
        let told = |text| String::from_utf8(text).unwrap();
        if done.status.success() { Ok(told(done.stdout)) } else { Err(told(done.stderr)) }
    }

    /// The sum of all metrics that begin so and say one of these.
    fn metric(&self, name: &str, of: &[&str]) -> u64 {
        let done = Command::new("curl").args(["-sf", &format!("http://{}/metrics", self.endpoint)]).output().unwrap();
        let text = String::from_utf8(done.stdout).unwrap();
        let lines = text.lines().filter(|line| line.starts_with(name));
        let lines = lines.filter(|line| of.is_empty() || of.iter().any(|part| line.contains(part)));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
    }

    /// Requests that concern keys.
    fn requests(&self) -> u64 {
        let of = ["Txn", "Range", "Put", "DeleteRange"].map(|method| format!("grpc_method=\"{method}\""));
        self.metric("grpc_server_handled_total", &of.each_ref().map(String::as_str))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn count(variable: &str, usual: usize) -> usize {
    std::env::var(variable).map_or(usual, |count| count.parse().unwrap())
}

/// What this process has in memory, in kilobytes.
fn memory() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// LOCKWRIGHT_CROWD says how many.
#[tokio::test]
async fn a_crowd_of_one_client_comes_at_once_reads_the_line_once_and_has_one_watch() {
    let (server, crowd) = (Server::new(&[]), count("LOCKWRIGHT_CROWD", 500));
    let (client, before) = (lockwright::connect(&server.uri).await.unwrap(), memory());
    let lock = client.lock("x").fair().build().unwrap();
    let first = lock.acquire().await.unwrap();
    let (came, began) = (server.requests(), Instant::now());
    let tasks: Vec<_> = (0..crowd)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move { lock.acquire().await?.release().await })
        })
        .collect();
    while client.inspect("x").await.unwrap().waiters < crowd as u64 {
        assert!(began.elapsed() < Duration::from_secs(100), "all wait: {:?}", client.metrics());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let came = (server.requests() - came) as f64 / crowd as f64;
    let (queued, kilobytes) = (began.elapsed(), (memory() - before) / crowd as i64);
    let watches = server.metric("etcd_debugging_mvcc_watcher_total", &[]);
    let (requests, began) = (server.requests(), Instant::now());
    let _ = first.release().await.unwrap();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap(), ReleaseOutcome::Released);
    }
    let each = (server.requests() - requests) as f64 / crowd as f64;
    println!(
        "{crowd} wait after {queued:?} and {came:.2} requests each, {kilobytes} KB each, {watches} watches; served after \
         {:?}, {each:.2} requests each",
        began.elapsed()
    );
    // The lock and the fence are watched, and by those who came before the line was known to be long whoever is ahead.
    assert!((2..=10).contains(&watches), "{watches}");
    // Coming and giving back: the line is read once for all of them, and nobody looks at the server.
    assert!(came < 1.5 && each < 1.5, "{came} {each}");
    client.close().await;
}

/// Who hands on is told by the copy of the line who stands there already.
#[tokio::test]
async fn a_task_of_a_client_that_keeps_a_copy_of_the_line_hands_on_behind_it() {
    const CROWD: u64 = 60;
    let server = Server::new(&[]);
    let client = lockwright::connect(&server.uri).await.unwrap();
    let first = client.lock("x").acquire().await.unwrap();
    let token = first.token().n;
    let tokens = |fair: bool| {
        let lock = if fair { client.lock("x").fair().build() } else { client.lock("x").build() }.unwrap();
        tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            let token = guard.token().n;
            assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
            token
        })
    };
    let crowd: Vec<_> = (0..CROWD).map(|_| tokens(true)).collect();
    while client.inspect("x").await.unwrap().waiters < CROWD {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let others: Vec<_> = (0..3).map(|_| tokens(false)).collect();
    while client.metrics().waiting < CROWD + 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let requests = server.requests();
    assert_eq!(first.release().await.unwrap(), ReleaseOutcome::Released);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for task in crowd {
        before.push(task.await.unwrap());
    }
    for task in others {
        after.push(task.await.unwrap());
    }
    let each = (server.requests() - requests) as f64 / (CROWD + 3) as f64;
    println!("{each:.2} requests each");
    let last = before.iter().max().unwrap();
    assert!(before.iter().all(|one| *one > token) && after.iter().all(|one| one > last), "{before:?} {after:?}");
    assert!(each < 1.5, "{each}");
    assert_eq!(server.etcdctl(&["get", "--prefix", "x"]).unwrap(), "");
    client.close().await;
}

/// The same of many clients, each with a lease and a connection; they come by the hundred. LOCKWRIGHT_SESSIONS says how
/// many.
#[tokio::test]
async fn a_crowd_of_clients_is_served_one_by_one_and_each_release_wakes_one() {
    let (server, crowd) = (Server::new(&[]), count("LOCKWRIGHT_SESSIONS", 200));
    let client = lockwright::connect(&server.uri).await.unwrap();
    let first = client.lock("x").acquire().await.unwrap();
    let began = Instant::now();
    let (mut clients, mut tasks) = (Vec::with_capacity(crowd), Vec::with_capacity(crowd));
    while tasks.len() < crowd {
        for _ in tasks.len()..(tasks.len() + 100).min(crowd) {
            let client = lockwright::connect(&server.uri).await.unwrap();
            let lock = client.lock("x").build().unwrap();
            clients.push(client);
            tasks.push(tokio::spawn(async move { lock.acquire().await?.release().await }));
        }
        while client.inspect("x").await.unwrap().waiters < tasks.len() as u64 {
            assert!(began.elapsed() < Duration::from_secs(500), "all wait: {:?}", client.metrics());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let told = || server.metric("etcd_debugging_mvcc_events_total", &[]);
    let (queued, requests, events, began) = (began.elapsed(), server.requests(), told(), Instant::now());
    let watches = server.metric("etcd_debugging_mvcc_watcher_total", &[]);
    let _ = first.release().await.unwrap();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap(), ReleaseOutcome::Released);
    }
    let per = |count: u64| count as f64 / crowd as f64;
    let (requests, events) = (per(server.requests() - requests), per(told() - events));
    println!(
        "{crowd} clients wait after {queued:?} with {watches} watches; served after {:?}, {requests:.2} requests and \
         {events:.2} events each",
        began.elapsed()
    );
    // Those who came first are told of all who go; the others of who is just ahead.
    assert!(events < 33.0, "{events}");
    // Its fence, and whoever is ahead.
    assert!(per(watches) < 2.1, "{watches}");
    // A look when it is its turn, and giving back.
    assert!(requests < 3.0, "{requests}");
    for client in clients {
        client.close().await;
    }
}

/// LOCKWRIGHT_HELD says how many.
#[tokio::test]
async fn locks_that_are_merely_held_cost_nothing_but_the_life_of_their_lease() {
    let (server, held) = (Server::new(&[]), count("LOCKWRIGHT_HELD", 2_000));
    let client = lockwright::connect(&format!("{}?ttl=6s", server.uri)).await.unwrap();
    let (before, began) = (memory(), Instant::now());
    let mut guards = Vec::with_capacity(held);
    for part in 0..held.div_ceil(100) {
        let numbers = part * 100..(part * 100 + 100).min(held);
        let tasks = numbers.map(|number| {
            let lock = client.lock(&format!("held-{number}")).build().unwrap();
            tokio::spawn(async move { lock.acquire().await })
        });
        for task in tasks.collect::<Vec<_>>() {
            guards.push(task.await.unwrap().unwrap());
        }
    }
    let taken = began.elapsed();
    let alive = || server.metric("grpc_server_msg_received_total", &["LeaseKeepAlive"]);
    let (requests, lives, began) = (server.requests(), alive(), Instant::now());
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (requests, lives) = (server.requests() - requests, alive() - lives);
    let kilobytes = (memory() - before) as f64 / held as f64;
    println!(
        "{held} taken in {taken:?}, {kilobytes:.2} KB each; in {:?} {requests} requests and {lives} signs of life",
        began.elapsed()
    );
    assert!(guards.iter().all(lockwright::Guard::is_held));
    assert_eq!(requests, 0);
    // Each third of the ttl, and once more where a connection was slow.
    assert!((3..=7).contains(&lives), "{lives}");
    drop(guards);
    client.close().await;
}

#[test]
fn a_database_that_is_full_grants_nothing_and_says_why_and_what_is_held_can_be_given_back() {
    let server = Server::new(&["--quota-backend-bytes", "2097152"]);
    let client = lockwright::blocking::connect(&format!("{}?store_timeout=1s", server.uri)).unwrap();
    let held = client.lock("held").acquire().unwrap();
    let value = "x".repeat(120_000);
    let full = (0..200).find_map(|number| server.etcdctl(&["put", &format!("fill/{number}"), &value]).err());
    assert!(full.unwrap().contains("database space exceeded"));
    for _ in 0..2 {
        let error = client.lock("free").try_acquire().unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable);
        assert!(error.to_string().contains("its database is full"), "{error}");
    }
    let worst = client.examine().unwrap().into_iter().max_by_key(|one| one.severity).unwrap();
    assert_eq!((worst.check, worst.severity), ("room", Severity::Problem));
    assert!(held.is_held());
    // It cannot be handed on, and is given back all the same.
    let next = {
        let lock = client.lock("held").build().unwrap();
        std::thread::spawn(move || lock.acquire().unwrap_err().kind())
    };
    while client.metrics().waiting == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let began = Instant::now();
    assert_eq!(held.release().unwrap(), ReleaseOutcome::Released);
    assert!(began.elapsed() < Duration::from_millis(900), "nobody waits for what the next one cannot have");
    assert_eq!(next.join().unwrap(), Kind::Unavailable);
    assert_eq!(server.etcdctl(&["get", "--prefix", "held"]).unwrap(), "");
    assert_eq!(server.etcdctl(&["get", "--prefix", "free"]).unwrap(), "");
    // What the message says.
    server.etcdctl(&["del", "--prefix", "fill/"]).unwrap();
    let status = server.etcdctl(&["endpoint", "status", "-w", "json"]).unwrap();
    let revision: String =
        status.split("\"revision\":").nth(1).unwrap().chars().take_while(char::is_ascii_digit).collect();
    server.etcdctl(&["compact", &revision]).unwrap();
    server.etcdctl(&["--command-timeout", "30s", "defrag"]).unwrap();
    server.etcdctl(&["alarm", "disarm"]).unwrap();
    assert!(client.lock("free").try_acquire().unwrap().is_some());
}
