//! The warden: a process of its own that ends a command before the lease it runs under can end.
//!
//! `run` cannot do that for itself. When it is killed, stopped or starved it renews nothing, and the command would work
//! on beside the lock's next holder. The warden knows the command's process group and until when the lease lasts; it
//! asks the group to end (SIGTERM) when only the grace is left, and kills it just before the lease ends or as soon as
//! `run` is gone; then it stays until all of it is dead, because the lock of a dead `run` may be taken over once its
//! warden is gone, too. It lives in a session of its own, where neither the terminal nor a signal to the job reaches
//! it.
//!
//! | it reads      | meaning                                             | it writes | meaning              |
//! |---------------|-----------------------------------------------------|-----------|----------------------|
//! | `until NANOS` | the lease lasts until then, on the boot clock       | `ready`   | it watches from now  |
//! | `group PID`   | what to end                                         | `term`    | it asked to end      |
//! | `done`        | nothing is left to end; without it the pipe's end kills | `kill` | it killed           |

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use clap::Args;
use lockwright::Result;
use rustix::process::{Pid, Signal, kill_process_group, setsid, test_kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM};

use crate::args::{internal, this_program, without_address};
use crate::{clock, exit};

/// How long before the end of the lease the warden acts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Asks to end.
    pub(crate) grace: Duration,
    /// Kills. What is killed needs a moment to be gone, on a busy machine a longer one.
    pub(crate) margin: Duration,
}

impl Limits {
    pub(crate) fn new(grace: Duration) -> Self {
        let margin = (grace / 5).clamp(Duration::from_millis(2), Duration::from_millis(500)).min(grace);
        Limits { grace, margin }
    }
}

/// What the warden did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Term,
    Kill,
    Gone,
}

/// `run`'s end of it.
#[derive(Debug)]
pub(crate) struct Warden {
    process: Child,
    orders: Option<ChildStdin>,
    until: u64,
}

impl Warden {
    /// Starts a warden and waits until it watches. `heard` turns its words into what `events` carries.
    pub(crate) fn start<E: Send + 'static>(limits: Limits, events: Sender<E>, heard: fn(Word) -> E) -> Result<Self> {
        let failed = |error| internal("the process that watches over the command could not be started", error);
        let span = |span: Duration| format!("{}ms", span.as_secs_f64() * 1e3);
        let mut process = this_program()?;
        without_address(&mut process);
        let mut process = process
            .arg("warden")
            .args(["--grace", &span(limits.grace), "--margin", &span(limits.margin)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let orders = process.stdin.take();
        let mut words =
            BufReader::new(process.stdout.take().ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?).lines();
        let ready = words.next().transpose().map_err(failed)?;
        if ready.as_deref() != Some("ready") {
            return Err(failed(std::io::ErrorKind::UnexpectedEof.into()));
        }
        std::thread::spawn(move || {
            for word in words.map_while(std::io::Result::ok) {
                let word = if word == "kill" { Word::Kill } else { Word::Term };
                drop(events.send(heard(word)));
            }
            drop(events.send(heard(Word::Gone)));
        });
        Ok(Warden { process, orders, until: 0 })
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Says how much longer the lease lasts, `measured` after `at`. Says nothing that the warden knows.
    pub(crate) fn lasts(&mut self, at: u64, remaining: Duration) {
        let until = if remaining.is_zero() { 0 } else { at.saturating_add(nanos(remaining)) };
        // The same deadline, measured twice, differs by the time that measuring takes.
        if until.abs_diff(self.until) > 100_000 {
            self.until = until;
            self.order(format_args!("until {until}"));
        }
    }

    /// Says what is to be ended.
    pub(crate) fn watch(&mut self, group: Pid) {
        self.order(format_args!("group {group}"));
    }

    /// Sends it away: nothing is left to end.
    pub(crate) fn dismiss(&mut self) {
        self.order(format_args!("done"));
        self.orders = None;
    }

    /// A warden that is gone is heard as [`Word::Gone`], so a lost order needs no other report.
    fn order(&mut self, order: std::fmt::Arguments<'_>) {
        if let Some(orders) = &mut self.orders {
            drop(writeln!(orders, "{order}"));
        }
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        self.orders = None;
        drop(self.process.wait());
    }
}

/// The warden's own side.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    #[arg(long, value_parser = crate::args::parse_span)]
    grace: Duration,
    #[arg(long, value_parser = crate::args::parse_span)]
    margin: Duration,
}

#[derive(Debug, Default)]
struct Ward {
    until: u64,
    group: Option<Pid>,
    asked: bool,
}

impl Watch {
    pub(crate) fn go(self) -> Result<u8> {
        let _ = setsid();
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE] {
            // A handler that does nothing: whoever ends `run` by name must not end its warden first.
            drop(signal_hook::flag::register(signal, Arc::default()));
        }
        say("ready");
        let input = std::io::stdin();
        let (mut ward, mut unread, mut buffer) = (Ward::default(), Vec::new(), [0; 4096]);
        loop {
            let Some(next) = self.act(&mut ward) else { return Ok(exit::OK) };
            if !clock::readable_by(input.as_fd(), next) {
                continue;
            }
            match input.lock().read(&mut buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(count) if count > 0 => unread.extend_from_slice(&buffer[..count]),
                _ => {
                    ward.signal(&[Signal::KILL]);
                    // A store that sees that `run` is dead gives the lock away once we are gone, too.
                    ward.outlive();
                    return Ok(exit::OK);
                }
            }
            while let Some(end) = unread.iter().position(|&byte| byte == b'\n') {
                let order: Vec<_> = unread.drain(..=end).collect();
                if !ward.obey(String::from_utf8_lossy(&order).trim()) {
                    return Ok(exit::OK);
                }
            }
        }
    }

