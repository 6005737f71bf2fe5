//! All languages at one lock: as many tasks of each raise an unguarded counter, so many times in all, though one
//! process of each language is killed on the way, and another does the rest of its work. Where a task is a process, as
//! in PHP, so many are started. Where the store is a cluster, its members fail meanwhile; a single server is restarted
//! where that is asked for, or its replica takes over.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::members::{Faults, Members};
use super::proxy::Proxy;
use super::{RESTARTED, SERVED_WITHIN, Ways, Worker, chosen, counted, left_behind, lock_of, read, told};
use crate::clock::{self, between};
use crate::dice::Dice;
use crate::matrix::one_of_each_language;
use crate::record::Event;
use crate::referee::{self, History};
use crate::rows::{Face, RunningStore};
use crate::run::{Scratch, Suite};
use crate::scenario::Signal;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Options {
    pub store: String,
    /// Only these faces; empty for all.
    pub faces: Vec<String>,
    /// How often the counter is raised, by all together.
    pub increments: u64,
    /// How many of each language do that.
    pub tasks: u64,
    /// How often the server is killed and started again meanwhile.
    pub restarts: u64,
    /// Whether a replica takes over instead, for which the server's commits wait.
    pub replicated: bool,
    pub seed: u64,
}

impl Options {
    fn place(&self, suite: &Suite) -> Result<RunningStore, String> {
        let mut store = suite.store(&self.store)?.clone();
        if self.replicated {
            let service = store.service.ok_or_else(|| format!("{} has no server", self.store))?;
            store.service = Some(format!("replicated/{service}"));
        }
        RunningStore::start(store)
    }
}

/// What to expect of a store.
struct Pace {
    /// How long a killed process's lock may stay its own, in seconds.
    ttl: f64,
    /// How long an increment takes at most if all together are looked at, in seconds.
    increment: f64,
}

const OF_A_SERVER: Pace = Pace { ttl: 1.0, increment: 0.02 };
/// Nobody loses its lock while another member comes to lead, or the server starts again, so that the counter is exact.
const THAT_FAILS: Pace = Pace { ttl: 10.0, increment: 0.1 };

/// Plays it; false when something was violated. `tell` hears how it ended.
///
/// # Errors
/// When there is no such store, or it cannot be started.
pub fn run(suite: &Suite, wanted: &Options, tell: &dyn Fn(&str)) -> Result<bool, String> {
    let place = wanted.place(suite)?;
    let scratch = Scratch::new()?;
    let word = scratch.word(&format!("languages-{}", wanted.store));
    let folder = scratch.folder(&word)?;
    let faces = one_of_each_language(&chosen(suite, &place, &wanted.faces));
    let fails = place.store.members.is_some() || wanted.restarts > 0;
    let pace = if fails { THAT_FAILS } else { OF_A_SERVER };
    let ttl = place.store.longest_ttl.map_or(pace.ttl, |longest| longest.min(pace.ttl));
    let uri = place.uri_of(ttl, &word, &folder);
    let is_between = place.store.members.is_some() && !place.store.redirects;
    let proxy = if is_between { Proxy::before(&uri)? } else { None };
    let ways = Ways { uri, proxy };
    let mut crowd = Crowd {
        place: &place,
        ways,
        ttl,
        word,
        folder,
        hands: Vec::new(),
        history: History::default(),
        logs: Vec::new(),
        restarts: restarts(wanted),
        restarts_as: if wanted.replicated { "the server killed, and its replica took over" } else { RESTARTED },
        restarted: Faults::new(),
    };
    let began = clock::now();
    crowd.hire(&faces, wanted)?;
    let members = Members::begin(&place.store, lock_of(&crowd.word), crowd.ways.proxy.as_ref(), wanted.seed);
    let worked = crowd.work(SERVED_WITHIN + wanted.increments as f64 * pace.increment);
    let mut faults = members.map(Members::calm).transpose()?.unwrap_or_default();
    let mut wrong = worked?;
    faults.append(&mut crowd.restarted);
    let took = between(began, clock::now());
    let judged = crowd.judge(wanted.increments, &mut wrong)?;
    wrong.extend(left_behind(&place, &crowd.word)?);
    tell(&format!("{}: {judged}, {took:.1} s; {}", wanted.store, told(&faults)));
    wrong.iter().take(20).for_each(|wrong| tell(&format!("WRONG  {wrong}")));
    if !wrong.is_empty() {
        tell(&format!("seed {}; what was logged is in {}", wanted.seed, scratch.keep().display()));
    }
    Ok(wrong.is_empty())
}

