//! The host, by WASI 0.3: sockets that the engine's lines are, the clock, randomness, and work in the background.
//!
//! Calls are tasks that wait beside one another. One of them works for all, and goes on when its own call has an
//! answer, for as long as something is held or asked; a task that only waits is woken once the engine has what it waits
//! for. A call that has no answer yet may be cancelled, and all that runs in its task with it, so the first call that
//! has one goes on with the work.
//!
//! To leave off reading, or waiting for a time, may take a moment, in which the host lets other calls in. So
//! connections are worked on, and dropped, while the client is not borrowed.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::{cell::RefCell, mem};

use lockwright_machines::reach::unknown_host;
use lockwright_machines::time::Time;
use lockwright_wasm_engine::redis::{Action, Which};
use lockwright_wasm_engine::{Asked, Random, Ticket};
use wasip3::clocks::monotonic_clock;
use wasip3::random::random::get_random_u64;
use wasip3::sockets::ip_name_lookup::{self, resolve_addresses};
use wasip3::sockets::types::{
    ErrorCode, IpAddress, IpAddressFamily, IpSocketAddress, Ipv4SocketAddress, Ipv6SocketAddress, TcpSocket,
};
use wasip3::wit_stream;
use wit_bindgen::{StreamReader, StreamResult, StreamWriter, spawn_local};

use crate::layer::Security;
pub(crate) use crate::layer::{Engine, open};
use crate::{Running, Shared};

/// How much is read at a time.
const ROOM: usize = 8 << 10;

pub(crate) fn now() -> Time {
    Time::from_nanos(monotonic_clock::now())
}

pub(crate) fn random() -> Random {
    Box::new(|| Some(u128::from(get_random_u64()) << 64 | u128::from(get_random_u64())))
}

type Done = Rc<dyn Fn(&Engine, Time) -> bool>;

/// Somebody who waits until the engine says so, or a time.
struct Wait {
    done: Done,
    limit: Option<Time>,
    waker: Waker,
}

impl Wait {
    fn is_over(&self, engine: &Engine, at: Time) -> bool {
        (self.done)(engine, at) || self.limit.is_some_and(|limit| limit <= at)
    }
}

/// Whoever works.
struct Work {
    number: u64,
    /// The wait in whose task it is, until that call has its answer.
    of: Option<u64>,
    waker: Option<Waker>,
}

impl Shared {
    /// Waits until the engine says so, or `limit`.
    pub(crate) async fn until(&self, limit: Option<Time>, done: impl Fn(&Engine, Time) -> bool + 'static) -> Time {
        let me = Waiting { client: self, number: self.0.borrow_mut().network.begin_wait() };
        let done: Done = Rc::new(done);
        self.send();
        let end = poll_fn(|cx| {
            let Running { engine, network } = &mut *self.0.borrow_mut();
            let (at, wait) = (now(), Wait { done: done.clone(), limit, waker: cx.waker().clone() });
            if wait.is_over(engine, at) {
                return Poll::Ready(at);
            }
            network.waits.insert(me.number, wait);
            if network.work.is_none() {
                self.work_in(network, Some(me.number));
            }
            Poll::Pending
        })
        .await;
        self.returns(me.number);
        end
    }

    pub(crate) async fn until_granted(&self, asked: &Asked) -> Time {
        self.until_settled(asked.ticket).await
    }

    pub(crate) async fn until_all_granted(&self, ticket: Ticket) {
        self.until_settled(ticket).await;
    }

    /// Has what was asked done, by whoever works.
    pub(crate) fn send(&self) {
        let Running { engine, network } = &mut *self.0.borrow_mut();
        network.perform(engine);
        network.wake_worker();
    }

    /// Gives back what was dropped: whoever works goes on with it.
    pub(crate) fn let_go(&self, let_go: impl FnOnce(&mut Engine, Time)) {
        self.tell(let_go);
    }

    /// Ends both connections.
    pub(crate) fn hang_up(&self) {
        self.tell(|engine, _| engine.hang_up());
        self.drop_old();
    }

    /// This call has its answer, unless it waits for more: what is spawned comes after it.
    fn returns(&self, wait: u64) {
        let network = &mut self.0.borrow_mut().network;
        if matches!(network.work, Some(Work { of: Some(_), .. })) {
            network.returning = Some(wait);
            let client = self.clone();
            spawn_local(async move { client.take_over(wait) });
        }
    }

