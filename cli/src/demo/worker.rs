//! One process that sells.
//!
//! It reports to the demo what it does, a line each; times are on the boot clock, which all processes share.
//!
//! | line                        | meaning                                                                        |
//! |-----------------------------|--------------------------------------------------------------------------------|
//! | `granted TIME TOKEN`        | it has the lock                                                                |
//! | `sold ITEM`                 | an item is in the ledger                                                       |
//! | `released TIME TOKEN`       | it gives the lock back from then on                                            |
//! | `waits WHAT TOKEN`          | it holds the lock and goes on once it reads a line: time to kill or stop it    |
//! | `lost TOKEN REASON FENCE`   | it noticed that the lock was lost; the shop has been shown FENCE since         |
//! | `refused TOKEN`             | the shop turned it away although it held the lock                              |
//! | `failed ERROR`              | it gives up                                                                    |

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use clap::Args;
use lockwright::blocking::{Guard, Lock};
use lockwright::{Error, Result};

use super::shop::{Answer, Shop};
use crate::args::{StoreArgs, internal, parse_span};
use crate::{clock, exit};

#[derive(Debug, Args)]
pub(crate) struct Worker {
    #[arg(long)]
    folder: PathBuf,
    #[arg(long)]
    number: usize,
    /// The lock to take for each sale; without one, none is taken
    #[arg(long)]
    lock: Option<String>,
    #[arg(long, value_parser = parse_span)]
    ttl: Duration,
    /// At which height of the stock to wait to be killed
    #[arg(long)]
    kill_at: u64,
    /// At which height of the stock to wait to be stopped
    #[arg(long)]
    stop_at: u64,
}

/// The worker at work.
struct Selling {
    shop: Shop,
    number: usize,
    /// At which height of the stock to wait for what.
    waits: [(u64, &'static str); 2],
    told: Receiver<()>,
    random: u64,
}

impl Worker {
    pub(crate) fn go(self, store: &StoreArgs) -> Result<u8> {
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = std::io::stdin().lock().lines();
            lines.map_while(std::io::Result::ok).for_each(|_| tell.send(()).unwrap_or_default());
            // Nobody listens any more.
            std::process::exit(i32::from(exit::ERROR));
        });
        let mut selling = Selling {
            shop: Shop::at(&self.folder),
            number: self.number,
            waits: [(self.kill_at, "kill"), (self.stop_at, "stop")],
            told,
            random: clock::now() | 1,
        };
        let sold_out = match &self.lock {
            Some(name) => selling.under(&store.open()?.lock(name).ttl(self.ttl).label("lockwright demo").build()?),
            None => selling.without_lock().map_err(shop_broken),
        };
        match sold_out {
            Ok(()) => Ok(exit::OK),
            Err(error) => {
                say(format_args!("failed {error}"));
                Ok(exit::code_of(error.kind()))
            }
        }
    }
}

impl Selling {
    fn under(&mut self, lock: &Lock) -> Result<()> {
        loop {
            let guard = lock.acquire()?;
            say(format_args!("granted {} {}", clock::now(), guard.token().n));
            let more = self.sell_one(&guard).map_err(shop_broken)?;
            say(format_args!("released {} {}", clock::now(), guard.token().n));
            // Whether it was lost meanwhile shows in what the shop sold.
            let _ = guard.release()?;
            if !more {
                return Ok(());
            }
        }
    }

    /// Sells an item; whether there was any.
    fn sell_one(&mut self, guard: &Guard) -> std::io::Result<bool> {
        let token = guard.token().n;
        let Answer::Done(item) = self.shop.look(Some(token))? else {
            self.turned_away(guard)?;
            return Ok(true);
        };
        if item == 0 {
            return Ok(false);
        }
        self.think();
        for (height, what) in self.waits {
            if item == height && self.shop.claims(what) {
                say(format_args!("waits {what} {token}"));
                // Ends also when nobody will ever tell: then this process ends.
                let _ = self.told.recv();
            }
        }
        // Here the lock may be long gone, for whoever was stopped: the token makes sure that the shop knows, too.
        if !guard.is_held() || self.shop.sell(item, self.number, Some(token))? != Answer::Done(()) {
            self.turned_away(guard)?;
        } else {
            say(format_args!("sold {item}"));
        }
        Ok(true)
    }

    fn turned_away(&self, guard: &Guard) -> std::io::Result<()> {
        let token = guard.token().n;
        match guard.why_lost() {
            Some(reason) => say(format_args!("lost {token} {} {}", reason.code(), self.shop.fence()?)),
            None => say(format_args!("refused {token}")),
        }
        Ok(())
    }

    fn without_lock(&mut self) -> std::io::Result<()> {
        loop {
            match self.shop.look(None)? {
                Answer::Done(0) | Answer::Stale(_) => return Ok(()),
                Answer::Done(item) => {
                    self.think();
                    self.shop.sell(item, self.number, None)?;
                    say(format_args!("sold {item}"));
                }
            }
        }
    }

    /// 1 to 4 ms, as if a price were worked out.
    fn think(&mut self) {
        // George Marsaglia, "Xorshift RNGs": any spread of times will do.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        std::thread::sleep(Duration::from_micros(1_000 + self.random % 3_000));
    }
}

fn shop_broken(error: std::io::Error) -> Error {
    internal("the demo's files cannot be used", error)
}

/// Reports; when nobody listens, there is no reason to go on.
fn say(line: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(i32::from(exit::ERROR));
    }
}
