//! Pages and pictures, written from the figures and from nothing else.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::machine::{Machine, QUIET, is_one_cpu};
use crate::report::{Better, Column, Measured, Report, Role};
use crate::targets::{self, Target};
use crate::{Result, chart};

/// Writes, for the rows kept in `folder`, a page and a picture each and the page over all.
pub(crate) fn render(folder: &Path) -> Result<()> {
    for (file, text) in pages(&Report::read_all(folder)?)? {
        fs::write(folder.join(file), text)?;
    }
    Ok(())
}

/// Names and contents of all pages and pictures.
fn pages(reports: &[Report]) -> Result<Vec<(String, String)>> {
    let mut files = vec![("README.md".to_owned(), overview(reports)?)];
    for report in reports {
        let name = report.row.to_lowercase();
        if let Some(picture) = chart::draw(report) {
            files.push((format!("{name}.svg"), picture));
        }
        files.push((format!("{name}.md"), page(report)?));
    }
    Ok(files)
}

/// What others did to the machine meanwhile.
pub(crate) fn load(machine: &Machine) -> String {
    let Machine { foreign, others_busy, stolen, load_before, load_after, .. } = machine;
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    format!(
        "processes that are no part of it used {} of its CPU, the hypervisor {}; the other CPUs were busy for {}; load average \
         {load_before} before, {load_after} after",
        percent(*foreign),
        percent(*stolen),
        percent(*others_busy),
    )
}

/// Why a row's figures are not to be relied on.
fn caveats(report: &Report) -> Vec<String> {
    let loaded = format!("**Preliminary: the machine was not quiet** (limit {:.0} %).", QUIET * 100.0);
    let quick = "**Preliminary: a quick run**, too short to be relied on.";
    let of = [(!report.machine.is_quiet(), loaded), (report.quick, quick.to_owned())];
    of.into_iter().filter(|(holds, _)| *holds).map(|(_, text)| text).collect()
}

fn page(report: &Report) -> Result<String> {
    let mut text = format!("<!-- written by scripts/bench -->\n# {}: {}\n\n", report.row, report.title);
    for caveat in caveats(report) {
        writeln!(text, "> {caveat}\n")?;
    }
    writeln!(text, "{}\n", report.work)?;
    if report.picture().is_some() {
        writeln!(text, "{}\n", image(report))?;
    }
    writeln!(text, "{}", table(report)?)?;
    let rounds = report.results.iter().map(|result| result.rounds.len()).max().unwrap_or_default();
    writeln!(text, "Medians of {rounds} rounds; in brackets the least and the greatest.\n")?;
    for absent in &report.results {
        if let Some(why) = &absent.absent {
            writeln!(text, "Not measured: {}: {why}.\n", absent.name)?;
        }
    }
    let Machine { cpu, cpus, kernel, pinned, .. } = &report.machine;
    let cpus_used = if is_one_cpu(pinned) { format!("CPU {pinned}") } else { format!("CPUs {pinned}") };
    writeln!(
        text,
        "Taken {} on {cpu}, {cpus} CPUs, Linux {kernel}, server and contenders on {cpus_used}. During the run {}.\n",
        report.taken,
        load(&report.machine),
    )?;
    writeln!(text, "Versions: {}. All figures of all rounds: [{1}]({1}).", versions(report), file(report, "json"))?;
    Ok(text)
}

fn file(report: &Report, extension: &str) -> String {
    format!("{}.{extension}", report.row.to_lowercase())
}

fn image(report: &Report) -> String {
    format!("![{}: {}]({})", report.row, report.title, file(report, "svg"))
}

fn versions(report: &Report) -> String {
    let of_contenders = report.results.iter().flat_map(|result| &result.versions);
    let mut all: Vec<String> =
        report.versions.iter().chain(of_contenders).map(|(what, v)| format!("{what} {v}")).collect();
    all.sort();
    all.dedup();
    all.join(", ")
}

fn table(report: &Report) -> Result<String> {
    let mut text = "| contender |".to_owned();
    for column in &report.columns {
        write!(text, " {} |", column.heading)?;
    }
    write!(text, "\n|---|{}\n", "---:|".repeat(report.columns.len()))?;
    for result in ranked(report) {
        let name = if result.role == Role::Ours { format!("**{}**", result.name) } else { result.name.clone() };
        write!(text, "| {name} |")?;
        for column in &report.columns {
            write!(text, " {} |", cell(result, column))?;
        }
        writeln!(text)?;
    }
    Ok(text)
}

fn cell(result: &Measured, column: &Column) -> String {
    let digits = column.decimals;
    match result.figure(&column.key) {
        None => "-".to_owned(),
        Some(spread) if column.spread => {
            format!("{:.digits$} ({:.digits$} to {:.digits$})", spread.median, spread.min, spread.max)
        }
        Some(spread) => format!("{:.digits$}", spread.median),
    }
}

/// Those that were measured, the best first by the picture's figure.
pub(crate) fn ranked(report: &Report) -> Vec<&Measured> {
    let mut measured: Vec<&Measured> = report.results.iter().filter(|result| !result.rounds.is_empty()).collect();
    if let Some((column, better)) = report.picture() {
        let merit = |result: &Measured| {
            let median = result.figure(&column.key).map_or(f64::INFINITY, |spread| spread.median);
            if better == Better::Less { median } else { -median }
        };
        measured.sort_by(|a, b| merit(a).total_cmp(&merit(b)));
    }
    measured
}

const WHAT: &str = "<!-- written by scripts/bench -->
# How fast it is

