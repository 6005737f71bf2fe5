//! The command line's grammar, and what every command shares of it.

use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use lockwright::blocking::Client;
use lockwright::guarantee::Requirements;
use lockwright::options::ConnectOptions;
use lockwright::uri::{ENVIRONMENT, span};
use lockwright::{Error, Kind, Result};

use crate::{break_, demo, exit, inspect, ls, run, start, try_, warden};

/// Runs commands under a distributed lock, and looks at locks.
#[derive(Debug, Parser)]
#[command(name = "lockwright", version, after_help = exit::HELP, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) place: Place,
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
    Demo(demo::Demo),
    #[command(hide = true)]
    DemoWorker(demo::worker::Worker),
    #[command(hide = true)]
    Start(start::Start),
    #[command(hide = true)]
    Warden(warden::Watch),
}

/// Where locks are kept.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Where the locks are kept")]
pub(crate) struct Place {
    /// The store, as a URI such as redis://host:6379/0 or sqlite:///var/lib/locks.db; options may ride in it, such as
    /// ?ttl=10s&store_timeout=2s [default: $LOCKWRIGHT_URL, else a SQLite file of this user on this host]
    #[arg(long, short, global = true, value_name = "URI", visible_alias = "store")]
    pub(crate) url: Option<String>,
    /// Text before every lock name, so that applications can share a store [default: none]
    #[arg(long, global = true, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,
    /// How the lock is laid out in the store, to share it with other lock libraries [default: the store's own]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) layout: Option<String>,
    /// Which library's locks a layout that has several formats joins, such as redis-py
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) format: Option<String>,
    /// Tell on standard error what happens to locks: a level (error, warn, info, debug, trace), or several of target=level by
    /// commas, such as warn,lockwright::renew=trace [default: nothing]
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

impl Place {
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
        let environment = || std::env::var(ENVIRONMENT).ok().filter(|text| !text.trim().is_empty());
        let address = self.url.clone().or_else(environment).unwrap_or_else(|| "sqlite://".into());
        let joint = if address.contains('?') { '&' } else { '?' };
        let mut options = url::form_urlencoded::Serializer::new(String::new());
        options.extend_pairs(self.layout.iter().map(|layout| ("layout", layout)));
        // The address may name a format that goes with its own layout.
        options.append_pair("format", self.format.as_deref().unwrap_or_default());
        Some(format!("{address}{joint}{}", options.finish()))
    }

    /// The arguments that lead another process of this program to the same place.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let options = [
            ("--url", &self.url),
            ("--prefix", &self.prefix),
            ("--layout", &self.layout),
            ("--format", &self.format),
            ("--log", &self.log),
        ];
        options.iter().filter_map(|(name, value)| value.as_ref().map(|value| format!("{name}={value}"))).collect()
    }
}

/// A span of time such as `500ms`, `10s` or `2m`.
pub(crate) fn parse_span(text: &str) -> std::result::Result<Duration, String> {
    span("it", text).map_err(|error| error.context().to_owned())
}

/// What clap found wrong, in one line.
pub(crate) fn one_line(error: &clap::Error) -> String {
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
