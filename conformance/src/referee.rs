//! Judges what tasks logged while they worked under one lock. Two verdicts:
//!
//! - **store truth**: by the order of their tokens no two tenures overlap. Every increment of a token comes before
//!   every increment of a higher one, both by the clock and by the counter's values; no token is granted twice; who
//!   asks after somebody was granted gets a higher token; no increment is lost.
//! - **holder belief**: two tasks believe to hold the lock at once only after `lost` fired for one of them or its
//!   deadline passed.
//!
//! A holder that uses another library has no token (0); by tokens only ours are judged, by everything else all of them.
//!
//! What a task does after its guard told it that the lock is lost counts for neither: no lock can prevent that, only
//! the token can.

use std::collections::HashMap;
use std::fmt;

use crate::clock::{Nanos, between};
use crate::record::{ALL, Event, Record};

/// Everything that happened under one lock.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The lines of every process; the lines of each task in the order they were written.
    pub records: Vec<Record>,
    /// Processes that were killed, and when.
    pub deaths: Vec<(u32, Nanos)>,
    /// From when to when the store freed all that it kept, since its server ended: a holder hears of it a moment later.
    pub freed: Vec<(Nanos, Nanos)>,
    /// What the counter says in the end.
    pub counter: u64,
}

/// What was violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    StoreTruth,
    HolderBelief,
    /// The log contradicts itself, so it proves nothing.
    Log,
}

/// One violation.
#[derive(Clone, Debug)]
pub struct Violation {
    pub verdict: Verdict,
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::StoreTruth => "store truth",
            Verdict::HolderBelief => "holder belief",
            Verdict::Log => "log",
        };
        write!(f, "{verdict}: {}", self.text)
    }
}

/// What the referee found.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    pub violations: Vec<Violation>,
    /// Acquisitions.
    pub grants: usize,
    /// Increments that were finished, logged, and under the lock to the end.
    pub increments: usize,
    /// Increments whose lock was lost before they were finished.
    pub late: usize,
}

/// One task's holding of the lock, from grant to release.
#[derive(Debug)]
struct Tenure<'a> {
    task: &'a str,
    token: u64,
    units: u64,
    asked: Nanos,
    granted: Nanos,
    until: Nanos,
    increments: Vec<Increment>,
    lost: Option<Nanos>,
    over: bool,
    died: Option<Nanos>,
    freed: Option<Nanos>,
}

#[derive(Clone, Copy, Debug)]
struct Increment {
    begin: Nanos,
    end: Nanos,
    value: u64,
    held: bool,
}

impl Tenure<'_> {
    /// Until when the task believed, as far as it logged that: renewals after its last line are unknown.
    fn believed_until(&self) -> Nanos {
        let believed = self.believed_unless_freed();
        self.freed.map_or(believed, |freed| freed.min(believed))
    }

    fn believed_unless_freed(&self) -> Nanos {
        let worked = self.increments.iter().filter(|i| i.held).map(|i| i.end).max().unwrap_or(self.granted);
        // After its increment a task does nothing but release, also one that is killed before it could log that.
        if self.lost.is_none() && self.increments.last().is_some_and(|i| i.held) {
            return worked;
        }
        let ends = [Some(self.until), self.lost, self.died];
        ends.into_iter().flatten().min().unwrap_or(self.until).max(worked)
    }
}

/// Judges.
pub fn judge(history: &History) -> Judgement {
    let mut found = Judgement::default();
    let tenures = tenures(history, &mut found);
    found.grants = tenures.len();
    let increments = || tenures.iter().flat_map(|tenure| &tenure.increments);
    found.increments = increments().filter(|i| i.held).count();
    found.late = increments().filter(|i| !i.held).count();
    let ours: Vec<_> = tenures.iter().filter(|tenure| tenure.token > 0).collect();
    tokens_are_unique(&ours, &mut found);
    tokens_order_the_increments(&ours, &mut found);
    tokens_rise_in_time(&ours, &mut found);
    if ours.len() < tenures.len() {
        increments_exclude_each_other(&tenures, &mut found);
    }
    // A late write may well have destroyed another one.
    if found.late == 0 {
        no_increment_is_lost(history, &tenures, &mut found);
    }
    beliefs_exclude_each_other(&tenures, &mut found);
    found
}

