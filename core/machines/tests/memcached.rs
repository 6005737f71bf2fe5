//! Everything that can happen to two contenders for one lock on a memcached, whatever becomes of their connections and
//! of the server: requests and answers in every order, requests that are done late or not at all, a server that is
//! started anew and numbers what it stores from 1 again, values that are evicted and that end.
//!
//! The shipped machine speaks to a model of the server. In every state: nobody changes or deletes another's value, and
//! who is told that it has the lock had it when the server answered. At the end nothing is left of whoever gave it
//! back. What time means is the session's business, and is explored with the other layouts that poll.

#![allow(unreachable_pub, reason = "the module is shared with other tests")]

#[path = "explore/processor.rs"]
mod processor;

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use lockwright_machines::lease::ReleaseOutcome;
use lockwright_machines::protocol::{
    Arg, AttemptId, Input, Intent, Op, Protocol, Reply, Request, Step, Terms, Verdict,
};
use lockwright_machines::stores::memcached::layouts::Value;
use lockwright_machines::stores::memcached::layouts::add::AddLock;

use crate::processor::processor_seconds;

const TTL: u64 = 2;

/// What a client does, one after the other; whoever does not get the lock gives up.
type Script = &'static [Op];
const WHOLE: Script = &[Op::Acquire, Op::Renew, Op::Release];
const CANCELS: Script = &[Op::Acquire, Op::Undo];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fault {
    /// A client's connection breaks; what is on its way to the server may be done later.
    Break,
    /// The server is started anew.
    Restart,
    /// The value is evicted, or ends.
    Gone,
}

#[derive(Clone, Debug, Hash)]
struct Stored {
    text: String,
    cas: i64,
    left: i64,
}

#[derive(Clone, Debug, Default, Hash)]
struct Server {
    value: Option<Stored>,
    counter: i64,
    /// Counts its starts.
    run: i64,
}

fn owner(text: &str) -> AttemptId {
    Value::read(text).expect("nobody else writes here").attempt
}

impl Server {
    /// Does a request of `who`, which came on `connection`.
    fn run(&mut self, who: AttemptId, request: &Request, connection: i64) -> Result<Reply, String> {
        let done = match (request.call.name, request.args.as_slice()) {
            ("acquire", [Arg::Text(text), ..]) => self.value.is_none() && self.store(text),
            ("renew", [Arg::Int(cas), Arg::Int(_), Arg::Text(text), ..]) => {
                self.is(*cas) && {
                    self.concerns(who, "overwrites")?;
                    self.store(text)
                }
            }
            ("delete", [Arg::Int(cas), Arg::Int(_)]) => {
                let done = self.is(*cas);
                if done {
                    self.concerns(who, "deletes")?;
                    self.value = None;
                }
                return Ok(Reply::Int(done.into()));
            }
            ("look", []) => false,
            (name, _) => return Err(format!("no memcached has {name}")),
        };
        Ok(self.seen(done.into(), connection))
    }

    fn seen(&self, done: i64, connection: i64) -> Reply {
        let head = [Reply::Int(done), Reply::Int(connection)];
        let value = self
            .value
            .iter()
            .flat_map(|Stored { text, cas, left }| [Reply::Text(text.clone()), Reply::Int(*cas), Reply::Int(*left)]);
        Reply::List(head.into_iter().chain(value).collect())
    }

    fn is(&self, cas: i64) -> bool {
        self.value.as_ref().is_some_and(|value| value.cas == cas)
    }

    fn store(&mut self, text: &str) -> bool {
        self.counter += 1;
        self.value = Some(Stored { text: text.into(), cas: self.counter, left: TTL as i64 + 1 });
        true
    }

    fn concerns(&self, who: AttemptId, does: &str) -> Result<(), String> {
        match &self.value {
            Some(value) if owner(&value.text) != who => Err(format!("{who:?} {does} the value of {}", value.text)),
            _ => Ok(()),
        }
    }
}

/// What is on its way.
#[derive(Clone, Debug, Hash)]
enum Flight {
    Nothing,
    Asked(Request),
    Answered(Reply),
}

#[derive(Clone, Debug)]
struct Client {
    machine: AddLock,
    terms: Terms,
    script: Script,
    at: usize,
    flight: Flight,
    /// The number of its connection, and to which run of the server that is.
    connection: (i64, i64),
    /// Requests of it that the server may do yet, each with the run it was sent to.
    ghosts: Vec<(Request, i64)>,
    holds: bool,
}

#[derive(Clone, Debug)]
struct World {
    server: Server,
    clients: Vec<Client>,
    faults: u8,
    /// A value was lost that its holder believes in.
    forgot: bool,
    /// The driver looks at no connection's number.
    is_heedless: bool,
}

/// On which connection the number was read by which a request changes something: on any other one it is not sent, as
/// the driver has it.
fn connection_of(request: &Request) -> Option<i64> {
    match request.args.as_slice() {
        [_, Arg::Int(of), Arg::Text(_), ..] | [Arg::Int(_), Arg::Int(of)] => Some(*of),
        _ => None,
    }
}

