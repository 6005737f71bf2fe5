//! The contenders written in Rust, as one program that speaks the protocol of `bench/README.md`.

mod awaited;
mod barrier;
mod blocking;
mod raw;
mod raw_etcd;
mod raw_postgres;
mod raw_quorum;
mod raw_zookeeper;

pub(crate) use raw::Raw;

use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use lockwright::{Client, Face, Lock};
use serde::Serialize;
use serde_json::json;

use crate::{Result, machine, s11};

#[derive(clap::Subcommand)]
pub(crate) enum Options {
    /// Prints which contenders there are, one JSON object a line.
    List,
    /// Connects, and does what it is told on stdin.
    Work { name: String, url: String },
    /// Acquires a lock as fast as it can, and says so.
    Cold { name: String, url: String },
    /// Holds very many locks, and says what that took.
    Hold { name: String, url: String, locks: usize, ttl: u64, seconds: u64, pairs: usize },
}

/// What all contenders can do. Nanoseconds are those of one acquisition and release.
pub(crate) trait Contend {
    /// Acquires and releases once.
    fn pair(&mut self) -> Result<()>;

    /// Acquires and releases `count` times, and how long each took.
    fn pairs(&mut self, count: usize) -> Result<Vec<u64>> {
        let timed = |_| {
            let start = Instant::now();
            self.pair()?;
            Ok(nanos(start))
        };
        (0..count).map(timed).collect()
    }

    /// Starts a task for each key; they begin at once.
    fn crowd(&mut self, _keys: Vec<String>, _stop: Arc<AtomicBool>) -> Result<Crowd> {
        Err("this contender has one task".into())
    }
}

/// Waits for all tasks of a crowd.
pub(crate) type Crowd = Box<dyn FnOnce() -> Result<Vec<Tally>>>;

/// What one task did.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Tally {
    acquired: u64,
    ns: Vec<u64>,
}

impl Tally {
    /// One more acquisition, begun at `start`; only those before the end count as served.
    fn add(&mut self, start: Instant, stop: &AtomicBool) {
        self.ns.push(nanos(start));
        self.acquired += u64::from(!stop.load(Ordering::Relaxed));
    }
}

const RAW: &str = "Raw pair";
const RAW_AWAITED: &str = "redis-rs, awaited raw pair";
const RAW_CLUSTER: &str = "Raw pair to the key's master";
const RAW_ETCD: &str = "Raw pair of transactions";
const RAW_QUORUM: &str = "Overlapped raw pair to five nodes";
const RAW_POSTGRES: &str = "Raw pair of statements, PostgreSQL";
const RAW_ZOOKEEPER: &str = "Raw pair, create and delete";
const KEPT: &str = "Lockwright Rust";
const WITH_TOKENS: &str = "Lockwright Rust, with tokens";
const ANEW: &str = "Lockwright Rust, lock named anew";
const FAIR: &str = "Lockwright Rust, fair";
const JOINED: &str = "Lockwright Rust, layout redisson";
const JOINED_FAIR: &str = "Lockwright Rust, layout redisson, fair";
const READ_WRITE: &str = "Lockwright Rust, read/write lock";
const SEMAPHORE: &str = "Lockwright Rust, semaphore";
const SEMAPHORE_FAIR: &str = "Lockwright Rust, semaphore, fair";
const AWAITED: &str = "Lockwright Rust, awaited";
const AWAITED_FAIR: &str = "Lockwright Rust, awaited, fair";
const AWAITED_RANKED: &str = "Lockwright Rust, awaited, fair, with a rank";
const BARRIER: &str = "Lockwright Rust, barrier";
const BARE: &str = "Bare process";

pub(crate) fn run(options: &Options) -> Result<()> {
    match options {
        Options::List => list(),
        Options::Work { name, url } => work(open(name, url)?),
        Options::Cold { name, .. } if name == BARE => {
            println!("held");
            Ok(())
        }
        Options::Cold { name: _, url } => {
            let guard = lockwright::blocking::connect(url)?.lock("bench:cold").acquire()?;
            println!("held");
            let _ = guard.release()?;
            Ok(())
        }
        Options::Hold { name: _, url, locks, ttl, seconds, pairs } => {
            s11::run(url, &s11::Options { locks: *locks, ttl: *ttl, seconds: *seconds, outage: 0, pairs: *pairs })
        }
    }
}

