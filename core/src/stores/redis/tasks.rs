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

use super::config::{Config, Endpoint};
use super::greeting::{Greeting, Welcome};
use super::shortcut::ShortcutProbe;
use super::socket::{lost, unreachable};
use super::wire::{Broken, Frames, Watch};
use crate::error::Result;
use crate::platform::stream::{self, Home};
use crate::stores::pipe::Pipe;
use crate::stores::reach::unknown_host;

/// How many requests may wait to be written before their tasks do.
const QUEUE: usize = 1024;

/// A socket that a server answers on.
pub(super) struct Stream {
    pipe: Pipe,
    watch: Watch,
    /// Told when the other side turned out not to speak the protocol.
    broken: Arc<OnceLock<Broken>>,
}

/// A connection for `home`, greeted. In a foreign event loop the driver's thread dials: only the exchange of requests
/// is worth the loop's time, and whoever is asked for credentials there must not stop it. Encrypted sockets stay with
/// that thread, which wakes `home`.
async fn dial(config: &Arc<Config>, home: &Home) -> Result<(Stream, Welcome)> {
    let Some(background) = home.background() else { return Stream::dial(config).await };
    let config = config.clone();
    let dialled = background.spawn(async move { Stream::dial(&config).await });
    let (stream, welcome) = dialled.await.map_err(|error| lost(io::Error::other(error)))??;
    let pipe = match stream.pipe {
        Pipe::Plain(socket) => Pipe::Plain(home.take(socket).map_err(lost)?),
        stays @ Pipe::Tls(_) => stays,
    };
    Ok((Stream { pipe, ..stream }, welcome))
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
        let credentials = config.login.credentials_aside().await?;
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
    let stream = match &config.endpoint {
        Endpoint::Unix(path) => stream::Stream::to_file(path).await?,
        Endpoint::Tcp { host, port } => {
            let found = tokio::net::lookup_host((host.as_str(), *port)).await.map_err(unknown_host)?;
            stream::Stream::to(&Vec::from_iter(found)).await?
        }
    };
    let pipe = Pipe::over(stream, config.tls.as_ref()).await?;
    Ok(Stream { pipe, watch: Watch::default(), broken: Arc::default() })
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let polled = Pin::new(&mut self.pipe).poll_read(cx, into);
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
        Pin::new(&mut self.pipe).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(cx)
    }
}

/// One connection that every task of a runtime or foreign event loop shares.
#[derive(Clone)]
pub(super) struct TaskConnection {
    connection: MultiplexedConnection,
    ended: Arc<AtomicBool>,
    broken: Arc<OnceLock<Broken>>,
    pub(super) known: Arc<Mutex<ShortcutProbe>>,
}

impl TaskConnection {
    /// Dials, greets, and leaves the reading to `home`.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub(super) async fn dial(config: &Arc<Config>, home: Home) -> Result<(Self, Welcome)> {
        let (stream, welcome) = dial(config, &home).await?;
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
        Ok((TaskConnection { connection, ended, broken, known: Arc::default() }, welcome))
    }

    /// Sends `commands` in one write and awaits their values.
    ///
    /// # Errors
    /// Why there are none; whether the commands are executed is then unknown.
    pub(super) async fn ask(&mut self, mut commands: SmallVec<[Cmd; 1]>) -> Result<SmallVec<[Value; 1]>> {
        let values = match commands.len() {
            // Most often; and what the crate boxes for whoever asks by its trait need not be.
            1 => self.connection.send_packed_command(&commands[0]).await.map(|value| smallvec![value]),
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
