//! Connections of async callers: the same sockets, driven by the caller's own runtime or foreign event loop.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll};

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Cmd, Parser, Pipeline, ProtocolVersion, RedisConnectionInfo, Value};
use smallvec::{SmallVec, smallvec};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{self, Handle};
use tokio_rustls::TlsConnector;

use super::config::{Config, Endpoint, Tls};
use super::greeting::{Greeting, Welcome};
use super::shortcut::Known;
use super::socket::{lost, unknown_host, unreachable};
use super::wire::{Broken, Frames, Watch};
use crate::error::Result;
use crate::platform::event_loop;
use crate::platform::fork::{Registered, register};
use crate::platform::poller::Socket;

/// How many requests may wait to be written before their tasks do.
const QUEUE: usize = 1024;

/// A socket of a tokio runtime, which a forked child closes unseen.
pub(super) struct Stream {
    // Before the descriptor it stands for: fields are dropped in order.
    _registered: Registered,
    pipe: Pipe,
    watch: Watch,
    /// Told when the other side turned out not to speak the protocol.
    broken: Arc<OnceLock<Broken>>,
}

enum Pipe {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
    ForeignTcp(Socket<mio::net::TcpStream>),
    ForeignUnix(Socket<mio::net::UnixStream>),
}

impl Pipe {
    /// The same socket, watched by `home` itself. Encrypted ones stay with the driver's thread, which wakes `home`.
    fn moved_to(self, home: &event_loop::Home) -> io::Result<Self> {
        Ok(match self {
            Pipe::Tcp(stream) => {
                Pipe::ForeignTcp(home.poller.watch(mio::net::TcpStream::from_std(stream.into_std()?))?)
            }
            Pipe::Unix(stream) => {
                Pipe::ForeignUnix(home.poller.watch(mio::net::UnixStream::from_std(stream.into_std()?))?)
            }
            stays => stays,
        })
    }
}

/// What polls the tasks that share a connection.
pub(super) enum Home {
    Runtime(Handle),
    Foreign(Arc<event_loop::Home>),
}

/// Tells one home from another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum HomeId {
    Runtime(runtime::Id),
    Foreign(u64),
}

impl Home {
    /// Of the present task, which runs in a tokio context.
    pub(super) fn current() -> Self {
        event_loop::current().map_or_else(|| Home::Runtime(Handle::current()), Home::Foreign)
    }

    pub(super) fn id(&self) -> HomeId {
        match self {
            Home::Runtime(handle) => HomeId::Runtime(handle.id()),
            Home::Foreign(home) => HomeId::Foreign(home.id()),
        }
    }

    /// A connection, greeted. In a foreign event loop the driver's thread dials: only the exchange of requests is worth the
    /// loop's time, and whoever is asked for credentials there must not stop it.
    async fn dial(&self, config: &Arc<Config>) -> Result<(Stream, Welcome)> {
        let Home::Foreign(home) = self else { return Stream::dial(config).await };
        let config = config.clone();
        let dialled = home.background().spawn(async move { Stream::dial(&config).await });
        let (stream, welcome) = dialled.await.map_err(|error| lost(io::Error::other(error)))??;
        let Stream { _registered, pipe, watch, broken } = stream;
        let pipe = pipe.moved_to(home).map_err(lost)?;
        Ok((Stream { _registered, pipe, watch, broken }, welcome))
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        match self {
            Home::Runtime(handle) => drop(handle.spawn(work)),
            Home::Foreign(home) => drop(home.spawn(Box::pin(work))),
        }
    }
}

impl Stream {
    /// Dials and greets, for `connect_timeout` at most.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub(super) async fn dial(config: &Config) -> Result<(Self, Welcome)> {
        match tokio::time::timeout(config.connect_timeout, Self::dial_at_leisure(config)).await {
            Ok(dialled) => dialled,
            Err(_) => Err(unreachable(config, io::ErrorKind::TimedOut.into())),
        }
    }

    async fn dial_at_leisure(config: &Config) -> Result<(Self, Welcome)> {
        let credentials = config.credentials_aside().await?;
        let mut stream = connect(config).await.map_err(|error| unreachable(config, error))?;
        let greeting = Greeting::new(config, credentials);
        let (mut bytes, mut frames, mut answers, mut at) = (Vec::with_capacity(8192), Frames::default(), 0, 0);
        let mut ended = stream.write_all(&greeting.bytes).await.err();
        while answers < greeting.answers() && ended.is_none() {
            match stream.read_buf(&mut bytes).await {
                Ok(0) => ended = Some(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) => ended = Some(error),
            }
            while let Ok(Some(end)) = frames.end(&bytes[at..]) {
                at += end;
                answers += 1;
            }
            at = bytes.len();
        }
        match (ended, &stream.watch.broken) {
            (_, Some((broken, seen))) => return Err(broken.explain(&greeting.quotable(seen))),
            (Some(error), None) if answers == 0 => return Err(unreachable(config, error)),
            _ => {}
        }
        let (mut parser, mut rest) = (Parser::new(), bytes.as_slice());
        let values: Vec<_> = (0..answers).map_while(|_| parser.parse_value(&mut rest).ok()).collect();
        Ok((stream, greeting.read(&values)?))
    }
}

