use std::ffi::OsString;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use clap::Args;
use lockwright::blocking::{Client, Guard, Lock};
use lockwright::lease::{Inspection, LossReason, ReleaseOutcome};
use lockwright::{Error, Kind, Result};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_process_group, test_kill_process_group, waitpgid, waitpid,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::Signals;

use crate::args::{StoreArgs, What, internal, parse_span};
use crate::terminal::{self, Terminal};
use crate::warden::{Limits, Warden, Word};
use crate::{clock, exit, output, start};

/// Runs a command while holding a lock: waits for it, renews it, gives it back.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Run {
    /// The lock's name: 1 to 1024 bytes of UTF-8
    name: String,
    /// Do not wait: exit with 75 if the lock is taken
    #[arg(long = "try", conflicts_with = "timeout")]
    try_: bool,
    /// Wait at most this long for other holders, then exit with 75 [default: for ever]
    #[arg(long, value_name = "SPAN", value_parser = parse_span, allow_hyphen_values = true)]
    timeout: Option<Duration>,
    /// Exit with this code instead of 75 if the lock is taken; 0 for cron, where another host's run is success
    #[arg(long, value_name = "CODE")]
    if_taken: Option<u8>,
    /// Say nothing while waiting, and nothing if the lock is taken; errors are still told
    #[arg(long, short)]
    quiet: bool,
    /// Keep the lock at least this long, also when the command is done earlier
    #[arg(long, value_name = "SPAN", value_parser = parse_span, allow_hyphen_values = true)]
    at_least_for: Option<Duration>,
    /// The lease: how long the lock stays taken if this process dies, 20ms to 24h; renewed every third of it [default:
    /// 30s]
    #[arg(long, value_name = "SPAN", value_parser = parse_span, allow_hyphen_values = true)]
    ttl: Option<Duration>,
    /// How long before the end of the lease the command gets SIGTERM, at most half the ttl [default: ttl/4, at most 5s]
    #[arg(long, value_name = "SPAN", value_parser = parse_span, allow_hyphen_values = true)]
    kill_grace: Option<Duration>,
    /// Stop renewing, and end the command, once the lock was held for this long [default: never]
    #[arg(long, value_name = "SPAN", value_parser = parse_span, allow_hyphen_values = true)]
    max_hold: Option<Duration>,
    /// First come, first served over all processes [default: processes take turns]
    #[arg(long)]
    fair: bool,
    /// With --fair: how urgent it is, 0 to 9; higher ranks go first, and 10 s of waiting count as one rank [default: 0]
    #[arg(long, value_name = "RANK")]
    rank: Option<u8>,
    /// Let others ask for the lock back, where the store has a message for that (ZooKeeper): the command gets SIGTERM
    /// then, and the lock is given back once it has ended
    #[arg(long)]
    revocable: bool,
    #[command(flatten)]
    what: What,
    /// A text that others see when they inspect the lock, at most 128 bytes
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// Let the command have the password in LOCKWRIGHT_URL
    #[arg(long)]
    pass_password: bool,
    /// The command and its arguments, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const HELP: &str = "\
Spans are written 500ms, 10s, 2m, 1h; a bare number is seconds.

The command finds the fencing token in LOCKWRIGHT_TOKEN and the lock's name in LOCKWRIGHT_LOCK. SIGINT, SIGTERM, SIGHUP, \
SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH and SIGTSTP are passed on to it. While it waits for the lock, the first four end the wait.

If the lease cannot be renewed, the command's whole process group gets SIGTERM, and SIGKILL before the lease can end: the \
command never runs beside the lock's next holder. That also holds when lockwright itself is stopped or killed, even by \
SIGKILL: a small process beside it watches, and the lock is not free before that one has ended the command. If that one is \
killed too (pkill -9 lockwright, an out-of-memory kill of a whole container), the command itself is killed, but not what it \
started. What leaves the process group is not reached: daemons, and the jobs of an interactive shell. What the command leaves \
running in its group when it ends is ended before the lock is released. While a command is stopped with Ctrl-Z its lock is \
not renewed, so it is killed when its lease ends.

A name is one thing: a lock, a read/write lock (--read, --write) or a semaphore (--permits).

--at-least-for is for cron on several hosts: if their clocks differ, one host may start a short job after another has \
finished it. SIGINT, SIGQUIT and SIGTERM end that wait, too, and so does whoever asks for a --revocable lock.

