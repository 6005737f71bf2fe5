//! What callers want sent: all that they and the [driver](super::driver) share.
//!
//! There is one connection at a time, on which everything goes out in the order in which it was asked for. What was
//! sent on one that broke may be done later, until the value that it stores would end: memcached keeps nothing that has
//! ended.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::config::Config;
use super::wire;
use crate::error::Error;
use crate::platform::clock;
use crate::platform::mutex::locked;
use crate::protocol::{Request, Requests};
use crate::stores::{Answered, Outcome, not_sent, reach};
use crate::time::Time;

/// By how much longer than its ttl a value may last at most.
const MARGIN: Duration = Duration::from_secs(6);

/// See the [module](self).
pub(super) struct Broker {
    pub(super) config: Config,
    state: Mutex<State>,
    /// There is something new for the driver.
    pub(super) changed: Notify,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Write>,
    numbers: u64,
    is_kept: bool,
    is_closed: bool,
}

/// Requests that go out together.
pub(super) struct Write {
    number: u64,
    pub(super) requests: Requests,
    caller: oneshot::Sender<Answered>,
}

impl Write {
    /// Nobody waits for it any more.
    pub(super) fn is_unwanted(&self) -> bool {
        self.caller.is_closed()
    }

    /// Tells how it ended.
    pub(super) fn ends(self, answered: Answered) {
        // Whoever asked may be gone.
        let _ = self.caller.send(answered);
    }
}

/// What somebody waits for.
pub(super) struct Ticket {
    number: u64,
    pub(super) answer: oneshot::Receiver<Answered>,
    /// Until when it may be done once it is sent, in time from then.
    lasts: Option<Duration>,
    /// Nobody keeps the connection yet.
    pub(super) is_first: bool,
}

/// What the driver has to do next.
pub(super) enum Wanted {
    Writes(Vec<Write>),
    Nothing,
    /// The client was closed, and nothing is left to be done.
    End,
}

impl Broker {
    pub(super) fn new(config: Config) -> Self {
        Broker { config, state: Mutex::default(), changed: Notify::new() }
    }

    /// Takes what somebody wants asked.
    pub(super) fn ask(&self, requests: Requests) -> Ticket {
        let (caller, answer) = oneshot::channel();
        let lasts = lasts(&requests);
        let mut state = locked(&self.state);
        state.numbers += 1;
        let number = state.numbers;
        state.queue.push_back(Write { number, requests, caller });
        let is_first = !std::mem::replace(&mut state.is_kept, true);
        drop(state);
        self.changed.notify_one();
        Ticket { number, answer, lasts, is_first }
    }

    /// Nobody waits for it any more, since its time is over: it is not sent, if it was not.
    pub(super) fn give_up(&self, ticket: &Ticket) -> Answered {
        let mut state = locked(&self.state);
        let queued = state.queue.len();
        state.queue.retain(|write| write.number != ticket.number);
        let was_sent = state.queue.len() == queued;
        drop(state);
        let error = self.lost(std::io::ErrorKind::TimedOut.into());
        let now = clock::now();
        match was_sent {
            true => unknown(error, now, now, ticket.lasts),
            false => not_sent(error),
        }
    }

    /// Who could keep the connection could not be had.
    pub(super) fn give_back(&self, error: &Error) {
        let mut state = locked(&self.state);
        state.is_kept = false;
        let writes = std::mem::take(&mut state.queue);
        drop(state);
        writes.into_iter().for_each(|write| write.ends(not_sent(error.clone())));
    }

    pub(super) fn lost(&self, error: std::io::Error) -> Error {
        reach::lost(wire::NO_ANSWER, error).on_store(self.config.address.clone())
    }

    /// What was asked is asked yet; then the connection ends.
    pub(super) fn close(&self) {
        locked(&self.state).is_closed = true;
        self.changed.notify_one();
    }

    pub(super) fn wanted(&self) -> Wanted {
        let mut state = locked(&self.state);
        if !state.queue.is_empty() {
            return Wanted::Writes(state.queue.drain(..).collect());
        }
        match state.is_closed {
            true => {
                state.is_kept = false;
                Wanted::End
            }
            false => Wanted::Nothing,
        }
    }
}

/// How a write ended whose answer did not come.
pub(super) fn unknown(error: Error, sent: Time, now: Time, lasts: Option<Duration>) -> Answered {
    let void_after = lasts.map_or(now, |lasts| now.after(lasts));
    Answered { sent, outcome: Outcome::Unknown { error, void_after } }
}

/// For how long what these store can be of any effect after their sending; nothing for those that store nothing.
pub(super) fn lasts(requests: &[Request]) -> Option<Duration> {
    let longest = requests.iter().filter_map(wire::keeps).max();
    longest.map(|seconds| Duration::from_secs(seconds).saturating_add(MARGIN))
}
