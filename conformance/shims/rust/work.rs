//! `work`: tasks that count up a file which nothing but the lock guards.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lockwright::{Client, Error, Kind, Result};
use lockwright_conformance::clock::{self, Nanos};
use lockwright_conformance::record::{ALL, Event, Log, Record};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::Shim;
use crate::held::{Held, Target};
use crate::way::Way;

pub(crate) async fn work<W: Way>(shim: &Arc<Shim<W>>, command: &Value) -> Result<Value> {
    let text = |key: &str| command[key].as_str().unwrap_or_default();
    let number = |key: &str| command[key].as_u64().unwrap_or(1);
    let client = shim.client(command)?;
    let log = Arc::new(Log::open(Path::new(text("log"))).map_err(|error| broken("log", error))?);
    let (report, mut reports) = mpsc::unbounded_channel();
    for i in 0..number("tasks") {
        let own = command["own_clients"] == true;
        let client = if own { shim.own_client(command, i)? } else { client.clone() };
        let task = Task::new(client, command, format!("{}-{i}", text("name")), &log)?;
        let (report, increments) = (report.clone(), number("increments"));
        W::spawn(async move { drop(report.send(task.run(increments).await)) });
    }
    drop(report);
    let mut retries: BTreeMap<&str, u64> = BTreeMap::new();
    while let Some(codes) = reports.recv().await {
        codes?.into_iter().for_each(|code| *retries.entry(code).or_default() += 1);
    }
    Ok(json!({ "retries": retries }))
}

/// Does with what is held already what [`work`] does once with a lock.
pub(crate) fn count<W: Way>(held: &Held<W>, command: &Value) -> Result<Value> {
    let text = |key: &str| command[key].as_str().unwrap_or_default();
    let log = Arc::new(Log::open(Path::new(text("log"))).map_err(|error| broken("log", error))?);
    let ledger = Ledger::new(command, text("name").into(), &log);
    ledger.count(held, clock::now(), command["asked"].as_u64().unwrap_or_default())?;
    Ok(json!({}))
}

pub(crate) struct Task<W: Way> {
    client: Client<W>,
    wanted: Target<W>,
    command: Value,
    ledger: Ledger,
}

impl<W: Way> Task<W> {
    pub(crate) fn new(client: Client<W>, command: &Value, name: String, log: &Arc<Log>) -> Result<Self> {
        let wanted = Target::of(&client, command, command["lock"].as_str().unwrap_or_default())?;
        Ok(Task { client, wanted, command: command.clone(), ledger: Ledger::new(command, name, log) })
    }

    pub(crate) async fn run(self, increments: u64) -> Result<Vec<&'static str>> {
        let mut retries = Vec::new();
        for _ in 0..increments {
            while let Err(error) = self.increment().await {
                if !error.retryable() {
                    return Err(error);
                }
                retries.push(error.code());
            }
        }
        Ok(retries)
    }

    async fn increment(&self) -> Result<()> {
        let asked = clock::now();
        // The face that excludes nobody has another lock each time.
        let other = crate::UNLOCKED.load(std::sync::atomic::Ordering::Relaxed);
        let name = self.command["lock"].as_str().unwrap_or_default();
        let wanted = if other { &Target::of(&self.client, &self.command, name)? } else { &self.wanted };
        let held = wanted.acquire().await?;
        self.ledger.count(&held, clock::now(), asked)?;
        let token = held.token();
        let outcome = held.release().await?;
        self.ledger.note(clock::now(), token, Event::Released { outcome: outcome.code().into() })
    }
}

/// What a task writes: the counter, and the log.
struct Ledger {
    task: String,
    units: u64,
    counter: PathBuf,
    log: Arc<Log>,
}

impl Ledger {
    fn new(command: &Value, task: String, log: &Arc<Log>) -> Self {
        let units = match command["share"].as_str() {
            Some("write") => ALL,
            _ => command["take"].as_u64().unwrap_or(1),
        };
        Ledger { task, units, counter: command["counter"].as_str().unwrap_or_default().into(), log: log.clone() }
    }

    fn note(&self, at: Nanos, token: u64, event: Event) -> Result<()> {
        let record = Record { at, pid: std::process::id(), task: self.task.clone(), token, event };
        self.log.write(&record).map_err(|error| broken("log", error))
    }

    /// Counts up under what was asked for at `asked` and had at `at`.
    fn count<W: Way>(&self, held: &Held<W>, at: Nanos, asked: Nanos) -> Result<()> {
        let (token, units) = (held.token(), self.units);
        self.note(at, token, Event::Grant { asked, until: at + clock::nanos(held.remaining()), units })?;
        let begin = clock::now();
        let value = self.count_up().map_err(|error| broken("counter", error))?;
        // The guard is asked after the clock: what it still says then was true at that time.
        let at = clock::now();
        let (still, until) = (held.is_held(), at + clock::nanos(held.remaining()));
        self.note(at, token, Event::Increment { begin, value, held: still, until })?;
        match held.why_lost() {
            Some(why) => self.note(clock::now(), token, Event::Lost { why: why.code().into() }),
            None => Ok(()),
        }
    }

    fn count_up(&self) -> std::io::Result<u64> {
        let value = match std::fs::read_to_string(&self.counter) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
            text => text?.trim().parse().map_err(std::io::Error::other)?,
        } + 1;
        replace(&self.counter, &self.task, &value.to_string())?;
        Ok(value)
    }
}

/// Not atomic in the least, but for the last step: whoever is killed leaves the old text or the new one.
pub(crate) fn replace(file: &Path, by: &str, text: &str) -> std::io::Result<()> {
    let scratch = file.with_extension(by);
    std::fs::write(&scratch, text)?;
    std::fs::rename(&scratch, file)
}

pub(crate) fn broken(what: &str, error: std::io::Error) -> Error {
    Error::new(Kind::Internal, "shim", format!("{what}: {error}"))
}