/// Judges what several may hold at once. Store truth: at no grant was more given than `capacity`, tokens are unique and
/// rise, and of `overtaken`, between asking and being granted all, each other task came in at most so often, but for
/// one turn in four. Holder belief: they never believe to have more than `capacity` units together. The counter says
/// nothing: those who hold at once overwrite one another's increments.
pub fn judge_shared(history: &History, capacity: u64, overtaken: Option<usize>) -> Judgement {
    let mut found = Judgement::default();
    let tenures = tenures(history, &mut found);
    found.grants = tenures.len();
    let increments = || tenures.iter().flat_map(|tenure| &tenure.increments);
    found.increments = increments().filter(|i| i.held).count();
    found.late = increments().filter(|i| !i.held).count();
    let ours: Vec<_> = tenures.iter().filter(|tenure| tenure.token > 0).collect();
    tokens_are_unique(&ours, &mut found);
    tokens_rise_in_time(&ours, &mut found);
    if ours.len() == tenures.len() {
        grants_fit(&tenures, capacity, &mut found);
    }
    beliefs_fit(&tenures, capacity, &mut found);
    if let Some(most) = overtaken {
        nobody_is_overtaken(&tenures, most, &mut found);
    }
    found
}

/// The store grants in the order of the tokens. Whoever has a lower token than a grant's, and counted under it, still
/// holding, after that grant's own increment had begun, held it at that grant. Where only one may hold this says of
/// tokens and increments what [`tokens_order_the_increments`] does.
fn grants_fit(tenures: &[Tenure<'_>], capacity: u64, found: &mut Judgement) {
    let begun = |tenure: &Tenure<'_>| tenure.increments.iter().filter(|i| i.held).map(|i| i.begin).min();
    let counted = |tenure: &Tenure<'_>| tenure.increments.iter().filter(|i| i.held).map(|i| i.end).max();
    let mut by_token: Vec<_> =
        tenures.iter().filter_map(|tenure| Some((tenure, begun(tenure)?, counted(tenure)?))).collect();
    by_token.sort_by_key(|(tenure, ..)| tenure.token);
    // An increment takes far less than all of a run, so that few are ever open at once.
    let mut open: Vec<(&Tenure<'_>, Nanos)> = Vec::new();
    let mut latest: Vec<Nanos> = by_token.iter().map(|(_, begin, _)| *begin).collect();
    for at in (1..latest.len()).rev() {
        latest[at - 1] = latest[at - 1].min(latest[at]);
    }
    for ((tenure, begin, end), earliest_yet) in by_token.into_iter().zip(latest) {
        open.retain(|(_, end)| *end > earliest_yet);
        let at_once = open.iter().filter(|(_, end)| *end > begin).map(|(other, _)| other.units).sum::<u64>();
        let held = at_once.saturating_add(tenure.units);
        if held > capacity {
            let Tenure { task, token, units, .. } = tenure;
            let text = format!("{held} of {capacity} were given when {task} (token {token}) was granted {units}");
            found.blame(Verdict::StoreTruth, text);
        }
        open.push((tenure, end));
    }
}

fn beliefs_fit(tenures: &[Tenure<'_>], capacity: u64, found: &mut Judgement) {
    // Of those at the same moment the ends come first.
    let mut moments: Vec<(Nanos, bool, &Tenure<'_>)> =
        tenures.iter().flat_map(|t| [(t.granted, true, t), (t.believed_until(), false, t)]).collect();
    moments.retain(|(_, _, tenure)| tenure.believed_until() > tenure.granted);
    moments.sort_by_key(|(at, begins, _)| (*at, *begins));
    let mut held = 0;
    for (_, begins, tenure) in moments {
        if !begins {
            held -= tenure.units;
            continue;
        }
        held += tenure.units;
        if held > capacity {
            let Tenure { task, token, units, .. } = tenure;
            let text = format!("{held} of {capacity} are held once {task} (token {token}) has its {units}");
            found.blame(Verdict::HolderBelief, text);
        }
    }
}

/// One turn in four may be: a process that has to wait for a processor before its request leaves is overtaken by all
/// that have one, while a store that lets others in before a waiting writer does so nearly always.
fn nobody_is_overtaken(tenures: &[Tenure<'_>], most: usize, found: &mut Judgement) {
    let writers: Vec<_> = tenures.iter().filter(|tenure| tenure.units == ALL).collect();
    let overtaken: Vec<_> = writers.iter().filter_map(|writer| overtaken_by(tenures, writer, most)).collect();
    if overtaken.len() * 4 > writers.len() {
        let text = format!("{} of {}: {}", overtaken.len(), writers.len(), overtaken.join("; "));
        found.blame(Verdict::StoreTruth, text);
    }
}

/// Who came in more than `most` times while `writer` waited.
fn overtaken_by(tenures: &[Tenure<'_>], writer: &Tenure<'_>, most: usize) -> Option<String> {
    let mut before: HashMap<&str, usize> = HashMap::new();
    let during = tenures.iter().filter(|t| t.task != writer.task && t.granted > writer.asked);
    for other in during.filter(|other| other.granted < writer.granted) {
        *before.entry(other.task).or_default() += 1;
    }
    let (task, times) = before.into_iter().find(|(_, times)| *times > most)?;
    Some(format!("{task} came in {times} times while {} waited", writer.task))
}

/// The first grant after `at`: who got it, and when.
pub fn first_grant_after(history: &History, at: Nanos) -> Option<(&str, Nanos)> {
    let granted = history.records.iter().filter(|r| r.at > at && matches!(r.event, Event::Grant { .. }));
    granted.min_by_key(|r| r.at).map(|r| (r.task.as_str(), r.at))
}

impl Judgement {
    fn blame(&mut self, verdict: Verdict, text: String) {
        self.violations.push(Violation { verdict, text });
    }
}

fn tenures<'a>(history: &'a History, found: &mut Judgement) -> Vec<Tenure<'a>> {
    let mut tenures: Vec<Tenure<'a>> = Vec::new();
    let mut latest: HashMap<&str, usize> = HashMap::new();
    for record in &history.records {
        let Record { at, pid, task, token, event } = record;
        if let Event::Grant { asked, until, units } = event {
            latest.insert(task, tenures.len());
            tenures.push(Tenure {
                task,
                token: *token,
                units: *units,
                asked: *asked,
                granted: *at,
                until: *until,
                increments: Vec::new(),
                lost: None,
                over: false,
                died: history.deaths.iter().find(|(dead, _)| dead == pid).map(|(_, at)| *at),
                freed: history.freed.iter().find(|(_, end)| at < end).map(|(begin, _)| *begin.max(at)),
            });
            continue;
        }
        let tenure = latest.get(task.as_str()).map(|i| &mut tenures[*i]);
        let Some(tenure) = tenure.filter(|tenure| tenure.token == *token && !tenure.over) else {
            found.blame(Verdict::StoreTruth, format!("{task} acts under token {token}, which it does not hold"));
            continue;
        };
        match event {
            Event::Increment { begin, value, held, until } => {
                if *begin < tenure.granted || at < begin {
                    let text = format!("{task} logs an increment under token {token} that began before its grant");
                    found.blame(Verdict::Log, text);
                }
                tenure.until = tenure.until.max(if *held { *until } else { 0 });
                tenure.increments.push(Increment { begin: *begin, end: *at, value: *value, held: *held });
            }
            Event::Lost { .. } => tenure.lost = Some(*at),
            Event::Released { .. } | Event::Grant { .. } => tenure.over = true,
        }
    }
    tenures
}

fn tokens_are_unique(tenures: &[&Tenure<'_>], found: &mut Judgement) {
    let mut seen: HashMap<u64, &str> = HashMap::new();
    for Tenure { task, token, .. } in tenures {
        if let Some(other) = seen.insert(*token, task) {
            found.blame(Verdict::StoreTruth, format!("token {token} was granted to {other} and to {task}"));
        }
    }
}

fn tokens_order_the_increments(tenures: &[&Tenure<'_>], found: &mut Judgement) {
    let mut by_token: Vec<_> =
        tenures.iter().flat_map(|tenure| tenure.increments.iter().map(move |i| (*tenure, i))).collect();
    let late: Vec<_> =
        by_token.extract_if(.., |(_, increment)| !increment.held).map(|(_, increment)| increment).collect();
    by_token.sort_by_key(|(tenure, increment)| (tenure.token, increment.begin));
    for pair in by_token.windows(2) {
        let [(lower, before), (higher, after)] = pair else { continue };
        let (a, b) = (lower.task, higher.task);
        if after.begin < before.end.min(lower.freed.unwrap_or(before.end)) {
            let overlap = between(after.begin, before.end) * 1e6;
            let text = format!(
                "{b} (token {}) began an increment {overlap:.0} us before {a} (token {}) had finished one",
                higher.token, lower.token
            );
            found.blame(Verdict::StoreTruth, text);
        }
        if after.value <= before.value && !goes_on_from_a_late_write(after, before, &late) {
            let text = format!(
                "{b} (token {}) wrote {} after {a} (token {}) had written {}",
                higher.token, after.value, lower.token, before.value
            );
            found.blame(Verdict::StoreTruth, text);
        }
    }
}

/// Whether somebody whose lock was lost threw the counter back between two increments, and the second one read that.
fn goes_on_from_a_late_write(after: &Increment, before: &Increment, late: &[&Increment]) -> bool {
    let between = |write: &&&Increment| write.end >= before.begin && write.begin <= after.end;
    late.iter().filter(between).any(|write| write.value + 1 == after.value)
}

fn tokens_rise_in_time(tenures: &[&Tenure<'_>], found: &mut Judgement) {
    let mut by_grant = tenures.to_vec();
    by_grant.sort_by_key(|tenure| tenure.granted);
    let mut by_ask = by_grant.clone();
    by_ask.sort_by_key(|tenure| tenure.asked);
    let mut earlier = by_grant.into_iter().peekable();
    let mut highest: Option<&Tenure<'_>> = None;
    for tenure in by_ask {
        while let Some(granted) = earlier.next_if(|granted| granted.granted < tenure.asked) {
            if highest.is_none_or(|highest| highest.token < granted.token) {
                highest = Some(granted);
            }
        }
        if let Some(highest) = highest.filter(|highest| highest.token >= tenure.token) {
            let text = format!(
                "{} asked after {} had token {}, and got {}",
                tenure.task, highest.task, highest.token, tenure.token
            );
            found.blame(Verdict::StoreTruth, text);
        }
    }
}

/// The same as by tokens, for holders some of which have none.
fn increments_exclude_each_other(tenures: &[Tenure<'_>], found: &mut Judgement) {
    let mut all: Vec<_> =
        tenures.iter().flat_map(|tenure| tenure.increments.iter().map(move |i| (tenure.task, i))).collect();
    all.retain(|(_, increment)| increment.held);
    all.sort_by_key(|(_, increment)| increment.begin);
    for pair in all.windows(2) {
        let [(a, before), (b, after)] = pair else { continue };
        if after.begin < before.end {
            let overlap = between(after.begin, before.end) * 1e6;
            let text = format!("{b} began an increment {overlap:.0} us before {a} had finished one");
            found.blame(Verdict::StoreTruth, text);
        }
    }
}

fn no_increment_is_lost(history: &History, tenures: &[Tenure<'_>], found: &mut Judgement) {
    let mut values: Vec<_> = tenures.iter().flat_map(|tenure| tenure.increments.iter().map(|i| i.value)).collect();
    values.sort_unstable();
    for pair in values.windows(2) {
        if pair[0] == pair[1] {
            found.blame(Verdict::StoreTruth, format!("two tasks wrote {}: one increment is lost", pair[0]));
        }
    }
    let (logged, deaths) = (values.len() as u64, history.deaths.len() as u64);
    if !(logged..=logged + deaths).contains(&history.counter) {
        let text = format!(
            "the counter is {}, {logged} increments were logged as finished, {deaths} processes were killed",
            history.counter
        );
        found.blame(Verdict::StoreTruth, text);
    }
}

fn beliefs_exclude_each_other(tenures: &[Tenure<'_>], found: &mut Judgement) {
    let mut by_grant: Vec<_> = tenures.iter().collect();
    by_grant.sort_by_key(|tenure| tenure.granted);
    let mut longest: Option<&Tenure<'_>> = None;
    for tenure in by_grant {
        if let Some(other) = longest.filter(|other| other.believed_until() > tenure.granted) {
            let overlap = between(tenure.granted, other.believed_until()) * 1e6;
            let text = format!(
                "{} (token {}) was granted the lock {overlap:.0} us before {} (token {}) stopped believing to hold it",
                tenure.task, tenure.token, other.task, other.token
            );
            found.blame(Verdict::HolderBelief, text);
        }
        if longest.is_none_or(|other| other.believed_until() < tenure.believed_until()) {
            longest = Some(tenure);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(at: Nanos, task: &str, token: u64, event: Event) -> Record {
        Record { at, pid: task.as_bytes()[0].into(), task: task.into(), token, event }
    }

    fn grant(at: Nanos, task: &str, token: u64) -> Record {
        record(at, task, token, Event::Grant { asked: at - 5, until: at + 1000, units: 1 })
    }

    fn increment(begin: Nanos, at: Nanos, task: &str, token: u64, value: u64) -> Record {
        record(at, task, token, Event::Increment { begin, value, held: true, until: at + 1000 })
    }

    fn late(begin: Nanos, at: Nanos, task: &str, token: u64, value: u64) -> Record {
        record(at, task, token, Event::Increment { begin, value, held: false, until: 0 })
    }

    fn released(at: Nanos, task: &str, token: u64) -> Record {
        record(at, task, token, Event::Released { outcome: "released".into() })
    }

    fn lost(at: Nanos, task: &str, token: u64) -> Record {
        record(at, task, token, Event::Lost { why: "expired".into() })
    }

    /// Two tasks, three increments, nothing wrong.
    fn fine() -> History {
        let records = vec![
            grant(10, "a", 1),
            increment(11, 20, "a", 1, 1),
            released(30, "a", 1),
            grant(25, "b", 2),
            increment(26, 35, "b", 2, 2),
            released(45, "b", 2),
            grant(50, "a", 3),
            increment(51, 60, "a", 3, 3),
            released(61, "a", 3),
        ];
        History { records, deaths: Vec::new(), freed: Vec::new(), counter: 3 }
    }

    fn verdicts(history: &History) -> Vec<Verdict> {
        judge(history).violations.into_iter().map(|violation| violation.verdict).collect()
    }

    fn of(records: Vec<Record>, counter: u64) -> History {
        History { records, deaths: Vec::new(), freed: Vec::new(), counter }
    }

    #[test]
    fn a_history_without_fault_passes() {
        let judgement = judge(&fine());
        assert!(judgement.violations.is_empty(), "{:?}", judgement.violations);
        assert_eq!((judgement.grants, judgement.increments, judgement.late), (3, 3, 0));
    }

    #[test]
    fn holders_without_a_token_are_judged_by_time_and_value() {
        let records = |begin| {
            vec![
                grant(10, "theirs", 0),
                increment(11, 20, "theirs", 0, 1),
                released(21, "theirs", 0),
                grant(22, "ours", 5),
                increment(23, 30, "ours", 5, 2),
                released(31, "ours", 5),
                grant(begin - 1, "theirs", 0),
                increment(begin, 40, "theirs", 0, 3),
                released(41, "theirs", 0),
            ]
        };
        assert_eq!(verdicts(&of(records(35), 3)), []);
        assert!(verdicts(&of(records(28), 3)).contains(&Verdict::StoreTruth));
        assert!(verdicts(&of(records(35), 2)).contains(&Verdict::StoreTruth));
    }

    #[test]
    fn a_token_granted_twice_is_found() {
        let twice = of(
            vec![
                grant(10, "a", 1),
                increment(11, 12, "a", 1, 1),
                released(13, "a", 1),
                grant(20, "b", 1),
                increment(21, 22, "b", 1, 2),
                released(23, "b", 1),
            ],
            2,
        );
        let violations = judge(&twice).violations;
        assert!(violations.iter().any(|v| v.text.contains("was granted to a and to b")), "{violations:?}");
    }

    #[test]
    fn an_increment_that_overlaps_a_higher_token_s_is_found() {
        let mut history = fine();
        history.records[4] = increment(19, 35, "b", 2, 2);
        history.records[3] = record(18, "b", 2, Event::Grant { asked: 5, until: 1000, units: 1 });
        let found = verdicts(&history);
        assert!(found.contains(&Verdict::StoreTruth) && found.contains(&Verdict::HolderBelief), "{found:?}");
    }

    #[test]
    fn values_out_of_the_tokens_order_are_found() {
        let mut history = fine();
        history.records[1] = increment(11, 20, "a", 1, 2);
        history.records[4] = increment(26, 35, "b", 2, 1);
        assert_eq!(verdicts(&history), [Verdict::StoreTruth]);
    }

    #[test]
    fn a_write_after_the_lock_was_lost_may_throw_the_counter_back() {
        // A stopped process had read 0 under token 1; whoever comes after its write goes on from 1.
        let thrown_back = |value| {
            let records = vec![
                grant(5, "z", 1),
                grant(10, "a", 2),
                increment(11, 20, "a", 2, 1),
                released(21, "a", 2),
                grant(22, "b", 3),
                increment(23, 30, "b", 3, 2),
                released(31, "b", 3),
                late(6, 32, "z", 1, 1),
                lost(33, "z", 1),
                grant(34, "a", 4),
                increment(35, 40, "a", 4, value),
                released(41, "a", 4),
            ];
            judge(&of(records, value)).violations.into_iter().filter(|v| v.text.contains("had written")).count()
        };
        assert_eq!(thrown_back(2), 0);
        assert_eq!(thrown_back(1), 1, "nobody wrote what was read");
    }

    #[test]
    fn a_late_write_explains_nothing_that_came_before_it() {
        let mut history = fine();
        history.records[1] = increment(11, 20, "a", 1, 2);
        history.records[4] = increment(26, 35, "b", 2, 1);
        history.records.extend([grant(62, "c", 4), late(63, 70, "c", 4, 0), lost(71, "c", 4)]);
        let violations = judge(&history).violations;
        assert!(violations.iter().any(|v| v.text.contains("had written")), "{violations:?}");
    }

    #[test]
    fn a_token_that_falls_is_found() {
        let mut history = fine();
        for (i, record) in history.records.iter_mut().enumerate() {
            record.token = if i < 6 { record.token + 1 } else { 1 };
        }
        let violations = judge(&history).violations;
        assert!(violations.iter().any(|v| v.text.contains("asked after")), "{violations:?}");
    }

    #[test]
    fn who_asked_early_may_be_overtaken() {
        let mut history = fine();
        history.records[0] = record(10, "a", 1, Event::Grant { asked: 1, until: 1000, units: 1 });
        history.records[3] = record(25, "b", 2, Event::Grant { asked: 2, until: 1000, units: 1 });
        assert_eq!(verdicts(&history), []);
    }

    /// The verdicts on three tasks that take one unit each of two: the third begins its increment at `begin`.
    fn three_of_two(begin: Nanos) -> Vec<Verdict> {
        let took = |at, task: &str, token| record(at, task, token, Event::Grant { asked: 5, until: 1000, units: 1 });
        let records = vec![
            took(10, "a", 1),
            took(11, "b", 2),
            increment(12, 40, "a", 1, 1),
            increment(13, 50, "b", 2, 1),
            took(begin - 1, "c", 3),
            increment(begin, 60, "c", 3, 2),
        ];
        let judgement = judge_shared(&History { records, ..fine() }, 2, None);
        judgement.violations.into_iter().map(|violation| violation.verdict).collect()
    }

    #[test]
    fn more_than_there_is_given_at_one_grant_is_found_by_both_verdicts() {
        assert_eq!(three_of_two(42), []);
        assert_eq!(three_of_two(38), [Verdict::StoreTruth, Verdict::HolderBelief]);
    }

    #[test]
    fn a_writer_beside_a_reader_is_found_in_either_order() {
        let beside = |writer: u64, reader: u64, overlaps: bool| {
            let begin = if overlaps { 15 } else { 35 };
            let (first, second) = if writer < reader { (ALL, 1) } else { (1, ALL) };
            let took =
                |at, task: &str, token, units| record(at, task, token, Event::Grant { asked: 5, until: 1000, units });
            let records = vec![
                took(10, "a", 1, first),
                increment(11, 30, "a", 1, 1),
                took(begin - 1, "b", 2, second),
                increment(begin, 60, "b", 2, 2),
            ];
            judge_shared(&History { records, ..fine() }, ALL, None).violations.len()
        };
        for (writer, reader) in [(1, 2), (2, 1)] {
            assert_eq!((beside(writer, reader, false), beside(writer, reader, true)), (0, 2));
        }
    }

    #[test]
    fn what_is_counted_after_the_loss_counts_for_nobody_s_share() {
        let took = |at, task: &str, token, until| record(at, task, token, Event::Grant { asked: 5, until, units: 2 });
        let records =
            vec![took(10, "a", 1, 20), took(25, "b", 2, 1000), increment(26, 40, "b", 2, 1), late(12, 50, "a", 1, 1)];
        let judgement = judge_shared(&History { records, ..fine() }, 2, None);
        assert!(judgement.violations.is_empty() && judgement.late == 1, "{:?}", judgement.violations);
    }

    #[test]
    fn writers_that_readers_keep_out_are_found() {
        let judged = |kept_out: u64| {
            let mut records = Vec::new();
            for turn in 0..10 {
                let begin = turn * 1000;
                let readers = if turn < kept_out { 4 } else { 3 };
                for n in 0..readers {
                    let (at, token) = (begin + 10 * (n + 1), turn * 10 + n + 1);
                    records.push(record(at, "r", token, Event::Grant { asked: begin, until: at + 5, units: 1 }));
                }
                let granted = Event::Grant { asked: begin, until: begin + 600, units: ALL };
                records.push(record(begin + 500, "w", turn * 10 + 9, granted));
            }
            judge_shared(&History { records, ..fine() }, ALL, Some(3)).violations
        };
        assert_eq!(judged(2).len(), 0);
        assert!(judged(3)[0].text.contains("3 of 10: r came in 4 times while w waited"));
    }

    #[test]
    fn a_lost_update_is_found() {
        let mut history = fine();
        history.records[7] = increment(51, 60, "a", 3, 2);
        history.counter = 2;
        let violations = judge(&history).violations;
        assert!(violations.iter().any(|v| v.text.contains("two tasks wrote 2")), "{violations:?}");
        assert!(violations.iter().any(|v| v.text.contains("the counter is 2")), "{violations:?}");
    }

    #[test]
    fn a_counter_beyond_what_was_logged_needs_a_death_each() {
        let mut history = fine();
        history.counter = 4;
        assert_eq!(verdicts(&history), [Verdict::StoreTruth]);
        history.deaths = vec![(1, 70)];
        assert_eq!(verdicts(&history), []);
        history.counter = 5;
        assert_eq!(verdicts(&history), [Verdict::StoreTruth]);
    }

    #[test]
    fn acting_without_a_grant_is_found() {
        for stray in [increment(70, 71, "b", 2, 4), increment(70, 71, "c", 4, 4), lost(70, "a", 2)] {
            let mut history = fine();
            history.records.push(stray);
            assert!(verdicts(&history).contains(&Verdict::StoreTruth));
        }
    }

    #[test]
    fn an_increment_from_before_its_grant_spoils_the_log() {
        let mut history = fine();
        history.records[1] = increment(9, 20, "a", 1, 1);
        assert_eq!(verdicts(&history), [Verdict::Log]);
    }

    #[test]
    fn beliefs_that_overlap_are_found_until_lost_or_the_deadline() {
        let stopped = |end: Vec<Record>| {
            let mut records = vec![record(10, "a", 1, Event::Grant { asked: 5, until: 100, units: 1 })];
            records.extend([grant(60, "b", 2), increment(61, 70, "b", 2, 1), released(75, "b", 2)]);
            records.extend(end);
            of(records, 1)
        };
        assert_eq!(verdicts(&stopped(vec![])), [Verdict::HolderBelief]);
        assert_eq!(verdicts(&stopped(vec![lost(61, "a", 1)])), [Verdict::HolderBelief]);
        assert_eq!(verdicts(&stopped(vec![lost(59, "a", 1)])), []);
        let mut past = stopped(vec![lost(90, "a", 1)]);
        past.records[0] = record(10, "a", 1, Event::Grant { asked: 5, until: 55, units: 1 });
        assert_eq!(verdicts(&past), []);
        let mut dead = stopped(vec![]);
        dead.deaths = vec![(b'a'.into(), 50)];
        assert_eq!(verdicts(&dead), []);
        dead.deaths = vec![(b'a'.into(), 65)];
        assert_eq!(verdicts(&dead), [Verdict::HolderBelief]);
        // Killed between releasing and logging it.
        dead.records.insert(1, increment(20, 50, "a", 1, 1));
        dead.records[3] = increment(61, 70, "b", 2, 2);
        dead.counter = 2;
        assert_eq!(verdicts(&dead), []);
    }

    #[test]
    fn whoever_holds_what_its_store_frees_is_blamed_only_for_what_came_before() {
        let overlap = |freed: &[(Nanos, Nanos)]| {
            let records = vec![
                grant(10, "a", 1),
                increment(20, 70, "a", 1, 1),
                grant(60, "b", 2),
                increment(61, 80, "b", 2, 2),
                released(85, "b", 2),
            ];
            verdicts(&History { freed: freed.to_vec(), ..of(records, 2) })
        };
        assert_eq!(overlap(&[]), [Verdict::StoreTruth, Verdict::HolderBelief]);
        assert_eq!(overlap(&[(50, 90)]), []);
        assert_eq!(overlap(&[(5, 9)]), [Verdict::StoreTruth, Verdict::HolderBelief]);
        assert_eq!(overlap(&[(65, 90)]), [Verdict::StoreTruth, Verdict::HolderBelief]);
    }

    #[test]
    fn a_belief_in_the_shadow_of_a_longer_one_is_found() {
        let history = of(
            vec![
                grant(10, "a", 1),
                grant(20, "b", 2),
                increment(21, 22, "b", 2, 1),
                released(23, "b", 2),
                grant(30, "c", 3),
                increment(31, 32, "c", 3, 2),
                released(33, "c", 3),
            ],
            2,
        );
        assert_eq!(verdicts(&history), [Verdict::HolderBelief, Verdict::HolderBelief]);
    }

    #[test]
    fn what_is_done_after_losing_the_lock_is_only_counted() {
        let history = of(
            vec![
                record(10, "a", 1, Event::Grant { asked: 5, until: 15, units: 1 }),
                grant(20, "b", 2),
                increment(21, 25, "b", 2, 1),
                late(11, 30, "a", 1, 1),
                lost(31, "a", 1),
                released(32, "b", 2),
                released(33, "a", 1),
            ],
            1,
        );
        let judgement = judge(&history);
        assert!(judgement.violations.is_empty(), "{:?}", judgement.violations);
        assert_eq!(judgement.late, 1);
    }

    #[test]
    fn the_first_grant_after_a_moment_is_found() {
        assert_eq!(first_grant_after(&fine(), 10), Some(("b", 25)));
        assert_eq!(first_grant_after(&fine(), 50), None);
    }
}
