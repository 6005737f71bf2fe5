//! Everything that can be: clients, each with the shipped machine, the nodes, and what is on its way between them.

use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lockwright_machines::cell_layout;
use lockwright_machines::error::{Error, Kind};
use lockwright_machines::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use lockwright_machines::lease::ReleaseOutcome;
use lockwright_machines::machine::Event;
use lockwright_machines::options::Retry;
use lockwright_machines::protocol::{Arg, AttemptId, Call as Procedure, Layout, Protocol, Reply, Request};
use lockwright_machines::queue::{Ask, HoldId, TaskId};
use lockwright_machines::quorum::{Leases, Marker, Member, QuorumLayout, majority};
use lockwright_machines::rank::Rank;
use lockwright_machines::session::{Answer, Inbox, RequestId, Service};
use lockwright_machines::stores::redis::layouts::string;
use lockwright_machines::stores::redis::layouts::tokenless::TokenlessLayout;
use lockwright_machines::time::Time;

use crate::node::Node;
use crate::process::{Call, Effects, Part, Process, Settled};
use crate::setup::{CLIENTS, Fault, LATE, MAX_TTL, NODES, STORE_TIMEOUT, Setup, TICK, TTL};
use crate::view::{Mix, View};

/// Where all clocks begin: for longer than that nothing was.
const EPOCH: u32 = 100;

const TASK: TaskId = TaskId(0);
const HOLD: HoldId = HoldId(0);

static MARK: Procedure = Procedure { name: "mark", body: &[], batch: false };

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Task {
    Wanting,
    Holding,
    GivingBack,
    Over,
}

/// One write: what each node is asked in turn, and what it answered.
#[derive(Clone, Debug)]
struct Flight {
    slot: u64,
    id: RequestId,
    sent: u32,
    asked: Vec<(usize, Request, Option<Reply>)>,
}

impl Flight {
    fn next(&self, node: usize) -> Option<usize> {
        self.asked.iter().position(|(at, _, reply)| *at == node && reply.is_none())
    }
}

/// What was lost on its way, and may be executed yet.
#[derive(Clone, Debug)]
struct Ghost {
    client: usize,
    node: usize,
    /// None of what is executed however late it comes.
    until: Option<u32>,
    requests: Vec<Request>,
}

#[derive(Clone, Debug)]
struct Client {
    process: Process,
    task: Task,
    flights: Vec<Flight>,
}

impl Client {
    fn due(&self) -> Option<u32> {
        Some(self.process.due()?.as_nanos().div_ceil(TICK.as_nanos() as u64) as u32)
    }

    fn is_over(&self) -> bool {
        self.task == Task::Over && self.process.is_idle()
    }
}

#[derive(Clone, Debug)]
pub struct World {
    now: u32,
    clients: Vec<Rc<Client>>,
    nodes: Vec<Node>,
    ghosts: Vec<Ghost>,
    /// What may go wrong yet, and how often.
    faults: Vec<(Fault, u8)>,
    /// For how long somebody waits.
    limit: u32,
    /// Whether a write reaches the nodes in their order.
    ordered: bool,
    /// Something befell a node or a message.
    is_hurt: bool,
    wrong: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub enum Move {
    /// A node executes the next of what it was asked in a write.
    Execute {
        client: usize,
        flight: usize,
        node: usize,
    },
    /// All nodes answered a write, or will not.
    Hear {
        client: usize,
        flight: usize,
    },
    Wake(usize),
    GiveBack(usize),
    /// A tick passes; `waits` where somebody could do something meanwhile.
    Pass {
        waits: bool,
    },
    ExecuteLate(usize),
    Lose {
        client: usize,
        flight: usize,
        node: usize,
        is_try: bool,
    },
    Restart {
        node: usize,
        keeps: bool,
    },
    Flush(usize),
    Step(usize),
    Cancel(usize),
}

impl Move {
    /// Whether it comes by itself in the end.
    pub fn is_due(self) -> bool {
        self.fault().is_none() && !matches!(self, Move::ExecuteLate(_) | Move::Pass { waits: true })
    }