    /// Nobody can cancel the task of this call any more.
    fn take_over(&self, wait: u64) {
        let network = &mut self.0.borrow_mut().network;
        if network.returning.take_if(|returning| *returning == wait).is_none() {
            return;
        }
        match &mut network.work {
            Some(work) if work.of == Some(wait) => work.of = None,
            Some(Work { of: Some(_), .. }) => {
                network.wake_worker();
                self.work_in(network, None);
            }
            _ => {}
        }
    }

    fn work_in(&self, network: &mut Network, of: Option<u64>) {
        let number = network.next_number();
        network.work = Some(Work { number, of, waker: None });
        let worker = Worker { client: self.clone(), number };
        spawn_local(async move { poll_fn(|cx| worker.client.work(number, cx)).await });
    }

    fn work(&self, number: u64, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            {
                let Running { engine, network } = &mut *self.0.borrow_mut();
                match &mut network.work {
                    Some(work) if work.number == number => work.waker = Some(cx.waker().clone()),
                    // Whoever works instead goes on with what is begun here.
                    _ => {
                        network.wake_worker();
                        return Poll::Ready(());
                    }
                }
                network.hear(engine);
                network.perform(engine);
            }
            self.advance(cx);
            if self.wake() {
                if self.rest(number, cx) {
                    return Poll::Ready(());
                }
            } else if !self.rings(cx) {
                return Poll::Pending;
            }
        }
    }

    /// Takes both connections as far as they come.
    fn advance(&self, cx: &mut Context<'_>) {
        loop {
            let more = [Which::Requests, Which::Inbox].map(|which| self.step(which, false, cx));
            self.drop_old();
            if more == [false, false] {
                return;
            }
        }
    }

    /// Takes a connection as far as it comes, or has it rest; whether anything happened on it.
    fn step(&self, which: Which, rests: bool, cx: &mut Context<'_>) -> bool {
        let (wire, connection) = self.0.borrow_mut().network.of(which).lend();
        let Some(mut connection) = connection else { return false };
        wire.borrow_mut().rests = rests;
        let end = match connection.as_mut().poll(cx) {
            Poll::Ready(error) => Some(error),
            Poll::Pending => None,
        };
        let Running { engine, network } = &mut *self.0.borrow_mut();
        // Else it was hung up meanwhile.
        if !Rc::ptr_eq(&network.of(which).wire, &wire) {
            network.old.push(connection);
            return false;
        }
        network.of(which).connection = Some(connection);
        let more = network.tell(engine, which, end);
        network.perform(engine);
        more
    }

    /// Wakes those who have what they wait for; whether nothing is held, asked or awaited then.
    fn wake(&self) -> bool {
        let Running { engine, network } = &mut *self.0.borrow_mut();
        let at = now();
        for (_, wait) in network.waits.extract_if(.., |_, wait| wait.is_over(engine, at)) {
            wait.waker.wake();
        }
        network.may_rest(engine)
    }

    /// Ends the work, unless something comes meanwhile; whether it did.
    fn rest(&self, number: u64, cx: &mut Context<'_>) -> bool {
        for which in [Which::Requests, Which::Inbox] {
            self.step(which, true, cx);
        }
        let alarms = mem::take(&mut self.0.borrow_mut().network.alarms);
        drop(alarms);
        self.drop_old();
        let Running { engine, network } = &mut *self.0.borrow_mut();
        network.may_rest(engine) && network.work.take_if(|work| work.number == number).is_some()
    }

    fn drop_old(&self) {
        let old = mem::take(&mut self.0.borrow_mut().network.old);
        drop(old);
    }

    /// Whether it is time for the engine to look.
    fn rings(&self, cx: &mut Context<'_>) -> bool {
        let Running { engine, network } = &mut *self.0.borrow_mut();
        // One that rings too early does no harm, and another one for each answer would.
        if let Some(due) = network.due(engine)
            && network.alarms.iter().all(|(at, _)| *at > due)
        {
            network.alarms.push((due, Box::pin(monotonic_clock::wait_until(due.as_nanos()))));
        }
        let count = network.alarms.len();
        network.alarms.retain_mut(|(_, alarm)| alarm.as_mut().poll(cx).is_pending());
        network.alarms.len() < count
    }
}

/// Whoever is away waits no more. Where the work ended with its task, another one of those who wait goes on with it.
struct Waiting<'a> {
    client: &'a Shared,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let network = &mut self.client.0.borrow_mut().network;
        network.waits.remove(&self.number);
        if network.work.is_none()
            && let Some((_, wait)) = network.waits.pop_first()
        {
            wait.waker.wake();
        }
    }
}

/// A task that is cancelled drops the work first and then whoever waits in it, who must not be woken any more.
struct Worker {
    client: Shared,
    number: u64,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.client.0.borrow_mut().network.work.take_if(|work| work.number == self.number);
    }
}

