//! A scenario as it is written in `scenarios/*.toml`; `README.md` describes the words.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::protocol;

/// One scenario.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The file's name.
    #[serde(skip)]
    pub name: String,
    /// What holds, as a sentence.
    pub title: String,
    /// What the store must promise, or be able to do for a test.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Also runs with actors of two faces.
    #[serde(default)]
    pub mixed: Mixed,
    /// Is played by a face of ours and a library whose locks are joined.
    #[serde(default)]
    pub peer: Peer,
    /// Needs the machine and the servers for itself.
    #[serde(default)]
    pub alone: bool,
    /// Why each process is started for it and ended with it, where others serve one play after another.
    pub fresh: Option<String>,
    /// The teams of faces that it runs with unless everything is asked for, and why not with the others.
    pub only: Option<Only>,
    /// How often it may be tried until its time limits are kept. Everything else must hold in every attempt: a noisy
    /// machine can make things late, not wrong.
    #[serde(default = "one")]
    pub attempts: u32,
    #[serde(rename = "steps")]
    raw: Vec<toml::Table>,
    #[serde(skip)]
    pub steps: Vec<Step>,
}

/// See [`Scenario::only`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Only {
    pub teams: Vec<String>,
    pub reason: String,
}

/// Whether the actors of a scenario may speak different languages.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(from = "bool")]
pub enum Mixed {
    #[default]
    No,
    Yes,
}

impl From<bool> for Mixed {
    fn from(mixed: bool) -> Self {
        if mixed { Mixed::Yes } else { Mixed::No }
    }
}

/// Whether a scenario is played with another library, and as whom that takes part.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(try_from = "Value")]
pub enum Peer {
    #[default]
    No,
    /// As either actor in turn.
    Either,
    /// As b and d.
    Second,
    /// As b and d, with one whose locks are of another recipe than ours.
    Beside,
}

impl TryFrom<Value> for Peer {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match (value.as_bool(), value.as_str()) {
            (Some(true), _) => Ok(Peer::Either),
            (Some(false), _) => Ok(Peer::No),
            (_, Some("second")) => Ok(Peer::Second),
            (_, Some("beside")) => Ok(Peer::Beside),
            _ => Err(format!("peer is {value}; it is true, \"second\" or \"beside\"")),
        }
    }
}

fn one() -> u32 {
    1
}

/// The ttl of an address for a scenario that names none, where a lock's ttl is at most that.
const TTL: f64 = 10.0;
/// No ttl of a scenario is longer, unless it is to be refused.
const LONGEST_TTL: f64 = 60.0;

impl Scenario {
    /// The longest ttl that a lock has in it.
    pub fn longest_ttl(&self) -> f64 {
        self.ttls().filter(|ttl| (0.0..LONGEST_TTL).contains(ttl) && *ttl > 0.0).reduce(f64::max).unwrap_or(TTL)
    }

    fn ttls(&self) -> impl Iterator<Item = f64> {
        let number = |value: &toml::Value| value.as_float().or_else(|| Some(value.as_integer()? as f64));
        self.raw.iter().filter_map(move |step| step.get("ttl").and_then(number))
    }

    /// What the store must be able to do for what its steps say.
    pub fn implied_needs(&self) -> impl Iterator<Item = &str> {
        let part_of_second = self.ttls().any(|ttl| ttl.fract() != 0.0).then_some("part_of_second");
        let mut names = self.raw.iter().filter_map(|step| step.get("lock")?.as_str());
        let any_name = names.any(|name| name.contains(char::is_whitespace)).then_some("any_name");
        part_of_second.into_iter().chain(any_name)
    }
}

/// One step.
#[derive(Debug)]
pub struct Step {
    /// The step as it is written, for messages.
    pub text: String,
    pub action: Action,
    /// The moment after it gets this name.
    pub mark: Option<String>,
    /// Whether noise alone can make it fail: a process that gets no processor for a ttl has lost its lock by rights.
    pub noise: bool,
}

