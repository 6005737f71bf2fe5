//! Runs what was asked for, and accounts for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::clock;
use crate::dice::Dice;
use crate::matrix::{self, Outcome, Triple};
use crate::play::{self, Fault, Played, Stage};
use crate::pool::{Player, Pool};
use crate::rows::{self, Face, RunningStore};
use crate::scenario::{self, Scenario};
use crate::shim::Failure;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only these faces; empty for all.
    pub faces: Vec<String>,
    /// Only these stores; empty for all.
    pub stores: Vec<String>,
    /// Only these scenarios; empty for all.
    pub scenarios: Vec<String>,
    /// Also what has the day off: of each scenario and store one team, and one at full length.
    pub full: bool,
    /// How many scenarios are played at a time.
    pub jobs: usize,
    /// How long an answer may take when the scenario says nothing else, in seconds.
    pub patience: f64,
    /// Leaves what failed scenarios wrote.
    pub keep: bool,
    /// Which scenario is played after which; at random without it.
    pub seed: Option<u64>,
}

impl Selection {
    fn has(&self, triple: &Triple) -> bool {
        let any = |chosen: &[String], name: &str| chosen.is_empty() || chosen.iter().any(|c| c == name);
        let face = || triple.team.split('+').all(|face| any(&self.faces, face)) || any(&self.faces, &triple.team);
        any(&self.stores, &triple.store) && any(&self.scenarios, &triple.scenario) && face()
    }
}

/// What there is.
#[derive(Debug)]
pub struct Suite {
    pub scenarios: Vec<Scenario>,
    pub faces: Vec<Face>,
    pub stores: Vec<rows::Store>,
}

impl Suite {
    /// Reads the rows and scenarios, and fails when they leave something of the tree out.
    pub fn read() -> Result<Self, String> {
        let scenarios = scenario::read_all(&rows::here().join("scenarios"))?;
        let mut faces = rows::faces(&scenarios)?;
        faces.retain(|face| face.no_scenarios.is_none());
        faces.extend(rows::peers()?);
        let mut suite = Suite { faces, stores: rows::stores(&scenarios)?, scenarios };
        let root = rows::here().join("..");
        let wrong = matrix::not_in_rows(&root, &suite.faces, &suite.stores, &suite.scenarios);
        suite.faces.retain(|face| face.absent().inspect(|why| println!("skipped  {}: {why}", face.name)).is_none());
        if wrong.is_empty() { Ok(suite) } else { Err(wrong.join("\n")) }
    }

    /// The row of a store.
    ///
    /// # Errors
    /// When there is none.
    pub fn store(&self, name: &str) -> Result<&rows::Store, String> {
        self.stores.iter().find(|store| store.name == name).ok_or_else(|| format!("there is no store {name}"))
    }
}

/// One triple, ready to be played.
struct Job<'a> {
    triple: Triple,
    scenario: &'a Scenario,
    team: Vec<Face>,
    place: &'a RunningStore,
    shared: bool,
    queue: bool,
    /// It is not played every day.
    is_off: bool,
    full: bool,
}

/// How a run ended.
#[derive(Debug, Default)]
pub struct Report {
    pub outcomes: BTreeMap<Triple, Outcome>,
    /// What is wrong with the account itself.
    pub unaccounted: Vec<String>,
}

impl Report {
    /// How many passed, failed and were skipped.
    pub fn counts(&self) -> (usize, usize, usize) {
        let count = |wanted: fn(&Outcome) -> bool| self.outcomes.values().filter(|outcome| wanted(outcome)).count();
        let failed = count(|outcome| *outcome == Outcome::Failed) + self.unaccounted.len();
        (count(|o| *o == Outcome::Passed), failed, count(|o| matches!(o, Outcome::Skipped(_))))
    }

    /// Why some were skipped, and how many for each reason.
    pub fn reasons(&self) -> BTreeMap<&str, usize> {
        let mut reasons = BTreeMap::new();
        for outcome in self.outcomes.values() {
            if let Outcome::Skipped(reason) = outcome {
                *reasons.entry(reason.as_str()).or_default() += 1;
            }
        }
        reasons
    }

    /// The triples that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Triple> {
        self.outcomes.iter().filter(|(_, outcome)| **outcome == Outcome::Failed).map(|(triple, _)| triple)
    }
}

