//! Sockets that the engine's lines are.

use std::collections::VecDeque;
use std::io;

use lockwright_machines::reach::unknown_host;
use lockwright_wasm_engine::redis::{Action, Which};
use wasip2::io::poll::Pollable;
use wasip2::io::streams::{InputStream, OutputStream, StreamError};
use wasip2::sockets::instance_network::instance_network;
use wasip2::sockets::ip_name_lookup::{ResolveAddressStream, resolve_addresses};
use wasip2::sockets::network::{
    ErrorCode, IpAddress, IpAddressFamily, IpSocketAddress, Ipv4SocketAddress, Ipv6SocketAddress, Network as Sockets,
};
use wasip2::sockets::tcp::TcpSocket;
use wasip2::sockets::tcp_create_socket::create_tcp_socket;

use super::now;
pub(crate) use crate::layer::{Engine, open};
use crate::layer::{Layer, Security};

/// The component that has TLS.
pub(crate) const WITH_TLS: &str = "lockwright-tls.component.wasm";

/// Fills these with random bytes; whether it could.
#[cfg(feature = "tls")]
pub(crate) fn fill(bytes: &mut [u8]) -> bool {
    bytes.copy_from_slice(&wasip2::random::random::get_random_bytes(bytes.len() as u64));
    true
}

/// How long after the beginning of 1970 it is.
#[cfg(feature = "tls")]
pub(crate) fn since_1970() -> std::time::Duration {
    let now = wasip2::clocks::wall_clock::now();
    std::time::Duration::new(now.seconds, now.nanoseconds)
}

/// How much is read at a time.
const ROOM: u64 = 8 << 10;

/// One connection, from its name to its end. Streams go before the socket that they are of.
#[derive(Default)]
enum Socket {
    #[default]
    Closed,
    Resolving(Names),
    /// To one address of a name, or to the only one that there is.
    Connecting(TcpSocket, Option<Names>),
    Open {
        input: InputStream,
        output: OutputStream,
        unsent: VecDeque<u8>,
        layer: Layer,
        _socket: TcpSocket,
    },
}

/// The addresses of a name that were not tried yet.
struct Names {
    rest: ResolveAddressStream,
    /// Why the last that was tried is of no use.
    failed: Option<io::Error>,
}

/// Both connections of a client.
pub(crate) struct Network {
    requests: Socket,
    inbox: Socket,
    security: Security,
}

impl Network {
    pub(crate) fn new(security: Security) -> Self {
        Network { requests: Socket::Closed, inbox: Socket::Closed, security }
    }

    fn of(&mut self, which: Which) -> &mut Socket {
        match which {
            Which::Requests => &mut self.requests,
            Which::Inbox => &mut self.inbox,
        }
    }

    /// Takes both connections a step further; whether one could be.
    pub(super) fn advance(&mut self, engine: &mut Engine) -> bool {
        [Which::Requests, Which::Inbox].into_iter().fold(false, |more, which| self.go_on(engine, which) | more)
    }

    pub(super) fn perform(&mut self, engine: &mut Engine, action: Action) {
        match action {
            Action::Dial(which) => {
                *self.of(which) = Socket::Closed;
                match dial(&instance_network(), &engine.store().config().host, engine.store().config().port) {
                    Ok(socket) => *self.of(which) = socket,
                    Err(error) => engine.ended(which, now(), told(error)),
                }
            }
            Action::Send(which, bytes) => {
                let Socket::Open { unsent, layer, .. } = self.of(which) else { return };
                match layer.sealed(bytes) {
                    Ok(sealed) => unsent.extend(sealed),
                    Err(error) => self.end(engine, which, error),
                }
            }
            Action::HangUp(which) => *self.of(which) = Socket::Closed,
        }
    }

