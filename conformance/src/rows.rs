//! The rows of `faces.toml` and `stores.toml`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::protocol;
use crate::scenario::Scenario;
use crate::shim::Failure;

/// What is not possible, and why.
pub type Reasons = BTreeMap<String, String>;

/// A face.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Face {
    #[serde(skip)]
    pub name: String,
    #[serde(default)]
    pub folder: String,
    pub command: Vec<String>,
    /// For a library that is not ours: the store where we keep locks as it does.
    pub joins: Option<String>,
    /// For such a library, where its locks are of another recipe than ours there: it waits for ours, and ours are
    /// refused beside its own.
    #[serde(default)]
    pub beside: bool,
    /// For such a library: its version, with which that in the peer's greeting has to begin, where there is one.
    pub version: Option<String>,
    /// The stores that it has, where it has not all of them.
    #[serde(default)]
    pub stores: Vec<String>,
    /// What it says to the address of any other, where it has not all of them.
    pub refuses: Option<Refusal>,
    /// Why it plays no scenarios, and takes part in the table of bad input alone.
    pub no_scenarios: Option<String>,
    /// Whether each of its commands is a process, so that only stores are of use that processes share.
    #[serde(default)]
    pub process_each: bool,
    /// For a library that is not ours: whom it meets unless everything is asked for, and why not the others.
    pub only: Option<Meets>,
    /// For another way to the library of a face: all that it plays unless everything is asked for, and why not more. It
    /// plays alone unless its language has no other, and takes part in the table of bad input where it is named, or has
    /// not every store.
    pub daily: Option<Part>,
    /// What it is built into, for one that not every machine can build.
    pub built: Option<Built>,
    /// Threads of its runtime, which come and go by themselves and are not counted; where it has such, no play waits
    /// for the others to end, either, unless it says so.
    pub own_threads: Option<OwnThreads>,
    /// Why one thing is done at a time in it, so that its tasks are processes.
    pub one_thread: Option<String>,
    #[serde(default)]
    pub cannot: Reasons,
}

/// See [`Face::own_threads`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnThreads {
    /// What the names of such threads begin with, as the operating system has them: 15 bytes at most.
    pub named: Vec<String>,
    pub reason: String,
}

/// See [`Face::refuses`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// What the addresses begin with that it takes.
    pub but: String,
    pub fails: String,
    pub says: String,
}

impl Refusal {
    /// Whether it is this that `failure` of opening `uri` says. Several addresses are another one than each of them.
    pub fn is(&self, uri: &str, failure: &Failure) -> bool {
        let other = !uri.starts_with(&self.but) || uri.contains(' ');
        other && failure.code == self.fails && failure.message.contains(&self.says)
    }
}

/// See [`Face::only`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Meets {
    pub faces: Vec<String>,
    /// Other teams that it is in, by the scenario that these play.
    #[serde(default)]
    pub also: BTreeMap<String, Vec<String>>,
    pub reason: String,
}

/// A file or folder from the root of the tree, and why it may not be there.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Built {
    pub file: String,
    pub reason: String,
}

impl Meets {
    /// Whether it meets this team in that scenario.
    pub fn meets(&self, scenario: &str, team: &str) -> bool {
        let also = self.also.get(scenario).is_some_and(|teams| teams.iter().any(|other| other == team));
        also || team.split('+').any(|face| self.faces.iter().any(|known| known == face))
    }
}

/// A store.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    #[serde(skip)]
    pub name: String,
    /// In `core/src/stores`; a store outside the crate says where from the root of the tree.
    pub folder: String,
    /// The faces that have it: a store outside the crate is in the programs that register it. Without any, all have.
    #[serde(default)]
    pub faces: Vec<String>,
    pub uri: Option<String>,
    pub service: Option<String>,
    /// What is put behind the service's URI instead of the options that it has there.
    pub options: Option<String>,
    /// What is put behind the options that the service's URI has.
    pub further: Option<String>,
    /// Whether a lock's ttl is at most that of the address: then a scenario's longest is put there.
    #[serde(default)]
    pub ttl_in_address: bool,
    /// How many servers a cluster has. Its service tells which of them leads for the lock of a name (`leader`), does to
    /// one what `befall` says (`member`), and waits until all serve (`whole`).
    pub members: Option<u8>,
    /// For how many seconds its servers are left alone at least after each failure; half a second unless it says.
    pub calm: Option<f64>,
    /// The longest ttl that a lock may have there, in seconds.
    pub longest_ttl: Option<f64>,
    /// Whether none of its servers fails, but what the lock of a name is in moves from one to another (`move`).
    #[serde(default)]
    pub moves: bool,
    /// Whether its servers send clients to one another, past any proxy.
    #[serde(default)]
    pub redirects: bool,
    /// The key that a lock `{lock}` is kept under, where that is not its name.
    pub key: Option<String>,
    /// Why nothing is played there but with the library that joins it, and torture.
    pub peers_only: Option<String>,
    /// Promises that only the server could deny, and denies here.
    #[serde(default)]
    pub promises: BTreeMap<String, bool>,
    /// All that is played there by one face at a time, unless everything is asked for, and why not more. Two faces play
    /// each, in turn.
    pub only: Option<Part>,
    #[serde(default)]
    pub cannot: Reasons,
}

