//! Everything that can be: clients, a store, and what travels between them.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::time::Duration;

use lockwright::cell::{Cell, Claimant, Surroundings};
use lockwright::error::{Error, Kind};
use lockwright::native::Procedure;
use lockwright::options::Retry;
use lockwright::protocol::{Arg, AttemptId, InboxId, Op, Reply, Requests, StoreEvent};
use lockwright::queue::{Ask, TaskId};
use lockwright::session::{Answer, Inbox, RequestId, Service};
use lockwright::time::{Relative, StoreTime, Time};

use crate::glue::{Input, Out, Process, process_of};
use crate::line::Queued;

/// What may go wrong once on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Nothing, or nothing yet.
    None,
    /// A request never leaves: the client knows.
    Refused,
    /// A connection breaks and its request is lost.
    Lost,
    /// A connection breaks and its request runs later.
    Ghost,
    /// A connection breaks after its request ran.
    ReplyLost,
    /// All connections of a client break at once; what was sent on them may run later.
    Reset,
    /// A request arrives twice.
    Duplicate,
    /// A client dies, and the store notices.
    Crash,
    /// A client dies, and its inbox still counts as alive.
    HalfOpen,
    /// An inbox' connection breaks, with the pushes on it, and is made anew.
    Blip,
    /// One push is lost.
    PushLost,
}

pub const CLASSES: [Class; 11] = [
    Class::None,
    Class::Refused,
    Class::Lost,
    Class::Ghost,
    Class::ReplyLost,
    Class::Reset,
    Class::Duplicate,
    Class::Crash,
    Class::HalfOpen,
    Class::Blip,
    Class::PushLost,
];

/// What one task wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    pub fair: bool,
    /// Whether it may give up while it waits.
    pub may_cancel: bool,
    /// Whether it wants the lock from the start; else it may come at any time.
    pub early: bool,
    /// Its ttl, when it is not everybody's.
    pub ttl: Option<u32>,
}

/// A space to explore. Durations are in ticks.
#[derive(Clone, Debug)]
pub struct Setup {
    pub name: &'static str,
    pub tick: Duration,
    pub ttl: u32,
    pub renew: bool,
    /// After how long a request that has not arrived is refused.
    pub response_timeout: u32,
    pub store_timeout: u32,
    /// How many answers that nobody awaits any more may be under way; others disappear.
    pub stale: usize,
    /// The tasks of each client.
    pub clients: Vec<Vec<Wish>>,
    /// Whether the inboxes are still closed.
    pub cold: bool,
    /// How far behind the store's clock the clients believe it to be.
    pub behind: u32,
    pub faults: Vec<Class>,
}

impl Setup {
    /// Ages above this behave alike: what is as old as the longest lease is over.
    fn horizon(&self) -> u64 {
        let longest = self.clients.iter().flatten().filter_map(|wish| wish.ttl).max().unwrap_or(0).max(self.ttl);
        longest.into()
    }

    fn is_symmetric(&self) -> bool {
        self.clients.windows(2).all(|pair| pair[0] == pair[1])
    }

    fn service(&self, wish: &Wish) -> Service {
        Service {
            ttl: self.tick * wish.ttl.unwrap_or(self.ttl),
            renew: self.renew,
            max_hold: None,
            retry: Retry::DEFAULT,
        }
    }

    fn time(&self, tick: u32) -> Time {
        Time::ZERO.after(self.tick * (EPOCH + tick))
    }

    fn store_time(&self, tick: u32) -> StoreTime {
        StoreTime::default().after(self.tick * (EPOCH + tick))
    }
}

/// What is more ticks ahead than this is not met any more.
const NEVER: u64 = 8;

/// The tick that every run starts at: nothing reaches back before the start of the clock.
const EPOCH: u32 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    Fresh,
    Waiting,
    Holding {
        token: u64,
        until: Time,
    },
    /// Told that it lost the lock, but still inside its critical section.
    Mourning {
        token: u64,
    },
    Releasing {
        token: u64,
    },
    Done,
}

/// What travels on an inbox' connection.
#[derive(Clone, Debug)]
enum Wire {
    Live,
    Closed,
    Push(StoreEvent),
}

#[derive(Clone, Debug)]
pub struct Client {
    process: Process,
    pub tasks: Vec<Task>,
    stream: VecDeque<Wire>,
    opening: bool,
    behind: u32,
    dead: bool,
    /// Its fingerprint under either name, and what that was taken relative to: most steps leave a client as it is.
    known: [Known; 2],
}

type Known = std::cell::Cell<Option<(u64, u64, u64)>>;

#[derive(Clone, Debug)]
struct Store {
    cell: Cell,
    line: Queued,
    alive: Vec<bool>,
    /// The highest token that any task was given.
    top: u64,
}

#[derive(Clone, Debug)]
struct Message {
    client: usize,
    slot: usize,
    id: RequestId,
    sent: u32,
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    Request {
        procedure: Procedure,
        ghost: bool,
        wanted: bool,
    },
    Reply(Reply),
    /// The client learns that the connection broke.
    Broken {
        void_after: u32,
    },
    /// The client learns that its request never left.
    Refused,
    Subscribe,
}

