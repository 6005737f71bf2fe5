//! Runs the scenarios, or lists them.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use lockwright_conformance::bad_input::{self, Asked};
use lockwright_conformance::run::{self, Report, Selection, Suite};
use lockwright_conformance::torture::{self, languages};
use lockwright_conformance::{interop, matrix, rows};

/// One suite of scenarios for every face and store.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Play scenarios; ends with a line `N passed, N failed, N skipped`.
    Run {
        /// Only this face (or team, such as rust+python); may be repeated.
        #[arg(long = "face")]
        faces: Vec<String>,
        /// Only this store; may be repeated.
        #[arg(long = "store")]
        stores: Vec<String>,
        /// Only this scenario; may be repeated.
        #[arg(long = "scenario")]
        scenarios: Vec<String>,
        /// Also what has the day off: of each scenario and store one team, and one at full length, by the seed.
        #[arg(long)]
        full: bool,
        /// Play everything this many times.
        #[arg(long, default_value_t = 1)]
        times: u32,
        /// How many scenarios are played at a time.
        #[arg(long, default_value_t = 4)]
        jobs: usize,
        /// In which order they are played: the seed that another run printed.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Give every face what it cannot honour, and servers, files and disks that fail it; ends with the same line.
    BadInput {
        /// Only this face; may be repeated.
        #[arg(long = "face")]
        faces: Vec<String>,
        /// Only this row; may be repeated.
        #[arg(long = "row")]
        rows: Vec<String>,
        /// Write docs/errors.md from what the errors say.
        #[arg(long)]
        write: bool,
    },
    /// Play what other libraries and we play together; ends with the same line.
    Interop {
        /// Also what has the day off: of each scenario and store one team, and one at full length, by the seed.
        #[arg(long)]
        full: bool,
        /// Write docs/interop.md from how it ended.
        #[arg(long)]
        write: bool,
        /// How many scenarios are played at a time.
        #[arg(long, default_value_t = 4)]
        jobs: usize,
    },
    /// Workers of all faces count under one lock while they are killed and stopped, the server restarted and the way to
    /// it disturbed.
    Torture {
        /// The store; may be repeated.
        #[arg(long = "store", required = true)]
        stores: Vec<String>,
        /// Only this face; may be repeated.
        #[arg(long = "face")]
        faces: Vec<String>,
        /// How long, for each store.
        #[arg(long, default_value_t = 10.0)]
        minutes: f64,
        /// Which faults come when.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Tasks of each language count under one lock, while one process of each language is killed, members of a cluster
    /// are killed, stopped and cut off, and a server is restarted.
    Languages {
        /// The store; may be repeated.
        #[arg(long = "store", required = true)]
        stores: Vec<String>,
        /// Only languages of these faces; may be repeated.
        #[arg(long = "face")]
        faces: Vec<String>,
        /// How often the counter is raised, by all together.
        #[arg(long, default_value_t = 10_000)]
        increments: u64,
        /// How many tasks of each language.
        #[arg(long, default_value_t = 4)]
        tasks: u64,
        /// How often a server is killed and started again meanwhile.
        #[arg(long, default_value_t = 0)]
        restarts: u64,
        /// Instead of being started again, the server is replaced by a replica, for which its commits wait.
        #[arg(long)]
        replicated: bool,
        /// Who is killed when.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Show scenarios, faces and stores.
    List,
}

fn main() -> ExitCode {
    match obey(Arguments::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("lockwright-conformance: {error}");
            ExitCode::from(2)
        }
    }
}

fn obey(command: Command) -> Result<bool, String> {
    let suite = Suite::read()?;
    match command {
        Command::List => {
            list(&suite);
            Ok(true)
        }
        Command::Run { faces, stores, scenarios, full, times, jobs, seed } => {
            let wanted = Selection { faces, stores, scenarios, full, jobs, patience: 30.0, keep: true, seed };
            let mut sum = (0, 0, 0);
            for _ in 0..times {
                let (passed, failed, skipped) = played(&suite, &wanted)?.counts();
                sum = (sum.0 + passed, sum.1 + failed, sum.2 + skipped);
            }
            println!("{} passed, {} failed, {} skipped", sum.0, sum.1, sum.2);
            Ok(sum.1 == 0)
        }
        Command::Interop { full, write, jobs } => {
            let (scenarios, _) = interop::heading(&suite);
            let scenarios = scenarios.into_iter().map(str::to_owned).collect();
            let report = played(
                &suite,
                &Selection { scenarios, full, jobs, patience: 30.0, keep: true, ..Selection::default() },
            )?;
            let (passed, failed, skipped) = report.counts();
            if write && failed == 0 {
                let path = rows::here().join("../docs/interop.md");
                let page = interop::page(&suite, &report.outcomes, full);
                std::fs::write(&path, page).map_err(|error| format!("{}: {error}", path.display()))?;
            }
            println!("{passed} passed, {failed} failed, {skipped} skipped");
            Ok(failed == 0)
        }
        Command::Torture { stores, faces, minutes, seed } => {
            let mut failed = 0;
            for store in &stores {
                let wanted = torture::Options { store: store.clone(), faces: faces.clone(), minutes, seed };
                failed += usize::from(!torture::run(&suite, &wanted, &|line| println!("{line}"))?);
            }
            println!("{} passed, {failed} failed, 0 skipped", stores.len() - failed);
            Ok(failed == 0)
        }
        Command::Languages { stores, faces, increments, tasks, restarts, replicated, seed } => {
            let mut failed = 0;
            for store in &stores {
                let wanted = languages::Options {
                    store: store.clone(),
                    faces: faces.clone(),
                    increments,
                    tasks,
                    restarts,
                    replicated,
                    seed,
                };
                failed += usize::from(!languages::run(&suite, &wanted, &|line| println!("{line}"))?);
            }
            println!("{} passed, {failed} failed, 0 skipped", stores.len() - failed);
            Ok(failed == 0)
        }
        Command::BadInput { faces, rows, write } => {
            bad_input::have_own_mounts();
            let (passed, failed, skipped) = bad_input::run(&Asked { faces, rows, write }, &|line| println!("{line}"))?;
            println!("{passed} passed, {failed} failed, {skipped} skipped");
            Ok(failed == 0)
        }
    }
}

fn played(suite: &Suite, wanted: &Selection) -> Result<Report, String> {
    let report = run::run(suite, wanted, &|line| println!("{line}"))?;
    report.reasons().iter().for_each(|(reason, count)| println!("{count:>5} skipped: {reason}"));
    report.failed().for_each(|triple| println!("FAILED  {triple}"));
    report.unaccounted.iter().for_each(|text| println!("FAILED  {text}"));
    Ok(report)
}

fn list(suite: &Suite) {
    for scenario in &suite.scenarios {
        println!("{:<24} {}", scenario.name, scenario.title);
    }
    let names = |names: Vec<&str>| names.join(", ");
    println!("\nfaces:  {}", names(suite.faces.iter().map(|face| face.name.as_str()).collect()));
    println!("stores: {}", names(suite.stores.iter().map(|store| store.name.as_str()).collect()));
    println!("{} triples", matrix::all(&suite.scenarios, &suite.faces, &suite.stores).len());
}
