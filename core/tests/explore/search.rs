//! Depth first through everything that can happen: only the way to the present state is kept whole, of all others a number.
//! A violation is looked for once more breadth first, so that what is shown has the shortest schedule.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use crate::layout::Record;
use crate::setup::{Setup, Spent};
use crate::world::{Step, World};

/// Ticks until everybody is served, and until nothing is left.
pub type Recovery = (u16, u16);

/// What a whole space came to.
#[derive(Debug)]
pub struct Explored {
    pub states: usize,
    pub transitions: u64,
    /// Whether nothing was left out.
    pub whole: bool,
    pub seconds: f64,
    /// What the visited states take, in bytes.
    pub memory: usize,
    /// For each set of faults: within how many ticks of a run without further faults everybody is served, and within how many
    /// nothing is left, from the worst state there is.
    pub recovery: BTreeMap<Spent, Recovery>,
}

/// What must never happen, and a way there.
#[derive(Debug)]
pub struct Violation {
    pub what: String,
    pub trace: String,
}

const UNKNOWN: u32 = u32::MAX;
const ENDLESS: u16 = u16::MAX;
/// How many states are looked at for a shorter way to a violation.
const SHORTER: usize = 2_000_000;

/// One visited state; the state itself is not kept.
#[derive(Clone, Copy)]
struct Visit {
    fingerprint: u64,
    parent: u32,
    /// Where a run without further faults goes from here; [`UNKNOWN`] when it was never looked at.
    next: u32,
    /// The number of the step that led here, among all that its parent could take.
    via: u16,
    /// The number of its set of faults.
    spent: u16,
    /// Whether `next` takes a tick.
    passes: bool,
    served: bool,
    clean: bool,
}

/// The tick at which a state on the present way was met; zero off the way.
type OnTheWay = u32;

struct Search<'a> {
    setup: &'a Setup,
    visits: Vec<Visit>,
    on_the_way: Vec<OnTheWay>,
    sets: Vec<Spent>,
    /// Open addressing over `visits`, by fingerprint.
    table: Vec<u32>,
    transitions: u64,
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
    let started = Instant::now();
    let mut search = Search::new(setup);
    let found = search.deep::<R>(most);
    let whole = match found {
        Ok(whole) => whole,
        Err(violation) => return Err(Search::new(setup).broad::<R>(SHORTER).unwrap_or(violation)),
    };
    let recovery = search.recovery::<R>()?;
    let states = search.visits.len();
    let memory = states * (size_of::<Visit>() + size_of::<OnTheWay>() + size_of::<Option<Recovery>>())
        + search.table.len() * size_of::<u32>();
    let (transitions, seconds) = (search.transitions, started.elapsed().as_secs_f64());
    Ok(Explored { states, transitions, whole, seconds, memory, recovery })
}

/// A choice among `count` that depends on nothing but the state.
fn pick(fingerprint: u64, count: usize) -> usize {
    (fingerprint.rotate_left(29) % count as u64) as usize
}

impl<'a> Search<'a> {
    fn new(setup: &'a Setup) -> Self {
        let (visits, on_the_way, sets) = (Vec::new(), Vec::new(), Vec::new());
        Search { setup, visits, on_the_way, sets, table: vec![UNKNOWN; 1 << 16], transitions: 0 }
    }

