//! Depth first through everything that can happen: only the way to the present state is kept whole, of all others a
//! number. A violation is looked for once more breadth first, so that what is shown has the shortest schedule.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::layout::Record;
use crate::processor::processor_seconds;
use crate::setup::{Setup, Spent};
use crate::world::{Step, World};

/// Ticks until everybody is served, and until nothing is left.
pub type Recovery = (u8, u8);

/// What a whole space came to.
#[derive(Debug)]
pub struct Explored {
    pub states: usize,
    pub transitions: u64,
    /// Whether nothing was left out.
    pub whole: bool,
    /// Of a processor.
    pub seconds: f64,
    /// What the visited states take, in bytes.
    pub memory: usize,
    /// For each set of faults: within how many ticks of a run without further faults everybody is served, and within
    /// how many nothing is left, from the worst state there is.
    pub recovery: BTreeMap<Spent, Recovery>,
    /// What was believed, and what the store had, in any state; only gathered where two searches are compared.
    pub outlooks: BTreeSet<u64>,
}

/// What must never happen, and a way there.
#[derive(Debug)]
pub struct Violation {
    pub what: String,
    pub trace: String,
}

const UNKNOWN: u32 = u32::MAX;
/// As ticks: a run that never ends, and one that was not followed yet.
const ENDLESS: u8 = u8::MAX;
const UNFOLLOWED: u8 = u8::MAX - 1;
/// After how many states each a line says how far it is.
const PROGRESS: usize = 10_000_000;
/// How many states are looked at for a shorter way to a violation.
const SHORTER: usize = 2_000_000;

/// The visited states, column by column; the states themselves are not kept.
#[derive(Default)]
struct Visits {
    fingerprint: Vec<u64>,
    /// Where a run without further faults goes from here; [`UNKNOWN`] when it was never looked at.
    next: Vec<u32>,
    /// The number of its set of faults.
    spent: Vec<u8>,
    /// Whether `next` takes a tick, everybody is served, nothing is left.
    is: Vec<u8>,
}

const PASSES: u8 = 1;
const SERVED: u8 = 2;
const CLEAN: u8 = 4;

impl Visits {
    /// Bytes for each visited state; its way to the end takes two more.
    const BYTES: usize = 8 + 4 + 1 + 1 + 2;

    fn len(&self) -> usize {
        self.fingerprint.len()
    }

    fn push(&mut self, fingerprint: u64, spent: u8, is: u8) {
        // Doubling would need twice the memory while it lasts.
        if self.len() == self.fingerprint.capacity() {
            let more = self.len() / 4 + 1024;
            self.fingerprint.reserve_exact(more);
            self.next.reserve_exact(more);
            self.spent.reserve_exact(more);
            self.is.reserve_exact(more);
        }
        self.fingerprint.push(fingerprint);
        self.next.push(UNKNOWN);
        self.spent.push(spent);
        self.is.push(is);
    }
}

struct Search<'a> {
    setup: &'a Setup,
    visits: Visits,
    /// The states on the present way, and the tick at which each was met.
    on_the_way: HashMap<u32, u32>,
    sets: Vec<Spent>,
    /// Open addressing over `visits`, by fingerprint.
    table: Vec<u32>,
    transitions: u64,
    outlooks: BTreeSet<u64>,
}

/// A state whose steps are being taken.
struct Frame<R: Record> {
    index: u32,
    world: World<R>,
    steps: Vec<(u16, Step)>,
    taken: usize,
    chosen: Option<u16>,
}

/// Visits every state that `setup` can reach, at most `most` of them.
///
/// # Errors
/// A violation, with its schedule.
pub fn explore<R: Record>(setup: &Setup, most: usize) -> Result<Explored, Violation> {
    let started = processor_seconds();
    let mut search = Search::new(setup);
    let whole = match search.deep::<R>(most, None) {
        Ok(whole) => whole,
        Err(found) => return Err(Search::new(setup).broad::<R>(SHORTER).unwrap_or_else(|| found.told())),
    };
    let recovery = search.recovery::<R>()?;
    let states = search.visits.len();
    let memory = states * Visits::BYTES + search.table.len() * size_of::<u32>();
    let (transitions, seconds) = (search.transitions, processor_seconds() - started);
    Ok(Explored { states, transitions, whole, seconds, memory, recovery, outlooks: search.outlooks })
}