    /// Takes one connection a step further; whether it could.
    fn go_on(&mut self, engine: &mut Engine, which: Which) -> bool {
        let port = engine.store().config().port;
        let socket = self.of(which);
        let step = match socket {
            Socket::Closed => Ok(Step::Nothing),
            Socket::Resolving(names) => names.next(port),
            Socket::Connecting(dialled, names) => connected(dialled, names.as_mut()),
            Socket::Open { input, output, unsent, .. } => transfer(input, output, unsent),
        };
        match step {
            Ok(Step::Nothing) => return false,
            Ok(Step::Sent) => {}
            Ok(Step::Dialling(dialled)) => {
                let Socket::Resolving(names) = std::mem::take(socket) else { return true };
                *socket = Socket::Connecting(dialled, Some(names));
            }
            Ok(Step::Refused) => {
                let Socket::Connecting(_, Some(names)) = std::mem::take(socket) else { return true };
                *socket = Socket::Resolving(names);
            }
            Ok(Step::Connected(input, output)) => {
                let Socket::Connecting(dialled, _) = std::mem::take(socket) else { return true };
                match self.security.begin() {
                    Ok(mut layer) => {
                        let unsent = layer.owed().into();
                        if layer.is_open() {
                            engine.dialled(which, now());
                        }
                        *self.of(which) = Socket::Open { input, output, unsent, layer, _socket: dialled };
                    }
                    Err(error) => self.end(engine, which, error),
                }
            }
            Ok(Step::Came(bytes)) => self.came(engine, which, bytes),
            Err(error) => self.end(engine, which, error),
        }
        true
    }

    fn came(&mut self, engine: &mut Engine, which: Which, bytes: Vec<u8>) {
        let Socket::Open { unsent, layer, .. } = self.of(which) else { return };
        let was_open = layer.is_open();
        let came = layer.came(bytes);
        unsent.extend(layer.owed());
        match came {
            Ok(said) => {
                if layer.is_open() && !was_open {
                    engine.dialled(which, now());
                }
                if !said.is_empty() {
                    engine.came(which, now(), &said);
                }
            }
            Err(error) => self.end(engine, which, error),
        }
    }

    fn end(&mut self, engine: &mut Engine, which: Which, error: io::Error) {
        // The server may be owed the reason; whether it hears it is all the same.
        if let Socket::Open { output, unsent, .. } = self.of(which) {
            let _ = send(output, unsent);
        }
        *self.of(which) = Socket::Closed;
        engine.ended(which, now(), error);
    }

    /// What has to happen for something to be done.
    pub(super) fn pollables(&self) -> Vec<Pollable> {
        let mut pollables = Vec::with_capacity(4);
        for socket in [&self.requests, &self.inbox] {
            match socket {
                Socket::Closed => {}
                Socket::Resolving(names) => pollables.push(names.rest.subscribe()),
                Socket::Connecting(dialled, _) => pollables.push(dialled.subscribe()),
                Socket::Open { input, output, unsent, .. } => {
                    pollables.push(input.subscribe());
                    if !unsent.is_empty() {
                        pollables.push(output.subscribe());
                    }
                }
            }
        }
        pollables
    }
}

/// How far a connection came.
enum Step {
    Nothing,
    Sent,
    Dialling(TcpSocket),
    /// At one address of several.
    Refused,
    Connected(InputStream, OutputStream),
    Came(Vec<u8>),
}

fn dial(network: &Sockets, host: &str, port: u16) -> Result<Socket, ErrorCode> {
    let ip = match host.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(ip)) => IpAddress::Ipv4(ip.octets().into()),
        Ok(std::net::IpAddr::V6(ip)) => IpAddress::Ipv6(ip.segments().into()),
        Err(_) => return Ok(Socket::Resolving(Names { rest: resolve_addresses(network, host)?, failed: None })),
    };
    Ok(Socket::Connecting(connect(network, ip, port)?, None))
}