/// What a connection and the engine have for one another.
#[derive(Default)]
struct Wire {
    is_connected: bool,
    came: Vec<u8>,
    unsent: Vec<u8>,
    is_sending: bool,
    /// Nothing is to be read: what is being read would keep the task under way that reads.
    rests: bool,
}

type Ended = Pin<Box<dyn Future<Output = io::Error>>>;
type Alarm = Pin<Box<dyn Future<Output = ()>>>;

/// One connection, from its name to its end.
#[derive(Default)]
struct Socket {
    wire: Rc<RefCell<Wire>>,
    /// There is one, though whoever works may have it.
    is_there: bool,
    connection: Option<Ended>,
    /// The engine knows that it is connected.
    is_told: bool,
}

/// Both connections of a client, and whoever waits.
#[derive(Default)]
pub(crate) struct Network {
    requests: Socket,
    inbox: Socket,
    waits: BTreeMap<u64, Wait>,
    work: Option<Work>,
    alarms: Vec<(Time, Alarm)>,
    /// Hung up, and not to be dropped while the client is borrowed.
    old: Vec<Ended>,
    /// The wait that ended last in the call that runs.
    returning: Option<u64>,
    last_number: u64,
}

impl Network {
    pub(crate) fn new(Security::Plain: Security) -> Self {
        Network::default()
    }

    fn begin_wait(&mut self) -> u64 {
        self.returning = None;
        self.next_number()
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn of(&mut self, which: Which) -> &mut Socket {
        match which {
            Which::Requests => &mut self.requests,
            Which::Inbox => &mut self.inbox,
        }
    }

    fn wake_worker(&mut self) {
        if let Some(waker) = self.work.as_mut().and_then(|work| work.waker.take()) {
            waker.wake();
        }
    }

    /// What came was heard when it came; only time may have passed.
    pub(crate) fn hear(&mut self, engine: &mut Engine) -> Time {
        let at = now();
        engine.look(at);
        at
    }

    /// Does what the engine wants done.
    fn perform(&mut self, engine: &mut Engine) {
        while let Some(action) = engine.next_action() {
            match action {
                Action::Dial(which) => {
                    let wire = Rc::<RefCell<Wire>>::default();
                    let (host, port) = (engine.store().config().host.to_string(), engine.store().config().port);
                    let connection: Ended = Box::pin(connection(wire.clone(), host, port));
                    self.replace(which, Socket { wire, is_there: true, connection: Some(connection), is_told: false });
                }
                Action::Send(which, bytes) => self.of(which).wire.borrow_mut().unsent.extend(bytes),
                Action::HangUp(which) => self.replace(which, Socket::default()),
            }
        }
    }

    fn replace(&mut self, which: Which, socket: Socket) {
        let old = mem::replace(self.of(which), socket);
        self.old.extend(old.connection);
    }

    /// Tells the engine what happened on a connection; whether anything did.
    fn tell(&mut self, engine: &mut Engine, which: Which, end: Option<io::Error>) -> bool {
        let socket = self.of(which);
        let is_new = socket.wire.borrow().is_connected && !mem::replace(&mut socket.is_told, true);
        let came = mem::take(&mut socket.wire.borrow_mut().came);
        if is_new {
            engine.dialled(which, now());
        }
        if !came.is_empty() {
            engine.came(which, now(), &came);
        }
        let more = is_new || !came.is_empty() || end.is_some();
        if let Some(error) = end {
            self.replace(which, Socket::default());
            engine.ended(which, now(), error);
        }
        more
    }

    /// Whether nothing is held, asked or awaited.
    fn may_rest(&self, engine: &Engine) -> bool {
        self.waits.is_empty() && engine.is_over() && [&self.requests, &self.inbox].into_iter().all(Socket::may_rest)
    }

    /// When to look again.
    fn due(&self, engine: &Engine) -> Option<Time> {
        let limits = self.waits.values().filter_map(|wait| wait.limit);
        engine.next_look().into_iter().chain(limits).min()
    }
}

impl Socket {
    fn lend(&mut self) -> (Rc<RefCell<Wire>>, Option<Ended>) {
        (self.wire.clone(), self.connection.take())
    }

