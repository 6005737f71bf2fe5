//! Connections to the server: how one is made.

use std::io;
use std::time::Duration;

use tokio::io::BufReader;
use tokio::time::timeout;

use super::line::{Broken, Line, read, read_head, read_rest, write};
use super::wire::{self, Login, Who};
use super::{failure, statements};
use crate::stores::pipe::Pipe;
use crate::stores::sql::config::{Config, has_no_tls};
use crate::time::StoreTime;

/// Far longer than what any server says first.
const LONGEST_GREETING: usize = 4096;

/// A connection that was made.
pub(super) struct Dialled {
    pub(super) line: Line,
    /// What the database's clock said, where its table can be used if there is one; else why not.
    pub(super) now: crate::Result<StoreTime>,
}

/// Dials.
///
/// # Errors
/// `unavailable` where nobody answers, `auth` where the server wants somebody else, `protocol` where it is none.
pub(super) async fn dial(config: &Config, longest: Duration) -> crate::Result<Dialled> {
    match timeout(config.connect_timeout, dial_at_leisure(config, longest)).await {
        Ok(dialled) => dialled,
        Err(_) => Err(config.unreachable(io::ErrorKind::TimedOut.into())),
    }
}

async fn dial_at_leisure(config: &Config, longest: Duration) -> crate::Result<Dialled> {
    let credentials = config.login.credentials_aside().await?;
    let broken = |broken| match broken {
        Broken::Connection(error) => config.unreachable(error),
        Broken::Garbled(error) => error,
    };
    let mut stream = config.reach().await?;
    // Whoever else speaks first says no number of a packet, or none that a greeting has.
    let head = read_head(&mut stream).await.map_err(broken)?;
    if head.number != 0 || head.length > LONGEST_GREETING {
        return Err(wire::garbled());
    }
    let greeting = match wire::greeting(&read_rest(&mut stream, head).await.map_err(broken)?)? {
        Ok(greeting) => greeting,
        Err(said) => return Err(failure::of_server(&said)),
    };
    let who = Who {
        user: if credentials.user.is_empty() { "root" } else { &credentials.user },
        password: &credentials.password,
        database: config.database.as_deref().unwrap_or_default(),
        is_secure: config.tls.is_some(),
    };
    if who.is_secure {
        if !greeting.has_tls {
            return Err(config.unreachable(has_no_tls()));
        }
        write(&mut stream, 1, &who.asks_for_tls()).await.map_err(broken)?;
    }
    let pipe = Pipe::over(stream, config.tls.as_ref()).await.map_err(|error| config.unreachable(error))?;
    let mut pipe = BufReader::new(pipe);
    log_in(&mut pipe, &who, who.logs_in(&greeting)?).await.map_err(broken)??;
    let mut line = Line::over(pipe);
    let settled = line.say(&statements::settle(longest)).await.map_err(broken)?;
    Ok(Dialled { line, now: statements::settled(settled) })
}

async fn log_in(pipe: &mut BufReader<Pipe>, who: &Who<'_>, sends: Vec<u8>) -> Result<crate::Result<()>, Broken> {
    write(pipe.get_mut(), if who.is_secure { 2 } else { 1 }, &sends).await?;
    loop {
        let (number, packet) = read(pipe).await?;
        match who.goes_on(&packet) {
            Ok(Login::Done) => return Ok(Ok(())),
            Ok(Login::Waits) => {}
            Ok(Login::Sends(more)) => write(pipe.get_mut(), number.wrapping_add(1), &more).await?,
            Ok(Login::Refused(said)) => return Ok(Err(failure::of_server(&said))),
            Err(error) => return Ok(Err(error)),
        }
    }
}
