//! Figures: how fast Lockwright is next to its peers and to the *raw pair* — one acquire script and one
//! compare-and-delete script by EVALSHA on one blocking connection to the same server, in the same run. `scripts/bench`
//! runs it, `bench/README.md` says how it works, `docs/bench` has what it measured.

mod chart;
mod contender;
mod entrant;
mod machine;
mod page;
mod report;
mod rows;
mod run;
mod s11;
mod server;
mod stats;
mod talk;
mod targets;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Parser)]
#[command(about = "Figures next to peers and raw round trips")]
struct Arguments {
    /// The server of `s11`, such as redis://127.0.0.1:7379.
    #[arg(long, env = "LOCKWRIGHT_TEST_REDIS", default_value = "redis://127.0.0.1:7379")]
    url: String,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Measures rows, and writes figures, pages and pictures.
    Run(run::Options),
    /// Writes pages and pictures again, from the figures in each folder.
    Render { folders: Vec<PathBuf> },
    /// The contenders in Rust; started by `run`.
    #[command(hide = true, subcommand)]
    Contender(contender::Options),
    /// S11: very many locks, held and renewed by one process.
    S11(s11::Options),
}

fn main() -> ExitCode {
    let Arguments { url, what } = Arguments::parse();
    let done = match what {
        What::Run(options) => run::run(&options),
        What::Render { folders } => folders.iter().try_for_each(|folder| page::render(folder)),
        What::Contender(options) => contender::run(&options),
        What::S11(options) => s11::run(&url, &options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