A password in LOCKWRIGHT_URL is not passed on to the command: it finds the address without user and password there, unless \
--pass-password is given. LOCKWRIGHT_URL_FILE is left as it is.

Exit codes: the command's own, or 128 + n if signal n ended it; 73 lock lost, 75 lock taken or timeout (see --if-taken), 126 \
and 127 command not started; the others as in lockwright --help.

Examples:
  lockwright run nightly-report --try --quiet --if-taken 0 --at-least-for 5m -- ./report.sh
  lockwright run deploy --timeout 10m --label \"$USER\" -- sh -c 'kubectl apply -f app.yaml'
  lockwright run encoder --permits 4 -- ffmpeg -i in.mov out.mp4";

/// What `run` waits for, one after the other.
enum Event {
    Signal(i32),
    Settled(Box<Result<Guard>>),
    /// Who has the lock that is waited for.
    Seen(Box<Inspection>),
    Closed,
    Stopped(i32),
    Ended(u8),
    Lost(LossReason),
    /// Somebody asks for the lock back.
    Wanted,
    Warden(Word),
}

impl Run {
    pub(crate) fn go(self, store: &StoreArgs) -> Result<u8> {
        let client = store.open()?;
        let lock = self.lock(&client)?;
        let limits = self.limits(lock.options().ttl)?;
        let (tell, events) = mpsc::channel();
        listen(tell.clone())?;
        let waiter = (lock.clone(), tell.clone());
        std::thread::spawn(move || waiter.1.send(Event::Settled(Box::new(waiter.0.acquire()))));
        let patience = (!self.quiet).then_some(&*self.name);
        let guard = match wait(&client, &events, &tell, patience) {
            Ok(Waited::Granted(guard)) => *guard,
            Ok(Waited::Interrupted(signal)) => return Ok(exit::by_signal(signal)),
            Err(error) if error.kind() == Kind::Timeout && self.quiet => return Ok(self.taken()),
            Err(error) if error.kind() == Kind::Timeout => {
                output::complain(&self.refused(&client, error).to_string());
                return Ok(self.taken());
            }
            Err(error) => return Err(self.what.explain(&client, &self.name, error)),
        };
        let granted = clock::now();
        let watch = tell.clone();
        guard.on_lost(move |reason| drop(watch.send(Event::Lost(reason.clone()))));
        let watch = tell.clone();
        guard.on_release_requested(move || drop(watch.send(Event::Wanted)));

        let times = (granted, lock.options().ttl);
        let done = Running::start(&self, &guard, times, limits, tell).and_then(|mut running| {
            let code = running.see_through(&guard, &events)?;
            Ok((code, running.interrupted))
        });
        match (done, self.at_least_for) {
            (Err(error), _) => {
                let_go(guard);
                Err(error)
            }
            (Ok((code, false)), Some(span)) => {
                let until = granted.saturating_add(nanos(span));
                if go_on_holding(&guard, &events, until) { give_back(guard, code) } else { Ok(code) }
            }
            (Ok((code, _)), _) => give_back(guard, code),
        }
    }

    fn lock(&self, client: &Client) -> Result<Lock> {
        let builder = self.what.of(client, &self.name);
        let mut options = builder.current_options().clone();
        options.ttl = self.ttl.unwrap_or(options.ttl);
        options.max_hold = self.max_hold.or(options.max_hold);
        options.fair |= self.fair;
        options.rank = self.rank.unwrap_or(options.rank);
        options.revocable |= self.revocable;
        options.timeout = if self.try_ { Some(Duration::ZERO) } else { self.timeout.or(options.timeout) };
        if let Some(label) = &self.label {
            options.label = Some(label.as_str().into());
        }
        builder.options(options).build()
    }

    /// Who has the lock: who only tries was not told by the store.
    fn refused(&self, client: &Client, error: Error) -> Error {
        let seen = client.inspect(&self.name).ok().filter(|_| self.try_);
        let Some(who) = seen.and_then(|seen| output::holding(&seen, seen.waiters)) else { return error };
        Error::new(error.kind(), "run", who).on_lock(&*self.name).on_store(client.address())
    }

    fn taken(&self) -> u8 {
        self.if_taken.unwrap_or(exit::TAKEN)
    }

