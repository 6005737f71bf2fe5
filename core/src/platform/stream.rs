//! Sockets of tasks, which a forked child closes unseen, and what polls them: the runtime that the tasks run in, or a
//! foreign event loop.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
#[cfg(feature = "redis")]
use std::path::Path;
use std::pin::Pin;
#[cfg(unix)]
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::runtime::{self, Handle};

#[cfg(unix)]
use super::event_loop;
use super::fork::{Registered, register};
#[cfg(unix)]
use super::poller::Socket;

/// What polls the tasks that share a connection.
pub(crate) enum Home {
    Runtime(Handle),
    #[cfg(unix)]
    Foreign(Arc<event_loop::Home>),
}

/// Tells one home from another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum HomeId {
    Runtime(runtime::Id),
    #[cfg(unix)]
    Foreign(u64),
}

impl Home {
    /// Of the present task, which runs in a tokio context.
    pub(crate) fn current() -> Self {
        #[cfg(unix)]
        if let Some(home) = event_loop::current() {
            return Home::Foreign(home);
        }
        Home::Runtime(Handle::current())
    }

    pub(crate) fn id(&self) -> HomeId {
        match self {
            Home::Runtime(handle) => HomeId::Runtime(handle.id()),
            #[cfg(unix)]
            Home::Foreign(home) => HomeId::Foreign(home.id()),
        }
    }

    /// The driver's own runtime, where this is a foreign event loop.
    pub(crate) fn background(&self) -> Option<&Handle> {
        match self {
            Home::Runtime(_) => None,
            #[cfg(unix)]
            Home::Foreign(home) => Some(home.background()),
        }
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        match self {
            Home::Runtime(handle) => drop(handle.spawn(work)),
            #[cfg(unix)]
            Home::Foreign(home) => drop(home.spawn(Box::pin(work))),
        }
    }

    /// A socket of the driver's own runtime, watched by a foreign event loop itself.
    pub(crate) fn take(&self, stream: Stream) -> io::Result<Stream> {
        match self {
            Home::Runtime(_) => Ok(stream),
            #[cfg(unix)]
            Home::Foreign(home) => {
                let Stream { _registered, pipe } = stream;
                Ok(Stream { _registered, pipe: pipe.moved_to(home)? })
            }
        }
    }
}

/// A connected socket.
pub(crate) struct Stream {
    // Before the descriptor it stands for: fields are dropped in order.
    _registered: Option<Registered>,
    pipe: Pipe,
}

enum Pipe {
    Tcp(TcpStream),
    #[cfg(unix)]
    File(UnixStream),
    #[cfg(unix)]
    ForeignTcp(Socket<mio::net::TcpStream>),
    #[cfg(unix)]
    ForeignFile(Socket<mio::net::UnixStream>),
    #[cfg(test)]
    Simulated(Box<dyn super::simulated::Socket>),
}

/// Does the same with whichever it is.
macro_rules! with {
    ($pipe:expr, $stream:ident => $does:expr) => {
        match $pipe {
            Pipe::Tcp($stream) => $does,
            #[cfg(unix)]
            Pipe::File($stream) => $does,
            #[cfg(unix)]
            Pipe::ForeignTcp($stream) => $does,
            #[cfg(unix)]
            Pipe::ForeignFile($stream) => $does,
            #[cfg(test)]
            Pipe::Simulated($stream) => $does,
        }
    };
}

#[cfg(unix)]
impl Pipe {
    fn moved_to(self, home: &event_loop::Home) -> io::Result<Self> {
        Ok(match self {
            Pipe::Tcp(stream) => {
                Pipe::ForeignTcp(home.poller.watch(mio::net::TcpStream::from_std(stream.into_std()?))?)
            }
            Pipe::File(stream) => {
                Pipe::ForeignFile(home.poller.watch(mio::net::UnixStream::from_std(stream.into_std()?))?)
            }
            stays => stays,
        })
    }
}

impl Stream {
    /// Connects to the first of `addresses` that takes it.
    pub(crate) async fn to(addresses: &[SocketAddr]) -> io::Result<Self> {
        #[cfg(test)]
        if let Some(dialled) = super::simulated::dial(addresses) {
            return Ok(Stream { _registered: None, pipe: Pipe::Simulated(dialled.await?) });
        }
        let stream = TcpStream::connect(addresses).await?;
        let _registered = Some(register(&stream));
        stream.set_nodelay(true)?;
        Ok(Stream { _registered, pipe: Pipe::Tcp(stream) })
    }

    /// Its own port, where it has one.
    #[cfg(feature = "postgres")]
    pub(crate) fn port(&self) -> Option<u16> {
        let Pipe::Tcp(stream) = &self.pipe else { return None };
        stream.local_addr().ok().map(|address| address.port())
    }

    /// Connects to the socket file at `path`.
    #[cfg(all(unix, feature = "redis"))]
    pub(crate) async fn to_file(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path).await?;
        Ok(Stream { _registered: Some(register(&stream)), pipe: Pipe::File(stream) })
    }

    /// There are no socket files here.
    #[cfg(all(not(unix), feature = "redis"))]
    pub(crate) async fn to_file(_: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        with!(&mut self.pipe, stream => Pin::new(stream).poll_read(cx, into))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        with!(&mut self.pipe, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with!(&mut self.pipe, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with!(&mut self.pipe, stream => Pin::new(stream).poll_shutdown(cx))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        with!(&mut self.pipe, stream => Pin::new(stream).poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        with!(&self.pipe, stream => stream.is_write_vectored())
    }
}
