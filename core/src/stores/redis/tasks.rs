//! Sockets of async callers, dialled and greeted, and the connection of one runtime or foreign event loop.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_rustls::TlsConnector;

use super::config::{Config, Endpoint, Tls};
use super::greeting::{Greeting, Welcome};
use super::input::Input;
use super::shared_connection::SharedConnection;
use super::socket::{unknown_host, unreachable};
use super::wire::lost;
use crate::error::Result;
use crate::platform::stream::{self, Home};

/// A socket that a server answers on.
pub(super) enum Stream {
    Plain(stream::Stream),
    Tls(Box<tokio_rustls::client::TlsStream<stream::Stream>>),
}

/// A connection for `home`, greeted. In a foreign event loop the driver's thread dials: only the exchange of requests
/// is worth the loop's time, and whoever is asked for credentials there must not stop it. Encrypted sockets stay with
/// that thread, which wakes `home`.
async fn dial(config: &Arc<Config>, home: &Home) -> Result<(Stream, Welcome)> {
    let Some(background) = home.background() else { return Stream::dial(config).await };
    let config = config.clone();
    let dialled = background.spawn(async move { Stream::dial(&config).await });
    let (stream, welcome) = dialled.await.map_err(|error| lost(io::Error::other(error)))??;
    let stream = match stream {
        Stream::Plain(socket) => Stream::Plain(home.take(socket).map_err(lost)?),
        stays @ Stream::Tls(_) => stays,
    };
    Ok((stream, welcome))
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
        let (mut input, mut answers) = (Input::default(), Vec::with_capacity(greeting.answers()));
        let mut ended = stream.write_all(&greeting.bytes).await.err();
        while answers.len() < greeting.answers() && ended.is_none() {
            ended = match input.value() {
                Ok(Some(answer)) => {
                    answers.push(answer);
                    None
                }
                Ok(None) => match stream.read(input.room()).await {
                    Ok(count) => input.came(count).err(),
                    Err(error) => Some(error),
                },
                Err(error) => Some(error),
            };
        }
        match (&input.watch.broken, ended) {
            (Some((broken, seen)), _) => return Err(broken.explain(&greeting.quotable(seen))),
            (None, Some(error)) if answers.is_empty() => return Err(unreachable(config, error)),
            _ => {}
        }
        let welcome = greeting.read(&answers)?;
        if !input.is_empty() {
            return Err(lost(io::ErrorKind::InvalidData.into()));
        }
        Ok((stream, welcome))
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
    Ok(match &config.tls {
        None => Stream::Plain(stream),
        Some(Tls { config, name }) => {
            Stream::Tls(Box::new(TlsConnector::from(config.clone()).connect(name.clone(), stream).await?))
        }
    })
}

/// A connection that all tasks of `home` share, dialled and greeted, which drives it.
///
/// # Errors
/// Why it cannot be had.
pub(super) async fn shared(config: &Arc<Config>, home: Home) -> Result<(SharedConnection, Welcome)> {
    let (stream, welcome) = dial(config, &home).await?;
    let (connection, driver) = SharedConnection::over(stream);
    home.spawn(driver);
    Ok((connection, welcome))
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, into),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
