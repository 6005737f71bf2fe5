//! What callers want sent, what was sent and has no answer yet, and what is known of the session: all that callers and
//! the [driver](super::driver) share.
//!
//! There is one session, and one connection at a time, on which everything goes out in the order in which it was asked
//! for. A write without an answer can be executed only before whatever is asked after it: the server that has it ends
//! that connection before it lets the session go on, another server has the leader refuse what comes by the first one,
//! and nothing is done for a session that is over. So it is void when it is given up.
//!
//! Names of a directory alone are not asked for in that order but behind it: who asks for what others ask for at the
//! same time is answered with them, from one listing that left after all of them had asked. Where there are very many
//! names, one listing is on its way at a time. Without that, ten thousand who come to one lock would have the server
//! send a hundred million names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use lockwright_machines::stores::zookeeper::layouts::recipe::{BESIDE, GATES, SEMAPHORE, attempt_of};
use smallvec::{SmallVec, smallvec};
use tokio::sync::{Notify, oneshot};

use super::config::Config;
use super::greeting::Session;
use super::layouts::{CHILDREN, WATCH};
use super::session::{Heard, Pace};
use super::wire::{self, HEARTBEAT, Head, News, Node, Opcode, Reader, Watched, code};
use crate::error::{Error, Result};
use crate::platform::clock;
use crate::platform::mutex::locked;
use crate::protocol::{BATCH, Reply, Request, Requests, StoreEvent};
use crate::stores::{Answered, Outcome, Sink, not_sent};
use crate::time::Time;

/// More names than this in a directory are asked for once at a time.
const CROWD: usize = 100;

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
    /// What left and has no answer yet, in the order in which it left.
    sent: VecDeque<Sent>,
    /// Of which writes that was, by their numbers.
    writes: BTreeMap<u64, Partly>,
    /// Directories with very many names.
    crowds: BTreeMap<Arc<str>, Crowd>,
    numbers: u64,
    /// Of the request that left last, on whichever connection.
    xid: i32,
    session: Option<Session>,
    /// What the leader heard of it.
    heard: Heard,
    /// The last transaction that a server told of.
    seen: i64,
    /// What the server is to tell.
    watches: BTreeSet<Watched>,
    /// Nodes that this session keeps.
    own: BTreeSet<Arc<str>>,
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

/// A write some of whose answers are missing.
struct Partly {
    caller: Option<oneshot::Sender<Answered>>,
    sent: Time,
    replies: Vec<Reply>,
    missing: usize,
}

/// Which of the requests of the write with this number.
type Place = (u64, usize);

struct Sent {
    xid: i32,
    at: Time,
    /// As of when the session is proven alive if a majority answers this.
    proves: Time,
    opcode: Opcode,
    path: Arc<str>,
    /// Whom the answer is for.
    places: SmallVec<[Place; 1]>,
}