fn terms(attempt: u128) -> Terms {
    let (name, card) = ("lk".into(), "c".into());
    Terms::of_secret(name, AttemptId(attempt), Duration::from_secs(TTL), card)
}

impl World {
    fn new(scripts: &[Script], faults: u8) -> Result<Self, String> {
        let client = |(index, script): (usize, &Script)| Client {
            machine: AddLock::new("lk".into()),
            terms: terms(index as u128 + 1),
            script,
            at: 0,
            flight: Flight::Nothing,
            connection: (1, 0),
            ghosts: Vec::new(),
            holds: false,
        };
        let clients = scripts.iter().enumerate().map(client).collect();
        let mut world = World { server: Server::default(), clients, faults, forgot: false, is_heedless: false };
        for who in 0..scripts.len() {
            world.begin(who)?;
        }
        Ok(world)
    }

    fn begin(&mut self, who: usize) -> Result<(), String> {
        let client = &mut self.clients[who];
        let Some(op) = client.script.get(client.at) else { return Ok(()) };
        let terms = client.terms.clone();
        let intent = match op {
            Op::Acquire => Intent::Acquire { terms, wait: false, prev: None },
            Op::Renew => Intent::Renew { ttl: terms.ttl, terms },
            Op::Release => Intent::Release { terms, used: 0 },
            Op::Undo => Intent::Undo { terms, prev: None },
        };
        // From here on it does not rely on it any more.
        client.holds &= *op == Op::Renew;
        let step = client.machine.step(Input::Begin(intent));
        self.takes(who, step)
    }

    fn takes(&mut self, who: usize, step: Step) -> Result<(), String> {
        let forgot = self.forgot;
        let client = &mut self.clients[who];
        let op = client.script[client.at];
        let verdict = match step {
            Step::Ask(requests) => {
                client.flight = Flight::Asked(requests[0].clone());
                return Ok(());
            }
            Step::Done(verdict) => verdict,
            step => return Err(format!("{step:?}")),
        };
        client.flight = Flight::Nothing;
        match verdict {
            Verdict::Granted(_) => (client.holds, client.at) = (true, client.at + 1),
            // It is undone all the same where that is what it does.
            Verdict::Held { .. } if client.script == CANCELS => client.at += 1,
            Verdict::Held { .. } => client.at = client.script.len(),
            Verdict::Renewed => client.at += 1,
            Verdict::Gone(_) if forgot => (client.holds, client.at) = (false, client.at + 1),
            Verdict::Released(ReleaseOutcome::Released) | Verdict::Undone => client.at += 1,
            Verdict::Released(_) if forgot => client.at += 1,
            // It was asked before, on a connection that broke.
            Verdict::Released(ReleaseOutcome::Unknown) if client.connection.0 > 1 => client.at += 1,
            verdict => return Err(format!("{op:?} of a lock that nobody lost ends with {verdict:?}")),
        }
        let holders = self.clients.iter().filter(|client| client.holds).count();
        if holders > 1 && !self.forgot {
            return Err("two hold the lock".into());
        }
        self.begin(who)
    }

    /// The server does what a client asked on its connection.
    fn arrive(&mut self, who: usize) -> Result<bool, String> {
        let client = &mut self.clients[who];
        let Flight::Asked(request) = client.flight.clone() else { return Ok(false) };
        let (number, run) = client.connection;
        if run != self.server.run {
            return Ok(false);
        }
        let of = connection_of(&request).filter(|_| !self.is_heedless);
        client.flight = Flight::Answered(match of {
            Some(of) if of != number && request.call.name == "delete" => Reply::Int(-1),
            Some(of) if of != number => self.server.seen(-1, number),
            _ => self.server.run(client.terms.attempt, &request, number)?,
        });
        Ok(true)
    }

    fn answer(&mut self, who: usize) -> Result<bool, String> {
        let client = &mut self.clients[who];
        let Flight::Answered(reply) = client.flight.clone() else { return Ok(false) };
        let op = client.script[client.at];
        let step = client.machine.step(Input::Reply(op, &[reply]));
        self.takes(who, step)?;
        Ok(true)
    }

    /// A request whose connection is gone is done after all.
    fn haunt(&mut self, who: usize) -> Result<bool, String> {
        let client = &mut self.clients[who];
        let Some((request, run)) = client.ghosts.pop() else { return Ok(false) };
        if run == self.server.run {
            self.server.run(client.terms.attempt, &request, 0)?;
        }
        Ok(true)
    }

    /// A client has another connection, and asks again for what it has no answer to.
    fn reconnect(&mut self, who: usize) -> Result<bool, String> {
        let (run, is_heedless) = (self.server.run, self.is_heedless);
        let client = &mut self.clients[who];
        let (number, of) = client.connection;
        let is_sent = |request: &Request| is_heedless || connection_of(request).is_none_or(|sent| sent == number);
        if let Flight::Asked(request) = client.flight.clone()
            && is_sent(&request)
        {
            client.ghosts.push((request, of));
        }
        client.connection = (number + 1, run);
        if !matches!(client.flight, Flight::Nothing) {
            client.flight = Flight::Nothing;
            self.begin(who)?;
        }
        Ok(true)
    }