/// What the counter says when the server is restarted, each time.
fn restarts(wanted: &Options) -> VecDeque<u64> {
    (1..=wanted.restarts).map(|time| wanted.increments * time / (wanted.restarts + 1)).collect()
}

struct Crowd<'a> {
    place: &'a RunningStore,
    ways: Ways,
    ttl: f64,
    word: String,
    folder: PathBuf,
    hands: Vec<Hand>,
    history: History,
    /// Those of each process, with its language.
    logs: Vec<(String, PathBuf)>,
    /// See [`restarts`].
    restarts: VecDeque<u64>,
    restarts_as: &'static str,
    restarted: Faults,
}

/// A process, and what it has to do.
struct Hand {
    worker: Worker,
    log: PathBuf,
    tasks: u64,
    /// How many increments it has to make in all, and how many of them it was told to.
    share: u64,
    told: u64,
    /// It is killed once it has made so many.
    doom: Option<u64>,
    /// How many it has made, by so many bytes of its log.
    made: u64,
    read: u64,
}

impl Hand {
    /// How many increments its tasks have made so far: what its log has more than when it was looked at last.
    fn increments(&mut self) -> u64 {
        let mut more = Vec::new();
        let read = File::open(&self.log).and_then(|mut log| {
            log.seek(SeekFrom::Start(self.read))?;
            log.read_to_end(&mut more)
        });
        let whole = more.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        // There is none yet.
        if read.is_ok() {
            let lines = String::from_utf8_lossy(&more[..whole]);
            let is_made = |line: &&str| line.contains("\"until\"") && line.contains("\"value\"");
            self.made += lines.lines().filter(is_made).count() as u64;
            self.read += whole as u64;
        }
        self.made
    }
}