/// Runs. `tell` hears a line for each triple.
pub fn run(suite: &Suite, wanted: &Selection, tell: &(dyn Fn(&str) + Sync)) -> Result<Report, String> {
    let mut expected = matrix::all(&suite.scenarios, &suite.faces, &suite.stores);
    expected.retain(|triple| wanted.has(triple));
    if expected.is_empty() {
        return Err("there is no such face, store or scenario; `list` shows what there is".into());
    }
    let scratch = Scratch::new()?;
    let used: BTreeSet<_> = expected.iter().map(|triple| triple.store.as_str()).collect();
    let used = suite.stores.iter().filter(|store| used.contains(store.name.as_str()));
    let places = used.map(|store| RunningStore::start(store.clone())).collect::<Result<Vec<_>, _>>()?;
    let hall = Hall { pool: Pool::new(scratch.folder("shims")?), scratch, wanted };
    let account = Account { outcomes: Mutex::default(), words: Mutex::default(), tell };
    let (mut together, mut alone) = plan(suite, &places, &expected, &hall, &account);
    let seed = wanted.seed.unwrap_or_else(clock::now);
    tell(&format!("seed {seed}"));
    let mut dice = Dice::new(seed);
    dice.shuffle(together.make_contiguous());
    dice.shuffle(alone.make_contiguous());
    if wanted.full {
        for jobs in [&mut together, &mut alone] {
            jobs.retain(one_of_those_off(&account));
        }
        lengthen(together.iter_mut().chain(&mut alone));
    }
    work(together, wanted.jobs.max(1), &hall, &account);
    work(alone, 1, &hall, &account);
    let Hall { pool, scratch, .. } = hall;
    tell(&format!("{} shims started", pool.started()));
    let ended = pool.end();
    places.iter().try_for_each(|place| account.residue(place, &scratch))?;
    let outcomes = account.outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut unaccounted = matrix::unaccounted(&expected, &outcomes);
    unaccounted.extend(ended);
    if wanted.keep && outcomes.values().any(|outcome| *outcome == Outcome::Failed) {
        tell(&format!("What the failed ones left is in {}", scratch.keep().display()));
    }
    Ok(Report { outcomes, unaccounted })
}

/// What all plays of a run share.
struct Hall<'a> {
    scratch: Scratch,
    pool: Pool,
    wanted: &'a Selection,
}

struct Account<'a> {
    outcomes: Mutex<BTreeMap<Triple, Outcome>>,
    /// Which play had which word.
    words: Mutex<BTreeMap<String, Triple>>,
    tell: &'a (dyn Fn(&str) + Sync),
}

impl Account<'_> {
    fn enter(&self, triple: &Triple, outcome: Outcome, more: &str) {
        let Triple { scenario, store, team } = triple;
        let word = match &outcome {
            Outcome::Passed => Some("ok"),
            Outcome::Failed => Some("FAILED"),
            // There are many, for few reasons: these are told at the end.
            Outcome::Skipped(_) => None,
        };
        if let Some(word) = word {
            (self.tell)(&format!("{word:<7} {scenario:<24} {store:<7} {team:<21} {more}"));
        }
        locked(&self.outcomes).insert(triple.clone(), outcome);
    }

    /// Fails every play that left something in the store for ever. That is asked once for all of them, since it lies
    /// there at the end as well, under names of locks, which have the word of their play.
    fn residue(&self, place: &RunningStore, scratch: &Scratch) -> Result<(), String> {
        let words = std::mem::take(&mut *locked(&self.words));
        for line in place.residue(&scratch.mark())?.lines() {
            let whose = words.iter().find(|(word, _)| line.contains(&format!("{word}.")));
            if let Some((_, triple)) = whose {
                self.enter(triple, Outcome::Failed, &format!("it leaves this behind for ever: {line}"));
            }
        }
        *locked(&self.words) = words;
        Ok(())
    }
}