    /// Depth first; whether the whole space was visited.
    fn deep<R: Record>(&mut self, most: usize) -> Result<bool, Violation> {
        let start = World::<R>::new(self.setup);
        let (index, _) = self.visit(&start, 0, 0);
        let mut way = vec![self.frame(index, start)?];
        while let Some(frame) = way.last_mut() {
            let Some((via, step)) = frame.steps.get(frame.taken).copied() else {
                self.on_the_way[frame.index as usize] = 0;
                way.pop();
                continue;
            };
            frame.taken += 1;
            self.transitions += 1;
            let next = match frame.world.after(self.setup, step) {
                Ok(next) => next,
                Err(what) => {
                    let trace = self.trace::<R>(frame.index, Some(step));
                    return Err(Violation { trace, what });
                }
            };
            let (index, is_new) = self.visit(&next, frame.index, via);
            if frame.chosen == Some(via) {
                let visit = &mut self.visits[frame.index as usize];
                (visit.next, visit.passes) = (index, step == Step::Pass);
            }
            if is_new {
                if self.visits.len() >= most {
                    return Ok(false);
                }
                way.push(self.frame(index, next)?);
            } else if self.on_the_way[index as usize] == next.now + 1 {
                // Without such circles every circle has a state in which a tick passes, and such a state takes all its steps.
                let what = "a circle in which no time passes".to_owned();
                return Err(Violation { what, trace: self.trace::<R>(frame.index, Some(step)) });
            }
        }
        Ok(true)
    }

    /// The state `index`, about to take its steps: all, or those of one client when they say it all.
    fn frame<R: Record>(&mut self, index: u32, world: World<R>) -> Result<Frame<R>, Violation> {
        self.on_the_way[index as usize] = world.now + 1;
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
        let progress: Vec<u16> = steps.iter().filter(|(_, step)| step.is_progress()).map(|(via, _)| *via).collect();
        let chosen = match progress.len() {
            0 => steps.iter().find(|(_, step)| *step == Step::Pass).map(|(via, _)| *via),
            // Any order will do, and each state picks another one, but always the same.
            count => Some(progress[pick(self.visits[index as usize].fingerprint, count)]),
        };
        Ok(Frame { index, world, steps, taken: 0, chosen })
    }

    /// Breadth first: the violation with the shortest schedule, if there is one among the first `most` states.
    fn broad<R: Record>(&mut self, most: usize) -> Option<Violation> {
        let start = World::<R>::new(self.setup);
        let (index, _) = self.visit(&start, 0, 0);
        let mut ahead = VecDeque::from([(index, start)]);
        let mut steps = Vec::new();
        while let Some((at, world)) = ahead.pop_front() {
            if self.visits.len() >= most {
                return None;
            }
            steps.clear();
            world.steps(self.setup, &mut steps);
            for (via, step) in steps.iter().enumerate() {
                match world.after(self.setup, *step) {
                    Ok(next) => {
                        let (index, is_new) = self.visit(&next, at, via as u16);
                        if is_new {
                            ahead.push_back((index, next));
                        }
                    }
                    Err(what) => return Some(Violation { trace: self.trace::<R>(at, Some(*step)), what }),
                }
            }
        }
        None
    }

    /// The number of `world`, and whether it is new.
    fn visit<R: Record>(&mut self, world: &World<R>, parent: u32, via: u16) -> (u32, bool) {
        if self.visits.len() * 2 >= self.table.len() {
            self.grow();
        }
        let fingerprint = world.fingerprint(self.setup);
        let slot = self.slot(fingerprint);
        if self.table[slot] != UNKNOWN {
            return (self.table[slot], false);
        }
        let index = self.visits.len() as u32;
        self.table[slot] = index;
        let (served, clean) = (world.is_served(), world.is_clean(self.setup));
        let set = self.sets.iter().position(|set| *set == world.spent).unwrap_or_else(|| {
            self.sets.push(world.spent);
            self.sets.len() - 1
        });
        let spent = set as u16;
        self.visits.push(Visit { fingerprint, parent, via, next: UNKNOWN, passes: false, served, clean, spent });
        self.on_the_way.push(0);
        (index, true)
    }

