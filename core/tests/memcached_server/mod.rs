//! A memcached as the script of the conformance suite starts it, somebody else's client, and what stands between.

#![allow(unreachable_pub, dead_code, reason = "each test uses its part")]

#[path = "../ports/mod.rs"]
mod ports;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use lockwright::Error;
use lockwright::blocking::Client;
use lockwright::options::ConnectOptions;
use rustix::process::{Pid, Signal, kill_process};

/// What a loaded machine may take.
pub const PATIENCE: Duration = Duration::from_secs(60);
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../conformance/services/memcached.sh");

pub fn open(uri: &str) -> Result<Client, Error> {
    Client::open(Some(uri), ConnectOptions::default())
}

pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "it never comes to that: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A server of a test's own.
pub struct Server {
    folder: tempfile::TempDir,
    options: String,
    pub port: u16,
    pub uri: String,
}

impl Server {
    pub fn start() -> Self {
        Server::start_with("")
    }

    /// With these options of the server's.
    pub fn start_with(options: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = ports::port();
        let mut server = Server { folder, options: options.into(), port, uri: String::new() };
        server.uri = server.run("start");
        server
    }

    pub fn run(&self, word: &str) -> String {
        let output = Command::new(SCRIPT)
            .arg(word)
            .env("LOCKWRIGHT_RUN_DIR", self.folder.path())
            .env("LOCKWRIGHT_MEMCACHED_PORT", self.port.to_string())
            .env("LOCKWRIGHT_MEMCACHED_OPTIONS", &self.options)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub fn signal(&self, signal: Signal) {
        let file: PathBuf = self.folder.path().join("memcached/pid");
        let pid = std::fs::read_to_string(file).unwrap().trim().parse().ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, signal).unwrap();
    }

    pub fn client(&self, options: &str) -> Client {
        open(&format!("{}?{options}", self.uri)).unwrap()
    }

    /// Another client of the server's.
    pub fn other(&self) -> Other {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        Other(BufReader::new(stream), 0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.signal(Signal::CONT);
        self.run("stop");
    }
}

/// Somebody else, who says what it likes.
pub struct Other(BufReader<TcpStream>, u64);

impl Other {
    /// The first line of the answer.
    pub fn ask(&mut self, line: &str) -> String {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
        self.line()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// What lies under `key`.
    pub fn value(&mut self, key: &str) -> Option<String> {
        (self.ask(&format!("mg {key} v")) != "EN").then(|| self.line())
    }

    /// Stores so much that a small server has no room for anything else, at most so many values of each size, since
    /// room is kept for each; whether it refused to take more of every size.
    pub fn fill(&mut self, most: usize) -> bool {
        let sizes = (20..200).step_by(12);
        let mut is_full = |size: usize| (0..most).any(|_| self.put(size).starts_with("SERVER_ERROR"));
        sizes.filter(|size| !is_full(*size)).count() == 0
    }

    /// Stores another value of that size.
    pub fn put(&mut self, size: usize) -> String {
        self.1 += 1;
        self.ask(&format!("set filler{} 0 0 {size}\r\n{}", self.1, "x".repeat(size)))
    }
}

/// Stands between clients and a server, and may cut them off or change the first word that is said.
pub struct Proxy {
    pub uri: String,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    /// To the server at `port`; with `old`, as if that had no meta commands.
    pub fn start(port: u16, old: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = format!("memcached://{}", listener.local_addr().unwrap());
        let open: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let known = open.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                known.lock().unwrap().extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                let (back_from, back_to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || pass(back_from, back_to, |_| {}));
                thread::spawn(move || {
                    pass(client, server, move |bytes| {
                        if old {
                            age(bytes)
                        }
                    })
                });
            }
        });
        Proxy { uri, open }
    }

    /// Ends all connections.
    pub fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, change: impl Fn(&mut [u8])) {
    let mut room = [0; 64 << 10];
    while let Ok(count) = from.read(&mut room)
        && count > 0
    {
        change(&mut room[..count]);
        if to.write_all(&room[..count]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// A server that is old enough answers ERROR to all meta commands.
fn age(bytes: &mut [u8]) {
    for word in ["mn\r\n", "mg ", "md ", "ms "] {
        while let Some(at) = bytes.windows(word.len()).position(|part| part == word.as_bytes()) {
            bytes[at] = b'?';
        }
    }
}

/// What a memcached says to a greeting.
pub const GREETING: &str =
    "MN\r\nSTAT pid 7\r\nSTAT uptime 100\r\nSTAT time 1700000000\r\nEND\r\nSTAT cas_enabled yes\r\nEND\r\n";

/// What is no memcached: it says `first` to what comes first, and `then` to all that comes later.
pub fn impostor(first: &'static str, then: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("memcached://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut room = [0; 4096];
                let mut said = first;
                while client.read(&mut room).is_ok_and(|count| count > 0) && client.write_all(said.as_bytes()).is_ok() {
                    said = then;
                }
            });
        }
    });
    uri
}