/// Skips what has a reason to be skipped; the rest in two heaps, those that may be played together and those that may
/// not.
fn plan<'a>(
    suite: &'a Suite,
    places: &'a [RunningStore],
    expected: &BTreeSet<Triple>,
    hall: &Hall<'_>,
    account: &Account<'_>,
) -> (VecDeque<Job<'a>>, VecDeque<Job<'a>>) {
    let mut promises: BTreeMap<(String, String), Result<Value, String>> = BTreeMap::new();
    let (mut together, mut alone) = (VecDeque::new(), VecDeque::new());
    for scenario in &suite.scenarios {
        for (team, place) in
            matrix::teams(scenario, &suite.faces).iter().flat_map(|t| places.iter().map(move |p| (t, p)))
        {
            let store = &place.store;
            let team_name = matrix::team_name(team);
            let triple = Triple { scenario: scenario.name.clone(), store: store.name.clone(), team: team_name };
            if !expected.contains(&triple) {
                continue;
            }
            // Another library promises nothing of ours.
            let Some(asked) = team.iter().find(|face| face.joins.is_none()) else { continue };
            let key = (store.name.clone(), asked.name.clone());
            let promises = promises.entry(key).or_insert_with(|| ask(asked, place, &hall.scratch, &hall.pool));
            match promises {
                Err(error) => account.enter(&triple, Outcome::Failed, &format!("\n  {error}")),
                Ok(promises) => {
                    let off = matrix::day_off(scenario, team, store, &suite.faces);
                    let never = matrix::reason(scenario, team, store, promises);
                    if let Some(reason) = never.or_else(|| off.clone().filter(|_| !hall.wanted.full)) {
                        account.enter(&triple, Outcome::Skipped(reason), "");
                    } else {
                        let promised = |what: &str| promises.get(what) != Some(&Value::Bool(false));
                        let (shared, queue) = (promised("shared"), promised("push") && in_line(scenario, store));
                        let (team, is_off) = (team.clone(), off.is_some());
                        let job = Job { triple, scenario, team, place, shared, queue, is_off, full: false };
                        if scenario.alone { alone.push_back(job) } else { together.push_back(job) }
                    }
                }
            }
        }
    }
    (together, alone)
}

/// Whether a job is played in a full run: what is played every day, and of the rest the first team of each scenario and
/// store, in an order of chance. All of them would take hours to show that the faces share one core.
fn one_of_those_off<'a>(account: &'a Account<'_>) -> impl FnMut(&Job<'_>) -> bool + 'a {
    let mut seen = BTreeSet::new();
    move |Job { triple, is_off, .. }| {
        let is_on = !is_off || seen.insert((triple.scenario.clone(), triple.store.clone()));
        if !is_on {
            let reason = "another team that has its day off plays it, chosen by the seed";
            account.enter(triple, Outcome::Skipped(reason.into()), "");
        }
        is_on
    }
}

/// At full length plays the first team of each scenario and store, in the same order of chance. That the others do as
/// much teaches little more, and takes hours.
fn lengthen<'a, 'b: 'a>(jobs: impl Iterator<Item = &'a mut Job<'b>>) {
    let mut seen = BTreeSet::new();
    for Job { triple, full, .. } in jobs {
        *full = seen.insert((&triple.scenario, &triple.store));
    }
}

/// Whether those who wait in the scenario stand in a line at the store: where others do not, those who want a fair lock
/// do.
fn in_line(scenario: &Scenario, store: &rows::Store) -> bool {
    !store.cannot.contains_key("line") || scenario.needs.iter().any(|need| need == "fair")
}

/// What the store promises, as the face shows it.
pub(crate) fn ask(face: &Face, place: &RunningStore, scratch: &Scratch, pool: &Pool) -> Result<Value, String> {
    let player = pool.take(face, false)?;
    let word = scratch.word("guarantees");
    let uri = place.uri(&word, &scratch.folder(&word)?);
    let asked = [("open", json!({ "client": "a", "uri": uri })), ("guarantees", json!({ "client": "a" }))];
    let mut promises = Map::new();
    for (name, args) in asked {
        let answer = player.shim.ask(name, args)?;
        let explain = |failure: &Failure| format!("{name} fails: {}\n{}", failure.message, player.shim.said());
        promises = answer.result().map_err(explain)?.as_object().cloned().unwrap_or_default();
    }
    promises.extend(place.store.promises.iter().map(|(name, promised)| (name.clone(), json!(promised))));
    if player.goes_on() {
        player.shim.reset()?;
        // This is no play that could fail for what it leaves.
        if player.is_bare() {
            pool.give_back(player, "guarantees")?;
        }
    }
    Ok(Value::Object(promises))
}

