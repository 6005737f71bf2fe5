//! All that can happen to three waiters of a client whose inbox is opened, closed and opened again.

use std::collections::HashSet;

use lockwright_machines::machine::{LineUp, Turn};
use lockwright_machines::session::Inbox;

const WAITERS: usize = 3;
/// How often the inbox changes at most.
const CHANGES: u8 = 3;

/// Where a waiter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// It has not come yet.
    Home,
    /// It stands in line; `answered` once it can ask.
    Behind { answered: bool },
    /// It was told to ask: its request is still to be sent by this usher, or is on its way.
    Asking { unsent_by: Option<usize> },
    /// It asks once it is answered.
    AsksAgain,
    /// It has a place, polls, or is gone.
    Over,
}

/// The one who lets others in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Usher {
    Idle,
    /// Is about to look whether it may begin.
    Looks,
    /// Has begun.
    LetsIn,
    /// Is about to let this one in, who may be the first. The inbox may change in this very moment.
    With {
        slot: u64,
        first: bool,
        since: u8,
    },
    /// Has let it in, which took that so.
    Took(u64, Turn),
    /// Sends what was asked.
    Sends,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    line: LineUp,
    /// The driver's inbox; the line is told a moment later.
    inbox: Inbox,
    told: Inbox,
    changes: u8,
    /// How often the line was told.
    tellings: u8,
    at: [At; WAITERS],
    /// Two threads that both come to let others in.
    ushers: [Usher; 2],
}

impl World {
    fn new(at_once: usize) -> Self {
        World {
            line: LineUp::new(at_once),
            inbox: Inbox::Closed,
            told: Inbox::Closed,
            changes: 0,
            tellings: 0,
            at: [At::Home; WAITERS],
            ushers: [Usher::Idle; 2],
        }
    }

    /// Somebody changed the line: one who is idle looks at it.
    fn changed(mut self) -> Self {
        if let Some(usher) = self.ushers.iter_mut().find(|usher| **usher == Usher::Idle) {
            *usher = Usher::Looks;
        }
        self
    }

    fn next(&self) -> Vec<World> {
        let mut worlds = Vec::new();
        self.come(&mut worlds);
        for waiter in 0..WAITERS {
            self.go_on(waiter, &mut worlds);
        }
        self.change_inbox(&mut worlds);
        for usher in 0..self.ushers.len() {
            self.usher(usher, &mut worlds);
        }
        worlds
    }

    /// They come in the order of their numbers.
    fn come(&self, worlds: &mut Vec<World>) {
        let Some(waiter) = self.at.iter().position(|at| *at == At::Home) else { return };
        let mut world = self.clone();
        let (inbox, behind) = world.line.join(waiter as u64, self.inbox);
        world.at[waiter] = match (inbox, behind) {
            (Inbox::Closed, true) => At::Behind { answered: false },
            (Inbox::Live, false) => {
                let waits = |at: &At| matches!(at, At::Behind { .. } | At::Asking { .. } | At::AsksAgain);
                assert!(!self.at.iter().any(waits), "it overtakes others: {self:?}");
                At::Over
            }
            _ => At::Over,
        };
        worlds.push(world);
    }

    fn go_on(&self, waiter: usize, worlds: &mut Vec<World>) {
        let mut world = self.clone();
        match self.at[waiter] {
            At::Home | At::Over | At::Asking { unsent_by: Some(_) } => return,
            At::Behind { answered: false } => world.at[waiter] = At::Behind { answered: true },
            At::AsksAgain => world.at[waiter] = At::Asking { unsent_by: None },
            At::Behind { answered: true } => {}
            At::Asking { unsent_by: None } => {
                world.at[waiter] = At::Over;
                world.line.went_through(waiter as u64);
                worlds.push(world.changed());
                return;
            }
        }
        if world.at[waiter] != self.at[waiter] {
            worlds.push(world);
        }
        // It gives up.
        let mut world = self.clone();
        world.at[waiter] = At::Over;
        world.line.went_through(waiter as u64);
        worlds.push(world.changed());
    }

