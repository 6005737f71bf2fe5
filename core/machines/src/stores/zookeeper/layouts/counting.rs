//! A latch as it lies in its directory, and how it is counted down.
//!
//! | node | what it is |
//! |---|---|
//! | `latch` | persistent; its data is `<count> <idle in s> <attempt> <attempt> ...`: who changed it last |
//! | `latch/shut` | persistent; there while the count is not 0, so that whoever waits is told when it goes |
//! | `latch/clock` | persistent; written with each use, so its times tell for how long nobody used the latch |
//! | `latch/_c_<uuid>-wait-<number>` | ephemeral; one who waits |
//!
//! A change is one transaction that says which version it changes. A request that is sent again, since its answer was
//! lost, finds another version, and its attempt among those that changed it last.
//!
//! ```text
//! change  Look: read the clock, write it, read it, read the latch
//!         NoNode                          Above: sync, children of its directory
//!         known attempt | nothing to do   the answer
//!         else                            Write: set the latch, make or delete shut; Look where it was not done
//! Above   something else lies there       failed
//!         nothing                         Make: containers down to the directory, latch, clock and shut; then Look
//! ```

use std::sync::Arc;

use super::line::foreign;
use super::recipe::{GATES, Recipe};
use super::{CHILDREN, CONTAINER, Change, READ, SET};
use super::{after_sync, child, deleted, first, garbled, is_done, names, on, read, synced, together, unmade};
use crate::error::{Error, Kind, Result};
use crate::gate::{Answer, CountOperation, LatchPlan, MOST_COUNT};
use crate::protocol::{Arg, AttemptId, Inquiry, Reply, Request, Requests};

/// How many of those who changed it last it remembers.
const REMEMBERED: usize = 64;
/// How often a change that others were faster than is tried: each time somebody's change was made.
const MAX_ROUNDS: u16 = 1000;

const DOING: &str = "latch";

/// Where a latch lies.
#[derive(Clone, Debug, Hash)]
pub(super) struct Places {
    pub(super) dir: Arc<str>,
    pub(super) latch: Arc<str>,
    pub(super) shut: Arc<str>,
    clock: Arc<str>,
}

/// What the data of a latch says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) count: u32,
    /// For how many seconds it is kept.
    idle: i64,
    known: Vec<String>,
}

/// A latch that was looked at.
pub(super) struct Seen {
    pub(super) state: State,
    version: i64,
    /// Nobody used it for longer than it is to be kept.
    is_over: bool,
}

fn idle_of(plan: LatchPlan) -> i64 {
    i64::try_from(plan.idle.as_secs()).unwrap_or(i64::MAX)
}

impl State {
    pub(super) fn of(plan: LatchPlan) -> Self {
        State { count: plan.count, idle: idle_of(plan), known: Vec::new() }
    }

    pub(super) fn read(data: &str) -> Option<Self> {
        let mut words = data.split(' ');
        let count = words.next()?.parse().ok().filter(|count| *count <= MOST_COUNT)?;
        let idle = words.next()?.parse().ok()?;
        Some(State { count, idle, known: words.map(str::to_owned).collect() })
    }

    fn written(&self) -> Arc<str> {
        let State { count, idle, known } = self;
        let known: String = known.iter().map(|attempt| format!(" {attempt}")).collect();
        format!("{count} {idle}{known}").into()
    }

    fn knows(&self, attempt: AttemptId) -> bool {
        self.known.contains(&attempt.to_string())
    }

    fn remembers(&mut self, attempt: AttemptId) {
        let forgotten = (self.known.len() + 1).saturating_sub(REMEMBERED);
        self.known.drain(..forgotten);
        self.known.push(attempt.to_string());
    }
}

impl Seen {
    /// What it has to be before somebody may use it who says `plan`: another one where it is over, and kept for as long
    /// as anybody says.
    fn due(&self, plan: LatchPlan) -> Option<State> {
        let idle = self.state.idle.max(idle_of(plan));
        match self.is_over {
            true => Some(State::of(plan)),
            false if idle > self.state.idle => Some(State { idle, ..self.state.clone() }),
            false => None,
        }
    }
}

