//! What a space is made of.

use std::time::Duration;

use crate::processor::processor_seconds;
use crate::search::{Explored, explore};

/// Clocks are only looked at at whole ticks.
pub const TICK: Duration = Duration::from_secs(1);
pub const TTL: u32 = 2;
/// The longest lease, for which a node that forgot what it granted does not count.
pub const MAX_TTL: u32 = 2;
/// For how long what was sent and not answered may be executed.
pub const LATE: u32 = 1;
pub const STORE_TIMEOUT: u32 = 5;
pub const NODES: usize = 3;
pub const CLIENTS: usize = 2;

/// What may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// What was sent to a node has no answer, and is executed later or never.
    Loss,
    /// The same of a first try without a token alone, of the first client: all clients are alike. What else may go
    /// wrong befalls that node then, while the try is on its way.
    LateTry,
    /// A node is restarted, with its data or without.
    Restart,
    /// A node loses its data and goes on.
    Flush,
    /// A node's clock is set forward by the longest lease.
    Step,
    /// Whoever waits is gone.
    Cancel,
}

#[derive(Clone, Debug)]
pub struct Setup {
    pub name: &'static str,
    /// What may go wrong, and how often.
    pub faults: Vec<(Fault, u8)>,
    /// For how long somebody waits.
    pub limit: u32,
    /// Whether a write reaches the nodes in their order, or in any.
    pub ordered: bool,
    /// Whether the lock has no tokens: then a first try that is lost may be executed at any time.
    pub tokenless: bool,
}

impl Setup {
    /// Nothing goes wrong.
    pub fn of(name: &'static str) -> Self {
        Setup { name, faults: Vec::new(), limit: 2, ordered: false, tokenless: false }
    }

    pub fn with(self, faults: &[(Fault, u8)]) -> Self {
        Setup { faults: faults.to_vec(), ..self }
    }

    pub fn in_order(self) -> Self {
        Setup { ordered: true, ..self }
    }

    pub fn without_tokens(self) -> Self {
        Setup { tokenless: true, ..self }
    }

    pub fn waiting(self, limit: u32) -> Self {
        Setup { limit, ..self }
    }

    /// # Errors
    /// What must not be, and the way there.
    pub fn explored(&self) -> Result<Explored, String> {
        explore(self)
    }

    /// Explores it whole, and says so.
    pub fn check(&self) {
        let started = processor_seconds();
        let Explored { states, transitions, memory } = match self.explored() {
            Ok(explored) => explored,
            Err(wrong) => panic!("{}: {wrong}", self.name),
        };
        let (seconds, megabytes) = (processor_seconds() - started, memory / 1_000_000);
        println!(
            "{} [{}]: explored {states} states, {transitions} transitions, {seconds:.1} s, {megabytes} MB (the whole space)",
            self.name,
            self.bounds()
        );
    }

    /// What bounds the space, in words; see `docs/exploration.md`, which is made of these.
    fn bounds(&self) -> String {
        let faults: Vec<_> = self.faults.iter().map(|(fault, most)| format!("{most} {fault:?}")).collect();
        let faults =
            if faults.is_empty() { "no fault".to_owned() } else { format!("at most {}", faults.join(" and ")) };
        let order = if self.ordered { ", which a write reaches in their order" } else { "" };
        let limit = self.limit;
        format!("{NODES} nodes{order}, {CLIENTS} clients that wait for {limit}; ttl {TTL}, longest {MAX_TTL}; {faults}")
    }
}
