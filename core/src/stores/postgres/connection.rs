//! A connection to the server. It is driven by the background runtime, since the caller's own may end before it does.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::{AsyncMessage, Client, NoTls, Notification};

use super::failure;
use super::statements;
use crate::platform::stream::Stream;
use crate::stores::pipe::Pipe;
use crate::stores::sql::config::{Config, has_no_tls};
use crate::time::StoreTime;

/// Asks a server for TLS; it answers with one letter.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// A connection that was made.
pub(super) struct Connection {
    pub(super) client: Client,
    /// It is ours alone.
    pub(super) is_direct: bool,
    /// What the database's clock said.
    pub(super) now: StoreTime,
    pub(super) heard: mpsc::UnboundedReceiver<Notification>,
}

/// Dials, in the background runtime.
///
/// # Errors
/// `unavailable` where nobody answers, `auth` where the server wants somebody else, `protocol` where it is none.
pub(super) async fn dial(config: &Config) -> crate::Result<Connection> {
    dial_with(config, None).await
}

/// The same with a setting of this name and value, which only the server itself has from then on.
///
/// # Errors
/// As [`dial`].
pub(super) async fn dial_with(config: &Config, setting: Option<(&str, &str)>) -> crate::Result<Connection> {
    match timeout(config.connect_timeout, dial_at_leisure(config, setting)).await {
        Ok(dialled) => dialled,
        Err(_) => Err(config.unreachable(io::ErrorKind::TimedOut.into())),
    }
}

async fn dial_at_leisure(config: &Config, setting: Option<(&str, &str)>) -> crate::Result<Connection> {
    let credentials = config.login.credentials_aside().await?;
    let mut stream = config.reach().await?;
    if config.tls.is_some() {
        ask_for_tls(&mut stream).await.map_err(|error| config.unreachable(error))?;
    }
    let port = stream.port();
    let pipe = Pipe::over(stream, config.tls.as_ref()).await.map_err(|error| config.unreachable(error))?;
    let mut library = tokio_postgres::Config::new();
    // What TLS there is was begun already.
    library.ssl_mode(SslMode::Disable).application_name("lockwright");
    library.user(if credentials.user.is_empty() { "postgres" } else { &credentials.user });
    if !credentials.password.is_empty() {
        library.password(&credentials.password);
    }
    if let Some(database) = &config.database {
        library.dbname(database);
    }
    if let Some((name, value)) = setting {
        library.options(format!("-c {name}={value}"));
    }
    let connected = library.connect_raw(Greeted { pipe, is_met: false }, NoTls).await;
    let (client, mut driven) = connected.map_err(|error| failure::of_dialling(&error))?;
    let (tell, heard) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| driven.poll_message(context)).await {
            if let AsyncMessage::Notification(notification) = message {
                // Nobody listens at most connections.
                let _ = tell.send(notification);
            }
        }
    });
    let settled = statements::settle(&client, port, config.response_timeout).await;
    let settled = settled.map_err(|error| failure::of_dialling(&error))?;
    Ok(Connection { client, is_direct: settled.is_direct, now: settled.now, heard })
}

/// A connection whose first byte is looked at: the library would wait for the rest of what is no message at all.
struct Greeted {
    pipe: Pipe,
    is_met: bool,
}

/// What a server says first: a question for the login, an error, a notice, or which versions it knows.
const FIRST: &[u8] = b"RENv";

impl AsyncRead for Greeted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.pipe).poll_read(cx, into))?;
        if !self.is_met
            && let Some(first) = into.filled().get(before)
        {
            self.is_met = true;
            if !FIRST.contains(first) {
                return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Greeted {
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

async fn ask_for_tls(stream: &mut Stream) -> io::Result<()> {
    stream.write_all(&SSL_REQUEST).await?;
    let mut answer = [0];
    stream.read_exact(&mut answer).await?;
    match answer {
        [b'S'] => Ok(()),
        _ => Err(has_no_tls()),
    }
}
