//! Each server by itself, for an examination: what it says to a word of four letters, and for how long it keeps
//! sessions, as it makes of one that is wanted for too short a time and of one for too long.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::config::{Config, Server};
use super::driver::{frame, reached};
use super::greeting;
use super::wire::{self, Reader};
use crate::platform::clock;
use crate::protocol::Reply;
use crate::time::Time;

/// The only word that servers as they come answer.
const WORD: &[u8] = b"srvr";
/// No answer to it is longer.
const MOST_BYTES: u64 = 64 << 10;

/// All that the server with this number says until `limit`.
pub(super) async fn look(config: &Config, number: usize, limit: Time) -> Reply {
    let Some(server) = config.servers.get(number) else { return Reply::Nil };
    let mut parts = vec![Reply::Text(format!("{}:{}", server.host, server.port))];
    // The last may have no time left, and what was said is told all the same.
    let left = || limit.since(clock::now()) / 2;
    if let Ok(Ok(said)) = timeout(left(), said(server)).await {
        parts.push(Reply::Text(said));
        for wanted in [1, i32::MAX] {
            match timeout(left(), kept(server, wanted)).await {
                Ok(Ok(millis)) => parts.push(Reply::Int(millis)),
                _ => break,
            }
        }
    }
    Reply::List(parts)
}

async fn said(server: &Server) -> io::Result<String> {
    let mut pipe = reached(server).await?;
    pipe.write_all(WORD).await?;
    pipe.flush().await?;
    let mut said = Vec::new();
    // A server ends the connection behind its answer, and some without any.
    let read = pipe.take(MOST_BYTES).read_to_end(&mut said).await;
    if said.is_empty() {
        read?;
    }
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// For how many milliseconds it keeps a session that is wanted for so many.
async fn kept(server: &Server, wanted: i32) -> io::Result<i64> {
    let (mut pipe, mut bytes, mut come) = (reached(server).await?, Vec::new(), Vec::new());
    wire::greeting(&mut bytes, 0, wanted, 0, &[0; 16]);
    pipe.write_all(&bytes).await?;
    pipe.flush().await?;
    let answer = frame(&mut pipe, &mut come).await?;
    let given = greeting::answer(&mut Reader(&answer)).map_err(io::Error::other)?;
    let given = given.ok_or(io::ErrorKind::ConnectionRefused)?;
    bytes.clear();
    wire::close(&mut bytes, 1);
    pipe.write_all(&bytes).await?;
    pipe.flush().await?;
    while pipe.read_buf(&mut come).await? > 0 {}
    Ok(i64::try_from(given.timeout.as_millis()).unwrap_or(i64::MAX))
}