async fn connect(config: &Config) -> io::Result<Stream> {
    let (registered, pipe) = match &config.endpoint {
        Endpoint::Unix(path) => {
            let stream = UnixStream::connect(path).await?;
            (register(&stream), Pipe::Unix(stream))
        }
        Endpoint::Tcp { host, port } => {
            let found = tokio::net::lookup_host((host.as_str(), *port)).await.map_err(unknown_host)?;
            let stream = TcpStream::connect(&*Vec::from_iter(found)).await?;
            let registered = register(&stream);
            stream.set_nodelay(true)?;
            let pipe = match &config.tls {
                None => Pipe::Tcp(stream),
                Some(Tls { config, name }) => {
                    Pipe::Tls(Box::new(TlsConnector::from(config.clone()).connect(name.clone(), stream).await?))
                }
            };
            (registered, pipe)
        }
    };
    Ok(Stream { _registered: registered, pipe, watch: Watch::default(), broken: Arc::default() })
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let polled = match &mut self.pipe {
            Pipe::Tcp(stream) => Pin::new(stream).poll_read(cx, into),
            Pipe::Unix(stream) => Pin::new(stream).poll_read(cx, into),
            Pipe::Tls(stream) => Pin::new(stream).poll_read(cx, into),
            Pipe::ForeignTcp(stream) => Pin::new(stream).poll_read(cx, into),
            Pipe::ForeignUnix(stream) => Pin::new(stream).poll_read(cx, into),
        };
        if let Poll::Ready(Ok(())) = polled
            && let Err(error) = self.watch.look(&into.filled()[before..])
        {
            if let Some((broken, _)) = &self.watch.broken {
                self.broken.get_or_init(|| *broken);
            }
            return Poll::Ready(Err(error));
        }
        polled
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.pipe {
            Pipe::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Pipe::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Pipe::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
            Pipe::ForeignTcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Pipe::ForeignUnix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.pipe {
            Pipe::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Pipe::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Pipe::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Pipe::ForeignTcp(stream) => Pin::new(stream).poll_flush(cx),
            Pipe::ForeignUnix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.pipe {
            Pipe::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Pipe::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Pipe::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Pipe::ForeignTcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Pipe::ForeignUnix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// One connection that every task of a runtime or foreign event loop shares.
#[derive(Clone)]
pub(super) struct Line {
    connection: MultiplexedConnection,
    ended: Arc<AtomicBool>,
    broken: Arc<OnceLock<Broken>>,
    pub(super) known: Arc<Mutex<Known>>,
}

impl Line {
    /// Dials, greets, and leaves the reading to `home`.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub(super) async fn dial(config: &Arc<Config>, home: Home) -> Result<(Self, Welcome)> {
        let (stream, welcome) = home.dial(config).await?;
        let broken = stream.broken.clone();
        // The greeting is ours, so that there is one for both kinds of caller; so are time limits.
        let greeted = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP2).set_skip_set_lib_name();
        let settings = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        let (connection, driver) = MultiplexedConnection::new_with_config(&greeted, stream, settings)
            .await
            .map_err(|error| lost(io::Error::other(error)))?;
        let ended = Arc::new(AtomicBool::new(false));
        let end = OnDrop(ended.clone());
        home.spawn(async move {
            let _end = end;
            driver.await;
        });
        Ok((Line { connection, ended, broken, known: Arc::default() }, welcome))
    }

    /// Sends `commands` in one write and awaits their values.
    ///
    /// # Errors
    /// Why there are none; whether the commands are executed is then unknown.
    pub(super) async fn ask(&mut self, mut commands: SmallVec<[Cmd; 1]>) -> Result<SmallVec<[Value; 1]>> {
        let values = match commands.len() {
            1 => self.connection.req_packed_command(&commands[0]).await.map(|value| smallvec![value]),
            count => {
                let mut pipeline = Pipeline::with_capacity(count);
                for command in commands.drain(..) {
                    pipeline.add_command(command);
                }
                self.connection.req_packed_commands(&pipeline, 0, count).await.map(SmallVec::from_vec)
            }
        };
        values.map_err(|error| match self.broken.get() {
            Some(broken) => broken.explain(""),
            None => lost(io::Error::other(error)),
        })
    }

    /// Nothing more is asked of it: a reply that is late may still come.
    pub(super) fn retire(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_usable(&self) -> bool {
        !self.ended.load(Ordering::Relaxed)
    }
}

/// Says that the reading ended, however it did: a runtime that shuts down drops its tasks.
struct OnDrop(Arc<AtomicBool>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
