//! Shims that serve one play after another, since to start a process costs more than most plays do.
//!
//! A shim whose play is over is told to `reset`: it closes what was opened, and no command is left in hand. It serves
//! again once its process has no more threads and descriptors than before its first play; else that play has failed.
//! One whose play failed, or that was sent a signal, does not come back.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::rows::Face;
use crate::shim::{Process, Shim};

/// How many of a face wait for their next play at most.
const WAIT: usize = 6;

/// The shims that wait for their next play.
#[derive(Debug)]
pub struct Pool {
    folder: PathBuf,
    waiting: Mutex<BTreeMap<String, Vec<Player>>>,
    started: AtomicU64,
}

/// A shim in a play.
#[derive(Debug)]
pub struct Player {
    pub shim: Arc<Shim>,
    face: String,
    /// What its process had before its first play; nothing for a process of one play.
    bare: Option<Process>,
    served: Vec<String>,
}

impl Pool {
    /// Those it starts write what they say into the folder.
    pub fn new(folder: PathBuf) -> Self {
        Pool { folder, waiting: Mutex::default(), started: AtomicU64::new(0) }
    }

    /// One that waits, or else a new one; for one play only if it is to be `fresh`.
    pub fn take(&self, face: &Face, fresh: bool) -> Result<Player, String> {
        let waiting = if fresh { None } else { locked(&self.waiting).get_mut(&face.name).and_then(Vec::pop) };
        if let Some(player) = waiting {
            player.shim.turn_the_page();
            return Ok(player);
        }
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let shim = Shim::start(face, &self.folder.join(format!("{}-{number}.err", face.name)))?;
        let mut player = Player { shim, face: face.name.clone(), bare: None, served: Vec::new() };
        if player.shim.resets && !fresh {
            // What another library leaves of its own is not ours to judge.
            let (threads, descriptors) = (u64::MAX, u64::MAX);
            player.bare = Some(Process { threads, descriptors });
            if face.joins.is_none() {
                player.shim.warm_up(&format!("warm-up-{}-{number}", std::process::id()))?;
                player.shim.reset()?;
                let process = player.shim.process();
                // Beside those threads that are known by name it has others that come and go.
                let threads = if face.own_threads.is_some() { u64::MAX } else { process.threads };
                player.bare = Some(Process { threads, ..process });
            }
        }
        Ok(player)
    }

    /// Has it serve again, now that nothing is left of the play.
    pub fn give_back(&self, mut player: Player, play: &str) -> Result<(), String> {
        player.served.push(play.to_owned());
        match self.keep(player) {
            None => Ok(()),
            Some(player) => player.end(),
        }
    }

    /// Nothing, or the one that is too many.
    fn keep(&self, player: Player) -> Option<Player> {
        let mut waiting = locked(&self.waiting);
        let waiting = waiting.entry(player.face.clone()).or_default();
        if waiting.len() >= WAIT {
            return Some(player);
        }
        waiting.push(player);
        None
    }

    /// Ends all that wait; how it went wrong.
    pub fn end(self) -> Vec<String> {
        let waiting = self.waiting.into_inner().unwrap_or_else(PoisonError::into_inner);
        waiting.into_values().flatten().filter_map(|player| player.end().err()).collect()
    }

    /// How many processes were started.
    pub fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }
}

impl Player {
    /// Whether it can serve another play.
    pub fn goes_on(&self) -> bool {
        self.bare.is_some() && !self.shim.was_sent_a_signal()
    }

    /// Whether its process has no more than before it played.
    pub fn is_bare(&self) -> bool {
        let now = self.shim.process();
        self.bare.is_none_or(|bare| now.threads <= bare.threads && now.descriptors <= bare.descriptors)
    }

    /// Waits for that, for so many seconds: threads that a runtime keeps for blocking calls stay for ten.
    pub fn bares(&self, patience: f64) -> Result<(), String> {
        let give_up = Instant::now() + Duration::from_secs_f64(patience);
        while !self.is_bare() {
            if Instant::now() > give_up {
                let before = self.bare.unwrap_or_default();
                let stays = self.shim.insides();
                return Err(format!("the shim of {} had {before:?} before, and now {stays}", self.face));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// The plays that it served before, the last ones first.
    pub fn history(&self) -> String {
        let last: Vec<_> = self.served.iter().rev().take(10).map(String::as_str).collect();
        last.join(", ")
    }

    fn end(&self) -> Result<(), String> {
        let served = || format!("the shim of {}, which served {}", self.face, self.history());
        self.shim.end().map_err(|error| format!("{}: {error}", served()))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
