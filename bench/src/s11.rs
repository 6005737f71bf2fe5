//! S11: very many locks, held and renewed by one process.

use std::time::{Duration, Instant};

use lockwright::blocking::{Client, Guard};
use lockwright::options::ConnectOptions;
use serde::Serialize;

use crate::Result;
use crate::contender::{Contend, Raw, nanos};
use crate::machine::listener;
use crate::server::{Redis, Server, address};
use crate::stats::quantile;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Locks held at once.
    #[arg(long, default_value_t = 100_000)]
    pub(crate) locks: usize,
    /// Seconds that a lease lasts; it is renewed every third of it.
    #[arg(long, default_value_t = 30)]
    pub(crate) ttl: u64,
    /// Seconds over which the steady state is measured.
    #[arg(long, default_value_t = 60)]
    pub(crate) seconds: u64,
    /// Seconds for which the server, which must run on this host, is stopped; 0 leaves it alone.
    #[arg(long, default_value_t = 0)]
    pub(crate) outage: u64,
    /// Pairs of another lock, before and while the others are held.
    #[arg(long, default_value_t = 5000)]
    pub(crate) pairs: usize,
}

/// What was seen; times in seconds.
#[derive(Debug, Default, Serialize)]
struct Seen {
    store: String,
    locks: usize,
    idle_kib: u64,
    held_kib: u64,
    bytes_a_lock: f64,
    peak_kib: u64,
    acquire_us_a_lock: f64,
    threads: u64,
    cpu_a_minute: f64,
    renewals: u64,
    round_trips: u64,
    /// Commands that the server counted, where it counts.
    commands: Option<u64>,
    locks_a_request: f64,
    lost: u64,
    pair_us_before: f64,
    pair_us_held: f64,
    raw_pair_us_before: Option<f64>,
    raw_pair_us_held: Option<f64>,
    #[serde(flatten)]
    outage: Option<Outage>,
    close_s: f64,
    close_round_trips: u64,
    held_at_server: Option<usize>,
    left_at_server: Option<usize>,
}

#[derive(Debug, Default, Serialize)]
struct Outage {
    outage_s: u64,
    outage_lost: u64,
    outage_round_trips: u64,
    outage_cpu: f64,
    /// What was left of the lease nearest to its end, when the server returned.
    outage_shortest_left_s: f64,
    /// From the server's return until every lease was renewed.
    outage_over_after_s: f64,
}

pub(crate) fn run(url: &str, options: &Options) -> Result<()> {
    let is_redis = url.starts_with("redis");
    let mut server = is_redis.then(|| Redis::connect(url)).transpose()?;
    let mut raw = is_redis.then(|| Raw::connect(url)).transpose()?;
    let connecting =
        ConnectOptions { prefix: format!("bench:s11:{}:", std::process::id()), ..ConnectOptions::default() };
    let client = Client::open(Some(url), connecting)?;
    let mut seen = Seen { store: client.address().to_owned(), locks: options.locks, ..Seen::default() };
    let first = client.lock("first").ttl(Duration::from_secs(options.ttl)).acquire()?;
    (seen.pair_us_before, seen.raw_pair_us_before) = pairs(&client, &mut raw, options.pairs)?;
    seen.idle_kib = memory("VmRSS:")?;

    let started = Instant::now();
    let mut guards = Vec::with_capacity(options.locks);
    for i in 0..options.locks {
        guards.push(client.lock(&format!("{i:06}")).ttl(Duration::from_secs(options.ttl)).acquire()?);
    }
    seen.acquire_us_a_lock = started.elapsed().as_secs_f64() * 1e6 / options.locks as f64;

    // By then every lock was renewed at least once, and renewals have found their ticks.
    std::thread::sleep(Duration::from_secs(options.ttl * 2 / 3));
    seen.held_kib = memory("VmRSS:")?;
    seen.bytes_a_lock = (seen.held_kib.saturating_sub(seen.idle_kib) * 1024) as f64 / options.locks as f64;
    steady(&client, &mut server, options, &mut seen)?;
    (seen.pair_us_held, seen.raw_pair_us_held) = pairs(&client, &mut raw, options.pairs)?;
    if is_redis && options.outage > 0 {
        seen.outage = Some(outage(&client, url, &guards, options)?);
    }
    seen.lost = client.metrics().lost.total();
    seen.threads = threads()?;

    let held = |server: &mut Option<Redis>| {
        let keys = format!("*bench:s11:{}:*", std::process::id());
        server.as_mut().map(|server| server.held(&keys)).transpose()
    };
    seen.held_at_server = held(&mut server)?;
    if seen.held_at_server.is_some_and(|held| held != options.locks + 1) {
        return Err(format!("the server says {:?} locks are held, not all of them", seen.held_at_server).into());
    }
    let before = client.metrics().round_trips;
    let started = Instant::now();
    client.close();
    seen.close_s = started.elapsed().as_secs_f64();
    seen.close_round_trips = client.metrics().round_trips - before;
    seen.peak_kib = memory("VmHWM:")?;
    seen.left_at_server = held(&mut server)?;
    drop((guards, first));
    println!("{}", serde_json::to_string_pretty(&seen)?);
    Ok(())
}

