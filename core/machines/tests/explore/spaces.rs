//! The spaces that are explored, and what is expected of each.

use std::time::Duration;

use lockwright_machines::latch_machine::{PATIENCE, TTL};

use crate::layout::barrier;
use crate::layout::native::NativeRecord;
use crate::layout::{Record, Role};
use crate::search::{Explored, Recovery, Violation, explore};
use crate::setup::{Class, FAULTS, Reduced, Setup, Spent, Wish};

/// A task that may come at any time and takes what it gets.
pub const ONE: Wish = Wish {
    fair: false,
    rank: 0,
    may_cancel: false,
    early: false,
    ttl: None,
    extends: None,
    exports: None,
    limit: None,
    closes: false,
    forgets: false,
    changes: false,
    resumes: false,
};
/// A task that wants the lock from the start.
pub const EARLY: Wish = Wish { early: true, ..ONE };

/// More states than any space that is to be explored whole.
const MOST: usize = 400_000_000;

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
            roles: &[],
            resizes: None,
            retracts: false,
            operations: 0,
            cold: false,
            behind: 0,
            prompt: false,
            faults: Vec::new(),
            most_faults: 0,
            pauses: 0,
            reduced: Reduced { names: true, orders: true },
            polls: false,
            compared: false,
        }
    }

    /// Two clients that poll for a lock.
    pub fn polled(name: &'static str) -> Self {
        Setup { polls: true, ..Setup::two_clients(name) }
    }

    /// Three clients with one task each, which are prompt, as the network is.
    pub fn three_clients(name: &'static str) -> Self {
        Setup { prompt: true, clients: vec![vec![ONE]; 3], ..Setup::two_clients(name) }
    }

    /// A client for each role, with one task.
    pub fn shared(name: &'static str, roles: &'static [Role]) -> Self {
        Setup { prompt: true, clients: vec![vec![ONE]; roles.len()], roles, ..Setup::two_clients(name) }
    }

    /// The same where all who wait are told that asking may help. Whoever is told need not stand in the store's queue,
    /// so that no order of steps is left out.
    pub fn hinted(name: &'static str, roles: &'static [Role]) -> Self {
        Setup { reduced: Reduced { names: true, orders: false }, ..Setup::shared(name, roles) }
    }

    /// As many clients that wait for a latch, which two count down. A tick is half of what a wait is asked again after,
    /// and the ttl that of a wait.
    pub fn latch(name: &'static str, waiters: usize) -> Self {
        const ROLES: [Role; 3] = [Role::Waiter; 3];
        let (tick, ttl) = (PATIENCE / 2, (TTL.as_secs() / (PATIENCE / 2).as_secs()) as u32);
        Setup { tick, ttl, operations: 2, ..Setup::shared(name, &ROLES[..waiters]) }
    }

    /// As many clients, each of which is a party.
    pub fn barrier(name: &'static str, clients: usize) -> Self {
        const ROLES: [Role; 3] = [Role::Party; 3];
        Setup { ttl: barrier::TTL, ..Setup::shared(name, &ROLES[..clients]) }
    }

    /// The same whose tasks give up within as many ticks as a place lasts.
    pub fn fickle(self) -> Self {
        let limited = Wish { limit: Some(barrier::TTL), ..ONE };
        let clients = self.clients.iter().map(|tasks| vec![limited; tasks.len()]).collect();
        Setup { clients, ..self }
    }

    /// The same with at most `most` faults of any kind.
    pub fn with_faults(self, most: usize) -> Self {
        let delayed = self.prompt.then_some(Class::Delayed);
        Setup { faults: delayed.into_iter().chain(FAULTS).collect(), most_faults: most, ..self }
    }

    /// The same with a pause.
    pub fn with_a_pause(self) -> Self {
        Setup { pauses: 1, ..self }
    }

    /// One client whose two tasks, of different ttl, hand the lock on and yield it; answers of earlier attempts come
    /// late.
    pub fn yields(name: &'static str) -> Self {
        let longer = Wish { ttl: Some(3), ..ONE };
        Setup { stale: 1, clients: vec![vec![EARLY, longer], vec![]], ..Setup::two_clients(name) }
    }

    /// One client that yields, gives up, and loses connections. A lease is longer than any recovery, so that one left
    /// behind shows.
    pub fn yields_in_doubt(name: &'static str) -> Self {
        let fickle = Wish { may_cancel: true, ..EARLY };
        let faults = vec![Class::Lost, Class::Ghost];
        Setup { ttl: 4, faults, most_faults: 1, clients: vec![vec![EARLY, fickle], vec![]], ..Setup::two_clients(name) }
    }

    /// One client whose first task extends its hold and hands it on, another client that waits.
    pub fn extensions(name: &'static str) -> Self {
        let extending = Wish { extends: Some(4), ..EARLY };
        Setup { clients: vec![vec![extending, EARLY], vec![ONE]], prompt: true, ..Setup::two_clients(name) }
    }

    /// One client that may export the lock, another that resumes it, and a third that waits for it.
    pub fn exports(name: &'static str) -> Self {
        let (exporter, heir) = (Wish { exports: Some(3), ..EARLY }, Wish { resumes: true, ..ONE });
        Setup { clients: vec![vec![exporter], vec![heir], vec![ONE]], ..Setup::three_clients(name) }
    }

    /// One client holds, and others give up after at most so many ticks.
    pub fn limited(name: &'static str, clients: usize, limit: u32) -> Self {
        let limited = Wish { limit: Some(limit), ..ONE };
        let clients = [vec![vec![EARLY]], vec![vec![limited]; clients]].concat();
        Setup { clients, prompt: true, ..Setup::two_clients(name) }
    }

    /// A client that may be closed, whose task is that one, and another client.
    pub fn closed(name: &'static str, task: Wish) -> Self {
        let clients = vec![vec![Wish { closes: true, ..task }], vec![ONE]];
        Setup { clients, prompt: true, ..Setup::two_clients(name) }
    }

    /// One client whose hold may be forgotten, and another client.
    pub fn forgotten(name: &'static str) -> Self {
        let forgets = Wish { forgets: true, ..EARLY };
        Setup { clients: vec![vec![forgets], vec![ONE]], prompt: true, ..Setup::two_clients(name) }
    }

    /// Three tasks of one client, and another client that waits: one of the tasks may give up.
    pub fn local_queue(name: &'static str) -> Self {
        let fickle = Wish { may_cancel: true, ..EARLY };
        Setup { clients: vec![vec![EARLY, fickle, ONE], vec![ONE]], prompt: true, ..Setup::two_clients(name) }
    }

    /// Tasks that each queue at the store by themselves, two of one client and one of another.
    pub fn fair(name: &'static str) -> Self {
        let fair = Wish { fair: true, ..ONE };
        Setup { clients: vec![vec![fair, fair], vec![fair]], prompt: true, ..Setup::two_clients(name) }
    }

    /// Shorter ticks: a claim lives long enough to be renewed.
    pub fn claims(name: &'static str) -> Self {
        Setup { tick: Duration::from_millis(500), ttl: 3, ..Setup::two_clients(name) }
    }

    /// How many ticks a run without further faults may take from the worst state there is: until everybody is served,
    /// and until nothing is left. What several faults cost adds up.
    pub fn bound(&self, spent: &Spent) -> Recovery {
        // Whoever hears late that it had a place, which is over meanwhile, asks for another one when it looks.
        let lapses = self.role(0) == Role::Party && !self.prompt;
        // What is forgotten, or exported where nobody resumes it, ends with its lease.
        let is_left = |wish: &&Wish| wish.forgets || (self.retracts && wish.exports.is_some());
        let left = self.clients.iter().flatten().filter(is_left).count() as u8;
        let pause = (spent.pauses + left + u8::from(lapses)) * self.patience() + self.idle_between_polls();
        let of = |class: &Class| self.bound_of(*class);
        spent.faults.iter().map(of).fold((pause, pause), |sum, of| (sum.0 + of.0, sum.1 + of.1))
    }

    /// For how many ticks in all a lock may be free though somebody polls for it: one before each but the first.
    fn idle_between_polls(&self) -> u8 {
        let tasks: usize = self.clients.iter().map(|tasks| tasks.len()).sum();
        if self.polls { tasks as u8 - 1 } else { 0 }
    }

    /// In how many ticks whoever waits looks whether a claim ran out: the claim, and some moments more.
    fn look(&self) -> u8 {
        if self.role(0) == Role::Waiter {
            return PATIENCE.as_millis().div_ceil(self.tick.as_millis()) as u8;
        }
        if self.role(0) == Role::Party {
            return self.ttl.div_ceil(3) as u8;
        }
        1000_u128.div_ceil(self.tick.as_millis()) as u8 + 1
    }

    /// In how many ticks whoever waits looks after whoever it last heard holds the lock: at the end of the lease, and
    /// some moments more.
    fn patience(&self) -> u8 {
        if matches!(self.role(0), Role::Waiter | Role::Party) { self.look() } else { self.longest() as u8 + 1 }
    }

    fn bound_of(&self, class: Class) -> Recovery {
        let (look, patience) = (self.look(), self.patience());
        match class {
            Class::None | Class::Blip => (0, 0),
            Class::PushLost | Class::Delayed => (patience, patience),
            // Nobody has to wait for what another one left.
            Class::Duplicate | Class::Crash | Class::HalfOpen if matches!(self.role(0), Role::Waiter | Role::Party) => {
                (0, 0)
            }
            // A pause before the next try counts as a tick here.
            Class::Refused | Class::Lost | Class::Ghost | Class::ReplyLost | Class::Reset => (look + 1, look + 1),
            // It ends with its lease, and whoever waits looks a moment later.
            Class::Duplicate | Class::Crash | Class::HalfOpen => (patience, patience),
        }
    }

    /// Explores it whole, and says so.
    pub fn check(&self) {
        self.check_as::<NativeRecord>();
    }

    pub fn explored(&self) -> Explored {
        self.explored_as::<NativeRecord>()
    }

    /// Explores it whole in another layout, and says so.
    pub fn check_as<R: Record>(&self) {
        let explored = self.explored_as::<R>();
        assert!(explored.whole, "{}: more states than expected: {}", self.name, explored.states);
    }

    fn explored_as<R: Record>(&self) -> Explored {
        match self.explore::<R>() {
            Ok(explored) => explored,
            Err(violation) => panic!("{}: {}\n{}", self.name, violation.what, violation.trace),
        }
    }

    pub fn explore<R: Record>(&self) -> Result<Explored, Violation> {
        let explored = explore::<R>(self, MOST)?;
        let Explored { states, transitions, whole, seconds, memory, .. } = &explored;
        let scope = if *whole { "the whole space" } else { "NOT the whole space" };
        let megabytes = memory / 1_000_000;
        println!(
            "{} [{}]: explored {states} states, {transitions} transitions, {seconds:.1} s, {megabytes} MB ({scope})",
            self.name,
            self.bounds()
        );
        for (spent, (served, clean)) in &explored.recovery {
            println!("    after {spent}: everybody served within {served} ticks, nothing left within {clean}");
        }
        Ok(explored)
    }

    /// What bounds the space, in words; see `docs/exploration.md`, which is made of these.
    fn bounds(&self) -> String {
        let tasks = |(client, wishes): (usize, &Vec<Wish>)| {
            wishes.iter().map(|wish| self.in_words(client, wish)).collect::<Vec<_>>().join(" ")
        };
        let some = self.clients.iter().enumerate().filter(|(_, wishes)| !wishes.is_empty());
        let clients: Vec<String> = some.map(tasks).collect();
        let network = if self.prompt { "prompt" } else { "any delay" };
        let faults = match self.most_faults {
            0 => "no fault".to_owned(),
            most if self.faults.len() >= FAULTS.len() => format!("at most {most} of any fault"),
            most => format!("at most {most} of {:?}", self.faults),
        };
        let pauses = if self.pauses > 0 { ", 1 pause" } else { "" };
        let clients = clients.join(" + ");
        if self.operations > 0 {
            return format!("tasks {clients}, {} count-downs; {network}, {faults}{pauses}", self.operations);
        }
        if self.role(0) == Role::Party {
            return format!("tasks {clients}; place {}; {network}, {faults}{pauses}", self.ttl);
        }
        let resizes = self.resizes.map_or(String::new(), |permits| format!(", resized to {permits}"));
        let claim = 1000 / self.tick.as_millis();
        format!("tasks {clients}{resizes}; lease {}, claim {claim}; {network}, {faults}{pauses}", self.ttl)
    }

    /// One task: `t`, and what it wants beside the lock.
    fn in_words(&self, client: usize, wish: &Wish) -> String {
        let part = match self.role(client) {
            Role::Sole => "t",
            Role::Reader => "read",
            Role::Writer => "write",
            Role::One => "1/2",
            Role::Two => "2/2",
            Role::TwoInOrder => "2/2f",
            Role::Waiter => "wait",
            Role::Party => "party",
        };
        let marks = [
            (wish.fair, "f"),
            (wish.rank > 0, "h"),
            (wish.may_cancel, "c"),
            (wish.extends.is_some(), "x"),
            (wish.changes, "u"),
        ];
        let marks = marks.into_iter().chain([(wish.exports.is_some(), "e"), (wish.resumes, "r")]);
        let marks = marks.chain([(wish.limit.is_some(), "l"), (wish.forgets, "a"), (wish.closes, "z")]);
        let marks: String = marks.filter(|(is, _)| *is).map(|(_, mark)| mark).collect();
        let ttl = wish.ttl.map_or(String::new(), |ttl| ttl.to_string());
        format!("{part}{marks}{ttl}")
    }
}
