//! Breadth first through everything that can happen, so that the first violation met has the shortest schedule.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use crate::world::{CLASSES, Class, Setup, Step, World};

/// Ticks until everybody is served, and until nothing is left.
type Recovery = (u16, u16);

/// What a whole space came to.
#[derive(Debug)]
pub struct Explored {
    pub states: usize,
    pub transitions: u64,
    pub depth: u32,
    /// Whether nothing was left out.
    pub whole: bool,
    /// For each class of fault: within how many ticks of a run without further faults everybody is served, and within how
    /// many nothing is left, from the worst state there is.
    pub recovery: BTreeMap<Class, Recovery>,
}

/// What must never happen, and the shortest way there.
#[derive(Debug)]
pub struct Violation {
    pub what: String,
    pub trace: String,
}

const UNKNOWN: u32 = u32::MAX;
const ENDLESS: u16 = u16::MAX;

/// One visited state; the state itself is not kept.
#[derive(Clone, Copy)]
struct Visit {
    fingerprint: u64,
    parent: u32,
    /// The number of the step that led here, among all that its parent could take.
    via: u16,
    /// Where a run without further faults goes from here; [`UNKNOWN`] when it was never looked at.
    next: u32,
    /// Whether that takes a tick.
    passes: bool,
    served: bool,
    clean: bool,
    class: Class,
}

struct Search<'a> {
    setup: &'a Setup,
    visits: Vec<Visit>,
    /// Open addressing over `visits`, by fingerprint.
    table: Vec<u32>,
}

/// Visits every state that `setup` can reach, at most `most` of them.
///
/// # Errors
/// The first violation met, with its schedule.
pub fn explore(setup: &Setup, most: usize) -> Result<Explored, Violation> {
    let started = Instant::now();
    let mut search = Search { setup, visits: Vec::new(), table: vec![UNKNOWN; 1 << 16] };
    let mut ahead = VecDeque::new();
    let start = World::new(setup);
    search.visit(&start, 0, 0);
    ahead.push_back((0_u32, 0_u32, start));
    let (mut transitions, mut depth) = (0_u64, 0);
    let mut steps = Vec::new();
    while let Some((at, level, world)) = ahead.pop_front() {
        if search.visits.len() >= most {
            break;
        }
        depth = depth.max(level);
        steps.clear();
        world.steps(setup, &mut steps);
        let progress = steps.iter().filter(|step| step.is_progress()).count();
        let fingerprint = search.visits[at as usize].fingerprint;
        let chosen = match progress {
            0 => steps.iter().position(|step| *step == Step::Pass),
            // Any order will do, and each state picks another one, but always the same.
            _ => steps
                .iter()
                .enumerate()
                .filter(|(_, s)| s.is_progress())
                .nth(pick(fingerprint, progress))
                .map(|(i, _)| i),
        };
        for (i, step) in steps.iter().enumerate() {
            transitions += 1;
            match world.after(setup, *step) {
                Ok(next) => {
                    let (index, is_new) = search.visit(&next, at, i as u16);
                    if Some(i) == chosen {
                        let visit = &mut search.visits[at as usize];
                        (visit.next, visit.passes) = (index, *step == Step::Pass);
                    }
                    if is_new {
                        ahead.push_back((index, level + 1, next));
                    }
                }
                Err(what) => return Err(Violation { trace: search.trace(at, Some(*step)), what }),
            }
        }
    }
    let whole = ahead.is_empty();
    drop(ahead);
    let states = search.visits.len();
    let spent = started.elapsed().as_secs_f64();
    let scope = if whole { "the whole space" } else { "NOT the whole space" };
    println!(
        "{}: explored {states} states, {transitions} transitions, depth {depth}, {spent:.1} s ({scope})",
        setup.name
    );
    let recovery = search.recovery()?;
    for (class, (served, clean)) in &recovery {
        println!("    {class:?}: everybody served within {served} ticks, nothing left within {clean}");
    }
    Ok(Explored { states, transitions, depth, whole, recovery })
}

/// A choice among `count` that depends on nothing but the state.
fn pick(fingerprint: u64, count: usize) -> usize {
    (fingerprint.rotate_left(29) % count as u64) as usize
}

impl Search<'_> {
    /// The number of `world`, and whether it is new.
    fn visit(&mut self, world: &World, parent: u32, via: u16) -> (u32, bool) {
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
        let class = world.fault;
        self.visits.push(Visit { fingerprint, parent, via, next: UNKNOWN, passes: false, served, clean, class });
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
    fn recovery(&self) -> Result<BTreeMap<Class, Recovery>, Violation> {
        let mut ticks: Vec<Option<Recovery>> = vec![None; self.visits.len()];
        let mut worst: BTreeMap<Class, (Recovery, (usize, usize))> = BTreeMap::new();
        let mut way = Vec::new();
        for start in 0..self.visits.len() {
            let mut at = start;
            way.clear();
            let mut known = loop {
                let visit = &self.visits[at];
                if let Some(known) = ticks[at] {
                    break known;
                }
                if visit.clean {
                    break (0, 0);
                }
                if visit.next == UNKNOWN {
                    // Beyond the part of the space that was explored.
                    break (0, 0);
                }
                // Met again on the same way: this run never ends.
                ticks[at] = Some((ENDLESS, ENDLESS));
                way.push(at);
                at = visit.next as usize;
            };
            if known.1 == ENDLESS {
                let what = "a run without further faults never ends".to_owned();
                return Err(Violation { what, trace: self.trace_of_run(start) });
            }
            for &at in way.iter().rev() {
                let visit = &self.visits[at];
                let tick = u16::from(visit.passes);
                known = (if visit.served { 0 } else { known.0 + tick }, known.1 + tick);
                ticks[at] = Some(known);
            }
            if let Some((served, clean)) = ticks[start] {
                let (most, whose) = worst.entry(self.visits[start].class).or_insert(((0, 0), (start, start)));
                if served > most.0 {
                    (most.0, whose.0) = (served, start);
                }
                if clean > most.1 {
                    (most.1, whose.1) = (clean, start);
                }
            }
        }
        for class in CLASSES {
            let Some(((served, clean), (s, c))) = worst.get(&class) else { continue };
            let (most_served, most_clean) = self.setup.bound(class);
            for (ticks, most, start, of) in
                [(served, most_served, s, "somebody is served"), (clean, most_clean, c, "something is left")]
            {
                if *ticks > most {
                    let what = format!("{of} only after {ticks} ticks ({class:?}: at most {most} expected)");
                    return Err(Violation { what, trace: self.trace_of_run(*start) });
                }
            }
        }
        Ok(worst.into_iter().map(|(class, (ticks, _))| (class, ticks)).collect())
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
    fn trace(&self, at: u32, last: Option<Step>) -> String {
        let (mut text, world) = self.replay(at);
        if let Some(step) = last {
            text += &format!("{:>3}  {}\n", world.now, world.explain(self.setup, step));
        }
        text
    }

    fn replay(&self, at: u32) -> (String, World) {
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
    fn trace_of_run(&self, start: usize) -> String {
        let (mut text, mut world) = self.replay(start as u32);
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
