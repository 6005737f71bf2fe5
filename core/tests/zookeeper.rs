//! Locks on servers that are stopped, killed and left, and what refuses a client there. Each test has a server of its
//! own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use lockwright::blocking::{self, Client, Guard};
use lockwright::lease::{LossReason, ReleaseOutcome};
use lockwright::options::ConnectOptions;
use lockwright::{Error, Kind};
use rustix::process::{Pid, Signal, kill_process};

/// What a loaded machine may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server as the script of the conformance suite starts it.
struct Server {
    folder: tempfile::TempDir,
    port: String,
    uri: String,
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let mut server = Server { folder, port, uri: String::new() };
        server.uri = server.run("start");
        server
    }

    fn run(&self, word: &str) -> String {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../conformance/services/zookeeper.sh");
        let output = Command::new(script)
            .arg(word)
            .env("LOCKWRIGHT_RUN_DIR", self.folder.path())
            .env("LOCKWRIGHT_ZOOKEEPER_PORT", &self.port)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn file(&self, name: &str) -> String {
        let path: PathBuf = self.folder.path().join("zookeeper").join(name);
        std::fs::read_to_string(path).unwrap().trim().to_owned()
    }

    fn signal(&self, signal: Signal) {
        let pid = self.file("pid").parse().ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// What the server says to one of its words.
    fn ask(&self, word: &str) -> String {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{}", self.port)).unwrap();
        stream.write_all(word.as_bytes()).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        said
    }

    fn client(&self, options: &str) -> Client {
        open(&format!("{}&{options}", self.uri)).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.run("stop");
    }
}

fn open(uri: &str) -> Result<Client, Error> {
    Client::open(Some(uri), ConnectOptions::default())
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "it never comes to that: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Somebody waits for the lock, and has the line already.
fn waiting(client: &Client, name: &'static str) -> mpsc::Receiver<Guard> {
    let (tell, hear) = mpsc::channel();
    let lock = client.lock(name).build().unwrap();
    thread::spawn(move || tell.send(lock.acquire().unwrap()));
    until("it waits", || client.inspect(name).unwrap().waiters == 1);
    hear
}

#[test]
fn a_server_that_is_stopped_takes_the_locks_along_at_their_deadline_and_not_later() {
    let server = Server::start();
    let client = server.client("ttl=2s");
    let guard = client.lock("x").acquire().unwrap();
    thread::sleep(Duration::from_millis(2_500));
    assert!(guard.is_held(), "it lasts for longer than a ttl");
    server.signal(Signal::STOP);
    let stopped = Instant::now();
    until("it is lost", || !guard.is_held());
    assert!(stopped.elapsed() <= Duration::from_secs(2), "{:?}", stopped.elapsed());
    assert_eq!(guard.why_lost(), Some(LossReason::Expired));
    server.signal(Signal::CONT);
    let next = client.lock("x").acquire().unwrap();
    assert!(next.token() > guard.token());
    assert_eq!(next.release().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn a_server_that_is_killed_and_comes_back_has_who_holds_and_who_waits() {
    let server = Server::start();
    // A waiter looks by itself when that is over, and that is longer than this test waits.
    let [holder, waiter] = [0, 1].map(|_| server.client("ttl=60s"));
    let guard = holder.lock("x").acquire().unwrap();
    let hear = waiting(&waiter, "x");
    server.run("restart");
    assert!(guard.is_held() && hear.try_recv().is_err());
    let token = guard.token();
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    let next = hear.recv_timeout(PATIENCE).unwrap();
    assert!(next.token() > token);
    // Its watch was told of while the waiter had no connection.
    let again = waiting(&holder, "x");
    assert_eq!(next.release().unwrap(), ReleaseOutcome::Released);
    drop(again.recv_timeout(PATIENCE).unwrap());
}

#[test]
fn a_node_that_somebody_else_deletes_is_told_to_its_holder() {
    let server = Server::start();
    let [holder, other] = [0, 1].map(|_| server.client("ttl=2s"));
    for pause in [Duration::ZERO, Duration::from_millis(1_200)] {
        let guard = holder.lock("x").acquire().unwrap();
        thread::sleep(pause);
        assert!(other.break_lock("x", guard.token()).unwrap());
        until("it is lost", || !guard.is_held());
        assert_eq!(guard.why_lost(), Some(LossReason::Broken));
    }
}

#[test]
fn what_the_servers_do_not_keep_a_session_for_is_refused_with_what_they_do() {
    let server = Server::start();
    let error = server.client("ttl=2h").lock("x").acquire().unwrap_err();
    assert!(error.kind() == Kind::Unsupported && error.to_string().contains("ttl=95960ms"), "{error}");
    let error = server.client("ttl=5s").lock("x").ttl(Duration::from_secs(6)).acquire().unwrap_err();
    assert!(error.kind() == Kind::Unsupported && error.to_string().contains("?ttl=6s"), "{error}");
}

#[test]
fn the_next_server_of_the_list_will_do() {
    let server = Server::start();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let uri = server.uri.replace("zookeeper://", &format!("zookeeper://{nobody},{nobody},"));
    for _ in 0..3 {
        drop(open(&uri).unwrap().lock("x").acquire().unwrap());
    }
    let began = Instant::now();
    let error = open(&format!("zookeeper://{nobody},{nobody}")).unwrap().lock("x").try_acquire().unwrap_err();
    assert!(error.kind() == Kind::Unavailable && error.to_string().contains("nothing listens there"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(2));
}

#[test]
fn whoever_has_no_right_to_a_lock_is_told_so() {
    let server = Server::start();
    let with = |login: &str| open(&server.uri.replace("://", &format!("://{login}@"))).unwrap();
    let (own, other) = (with("me:secret"), with("they:hunter2"));
    let guard = own.lock("x").acquire().unwrap();
    let error = other.lock("x").timeout(PATIENCE).acquire().unwrap_err();
    assert!(error.kind() == Kind::Auth && !error.to_string().contains("hunter2"), "{error}");
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn a_client_that_is_closed_leaves_no_session() {
    let server = Server::start();
    let client = server.client("ttl=20s");
    let guard = client.lock("x").acquire().unwrap();
    until("there is its node", || server.ask("dump").contains("/locks/x/_c_"));
    client.close();
    assert_eq!(guard.why_lost(), Some(LossReason::Closed));
    until("the session is over", || server.ask("dump").contains("Sessions with Ephemerals (0)"));
}

#[test]
fn something_else_that_listens_there_is_no_zookeeper() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("zookeeper://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let error = blocking::connect(&uri).unwrap().lock("x").try_acquire().unwrap_err();
    assert!(error.kind() == Kind::Protocol && error.to_string().contains("no answer of ZooKeeper"), "{error}");
}