    fn limits(&self, ttl: Duration) -> Result<Limits> {
        let grace = self.kill_grace.unwrap_or_else(|| (ttl / 4).min(Duration::from_secs(5)));
        if grace > ttl / 2 {
            let message = format!(
                "kill-grace is {grace:?}; it must be at most half the ttl of {ttl:?}, which is renewed by thirds"
            );
            return Err(Error::invalid("run", message));
        }
        Ok(Limits::new(grace))
    }
}

/// Has every signal that a command may be sent arrive as an event. One that is ignored stays so, here and in the
/// command: whoever started us (nohup, a shell's background job) wants that.
fn listen(tell: Sender<Event>) -> Result<()> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    let all = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH];
    let wanted = all.iter().filter(|&&signal| ignored & (1 << (signal - 1)) == 0);
    let mut signals = Signals::new(wanted).map_err(|error| internal("signals cannot be received", error))?;
    std::thread::spawn(move || signals.forever().all(|signal| tell.send(Event::Signal(signal)).is_ok()));
    Ok(())
}

/// How long a wait needs no explanation.
const UNEXPLAINED: Duration = Duration::from_secs(1);

enum Waited {
    Granted(Box<Guard>),
    Interrupted(i32),
}

/// Waits for the lock. A signal ends the wait: the place in the queue is left before this returns; a second one does
/// not wait for that. Who waits for the lock `named` for a second is told once who has it.
fn wait(client: &Client, events: &Receiver<Event>, tell: &Sender<Event>, named: Option<&str>) -> Result<Waited> {
    let mut interrupted = None;
    let mut explain = named.map(|name| (name, Instant::now() + UNEXPLAINED));
    loop {
        let heard = match explain {
            None => events.recv().ok(),
            Some((name, at)) => match events.recv_timeout(at.saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Timeout) => {
                    explain = None;
                    let (client, tell, name) = (client.clone(), tell.clone(), name.to_owned());
                    std::thread::spawn(move || {
                        client.inspect(&name).map(|seen| tell.send(Event::Seen(Box::new(seen))))
                    });
                    continue;
                }
                heard => heard.ok(),
            },
        };
        let Some(event) = heard else { break };
        match event {
            Event::Seen(seen) => output::complain(&output::waiting_for(&seen)),
            Event::Settled(result) if interrupted.is_none() => {
                return result.map(|guard| Waited::Granted(Box::new(guard)));
            }
            Event::Signal(SIGTSTP) => drop(terminal::stop_job()),
            Event::Signal(signal @ (SIGHUP | SIGINT | SIGQUIT | SIGTERM)) => {
                if interrupted.replace(signal).is_some() {
                    break;
                }
                let (client, tell) = (client.clone(), tell.clone());
                std::thread::spawn(move || {
                    client.close();
                    tell.send(Event::Closed)
                });
            }
            Event::Closed => break,
            _ => {}
        }
    }
    Ok(Waited::Interrupted(interrupted.unwrap_or(SIGTERM)))
}

/// Why a lease ends, where nothing else is known.
const NOT_RENEWED: &str = "no renewal of its lease was answered in time";

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// The command while it runs.
struct Running {
    group: Pid,
    warden: Warden,
    terminal: Terminal,
    limits: Limits,
    ended_by_warden: bool,
    dismissed: bool,
    warden_gone: bool,
    /// The warden went by itself, so the command had to.
    unwatched: bool,
    /// Whether somebody wanted it to end early.
    interrupted: bool,
    reason: Option<LossReason>,
    /// When renewal stops, on the boot clock.
    stops: Option<u64>,
    /// Why the warden acted, as long as no reason is known: it acts before the lock is lost.
    suspicion: &'static str,
}

impl Running {
    /// Starts the command.
    fn start(
        run: &Run,
        guard: &Guard,
        (granted, ttl): (u64, Duration),
        limits: Limits,
        tell: Sender<Event>,
    ) -> Result<Self> {
        let warden = Warden::start(limits, tell.clone(), Event::Warden)?;
        // Whoever may take the lock of a dead process learns that there is another one to wait for. And a lock that was
        // handed over lasts but a second at first.
        lockwright::outlived_by(warden.pid());
        guard.extend(ttl)?;
        let settings = [("LOCKWRIGHT_TOKEN", guard.token().to_string()), ("LOCKWRIGHT_LOCK", guard.name().to_owned())];
        let group = start::begin(&run.command, settings, run.pass_password)?;
        let mut running = Running {
            group,
            warden,
            terminal: Terminal::find(),
            limits,
            ended_by_warden: false,
            dismissed: false,
            warden_gone: false,
            unwatched: false,
            interrupted: false,
            reason: None,
            stops: run.max_hold.map(|span| granted.saturating_add(nanos(span))),
            suspicion: NOT_RENEWED,
        };
        running.tell_warden(guard);
        running.warden.watch(group);
        if running.terminal.is_interactive() {
            running.terminal.lend(group);
        }
        std::thread::spawn(move || report(group, &tell));
        running.signal(&[Signal::CONT]);
        Ok(running)
    }