    fn slot(&self, fingerprint: u64) -> usize {
        let mask = self.table.len() - 1;
        let mut slot = fingerprint as usize & mask;
        while self.table[slot] != UNKNOWN && self.visits[self.table[slot] as usize].fingerprint != fingerprint {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self) {
        self.table = vec![UNKNOWN; self.table.len() * 2];
        for index in 0..self.visits.len() {
            let slot = self.slot(self.visits[index].fingerprint);
            self.table[slot] = index as u32;
        }
    }

    /// Follows every state's run without further faults to its end.
    fn recovery<R: Record>(&self) -> Result<BTreeMap<Spent, Recovery>, Violation> {
        let mut ticks: Vec<Option<Recovery>> = vec![None; self.visits.len()];
        let mut worst: BTreeMap<Spent, (Recovery, (usize, usize))> = BTreeMap::new();
        let mut way = Vec::new();
        for start in 0..self.visits.len() {
            let mut at = start;
            way.clear();
            let mut known = loop {
                let visit = &self.visits[at];
                if let Some(known) = ticks[at] {
                    break known;
                }
                // Nothing to do, or beyond the part of the space that was explored.
                if visit.clean || visit.next == UNKNOWN {
                    break (0, 0);
                }
                // Met again on the same way: this run never ends.
                ticks[at] = Some((ENDLESS, ENDLESS));
                way.push(at);
                at = visit.next as usize;
            };
            if known.1 == ENDLESS {
                let what = "a run without further faults never ends".to_owned();
                return Err(Violation { what, trace: self.trace_of_run::<R>(start) });
            }
            for &at in way.iter().rev() {
                let visit = &self.visits[at];
                let tick = u16::from(visit.passes);
                known = (if visit.served { 0 } else { known.0 + tick }, known.1 + tick);
                ticks[at] = Some(known);
            }
            if let Some((served, clean)) = ticks[start] {
                let spent = self.sets[usize::from(self.visits[start].spent)];
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
                    return Err(Violation { what, trace: self.trace_of_run::<R>(*start) });
                }
            }
        }
        Ok(worst.into_iter().map(|(spent, (ticks, _))| (spent, ticks)).collect())
    }

    fn way_to(&self, mut at: u32) -> Vec<u16> {
        let mut way = Vec::new();
        while at != 0 {
            way.push(self.visits[at as usize].via);
            at = self.visits[at as usize].parent;
        }
        way.reverse();
        way
    }

    /// The schedule that leads to state `at`, and one more step.
    fn trace<R: Record>(&self, at: u32, last: Option<Step>) -> String {
        let (mut text, world) = self.replay::<R>(at);
        if let Some(step) = last {
            text += &format!("{:>3}  {}\n", world.now, world.explain(self.setup, step));
        }
        text
    }

    fn replay<R: Record>(&self, at: u32) -> (String, World<R>) {
        let mut world = World::new(self.setup);
        let mut text = String::new();
        for via in self.way_to(at) {
            let mut steps = Vec::new();
            world.steps(self.setup, &mut steps);
            let step = steps[via as usize];
            text += &format!("{:>3}  {}\n", world.now, world.explain(self.setup, step));
            let Ok(next) = world.after(self.setup, step) else { return (text + "     not reproducible\n", world) };
            world = next;
            text += &format!("{}\n", world.describe(self.setup));
        }
        (text, world)
    }

    /// The schedule that leads to state `start`, and the run without further faults from there.
    fn trace_of_run<R: Record>(&self, start: usize) -> String {
        let (mut text, mut world) = self.replay::<R>(start as u32);
        text += "     from here on nothing goes wrong any more\n";
        let mut at = start;
        let mut passed = std::collections::BTreeSet::new();
        loop {
            let visit = &self.visits[at];
            if visit.clean || visit.next == UNKNOWN {
                break;
            }
            if !passed.insert(at) {
                text += "     and so on for ever\n";
                break;
            }
            let wanted = self.visits[visit.next as usize].fingerprint;
            let mut steps = Vec::new();
            world.steps(self.setup, &mut steps);
            let found = steps.iter().find_map(|step| {
                let next = world.after(self.setup, *step).ok()?;
                (next.fingerprint(self.setup) == wanted).then_some((*step, next))
            });
            let Some((step, next)) = found else { break };
            text += &format!("{:>3}  {}\n{}\n", world.now, world.explain(self.setup, step), next.describe(self.setup));
            (world, at) = (next, visit.next as usize);
        }
        text
    }
}
