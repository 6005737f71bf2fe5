//! The command line's grammar, and what every command shares of it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand};
use lockwright::blocking::{Client, LockBuilder};
use lockwright::guarantee::Requirements;
use lockwright::options::ConnectOptions;
use lockwright::uri::{ENVIRONMENT, span};
use lockwright::{Error, Kind, Result};

use crate::{break_, demo, doctor, exit, inspect, ls, ping, run, schema, start, try_, warden};

/// Runs commands under a distributed lock, and looks at locks.
#[derive(Debug, Parser)]
#[command(name = "lockwright", version, after_help = exit::HELP, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Run),
    Try(try_::Try),
    Inspect(inspect::Inspect),
    Ls(ls::Ls),
    Break(break_::Break),
    Ping(ping::Ping),
    Doctor(doctor::Doctor),
    Schema(schema::Schema),
    Demo(demo::Demo),
    #[command(hide = true)]
    DemoWorker(demo::worker::Worker),
    #[command(hide = true)]
    Start(start::Start),
    #[command(hide = true)]
    Warden(warden::Watch),
}

/// The environment variable that names a file with the address in it.
const FILE: &str = "LOCKWRIGHT_URL_FILE";

/// Where locks are kept.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Where the locks are kept")]
pub(crate) struct StoreArgs {
    /// The store, as a URI such as redis://host:6379/0 or sqlite:///var/lib/locks.db; options may ride in it, such as
    /// ?ttl=10s&store_timeout=2s. Everybody on this host can read a password given here (ps shows it): put such an
    /// address into $LOCKWRIGHT_URL or a file [default: $LOCKWRIGHT_URL, else a SQLite file of this user on this host]
    #[arg(long, short, global = true, value_name = "URI", visible_alias = "store")]
    pub(crate) url: Option<String>,
    /// A file whose first line is the address, such as a mounted secret, or /dev/fd/3 for a descriptor
    /// [default: $LOCKWRIGHT_URL_FILE]
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "url")]
    url_file: Option<PathBuf>,
    /// Text before every lock name, so that applications can share a store [default: none]
    #[arg(long, global = true, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,
    /// How the lock is laid out in the store, to share it with other lock libraries [default: the store's own]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) layout: Option<String>,
    /// Which library's locks a layout that has several formats joins, such as redis-py
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) format: Option<String>,
    /// Tell on standard error what happens to locks: a level (error, warn, info, debug, trace), or several of
    /// target=level by commas, such as warn,lockwright::renew=trace [default: nothing]
    #[arg(
        long,
        global = true,
        value_name = "FILTER",
        env = "LOCKWRIGHT_LOG",
        hide_env_values = true,
        help_heading = "Logs"
    )]
    pub(crate) log: Option<String>,
}

/// The store of a command that is about nothing else, named behind it.
#[derive(Debug, Args)]
pub(crate) struct Named {
    /// The store, as --url has it
    #[arg(value_name = "URI")]
    uri: Option<String>,
}