impl Places {
    pub(super) fn of(dir: Arc<str>) -> Self {
        let [latch, _] = GATES.map(|below| child(&dir, below));
        let (shut, clock) = (child(&latch, "shut"), child(&latch, "clock"));
        Places { dir, latch, shut, clock }
    }

    /// Uses the latch: how it is, and for how long nobody did.
    pub(super) fn reads(&self) -> [Request; 4] {
        let clock = || on(&READ, &self.clock);
        [clock(), Request::new(&SET, self.clock.clone(), [Arg::Text("".into())]), clock(), on(&READ, &self.latch)]
    }

    /// The answer to [`reads`](Self::reads); `None` where there is no latch.
    pub(super) fn seen(&self, replies: &[Reply]) -> Result<Option<Seen>> {
        let [before, written, now, latch] = replies else { return Err(garbled(DOING)) };
        deleted(DOING, written)?;
        let nodes = (read(DOING, before)?, read(DOING, now)?, read(DOING, latch)?);
        let (Some(before), Some(now), Some(latch)) = nodes else { return Ok(None) };
        let state = State::read(&latch.data).ok_or_else(|| foreign(DOING, &self.dir, "another latch"))?;
        let unused = now.mtime.saturating_sub(before.mtime);
        let is_over = unused > state.idle.saturating_mul(1000);
        Ok(Some(Seen { state, version: latch.version, is_over }))
    }

    /// What else lies beside it, in words.
    pub(super) fn stranger(names: &[&str]) -> Option<&'static str> {
        names.iter().find_map(|name| Recipe::beside_gate(name, GATES[0]))
    }

    /// Makes it, with its directory.
    pub(super) fn make(&self, state: &State) -> Requests {
        let ends = self.dir.match_indices('/').map(|(end, _)| end).skip(1).chain([self.dir.len()]);
        let containers = ends.map(|end| on(&CONTAINER, &self.dir[..end].into()));
        let make = |path: &Arc<str>, data: Arc<str>| Change::Make(path.clone(), data);
        let nodes = [make(&self.latch, state.written()), make(&self.clock, "".into()), make(&self.shut, "".into())];
        containers.chain([together(&self.latch, nodes)]).collect()
    }

    /// Whether it was made; else it was there.
    pub(super) fn made(&self, replies: &[Reply]) -> Result<bool> {
        let [containers @ .., made] = replies else { return Err(garbled(DOING)) };
        match made {
            Reply::Error { code, .. } if code == "NoNode" => Err(unmade(containers)),
            made => is_done(DOING, made),
        }
    }

    /// Changes what was seen to `to`, or nothing.
    fn write(&self, seen: &Seen, to: &State) -> Request {
        let shut = match (seen.state.count, to.count) {
            (1.., 0) => Some(Change::Remove(self.shut.clone())),
            (0, 1..) => Some(Change::Make(self.shut.clone(), "".into())),
            _ => None,
        };
        let set = Change::Set(self.latch.clone(), to.written(), seen.version);
        together(&self.latch, [set].into_iter().chain(shut))
    }

    /// Makes what was seen what it has to be before it is used, if it is not.
    pub(super) fn mend(&self, seen: &Seen, plan: LatchPlan) -> Option<Request> {
        seen.due(plan).map(|due| self.write(seen, &due))
    }
}

/// A change of the count that is under way.
pub(super) struct Counting {
    places: Places,
    attempt: AttemptId,
    operation: CountOperation,
    plan: LatchPlan,
    rounds: u16,
    /// Which version it wanted to change first.
    first: Option<i64>,
}

impl Counting {
    pub(super) fn new(dir: Arc<str>, attempt: AttemptId, operation: CountOperation, plan: LatchPlan) -> Self {
        Counting { places: Places::of(dir), attempt, operation, plan, rounds: 0, first: None }
    }

    pub(super) fn ask<'a>(mut self) -> Inquiry<'a, Answer> {
        self.rounds += 1;
        if self.rounds > MAX_ROUNDS {
            let message = "others changed the latch each time before this one could; try again";
            return Inquiry::Done(Err(Error::new(Kind::Unavailable, DOING, message)));
        }
        Inquiry::ask(self.places.reads(), move |replies| match self.places.seen(replies) {
            Ok(Some(seen)) => self.change(&seen),
            Ok(None) => self.above(),
            Err(error) => Inquiry::Done(Err(error)),
        })
    }

