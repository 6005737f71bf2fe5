//! A shim: one process of one face, spoken to by lines of JSON.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::clock::{self, Nanos};
use crate::rows::Face;
use crate::scenario::Signal;

/// How long a shim may take to start.
const START: Duration = Duration::from_secs(30);
/// How long it may take for what is no test of its own.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running shim.
#[derive(Debug)]
pub struct Shim {
    pub pid: u32,
    pub language: String,
    /// Whether it can serve one play after another.
    pub resets: bool,
    own_threads: Vec<String>,
    child: Mutex<Child>,
    stdin: Mutex<ChildStdin>,
    waiting: Waiting,
    next: AtomicU64,
    errors: PathBuf,
    /// Where in `errors` that begins which was said last.
    page: AtomicU64,
    signalled: AtomicBool,
}

/// How much a process has.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Process {
    pub threads: u64,
    pub descriptors: u64,
}

type Waiting = Arc<Mutex<HashMap<u64, Sender<Answer>>>>;

/// What a shim answered to a command.
#[derive(Clone, Debug, Deserialize)]
pub struct Answer {
    /// When the call returned.
    pub at: Nanos,
    ok: Option<Value>,
    error: Option<Failure>,
    /// The most memory that the work took, in bytes, where it is done by a process of its own.
    pub peak: Option<u64>,
}

/// An error of the library, as the face shows it.
#[derive(Clone, Debug, Deserialize)]
pub struct Failure {
    pub code: String,
    pub retryable: bool,
    pub message: String,
    /// The error as the language shows it to a programmer.
    #[serde(default)]
    pub debug: String,
}

impl Answer {
    /// An answer that no shim gave.
    pub fn of(value: Value) -> Self {
        Answer { at: clock::now(), ok: Some(value), error: None, peak: None }
    }

    /// What it gives, or why not.
    pub fn result(&self) -> Result<Value, &Failure> {
        match &self.error {
            Some(failure) => Err(failure),
            None => Ok(self.ok.clone().unwrap_or(Value::Null)),
        }
    }
}

/// A command that was given and not answered yet.
#[derive(Debug)]
pub struct Pending {
    pub id: u64,
    pub sent: Nanos,
    receiver: Receiver<Answer>,
}

impl Pending {
    /// The answer, if it comes within `limit`; an error when the shim is gone.
    pub fn wait(&self, limit: Duration) -> Result<Option<Answer>, String> {
        match self.receiver.recv_timeout(limit) {
            Ok(answer) => Ok(Some(answer)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err("the shim is gone".into()),
        }
    }
}

#[derive(Deserialize)]
struct Hello {
    pid: u32,
    language: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    resets: bool,
}

impl Hello {
    fn read(line: &str, face: &Face) -> Result<Self, String> {
        let hello: Hello = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
        match &face.version {
            Some(version) if !hello.version.is_empty() && !hello.version.starts_with(version) => {
                Err(format!("it is version {:?}; its row says {version}", hello.version))
            }
            _ => Ok(hello),
        }
    }
}

#[derive(Deserialize)]
struct AnswerLine {
    id: u64,
    #[serde(flatten)]
    answer: Answer,
}

impl Shim {
    /// Starts the face's shim; what it says on its standard error goes to the file `errors`.
    pub fn start(face: &Face, errors: &Path) -> Result<Arc<Self>, String> {
        Shim::start_as(face, face.start(), errors)
    }