    fn fault(self) -> Option<Fault> {
        Some(match self {
            Move::Lose { is_try: false, .. } => Fault::Loss,
            Move::Lose { is_try: true, .. } => Fault::LateTry,
            Move::Restart { .. } => Fault::Restart,
            Move::Flush(_) => Fault::Flush,
            Move::Step(_) => Fault::Step,
            Move::Cancel(_) => Fault::Cancel,
            _ => return None,
        })
    }
}

pub fn time(tick: u32) -> Time {
    Time::ZERO.after(TICK * tick)
}

fn guarantees() -> Guarantees {
    Guarantees {
        store: "test",
        layout: "native",
        exclusive_until: ExclusiveUntil::StoreFailover,
        token: TokenRises::Never,
        fair: false,
        reentrant: true,
        shared: true,
        push: false,
        survives_disconnect: true,
        incarnation: true,
        notes: &[],
    }
}

fn speaks() -> Box<dyn Protocol> {
    machine(|| Arc::new(cell_layout::layout("", guarantees)))
}

fn speaks_without_tokens() -> Box<dyn Protocol> {
    machine(|| Arc::new(TokenlessLayout { of: string::FAMILY.layout(&string::REDIS_PY, "") }))
}

fn machine(layout: fn() -> Arc<dyn Layout>) -> Box<dyn Protocol> {
    let member = |number| Member {
        address: format!("node{number}").into(),
        layout: layout(),
        marker: Marker { call: &MARK, key: "marker".into() },
    };
    let leases = Leases { max_ttl: TICK * MAX_TTL, node_timeout: TICK / 4 };
    let fenced = Arc::new(AtomicBool::new(false));
    QuorumLayout::new((0..NODES).map(member).collect(), leases, fenced).expect("three nodes").protocol("L".into())
}

impl World {
    pub fn new(setup: &Setup) -> Self {
        let client = |id| {
            let store_timeout = TICK * STORE_TIMEOUT;
            let speaks = if setup.tokenless { speaks_without_tokens } else { speaks };
            let part = Part { id: id as u8, salt: 0, speaks, store_timeout, shares: false };
            Rc::new(Client { process: Process::new(part, Inbox::Closed), task: Task::Wanting, flights: Vec::new() })
        };
        let mut world = World {
            now: EPOCH,
            clients: (0..CLIENTS).map(client).collect(),
            nodes: vec![Node::new(EPOCH, setup.tokenless); NODES],
            ghosts: Vec::new(),
            faults: setup.faults.clone(),
            limit: setup.limit,
            ordered: setup.ordered,
            is_hurt: false,
            wrong: None,
        };
        for who in 0..CLIENTS {
            let retry = Retry { min: TICK, max: TICK };
            let service = Service { ttl: TICK * TTL, renew: true, max_hold: None, retry };
            let (rank, deadline) = (Rank::LOWEST, Some(time(EPOCH + setup.limit)));
            let ask = Ask { task: TASK, owner: None, fair: false, rank, tries: false, deadline, service };
            world.step(who, |process, effects| process.acquire(ask, None, effects));
        }
        world
    }

    fn client(&mut self, who: usize) -> &mut Client {
        Rc::make_mut(&mut self.clients[who])
    }

    fn may(&self, fault: Fault) -> bool {
        self.faults.iter().any(|(known, left)| *known == fault && *left > 0)
    }

    /// Whether something may go wrong with this node by itself.
    fn may_befall(&self, node: usize) -> bool {
        let is_for_late_tries = self.faults.iter().any(|(known, _)| *known == Fault::LateTry);
        !is_for_late_tries || self.ghosts.iter().any(|ghost| ghost.node == node)
    }

    /// Nothing comes before anything else.
    pub fn patience(&self, _: Move) -> u8 {
        0
    }

    pub fn moves(&self) -> Vec<Move> {
        let mut moves: Vec<_> = self.at_once().into_iter().collect();
        if moves.is_empty() {
            for (client, of) in self.clients.iter().enumerate() {
                for (flight, asked) in of.flights.iter().enumerate() {
                    let open = (0..NODES).filter(|node| asked.next(*node).is_some());
                    let at_a_time = if self.ordered { 1 } else { NODES };
                    moves.extend(open.take(at_a_time).map(|node| Move::Execute { client, flight, node }));
                }
                moves.extend((of.task == Task::Holding).then_some(Move::GiveBack(client)));
            }
            self.pass(&mut moves);
            moves.extend((0..self.ghosts.len()).map(Move::ExecuteLate));
        }
        self.add_faults(&mut moves);
        moves
    }