    /// There is none: it is made where nothing else lies.
    fn above<'a>(self) -> Inquiry<'a, Answer> {
        Inquiry::ask(synced(&self.places.dir, [on(&CHILDREN, &self.places.dir)]), move |replies| {
            let list = after_sync(DOING, replies).and_then(|reads| names(DOING, first(DOING, reads)?));
            let stranger = match list.map(|list| Places::stranger(&list.unwrap_or_default().1)) {
                Ok(stranger) => stranger,
                Err(error) => return Inquiry::Done(Err(error)),
            };
            if let Some(what) = stranger {
                return Inquiry::Done(Err(foreign(DOING, &self.places.dir, what)));
            }
            let mut state = State::of(self.plan);
            let sets = self.operation == CountOperation::Set;
            if sets {
                state.remembers(self.attempt);
            }
            Inquiry::ask(self.places.make(&state), move |replies| match self.places.made(replies) {
                Ok(true) if sets => Inquiry::Done(Ok(Answer::Left(self.plan.count))),
                Ok(_) => self.ask(),
                Err(error) => Inquiry::Done(Err(error)),
            })
        })
    }

    fn change<'a>(mut self, seen: &Seen) -> Inquiry<'a, Answer> {
        let said = |answer| Inquiry::Done(Ok(answer));
        let mut to = seen.due(self.plan).unwrap_or_else(|| seen.state.clone());
        if seen.state.knows(self.attempt) {
            return said(Answer::Left(seen.state.count));
        }
        let since = *self.first.get_or_insert(seen.version);
        if seen.version.saturating_sub(since) > REMEMBERED as i64 {
            let message = "so many others changed the latch meanwhile that it is not known whether this one did; look at its count";
            return Inquiry::Done(Err(Error::new(Kind::Unavailable, DOING, message)));
        }
        match self.operation {
            CountOperation::Down if to.count == 0 => return said(Answer::Left(0)),
            CountOperation::Set if !seen.is_over && to.count > 0 => return said(Answer::Refused),
            CountOperation::Down => to.count -= 1,
            CountOperation::Set => to.count = self.plan.count,
        }
        to.remembers(self.attempt);
        Inquiry::ask([self.places.write(seen, &to)], move |replies| {
            match first(DOING, replies).and_then(|reply| is_done(DOING, reply)) {
                Ok(true) => Inquiry::Done(Ok(Answer::Left(to.count))),
                Ok(false) => self.ask(),
                Err(error) => Inquiry::Done(Err(error)),
            }
        })
    }
}

/// How many are to come yet. Makes no latch, and uses none.
pub(super) fn count<'a>(dir: Arc<str>) -> Inquiry<'a, Answer> {
    let places = Places::of(dir);
    let reads = synced(&places.dir, [on(&CHILDREN, &places.dir), on(&READ, &places.latch)]);
    Inquiry::ask(reads, move |replies| {
        let count = after_sync(DOING, replies).and_then(|reads| counted(DOING, &places.dir, reads));
        Inquiry::Done(count.map(|count| count.map_or(Answer::Nothing, Answer::Left)))
    })
}

