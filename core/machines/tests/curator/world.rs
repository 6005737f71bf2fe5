//! Everything that can be: clients, each with the shipped machine and a clock of its own, and a server with sessions.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use lockwright_machines::error::{Error, Kind};
use lockwright_machines::lease::ReleaseOutcome;
use lockwright_machines::machine::Event;
use lockwright_machines::options::Retry;
use lockwright_machines::protocol::{Reply, Request};
use lockwright_machines::queue::{Ask, HoldId, Refusal, TaskId};
use lockwright_machines::rank::Rank;
use lockwright_machines::session::{Answer, Inbox, RequestId, Service};
use lockwright_machines::share::Share;
use lockwright_machines::time::Time;
use lockwright_machines::token::Token;

use crate::process::{Call, Effects, Part, Process, Settled};
use crate::server::{Fired, LATE, Server, error, missed, speaks, told};
use crate::setup::{COUNT, Failure, Fault, LIFE, STORE_TIMEOUT, Setup, TICK, TTL, Wish};
use crate::view::{Mix, View};

/// Longer than anything is waited for.
const LONG: u32 = 8;
/// Where all clocks begin: for longer than that nothing was.
const EPOCH: u32 = 100;

/// The most tasks of a client.
const TASKS: usize = 3;

fn task(at: usize) -> TaskId {
    TaskId(at as u64)
}

fn hold(at: usize) -> HoldId {
    task(at).into()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Task {
    Wanting,
    Holding { token: u64 },
    GivingBack,
    Over,
}

/// The requests of one write, and what of their answers has come.
#[derive(Clone, Debug)]
struct Flight {
    slot: u64,
    id: RequestId,
    sent: u32,
    asked: usize,
    replies: Vec<Reply>,
}

#[derive(Clone, Debug)]
struct Pending {
    slot: u64,
    id: RequestId,
    request: Request,
}

#[derive(Clone, Debug)]
enum Heard {
    Reply {
        slot: u64,
        id: RequestId,
        reply: Reply,
    },
    /// A write has no answer, and may be executed until this tick.
    Unknown {
        slot: u64,
        id: RequestId,
        until: u32,
    },
    Gone(Arc<str>),
    /// Events may have been missed.
    Verify,
}

#[derive(Clone, Debug)]
struct Client {
    wish: Wish,
    process: Process,
    /// What its tasks are at; the one that it has not is over.
    tasks: [Task; TASKS],
    /// How often it will want it once more.
    comes_again: u8,
    /// In ticks.
    now: u32,
    /// Until when its session certainly lives, as it was told last; 0 where nothing is known.
    life: u32,
    session: i64,
    /// Whether the server keeps that session.
    is_alive: bool,
    /// Something befell its session, or it was stopped: it may lose what it has, and give up on the store.
    is_hurt: bool,
    flights: Vec<Flight>,
    /// Sent and not executed.
    pending: Vec<Pending>,
    /// Said by the server, and still on its way.
    heard: Vec<Heard>,
    /// Its fingerprint: most moves leave a client as it is.
    known: Cell<Option<u64>>,
}

/// A session whose client took another one: it lives until the server notices, and what it sent may be executed until
/// then.
#[derive(Clone, Debug)]
struct Left {
    session: i64,
    client: usize,
    pending: Vec<Request>,
    /// Only a connection of it was left: the client goes on with that session, and nothing says that what is pending
    /// will not be executed.
    goes_on: bool,
    /// On the client's clock: when nothing of it is executed any more.
    until: u32,
}

#[derive(Clone, Debug)]
pub struct World {
    clients: Vec<Rc<Client>>,
    server: Rc<Server>,
    left: Vec<Left>,
    failure: Failure,
    faults: &'static [Fault],
    /// How much may go wrong yet.
    most_faults: u8,
    /// How often the latch is counted down yet.
    counts: u32,
    sessions: i64,
    /// The highest token of a holder.
    token: u64,
    /// The highest of one who was alone.
    alone: u64,
    /// Whoever waits asks again and again.
    polls: bool,
    /// What was found while a move was made.
    wrong: Option<String>,
}

/// In which order a client hears that its session is over, and what became of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// That they failed comes first.
    Failures,
    /// That the session is over comes first.
    End,
    /// The same, and what the server said before is still on its way.
    EndAndOldNews,
}

const ORDERS: [Order; 3] = [Order::Failures, Order::End, Order::EndAndOldNews];

