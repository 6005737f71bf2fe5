//! Everything that can be: clients, a store, and what travels between them.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::time::Duration;

use lockwright_machines::barrier_cell::{Fate, Passage};
use lockwright_machines::error::{Error, Kind};
use lockwright_machines::lease::{LossReason, ReleaseOutcome};
use lockwright_machines::machine::{Event, Hold, PARTING};
use lockwright_machines::protocol::{Arg, AttemptId, InboxId, Op, Reply, Requests, StoreEvent};
use lockwright_machines::queue::{Ask, HoldId, Refusal, TaskId};
use lockwright_machines::rank::Rank;
use lockwright_machines::relative::Relative;
use lockwright_machines::session::{Answer, Inbox, RequestId, margin};
use lockwright_machines::share::ALL;
use lockwright_machines::time::{StoreTime, Time};
use lockwright_machines::token::Token;

use crate::layout::joined::attempt_of;
use crate::layout::{Around, Checked, Record, Role, name_of, name_of_client};
use crate::operation::Operation;
use crate::process::{Call, Effects, Handles, Part, Process, Settled, process_of};
use crate::setup::{Class, EPOCH, Setup, Spent, Wish};
use crate::view::{Mix, View};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    Fresh,
    Waiting,
    Holding {
        token: u64,
        until: Time,
        /// How much of the lock it may believe to have.
        units: u32,
    },
    /// Told that it lost the lock, but still inside its critical section.
    Mourning {
        token: u64,
    },
    Releasing {
        token: u64,
    },
    /// Its guard was forgotten: it is never released, and lasts as long as the lease.
    Forgotten {
        token: u64,
        until: Time,
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

/// A task's call to extend its hold, until it is answered.
#[derive(Clone, Copy, Debug)]
struct Extension {
    task: usize,
    asked: Time,
}

/// What a machine knows the hold of `task` by.
fn hold_of(task: usize) -> HoldId {
    HoldId(task as u64)
}

impl Task {
    /// Under which token it believes to hold, until when, and how much.
    fn believes(&self) -> Option<(u64, Time, u32)> {
        match *self {
            Task::Holding { token, until, units } => Some((token, until, units)),
            Task::Forgotten { token, until } => Some((token, until, 1)),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Client {
    process: Process,
    pub tasks: Vec<Task>,
    /// Which tasks wait, in the order they came.
    waiting: Vec<u8>,
    /// At which tick each of the tasks gives up.
    limits: Vec<Option<u32>>,
    /// Whether it was closed.
    closed: bool,
    /// The tasks that extended their hold, or tried to.
    extended: u8,
    extension: Option<Extension>,
    /// The tasks that changed how much they hold, or tried to, and the call that is not answered yet: whose, and to
    /// what.
    changed: u8,
    change: Option<(usize, u32)>,
    /// A task's call to export the lock, until it is answered, and the secret that is to have it.
    export: Option<(usize, AttemptId)>,
    stream: VecDeque<Wire>,
    opening: bool,
    behind: u32,
    dead: bool,
    /// Its fingerprint, and what that was taken relative to: most steps leave a client as it is.
    known: std::cell::Cell<Option<(u64, u64, u64)>>,
}

#[derive(Clone, Debug)]
struct Store<R> {
    record: R,
    alive: Vec<bool>,
    /// The highest token that any task was given for so many units.
    tops: Vec<(u32, u64)>,
}

impl<R> Store<R> {
    /// The highest token that any task was given.
    fn top(&self) -> u64 {
        self.tops.iter().map(|(_, token)| *token).max().unwrap_or(0)
    }

    /// The highest that was given to somebody who cannot hold at the same time as whoever has so many units.
    fn top_beside(&self, units: u32, capacity: u32) -> u64 {
        let excluded = self.tops.iter().filter(|(others, _)| others.saturating_add(units) > capacity);
        excluded.map(|(_, token)| *token).max().unwrap_or(0)
    }

    fn give(&mut self, units: u32, token: u64) {
        match self.tops.iter_mut().find(|(known, _)| *known == units) {
            Some((_, top)) => *top = token.max(*top),
            None => {
                self.tops.push((units, token));
                self.tops.sort_unstable();
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Message<C> {
    client: usize,
    slot: u64,
    id: RequestId,
    sent: u32,
    /// It takes its time.
    slow: bool,
    body: Body<C>,
}

#[derive(Clone, Debug)]
enum Body<C> {
    Request {
        call: C,
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

impl<C> Body<C> {
    /// Whether it goes to the store.
    fn is_upward(&self) -> bool {
        matches!(self, Body::Request { .. } | Body::Subscribe)
    }

    /// Whether it is on a connection that may break.
    fn breaks(&self) -> bool {
        matches!(self, Body::Request { ghost: false, .. } | Body::Reply(_))
    }
}

/// One thing that can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It gives up after so many ticks.
    Start {
        client: usize,
        task: usize,
        limit: Option<u32>,
    },
    Release {
        client: usize,
        task: usize,
    },
    Extend {
        client: usize,
        task: usize,
    },
    Export {
        client: usize,
        task: usize,
    },
    Change {
        client: usize,
        task: usize,
    },
    Take {
        client: usize,
        task: usize,
    },
    Retract,
    Forget {
        client: usize,
        task: usize,
    },
    Close {
        client: usize,
    },
    Cancel {
        client: usize,
        task: usize,
    },
    Timer {
        client: usize,
    },
    Deliver {
        message: usize,
    },
    Hear {
        client: usize,
    },
    Resume,
    Resize,
    Begin {
        operation: usize,
    },
    Arrive {
        operation: usize,
    },
    Appear {
        operation: usize,
        ghost: usize,
    },
    Pass,
    Pause {
        client: usize,
    },
    Delay {
        message: usize,
    },
    Lose {
        message: usize,
    },
    Refuse {
        message: usize,
    },
    Haunt {
        message: usize,
    },
    Unanswer {
        message: usize,
    },
    Duplicate {
        message: usize,
    },
    Reset {
        client: usize,
    },
    Crash {
        client: usize,
        half_open: bool,
    },
    Blip {
        client: usize,
    },
    LosePush {
        client: usize,
        at: usize,
    },
    LoseOperation {
        operation: usize,
    },
    HauntOperation {
        operation: usize,
    },
    UnanswerOperation {
        operation: usize,
    },
    DuplicateOperation {
        operation: usize,
    },
}

impl Step {
    fn class(self) -> Class {
        match self {
            Step::Delay { .. } => Class::Delayed,
            Step::Refuse { .. } => Class::Refused,
            Step::Lose { .. } | Step::LoseOperation { .. } => Class::Lost,
            Step::Haunt { .. } | Step::HauntOperation { .. } => Class::Ghost,
            Step::Unanswer { .. } | Step::UnanswerOperation { .. } => Class::ReplyLost,
            Step::Reset { .. } => Class::Reset,
            Step::Duplicate { .. } | Step::DuplicateOperation { .. } => Class::Duplicate,
            Step::Crash { half_open: false, .. } => Class::Crash,
            Step::Crash { half_open: true, .. } => Class::HalfOpen,
            Step::Blip { .. } => Class::Blip,
            Step::LosePush { .. } => Class::PushLost,
            _ => Class::None,
        }
    }

    /// Whether a run in which nothing goes wrong and nobody gives up may take it while something else than time moves.
    pub fn is_progress(self) -> bool {
        self.class() == Class::None
            && !matches!(
                self,
                Step::Pass
                    | Step::Cancel { .. }
                    | Step::Pause { .. }
                    | Step::Extend { .. }
                    | Step::Export { .. }
                    | Step::Change { .. }
                    | Step::Retract
                    | Step::Forget { .. }
                    | Step::Close { .. }
                    | Step::Resize
            )
    }
}

#[derive(Clone, Debug)]
pub struct World<R: Record> {
    pub now: u32,
    store: Rc<Store<R>>,
    pub clients: Vec<Rc<Client>>,
    net: Vec<Rc<Message<R::Call>>>,
    paused: Option<usize>,
    /// The secret that was told, for whoever wants to resume it; it may be known to several.
    secret: Option<AttemptId>,
    /// The secret that nobody was told after all.
    retracted: Option<AttemptId>,
    /// Whether it was resized.
    resized: bool,
    operations: Vec<Operation>,
    pub spent: Spent,
}

/// What a task asks its queue for.
fn ask(setup: &Setup, client: usize, task: usize, deadline: Option<Time>) -> Ask {
    let wish = &setup.clients[client][task];
    let (task, service) = (TaskId(task as u64), setup.service(wish));
    Ask {
        task,
        owner: None,
        fair: wish.fair,
        rank: Rank::new(wish.rank).expect("a rank"),
        tries: false,
        deadline,
        service,
    }
}

/// How `client` takes part.
fn part<R: Record>(setup: &Setup, client: usize) -> Part {
    let role = setup.role(client);
    Part {
        id: client as u8,
        salt: 0,
        speaks: R::speaker(role),
        store_timeout: setup.tick * setup.store_timeout,
        shares: role != Role::Sole,
    }
}

impl<R: Record> World<R> {
    pub fn new(setup: &Setup) -> Self {
        let inbox = if setup.cold { Inbox::Closed } else { Inbox::Live };
        let client = |(id, tasks): (usize, &Vec<Wish>)| Client {
            process: Process::new(part::<R>(setup, id), inbox),
            tasks: vec![Task::Fresh; tasks.len()],
            waiting: Vec::new(),
            limits: vec![None; tasks.len()],
            closed: false,
            extended: 0,
            extension: None,
            changed: 0,
            change: None,
            export: None,
            stream: VecDeque::new(),
            opening: false,
            behind: setup.behind,
            dead: false,
            known: Default::default(),
        };
        let store = Store { record: R::default(), alive: vec![!setup.cold; setup.clients.len()], tops: Vec::new() };
        let mut world = World {
            now: 0,
            store: Rc::new(store),
            clients: setup.clients.iter().enumerate().map(client).map(Rc::new).collect(),
            net: Vec::new(),
            paused: None,
            secret: None,
            retracted: None,
            resized: false,
            operations: vec![Operation::default(); setup.operations],
            spent: Spent::NOTHING,
        };
        for (client, tasks) in setup.clients.iter().enumerate() {
            for (task, wish) in tasks.iter().enumerate().filter(|(_, wish)| wish.early) {
                let start = Step::Start { client, task, limit: wish.limit };
                world.take(setup, start).expect("nothing is checked before anything was sent");
            }
        }
        world
    }

    /// Everything that can happen next; what happens anyway comes first.
    pub fn steps(&self, setup: &Setup, steps: &mut Vec<Step>) {
        let now = setup.time(self.now);
        let runs = |c: &usize| !self.clients[*c].dead && self.paused != Some(*c);
        for c in (0..self.clients.len()).filter(runs) {
            let client = &self.clients[c];
            for (t, task) in client.tasks.iter().enumerate() {
                match task {
                    Task::Fresh if setup.clients[c][t].resumes => {
                        steps.extend(self.secret.map(|_| Step::Take { client: c, task: t }));
                    }
                    Task::Fresh => match setup.clients[c][t].limit {
                        None => steps.push(Step::Start { client: c, task: t, limit: None }),
                        Some(most) => {
                            let start = |limit| Step::Start { client: c, task: t, limit: Some(limit) };
                            steps.extend((0..=most).map(start));
                        }
                    },
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
        let arrives = |m: &Message<R::Call>| m.body.is_upward() || runs(&m.client);
        steps.extend((0..self.net.len()).filter(|m| arrives(&self.net[*m])).map(|message| Step::Deliver { message }));
        let under_way = self.operations.iter().enumerate().filter(|(_, operation)| operation.awaited.is_some());
        steps.extend(under_way.map(|(operation, _)| Step::Arrive { operation }));
        if self.paused.is_some() {
            steps.push(Step::Resume);
        }
        if self.may_pass(setup, steps) {
            steps.push(Step::Pass);
        }
        if setup.resizes.is_some() && !self.resized {
            steps.push(Step::Resize);
        }
        if setup.retracts && self.exporter().is_some_and(|c| runs(&c)) {
            steps.push(Step::Retract);
        }
        for (d, operation) in self.operations.iter().enumerate() {
            steps.extend((!operation.begun).then_some(Step::Begin { operation: d }));
            steps.extend((0..operation.ghosts.len()).map(|ghost| Step::Appear { operation: d, ghost }));
        }
        for c in (0..self.clients.len()).filter(runs) {
            let client = &self.clients[c];
            for (t, (task, wish)) in client.tasks.iter().zip(&setup.clients[c]).enumerate() {
                match task {
                    Task::Waiting if wish.may_cancel => steps.push(Step::Cancel { client: c, task: t }),
                    Task::Holding { .. } if wish.extends.is_some() && client.extended >> t & 1 == 0 => {
                        steps.push(Step::Extend { client: c, task: t });
                    }
                    Task::Holding { .. } if wish.exports.is_some() => {
                        steps.push(Step::Export { client: c, task: t });
                    }
                    Task::Holding { .. } if wish.changes && client.changed >> t & 1 == 0 => {
                        steps.push(Step::Change { client: c, task: t });
                    }
                    _ => {}
                }
                if wish.forgets && matches!(task, Task::Holding { .. }) {
                    steps.push(Step::Forget { client: c, task: t });
                }
            }
            if setup.clients[c].iter().any(|wish| wish.closes) && !client.closed && !client.is_through() {
                steps.push(Step::Close { client: c });
            }
            if self.spent.pauses < setup.pauses && self.paused.is_none() && !client.is_through() {
                steps.push(Step::Pause { client: c });
            }
        }
        if self.spent.faults() < setup.most_faults {
            let first = steps.len();
            self.faults(steps);
            let mut at = 0;
            steps.retain(|step| {
                at += 1;
                at <= first || setup.faults.contains(&step.class())
            });
        }
    }

    /// Whether a tick may pass while `steps` can be taken. What takes longer on the way to the store than anybody waits
    /// for an answer is a broken connection.
    fn may_pass(&self, setup: &Setup, steps: &[Step]) -> bool {
        let overdue = |m: &Message<R::Call>| {
            matches!(m.body, Body::Request { ghost: false, .. }) && self.now > m.sent + setup.response_timeout
        };
        let urgent = |step: &Step| setup.prompt && self.is_urgent(*step);
        let is_late = self.operations.iter().any(|operation| operation.is_overdue(setup, self.now));
        !is_late && !self.net.iter().any(|message| overdue(message)) && !steps.iter().any(urgent)
    }

    /// Whether `step` happens before a tick passes, where everybody is prompt.
    fn is_urgent(&self, step: Step) -> bool {
        match step {
            Step::Timer { .. } | Step::Hear { .. } | Step::Arrive { .. } => true,
            Step::Deliver { message } => {
                let message = &self.net[message];
                !message.slow && !matches!(message.body, Body::Request { ghost: true, .. })
            }
            _ => false,
        }
    }

    fn faults(&self, steps: &mut Vec<Step>) {
        for (i, message) in self.net.iter().enumerate() {
            if !message.slow && message.body.breaks() {
                steps.push(Step::Delay { message: i });
            }
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
        for (operation, _) in self.operations.iter().enumerate().filter(|(_, operation)| operation.awaited.is_some()) {
            steps.extend([
                Step::LoseOperation { operation },
                Step::HauntOperation { operation },
                Step::UnanswerOperation { operation },
                Step::DuplicateOperation { operation },
            ]);
        }
        for (c, client) in self.clients.iter().enumerate().filter(|(_, client)| !client.dead && !client.is_through()) {
            steps.push(Step::Crash { client: c, half_open: false });
            steps.push(Step::Crash { client: c, half_open: true });
            if self.store.alive[c] {
                steps.push(Step::Blip { client: c });
            }
            if self.net.iter().filter(|message| message.client == c && message.body.breaks()).count() > 1 {
                steps.push(Step::Reset { client: c });
            }
            let pushes = client.stream.iter().enumerate().filter(|(_, wire)| matches!(wire, Wire::Push(_)));
            steps.extend(pushes.map(|(at, _)| Step::LosePush { client: c, at }));
        }
    }

    /// A client whose steps may all be taken before anybody else's, once nothing can go wrong any more: no step of
    /// another can reach it before it has acted. `explore` still has to see whether its steps change what anybody
    /// believes.
    pub fn ample(&self, setup: &Setup, steps: &[Step]) -> Option<usize> {
        if !setup.reduced.orders || !setup.prompt {
            return None;
        }
        if self.spent.faults() < setup.most_faults || self.spent.pauses < setup.pauses {
            return None;
        }
        (0..self.clients.len()).find(|c| {
            let moves = |step: &Step| self.mover(*step) == Some(*c) && self.is_urgent(*step);
            steps.iter().any(moves)
                && !self.net.iter().any(|message| message.client == *c && message.body.is_upward())
                && !self.store.record.line().any(|attempt| process_of(attempt) == *c)
        })
    }

    /// The client that `step` happens in, if it happens in a client.
    pub fn mover(&self, step: Step) -> Option<usize> {
        match step {
            Step::Start { client, .. }
            | Step::Release { client, .. }
            | Step::Extend { client, .. }
            | Step::Export { client, .. }
            | Step::Change { client, .. }
            | Step::Take { client, .. }
            | Step::Forget { client, .. }
            | Step::Close { client }
            | Step::Cancel { client, .. }
            | Step::Timer { client }
            | Step::Hear { client } => Some(client),
            Step::Deliver { message } => {
                let message = &self.net[message];
                (!message.body.is_upward()).then_some(message.client)
            }
            _ => None,
        }
    }

    /// Whether `client` believes the same in `other`.
    pub fn believes_the_same(&self, other: &Self, client: usize) -> bool {
        let (here, there) = (&self.clients[client], &other.clients[client]);
        let holds =
            |client: &Client| client.tasks.iter().filter(|task| task.believes().is_some()).copied().collect::<Vec<_>>();
        here.process.beliefs().eq(there.process.beliefs()) && holds(here) == holds(there)
    }

    /// What the clients believe and what the store has, whoever they are: all that the checks of every state look at.
    pub fn outlook(&self, setup: &Setup) -> u64 {
        let view = self.view(setup);
        let mut all = 0_u64;
        for (c, client) in self.clients.iter().enumerate() {
            let mut one = Mix::new();
            for (_, expires) in self.store.record.holds().filter(|(owner, _)| process_of(*owner) == c) {
                view.ahead_at_store(expires).hash(&mut one);
            }
            for (_, until) in client.process.beliefs() {
                view.ahead(until).hash(&mut one);
            }
            for task in &client.tasks {
                if let Some((token, until, _)) = task.believes() {
                    (view.token(token), view.ahead(until)).hash(&mut one);
                }
            }
            all = all.wrapping_add(one.finish());
        }
        let mut state = Mix::new();
        (all, self.spent, view.token(self.store.top())).hash(&mut state);
        state.finish()
    }

    fn view(&self, setup: &Setup) -> View {
        View {
            now: setup.time(self.now).as_nanos(),
            tick: setup.tick.as_nanos() as u64,
            horizon: setup.horizon().into(),
            last: self.store.record.last(),
            // Those who hold at once have tokens further apart.
            block: R::BLOCK.max(2 * setup.roles.len() as u64),
            newest: 0,
        }
    }

    /// What the world looks like after `step`, or what must never happen and did.
    pub fn after(&self, setup: &Setup, step: Step) -> Checked<Self> {
        let mut world = self.clone();
        world.take(setup, step)?;
        world.forget_stale(setup.stale);
        world.check_beliefs(setup)?;
        Ok(world)
    }

    /// Drops the answers that nobody will ever take, but for a few.
    fn forget_stale(&mut self, kept: usize) {
        let clients = &self.clients;
        let mut kept = vec![kept; clients.len()];
        self.net.retain_mut(|message| {
            let awaited = clients[message.client].process.awaits(message.slot, message.id);
            if awaited || matches!(message.body, Body::Subscribe | Body::Request { wanted: false, .. }) {
                return true;
            }
            let left = &mut kept[message.client];
            let keep = *left > 0;
            *left = left.saturating_sub(1);
            if keep {
                return true;
            }
            match &mut Rc::make_mut(message).body {
                Body::Request { wanted, .. } => {
                    *wanted = false;
                    true
                }
                _ => false,
            }
        });
    }

    fn take(&mut self, setup: &Setup, step: Step) -> Checked<()> {
        self.spent.add(step.class());
        match step {
            Step::Start { client, task, limit } => {
                let limit = limit.map(|ticks| self.now + ticks);
                let node = self.client(client);
                node.tasks[task] = Task::Waiting;
                node.waiting.push(task as u8);
                node.limits[task] = limit;
                let ask = ask(setup, client, task, limit.map(|tick| setup.time(tick)));
                self.feed_with(setup, client, |process, effects| process.acquire(ask, None, effects))
            }
            Step::Take { client, task } => {
                let Some(secret) = self.secret else { return Err("resumed what nobody exported".into()) };
                let node = self.client(client);
                node.tasks[task] = Task::Waiting;
                node.waiting.push(task as u8);
                let ask = ask(setup, client, task, None);
                self.feed_with(setup, client, |process, effects| process.acquire(ask, Some(secret), effects))
            }
            Step::Retract => {
                let (Some(client), Some(secret)) = (self.exporter(), self.secret.take()) else {
                    return Err("took back what nobody exported".into());
                };
                self.retracted = Some(secret);
                self.feed(setup, client, Event::Retract { secret })
            }
            Step::Forget { client, task } => {
                let node = self.client(client);
                let Task::Holding { token, until, .. } = node.tasks[task] else {
                    return Err("forgot what was not held".into());
                };
                node.tasks[task] = Task::Forgotten { token, until };
                self.feed(setup, client, Event::Abandon { hold: hold_of(task) })
            }
            Step::Close { client } => {
                self.client(client).closed = true;
                self.feed(setup, client, Event::Close)
            }
            Step::Export { client, task } => {
                let Task::Holding { token, .. } = self.clients[client].tasks[task] else {
                    return Err("exported what was not held".into());
                };
                let node = self.client(client);
                let secret = node.process.mint();
                node.export = Some((task, secret));
                node.tasks[task] = Task::Releasing { token };
                let ttl = setup.tick * setup.clients[client][task].exports.unwrap_or(0);
                let waiter = Call::Release(TaskId(task as u64));
                self.feed(setup, client, Event::Export { hold: hold_of(task), token: None, secret, ttl, waiter })
            }
            Step::Release { client, task } => {
                let (Task::Holding { token, .. } | Task::Mourning { token }) = self.clients[client].tasks[task] else {
                    return Err("released what was not held".into());
                };
                self.client(client).tasks[task] = Task::Releasing { token };
                let waiter = Call::Release(TaskId(task as u64));
                self.feed(setup, client, Event::Release { hold: hold_of(task), token: None, waiter })
            }
            Step::Extend { client, task } => {
                let Task::Holding { .. } = self.clients[client].tasks[task] else {
                    return Err("extended what was not held".into());
                };
                let asked = setup.time(self.now);
                let node = self.client(client);
                node.extended |= 1 << task;
                node.extension = Some(Extension { task, asked });
                let ttl = setup.tick * setup.clients[client][task].extends.unwrap_or(0);
                let waiter = Call::Extend(TaskId(task as u64));
                self.feed(setup, client, Event::Extend { hold: hold_of(task), ttl, waiter })
            }
            Step::Change { client, task } => {
                let node = self.client(client);
                let Task::Holding { units, .. } = &mut node.tasks[task] else {
                    return Err("changed what was not held".into());
                };
                let wanted = if *units == ALL { 1 } else { ALL };
                // Who asks for less has given up the rest.
                *units = wanted.min(*units);
                node.changed |= 1 << task;
                node.change = Some((task, wanted));
                let waiter = Call::Change(TaskId(task as u64));
                self.feed(setup, client, Event::Change { hold: hold_of(task), units: wanted, waiter })
            }
            Step::Cancel { client, task } => {
                let node = self.client(client);
                node.tasks[task] = Task::Done;
                node.waiting.retain(|waits| usize::from(*waits) != task);
                self.feed(setup, client, Event::Cancel { task: TaskId(task as u64), granted: None })
            }
            Step::Timer { client } => self.feed(setup, client, Event::Tick),
            Step::Resume => {
                self.paused = None;
                Ok(())
            }
            Step::Pause { client } => {
                self.spent.pauses += 1;
                self.paused = Some(client);
                Ok(())
            }
            Step::Resize => {
                self.resized = true;
                let Some(call) = setup.resizes.and_then(R::resize) else { return Err("cannot be resized".into()) };
                self.execute(setup, &call).map(drop)
            }
            Step::Begin { operation } | Step::LoseOperation { operation } => {
                self.operations[operation].send(self.now);
                Ok(())
            }
            Step::Arrive { operation } => self.arrive(setup, operation, true),
            Step::UnanswerOperation { operation } => self.arrive(setup, operation, false),
            Step::Appear { operation, ghost } => {
                let sent = self.operations[operation].ghosts.swap_remove(ghost);
                self.carry_out(setup, operation, sent).map(drop)
            }
            Step::HauntOperation { operation } | Step::DuplicateOperation { operation } => {
                let (now, operation) = (self.now, &mut self.operations[operation]);
                operation.ghosts.extend(operation.awaited);
                if matches!(step, Step::HauntOperation { .. }) {
                    operation.send(now);
                }
                Ok(())
            }
            Step::Pass => {
                self.now += 1;
                Ok(())
            }
            Step::Deliver { message } => {
                let message = self.net.swap_remove(message);
                self.deliver(setup, &message)
            }
            Step::Hear { client } => self.hear(setup, client),
            Step::Delay { message } => {
                Rc::make_mut(&mut self.net[message]).slow = true;
                Ok(())
            }
            Step::Lose { message } | Step::Unanswer { message } => {
                let message = self.net.swap_remove(message);
                self.breaks(setup, &message);
                Ok(())
            }
            Step::Refuse { message } => {
                Rc::make_mut(&mut self.net[message]).body = Body::Refused;
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
                    std::mem::take(&mut self.net).into_iter().partition(|m| m.client == client && m.body.breaks());
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
                let node = self.client(client);
                // With whatever was on it, perhaps that it was opened.
                (node.stream, node.opening) = (VecDeque::from([Wire::Closed]), false);
                Ok(())
            }
            Step::LosePush { client, at } => {
                self.client(client).stream.remove(at);
                Ok(())
            }
        }
    }

    /// The copy arrives that is waited for. Whoever is not answered, or came too late, sends another one.
    fn arrive(&mut self, setup: &Setup, operation: usize, answers: bool) -> Checked<()> {
        let Some(sent) = self.operations[operation].awaited.take() else { return Err("nothing was sent".into()) };
        let is_done = self.carry_out(setup, operation, sent)?;
        if !is_done || !answers {
            self.operations[operation].send(self.now);
        }
        Ok(())
    }

    /// A copy that was sent then is carried out; whether it was in time.
    fn carry_out(&mut self, setup: &Setup, operation: usize, sent: u32) -> Checked<bool> {
        let not_after = setup.store_time(sent + setup.response_timeout);
        let Some(call) = R::operation(operation, not_after) else {
            return Err("there is nothing to do beside clients".into());
        };
        self.execute(setup, &call)?;
        let is_done = setup.store_time(self.now) <= not_after;
        self.operations[operation].done |= is_done;
        Ok(is_done)
    }

    fn client(&mut self, client: usize) -> &mut Client {
        let client = Rc::make_mut(&mut self.clients[client]);
        client.known = Default::default();
        client
    }

    fn haunt(&mut self, message: &Message<R::Call>) {
        if let Body::Request { call, .. } = &message.body {
            let body = Body::Request { call: call.clone(), ghost: true, wanted: false };
            self.net.push(Rc::new(Message { body, slow: false, ..*message }));
        }
    }

    fn breaks(&mut self, setup: &Setup, message: &Message<R::Call>) {
        // Clocks that may drift apart need a moment more: in ticks, one.
        let void_after = message.sent + setup.response_timeout + 1;
        self.net.push(Rc::new(Message { body: Body::Broken { void_after }, slow: false, ..*message }));
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
        if self.paused == Some(client) {
            self.paused = None;
        }
        let grave = Process::new(part::<R>(setup, client), Inbox::Closed);
        *self.client(client) = Client {
            process: grave,
            tasks: Vec::new(),
            waiting: Vec::new(),
            limits: Vec::new(),
            closed: false,
            extended: 0,
            extension: None,
            changed: 0,
            change: None,
            export: None,
            stream: VecDeque::new(),
            opening: false,
            behind: 0,
            dead: true,
            known: Default::default(),
        };
    }

    fn deliver(&mut self, setup: &Setup, message: &Message<R::Call>) -> Checked<()> {
        let Message { client, slot, id, sent, .. } = *message;
        let sent_at = setup.time(sent);
        match &message.body {
            Body::Request { call, wanted, .. } => {
                let reply = self.execute(setup, call)?;
                if *wanted {
                    self.net.push(Rc::new(Message { body: Body::Reply(reply), slow: false, ..*message }));
                }
                Ok(())
            }
            Body::Reply(reply) => {
                let answer = Answer::Replies(std::slice::from_ref(reply));
                self.feed(setup, client, Event::Answered { slot, id, sent: sent_at, answer })
            }
            Body::Broken { void_after } => {
                let error = Error::new(Kind::Unavailable, "test", "the connection broke");
                let answer = Answer::Unknown { error, void_after: setup.time(*void_after) };
                self.feed(setup, client, Event::Answered { slot, id, sent: sent_at, answer })
            }
            Body::Refused => {
                let answer = Answer::NotSent(Error::new(Kind::Unavailable, "test", "no connection"));
                self.feed(setup, client, Event::Answered { slot, id, sent: sent_at, answer })
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
            Some(Wire::Push(event)) => self.feed(setup, client, Event::Pushed(&event)),
            Some(Wire::Live) => {
                self.client(client).opening = false;
                self.feed_with(setup, client, |process, effects| process.connected(Inbox::Live, effects))
            }
            Some(Wire::Closed) => {
                self.feed_with(setup, client, |process, effects| process.connected(Inbox::Closed, effects))?;
                self.subscribe(client);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn subscribe(&mut self, client: usize) {
        if !std::mem::replace(&mut self.client(client).opening, true) {
            let id = RequestId { attempt: AttemptId(0), op: Op::Acquire, seq: 0 };
            let (slot, sent, slow) = (0, self.now, false);
            self.net.push(Rc::new(Message { client, slot, id, sent, slow, body: Body::Subscribe }));
        }
    }

    fn feed(&mut self, setup: &Setup, client: usize, event: Event<'_, Handles>) -> Checked<()> {
        self.feed_with(setup, client, |process, effects| process.handle(event, effects))
    }

    fn feed_with(
        &mut self,
        setup: &Setup,
        client: usize,
        feed: impl FnOnce(&mut Process, &mut Effects),
    ) -> Checked<()> {
        let mut effects = Effects::at(setup.time(self.now));
        feed(&mut self.client(client).process, &mut effects);
        self.perform(setup, client, effects)?;
        let node = self.client(client);
        for (number, task) in node.tasks.iter_mut().enumerate() {
            if let Task::Holding { until, .. } | Task::Forgotten { until, .. } = task
                && let Some(valid) = node.process.valid_until(hold_of(number))
            {
                *until = valid;
            }
        }
        if let Some(extension) = node.extension
            && !matches!(node.tasks[extension.task], Task::Holding { .. } | Task::Forgotten { .. })
        {
            return Err(format!("{} ends a hold without answering its extension", name_of_client(client)));
        }
        self.check_retracted(client)
    }

    /// Whoever took an export back is through once it is given back, if nothing went wrong.
    fn check_retracted(&self, client: usize) -> Checked<()> {
        let Some(secret) = self.retracted.filter(|secret| process_of(*secret) == client) else { return Ok(()) };
        let is_left = self.store.record.holds().any(|(owner, _)| owner == secret);
        if is_left && self.clients[client].process.is_idle() && self.spent == Spent::NOTHING {
            return Err(format!("{} takes back what it exported, and leaves it", name_of_client(client)));
        }
        Ok(())
    }

    /// Whether a request of the client is under way that may yet make it a party.
    fn may_be_asked(&self, client: usize) -> bool {
        let asks =
            |message: &Message<R::Call>| matches!(message.body, Body::Request { .. }) && message.id.op == Op::Acquire;
        self.net.iter().any(|message| message.client == client && asks(message))
    }

    /// A client is told what became of its attempt, unless nothing of it ever left: that it passed, under that token,
    /// or that it gave up before.
    fn check_told(&self, client: usize, token: Option<u64>) -> Checked<()> {
        let told = token.map_or(Fate::Left, |token| Fate::Passed(Passage::of(Token::new(token))));
        match self.store.record.fate(client) {
            Some(fate) if fate == told => Ok(()),
            None if token.is_none() && !self.may_be_asked(client) => Ok(()),
            fate => Err(format!("{} is told {told:?}; the store says {fate:?}", name_of_client(client))),
        }
    }

    fn perform(&mut self, setup: &Setup, client: usize, effects: Effects) -> Checked<()> {
        for (_, at) in effects.learnt {
            // The store's clock stood at `at` or later: never believe it to be further than it is.
            let age = setup.store_time(self.now).micros_since(at);
            let behind = (age / setup.tick_micros()) as u32;
            let node = self.client(client);
            node.behind = node.behind.min(behind);
        }
        for (hold, reason) in effects.lost {
            self.lost(client, hold.id(), &reason)?;
        }
        for (call, settled) in effects.settled {
            self.settled(setup, client, call, settled)?;
        }
        if effects.open_inbox || effects.hear_hints {
            self.subscribe(client);
        }
        for send in effects.sends {
            self.send(setup, client, send.slot, send.id, &send.requests)?;
        }
        Ok(())
    }

    fn lost(&mut self, client: usize, hold: HoldId, reason: &LossReason) -> Checked<()> {
        let task = &mut self.client(client).tasks[hold.0 as usize];
        match *task {
            Task::Holding { token, .. } => *task = Task::Mourning { token },
            Task::Forgotten { .. } if *reason == LossReason::MaxHold => {
                return Err(format!("{} ends what was forgotten by a limit", name_of_client(client)));
            }
            Task::Forgotten { .. } => *task = Task::Done,
            _ => {}
        }
        Ok(())
    }

    fn settled(&mut self, setup: &Setup, client: usize, call: Call, settled: Settled) -> Checked<()> {
        let who = name_of_client(client);
        match (call, settled) {
            (Call::Acquire(task), Settled::Granted { hold, .. }) => {
                // Where there are none, the order of the grants stands in for tokens.
                let token = match hold.shown() {
                    None if R::BLOCK == 0 => self.store.top() + 1,
                    token => token.ok_or("a grant without a token")?.n,
                };
                self.granted(setup, client, task.0 as usize, token)
            }
            (Call::Acquire(task), Settled::Refused(why)) => self.refused(setup, client, task.0 as usize, &why),
            (Call::Release(task), Settled::Released(outcome)) => {
                self.released(client, task.0 as usize, &outcome)?;
                self.client(client).export.take_if(|(exporter, _)| *exporter as u64 == task.0);
                Ok(())
            }
            (Call::Release(task), Settled::Exported(secret)) => {
                self.released(client, task.0 as usize, &ReleaseOutcome::Released)?;
                let exported = self.client(client).export.take();
                if exported != Some((task.0 as usize, secret)) {
                    return Err(format!("{who} exported something else than was wanted: {exported:?}"));
                }
                self.secret = Some(secret);
                Ok(())
            }
            (Call::Extend(_), Settled::Extended(done)) => self.extended(setup, client, done),
            (Call::Change(_), Settled::Changed(done)) => self.changed(setup, client, done),
            (Call::Nobodys, _) => Ok(()),
            (call, settled) => Err(format!("{who} answers {call:?} with {settled:?}")),
        }
    }

    fn released(&mut self, client: usize, task: usize, outcome: &ReleaseOutcome) -> Checked<()> {
        let node = self.client(client);
        if !matches!(node.tasks[task], Task::Releasing { .. }) {
            let who = name_of_client(client);
            return Err(format!("{who} answers a release ({outcome:?}) of a task that is {:?}", node.tasks[task]));
        }
        node.tasks[task] = Task::Done;
        Ok(())
    }

    fn refused(&mut self, setup: &Setup, client: usize, task: usize, why: &Refusal) -> Checked<()> {
        let who = name_of_client(client);
        let node = &self.clients[client];
        if node.tasks[task] != Task::Waiting {
            return Err(format!("{who} refuses ({why:?}) a task that is {:?}", node.tasks[task]));
        }
        match why {
            Refusal::TimedOut(_) => self.check_gave_up(setup, client, task)?,
            Refusal::Failed(error) => {
                let is_expected = match error.kind() {
                    Kind::NotOwned => setup.clients[client][task].resumes,
                    Kind::Closed => node.closed,
                    _ => setup.loses_patience() || self.is_overdue(client, task),
                };
                if !is_expected {
                    return Err(format!("{who} gives up: {error}"));
                }
                if R::PARTIES > 1 && !setup.loses_patience() {
                    self.check_told(client, None)?;
                }
            }
            Refusal::Taken => return Err(format!("{who} was not to try only")),
        }
        let node = self.client(client);
        node.tasks[task] = Task::Done;
        node.waiting.retain(|waits| usize::from(*waits) != task);
        Ok(())
    }

    /// Whether the time limit of a task passed.
    fn is_overdue(&self, client: usize, task: usize) -> bool {
        self.clients[client].limits[task].is_some_and(|limit| self.now >= limit)
    }

    /// A task is told that its time is over: it is, and no place of it is left, unless the store took too long to
    /// forget it. A party is told so only where it did not pass.
    fn check_gave_up(&self, setup: &Setup, client: usize, task: usize) -> Checked<()> {
        let who = name_of_client(client);
        if !self.is_overdue(client, task) {
            return Err(format!("{who} gives up before its time is over"));
        }
        if R::PARTIES > 1 {
            return self.check_told(client, None);
        }
        // A copy of a request that nobody knows of may take a place when all others are gone.
        if self.spent.faults.contains(&Class::Duplicate) {
            return Ok(());
        }
        let node = &self.clients[client];
        let limit = node.limits[task].map(|limit| setup.time(limit).after(PARTING));
        let is_hurried = limit.is_some_and(|limit| setup.time(self.now) < limit) && node.tasks.len() == 1;
        if is_hurried && self.store.record.line().any(|attempt| process_of(attempt) == client) {
            return Err(format!("{who} gave up, and its place is still there"));
        }
        Ok(())
    }

    fn granted(&mut self, setup: &Setup, client: usize, task: usize, token: u64) -> Checked<()> {
        let who = name_of_client(client);
        let units = setup.role(client).units();
        if R::PARTIES > 1 {
            self.check_told(client, Some(token))?;
        }
        self.give(setup, client, units, token)?;
        let node = self.client(client);
        if node.tasks[task] != Task::Waiting || node.closed {
            return Err(format!("{who} was granted the lock for a task that is {:?}", node.tasks[task]));
        }
        node.tasks[task] = Task::Holding { token, until: Time::ZERO, units };
        let is_fair = |task: u8| {
            let wish = setup.clients[client][usize::from(task)];
            wish.fair || wish.resumes
        };
        let first = node.waiting.iter().position(|waits| !is_fair(*waits));
        let place = node.waiting.iter().position(|waits| usize::from(*waits) == task);
        if !is_fair(task as u8) && place > first {
            return Err(format!("{who} gives the lock to task {task} before one that came first"));
        }
        node.waiting.retain(|waits| usize::from(*waits) != task);
        Ok(())
    }

    /// A task is given `token`, higher than that of anybody it excludes.
    fn give(&mut self, setup: &Setup, client: usize, units: u32, token: u64) -> Checked<()> {
        let top = self.store.top_beside(units, setup.capacity());
        if token <= top {
            let who = name_of_client(client);
            return Err(format!("{who} was given token {token} after token {top} was used"));
        }
        Rc::make_mut(&mut self.store).give(units, token);
        Ok(())
    }

    fn changed(&mut self, setup: &Setup, client: usize, done: bool) -> Checked<()> {
        let who = name_of_client(client);
        let Some((task, wanted)) = self.client(client).change.take() else {
            return Err(format!("{who} answers a change that nobody waits for"));
        };
        let Task::Holding { units, until, .. } = self.clients[client].tasks[task] else { return Ok(()) };
        let writes = setup.time(self.now) < until;
        match self.clients[client].process.shown(hold_of(task)).filter(|_| done) {
            None if wanted < ALL && writes => {
                return Err(format!("{who} may not become a reader, though it writes"));
            }
            Some(token) if wanted == ALL => self.give(setup, client, wanted, token)?,
            _ => {}
        }
        let now = if done { wanted } else { units };
        if let Task::Holding { units, .. } = &mut self.client(client).tasks[task] {
            *units = now;
        }
        Ok(())
    }

    fn extended(&mut self, setup: &Setup, client: usize, done: bool) -> Checked<()> {
        let who = name_of_client(client);
        let node = self.client(client);
        let Some(Extension { task, asked }) = node.extension.take() else {
            return Err(format!("{who} answers an extension that nobody waits for"));
        };
        let Task::Holding { .. } = node.tasks[task] else { return Ok(()) };
        let ttl = setup.tick * setup.clients[client][task].extends.unwrap_or(0);
        let promised = asked.after(ttl).before(margin(ttl));
        if done && node.process.valid_until(hold_of(task)).is_none_or(|until| until < promised) {
            return Err(format!("{who} says that it extended its hold, and did not"));
        }
        Ok(())
    }

    fn send(&mut self, setup: &Setup, client: usize, slot: u64, id: RequestId, requests: &Requests) -> Checked<()> {
        let believed = self.now.saturating_sub(self.clients[client].behind);
        let not_after = setup.store_time(believed + setup.response_timeout);
        for request in requests {
            let mut request = request.clone();
            for arg in &mut request.args {
                if *arg == Arg::NotAfter {
                    *arg = Arg::Int(not_after.0);
                }
            }
            let call = R::read(&request).ok_or_else(|| format!("unreadable request {request}"))?;
            if let Some(ttl) = R::renews(&call) {
                self.check_renewal(setup, client, ttl)?;
            }
            let body = Body::Request { call, ghost: false, wanted: true };
            self.net.push(Rc::new(Message { client, slot, id, sent: self.now, slow: false, body }));
        }
        Ok(())
    }

    /// A hold is renewed for as long as its own task wants, not for as long as an earlier one did.
    fn check_renewal(&self, setup: &Setup, client: usize, ttl: Duration) -> Checked<()> {
        let node = &self.clients[client];
        if node.tasks.iter().all(|task| matches!(task, Task::Forgotten { .. } | Task::Done)) {
            return Err(format!("{} renews a hold that everybody forgot", name_of_client(client)));
        }
        let wishes = setup.clients[client].iter().enumerate();
        let holding = |(t, _): &(usize, &Wish)| matches!(node.tasks[*t], Task::Holding { .. });
        let mut holders = wishes.filter(holding);
        // Several believe to hold only where each contends by itself.
        let (Some((task, wish)), None) = (holders.next(), holders.next()) else { return Ok(()) };
        let extended = wish.extends.filter(|_| node.extended >> task & 1 == 1).map(|ttl| setup.tick * ttl);
        if ttl != setup.service(wish).ttl && Some(ttl) != extended {
            let who = name_of_client(client);
            return Err(format!("{who} renews the hold of task {task} for {ttl:?}, which it never wanted"));
        }
        Ok(())
    }

    /// Runs a call at the store, and checks that what it did may be done.
    fn execute(&mut self, setup: &Setup, call: &R::Call) -> Checked<Reply> {
        let now = setup.store_time(self.now);
        let before = self.store.clone();
        let store = Rc::make_mut(&mut self.store);
        let alive = |inbox: InboxId| before.alive.get(inbox.0 as usize).copied().unwrap_or(false);
        let around = Around { now, top: before.top(), token_floor: 0, alive: &alive };
        let (reply, pushes) = store.record.run(call, &around);
        store.record.check(&before.record, call, &around)?;
        for (inbox, event) in pushes {
            let to = inbox.0 as usize;
            let hears = |client: &Client| !client.dead && client.process.hears(&event);
            if before.alive[to] && self.clients.get(to).is_some_and(|client| hears(client)) {
                self.client(to).stream.push_back(Wire::Push(event));
            }
        }
        Ok(reply)
    }

    /// Nobody believes what the store denies.
    fn check_beliefs(&self, setup: &Setup) -> Checked<()> {
        let now = setup.time(self.now);
        let mut believed = 0_u64;
        for (c, client) in self.clients.iter().enumerate() {
            let who = name_of_client(c);
            for (attempt, until) in client.process.beliefs().filter(|(_, until)| *until > now) {
                let Some(expires) = self.store.record.lasts(&|owner| owner == attempt) else {
                    let attempt = name_of(attempt);
                    return Err(format!("{who} believes that {attempt} holds the lock; the store says it does not"));
                };
                if Time::ZERO.after(Duration::from_micros(expires.0 as u64)) < until {
                    return Err(format!("{who} believes to hold the lock for longer than the store does"));
                }
            }
            for task in &client.tasks {
                if let Some((_, until, units)) = task.believes()
                    && until > now
                {
                    believed += u64::from(units);
                    let until = StoreTime((until.as_nanos() / 1000) as i64);
                    if self.store.record.lasts(&|owner| process_of(owner) == c) < Some(until) {
                        return Err(format!("a task of {who} believes to hold the lock; the store says it does not"));
                    }
                }
            }
        }
        self.check_limits(setup)?;
        if believed > setup.capacity().into() {
            return Err(format!("tasks believe to hold {believed} of {}", setup.capacity()));
        }
        Ok(())
    }

    /// Where everybody is prompt whoever gives up is told so within a tick, whatever the store does.
    fn check_limits(&self, setup: &Setup) -> Checked<()> {
        if !setup.prompt || self.spent.pauses > 0 || R::PARTIES > 1 {
            return Ok(());
        }
        for (c, client) in self.clients.iter().enumerate() {
            let waits = |(task, limit): (&Task, &Option<u32>)| {
                *task == Task::Waiting && limit.is_some_and(|limit| self.now > limit + 1)
            };
            if client.tasks.iter().zip(&client.limits).any(waits) {
                return Err(format!("{} waits on though its time is over", name_of_client(c)));
            }
        }
        Ok(())
    }

    /// Whether every living task got what it is going to get.
    pub fn is_served(&self, setup: &Setup) -> bool {
        // Whoever resumes comes if there is something to resume.
        let may_stay = |client: usize, task: usize| self.secret.is_none() && setup.clients[client][task].resumes;
        let is_served = |(c, client): (usize, &Rc<Client>)| {
            let mut tasks = client.tasks.iter().enumerate();
            tasks.all(|(t, task)| match task {
                Task::Done => true,
                Task::Fresh => may_stay(c, t),
                Task::Waiting => self.is_alone(c),
                _ => false,
            })
        };
        self.clients.iter().enumerate().all(is_served)
    }

    /// Whether it waits for others, and too few are left that may come.
    fn is_alone(&self, client: usize) -> bool {
        let wants = |client: &usize| {
            let mut tasks = self.clients[*client].tasks.iter();
            tasks.any(|task| matches!(task, Task::Fresh | Task::Waiting)) && self.store.record.fate(*client).is_none()
        };
        R::PARTIES > 1 && wants(&client) && (0..self.clients.len()).filter(wants).count() < R::PARTIES
    }

    /// Whether nothing is left of anybody: no session, no message, no live hold, no place in the queue (but of the
    /// dead: they are skipped when their turn comes).
    pub fn is_clean(&self, setup: &Setup) -> bool {
        let now = setup.store_time(self.now);
        self.is_served(setup)
            && self.net.is_empty()
            && self.operations.iter().all(Operation::is_silent)
            && self.clients.iter().all(|client| client.stream.is_empty())
            && self.clients.iter().enumerate().all(|(c, client)| client.process.is_idle() || self.is_alone(c))
            && self.store.record.holds().all(|(_, expires)| expires <= now)
            && self.store.record.line().map(process_of).all(|c| self.clients[c].dead || self.is_alone(c))
    }

    /// A number that states which will behave alike have in common, and no others have.
    ///
    /// Each client is told by what it is, what it wants, and what of the store and the net concerns it: who is called A
    /// does not matter. The order of messages does not matter either: each travels on its own.
    pub fn fingerprint(&self, setup: &Setup) -> u64 {
        let mut view = self.view(setup);
        let mut state = Mix::new();
        self.spent.hash(&mut state);
        for (units, top) in &self.store.tops {
            (units, view.token(*top)).hash(&mut state);
        }
        self.store.record.fingerprint(&view, &mut state);
        let operations = self.operations.iter().fold(0_u64, |sum, operation| {
            let mut one = Mix::new();
            operation.fingerprint(setup, &view, &mut one);
            sum.wrapping_add(one.finish())
        });
        operations.hash(&mut state);
        let exporter = self.exporter();
        (exporter.is_some(), self.retracted.is_some(), self.resized).hash(&mut state);
        let mut all = 0_u64;
        for (c, client) in self.clients.iter().enumerate() {
            view.newest = client.process.minted();
            let mut one = Mix::new();
            let name = if setup.reduced.names { usize::MAX } else { c };
            (name, &setup.clients[c], setup.role(c), self.paused == Some(c), self.store.alive[c]).hash(&mut one);
            client.fingerprint(&view).hash(&mut one);
            self.secret.filter(|_| exporter == Some(c)).map(|secret| view.attempt(secret)).hash(&mut one);
            self.store.record.fingerprint_of(c, &view, &mut one);
            let messages = self.net.iter().filter(|message| message.client == c).fold(0_u64, |sum, message| {
                let mut one = Mix::new();
                message.fingerprint::<R>(client, &view, setup, &mut one);
                sum.wrapping_add(one.finish())
            });
            messages.hash(&mut one);
            all = all.wrapping_add(one.finish());
        }
        all.hash(&mut state);
        state.finish()
    }

    /// Who exported what was told to somebody.
    fn exporter(&self) -> Option<usize> {
        self.secret.map(process_of)
    }

    /// One line for a person.
    pub fn describe(&self, setup: &Setup) -> String {
        let record = self.store.record.describe(setup.store_time(self.now), setup.tick_micros());
        let mut text = format!("    store: {record}");
        for (c, client) in self.clients.iter().enumerate().filter(|(_, client)| !client.dead) {
            let tasks: Vec<String> = client.tasks.iter().map(|task| format!("{task:?}")).collect();
            let sessions = &client.process;
            let paused = if self.paused == Some(c) { " (paused)" } else { "" };
            text += &format!("\n    {}{paused}: {} | {sessions:?}", name_of_client(c), tasks.join(", "));
        }
        text
    }

    /// What `step` is, in words.
    pub fn explain(&self, setup: &Setup, step: Step) -> String {
        let message = |i: usize| self.net[i].describe::<R>(setup);
        let client = name_of_client;
        match step {
            Step::Start { client: c, task, limit: None } => format!("{}'s task {task} wants the lock", client(c)),
            Step::Start { client: c, task, limit: Some(limit) } => {
                format!("{}'s task {task} wants the lock within {limit} ticks", client(c))
            }
            Step::Release { client: c, task } => format!("{}'s task {task} releases", client(c)),
            Step::Extend { client: c, task } => format!("{}'s task {task} extends its hold", client(c)),
            Step::Export { client: c, task } => format!("{}'s task {task} exports its hold", client(c)),
            Step::Change { client: c, task } => {
                format!("{}'s task {task} asks for more of the lock, or less", client(c))
            }
            Step::Take { client: c, task } => format!("{}'s task {task} resumes what was exported", client(c)),
            Step::Retract => "what was exported is taken back".into(),
            Step::Forget { client: c, task } => format!("{}'s task {task} forgets its hold", client(c)),
            Step::Close { client: c } => format!("{} is closed", client(c)),
            Step::Cancel { client: c, task } => format!("{}'s task {task} gives up", client(c)),
            Step::Timer { client: c } => format!("{}'s timer", client(c)),
            Step::Deliver { message: m } => message(m),
            Step::Hear { client: c } => match self.clients[c].stream.front() {
                Some(Wire::Push(StoreEvent::Granted { attempt, at, .. })) => {
                    let age = setup.store_time(self.now).micros_since(*at) / setup.tick_micros();
                    format!("{} hears the push for {} of {age} ticks ago", client(c), name_of(*attempt))
                }
                other => format!("{} hears {other:?}", client(c)),
            },
            Step::Resume => format!("{} runs again", client(self.paused.unwrap_or_default())),
            Step::Resize => format!("it is resized to {} units", setup.resizes.unwrap_or_default()),
            Step::Begin { operation } => format!("count-down {operation} is sent"),
            Step::Arrive { operation } => format!("count-down {operation} arrives and is answered"),
            Step::Appear { operation, .. } => format!("a copy of count-down {operation} arrives that nobody waits for"),
            Step::LoseOperation { operation } => format!("FAULT count-down {operation} is lost, and sent again"),
            Step::HauntOperation { operation } => {
                format!("FAULT count-down {operation} may still arrive, and is sent again")
            }
            Step::UnanswerOperation { operation } => {
                format!("FAULT count-down {operation} arrives, its answer is lost, it is sent again")
            }
            Step::DuplicateOperation { operation } => format!("FAULT count-down {operation} arrives twice"),
            Step::Pass => "a tick passes".into(),
            Step::Pause { client: c } => format!("PAUSE of {}", client(c)),
            Step::Delay { message: m } => format!("FAULT takes its time: {}", message(m)),
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

impl Client {
    /// Whether nothing can happen to it any more, or yet.
    fn is_through(&self) -> bool {
        self.tasks.iter().all(|task| matches!(task, Task::Done | Task::Fresh)) && self.process.is_idle()
    }

    fn fingerprint(&self, view: &View) -> u64 {
        match self.known.get() {
            Some((now, last, fingerprint)) if (now, last) == (view.now, view.last) => fingerprint,
            _ => {
                let mut state = Mix::new();
                self.feed(view, &mut state);
                self.known.set(Some((view.now, view.last, state.finish())));
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
                Wire::Push(StoreEvent::Changed { path }) => match attempt_of(path) {
                    Some(attempt) => (3_u8, view.attempt(attempt)).hash(state),
                    None => path.hash(state),
                },
                Wire::Push(StoreEvent::Next { tail }) => (4_u8, view.attempt(AttemptId((*tail).into()))).hash(state),
                Wire::Push(other) => other.hash(state),
            }
        }
        for task in &self.tasks {
            match task {
                Task::Fresh => 1_u8.hash(state),
                Task::Waiting => 2_u8.hash(state),
                Task::Holding { token, until, units } => {
                    (3_u8, view.token(*token), view.ahead(*until), units).hash(state);
                }
                Task::Mourning { token } => (4_u8, view.token(*token)).hash(state),
                Task::Releasing { token } => (5_u8, view.token(*token)).hash(state),
                Task::Done => 6_u8.hash(state),
                Task::Forgotten { token, until } => (7_u8, view.token(*token), view.ahead(*until)).hash(state),
            }
        }
        (&self.waiting, self.extended, self.closed).hash(state);
        self.extension.map(|extension| (extension.task, view.ago(extension.asked))).hash(state);
        (self.changed, self.change).hash(state);
        self.export.map(|(task, secret)| (task, view.attempt(secret))).hash(state);
        self.process.fingerprint(view, state);
    }
}

impl<C: Clone> Message<C> {
    fn fingerprint<R: Record<Call = C>>(&self, client: &Client, view: &View, setup: &Setup, state: &mut Mix) {
        if let Body::Subscribe = self.body {
            return 1_u8.hash(state);
        }
        (self.slow, view.attempt(self.id.attempt), self.id.op).hash(state);
        let sent = setup.time(self.sent);
        match &self.body {
            Body::Request { wanted: false, ghost, .. } => (2_u8, ghost).hash(state),
            // Which contender it is of matters only to one that waits for it.
            _ => client.process.awaited_by(self.slot, self.id).hash(state),
        }
        match &self.body {
            Body::Request { call, .. } => {
                3_u8.hash(state);
                R::fingerprint_call(call, sent, view, state);
            }
            Body::Reply(reply) => {
                4_u8.hash(state);
                R::fingerprint_reply(self.id.op, reply, sent, client.behind > 0, view, state);
            }
            Body::Broken { void_after } => (5_u8, view.ahead(setup.time(*void_after))).hash(state),
            Body::Refused => 6_u8.hash(state),
            Body::Subscribe => {}
        }
    }

    fn describe<R: Record<Call = C>>(&self, setup: &Setup) -> String {
        let client = name_of_client(self.client);
        let asked = format!("{:?} of {}", self.id.op, name_of(self.id.attempt)).to_lowercase();
        match &self.body {
            Body::Request { call, wanted, .. } => {
                let ghost = if !*wanted { " (nobody waits for its reply)" } else { "" };
                format!("store executes [{}] sent at tick {}{ghost}", R::explain(call), self.sent)
            }
            Body::Reply(reply) => {
                let told = R::explain_reply(reply, setup.tick_micros(), EPOCH.into());
                format!("{client} reads the reply to [{asked}]: {told}")
            }
            Body::Broken { .. } => format!("{client} learns that the connection of [{asked}] broke"),
            Body::Refused => format!("{client} learns that [{asked}] was not sent"),
            Body::Subscribe => format!("store subscribes {client}"),
        }
    }
}
