mod progress;
mod shop;
mod tally;
pub(crate) mod worker;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use clap::Args;
use lockwright::Result;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use self::progress::Progress;
use self::shop::Shop;
use self::tally::Tally;
use crate::args::{StoreArgs, internal, this_program};
use crate::{clock, exit, output};

/// Sells a limited stock from many processes through one lock, while one of them is killed and one stopped.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Demo {
    /// How many processes sell
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,
    /// How many items there are to sell
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    stock: u32,
    /// Sell without any lock, to see what it is good for
    #[arg(long = "unsafe")]
    unsafe_: bool,
}

const HELP: &str = "\
Stock and ledger are plain files: each process reads the stock, thinks for 1 to 4 ms, and writes it back one lower. On the \
way one process is killed (SIGKILL) while it holds the lock, and one is stopped (SIGSTOP) until its lease of 1 s has ended: \
it must notice that it lost the lock, and the shop refuses its fencing token.

The last line is the verdict: `oversold` counts items that were sold twice. Hand-off is the time from one holder's release \
to the next one's grant, over all pairs of holders; for the killed and the stopped one it begins with the signal, so the \
longest two contain what their leases still lasted. Exits with 0 when nothing was oversold, or with --unsafe.

Examples:
  lockwright demo
  lockwright demo --store redis://127.0.0.1 --workers 8 --stock 1000
  lockwright demo --unsafe";

const TTL: Duration = Duration::from_secs(1);

/// Beyond the ttl, so that the stopped holder's lease has certainly ended by the store's clock too.
const STOPPED_FOR: Duration = Duration::from_millis(1200);

/// When nobody takes the lock over from the stopped holder by then, nobody wants it.
const NOBODY_WAITS: Duration = Duration::from_secs(4);

enum Event {
    Line(usize, String),
    Ended(usize),
    Signal(i32),
}

impl Demo {
    pub(crate) fn go(self, store: &StoreArgs) -> Result<u8> {
        let folder = Folder::new()?;
        let shop = Shop::found(&folder.0, u64::from(self.stock)).map_err(unusable)?;
        let lock = folder.0.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let how = if self.unsafe_ {
            "without any lock".to_owned()
        } else {
            let client = store.open()?;
            // A store that does not answer is known before anybody starts.
            client.inspect(&lock)?;
            format!("through one lock on {}", client.address())
        };
        let (tell, events) = mpsc::channel();
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(unusable)?;
        let interrupted = tell.clone();
        std::thread::spawn(move || signals.forever().all(|signal| interrupted.send(Event::Signal(signal)).is_ok()));

        let mut show = Show {
            tally: Tally::default(),
            progress: Progress::new(u64::from(self.stock)),
            crew: Vec::new(),
            stopped: None,
            failure: None,
            start: Box::new(|number| self.start(number, store, &folder.0, &lock)),
            tell,
        };
        show.progress.note(&format!("{} processes sell {} items {how}", self.workers, self.stock));
        for _ in 0..self.workers {
            show.hire()?;
        }
        if let Some(signal) = show.go_on(&events)? {
            return Ok(exit::by_signal(signal));
        }
        if let Some((error, code)) = &show.failure {
            output::complain(error);
            return Ok(*code);
        }
        let verdict = show.tally.verdict(&shop.ledger().map_err(unusable)?);
        show.progress.end();
        Ok(self.conclude(&verdict))
    }

    fn start(&self, number: usize, store: &StoreArgs, folder: &Path, lock: &str) -> Result<Command> {
        let mut command = this_program()?;
        let third = self.stock / 3;
        command.arg("demo-worker").args(["--ttl", &format!("{}ms", TTL.as_millis())]);
        command.args(["--number", &number.to_string()]).arg("--folder").arg(folder);
        command.args(["--kill-at", &(self.stock - third).to_string(), "--stop-at", &third.to_string()]);
        if !self.unsafe_ {
            command.args(["--lock", lock]);
            store.lead(&mut command);
        }
        Ok(command)
    }

    fn conclude(&self, verdict: &tally::Verdict) -> u8 {
        let unsold = u64::from(self.stock).saturating_sub(verdict.sold - verdict.oversold);
        if self.unsafe_ {
            output::note("Without a lock processes read the same stock, and each of them sells the same item.");
        }
        if verdict.together > 0 {
            output::note(&format!("two processes held the lock at once, {} times", verdict.together));
        }
        if unsold > 0 {
            output::note(&format!("{unsold} items were not sold, since processes ended that should not have"));
        }
        output::line(&verdict.to_string());
        let bad = verdict.oversold + verdict.together + unsold > 0;
        if bad && !self.unsafe_ { exit::ERROR } else { exit::OK }
    }
}

struct Show<'a> {
    tally: Tally,
    progress: Progress,
    crew: Vec<Hired>,
    /// The worker that is stopped, the token it holds, and since when.
    stopped: Option<(usize, u64, u64)>,
    failure: Option<(String, u8)>,
    start: Box<dyn Fn(usize) -> Result<Command> + 'a>,
    tell: Sender<Event>,
}