/// What a step does.
#[derive(Debug)]
pub enum Action {
    Command(Command),
    Await {
        label: String,
        expect: Expect,
    },
    Pending(String),
    Signal {
        signal: Signal,
        to: String,
    },
    Sleep(f64),
    Restart {
        optional: bool,
    },
    Foreign {
        lock: String,
    },
    CountRequests,
    Requests {
        per_acquisition: f64,
    },
    /// So many requests were served since, in all.
    RequestsInAll(u64),
    /// A held lock goes from actor to actor by its secret, and each of them counts.
    Relay {
        on: Vec<String>,
        lock: String,
        guard: String,
        hops: Scaled,
    },
    /// The value that `once` makes is not good any more.
    Stale,
    Logged {
        increments: Scaled,
        by: String,
    },
    Referee {
        late: usize,
        first_grant: Option<FirstGrant>,
        /// Of what several may hold: how much there is of it.
        capacity: Option<u64>,
        /// How often each other task may come in while somebody waits for all of it.
        overtaken: Option<usize>,
    },
    /// Looks at an actor's process from outside: how many threads and descriptors it has.
    Process {
        on: String,
        label: String,
        until: Option<Value>,
    },
}

/// A command given to one actor, or to several at once.
#[derive(Debug)]
pub struct Command {
    pub on: Vec<String>,
    pub name: &'static str,
    pub args: Map<String, Value>,
    /// What its guard and its answer are called.
    pub label: String,
    /// Nobody waits for its answer until a later step awaits it.
    pub background: bool,
    pub expect: Expect,
    /// Given again and again until the answer is so.
    pub until: Option<Value>,
}

impl Command {
    /// Whether it makes a guard, which is then called by the label.
    pub fn makes_a_guard(&self) -> bool {
        protocol::command(self.name).is_some_and(protocol::Command::makes_a_guard)
    }
}

/// What is expected of an answer.
#[derive(Debug, Default)]
pub struct Expect {
    /// The error's code.
    pub fails: Option<String>,
    /// What the answer says.
    pub gives: Option<Value>,
    /// It came at most this many seconds after...
    pub within: Option<f64>,
    /// It came at least this many seconds (or `$label.field`) after...
    pub not_before: Option<Value>,
    /// ...this moment: a mark, or the grant of a label; when none is given, the command.
    pub of: Option<String>,
}

/// A signal.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "UPPERCASE")]
pub enum Signal {
    Kill,
    Stop,
    Cont,
}

/// The first grant of the log after a mark comes within so many seconds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirstGrant {
    pub after: String,
    pub within: f64,
}

/// A number that depends on how much is asked for.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum Scaled {
    Always(u64),
    By { quick: u64, full: u64 },
}

impl Scaled {
    /// The number.
    pub fn get(self, full: bool) -> u64 {
        match self {
            Scaled::Always(n) => n,
            Scaled::By { quick, full: all } => {
                if full {
                    all
                } else {
                    quick
                }
            }
        }
    }
}

/// Reads every scenario of a folder, in the order of their names.
pub fn read_all(folder: &Path) -> Result<Vec<Scenario>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let read = |path: &Path| {
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        let mut scenario = parse(&text)?;
        scenario.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(scenario)
    };
    paths.iter().map(|path| read(path).map_err(|error: String| format!("{}: {error}", path.display()))).collect()
}

/// Reads a scenario and checks that all it refers to exists.
pub fn parse(text: &str) -> Result<Scenario, String> {
    let mut scenario: Scenario = toml::from_str(text).map_err(|error| error.to_string())?;
    for raw in &scenario.raw {
        let text = shown(raw);
        scenario.steps.push(step(raw.clone()).map_err(|error| format!("step {text}: {error}"))?);
    }
    check(&scenario)?;
    Ok(scenario)
}

impl Scenario {
    /// How many actors are given commands.
    pub fn actors(&self) -> usize {
        let given = self.steps.iter().filter_map(|step| match &step.action {
            Action::Command(Command { on, .. }) | Action::Relay { on, .. } => Some(on),
            _ => None,
        });
        given.flatten().collect::<BTreeSet<_>>().len()
    }

    /// The commands that it needs.
    pub fn commands(&self) -> BTreeSet<&'static str> {
        let of = |step: &Step| match &step.action {
            Action::Command(command) => vec![command.name],
            Action::Relay { .. } => RELAY.to_vec(),
            _ => Vec::new(),
        };
        self.steps.iter().flat_map(of).collect()
    }
}

/// What a relay consists of.
const RELAY: [&str; 4] = ["count", "export", "resume", "release"];

