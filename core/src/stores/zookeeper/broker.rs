//! What callers want sent, what was sent and has no answer yet, and what is known of the session: all that callers and
//! the [driver](super::driver) share.
//!
//! There is one session, and one connection at a time, on which everything goes out in the order in which it was asked
//! for. A write without an answer can be executed only before whatever is asked after it: the server that has it ends
//! that connection before it lets the session go on, another server has the leader refuse what comes by the first one,
//! and nothing is done for a session that is over. So it is void when it is given up.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, Weak};

use lockwright_machines::stores::zookeeper::layouts::recipe::{SEMAPHORE, attempt_of};
use tokio::sync::{Notify, oneshot};

use super::config::Config;
use super::greeting::Session;
use super::layouts::WATCH;
use super::session::Pace;
use super::wire::{self, HEARTBEAT, Head, News, Node, Opcode, Reader, Watched, code};
use crate::error::{Error, Result};
use crate::platform::clock;
use crate::platform::mutex::locked;
use crate::protocol::{Reply, Request, Requests, StoreEvent};
use crate::stores::{Answered, BATCH, Outcome, Sink, not_sent};
use crate::time::Time;

/// See the [module](self).
pub(super) struct Broker {
    pub(super) config: Config,
    pub(super) pace: Pace,
    state: Mutex<State>,
    /// There is something new for the driver.
    pub(super) changed: Notify,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Write>,
    flights: VecDeque<Flight>,
    numbers: u64,
    session: Option<Session>,
    /// The last transaction that a server told of.
    seen: i64,
    /// What the server is to tell.
    watches: HashSet<Watched>,
    /// Nodes that this session keeps.
    own: HashSet<Arc<str>>,
    /// There may be more of them.
    may_own_more: bool,
    sinks: Vec<Weak<dyn Sink>>,
    /// Until when the session lives, as the sinks were told last.
    told: Time,
    is_kept: bool,
    is_closed: bool,
}

/// Requests that go out together.
struct Write {
    number: u64,
    requests: Requests,
    opcodes: Vec<Opcode>,
    /// Who waits for the answer; nobody for what the driver asks for itself.
    caller: Option<oneshot::Sender<Answered>>,
}

struct Flight {
    write: Write,
    xid: i32,
    sent: Time,
    replies: Vec<Reply>,
}

/// What somebody waits for.
pub(super) struct Ticket {
    number: u64,
    pub(super) answer: oneshot::Receiver<Answered>,
    /// Nobody keeps the session yet.
    pub(super) is_first: bool,
}

/// What the driver has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Connection,
    Nothing,
    /// The client was closed, and nothing is left to be done.
    End,
}

impl Broker {
    pub(super) fn new(config: Config) -> Self {
        Broker { pace: Pace::of(&config), config, state: Mutex::default(), changed: Notify::new() }
    }

    /// Takes what somebody wants asked.
    ///
    /// # Errors
    /// `internal` for what no ZooKeeper can be asked.
    pub(super) fn ask(&self, requests: Requests) -> Result<Ticket> {
        let opcodes = requests.iter().map(Opcode::of).collect::<Result<_>>()?;
        let (caller, answer) = oneshot::channel();
        let mut state = locked(&self.state);
        state.numbers += 1;
        let number = state.numbers;
        state.queue.push_back(Write { number, requests, opcodes, caller: Some(caller) });
        let is_first = !std::mem::replace(&mut state.is_kept, true);
        drop(state);
        self.changed.notify_one();
        Ok(Ticket { number, answer, is_first })
    }

    /// Nobody waits for it any more, since its time is over: it is not sent, if it was not.
    pub(super) fn give_up(&self, ticket: &Ticket) -> Answered {
        let mut state = locked(&self.state);
        let (queued, now) = (state.queue.len(), clock::now());
        state.queue.retain(|write| write.number != ticket.number);
        let error = self.lost(std::io::ErrorKind::TimedOut.into());
        match state.queue.len() < queued {
            true => not_sent(error),
            false => Answered { sent: now, outcome: Outcome::Unknown { error, void_after: now } },
        }
    }

    /// Who could keep the session could not be had.
    pub(super) fn give_back(&self, error: Error) {
        locked(&self.state).is_kept = false;
        self.refuse(error);
    }

    pub(super) fn lost(&self, error: std::io::Error) -> Error {
        crate::stores::reach::lost(wire::NO_ANSWER, error).on_store(self.config.address.clone())
    }

    pub(super) fn listen(&self, sink: Weak<dyn Sink>) {
        let mut state = locked(&self.state);
        state.sinks.retain(|sink| sink.strong_count() > 0);
        state.sinks.push(sink);
        // What was known before was told to nobody.
        state.told = Time::ZERO;
    }

    /// What was asked is asked yet; then the session ends.
    pub(super) fn close(&self) {
        locked(&self.state).is_closed = true;
        self.changed.notify_one();
    }

    pub(super) fn wanted(&self) -> Wanted {
        let mut state = locked(&self.state);
        if !state.queue.is_empty() || !state.flights.is_empty() {
            return Wanted::Connection;
        }
        match (state.is_closed, &state.session) {
            (true, _) => {
                state.is_kept = false;
                state.session = None;
                Wanted::End
            }
            (false, Some(_)) => Wanted::Connection,
            (false, None) => Wanted::Nothing,
        }
    }