/// One thing that can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Start { client: usize, task: usize },
    Release { client: usize, task: usize },
    Cancel { client: usize, task: usize },
    Timer { client: usize },
    Deliver { message: usize },
    Hear { client: usize },
    Pass,
    Lose { message: usize },
    Refuse { message: usize },
    Haunt { message: usize },
    Unanswer { message: usize },
    Duplicate { message: usize },
    Reset { client: usize },
    Crash { client: usize, half_open: bool },
    Blip { client: usize },
    LosePush { client: usize, at: usize },
}

impl Step {
    fn class(self) -> Class {
        match self {
            Step::Refuse { .. } => Class::Refused,
            Step::Lose { .. } => Class::Lost,
            Step::Haunt { .. } => Class::Ghost,
            Step::Unanswer { .. } => Class::ReplyLost,
            Step::Reset { .. } => Class::Reset,
            Step::Duplicate { .. } => Class::Duplicate,
            Step::Crash { half_open: false, .. } => Class::Crash,
            Step::Crash { half_open: true, .. } => Class::HalfOpen,
            Step::Blip { .. } => Class::Blip,
            Step::LosePush { .. } => Class::PushLost,
            _ => Class::None,
        }
    }

    /// Whether a run in which nothing goes wrong and nobody gives up may take it while something else than time moves.
    pub fn is_progress(self) -> bool {
        self.class() == Class::None && !matches!(self, Step::Pass | Step::Cancel { .. })
    }
}

#[derive(Clone, Debug)]
pub struct World {
    pub now: u32,
    store: Rc<Store>,
    pub clients: Vec<Rc<Client>>,
    net: Vec<Rc<Message>>,
    pub fault: Class,
}

type Checked<T> = Result<T, String>;

impl World {
    pub fn new(setup: &Setup) -> Self {
        let inbox = if setup.cold { Inbox::Closed } else { Inbox::Live };
        let client = |(id, tasks): (usize, &Vec<Wish>)| Client {
            process: Process::new(id as u8, 0, setup.tick * setup.store_timeout, lockwright::cell::BLOCK, inbox),
            tasks: vec![Task::Fresh; tasks.len()],
            stream: VecDeque::new(),
            opening: false,
            behind: setup.behind,
            dead: false,
            known: Default::default(),
        };
        let store = Store {
            cell: Cell::default(),
            line: Queued::default(),
            alive: vec![!setup.cold; setup.clients.len()],
            top: 0,
        };
        let mut world = World {
            now: 0,
            store: Rc::new(store),
            clients: setup.clients.iter().enumerate().map(client).map(Rc::new).collect(),
            net: Vec::new(),
            fault: Class::None,
        };
        for (client, tasks) in setup.clients.iter().enumerate() {
            for (task, _) in tasks.iter().enumerate().filter(|(_, wish)| wish.early) {
                world.take(setup, Step::Start { client, task }).expect("nothing is checked before anything was sent");
            }
        }
        world
    }

    /// Everything that can happen next; what happens anyway comes first.
    pub fn steps(&self, setup: &Setup, steps: &mut Vec<Step>) {
        let now = setup.time(self.now);
        for (c, client) in self.clients.iter().enumerate().filter(|(_, client)| !client.dead) {
            for (t, task) in client.tasks.iter().enumerate() {
                match task {
                    Task::Fresh => steps.push(Step::Start { client: c, task: t }),
                    Task::Holding { .. } | Task::Mourning { .. } => steps.push(Step::Release { client: c, task: t }),
                    _ => {}
                }
            }
            if client.process.due().is_some_and(|at| at <= now) {
                steps.push(Step::Timer { client: c });
            }
            if !client.stream.is_empty() {
                steps.push(Step::Hear { client: c });
            }
        }
        steps.extend((0..self.net.len()).map(|message| Step::Deliver { message }));
        // What takes longer on the way to the store than anybody waits for an answer is a broken connection.
        let overdue = |m: &Rc<Message>| matches!(m.body, Body::Request { ghost: false, .. } if self.now > m.sent + setup.response_timeout);
        if !self.net.iter().any(overdue) {
            steps.push(Step::Pass);
        }
        for (c, client) in self.clients.iter().enumerate().filter(|(_, client)| !client.dead) {
            for (t, task) in client.tasks.iter().enumerate() {
                if matches!(task, Task::Waiting) && setup.clients[c][t].may_cancel {
                    steps.push(Step::Cancel { client: c, task: t });
                }
            }
        }
        if self.fault == Class::None {
            let first = steps.len();
            self.faults(steps);
            let mut kept = first;
            for i in first..steps.len() {
                if setup.faults.contains(&steps[i].class()) {
                    steps.swap(kept, i);
                    kept += 1;
                }
            }
            steps.truncate(kept);
        }
    }