fn connect(network: &Sockets, ip: IpAddress, port: u16) -> Result<TcpSocket, ErrorCode> {
    let (family, address) = match ip {
        IpAddress::Ipv4(address) => (IpAddressFamily::Ipv4, IpSocketAddress::Ipv4(Ipv4SocketAddress { port, address })),
        IpAddress::Ipv6(address) => {
            let address = Ipv6SocketAddress { port, flow_info: 0, address, scope_id: 0 };
            (IpAddressFamily::Ipv6, IpSocketAddress::Ipv6(address))
        }
    };
    let socket = create_tcp_socket(family)?;
    socket.start_connect(network, address)?;
    Ok(socket)
}

impl Names {
    /// The next address that something can be begun with.
    fn next(&mut self, port: u16) -> io::Result<Step> {
        loop {
            match self.rest.resolve_next_address() {
                Ok(Some(ip)) => match connect(&instance_network(), ip, port) {
                    Ok(socket) => return Ok(Step::Dialling(socket)),
                    Err(error) => self.failed = Some(told(error)),
                },
                Ok(None) => {
                    return Err(self.failed.take().unwrap_or_else(|| unknown_host(io::ErrorKind::NotFound.into())));
                }
                Err(ErrorCode::WouldBlock) => return Ok(Step::Nothing),
                Err(error) => return Err(told(error)),
            }
        }
    }
}

fn connected(socket: &TcpSocket, names: Option<&mut Names>) -> io::Result<Step> {
    match (socket.finish_connect(), names) {
        (Ok((input, output)), _) => Ok(Step::Connected(input, output)),
        (Err(ErrorCode::WouldBlock), _) => Ok(Step::Nothing),
        (Err(error), Some(names)) => {
            names.failed = Some(told(error));
            Ok(Step::Refused)
        }
        (Err(error), None) => Err(told(error)),
    }
}

/// Sends what there is room for; whether that was anything.
fn send(output: &OutputStream, unsent: &mut VecDeque<u8>) -> io::Result<bool> {
    if unsent.is_empty() {
        return Ok(false);
    }
    let room = usize::try_from(output.check_write().map_err(cut)?).unwrap_or(usize::MAX);
    if room == 0 {
        return Ok(false);
    }
    let part: Vec<u8> = unsent.drain(..room.min(unsent.len())).collect();
    output.write(&part).map_err(cut)?;
    output.flush().map_err(cut)?;
    Ok(true)
}

fn transfer(input: &InputStream, output: &OutputStream, unsent: &mut VecDeque<u8>) -> io::Result<Step> {
    if send(output, unsent)? {
        return Ok(Step::Sent);
    }
    let bytes = input.read(ROOM).map_err(cut)?;
    Ok(if bytes.is_empty() { Step::Nothing } else { Step::Came(bytes) })
}

/// A connection that ended.
fn cut(error: StreamError) -> io::Error {
    match error {
        StreamError::Closed => io::ErrorKind::UnexpectedEof.into(),
        // The host has no code for it.
        StreamError::LastOperationFailed(error) => {
            io::Error::new(io::ErrorKind::ConnectionReset, error.to_debug_string())
        }
    }
}

/// What the host says, as a system would.
fn told(error: ErrorCode) -> io::Error {
    let kind = match error {
        ErrorCode::NameUnresolvable | ErrorCode::TemporaryResolverFailure | ErrorCode::PermanentResolverFailure => {
            return unknown_host(io::Error::other(error.message()));
        }
        ErrorCode::AccessDenied | ErrorCode::NotSupported => io::ErrorKind::PermissionDenied,
        ErrorCode::Timeout => io::ErrorKind::TimedOut,
        ErrorCode::ConnectionRefused => io::ErrorKind::ConnectionRefused,
        ErrorCode::ConnectionReset | ErrorCode::ConnectionAborted => io::ErrorKind::ConnectionReset,
        ErrorCode::RemoteUnreachable => io::ErrorKind::HostUnreachable,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error.message())
}
