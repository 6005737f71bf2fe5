//! Measures rows, one after another, and writes each as soon as it is done.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::entrant::Entrant;
use crate::machine::{self, QUIET, Watch, listener};
use crate::report::{Report, Role};
use crate::rows::{MeasuredStore, ROWS, Row, Size};
use crate::server::{Store, addresses};
use crate::talk::contenders;
use crate::{Result, page};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Such as S1; all when none is given.
    rows: Vec<String>,
    /// Rounds a row, three at the least.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(3..))]
    rounds: u16,
    /// A few seconds in place of minutes: to see that it works, not to know how fast it is.
    #[arg(long)]
    quick: bool,
    /// Measures although others use the CPU; the pages say so.
    #[arg(long)]
    loaded: bool,
    /// Lets the server and the contenders use all CPUs that this program may use, as they do where they are installed.
    #[arg(long)]
    any_cpu: bool,
    /// The folder of contenders.
    #[arg(long, default_value = "bench/contenders")]
    contenders: PathBuf,
    /// The folder of the servers' scripts; each is started for its rows, and stopped.
    #[arg(long, default_value = "bench/services")]
    services: PathBuf,
    /// Where the figures and pages go: `docs/bench`, or its folder for `--any-cpu`.
    #[arg(long)]
    out: Option<PathBuf>,
}

impl Options {
    /// That process `pid` (or `self`) has the CPU that all are to share, unless they may use any.
    fn check_cpus(&self, pid: &str) -> Result<()> {
        if self.any_cpu { Ok(()) } else { same_cpu(pid) }
    }

    fn out(&self) -> &Path {
        let published = if self.any_cpu { "docs/bench/any-cpu" } else { "docs/bench" };
        self.out.as_deref().unwrap_or(Path::new(published))
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let rows = chosen(&options.rows)?;
    options.check_cpus("self")?;
    refuse_load(options.loaded)?;
    let contenders = contenders(&options.contenders)?;
    let size = Size { rounds: options.rounds.into(), quick: options.quick };
    let mut running: Option<Service> = None;
    for row in rows {
        let entrants: Vec<Entrant> = contenders.iter().filter(|c| c.plays(row.id)).cloned().map(Entrant::new).collect();
        if entrants.is_empty() {
            eprintln!("{}: no contender", row.id);
            continue;
        }
        // One after another: a server that is idle does something all the same.
        if running.as_ref().is_none_or(|service| service.store != row.store) {
            drop(running.take());
            running = Some(Service::start(row.store, options)?);
        }
        let Some(service) = &running else { continue };
        let report = measure(row, &mut service.reach(options)?, entrants, size)?;
        report.write(options.out())?;
        if !report.machine.is_quiet() {
            eprintln!("{}: LOADED: {}", row.id, page::load(&report.machine));
        }
    }
    page::render(options.out())
}

/// What runs for some rows, on the CPUs of this program.
struct Service {
    store: Store,
    script: PathBuf,
    url: String,
}

impl Service {
    fn start(store: Store, options: &Options) -> Result<Self> {
        let script = options.services.join(store.service()).with_extension("sh");
        let mut service = Service { store, script, url: String::new() };
        service.tell("stop")?;
        service.url = service.tell("start")?.trim().to_owned();
        Ok(service)
    }

    fn tell(&self, word: &str) -> Result<String> {
        let output = Command::new(&self.script).arg(word).stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("{} {word} ended with {}", self.script.display(), output.status).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    fn reach(&self, options: &Options) -> Result<MeasuredStore> {
        let pids = addresses(&self.url)?.iter().map(|address| listener(address)).collect::<Result<Vec<_>>>()?;
        pids.iter().try_for_each(|pid| options.check_cpus(&pid.to_string()))?;
        Ok(MeasuredStore { url: self.url.clone(), server: self.store.connect(&self.url)?, pids })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Err(error) = self.tell("stop") {
            eprintln!("{error}");
        }
    }
}

fn chosen(ids: &[String]) -> Result<Vec<&'static Row>> {
    if ids.is_empty() {
        return Ok(ROWS.iter().collect());
    }
    let known = || ROWS.iter().map(|row| row.id).collect::<Vec<_>>().join(", ");
    let find = |id: &String| {
        let found = ROWS.iter().find(|row| row.id.eq_ignore_ascii_case(id));
        found.ok_or_else(|| format!("there is no row {id}; there are {}", known()).into())
    };
    ids.iter().map(find).collect()
}

/// A pair takes four times as long when client and server are on two CPUs, and then measures the scheduler.
fn same_cpu(pid: &str) -> Result<()> {
    let (ours, theirs) = (machine::affinity("self")?, machine::affinity(pid)?);
    if ours != theirs || !machine::is_one_cpu(&ours) {
        let message = format!("pin this program (now on {ours}) and the server (on {theirs}) to the same single CPU");
        return Err(message.into());
    }
    Ok(())
}

fn refuse_load(anyway: bool) -> Result<()> {
    let busy = machine::busy_now(Duration::from_secs(2))?;
    if busy <= QUIET {
        return Ok(());
    }
    let busy = format!("others use {:.0} % of the CPU", busy * 100.0);
    if !anyway {
        return Err(format!("{busy}; choose another CPU, wait, or measure all the same with --loaded").into());
    }
    eprintln!("LOADED: {busy}; these figures are not to be relied on");
    Ok(())
}

fn measure(row: &Row, store: &mut MeasuredStore, mut entrants: Vec<Entrant>, size: Size) -> Result<Report> {
    eprintln!("{}: {}", row.id, row.title);
    store.server.clear()?;
    warm(row.store, store, &mut entrants, size);
    let watch = Watch::begin(store.pids.clone())?;
    let columns = row.measure(store, &mut entrants, size)?;
    let machine = watch.end()?;
    let server = BTreeMap::from([(row.store.program().to_owned(), store.server.version()?)]);
    Ok(Report {
        row: row.id.to_owned(),
        title: row.title.to_owned(),
        work: row.work.to_owned(),
        taken: machine::said("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
        quick: size.quick,
        machine,
        versions: machine::versions().into_iter().chain(server).collect(),
        columns,
        results: entrants.into_iter().map(Entrant::measured).collect(),
    })
}

/// A server whose code is compiled while it runs is measured once that is done.
fn warm(of: Store, store: &MeasuredStore, entrants: &mut [Entrant], size: Size) {
    let pairs = if size.quick { of.warming() / 20 } else { of.warming() };
    if let Some(raw) = entrants.iter_mut().find(|entrant| entrant.is(Role::Yardstick) && pairs > 0) {
        raw.start(&store.url);
        raw.pairs(pairs);
        raw.peer = None;
    }
}
