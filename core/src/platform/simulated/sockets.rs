//! Connections as a store's driver has them, of bytes: what is written arrives in its order, in pieces, after a while,
//! or not at all.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::network::{At, Network};
use crate::platform::mutex::locked;
use crate::platform::{clock, simulated};
use crate::time::Time;

/// Which connection.
pub(crate) type Connection = u64;

/// What listens at the addresses.
pub(crate) trait Host: Send + Sync {
    /// Somebody connected to the server with this number.
    fn opened(&self, connection: Connection, server: usize);
    /// Bytes came.
    fn came(self: Arc<Self>, connection: Connection, bytes: &[u8]);
    /// The other side ended it, or it broke.
    fn ended(&self, connection: Connection);
}

/// So late each side finds, at most, that a connection broke.
pub(crate) const BROKEN: Duration = Duration::from_secs(10);

/// All connections to the servers at 10.0.0.0, 10.0.0.1, ...
pub(crate) struct Sockets {
    pub(crate) network: Arc<Network>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    number: Connection,
    lines: BTreeMap<Connection, Arc<Line>>,
    /// By server, until when nobody is let in.
    refuse_until: BTreeMap<usize, Time>,
}

/// A connection.
struct Line {
    network: Arc<Network>,
    host: Arc<dyn Host>,
    number: Connection,
    server: usize,
    state: Mutex<LineState>,
}

struct LineState {
    /// What the client can read.
    come: VecDeque<u8>,
    reader: Option<Waker>,
    /// When the last of what was said to the server, and to the client, arrives.
    last: [Time; 2],
    /// Nothing that is under way arrives any more.
    is_cut: bool,
    /// How the client finds that it ended.
    end: Option<End>,
    /// Whether the server knows.
    is_known: bool,
}

#[derive(Clone, Copy)]
enum End {
    Closed,
    Broken,
}

const TO_SERVER: usize = 0;
const TO_CLIENT: usize = 1;

/// The address of the server with this number.
pub(crate) fn host(server: usize) -> String {
    format!("10.0.0.{server}")
}

impl Sockets {
    /// Where `host` listens; the clients of this thread connect there.
    pub(crate) fn new(network: &Arc<Network>, host: Weak<impl Host + 'static>) -> Arc<Self> {
        let sockets = Arc::new(Sockets { network: network.clone(), state: Mutex::default() });
        let (dialled, host): (_, Weak<dyn Host>) = (sockets.clone(), host);
        simulated::dials_by(move |address| Box::pin(dialled.clone().dial(address, host.clone())));
        sockets
    }