    fn fault(&mut self, fault: Fault, who: usize) -> Result<bool, String> {
        if self.faults == 0 {
            return Ok(false);
        }
        self.faults -= 1;
        match fault {
            Fault::Break => return self.reconnect(who),
            Fault::Restart => {
                let run = self.server.run + 1;
                self.server = Server { run, ..Server::default() };
                self.forgot = true;
            }
            Fault::Gone => {
                self.server.value = None;
                self.forgot = true;
            }
        }
        Ok(true)
    }

    /// A connection to a server that is no more ends at once or later, but nothing is answered on it.
    fn notice(&mut self, who: usize) -> Result<bool, String> {
        if self.clients[who].connection.1 == self.server.run {
            return Ok(false);
        }
        self.reconnect(who)
    }

    fn fingerprint(&self) -> u64 {
        let mut state = DefaultHasher::new();
        (&self.server, self.faults, self.forgot).hash(&mut state);
        for client in &self.clients {
            client.machine.fingerprint(&mut state);
            (&client.flight, client.at, client.connection, &client.ghosts, client.holds).hash(&mut state);
        }
        state.finish()
    }

    fn is_over(&self) -> bool {
        self.clients.iter().all(|client| client.at >= client.script.len() && client.ghosts.is_empty())
    }

    /// Whoever gave the lock back has left nothing, but where a request was done after that: it ends with its time.
    fn check_end(&self, breaks: bool) -> Result<(), String> {
        match &self.server.value {
            Some(value) if !breaks => Err(format!("{} is left", value.text)),
            _ => Ok(()),
        }
    }
}

/// How many states there are, and steps from one to another.
#[derive(Debug)]
struct Explored {
    states: usize,
    transitions: u64,
}

/// Visits every state that follows from `first`.
fn explore(first: World, kinds: &[Fault]) -> Result<Explored, String> {
    let mut known = HashSet::new();
    let mut open = vec![first];
    let mut transitions = 0;
    while let Some(world) = open.pop() {
        if !known.insert(world.fingerprint()) {
            continue;
        }
        if world.is_over() {
            world.check_end(kinds.contains(&Fault::Break) || kinds.contains(&Fault::Restart))?;
        }
        let mut next = |step: &dyn Fn(&mut World) -> Result<bool, String>| {
            let mut after = world.clone();
            if step(&mut after)? {
                transitions += 1;
                open.push(after);
            }
            Ok::<_, String>(())
        };
        for who in 0..world.clients.len() {
            next(&|world| world.arrive(who))?;
            next(&|world| world.answer(who))?;
            next(&|world| world.haunt(who))?;
            next(&|world| world.notice(who))?;
            for fault in kinds {
                next(&|world| world.fault(*fault, who))?;
            }
        }
    }
    Ok(Explored { states: known.len(), transitions })
}

fn check(name: &str, scripts: &[Script], faults: u8, kinds: &[Fault]) {
    let started = processor_seconds();
    let Explored { states, transitions } = match World::new(scripts, faults).and_then(|first| explore(first, kinds)) {
        Ok(explored) => explored,
        Err(wrong) => panic!("{name}: {wrong}"),
    };
    let seconds = processor_seconds() - started;
    // What is known of a state is a number.
    let megabytes = states * size_of::<u64>() / 1_000_000;
    let in_words =
        |script: &Script| script.iter().map(|op| format!("{op:?}")).collect::<Vec<_>>().join(" ").to_lowercase();
    let clients = scripts.iter().map(in_words).collect::<Vec<_>>().join(" + ");
    let told = match faults {
        0 => "no fault".to_owned(),
        most => format!("at most {most} of {kinds:?}"),
    };
    println!(
        "memcached: {name} [clients {clients}; {told}]: explored {states} states, {transitions} transitions, \
         {seconds:.1} s, {megabytes} MB (the whole space)"
    );
}

#[test]
fn two_contenders_in_every_order() {
    check("nothing goes wrong", &[WHOLE, WHOLE], 0, &[]);
    check("one gives up", &[WHOLE, CANCELS], 0, &[]);
    check("three contend", &[WHOLE, WHOLE, CANCELS], 0, &[]);
}

#[test]
fn two_contenders_whose_connections_break() {
    check("connections break", &[WHOLE, WHOLE], 2, &[Fault::Break]);
    check("connections break, one gives up", &[WHOLE, CANCELS], 2, &[Fault::Break]);
}

#[test]
fn two_contenders_and_a_server_that_forgets() {
    check("the value goes", &[WHOLE, WHOLE], 2, &[Fault::Gone]);
    check("the server is started anew", &[WHOLE, WHOLE], 2, &[Fault::Restart]);
    check("everything", &[WHOLE, CANCELS], 2, &[Fault::Break, Fault::Restart, Fault::Gone]);
}

#[test]
fn a_driver_that_takes_a_number_of_an_old_connection_is_found() {
    let first = World { is_heedless: true, ..World::new(&[WHOLE, WHOLE], 2).expect("they begin") };
    let found = explore(first, &[Fault::Break, Fault::Restart]).expect_err("a number was given out again");
    assert!(found.contains("the value of"), "{found}");
}