/// What becomes of watches with the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watches {
    /// The client sets them anew, and hears what they told meanwhile.
    Stay,
    /// They are gone, and the client is told that events may have been missed.
    Go,
}

/// For how long a client is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Timer,
    Long,
}

#[derive(Clone, Copy, Debug)]
pub enum Move {
    Execute(usize),
    Hear(usize),
    /// The answer to the last write is heard before that to an earlier one.
    Overtake(usize),
    /// What a watch tells is heard before answers that came earlier.
    HearOfWatch(usize),
    /// A sign of life is answered.
    Live(usize),
    /// A timer that comes by itself.
    Wake(usize),
    GiveBack(usize, usize),
    /// Whoever had it, or gave up, wants it once more.
    ComeAgain(usize),
    /// Somebody counts the latch down.
    Count,
    Notice(usize, Order),
    ExecuteLate(usize),
    Reap(usize),
    Lose(usize, Watches),
    Expire(usize),
    Leave(usize, Order),
    Stop(usize, Stop),
    Cancel(usize, usize),
    Clear,
}

impl Move {
    /// Whether it comes by itself in the end.
    pub fn is_due(self) -> bool {
        !self.is_fault() && !matches!(self, Move::ExecuteLate(_) | Move::Overtake(_) | Move::HearOfWatch(_))
    }

    fn is_fault(self) -> bool {
        matches!(
            self,
            Move::Lose(..) | Move::Expire(_) | Move::Leave(..) | Move::Stop(..) | Move::Cancel(..) | Move::Clear
        )
    }
}

fn time(tick: u32) -> Time {
    Time::ZERO.after(TICK * tick)
}

impl Heard {
    /// Whether it is of the answer to this write.
    fn answers(&self, write: RequestId) -> bool {
        matches!(self, Heard::Reply { id, .. } | Heard::Unknown { id, .. } if *id == write)
    }
}

impl Client {
    fn watch_told(&self) -> Option<usize> {
        self.heard.iter().position(|heard| matches!(heard, Heard::Gone(_)))
    }

    fn may_overtake(&self) -> bool {
        let [_, .., last] = &self.flights[..] else { return false };
        let said = self.heard.iter().filter(|heard| heard.answers(last.id)).count();
        let is_answered = last.replies.len() + said == last.asked || self.is_given_up(last.id);
        is_answered && !self.heard[0].answers(last.id)
    }

    /// Whether it is about to hear that a write has no answer.
    fn is_given_up(&self, write: RequestId) -> bool {
        self.heard.iter().any(|heard| matches!(heard, Heard::Unknown { id, .. } if *id == write))
    }

    fn due(&self) -> Option<u32> {
        let due = self.process.due()?;
        Some(due.as_nanos().div_ceil(TICK.as_nanos() as u64) as u32)
    }

    /// Whether its next timer comes by itself. What is later than the next tick is a deadline, the end of somebody's
    /// patience, or a waiter's look at what it should have been told: nobody may need that. Only an undo takes its
    /// time.
    fn wakes(&self) -> bool {
        self.due().is_some_and(|due| due <= self.now + 1 || self.has_no_task())
    }

    fn is_over(&self) -> bool {
        self.has_no_task() && self.process.is_idle()
    }

    fn has_no_task(&self) -> bool {
        self.tasks.iter().all(|task| *task == Task::Over)
    }

    fn wants(&self) -> bool {
        self.tasks.contains(&Task::Wanting)
    }

    /// The holds that it believes to have.
    fn beliefs(&self) -> impl Iterator<Item = HoldId> {
        let believes = |hold: &HoldId| self.process.valid_until(*hold).is_some_and(|until| until > time(self.now));
        (0..TASKS).map(hold).filter(believes)
    }

