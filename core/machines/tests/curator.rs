//! Everything that can happen to two contenders for one lock of Curator's, on a server with sessions: every
//! order in which requests are executed and answers and watches arrive, connections that are lost and sessions that end
//! at any time, and whoever gives up.
//!
//! A contender here is the machine alone, with as much of a session's care as it needs: what failed is asked again
//! under the same attempt, what was granted to a request that left before its session ended is too old, and what is
//! given up is undone until nothing is on its way any more. A holder does not believe longer than its session lives:
//! the driver's deadline comes before.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::time::Duration;

use lockwright_machines::protocol::{
    AttemptId, InboxId, Input, Intent, Op, Protocol, Reply, Request, Step, StoreEvent, Terms, Verdict,
};
use lockwright_machines::stores::zookeeper::layouts::curator::Curator;

const DIR: &str = "/lk";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Task {
    Asking,
    Waiting,
    Holding,
    GivingBack,
    Undoing,
    Over,
}

/// The requests of one step, and what of their answers has come.
#[derive(Clone, Debug, Hash)]
struct Flight {
    op: Op,
    asked: usize,
    replies: Vec<Reply>,
}

#[derive(Clone, Debug, Hash)]
enum Heard {
    Reply(Op, Reply),
    Event(StoreEvent),
}

#[derive(Clone, Debug, Hash)]
struct Client {
    machine: Curator,
    task: Task,
    session: i64,
    is_alive: bool,
    /// Its session ended after the last acquire was begun.
    is_late: bool,
    flights: Vec<Flight>,
    /// Sent and not executed.
    pending: Vec<(Op, Request)>,
    /// Said by the server, and still on its way.
    heard: Vec<Heard>,
}

/// What may go wrong yet.
#[derive(Clone, Copy, Debug, Hash)]
struct Faults {
    losses: u8,
    expiries: u8,
    leaves: u8,
    cancels: u8,
}

/// A session whose client took another one: it lives until the server notices, and what it sent may be executed until
/// then.
#[derive(Clone, Debug, Hash)]
struct Left {
    session: i64,
    client: usize,
    pending: Vec<Request>,
}

#[derive(Clone, Debug, Hash)]
struct World {
    clients: Vec<Client>,
    faults: Faults,
    has_dir: bool,
    /// By path: czxid, and whose session keeps it.
    nodes: BTreeMap<String, (i64, i64)>,
    watches: BTreeSet<(String, usize)>,
    left: Vec<Left>,
    sequence: u32,
    zxid: i64,
    sessions: i64,
    /// The highest token of a holder.
    token: u64,
}

#[derive(Clone, Copy, Debug)]
enum Move {
    Execute(usize),
    Hear(usize),
    Notice(usize),
    GiveBack(usize),
    Lose(usize),
    Expire(usize),
    Leave(usize),
    ExecuteLate(usize),
    Reap(usize),
    Cancel(usize),
}

impl Move {
    /// Whether it comes by itself in the end.
    fn is_due(self) -> bool {
        !matches!(self, Move::Lose(_) | Move::Expire(_) | Move::Leave(_) | Move::ExecuteLate(_) | Move::Cancel(_))
    }
}

fn terms(client: usize) -> Terms {
    let (name, card, second) = ("lk".into(), "".into(), Duration::from_secs(1));
    let attempt = AttemptId(client as u128 + 1);
    Terms { name, attempt, inbox: InboxId(1), ttl: second, claim: second, card, fair: false }
}

fn error(code: &str) -> Reply {
    Reply::Error { code: code.into(), message: String::new() }
}

impl World {
    fn new(clients: usize, faults: Faults) -> Self {
        let client = |session| Client {
            machine: Curator::new(DIR.into()),
            task: Task::Asking,
            session,
            is_alive: true,
            is_late: false,
            flights: Vec::new(),
            pending: Vec::new(),
            heard: Vec::new(),
        };
        let sessions = clients as i64;
        let clients = (1..=sessions).map(client).collect();
        let (nodes, watches, left) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        let mut world =
            World { clients, faults, has_dir: false, nodes, watches, left, sequence: 0, zxid: 100, sessions, token: 0 };
        (0..world.clients.len()).for_each(|who| world.acquire(who));
        world
    }

    fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        for (who, client) in self.clients.iter().enumerate() {
            let mut may = |can: bool, what: Move| moves.extend(can.then_some(what));
            may(client.is_alive && !client.pending.is_empty(), Move::Execute(who));
            may(!client.heard.is_empty(), Move::Hear(who));
            may(!client.is_alive, Move::Notice(who));
            may(client.task == Task::Holding, Move::GiveBack(who));
            let is_up = client.is_alive && client.task != Task::Over;
            may(is_up && self.faults.losses > 0, Move::Lose(who));
            may(is_up && self.faults.expiries > 0, Move::Expire(who));
            may(is_up && self.faults.leaves > 0, Move::Leave(who));
            let wants = matches!(client.task, Task::Asking | Task::Waiting);
            may(wants && self.faults.cancels > 0, Move::Cancel(who));
        }
        for (which, left) in self.left.iter().enumerate() {
            moves.extend((!left.pending.is_empty()).then_some(Move::ExecuteLate(which)));
            moves.push(Move::Reap(which));
        }
        moves
    }

    fn go(&mut self, what: Move) {
        match what {
            // What changes and tells nothing makes no difference by when it is done.
            Move::Execute(who) => loop {
                let (op, request) = self.clients[who].pending.remove(0);
                let session = self.clients[who].session;
                let reply = self.execute(who, session, &request);
                self.clients[who].heard.push(Heard::Reply(op, reply));
                if request.call.name != "sync" || self.clients[who].pending.is_empty() {
                    break;
                }
            },
            Move::Hear(who) => while !self.clients[who].heard.is_empty() && !self.hear(who) {},
            Move::Notice(who) => self.renew_session(who, "SessionExpired"),
            Move::Leave(who) => {
                self.faults.leaves -= 1;
                let client = &mut self.clients[who];
                client.is_late = true;
                let pending = client.pending.drain(..).map(|(_, request)| request).collect();
                self.left.push(Left { session: client.session, client: who, pending });
                if client.task == Task::Holding {
                    self.undo(who);
                }
                self.renew_session(who, "ConnectionLoss");
            }
            Move::ExecuteLate(which) => {
                let Left { session, client, .. } = self.left[which];
                let request = self.left[which].pending.remove(0);
                // Nobody would be told.
                if request.call.name != "watch" {
                    self.execute(client, session, &request);
                }
            }
            Move::Reap(which) => {
                let Left { session, .. } = self.left.remove(which);
                self.end(session);
            }
            Move::GiveBack(who) => {
                self.clients[who].task = Task::GivingBack;
                let token = self.token;
                self.begin(who, Intent::Release { terms: terms(who), used: token });
            }
            Move::Lose(who) => {
                self.faults.losses -= 1;
                self.cut(who, "ConnectionLoss");
            }
            Move::Expire(who) => {
                self.faults.expiries -= 1;
                let session = self.clients[who].session;
                let client = &mut self.clients[who];
                (client.is_alive, client.is_late) = (false, true);
                client.pending.clear();
                self.watches.retain(|(_, watcher)| *watcher != who);
                self.end(session);
                if self.clients[who].task == Task::Holding {
                    // Lost, at the latest now.
                    self.undo(who);
                }
            }
            Move::Cancel(who) => {
                self.faults.cancels -= 1;
                self.undo(who);
            }
        }
    }

    /// Takes the next of what the server said; whether the machine was told something.
    fn hear(&mut self, who: usize) -> bool {
        match self.clients[who].heard.remove(0) {
            Heard::Event(event) => {
                let step = self.clients[who].machine.step(Input::Event(&event));
                self.follow(who, Op::Acquire, step);
            }
            Heard::Reply(op, reply) => {
                let flights = &mut self.clients[who].flights;
                let at = flights.iter().position(|flight| flight.op == op).expect("it was asked");
                flights[at].replies.push(reply);
                if flights[at].replies.len() < flights[at].asked {
                    return false;
                }
                let flight = flights.remove(at);
                self.answered(who, &flight);
            }
        }
        true
    }

    fn renew_session(&mut self, who: usize, why: &str) {
        self.sessions += 1;
        let client = &mut self.clients[who];
        (client.session, client.is_alive) = (self.sessions, true);
        self.cut(who, why);
    }

    /// The server has not heard of a session for too long.
    fn end(&mut self, session: i64) {
        let nodes = self.nodes.iter().filter(|(_, (_, owner))| *owner == session);
        let gone: Vec<_> = nodes.map(|(path, _)| path.clone()).collect();
        gone.iter().for_each(|path| self.remove(path));
    }

    /// What was asked and is not answered will not be; whoever waits asks again.
    fn cut(&mut self, who: usize, why: &str) {
        let client = &mut self.clients[who];
        client.pending.clear();
        client.heard.clear();
        self.watches.retain(|(_, watcher)| *watcher != who);
        for mut flight in std::mem::take(&mut self.clients[who].flights) {
            flight.replies.resize(flight.asked, error(why));
            self.answered(who, &flight);
        }
        if self.clients[who].task == Task::Waiting {
            self.acquire(who);
        }
    }

    fn answered(&mut self, who: usize, flight: &Flight) {
        let step = self.clients[who].machine.step(Input::Reply(flight.op, &flight.replies));
        self.follow(who, flight.op, step);
        let is_over = |client: &Client| !client.flights.iter().any(|flight| flight.op == Op::Acquire);
        if flight.op == Op::Acquire && self.clients[who].task == Task::Undoing && is_over(&self.clients[who]) {
            // What it did after the undo looked is undone, too.
            if self.clients[who].flights.iter().all(|flight| flight.op != Op::Undo) {
                self.undo(who);
            }
        }
    }

    fn acquire(&mut self, who: usize) {
        (self.clients[who].task, self.clients[who].is_late) = (Task::Asking, false);
        self.begin(who, Intent::Acquire { terms: terms(who), wait: true, prev: None });
    }

    fn undo(&mut self, who: usize) {
        self.clients[who].task = Task::Undoing;
        self.begin(who, Intent::Undo { terms: terms(who), prev: None });
    }

    fn begin(&mut self, who: usize, intent: Intent) {
        let op = intent.op();
        let step = self.clients[who].machine.step(Input::Begin(intent));
        self.follow(who, op, step);
    }

    fn follow(&mut self, who: usize, op: Op, step: Step) {
        let client = &mut self.clients[who];
        let verdict = match step {
            Step::Ignore => return,
            Step::Wait(_) => {
                if client.task == Task::Asking {
                    client.task = Task::Waiting;
                }
                return;
            }
            Step::Ask(requests) => {
                client.flights.push(Flight { op, asked: requests.len(), replies: Vec::new() });
                return client.pending.extend(requests.into_iter().map(|request| (op, request)));
            }
            Step::Done(verdict) => verdict,
        };
        match (op, client.task, verdict) {
            (Op::Acquire, Task::Asking | Task::Waiting, Verdict::Granted(grant)) => {
                if client.is_late {
                    return self.acquire(who);
                }
                client.task = Task::Holding;
                let token = grant.tokens.expect("a token").first();
                assert!(token > self.token, "the token falls");
                self.token = token;
            }
            (Op::Acquire, Task::Asking | Task::Waiting, Verdict::Failed(error)) if error.retryable() => {
                self.acquire(who);
            }
            (Op::Acquire, Task::Undoing, _) => {}
            (Op::Release, Task::GivingBack, Verdict::Released(_)) => client.task = Task::Over,
            (Op::Release, Task::GivingBack, Verdict::Failed(error)) if error.retryable() => {
                let token = self.token;
                self.begin(who, Intent::Release { terms: terms(who), used: token });
            }
            (Op::Undo, Task::Undoing, Verdict::Failed(error)) if error.retryable() => self.undo(who),
            (Op::Undo, Task::Undoing, Verdict::Undone) => {
                // Else once more when the acquire is answered.
                if client.flights.iter().all(|flight| flight.op != Op::Acquire) {
                    client.task = Task::Over;
                }
            }
            (op, task, verdict) => panic!("{op:?} while {task:?} ended with {verdict:?}"),
        }
    }

    fn execute(&mut self, who: usize, session: i64, request: &Request) -> Reply {
        let path = request.key.to_string();
        let stat = |nodes: &BTreeMap<String, (i64, i64)>| match nodes.get(&path) {
            Some((czxid, owner)) => Reply::List([session, *czxid, *owner].map(Reply::Int).into()),
            None => error("NoNode"),
        };
        match request.call.name {
            "sync" => Reply::Nil,
            "container" if std::mem::replace(&mut self.has_dir, true) => error("NodeExists"),
            "container" => Reply::Nil,
            "create" | "children" if !self.has_dir => error("NoNode"),
            "create" => {
                let path = format!("{path}{:010}", self.sequence);
                self.sequence += 1;
                self.zxid += 1;
                self.nodes.insert(path.clone(), (self.zxid, session));
                Reply::List(vec![Reply::Int(session), Reply::Text(path), Reply::Int(self.zxid), Reply::Int(session)])
            }
            "children" => {
                let names = self.nodes.keys().filter_map(|path| path.strip_prefix(DIR)?.strip_prefix('/'));
                let names = names.map(|name| Reply::Text(name.into()));
                Reply::List([Reply::Int(session)].into_iter().chain(names).collect())
            }
            "exists" => stat(&self.nodes),
            "watch" => {
                if self.nodes.contains_key(&path) {
                    self.watches.insert((path.clone(), who));
                }
                stat(&self.nodes)
            }
            "delete" if self.nodes.contains_key(&path) => {
                self.remove(&path);
                Reply::Nil
            }
            "delete" => error("NoNode"),
            other => panic!("no server has {other}"),
        }
    }

    fn remove(&mut self, path: &str) {
        self.nodes.remove(path);
        let fired: Vec<_> = self.watches.iter().filter(|(watched, _)| watched == path).cloned().collect();
        for watch in fired {
            self.watches.remove(&watch);
            self.clients[watch.1].heard.push(Heard::Event(StoreEvent::Gone { path: path.into() }));
        }
    }

    fn check(&self) -> Result<(), &'static str> {
        let holders = self.clients.iter().filter(|client| client.task == Task::Holding).count();
        let is_quiet = !self.moves().into_iter().any(Move::is_due);
        let is_over = self.clients.iter().all(|client| client.task == Task::Over);
        match () {
            () if holders > 1 => Err("two hold it"),
            () if is_quiet && !is_over => Err("it stands still"),
            () if is_quiet && !self.nodes.is_empty() => Err("something is left"),
            () => Ok(()),
        }
    }

    fn fingerprint(&self) -> u64 {
        let mut state = DefaultHasher::new();
        self.hash(&mut state);
        state.finish()
    }
}