    /// What a client does as soon as it can. Nobody else sees when: what it sends then may be on its way for long.
    fn at_once(&self) -> Option<Move> {
        let heard = |flight: &Flight| flight.asked.iter().all(|(.., reply)| reply.is_some());
        self.clients.iter().enumerate().find_map(|(client, of)| {
            let hears = of.flights.iter().position(heard).map(|flight| Move::Hear { client, flight });
            hears.or_else(|| of.due().filter(|due| *due <= self.now).map(|_| Move::Wake(client)))
        })
    }

    /// Messages and clients are prompt: a tick passes once nothing is to be done, but for what a task may do when it
    /// likes.
    fn pass(&self, moves: &mut Vec<Move>) {
        let is_free = |what: &Move| matches!(what, Move::GiveBack(_));
        let is_over = self.clients.iter().all(|client| client.is_over());
        if moves.iter().all(is_free) && !is_over {
            moves.push(Move::Pass { waits: !moves.is_empty() });
        }
    }

    fn add_faults(&self, moves: &mut Vec<Move>) {
        let mut add = |fault, what: Vec<Move>| moves.extend(what.into_iter().filter(|_| self.may(fault)));
        for (client, of) in self.clients.iter().enumerate() {
            for (flight, asked) in of.flights.iter().enumerate() {
                let open = (0..NODES).filter(|node| asked.next(*node).is_some());
                let lose = |is_try| move |node| Move::Lose { client, flight, node, is_try };
                let tries = |node: &usize| asked.next(*node).is_some_and(|at| asked.asked[at].1.call.name == "set");
                let late = open.clone().filter(|node| client == 0 && tries(node));
                add(Fault::LateTry, late.map(lose(true)).collect());
                add(Fault::Loss, open.map(lose(false)).collect());
            }
            add(Fault::Cancel, (of.task == Task::Wanting).then_some(Move::Cancel(client)).into_iter().collect());
        }
        for node in (0..NODES).filter(|node| self.may_befall(*node)) {
            add(Fault::Restart, vec![Move::Restart { node, keeps: false }, Move::Restart { node, keeps: true }]);
            add(Fault::Flush, vec![Move::Flush(node)]);
            add(Fault::Step, vec![Move::Step(node)]);
        }
    }

    pub fn go(&mut self, what: Move) {
        if let Some(fault) = what.fault() {
            self.faults.iter_mut().filter(|(known, _)| *known == fault).for_each(|(_, left)| *left -= 1);
            self.is_hurt |= fault != Fault::Cancel;
        }
        match what {
            Move::Execute { client, flight, node } => self.execute(client, flight, node),
            Move::Hear { client, flight } => self.hear(client, flight),
            Move::Wake(who) => self.step(who, |process, effects| process.handle(Event::Tick, effects)),
            Move::GiveBack(who) => {
                self.client(who).task = Task::GivingBack;
                self.step(who, |process, effects| {
                    let event = Event::Release { hold: HOLD, token: None, waiter: Call::Release(TASK) };
                    process.handle(event, effects);
                });
            }
            Move::Pass { .. } => {
                self.now += 1;
                let now = self.now;
                self.ghosts.retain(|ghost| ghost.until.is_none_or(|until| until >= now));
            }
            Move::ExecuteLate(which) => {
                let Ghost { node, requests, .. } = self.ghosts.remove(which);
                requests.iter().for_each(|request| drop(self.nodes[node].execute(self.now, request)));
            }
            Move::Lose { client, flight, node, .. } => {
                let requests = self.silence(client, flight, node);
                let sent = self.clients[client].flights[flight].sent;
                let knows_no_end = requests.iter().any(|request| request.call.name == "set");
                let until = (!knows_no_end).then_some(sent + LATE);
                self.ghosts.push(Ghost { client, node, until, requests });
            }
            Move::Restart { node, keeps } => {
                self.nodes[node].restart(keeps);
                self.ghosts.retain(|ghost| ghost.node != node);
                for client in 0..CLIENTS {
                    for flight in 0..self.clients[client].flights.len() {
                        self.silence(client, flight, node);
                    }
                }
            }
            Move::Flush(node) => self.nodes[node].flush(),
            Move::Step(node) => self.nodes[node].step(MAX_TTL),
            Move::Cancel(who) => {
                self.client(who).task = Task::Over;
                self.step(who, |process, effects| process.handle(Event::Cancel { task: TASK, granted: None }, effects));
            }
        }
    }

