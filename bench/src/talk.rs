//! Contenders are programs of any language; this is how the runner speaks with them. `bench/README.md` has the
//! protocol.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::Result;
use crate::report::Role;

/// How long a contender may be silent. The slowest peers sleep for a tenth of a second between two tries, and with many
/// tasks one may be unlucky for a while.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a program says of one contender.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Offer {
    pub(crate) name: String,
    pub(crate) language: String,
    #[serde(default = "peer")]
    pub(crate) role: Role,
    pub(crate) rows: Vec<String>,
    #[serde(default)]
    pub(crate) versions: BTreeMap<String, String>,
    /// The commands of the server's statistics that are requests of this contender; the others are called by its
    /// scripts.
    #[serde(default)]
    pub(crate) requests: Vec<String>,
    /// Why it cannot be measured here.
    #[serde(default)]
    pub(crate) absent: Option<String>,
}

fn peer() -> Role {
    Role::Peer
}

/// A program and one of its offers.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    program: PathBuf,
    pub(crate) offer: Offer,
}

/// Every contender of every program in `folder`. A program that cannot say what it offers, say for want of its
/// language, is told on stderr and left out.
pub(crate) fn contenders(folder: &Path) -> Result<Vec<Contender>> {
    let mut programs: Vec<PathBuf> = std::fs::read_dir(folder)?
        .map(|file| Ok(file?.path()))
        .filter(|path| path.as_ref().map_or(true, |path| is_program(path)))
        .collect::<Result<_>>()?;
    programs.sort();
    let mut found = Vec::new();
    for program in programs {
        match offers(&program) {
            Ok(offers) => found.extend(offers.into_iter().map(|offer| Contender { program: program.clone(), offer })),
            Err(error) => eprintln!("{} is left out: {error}", program.display()),
        }
    }
    Ok(found)
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

fn offers(program: &Path) -> Result<Vec<Offer>> {
    let output = Command::new(program).arg("list").stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("`list` ended with {}", output.status).into());
    }
    String::from_utf8(output.stdout)?.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

impl Contender {
    pub(crate) fn plays(&self, row: &str) -> bool {
        self.offer.rows.iter().any(|offered| offered == row)
    }

    fn command(&self, verb: &str, url: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args([verb, &self.offer.name, url]);
        command
    }

    /// How long it takes from the start of the program to its first held lock.
    pub(crate) fn cold_start(&self, url: &str) -> Result<Duration> {
        let started = Instant::now();
        let mut peer = Peer::spawn(self.command("cold", url))?;
        let line = peer.line()?;
        let took = started.elapsed();
        if line != "held" {
            return Err(format!("said {line:?} in place of held").into());
        }
        Ok(took)
    }

    /// What the program says that holds very many locks.
    pub(crate) fn hold(&self, url: &str, task: &[&str]) -> Result<String> {
        let output = self.command("hold", url).args(task).stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("ended with {}", output.status).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// A contender at work. Dropping it ends its process, and waits for it.
pub(crate) struct Peer {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<std::io::Result<String>>,
}

/// What one task of a crowd did.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Tally {
    /// How often it had the lock before the end.
    pub(crate) acquired: u64,
    /// How long it waited each time, in nanoseconds; the last wait began before the end and may have ended after it.
    pub(crate) ns: Vec<u64>,
}

impl Peer {
    /// Starts the contender, and returns when it is connected.
    pub(crate) fn start(contender: &Contender, url: &str) -> Result<Self> {
        let mut peer = Peer::spawn(contender.command("work", url))?;
        match peer.line()?.as_str() {
            "ready" => Ok(peer),
            other => Err(format!("said {other:?} in place of ready").into()),
        }
    }

    fn spawn(mut command: Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or("no stdout")?;
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Peer { child, stdin, lines })
    }

    fn line(&mut self) -> Result<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Ok(line?),
            Err(RecvTimeoutError::Timeout) => {
                // It would not end by itself either.
                self.child.kill()?;
                Err(format!("was silent for {} s", PATIENCE.as_secs()).into())
            }
            Err(RecvTimeoutError::Disconnected) => Err(format!("ended with {}", self.child.wait()?).into()),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn tell(&mut self, command: &str) -> Result<()> {
        Ok(self.stdin.as_mut().ok_or("no stdin")?.write_all(format!("{command}\n").as_bytes())?)
    }

    fn answer<T: DeserializeOwned>(&mut self) -> Result<T> {
        let line = self.line()?;
        serde_json::from_str(&line).map_err(|_| format!("said {}", &line[..line.floor_char_boundary(200)]).into())
    }

    /// Acquires and releases a free lock `count` times; how long each pair took, in nanoseconds.
    pub(crate) fn pairs(&mut self, count: usize) -> Result<Vec<u64>> {
        self.tell(&format!("pairs {count}"))?;
        let ns: Vec<u64> = self.answer()?;
        if ns.len() == count { Ok(ns) } else { Err(format!("did {} pairs in place of {count}", ns.len()).into()) }
    }

    /// Makes `tasks` tasks that stand ready to begin at `go`.
    pub(crate) fn crowd(&mut self, tasks: usize, own_keys: bool) -> Result<()> {
        self.tell(&format!("crowd {tasks} {}", if own_keys { "own" } else { "one" }))?;
        match self.line()?.as_str() {
            "ready" => Ok(()),
            other => Err(format!("said {other:?} in place of ready").into()),
        }
    }

    /// What the tasks did, after `stop`.
    pub(crate) fn tallies(&mut self, tasks: usize) -> Result<Vec<Tally>> {
        let tallies: Vec<Tally> = self.answer()?;
        if tallies.len() == tasks { Ok(tallies) } else { Err(format!("{} tasks answered", tallies.len()).into()) }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let deadline = Instant::now() + Duration::from_secs(5);
        while !matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
            if Instant::now() > deadline {
                // Nothing more can be done about a process that cannot be killed.
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