fn shown(raw: &toml::Table) -> String {
    toml::Value::Table(raw.clone()).to_string()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectFields {
    fails: Option<String>,
    gives: Option<Value>,
    within: Option<f64>,
    not_before: Option<Value>,
    of: Option<String>,
}

const EXPECT_FIELDS: [&str; 5] = ["fails", "gives", "within", "not_before", "of"];

impl Expect {
    fn take(raw: &mut toml::Table) -> Result<Self, String> {
        let ExpectFields { fails, gives, within, not_before, of } = subset(raw, &EXPECT_FIELDS)?;
        if of.is_some() && within.is_none() && not_before.is_none() {
            return Err("`of` without `within` or `not_before`".into());
        }
        Ok(Expect { fails, gives, within, not_before, of })
    }
}

fn subset<T: DeserializeOwned>(raw: &mut toml::Table, keys: &[&str]) -> Result<T, String> {
    let taken: toml::Table = keys.iter().filter_map(|key| Some(((*key).to_owned(), raw.remove(*key)?))).collect();
    toml::Value::Table(taken).try_into().map_err(|error| error.to_string())
}

fn whole<T: DeserializeOwned>(raw: toml::Table) -> Result<T, String> {
    toml::Value::Table(raw).try_into().map_err(|error| error.to_string())
}

fn text_of(value: toml::Value) -> Result<String, String> {
    value.try_into().map_err(|_| "expected a text".to_owned())
}

fn step(mut raw: toml::Table) -> Result<Step, String> {
    let text = shown(&raw);
    let mark = raw.remove("mark").map(text_of).transpose()?;
    let noise = raw.remove("noise").is_some_and(|noise| noise.as_bool() == Some(true));
    let action = action(raw)?;
    Ok(Step { text, action, mark, noise })
}

fn action(mut raw: toml::Table) -> Result<Action, String> {
    if raw.contains_key("do") {
        return command(raw).map(Action::Command);
    }
    if let Some(label) = raw.remove("await") {
        let expect = Expect::take(&mut raw)?;
        whole::<Nothing>(raw)?;
        return Ok(Action::Await { label: text_of(label)?, expect });
    }
    let kinds = [
        "pending",
        "signal",
        "sleep",
        "restart",
        "foreign",
        "count_requests",
        "requests_per_acquisition",
        "requests",
        "relay",
        "stale",
        "logged",
        "process",
        "referee",
    ];
    let kind = kinds.into_iter().find(|kind| raw.contains_key(*kind)).ok_or("this is no step")?;
    Ok(match kind {
        "pending" => Action::Pending(whole::<PendingFields>(raw)?.pending),
        "signal" => {
            let SignalFields { signal, to } = whole(raw)?;
            Action::Signal { signal, to }
        }
        "sleep" => Action::Sleep(whole::<SleepFields>(raw)?.sleep),
        "restart" => {
            let RestartFields { restart: True, optional } = whole(raw)?;
            Action::Restart { optional }
        }
        "foreign" => Action::Foreign { lock: whole::<ForeignFields>(raw)?.foreign },
        "count_requests" => {
            let CountFields { count_requests: True } = whole(raw)?;
            Action::CountRequests
        }
        "requests_per_acquisition" => {
            Action::Requests { per_acquisition: whole::<RequestsFields>(raw)?.requests_per_acquisition }
        }
        "requests" => Action::RequestsInAll(whole::<InAllFields>(raw)?.requests),
        "relay" => {
            let RelayFields { relay, lock, guard, hops } = whole(raw)?;
            if relay.len() < 2 {
                return Err("a relay needs two at least".into());
            }
            Action::Relay { on: relay, lock, guard, hops }
        }
        "stale" => {
            let StaleFields { stale: True } = whole(raw)?;
            Action::Stale
        }
        "logged" => {
            let LoggedFields { logged, by } = whole(raw)?;
            Action::Logged { increments: logged, by }
        }
        "process" => {
            let ProcessFields { process, r#as, until } = whole(raw)?;
            if r#as.is_some() == until.is_some() {
                return Err("give it either a name with `as` or an `until`".into());
            }
            Action::Process { on: process, label: r#as.unwrap_or_default(), until }
        }
        _ => {
            let RefereeFields { referee: True, late, first_grant, capacity, overtaken } = whole(raw)?;
            if overtaken.is_some() && capacity.is_none() {
                return Err("`overtaken` without `capacity`".into());
            }
            Action::Referee { late, first_grant, capacity, overtaken }
        }
    })
}

/// `true` and nothing else.
#[derive(Deserialize)]
#[serde(try_from = "bool")]
struct True;

impl TryFrom<bool> for True {
    type Error = &'static str;

    fn try_from(value: bool) -> Result<Self, Self::Error> {
        if value { Ok(True) } else { Err("leave it out instead of saying false") }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PendingFields {
    pending: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignalFields {
    signal: Signal,
    to: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SleepFields {
    sleep: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RestartFields {
    restart: True,
    #[serde(default)]
    optional: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForeignFields {
    foreign: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CountFields {
    count_requests: True,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestsFields {
    requests_per_acquisition: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InAllFields {
    requests: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RelayFields {
    relay: Vec<String>,
    lock: String,
    guard: String,
    hops: Scaled,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StaleFields {
    stale: True,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoggedFields {
    logged: Scaled,
    by: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProcessFields {
    process: String,
    r#as: Option<String>,
    until: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RefereeFields {
    referee: True,
    #[serde(default)]
    late: usize,
    first_grant: Option<FirstGrant>,
    capacity: Option<u64>,
    overtaken: Option<usize>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandFields {
    on: OneOrMore,
    r#do: String,
    r#as: Option<String>,
    #[serde(default)]
    background: bool,
    until: Option<Value>,
}

fn command(mut raw: toml::Table) -> Result<Command, String> {
    let CommandFields { on, r#do, r#as, background, until } =
        subset(&mut raw, &["on", "do", "as", "background", "until"])?;
    let expect = Expect::take(&mut raw)?;
    let command = protocol::command(&r#do).ok_or_else(|| format!("there is no command {do:?}", do = r#do))?;
    let special = ["client", "name", "name_bytes"];
    if let Some(unknown) =
        raw.keys().find(|key| !command.args.contains(&key.as_str()) && !special.contains(&key.as_str()))
    {
        return Err(format!("{} takes no {unknown:?}", command.name));
    }
    if r#as.is_none() && (background || (command.makes_a_guard() && expect.fails.is_none())) {
        return Err("give it a name with `as`".into());
    }
    let on = match on {
        OneOrMore::One(actor) => vec![actor],
        OneOrMore::More(actors) => actors,
    };
    if on.is_empty() || (on.len() > 1 && !background) {
        return Err("only a command in the background goes to several actors".into());
    }
    let args = raw.into_iter().map(|(key, value)| Ok((key, serde_json::to_value(value)?)));
    let args = args.collect::<Result<_, serde_json::Error>>().map_err(|error| error.to_string())?;
    let label = r#as.unwrap_or_default();
    Ok(Command { on, name: command.name, args, label, background, expect, until })
}

/// What only the order of the steps tells: everything that is referred to was there before.
fn check(scenario: &Scenario) -> Result<(), String> {
    let mut labels: BTreeMap<&str, bool> = BTreeMap::new();
    let mut marks: BTreeSet<&str> = BTreeSet::new();
    let mut signals = false;
    for step in &scenario.steps {
        let wrong = |text: String| Err(format!("step {}: {text}", step.text));
        let mut used: Vec<&str> = Vec::new();
        let mut expected = None;
        match &step.action {
            Action::Command(command) => {
                let guard = command.args.get("guard").or_else(|| command.args.get("command"));
                used.extend(guard.and_then(Value::as_str));
                expected = Some(&command.expect);
                if !command.label.is_empty() && labels.insert(&command.label, command.background).is_some() {
                    return wrong(format!("{:?} is there already", command.label));
                }
            }
            Action::Await { label, expect } => {
                if labels.get(label.as_str()) != Some(&true) {
                    return wrong(format!("nothing called {label:?} is in the background"));
                }
                expected = Some(expect);
            }
            Action::Pending(label) => used.push(label),
            Action::Relay { guard, .. } => used.push(guard),
            Action::Signal { .. } => signals = true,
            Action::Process { label, .. } if !label.is_empty() && labels.insert(label, false).is_some() => {
                return wrong(format!("{label:?} is there already"));
            }
            Action::Referee { first_grant: Some(first), .. } if !marks.contains(first.after.as_str()) => {
                return wrong(format!("there is no mark {:?}", first.after));
            }
            _ => {}
        }
        if let Some(of) = expected.and_then(|expect| expect.of.as_deref())
            && !marks.contains(of)
            && !labels.contains_key(of)
        {
            return wrong(format!("there is neither a mark nor a name {of:?}"));
        }
        if let Some(missing) = used.iter().find(|label| !labels.contains_key(**label)) {
            return wrong(format!("nothing is called {missing:?}"));
        }
        marks.extend(step.mark.as_deref());
    }
    if scenario.attempts == 1 && scenario.steps.iter().any(|step| step.noise) {
        return Err("what noise can make fail needs more than one of `attempts`".into());
    }
    if signals && !scenario.needs.iter().any(|need| need == "shared") {
        return Err("signals need processes, so the scenario needs \"shared\"".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(steps: &str) -> Result<Scenario, String> {
        parse(&format!("title = 'x'\nneeds = ['shared']\nsteps = [{steps}]"))
    }

    #[test]
    fn a_scenario_is_read() {
        let scenario = steps(
            "{ on = 'a', do = 'acquire', lock = 'x', as = 'g', gives = { depth = 1 }, mark = 'm' },
             { on = ['b', 'c'], do = 'acquire', lock = 'x', as = 'w', background = true },
             { on = 'a', do = 'inspect', lock = 'x', until = { waiters = 2 } },
             { signal = 'KILL', to = 'a' },
             { await = 'w', within = 1.5, of = 'm' },
             { referee = true, first_grant = { after = 'm', within = 2.0 } }",
        )
        .unwrap();
        assert_eq!(scenario.steps.len(), 6);
        assert_eq!(scenario.commands(), BTreeSet::from(["acquire", "inspect"]));
        let relay = steps(
            "{ on = 'a', do = 'acquire', lock = 'x', as = 'g' },
             { relay = ['a', 'b', 'c'], lock = 'x', guard = 'g', hops = { quick = 3, full = 9 } }",
        )
        .unwrap();
        assert_eq!((relay.actors(), relay.commands().contains("export")), (3, true));
    }

    #[test]
    fn a_slip_of_the_pen_is_an_error() {
        let slips = [
            ("{ on = 'a', do = 'aquire', as = 'g' }", "no command"),
            ("{ on = 'a', do = 'acquire', lock = 'x', tll = 1, as = 'g' }", "takes no \"tll\""),
            ("{ on = 'a', do = 'acquire', lock = 'x' }", "give it a name"),
            ("{ on = 'a', do = 'release', guard = 'g' }", "nothing is called"),
            ("{ await = 'g' }", "nothing called"),
            ("{ on = 'a', do = 'acquire', lock = 'x', as = 'g' }, { await = 'g' }", "nothing called"),
            ("{ on = 'a', do = 'list', as = 'g' }, { on = 'a', do = 'list', as = 'g' }", "already"),
            ("{ on = 'a', do = 'list', within = 1, of = 'm' }", "neither a mark"),
            ("{ on = 'a', do = 'list', of = 'm' }", "without"),
            ("{ on = 'a', do = 'list', whitin = 1 }", "takes no"),
            ("{ on = ['a', 'b'], do = 'list', as = 'g' }", "several actors"),
            ("{ signal = 'TERM', to = 'a' }", "TERM"),
            ("{ sleep = 1, whatever = 2 }", "whatever"),
            ("{ referee = false }", "leave it out"),
            ("{ relay = ['a'], lock = 'x', guard = 'g', hops = 3 }", "two at least"),
            ("{ relay = ['a', 'b'], lock = 'x', guard = 'g', hops = 3 }", "nothing is called"),
            ("{ referee = true, first_grant = { after = 'm', within = 2.0 } }", "no mark"),
            ("{ }", "no step"),
        ];
        for (text, message) in slips {
            let error = steps(text).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
        let unshared = parse("title = 'x'\nsteps = [{ signal = 'KILL', to = 'a' }]").unwrap_err();
        assert!(unshared.contains("shared"));
        assert!(steps("{ on = 'a', do = 'list', noise = true }").unwrap_err().contains("attempts"));
        assert!(parse("title = 'x'\nstepps = []").is_err());
    }
}
