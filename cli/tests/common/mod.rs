//! What the tests share: a place of one's own for locks, and the real binary at work.

#![allow(dead_code, reason = "every test file uses some of it")]

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a test waits for an event that never comes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A place for locks that no other test uses: a SQLite file, or the store that LOCKWRIGHT_TEST_CLI_STORE names.
pub(crate) struct TestStore {
    pub(crate) folder: PathBuf,
    pub(crate) url: String,
    pub(crate) prefix: String,
}

impl TestStore {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let own = format!("lockwright-cli-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(&own);
        std::fs::create_dir_all(&folder).unwrap();
        let file = format!("sqlite://{}", folder.join("locks.db").display());
        let url = std::env::var("LOCKWRIGHT_TEST_CLI_STORE").unwrap_or(file);
        TestStore { folder, url, prefix: own }
    }

    /// `lockwright` with these arguments, for this place.
    pub(crate) fn lockwright<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = bare();
        command.args(arguments).env("LOCKWRIGHT_URL", &self.url);
        if !self.url.starts_with("sqlite:") {
            let joint = if self.url.contains('?') { '&' } else { '?' };
            command.env("LOCKWRIGHT_URL", format!("{}{joint}prefix={}:", self.url, self.prefix));
        }
        command
    }

    /// Runs it to its end.
    pub(crate) fn says<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Output {
        said(&mut self.lockwright(arguments))
    }

    /// Starts it, to be talked to.
    pub(crate) fn starts<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Talking {
        Talking::to(&mut self.lockwright(arguments))
    }
}

impl Drop for TestStore {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// `lockwright` without any setting from outside.
pub(crate) fn bare() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockwright"));
    command.env_remove("LOCKWRIGHT_URL").env_remove("LOCKWRIGHT_LOG").stdin(Stdio::null());
    command
}

/// What a command that ended has said.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn said(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Output { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// A command under way. Its stdout and stderr arrive line by line, and end when nobody has them open any more.
pub(crate) struct Talking {
    pub(crate) child: Child,
    pub(crate) input: Option<ChildStdin>,
    pub(crate) out: Lines,
    pub(crate) err: Lines,
}

pub(crate) struct Lines(Receiver<String>);

impl Lines {
    fn of(stream: impl std::io::Read + Send + 'static) -> Self {
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(stream).lines().map_while(Result::ok).all(|line| tell.send(line).is_ok())
        });
        Lines(lines)
    }

    /// The next line.
    #[track_caller]
    pub(crate) fn next(&self) -> String {
        self.0.recv_timeout(PATIENCE).expect("a line")
    }

    /// All lines that are still to come. Returns when every process that could write one is gone.
    #[track_caller]
    pub(crate) fn rest(&self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            match self.0.recv_timeout(PATIENCE) {
                Ok(line) => lines.push(line),
                Err(RecvTimeoutError::Disconnected) => return lines,
                Err(RecvTimeoutError::Timeout) => panic!("still somebody there, after {lines:?}"),
            }
        }
    }
}

impl Talking {
    pub(crate) fn to(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, err) = (Lines::of(child.stdout.take().unwrap()), Lines::of(child.stderr.take().unwrap()));
        Talking { input: child.stdin.take(), out, err, child }
    }

    pub(crate) fn write(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Keys of a terminal, without an Enter.
    pub(crate) fn press(&mut self, keys: &str) {
        self.input.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Its exit code, once it has one.
    #[track_caller]
    pub(crate) fn code(&mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(began.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Talking {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Whether a process runs. One that ended and was not waited for does not.
pub(crate) fn runs(pid: &str) -> bool {
    shows_life(&std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default())
}

/// Whether one of the texts of `/proc/PID/status` is that of a process that runs.
pub(crate) fn shows_life(status: &str) -> bool {
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z') && !line.contains('X'))
}

/// Waits until processes are gone whose output has ended: they are, but for the last of their way out.
#[track_caller]
pub(crate) fn end(pids: &[String]) {
    let began = Instant::now();
    while pids.iter().any(|pid| runs(pid)) {
        assert!(began.elapsed() < PATIENCE, "still there: {pids:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