    fn print(&self) -> u64 {
        if let Some(known) = self.known.get() {
            return known;
        }
        let mut state = Mix::new();
        let tick = TICK.as_nanos() as u64;
        let now = time(self.now).as_nanos();
        let horizon = u64::from(STORE_TIMEOUT + TTL);
        let view = View { now, tick, horizon, last: 0, block: 1 << 32, newest: 0 };
        self.process.fingerprint(&view, &mut state);
        (self.tasks, self.comes_again, self.life.saturating_sub(self.now), self.session, self.is_alive, self.is_hurt)
            .hash(&mut state);
        let place = |slot, id| self.process.awaited_by(slot, id);
        (self.flights.len(), self.pending.len()).hash(&mut state);
        for flight in &self.flights {
            (place(flight.slot, flight.id), flight.id.op, flight.asked, &flight.replies).hash(&mut state);
            (self.now - flight.sent).min(horizon as u32).hash(&mut state);
        }
        for Pending { slot, id, request } in &self.pending {
            (place(*slot, *id), id.op, request).hash(&mut state);
        }
        for heard in &self.heard {
            std::mem::discriminant(heard).hash(&mut state);
            match heard {
                Heard::Reply { slot, id, reply } => (place(*slot, *id), id.op, reply).hash(&mut state),
                Heard::Unknown { slot, id, until } => {
                    (place(*slot, *id), id.op, until.saturating_sub(self.now)).hash(&mut state);
                }
                Heard::Gone(path) => path.hash(&mut state),
                Heard::Verify => {}
            }
        }
        self.known.set(Some(state.finish()));
        state.finish()
    }
}

impl World {
    pub fn new(setup: &Setup) -> Self {
        let client = |(id, wish): (usize, &Wish)| {
            let store_timeout = TICK * STORE_TIMEOUT;
            let part = Part {
                id: id as u8,
                salt: 0,
                speaks: speaks(*wish),
                store_timeout,
                shares: wish.share().is_some() || wish.is_of_gate() || wish.is_kazoos(),
            };
            Rc::new(Client {
                wish: *wish,
                process: Process::new(part, Inbox::Closed),
                tasks: [Task::Over; TASKS],
                comes_again: wish.comes_again(),
                now: EPOCH,
                life: 0,
                session: if wish.is_copy() { 1 } else { id as i64 + 1 },
                is_alive: true,
                is_hurt: false,
                flights: Vec::new(),
                pending: Vec::new(),
                heard: Vec::new(),
                known: Cell::new(None),
            })
        };
        let clients: Vec<_> = setup.wishes.iter().enumerate().map(client).collect();
        let sessions = clients.len() as i64;
        let (mut server, left) = (Server::new(), Vec::new());
        if setup.faults.contains(&Fault::Clear) {
            server.may_be_cleared();
        }
        let server = Rc::new(server);
        let Setup { failure, faults, most_faults, polls, .. } = *setup;
        let latches = setup.wishes.iter().any(|wish| wish.is_of_gate() && !wish.meets());
        let counts = if latches { COUNT } else { 0 };
        let mut world = World {
            clients,
            server,
            left,
            failure,
            faults,
            most_faults,
            counts,
            sessions,
            token: 0,
            alone: 0,
            polls,
            wrong: None,
        };
        for (who, wish) in setup.wishes.iter().enumerate() {
            world.live(who);
            (0..wish.tasks()).for_each(|at| world.acquire(who, at));
        }
        world
    }

    fn acquire(&mut self, who: usize, at: usize) {
        let client = self.client(who);
        client.tasks[at] = Task::Wanting;
        let (tries, renew) = (client.wish.tries(), client.wish != Wish::WaitsUnrenewed);
        let retry = Retry { min: TICK, max: TICK };
        let service = Service { ttl: TICK * TTL, renew, max_hold: None, retry };
        let ask = Ask { task: task(at), owner: None, fair: false, rank: Rank::LOWEST, tries, deadline: None, service };
        self.step(who, |process, effects| process.acquire(ask, None, effects));
    }

    fn client(&mut self, who: usize) -> &mut Client {
        let client = Rc::make_mut(&mut self.clients[who]);
        client.known.set(None);
        client
    }

