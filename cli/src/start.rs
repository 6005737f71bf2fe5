//! The first moment of a command: a process that is not the command yet.
//!
//! The command must not run before its warden knows it, or a `run` that is killed or stopped just then would leave it
//! alone. So what `run` starts stops itself, is made known, is lent the terminal, and becomes the command when it is
//! continued.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;
use lockwright::{Error, Result};
use rustix::process::{Pid, Signal, WaitOptions, getpid, getppid, kill_process, waitpid};

use crate::args::{internal, this_program, without_password};
use crate::{exit, output};

#[derive(Debug, Args)]
pub(crate) struct Start {
    /// Who started it
    #[arg(long)]
    parent: u32,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Starts `command` in a process group of its own, as far as that it waits to be continued.
pub(crate) fn begin(command: &[OsString], settings: [(&str, String); 2], pass_password: bool) -> Result<Pid> {
    let failed = |error| internal("no process could be started for the command", error);
    let mut starter = this_program()?;
    starter.args(["start", "--parent", &std::process::id().to_string(), "--"]).args(command);
    if !pass_password {
        without_password(&mut starter);
    }
    let process = starter.envs(settings).process_group(0).spawn().map_err(failed)?;
    let group = Pid::from_child(&process);
    loop {
        match waitpid(Some(group), WaitOptions::UNTRACED) {
            Err(rustix::io::Errno::INTR) | Ok(None) => {}
            Ok(Some((_, status))) if status.stopped() => return Ok(group),
            Ok(Some(_)) => return Err(failed(std::io::ErrorKind::Interrupted.into())),
            Err(error) => return Err(failed(error.into())),
        }
    }
}

impl Start {
    pub(crate) fn go(self) -> Result<u8> {
        // Should the warden be killed together with `run`, at least the command itself goes too.
        #[cfg(target_os = "linux")]
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(refused)?;
        self.check_parent()?;
        kill_process(getpid(), Signal::STOP).map_err(refused)?;
        self.check_parent()?;
        let mut words = self.command.iter();
        let program = words.next().map(OsString::as_os_str).unwrap_or_default();
        let error = Command::new(program).args(words).exec();
        output::complain(&format!("invalid_config: run: {} cannot be started: {error}", program.to_string_lossy()));
        Ok(if error.kind() == std::io::ErrorKind::NotFound { exit::NOT_FOUND } else { exit::NOT_EXECUTABLE })
    }

    /// Whoever was to see to the command may be gone.
    fn check_parent(&self) -> Result<()> {
        let parent = getppid().map(|pid| pid.as_raw_nonzero().get());
        if parent.and_then(|pid| u32::try_from(pid).ok()) == Some(self.parent) {
            return Ok(());
        }
        Err(Error::invalid("run", "the process that holds the lock is gone, so the command is not started"))
    }
}

fn refused(error: rustix::io::Errno) -> Error {
    internal("the command cannot be made ready", error.into())
}
