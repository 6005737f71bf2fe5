//! ZooKeeper servers as the scripts of the conformance suite start them: one, or an ensemble of three.

#![allow(unreachable_pub, dead_code, reason = "each test uses its part")]

#[path = "../gate/mod.rs"]
mod gate;
#[path = "../ports/mod.rs"]
mod ports;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

pub use gate::{Between, Gate};
use lockwright::Error;
use lockwright::blocking::{Client, Guard};
use lockwright::options::ConnectOptions;
use rustix::process::{Pid, Signal, kill_process};

/// What a loaded machine may take.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// How long it takes at most until somebody is told. Whoever is told nothing looks by itself after two thirds of its
/// session, which is to be twice as long.
pub const TOLD: Duration = Duration::from_secs(30);

pub fn open(uri: &str) -> Result<Client, Error> {
    Client::open(Some(uri), ConnectOptions::default())
}

pub fn until(what: &str, is_so: impl FnMut() -> bool) {
    within(PATIENCE, what, is_so);
}

/// Waits until it `is_so`, for at most `limit`.
pub fn within(limit: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < limit, "it never comes to that: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Somebody waits for the lock, and has the line already.
pub fn waiting(client: &Client, name: &'static str) -> mpsc::Receiver<Guard> {
    let (tell, hear) = mpsc::channel();
    let lock = client.lock(name).build().unwrap();
    thread::spawn(move || tell.send(lock.acquire().unwrap()));
    until("it waits", || client.inspect(name).unwrap().waiters == 1);
    hear
}

/// One server, alone or of an ensemble.
pub struct Server {
    folder: PathBuf,
    script: &'static str,
    pub port: String,
    members: String,
    /// Further options of Java's.
    options: &'static str,
    _kept: Option<tempfile::TempDir>,
    pub uri: String,
}

/// One server with certificates on both sides and a user.
pub const TLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../conformance/services/zookeeper-tls.sh");
/// One server, or one of an ensemble.
pub const PLAIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../conformance/services/zookeeper.sh");

impl Server {
    pub fn start() -> Self {
        Server::start_by(PLAIN, "")
    }

    pub fn start_by(script: &'static str, options: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = ports::port().to_string();
        let (path, members) = (folder.path().to_owned(), String::new());
        let mut server =
            Server { folder: path, script, port, members, options, _kept: Some(folder), uri: String::new() };
        server.uri = server.run("start");
        server
    }

    pub fn run(&self, word: &str) -> String {
        let output = Command::new(self.script)
            .arg(word)
            .env("LOCKWRIGHT_RUN_DIR", &self.folder)
            .env("LOCKWRIGHT_ZOOKEEPER_PORT", &self.port)
            .env("LOCKWRIGHT_ZOOKEEPER_TLS_PORT", &self.port)
            .env("LOCKWRIGHT_ZOOKEEPER_JAVA", self.options)
            .env("LOCKWRIGHT_ZOOKEEPER_MEMBERS", &self.members)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// The folder in which it runs.
    pub fn folder(&self) -> PathBuf {
        let is_its = |path: &PathBuf| path.join("pid").exists();
        let mut folders = std::fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().path());
        folders.find(is_its).unwrap()
    }

    pub fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder().join(name)).unwrap().trim().to_owned()
    }

    pub fn pid(&self) -> Pid {
        self.file("pid").parse().ok().and_then(Pid::from_raw).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Kills it, unless it has ended by itself, and waits until it is gone.
    pub fn kill(&self) {
        let of = PathBuf::from("/proc").join(self.pid().as_raw_nonzero().to_string());
        let _ = kill_process(self.pid(), Signal::KILL);
        until("it is gone", || !of.exists() || is_over(&of));
    }

    /// Has it come back on its data: where members forget what they acknowledged, two hold one lock.
    pub fn come_back(&self) {
        self.run("restart");
    }

    /// What the server says to one of its words; nothing where it says nothing.
    pub fn ask(&self, word: &str) -> String {
        let mut said = String::new();
        if let Ok(mut stream) = TcpStream::connect(format!("127.0.0.1:{}", self.port)) {
            stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
            let _ = stream.write_all(word.as_bytes()).and_then(|()| stream.read_to_string(&mut said));
        }
        said
    }

    /// As one of an ensemble that has a majority.
    pub fn serves(&self) -> bool {
        let said = self.ask("srvr");
        ["Mode: leader", "Mode: follower"].iter().any(|mode| said.contains(mode))
    }

    /// Deletes a node and all below it, as an operator does.
    pub fn delete(&self, path: &str) {
        let jars = "/usr/share/java/zookeeper.jar:/usr/share/java/commons-cli.jar";
        let arguments = ["-cp", jars, "org.apache.zookeeper.ZooKeeperMain", "-server"];
        let server = format!("127.0.0.1:{}", self.port);
        let deleted = Command::new("java").args(arguments).args([&server, "deleteall", path]).output().unwrap();
        assert!(deleted.status.success(), "{}", String::from_utf8_lossy(&deleted.stderr));
    }

    pub fn client(&self, options: &str) -> Client {
        open(&format!("{}&{options}", self.uri)).unwrap()
    }

    pub fn gate(&self) -> Gate {
        Gate::before(self.port.parse().unwrap())
    }

    /// A client that comes by that way.
    pub fn client_by(&self, gate: &Gate, options: &str) -> Client {
        let uri = self.uri.replace(&format!(":{}", self.port), &format!(":{}", gate.port));
        open(&format!("{uri}&{options}")).unwrap()
    }
}