    /// Does what is due; says when something is due again, or `None` when there is nothing left to do.
    #[allow(clippy::option_option)]
    fn act(&self, ward: &mut Ward) -> Option<Option<u64>> {
        if ward.group.is_none() {
            return Some(None);
        }
        let left = ward.until.saturating_sub(clock::now());
        if left <= nanos(self.margin) {
            ward.signal(&[Signal::KILL]);
            say("kill");
            return None;
        }
        if left > nanos(self.grace) {
            ward.asked = false;
            return Some(Some(ward.until - nanos(self.grace)));
        }
        if !ward.asked {
            ward.asked = true;
            ward.signal(&[Signal::TERM, Signal::CONT]);
            say("term");
        }
        Some(Some(ward.until - nanos(self.margin)))
    }
}

impl Ward {
    /// Takes an order; whether there is more to come.
    fn obey(&mut self, order: &str) -> bool {
        match order.split_once(' ') {
            Some(("until", nanos)) => self.until = nanos.parse().unwrap_or_default(),
            Some(("group", pid)) => self.group = pid.parse().ok().and_then(Pid::from_raw),
            _ => return false,
        }
        true
    }

    /// Waits until all that was killed is dead, or the lease over.
    fn outlive(&self) {
        while self.group.is_some_and(is_alive) && clock::now() < self.until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn signal(&self, signals: &[Signal]) {
        if let Some(group) = self.group {
            for signal in signals {
                let _ = kill_process_group(group, *signal);
            }
        }
    }
}

/// Whether any process of the group lives. The dead whom nobody collects are asked for by their state, where that is
/// shown.
fn is_alive(group: Pid) -> bool {
    if test_kill_process_group(group).is_err() {
        return false;
    }
    let Ok(processes) = std::fs::read_dir("/proc") else { return true };
    let (mut seen, number) = (false, group.as_raw_nonzero().to_string());
    for process in processes.flatten() {
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        // Behind the name, which may hold anything, come the state, the parent and the group: proc(5).
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
        let (state, of) = (fields.next(), fields.nth(1));
        if of == Some(&number) {
            seen = true;
            if !matches!(state, Some("Z" | "X")) {
                return true;
            }
        }
    }
    !seen && test_kill_process_group(group).is_ok()
}

fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    drop(writeln!(out, "{word}").and_then(|()| out.flush()));
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
