//! The driver: takes to the server what is asked for, all that has gathered in one write, on one connection after the
//! other.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::broker::{Broker, Wanted, Write, lasts, unknown};
use super::clock::ServerClock;
use super::wire::{self, Expected, Sending, Written};
use crate::error::{Error, Kind, Result};
use crate::platform::clock;
use crate::platform::stream::Stream;
use crate::protocol::{Reply, Request};
use crate::stores::{Answered, Outcome, not_sent, reach};
use crate::time::Time;

/// How much is read at a time.
const ROOM: usize = 16 << 10;
/// How much is written before answers are read: a server that cannot get rid of its answers reads no more.
const PART: usize = 32 << 10;

/// Keeps the connection of `broker` in the background until its client is closed; a panic begins it anew.
pub(super) async fn keep_up(broker: Arc<Broker>) {
    let address = broker.config.address.clone();
    crate::platform::fence::kept_up("the connection", &address, || drive(&broker)).await;
}

async fn drive(broker: &Broker) {
    let (mut connection, mut number) = (None::<Connection>, 0);
    loop {
        let writes = match broker.wanted() {
            Wanted::End => return,
            Wanted::Writes(writes) => writes,
            Wanted::Nothing => {
                let ended = match &mut connection {
                    Some(open) => idle(broker, open).await,
                    None => {
                        broker.changed.notified().await;
                        false
                    }
                };
                if ended {
                    connection = None;
                }
                continue;
            }
        };
        let writes: Vec<_> = writes.into_iter().filter(|write| !write.is_unwanted()).collect();
        let mut open = match connection.take() {
            Some(open) => open,
            None => {
                number += 1;
                match Connection::dial(broker, number).await {
                    Ok(open) => open,
                    Err(error) => {
                        writes.into_iter().for_each(|write| write.ends(not_sent(error.clone())));
                        continue;
                    }
                }
            }
        };
        connection = open.perform(broker, writes).await.then_some(open);
    }
}

/// Waits until there is something to do; whether the connection ended meanwhile.
async fn idle(broker: &Broker, open: &mut Connection) -> bool {
    let mut room = [0; 1];
    let (mut changed, mut ended) = (pin!(broker.changed.notified()), pin!(open.stream.read(&mut room)));
    poll_fn(|context| {
        // Whatever a server says unasked, it is of no use.
        if ended.as_mut().poll(context).is_ready() {
            return Poll::Ready(true);
        }
        changed.as_mut().poll(context).map(|()| false)
    })
    .await
}

struct Connection {
    stream: Stream,
    number: i64,
    dialect: wire::Dialect,
    clock: ServerClock,
    come: Vec<u8>,
    taken: usize,
}

/// What is to be sent for a request, and to which write it belongs.
struct Asked {
    write: usize,
    expected: Option<Expected>,
    /// For how long it is to be kept.
    ttl: Option<Duration>,
    reply: Option<Reply>,
}

/// A write some of whose answers may be missing.
struct Partly {
    write: Write,
    sent: Option<Time>,
    replies: Vec<Reply>,
}

impl Connection {
    async fn dial(broker: &Broker, number: i64) -> Result<Self> {
        let config = &broker.config;
        let dialled = timeout(config.connect_timeout, Self::dial_at_leisure(broker, number)).await;
        let late = || Err(unreachable(io::ErrorKind::TimedOut.into()));
        dialled.unwrap_or_else(|_| late()).map_err(|error| error.on_store(config.address.clone()))
    }