/// Goes through every state there is, and returns how many.
fn explore(clients: usize, faults: Faults) -> usize {
    let first = World::new(clients, faults);
    let mut seen = HashSet::from([first.fingerprint()]);
    // From which state and by what each was come to, in the order of coming: so the shortest way to what is wrong is
    // shown.
    let mut ways: Vec<Option<(usize, Move)>> = vec![None];
    let mut open = VecDeque::from([(first, 0)]);
    while let Some((world, at)) = open.pop_front() {
        if let Err(wrong) = world.check() {
            panic!("{wrong}:\n{}", told(World::new(clients, faults), &ways, at));
        }
        for what in world.moves() {
            let mut next = world.clone();
            next.go(what);
            if seen.insert(next.fingerprint()) {
                open.push_back((next, ways.len()));
                ways.push(Some((at, what)));
            }
        }
    }
    ways.len()
}

/// The way to a state, in words.
fn told(mut world: World, ways: &[Option<(usize, Move)>], mut at: usize) -> String {
    let mut moves = Vec::new();
    while let Some((before, what)) = ways[at] {
        moves.push(what);
        at = before;
    }
    let one = |what| {
        let request = match what {
            Move::Execute(who) => world.clients[who].pending.first().map(|(_, request)| request.to_string()),
            Move::ExecuteLate(which) => world.left[which].pending.first().map(Request::to_string),
            _ => None,
        };
        world.go(what);
        format!("{what:?} {}\n", request.unwrap_or_default())
    };
    moves.into_iter().rev().map(one).collect()
}

const NONE: Faults = Faults { losses: 0, expiries: 0, leaves: 0, cancels: 0 };

#[test]
fn two_contenders_in_every_order() {
    assert!(explore(2, NONE) > 1_000);
}

#[test]
fn two_contenders_of_which_one_gives_up() {
    assert!(explore(2, Faults { cancels: 1, ..NONE }) > 5_000);
}

#[test]
fn two_contenders_and_a_session_that_ends() {
    assert!(explore(2, Faults { expiries: 1, ..NONE }) > 20_000);
}

#[test]
fn two_contenders_and_a_connection_that_is_lost() {
    assert!(explore(2, Faults { losses: 1, ..NONE }) > 10_000);
}

#[test]
fn two_contenders_of_which_one_takes_another_session() {
    assert!(explore(2, Faults { leaves: 1, ..NONE }) > 150_000);
}
