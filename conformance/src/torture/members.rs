//! What befalls the members of a cluster while others work: one after the other, the leader and then a follower, is
//! killed, stopped, and cut off from those who come through the proxy, if there is one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::proxy::Proxy;
use crate::clock::{after, between, now};
use crate::dice::Dice;
use crate::rows::{Store, ask};

/// Every fault that was done, and how often.
pub(super) type Faults = BTreeMap<&'static str, u32>;

/// How a member may fail.
#[derive(Clone, Copy, Debug)]
enum Failure {
    Killed,
    Stopped,
    CutOff,
    /// It gives what the lock is in to another one.
    Moved,
}

/// What comes one after the other, with how it is told.
const ROUNDS: [(Failure, bool, &str); 6] = [
    (Failure::Killed, true, "the leader killed"),
    (Failure::Killed, false, "a follower killed"),
    (Failure::Stopped, true, "the leader stopped for up to 5 s"),
    (Failure::Stopped, false, "a follower stopped for up to 5 s"),
    (Failure::CutOff, true, "clients cut off from the leader for up to 5 s"),
    (Failure::CutOff, false, "clients cut off from a follower for up to 5 s"),
];

const MOVES: [(Failure, bool, &str); 1] = [(Failure::Moved, true, "the lock moved to another server")];

/// See the [module](self).
pub(super) struct Members {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<Faults, String>>,
}

impl Members {
    /// Begins, with those that the lock of that name lies at; `None` where the store is no cluster.
    pub(super) fn begin(store: &Store, lock: String, proxy: Option<&Proxy>, seed: u64) -> Option<Self> {
        let over = Arc::<AtomicBool>::default();
        let cluster = Cluster {
            service: store.service.clone()?,
            lock,
            members: store.members?,
            moves: store.moves,
            calm: store.calm.unwrap_or(0.5),
            wakes: !store.cannot.contains_key("wake"),
            proxy: proxy.cloned(),
            dice: Dice::new(seed),
            over: over.clone(),
        };
        Some(Members { over, thread: thread::spawn(move || cluster.fails()) })
    }

    /// Ends it, once all of them serve; what was done.
    pub(super) fn calm(self) -> Result<Faults, String> {
        self.over.store(true, Ordering::Release);
        self.thread.join().map_err(|_| "what befalls the members panicked".to_owned())?
    }
}

struct Cluster {
    service: String,
    lock: String,
    members: u8,
    moves: bool,
    calm: f64,
    /// Whether a member that was stopped may go on; else it is killed.
    wakes: bool,
    proxy: Option<Proxy>,
    dice: Dice,
    over: Arc<AtomicBool>,
}

impl Cluster {
    fn fails(mut self) -> Result<Faults, String> {
        let mut faults = Faults::new();
        for (failure, leads, told) in self.rounds().into_iter().cycle() {
            self.pause(self.calm, 2.0);
            if self.is_over() {
                break;
            }
            let member = self.one_that(leads)?;
            self.befall(member, failure)?;
            // So that there is always a majority.
            ask(&self.service, &["whole"])?;
            *faults.entry(told).or_default() += 1;
        }
        Ok(faults)
    }

    fn rounds(&self) -> Vec<(Failure, bool, &'static str)> {
        if self.moves {
            return MOVES.into();
        }
        let is_possible = |failure| self.proxy.is_some() || !matches!(failure, Failure::CutOff);
        ROUNDS.into_iter().filter(|(failure, ..)| is_possible(*failure)).collect()
    }

    fn befall(&mut self, member: u8, failure: Failure) -> Result<(), String> {
        let number = member.to_string();
        let has = |what| ask(&self.service, &["member", &number, what]).map(drop);
        match failure {
            Failure::Killed => has("kill"),
            Failure::Stopped => {
                has("stop")?;
                let ends = if self.wakes { "cont" } else { "kill" };
                self.pause(1.0, 4.0);
                ask(&self.service, &["member", &number, ends]).map(drop)
            }
            Failure::CutOff => {
                if let Some(proxy) = self.proxy.clone() {
                    proxy.cut_off(member, 5.0);
                    self.pause(1.0, 4.0);
                    proxy.calm();
                }
                Ok(())
            }
            Failure::Moved => ask(&self.service, &["move", &self.lock]).map(drop),
        }
    }

    fn one_that(&mut self, leads: bool) -> Result<u8, String> {
        let told = ask(&self.service, &["leader", &self.lock])?;
        let leader = told.parse().map_err(|_| format!("{} says that {told:?} leads", self.service))?;
        let others: Vec<_> = (1..=self.members).filter(|member| *member != leader).collect();
        Ok(if leads { leader } else { others[self.dice.below(others.len() as u64) as usize] })
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// For so many seconds and as many again at most, unless all is over.
    fn pause(&mut self, least: f64, more: f64) {
        let end = after(now(), least + more * self.dice.below(1000) as f64 / 1000.0);
        while between(now(), end) > 0.0 && !self.is_over() {
            thread::sleep(Duration::from_millis(10));
        }
    }
}