fn list() -> Result<()> {
    let crates = crates(&["redis", "tokio", "etcd-client", "tokio-postgres"])?;
    let rustc = machine::rustc();
    let offer = |name: &str, role: &str, rows: &[&str], requests: &[&str]| {
        println!(
            "{}",
            json!({"name": name, "language": "Rust", "role": role, "rows": rows, "requests": requests,
                "versions": {"rustc": rustc, "redis (crate)": crates[0], "tokio (crate)": crates[1],
                "etcd-client (crate)": crates[2], "tokio-postgres (crate)": crates[3]}})
        );
    };
    let ours = ["eval", "evalsha", "Txn", "Range"];
    // On several nodes, where it does without tokens.
    let or_plain = ["eval", "evalsha", "set", "Txn", "Range"];
    offer(RAW, "yardstick", &["S1", "S2", "S3", "S4", "S4Q", "S4B", "S5", "S1R", "S5R", "S1P", "S5P"], &["evalsha"]);
    offer(RAW_CLUSTER, "yardstick", &["S1C", "S5C"], &["evalsha"]);
    offer(RAW_QUORUM, "yardstick", &["S7"], &["evalsha"]);
    offer(RAW_ETCD, "yardstick", &["S8", "S8C"], &["Txn"]);
    // These servers count all requests together.
    offer(RAW_POSTGRES, "yardstick", &["S10", "S10C"], &["all"]);
    offer(RAW_ZOOKEEPER, "yardstick", &["S9", "S9C"], &["all"]);
    offer(
        KEPT,
        "ours",
        &[
            "S1", "S1C", "S3", "S4", "S5", "S5C", "S7", "S8", "S8C", "S9", "S9C", "S10", "S10C", "S10M", "S10MC",
            "S11", "S12",
        ],
        &or_plain,
    );
    offer(WITH_TOKENS, "ours", &["S7"], &ours);
    offer(ANEW, "ours", &["S1"], &ours);
    offer(FAIR, "ours", &["S4", "S5", "S5C", "S8C", "S9C", "S10C", "S10MC"], &ours);
    offer(JOINED, "ours", &["S1", "S5"], &ours);
    offer(JOINED_FAIR, "ours", &["S5"], &ours);
    offer(READ_WRITE, "ours", &["S1R", "S5R"], &ours);
    offer(SEMAPHORE, "ours", &["S1P", "S5P"], &ours);
    offer(SEMAPHORE_FAIR, "ours", &["S5P"], &ours);
    offer(
        AWAITED,
        "ours",
        &["S1C", "S2", "S3", "S4", "S5", "S5C", "S7", "S8", "S8C", "S9", "S9C", "S10", "S10C", "S10M", "S10MC"],
        &or_plain,
    );
    offer(AWAITED_FAIR, "ours", &["S4", "S4Q", "S5", "S8C", "S9C", "S10C", "S10MC"], &ours);
    offer(AWAITED_RANKED, "ours", &["S4", "S4Q"], &ours);
    offer(BARRIER, "ours", &["S4B"], &ours);
    offer(RAW_AWAITED, "peer", &["S2", "S3"], &["evalsha"]);
    offer(BARE, "bare", &["S12"], &[]);
    Ok(())
}

/// The versions of crates that this program was built with.
fn crates(names: &[&str]) -> Result<Vec<String>> {
    let lock: toml::Table = include_str!("../../../Cargo.lock").parse()?;
    let packages = lock.get("package").and_then(|packages| packages.as_array()).ok_or("no packages")?;
    let version = |name: &&str| {
        let named = |package: &&toml::Value| package.get("name").and_then(|n| n.as_str()) == Some(*name);
        let found = packages.iter().find(named).and_then(|package| package.get("version")?.as_str());
        Ok(found.ok_or("not in Cargo.lock")?.to_owned())
    };
    names.iter().map(version).collect()
}