    /// Whether all is said, and the session is to be ended.
    pub(super) fn is_through(&self) -> bool {
        let state = locked(&self.state);
        state.is_closed && state.queue.is_empty() && state.flights.is_empty()
    }

    /// The session that is to go on, if there is one, and the last transaction that was heard of.
    pub(super) fn session(&self) -> (Option<Session>, i64) {
        let state = locked(&self.state);
        (state.session.clone(), if state.session.is_some() { state.seen } else { 0 })
    }

    /// The session goes on, or is a new one, which a majority agreed to after `sent`.
    pub(super) fn begun(&self, session: Session, sent: Time) {
        let mut state = locked(&self.state);
        let is_new = state.session.is_none();
        state.session = Some(session);
        drop(state);
        if is_new {
            self.lives(sent);
        }
    }

    /// The session is over, as the ensemble said.
    pub(super) fn over(&self) {
        let mut state = locked(&self.state);
        (state.session, state.seen, state.told, state.may_own_more) = (None, 0, Time::ZERO, false);
        state.watches.clear();
        state.own.clear();
        let sinks = state.sinks();
        drop(state);
        sinks.iter().for_each(|sink| sink.session_over());
    }

    /// Whether there is anything that lasts as long as the session does.
    pub(super) fn keeps_something(&self) -> bool {
        let state = locked(&self.state);
        state.may_own_more || !state.own.is_empty()
    }

    /// The watches to be set again on another connection, in portions, and the last transaction that was heard of.
    pub(super) fn watches(&self, most: usize) -> (i64, Vec<Vec<Watched>>) {
        let state = locked(&self.state);
        let all: Vec<_> = state.watches.iter().cloned().collect();
        let mut portions = vec![Vec::new()];
        let mut size = 0;
        for watched in all {
            let length = watched.path().len() + 4;
            size += length;
            if size > most {
                portions.push(Vec::new());
                size = length;
            }
            portions.last_mut().into_iter().for_each(|portion: &mut Vec<_>| portion.push(watched.clone()));
        }
        portions.retain(|portion| !portion.is_empty());
        (state.seen, portions)
    }

    /// Writes all that was asked for into `out`, the first request as the one behind `xid`, as if it left now; until
    /// when the session has been proven alive, if that is all answered.
    pub(super) fn send(&self, out: &mut Vec<u8>, xid: &mut i32) -> Option<Time> {
        let mut state = locked(&self.state);
        let sent = clock::now();
        let mut proves = None;
        while let Some(write) = state.queue.pop_front() {
            let first = *xid;
            for (request, opcode) in write.requests.iter().zip(&write.opcodes) {
                wire::request(out, *xid, *opcode, request, &self.config.acl);
                *xid = xid.checked_add(1).unwrap_or(1);
                proves = if opcode.is_of_majority(0) { Some(sent) } else { proves };
            }
            state.flights.push_back(Flight { write, xid: first, sent, replies: Vec::new() });
        }
        proves
    }

    /// Has the session proven alive with the next write.
    pub(super) fn heartbeat(&self) {
        locked(&self.state).ask([Request::new(&HEARTBEAT, "/".into(), [])]);
    }

    /// Asks to be told of the end of this session's nodes, unless it was asked already: most do not last for as long.
    pub(super) fn watch_own(&self) {
        let mut state = locked(&self.state);
        let is_watched = |path: &&Arc<str>| state.watches.contains(&Watched::Node(Arc::clone(path)));
        let unwatched: Vec<_> = state.own.iter().filter(|path| !is_watched(path)).cloned().collect();
        for part in unwatched.chunks(BATCH) {
            state.ask(part.iter().map(|path| Request::new(&WATCH, path.clone(), [])));
        }
    }

    /// When what is not answered yet left that left first.
    pub(super) fn oldest(&self) -> Option<Time> {
        locked(&self.state).flights.front().map(|flight| flight.sent)
    }

