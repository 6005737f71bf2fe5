//! Sockets of threads, which a forked child closes unseen.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::clock;
use super::fork::{Registered, register};
use crate::time::Time;

/// A connected socket. What its limits cut short fails as timed out.
pub(crate) struct Socket {
    // Before the descriptor it stands for: fields are dropped in order.
    _registered: Registered,
    pipe: Pipe,
}

enum Pipe {
    Tcp(TcpStream),
    #[cfg(unix)]
    File(UnixStream),
}

/// Does the same with whichever it is.
macro_rules! with {
    ($pipe:expr, $stream:ident => $does:expr) => {
        match $pipe {
            Pipe::Tcp($stream) => $does,
            #[cfg(unix)]
            Pipe::File($stream) => $does,
        }
    };
}

impl Socket {
    /// Connects to the first of `addresses` that takes it, until `limit` at most.
    pub(crate) fn to(addresses: &[SocketAddr], limit: Time) -> io::Result<Self> {
        let stream = first_of(addresses, limit)?;
        stream.set_nodelay(true)?;
        Ok(Socket { _registered: register(&stream), pipe: Pipe::Tcp(stream) })
    }

    /// Connects to the socket file at `path`, until `limit` at most.
    #[cfg(unix)]
    pub(crate) fn to_file(path: &Path, limit: Time) -> io::Result<Self> {
        let stream = file(path, limit)?;
        Ok(Socket { _registered: register(&stream), pipe: Pipe::File(stream) })
    }

    /// There are no socket files here.
    #[cfg(not(unix))]
    pub(crate) fn to_file(_: &Path, _: Time) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// How long a read may take.
    pub(crate) fn set_read_timeout(&self, limit: Duration) -> io::Result<()> {
        with!(&self.pipe, stream => stream.set_read_timeout(Some(limit)))
    }

    /// How long a write may take.
    pub(crate) fn set_write_timeout(&self, limit: Duration) -> io::Result<()> {
        with!(&self.pipe, stream => stream.set_write_timeout(Some(limit)))
    }

    /// Whether there is a byte to be read; an error of the kind `WouldBlock` while nothing has come.
    #[cfg(unix)]
    pub(crate) fn peek(&self) -> io::Result<bool> {
        use rustix::net::{RecvFlags, recv};
        let (mut byte, flags) = ([0_u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        let (_, count) = with!(&self.pipe, stream => recv(stream, &mut byte, flags))?;
        Ok(count > 0)
    }

    /// Whether there is a byte to be read; an error of the kind `WouldBlock` while nothing has come.
    #[cfg(not(unix))]
    pub(crate) fn peek(&self) -> io::Result<bool> {
        let Pipe::Tcp(stream) = &self.pipe;
        stream.set_nonblocking(true)?;
        let peeked = stream.peek(&mut [0; 1]);
        stream.set_nonblocking(false)?;
        Ok(peeked? > 0)
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        with!(&mut self.pipe, stream => stream.read(into)).map_err(timed_out)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        with!(&mut self.pipe, stream => stream.write(bytes)).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A limit of the descriptor that is over.
fn timed_out(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}

fn first_of(addresses: &[SocketAddr], limit: Time) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::TimedOut);
    for address in addresses {
        let left = limit.since(clock::now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A server that is stopped leaves its queue of connections full, and whoever connects waits for a place in it: for as
/// long as the descriptor may take to write.
#[cfg(unix)]
fn file(path: &Path, limit: Time) -> io::Result<UnixStream> {
    use rustix::io::Errno;
    use rustix::net::sockopt::Timeout;
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let address = SocketAddrUnix::new(path)?;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    loop {
        let left = limit.since(clock::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        rustix::net::sockopt::set_socket_timeout(&socket, Timeout::Send, Some(left))?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) => return Ok(socket.into()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(timed_out(error.into())),
        }
    }
}
