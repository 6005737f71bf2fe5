//! What the figures were taken on, and who else used it meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Result;

/// Above this share of the pinned CPU used by others, figures are not to be relied on.
pub(crate) const QUIET: f64 = 0.05;

/// The machine during one row.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cpus: usize,
    pub(crate) kernel: String,
    /// The CPUs that contenders and server were allowed to use.
    pub(crate) pinned: String,
    pub(crate) load_before: String,
    pub(crate) load_after: String,
    /// The share of the pinned CPU that went to processes which are no part of the run.
    pub(crate) foreign: f64,
    /// The share of the other CPUs that was used by anybody.
    pub(crate) others_busy: f64,
    /// The share of the pinned CPU that the hypervisor kept.
    pub(crate) stolen: f64,
}

impl Machine {
    pub(crate) fn is_quiet(&self) -> bool {
        self.foreign <= QUIET && self.stolen <= QUIET
    }
}

/// Watches the machine from its making until [`Watch::end`].
pub(crate) struct Watch {
    load: String,
    before: Clocks,
    servers: Vec<u32>,
}

impl Watch {
    pub(crate) fn begin(servers: Vec<u32>) -> Result<Self> {
        Ok(Watch { load: load()?, before: Clocks::read(&servers)?, servers })
    }

    /// What was seen. Every contender must have ended and been waited for: a process's time shows in its parent only
    /// then.
    pub(crate) fn end(self) -> Result<Machine> {
        let used = Clocks::read(&self.servers)?.since(&self.before);
        Ok(Machine {
            cpu: of_proc("/proc/cpuinfo", "model name")?,
            cpus: fs::read_to_string("/proc/cpuinfo")?.lines().filter(|line| line.starts_with("processor")).count(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            pinned: affinity("self")?,
            load_before: self.load,
            load_after: load()?,
            foreign: used.foreign(),
            others_busy: share(used.others.busy, used.others.total),
            stolen: share(used.pinned.stolen, used.pinned.total),
        })
    }
}

/// Waits until the share of this process's CPU used by anybody is known, and returns it.
pub(crate) fn busy_now(sample: Duration) -> Result<f64> {
    let before = Clocks::read(&[])?;
    std::thread::sleep(sample);
    let used = Clocks::read(&[])?.since(&before);
    Ok(share(used.pinned.busy, used.pinned.total))
}

/// The CPUs that process `pid` (or `self`) may use, as the kernel lists them.
pub(crate) fn affinity(pid: &str) -> Result<String> {
    of_proc(&format!("/proc/{pid}/status"), "Cpus_allowed_list")
}

/// Whether that list is of a single one.
pub(crate) fn is_one_cpu(cpus: &str) -> bool {
    !cpus.contains([',', '-'])
}

/// The process that listens at an address of this host.
pub(crate) fn listener(address: &str) -> Result<u32> {
    let port: u16 = address.rsplit_once(':').ok_or("no port")?.1.parse()?;
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let socket = tables.iter().find_map(|table| listening(table, port)).ok_or("nobody listens there")?;
    for process in fs::read_dir("/proc")? {
        let process = process?;
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // Those of others, and those that end meanwhile, cannot be looked at.
        let files = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        if files.filter_map(|file| fs::read_link(file.path()).ok()).any(|file| file.as_os_str() == socket.as_str()) {
            return Ok(pid);
        }
    }
    Err(format!("the process that listens at {address} cannot be seen").into())
}

/// What the kernel calls the socket that listens at `port`, by one of its tables.
fn listening(table: &str, port: u16) -> Option<String> {
    const LISTENS: &str = "0A";
    let at = format!(":{port:04X}");
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_it = fields.get(1)?.ends_with(&at) && *fields.get(3)? == LISTENS;
        is_it.then(|| Some(format!("socket:[{}]", fields.get(9)?))).flatten()
    })
}

/// What a command says of itself: the first line of its output.
pub(crate) fn said(command: &str, arguments: &[&str]) -> String {
    let output = Command::new(command).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or(UNKNOWN).trim().to_owned()
}

const UNKNOWN: &str = "unknown";

/// Of what the measured code was built.
pub(crate) fn versions() -> BTreeMap<String, String> {
    // What is measured writes its pages into the tree, which is no change of what is measured.
    let changed = said("git", &["status", "--porcelain", "--", ".", ":!docs/bench"]) != UNKNOWN;
    let changed = if changed { ", with changes" } else { "" };
    let commit = said("git", &["rev-parse", "--short=12", "HEAD"]);
    let lockwright = format!("{} at {commit}{changed}", env!("CARGO_PKG_VERSION"));
    BTreeMap::from([("lockwright".to_owned(), lockwright), ("rustc".to_owned(), rustc())])
}

pub(crate) fn rustc() -> String {
    said("rustc", &["--version"]).trim_start_matches("rustc ").to_owned()
}

fn load() -> Result<String> {
    let text = fs::read_to_string("/proc/loadavg")?;
    Ok(text.split(' ').take(3).collect::<Vec<_>>().join(" "))
}