/// The count by the answers to the reads of what lies beside a latch, and of the latch.
pub(super) fn counted(doing: &'static str, dir: &str, reads: &[Reply]) -> Result<Option<u32>> {
    let [list, latch] = reads else { return Err(garbled(doing)) };
    if let Some(what) = Places::stranger(&names(doing, list)?.unwrap_or_default().1) {
        return Err(foreign(doing, dir, what));
    }
    let Some(latch) = read(doing, latch)? else { return Ok(None) };
    let state = State::read(&latch.data).ok_or_else(|| foreign(doing, dir, "another latch"))?;
    Ok(Some(state.count))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::changes;
    use super::*;

    /// A latch as it is read at its `mtime` of the clock, used before at 1 s.
    fn reads(data: &str, version: i64, mtime: i64) -> Vec<Reply> {
        let node = |data: &str, version, mtime| {
            let [session, czxid, owner, version, mzxid, mtime] = [7, 5, 0, version, 6, mtime].map(Reply::Int);
            Reply::List(vec![session, czxid, owner, Reply::Text(data.into()), version, mzxid, mtime])
        };
        vec![node("", 1, 1_000), Reply::Nil, node("", 2, mtime), node(data, version, mtime)]
    }

    fn counting(operation: CountOperation) -> Inquiry<'static, Answer> {
        let plan = LatchPlan::new(3, Duration::from_secs(60)).unwrap();
        Counting::new("/lk".into(), AttemptId(9), operation, plan).ask()
    }

    #[test]
    fn what_nobody_used_for_longer_than_it_is_kept_is_another_latch() {
        let me = AttemptId(9);
        for (operation, mtime, left, wants_shut) in [
            (CountOperation::Down, 61_001, Answer::Left(2), true),
            (CountOperation::Set, 61_001, Answer::Left(3), true),
            (CountOperation::Down, 61_000, Answer::Left(0), false),
            (CountOperation::Set, 61_000, Answer::Left(3), true),
        ] {
            let mut written = Vec::new();
            let answer = counting(operation).conclude(|requests| match requests.len() {
                4 => Ok(reads("0 60 other", 3, mtime)),
                _ => {
                    written = changes(&requests[0].args).unwrap();
                    Ok(vec![Reply::Nil])
                }
            });
            assert_eq!(answer.unwrap(), left);
            let makes =
                written.iter().any(|change| matches!(change, Change::Make(path, _) if **path == *"/lk/latch/shut"));
            assert_eq!(makes, wants_shut, "{written:?}");
            let known = if mtime > 61_000 { format!(" {me}") } else { format!(" other {me}") };
            let Answer::Left(count) = left else { unreachable!() };
            let to = Change::Set("/lk/latch".into(), format!("{count} 60{known}").into(), 3);
            assert!(!wants_shut || written[0] == to, "{written:?}");
        }
    }

    #[test]
    fn it_is_kept_for_the_longest_that_anybody_says() {
        let mut written = Vec::new();
        let plan = LatchPlan::new(3, Duration::from_secs(90)).unwrap();
        let asked = Counting::new("/lk".into(), AttemptId(9), CountOperation::Down, plan).ask();
        asked
            .conclude(|requests| match requests.len() {
                4 => Ok(reads("2 60", 3, 2_000)),
                _ => {
                    written = changes(&requests[0].args).unwrap();
                    Ok(vec![Reply::Nil])
                }
            })
            .unwrap();
        let data = format!("1 90 {}", AttemptId(9));
        assert_eq!(written, [Change::Set("/lk/latch".into(), data.into(), 3)]);
    }

    #[test]
    fn whether_it_counted_is_not_known_once_too_many_others_did() {
        let busy = || Reply::Error { code: "BadVersion".into(), message: String::new() };
        for (others, known) in [(64, true), (65, false)] {
            let mut looks = 0;
            let answer = counting(CountOperation::Down).conclude(|requests| {
                looks += i64::from(requests.len() == 4);
                Ok(match (requests.len(), looks) {
                    (4, 1) => reads("9 60", 3, 2_000),
                    (4, _) => reads("8 60", 3 + others, 2_000),
                    (_, 1) => vec![busy()],
                    _ => vec![Reply::Nil],
                })
            });
            match known {
                true => assert_eq!(answer.unwrap(), Answer::Left(7)),
                false => assert_eq!(answer.unwrap_err().kind(), Kind::Unavailable),
            }
        }
    }

    #[test]
    fn only_the_last_who_changed_it_are_remembered() {
        let mut state = State { count: 1, idle: 60, known: Vec::new() };
        (0..100).for_each(|attempt| state.remembers(AttemptId(attempt)));
        assert_eq!(state.known.len(), REMEMBERED);
        assert!(state.knows(AttemptId(99)) && state.knows(AttemptId(36)) && !state.knows(AttemptId(35)));
        assert_eq!(State::read(&state.written()), Some(state));
        assert!(["", "1", "x 60", "1 x", "1000001 60", "-1 60"].iter().all(|data| State::read(data).is_none()));
    }
}
