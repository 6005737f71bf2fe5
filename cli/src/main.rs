//! The `lockwright` command: runs a program under a lock, and looks at locks.

mod args;
mod break_;
mod clock;
mod demo;
mod doctor;
mod exit;
mod inspect;
mod log;
mod ls;
mod output;
mod ping;
mod run;
mod schema;
mod start;
mod terminal;
mod try_;
mod warden;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::args::{Cli, Command};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            return match error.print() {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::from(exit::INTERNAL),
            };
        }
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            drop(error.print());
            return ExitCode::from(exit::USAGE);
        }
        Err(error) => {
            output::complain(&format!("invalid_config: {}; see lockwright --help", args::one_line(&error)));
            return ExitCode::from(exit::USAGE);
        }
    };
    let Cli { mut store, mut command } = cli;
    let result = log::start(store.log.as_deref()).and_then(|()| match &mut command {
        Command::Start(_) | Command::Warden(_) => Ok(()),
        Command::Ping(ping) => ping.named.lead(&mut store).and_then(|()| store.read_file()),
        Command::Doctor(doctor) => doctor.named.lead(&mut store).and_then(|()| store.read_file()),
        Command::Schema(schema) => schema.named.lead(&mut store).and_then(|()| store.read_file()),
        _ => store.read_file(),
    });
    let result = result.and_then(|()| match command {
        Command::Run(run) => run.go(&store),
        Command::Try(try_) => try_.go(&store),
        Command::Inspect(inspect) => inspect.go(&store),
        Command::Ls(ls) => ls.go(&store),
        Command::Break(break_) => break_.go(&store),
        Command::Ping(ping) => ping.go(&store),
        Command::Doctor(doctor) => doctor.go(&store),
        Command::Schema(schema) => schema.go(&store),
        Command::Demo(demo) => demo.go(&store),
        Command::DemoWorker(worker) => worker.go(&store),
        Command::Start(start) => start.go(),
        Command::Warden(warden) => warden.go(),
    });
    let code = result.unwrap_or_else(|error| {
        output::complain(&error.to_string());
        exit::code_of(error.kind())
    });
    ExitCode::from(code)
}
