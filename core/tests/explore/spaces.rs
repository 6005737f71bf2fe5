//! The spaces that are explored, and what is expected of each.

use std::time::Duration;

use crate::search::explore;
use crate::world::{CLASSES, Class, Setup, Wish};

/// A task that may come at any time and takes what it gets.
pub const ONE: Wish = Wish { fair: false, may_cancel: false, early: false, ttl: None };
/// A task that wants the lock from the start.
pub const EARLY: Wish = Wish { early: true, ..ONE };

impl Setup {
    /// Two clients with one task each; a lease of two ticks, a claim of one; nothing goes wrong.
    pub fn two_clients(name: &'static str) -> Self {
        Setup {
            name,
            tick: Duration::from_secs(1),
            ttl: 2,
            renew: true,
            response_timeout: 1,
            store_timeout: 1000,
            stale: 0,
            clients: vec![vec![ONE], vec![ONE]],
            cold: false,
            behind: 0,
            faults: Vec::new(),
        }
    }

    /// The same with one fault of any kind.
    pub fn with_a_fault(self) -> Self {
        Setup { faults: CLASSES.into_iter().filter(|class| *class != Class::None).collect(), ..self }
    }

    /// One client whose two tasks, of different ttl, hand the lock on and yield it; answers of earlier attempts come late.
    pub fn yields(name: &'static str) -> Self {
        let longer = Wish { ttl: Some(3), ..ONE };
        Setup { stale: 1, clients: vec![vec![EARLY, longer], vec![]], ..Setup::two_clients(name) }
    }

    /// One client that yields, gives up, and loses connections. A lease is longer than any recovery, so that one left behind
    /// shows.
    pub fn yields_in_doubt(name: &'static str) -> Self {
        let fickle = Wish { may_cancel: true, ..EARLY };
        let faults = vec![Class::Lost, Class::Ghost];
        Setup { ttl: 4, faults, clients: vec![vec![EARLY, fickle], vec![]], ..Setup::two_clients(name) }
    }

    /// Shorter ticks: a claim lives long enough to be renewed.
    pub fn claims(name: &'static str) -> Self {
        Setup { tick: Duration::from_millis(500), ttl: 3, ..Setup::two_clients(name) }
    }

    /// How many ticks a run without further faults may take from the worst state there is: until everybody is served, and
    /// until nothing is left.
    pub fn bound(&self, class: Class) -> (u16, u16) {
        let claim = (1000 / self.tick.as_millis()) as u16;
        let longest = self.clients.iter().flatten().filter_map(|wish| wish.ttl).max().unwrap_or(0).max(self.ttl) as u16;
        match class {
            Class::None | Class::Blip => (0, 0),
            Class::PushLost => (claim, claim),
            // A pause before the next try counts as a tick here.
            Class::Refused | Class::Lost | Class::Ghost | Class::ReplyLost | Class::Reset => (claim + 1, claim + 1),
            Class::Duplicate | Class::Crash | Class::HalfOpen => (longest, longest),
        }
    }

    /// Explores it whole, and says so.
    pub fn check(&self) {
        match explore(self, 25_000_000) {
            Ok(explored) => assert!(explored.whole, "{}: more states than expected: {}", self.name, explored.states),
            Err(violation) => panic!("{}: {}\n{}", self.name, violation.what, violation.trace),
        }
    }
}
