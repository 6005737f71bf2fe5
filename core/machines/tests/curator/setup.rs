//! What a space is made of.

use std::time::Duration;

use crate::processor::processor_seconds;
use crate::search::{Explored, explore};

/// Clocks are only looked at at whole ticks. The pause before a store is asked again is over within one.
pub const TICK: Duration = Duration::from_secs(1);
pub const TTL: u32 = 2;
/// For how many ticks a session certainly lives from the sending of what was answered.
pub const LIFE: u32 = 3;
pub const STORE_TIMEOUT: u32 = 5;

/// What one client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Waits,
    /// It waits, and what it holds is to end with its ttl.
    WaitsUnrenewed,
    Tries,
    /// It waits for a reader's part, or for a writer's.
    Reads,
    Writes,
    /// It waits for a permit, or tries for one.
    Permit,
    TriesPermit,
}

impl Wish {
    pub fn is_try(self) -> bool {
        matches!(self, Wish::Tries | Wish::TriesPermit)
    }

    fn in_words(self) -> &'static str {
        match self {
            Wish::Waits => "wait",
            Wish::WaitsUnrenewed => "wait, unrenewed",
            Wish::Tries => "try",
            Wish::Reads => "read",
            Wish::Writes => "write",
            Wish::Permit => "wait for a permit",
            Wish::TriesPermit => "try for a permit",
        }
    }
}

/// What becomes of requests whose connection is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Each of them without an answer is answered by the loss.
    Said,
    /// The write has no answer at all, but until when it may be executed.
    Unknown,
}

/// What may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A connection breaks, and the session goes on over another one.
    Loss,
    /// A client is silent for so long that the server ends its session.
    Expiry,
    /// A client takes another session while the server keeps the old one.
    Leave,
    /// A client is stopped, or hears nothing, until its next timer is due or for very long; no answer of the store
    /// makes its session last meanwhile.
    Stop,
    /// Whoever waits is gone.
    Cancel,
}

pub const ANY: &[Fault] = &[Fault::Loss, Fault::Expiry, Fault::Leave, Fault::Stop, Fault::Cancel];

/// How many permits there are.
pub const PERMITS: u32 = 1;

#[derive(Clone, Debug)]
pub struct Setup {
    pub name: &'static str,
    pub wishes: Vec<Wish>,
    pub failure: Failure,
    pub faults: &'static [Fault],
    pub most_faults: u8,
}

impl Setup {
    /// Nothing goes wrong.
    pub fn of(name: &'static str, wishes: &[Wish]) -> Self {
        Setup { name, wishes: wishes.to_vec(), failure: Failure::Said, faults: &[], most_faults: 0 }
    }

    pub fn with(self, most_faults: u8, faults: &'static [Fault]) -> Self {
        Setup { faults, most_faults, ..self }
    }

    pub fn with_silence(self) -> Self {
        Setup { failure: Failure::Unknown, ..self }
    }

    /// Explores it whole, and says so.
    pub fn check(&self) {
        let started = processor_seconds();
        let Explored { states, transitions, memory } = match explore(self) {
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
        let clients: Vec<_> = self.wishes.iter().map(|wish| wish.in_words()).collect();
        let faults = match self.most_faults {
            0 => "no fault".to_owned(),
            most if self.faults.len() == ANY.len() => format!("at most {most} of any fault"),
            most => format!("at most {most} of {:?}", self.faults),
        };
        let silence = if self.failure == Failure::Unknown { ", what is lost has no answer" } else { "" };
        format!("clients {}; ttl {TTL}, session {LIFE}; {faults}{silence}", clients.join(" + "))
    }
}
