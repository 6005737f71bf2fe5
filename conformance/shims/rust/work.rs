//! `work`: tasks that count up a file which nothing but the lock guards.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lockwright::{Client, Error, Kind, Lock, Result};
use lockwright_conformance::clock;
use lockwright_conformance::record::{ALL, Event, Log, Record};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::way::Way;
use crate::{Shim, lock_of};

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

pub(crate) struct Task<W: Way> {
    name: String,
    client: Client<W>,
    lock: Lock<W>,
    command: Value,
    counter: PathBuf,
    log: Arc<Log>,
}

impl<W: Way> Task<W> {
    pub(crate) fn new(client: Client<W>, command: &Value, name: String, log: &Arc<Log>) -> Result<Self> {
        let text = |key: &str| command[key].as_str().unwrap_or_default();
        let lock = lock_of(&client, command, text("lock"))?;
        Ok(Task { name, client, lock, command: command.clone(), counter: text("counter").into(), log: log.clone() })
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
        let lock = if other { &lock_of(&self.client, &self.command, name)? } else { &self.lock };
        let guard = W::acquire(lock).await?;
        let at = clock::now();
        let token = guard.token().n;
        let note = |at, event| {
            let record = Record { at, pid: std::process::id(), task: self.name.clone(), token, event };
            self.log.write(&record).map_err(|error| broken("log", error))
        };
        let units = match self.command["share"].as_str() {
            Some("write") => ALL,
            _ => self.command["take"].as_u64().unwrap_or(1),
        };
        note(at, Event::Grant { asked, until: at + clock::nanos(guard.remaining()), units })?;
        let begin = clock::now();
        let value = self.count_up().map_err(|error| broken("counter", error))?;
        // The guard is asked after the clock: what it still says then was true at that time.
        let at = clock::now();
        let (held, until) = (guard.is_held(), at + clock::nanos(guard.remaining()));
        note(at, Event::Increment { begin, value, held, until })?;
        if let Some(why) = guard.why_lost() {
            note(clock::now(), Event::Lost { why: why.code().into() })?;
        }
        let outcome = W::release(guard).await?;
        note(clock::now(), Event::Released { outcome: outcome.code().into() })
    }

    /// Not atomic in the least, but for the last step: whoever is killed leaves the old value or the new one.
    fn count_up(&self) -> std::io::Result<u64> {
        let value = match std::fs::read_to_string(&self.counter) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
            text => text?.trim().parse().map_err(std::io::Error::other)?,
        } + 1;
        let scratch = self.counter.with_file_name(format!("counter.{}", self.name));
        std::fs::write(&scratch, value.to_string())?;
        std::fs::rename(&scratch, &self.counter)?;
        Ok(value)
    }
}

pub(crate) fn broken(what: &str, error: std::io::Error) -> Error {
    Error::new(Kind::Internal, "shim", format!("{what}: {error}"))
}