    fn faults(&self, steps: &mut Vec<Step>) {
        for (i, message) in self.net.iter().enumerate() {
            match message.body {
                Body::Request { ghost: false, .. } => steps.extend([
                    Step::Lose { message: i },
                    Step::Refuse { message: i },
                    Step::Haunt { message: i },
                    Step::Duplicate { message: i },
                ]),
                Body::Reply(_) => steps.push(Step::Unanswer { message: i }),
                _ => {}
            }
        }
        for (c, client) in self.clients.iter().enumerate() {
            if client.tasks.iter().all(|task| matches!(task, Task::Done | Task::Fresh)) && client.process.is_idle() {
                continue;
            }
            steps.push(Step::Crash { client: c, half_open: false });
            steps.push(Step::Crash { client: c, half_open: true });
            if self.store.alive[c] {
                steps.push(Step::Blip { client: c });
            }
            if self.net.iter().filter(|message| message.client == c && breaks(&message.body)).count() > 1 {
                steps.push(Step::Reset { client: c });
            }
            let pushes = client.stream.iter().enumerate().filter(|(_, wire)| matches!(wire, Wire::Push(_)));
            steps.extend(pushes.map(|(at, _)| Step::LosePush { client: c, at }));
        }
    }

    /// What the world looks like after `step`, or what must never happen and did.
    pub fn after(&self, setup: &Setup, step: Step) -> Checked<World> {
        let mut world = self.clone();
        world.take(setup, step)?;
        world.forget_stale(setup.stale);
        world.check_beliefs(setup)?;
        Ok(world)
    }

    /// Drops the answers that nobody will ever take, but for a few.
    fn forget_stale(&mut self, mut kept: usize) {
        let clients = &self.clients;
        self.net.retain_mut(|message| {
            let awaited = clients[message.client].process.awaits(message.slot, message.id);
            if awaited || matches!(message.body, Body::Subscribe | Body::Request { wanted: false, .. }) {
                return true;
            }
            let keep = kept > 0;
            kept = kept.saturating_sub(1);
            match &mut Rc::make_mut(message).body {
                Body::Request { wanted, .. } => {
                    *wanted = keep;
                    true
                }
                _ => keep,
            }
        });
    }

    fn take(&mut self, setup: &Setup, step: Step) -> Checked<()> {
        if step.class() != Class::None {
            self.fault = step.class();
        }
        match step {
            Step::Start { client, task } => {
                self.client(client).tasks[task] = Task::Waiting;
                let ask = Ask {
                    task: TaskId(task as u64),
                    owner: None,
                    fair: setup.clients[client][task].fair,
                    tries: false,
                    deadline: None,
                    service: setup.service(&setup.clients[client][task]),
                };
                self.feed(setup, client, Input::Acquire(ask))
            }
            Step::Release { client, task } => {
                let (Task::Holding { token, .. } | Task::Mourning { token }) = self.clients[client].tasks[task] else {
                    return Err("released what was not held".into());
                };
                self.client(client).tasks[task] = Task::Releasing { token };
                self.feed(setup, client, Input::Release { token })
            }
            Step::Cancel { client, task } => {
                self.client(client).tasks[task] = Task::Done;
                self.feed(setup, client, Input::Cancel(TaskId(task as u64)))
            }
            Step::Timer { client } => self.feed(setup, client, Input::Tick),
            Step::Pass => {
                self.now += 1;
                Ok(())
            }
            Step::Deliver { message } => {
                let message = self.net.swap_remove(message);
                self.deliver(setup, &message)
            }
            Step::Hear { client } => self.hear(setup, client),
            Step::Lose { message } | Step::Unanswer { message } => {
                let message = self.net.swap_remove(message);
                self.breaks(setup, &message);
                Ok(())
            }
            Step::Refuse { message } => {
                let message = self.net.swap_remove(message);
                self.net.push(Rc::new(Message { body: Body::Refused, ..(*message).clone() }));
                Ok(())
            }
            Step::Haunt { message } => {
                let message = self.net.swap_remove(message);
                self.haunt(&message);
                self.breaks(setup, &message);
                Ok(())
            }
            Step::Duplicate { message } => {
                let message = self.net[message].clone();
                self.haunt(&message);
                Ok(())
            }
            Step::Reset { client } => {
                let (broken, kept) =
                    std::mem::take(&mut self.net).into_iter().partition(|m| m.client == client && breaks(&m.body));
                self.net = kept;
                for message in broken {
                    self.haunt(&message);
                    self.breaks(setup, &message);
                }
                Ok(())
            }
            Step::Crash { client, half_open } => {
                self.crash(setup, client, half_open);
                Ok(())
            }
            Step::Blip { client } => {
                Rc::make_mut(&mut self.store).alive[client] = false;
                self.client(client).stream = VecDeque::from([Wire::Closed]);
                Ok(())
            }
            Step::LosePush { client, at } => {
                self.client(client).stream.remove(at);
                Ok(())
            }
        }
    }

    fn client(&mut self, client: usize) -> &mut Client {
        let client = Rc::make_mut(&mut self.clients[client]);
        client.known = Default::default();
        client
    }

    fn haunt(&mut self, message: &Message) {
        if let Body::Request { procedure, .. } = &message.body {
            let body = Body::Request { procedure: procedure.clone(), ghost: true, wanted: false };
            self.net.push(Rc::new(Message { body, ..*message }));
        }
    }

    fn breaks(&mut self, setup: &Setup, message: &Message) {
        // Clocks that may drift apart need a moment more: in ticks, one.
        let void_after = message.sent + setup.response_timeout + 1;
        self.net.push(Rc::new(Message { body: Body::Broken { void_after }, ..*message }));
    }

