//! Sockets that the engine's lines are.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::{io, mem};

use lockwright_machines::reach::unknown_host;
use lockwright_wasm_engine::redis::{Action, Which};
use wasip3::sockets::ip_name_lookup::{self, resolve_addresses};
use wasip3::sockets::types::{
    ErrorCode, IpAddress, IpAddressFamily, IpSocketAddress, Ipv4SocketAddress, Ipv6SocketAddress, TcpSocket,
};
use wasip3::wit_stream;
use wit_bindgen::StreamWriter;

use super::{Network, now, read};
use crate::layer::Layer;
pub(crate) use crate::layer::{Engine, Security as Means, open};

pub(super) type Name = Which;
/// Why a connection ended.
pub(super) type End = io::Error;

/// The component that has TLS.
pub(crate) const WITH_TLS: &str = "lockwright-tls.async.component.wasm";

/// Fills these with random bytes; whether it could.
#[cfg(feature = "tls")]
pub(crate) fn fill(mut bytes: &mut [u8]) -> bool {
    while !bytes.is_empty() {
        // A host may give fewer than it was asked for.
        let given = wasip3::random::random::get_random_bytes(bytes.len() as u64);
        let Some((part, rest)) = bytes.split_at_mut_checked(given.len()).filter(|_| !given.is_empty()) else {
            return false;
        };
        part.copy_from_slice(&given);
        bytes = rest;
    }
    true
}

/// How long after the beginning of 1970 it is.
#[cfg(feature = "tls")]
pub(crate) fn since_1970() -> std::time::Duration {
    let now = wasip3::clocks::system_clock::now();
    std::time::Duration::new(now.seconds.try_into().unwrap_or_default(), now.nanoseconds)
}

/// What a connection and the engine have for one another.
#[derive(Default)]
pub(super) struct Wire {
    /// Once it is connected.
    layer: Option<Layer>,
    /// The engine knows that the server can be spoken to.
    is_told: bool,
    came: Vec<u8>,
    unsent: Vec<u8>,
    is_sending: bool,
    /// Nothing is to be read: what is being read would keep the task under way that reads.
    pub(super) rests: bool,
}

impl Wire {
    fn connected(&mut self, mut layer: Layer) {
        self.unsent = layer.owed();
        self.layer = Some(layer);
    }

    fn is_open(&self) -> bool {
        self.layer.as_ref().is_some_and(Layer::is_open)
    }

    fn send(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        if let Some(layer) = &mut self.layer {
            self.unsent.extend(layer.sealed(bytes)?);
        }
        Ok(())
    }

    pub(super) fn hear(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        if let Some(layer) = &mut self.layer {
            let said = layer.came(bytes);
            self.unsent.extend(layer.owed());
            self.came.extend(said?);
        }
        Ok(())
    }

    /// Whether the server can be spoken to since now, and what it said.
    fn news(&mut self) -> (bool, Vec<u8>) {
        (self.is_open() && !mem::replace(&mut self.is_told, true), mem::take(&mut self.came))
    }

    pub(super) fn may_rest(&self) -> bool {
        self.is_open() && self.unsent.is_empty() && !self.is_sending
    }
}

impl Network {
    pub(super) fn act(&mut self, engine: &mut Engine, action: Action) {
        match action {
            Action::Dial(which) => {
                let (host, port) = (engine.store().config().host.to_string(), engine.store().config().port);
                let layer = self.means.begin();
                self.lines.begin(which, |wire| connection(wire, layer, host, port));
            }
            Action::Send(which, bytes) => {
                let Some(line) = self.lines.get(which) else { return };
                let sent = line.wire.borrow_mut().send(bytes);
                if let Err(error) = sent {
                    self.end(engine, which, error);
                }
            }
            Action::HangUp(which) => self.lines.end(which),
        }
    }

    /// Tells the engine what happened on a connection; whether anything did.
    pub(super) fn tell(&mut self, engine: &mut Engine, which: Which, wire: &RefCell<Wire>, end: Option<End>) -> bool {
        let (is_new, came) = wire.borrow_mut().news();
        if is_new {
            engine.dialled(which, now());
        }
        if !came.is_empty() {
            engine.came(which, now(), &came);
        }
        let more = is_new || !came.is_empty() || end.is_some();
        if let Some(error) = end {
            self.end(engine, which, error);
        }
        more
    }

    fn end(&mut self, engine: &mut Engine, which: Which, error: io::Error) {
        self.lines.end(which);
        engine.ended(which, now(), error);
    }
}

async fn connection(wire: Rc<RefCell<Wire>>, layer: io::Result<Layer>, host: String, port: u16) -> io::Error {
    let dialled = async { Ok((layer?, dialled(&host, port).await?)) };
    match dialled.await {
        Ok((layer, socket)) => {
            wire.borrow_mut().connected(layer);
            carried(&wire, socket).await
        }
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
    let heard = {
        let (mut reading, mut writing) = (pin!(read(wire, &mut input)), pin!(write(wire, &mut output)));
        // Also where nothing is to be heard any more: the server may be owed the reason; whether it hears it is all the
        // same.
        poll_fn(|cx| match (reading.as_mut().poll(cx), writing.as_mut().poll(cx)) {
            (Poll::Ready(heard), _) => Poll::Ready(Some(heard)),
            (_, Poll::Ready(())) => Poll::Ready(None),
            _ => Poll::Pending,
        })
        .await
    };
    let ended = match heard {
        Some(Err(error)) => return error,
        Some(Ok(())) => received.await,
        None => sent.await,
    };
    match ended {
        Ok(()) => io::ErrorKind::UnexpectedEof.into(),
        Err(error) => told(error),
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
