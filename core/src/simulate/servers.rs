//! Servers that keep locks, and what lies between them and their clients: messages take their time, connections are
//! refused, and break without a word. Where there are several, each is a node of a quorum, and is restarted, empty or
//! not.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use lockwright_machines::quorum::Marker;
use tokio::sync::oneshot;

use crate::error::{Error, Kind};
use crate::options::ConnectOptions;
use crate::platform::mutex::locked;
use crate::platform::simulated::network::{At, LONGEST, Network};
use crate::platform::simulated::random::SECOND;
use crate::platform::{clock, simulated};
use crate::protocol::{Call, InboxId, Layout, Reply, Request, Requests, StoreEvent};
use crate::session::Inbox;
use crate::stores::{self, Answered, BoxFuture, Outcome, Sink, Store, Subscription, Topic, Work, register};
use crate::time::Time;
use crate::uri::Uri;

/// So late it is noticed, at most, that connections broke.
const NOTICED: Duration = Duration::from_millis(500);
const SCHEME: &str = "simulated";
/// The longest lease on several nodes.
const MAX_TTL: Duration = Duration::from_secs(3);

static MARK: Call = Call { name: "mark", body: &[], batch: false };

thread_local! {
    static SERVERS: RefCell<Option<Arc<Servers>>> = const { RefCell::new(None) };
}

/// See the [module](self).
pub(super) struct Servers {
    network: Arc<Network>,
    all: Vec<Server>,
    wires: Mutex<Vec<Weak<Wire>>>,
}

/// A server.
struct Server {
    name: String,
    /// As it was first, which says its address and layouts.
    store: Arc<dyn Store>,
    run: Mutex<Run>,
}

/// From one restart to the next.
struct Run {
    number: u64,
    store: Arc<dyn Store>,
    /// When somebody looked first for how long it has had what it keeps.
    met: Option<Time>,
}

/// A server as one client has it.
#[derive(Debug)]
struct Link(Arc<Wire>);

/// A client's connections to one server.
#[derive(Debug)]
struct Wire {
    servers: Arc<Servers>,
    server: usize,
    state: Mutex<WireState>,
}

#[derive(Debug)]
struct WireState {
    /// Of its connections, which break together.
    generation: u64,
    /// Its client was closed: nothing is listened to any more.
    is_closed: bool,
    /// Nobody is let in before this.
    refused_until: Time,
    /// When the last message of the server's own arrives.
    last_push: Time,
}

impl Run {
    fn empty(server: &str, number: u64) -> Self {
        let place = format!("memory://{server}-{number}");
        let mut place = Uri::parse(&place, ConnectOptions::default()).expect("a place");
        Run { number, store: stores::open(&mut place).expect("a store"), met: None }
    }

    fn execute(&mut self, request: &Request) -> Option<Reply> {
        if request.call.name == MARK.name {
            let now = clock::now();
            let left = MAX_TTL.saturating_sub(now.since(*self.met.get_or_insert(now)));
            return Some(match left.is_zero() {
                true => Reply::Text("known".into()),
                false => Reply::Int(left.as_micros() as i64),
            });
        }
        match self.store.call(&Requests::from_iter([request.clone()]), clock::now()).outcome {
            Outcome::Replies(mut replies) => replies.pop(),
            _ => None,
        }
    }
}

impl Server {
    fn new(name: String) -> Self {
        let run = Run::empty(&name, 0);
        Server { name, store: run.store.clone(), run: Mutex::new(run) }
    }

    /// With what it has, or without.
    fn restart(&self, keeps: bool) {
        let mut run = locked(&self.run);
        let number = run.number + 1;
        *run = match keeps {
            true => Run { number, store: run.store.clone(), met: None },
            false => Run::empty(&self.name, number),
        };
    }

    /// What it answers that was asked in run `number`.
    fn execute(&self, number: u64, requests: &Requests) -> Option<Vec<Reply>> {
        let mut run = locked(&self.run);
        if run.number != number {
            return None;
        }
        requests.iter().map(|request| run.execute(request)).collect()
    }
}