    fn crash(&mut self, setup: &Setup, client: usize, half_open: bool) {
        for message in std::mem::take(&mut self.net) {
            match message.body {
                _ if message.client != client => self.net.push(message),
                Body::Request { ghost: true, .. } => self.net.push(message),
                _ => self.haunt(&message),
            }
        }
        if !half_open {
            Rc::make_mut(&mut self.store).alive[client] = false;
        }
        let grave = Process::new(client as u8, 0, setup.tick, 1, Inbox::Closed);
        *self.client(client) = Client {
            process: grave,
            tasks: Vec::new(),
            stream: VecDeque::new(),
            opening: false,
            behind: 0,
            dead: true,
            known: Default::default(),
        };
    }

    fn deliver(&mut self, setup: &Setup, message: &Message) -> Checked<()> {
        let Message { client, slot, id, sent, .. } = *message;
        let sent_at = setup.time(sent);
        match &message.body {
            Body::Request { procedure, wanted, .. } => {
                let reply = self.execute(setup, procedure.clone())?;
                if *wanted {
                    self.net.push(Rc::new(Message { body: Body::Reply(reply), ..*message }));
                }
                Ok(())
            }
            Body::Reply(reply) => {
                let answer = Answer::Replies(std::slice::from_ref(reply));
                self.feed(setup, client, Input::Reply { slot, id, sent: sent_at, answer })
            }
            Body::Broken { void_after } => {
                let error = Error::new(Kind::Unavailable, "test", "the connection broke");
                let answer = Answer::Unknown { error, void_after: setup.time(*void_after) };
                self.feed(setup, client, Input::Reply { slot, id, sent: sent_at, answer })
            }
            Body::Refused => {
                let answer = Answer::NotSent(Error::new(Kind::Unavailable, "test", "no connection"));
                self.feed(setup, client, Input::Reply { slot, id, sent: sent_at, answer })
            }
            Body::Subscribe => {
                Rc::make_mut(&mut self.store).alive[client] = true;
                self.client(client).stream.push_back(Wire::Live);
                Ok(())
            }
        }
    }