    /// Looks after the command until nothing of it is left, and says its exit code.
    fn see_through(&mut self, guard: &Guard, events: &Receiver<Event>) -> Result<u8> {
        let code = loop {
            let left = self.tell_warden(guard);
            match events.recv_timeout(self.pause(left)) {
                Ok(Event::Ended(code)) => break code,
                Ok(event) => self.handle(event, guard),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break exit::INTERNAL,
            }
        };
        self.terminal.take_back(self.group);
        self.end_leftovers(guard, events);
        self.warden.dismiss();
        self.dismissed = true;
        while !self.warden_gone {
            match events.recv_timeout(Duration::from_secs(1)) {
                Ok(event) => self.handle(event, guard),
                Err(_) => break,
            }
        }
        if self.unwatched {
            let message = "the process that watches over the command was ended, and so the command; leave it alone";
            return Err(Error::new(Kind::Internal, "run", message).on_lock(guard.name()));
        }
        if self.ended_by_warden {
            let why = self.reason.take().map_or(self.suspicion, |reason| reason.sentence());
            let message = format!("{why}; the command was ended");
            return Err(Error::new(Kind::Lost, "run", message).on_lock(guard.name()));
        }
        Ok(code)
    }

    /// Passes on until when the lease lasts, and says how long that is.
    fn tell_warden(&mut self, guard: &Guard) -> Duration {
        let at = clock::now();
        let left = guard.remaining();
        self.warden.lasts(at, left);
        left
    }

    /// How long a renewal may go unnoticed: the closer the warden is to acting, the shorter.
    fn pause(&self, left: Duration) -> Duration {
        (left.saturating_sub(self.limits.grace) / 4).max(Duration::from_millis(2))
    }

    fn handle(&mut self, event: Event, guard: &Guard) {
        match event {
            Event::Signal(signal) => {
                self.interrupted |= matches!(signal, SIGINT | SIGQUIT | SIGTERM);
                self.signal(&Vec::from_iter(Signal::from_named_raw(signal)));
            }
            Event::Stopped(signal) => self.stopped(signal),
            Event::Lost(reason) => {
                self.reason = Some(reason);
                self.tell_warden(guard);
            }
            Event::Wanted => {
                self.interrupted = true;
                output::complain(&format!("asked for: somebody wants {:?} back: ending the command", guard.name()));
                self.signal(&[Signal::TERM]);
            }
            Event::Warden(Word::Term) => {
                self.ended_by_warden = true;
                let left = guard.remaining();
                // A lease that was last renewed just before --max-hold ends behind it, any other before.
                if self.stops.is_some_and(|stops| clock::now().saturating_add(nanos(left)) >= stops) {
                    self.suspicion = "--max-hold was reached";
                }
                // After having been stopped we are late to say so.
                if !left.is_zero() {
                    let (name, left) = (guard.name(), output::span(left));
                    output::complain(&format!("lost: the lease of {name:?} ends in {left}: ending the command"));
                }
            }
            Event::Warden(Word::Kill) => self.ended_by_warden = true,
            Event::Warden(Word::Gone) => {
                self.warden_gone = true;
                if !self.ended_by_warden && !self.dismissed {
                    self.unwatched = true;
                    self.signal(&[Signal::KILL]);
                }
            }
            _ => {}
        }
    }

    /// The command was stopped: by the terminal's Ctrl-Z, or because it asked for a terminal that is not its own.
    fn stopped(&mut self, signal: i32) {
        let wants_terminal = matches!(Signal::from_named_raw(signal), Some(Signal::TTIN | Signal::TTOU));
        if wants_terminal && self.terminal.lend(self.group) {
            return self.signal(&[Signal::CONT]);
        }
        if !wants_terminal && signal != SIGTSTP {
            // Somebody stopped just this process, and will continue it.
            return;
        }
        let lent = self.terminal.take_back(self.group);
        let stopped = terminal::stop_job();
        if lent {
            self.terminal.lend(self.group);
        }
        if wants_terminal && !stopped {
            // It would ask again for ever.
            self.signal(&[Signal::HUP]);
        }
        self.signal(&[Signal::CONT]);
    }