    fn change_inbox(&self, worlds: &mut Vec<World>) {
        if self.told != self.inbox {
            let mut world = self.clone();
            world.told = self.inbox;
            world.tellings += 1;
            world.line.inbox_changed(self.inbox);
            for at in &mut world.at {
                // Whoever stands in line is told in its turn that the inbox is open.
                if self.inbox != Inbox::Live && matches!(at, At::Asking { .. } | At::AsksAgain) {
                    *at = At::Behind { answered: false };
                }
                if self.inbox == Inbox::Unavailable && matches!(at, At::Behind { .. }) {
                    *at = At::Over;
                }
            }
            worlds.push(world.changed());
        } else if self.changes < CHANGES {
            for inbox in [Inbox::Live, Inbox::Closed, Inbox::Unavailable] {
                if inbox != self.inbox {
                    worlds.push(World { inbox, changes: self.changes + 1, ..self.clone() });
                }
            }
        }
    }

    fn usher(&self, usher: usize, worlds: &mut Vec<World>) {
        let mut world = self.clone();
        world.ushers[usher] = match self.ushers[usher] {
            Usher::Idle => return,
            Usher::Looks if world.line.begin(self.inbox) => Usher::LetsIn,
            Usher::Looks => Usher::Idle,
            Usher::LetsIn => match world.line.let_in_next() {
                Some((slot, first)) => Usher::With { slot, first, since: self.tellings },
                None => Usher::Sends,
            },
            Usher::With { slot, first, since } => Usher::Took(slot, world.turn(usher, slot as usize, first, since)),
            Usher::Took(slot, turn) => {
                world.line.taken(slot, turn);
                Usher::LetsIn
            }
            Usher::Sends => {
                world.send(usher);
                world.line.end();
                Usher::Looks
            }
        };
        worlds.push(world);
    }

    fn send(&mut self, usher: usize) {
        let mut another_is_to_send = false;
        for at in &mut self.at {
            match at {
                At::Asking { unsent_by: Some(by) } if *by == usher => {
                    assert!(!another_is_to_send, "its request overtakes one that came earlier");
                    *at = At::Asking { unsent_by: None };
                }
                At::Asking { unsent_by: Some(_) } => another_is_to_send = true,
                _ => {}
            }
        }
    }

    /// As the machine answers who lets a waiter in.
    fn turn(&mut self, usher: usize, slot: usize, first: bool, since: u8) -> Turn {
        let earlier = self.at[..slot].iter().any(|at| matches!(at, At::Behind { .. } | At::AsksAgain));
        let turn = match self.at[slot] {
            At::Behind { answered: true } => Turn::Asks,
            At::Home | At::Over => Turn::Over,
            _ if first => Turn::AsksAgain,
            _ => Turn::Later,
        };
        if matches!(turn, Turn::Asks | Turn::AsksAgain) && self.tellings == since {
            assert!(!earlier, "it overtakes one that came earlier: {self:?}");
        }
        match turn {
            Turn::Asks => self.at[slot] = At::Asking { unsent_by: Some(usher) },
            Turn::AsksAgain if matches!(self.at[slot], At::Behind { .. }) => self.at[slot] = At::AsksAgain,
            Turn::AsksAgain | Turn::Later | Turn::Over => {}
        }
        turn
    }

    /// Nobody is forgotten: where nothing is under way, nobody stands in line.
    fn check(&self) {
        if self.is_still() && self.inbox == Inbox::Live {
            let stands = self.at.iter().any(|at| matches!(at, At::Behind { .. }));
            assert!(!stands, "it is let in by nobody: {self:?}");
            assert!(self.line.is_empty(), "somebody stands in it who left: {self:?}");
        }
    }

    /// Nothing is under way by which the line would be looked at once more.
    fn is_still(&self) -> bool {
        let waits_for_an_answer = |at: &At| matches!(at, At::Asking { .. } | At::AsksAgain);
        self.told == self.inbox && self.ushers == [Usher::Idle; 2] && !self.at.iter().any(waits_for_an_answer)
    }
}

fn explore(at_once: usize) -> usize {
    let (mut seen, mut todo) = (HashSet::new(), vec![World::new(at_once)]);
    while let Some(world) = todo.pop() {
        if !seen.contains(&world) {
            world.check();
            todo.extend(world.next());
            seen.insert(world);
        }
    }
    seen.len()
}

#[test]
fn everyone_is_let_in_and_in_the_order_in_which_they_came() {
    for at_once in 1..=WAITERS {
        assert!(explore(at_once) > 10_000);
    }
}
