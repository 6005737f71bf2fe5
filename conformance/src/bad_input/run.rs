//! Runs the table: each face in a few shims beside one another, a row at a time in each.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::ground::{Ground, Unmade, World};
use super::redis::Server;
use super::table::{self, Row};
use super::{docs, judge};
use crate::clock::between;
use crate::matrix::Outcome;
use crate::play::Fault;
use crate::rows::{self, Face, RunningStore, Store};
use crate::scenario;
use crate::shim::{Answer, Pending, Process, Shim};

/// How many rows a face plays at a time.
const LANES: usize = 2;
/// How often a row may be tried until its time limit is kept.
const ATTEMPTS: u32 = 3;
/// How much more memory than before a row may take at its worst: some replies of the greatest size that is read.
const MOST_MEMORY: u64 = 64 << 20;
/// How long what a client leaves may take to go.
const LEAVING: Duration = Duration::from_secs(12);
/// How long somebody is left waiting for another.
const WAITING: Duration = Duration::from_millis(300);
/// How long threads without work may stay: those that a face keeps for blocking calls do for ten seconds.
const IDLE: Duration = Duration::from_secs(20);

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Only these faces; empty for all.
    pub faces: Vec<String>,
    /// Only these rows; empty for all.
    pub rows: Vec<String>,
    /// Writes `docs/errors.md` instead of checking it.
    pub write: bool,
}

/// What everybody enters what they found into.
struct Account<'a> {
    outcomes: Mutex<BTreeMap<(String, String), Outcome>>,
    /// What the language of the documentation was told, by row.
    told: Mutex<BTreeMap<String, String>>,
    most_memory: AtomicU64,
    tell: &'a (dyn Fn(&str) + Sync),
}

/// Runs; how many rows passed, failed and were skipped, over all faces.
pub fn run(asked: &Asked, tell: &(dyn Fn(&str) + Sync)) -> Result<(usize, usize, usize), String> {
    let began = Instant::now();
    let all = table::read()?;
    let chosen = |row: &&Row| asked.rows.is_empty() || asked.rows.contains(&row.name);
    let rows: Vec<_> = all.iter().filter(chosen).cloned().collect();
    let scenarios = scenario::read_all(&rows::here().join("scenarios"))?;
    let whole = asked.faces.is_empty() && asked.rows.is_empty();
    let played = |face: &Face| match asked.faces.is_empty() {
        true => (face.daily.is_none() || face.refuses.is_some()) && face.absent().is_none(),
        false => asked.faces.contains(&face.name),
    };
    let faces: Vec<_> = rows::faces(&scenarios)?.into_iter().filter(played).collect();
    if rows.is_empty() || faces.is_empty() {
        return Err("there is no such face or row".into());
    }
    let world = world(&rows, rows::stores(&scenarios)?)?;
    let account = Account { outcomes: Mutex::default(), told: Mutex::default(), most_memory: AtomicU64::new(0), tell };
    std::thread::scope(|scope| {
        for face in &faces {
            let (rows, world, account) = (&rows, &world, &account);
            scope.spawn(move || play_all(face, rows, world, account));
        }
    });
    let mut outcomes = account.outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    let told = account.told.into_inner().unwrap_or_else(PoisonError::into_inner);
    if asked.write {
        docs::write(&all, &told)?;
    } else if whole {
        for name in docs::missing(&all) {
            tell(&format!("FAILED  {name} is not in docs/errors.md as it is here; write it with --write"));
            outcomes.insert((name, "docs".into()), Outcome::Failed);
        }
    }
    for row in &rows {
        for face in faces.iter().filter(|face| !outcomes.contains_key(&(row.name.clone(), face.name.clone()))) {
            tell(&format!("FAILED  {} with {} was neither run nor skipped", row.name, face.name));
        }
    }
    let unaccounted = (rows.len() * faces.len()).saturating_sub(outcomes.len());
    let count = |wanted: fn(&Outcome) -> bool| outcomes.values().filter(|outcome| wanted(outcome)).count();
    let most = account.most_memory.load(Ordering::Relaxed) >> 20;
    tell(&format!("{} rows in {:.1} s, at most {most} MiB each", rows.len(), began.elapsed().as_secs_f64()));
    Ok((
        count(|outcome| *outcome == Outcome::Passed),
        count(|outcome| *outcome == Outcome::Failed) + unaccounted,
        count(|outcome| matches!(outcome, Outcome::Skipped(_))),
    ))
}

