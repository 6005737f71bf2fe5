//! Which nodes answer. One that did not is not asked, so that nobody waits for it, until a look in the background finds
//! that it does again.

use std::sync::Mutex;
use std::time::Duration;

use crate::error::{Error, Kind};
use crate::platform::mutex::locked;
use crate::stores::Outcome;
use crate::time::Time;

/// First and longest pause between two looks.
const LOOKS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Health(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Somebody asked it before.
    met: bool,
    away: Option<Away>,
}

#[derive(Debug)]
struct Away {
    why: Error,
    pause: Duration,
    look_at: Time,
    is_looked_at: bool,
}

impl Health {
    /// Whether nobody asked it yet, so that nobody knows how long it takes to answer.
    pub(super) fn is_new(&self) -> bool {
        !locked(&self.0).met
    }

    /// Why it is not to be asked.
    pub(super) fn away(&self) -> Option<Error> {
        locked(&self.0).away.as_ref().map(|away| away.why.clone())
    }

    /// Whether it is time to look after it; whoever is told so does.
    pub(super) fn is_to_be_looked_at(&self, now: Time) -> bool {
        let mut state = locked(&self.0);
        let due = state.away.as_mut().filter(|away| !away.is_looked_at && now >= away.look_at);
        due.map(|away| away.is_looked_at = true).is_some()
    }

    /// It was asked, and this came of it.
    pub(super) fn hear(&self, now: Time, outcome: &Outcome) {
        let mut state = locked(&self.0);
        state.met = true;
        let why = match outcome {
            Outcome::Replies(_) | Outcome::Partly { .. } => return state.away = None,
            Outcome::NotSent(error) | Outcome::Unknown { error, .. } => error,
        };
        // That a task went away says nothing of the node.
        if why.kind() == Kind::Cancelled {
            return;
        }
        let pause = state.away.as_ref().map_or(LOOKS.0, |away| (away.pause * 2).min(LOOKS.1));
        state.away = Some(Away { why: why.clone(), pause, look_at: now.after(pause), is_looked_at: false });
    }
}