    fn hear(&mut self, setup: &Setup, client: usize) -> Checked<()> {
        match self.client(client).stream.pop_front() {
            Some(Wire::Push(event)) => self.feed(setup, client, Input::Push(&event)),
            Some(Wire::Live) => {
                self.client(client).opening = false;
                self.feed(setup, client, Input::Inbox(Inbox::Live))
            }
            Some(Wire::Closed) => {
                self.feed(setup, client, Input::Inbox(Inbox::Closed))?;
                self.subscribe(client);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn subscribe(&mut self, client: usize) {
        if !std::mem::replace(&mut self.client(client).opening, true) {
            let id = RequestId { attempt: AttemptId(0), op: Op::Acquire, seq: 0 };
            self.net.push(Rc::new(Message { client, slot: 0, id, sent: self.now, body: Body::Subscribe }));
        }
    }

    fn feed(&mut self, setup: &Setup, client: usize, input: Input<'_>) -> Checked<()> {
        let now = setup.time(self.now);
        let mut out = Vec::new();
        self.client(client).process.handle(now, input, &mut out);
        for out in out {
            self.perform(setup, client, out)?;
        }
        let node = self.client(client);
        for task in &mut node.tasks {
            if let Task::Holding { token, until } = task
                && let Some(valid) = node.process.valid_until(*token)
            {
                *until = valid;
            }
        }
        Ok(())
    }

    fn perform(&mut self, setup: &Setup, client: usize, out: Out) -> Checked<()> {
        let who = name_of_client(client);
        match out {
            Out::Send { slot, id, requests } => self.send(setup, client, slot, id, &requests)?,
            Out::OpenInbox => self.subscribe(client),
            Out::Learn { at, .. } => {
                // The store's clock stood at `at` or later: never believe it to be further than it is.
                let age = setup.store_time(self.now).micros_since(at);
                let behind = (age / setup.tick.as_micros() as i64) as u32;
                let node = self.client(client);
                node.behind = node.behind.min(behind);
            }
            Out::Granted { task, token, .. } => {
                if token <= self.store.top {
                    return Err(format!("{who} was given token {token} after token {} was used", self.store.top));
                }
                Rc::make_mut(&mut self.store).top = token;
                let node = self.client(client);
                let task = &mut node.tasks[task.0 as usize];
                if *task != Task::Waiting {
                    return Err(format!("{who} was granted the lock for a task that is {task:?}"));
                }
                *task = Task::Holding { token, until: Time::ZERO };
            }
            Out::Refused { task, why } => {
                let task = &mut self.client(client).tasks[task.0 as usize];
                if *task != Task::Waiting {
                    return Err(format!("{who} refuses ({why:?}) a task that is {task:?}"));
                }
                *task = Task::Done;
            }
            Out::Released { token, outcome } => {
                let releasing = Task::Releasing { token };
                let Some(task) = self.client(client).tasks.iter_mut().find(|task| **task == releasing) else {
                    return Err(format!("{who} answers the release of {token} ({outcome:?}) that nobody waits for"));
                };
                *task = Task::Done;
            }
            Out::Lost { token, .. } => {
                let held = |task: &&mut Task| matches!(task, Task::Holding { token: t, .. } if *t == token);
                if let Some(task) = self.client(client).tasks.iter_mut().find(held) {
                    *task = Task::Mourning { token };
                }
            }
            Out::Extended { .. } => {}
        }
        Ok(())
    }

    fn send(&mut self, setup: &Setup, client: usize, slot: usize, id: RequestId, requests: &Requests) -> Checked<()> {
        let believed = self.now.saturating_sub(self.clients[client].behind);
        let not_after = setup.store_time(believed + setup.response_timeout);
        for request in requests {
            let mut request = request.clone();
            for arg in &mut request.args {
                if *arg == Arg::NotAfter {
                    *arg = Arg::Int(not_after.0);
                }
            }
            let procedure = Procedure::read(&request).ok_or_else(|| format!("unreadable request {request}"))?;
            let body = Body::Request { procedure, ghost: false, wanted: true };
            self.net.push(Rc::new(Message { client, slot, id, sent: self.now, body }));
        }
        Ok(())
    }

    /// Runs a procedure at the store, and checks that what it did may be done.
    fn execute(&mut self, setup: &Setup, procedure: Procedure) -> Checked<Reply> {
        let now = setup.store_time(self.now);
        let before = self.store.clone();
        let store = Rc::make_mut(&mut self.store);
        let alive = |inbox: InboxId| before.alive.get(inbox.0 as usize).copied().unwrap_or(false);
        let mut env = Surroundings { now, token_floor: 0, alive: &alive, pushes: Vec::new() };
        let Ok(reply) = procedure.clone().run(&mut store.cell, &mut store.line, &mut env);
        let pushes = env.pushes;
        check_store(now, &before, store, &procedure)?;
        for (inbox, event) in pushes {
            let to = inbox.0 as usize;
            if before.alive[to] && !self.clients[to].dead {
                self.client(to).stream.push_back(Wire::Push(event));
            }
        }
        Ok(reply)
    }

    /// Nobody believes what the store denies.
    fn check_beliefs(&self, setup: &Setup) -> Checked<()> {
        let now = setup.time(self.now);
        let hold = self.store.cell.hold.as_ref();
        let mut believers = 0;
        for (c, client) in self.clients.iter().enumerate() {
            let who = name_of_client(c);
            for (attempt, until) in client.process.beliefs().filter(|(_, until)| *until > now) {
                let Some(hold) = hold.filter(|hold| hold.owner.attempt == attempt) else {
                    let attempt = name_of(attempt);
                    return Err(format!("{who} believes that {attempt} holds the lock; the store says it does not"));
                };
                let store_until = Time::ZERO.after(Duration::from_micros(hold.expires.0 as u64));
                if store_until < until {
                    return Err(format!("{who} believes to hold the lock for longer than the store does"));
                }
            }
            for task in &client.tasks {
                if let Task::Holding { until, .. } = task
                    && *until > now
                {
                    believers += 1;
                    let until = StoreTime((until.as_nanos() / 1000) as i64);
                    if hold.is_none_or(|hold| process_of(hold.owner.attempt) != c || hold.expires < until) {
                        return Err(format!("a task of {who} believes to hold the lock; the store says it does not"));
                    }
                }
            }
        }
        if believers > 1 {
            return Err(format!("{believers} tasks believe to hold the lock"));
        }
        Ok(())
    }

    /// Whether every living task got what it is going to get.
    pub fn is_served(&self) -> bool {
        self.clients.iter().all(|client| client.tasks.iter().all(|task| *task == Task::Done))
    }

    /// Whether nothing is left of anybody: no session, no message, no live hold, no place in the queue (but of the dead: they
    /// are skipped when their turn comes).
    pub fn is_clean(&self, setup: &Setup) -> bool {
        let now = setup.store_time(self.now);
        self.is_served()
            && self.net.is_empty()
            && self.clients.iter().all(|client| client.process.is_idle() && client.stream.is_empty())
            && self.store.cell.hold.as_ref().is_none_or(|hold| hold.expires <= now)
            && self.store.line.0.iter().all(|waiter| self.clients[waiter.owner.inbox.0 as usize].dead)
    }

    /// A number that states which will behave alike have in common, and no others have.
    pub fn fingerprint(&self, setup: &Setup) -> u64 {
        let as_named = self.fingerprint_named(setup, [0, 1]);
        // Where both clients want the same, who is called A does not matter.
        if setup.is_symmetric() { as_named.min(self.fingerprint_named(setup, [1, 0])) } else { as_named }
    }

    fn fingerprint_named(&self, setup: &Setup, names: [u8; 2]) -> u64 {
        let view = View {
            now: setup.time(self.now).as_nanos(),
            tick: setup.tick.as_nanos() as u64,
            horizon: setup.horizon(),
            last: self.store.cell.last,
            names,
        };
        let mut state = Mix::new();
        self.fault.hash(&mut state);
        self.store.fingerprint(&view, &mut state);
        for at in names {
            self.clients[usize::from(at)].fingerprint(&view).hash(&mut state);
        }
        // The order of messages does not matter: each travels on its own.
        let messages = self.net.iter().fold(0_u64, |sum, message| {
            let mut one = Mix::new();
            message.fingerprint(&self.clients[message.client], &view, setup, &mut one);
            sum.wrapping_add(one.finish())
        });
        messages.hash(&mut state);
        state.finish()
    }

    /// One line for a person.
    pub fn describe(&self, setup: &Setup) -> String {
        let now = setup.store_time(self.now);
        let holder = self.store.cell.hold.as_ref().map_or("nobody".into(), |hold| {
            let left = hold.expires.micros_since(now) as f64 / setup.tick.as_micros() as f64;
            format!("{} for {left} ticks{}", name_of(hold.owner.attempt), if hold.claimed { ", claim" } else { "" })
        });
        let line: Vec<String> = self.store.line.0.iter().map(|w| name_of(w.owner.attempt)).collect();
        let mut text = format!("    store: {holder}; queue [{}]", line.join(" "));
        for (c, client) in self.clients.iter().enumerate().filter(|(_, client)| !client.dead) {
            let tasks: Vec<String> = client.tasks.iter().map(|task| format!("{task:?}")).collect();
            let sessions = client.process.describe();
            text += &format!("\n    {}: {} | {sessions}", name_of_client(c), tasks.join(", "));
        }
        text
    }

    /// What `step` is, in words.
    pub fn explain(&self, setup: &Setup, step: Step) -> String {
        let message = |i: usize| self.net[i].describe(setup);
        let client = name_of_client;
        match step {
            Step::Start { client: c, task } => format!("{}'s task {task} wants the lock", client(c)),
            Step::Release { client: c, task } => format!("{}'s task {task} releases", client(c)),
            Step::Cancel { client: c, task } => format!("{}'s task {task} gives up", client(c)),
            Step::Timer { client: c } => format!("{}'s timer", client(c)),
            Step::Deliver { message: m } => message(m),
            Step::Hear { client: c } => match self.clients[c].stream.front() {
                Some(Wire::Push(StoreEvent::Granted { attempt, at, .. })) => {
                    let age = setup.store_time(self.now).micros_since(*at) / setup.tick.as_micros() as i64;
                    format!("{} hears the push for {} of {age} ticks ago", client(c), name_of(*attempt))
                }
                other => format!("{} hears {other:?}", client(c)),
            },
            Step::Pass => "a tick passes".into(),
            Step::Lose { message: m } => format!("FAULT connection breaks, lost: {}", message(m)),
            Step::Refuse { message: m } => format!("FAULT cannot be sent: {}", message(m)),
            Step::Haunt { message: m } => format!("FAULT connection breaks, but may still arrive: {}", message(m)),
            Step::Unanswer { message: m } => format!("FAULT connection breaks, lost: {}", message(m)),
            Step::Duplicate { message: m } => format!("FAULT arrives twice: {}", message(m)),
            Step::Reset { client: c } => format!("FAULT all connections of {} break", client(c)),
            Step::Crash { client: c, half_open } => {
                format!("FAULT {} dies{}", client(c), if half_open { ", its inbox seems alive" } else { "" })
            }
            Step::Blip { client: c } => format!("FAULT the inbox of {} breaks", client(c)),
            Step::LosePush { client: c, .. } => format!("FAULT a push to {} is lost", client(c)),
        }
    }
}

fn breaks(body: &Body) -> bool {
    matches!(body, Body::Request { ghost: false, .. } | Body::Reply(_))
}

fn check_store(now: StoreTime, before: &Store, after: &Store, procedure: &Procedure) -> Checked<()> {
    let gives_back = |owner: &Claimant| match procedure {
        Procedure::Release(by, _) => by == owner,
        Procedure::Undo(by, prev) => by == owner || prev.as_ref() == Some(owner),
        Procedure::Acquire(ask) => ask.prev.as_ref().is_some_and(|(prev, _)| prev == owner),
        _ => false,
    };
    let old = before.cell.hold.as_ref();
    let new = after.cell.hold.as_ref();
    if let Some(old) = old.filter(|old| old.expires > now) {
        match new {
            Some(new) if new.owner == old.owner && new.expires < old.expires => {
                return Err(format!("{} shortens the lease of {}", verb(procedure), name_of(old.owner.attempt)));
            }
            Some(new) if new.owner == old.owner => {}
            _ if gives_back(&old.owner) => {}
            _ => {
                return Err(format!("{} ends the live lease of {}", verb(procedure), name_of(old.owner.attempt)));
            }
        }
    }
    let fresh = new.filter(|new| old.is_none_or(|old| old.owner != new.owner || old.first != new.first));
    let Some(new) = fresh else { return Ok(()) };
    let to = name_of(new.owner.attempt);
    if new.first <= before.top {
        return Err(format!("{to} is granted token {} but {} was used already", new.first, before.top));
    }
    let longest = match procedure {
        Procedure::Acquire(ask) if ask.asker.owner == new.owner => ask.ttl,
        _ => new.owner.claim,
    };
    if new.expires > now.after(longest) {
        return Err(format!("{to} is granted the lock for too long"));
    }
    let place = |attempt| before.line.0.iter().position(|w| w.owner.attempt == attempt);
    let mine = place(new.owner.attempt);
    // Whoever lets a claim run out without a word loses the places of its whole process.
    let forfeit = old.filter(|old| old.claimed && old.expires <= now).map(|old| old.owner.inbox);
    for waiter in after.line.0.iter().filter(|waiter| Some(waiter.owner.inbox) != forfeit) {
        if place(waiter.owner.attempt).is_some_and(|place| mine.is_none_or(|mine| place < mine)) {
            return Err(format!("{to} is granted the lock before {}, who came first", name_of(waiter.owner.attempt)));
        }
    }
    let stayed = after.line.0.iter().filter(|waiter| Some(waiter.owner.inbox) != forfeit);
    let kept: Vec<_> = stayed.filter_map(|w| place(w.owner.attempt)).collect();
    if !kept.is_sorted() {
        return Err("the order of the queue changed".into());
    }
    Ok(())
}

fn verb(procedure: &Procedure) -> String {
    let attempt = |claimant: &Claimant| name_of(claimant.attempt);
    match procedure {
        Procedure::Acquire(ask) => {
            let prev = ask.prev.as_ref().map_or(String::new(), |(prev, _)| format!(" giving back {}", attempt(prev)));
            let how = if ask.wait { "" } else { ", without queueing" };
            format!("acquire {}{prev}{how}", attempt(&ask.asker.owner))
        }
        Procedure::Renew(owner, _) => format!("renew {}", attempt(owner)),
        Procedure::Release(owner, _) => format!("release {}", attempt(owner)),
        Procedure::Undo(owner, None) => format!("undo {}", attempt(owner)),
        Procedure::Undo(owner, Some(prev)) => format!("undo {} and {}", attempt(owner), attempt(prev)),
        other => format!("{other:?}"),
    }
}

fn name_of_client(client: usize) -> char {
    char::from(b'A' + client as u8)
}

fn name_of(attempt: AttemptId) -> String {
    format!("{}{}", name_of_client(process_of(attempt)), attempt.0 as u32)
}

struct View {
    now: u64,
    tick: u64,
    horizon: u64,
    last: u64,
    /// What the two clients are called; its own inverse.
    names: [u8; 2],
}

impl View {
    fn ahead_at_store(&self, at: StoreTime) -> u64 {
        self.ahead(Time::from_nanos(at.0 as u64 * 1000))
    }

    fn ago_at_store(&self, at: StoreTime) -> u64 {
        self.ago(Time::from_nanos(at.0 as u64 * 1000))
    }
}

impl Relative for View {
    fn ahead(&self, at: Time) -> u64 {
        at.as_nanos().saturating_sub(self.now).div_ceil(self.tick).min(NEVER)
    }

    fn ago(&self, at: Time) -> u64 {
        (self.now.saturating_sub(at.as_nanos()) / self.tick).min(self.horizon)
    }

    fn lag(&self, sent: Time, at: StoreTime) -> u64 {
        ((at.0 as u64 * 1000).saturating_sub(sent.as_nanos()) / self.tick).min(self.horizon)
    }

    fn attempt(&self, attempt: AttemptId) -> u64 {
        u64::from(self.names[process_of(attempt)]) << 32 | u64::from(attempt.0 as u32)
    }

    fn token(&self, token: u64) -> u64 {
        let block = lockwright::cell::BLOCK;
        (self.last + block).saturating_sub(token).min(2 * block + 1)
    }
}

impl Store {
    fn fingerprint(&self, view: &View, state: &mut Mix) {
        if let Some(hold) = &self.cell.hold {
            let expires = view.ahead_at_store(hold.expires);
            (view.attempt(hold.owner.attempt), expires, hold.claimed, view.token(hold.first)).hash(state);
        }
        (view.token(self.top), self.line.0.len()).hash(state);
        for waiter in &self.line.0 {
            view.attempt(waiter.owner.attempt).hash(state);
        }
        view.names.map(|at| self.alive[usize::from(at)]).hash(state);
    }
}

impl Client {
    fn fingerprint(&self, view: &View) -> u64 {
        let known = &self.known[usize::from(view.names[0])];
        match known.get() {
            Some((now, last, fingerprint)) if (now, last) == (view.now, view.last) => fingerprint,
            _ => {
                let mut state = Mix::new();
                self.feed(view, &mut state);
                known.set(Some((view.now, view.last, state.finish())));
                state.finish()
            }
        }
    }

    fn feed(&self, view: &View, state: &mut Mix) {
        (self.dead, self.opening, self.behind, self.stream.len()).hash(state);
        for wire in &self.stream {
            match wire {
                Wire::Live => 1_u8.hash(state),
                Wire::Closed => 2_u8.hash(state),
                Wire::Push(StoreEvent::Granted { attempt, first, at, .. }) => {
                    (view.attempt(*attempt), view.token(*first), view.ago_at_store(*at)).hash(state);
                }
                Wire::Push(other) => other.hash(state),
            }
        }
        for task in &self.tasks {
            match task {
                Task::Fresh => 1_u8.hash(state),
                Task::Waiting => 2_u8.hash(state),
                Task::Holding { token, until } => (3_u8, view.token(*token), view.ahead(*until)).hash(state),
                Task::Mourning { token } => (4_u8, view.token(*token)).hash(state),
                Task::Releasing { token } => (5_u8, view.token(*token)).hash(state),
                Task::Done => 6_u8.hash(state),
            }
        }
        self.process.fingerprint(view, state);
    }
}

impl Message {
    fn fingerprint(&self, client: &Client, view: &View, setup: &Setup, state: &mut Mix) {
        (view.names[self.client], self.slot, view.attempt(self.id.attempt), self.id.op).hash(state);
        let sent = setup.time(self.sent);
        match &self.body {
            Body::Subscribe => return 1_u8.hash(state),
            Body::Request { wanted: false, ghost, .. } => (2_u8, ghost).hash(state),
            _ => client.process.awaits(self.slot, self.id).hash(state),
        }
        match &self.body {
            Body::Request { procedure, .. } => {
                3_u8.hash(state);
                match procedure {
                    Procedure::Acquire(ask) => {
                        let late = ask.not_after < StoreTime((view.now / 1000) as i64);
                        (1_u8, ask.wait, late, view.ahead_at_store(ask.not_after), view.ago(sent)).hash(state);
                        ask.prev
                            .as_ref()
                            .map(|(prev, used)| (view.attempt(prev.attempt), view.token(*used)))
                            .hash(state);
                    }
                    Procedure::Renew(_, ttl) => (2_u8, ttl, view.ago(sent)).hash(state),
                    Procedure::Release(_, used) => (3_u8, view.token(*used)).hash(state),
                    Procedure::Undo(_, prev) => {
                        (4_u8, prev.as_ref().map(|prev| view.attempt(prev.attempt))).hash(state)
                    }
                    other => unreachable!("{other:?} is not explored"),
                }
            }
            Body::Reply(reply) => {
                4_u8.hash(state);
                match (self.id.op, reply) {
                    (Op::Acquire, Reply::Int(first)) => (view.token(*first as u64), view.ago(sent)).hash(state),
                    (Op::Acquire, Reply::List(list)) => {
                        let at = |i: usize| match list.get(i) {
                            Some(Reply::Int(value)) => *value,
                            _ => 0,
                        };
                        let ticks = |micros: i64| (micros as u64 * 1000).div_ceil(view.tick).min(view.horizon);
                        at(0).hash(state);
                        match at(0) {
                            0 => (view.ago_at_store(StoreTime(at(1))), ticks(at(2)), at(3)).hash(state),
                            1 => (view.lag(sent, StoreTime(at(1))), ticks(at(2)), at(3), at(4)).hash(state),
                            2 => view.ago_at_store(StoreTime(at(1))).hash(state),
                            _ => (view.token(at(1) as u64), at(2), view.ago(sent)).hash(state),
                        }
                        if client.behind > 0 {
                            view.ago_at_store(StoreTime(at(1))).hash(state);
                        }
                    }
                    (Op::Renew, _) => (reply, view.ago(sent)).hash(state),
                    _ => reply.hash(state),
                }
            }
            Body::Broken { void_after } => (5_u8, view.ahead(setup.time(*void_after))).hash(state),
            Body::Refused => 6_u8.hash(state),
            Body::Subscribe => {}
        }
    }

    fn describe(&self, setup: &Setup) -> String {
        let client = name_of_client(self.client);
        let asked = format!("{:?} of {}", self.id.op, name_of(self.id.attempt)).to_lowercase();
        match &self.body {
            Body::Request { procedure, wanted, .. } => {
                let ghost = if !*wanted { " (nobody waits for its reply)" } else { "" };
                format!("store executes [{}] sent at tick {}{ghost}", verb(procedure), self.sent)
            }
            Body::Reply(reply) => format!("{client} reads the reply to [{asked}]: {}", shown(setup, reply)),
            Body::Broken { .. } => format!("{client} learns that the connection of [{asked}] broke"),
            Body::Refused => format!("{client} learns that [{asked}] was not sent"),
            Body::Subscribe => format!("store subscribes {client}"),
        }
    }
}

fn shown(setup: &Setup, reply: &Reply) -> String {
    let tick = |micros: &Reply| match micros {
        Reply::Int(us) => *us / setup.tick.as_micros() as i64,
        _ => 0,
    };
    match reply {
        Reply::List(list) => match (&list[0], &list[1..]) {
            (Reply::Int(0), [_, left, ..]) => format!("held for {} ticks", tick(left)),
            (Reply::Int(1), [at, left, Reply::Int(position), ..]) => {
                let at = tick(at) - i64::from(EPOCH);
                format!("queued at tick {at}, {position} ahead, held for {} ticks", tick(left))
            }
            (Reply::Int(2), _) => "late".into(),
            _ => format!("{reply:?}"),
        },
        other => format!("{other:?}"),
    }
}

/// A quick hash of good quality: the whole space is recognised by it.
struct Mix(u64);

impl Mix {
    fn new() -> Self {
        Mix(0x243F_6A88_85A3_08D3)
    }
}

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        let x = u128::from(self.0 ^ 0x9E37_79B9_7F4A_7C15) * 0xD6E8_FEB8_6659_FD93;
        x as u64 ^ (x >> 64) as u64
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        let x = u128::from(self.0 ^ value) * 0xA076_1D64_78BD_642F;
        self.0 = (x as u64 ^ (x >> 64) as u64).wrapping_add(0x1357_9BDF_0246_8ACE);
    }

    fn write_u128(&mut self, value: u128) {
        self.write_u64(value as u64);
        self.write_u64((value >> 64) as u64);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}