    fn may_rest(&self) -> bool {
        let wire = self.wire.borrow();
        !self.is_there || self.connection.is_some() && wire.is_connected && wire.unsent.is_empty() && !wire.is_sending
    }
}

async fn connection(wire: Rc<RefCell<Wire>>, host: String, port: u16) -> io::Error {
    match dialled(&host, port).await {
        Ok(socket) => carried(&wire, socket).await,
        Err(error) => error,
    }
}

/// Connected with the first address of a name that it can be with.
async fn dialled(host: &str, port: u16) -> io::Result<TcpSocket> {
    let ips = match host.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(ip)) => vec![IpAddress::Ipv4(ip.octets().into())],
        Ok(std::net::IpAddr::V6(ip)) => vec![IpAddress::Ipv6(ip.segments().into())],
        Err(_) => resolve_addresses(host.to_owned()).await.map_err(unresolved)?,
    };
    let mut failed = unknown_host(io::ErrorKind::NotFound.into());
    for ip in ips {
        match connected(ip, port).await {
            Ok(socket) => return Ok(socket),
            Err(error) => failed = told(error),
        }
    }
    Err(failed)
}

async fn connected(ip: IpAddress, port: u16) -> Result<TcpSocket, ErrorCode> {
    let (family, address) = match ip {
        IpAddress::Ipv4(address) => (IpAddressFamily::Ipv4, IpSocketAddress::Ipv4(Ipv4SocketAddress { port, address })),
        IpAddress::Ipv6(address) => {
            let address = Ipv6SocketAddress { port, flow_info: 0, address, scope_id: 0 };
            (IpAddressFamily::Ipv6, IpSocketAddress::Ipv6(address))
        }
    };
    let socket = TcpSocket::create(family)?;
    socket.connect(address).await?;
    Ok(socket)
}

/// Sends and receives until one of the two ends; why it did.
async fn carried(wire: &RefCell<Wire>, socket: TcpSocket) -> io::Error {
    let (mut input, received) = socket.receive();
    let (mut output, unsent) = wit_stream::new();
    let sent = socket.send(unsent);
    wire.borrow_mut().is_connected = true;
    let hears = {
        let (mut reading, mut writing) = (pin!(read(wire, &mut input)), pin!(write(wire, &mut output)));
        poll_fn(|cx| match (reading.as_mut().poll(cx), writing.as_mut().poll(cx)) {
            (Poll::Ready(()), _) => Poll::Ready(true),
            (_, Poll::Ready(())) => Poll::Ready(false),
            _ => Poll::Pending,
        })
        .await
    };
    match if hears { received.await } else { sent.await } {
        Ok(()) => io::ErrorKind::UnexpectedEof.into(),
        Err(error) => told(error),
    }
}

async fn read(wire: &RefCell<Wire>, input: &mut StreamReader<u8>) {
    loop {
        poll_fn(|_| if wire.borrow().rests { Poll::Pending } else { Poll::Ready(()) }).await;
        let mut reading = pin!(input.read(Vec::with_capacity(ROOM)));
        let (result, bytes) = poll_fn(|cx| {
            let rests = wire.borrow().rests;
            if rests { Poll::Ready(reading.as_mut().cancel()) } else { reading.as_mut().poll(cx) }
        })
        .await;
        wire.borrow_mut().came.extend(bytes);
        if matches!(result, StreamResult::Dropped) {
            return;
        }
    }
}

async fn write(wire: &RefCell<Wire>, output: &mut StreamWriter<u8>) {
    loop {
        let bytes = poll_fn(|_| {
            let wire = &mut *wire.borrow_mut();
            wire.is_sending = !wire.unsent.is_empty();
            if wire.is_sending { Poll::Ready(mem::take(&mut wire.unsent)) } else { Poll::Pending }
        })
        .await;
        if !output.write_all(bytes).await.is_empty() {
            return;
        }
    }
}

fn unresolved(error: ip_name_lookup::ErrorCode) -> io::Error {
    use ip_name_lookup::ErrorCode;
    match error {
        ErrorCode::AccessDenied => io::Error::new(io::ErrorKind::PermissionDenied, error.to_string()),
        _ => unknown_host(io::Error::other(error.to_string())),
    }
}

/// What the host says, as a system would.
fn told(error: ErrorCode) -> io::Error {
    let kind = match error {
        ErrorCode::AccessDenied | ErrorCode::NotSupported => io::ErrorKind::PermissionDenied,
        ErrorCode::Timeout => io::ErrorKind::TimedOut,
        ErrorCode::ConnectionRefused => io::ErrorKind::ConnectionRefused,
        ErrorCode::ConnectionReset | ErrorCode::ConnectionAborted => io::ErrorKind::ConnectionReset,
        ErrorCode::ConnectionBroken => io::ErrorKind::BrokenPipe,
        ErrorCode::RemoteUnreachable => io::ErrorKind::HostUnreachable,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error.to_string())
}