    /// The same, started by a command that was prepared from the face's own.
    pub fn start_as(face: &Face, mut command: Command, errors: &Path) -> Result<Arc<Self>, String> {
        let explain = |error: &dyn std::fmt::Display| format!("the shim of {} does not start: {error}", face.name);
        let file = File::create(errors).map_err(|error| explain(&error))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        // The environment may name a place of its own.
        command.env_remove("LOCKWRIGHT_URL");
        let mut child = command.spawn().map_err(|error| explain(&error))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(explain(&"it has no pipes"));
        };
        let waiting: Waiting = Arc::default();
        let (greet, greeting) = channel();
        let (answered, face_name) = (waiting.clone(), face.name.clone());
        std::thread::spawn(move || {
            let mut greet = Some(greet);
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some(greet) = greet.take() {
                    let _ = greet.send(line);
                    continue;
                }
                match serde_json::from_str::<AnswerLine>(&line) {
                    Ok(AnswerLine { id, answer }) => {
                        let sender = locked(&answered).remove(&id);
                        if let Some(sender) = sender {
                            drop(sender.send(answer));
                        }
                    }
                    Err(error) => eprintln!("{face_name}: no answer of a shim ({error}): {line}"),
                }
            }
            // Nobody waits for a shim that is gone.
            locked(&answered).clear();
        });
        let hello = greeting.recv_timeout(START).map_err(|_| "no greeting".to_owned());
        let Hello { pid, language, resets, .. } = match hello.and_then(|line| Hello::read(&line, face)) {
            Ok(hello) => hello,
            Err(error) => {
                drop(child.kill());
                drop(child.wait());
                let said = fs::read_to_string(errors).unwrap_or_default();
                return Err(explain(&format!("{error}\n{}", said.trim())));
            }
        };
        Ok(Arc::new(Shim {
            pid,
            language,
            resets,
            own_threads: face.own_threads.as_ref().map(|own| own.named.clone()).unwrap_or_default(),
            child: Mutex::new(child),
            stdin: Mutex::new(stdin),
            waiting,
            next: AtomicU64::new(1),
            errors: errors.to_owned(),
            page: AtomicU64::new(0),
            signalled: AtomicBool::new(false),
        }))
    }

    /// Gives a command.
    pub fn send(&self, name: &str, mut args: Map<String, Value>) -> Result<Pending, String> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        args.insert("id".into(), json!(id));
        args.insert("do".into(), json!(name));
        let mut line = Value::Object(args).to_string();
        line.push('\n');
        let (sender, receiver) = channel();
        locked(&self.waiting).insert(id, sender);
        let sent = clock::now();
        let written = locked(&self.stdin).write_all(line.as_bytes());
        written.map_err(|error| format!("the shim takes no more commands: {error}"))?;
        Ok(Pending { id, sent, receiver })
    }

    /// Sends a signal. When this returns, a killed process is gone with all that the kernel kept for it, and of a
    /// stopped one no thread runs any more.
    pub fn signal(&self, signal: Signal) -> Result<(), String> {
        use rustix::process::Signal as S;
        let number = match signal {
            Signal::Kill => S::KILL,
            Signal::Stop => S::STOP,
            Signal::Cont => S::CONT,
        };
        self.signalled.store(true, Ordering::Relaxed);
        let mut child = locked(&self.child);
        let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
        let pid = pid.ok_or("the shim has no process")?;
        rustix::process::kill_process(pid, number).map_err(|error| format!("signal {signal:?}: {error}"))?;
        match signal {
            Signal::Kill => drop(child.wait().map_err(|error| error.to_string())?),
            Signal::Stop => {
                while !is_stopped(child.id()) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            Signal::Cont => {}
        }
        Ok(())
    }

    /// Whether a signal was sent to it.
    pub fn was_sent_a_signal(&self) -> bool {
        self.signalled.load(Ordering::Relaxed)
    }

    /// How many threads and descriptors its process has, but for the threads that its runtime has for itself.
    pub fn process(&self) -> Process {
        Process { threads: self.threads().len() as u64, descriptors: self.of_process("fd").count() as u64 }
    }

    fn threads(&self) -> Vec<String> {
        let names = self.of_process("task").filter_map(|thread| fs::read_to_string(thread.join("comm")).ok());
        let is_own = |name: &str| self.own_threads.iter().any(|own| name.starts_with(own.as_str()));
        names.map(|name| name.trim().to_owned()).filter(|name| !is_own(name)).collect()
    }

    /// What [`Self::process`] counts, by name.
    pub fn insides(&self) -> String {
        let threads = self.threads();
        let descriptors = self.of_process("fd").filter_map(|descriptor| fs::read_link(descriptor).ok());
        let descriptors: Vec<_> = descriptors.map(|path| path.display().to_string()).collect();
        format!("{}; {}", threads.join(", "), descriptors.join(", "))
    }

    fn of_process(&self, what: &str) -> impl Iterator<Item = PathBuf> {
        let entries = fs::read_dir(format!("/proc/{}/{what}", self.pid)).into_iter().flatten();
        entries.filter_map(|entry| Some(entry.ok()?.path()))
    }

    /// Gives a command and waits for its answer, however long that takes within reason.
    pub fn ask(&self, name: &str, args: Value) -> Result<Answer, String> {
        let args = args.as_object().cloned().unwrap_or_default();
        let answer = self.send(name, args)?.wait(PATIENCE)?;
        answer.ok_or_else(|| format!("{name} has no answer"))
    }

    /// Has everything started that stays for as long as the process does.
    pub fn warm_up(&self, word: &str) -> Result<(), String> {
        for (name, uri) in
            [("memory", format!("memory://{word}")), ("refused", "redis://127.0.0.1:1?store_timeout=50ms".into())]
        {
            self.ask("open", json!({ "client": name, "uri": uri }))?;
            self.ask("acquire", json!({ "client": name, "lock": "x", "guard": name }))?;
            self.ask("close", json!({ "client": name }))?;
        }
        Ok(())
    }

    /// Has it close all that was opened, and end what it has in hand.
    pub fn reset(&self) -> Result<(), String> {
        let answer = self.ask("reset", json!({}))?;
        answer.result().map(drop).map_err(|failure| format!("reset fails: {}", failure.message))
    }

    /// Asks it to end, and waits for that; an error when it does not end by itself or not well.
    pub fn end(&self) -> Result<(), String> {
        drop(self.send("exit", Map::new()));
        let mut child = locked(&self.child);
        let give_up = clock::after(clock::now(), 10.0);
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("it ended with {status}")),
                Ok(None) if clock::now() < give_up => std::thread::sleep(Duration::from_millis(2)),
                _ => return Err("it does not end".into()),
            }
        }
    }

    /// What it said on its standard error since its play began.
    pub fn said(&self) -> String {
        let said = fs::read(&self.errors).unwrap_or_default();
        let page = usize::try_from(self.page.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        String::from_utf8_lossy(said.get(page..).unwrap_or_default()).trim().to_owned()
    }

    /// What it said until now belongs to another play.
    pub fn turn_the_page(&self) {
        let length = fs::metadata(&self.errors).map_or(0, |errors| errors.len());
        self.page.store(length, Ordering::Relaxed);
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        let mut child = locked(&self.child);
        drop(child.kill());
        drop(child.wait());
    }
}

/// Whether every thread of the process is stopped.
fn is_stopped(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    let mut stats = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    // The state follows the program's name, which stands in parentheses and may hold anything.
    stats.all(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['T', 'Z', 'X'])))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
