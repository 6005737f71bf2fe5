//! Breadth first through everything that can happen, so that what is shown of a violation is the shortest way to it.

use std::collections::{HashMap, VecDeque};

use crate::setup::Setup;
use crate::world::{Move, World};

/// More than any space has: whoever comes so far goes on for ever.
const MOST: usize = 10_000_000;
const UNKNOWN: u32 = u32::MAX;

/// How a state was come to, and where it goes while nothing more goes wrong.
struct Visit {
    from: Option<(u32, Move)>,
    next: u32,
}

/// What a whole space came to.
pub struct Explored {
    pub states: usize,
    pub transitions: usize,
    /// What the visited states take, in bytes.
    pub memory: usize,
}

/// Visits every state that `setup` can reach.
///
/// # Errors
/// What must not be, and the way there.
pub fn explore(setup: &Setup) -> Result<Explored, String> {
    let first = World::new(setup);
    let mut known = HashMap::from([(first.fingerprint(), 0)]);
    let mut visits = vec![Visit { from: None, next: UNKNOWN }];
    let mut open = VecDeque::from([first]);
    let (mut at, mut transitions) = (0, 0);
    while let Some(world) = open.pop_front() {
        if let Err(wrong) = world.check() {
            return Err(format!("{wrong}:\n{}", told(setup, &visits, at)));
        }
        let moves = world.moves();
        let due: Vec<usize> = (0..moves.len()).filter(|via| moves[*via].is_due()).collect();
        let rank = |via: &usize| world.patience(moves[*via]);
        let least = due.iter().map(rank).min();
        let due: Vec<usize> = due.into_iter().filter(|via| Some(rank(via)) == least).collect();
        // Any order will do, and each state picks another one, but always the same.
        let chosen = due.get(world.fingerprint().rotate_left(29) as usize % due.len().max(1));
        for (via, what) in moves.iter().enumerate() {
            let mut next = world.clone();
            next.go(*what);
            transitions += 1;
            let index = *known.entry(next.fingerprint()).or_insert_with(|| {
                visits.push(Visit { from: Some((at as u32, *what)), next: UNKNOWN });
                open.push_back(next);
                visits.len() as u32 - 1
            });
            if chosen == Some(&via) {
                visits[at].next = index;
            }
        }
        if visits.len() > MOST {
            return Err(format!("more states than expected:\n{}", told(setup, &visits, at)));
        }
        at += 1;
    }
    match circle(&visits) {
        Some(at) => Err(format!("it goes on for ever:\n{}", told(setup, &visits, at))),
        None => {
            let memory = visits.len() * size_of::<Visit>() + known.capacity() * size_of::<(u64, u32)>();
            Ok(Explored { states: visits.len(), transitions, memory })
        }
    }
}

/// A state from which nothing ends though nothing more goes wrong.
fn circle(visits: &[Visit]) -> Option<usize> {
    let mut round = vec![0_u32; visits.len()];
    for start in 0..visits.len() {
        let (mut at, number) = (start, start as u32 + 1);
        while round[at] == 0 {
            round[at] = number;
            match visits[at].next {
                UNKNOWN => break,
                next if round[next as usize] == number => return Some(at),
                next => at = next as usize,
            }
        }
    }
    None
}

/// The way to a state, in words.
fn told(setup: &Setup, visits: &[Visit], mut at: usize) -> String {
    let mut moves = Vec::new();
    while let Some((before, what)) = visits[at].from {
        moves.push(what);
        at = before as usize;
    }
    let mut world = World::new(setup);
    let one = |what| {
        let line = world.explain(what);
        world.go(what);
        format!("{line}\n")
    };
    moves.into_iter().rev().map(one).collect()
}