    async fn dial(
        self: Arc<Self>,
        address: SocketAddr,
        host: Weak<dyn Host>,
    ) -> io::Result<Box<dyn simulated::Socket>> {
        let IpAddr::V4(ip) = address.ip() else { return Err(io::ErrorKind::AddrNotAvailable.into()) };
        let server = usize::from(ip.octets()[3]);
        if self.network.chance(20) {
            // Nobody says that nobody is there.
            std::future::pending::<()>().await;
        }
        simulated::sleep_until(clock::now().after(self.network.delay())).await;
        let Some(host) = host.upgrade() else { return Err(io::ErrorKind::ConnectionRefused.into()) };
        let line = {
            let mut state = locked(&self.state);
            let now = clock::now();
            if state.refuse_until.get(&server).is_some_and(|until| now < *until) {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            state.number += 1;
            let line = Arc::new(Line {
                network: self.network.clone(),
                host,
                number: state.number,
                server,
                state: Mutex::new(LineState {
                    come: VecDeque::new(),
                    reader: None,
                    last: [now; 2],
                    is_cut: false,
                    end: None,
                    is_known: false,
                }),
            });
            state.lines.retain(|_, line| !locked(&line.state).is_known);
            state.lines.insert(line.number, line.clone());
            line
        };
        line.host.opened(line.number, server);
        Ok(Box::new(Client(line)))
    }

    fn line(&self, connection: Connection) -> Option<Arc<Line>> {
        locked(&self.state).lines.get(&connection).cloned()
    }

    /// The server says this.
    pub(crate) fn send(&self, connection: Connection, bytes: Vec<u8>) {
        let Some(line) = self.line(connection) else { return };
        line.arrives(TO_CLIENT, move |line| {
            let mut state = locked(&line.state);
            if state.end.is_none() {
                state.come.extend(bytes);
                state.reader.take().into_iter().for_each(Waker::wake);
            }
        });
    }

    /// The server ends it behind what it said.
    pub(crate) fn close(&self, connection: Connection) {
        let Some(line) = self.line(connection) else { return };
        locked(&line.state).is_known = true;
        line.arrives(TO_CLIENT, |line| line.ends(End::Closed));
    }

    /// Nobody is let in by that server for so long, and the connections to it break.
    pub(crate) fn shut_out(&self, server: usize, span: Duration) {
        locked(&self.state).refuse_until.insert(server, clock::now().after(span));
        self.cut(Some(server));
    }

    /// The connections to that server, or to all, break.
    pub(crate) fn cut(&self, server: Option<usize>) {
        let is_there = |line: &&Arc<Line>| server.is_none_or(|server| server == line.server);
        self.lines().iter().filter(is_there).for_each(Line::breaks);
    }

    /// One of them does.
    pub(crate) fn cut_one(&self) {
        self.one().iter().for_each(Line::breaks);
    }

    /// Nothing arrives any more on one of the connections, and nobody tells the client.
    pub(crate) fn go_silent(&self) {
        self.one().iter().for_each(|line| line.cut(&[(TO_SERVER, BROKEN)]));
    }

    fn one(&self) -> Option<Arc<Line>> {
        let mut lines = self.lines();
        let one = self.network.one_of(lines.len());
        (one < lines.len()).then(|| lines.swap_remove(one))
    }

    fn lines(&self) -> Vec<Arc<Line>> {
        let mut lines: Vec<_> = locked(&self.state).lines.values().cloned().collect();
        lines.retain(|line| !locked(&line.state).is_known);
        lines
    }
}

impl Line {
    /// Something said now to that side comes to pass there after all that was said to it before.
    fn arrives(self: &Arc<Self>, to: usize, event: impl FnOnce(&Arc<Line>) + Send + 'static) {
        let delay = self.network.delay();
        let due = {
            let mut state = locked(&self.state);
            state.last[to] = state.last[to].max(clock::now().after(delay));
            state.last[to]
        };
        let line = self.clone();
        let event = move || {
            if !locked(&line.state).is_cut {
                event(&line);
            }
        };
        self.network.say(due, if to == TO_SERVER { At::Server } else { At::Client }, event);
    }

    /// Nothing arrives any more. Each side finds that out at once, or, where things go wrong, some time.
    fn breaks(self: &Arc<Self>) {
        let span = if self.network.chance(500) { BROKEN } else { Duration::from_millis(20) };
        self.cut(&[(TO_SERVER, span), (TO_CLIENT, span)]);
    }

    /// Nothing arrives any more, and these sides find out within so long.
    fn cut(self: &Arc<Self>, told: &[(usize, Duration)]) {
        locked(&self.state).is_cut = true;
        for (to, span) in told {
            let line = self.clone();
            let found = self.network.below(span.as_nanos() as u64);
            match *to {
                TO_SERVER => self.network.after(found, At::Server, move || line.is_left()),
                _ => self.network.after(found, At::Client, move || line.ends(End::Broken)),
            };
        }
    }

    /// The client finds that it ended.
    fn ends(&self, end: End) {
        let mut state = locked(&self.state);
        state.end.get_or_insert(end);
        state.reader.take().into_iter().for_each(Waker::wake);
    }

    /// The server finds that it ended.
    fn is_left(&self) {
        if !std::mem::replace(&mut locked(&self.state).is_known, true) {
            self.host.ended(self.number);
        }
    }
}

/// A client's end.
struct Client(Arc<Line>);

impl AsyncRead for Client {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Client(line) = &*self;
        let mut state = locked(&line.state);
        if state.come.is_empty() {
            return match state.end {
                Some(End::Closed) => Poll::Ready(Ok(())),
                Some(End::Broken) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                None => {
                    state.reader = Some(context.waker().clone());
                    Poll::Pending
                }
            };
        }
        let most = into.remaining().min(state.come.len());
        // Now and then not all that is there.
        let count = if line.network.chance(100) { most.div_ceil(2) } else { most };
        let bytes: Vec<u8> = state.come.drain(..count).collect();
        into.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Client {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Client(line) = &*self;
        if locked(&line.state).end.is_some() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let count = if line.network.chance(100) { bytes.len().div_ceil(2) } else { bytes.len() };
        let said = bytes[..count].to_vec();
        line.arrives(TO_SERVER, move |line| line.host.clone().came(line.number, &said));
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let Client(line) = self;
        line.ends(End::Closed);
        line.arrives(TO_SERVER, |line| line.is_left());
    }
}
