//! Connections of blocking callers: sockets of our own, whose every read ends in time and which a forked child closes
//! unseen.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc;
use std::time::Duration;

use lockwright_resp::place::Endpoint;
use redis::Value;
use rustls::{ClientConnection, StreamOwned};
use zeroize::Zeroize;

use super::config::Config;
use super::greeting::{Greeting, Welcome};
use super::input::Input;
use super::shortcut::ShortcutProbe;
use super::wire::{REDIS, lost};
use crate::error::{Error, Kind, Result};
use crate::platform::{clock, runtime, socket, thread};
use crate::stores::reach::{self, unknown_host};
use crate::stores::tls::Tls;
use crate::time::Time;

/// A connection that greeted.
pub(super) struct Connection {
    stream: Stream,
    input: Input,
    /// What is about to be sent, kept for its memory.
    pub(super) out: Vec<u8>,
    /// When it was last used.
    pub(super) used: Time,
    /// When it was dialled.
    pub(super) since: Time,
    pub(super) known: ShortcutProbe,
}

/// A write that failed.
#[derive(Debug)]
pub(super) struct Unsent {
    /// Whether not one byte of it left.
    pub(super) entirely: bool,
    pub(super) error: io::Error,
}

impl Connection {
    /// Dials and greets, until `limit` at most.
    ///
    /// # Errors
    /// Why it cannot be had; nothing that was asked of the server can run later.
    pub(super) fn dial(config: &Config, limit: Time) -> Result<(Self, Welcome)> {
        let limit = limit.min(clock::now().after(config.connect_timeout));
        let Some(sentinels) = &config.sentinels else { return Self::dial_server(config, limit) };
        let mut search = sentinels.search(config);
        while let Some(named) = runtime::block_on(search.next())? {
            match Self::dial_server(&named, limit) {
                Ok((connection, welcome)) if search.is_good(&named, &welcome) => return Ok((connection, welcome)),
                Ok(_) => {}
                Err(error) => search.failed(error),
            }
        }
        Err(search.error())
    }

    fn dial_server(config: &Config, limit: Time) -> Result<(Self, Welcome)> {
        let credentials = config.login.credentials()?;
        let stream = connect(config, limit).map_err(|error| unreachable(config, error))?;
        let (out, used) = (Vec::new(), clock::now());
        let known = ShortcutProbe::default();
        let mut connection = Connection { stream, input: Input::default(), out, used, since: used, known };
        let greeting = config.greeting(credentials);
        connection.out.extend_from_slice(&greeting.bytes);
        connection.expect(limit, limit.since(clock::now()));
        let sent = connection.send();
        // A password was in there.
        connection.out.zeroize();
        sent.map_err(|unsent| unreachable(config, unsent.error))?;
        let mut answers = Vec::with_capacity(greeting.answers());
        while answers.len() < greeting.answers() {
            match connection.receive() {
                Ok(answer) => answers.push(answer),
                Err(_) if connection.input.watch.broken.is_some() => return Err(connection.broken(Some(&greeting))),
                // Whoever ends the connection has said why in the last answer; whoever is slow has not.
                Err(error) if answers.is_empty() || error.kind() == io::ErrorKind::TimedOut => {
                    return Err(unreachable(config, error));
                }
                Err(_) => break,
            }
        }
        let welcome = greeting.read(&answers)?;
        connection.known = ShortcutProbe::of(welcome.run.as_deref());
        if !connection.is_clean() {
            return Err(lost(io::ErrorKind::InvalidData.into()));
        }
        Ok((connection, welcome))
    }

    /// What is sent has to be gone, and the replies are waited for, until `deadline`, which is `patience` from now.
    pub(super) fn expect(&mut self, deadline: Time, patience: Duration) {
        let raw = self.stream.raw();
        raw.deadline = deadline;
        raw.patience = Some(patience);
    }

    /// Sends what is in `out`.
    pub(super) fn send(&mut self) -> std::result::Result<(), Unsent> {
        let mut left = self.out.as_slice();
        let stream = &mut self.stream;
        let unsent = |left: &[u8], error| Unsent { entirely: left.len() == self.out.len(), error };
        while !left.is_empty() {
            match stream.write(left) {
                Ok(0) => return Err(unsent(left, io::ErrorKind::WriteZero.into())),
                Ok(count) => left = &left[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unsent(left, error)),
            }
        }
        stream.flush().map_err(|error| Unsent { entirely: false, error })
    }

    /// The next reply.
    pub(super) fn receive(&mut self) -> io::Result<Value> {
        loop {
            if let Some(value) = self.input.value()? {
                return Ok(value);
            }
            let count = self.stream.read(self.input.room())?;
            self.input.came(count)?;
        }
    }