    /// A node is asked one thing after the other on one connection, and may be emptied in between.
    fn execute(&mut self, client: usize, flight: usize, node: usize) {
        let now = self.now;
        while let Some(at) = self.clients[client].flights[flight].next(node) {
            let (_, request, _) = self.clients[client].flights[flight].asked[at].clone();
            let reply = self.nodes[node].execute(now, &request);
            self.client(client).flights[flight].asked[at].2 = Some(reply);
            if self.may(Fault::Flush) && self.may_befall(node) {
                break;
            }
        }
    }

    /// What a node was asked in a write and has not executed has no answer.
    fn silence(&mut self, client: usize, flight: usize, node: usize) -> Vec<Request> {
        let mut lost = Vec::new();
        while let Some(at) = self.clients[client].flights[flight].next(node) {
            let (_, request, reply) = &mut self.client(client).flights[flight].asked[at];
            *reply = Some(Reply::Silent);
            lost.push(request.clone());
        }
        lost
    }

    fn hear(&mut self, client: usize, flight: usize) {
        let Flight { slot, id, sent, asked } = self.client(client).flights.remove(flight);
        let replies: Vec<_> = asked.into_iter().filter_map(|(.., reply)| reply).collect();
        let void_after = replies.contains(&Reply::Silent).then(|| time(sent + LATE));
        let answer = match void_after {
            None => Answer::Replies(&replies),
            // Where nobody answered it is as if there were one node.
            Some(void_after) if replies.iter().all(|reply| *reply == Reply::Silent) => {
                Answer::Unknown { error: Error::new(Kind::Unavailable, "acquire", "no node answers"), void_after }
            }
            Some(_) => Answer::Partly { replies: &replies, void_after },
        };
        let event = Event::Answered { slot, id, sent: time(sent), answer };
        self.step(client, |process, effects| process.handle(event, effects));
    }

    /// Tells a client's machine something, and does what it wants.
    fn step(&mut self, who: usize, told: impl FnOnce(&mut Process, &mut Effects)) {
        let sent = self.now;
        let mut effects = Effects::at(time(sent));
        told(&mut self.client(who).process, &mut effects);
        for send in effects.sends {
            let asked = send.requests.into_iter().map(|request| self.addressed(request)).collect();
            self.client(who).flights.push(Flight { slot: send.slot, id: send.id, sent, asked });
        }
        let lost = !effects.lost.is_empty();
        for (call, settled) in effects.settled {
            self.settled(who, call, settled);
        }
        if lost {
            let (is_hurt, client) = (self.is_hurt, self.client(who));
            let wrong = match client.task {
                Task::Holding => (!is_hurt).then(|| "it is lost, and nothing befell it".to_owned()),
                task => Some(format!("{task:?} loses it")),
            };
            client.task = Task::Over;
            self.wrong = self.wrong.take().or(wrong);
        }
    }

    /// A request as it leaves: for which node, and until when that may execute it.
    fn addressed(&self, mut request: Request) -> (usize, Request, Option<Reply>) {
        let node = usize::from(request.node().expect("each request is for a node").0);
        request.args.pop();
        let not_after = Arg::Int(self.nodes[node].not_after(self.now, LATE));
        request.args.iter_mut().filter(|arg| **arg == Arg::NotAfter).for_each(|arg| *arg = not_after.clone());
        (node, request, None)
    }

    fn settled(&mut self, who: usize, call: Call, settled: Settled) {
        let (is_hurt, now, limit, client) = (self.is_hurt, self.now, self.limit, self.client(who));
        let wrong = match (client.task, call, settled) {
            (Task::Wanting, Call::Acquire(_), Settled::Granted { .. }) => {
                client.task = Task::Holding;
                let is_over = client.process.valid_until(HOLD).is_none_or(|until| until <= time(now));
                is_over.then(|| "what it is granted is over".to_owned())
            }
            (Task::Wanting, Call::Acquire(_), Settled::Refused(why)) => {
                client.task = Task::Over;
                (now < EPOCH + limit).then(|| format!("it is refused before its time is over: {why:?}"))
            }
            (Task::GivingBack, Call::Release(_), Settled::Released(outcome)) => {
                client.task = Task::Over;
                let may = matches!(outcome, ReleaseOutcome::Released | ReleaseOutcome::Unknown) || is_hurt;
                (!may).then(|| format!("what it gave back was not its own, and nothing befell it: {outcome:?}"))
            }
            (task, call, settled) => Some(format!("{task:?} hears {settled:?} to {call:?}")),
        };
        self.wrong = self.wrong.take().or(wrong);
    }

