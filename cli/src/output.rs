//! How things are printed, for people and as JSON.

use std::io::Write;
use std::time::Duration;

use lockwright::lease::{Card, Holder, Inspection, Part, Sighting, Waiting};
use lockwright::name;
use lockwright::share::Primitive;
use serde::Serialize;

use crate::exit;

/// Prints a line. Whoever reads may have read enough: then this ends as a program that knows nothing of signals would.
pub(crate) fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
        std::process::exit(i32::from(exit::by_signal(13)));
    }
}

/// Prints a value as one line of JSON.
pub(crate) fn json(value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => line(&text),
        Err(error) => complain(&format!("internal: the result could not be written as JSON ({error})")),
    }
}

/// Says something on stderr; when nobody listens there, there is nobody to tell that either.
pub(crate) fn complain(text: &str) {
    drop(writeln!(std::io::stderr(), "lockwright: {}", plain(text)));
}

/// Says how things go, on stderr.
pub(crate) fn note(text: &str) {
    drop(writeln!(std::io::stderr(), "{}", plain(text)));
}

/// A text in which everything is seen: stores hold what others wrote, and a terminal obeys what it is sent.
pub(crate) fn plain(text: &str) -> String {
    name::shown(text).into_owned()
}

/// A span for people: two digits that matter, in the unit that fits.
pub(crate) fn span(span: Duration) -> String {
    if span == Duration::MAX {
        return "without an end".into();
    }
    let seconds = span.as_secs_f64();
    match span.as_secs() {
        0 => format!("{} ms", span.as_millis()),
        1..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {} s", span.as_secs() / 60, span.as_secs() % 60),
        _ => format!("{} h {} min", span.as_secs() / 3600, span.as_secs() / 60 % 60),
    }
}

/// Rows under a head, each column as wide as it has to be.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: impl Iterator<Item = [String; N]>) {
    let rows: Vec<_> = std::iter::once(head.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<_> = (0..N - 1).map(width).chain([0]).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        line(cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

/// Who holds a lock or waits for it, in a few words.
pub(crate) fn who(card: &Card) -> String {
    if card.host.is_empty() && card.pid == 0 {
        return format!("{} (not Lockwright)", plain(&card.language));
    }
    let host = if card.host.is_empty() { "unknown host" } else { &card.host };
    let mut text = format!("{} pid {} ({})", plain(host), card.pid, plain(&card.language));
    if !card.label.is_empty() {
        text.push_str(&format!(" \"{}\"", plain(&card.label)));
    }
    text
}

/// Who is waited for, in one line, by one of those who wait.
pub(crate) fn waiting_for(seen: &Inspection) -> String {
    let text = format!("waiting for {:?}", seen.name);
    holding(seen, seen.waiters.saturating_sub(1)).map_or(text.clone(), |who| format!("{text}: {who}"))
}

/// Who holds a lock, since when, and how many `others` wait; `None` when it is free.
pub(crate) fn holding(seen: &Inspection, others: u64) -> Option<String> {
    let holder = seen.holder.as_ref()?;
    let more = seen.shared.as_ref().map_or(0, |shared| shared.holders.len().saturating_sub(1));
    let who = match more {
        0 => format!("{} has", who(&holder.card)),
        _ => format!("{} and {more} more have", who(&holder.card)),
    };
    let held_for = holder.held_for.map_or("it".to_owned(), |held| format!("held it for {}", span(held)));
    let wait = if others > 0 { format!("; {others} others wait") } else { String::new() };
    Some(format!("{who} {held_for}{wait}"))
}

/// The tokens of a hold: one, or a block that its process hands out to its own tasks.
pub(crate) fn tokens(holder: &Holder) -> String {
    if holder.first_token == 0 {
        "none".into()
    } else if holder.first_token == holder.last_token {
        holder.first_token.to_string()
    } else {
        format!("{}-{}", holder.first_token, holder.last_token)
    }
}

/// A holder, a line for each thing that is known of it.
fn held_by(holder: &Holder) -> String {
    let held_for = holder.held_for.map_or("unknown".to_owned(), span);
    let (who, remaining, tokens) = (who(&holder.card), span(holder.remaining), tokens(holder));
    format!("\n  holder     {who}\n  held for   {held_for}\n  remaining  {remaining}\n  token      {tokens}")
}

/// What is known of a lock, a line each.
pub(crate) fn card(seen: &Inspection) -> String {
    let mut text = plain(&seen.name);
    text.push_str(match &seen.latch {
        Some(latch) if latch.count > 0 => ": counting",
        Some(_) => ": open",
        None if seen.is_barrier() => ": shut",
        None if seen.holder.is_some() => ": held",
        None => ": free",
    });
    text.extend(seen.latch.map(|latch| format!("\n  kind       latch\n  count      {}", latch.count)));
    if seen.is_barrier() {
        text.push_str("\n  kind       barrier");
    }
    match &seen.shared {
        None => text.extend(seen.holder.as_ref().map(held_by)),
        Some(shared) => {
            text.push_str(&format!("\n  kind       {}", shared.primitive.name()));
            text.extend(shared.permits.map(|permits| format!("\n  permits    {permits}")));
            for part in &shared.holders {
                text.push_str(&held_by(&part.holder));
                text.push_str(&format!("\n  holds      {}", part.describe(shared.primitive)));
            }
            if shared.unlisted > 0 {
                text.push_str(&format!("\n  and        {} more holders", shared.unlisted));
            }
        }
    }
    text.push_str(&format!("\n  waiters    {}", seen.waiters));
    let primitive = seen.shared.as_ref().map(|shared| shared.primitive);
    for (at, one) in seen.queue.iter().take(SHOWN).enumerate() {
        text.push_str(&format!("\n  {:<10} {}", format!("{}.", at + 1), waiting(one, primitive)));
    }
    text.push_str(&format!("\n  layout     {}", plain(&seen.layout)));
    text
}

/// How many of a queue are shown to a person.
const SHOWN: usize = 20;

fn waiting(one: &Waiting, primitive: Option<Primitive>) -> String {
    let mut text = who(&one.card);
    text.extend(primitive.map(|primitive| format!(", wants {}", one.describe(primitive))));
    text.extend((one.rank > 0).then(|| format!(", rank {}", one.rank)));
    text.extend(one.waited.map(|waited| format!(", for {}", span(waited))));
    text
}

/// What is known of a lock, for programs. Spans are in milliseconds.
#[derive(Debug, Serialize)]
pub(crate) struct LockJson<'a> {
    name: &'a str,
    pub(crate) free: bool,
    layout: &'a str,
    waiters: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queue: Vec<WaitingJson<'a>>,
    holder: Option<HolderJson<'a>>,
    /// What lies under the bare name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    others: Vec<SightingJson<'a>>,
    /// What lies there, if anything.
    primitive: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shared: Option<SharingJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latch: Option<CountingJson>,
}

impl<'a> LockJson<'a> {
    /// The same with what lies under the bare name.
    pub(crate) fn beside(self, others: &'a [Sighting]) -> Self {
        LockJson { others: others.iter().map(SightingJson::from).collect(), ..self }
    }
}

/// What looks like a lock of another library, for programs.
#[derive(Debug, Serialize)]
pub(crate) struct SightingJson<'a> {
    key: &'a str,
    looks_like: &'a str,
    remaining_ms: Option<u64>,
}