fn world(rows: &[Row], stores: Vec<Store>) -> Result<World, String> {
    let secret = format!("hunter2-{:x}", std::process::id());
    // A store that is played in part, or with peers alone, differs from another one in little, and shares its server;
    // one outside the crate has errors of its own.
    let ours = |store: &Store| store.only.is_none() && store.peers_only.is_none() && store.faces.is_empty();
    let stores = stores.into_iter().filter(ours);
    let needed = rows.iter().any(|row| row.stores.is_some());
    let stores = stores.filter(|_| needed).map(RunningStore::start).collect::<Result<_, _>>()?;
    let mut servers = BTreeMap::new();
    for redis in rows.iter().filter_map(|row| row.redis.as_ref()) {
        if !servers.contains_key(&redis.config) {
            servers.insert(redis.config.clone(), Server::start(&redis.config, &secret)?);
        }
    }
    Ok(World { stores, servers, secret })
}

fn play_all(face: &Face, rows: &[Row], world: &World, account: &Account<'_>) {
    let queue: Mutex<VecDeque<&Row>> = Mutex::new(rows.iter().collect());
    let next = || locked(&queue).pop_front();
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                let ended = Lane::start(face, world).and_then(|lane| {
                    while let Some(row) = next() {
                        lane.account_for(row, account);
                    }
                    lane.end()
                });
                if let Err(error) = ended {
                    account.enter("the shim", &face.name, Outcome::Failed, &error);
                }
            });
        }
    });
}

impl Account<'_> {
    fn enter(&self, row: &str, face: &str, outcome: Outcome, more: &str) {
        let word = match &outcome {
            Outcome::Passed => "ok",
            Outcome::Failed => "FAILED",
            Outcome::Skipped(_) => "skipped",
        };
        (self.tell)(&format!("{word:<7} {row:<32} {face:<14} {more}"));
        locked(&self.outcomes).insert((row.to_owned(), face.to_owned()), outcome);
    }
}

/// One shim of a face, and what plays rows with it.
struct Lane<'a> {
    face: &'a Face,
    world: &'a World,
    shim: Arc<Shim>,
    folder: TempDir,
    threads: u64,
}

/// What the answers to a row show.
#[derive(Default)]
struct Found {
    /// The first error.
    message: Option<String>,
    memory: u64,
}

static WORDS: AtomicU64 = AtomicU64::new(1);