fn work(jobs: VecDeque<Job<'_>>, hands: usize, hall: &Hall<'_>, account: &Account<'_>) {
    let jobs = Mutex::new(jobs);
    std::thread::scope(|scope| {
        for _ in 0..hands {
            scope.spawn(|| {
                loop {
                    let next = locked(&jobs).pop_front();
                    let Some(job) = next else { break };
                    let Some(done) = play(&job, hall, account) else { continue };
                    if done.players.iter().all(Player::is_bare) {
                        done.enter(&job, hall, account);
                    } else {
                        // Others need not wait for that.
                        scope.spawn(move || done.enter(&job, hall, account));
                    }
                }
            });
        }
    });
}

/// What is to be said of a play that went well, if nothing is left of it.
struct Done {
    players: Vec<Player>,
    more: String,
}

impl Done {
    fn enter(self, job: &Job<'_>, hall: &Hall<'_>, account: &Account<'_>) {
        let play = job.triple.to_string();
        let clean = self.players.into_iter().try_for_each(|player| {
            player.bares(hall.wanted.patience)?;
            hall.pool.give_back(player, &play)
        });
        match clean {
            Ok(()) => account.enter(&job.triple, Outcome::Passed, &self.more),
            Err(error) => account.enter(&job.triple, Outcome::Failed, &format!("{}\n  {error}", self.more)),
        }
    }
}

/// Plays it, and enters how, unless it goes well.
fn play(job: &Job<'_>, hall: &Hall<'_>, account: &Account<'_>) -> Option<Done> {
    let begin = Instant::now();
    let Job { triple, scenario, team, place, shared, queue, full, .. } = job;
    let mut attempt = 0;
    loop {
        attempt += 1;
        let name = format!("{}-{}-{}", scenario.name, place.store.name, triple.team.replace('+', "-"));
        let word = hall.scratch.word(&name);
        locked(&account.words).insert(word.clone(), triple.clone());
        let result = hall.scratch.folder(&word).map_err(Fault::Wrong).and_then(|folder| {
            let (word, pool, patience) = (word.clone(), &hall.pool, hall.wanted.patience);
            play::play(
                scenario,
                &Stage { team, place, shared: *shared, queue: *queue, full: *full, patience, folder, word, pool },
            )
        });
        let took = format!("{:>6.2} s", begin.elapsed().as_secs_f64());
        match result {
            Ok(Played { figures, players }) => {
                hall.scratch.forget(&word);
                let again = if attempt > 1 { format!(" (attempt {attempt})") } else { String::new() };
                let more = format!("{took}{again}  {}", figures.join(", "));
                return Some(Done { players, more: more.trim_end().to_owned() });
            }
            Err(Fault::Late(text)) if attempt < scenario.attempts => {
                // Its shims are killed with what they hold, which lasts for its ttl.
                locked(&account.words).remove(&word);
                (account.tell)(&format!(
                    "again   {:<24} {:<7} {:<21} {text}",
                    scenario.name, place.store.name, triple.team
                ));
            }
            Err(fault) => {
                account.enter(triple, Outcome::Failed, &format!("{took}\n  {}", fault.text()));
                return None;
            }
        }
    }
}

/// What of a name is in a word: in some tables a lock's name has no more than 64 characters.
const LONGEST_NAME: usize = 40;
/// Words given so far. One count for the whole process: a later run must not find what an earlier one left.
static WORDS: AtomicU64 = AtomicU64::new(1);

/// Where the scenarios of a run write; gone with it unless kept.
pub(crate) struct Scratch {
    root: TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Result<Self, String> {
        let root = tempfile::Builder::new().prefix("lockwright-conformance-").tempdir();
        Ok(Scratch { root: root.map_err(|error| format!("no folder for what the scenarios write: {error}"))? })
    }

    /// A word that no other scenario has, not even of another run on the same server.
    pub(crate) fn word(&self, name: &str) -> String {
        let name = name.get(..LONGEST_NAME).unwrap_or(name);
        format!("{name}{}{}", self.mark(), WORDS.fetch_add(1, Ordering::Relaxed))
    }

    /// What all words of this process have in them.
    fn mark(&self) -> String {
        format!("-{}-", std::process::id())
    }

    pub(crate) fn folder(&self, word: &str) -> Result<PathBuf, String> {
        let folder = self.root.path().join(word);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(folder)
    }

    fn forget(&self, word: &str) {
        drop(fs::remove_dir_all(self.root.path().join(word)));
    }

    pub(crate) fn keep(self) -> PathBuf {
        self.root.keep()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