impl<'a> From<&'a Sighting> for SightingJson<'a> {
    fn from(Sighting { key, looks_like, remaining }: &'a Sighting) -> Self {
        SightingJson { key, looks_like, remaining_ms: remaining.map(millis) }
    }
}

#[derive(Debug, Serialize)]
struct WaitingJson<'a> {
    host: &'a str,
    pid: u32,
    language: &'a str,
    label: &'a str,
    waited_ms: Option<u64>,
    rank: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    wants: Option<String>,
}

#[derive(Debug, Serialize)]
struct CountingJson {
    count: u32,
}

#[derive(Debug, Serialize)]
struct SharingJson<'a> {
    primitive: &'static str,
    permits: Option<u32>,
    holders: Vec<PartJson<'a>>,
    /// How many more there are than these.
    #[serde(skip_serializing_if = "is_zero")]
    unlisted: u64,
}

#[derive(Debug, Serialize)]
struct PartJson<'a> {
    holds: String,
    #[serde(flatten)]
    holder: HolderJson<'a>,
}

#[derive(Debug, Serialize)]
struct HolderJson<'a> {
    owner: &'a str,
    host: &'a str,
    pid: u32,
    language: &'a str,
    label: &'a str,
    held_for_ms: Option<u64>,
    remaining_ms: Option<u64>,
    first_token: u64,
    last_token: u64,
}

impl<'a> From<&'a Inspection> for LockJson<'a> {
    fn from(seen: &'a Inspection) -> Self {
        let holder = seen.holder.as_ref().map(HolderJson::from);
        let shared = seen.shared.as_ref().map(|shared| SharingJson {
            primitive: shared.primitive.name(),
            permits: shared.permits,
            holders: shared.holders.iter().map(|part| part_json(part, shared.primitive)).collect(),
            unlisted: shared.unlisted,
        });
        let latch = seen.latch.map(|latch| CountingJson { count: latch.count });
        let queue = seen.queue.iter().map(|one| WaitingJson {
            host: &one.card.host,
            pid: one.card.pid,
            language: &one.card.language,
            label: &one.card.label,
            waited_ms: one.waited.map(millis),
            rank: one.rank,
            wants: seen.shared.as_ref().map(|shared| one.describe(shared.primitive)),
        });
        let (free, others, queue) = (seen.is_free(), Vec::new(), queue.collect());
        let Inspection { name, layout, waiters, primitive, .. } = seen;
        LockJson { name, free, layout, waiters: *waiters, queue, holder, others, primitive: *primitive, shared, latch }
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn part_json(part: &Part, primitive: Primitive) -> PartJson<'_> {
    PartJson { holds: part.describe(primitive), holder: HolderJson::from(&part.holder) }
}

impl<'a> From<&'a Holder> for HolderJson<'a> {
    fn from(holder: &'a Holder) -> Self {
        HolderJson {
            owner: &holder.owner,
            host: &holder.card.host,
            pid: holder.card.pid,
            language: &holder.card.language,
            label: &holder.card.label,
            held_for_ms: holder.held_for.map(millis),
            remaining_ms: (holder.remaining < Duration::MAX).then(|| millis(holder.remaining)),
            first_token: holder.first_token,
            last_token: holder.last_token,
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_well() {
        let read = |millis| span(Duration::from_millis(millis));
        assert_eq!(
            [read(0), read(999), read(1_000), read(59_940), read(60_000), read(3_599_000), read(7_260_000)],
            ["0 ms", "999 ms", "1.0 s", "59.9 s", "1 min 0 s", "59 min 59 s", "2 h 1 min"]
        );
    }

    #[test]
    fn what_others_wrote_cannot_steer_the_terminal() {
        assert_eq!(plain("nightly \u{1b}[2J\ttask 订单\u{202e}"), "nightly \\u{1b}[2J\\ttask 订单\\u{202e}");
    }
}