    pub fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        moves.extend((self.counts > 0).then_some(Move::Count));
        moves.extend((self.may(Fault::Clear) && self.server.has_empty_directory()).then_some(Move::Clear));
        for (who, client) in self.clients.iter().enumerate() {
            let mut may = |can: bool, what: Move| moves.extend(can.then_some(what));
            may(client.is_alive && !client.pending.is_empty(), Move::Execute(who));
            may(!client.heard.is_empty(), Move::Hear(who));
            may(client.may_overtake(), Move::Overtake(who));
            may(client.watch_told().is_some_and(|at| at > 0), Move::HearOfWatch(who));
            may(client.is_alive && client.life < client.now + LIFE, Move::Live(who));
            may(client.wakes(), Move::Wake(who));
            for (at, task) in client.tasks.iter().enumerate() {
                may(matches!(task, Task::Holding { .. }), Move::GiveBack(who, at));
                may(*task == Task::Wanting && self.may(Fault::Cancel), Move::Cancel(who, at));
            }
            may(client.comes_again > 0 && client.has_no_task(), Move::ComeAgain(who));
            ORDERS.iter().for_each(|order| may(!client.is_alive, Move::Notice(who, *order)));
            let is_up = client.is_alive && !client.is_over();
            may(is_up && self.may(Fault::Loss), Move::Lose(who, Watches::Stay));
            may(is_up && self.may(Fault::Loss), Move::Lose(who, Watches::Go));
            may(is_up && self.may(Fault::Expiry), Move::Expire(who));
            ORDERS.iter().for_each(|order| may(is_up && self.may(Fault::Leave), Move::Leave(who, *order)));
            may(client.due().is_some() && !client.wakes() && self.may(Fault::Stop), Move::Stop(who, Stop::Timer));
            may(!client.is_over() && self.may(Fault::Stop), Move::Stop(who, Stop::Long));
        }
        for (which, left) in self.left.iter().enumerate() {
            moves.extend((!left.pending.is_empty()).then_some(Move::ExecuteLate(which)));
            moves.extend((!left.goes_on).then_some(Move::Reap(which)));
        }
        moves
    }

    /// What else comes before it, where waiters ask by their timers: they do so for as long as nothing else is done,
    /// and whoever something happened to may have the lock without knowing it.
    pub fn patience(&self, what: Move) -> u8 {
        match what {
            Move::Wake(who) if self.polls => 2 - u8::from(self.clients[who].is_hurt),
            _ => 0,
        }
    }

    fn may(&self, fault: Fault) -> bool {
        self.most_faults > 0 && self.faults.contains(&fault)
    }

    pub fn go(&mut self, what: Move) {
        self.most_faults -= u8::from(what.is_fault());
        match what {
            // What changes and tells nothing makes no difference by when it is done.
            Move::Execute(who) => loop {
                let client = self.client(who);
                let (session, Pending { slot, id, request }) = (client.session, client.pending.remove(0));
                let reply = self.execute(who, session, &request);
                let client = self.client(who);
                client.heard.push(Heard::Reply { slot, id, reply });
                if request.call.name != "sync" || client.pending.is_empty() {
                    break;
                }
            },
            Move::Hear(who) => while !self.clients[who].heard.is_empty() && !self.hear(who) {},
            Move::HearOfWatch(who) => {
                let client = self.client(who);
                let at = client.watch_told().expect("a watch was fired");
                client.heard[..=at].rotate_right(1);
                self.hear(who);
            }
            Move::Overtake(who) => {
                let client = self.client(who);
                let last = client.flights.last().expect("it was asked").id;
                let (ahead, behind) = client.heard.drain(..).partition(|heard| heard.answers(last));
                client.heard = ahead;
                while !self.clients[who].heard.is_empty() {
                    self.hear(who);
                }
                self.client(who).heard = behind;
            }
            Move::Live(who) => self.live(who),
            Move::Wake(who) => {
                let client = self.client(who);
                let due = client.due().expect("a timer");
                // Whoever is not stopped is not silent for a whole tick.
                let lives = due > client.now && client.is_alive;
                self.advance(who, due);
                if lives {
                    self.live(who);
                }
                self.step(who, |process, effects| process.handle(Event::Tick, effects));
            }
            Move::Count => {
                self.counts -= 1;
                let fired = Rc::make_mut(&mut self.server).count_down();
                self.tell(fired);
            }
            Move::GiveBack(who, at) => {
                let client = self.client(who);
                let Task::Holding { token } = client.tasks[at] else { unreachable!("it holds") };
                client.tasks[at] = Task::GivingBack;
                let (token, waiter) = (Some(Token::new(token)), Call::Release(task(at)));
                self.step(who, |process, effects| {
                    process.handle(Event::Release { hold: hold(at), token, waiter }, effects);
                });
            }
            Move::ComeAgain(who) => {
                self.client(who).comes_again -= 1;
                self.acquire(who, 0);
            }
            Move::Notice(who, order) => self.take_another_session(who, order, "SessionExpired"),
            Move::Leave(who, order) => {
                let client = self.client(who);
                client.is_hurt = true;
                let pending = client.pending.iter().map(|pending| pending.request.clone()).collect();
                let (session, until) = (client.session, client.now.max(client.life));
                self.left.push(Left { session, client: who, pending, goes_on: false, until });
                self.take_another_session(who, order, "ConnectionLoss");
            }
            Move::ExecuteLate(which) => {
                let Left { session, client, .. } = self.left[which];
                let request = self.left[which].pending.remove(0);
                // Nobody would be told.
                if request.call.name != "watch" {
                    self.execute(client, session, &request);
                }
                self.left.retain(|left| !left.goes_on || !left.pending.is_empty());
            }
            Move::Reap(which) => {
                let Left { session, .. } = self.left.remove(which);
                self.end(session);
            }
            Move::Lose(who, watches) => {
                if LATE {
                    let client = &self.clients[who];
                    let pending: Vec<_> = client.pending.iter().map(|pending| pending.request.clone()).collect();
                    let session = client.session;
                    self.left.push(Left { session, client: who, pending, goes_on: true, until: 0 });
                    self.left.retain(|left| !left.goes_on || !left.pending.is_empty());
                }
                let client = self.client(who);
                let told = match watches {
                    Watches::Stay => {
                        client.heard.extract_if(.., |heard| matches!(heard, Heard::Gone(_) | Heard::Verify)).collect()
                    }
                    Watches::Go => vec![Heard::Verify],
                };
                let now = client.now;
                if watches == Watches::Go {
                    Rc::make_mut(&mut self.server).disconnect(who);
                }
                self.cut(who, false, "ConnectionLoss", now);
                self.client(who).heard.extend(told);
            }
            Move::Expire(who) => {
                let client = self.client(who);
                (client.is_alive, client.is_hurt) = (false, true);
                let (session, life) = (client.session, client.life);
                // The server keeps it for at least as long as it let its client know.
                self.advance(who, life);
                Rc::make_mut(&mut self.server).disconnect(who);
                self.end(session);
            }
            Move::Stop(who, stop) => {
                let client = self.client(who);
                client.is_hurt = true;
                let until = match stop {
                    Stop::Timer => client.due().expect("a timer"),
                    Stop::Long => client.now + LONG,
                };
                self.advance(who, until);
            }
            Move::Clear => Rc::make_mut(&mut self.server).clear(),
            Move::Cancel(who, at) => {
                self.client(who).tasks[at] = Task::Over;
                self.step(who, |process, effects| {
                    process.handle(Event::Cancel { task: task(at), granted: None }, effects);
                });
            }
        }
    }

    fn advance(&mut self, who: usize, until: u32) {
        let client = self.client(who);
        client.now = client.now.max(until);
        let now = client.now;
        let over = self.left.iter_mut().filter(|left| left.client == who && !left.goes_on && left.until <= now);
        over.for_each(|left| left.pending.clear());
    }

    fn live(&mut self, who: usize) {
        let client = self.client(who);
        client.life = client.now + LIFE;
        let until = Some(time(client.life));
        self.step(who, |process, effects| process.lives(until, effects));
    }

    fn take_another_session(&mut self, who: usize, order: Order, why: &str) {
        self.sessions += 1;
        let session = self.sessions;
        let client = self.client(who);
        let until = client.now.max(client.life);
        (client.session, client.is_alive, client.life) = (session, true, 0);
        Rc::make_mut(&mut self.server).disconnect(who);
        self.cut(who, order == Order::EndAndOldNews, why, until);
        if order == Order::Failures {
            while !self.clients[who].heard.is_empty() {
                self.hear(who);
            }
        }
        self.step(who, |process, effects| process.lives(None, effects));
    }

    /// What was asked and is not executed has no answer, and is not executed from `until` on; what was said is lost,
    /// unless it `arrives`.
    fn cut(&mut self, who: usize, arrives: bool, why: &str, until: u32) {
        let failure = self.failure;
        let client = self.client(who);
        client.pending.clear();
        if !arrives {
            client.heard.clear();
        }
        let mut failures = Vec::new();
        for Flight { slot, id, asked, replies, .. } in &client.flights {
            let said = replies.len() + client.heard.iter().filter(|heard| heard.answers(*id)).count();
            let (slot, id) = (*slot, *id);
            match failure {
                Failure::Said => {
                    failures.extend((said..*asked).map(|_| Heard::Reply { slot, id, reply: error(why) }));
                }
                Failure::Unknown if client.is_given_up(id) => {}
                Failure::Unknown => failures.extend((said < *asked).then_some(Heard::Unknown { slot, id, until })),
            }
        }
        client.heard.extend(failures);
    }

    /// Takes the next of what the server said; whether the machine was told something.
    fn hear(&mut self, who: usize) -> bool {
        let client = self.client(who);
        match client.heard.remove(0) {
            Heard::Gone(path) => {
                let event = told(path);
                self.step(who, |process, effects| process.handle(Event::Pushed(&event), effects));
            }
            Heard::Verify => match missed() {
                Some(event) => self.step(who, |process, effects| process.handle(Event::Pushed(&event), effects)),
                None => self.step(who, |process, effects| process.handle(Event::Verify, effects)),
            },
            Heard::Unknown { slot, id, until } => {
                client.flights.retain(|flight| flight.id != id);
                let error = Error::new(Kind::Unavailable, "test", "the connection is lost");
                let (sent, answer) = (time(client.now), Answer::Unknown { error, void_after: time(until) });
                self.step(who, |process, effects| {
                    process.handle(Event::Answered { slot, id, sent, answer }, effects);
                });
            }
            Heard::Reply { slot, id, reply } => {
                let flights = &mut client.flights;
                let at = flights.iter().position(|flight| flight.id == id).expect("it was asked");
                flights[at].replies.push(reply);
                if flights[at].replies.len() < flights[at].asked {
                    return false;
                }
                let Flight { sent, replies, .. } = flights.remove(at);
                let (sent, answer) = (time(sent), Answer::Replies(&replies));
                self.step(who, |process, effects| {
                    process.handle(Event::Answered { slot, id, sent, answer }, effects);
                });
            }
        }
        true
    }

    fn execute(&mut self, who: usize, session: i64, request: &Request) -> Reply {
        let (reply, fired) = Rc::make_mut(&mut self.server).execute(who, session, request);
        self.tell(fired);
        reply
    }

    fn end(&mut self, session: i64) {
        let fired = Rc::make_mut(&mut self.server).end(session);
        self.tell(fired);
    }

    fn tell(&mut self, fired: Vec<Fired>) {
        fired.into_iter().for_each(|(who, path)| self.client(who).heard.push(Heard::Gone(path)));
    }

    /// Tells a client's machine something, and does what it wants.
    fn step(&mut self, who: usize, told: impl FnOnce(&mut Process, &mut Effects)) {
        let server = self.server.clone();
        let client = self.client(who);
        let mut effects = Effects::at(time(client.now));
        told(&mut client.process, &mut effects);
        let (sent, session) = (client.now, client.session);
        for send in effects.sends {
            let (slot, id) = (send.slot, send.id);
            client.flights.push(Flight { slot, id, sent, asked: send.requests.len(), replies: Vec::new() });
            let stamped = send.requests.into_iter().map(|request| server.stamped(session, request));
            client.pending.extend(stamped.map(|request| Pending { slot, id, request }));
        }
        let lost = !effects.lost.is_empty();
        for (call, settled) in effects.settled {
            self.settled(who, call, settled);
        }
        if lost {
            self.lost(who);
        }
    }

    fn settled(&mut self, who: usize, call: Call, settled: Settled) {
        let wish = self.clients[who].wish;
        let share = wish.share();
        // Of those who hold together, a later one may know it earlier.
        let highest = match share {
            None if wish.is_of_gate() => 0,
            None | Some(Share::WRITE) => self.token,
            Some(Share::READ) => self.alone,
            Some(_) => 0,
        };
        let client = self.client(who);
        let (Call::Acquire(TaskId(of)) | Call::Release(TaskId(of))) = call else {
            self.wrong = Some(format!("nobody asked, and hears {settled:?}"));
            return;
        };
        let at = of as usize;
        let wrong = match (client.tasks[at], call, settled) {
            (Task::Wanting, Call::Acquire(_), Settled::Granted { .. }) => {
                let token = client.process.shown(hold(at)).unwrap_or(0);
                client.tasks[at] = Task::Holding { token };
                let is_over = !client.beliefs().any(|held| held == hold(at));
                self.token = self.token.max(token);
                if matches!(share, None | Some(Share::WRITE)) {
                    self.alone = token;
                }
                match () {
                    () if token <= highest => Some(format!("token {token} after {highest}")),
                    () => is_over.then(|| "what it is granted is over".to_owned()),
                }
            }
            (Task::Wanting, Call::Acquire(_), Settled::Refused(why)) => {
                client.tasks[at] = Task::Over;
                let may = matches!(why, Refusal::Taken) || client.is_hurt;
                (!may).then(|| format!("it is refused, and nothing befell it: {why:?}"))
            }
            (Task::GivingBack, Call::Release(_), Settled::Released(outcome)) => {
                client.tasks[at] = Task::Over;
                let may = matches!(outcome, ReleaseOutcome::Released | ReleaseOutcome::Unknown) || client.is_hurt;
                (!may).then(|| format!("what it gave back was not its own, and nothing befell it: {outcome:?}"))
            }
            (task, call, settled) => Some(format!("{task:?} hears {settled:?} to {call:?}")),
        };
        self.wrong = self.wrong.take().or(wrong);
    }

    fn lost(&mut self, who: usize) {
        let client = self.client(who);
        let is_hurt = client.is_hurt;
        let wrong = match client.tasks.iter_mut().find(|task| matches!(task, Task::Holding { .. })) {
            Some(holder) => {
                *holder = Task::Over;
                (!is_hurt).then(|| "it is lost, and nothing befell it".to_owned())
            }
            None => Some("it is lost, and nobody had it".to_owned()),
        };
        self.wrong = self.wrong.take().or(wrong);
    }

    /// What is wrong here, if something is.
    pub fn check(&self) -> Result<(), String> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        for holder in &self.clients {
            holder.beliefs().try_for_each(|hold| self.check_belief(holder, hold))?;
        }
        let waits = |client: &Rc<Client>| client.wants() && client.flights.is_empty() && !client.wakes();
        if self.clients.iter().any(|client| client.wish.tries() && waits(client)) {
            return Err("it only tries, and waits".to_owned());
        }
        let is_quiet = !self.moves().into_iter().any(Move::is_due);
        let is_over = self.clients.iter().all(|client| client.is_over());
        // Whoever is left alone at a barrier waits on.
        let mut left = self.clients.iter().filter(|client| !client.is_over());
        if let (Some(last), None, true) = (left.next(), left.next(), is_quiet)
            && matches!(last.wish, Wish::Meets | Wish::MeetsTwice)
            && last.wants()
            && self.server.stands() == 1
        {
            return Ok(());
        }
        match () {
            () if is_quiet && !is_over => Err("it stands still".to_owned()),
            () if is_quiet && !self.server.is_empty() => Err("something is left".to_owned()),
            () => Ok(()),
        }
    }

    fn check_belief(&self, holder: &Client, hold: HoldId) -> Result<(), String> {
        let token = holder.process.shown(hold).unwrap_or(0);
        if holder.wish.is_of_gate() {
            return match if holder.wish.meets() { self.server.passed(token) } else { self.server.is_open() } {
                true => Ok(()),
                false => Err(format!("it believes to have passed as {token}, and there is {:?}", self.server)),
            };
        }
        if holder.process.valid_until(hold) > Some(time(holder.life)) {
            return Err("it believes to hold it for longer than its session is known to live".to_owned());
        }
        // Of those whom the server has for holders no two are in each other's way.
        match self.server.holds(holder.session, token as i64) {
            true => Ok(()),
            false => Err(format!("it believes to hold it under {token}, and there is {:?}", self.server)),
        }
    }

    pub fn fingerprint(&self) -> u64 {
        let mut state = Mix::new();
        self.clients.iter().for_each(|client| client.print().hash(&mut state));
        (&*self.server, self.most_faults, self.counts, self.sessions, self.token, self.alone, self.left.len())
            .hash(&mut state);
        self.wrong.is_some().hash(&mut state);
        for left in &self.left {
            let ahead = left.until.saturating_sub(self.clients[left.client].now);
            (left.session, left.client, &left.pending, left.goes_on, ahead).hash(&mut state);
        }
        state.finish()
    }

    /// What a move does, in words.
    pub fn explain(&self, what: Move) -> String {
        let request = match what {
            Move::Execute(who) => self.clients[who].pending.first().map(|pending| pending.request.to_string()),
            Move::ExecuteLate(which) => self.left[which].pending.first().map(Request::to_string),
            Move::Hear(who) => self.clients[who].heard.first().map(|heard| format!("{heard:?}")),
            _ => None,
        };
        format!("{what:?} {}", request.unwrap_or_default())
    }
}