/// See [`Store::only`] and [`Face::daily`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    pub scenarios: Vec<String>,
    pub reason: String,
}

/// What a store may be able to do for a test.
pub const ABILITIES: [&str; 28] = [
    "restart",
    "count",
    "foreign",
    "line",
    "native",
    "rank",
    "rwlock",
    "change",
    "semaphore",
    "latch",
    "barrier",
    "claim",
    "gone",
    "lease",
    "own_ttl",
    "prompt",
    "holder_age",
    "revocable",
    "together",
    "size",
    "wake",
    "card",
    "list",
    "break",
    "by_name",
    "kinds",
    "part_of_second",
    "any_name",
];

/// This folder.
pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read<T: DeserializeOwned>(file: &str) -> Result<BTreeMap<String, T>, String> {
    let text = fs::read_to_string(here().join(file)).map_err(|error| format!("{file}: {error}"))?;
    toml::from_str(&text).map_err(|error| format!("{file}: {error}"))
}

/// Every face. The reasons may name commands and the scenarios given.
pub fn faces(scenarios: &[Scenario]) -> Result<Vec<Face>, String> {
    let rows = read::<Face>("faces.toml")?;
    let faces: Vec<_> = rows.into_iter().map(|(name, face)| Face { name, ..face }).collect();
    for face in &faces {
        let is_scenario = |name: &str| scenarios.iter().any(|s| s.name == name);
        let known = |name: &str| {
            protocol::command(name).is_some() || is_scenario(name.strip_prefix("scenario ").unwrap_or(name))
        };
        if let Some(stale) = face.cannot.keys().find(|name| !known(name)) {
            return Err(format!(
                "faces.toml: {} cannot {stale:?}, which is neither a command nor a scenario",
                face.name
            ));
        }
    }
    Ok(faces)
}

/// Every library whose locks are joined: a folder in `interop` each, with its row.
pub fn peers() -> Result<Vec<Face>, String> {
    let entries = fs::read_dir(here().join("interop")).map_err(|error| format!("interop: {error}"))?;
    let mut folders: Vec<_> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    folders.sort();
    let peer = |name: String| {
        let file = here().join("interop").join(&name).join("peer.toml");
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let row: Face = toml::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(Face { folder: format!("conformance/interop/{name}"), name, ..row })
    };
    folders.into_iter().map(peer).collect()
}

/// Every store. A part of the suite names scenarios of those given.
pub fn stores(scenarios: &[Scenario]) -> Result<Vec<Store>, String> {
    let rows = read::<Store>("stores.toml")?;
    let stores: Vec<_> = rows.into_iter().map(|(name, store)| Store { name, ..store }).collect();
    for store in &stores {
        if let Some(stale) = store.cannot.keys().find(|name| !ABILITIES.contains(&name.as_str())) {
            return Err(format!("stores.toml: {} cannot {stale:?}; there is no such ability", store.name));
        }
        let parts = store.only.iter().flat_map(|only| &only.scenarios);
        if let Some(stale) = parts.into_iter().find(|name| !scenarios.iter().any(|s| s.name == **name)) {
            return Err(format!("stores.toml: {} plays only {stale:?}; there is no such scenario", store.name));
        }
        if store.uri.is_some() == store.service.is_some() {
            return Err(format!("stores.toml: {} needs either `uri` or `service`", store.name));
        }
    }
    Ok(stores)
}

impl Face {
    /// Why it cannot be played on this machine.
    pub fn absent(&self) -> Option<&str> {
        let built = self.built.as_ref()?;
        (!here().join("..").join(&built.file).exists()).then_some(&built.reason)
    }