    /// Ends what the command left running: it would go on without the lock.
    fn end_leftovers(&mut self, guard: &Guard, events: &Receiver<Event>) {
        let began = Instant::now();
        let grace = self.limits.grace;
        let steps = [(Duration::ZERO, Signal::TERM), (Duration::ZERO, Signal::CONT), (grace, Signal::KILL)];
        let mut steps = steps.into_iter().peekable();
        while self.is_alive() && began.elapsed() < grace + Duration::from_secs(1) {
            while let Some((_, signal)) = steps.next_if(|(after, _)| began.elapsed() >= *after) {
                self.signal(&[signal]);
            }
            self.tell_warden(guard);
            if let Ok(event) = events.recv_timeout(Duration::from_millis(10)) {
                self.handle(event, guard);
            }
        }
    }

    /// Whether anything is left of the group.
    fn is_alive(&self) -> bool {
        // As process 1 of a container we inherit orphans, and they count until they are waited for.
        while let Ok(Some(_)) = waitpgid(self.group, WaitOptions::NOHANG) {}
        test_kill_process_group(self.group).is_ok()
    }

    fn signal(&self, signals: &[Signal]) {
        for signal in signals {
            // It may just have ended.
            let _ = kill_process_group(self.group, *signal);
        }
    }
}

/// Waits for the command and reports what becomes of it.
fn report(command: Pid, tell: &Sender<Event>) {
    loop {
        let event = match waitpid(Some(command), WaitOptions::UNTRACED) {
            Err(rustix::io::Errno::INTR) | Ok(None) => continue,
            Err(_) => Event::Ended(exit::INTERNAL),
            Ok(Some((_, status))) => match status.stopping_signal() {
                Some(signal) => Event::Stopped(signal),
                None => Event::Ended(code(status)),
            },
        };
        let last = matches!(event, Event::Ended(_));
        if tell.send(event).is_err() || last {
            return;
        }
    }
}

fn code(status: WaitStatus) -> u8 {
    let by_signal = status.terminating_signal().map(exit::by_signal);
    by_signal.or_else(|| u8::try_from(status.exit_status()?).ok()).unwrap_or(exit::ERROR)
}

/// Holds the lock until then, or until a signal; whether it was not lost meanwhile.
fn go_on_holding(guard: &Guard, events: &Receiver<Event>, until: u64) -> bool {
    loop {
        let left = Duration::from_nanos(until.saturating_sub(clock::now()));
        if left.is_zero() {
            return true;
        }
        // In slices, since this wait's clock stands still while the machine is suspended.
        match events.recv_timeout(left.min(Duration::from_secs(1))) {
            Ok(Event::Signal(SIGHUP | SIGINT | SIGQUIT | SIGTERM) | Event::Wanted) => return true,
            Ok(Event::Signal(SIGTSTP)) => drop(terminal::stop_job()),
            Ok(Event::Lost(reason)) => {
                let why = reason.sentence();
                output::complain(&format!(
                    "lost: {:?} was not held for all of --at-least-for: {why}; the command had ended before",
                    guard.name()
                ));
                return false;
            }
            _ => {}
        }
    }
}

/// Gives back what may be lost already. Once its lease is over there is nothing to wait for.
fn let_go(guard: Guard) {
    let left = guard.remaining();
    let (tell, done) = mpsc::channel();
    std::thread::spawn(move || {
        drop(guard.release());
        tell.send(())
    });
    let _ = done.recv_timeout(left);
}

fn give_back(guard: Guard, code: u8) -> Result<u8> {
    let name = guard.name().to_owned();
    match guard.release()? {
        ReleaseOutcome::Released | ReleaseOutcome::Kept(_) => Ok(code),
        ReleaseOutcome::Unknown => {
            output::complain(&format!(
                "unavailable: the store did not answer the release of {name:?}; if it is still taken, it is free when its lease ends"
            ));
            Ok(code)
        }
        ReleaseOutcome::Expired | ReleaseOutcome::StolenBy(_) => {
            let message = "the lock was no longer held when the command ended; check what the command did";
            Err(Error::new(Kind::Lost, "run", message).on_lock(name))
        }
    }
}