/// Whether a process has ended and only its parent has not looked yet.
fn is_over(of: &Path) -> bool {
    std::fs::read_to_string(of.join("stat")).is_ok_and(|stat| stat.contains(") Z "))
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.folder().join("pid").exists() {
            // What is stopped cannot end.
            let _ = kill_process(self.pid(), Signal::CONT);
        }
        self.run("stop");
    }
}

/// Three servers, and the ways between them.
pub struct Ensemble {
    pub servers: Vec<Server>,
    pub between: Between,
    _folder: tempfile::TempDir,
}

impl Ensemble {
    pub fn start() -> Self {
        Ensemble::start_on(None)
    }

    /// The last of them on that disk.
    pub fn start_on(disk: Option<&Path>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut folders = [0, 1, 2].map(|number| folder.path().join(number.to_string()));
        folders[2] = disk.map_or(folders[2].clone(), |disk| disk.join("2"));
        let pids = folders.clone().map(|folder| folder.join("zookeeper/pid"));
        let between = Between::new(3, move |member| std::fs::read_to_string(&pids[member]).ok()?.trim().parse().ok());
        let ports = ports::ports::<9>();
        let line = |ports: &[u16]| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(":");
        let own: Vec<_> = ports.chunks(3).map(line).collect();
        let gate = |(member, of): (usize, &[u16])| {
            line(&[of[0], between.gate(member, of[1]), between.gate_of_greetings(member, of[2])])
        };
        let gates: Vec<_> = ports.chunks(3).enumerate().map(gate).collect();
        let starts = folders.into_iter().enumerate().map(|(number, folder)| {
            let mut members = gates.clone();
            members[number].clone_from(&own[number]);
            let (port, members) = (ports[3 * number].to_string(), members.join(" "));
            // Each answers once most are there.
            thread::spawn(move || {
                let mut server =
                    Server { folder, script: PLAIN, port, members, options: "", _kept: None, uri: String::new() };
                server.uri = server.run("start");
                server
            })
        });
        let starts: Vec<_> = starts.collect();
        let servers = starts.into_iter().map(|start| start.join().unwrap()).collect();
        Ensemble { servers, between, _folder: folder }
    }

    pub fn hosts(&self) -> String {
        let hosts: Vec<_> = self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
        hosts.join(",")
    }

    pub fn client(&self, options: &str) -> Client {
        open(&format!("zookeeper://{}/locks?tick=100ms&{options}", self.hosts())).unwrap()
    }

    /// Which of them leads.
    pub fn leader(&self) -> usize {
        let mut leader = None;
        until("one of them leads", || {
            leader = self.servers.iter().position(|server| server.ask("srvr").contains("Mode: leader"));
            leader.is_some()
        });
        leader.unwrap()
    }

    pub fn follower(&self) -> usize {
        let mut follower = None;
        until("one of them follows", || {
            follower = self.servers.iter().position(|server| server.ask("srvr").contains("Mode: follower"));
            follower.is_some()
        });
        follower.unwrap()
    }

    /// Shows what each member says of itself, of what sessions have, and of what they watch.
    pub fn tell(&self) {
        let of = |server| ["srvr", "dump", "wchp"].map(|word| (server, word));
        for (server, word) in self.servers.iter().flat_map(of) {
            println!("{} {word}: {}", server.port, server.ask(word));
        }
    }

    /// Until all three serve.
    pub fn is_whole(&self) {
        until("all serve", || self.servers.iter().all(Server::serves));
    }
}