    /// The server answered the next request.
    ///
    /// # Errors
    /// `protocol` where that is no answer to it; `unavailable` where the session cannot go on there.
    pub(super) fn answered(&self, head: Head, from: &mut Reader<'_>) -> Result<()> {
        let mut state = locked(&self.state);
        let session = state.session.as_ref().map_or(0, |session| session.id);
        state.seen = state.seen.max(head.zxid);
        let flight = state.flights.front_mut().ok_or_else(wire::garbled)?;
        let at = flight.replies.len();
        let expected = (0..at).fold(flight.xid, |xid, _| xid.checked_add(1).unwrap_or(1));
        let (Some(opcode), true) = (flight.write.opcodes.get(at).copied(), head.xid == expected) else {
            return Err(wire::garbled());
        };
        let reply = wire::reply(opcode, session, head.error, from)?;
        let (path, sent) = (flight.write.requests[at].key.clone(), flight.sent);
        let made = match &reply {
            Reply::List(parts) => match parts.get(1) {
                Some(Reply::Text(made)) if is_kept(opcode) => Some(Arc::from(made.as_str())),
                _ => None,
            },
            _ => None,
        };
        let is_success = head.error == 0;
        let is_gone = opcode == Opcode::Data { watches: true } && head.error == code::NO_NODE;
        flight.replies.push(reply);
        let is_whole = flight.replies.len() == flight.write.requests.len();
        let whole = if is_whole { state.flights.pop_front() } else { None };
        let gone = Some(path.clone()).filter(|path| is_gone && state.own.contains(path));
        match opcode {
            Opcode::Create(_) => state.own.extend(made),
            Opcode::Delete if is_success || head.error == code::NO_NODE => drop(state.own.remove(&path)),
            Opcode::Data { watches: true } if is_success => drop(state.watches.insert(Watched::Node(path))),
            Opcode::Children { watches: true } if is_success => drop(state.watches.insert(Watched::Children(path))),
            _ => {}
        }
        drop(state);
        if let Some(path) = gone {
            self.heard(News::Deleted(path.to_string()));
        }
        if opcode.is_of_majority(head.error) {
            self.lives(sent);
        }
        if let Some(Flight { write: Write { caller: Some(caller), .. }, sent, replies, .. }) = whole {
            // Whoever asked may be gone.
            let _ = caller.send(Answered { sent, outcome: Outcome::Replies(replies) });
        }
        match head.error {
            code::SESSION_EXPIRED | code::SESSION_MOVED => Err(self.lost(std::io::ErrorKind::ConnectionReset.into())),
            _ => Ok(()),
        }
    }

    /// A majority answered what was sent at `sent`.
    fn lives(&self, sent: Time) {
        let until = self.pace.lives_until(sent);
        let mut state = locked(&self.state);
        if self.pace.is_told(state.told, until) {
            return;
        }
        state.told = until;
        let sinks = state.sinks();
        drop(state);
        sinks.iter().for_each(|sink| sink.session(until));
    }

    /// Something happened to a node that is watched.
    pub(super) fn heard(&self, news: News) {
        let (path, is_gone, is_of_children): (Arc<str>, _, _) = match news {
            News::Deleted(path) => (path.into(), true, false),
            News::Changed(path) => (path.into(), false, false),
            News::Children(path) => (path.into(), false, true),
            News::Other => return,
        };
        let Some((dir, name)) = path.rsplit_once('/') else { return };
        let mut state = locked(&self.state);
        if !is_of_children {
            state.watches.remove(&Watched::Node(path.clone()));
        }
        if is_gone || is_of_children {
            state.watches.remove(&Watched::Children(path.clone()));
        }
        let is_own = state.own.contains(&path);
        if is_gone {
            state.own.remove(&path);
        }
        let sinks = state.sinks();
        drop(state);
        let broken = attempt_of(name).filter(|_| is_own && is_gone).map(|attempt| StoreEvent::Broken { attempt });
        let event =
            if is_gone { StoreEvent::Gone { path: path.clone() } } else { StoreEvent::Changed { path: path.clone() } };
        // A semaphore's nodes lie one deeper, and nobody hears of a lock that is called as their directories are.
        let deeper = SEMAPHORE.iter().find_map(|below| dir.strip_suffix(below)?.strip_suffix('/'));
        for (sink, key) in sinks.iter().flat_map(|sink| [Some(dir), deeper].map(|key| (sink, key))) {
            let Some(key) = key else { continue };
            broken.iter().chain([&event]).for_each(|event| sink.pushed(key, event));
        }
    }

    /// The connection is gone, and with it the answers to what was sent.
    pub(super) fn cut(&self, error: &Error) {
        let mut state = locked(&self.state);
        let flights = std::mem::take(&mut state.flights);
        state.may_own_more |= flights.iter().flat_map(|flight| &flight.write.opcodes).any(|opcode| is_kept(*opcode));
        drop(state);
        let void_after = clock::now();
        for Flight { write, sent, .. } in flights {
            if let Some(caller) = write.caller {
                let _ = caller.send(Answered { sent, outcome: Outcome::Unknown { error: error.clone(), void_after } });
            }
        }
    }

    /// No server can be had: whoever waits is told.
    pub(super) fn refuse(&self, error: Error) {
        let error = error.on_store(self.config.address.clone());
        let queue = std::mem::take(&mut locked(&self.state).queue);
        for caller in queue.into_iter().filter_map(|write| write.caller) {
            let _ = caller.send(not_sent(error.clone()));
        }
    }
}

/// Whether it makes a node that lasts as long as the session.
fn is_kept(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Create(node) if node != Node::Persistent)
}

impl State {
    /// The driver itself wants something asked.
    fn ask(&mut self, requests: impl IntoIterator<Item = Request>) {
        let requests: Requests = requests.into_iter().collect();
        let Ok(opcodes) = requests.iter().map(Opcode::of).collect() else { return };
        self.queue.push_back(Write { number: 0, requests, opcodes, caller: None });
    }

    fn sinks(&self) -> Vec<Arc<dyn Sink>> {
        self.sinks.iter().filter_map(Weak::upgrade).collect()
    }
}