fn open(name: &str, url: &str) -> Result<Box<dyn Contend>> {
    Ok(match name {
        RAW => Box::new(raw::Raw::connect(url)?),
        RAW_CLUSTER => Box::new(raw::Raw::connect_to_cluster(url)?),
        RAW_ETCD => Box::new(raw_etcd::Etcd::connect(url)?),
        RAW_QUORUM => Box::new(raw_quorum::Quorum::connect(url)?),
        RAW_POSTGRES => Box::new(raw_postgres::Postgres::connect(url)?),
        RAW_ZOOKEEPER => Box::new(raw_zookeeper::ZooKeeper::connect(url)?),
        RAW_AWAITED => Box::new(raw::Awaited::connect(url)?),
        KEPT => Box::new(blocking::Blocking::connect(&as_peers(url), Of::Lock)?),
        WITH_TOKENS => Box::new(blocking::Blocking::connect(url, Of::Lock)?),
        ANEW => Box::new(blocking::Anew(lockwright::blocking::connect(url)?)),
        FAIR => Box::new(blocking::Blocking::connect(url, Of::FairLock)?),
        JOINED => Box::new(blocking::Blocking::connect(&joined(url), Of::Lock)?),
        JOINED_FAIR => Box::new(blocking::Blocking::connect(&joined(url), Of::FairLock)?),
        READ_WRITE => Box::new(blocking::Blocking::connect(url, Of::ReadWrite)?),
        SEMAPHORE => Box::new(blocking::Blocking::connect(url, Of::Permit)?),
        SEMAPHORE_FAIR => Box::new(blocking::Blocking::connect(url, Of::FairPermit)?),
        AWAITED => Box::new(awaited::Awaited::connect(&as_peers(url), Of::Lock)?),
        AWAITED_FAIR => Box::new(awaited::Awaited::connect(url, Of::FairLock)?),
        AWAITED_RANKED => Box::new(awaited::Awaited::connect(url, Of::RankedLock)?),
        BARRIER => Box::new(barrier::Meeting::connect(url)?),
        other => return Err(format!("there is no contender {other:?} here").into()),
    })
}

/// The same server, for locks as Redisson keeps them.
fn joined(url: &str) -> String {
    with(url, "layout=redisson")
}

/// The same servers. Where there are several, the peers have no tokens, and ours do without them.
fn as_peers(url: &str) -> String {
    if url.contains(' ') { with(url, "layout=string&format=redsync&tokens=false") } else { url.to_owned() }
}

fn with(url: &str, options: &str) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}{options}")
}

/// Obeys stdin until it ends.
fn work(mut contender: Box<dyn Contend>) -> Result<()> {
    println!("ready");
    let mut lines = std::io::stdin().lock().lines();
    while let Some(line) = lines.next().transpose()? {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["pairs", count] => println!("{}", serde_json::to_string(&contender.pairs(count.parse()?)?)?),
            ["crowd", tasks, keys] => {
                // Connections are dialled and scripts loaded.
                contender.pair()?;
                println!("ready");
                expect(lines.next().transpose()?, "go")?;
                let stop = Arc::new(AtomicBool::new(false));
                let crowd = contender.crowd(names(tasks.parse()?, *keys == "own"), stop.clone())?;
                expect(lines.next().transpose()?, "stop")?;
                stop.store(true, Ordering::Relaxed);
                println!("{}", serde_json::to_string(&crowd()?)?);
            }
            _ => return Err(format!("was told {line:?}").into()),
        }
    }
    Ok(())
}

fn expect(line: Option<String>, wanted: &str) -> Result<()> {
    match line {
        Some(line) if line == wanted => Ok(()),
        other => Err(format!("was told {other:?} in place of {wanted}").into()),
    }
}

/// What a contender's tasks acquire.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    Lock,
    FairLock,
    /// One in whose queue everybody has the same rank, so that nobody waits longer for it.
    RankedLock,
    /// A reader's part; the first task of a crowd writes.
    ReadWrite,
    Permit,
    FairPermit,
}

/// How many permits there are.
const PERMITS: u32 = 4;

/// In the middle.
const RANK: u8 = 5;

/// What the task of that number acquires; who is no task of a crowd is the last. A name is one thing only.
fn lock<F: Face>(client: &Client<F>, name: &str, of: Of, task: usize) -> lockwright::Result<Lock<F>> {
    let lock = match of {
        Of::Lock | Of::FairLock => client.lock(name),
        Of::RankedLock => client.lock(name).rank(RANK),
        Of::ReadWrite if task == 0 => client.rwlock(&format!("{name}:rw")).write(),
        Of::ReadWrite => client.rwlock(&format!("{name}:rw")).read(),
        Of::Permit | Of::FairPermit => client.semaphore(&format!("{name}:permits"), PERMITS),
    };
    let fair = matches!(of, Of::FairLock | Of::RankedLock | Of::FairPermit);
    if fair { lock.fair() } else { lock }.build()
}

fn names(tasks: usize, own: bool) -> Vec<String> {
    let name = |task| if own { format!("bench:{}:{task}", std::process::id()) } else { "bench:one".to_owned() };
    (0..tasks).map(name).collect()
}

pub(crate) fn nanos(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
