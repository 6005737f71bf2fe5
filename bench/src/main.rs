//! Speed of the Rust face, as ratios to the *raw pair*: one acquire script and one compare-and-delete script by EVALSHA on
//! one blocking connection to the same server, measured in the same run.
//!
//! Pin everything to one CPU (`taskset -c 0`, the server too): a pair takes about 28 us when client and server share a warm
//! core and about 110 us when the scheduler parts them, and only ratios of the same regime mean anything.

mod contended;
mod raw;
mod s11;
mod stats;
mod uncontended;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Speed of the Rust face next to raw round trips")]
struct Arguments {
    /// The server, such as redis://127.0.0.1:7379.
    #[arg(long, env = "LOCKWRIGHT_TEST_REDIS")]
    url: String,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// S1: acquire and release a free lock, one thread.
    Uncontended(uncontended::Options),
    /// S4, S5: many tasks, one lock.
    Contended(contended::Options),
    /// S11: very many locks, held and renewed by one process.
    S11(s11::Options),
    /// One process of `contended`; started by it.
    #[command(hide = true)]
    Worker(contended::Worker),
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Arguments { url, what } = Arguments::parse();
    match what {
        What::Uncontended(options) => uncontended::run(&url, &options),
        What::Contended(options) => contended::run(&url, &options),
        What::S11(options) => s11::run(&url, &options).map_err(|error| error as Box<dyn std::error::Error>),
        What::Worker(worker) => contended::work(&url, &worker),
    }
}
