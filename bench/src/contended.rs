//! S4, S5: many tasks want one lock.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lockwright::blocking::{self, Client};
use serde::{Deserialize, Serialize};

use crate::raw::Raw;
use crate::stats::{micros, percentile, spread};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Processes.
    #[arg(long, default_value_t = 4)]
    processes: usize,
    /// Threads a process.
    #[arg(long, default_value_t = 4)]
    tasks: usize,
    /// Every thread with a client of its own: separate waiters at the store.
    #[arg(long)]
    separate: bool,
    /// First come, first served over all tasks.
    #[arg(long)]
    fair: bool,
    /// Seconds a round.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Rounds.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

#[derive(clap::Args)]
pub(crate) struct Worker {
    #[arg(long)]
    tasks: usize,
    #[arg(long)]
    separate: bool,
    #[arg(long)]
    fair: bool,
    #[arg(long)]
    seconds: f64,
}

/// What one thread did.
#[derive(Default, Serialize, Deserialize)]
struct Tally {
    acquired: u64,
    waits_us: Vec<u32>,
}

pub(crate) fn run(url: &str, options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let mut raw = Raw::connect(url)?;
    let Options { processes, tasks, separate, fair, .. } = *options;
    println!(
        "{processes} processes x {tasks} threads, one lock, fair {fair}, separate clients {separate}, Redis {}",
        raw.version()?
    );
    let (mut hand_offs, mut requests) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        let mut pairs = (0..2000).map(|_| raw.pair()).collect::<Result<Vec<_>, _>>()?;
        let pair = micros(percentile(&mut pairs, 50));
        let before = raw.scripts_run()?;
        let started = Instant::now();
        let tallies = workers(url, options)?;
        let elapsed = started.elapsed().min(Duration::from_secs_f64(options.seconds));
        let scripts = raw.scripts_run()? - before;
        let total: u64 = tallies.iter().map(|tally| tally.acquired).sum();
        let mut waits: Vec<_> =
            tallies.iter().flat_map(|t| &t.waits_us).map(|us| Duration::from_micros((*us).into())).collect();
        let hand_off = micros(elapsed) / total as f64;
        let fair_share = hand_off * tallies.len() as f64;
        let p99 = micros(percentile(&mut waits, 99));
        let most = tallies.iter().map(|tally| tally.acquired).max().unwrap_or(0);
        let least = tallies.iter().map(|tally| tally.acquired).min().unwrap_or(0);
        println!(
            "round {round}: raw pair {pair:.1} us, {:.0}/s, hand-off {:.3} raw pairs, {:.3} requests an acquisition, \
             p99 wait {:.2} x fair share, max/min a task {:.3}",
            total as f64 / elapsed.as_secs_f64(),
            hand_off / pair,
            scripts as f64 / total as f64,
            p99 / fair_share,
            most as f64 / least.max(1) as f64,
        );
        hand_offs.push(hand_off / pair);
        requests.push(scripts as f64 / total as f64);
    }
    println!("min/median/max: hand-off {} raw pairs, requests {}", spread(hand_offs), spread(requests));
    Ok(())
}

/// Starts all processes, lets them begin together, and gathers what they did.
fn workers(url: &str, options: &Options) -> Result<Vec<Tally>, Box<dyn std::error::Error>> {
    let mut children = Vec::new();
    for _ in 0..options.processes {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--url", url, "worker"]).args(["--tasks", &options.tasks.to_string()]);
        command.args(["--seconds", &options.seconds.to_string()]);
        command.args(options.separate.then_some("--separate")).args(options.fair.then_some("--fair"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut out = BufReader::new(child.stdout.take().ok_or("no stdout")?);
        out.read_line(&mut String::new())?;
        children.push((child, out));
    }
    for (child, _) in &mut children {
        child.stdin.take().ok_or("no stdin")?.write_all(b"go\n")?;
    }
    let mut tallies = Vec::new();
    for (mut child, mut out) in children {
        let mut line = String::new();
        out.read_line(&mut line)?;
        tallies.extend(serde_json::from_str::<Vec<Tally>>(&line)?);
        child.wait()?;
    }
    Ok(tallies)
}

pub(crate) fn work(url: &str, worker: &Worker) -> Result<(), Box<dyn std::error::Error>> {
    let shared = blocking::connect(url)?;
    let client = || if worker.separate { blocking::connect(url) } else { Ok(shared.clone()) };
    let clients = (0..worker.tasks).map(|_| client()).collect::<Result<Vec<_>, _>>()?;
    println!("ready");
    std::io::stdin().lock().read_line(&mut String::new())?;
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = clients
        .into_iter()
        .map(|client| {
            let (stop, fair) = (stop.clone(), worker.fair);
            std::thread::spawn(move || contend(&client, fair, &stop))
        })
        .collect();
    std::thread::sleep(Duration::from_secs_f64(worker.seconds));
    stop.store(true, Ordering::Relaxed);
    let mut tallies = Vec::new();
    for thread in threads {
        tallies.push(thread.join().map_err(|_| "a thread panicked")??);
    }
    println!("{}", serde_json::to_string(&tallies)?);
    Ok(())
}

fn contend(client: &Client, fair: bool, stop: &AtomicBool) -> Result<Tally, lockwright::Error> {
    let lock = client.lock("bench:contended");
    let lock = if fair { lock.fair() } else { lock }.build()?;
    let mut tally = Tally::default();
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        let guard = lock.acquire()?;
        tally.waits_us.push(u32::try_from(start.elapsed().as_micros()).unwrap_or(u32::MAX));
        tally.acquired += 1;
        guard.release()?;
    }
    Ok(tally)
}
