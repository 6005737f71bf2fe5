//! Acts a scenario out: every actor is a shim (on a store that is not shared, a client in the only shim there is),
//! every step is obeyed in turn, and what comes is compared with what the scenario expects.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::clock::{self, Nanos, after, between};
use crate::expect::{self, Refs};
use crate::pool::{Player, Pool};
use crate::record::{self, Event, Record};
use crate::referee::{self, History, Judgement};
use crate::rows::{Face, RunningStore};
use crate::scenario::{Action, Command, Expect, FirstGrant, Scaled, Scenario, Signal};
use crate::shim::{Answer, Pending, Shim};

/// How long work may take.
const WORK: f64 = 240.0;

/// Where a scenario is played, and by whom.
#[derive(Debug)]
pub struct Stage<'a> {
    /// Who plays; actor `a` is of the first face, `b` of the second, and so on in turn.
    pub team: &'a [Face],
    pub place: &'a RunningStore,
    /// Whether the store is shared between processes.
    pub shared: bool,
    /// Whether waiters stand in a queue at the store, where `inspect` counts them. Those who poll are seen by nobody.
    pub queue: bool,
    /// Whether everything is asked for.
    pub full: bool,
    /// How long an answer may take when nothing else is said, in seconds.
    pub patience: f64,
    /// An empty folder.
    pub folder: PathBuf,
    /// In the name of every lock, so that scenarios do not meet.
    pub word: String,
    /// Where shims are had from.
    pub pool: &'a Pool,
}

/// A play that ended as it should.
#[derive(Debug)]
pub struct Played {
    /// Figures worth knowing.
    pub figures: Vec<String>,
    /// Those who may serve another play, once nothing is left of this one.
    pub players: Vec<Player>,
}

/// How a scenario failed.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Something came later, or at a higher price, than it may. On a noisy machine that happens to the best.
    Late(String),
    /// Something is not as it must be.
    Wrong(String),
}

impl Fault {
    /// What happened.
    pub fn text(&self) -> &str {
        match self {
            Fault::Late(text) | Fault::Wrong(text) => text,
        }
    }

    fn at(self, step: &str) -> Self {
        match self {
            Fault::Late(text) => Fault::Late(format!("{text}\n  at {step}")),
            Fault::Wrong(text) => Fault::Wrong(format!("{text}\n  at {step}")),
        }
    }
}

impl From<String> for Fault {
    fn from(text: String) -> Self {
        Fault::Wrong(text)
    }
}

/// Plays the scenario.
pub fn play(scenario: &Scenario, stage: &Stage<'_>) -> Result<Played, Fault> {
    let mut play = Play {
        stage,
        fresh: scenario.fresh.is_some(),
        actors: BTreeMap::new(),
        players: Vec::new(),
        said: BTreeMap::new(),
        marks: BTreeMap::new(),
        counted: (0, 0),
        figures: Vec::new(),
        secret: password(&stage.place.uri(&stage.word, &stage.folder)),
        uri: stage.place.uri_for(scenario, &stage.word, &stage.folder),
    };
    match play.all(scenario).and_then(|()| play.leave()) {
        Ok(players) => Ok(Played { figures: play.figures, players }),
        Err(fault) => Err(play.with_what_was_said(fault)),
    }
}

fn password(uri: &str) -> Option<String> {
    let (_, rest) = uri.split_once("://")?;
    let (user, _) = rest.split(['/', '?']).next()?.rsplit_once('@')?;
    Some(user.split_once(':')?.1.to_owned())
}

struct Play<'a> {
    stage: &'a Stage<'a>,
    /// Whether each process is started and ended here.
    fresh: bool,
    actors: BTreeMap<String, Actor>,
    players: Vec<Player>,
    said: BTreeMap<String, Transcript>,
    marks: BTreeMap<String, Nanos>,
    /// How many requests were counted, and when.
    counted: (u64, Nanos),
    figures: Vec<String>,
    /// What no error may show.
    secret: Option<String>,
    /// Where its actors find the store.
    uri: String,
}

struct Actor {
    shim: Arc<Shim>,
    killed: Option<Nanos>,
}

/// What was asked under a label, and what was answered.
#[derive(Default)]
struct Transcript {
    pending: Vec<(String, Pending)>,
    answers: Vec<Answer>,
    /// How long an answer may take, in seconds.
    patience: f64,
}

