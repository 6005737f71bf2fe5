//! Sockets of async callers, dialled and greeted, and the connection of one runtime or foreign event loop.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockwright_resp::place::Endpoint;
use redis::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::config::Config;
use super::greeting::{Greeting, Welcome};
use super::input::Input;
use super::outgoing::Outgoing;
use super::shared_connection::SharedConnection;
use super::shortcut::ShortcutProbe;
use super::socket::unreachable;
use super::wake_queue::WakeQueue;
use super::wire::{REDIS, Scripts, lost};
use crate::error::Result;
use crate::platform::stream::{Home, Stream};
use crate::stores::pipe::Pipe;
use crate::stores::reach::unknown_host;

/// A connection for `home`, greeted. In a foreign event loop the driver's thread dials: only the exchange of requests
/// is worth the loop's time, and whoever is asked for credentials there must not stop it. Encrypted sockets stay with
/// that thread, which wakes `home`.
async fn dial_for(config: &Arc<Config>, home: &Home) -> Result<(Pipe, Welcome)> {
    let Some(background) = home.background() else { return dial(config).await };
    let config = config.clone();
    let dialled = background.spawn(async move { dial(&config).await });
    let (pipe, welcome) = dialled.await.map_err(|error| lost(io::Error::other(error)))??;
    let pipe = match pipe {
        Pipe::Plain(socket) => Pipe::Plain(home.take(socket).map_err(lost)?),
        stays @ Pipe::Tls(_) => stays,
    };
    Ok((pipe, welcome))
}

/// Dials and greets, for `connect_timeout` at most.
///
/// # Errors
/// Why it cannot be had.
pub(super) async fn dial(config: &Config) -> Result<(Pipe, Welcome)> {
    let Some(sentinels) = &config.sentinels else { return dial_server(config).await };
    let mut search = sentinels.search(config);
    while let Some(named) = search.next().await {
        match dial_server(&named).await {
            Ok((pipe, welcome)) if search.is_good(&named, &welcome) => return Ok((pipe, welcome)),
            Ok(_) => {}
            Err(error) => search.failed(error),
        }
    }
    Err(search.error())
}

async fn dial_server(config: &Config) -> Result<(Pipe, Welcome)> {
    let greeting = config.greeting(config.login.credentials_aside().await?);
    let (pipe, answers) = introduce(config, &greeting, config.connect_timeout).await?;
    Ok((pipe, greeting.read(&answers)?))
}

/// Dials, and has `greeting` answered, for `limit` at most.
///
/// # Errors
/// Why there are no answers.
pub(super) async fn introduce(config: &Config, greeting: &Greeting, limit: Duration) -> Result<(Pipe, Vec<Value>)> {
    match tokio::time::timeout(limit, introduce_at_leisure(config, greeting)).await {
        Ok(answered) => answered,
        Err(_) => Err(unreachable(config, io::ErrorKind::TimedOut.into())),
    }
}

async fn introduce_at_leisure(config: &Config, greeting: &Greeting) -> Result<(Pipe, Vec<Value>)> {
    let mut pipe = connect(config).await.map_err(|error| unreachable(config, error))?;
    let (mut input, mut answers) = (Input::default(), Vec::with_capacity(greeting.answers()));
    let mut ended = pipe.write_all(&greeting.bytes).await.err();
    while answers.len() < greeting.answers() && ended.is_none() {
        ended = match input.value() {
            Ok(Some(answer)) => {
                answers.push(answer);
                None
            }
            Ok(None) => match pipe.read(input.room()).await {
                Ok(count) => input.came(count).err(),
                Err(error) => Some(error),
            },
            Err(error) => Some(error),
        };
    }
    match (&input.watch.broken, ended) {
        (Some((broken, seen)), _) => return Err(broken.explain(REDIS, &greeting.quotable(seen))),
        (None, Some(error)) if answers.is_empty() => return Err(unreachable(config, error)),
        _ => {}
    }
    // What broke off is told by whoever reads the answers.
    if answers.len() == greeting.answers() && !input.is_empty() {
        return Err(lost(io::ErrorKind::InvalidData.into()));
    }
    Ok((pipe, answers))
}

async fn connect(config: &Config) -> io::Result<Pipe> {
    let stream = match &config.endpoint {
        Endpoint::Unix(path) => Stream::to_file(path).await?,
        Endpoint::Tcp { host, port } => {
            let found = tokio::net::lookup_host((host.as_str(), *port)).await.map_err(unknown_host)?;
            Stream::to(&Vec::from_iter(found)).await?
        }
    };
    Pipe::over(stream, config.tls.as_ref()).await
}

/// A connection that all tasks of `home` share, dialled and greeted, which drives it, to a server that is asked for
/// these scripts.
///
/// # Errors
/// Why it cannot be had.
pub(super) async fn shared(
    config: &Arc<Config>,
    scripts: Arc<Scripts>,
    home: Home,
) -> Result<(SharedConnection, Welcome)> {
    let (pipe, welcome) = dial_for(config, &home).await?;
    // The jobs of a foreign event loop are all polled before the program's own tasks hear of any.
    let answered = if home.background().is_some() { WakeQueue::whole() } else { WakeQueue::default() };
    let (connection, driver) =
        SharedConnection::over(pipe, ShortcutProbe::of(welcome.run.as_deref()), Outgoing::new(scripts), answered);
    home.spawn(driver);
    Ok((connection, welcome))
}
