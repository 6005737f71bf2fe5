//! What a space is made of.

use std::time::Duration;

use lockwright_machines::gate::{BarrierPlan, LatchPlan};
use lockwright_machines::share::Share;

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
    /// It waits, gives back what it is granted, and waits once more.
    WaitsTwice,
    /// The same three times.
    WaitsThrice,
    /// Three of its tasks wait.
    ThreeWait,
    /// It tries, and once more.
    TriesTwice,
    /// It waits, in a copy of the other's process: it has the same session, and calls what it puts by the same name.
    WaitsInCopy,
    TriesInCopy,
    /// Three tasks of such a copy wait.
    ThreeWaitInCopy,
    /// It waits, and what it holds is to end with its ttl.
    WaitsUnrenewed,
    Tries,
    /// It waits for this of what several share.
    WaitsFor(Share),
    TriesFor(Share),
    /// It waits at a barrier for two.
    Meets,
    /// It waits there, and once more.
    MeetsTwice,
    /// It passes if the other one is there.
    TriesToMeet,
    /// It waits for a latch, which others count down.
    WaitsForLatch,
    TriesLatch,
    /// It waits for the only permit of a semaphore of kazoo's.
    WaitsForKazoos,
    TriesKazoos,
}

impl Wish {
    pub fn tries(self) -> bool {
        matches!(self, Wish::Tries | Wish::TriesTwice | Wish::TriesInCopy)
            || matches!(self, Wish::TriesFor(_) | Wish::TriesToMeet | Wish::TriesLatch | Wish::TriesKazoos)
    }

    /// Whether it is one of several copies of a process.
    pub fn is_copy(self) -> bool {
        matches!(self, Wish::WaitsInCopy | Wish::TriesInCopy | Wish::ThreeWaitInCopy)
    }

    /// How often it wants it once more.
    pub fn comes_again(self) -> u8 {
        match self {
            Wish::WaitsThrice => 2,
            Wish::WaitsTwice | Wish::TriesTwice | Wish::MeetsTwice => 1,
            _ => 0,
        }
    }

    /// How many tasks it has.
    pub fn tasks(self) -> usize {
        if matches!(self, Wish::ThreeWait | Wish::ThreeWaitInCopy) { 3 } else { 1 }
    }

    /// Whether it is a party at the barrier.
    pub fn meets(self) -> bool {
        matches!(self, Wish::Meets | Wish::MeetsTwice | Wish::TriesToMeet)
    }

    /// Whether it holds nothing.
    pub fn is_of_gate(self) -> bool {
        self.meets() || matches!(self, Wish::WaitsForLatch | Wish::TriesLatch)
    }

    /// Whether it is for kazoo's semaphore.
    pub fn is_kazoos(self) -> bool {
        matches!(self, Wish::WaitsForKazoos | Wish::TriesKazoos)
    }

    pub fn share(self) -> Option<Share> {
        match self {
            Wish::WaitsFor(share) | Wish::TriesFor(share) => Some(share),
            _ => None,
        }
    }

    fn in_words(self) -> String {
        let of = |share: Share| match share {
            Share::READ => "read".to_owned(),
            Share::WRITE => "write".to_owned(),
            Share { units, capacity, .. } => format!("take {units} of {capacity}"),
        };
        match self {
            Wish::Waits => "wait".to_owned(),
            Wish::WaitsTwice => "wait twice".to_owned(),
            Wish::ThreeWait => "three tasks wait".to_owned(),
            Wish::WaitsThrice => "wait three times".to_owned(),
            Wish::TriesTwice => "try twice".to_owned(),
            Wish::WaitsInCopy => "wait in a copy of a process".to_owned(),
            Wish::TriesInCopy => "try in a copy of a process".to_owned(),
            Wish::ThreeWaitInCopy => "three tasks wait in a copy of a process".to_owned(),
            Wish::WaitsUnrenewed => "wait, unrenewed".to_owned(),
            Wish::Tries => "try".to_owned(),
            Wish::WaitsFor(share) => format!("wait to {}", of(share)),
            Wish::TriesFor(share) => format!("try to {}", of(share)),
            Wish::Meets => "wait at a barrier for 2".to_owned(),
            Wish::MeetsTwice => "wait at a barrier for 2, twice".to_owned(),
            Wish::TriesToMeet => "try to pass it".to_owned(),
            Wish::WaitsForLatch => format!("wait for a latch of {COUNT}"),
            Wish::TriesLatch => "try whether it is open".to_owned(),
            Wish::WaitsForKazoos => "wait for kazoo's only permit".to_owned(),
            Wish::TriesKazoos => "try to take kazoo's only permit".to_owned(),
        }
    }
}

/// What a party at the barrier says of it. Nobody looks by its timer before everything else has happened.
pub const PARTIES: BarrierPlan = BarrierPlan { parties: 2, ttl: Duration::from_secs(30), copies: Duration::ZERO };

/// From where the latch counts.
pub const COUNT: u32 = 2;
/// What those who wait for it say.
pub const LATCH: LatchPlan = LatchPlan { count: COUNT, idle: Duration::from_secs(60) };

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
    /// The server removes the lock's directory, in which there is nobody.
    Clear,
}

pub const ANY: &[Fault] = &[Fault::Loss, Fault::Expiry, Fault::Leave, Fault::Stop, Fault::Cancel];

#[derive(Clone, Debug)]
pub struct Setup {
    pub name: &'static str,
    pub wishes: Vec<Wish>,
    pub failure: Failure,
    pub faults: &'static [Fault],
    pub most_faults: u8,
    /// Whoever waits asks again and again.
    pub polls: bool,
}

impl Setup {
    /// Nothing goes wrong.
    pub fn of(name: &'static str, wishes: &[Wish]) -> Self {
        Setup { name, wishes: wishes.to_vec(), failure: Failure::Said, faults: &[], most_faults: 0, polls: false }
    }

    pub fn with(self, most_faults: u8, faults: &'static [Fault]) -> Self {
        Setup { faults, most_faults, ..self }
    }

    pub fn with_silence(self) -> Self {
        Setup { failure: Failure::Unknown, ..self }
    }

    pub fn polled(self) -> Self {
        Setup { polls: true, ..self }
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