impl Named {
    /// Leads to the place that is named behind the command.
    ///
    /// # Errors
    /// `invalid_config` where two are named.
    pub(crate) fn lead(&mut self, store: &mut StoreArgs) -> Result<()> {
        match self.uri.take() {
            Some(_) if store.is_named() => Err(Error::invalid(
                "connect",
                "the address is given twice; leave out --url and --url-file, or the other one",
            )),
            Some(url) => {
                store.url = Some(url);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// A setting of the environment that says something.
fn setting(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|text| !text.is_empty())
}

impl StoreArgs {
    /// Reads the address from the file that holds it, once: a descriptor cannot be read again.
    ///
    /// # Errors
    /// `invalid_config` for a file that cannot be read or has no address in it, or where it is not clear which address
    /// is meant.
    pub(crate) fn read_file(&mut self) -> Result<()> {
        if self.url.is_some() {
            return Ok(());
        }
        let by_environment = setting(FILE).map(PathBuf::from);
        let file = match (self.url_file.take(), by_environment) {
            (Some(file), _) => file,
            (None, Some(_)) if setting(ENVIRONMENT).is_some() => {
                let message = format!("{ENVIRONMENT} and {FILE} are both set; unset one of them");
                return Err(Error::invalid("connect", message));
            }
            (None, Some(file)) => file,
            (None, None) => return Ok(()),
        };
        let text = std::fs::read_to_string(&file).map_err(|error| {
            let message = format!("the file {file:?}, which is to hold the address of the store, cannot be read");
            Error::invalid("connect", message).caused_by(error)
        })?;
        let address = text.lines().next().unwrap_or_default().trim();
        if address.is_empty() {
            let message = format!("the file {file:?} has no address in its first line; write one such as redis://host");
            return Err(Error::invalid("connect", message));
        }
        self.url = Some(address.into());
        Ok(())
    }

    /// Whether an option says where.
    pub(crate) fn is_named(&self) -> bool {
        self.url.is_some() || self.url_file.is_some()
    }

    /// A client of the place.
    pub(crate) fn open(&self) -> Result<Client> {
        let mut options = ConnectOptions { language: "cli", ..ConnectOptions::default() };
        if let Some(prefix) = &self.prefix {
            options.prefix.clone_from(prefix);
        }
        let client = Client::open(self.address().as_deref(), options)?;
        // Every command looks at what other processes do: in a store of its own it would find every lock free.
        client.require(Requirements { shared: true, ..Requirements::default() }).map_err(|error| {
            let message = "it excludes only within one process; give --url a store that processes share";
            Error::new(error.kind(), "connect", message).on_store(client.address())
        })?;
        Ok(client)
    }

    /// A layout is an option of the address, so that looking at locks and taking them agree on it.
    fn address(&self) -> Option<String> {
        if self.layout.is_none() && self.format.is_none() {
            return self.url.clone();
        }
        let environment = || setting(ENVIRONMENT).and_then(|text| text.into_string().ok());
        let address = self.url.clone().or_else(environment).unwrap_or_else(|| "sqlite://".into());
        let joint = if address.contains('?') { '&' } else { '?' };
        let mut options = url::form_urlencoded::Serializer::new(String::new());
        options.extend_pairs(self.layout.iter().map(|layout| ("layout", layout)));
        // The address may name a format that goes with its own layout.
        options.append_pair("format", self.format.as_deref().unwrap_or_default());
        Some(format!("{address}{joint}{}", options.finish()))
    }

    /// Leads another process of this program to the same place. An address may hold a password, and arguments are seen
    /// by all.
    pub(crate) fn lead(&self, process: &mut std::process::Command) {
        process.args(self.names()).args(self.log.iter().map(|filter| format!("--log={filter}")));
        if let Some(url) = &self.url {
            process.env(ENVIRONMENT, url).env_remove(FILE);
        }
    }

    /// The arguments by which a command looks at the same names of a store.
    pub(crate) fn names(&self) -> Vec<String> {
        let options = [("--prefix", &self.prefix), ("--layout", &self.layout), ("--format", &self.format)];
        options.iter().filter_map(|(name, value)| value.as_ref().map(|value| format!("{name}={value}"))).collect()
    }
}

/// Keeps what may hold a password from a process that has no use for it.
pub(crate) fn without_address(process: &mut std::process::Command) {
    process.env_remove(ENVIRONMENT).env_remove(FILE);
}

/// Keeps the password of an address from a command, which may use the address all the same: without the address it
/// would find other locks, and not be told.
pub(crate) fn without_password(process: &mut std::process::Command) {
    let Some(address) = std::env::var(ENVIRONMENT).ok().and_then(|text| url::Url::parse(text.trim()).ok()) else {
        return;
    };
    if address.password().is_some() {
        let mut shown = address;
        let done = shown.set_password(None).and_then(|()| shown.set_username(""));
        match done {
            Ok(()) => process.env(ENVIRONMENT, shown.as_str()),
            Err(()) => process.env_remove(ENVIRONMENT),
        };
    }
}

/// Which of the things that a name can be is taken.
#[derive(Debug, Args)]
#[group(id = "what", multiple = true)]
pub(crate) struct What {
    /// Take a read/write lock of that name as a reader, beside other readers
    #[arg(long, conflicts_with_all = ["write", "permits"])]
    read: bool,
    /// Take a read/write lock of that name as the writer, alone
    #[arg(long, conflicts_with = "permits")]
    write: bool,
    /// Take a permit of the semaphore of that name, of which there are this many, 1 to 1000000
    #[arg(long, value_name = "N")]
    permits: Option<u32>,
    /// How many permits to take [default: 1]
    #[arg(long, value_name = "N", requires = "permits")]
    take: Option<u32>,
}

impl What {
    pub(crate) fn of(&self, client: &Client, name: &str) -> LockBuilder {
        match self.permits {
            Some(permits) => client.semaphore(name, permits).take(self.take.unwrap_or(1)),
            None if self.read => client.rwlock(name).read(),
            None if self.write => client.rwlock(name).write(),
            None => client.lock(name),
        }
    }

    /// Says which option to give, where the name is something else of ours than was asked for.
    pub(crate) fn explain(&self, client: &Client, name: &str, error: Error) -> Error {
        if error.kind() != Kind::ForeignLayout {
            return error;
        }
        let seen = client.inspect(name).ok();
        let permits = seen.as_ref().and_then(|seen| seen.shared.as_ref()?.permits);
        let is = match seen.and_then(|seen| seen.primitive) {
            Some("rwlock") if !self.read && !self.write => "a read/write lock; use --read or --write".to_owned(),
            Some("semaphore") if self.permits.is_none() => {
                let permits = permits.map_or("N".to_owned(), |permits| permits.to_string());
                format!("a semaphore; use --permits {permits}")
            }
            Some("lock") if self.read || self.write || self.permits.is_some() => {
                "a plain lock; leave out --read, --write and --permits".to_owned()
            }
            Some(kind @ ("latch" | "barrier")) => format!("a {kind}, which cannot be held; choose another name"),
            _ => return error,
        };
        Error::new(error.kind(), error.operation(), format!("this name is {is}"))
            .on_lock(name)
            .on_store(client.address())
    }
}

/// A span of time such as `500ms`, `10s` or `2m`.
pub(crate) fn parse_span(text: &str) -> std::result::Result<Duration, String> {
    span("it", text).map_err(|error| error.context().to_owned())
}

/// What clap found wrong, in one line.
pub(crate) fn one_line(error: &clap::Error) -> String {
    let unknown = || match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) if error.kind() == ErrorKind::UnknownArgument => Some(word),
        _ => None,
    };
    if let Some(word) = unknown().filter(|word| !word.starts_with('-'))
        && std::env::args_os().any(|word| word == "run")
    {
        return format!("put -- before the command, as in: lockwright run NAME -- {word} ...");
    }
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<_> = first.trim_start_matches("error: ").split_whitespace().collect();
    words.join(" ")
}

/// A new process of this very program, also when its file was replaced meanwhile.
pub(crate) fn this_program() -> Result<std::process::Command> {
    let running = std::path::Path::new("/proc/self/exe");
    let path = if running.exists() { Ok(running.to_owned()) } else { std::env::current_exe() };
    path.map(std::process::Command::new).map_err(|error| internal("the path of lockwright itself is unknown", error))
}

/// An error of the operating system, which the reader can only look at.
pub(crate) fn internal(message: &'static str, source: std::io::Error) -> Error {
    Error::new(Kind::Internal, "run", message).caused_by(source)
}