/// A choice among `count` that depends on nothing but the state.
fn pick(fingerprint: u64, count: usize) -> usize {
    (fingerprint.rotate_left(29) % count as u64) as usize
}

/// A way that the search went, and why it stopped there.
struct Found<'a, R: Record> {
    setup: &'a Setup,
    what: String,
    way: Vec<(World<R>, Option<Step>)>,
}

impl<R: Record> Found<'_, R> {
    fn told(self) -> Violation {
        let mut text = String::new();
        for (at, (world, step)) in self.way.iter().enumerate() {
            if at > 0 {
                text += &format!("{}\n", world.describe(self.setup));
            }
            if let Some(step) = step {
                text += &format!("{:>3}  {}\n", world.now, world.explain(self.setup, *step));
            }
        }
        Violation { what: self.what, trace: text }
    }
}

impl<'a> Search<'a> {
    fn new(setup: &'a Setup) -> Self {
        let (visits, on_the_way, sets) = (Visits::default(), HashMap::new(), Vec::new());
        Search {
            setup,
            visits,
            on_the_way,
            sets,
            table: vec![UNKNOWN; 1 << 16],
            transitions: 0,
            outlooks: BTreeSet::new(),
        }
    }

    /// Depth first; whether the whole space was visited. Stops on the way to `wanted`, if that is met.
    fn deep<R: Record>(&mut self, most: usize, wanted: Option<u64>) -> Result<bool, Found<'a, R>> {
        let start = World::<R>::new(self.setup);
        let (index, _) = self.visit(&start);
        let mut way = vec![self.frame(index, start)];
        while let Some(frame) = way.last_mut() {
            let Some((via, step)) = frame.steps.get(frame.taken).copied() else {
                self.on_the_way.remove(&frame.index);
                way.pop();
                continue;
            };
            frame.taken += 1;
            self.transitions += 1;
            let next = match frame.world.after(self.setup, step) {
                Ok(next) => next,
                Err(what) => return Err(self.found(way, what)),
            };
            let (index, is_new) = self.visit(&next);
            if frame.chosen == Some(via) {
                let at = frame.index as usize;
                self.visits.next[at] = index;
                self.visits.is[at] |= if step == Step::Pass { PASSES } else { 0 };
            }
            if is_new {
                if self.visits.len() >= most {
                    return Ok(false);
                }
                let is_wanted = wanted == Some(self.visits.fingerprint[index as usize]);
                way.push(self.frame(index, next));
                if is_wanted {
                    return Err(self.found(way, String::new()));
                }
            } else if self.on_the_way.get(&index) == Some(&next.now) {
                // Without such circles every circle has a state in which a tick passes, and such a state takes all its
                // steps.
                return Err(self.found(way, "a circle in which no time passes".to_owned()));
            }
        }
        Ok(true)
    }

    fn found<R: Record>(&self, way: Vec<Frame<R>>, what: String) -> Found<'a, R> {
        let last = |frame: &Frame<R>| frame.taken.checked_sub(1).map(|taken| frame.steps[taken].1);
        let way = way.into_iter().map(|frame| (last(&frame), frame.world)).map(|(step, world)| (world, step)).collect();
        Found { setup: self.setup, what, way }
    }

    /// The state `index`, about to take its steps: all, or those of one client when they say it all.
    fn frame<R: Record>(&mut self, index: u32, world: World<R>) -> Frame<R> {
        self.on_the_way.insert(index, world.now);
        let mut steps = Vec::new();
        world.steps(self.setup, &mut steps);
        let ample = world.ample(self.setup, &steps);
        let mut steps: Vec<(u16, Step)> = steps.into_iter().enumerate().map(|(via, step)| (via as u16, step)).collect();
        if let Some(client) = ample {
            let of_client = |(_, step): &&(u16, Step)| world.mover(*step) == Some(client);
            let alone: Vec<_> = steps.iter().filter(of_client).copied().collect();
            let is_silent = |(_, step): &(u16, Step)| match world.after(self.setup, *step) {
                Ok(next) => next.believes_the_same(&world, client),
                Err(_) => false,
            };
            if alone.iter().all(is_silent) {
                steps = alone;
            }
        }
        let chosen = self.quiet_step(&steps, index);
        Frame { index, world, steps, taken: 0, chosen }
    }

    /// The step that a run takes from here in which nothing goes wrong any more.
    fn quiet_step(&self, steps: &[(u16, Step)], index: u32) -> Option<u16> {
        let progress: Vec<u16> = steps.iter().filter(|(_, step)| step.is_progress()).map(|(via, _)| *via).collect();
        match progress.len() {
            0 => steps.iter().find(|(_, step)| *step == Step::Pass).map(|(via, _)| *via),
            // Any order will do, and each state picks another one, but always the same.
            count => Some(progress[pick(self.visits.fingerprint[index as usize], count)]),
        }
    }

    /// Breadth first: the violation with the shortest schedule, if there is one among the first `most` states.
    fn broad<R: Record>(&mut self, most: usize) -> Option<Violation> {
        let start = World::<R>::new(self.setup);
        self.visit(&start);
        let mut ahead = VecDeque::from([start]);
        let mut parents = vec![(0_usize, None)];
        let mut at = 0;
        let mut steps = Vec::new();
        while let Some(world) = ahead.pop_front() {
            if self.visits.len() >= most {
                return None;
            }
            steps.clear();
            world.steps(self.setup, &mut steps);
            for step in &steps {
                match world.after(self.setup, *step) {
                    Ok(next) => {
                        if self.visit(&next).1 {
                            ahead.push_back(next);
                            parents.push((at, Some(*step)));
                        }
                    }
                    Err(what) => {
                        let mut schedule = vec![*step];
                        let mut from = at;
                        while let (parent, Some(step)) = parents[from] {
                            schedule.push(step);
                            from = parent;
                        }
                        schedule.reverse();
                        return Some(self.replayed::<R>(&schedule, what).told());
                    }
                }
            }
            at += 1;
        }
        None
    }

    fn replayed<R: Record>(&self, schedule: &[Step], what: String) -> Found<'a, R> {
        let mut world = World::new(self.setup);
        let mut way = Vec::new();
        for step in schedule {
            way.push((world.clone(), Some(*step)));
            match world.after(self.setup, *step) {
                Ok(next) => world = next,
                Err(_) => break,
            }
        }
        Found { setup: self.setup, what, way }
    }

    /// The number of `world`, and whether it is new.
    fn visit<R: Record>(&mut self, world: &World<R>) -> (u32, bool) {
        if self.visits.len() * 10 >= self.table.len() * 7 {
            self.grow();
        }
        let fingerprint = world.fingerprint(self.setup);
        let slot = self.slot(fingerprint);
        if self.table[slot] != UNKNOWN {
            return (self.table[slot], false);
        }
        let index = self.visits.len() as u32;
        self.table[slot] = index;
        let served = if world.is_served(self.setup) { SERVED } else { 0 };
        let clean = if world.is_clean(self.setup) { CLEAN } else { 0 };
        let set = self.sets.iter().position(|set| *set == world.spent).unwrap_or_else(|| {
            self.sets.push(world.spent);
            self.sets.len() - 1
        });
        self.visits.push(fingerprint, set as u8, served | clean);
        if self.setup.compared {
            self.outlooks.insert(world.outlook(self.setup));
        }
        if self.visits.len().is_multiple_of(PROGRESS) {
            eprintln!("    {}: {} million states so far", self.setup.name, self.visits.len() / 1_000_000);
        }
        (index, true)
    }

    fn slot(&self, fingerprint: u64) -> usize {
        let mask = self.table.len() - 1;
        let mut slot = fingerprint as usize & mask;
        while self.table[slot] != UNKNOWN && self.visits.fingerprint[self.table[slot] as usize] != fingerprint {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self) {
        let size = self.table.len() * 2;
        self.table = Vec::new();
        self.table = vec![UNKNOWN; size];
        for index in 0..self.visits.len() {
            let slot = self.slot(self.visits.fingerprint[index]);
            self.table[slot] = index as u32;
        }
    }

    /// Follows every state's run without further faults to its end.
    fn recovery<R: Record>(&self) -> Result<BTreeMap<Spent, Recovery>, Violation> {
        let mut ticks: Vec<Recovery> = vec![(UNFOLLOWED, 0); self.visits.len()];
        let mut worst: BTreeMap<Spent, (Recovery, (usize, usize))> = BTreeMap::new();
        let mut way = Vec::new();
        for start in 0..self.visits.len() {
            let mut at = start;
            way.clear();
            let mut known = loop {
                if ticks[at].0 != UNFOLLOWED {
                    break ticks[at];
                }
                // Nothing to do, or beyond the part of the space that was explored.
                if self.visits.is[at] & CLEAN != 0 || self.visits.next[at] == UNKNOWN {
                    break (0, 0);
                }
                // Met again on the same way: this run never ends.
                ticks[at] = (ENDLESS, ENDLESS);
                way.push(at);
                at = self.visits.next[at] as usize;
            };
            if known.1 == ENDLESS {
                return Err(self.trace_of_run::<R>(start, "a run without further faults never ends".to_owned()));
            }
            for &at in way.iter().rev() {
                let is = self.visits.is[at];
                let tick = u8::from(is & PASSES != 0);
                known = (if is & SERVED != 0 { 0 } else { known.0 + tick }, known.1 + tick);
                ticks[at] = known;
            }
            if ticks[start].0 != UNFOLLOWED {
                let (served, clean) = ticks[start];
                let spent = self.sets[usize::from(self.visits.spent[start])];
                let (most, whose) = worst.entry(spent).or_insert(((0, 0), (start, start)));
                if served > most.0 {
                    (most.0, whose.0) = (served, start);
                }
                if clean > most.1 {
                    (most.1, whose.1) = (clean, start);
                }
            }
        }
        for (spent, ((served, clean), (s, c))) in &worst {
            let (most_served, most_clean) = self.setup.bound(spent);
            for (ticks, most, start, of) in
                [(served, most_served, s, "somebody is served"), (clean, most_clean, c, "something is left")]
            {
                if *ticks > most {
                    let what = format!("{of} only after {ticks} ticks (after {spent}: at most {most} expected)");
                    return Err(self.trace_of_run::<R>(*start, what));
                }
            }
        }
        Ok(worst.into_iter().map(|(spent, (ticks, _))| (spent, ticks)).collect())
    }

    /// A schedule that leads to state `start`, and the run without further faults from there.
    fn trace_of_run<R: Record>(&self, start: usize, what: String) -> Violation {
        let wanted = self.visits.fingerprint[start];
        let mut again = Search::new(self.setup);
        let Err(found) = again.deep::<R>(usize::MAX, Some(wanted)) else {
            return Violation { what, trace: "the way there was not found again".to_owned() };
        };
        let Some((mut world, _)) = found.way.last().cloned() else { return Violation { what, trace: String::new() } };
        let mut trace = found.told().trace + "     from here on nothing goes wrong any more\n";
        let mut at = start;
        let mut passed = std::collections::BTreeSet::new();
        while self.visits.is[at] & CLEAN == 0 && self.visits.next[at] != UNKNOWN {
            if !passed.insert(at) {
                trace += "     and so on for ever\n";
                break;
            }
            at = self.visits.next[at] as usize;
            let mut steps = Vec::new();
            world.steps(self.setup, &mut steps);
            let found = steps.iter().find_map(|step| {
                let next = world.after(self.setup, *step).ok()?;
                (next.fingerprint(self.setup) == self.visits.fingerprint[at]).then_some((*step, next))
            });
            let Some((step, next)) = found else { break };
            trace += &format!("{:>3}  {}\n{}\n", world.now, world.explain(self.setup, step), next.describe(self.setup));
            world = next;
        }
        Violation { what, trace }
    }
}
