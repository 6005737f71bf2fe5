//! A host for the engine that sends its requests by sockets: one thread and one connection for each.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use lockwright_machines::error::Result;
use lockwright_machines::layout_choice::Of;
use lockwright_machines::lease::{Inspection, ReleaseOutcome};
use lockwright_machines::time::Time;
use lockwright_wasm_engine::etcd::{Action, Config, Etcd, Post};
use lockwright_wasm_engine::{Engine, Guard, Outcome};

pub(crate) fn now() -> Time {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    Time::from_nanos(1 + u64::try_from(BEGAN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap())
}

/// The server's host and port.
pub(crate) fn member() -> String {
    let address = std::env::var("LOCKWRIGHT_TEST_ETCD").unwrap_or_else(|_| {
        panic!("this test needs an etcd: run `conformance/services/etcd.sh start` and set LOCKWRIGHT_TEST_ETCD to the address it prints")
    });
    address.trim_start_matches("etcd://").to_owned()
}

/// What no other test's names begin with.
pub(crate) fn prefix(test: &str) -> String {
    format!("engine-{}-{test}/", std::process::id())
}

/// What came of an answer.
enum Came {
    Bytes(u16, Vec<u8>),
    Ended(io::Result<()>),
}

pub(crate) struct Host {
    pub(crate) engine: Engine<Etcd>,
    came: Receiver<(u64, Came)>,
    tell: Sender<(u64, Came)>,
}

impl Host {
    pub(crate) fn new(prefix: &str) -> Self {
        Self::at(&format!("etcd://{}?prefix={prefix}", member()))
    }

    pub(crate) fn at(address: &str) -> Self {
        let mut last = u128::from(std::process::id()) << 64 | u128::from(now().as_nanos());
        let random = move || {
            last = last.wrapping_mul(0x2d99_787d_d24b_3c87_4b0a_c6d3_7b5e_19a5).wrapping_add(0x6a09_e667_f3bc_c908);
            Some(last ^ last >> 64)
        };
        let engine = Engine::new(Etcd::new(Config::read(address, "test").unwrap()), Box::new(random));
        let (tell, came) = channel();
        Host { engine, came, tell }
    }

    /// Lets the engine work until it says so.
    pub(crate) fn until(&mut self, done: impl Fn(&Engine<Etcd>) -> bool) {
        loop {
            self.perform();
            if done(&self.engine) {
                return;
            }
            self.hear(Duration::from_secs(5));
        }
    }

    /// The same until then.
    pub(crate) fn until_time(&mut self, limit: Time) {
        while now() < limit {
            self.perform();
            self.hear(limit.since(now()));
        }
    }

    /// Hears what comes, for so long, or until the engine wants to be looked at.
    fn hear(&mut self, limit: Duration) {
        let due = self.engine.next_look().map_or(limit, |due| due.since(now()).min(limit));
        match self.came.recv_timeout(due) {
            Ok((number, Came::Bytes(status, bytes))) => self.engine.came(number, now(), status, &bytes),
            Ok((number, Came::Ended(ended))) => self.engine.ended(number, now(), ended),
            Err(_) => {}
        }
        self.engine.look(now());
    }

    /// What is to be posted next.
    pub(crate) fn posted(&mut self) -> Post {
        match self.engine.next_action() {
            Some(Action::Post(post)) => post,
            other => panic!("nothing is posted, but {other:?}"),
        }
    }

    /// Answers it.
    pub(crate) fn answer(&mut self, post: &Post, status: u16, body: &str) {
        self.answer_at(now(), post, status, body);
    }

    pub(crate) fn answer_at(&mut self, at: Time, post: &Post, status: u16, body: &str) {
        self.engine.came(post.number, at, status, body.as_bytes());
        self.engine.ended(post.number, at, Ok(()));
    }

    fn perform(&mut self) {
        while let Some(action) = self.engine.next_action() {
            // What is dropped is told all the same, which has to make no difference.
            if let Action::Post(post) = action {
                let tell = self.tell.clone();
                std::thread::spawn(move || {
                    let number = post.number;
                    let ended = exchange(&post, |status, bytes| {
                        let _ = tell.send((number, Came::Bytes(status, bytes)));
                    });
                    let _ = tell.send((number, Came::Ended(ended)));
                });
            }
        }
    }

    pub(crate) fn outcome(&mut self, name: &str, timeout: Option<Duration>) -> Result<Outcome> {
        self.outcome_of(Of::Lock, name, timeout)
    }

    pub(crate) fn outcome_of(&mut self, of: Of, name: &str, timeout: Option<Duration>) -> Result<Outcome> {
        let lock = self.engine.lock_of(of, name, self.engine.lock_options())?;
        let asked = self.engine.acquire(now(), &lock, timeout)?;
        self.until(|engine| engine.is_settled(asked.ticket));
        self.engine.conclude(now(), asked)
    }

    pub(crate) fn acquire(&mut self, name: &str, timeout: Option<Duration>) -> Result<Guard> {
        match self.outcome(name, timeout)? {
            Outcome::Granted(guard) => Ok(guard),
            Outcome::Taken => panic!("somebody else has it"),
        }
    }

    pub(crate) fn release(&mut self, guard: &mut Guard) -> ReleaseOutcome {
        let ticket = self.engine.release(now(), guard).unwrap();
        self.until(|engine| engine.is_settled(ticket));
        self.engine.released(ticket)
    }

    pub(crate) fn renew(&mut self, guard: &Guard, ttl: Duration) -> Result<()> {
        let ticket = self.engine.renew(now(), guard, ttl)?;
        self.until(|engine| engine.is_settled(ticket));
        self.engine.renewed(now(), guard, ticket)
    }

    pub(crate) fn inspect(&mut self, name: &str) -> Inspection {
        let lock = self.engine.lock(name, self.engine.lock_options()).unwrap();
        let ticket = self.engine.identify(now(), &lock).unwrap();
        self.until(|engine| engine.is_settled(ticket));
        self.engine.inspected(ticket).unwrap()
    }

    pub(crate) fn break_hold(&mut self, name: &str, token: u64) -> bool {
        let lock = self.engine.lock(name, self.engine.lock_options()).unwrap();
        let ticket = self.engine.break_hold(now(), &lock, token).unwrap();
        self.until(|engine| engine.is_settled(ticket));
        self.engine.broken(ticket).unwrap()
    }

    pub(crate) fn close(&mut self) {
        self.engine.close(now());
        self.until(Engine::is_over);
        self.engine.hang_up();
    }
}

/// Posts it, and tells what comes of the answer's body.
fn exchange(post: &Post, mut tell: impl FnMut(u16, Vec<u8>)) -> io::Result<()> {
    let mut socket = TcpStream::connect(&*post.member)?;
    let Post { path, member, body, token, .. } = post;
    let token = token.iter().map(|token| format!("Authorization: {token}\r\n")).collect::<String>();
    let length = body.len();
    let said = format!("POST {path} HTTP/1.1\r\nHost: {member}\r\n{token}Content-Length: {length}\r\n\r\n{body}");
    socket.write_all(said.as_bytes())?;
    let mut answer = BufReader::new(socket);
    let mut line = String::new();
    answer.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, line.clone()))?;
    let mut length = None;
    loop {
        line.clear();
        answer.read_line(&mut line)?;
        match line.trim_end().to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().ok(),
            Some(_) => {}
            None => break,
        }
    }
    tell(status, Vec::new());
    loop {
        let chunk = match length {
            Some(length) => length,
            None => {
                line.clear();
                answer.read_line(&mut line)?;
                usize::from_str_radix(line.trim_end(), 16).map_err(|_| io::ErrorKind::UnexpectedEof)?
            }
        };
        let mut bytes = vec![0; chunk];
        answer.read_exact(&mut bytes)?;
        tell(status, bytes);
        if chunk == 0 || length.is_some() {
            return Ok(());
        }
        answer.read_line(&mut line)?;
    }
}
