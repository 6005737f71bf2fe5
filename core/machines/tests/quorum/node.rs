//! A node: the shipped cell of a lock, or the key of one without tokens, and the marker that says since when it has had
//! what it keeps.

use std::convert::Infallible;
use std::hash::Hash;
use std::time::Duration;

use lockwright_machines::cell::{Cell, Runs};
use lockwright_machines::lock_cell::{LockCell, Surroundings};
use lockwright_machines::protocol::{AttemptId, Reply, Request};
use lockwright_machines::time::{StoreTime, Time};

use crate::process::process_of;
use crate::setup::{MAX_TTL, TICK, TTL};
use crate::view::{Mix, View};
use crate::world::time;

#[path = "../explore/layout/line.rs"]
mod line;
#[path = "../explore/layout/tokenless_store.rs"]
mod tokenless_store;

use tokenless_store::{TokenlessStore, Words};

/// What a node that answers a look says of itself, for as long as it is the same.
const KNOWN: &str = "known";

#[derive(Clone, Debug, Default)]
pub struct Node {
    cell: LockCell,
    /// In the place of the cell, where locks have no tokens.
    key: Option<TokenlessStore>,
    line: line::Queued,
    /// How often it was restarted.
    run: u32,
    /// In which run, and when on its clock, it was met first.
    marker: Option<(u32, u32)>,
    /// By how many ticks its clock is ahead.
    ahead: u32,
}

/// As micros on a node's clock.
fn micros(tick: u32) -> StoreTime {
    StoreTime(i64::from(tick) * TICK.as_micros() as i64)
}

/// For how long a lease lasts on a clock that is 1 % fast.
fn shortened(span: Duration) -> Duration {
    span * 100 / 101
}

impl Node {
    /// One that has been there for longer than any lease lasts.
    pub fn new(now: u32, tokenless: bool) -> Self {
        let key = tokenless.then(TokenlessStore::default);
        Node { marker: Some((0, now - MAX_TTL)), key, ..Node::default() }
    }

    /// When a request that is sent now comes too late, on its clock.
    pub fn not_after(&self, now: u32, late: u32) -> i64 {
        micros(now + self.ahead + late).0
    }

    pub fn restart(&mut self, keeps: bool) {
        self.run += 1;
        if !keeps {
            self.flush();
        }
    }

    pub fn flush(&mut self) {
        let key = self.key.as_ref().map(|_| TokenlessStore::default());
        *self = Node { run: self.run, ahead: self.ahead, key, ..Node::default() };
    }

    pub fn step(&mut self, ticks: u32) {
        self.ahead += ticks;
    }

    pub fn execute(&mut self, now: u32, request: &Request) -> Reply {
        let now = now + self.ahead;
        if request.call.name == "mark" {
            return self.mark(now);
        }
        if let Some(key) = &mut self.key {
            let reply = key.run(&Words::of(request).expect("a request of the layout"), micros(now));
            return reply;
        }
        let procedure = LockCell::read(request).expect("a request of the layout");
        let alive = |_| true;
        let mut around = Surroundings { now: micros(now), token_floor: 0, alive: &alive, pushes: Vec::new() };
        let Ok::<_, Infallible>(reply) = self.cell.run(procedure, &mut self.line, &mut around);
        reply
    }

    /// Whose it was last, and until when.
    fn hold(&self) -> Option<(AttemptId, StoreTime)> {
        match &self.key {
            Some(key) => key.value.as_ref().map(|(owner, ends)| {
                (AttemptId(u128::from_str_radix(owner, 16).expect("an owner of redis-py")), *ends)
            }),
            None => self.cell.hold.as_ref().map(|hold| (hold.owner.attempt, hold.expires)),
        }
    }

    fn mark(&mut self, now: u32) -> Reply {
        match self.marker {
            Some((run, since)) if run == self.run && now >= since + MAX_TTL => Reply::Text(KNOWN.into()),
            Some((run, since)) if run == self.run => Reply::Int(micros(since + MAX_TTL - now).0),
            _ => {
                self.marker = Some((self.run, now));
                Reply::Int(micros(MAX_TTL).0)
            }
        }
    }

    /// Whether it lets nobody but `owner` count it before `until`, even if its clock runs fast.
    pub fn keeps(&self, owner: AttemptId, until: Time) -> bool {
        let least = |at: u32, span: u32| time(at - self.ahead.min(at)).after(shortened(TICK * span));
        let holds = self.hold().is_some_and(|(holder, expires)| {
            let granted = (expires.0 / TICK.as_micros() as i64) as u32 - TTL;
            holder == owner && least(granted, TTL) >= until
        });
        holds
            || match self.marker {
                Some((run, since)) if run == self.run => least(since, MAX_TTL) >= until,
                // Whoever looks next finds that it is young.
                _ => true,
            }
    }

    /// Whether somebody's lease is not over.
    pub fn is_held(&self, now: u32) -> bool {
        self.hold().is_some_and(|(_, expires)| expires > micros(now + self.ahead))
    }

    pub fn fingerprint(&self, now: u32, views: &[View], state: &mut Mix) {
        let now = now + self.ahead;
        let hold = self.hold().filter(|(_, expires)| *expires > micros(now)).map(|(owner, expires)| {
            let whose = process_of(owner);
            let newest = views[whose].newest.wrapping_sub(owner.0 as u32);
            (whose, newest, expires.micros_since(micros(now)))
        });
        let marker = self.marker.map(|(run, since)| (run == self.run, (now - since).min(MAX_TTL)));
        (hold, marker).hash(state);
    }
}