impl Servers {
    /// So many of them, for the clients of this thread.
    pub(super) fn new(network: &Arc<Network>, count: usize) -> Arc<Self> {
        // Whatever has the name of another in this process is that one.
        static MADE: AtomicU64 = AtomicU64::new(0);
        let server = |_| Server::new(format!("simulated-{}", MADE.fetch_add(1, Ordering::Relaxed)));
        let all = (0..count).map(server).collect();
        let servers = Arc::new(Servers { network: network.clone(), all, wires: Mutex::default() });
        let open = |uri: &mut Uri| {
            let servers = SERVERS.with_borrow(|servers| servers.clone().expect("servers"));
            let server = uri.url().host_str().and_then(|host| host.parse().ok()).expect("the number of a server");
            Ok(Arc::new(Link(Wire::new(servers, server))) as Arc<dyn Store>)
        };
        // Once in a process.
        let _ = register(SCHEME, open);
        SERVERS.set(Some(servers.clone()));
        servers
    }

    /// Where its clients connect to.
    pub(super) fn address(&self) -> String {
        let servers: Vec<_> = (0..self.all.len()).map(|number| format!("{SCHEME}://{number}")).collect();
        match servers.len() {
            1 => servers.concat(),
            _ => format!("{}?max_ttl={1}ms&ttl={1}ms", servers.join(" "), MAX_TTL.as_millis()),
        }
    }

    /// All connections break.
    pub(super) fn cut(&self) {
        let wires = locked(&self.wires);
        wires.iter().filter_map(Weak::upgrade).for_each(|wire| wire.break_off(Duration::ZERO));
    }

    /// The connections of one of its clients to a server break, of which that learns sooner or later; or those of all
    /// clients to a node, which is restarted.
    pub(super) fn fail(&self) {
        let wires: Vec<_> = locked(&self.wires).iter().filter_map(Weak::upgrade).collect();
        let which = self.network.one_of(wires.len());
        let refuses = if self.network.chance(500) { self.network.below(4 * SECOND) } else { Duration::ZERO };
        let Some(wire) = wires.get(which) else { return };
        if self.all.len() == 1 || self.network.chance(700) {
            return wire.break_off(refuses);
        }
        self.all[wire.server].restart(self.network.chance(500));
        wires.iter().filter(|other| other.server == wire.server).for_each(|wire| wire.break_off(refuses));
    }
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Servers")
    }
}

impl Wire {
    fn new(servers: Arc<Servers>, server: usize) -> Arc<Self> {
        let now = clock::now();
        let state = WireState { generation: 0, is_closed: false, refused_until: now, last_push: now };
        let wire = Arc::new(Wire { servers: servers.clone(), server, state: Mutex::new(state) });
        locked(&servers.wires).push(Arc::downgrade(&wire));
        wire
    }

    fn network(&self) -> &Arc<Network> {
        &self.servers.network
    }

    fn server(&self) -> &Server {
        &self.servers.all[self.server]
    }

    fn generation(&self) -> u64 {
        locked(&self.state).generation
    }

    fn break_off(&self, refuses: Duration) {
        let mut state = locked(&self.state);
        state.generation += 1;
        state.refused_until = clock::now().after(refuses);
    }

    fn refused_until(&self) -> Time {
        locked(&self.state).refused_until
    }

    /// The server says something by itself, one thing after the other.
    fn push(self: &Arc<Self>, generation: u64, event: impl FnOnce() + Send + 'static) {
        let delay = self.network().delay();
        let due = {
            let mut state = locked(&self.state);
            state.last_push = state.last_push.max(clock::now().after(delay));
            state.last_push
        };
        let wire = self.clone();
        let told = move || {
            if wire.generation() == generation {
                event();
            }
        };
        self.network().say(due, At::Client, told);
    }

    /// When it arrives, and the answer: nothing comes where the connection breaks.
    fn ask(self: &Arc<Self>, requests: &Requests) -> (Time, oneshot::Receiver<Vec<Reply>>) {
        let (tell, answer) = oneshot::channel();
        let (wire, generation, requests) = (self.clone(), self.generation(), requests.clone());
        let network = self.network().clone();
        if network.chance(10) {
            // It is lost, and that is found out later.
            network.after(network.below(5 * SECOND), At::Client, || drop(tell));
            return (clock::now(), answer);
        }
        let (delay, run) = (network.delay(), locked(&self.server().run).number);
        let executed = move || {
            let Some(replies) = wire.server().execute(run, &requests) else { return };
            let (network, wire) = (wire.network().clone(), wire.clone());
            let told = move || {
                if wire.generation() == generation {
                    let _ = tell.send(replies);
                }
            };
            network.after(network.delay(), At::Client, told);
        };
        (network.after(delay, At::Server, executed), answer)
    }