`scripts/bench` takes these figures, and writes these pages from them. Other machines give other microseconds; so nearly all is
told as a multiple of the **raw pair**: one acquire script and one compare-and-delete script by EVALSHA on one blocking connection
of the redis crate, in the same run. That is what a lock over Redis costs if nothing but the two round trips is done. On five Redis
nodes each script is sent to all of them before the first answer is awaited. On etcd it is two transactions (a key is created under a
lease and the first in line is read; the key is deleted), on ZooKeeper the creation and the deletion of an ephemeral, sequential node
over a bare socket.
";

const ON_ONE_CPU: &str = "
Server and contenders share one CPU. A pair takes about four times as long when the scheduler parts them, and then measures the
scheduler.";

const ON_ALL_CPUS: &str = "
Server and contenders use all CPUs, as they do where they are installed. Whoever hands its work to a thread of its own pays for waking
that on another CPU, and figures differ from round to round by where the scheduler puts whom; the targets are those of
[one CPU](../README.md).";

const HOW: &str = " All contenders take turns within a round, so that whatever the machine does meanwhile it does to each. The server runs
on loopback. Redis persists nothing; all others answer what is on disk, as they do where they are installed. Libraries have their default options, a lease of 30 s, and wait without limit.

- **raw pairs a pair**: at full contention, from one holder to the next.
- **CPU of a pair**: of server and contender together. Where all wait only for one another it is the time of a pair on an idle
  machine, and a busy one hardly changes it; a contender that sleeps between two tries uses less than it takes.
- **p99 wait, x fair share**: were all served in turn, each would wait as long as all the others take once; 1 is that.
- **max/min a task**: how many times as often the luckiest task was served as the unluckiest. Read hand-offs only together with
  this: a task that takes the lock again and again while the others sleep is fast, and starves them.
- **requests**: by the server's count; what scripts call inside is not counted.
";

fn about(reports: &[Report]) -> Result<String> {
    if reports.iter().all(|report| is_one_cpu(&report.machine.pinned)) {
        return Ok(format!("{WHAT}{ON_ONE_CPU}{HOW}\n## Targets\n{}\n", table_of_targets(reports)?));
    }
    Ok(format!("{WHAT}{ON_ALL_CPUS}{HOW}\n"))
}

fn overview(reports: &[Report]) -> Result<String> {
    let mut text = about(reports)?;
    for report in reports {
        let preliminary = if caveats(report).is_empty() { "" } else { " (preliminary)" };
        writeln!(
            text,
            "## [{}: {}]({}){preliminary}\n{}\n",
            report.row,
            report.title,
            file(report, "md"),
            report.work
        )?;
        if report.picture().is_some() {
            writeln!(text, "{}\n", image(report))?;
        }
    }
    text.truncate(text.trim_end().len());
    Ok(text + "\n")
}

fn table_of_targets(reports: &[Report]) -> Result<String> {
    let mut text = "| row | contender | figure | target | measured | |\n|---|---|---|---:|---:|---|\n".to_owned();
    for target in targets::all()? {
        let report = reports.iter().find(|report| report.row == target.row);
        let column = report.and_then(|report| report.columns.iter().find(|column| column.key == target.figure));
        let digits = column.map_or(2, |column| column.decimals);
        let (measured, verdict) = match target.measured(reports) {
            None => ("-".to_owned(), "not measured".to_owned()),
            Some(figure) => (format!("{figure:.digits$}"), verdict(&target, figure, report)),
        };
        let Target { row, contender, says, .. } = &target;
        let limit = limit(&target);
        writeln!(text, "| {row} | {contender} | {says} | {limit} | {measured} | {verdict} |")?;
    }
    Ok(text)
}

fn limit(target: &Target) -> String {
    let at_most = target.at_most.map(|limit| format!("<= {limit}"));
    at_most.or_else(|| target.at_least.map(|limit| format!(">= {limit}"))).unwrap_or_default()
}

fn verdict(target: &Target, figure: f64, report: Option<&Report>) -> String {
    let verdict = if target.is_reached(figure) { "reached" } else { "not reached" };
    let preliminary = report.is_some_and(|report| !caveats(report).is_empty());
    if preliminary { format!("{verdict} (preliminary)") } else { verdict.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The folder of the published figures.
    fn folder() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/bench"))
    }

    fn is_what_its_figures_give(folder: &Path) {
        for (file, text) in pages(&Report::read_all(folder).unwrap()).unwrap() {
            let published = fs::read_to_string(folder.join(&file)).unwrap_or_default();
            let file = folder.join(file);
            assert!(published == text, "{} is not what its figures give: run scripts/bench --render", file.display());
        }
    }

    #[test]
    fn every_published_page_says_what_its_figures_say() {
        is_what_its_figures_give(folder());
        is_what_its_figures_give(&folder().join("any-cpu"));
    }

    #[test]
    fn what_was_taken_on_a_loaded_machine_or_in_a_hurry_says_so() {
        let mut report = Report::read_all(folder()).unwrap().remove(0);
        report.machine.foreign = QUIET * 2.0;
        report.quick = true;
        assert_eq!(page(&report).unwrap().matches("Preliminary").count(), 2);
        (report.machine.foreign, report.machine.stolen, report.quick) = (0.0, 0.0, false);
        assert_eq!(page(&report).unwrap().matches("Preliminary").count(), 0);
        report.machine.stolen = QUIET * 2.0;
        assert_eq!(page(&report).unwrap().matches("Preliminary").count(), 1);
    }
}
