//! Everything that can happen to those who count a latch down at the same time: every order in which what they ask is
//! executed, one request after the other, and every answer that is lost, so that it is asked again.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use lockwright_machines::gate::{Answer, CountOperation, Gate};
use lockwright_machines::protocol::{AttemptId, Inquiry, Layout, Question, Reply, Requests};
use lockwright_machines::stores::zookeeper::layouts::line_layout::LineLayout;
use lockwright_machines::stores::zookeeper::layouts::recipe::Recipe;

use crate::server::Server;
use crate::setup::{COUNT, LATCH};

/// One who counts: what it was answered, and what of the answers to its last write has come.
#[derive(Clone, Hash)]
struct Counter {
    attempt: u128,
    answered: Vec<Vec<Reply>>,
    come: Vec<Reply>,
}

/// What one of them does next.
enum Next {
    Asks(Requests),
    Over(Answer),
}

impl Counter {
    fn next(&self) -> Next {
        let locks = LineLayout::new("/".into(), String::new(), LATCH.idle, Recipe::Mutex);
        let layout = locks.gate(Gate::Latch(LATCH)).expect("there are latches");
        let (attempt, operation) = (AttemptId(self.attempt), CountOperation::Down);
        let question = Question::Change { attempt, copies: LATCH.idle, operation, plan: LATCH };
        let mut inquiry = layout.question("/lk".into(), question).expect("it counts");
        let mut answered = self.answered.iter();
        loop {
            inquiry = match (inquiry, answered.next()) {
                (Inquiry::Ask(_, next), Some(replies)) => next(replies),
                (Inquiry::Ask(requests, _), None) => return Next::Asks(requests),
                (Inquiry::Done(answer), _) => return Next::Over(answer.expect("nothing refuses it")),
            };
        }
    }
}

/// Whether requests are executed one by one, or all of a write at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Grain {
    Requests,
    Writes,
}

/// Has so many count down a latch, of which so many answers are lost; how many states there are.
pub fn count_down(counters: u32, losses: u32, grain: Grain, mut server: Server) -> usize {
    let attempts = (0..counters).map(|n| Counter { attempt: u128::from(n) + 1, answered: vec![], come: vec![] });
    if grain == Grain::Requests {
        // That it is made is another matter.
        server.make_latch();
    }
    let mut known = HashSet::new();
    let mut open = vec![State { counters: attempts.collect(), losses, server }];
    while let Some(state) = open.pop() {
        let mut print = DefaultHasher::new();
        state.hash(&mut print);
        if known.insert(print.finish()) {
            open.extend(state.next(grain));
        }
    }
    known.len()
}

#[derive(Clone, Hash)]
struct State {
    counters: Vec<Counter>,
    /// How many answers may be lost yet.
    losses: u32,
    server: Server,
}

impl State {
    /// What it may come to next.
    fn next(&self, grain: Grain) -> Vec<State> {
        let mut states = Vec::new();
        let mut left = Vec::new();
        for (at, counter) in self.counters.iter().enumerate() {
            let requests = match counter.next() {
                Next::Asks(requests) => requests,
                Next::Over(Answer::Left(count)) => {
                    left.push(count);
                    continue;
                }
                Next::Over(other) => panic!("{other:?}"),
            };
            let mut after = self.clone();
            let done = &mut after.counters[at];
            let count = if grain == Grain::Writes { requests.len() } else { 1 };
            for request in &requests[done.come.len()..][..count] {
                let (reply, _) = after.server.execute(at, at as i64 + 1, request);
                done.come.push(reply);
            }
            if done.come.len() == requests.len() {
                let come = std::mem::take(&mut done.come);
                if self.losses > 0 {
                    // It is asked again, though it was done.
                    states.push(State { losses: self.losses - 1, ..after.clone() });
                }
                after.counters[at].answered.push(come);
            }
            states.push(after);
        }
        if left.len() == self.counters.len() {
            let all = u32::try_from(left.len()).expect("few");
            assert_eq!(self.server.count(), Some(COUNT.saturating_sub(all)), "each counts once");
            assert_eq!(self.server.is_shut(), self.server.count() > Some(0), "it is shut while it counts");
            assert!(left.iter().all(|left| *left < COUNT), "{left:?}");
        }
        states
    }
}