impl<'a> Lane<'a> {
    fn start(face: &'a Face, world: &'a World) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut command = face.start();
        command.env("LOCKWRIGHT_SHIM_LOGS", "1").env("XDG_STATE_HOME", folder.path());
        be_nobody_special(&mut command);
        let shim = Shim::start_as(face, command, &folder.path().join("said"))?;
        let mut lane = Lane { face, world, shim, folder, threads: 0 };
        lane.shim.warm_up(&lane.word("warm-up"))?;
        lane.threads = lane.shim.process().threads;
        Ok(lane)
    }

    fn word(&self, name: &str) -> String {
        format!("bad-{name}-{}-{}", std::process::id(), WORDS.fetch_add(1, Ordering::Relaxed))
    }

    fn give(&self, command: &str, args: Value) -> Result<Pending, String> {
        let args = args.as_object().cloned().unwrap_or_else(Map::new);
        self.shim.send(command, args)
    }

    fn ask(&self, command: &str, args: Value) -> Result<Answer, String> {
        self.shim.ask(command, args)
    }

    /// Waits until there are no more of them than `most`.
    fn goes(&self, what: &str, most: u64, patience: Duration, count: fn(&Process) -> u64) -> Result<(), String> {
        let give_up = Instant::now() + patience;
        while count(&self.shim.process()) > most {
            if Instant::now() > give_up {
                return Err(format!("more {what} stay than {most}, which were before: {}", self.shim.insides()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn account_for(&self, row: &Row, account: &Account<'_>) {
        let began = Instant::now();
        if let Some(reason) = row.skips(&self.shim.language) {
            let reason = reason.to_owned();
            return account.enter(&row.name, &self.face.name, Outcome::Skipped(reason.clone()), &reason);
        }
        let mut attempt = 1;
        let result = loop {
            match self.play(row) {
                Err(Played::Fault(Fault::Late(_))) if attempt < ATTEMPTS => attempt += 1,
                result => break result,
            }
        };
        let took = format!("{:>5.2} s", began.elapsed().as_secs_f64());
        match result {
            Ok(found) => {
                account.most_memory.fetch_max(found.memory, Ordering::Relaxed);
                let again = if attempt > 1 { format!(" (attempt {attempt})") } else { String::new() };
                account.enter(&row.name, &self.face.name, Outcome::Passed, &format!("{took}{again}"));
                if let Some(message) = found.message.filter(|_| docs::quotes(row, &self.shim.language)) {
                    locked(&account.told).entry(row.name.clone()).or_insert(message);
                }
            }
            Err(Played::Cannot(reason)) => {
                account.enter(&row.name, &self.face.name, Outcome::Skipped(reason.clone()), &reason);
            }
            Err(Played::Fault(fault)) => {
                let said = self.shim.said();
                let tail: Vec<_> = said.lines().rev().take(8).collect();
                let said: String = tail.iter().rev().map(|line| format!("\n    {line}")).collect();
                account.enter(
                    &row.name,
                    &self.face.name,
                    Outcome::Failed,
                    &format!("{took}\n  {}{said}", fault.text()),
                );
            }
        }
    }

    fn play(&self, row: &Row) -> Result<Found, Played> {
        let word = self.word(&row.name);
        let folder = self.folder.path().join(&word);
        fs::create_dir_all(&folder).map_err(|error| Played::from(error.to_string()))?;
        let mut found = Found::default();
        for (number, ground) in self.world.grounds(row, self.face, &word, &folder)?.iter().enumerate() {
            let at = |text: String| format!("{text}\n  at {:.200}", ground.uri.replace(&self.world.secret, "..."));
            let client = format!("{word}-{number}");
            self.play_at(row, ground, &client, &mut found).map_err(|fault| match fault {
                Fault::Late(text) => Fault::Late(at(text)),
                Fault::Wrong(text) => Fault::Wrong(at(text)),
            })?;
        }
        drop(fs::remove_dir_all(folder));
        Ok(found)
    }

    fn play_at(&self, row: &Row, ground: &Ground<'_>, client: &str, found: &mut Found) -> Result<(), Fault> {
        let secret = &self.world.secret;
        let descriptors = self.shim.process().descriptors;
        let before = self.memory("VmRSS");
        self.forget_the_peak();
        let opened = self.give("open", json!({ "client": client, "uri": ground.uri }))?;
        let opened = answer(&opened, row.within)?;
        let said =
            opened.result().map_or_else(|failure| failure.message.clone() + &failure.debug, |value| value.to_string());
        if let Some(shown) = judge::shows(secret, &[&said]) {
            return Err(shown.into());
        }
        if let Err(failure) = opened.result() {
            if !self.face.refuses.as_ref().is_some_and(|refusal| refusal.is(&ground.uri, failure)) {
                self.fails(row, ground, "open", "", &opened, found)?;
            }
        } else {
            let played = match (&row.fails, row.waits) {
                (Some(_), _) => self.all_fail(row, ground, client, found),
                (None, true) => self.waits(row, ground, client),
                (None, false) => self.works(row, ground, client),
            };
            // What is left open would count against the next row.
            self.ask("close", json!({ "client": client }))?;
            if row.waits {
                self.ask("close", json!({ "client": format!("{client}-other") }))?;
            }
            played?;
        }
        found.memory = found.memory.max(self.memory("VmHWM").saturating_sub(before));
        if found.memory > MOST_MEMORY {
            return Err(format!("it took {} MiB", found.memory >> 20).into());
        }
        self.goes("descriptors", descriptors, LEAVING, |process| process.descriptors)?;
        if let Some(shown) = judge::shows(secret, &[&self.shim.said()]) {
            return Err(shown.into());
        }
        let residue = ground.residue(client, row.fails.is_some(), secret)?;
        if residue.is_empty() { Ok(()) } else { Err(format!("it leaves behind:\n{residue}").into()) }
    }

    /// All commands of the row, beside one another, end in its error.
    fn all_fail(&self, row: &Row, ground: &Ground<'_>, client: &str, found: &mut Found) -> Result<(), Fault> {
        let mut pending = Vec::new();
        for command in &row.commands {
            let name = format!("{client}.{command}");
            let (key, lock) = row.lock(&name);
            let mut args = json!({ "client": client, "guard": name, key: lock, "token": 1 });
            for (key, value) in row.options_of(command) {
                args[key] = value.clone();
            }
            let given = self.give(command, args)?;
            // In a face with one thread whatever is behind it would be late.
            if self.face.one_thread.is_some() {
                self.fails(row, ground, command, &name, &answer(&given, row.within)?, found)?;
            } else {
                pending.push((command, name, given));
            }
        }
        for (command, name, pending) in &pending {
            let answer = answer(pending, row.within)?;
            self.fails(row, ground, command, name, &answer, found)?;
        }
        if ground.can_list() {
            let listed = self.ask("list", json!({ "client": client }))?;
            match listed.result() {
                Ok(names) if names.to_string().contains(client) => {
                    return Err(format!("its lock is there: {names}").into());
                }
                // Where each command opens the address anew, it is refused each time.
                Err(failure) if Some(&failure.code) != row.fails.as_ref() => {
                    return Err(format!("list: {}", failure.message).into());
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn fails(
        &self,
        row: &Row,
        ground: &Ground<'_>,
        command: &str,
        lock: &str,
        answer: &Answer,
        found: &mut Found,
    ) -> Result<(), Fault> {
        found.memory = found.memory.max(answer.peak.unwrap_or_default());
        let failure = match answer.result() {
            Ok(value) => return Err(format!("{command} does not fail, it gives {value}").into()),
            Err(failure) => failure,
        };
        let wrong = judge::judge(row, ground, command, lock, failure);
        let shown = judge::shows(&self.world.secret, &[&failure.message, &failure.debug]);
        if let Some(wrong) = shown.or(wrong) {
            return Err(format!("{command}: {wrong}").into());
        }
        let mut message = failure.message.clone();
        if !lock.is_empty() {
            message = message.replace(lock, "orders:42");
        }
        for (differs, stand_in) in &ground.stand_ins {
            message = message.replace(differs, stand_in);
        }
        found.message.get_or_insert(message);
        Ok(())
    }

    /// Every lock of the row is held at the same time as the others, is listed, and is given back.
    fn works(&self, row: &Row, ground: &Ground<'_>, client: &str) -> Result<(), Fault> {
        let own = row.lock(&format!("{client}.x"));
        let locks = match row.locks.as_slice() {
            [] => vec![own],
            names => names.iter().map(|name| ("lock", json!(format!("{client}{name}")))).collect(),
        };
        for (number, (key, lock)) in locks.iter().enumerate() {
            let mut args = json!({ "client": client, "guard": format!("{client}.{number}"), *key: lock, "timeout": 5 });
            for (key, value) in &row.with {
                args[key] = value.clone();
            }
            let granted = answer(&self.give("acquire", args)?, row.within)?;
            granted.result().map_err(|failure| format!("{lock} is not granted: {}", failure.message))?;
        }
        if ground.can_list() {
            let listed = self.ask("list", json!({ "client": client }))?;
            let listed = listed.result().map_err(|failure| format!("list: {}", failure.message))?;
            let listed = listed["names"].as_array().cloned().unwrap_or_default();
            if let Some((_, missing)) = locks.iter().find(|(_, lock)| !listed.contains(lock)) {
                return Err(format!("{missing} is not listed: {listed:?}").into());
            }
        }
        for number in 0..locks.len() {
            self.gives_back(&format!("{client}.{number}"))?;
        }
        Ok(())
    }

    fn gives_back(&self, guard: &str) -> Result<(), Fault> {
        let released = self.ask("release", json!({ "guard": guard }))?;
        let value = released.result().map_err(|failure| format!("release: {}", failure.message))?;
        if value["outcome"] == "released" { Ok(()) } else { Err(format!("release: {value}").into()) }
    }

    /// One client waits for another, who gives the lock back.
    fn waits(&self, row: &Row, ground: &Ground<'_>, client: &str) -> Result<(), Fault> {
        let other = format!("{client}-other");
        self.ask("open", json!({ "client": other, "uri": ground.uri }))?;
        let lock = format!("{client}.x");
        let acquire = |client: &str| {
            self.give("acquire", json!({ "client": client, "guard": client, "lock": lock, "timeout": 20, "ttl": 5 }))
        };
        let held = answer(&acquire(client)?, row.within)?;
        held.result().map_err(|failure| format!("it is not granted: {}", failure.message))?;
        let waits = acquire(&other)?;
        // Who polls leaves no trace at the store that could be waited for.
        if let Some(early) = waits.wait(WAITING)? {
            return Err(format!("it does not wait: {:?}", early.result()).into());
        }
        self.gives_back(client)?;
        let came = answer(&waits, 20.0)?;
        came.result().map_err(|failure| format!("who waited: {}", failure.message))?;
        self.gives_back(&other)
    }

    fn memory(&self, what: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.shim.pid)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':'));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        kilobytes.unwrap_or_default() << 10
    }

    /// What was the most until now is what is there now.
    fn forget_the_peak(&self) {
        // Where this may not be written, the peak is that of the whole run, and the limit the stricter.
        drop(fs::write(format!("/proc/{}/clear_refs", self.shim.pid), "5"));
    }

    fn end(self) -> Result<(), String> {
        self.goes("threads", self.threads, IDLE, |process| process.threads)?;
        self.shim.end()?;
        self.folder.close().map_err(|error| error.to_string())
    }
}

/// How a row was not played to its end.
enum Played {
    Cannot(String),
    Fault(Fault),
}

impl From<String> for Played {
    fn from(text: String) -> Self {
        Played::Fault(Fault::Wrong(text))
    }
}

impl From<Fault> for Played {
    fn from(fault: Fault) -> Self {
        Played::Fault(fault)
    }
}

impl From<Unmade> for Played {
    fn from(unmade: Unmade) -> Self {
        match unmade {
            Unmade::Cannot(reason) => Played::Cannot(reason),
            Unmade::Wrong(text) => text.into(),
        }
    }
}

/// The answer, which must come within so many seconds.
fn answer(pending: &Pending, within: f64) -> Result<Answer, Fault> {
    let answer = pending.wait(Duration::from_secs_f64(within + 30.0))?;
    let answer = answer.ok_or_else(|| Fault::Wrong("there is no answer".into()))?;
    let came = between(pending.sent, answer.at);
    if came > within {
        return Err(Fault::Late(format!("it came after {came:.2} s, and should within {within} s")));
    }
    Ok(answer)
}

/// Root may write what is not to be written, so its children may not, as nobody else can.
fn be_nobody_special(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let drop_rights = || {
        for right in [CapabilitySet::DAC_OVERRIDE, CapabilitySet::DAC_READ_SEARCH] {
            remove_capability_from_bounding_set(right)?;
        }
        Ok(())
    };
    // SAFETY: what is called in the child is one system call, twice.
    unsafe { command.pre_exec(drop_rights) };
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
