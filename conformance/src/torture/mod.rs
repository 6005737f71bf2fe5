//! Torture: workers of all faces count under one lock while they are killed and stopped, the server is restarted or the
//! members of a cluster fail, and the way to it is disturbed, at random from one seed. The referee judges what they
//! logged; whoever is left must be served in the end.

pub mod languages;
mod members;
mod proxy;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::clock::{self, Nanos, after, between};
use crate::dice::Dice;
use crate::matrix::ours_with;
use crate::pool::Pool;
use crate::record;
use crate::referee::{self, History};
use crate::rows::{Face, RunningStore};
use crate::run::{self, Scratch, Suite};
use crate::scenario::Signal;
use crate::shim::{Pending, Shim};
use members::{Faults, Members};
use proxy::{Disturbance, Proxy};

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Options {
    pub store: String,
    /// Only these faces; empty for all.
    pub faces: Vec<String>,
    pub minutes: f64,
    pub seed: u64,
}

/// How many increments one command asks for; when it is answered the next one is given, with other options.
const ROUND: u64 = 40;
const TASKS: u64 = 4;
/// What befalls a single server.
const RESTARTED: &str = "the server killed and restarted";
/// For how long they ask for a lock, in seconds.
const TTLS: [f64; 3] = [0.8, 1.5, 3.0];
/// How long everybody who is left may take once the faults have stopped, in seconds.
const SERVED_WITHIN: f64 = 60.0;
/// How long what is under a lease may stay once nobody keeps it alive, in seconds.
const LEASES_END_WITHIN: f64 = 20.0;

/// Tortures the store; false when something was violated. `tell` hears what was done and how it ended.
///
/// # Errors
/// When there is no such store, or it cannot be started.
pub fn run(suite: &Suite, wanted: &Options, tell: &dyn Fn(&str)) -> Result<bool, String> {
    let place = RunningStore::start(suite.store(&wanted.store)?.clone())?;
    let scratch = Scratch::new()?;
    let word = scratch.word(&format!("torture-{}", wanted.store));
    let folder = scratch.folder(&word)?;
    let faces = chosen(suite, &place, &wanted.faces);
    let first = faces.first().ok_or("there is no such face")?;
    let promises = run::ask(first, &place, &scratch, &Pool::new(folder.clone()))?;
    let promised = |what: &str| promises.get(what) == Some(&json!(true));
    let uri = place.uri_of(TTLS[2], &word, &folder);
    let proxy = Proxy::before(&uri)?;
    let mut torture = Torture {
        place: &place,
        members: Members::begin(&place.store, lock_of(&word), None, wanted.seed),
        ways: Ways { uri, proxy },
        dice: Dice::new(wanted.seed),
        shared: promised("shared"),
        fair: promised("fair"),
        word,
        folder,
        workers: Vec::new(),
        history: History::default(),
        logs: Vec::new(),
        done: Faults::new(),
        wrong: Vec::new(),
    };
    // Where nothing is shared, one process is all that can meet under a lock.
    let most = if torture.shared { faces.len() * 2 } else { 1 };
    for face in faces.iter().cycle().take(most) {
        torture.hire(face)?;
    }
    torture.disturb(clock::after(clock::now(), wanted.minutes * 60.0))?;
    torture.calm()?;
    let fine = torture.judge(tell)?;
    if !fine {
        tell(&format!("seed {}; what was logged is in {}", wanted.seed, scratch.keep().display()));
    }
    Ok(fine)
}

struct Torture<'a> {
    place: &'a RunningStore,
    /// Where the store is a cluster.
    members: Option<Members>,
    ways: Ways,
    dice: Dice,
    shared: bool,
    fair: bool,
    word: String,
    folder: PathBuf,
    workers: Vec<Worker>,
    history: History,
    logs: Vec<PathBuf>,
    done: Faults,
    wrong: Vec<String>,
}

/// The addresses at which workers find the store.
struct Ways {
    uri: String,
    /// Half of the workers go through it, where the store is reached by an address.
    proxy: Option<Proxy>,
}

impl Ways {
    /// That of the worker with this number.
    fn of(&self, number: usize) -> &str {
        self.proxy.as_ref().filter(|_| number % 2 == 1).map_or(&self.uri, |proxy| &proxy.uri)
    }
}