struct Hired {
    process: Child,
    orders: Option<ChildStdin>,
    ended: bool,
}

impl Show<'_> {
    /// Starts one more worker.
    fn hire(&mut self) -> Result<()> {
        let number = self.crew.len() + 1;
        let mut command = (self.start)(number)?;
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(unusable)?;
        let orders = process.stdin.take();
        if let Some(output) = process.stdout.take() {
            let tell = self.tell.clone();
            std::thread::spawn(move || {
                let lines = BufReader::new(output).lines().map_while(std::io::Result::ok);
                lines.for_each(|line| drop(tell.send(Event::Line(number, line))));
                tell.send(Event::Ended(number))
            });
        }
        self.crew.push(Hired { process, orders, ended: false });
        Ok(())
    }

    /// Until everybody has ended, or the signal that ended it all.
    fn go_on(&mut self, events: &Receiver<Event>) -> Result<Option<i32>> {
        while self.crew.iter().any(|worker| !worker.ended) && self.failure.is_none() {
            match events.recv_timeout(Duration::from_millis(50)) {
                Ok(Event::Line(number, line)) => self.hear(number, &line)?,
                Ok(Event::Ended(number)) => self.ended(number),
                Ok(Event::Signal(signal)) => return Ok(Some(signal)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.continue_the_stopped();
        }
        Ok(None)
    }

    fn hear(&mut self, number: usize, line: &str) -> Result<()> {
        let words: Vec<_> = line.split(' ').collect();
        let word = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok()).unwrap_or_default();
        match words.first().copied() {
            Some("granted") => self.tally.granted(word(1), word(2)),
            Some("released") => self.tally.released(word(1), word(2)),
            Some("sold") => self.progress.one_more(),
            Some("waits") if words.get(1) == Some(&"kill") => {
                self.signal(number, Signal::KILL);
                self.tally.ended(clock::now(), word(2));
                let next = self.crew.len() + 1;
                let token = word(2);
                self.progress.note(&format!(
                    "worker {number} killed while it holds the lock with token {token}; worker {next} takes its place"
                ));
                self.hire()?;
            }
            Some("waits") => {
                self.signal(number, Signal::STOP);
                self.tally.ended(clock::now(), word(2));
                self.stopped = Some((number, word(2), clock::now()));
                let token = word(2);
                self.progress.note(&format!(
                    "worker {number} stopped while it holds the lock with token {token}, until its lease has ended"
                ));
            }
            Some("lost") => {
                self.tally.lost(word(1));
                let (token, seen) = (word(1), word(3));
                let fence = if seen > token {
                    format!("the shop has seen token {seen} and would refuse {token}")
                } else {
                    "nobody has taken it over yet".to_owned()
                };
                self.progress.note(&format!("worker {number} noticed that it lost the lock: {fence}"));
            }
            Some("refused") => {
                self.tally.refused();
                let token = word(1);
                self.progress
                    .note(&format!("worker {number} was refused with token {token} although it holds the lock"));
            }
            Some("failed") => {
                let error = line.trim_start_matches("failed ").to_owned();
                let status = self.crew.get_mut(number - 1).and_then(|worker| worker.process.wait().ok());
                let code = status.and_then(|status| u8::try_from(status.code()?).ok());
                self.failure = Some((error, code.unwrap_or(exit::ERROR)));
            }
            _ => {}
        }
        Ok(())
    }

    fn ended(&mut self, number: usize) {
        if let Some(worker) = self.crew.get_mut(number - 1) {
            worker.ended = true;
            drop(worker.process.wait());
        }
    }

    fn continue_the_stopped(&mut self) {
        let Some((number, token, since)) = self.stopped else { return };
        let for_ = Duration::from_nanos(clock::now().saturating_sub(since));
        let others = self.crew.iter().enumerate().any(|(at, worker)| at + 1 != number && !worker.ended);
        let relieved = self.tally.highest() > token || !others || for_ > NOBODY_WAITS;
        if for_ > STOPPED_FOR && relieved {
            self.stopped = None;
            self.signal(number, Signal::CONT);
            if let Some(orders) = self.crew.get_mut(number - 1).and_then(|worker| worker.orders.as_mut()) {
                drop(orders.write_all(b"\n"));
            }
        }
    }

    fn signal(&self, number: usize, signal: Signal) {
        if let Some(worker) = self.crew.get(number - 1) {
            // It was not waited for, so the number is still its own.
            let _ = kill_process(Pid::from_child(&worker.process), signal);
        }
    }
}

impl Drop for Show<'_> {
    fn drop(&mut self) {
        for worker in &mut self.crew {
            drop(worker.process.kill());
            drop(worker.process.wait());
        }
    }
}

/// The folder of the shop, for as long as the demo runs.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("lockwright-demo-{}-{}", std::process::id(), clock::now()));
        std::fs::DirBuilder::new().mode(0o700).create(&path).map_err(unusable)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn unusable(error: std::io::Error) -> lockwright::Error {
    internal("the demo cannot be set up", error)
}