    /// Why no reply came.
    pub(super) fn lost(&self, error: io::Error) -> Error {
        match self.input.watch.broken {
            Some(_) => self.broken(None),
            None => lost(error),
        }
    }

    fn broken(&self, greeting: Option<&Greeting>) -> Error {
        let Some((broken, seen)) = &self.input.watch.broken else {
            return Error::new(Kind::Internal, "connect", "a connection broke for no reason");
        };
        broken.explain(REDIS, &greeting.map(|greeting| greeting.quotable(seen)).unwrap_or_default())
    }

    /// Whether every reply that came was read.
    pub(super) fn is_clean(&self) -> bool {
        self.input.is_empty()
    }

    /// Whether the other side closed it, or sent what nobody asked for, while it was idle.
    pub(super) fn is_stale(&mut self) -> bool {
        let may_hold_bytes = matches!(self.stream, Stream::Tls(_));
        match self.stream.raw().socket.peek() {
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
            Ok(has_come) => !has_come || !may_hold_bytes,
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}

enum Stream {
    Plain(Raw),
    Tls(Box<StreamOwned<ClientConnection, Raw>>),
}

impl Stream {
    fn raw(&mut self) -> &mut Raw {
        match self {
            Stream::Plain(raw) => raw,
            Stream::Tls(tls) => &mut tls.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(raw) => raw.read(into),
            Stream::Tls(tls) => tls.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(raw) => raw.write(bytes),
            Stream::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(raw) => raw.flush(),
            Stream::Tls(tls) => tls.flush(),
        }
    }
}

/// The socket itself, and until when it is read from and written to.
struct Raw {
    socket: socket::Socket,
    deadline: Time,
    /// How long the next read may take, when that is known without a look at the clock.
    patience: Option<Duration>,
    /// The limits of one read and of one write that the descriptor has at present.
    timeouts: [Duration; 2],
}

/// What the limit of a descriptor is for.
#[derive(Clone, Copy)]
enum Way {
    In,
    Out,
}

impl Raw {
    fn new(socket: socket::Socket, deadline: Time) -> Self {
        Raw { socket, deadline, patience: None, timeouts: Default::default() }
    }

    /// Lets the next read or write last no longer than `limit`.
    fn at_most(&mut self, way: Way, limit: Duration) -> io::Result<()> {
        if limit.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let set = &mut self.timeouts[way as usize];
        // The caller's limits differ by the microseconds that passed on the way here: none of them is worth a system
        // call.
        if *set >= limit && *set - limit <= limit / 64 {
            return Ok(());
        }
        match way {
            Way::In => self.socket.set_read_timeout(limit)?,
            Way::Out => self.socket.set_write_timeout(limit)?,
        }
        *set = limit;
        Ok(())
    }
}

impl Read for Raw {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let limit = self.patience.take().unwrap_or_else(|| self.deadline.since(clock::now()));
            self.at_most(Way::In, limit)?;
            match self.socket.read(into) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}

impl Write for Raw {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Whoever takes a little at a time gets no more of it than whoever takes nothing.
        self.at_most(Way::Out, self.deadline.since(clock::now()))?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn connect(config: &Config, limit: Time) -> io::Result<Stream> {
    let socket = match &config.endpoint {
        Endpoint::Unix(path) => socket::Socket::to_file(path, limit)?,
        Endpoint::Tcp { host, port } => socket::Socket::to(&resolve(host, *port, limit)?, limit)?,
    };
    let mut raw = Raw::new(socket, limit);
    let Some(Tls { config, name }) = &config.tls else { return Ok(Stream::Plain(raw)) };
    let mut tls = ClientConnection::new(config.clone(), name.clone()).map_err(io::Error::other)?;
    while tls.is_handshaking() {
        tls.complete_io(&mut raw)?;
    }
    Ok(Stream::Tls(Box::new(StreamOwned::new(tls, raw))))
}

/// The addresses of `host`. The system's resolver has no time limit, so it runs in a thread that may be left behind.
fn resolve(host: &str, port: u16, limit: Time) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let (tell, hear) = mpsc::channel();
    let host = host.to_owned();
    thread::spawn("lockwright-dns", move || {
        let found = (host.as_str(), port).to_socket_addrs().map(Vec::from_iter);
        // Nobody may be waiting for it any more.
        let _ = tell.send(found);
    })?;
    hear.recv_timeout(limit.since(clock::now())).map_err(|_| io::ErrorKind::TimedOut)?.map_err(unknown_host)
}

/// Why a connection could not be made.
pub(super) fn unreachable(config: &Config, error: io::Error) -> Error {
    reach::unreachable(["redis://", "rediss://"], config.tls.is_some(), error)
}