/// A process that counts.
struct Worker {
    face: Face,
    name: String,
    shim: Arc<Shim>,
    /// What it is doing; nothing once it was told to do no more.
    pending: Option<Pending>,
    /// Stopped until then.
    stopped: Option<Nanos>,
}

impl Worker {
    /// Starts it, with a client of that place.
    fn start(face: &Face, name: String, folder: &Path, uri: &str) -> Result<Self, String> {
        let shim = Shim::start(face, &folder.join(format!("{name}.err")))?;
        let answer = shim.ask("open", json!({ "client": "a", "uri": uri }))?;
        answer.result().map_err(|failure| format!("{name}: open fails: {}", failure.message))?;
        Ok(Worker { face: face.clone(), name, shim, pending: None, stopped: None })
    }
}

impl Torture<'_> {
    /// Starts a process of `face` and gives it work.
    fn hire(&mut self, face: &Face) -> Result<(), String> {
        let name = format!("{}-{}", face.name, self.logs.len());
        let mut worker = Worker::start(face, name, &self.folder, self.ways.of(self.logs.len()))?;
        self.logs.push(self.folder.join(format!("{}.log", worker.name)));
        worker.pending = Some(self.work(&worker)?);
        self.workers.push(worker);
        Ok(())
    }

    fn work(&mut self, worker: &Worker) -> Result<Pending, String> {
        let ttl = TTLS[self.dice.below(3) as usize];
        let args = json!({
            "client": "a", "lock": lock_of(&self.word), "ttl": ttl, "fair": self.fair && self.dice.below(3) == 0,
            "tasks": TASKS, "increments": ROUND, "name": worker.name,
            "counter": self.folder.join("counter"), "log": self.folder.join(format!("{}.log", worker.name)),
        });
        worker.shim.send("work", object(args))
    }

    /// Does one fault after the other until `end`, and keeps everybody at work.
    fn disturb(&mut self, end: Nanos) -> Result<(), String> {
        let mut next = clock::now();
        while clock::now() < end {
            if clock::now() >= next {
                self.fault()?;
                next = after(clock::now(), 0.1 + self.dice.below(1500) as f64 / 1000.0);
            }
            self.keep_busy(true)?;
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn fault(&mut self) -> Result<(), String> {
        let chosen = self.dice.below(self.workers.len() as u64) as usize;
        let stop_for = 0.2 + self.dice.below(4000) as f64 / 1000.0;
        let can_restart = self.place.store.service.is_some() && !self.place.store.cannot.contains_key("restart");
        let disturbances = [Disturbance::Reset, Disturbance::HoldReplies, Disturbance::HoldBoth, Disturbance::Slow];
        let which = disturbances[self.dice.below(4) as usize];
        match self.dice.below(10) {
            0..3 if self.shared => self.kill(chosen)?,
            0..6 => self.stop(chosen, stop_for)?,
            6 if can_restart => {
                self.place.restart()?;
                self.count(RESTARTED);
            }
            _ => {
                if let Some(proxy) = &self.ways.proxy {
                    proxy.disturb(which, stop_for);
                    self.count(which.name());
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, fault: &'static str) {
        *self.done.entry(fault).or_default() += 1;
    }

    fn kill(&mut self, at: usize) -> Result<(), String> {
        let worker = self.workers.swap_remove(at);
        // Before: a store that sees a holder die may grant its lock before the signal's sender hears of it.
        self.history.deaths.push((worker.shim.pid, clock::now()));
        worker.shim.signal(Signal::Kill)?;
        self.count("a process killed");
        self.hire(&worker.face)
    }

    fn stop(&mut self, at: usize, seconds: f64) -> Result<(), String> {
        let worker = &mut self.workers[at];
        if worker.stopped.is_none() {
            worker.shim.signal(Signal::Stop)?;
            worker.stopped = Some(after(clock::now(), seconds));
            self.count("a process stopped for up to 4 s");
        }
        Ok(())
    }

    /// Lets those go on whose time is over, and gives whoever is through the next round, if there is `more`.
    fn keep_busy(&mut self, more: bool) -> Result<(), String> {
        for at in 0..self.workers.len() {
            let worker = &mut self.workers[at];
            if worker.stopped.take_if(|until| *until <= clock::now()).is_some() {
                worker.shim.signal(Signal::Cont)?;
            }
            let Some(pending) = &worker.pending else { continue };
            let answer = match pending.wait(Duration::ZERO) {
                Ok(None) => continue,
                Ok(Some(answer)) => answer.result().map(drop).map_err(|f| format!("{}: {}", f.code, f.message)),
                Err(error) => Err(error),
            };
            worker.pending = None;
            if let Err(error) = answer {
                self.wrong.push(format!("{} stopped working: {error}\n{}", worker.name, worker.shim.said()));
            } else if more {
                let again = self.workers.swap_remove(at);
                let pending = Some(self.work(&again)?);
                self.workers.push(Worker { pending, ..again });
                return Ok(());
            }
        }
        Ok(())
    }

    /// Ends all faults, and waits until whoever is left has been served.
    fn calm(&mut self) -> Result<(), String> {
        if let Some(members) = self.members.take() {
            self.done.extend(members.calm()?);
        }
        if let Some(proxy) = &self.ways.proxy {
            proxy.calm();
        }
        for worker in &mut self.workers {
            worker.stopped = worker.stopped.map(|_| 0);
        }
        let calm = clock::now();
        while self.workers.iter().any(|worker| worker.pending.is_some()) {
            self.keep_busy(false)?;
            if between(calm, clock::now()) > SERVED_WITHIN {
                let waiting = self.workers.iter().filter(|worker| worker.pending.is_some());
                let names: Vec<_> = waiting.map(|worker| worker.name.as_str()).collect();
                self.wrong.push(format!("not served {SERVED_WITHIN} s after the last fault: {}", names.join(", ")));
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        for worker in &self.workers {
            worker.shim.end().map_err(|error| format!("{}: {error}", worker.name))?;
        }
        Ok(())
    }

    fn judge(mut self, tell: &dyn Fn(&str)) -> Result<bool, String> {
        for log in &self.logs {
            self.history.records.extend(read(log)?);
        }
        self.history.counter = counted(&self.folder);
        let judgement = referee::judge(&self.history);
        self.wrong.extend(left_behind(self.place, &self.word)?);
        if judgement.increments == 0 {
            self.wrong.push("nobody has worked".into());
        }
        self.wrong.extend(judgement.violations.iter().map(ToString::to_string));
        tell(&format!(
            "{}: {} grants, {} increments, {} whose lock was lost on the way; {}",
            self.place.store.name,
            judgement.grants,
            judgement.increments,
            judgement.late,
            told(&self.done)
        ));
        self.wrong.iter().take(20).for_each(|wrong| tell(&format!("WRONG  {wrong}")));
        Ok(self.wrong.is_empty())
    }
}

/// The faces that have the store, or only these of them.
fn chosen(suite: &Suite, place: &RunningStore, names: &[String]) -> Vec<Face> {
    let mut faces = ours_with(&suite.faces, &place.store);
    faces.retain(|face| names.is_empty() || names.contains(&face.name));
    faces
}

/// What is wrong with what lies at the store once all workers are gone. A killed one's is there for as long as its
/// lease.
fn left_behind(place: &RunningStore, word: &str) -> Result<Option<String>, String> {
    let began = clock::now();
    loop {
        let residue = place.residue(word)?;
        if residue.is_empty() {
            return Ok(None);
        }
        if between(began, clock::now()) > LEASES_END_WITHIN {
            return Ok(Some(format!("it leaves this behind for ever:\n{residue}")));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn told(faults: &Faults) -> String {
    let faults: Vec<_> = faults.iter().map(|(fault, times)| format!("{times} x {fault}")).collect();
    if faults.is_empty() { "no faults".into() } else { faults.join(", ") }
}

/// The lock under which all that is of one run count.
fn lock_of(word: &str) -> String {
    format!("{word}.x")
}

/// What the counter says that workers raise in that folder; 0 before the first has.
fn counted(folder: &Path) -> u64 {
    let counter = fs::read_to_string(folder.join("counter")).unwrap_or_default();
    counter.trim().parse().unwrap_or_default()
}

/// The lines of a log, but for one that a killed process did not finish.
fn read(log: &Path) -> Result<Vec<record::Record>, String> {
    match log.exists() {
        true => record::read(log).map_err(|error| format!("{}: {error}", log.display())),
        false => Ok(Vec::new()),
    }
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}
