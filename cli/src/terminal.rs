//! The terminal and its foreground group.
//!
//! The command runs in a process group of its own, so that all of it can be ended at once and nothing else with it. A
//! terminal serves one group: an interactive command gets it at its start, any other when it asks for it by reading.
//! When the command is stopped (Ctrl-Z), so is the job that we belong to, and both go on together.

use std::fs::File;
use std::io::IsTerminal;

use nix::sys::signal::{SigSet, Signal as Masked};
use rustix::process::{Pid, Signal, getpgrp, getppid, getsid, kill_current_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

#[derive(Debug)]
pub(crate) struct Terminal {
    /// The controlling terminal.
    device: Option<File>,
    /// Whether the command has it.
    lent: bool,
}

impl Terminal {
    pub(crate) fn find() -> Self {
        Terminal { device: File::options().read(true).write(true).open("/dev/tty").ok(), lent: false }
    }

    /// Whether the command is one that a person types to.
    pub(crate) fn is_interactive(&self) -> bool {
        std::io::stdin().is_terminal()
    }

    /// Gives the terminal to `group` if it is ours to give; whether `group` has it now.
    pub(crate) fn lend(&mut self, group: Pid) -> bool {
        if let Some(device) = &self.device
            && tcgetpgrp(device).is_ok_and(|front| front == getpgrp())
        {
            self.lent = tcsetpgrp(device, group).is_ok();
        }
        self.lent
    }

    /// Takes back what was lent, if nobody else has taken it; whether it was lent.
    pub(crate) fn take_back(&mut self, group: Pid) -> bool {
        let lent = std::mem::take(&mut self.lent);
        if let Some(device) = &self.device
            && lent
            && tcgetpgrp(device).is_ok_and(|front| front == group)
        {
            // Who is in the background and asks for the terminal is stopped, unless it blocks the signal.
            let mut background = SigSet::empty();
            background.add(Masked::SIGTTOU);
            let blocked = background.thread_block();
            let _ = tcsetpgrp(device, getpgrp());
            if blocked.is_ok() {
                let _ = background.thread_unblock();
            }
        }
        lent
    }
}

/// Stops the job that this process belongs to until somebody continues it. Where nobody could, does nothing, says so.
pub(crate) fn stop_job() -> bool {
    let session = getsid(None).ok();
    let watched = getppid().and_then(|parent| getsid(Some(parent)).ok());
    session.is_some() && session == watched && kill_current_process_group(Signal::STOP).is_ok()
}