    /// Listens until the connection breaks.
    async fn listen(self: Arc<Self>, inbox: InboxId, sink: Weak<dyn Sink>) {
        simulated::sleep_until(self.refused_until()).await;
        let generation = self.generation();
        simulated::sleep_until(clock::now().after(self.network().delay())).await;
        let pushes: Arc<dyn Sink> = Arc::new(Pushes { wire: self.clone(), generation, to: sink.clone() });
        let subscribed = self.server().store.clone().subscribe(Topic::Inbox(inbox), Arc::downgrade(&pushes));
        let told = sink.clone();
        self.push(generation, move || tell(&told, |sink| sink.inbox(Inbox::Live)));
        while self.generation() == generation {
            simulated::sleep_until(clock::now().after(NOTICED)).await;
        }
        drop((subscribed, pushes));
        tell(&sink, |sink| sink.inbox(Inbox::Closed));
    }
}

fn tell(sink: &Weak<dyn Sink>, what: impl FnOnce(&dyn Sink)) {
    if let Some(sink) = sink.upgrade() {
        what(&*sink);
    }
}

impl Store for Link {
    fn address(&self) -> &Arc<str> {
        self.0.server().store.address()
    }

    fn layouts(&self) -> &[Arc<dyn Layout>] {
        self.0.server().store.layouts()
    }

    fn call_async<'a>(&'a self, requests: &'a Requests, limit: Time) -> BoxFuture<'a, Answered> {
        Box::pin(async move {
            let Link(wire) = self;
            let sent = clock::now();
            if sent < wire.refused_until() {
                simulated::sleep_until(sent.after(wire.network().delay()).min(limit)).await;
                let error = Error::new(Kind::Unavailable, "acquire", "the simulated server refuses connections");
                return Answered { sent, outcome: Outcome::NotSent(error) };
            }
            let (arrives, answer) = wire.ask(requests);
            let answered = tokio::select! {
                biased;
                answer = answer => answer.ok(),
                () = simulated::sleep_until(limit) => None,
            };
            let outcome = match answered {
                Some(replies) => Outcome::Replies(replies),
                None => {
                    let error = Error::new(Kind::Unavailable, "acquire", "the simulated server does not answer");
                    Outcome::Unknown { error, void_after: arrives.max(clock::now()) }
                }
            };
            Answered { sent, outcome }
        })
    }

    fn void_after(&self, given_up: Time, _: Time) -> Time {
        given_up.after(LONGEST)
    }

    fn marker(&self) -> Option<Marker> {
        Some(Marker { call: &MARK, key: "marker".into() })
    }

    fn subscribe(self: Arc<Self>, topic: Topic<'_>, sink: Weak<dyn Sink>) -> Subscription {
        let Topic::Inbox(inbox) = topic else { return Subscription::of(Inbox::Unavailable) };
        let wire = self.0.clone();
        let listening: Work = Box::new(move || {
            let (wire, sink) = (wire.clone(), sink.clone());
            Box::pin(async move {
                while !locked(&wire.state).is_closed {
                    wire.clone().listen(inbox, sink.clone()).await;
                }
            })
        });
        Subscription::of(Inbox::Closed).in_background(listening)
    }

    fn close(&self) {
        let mut state = locked(&self.0.state);
        state.is_closed = true;
        state.generation += 1;
    }
}

/// What the server pushes over a client's connection.
struct Pushes {
    wire: Arc<Wire>,
    generation: u64,
    to: Weak<dyn Sink>,
}

impl Sink for Pushes {
    fn pushed(&self, key: &str, event: &StoreEvent) {
        let (to, key, event) = (self.to.clone(), key.to_owned(), event.clone());
        self.wire.push(self.generation, move || tell(&to, |sink| sink.pushed(&key, &event)));
    }

    fn inbox(&self, _: Inbox) {}
    fn channel(&self, _: &str, _: &str, _: Inbox) {}
    fn session(&self, _: Time) {}
    fn session_over(&self) {}
    fn unheard(&self) {}
    fn restarted(&self) {}
}