    async fn dial_at_leisure(broker: &Broker, number: i64) -> Result<Self> {
        let config = &broker.config;
        let credentials = config.login.credentials_aside().await?;
        let found = tokio::net::lookup_host((config.host.as_str(), config.port)).await;
        let found = found.map_err(|error| unreachable(reach::unknown_host(error)))?;
        let mut stream = Stream::to(&Vec::from_iter(found)).await.map_err(unreachable)?;
        let mut out = Zeroizing::new(Vec::with_capacity(128 + credentials.user.len() + credentials.password.len()));
        let greeting = wire::greeting(&mut out, &credentials.user, &credentials.password);
        let sent = clock::now();
        stream.write_all(&out).await.map_err(unreachable)?;
        let mut come = Vec::with_capacity(ROOM);
        let welcome = loop {
            if let Some(welcome) = greeting.read(&come)? {
                break welcome;
            }
            match stream.read_buf(&mut come).await {
                Ok(0) => return Err(unreachable(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) => return Err(unreachable(error)),
            }
        };
        come.clear();
        let mut clock = ServerClock::default();
        clock.learn(sent, welcome.shown);
        Ok(Connection { stream, number, dialect: welcome.dialect, clock, come, taken: 0 })
    }

    /// Performs `writes` and tells how each of them ended; whether the connection is of use any more.
    async fn perform(&mut self, broker: &Broker, writes: Vec<Write>) -> bool {
        let mut left: Vec<_> =
            writes.into_iter().map(|write| Partly { write, sent: None, replies: Vec::new() }).collect();
        match self.exchange(broker, &mut left).await {
            Ok(()) => true,
            Err(error) => {
                let now = clock::now();
                for Partly { write, sent, .. } in left {
                    let lasts = lasts(&write.requests);
                    write.ends(match sent {
                        Some(sent) => unknown(error.clone(), sent, now, lasts),
                        None => not_sent(error.clone()),
                    });
                }
                false
            }
        }
    }

    /// The same; `writes` are those left that have no answer.
    async fn exchange(&mut self, broker: &Broker, writes: &mut Vec<Partly>) -> Result<()> {
        while !writes.is_empty() {
            self.look_at_the_clock(broker, writes).await?;
            let mut out = Vec::new();
            let asked = self.write(broker, &mut out, writes)?;
            let patience = broker.config.response_timeout;
            let lost = |error| broker.lost(error);
            let written = timeout(patience, self.stream.write_all(&out)).await;
            written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(lost)?;
            for Asked { write, expected, ttl, reply } in asked {
                let reply = match (expected, reply) {
                    (Some(expected), _) => self.answer(broker, expected).await?,
                    (None, reply) => reply.unwrap_or(Reply::Nil),
                };
                let left = wire::kept(&reply);
                if ttl.zip(left).is_some_and(|(ttl, left)| !ServerClock::agrees(ttl, left)) {
                    self.clock.forget();
                }
                writes[write].replies.push(reply);
            }
            if self.taken < self.come.len() {
                return Err(wire::garbled().on_store(broker.config.address.clone()));
            }
            self.come.clear();
            self.taken = 0;
            let (whole, rest): (Vec<_>, Vec<_>) =
                std::mem::take(writes).into_iter().partition(|one| one.replies.len() == one.write.requests.len());
            *writes = rest;
            for Partly { write, sent, replies } in whole {
                let sent = sent.unwrap_or_else(clock::now);
                write.ends(Answered { sent, outcome: Outcome::Replies(replies) });
            }
        }
        Ok(())
    }

    /// Reads the server's clock again where that is needed to say when something ends.
    async fn look_at_the_clock(&mut self, broker: &Broker, writes: &[Partly]) -> Result<()> {
        let keeps = writes.iter().flat_map(|one| &one.write.requests).any(|request| wire::keeps(request).is_some());
        if !keeps || self.clock.end(clock::now(), Duration::ZERO).is_some() {
            return Ok(());
        }
        let mut out = Vec::new();
        let expected = wire::clock(&mut out);
        let sent = clock::now();
        self.stream.write_all(&out).await.map_err(|error| broker.lost(error))?;
        let reply = self.answer(broker, expected).await?;
        self.clock.learn(sent, wire::time(&reply)?);
        Ok(())
    }

    /// Writes what has no answer yet, but not more than the server takes without being read.
    fn write(&self, broker: &Broker, out: &mut Vec<u8>, writes: &mut [Partly]) -> Result<Vec<Asked>> {
        let (now, mut asked) = (clock::now(), Vec::new());
        for (index, one) in writes.iter_mut().enumerate() {
            let open: SmallVec<[&Request; 1]> = one.write.requests.iter().skip(one.replies.len()).collect();
            for request in open {
                if out.len() > PART {
                    return Ok(asked);
                }
                let ttl = wire::keeps(request).map(Duration::from_secs);
                let end = match ttl {
                    // Without an end it would lie there for ever. The machine may have been suspended since the clock
                    // was read.
                    Some(ttl) => self.clock.end(now, ttl).ok_or_else(|| broker.lost(io::ErrorKind::TimedOut.into()))?,
                    None => 0,
                };
                let sending = Sending { dialect: self.dialect, connection: self.number, end };
                let (expected, reply) = match wire::write(out, request, sending)? {
                    Written::Asked(expected) => (Some(expected), None),
                    Written::Answered(reply) => (None, Some(reply)),
                };
                asked.push(Asked { write: index, expected, ttl, reply });
                one.sent.get_or_insert(now);
            }
        }
        Ok(asked)
    }

    async fn answer(&mut self, broker: &Broker, expected: Expected) -> Result<Reply> {
        loop {
            let read = wire::read(expected, &self.come[self.taken..]);
            if let Some((length, reply)) = read.map_err(|error| error.on_store(broker.config.address.clone()))? {
                self.taken += length;
                return Ok(reply);
            }
            let came = timeout(broker.config.response_timeout, self.stream.read_buf(&mut self.come)).await;
            match came.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(0) => return Err(broker.lost(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) => return Err(broker.lost(error)),
            }
        }
    }
}

/// Why a connection could not be made.
fn unreachable(error: io::Error) -> Error {
    if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) {
        let message = "the server ended the connection at once; it may have as many as it takes (-c), or want another \
                       protocol: SASL (-S) and TLS (-Z) are not spoken here";
        return Error::new(Kind::Unavailable, "connect", message).caused_by(error);
    }
    reach::unreachable(["memcached://", "memcached://"], false, error)
}