impl Refs for Play<'_> {
    fn resolve(&self, path: &str) -> Result<Value, String> {
        let (label, field) = path.split_once('.').ok_or_else(|| format!("${path} names no field"))?;
        if label == "lock" {
            return Ok(json!(self.lock_name(field)));
        }
        if let Some(actor) = self.actors.get(label) {
            return match field {
                "pid" => Ok(json!(actor.shim.pid)),
                "language" => Ok(json!(actor.shim.language)),
                _ => Err(format!("an actor has no {field}")),
            };
        }
        let answer = self.said.get(label).and_then(|said| said.answers.first());
        let answer = answer.ok_or_else(|| format!("{label} has not answered"))?;
        if field == "at" {
            return Ok(json!(answer.at));
        }
        let value = answer.result().map_err(|failure| format!("{label} failed: {}", failure.message))?;
        let found = field.split('.').try_fold(&value, |value, key| value.get(key));
        found.cloned().ok_or_else(|| format!("{label} says nothing of {field}: {value}"))
    }
}

impl Play<'_> {
    fn all(&mut self, scenario: &Scenario) -> Result<(), Fault> {
        for step in &scenario.steps {
            self.step(&step.action).map_err(|fault| match fault {
                Fault::Wrong(text) if step.noise => Fault::Late(text).at(&step.text),
                fault => fault.at(&step.text),
            })?;
            if let Some(mark) = &step.mark {
                self.marks.insert(mark.clone(), clock::now());
            }
        }
        Ok(())
    }

    /// Those who may go on, who have nothing in hand any more; all others are ended.
    fn leave(&mut self) -> Result<Vec<Player>, Fault> {
        let wrong = |error: String| format!("when all was done: {error}");
        let killed: Vec<_> = self.actors.values().filter(|actor| actor.killed.is_some()).map(|a| a.shim.pid).collect();
        let players = std::mem::take(&mut self.players).into_iter().filter(|player| !killed.contains(&player.shim.pid));
        let (stay, go): (Vec<_>, Vec<_>) = players.partition(Player::goes_on);
        for player in &go {
            player.shim.end().map_err(wrong)?;
        }
        for player in &stay {
            player.shim.reset().map_err(wrong)?;
        }
        Ok(stay)
    }

    fn with_what_was_said(&self, fault: Fault) -> Fault {
        let mut said = String::new();
        for (name, actor) in &self.actors {
            let text = actor.shim.said();
            let tail: Vec<_> = text.lines().rev().take(15).collect();
            for line in tail.into_iter().rev() {
                said.push_str(&format!("\n  {name}: {line}"));
            }
        }
        for player in self.players.iter().filter(|player| !player.history().is_empty()) {
            said.push_str(&format!("\n  process {} has served: {}", player.shim.pid, player.history()));
        }
        match fault {
            Fault::Late(text) => Fault::Late(text + &said),
            Fault::Wrong(text) => Fault::Wrong(text + &said),
        }
    }

    fn step(&mut self, action: &Action) -> Result<(), Fault> {
        match action {
            Action::Command(command) if command.until.is_some() => self.repeat(command),
            Action::Command(command) => {
                for actor in &command.on {
                    let pending = self.give(command, actor)?;
                    self.said.entry(command.label.clone()).or_default().pending.push((actor.clone(), pending));
                }
                let patience = if works(command.name) { WORK } else { self.stage.patience };
                self.said.entry(command.label.clone()).or_default().patience = patience;
                if command.background {
                    return Ok(());
                }
                let result = self.listen(&command.label, &command.expect);
                // Without a label of its own the answer is no one's to ask for.
                self.said.remove("");
                result
            }
            Action::Await { label, expect } => self.listen(label, expect),
            Action::Pending(label) => {
                let said = self.said.get(label);
                for (actor, pending) in said.iter().flat_map(|said| &said.pending) {
                    if let Some(answer) = pending.wait(Duration::ZERO)? {
                        let text = format!("{label} of {actor} has an answer already: {:?}", answer.result());
                        return Err(text.into());
                    }
                }
                Ok(())
            }
            Action::Signal { signal, to } => {
                // Taken before: a store that sees a holder die may grant its lock before the signal's sender hears of
                // it. What the process finished after this moment it has logged.
                let at = clock::now();
                self.shim(to)?.signal(*signal)?;
                if *signal == Signal::Kill
                    && let Some(actor) = self.actors.get_mut(to)
                {
                    actor.killed = Some(at);
                }
                Ok(())
            }
            Action::Sleep(seconds) => {
                std::thread::sleep(Duration::from_secs_f64(*seconds));
                Ok(())
            }
            Action::Restart { optional } => match self.stage.place.store.cannot.contains_key("restart") {
                true if *optional => Ok(()),
                _ => Ok(self.stage.place.restart()?),
            },
            Action::Foreign { lock } => Ok(self.stage.place.plant_foreign(&self.lock_name(lock))?),
            Action::CountRequests => {
                self.counted = (self.stage.place.requests()?, clock::now());
                Ok(())
            }
            Action::Requests { per_acquisition } => self.check_requests(*per_acquisition),
            Action::RequestsInAll(wanted) => match self.stage.place.requests()? - self.counted.0 {
                served if served == *wanted => Ok(()),
                served => Err(Fault::Late(format!("{served} requests were served, and {wanted} should do"))),
            },
            Action::Relay { on, lock, guard, hops } => self.relay(on, lock, guard, hops.get(self.stage.full)),
            Action::Stale => Ok(self.make_stale().map_err(|error| format!("the value: {error}"))?),
            Action::Logged { increments, by } => self.wait_for_log(increments.get(self.stage.full), by),
            Action::Referee { late, first_grant, capacity, overtaken } => {
                let history = self.history()?;
                let judgement = match capacity {
                    Some(capacity) => referee::judge_shared(&history, *capacity, *overtaken),
                    None => referee::judge(&history),
                };
                self.judge(&history, &judgement, *late, first_grant.as_ref())
            }
            Action::Process { on, label, until } => self.look_at_process(on, label, until.as_ref()),
        }
    }

    /// The actor's shim, had at its first appearance.
    fn shim(&mut self, name: &str) -> Result<Arc<Shim>, Fault> {
        if let Some(actor) = self.actors.get(name) {
            return Ok(actor.shim.clone());
        }
        let only = self.actors.values().next().filter(|_| !self.stage.shared);
        let shim = match only {
            Some(actor) => actor.shim.clone(),
            None => {
                let place = name.bytes().next().unwrap_or_default().wrapping_sub(b'a');
                let face = &self.stage.team[usize::from(place) % self.stage.team.len()];
                let player = self.stage.pool.take(face, self.fresh)?;
                let shim = player.shim.clone();
                self.players.push(player);
                shim
            }
        };
        self.actors.insert(name.to_owned(), Actor { shim: shim.clone(), killed: None });
        let args = Map::from_iter([("client".to_owned(), json!(name)), ("uri".to_owned(), json!(self.uri))]);
        let answer = shim.send("open", args)?.wait(Duration::from_secs_f64(self.stage.patience))?;
        let answer = answer.ok_or_else(|| "open has no answer".to_owned())?;
        answer.result().map_err(|failure| format!("open fails: {}", failure.message))?;
        Ok(shim)
    }

    fn lock_name(&self, lock: &str) -> String {
        format!("{}.{lock}", self.stage.word)
    }

    fn give(&mut self, command: &Command, actor: &str) -> Result<Pending, Fault> {
        let shim = self.shim(actor)?;
        let args = self.args(command, actor)?;
        Ok(shim.send(command.name, args)?)
    }

    fn args(&self, command: &Command, actor: &str) -> Result<Map<String, Value>, String> {
        let mut args = Map::from_iter([("client".to_owned(), json!(actor))]);
        if command.makes_a_guard() {
            let guard = if command.label.is_empty() { "nothing" } else { &command.label };
            args.insert("guard".into(), json!(guard));
        }
        for (key, value) in &command.args {
            let value = expect::fill(value, self)?;
            let text = value.as_str().unwrap_or_default();
            let (key, value) = match key.as_str() {
                "lock" | "other" | "gate" => (key.as_str(), json!(self.lock_name(text))),
                "with" => {
                    let names = value.as_array().into_iter().flatten().filter_map(Value::as_str);
                    ("with", names.map(|name| self.lock_name(name)).collect())
                }
                "name" => ("lock", value),
                "name_bytes" => ("lock", json!("n".repeat(value.as_u64().unwrap_or_default() as usize))),
                "uri" => {
                    let own = &self.uri;
                    // The address may have options already.
                    let more = if own.contains('?') { text.replace("{uri}?", "{uri}&") } else { text.to_owned() };
                    ("uri", json!(more.replace("{uri}", own)))
                }
                "command" => {
                    let said = self.said.get(text).and_then(|said| said.pending.first());
                    ("command", json!(said.ok_or_else(|| format!("{text} is answered already"))?.1.id))
                }
                "tasks" | "increments" | "children" => {
                    let scaled: Scaled = serde_json::from_value(value).map_err(|error| format!("{key}: {error}"))?;
                    (key.as_str(), json!(scaled.get(self.stage.full)))
                }
                _ => (key.as_str(), value),
            };
            args.insert(key.to_owned(), value);
        }
        if works(command.name) {
            args.extend(self.files_of(actor));
        }
        if command.name == "once" {
            args.insert("value".into(), json!(self.value()));
        }
        Ok(args)
    }

    /// Where what works writes.
    fn files_of(&self, actor: &str) -> Map<String, Value> {
        let (counter, log) = (self.stage.folder.join("counter"), self.log_of(actor));
        Map::from_iter([("name".into(), json!(actor)), ("counter".into(), json!(counter)), ("log".into(), json!(log))])
    }

    fn value(&self) -> PathBuf {
        self.stage.folder.join("value")
    }

    fn make_stale(&self) -> std::io::Result<()> {
        let value = fs::read_to_string(self.value())?;
        fs::write(self.value(), format!("{value} stale"))
    }

    /// Gives the actor a command with just these arguments; what it answers.
    fn ask(&mut self, actor: &str, command: &str, args: Value) -> Result<Value, Fault> {
        let mut given = Map::from_iter([("client".to_owned(), json!(actor))]);
        given.extend(args.as_object().cloned().unwrap_or_default());
        let pending = self.shim(actor)?.send(command, given)?;
        let answer = self.answer(&pending, after(clock::now(), self.stage.patience))?;
        Ok(answer.result().map_err(|failure| format!("{command} of {actor} fails: {}", failure.message))?)
    }

    fn relay(&mut self, on: &[String], lock: &str, guard: &str, hops: u64) -> Result<(), Fault> {
        let lock = self.lock_name(lock);
        let mut asked = clock::now();
        for (hop, pair) in (0..=hops).zip(on.iter().cycle().zip(on.iter().cycle().skip(1))) {
            let (holder, next) = pair;
            let mut count = Value::Object(self.files_of(holder));
            count["name"] = json!(format!("{holder}-relay"));
            count["guard"] = json!(guard);
            count["asked"] = json!(asked);
            self.ask(holder, "count", count)?;
            if hop == hops {
                self.ask(holder, "release", json!({ "guard": guard }))?;
                continue;
            }
            let exported = self.ask(holder, "export", json!({ "guard": guard, "ttl": 30 }))?;
            asked = clock::now();
            let resume = json!({ "lock": lock, "layout": "native", "guard": guard, "secret": exported["secret"] });
            self.ask(next, "resume", resume)?;
        }
        self.figures.push(format!("{hops} hops"));
        Ok(())
    }

    fn log_of(&self, actor: &str) -> PathBuf {
        self.stage.folder.join(format!("{actor}.log"))
    }

    /// Gives the command until its answer is as wanted.
    fn repeat(&mut self, command: &Command) -> Result<(), Fault> {
        let wanted = command.until.as_ref().unwrap_or(&Value::Null);
        let patience = self.stage.patience;
        let give_up = after(clock::now(), patience);
        loop {
            let mut answers = Vec::new();
            for actor in &command.on {
                let pending = self.give(command, actor)?;
                answers.push(self.answer(&pending, after(clock::now(), self.stage.patience))?);
            }
            let unmet = answers.iter().find_map(|answer| self.meets(&Expect::default(), Some(wanted), answer).err());
            match unmet {
                None => {
                    self.said.insert(command.label.clone(), Transcript { answers, ..Transcript::default() });
                    return Ok(());
                }
                Some(unmet) if clock::now() > give_up => {
                    return Err(Fault::Late(format!("for {patience} s it has not come to that: {unmet}")));
                }
                Some(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn look_at_process(&mut self, on: &str, label: &str, until: Option<&Value>) -> Result<(), Fault> {
        let (shim, give_up) = (self.shim(on)?, after(clock::now(), self.stage.patience));
        loop {
            let seen = json!(shim.process());
            match until.map(|until| expect::compare(until, &seen, self)) {
                None => {
                    let answers = vec![Answer::of(seen)];
                    self.said.insert(label.to_owned(), Transcript { answers, ..Transcript::default() });
                    return Ok(());
                }
                Some(Ok(())) => return Ok(()),
                Some(Err(unmet)) if clock::now() > give_up => {
                    return Err(Fault::Late(format!("{unmet}: {}", shim.insides())));
                }
                Some(Err(_)) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn answer(&self, pending: &Pending, give_up: Nanos) -> Result<Answer, Fault> {
        let left = between(clock::now(), give_up).max(0.0);
        let answer = pending.wait(Duration::from_secs_f64(left))?;
        answer.ok_or_else(|| Fault::Late(format!("no answer for {:.1} s", between(pending.sent, clock::now()))))
    }

    /// Waits for every answer under the label and compares it.
    fn listen(&mut self, label: &str, expect: &Expect) -> Result<(), Fault> {
        let Some(said) = self.said.get_mut(label) else { return Err(format!("nobody was asked {label}").into()) };
        let patience = said.patience;
        let mut waiting = std::mem::take(&mut said.pending).into_iter();
        while let Some((actor, pending)) = waiting.next() {
            let of = match &expect.of {
                None => pending.sent,
                Some(of) => self.moment(of)?,
            };
            let limit = expect.within.map(|within| after(of, within));
            // What comes too late is still worth seeing.
            let give_up = limit.map_or_else(|| after(clock::now(), patience), |limit| after(limit, 10.0));
            // An answer is recognised by its own time, so a runner that comes late for it does no harm.
            let answer = self.answer(&pending, give_up.max(after(clock::now(), 1.0)));
            let answer =
                answer.map_err(|fault| self.failure_of_another(expect, waiting.as_slice()).unwrap_or(fault))?;
            let came = between(of, answer.at);
            let blame = |text: String| format!("{actor}: {text}");
            self.meets(expect, expect.gives.as_ref(), &answer).map_err(blame)?;
            if let Some(earliest) = &expect.not_before {
                let earliest = expect::fill(earliest, self)?.as_f64().ok_or("`not_before` is no number".to_owned())?;
                if came < earliest {
                    return Err(blame(format!("it came after {came:.3} s, and may not before {earliest:.3} s")).into());
                }
            }
            if let Some(within) = expect.within {
                if came > within {
                    return Err(Fault::Late(blame(format!("it came after {came:.3} s, and should within {within} s"))));
                }
                self.figures.push(format!("{came:.3} s of {within}"));
            }
            self.said.entry(label.to_owned()).or_default().answers.push(answer);
        }
        Ok(())
    }

    /// Of those who have answered, one who should not have said that: what it holds may be what others wait for.
    fn failure_of_another(&self, expect: &Expect, others: &[(String, Pending)]) -> Option<Fault> {
        others.iter().find_map(|(actor, pending)| {
            let answer = pending.wait(Duration::ZERO).ok()??;
            let text = self.meets(expect, expect.gives.as_ref(), &answer).err()?;
            Some(format!("{actor}: {text}").into())
        })
    }

    fn meets(&self, expect: &Expect, gives: Option<&Value>, answer: &Answer) -> Result<(), String> {
        if let (Err(failure), Some(secret)) = (answer.result(), &self.secret)
            && failure.message.contains(secret)
        {
            return Err(format!("its error shows the password: {}", failure.message));
        }
        let counted = gives.filter(|_| !self.stage.queue).map(without_waiters);
        let gives = counted.as_ref().or(gives);
        match (&expect.fails, answer.result()) {
            (None, Ok(value)) => gives.map_or(Ok(()), |gives| expect::compare(gives, &value, self)),
            (None, Err(failure)) => Err(format!("it fails with {}: {}", failure.code, failure.message)),
            (Some(code), Ok(value)) => Err(format!("it should fail with {code}, and gives {value}")),
            (Some(code), Err(failure)) if failure.code != *code => {
                Err(format!("it should fail with {code}, and does with {}: {}", failure.code, failure.message))
            }
            (Some(_), Err(failure)) => {
                let shown = json!({ "retryable": failure.retryable, "message": failure.message });
                gives.map_or(Ok(()), |gives| expect::compare(gives, &shown, self))
            }
        }
    }

    fn moment(&self, name: &str) -> Result<Nanos, Fault> {
        let answered = || self.said.get(name).and_then(|said| said.answers.first()).map(|answer| answer.at);
        let moment = self.marks.get(name).copied().or_else(answered);
        moment.ok_or_else(|| format!("{name} is no moment yet").into())
    }

    fn history(&self) -> Result<History, Fault> {
        let mut history = History::default();
        for (name, actor) in &self.actors {
            let records = record::read(&self.log_of(name)).map_err(|error| format!("log of {name}: {error}"))?;
            history.records.extend(records);
            history.deaths.extend(actor.killed.map(|at| (actor.shim.pid, at)));
        }
        let counter = fs::read_to_string(self.stage.folder.join("counter")).unwrap_or_default();
        history.counter = counter.trim().parse().unwrap_or_default();
        Ok(history)
    }

    fn judge(
        &mut self,
        history: &History,
        judgement: &Judgement,
        late: usize,
        first: Option<&FirstGrant>,
    ) -> Result<(), Fault> {
        if !judgement.violations.is_empty() {
            let shown: Vec<_> = judgement.violations.iter().take(5).map(|v| v.to_string()).collect();
            let count = judgement.violations.len();
            return Err(format!("{count} violations in {} grants\n  {}", judgement.grants, shown.join("\n  ")).into());
        }
        if judgement.increments == 0 {
            return Err("nobody has worked".to_owned().into());
        }
        if judgement.late > late {
            return Err(Fault::Late(format!("{} increments lost their lock on the way", judgement.late)));
        }
        self.figures.push(format!("{} increments", judgement.increments));
        if let Some(FirstGrant { after, within }) = first {
            let mark = self.moment(after)?;
            let (task, at) = referee::first_grant_after(history, mark).ok_or("nobody had it any more".to_owned())?;
            let came = between(mark, at);
            if came > *within {
                return Err(Fault::Late(format!("{task} had it {came:.3} s after {after}, should within {within} s")));
            }
            self.figures.push(format!("{came:.3} s after {after}"));
        }
        Ok(())
    }

    fn check_requests(&mut self, limit: f64) -> Result<(), Fault> {
        let (before, since) = self.counted;
        let requests = self.stage.place.requests()? - before;
        let records = self.history()?.records;
        let granted = |record: &&Record| record.at > since && matches!(record.event, Event::Grant { .. });
        let grants = records.iter().filter(granted).count();
        let each = requests as f64 / grants as f64;
        if each > limit {
            let text = format!("{requests} requests for {grants} acquisitions: {each:.2} each, should be {limit}");
            return Err(Fault::Late(text));
        }
        self.figures.push(format!("{each:.2} requests each of {limit}"));
        Ok(())
    }

    fn wait_for_log(&mut self, increments: u64, by: &str) -> Result<(), Fault> {
        let give_up = after(clock::now(), WORK);
        loop {
            let log = fs::read_to_string(self.log_of(by)).unwrap_or_default();
            let done = log.matches("\"increment\"").count() as u64;
            if done >= increments {
                return Ok(());
            }
            if clock::now() > give_up {
                return Err(Fault::Late(format!("{by} has done {done} increments in {WORK} s")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Whether the command works under a lock and logs it, which takes longer than others do.
fn works(command: &str) -> bool {
    matches!(command, "work" | "prefork")
}

/// What is wanted of an answer, but for how many wait.
fn without_waiters(wanted: &Value) -> Value {
    let mut wanted = wanted.clone();
    if let Some(fields) = wanted.as_object_mut() {
        fields.remove("waiters");
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::password;

    #[test]
    fn the_password_of_an_address_is_found() {
        let found = |uri| password(uri).unwrap_or_default();
        assert_eq!(found("rediss://user:secret@127.0.0.1:7380?ca=/x:y@z"), "secret");
        assert_eq!([found("redis://127.0.0.1:7379"), found("sqlite:///a:b@c"), found("memory://x")], ["", "", ""]);
    }
}