impl Crowd<'_> {
    /// Starts the processes of all languages, one of each of which is doomed.
    fn hire(&mut self, faces: &[Face], wanted: &Options) -> Result<(), String> {
        let mut dice = Dice::new(wanted.seed);
        let parts = |of: u64, among: u64| (0..among).map(move |part| of / among + u64::from(part < of % among));
        for (face, share) in faces.iter().zip(parts(wanted.increments, faces.len() as u64)) {
            let (processes, tasks) = if face.one_thread.is_some() { (wanted.tasks, 1) } else { (1, wanted.tasks) };
            let doomed = dice.below(processes);
            for (number, share) in (0..).zip(parts(share, processes)) {
                let doom = (number == doomed).then(|| share / 8 + dice.below(share / 4));
                self.start(face, tasks, share, doom)?;
            }
        }
        Ok(())
    }

    fn start(&mut self, face: &Face, tasks: u64, share: u64, doom: Option<u64>) -> Result<(), String> {
        let name = format!("{}-{}", face.name, self.logs.len());
        let log = self.folder.join(format!("{name}.log"));
        let worker = Worker::start(face, name, &self.folder, self.ways.of(self.logs.len()))?;
        self.logs.push((worker.shim.language.clone(), log.clone()));
        let mut hand = Hand { worker, log, tasks, share, told: 0, doom, made: 0, read: 0 };
        self.order(&mut hand)?;
        self.hands.push(hand);
        Ok(())
    }

    /// Tells it what is next, which its tasks do in equal parts; what is left over is done by one of them.
    fn order(&self, hand: &mut Hand) -> Result<(), String> {
        let left = hand.share - hand.told;
        let tasks = if left < hand.tasks { 1 } else { hand.tasks };
        hand.told += left / tasks * tasks;
        let args = json!({
            "client": "a", "lock": lock_of(&self.word), "ttl": self.ttl, "tasks": tasks, "increments": left / tasks,
            "name": hand.worker.name, "counter": self.folder.join("counter"), "log": hand.log,
        });
        hand.worker.pending = if left == 0 { None } else { Some(hand.worker.shim.send("work", super::object(args))?) };
        Ok(())
    }

    /// Lets them work until all is done; what went wrong.
    fn work(&mut self, patience: f64) -> Result<Vec<String>, String> {
        let (began, mut wrong) = (clock::now(), Vec::new());
        while self.hands.iter().any(|hand| hand.worker.pending.is_some()) {
            if between(began, clock::now()) > patience {
                wrong.push(format!("they are not through after {patience} s"));
                return Ok(wrong);
            }
            if self.restarts.front().is_some_and(|due| counted(&self.folder) >= *due) {
                self.restarts.pop_front();
                let began = clock::now();
                self.place.restart()?;
                if self.place.store.cannot.contains_key("restart") {
                    self.history.freed.push((began, clock::now()));
                }
                *self.restarted.entry(self.restarts_as).or_default() += 1;
            }
            for at in 0..self.hands.len() {
                let hand = &mut self.hands[at];
                if hand.doom.is_some_and(|doom| hand.increments() >= doom) {
                    self.kill(at)?;
                } else {
                    wrong.extend(self.go_on(at)?);
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        for hand in &self.hands {
            wrong.extend(hand.doom.map(|_| format!("{} was through before it was killed", hand.worker.name)));
            hand.worker.shim.end().map_err(|error| format!("{}: {error}", hand.worker.name))?;
        }
        Ok(wrong)
    }

    fn kill(&mut self, at: usize) -> Result<(), String> {
        let mut hand = self.hands.swap_remove(at);
        // Before: a store that sees a holder die may grant its lock before the signal's sender hears of it.
        self.history.deaths.push((hand.worker.shim.pid, clock::now()));
        hand.worker.shim.signal(Signal::Kill)?;
        while hand.worker.pending.as_ref().is_some_and(|pending| matches!(pending.wait(Duration::ZERO), Ok(None))) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let left = hand.share - hand.increments();
        self.start(&hand.worker.face, hand.tasks, left, None)
    }

    fn go_on(&mut self, at: usize) -> Result<Option<String>, String> {
        let Some(pending) = &self.hands[at].worker.pending else { return Ok(None) };
        let Some(answer) = pending.wait(Duration::ZERO)? else { return Ok(None) };
        let mut hand = self.hands.swap_remove(at);
        let failed = answer.result().err().map(|f| format!("{}: {}: {}", hand.worker.name, f.code, f.message));
        hand.worker.pending = None;
        if failed.is_none() {
            self.order(&mut hand)?;
        }
        self.hands.push(hand);
        Ok(failed)
    }

    /// What is told of it.
    fn judge(&mut self, wanted: u64, wrong: &mut Vec<String>) -> Result<String, String> {
        let mut each = BTreeMap::<&str, u64>::new();
        for (language, log) in &self.logs {
            let records = read(log)?;
            let made = records.iter().filter(|record| matches!(record.event, Event::Increment { .. })).count();
            *each.entry(language).or_default() += made as u64;
            self.history.records.extend(records);
        }
        self.history.counter = counted(&self.folder);
        let judgement = referee::judge(&self.history);
        wrong.extend(judgement.violations.iter().map(ToString::to_string));
        if each.values().sum::<u64>() != wanted {
            wrong.push(format!("{wanted} increments were wanted"));
        }
        let each: Vec<_> = each.iter().map(|(language, made)| format!("{language} {made}")).collect();
        Ok(format!(
            "the counter is {}, {} increments are logged ({}), {} whose lock was lost on the way, {} processes killed",
            self.history.counter,
            judgement.increments,
            each.join(", "),
            judgement.late,
            self.history.deaths.len()
        ))
    }
}
