//! What is explored: who wants what, and what may go wrong.

use std::time::Duration;

use lockwright_machines::options::Retry;
use lockwright_machines::session::Service;
use lockwright_machines::share::ALL;
use lockwright_machines::time::{StoreTime, Time};

use crate::layout::Role;

/// What may go wrong on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Nothing, or nothing yet.
    None,
    /// A message takes its time, where all others are prompt.
    Delayed,
    /// A request never leaves: the client knows.
    Refused,
    /// A connection breaks and its request is lost.
    Lost,
    /// A connection breaks and its request runs later.
    Ghost,
    /// A connection breaks after its request ran.
    ReplyLost,
    /// All connections of a client break at once; what was sent on them may run later.
    Reset,
    /// A request arrives twice.
    Duplicate,
    /// A client dies, and the store notices.
    Crash,
    /// A client dies, and its inbox still counts as alive.
    HalfOpen,
    /// An inbox' connection breaks, with the pushes on it, and is made anew.
    Blip,
    /// One push is lost.
    PushLost,
}

/// Every fault of a connection, an inbox or a client.
pub const FAULTS: [Class; 10] = [
    Class::Refused,
    Class::Lost,
    Class::Ghost,
    Class::ReplyLost,
    Class::Reset,
    Class::Duplicate,
    Class::Crash,
    Class::HalfOpen,
    Class::Blip,
    Class::PushLost,
];

/// Most faults of one run.
pub const MOST_FAULTS: usize = 2;

/// What went wrong so far; the same faults in another order are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spent {
    pub faults: [Class; MOST_FAULTS],
    pub pauses: u8,
}

impl Spent {
    pub const NOTHING: Spent = Spent { faults: [Class::None; MOST_FAULTS], pauses: 0 };

    pub fn faults(&self) -> usize {
        self.faults.iter().filter(|class| **class != Class::None).count()
    }

    pub fn add(&mut self, class: Class) {
        if class != Class::None {
            self.faults[0] = class;
            self.faults.sort();
        }
    }
}

impl std::fmt::Display for Spent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let faults = self.faults.iter().filter(|class| **class != Class::None).map(|class| format!("{class:?}"));
        let all: Vec<String> = faults.chain((self.pauses > 0).then(|| "Pause".to_owned())).collect();
        f.write_str(&if all.is_empty() { "nothing".to_owned() } else { all.join(" and ") })
    }
}

/// What one task wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wish {
    pub fair: bool,
    /// How urgent it is.
    pub rank: u8,
    /// Whether it may give up while it waits.
    pub may_cancel: bool,
    /// Whether it wants the lock from the start; else it may come at any time.
    pub early: bool,
    /// Its ttl, when it is not everybody's.
    pub ttl: Option<u32>,
    /// To how many ticks it may extend the lease, once.
    pub extends: Option<u32>,
    /// For how many ticks it may export the lock, instead of releasing it.
    pub exports: Option<u32>,
    /// After how many ticks it gives up, or after fewer.
    pub limit: Option<u32>,
    /// Whether its client may be closed.
    pub closes: bool,
    /// Whether its guard may be forgotten.
    pub forgets: bool,
    /// Whether it may become the writer while it reads, or a reader while it writes, once.
    pub changes: bool,
    /// Whether it does not acquire the lock, but resumes what somebody exported.
    pub resumes: bool,
}

/// What is left out of a space because it says nothing new; see `docs/adr/0013-reductions-of-the-explorer.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reduced {
    /// States that differ in the names of clients which want the same.
    pub names: bool,
    /// Orders of steps that commute.
    pub orders: bool,
}

/// A space to explore. Durations are in ticks.
#[derive(Clone, Debug)]
pub struct Setup {
    pub name: &'static str,
    pub tick: Duration,
    pub ttl: u32,
    pub renew: bool,
    /// After how long a request that has not arrived is refused.
    pub response_timeout: u32,
    pub store_timeout: u32,
    /// How many answers to a client that it does not await any more may be under way; others disappear.
    pub stale: usize,
    /// The tasks of each client.
    pub clients: Vec<Vec<Wish>>,
    /// What each client's tasks take, where that is not all of it.
    pub roles: &'static [Role],
    /// To how many permits somebody may resize it, once.
    pub resizes: Option<u32>,
    /// Whether whoever exported the lock may take it back.
    pub retracts: bool,
    /// How many operations somebody does beside all clients.
    pub operations: usize,
    /// Whether the inboxes are still closed.
    pub cold: bool,
    /// How far behind the store's clock the clients believe it to be.
    pub behind: u32,
    /// Whether messages and clients are prompt: what can be done is done before a tick passes, but for what a fault or
    /// a pause holds up. Otherwise anything may take any time.
    pub prompt: bool,
    pub faults: Vec<Class>,
    pub most_faults: usize,
    /// How often a client may stop for as long as it likes, where it is prompt otherwise.
    pub pauses: u8,
    pub reduced: Reduced,
    /// Whether waiters ask again each tick, since nobody tells them that it is their turn.
    pub polls: bool,
    /// Whether to gather what was believed, to compare two searches by it.
    pub compared: bool,
}

/// The tick that every run starts at: nothing reaches back before the start of the clock.
pub const EPOCH: u32 = 1000;

impl Setup {
    /// The longest lease, or time for which something is held.
    pub fn longest(&self) -> u32 {
        let of = |wish: &Wish| {
            wish.ttl.into_iter().chain([self.ttl]).chain(wish.extends).chain(wish.exports).max().unwrap_or(self.ttl)
        };
        self.clients.iter().flatten().map(of).max().unwrap_or(self.ttl).max(self.ttl)
    }

    /// Ages above this many ticks behave alike: that of the longest lease, or where a party is silent the time after
    /// which it asks no more.
    pub fn horizon(&self) -> u32 {
        let silence =
            if self.role(0) == Role::Party && self.loses_patience() { self.ttl + self.store_timeout } else { 0 };
        self.longest() + silence
    }

    pub fn role(&self, client: usize) -> Role {
        self.roles.get(client).copied().unwrap_or(Role::Sole)
    }

    /// How many units may be held at once.
    pub fn capacity(&self) -> u32 {
        match self.role(0) {
            Role::Sole => 1,
            Role::Reader | Role::Writer | Role::Waiter | Role::Party => ALL,
            Role::One | Role::Two | Role::TwoInOrder => 2,
        }
    }

    pub fn service(&self, wish: &Wish) -> Service {
        Service {
            ttl: self.tick * wish.ttl.unwrap_or(self.ttl),
            renew: self.renew,
            max_hold: None,
            retry: Retry { min: self.tick, max: self.tick },
        }
    }

    /// Whether a store may be silent for longer than is waited for it.
    pub fn loses_patience(&self) -> bool {
        self.store_timeout < EPOCH
    }

    pub fn time(&self, tick: u32) -> Time {
        Time::ZERO.after(self.tick * (EPOCH + tick))
    }

    pub fn store_time(&self, tick: u32) -> StoreTime {
        StoreTime::default().after(self.tick * (EPOCH + tick))
    }

    pub fn tick_micros(&self) -> i64 {
        self.tick.as_micros() as i64
    }
}