    /// The command that starts its shim.
    pub fn start(&self) -> Command {
        let bin = std::env::current_exe().ok().and_then(|path| path.parent().map(Path::to_owned)).unwrap_or_default();
        // A test of this crate lies one folder below the programs.
        let bin = if bin.ends_with("deps") { bin.parent().unwrap_or(&bin).to_owned() } else { bin };
        let fill = |part: &String| {
            part.replace("{bin}", &bin.to_string_lossy())
                .replace("{here}", &here().to_string_lossy())
                .replace("{tools}", &here().join("../.tools/interop").to_string_lossy())
                .replace("{python}", &python().to_string_lossy())
        };
        let mut parts = self.command.iter().map(fill);
        let mut command = Command::new(parts.next().unwrap_or_default());
        command.args(parts);
        command
    }
}

fn python() -> PathBuf {
    let venv = std::env::var_os("VIRTUAL_ENV").map_or_else(|| here().join("../.tools/venv"), PathBuf::from);
    venv.join("bin/python")
}

/// A store that is there, for the time of a run.
#[derive(Debug)]
pub struct RunningStore {
    pub store: Store,
    /// What its service says; it stays where it is.
    address: String,
    started: bool,
}

impl RunningStore {
    /// Starts the store's server, unless it runs already.
    pub fn start(store: Store) -> Result<Self, String> {
        let mut place = RunningStore { store, address: String::new(), started: false };
        if place.store.service.is_some() {
            let runs = place.service(&["uri"]);
            place.started = runs.is_err();
            place.address = runs.or_else(|_| place.service(&["start"]))?;
        }
        Ok(place)
    }

    /// Where a scenario finds it.
    pub fn uri(&self, name: &str, folder: &Path) -> String {
        let uri = match (&self.store.uri, &self.store.options) {
            (Some(uri), _) => uri.replace("{name}", name).replace("{folder}", &folder.to_string_lossy()),
            (None, Some(options)) => format!("{}?{options}", self.address.split('?').next().unwrap_or_default()),
            (None, None) => self.address.clone(),
        };
        self.store.further.iter().fold(uri, |uri, further| with(&uri, further))
    }

    /// The same for what this scenario asks of it.
    pub fn uri_for(&self, scenario: &Scenario, name: &str, folder: &Path) -> String {
        self.uri_of(scenario.longest_ttl(), name, folder)
    }

    /// The same for whoever holds for that ttl, in seconds, at most.
    pub fn uri_of(&self, ttl: f64, name: &str, folder: &Path) -> String {
        let uri = self.uri(name, folder);
        match self.store.ttl_in_address {
            true => with(&uri, &format!("ttl={ttl}s")),
            false => uri,
        }
    }

    /// Kills the server and starts it on the same data.
    pub fn restart(&self) -> Result<(), String> {
        self.service(&["restart"]).map(drop)
    }

    /// How many requests it has served that concern locks.
    pub fn requests(&self) -> Result<u64, String> {
        let answer = self.service(&["requests"])?;
        answer.parse().map_err(|_| format!("{} says {answer:?} requests", self.store.name))
    }

    /// Puts something of another kind where the lock `name` would lie.
    pub fn plant_foreign(&self, name: &str) -> Result<(), String> {
        let key = self.store.key.as_ref().map(|key| key.replace("{lock}", name));
        self.service(&["foreign", key.as_deref().unwrap_or(name)]).map(drop)
    }

    /// What lies there for locks whose name has `part` in it and would never go away by itself, a line each.
    pub fn residue(&self, part: &str) -> Result<String, String> {
        if self.store.service.is_none() {
            return Ok(String::new());
        }
        self.service(&["residue", part])
    }

    fn service(&self, words: &[&str]) -> Result<String, String> {
        let service = self.store.service.as_deref().ok_or_else(|| format!("{} has no service", self.store.name))?;
        ask(service, words)
    }
}

/// An address with further options.
fn with(uri: &str, options: &str) -> String {
    format!("{uri}{}{options}", if uri.contains('?') { '&' } else { '?' })
}

/// Has a script of `services` do something; what it says.
///
/// # Errors
/// When it fails, with what it said then.
pub fn ask(service: &str, words: &[&str]) -> Result<String, String> {
    let mut command = Command::new(here().join("services").join(service));
    let output = command.args(words).stdin(Stdio::null()).output().map_err(|error| format!("{service}: {error}"))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{service} {}: {}", words.join(" "), error.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

impl Drop for RunningStore {
    fn drop(&mut self) {
        if self.started
            && let Err(error) = self.service(&["stop"])
        {
            eprintln!("{error}");
        }
    }
}