    /// Who believes to hold it now, and until when.
    fn believers(&self) -> Vec<(AttemptId, Time)> {
        let now = time(self.now);
        self.clients.iter().flat_map(|client| client.process.beliefs()).filter(|(_, until)| *until > now).collect()
    }

    /// What is wrong here, if something is.
    pub fn check(&self) -> Result<(), String> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        let believers = self.believers();
        if believers.len() > 1 {
            return Err(format!("several hold it: {believers:?}"));
        }
        for (owner, until) in believers {
            let keep = self.nodes.iter().filter(|node| node.keeps(owner, until)).count();
            if keep < majority(NODES) {
                return Err(format!("another may hold it before {owner:?} knows that it is over: {:?}", self.nodes));
            }
        }
        let is_quiet = !self.moves().into_iter().any(Move::is_due);
        let is_over = self.clients.iter().all(|client| client.is_over());
        let is_left = !self.is_hurt && self.nodes.iter().any(|node| node.is_held(self.now));
        match () {
            () if is_quiet && !is_over => Err("it stands still".to_owned()),
            () if is_quiet && is_left => Err("something is left".to_owned()),
            () => Ok(()),
        }
    }

    fn view(&self, client: &Client) -> View {
        let (now, tick) = (time(self.now).as_nanos(), TICK.as_nanos() as u64);
        let horizon = u64::from(STORE_TIMEOUT + TTL);
        // Tokens do not matter here: all are alike.
        View { now, tick, horizon, last: 0, block: 0, newest: client.process.minted() }
    }

    pub fn fingerprint(&self) -> u64 {
        let mut state = Mix::new();
        let views: Vec<_> = self.clients.iter().map(|client| self.view(client)).collect();
        for (client, view) in self.clients.iter().zip(&views) {
            client.process.fingerprint(view, &mut state);
            (client.task, client.flights.len()).hash(&mut state);
            for Flight { slot, id, sent, asked } in &client.flights {
                (client.process.awaited_by(*slot, *id), id.op, self.now - sent).hash(&mut state);
                asked.iter().for_each(|(node, request, reply)| self.hash_asked(*node, request, reply, &mut state));
            }
        }
        self.nodes.iter().for_each(|node| node.fingerprint(self.now, &views, &mut state));
        self.ghosts.len().hash(&mut state);
        for Ghost { client, node, until, requests } in &self.ghosts {
            (client, until.map(|until| until - self.now)).hash(&mut state);
            requests.iter().for_each(|request| self.hash_asked(*node, request, &None, &mut state));
        }
        let left: Vec<_> = self.faults.iter().map(|(_, left)| *left).collect();
        (left, self.is_hurt, self.wrong.is_some()).hash(&mut state);
        state.finish()
    }

    /// Tokens do not matter, and times only as far as they are ahead.
    fn hash_asked(&self, node: usize, request: &Request, reply: &Option<Reply>, state: &mut Mix) {
        (node, request.call.name).hash(state);
        match reply {
            Some(Reply::Int(_)) if request.call.name == "acquire" => 1_u8.hash(state),
            Some(Reply::List(list)) => match &list[..] {
                [Reply::Int(kind), Reply::Int(_), Reply::Int(left), ..] => (2_u8, kind, left).hash(state),
                [Reply::Int(kind), Reply::Int(_)] => (3_u8, kind).hash(state),
                other => other.hash(state),
            },
            other => other.hash(state),
        }
    }

    /// What a move does, in words.
    pub fn explain(&self, what: Move) -> String {
        let request = match what {
            Move::Execute { client, flight, node } => {
                let of = &self.clients[client].flights[flight];
                of.next(node).map(|at| of.asked[at].1.to_string())
            }
            Move::ExecuteLate(which) => self.ghosts[which].requests.first().map(Request::to_string),
            _ => None,
        };
        format!("{:>3}  {what:?} {}", self.now - EPOCH, request.unwrap_or_default())
    }
}