fn steady(client: &Client, server: &mut Option<Redis>, options: &Options, seen: &mut Seen) -> Result<()> {
    let scripts = ["eval", "evalsha"].map(str::to_owned);
    let commands = |server: &mut Option<Redis>| server.as_mut().map(|server| server.calls(&scripts)).transpose();
    let (before, commands_before, cpu_before) = (client.metrics(), commands(server)?, cpu()?);
    let started = Instant::now();
    std::thread::sleep(Duration::from_secs(options.seconds));
    let (cpu, elapsed) = (cpu()? - cpu_before, started.elapsed().as_secs_f64());
    let (after, commands_after) = (client.metrics(), commands(server)?);
    seen.cpu_a_minute = cpu / elapsed * 60.0;
    seen.renewals = after.renewals - before.renewals;
    seen.round_trips = after.round_trips - before.round_trips;
    seen.commands = commands_after.zip(commands_before).map(|(after, before)| after - before);
    seen.locks_a_request = seen.renewals as f64 / seen.commands.unwrap_or(seen.round_trips).max(1) as f64;
    Ok(())
}

fn outage(client: &Client, url: &str, guards: &[Guard], options: &Options) -> Result<Outage> {
    let process = listener(&address(url)?)?.to_string();
    let signal = |name: &str| std::process::Command::new("kill").args([name, &process]).status();
    let (before, cpu_before) = (client.metrics(), cpu()?);
    signal("-STOP")?;
    std::thread::sleep(Duration::from_secs(options.outage));
    signal("-CONT")?;
    let returned = Instant::now();
    let shortest = || guards.iter().map(Guard::remaining).min().unwrap_or_default();
    let shortest_left = shortest();
    // A lease renewed after the return lasts longer than two thirds of the ttl less what is taken off for drift.
    let enough = Duration::from_secs(options.ttl) * 6 / 10;
    while shortest() < enough && returned.elapsed() < Duration::from_secs(options.ttl) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let after = client.metrics();
    Ok(Outage {
        outage_s: options.outage,
        outage_lost: after.lost.total() - before.lost.total(),
        outage_round_trips: after.round_trips - before.round_trips,
        outage_cpu: cpu()? - cpu_before,
        outage_shortest_left_s: shortest_left.as_secs_f64(),
        outage_over_after_s: returned.elapsed().as_secs_f64(),
    })
}

/// The median time of a pair of one more lock, and of a raw pair, in microseconds.
fn pairs(client: &Client, raw: &mut Option<Raw>, count: usize) -> Result<(f64, Option<f64>)> {
    let lock = client.lock("pair").build()?;
    let (mut ours, mut raws) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let start = Instant::now();
        let _ = lock.acquire()?.release()?;
        ours.push(nanos(start));
        if let Some(raw) = raw {
            raws.extend(raw.pairs(1)?);
        }
    }
    let median = |mut ns: Vec<u64>| {
        ns.sort_unstable();
        quantile(&ns, 0.5) as f64 / 1e3
    };
    Ok((median(ours), raw.is_some().then(|| median(raws))))
}

/// KiB of one line of this process's status.
fn memory(line: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let found = status.lines().find_map(|text| text.strip_prefix(line)).ok_or("no such line")?;
    Ok(found.trim().trim_end_matches(" kB").parse()?)
}

fn threads() -> Result<u64> {
    Ok(std::fs::read_dir("/proc/self/task")?.count() as u64)
}

/// Seconds of CPU that the threads there are used so far; none ends while this is compared.
fn cpu() -> Result<f64> {
    let mut nanos = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let stat = std::fs::read_to_string(task?.path().join("schedstat"))?;
        nanos += stat.split(' ').next().unwrap_or_default().parse::<u64>()?;
    }
    Ok(nanos as f64 / 1e9)
}