fn of_proc(file: &str, key: &str) -> Result<String> {
    let text = fs::read_to_string(file)?;
    let value = text.lines().find_map(|line| line.split_once(':').filter(|(name, _)| name.trim() == key));
    Ok(value.map(|(_, value)| value.trim().to_owned()).unwrap_or_else(|| UNKNOWN.to_owned()))
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Ticks of one or more CPUs. `busy` leaves interrupts out: some kernels charge them to a process, others to nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Ticks {
    busy: u64,
    stolen: u64,
    total: u64,
}

impl Ticks {
    /// Of one line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
    fn of(numbers: &[u64]) -> Self {
        let at = |i: usize| numbers.get(i).copied().unwrap_or_default();
        Ticks { busy: at(0) + at(1) + at(2), stolen: at(7), total: numbers.iter().take(8).sum() }
    }

    fn plus(self, other: Ticks) -> Self {
        Ticks { busy: self.busy + other.busy, stolen: self.stolen + other.stolen, total: self.total + other.total }
    }

    fn since(self, before: Ticks) -> Self {
        Ticks {
            busy: self.busy.saturating_sub(before.busy),
            stolen: self.stolen.saturating_sub(before.stolen),
            total: self.total.saturating_sub(before.total),
        }
    }
}

/// All counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Clocks {
    pinned: Ticks,
    others: Ticks,
    /// Ticks of this process, its children, and the servers.
    ours: u64,
}

impl Clocks {
    fn read(servers: &[u32]) -> Result<Self> {
        let pinned = cpus(&affinity("self")?);
        let (mut inside, mut outside) = (Ticks::default(), Ticks::default());
        for line in fs::read_to_string("/proc/stat")?.lines() {
            let mut words = line.split_whitespace();
            let Some(cpu) = words.next().and_then(|word| word.strip_prefix("cpu")?.parse::<usize>().ok()) else {
                continue;
            };
            let ticks = Ticks::of(&words.filter_map(|word| word.parse().ok()).collect::<Vec<_>>());
            let side = if pinned.contains(&cpu) { &mut inside } else { &mut outside };
            *side = side.plus(ticks);
        }
        let ours = [std::process::id()].iter().chain(servers).map(|pid| used_by(*pid)).sum::<Result<u64>>()?;
        Ok(Clocks { pinned: inside, others: outside, ours })
    }

    fn since(&self, before: &Clocks) -> Clocks {
        Clocks {
            pinned: self.pinned.since(before.pinned),
            others: self.others.since(before.others),
            ours: self.ours.saturating_sub(before.ours),
        }
    }

    fn foreign(&self) -> f64 {
        share(self.pinned.busy.saturating_sub(self.ours), self.pinned.total)
    }
}

/// Ticks that a process used, with its children: some servers have one for each connection. There are 100 a second, on
/// every Linux.
pub(crate) fn used_by(pid: u32) -> Result<u64> {
    let own = ticks_of(&fs::read_to_string(format!("/proc/{pid}/stat"))?);
    let children: u64 = fs::read_dir("/proc")?
        // Those that end meanwhile cannot be looked at: they are among what their parent waited for.
        .filter_map(|process| fs::read_to_string(process.ok()?.path().join("stat")).ok())
        .filter(|stat| parent_of(stat) == Some(pid))
        .map(|stat| ticks_of(&stat))
        .sum();
    Ok(own + children)
}

/// The fields of `/proc/PID/stat` from the third on; the second may hold spaces and parentheses.
fn after_name(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace()
}

/// Field 4.
fn parent_of(stat: &str) -> Option<u32> {
    after_name(stat).nth(1)?.parse().ok()
}

/// Fields 14 to 17: its own ticks, and those of its children that were waited for.
fn ticks_of(stat: &str) -> u64 {
    after_name(stat).skip(11).take(4).filter_map(|word| word.parse::<u64>().ok()).sum()
}

/// The numbers in a list such as `0-2,5`.
fn cpus(list: &str) -> Vec<usize> {
    let ends = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.trim().parse().ok()?..=to.trim().parse().ok()?)
    };
    list.split(',').filter_map(ends).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_have_ranges() {
        assert_eq!(cpus("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(cpus("1"), [1]);
        assert_eq!(cpus("unknown"), [0_usize; 0]);
    }

    #[test]
    fn who_listens_is_found_by_the_port() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap().to_string();
        assert_eq!(listener(&address).unwrap(), std::process::id());
        drop(socket);
        assert!(listener(&address).is_err());
    }

    #[test]
    fn a_process_name_may_look_like_fields() {
        let stat = "42 (a ) 1 b) S 1 42 42 0 -1 0 9 9 9 9 100 20 3 4 20 0 1 0";
        assert_eq!(ticks_of(stat), 127);
    }

    #[test]
    fn what_is_not_ours_on_the_pinned_cpu_is_foreign() {
        let pinned = Ticks::of(&[60, 10, 20, 5, 0, 1, 2, 2, 0, 0]);
        assert_eq!(pinned, Ticks { busy: 90, stolen: 2, total: 100 });
        let clocks = Clocks { pinned, ours: 80, ..Clocks::default() };
        assert_eq!(clocks.foreign(), 0.1);
        // Ticks are coarse: ours may seem to be more than there was.
        assert_eq!(Clocks { ours: 95, ..clocks }.foreign(), 0.0);
    }
}
