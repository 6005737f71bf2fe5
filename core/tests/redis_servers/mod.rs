//! Redis servers of a service that a test breaks, and those who contend for a lock on them meanwhile.

#![allow(unreachable_pub, dead_code, reason = "each test uses its part")]

#[path = "../ports/mod.rs"]
mod ports;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lockwright::blocking::{self, Client, Guard};
use rustix::process::{Pid, Signal, kill_process};

pub mod cluster;

const WAIT: Duration = Duration::from_secs(60);

/// What the service's script prints.
pub fn script(service: &str, words: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../conformance/services/{service}.sh"));
    let done = Command::new(script).args(words).output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < WAIT, "not for {WAIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The servers, to whoever breaks them, and as they were once that is over.
pub struct Servers {
    service: &'static str,
    pub uri: String,
    numbers: &'static [&'static str],
    _alone: MutexGuard<'static, ()>,
}

impl Servers {
    /// Those of a service, by its name and the numbers of its servers.
    pub fn of(service: &'static str, numbers: &'static [&'static str]) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let variable = format!("LOCKWRIGHT_TEST_{}", service.to_uppercase().replace('-', "_"));
        let uri = std::env::var(&variable).unwrap_or_else(|_| {
            panic!(
                "these tests need servers: run `conformance/services/{service}.sh start` and set {variable} to the address \
                 it prints"
            )
        });
        let servers = Servers { service, uri, numbers, _alone: alone };
        servers.are_well();
        servers
    }

    /// Waits until all of them are as they should be.
    pub fn are_well(&self) {
        self.script(&["start"]);
    }

    pub fn script(&self, words: &[&str]) -> String {
        script(self.service, words)
    }

    pub fn client(&self, options: &str) -> Client {
        let mark = if self.uri.contains('?') { '&' } else { '?' };
        blocking::connect(&format!("{}{mark}{options}", self.uri)).unwrap()
    }

    pub fn befalls(&self, server: &str, what: &str) {
        self.script(&["server", server, what]);
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for server in self.numbers {
            for what in ["up", "cont"] {
                self.script(&["server", server, what]);
            }
        }
    }
}

pub fn name(of: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("servers-{}-{}/{of}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// From when to when somebody believed to hold it, under which token.
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    began: Instant,
    ended: Instant,
    token: u64,
}

/// Some who contend for one lock all the time, until they are told to stop.
pub struct Contenders {
    holds: Arc<Mutex<Vec<Hold>>>,
    over: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<usize>>,
}

impl Contenders {
    pub fn new(servers: &Servers, name: &str, options: &str) -> Self {
        let (holds, over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let contend = |_| {
            let (client, name) = (servers.client(options), name.to_owned());
            let (holds, over) = (holds.clone(), over.clone());
            std::thread::spawn(move || {
                let (lock, mut refused) = (client.lock(&name).build().unwrap(), 0);
                while !over.load(Ordering::Relaxed) {
                    match lock.acquire() {
                        Ok(guard) => holds.lock().unwrap().push(held(guard)),
                        Err(error) if error.retryable() => refused += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
                refused
            })
        };
        let threads = (0..6).map(contend).collect();
        Contenders { holds, over, threads }
    }

    /// Waits until they go on, long after whatever is on its way has come.
    pub fn go_on(&self, after: &str) {
        let before = self.holds.lock().unwrap().len();
        until(&format!("they go on after {after}"), || self.holds.lock().unwrap().len() > before + 40);
    }

    /// Stops them. Only where a fail-over was under way two holds may overlap, or a token be lower than the one before.
    pub fn judged(self, faults: &[Instant]) -> String {
        self.over.store(true, Ordering::Relaxed);
        let refused: usize = self.threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        let mut holds = self.holds.lock().unwrap().clone();
        holds.sort_by_key(|hold| hold.began);
        let two = |is: fn(&Hold, &Hold) -> bool| holds.windows(2).filter(move |two| is(&two[0], &two[1]));
        let overlaps = || two(|one, next| next.began < one.ended);
        let falls = || two(|one, next| next.token <= one.token);
        let is_of_a_fault = |at: Instant| faults.iter().any(|fault| at > *fault && at - *fault < WINDOW);
        for two in overlaps().chain(falls()) {
            assert!(is_of_a_fault(two[1].began), "{two:?} of {}", holds.len());
        }
        format!(
            "{} holds, {} overlap, {} tokens fall, {refused} refused",
            holds.len(),
            overlaps().count(),
            falls().count()
        )
    }
}

/// A fail-over is over by then: the master is given up after 1 s, and may not be the first that is voted for.
const WINDOW: Duration = Duration::from_secs(20);

/// Holds it for a moment, and for as long as it is believed to be held.
pub fn held(guard: Guard) -> Hold {
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

/// A server that keeps nothing on disk.
pub struct Server {
    pub port: u16,
    folder: PathBuf,
    process: Child,
}

impl Server {
    pub fn start() -> Self {
        let port = ports::port();
        let folder = std::env::temp_dir().join(format!("lockwright-redis-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let words = ["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""];
        let server = Command::new("redis-server").args(words).current_dir(&folder).stdout(Stdio::null()).spawn();
        let process = server.expect("these tests need redis-server");
        until("it serves", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Server { port, folder, process }
    }

    pub fn ask(&self, words: &[&str]) -> String {
        let done = Command::new("redis-cli").args(["-p", &self.port.to_string()]).args(words).output().unwrap();
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    /// Follows `other` from now on, and has got all of it.
    pub fn follow(&self, other: &Server) {
        self.ask(&["replicaof", "127.0.0.1", &other.port.to_string()]);
        until("it follows", || self.ask(&["info", "replication"]).contains("master_link_status:up"));
    }

    /// Sends it, and waits until a server that is to stop has.
    pub fn signal(&self, signal: Signal) {
        let pid = self.process.id();
        kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        until("it has stopped", || signal != Signal::STOP || state().contains(") T "));
    }

    pub fn has(&self, name: &str) -> bool {
        self.ask(&["exists", &format!("lw:{{{name}}}")]) == "1"
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A sentinel that names whom it is told to, and how often it was asked.
pub struct Sentinel {
    pub port: u16,
    named: Arc<Mutex<Option<u16>>>,
    pub asked: Arc<AtomicU64>,
}

impl Sentinel {
    pub fn naming(named: Option<u16>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (named, asked) = (Arc::new(Mutex::new(named)), Arc::new(AtomicU64::new(0)));
        let (names, counts) = (named.clone(), asked.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut words = BufReader::new(stream.try_clone().unwrap()).lines();
                if words.any(|word| word.is_ok_and(|word| word == "mymaster")) {
                    counts.fetch_add(1, Ordering::SeqCst);
                    let answer = match *names.lock().unwrap() {
                        Some(port) => format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.to_string().len()),
                        None => "*-1\r\n".to_owned(),
                    };
                    let _ = (&stream).write_all(answer.as_bytes());
                }
            }
        });
        Sentinel { port, named, asked }
    }

    pub fn name(&self, server: &Server) {
        self.names(server.port);
    }

    pub fn names(&self, port: u16) {
        *self.named.lock().unwrap() = Some(port);
    }
}