#[derive(Default)]
struct Crowd {
    is_asked: bool,
    /// Who asked since.
    next: SmallVec<[Place; 1]>,
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
        if !state.is_idle() {
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
        state.is_closed && state.is_idle()
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
        state.heard = Heard::from(sent);
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

    /// Writes all that was asked for into `out`, as if it left now; as of when the session is proven alive, if a
    /// majority answers any of it.
    pub(super) fn send(&self, out: &mut Vec<u8>) -> Option<Time> {
        let mut state = locked(&self.state);
        let now = clock::now();
        let heard = state.heard.by(now, self.pace);
        let timeout = state.session.as_ref().map_or(Duration::ZERO, |session| session.timeout);
        let proves = self.pace.proves(now, heard, timeout);
        let mut is_of_majority = false;
        let mut send = |state: &mut State, opcode, request: &Request, places| {
            let xid = state.next_xid();
            wire::request(out, xid, opcode, request, &self.config.acl);
            state.sent.push_back(Sent { xid, at: now, proves, opcode, path: request.key.clone(), places });
        };
        let mut listings: Vec<(Request, SmallVec<[Place; 1]>)> = Vec::new();
        while let Some(Write { number, requests, opcodes, caller }) = state.queue.pop_front() {
            // A task that was dropped does not want it done: if the session ended meanwhile, nobody expects anything of
            // it in the next one.
            if caller.as_ref().is_some_and(oneshot::Sender::is_closed) {
                continue;
            }
            for (index, (request, opcode)) in requests.iter().zip(opcodes).enumerate() {
                let place = (number, index);
                is_of_majority |= opcode.is_of_majority(0);
                if opcode != LISTING {
                    send(&mut state, opcode, request, smallvec![place]);
                } else if let Some(crowd) = state.crowds.get_mut(&request.key) {
                    crowd.next.push(place);
                } else if let Some((_, places)) = listings.iter_mut().rfind(|(listing, _)| listing.key == request.key) {
                    places.push(place);
                } else {
                    listings.push((request.clone(), smallvec![place]));
                }
            }
            let (replies, missing) = (vec![Reply::Nil; requests.len()], requests.len());
            state.writes.insert(number, Partly { caller, sent: now, replies, missing });
        }
        for (path, crowd) in &mut state.crowds {
            if !crowd.is_asked && !crowd.next.is_empty() {
                crowd.is_asked = true;
                listings.push((Request::new(&CHILDREN, path.clone(), []), std::mem::take(&mut crowd.next)));
            }
        }
        listings.into_iter().for_each(|(request, places)| send(&mut state, LISTING, &request, places));
        is_of_majority.then_some(proves)
    }

    /// The number of a request that is not answered to anybody.
    pub(super) fn next_xid(&self) -> i32 {
        locked(&self.state).next_xid()
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
        locked(&self.state).sent.front().map(|sent| sent.at)
    }

    /// The server answered the next request.
    ///
    /// # Errors
    /// `protocol` where that is no answer to it; `unavailable` where the session cannot go on there.
    pub(super) fn answered(&self, head: Head, from: &mut Reader<'_>) -> Result<()> {
        let mut state = locked(&self.state);
        let session = state.session.as_ref().map_or(0, |session| session.id);
        state.seen = state.seen.max(head.zxid);
        let first = state.sent.pop_front().filter(|sent| sent.xid == head.xid).ok_or_else(wire::garbled)?;
        let Sent { at, proves, opcode, path, places, .. } = first;
        state.heard.answered(at, clock::now(), self.pace);
        let reply = wire::reply(opcode, session, head.error, from)?;
        let made = match &reply {
            Reply::List(parts) => match parts.get(1) {
                Some(Reply::Text(made)) if is_kept(opcode) => Some(Arc::from(made.as_str())),
                _ => None,
            },
            _ => None,
        };
        let is_success = head.error == 0;
        let is_gone = opcode == Opcode::Data { watches: true } && head.error == code::NO_NODE;
        let gone = Some(path.clone()).filter(|path| is_gone && state.own.contains(path));
        match opcode {
            Opcode::Create(_) => state.own.extend(made),
            Opcode::Delete if is_success || head.error == code::NO_NODE => drop(state.own.remove(&path)),
            Opcode::Data { watches: true } if is_success => drop(state.watches.insert(Watched::Node(path))),
            Opcode::Children { watches: true } if is_success => drop(state.watches.insert(Watched::Children(path))),
            LISTING => state.listed(&path, &reply),
            _ => {}
        }
        let whole = state.fill(&places, reply);
        drop(state);
        if let Some(path) = gone {
            self.heard(News::Deleted(path.to_string()));
        }
        if opcode.is_of_majority(head.error) {
            self.lives(proves);
        }
        for Partly { caller, sent, replies, .. } in whole {
            // Whoever asked may be gone.
            let _ = caller.map(|caller| caller.send(Answered { sent, outcome: Outcome::Replies(replies) }));
        }
        match head.error {
            code::SESSION_EXPIRED | code::SESSION_MOVED => Err(self.lost(std::io::ErrorKind::ConnectionReset.into())),
            _ => Ok(()),
        }
    }

    /// The server answered a ping that was sent at `sent`.
    pub(super) fn pinged(&self, sent: Time) {
        locked(&self.state).heard.answered(sent, clock::now(), self.pace);
    }

    /// A majority answered what proves the session alive as of `proven`.
    fn lives(&self, proven: Time) {
        let until = self.pace.lives_until(proven);
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
        // A semaphore's nodes lie one deeper, and a gate's; nobody hears of a lock that is called as their directories
        // are.
        let deeper = SEMAPHORE.iter().chain(&GATES).find_map(|below| dir.strip_suffix(below)?.strip_suffix('/'));
        // kazoo's semaphore has its permits in its own directory, and its line in the one beside it.
        let beside = dir.strip_suffix(BESIDE);
        let of_all = is_of_children.then_some(&*path);
        for (sink, key) in sinks.iter().flat_map(|sink| [Some(dir), deeper, beside, of_all].map(|key| (sink, key))) {
            let Some(key) = key else { continue };
            broken.iter().chain([&event]).for_each(|event| sink.pushed(key, event));
        }
    }

    /// The connection is gone, and with it the answers to what was sent.
    pub(super) fn cut(&self, error: &Error) {
        let mut state = locked(&self.state);
        let sent = std::mem::take(&mut state.sent);
        state.may_own_more |= sent.iter().any(|sent| is_kept(sent.opcode));
        let writes = std::mem::take(&mut state.writes);
        state.crowds.clear();
        drop(state);
        let void_after = clock::now();
        for Partly { caller, sent, .. } in writes.into_values() {
            let outcome = Outcome::Unknown { error: error.clone(), void_after };
            let _ = caller.map(|caller| caller.send(Answered { sent, outcome }));
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

/// What is asked once for all who ask for it at the same time. With a watch, each is to know what it was told before.
const LISTING: Opcode = Opcode::Children { watches: false };

/// Whether it makes a node that lasts as long as the session.
fn is_kept(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Create(node) if node != Node::Persistent)
}

impl State {
    /// The number of the next request. It goes on where the session goes on over another connection: by it and the
    /// session a server tells whose write is committed, and what the leader was asked by another server for the same
    /// session may be so only now (`CommitProcessor`). With the same number it would answer what is asked there.
    fn next_xid(&mut self) -> i32 {
        self.xid = self.xid.checked_add(1).unwrap_or(1);
        self.xid
    }

    /// The driver itself wants something asked.
    fn ask(&mut self, requests: impl IntoIterator<Item = Request>) {
        let requests: Requests = requests.into_iter().collect();
        let Ok(opcodes) = requests.iter().map(Opcode::of).collect() else { return };
        self.numbers += 1;
        self.queue.push_back(Write { number: self.numbers, requests, opcodes, caller: None });
    }

    /// Whether nothing is to be asked, and nothing without an answer. Who waits for a listing waits for one that left.
    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.writes.is_empty()
    }

    /// The directory `path` has these names.
    fn listed(&mut self, path: &Arc<str>, reply: &Reply) {
        let is_crowded = matches!(reply, Reply::List(names) if names.len() > CROWD);
        match self.crowds.get_mut(path) {
            Some(crowd) => {
                crowd.is_asked = false;
                if !is_crowded && crowd.next.is_empty() {
                    self.crowds.remove(path);
                }
            }
            None if is_crowded => drop(self.crowds.insert(path.clone(), Crowd::default())),
            None => {}
        }
    }

    /// Those in these places have their answer; the writes that have all of theirs now.
    fn fill(&mut self, places: &[Place], reply: Reply) -> SmallVec<[Partly; 1]> {
        let reply = if places.len() > 1 { Reply::Shared(Arc::new(reply)) } else { reply };
        let mut whole = SmallVec::new();
        for (number, index) in places {
            let Some(write) = self.writes.get_mut(number) else { continue };
            write.replies[*index] = reply.clone();
            write.missing -= 1;
            if write.missing == 0 {
                whole.extend(self.writes.remove(number));
            }
        }
        whole
    }

    fn sinks(&self) -> Vec<Arc<dyn Sink>> {
        self.sinks.iter().filter_map(Weak::upgrade).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::Jute;
    use super::*;
    use crate::options::ConnectOptions;
    use crate::uri::Uri;

    const CREATE: i32 = 15;
    const LIST: i32 = 8;

    /// A broker, and a server that reads what it sends.
    struct Rig {
        broker: Broker,
    }

    impl Rig {
        fn new() -> Self {
            let config = Config::read(&mut Uri::parse("zookeeper://h", ConnectOptions::default()).unwrap()).unwrap();
            Rig { broker: Broker::new(config) }
        }

        fn asks(&self, calls: &[&'static crate::protocol::Call]) -> Ticket {
            let requests = calls.iter().map(|call| Request::new(call, "/x".into(), [])).collect();
            self.broker.ask(requests).unwrap()
        }

        /// The number of the request that left last.
        fn last(&self) -> i32 {
            locked(&self.broker.state).xid
        }

        /// The kinds of what leaves.
        fn sends(&self) -> Vec<i32> {
            let mut out = Vec::new();
            self.broker.send(&mut out);
            let (mut kinds, mut at) = (Vec::new(), 0);
            while let Some(range) = wire::first_frame(&out[at..]).unwrap() {
                let mut from = Reader(&out[at + range.start..at + range.end]);
                at += range.end;
                from.int().unwrap();
                kinds.push(from.int().unwrap());
            }
            kinds
        }

        /// The server answers the request `xid` with so many names, or with a node.
        fn answers(&self, xid: i32, names: Option<usize>) {
            let mut body = Vec::new();
            match names {
                Some(names) => {
                    body.int(i32::try_from(names).unwrap());
                    (0..names).for_each(|name| body.text(&name.to_string()));
                }
                None => {
                    body.text("/x/made");
                    body.bytes(&[0; 68]);
                }
            }
            self.broker.answered(Head { xid, zxid: 1, error: 0 }, &mut Reader(&body)).unwrap();
        }
    }

    fn names(ticket: &mut Ticket) -> Option<usize> {
        let Ok(Answered { outcome: Outcome::Replies(replies), .. }) = ticket.answer.try_recv() else { return None };
        match replies.last() {
            Some(Reply::Shared(reply)) => match &**reply {
                Reply::List(parts) => Some(parts.len() - 1),
                _ => None,
            },
            Some(Reply::List(parts)) => Some(parts.len() - 1),
            _ => None,
        }
    }

    #[test]
    fn who_asks_for_the_same_names_at_the_same_time_is_answered_from_one_listing() {
        let rig = Rig::new();
        let mut tickets = [(); 3].map(|()| rig.asks(&[&super::super::layouts::CREATE, &CHILDREN]));
        assert_eq!(rig.sends(), [CREATE, CREATE, CREATE, LIST], "what is listed is newer than each");
        (1..4).for_each(|xid| rig.answers(xid, None));
        assert!(tickets.iter_mut().all(|ticket| ticket.answer.try_recv().is_err()));
        rig.answers(4, Some(3));
        assert_eq!(tickets.each_mut().map(names), [Some(3); 3]);
        assert!(locked(&rig.broker.state).is_idle());
    }

    #[test]
    fn what_did_not_leave_before_its_task_was_dropped_never_does() {
        let rig = Rig::new();
        drop(rig.asks(&[&super::super::layouts::CREATE]));
        let _waits = rig.asks(&[&CHILDREN]);
        assert_eq!(rig.sends(), [LIST]);
    }

    #[test]
    fn requests_are_numbered_on_over_the_next_connection_so_that_no_answer_to_one_before_is_taken_for_theirs() {
        let rig = Rig::new();
        let mut written = Vec::new();
        for _ in 0..2 {
            let session = Session { id: 1, password: vec![1], timeout: Duration::from_secs(60) };
            rig.broker.begun(session, clock::now());
            let _asked = rig.asks(&[&super::super::layouts::CREATE]);
            let mut out = Vec::new();
            rig.broker.send(&mut out);
            written.push(Reader(&out[4..]).int().unwrap());
            rig.broker.cut(&rig.broker.lost(std::io::ErrorKind::ConnectionReset.into()));
        }
        assert_eq!(written, [1, 2]);
    }

    #[test]
    fn few_names_are_listed_at_once_and_very_many_once_at_a_time() {
        let rig = Rig::new();
        for (many, then) in [(5, vec![LIST]), (CROWD + 1, vec![]), (5, vec![LIST])] {
            let mut first = rig.asks(&[&CHILDREN]);
            assert_eq!(rig.sends(), [LIST]);
            rig.answers(rig.last(), Some(many));
            assert_eq!(names(&mut first), Some(many));
            let mut listed = rig.asks(&[&CHILDREN]);
            assert_eq!(rig.sends(), [LIST]);
            let mut later = [(); 2].map(|()| rig.asks(&[&CHILDREN]));
            assert_eq!(rig.sends(), then, "behind one of {many} names");
            rig.answers(rig.last() - i32::from(!then.is_empty()), Some(many));
            assert_eq!((names(&mut listed), names(&mut later[0])), (Some(many), None));
            rig.sends();
            rig.answers(rig.last(), Some(2));
            assert_eq!(later.each_mut().map(names), [Some(2); 2]);
            // Nobody has many names in mind any more.
            assert!(locked(&rig.broker.state).is_idle() && locked(&rig.broker.state).crowds.is_empty());
        }
    }

    #[test]
    fn who_waits_for_a_listing_that_did_not_leave_is_told_that_the_connection_is_gone() {
        let rig = Rig::new();
        let _first = rig.asks(&[&CHILDREN]);
        rig.sends();
        rig.answers(1, Some(CROWD + 1));
        let mut tickets = [(); 2].map(|()| {
            let ticket = rig.asks(&[&CHILDREN]);
            rig.sends();
            ticket
        });
        rig.broker.cut(&rig.broker.lost(std::io::ErrorKind::ConnectionReset.into()));
        for ticket in &mut tickets {
            let answered = ticket.answer.try_recv().unwrap();
            assert!(matches!(answered.outcome, Outcome::Unknown { .. }));
        }
        assert!(locked(&rig.broker.state).is_idle());
        let _next = rig.asks(&[&CHILDREN]);
        assert_eq!(rig.sends(), [LIST], "the next connection begins anew");
    }
}
