//! The driver: what has the session kept alive, on one connection after the other, and takes to the server what is
//! asked for, all that has gathered in one write.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};
use zeroize::Zeroizing;

use super::broker::{Broker, Wanted};
use super::config::{Scheme, Server};
use super::greeting;
use super::sasl::Exchange;
use super::wire::{self, Head, Reader};
use crate::error::{Error, Kind, Result};
use crate::platform::{clock, random};
use crate::stores::pipe::Pipe;
use crate::stores::reach;
use crate::time::Time;

/// First and longest pause before all servers are dialled again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// How much is read at a time.
const ROOM: usize = 16 << 10;
/// The most bytes of watches that are set again together: a server takes a megabyte at once.
const WATCHES: usize = 128 << 10;

/// How a connection ended, or did not begin.
enum End {
    /// The next server may do.
    Failed(Error),
    /// None will.
    Refused(Error),
    /// The session is over; another one can be had.
    Over,
    /// The client was closed.
    Closed,
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        End::Failed(error)
    }
}

/// Keeps the session of `broker` until its client is closed.
pub(super) async fn drive(broker: &Broker) {
    // What was on its way when this panicked.
    broker.cut(&broker.lost(io::ErrorKind::ConnectionAborted.into()));
    let mut servers = shuffled(&broker.config.servers);
    let (mut failed, mut pause) = (0, PAUSE.0);
    loop {
        match broker.wanted() {
            Wanted::End => return,
            Wanted::Nothing => {
                broker.changed.notified().await;
                continue;
            }
            Wanted::Connection => {}
        }
        let end = match Connection::dial(broker, &servers[0]).await {
            Ok(mut connection) => {
                (failed, pause) = (0, PAUSE.0);
                let end = connection.serve().await;
                broker.cut(&match &end {
                    End::Failed(error) | End::Refused(error) => error.clone(),
                    End::Over | End::Closed => broker.lost(io::ErrorKind::ConnectionAborted.into()),
                });
                end
            }
            Err(end) => end,
        };
        match end {
            End::Closed => continue,
            End::Over => broker.over(),
            End::Refused(error) => {
                broker.refuse(error);
                sleep(pause).await;
            }
            End::Failed(error) => {
                tracing::debug!(target: "lockwright::inbox", store = &*broker.config.address, %error, "a server is not of use");
                servers.rotate_left(1);
                failed += 1;
                if failed >= servers.len() {
                    broker.refuse(error);
                    failed = 0;
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSE.1);
                }
            }
        }
    }
}

/// In another order for each client, so that all servers have as many.
fn shuffled(servers: &[Server]) -> Vec<Server> {
    let mut servers = servers.to_vec();
    let mut dice = random::number().unwrap_or_default();
    for last in (1..servers.len()).rev() {
        let rest = last as u128 + 1;
        servers.swap(last, (dice % rest) as usize);
        dice /= rest;
    }
    servers
}

/// A connection on which nothing was said yet.
pub(super) async fn reached(server: &Server) -> io::Result<Pipe> {
    Pipe::to((server.host.as_str(), server.port), server.tls.as_ref()).await
}

/// The next frame of what has come or comes.
pub(super) async fn frame(pipe: &mut Pipe, come: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    loop {
        let first = wire::first_frame(come).map_err(|_| io::ErrorKind::InvalidData)?;
        if let Some(range) = first {
            let frame = come[range.clone()].to_vec();
            come.drain(..range.end);
            return Ok(frame);
        }
        if pipe.read_buf(come).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// A server that serves nobody takes connections all the same, and ends them.
fn turned_away(has_tls: bool, error: io::Error) -> Error {
    let or_tls = if has_tls { "" } else { ", or whether it expects TLS (zookeepers://)" };
    let message = format!(
        "the server ended the connection at once, as it does while it has no majority of the others; where that lasts, see to them{or_tls}"
    );
    Error::new(Kind::Unavailable, "connect", message).caused_by(error)
}

/// What a connection waits for.
enum Event {
    Came(usize),
    Changed,
    Due,
    Broken(io::Error),
}

/// A connection on which the session goes on.
struct Connection<'a> {
    broker: &'a Broker,
    pipe: Pipe,
    come: Vec<u8>,
    out: Vec<u8>,
    written: usize,
    /// When something left last, and what would prove the session alive.
    said: Time,
    proven: Time,
    /// When the last was sent that proves it.
    beat: Time,
    /// When it was looked last whether its nodes are watched.
    looked: Time,
    pinged: Option<Time>,
    timeout: Duration,
    /// Goes off when something is due, or earlier.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<'a> Connection<'a> {
    async fn dial(broker: &'a Broker, server: &Server) -> std::result::Result<Self, End> {
        let unreachable = |error: io::Error| {
            let error = match error.kind() {
                // Where TLS says it there is more to be told.
                io::ErrorKind::InvalidData if error.get_ref().is_none() => broker.lost(error),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                    turned_away(server.tls.is_some(), error)
                }
                _ => reach::unreachable(["zookeeper://", "zookeepers://"], server.tls.is_some(), error),
            };
            End::Failed(error.on_store(broker.config.address.clone()))
        };
        match timeout(broker.config.connect_timeout, Self::dial_at_leisure(broker, server, &unreachable)).await {
            Ok(dialled) => dialled,
            Err(_) => Err(unreachable(io::ErrorKind::TimedOut.into())),
        }
    }

    async fn dial_at_leisure(
        broker: &'a Broker,
        server: &Server,
        unreachable: &(impl Fn(io::Error) -> End + Sync),
    ) -> std::result::Result<Self, End> {
        let credentials = broker.config.login.credentials_aside().await.map_err(End::Refused)?;
        let pipe = reached(server).await.map_err(unreachable)?;
        let sent = clock::now();
        let (come, out) = (Vec::with_capacity(ROOM), Vec::new());
        let timeout = Duration::ZERO;
        let mut connection = Connection {
            broker,
            pipe,
            come,
            out,
            written: 0,
            said: sent,
            proven: Time::ZERO,
            beat: Time::ZERO,
            looked: sent,
            pinged: None,
            timeout,
            alarm: None,
        };
        let (session, seen) = broker.session();
        let (id, password) = session.as_ref().map_or((0, [0; 16].as_slice()), |known| (known.id, &known.password));
        let mut bytes = Vec::new();
        wire::greeting(&mut bytes, seen, broker.pace.timeout(), id, password);
        connection.pipe.write_all(&bytes).await.map_err(unreachable)?;
        let frame = connection.frame().await.map_err(unreachable)?;
        let Some(given) = greeting::answer(&mut Reader(&frame))? else {
            return Err(match session {
                Some(_) => End::Over,
                None => Error::new(Kind::Unavailable, "connect", "the server gives no session; see its log").into(),
            });
        };
        if let Err(error) = broker.pace.check(given.timeout) {
            connection.leave().await;
            return Err(End::Refused(error));
        }
        connection.timeout = given.timeout;
        broker.begun(given, sent);
        if !credentials.user.is_empty() || !credentials.password.is_empty() {
            match broker.config.scheme {
                Scheme::Digest => connection.log_in(&credentials.user, &credentials.password).await?,
                Scheme::DigestMd5 => connection.prove(&credentials.user, &credentials.password).await?,
            }
        }
        connection.set_watches();
        Ok(connection)
    }

    /// Logs in by SASL, where both sides prove that they know the password.
    async fn prove(&mut self, user: &str, password: &str) -> std::result::Result<(), End> {
        let challenge = self.said(&[]).await?;
        let nonce = random::number().map_err(End::Refused)?;
        let exchange = Exchange::answering(&challenge, user, password, nonce).map_err(End::Refused)?;
        let last = self.said(exchange.answer.as_bytes()).await?;
        exchange.is_proven(&last).map_err(End::Refused)
    }

    /// What the server says to the next of a login by SASL.
    async fn said(&mut self, token: &[u8]) -> std::result::Result<Vec<u8>, End> {
        let refused = |cause: Option<io::Error>| {
            let error = Error::new(Kind::Auth, "connect", "the server refuses this user and password, or has no SASL");
            End::Refused(cause.map(|cause| error.clone().caused_by(cause)).unwrap_or(error))
        };
        let mut bytes = Vec::new();
        wire::sasl(&mut bytes, token);
        self.pipe.write_all(&bytes).await.map_err(|error| refused(Some(error)))?;
        loop {
            let frame = self.frame().await.map_err(|error| refused(Some(error)))?;
            let mut from = Reader(&frame);
            let head = Head::read(&mut from)?;
            match (head.xid, head.error) {
                (wire::SASL, 0) => return Ok(from.buffer()?.to_vec()),
                (wire::SASL, _) => return Err(refused(None)),
                _ => {}
            }
        }
    }

    async fn log_in(&mut self, user: &str, password: &str) -> std::result::Result<(), End> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(64 + user.len() + password.len()));
        wire::login(&mut bytes, user, password);
        let refused = |cause: Option<io::Error>| {
            let error = Error::new(Kind::Auth, "connect", "the server refuses this user and password");
            End::Refused(cause.map(|cause| error.clone().caused_by(cause)).unwrap_or(error))
        };
        self.pipe.write_all(&bytes).await.map_err(|error| refused(Some(error)))?;
        loop {
            let frame = self.frame().await.map_err(|error| refused(Some(error)))?;
            let head = Head::read(&mut Reader(&frame))?;
            match (head.xid, head.error) {
                (wire::AUTH, 0) => return Ok(()),
                (wire::AUTH, _) => return Err(refused(None)),
                _ => {}
            }
        }
    }

    /// The next frame, before anything else is asked.
    async fn frame(&mut self) -> io::Result<Vec<u8>> {
        frame(&mut self.pipe, &mut self.come).await
    }

    fn set_watches(&mut self) {
        let (seen, portions) = self.broker.watches(WATCHES);
        for portion in portions {
            wire::set_watches(&mut self.out, seen, &portion);
        }
    }

    async fn serve(&mut self) -> End {
        loop {
            let now = clock::now();
            self.heartbeat_if_due(now);
            let already = self.out.len();
            if let Some(proves) = self.broker.send(&mut self.out) {
                (self.proven, self.beat) = (proves, now);
            }
            if self.out.len() > already {
                self.said = now;
            }
            if self.broker.is_through() {
                self.leave().await;
                return End::Closed;
            }
            let patience = self.broker.pace.patience();
            let owed = self.broker.oldest().into_iter().chain(self.pinged).min().map(|since| since.after(patience));
            if owed.is_some_and(|until| now >= until) {
                return End::Failed(self.broker.lost(io::ErrorKind::TimedOut.into()));
            }
            let due = owed.map_or(self.next_heartbeat(), |owed| owed.min(self.next_heartbeat()));
            match self.next(Instant::now() + due.since(now)).await {
                Event::Came(0) => return End::Failed(self.broker.lost(io::ErrorKind::UnexpectedEof.into())),
                Event::Broken(error) => return End::Failed(self.broker.lost(error)),
                Event::Came(_) => {
                    if let Err(error) = self.take() {
                        return End::Failed(error.on_store(self.broker.config.address.clone()));
                    }
                }
                Event::Changed | Event::Due => {}
            }
        }
    }

    fn next_heartbeat(&self) -> Time {
        match self.broker.keeps_something() {
            true => self.due_heartbeat().min(self.looked.after(self.broker.pace.heartbeat())),
            false => self.said.after(self.timeout / 3),
        }
    }

    /// When what is kept is to be proven to last.
    fn due_heartbeat(&self) -> Time {
        self.broker.pace.next_heartbeat(self.proven, self.beat)
    }

    fn heartbeat_if_due(&mut self, now: Time) {
        if now < self.next_heartbeat() {
            return;
        }
        let interval = self.broker.pace.heartbeat();
        if self.broker.keeps_something() {
            if now >= self.looked.after(interval) {
                self.broker.watch_own();
                self.looked = now;
            }
            if now >= self.due_heartbeat() {
                self.broker.heartbeat();
            }
        } else if self.pinged.is_none() {
            wire::ping(&mut self.out);
            (self.pinged, self.said) = (Some(now), now);
        }
    }

    async fn next(&mut self, due: Instant) -> Event {
        let mut changed = pin!(self.broker.changed.notified());
        let (pipe, come, out, written) = (&mut self.pipe, &mut self.come, &mut self.out, &mut self.written);
        // What is due is put off by all that is said: one alarm outlasts many turns.
        let set = self.alarm.take().filter(|alarm| alarm.deadline() <= due);
        let mut alarm = set.unwrap_or_else(|| Box::pin(sleep_until(due)));
        let event = poll_fn(|context| {
            while *written < out.len() {
                match Pin::new(&mut *pipe).poll_write(context, &out[*written..]) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Event::Broken(io::ErrorKind::WriteZero.into())),
                    Poll::Ready(Ok(count)) => *written += count,
                    Poll::Ready(Err(error)) => return Poll::Ready(Event::Broken(error)),
                    Poll::Pending => break,
                }
            }
            if *written == out.len() {
                out.clear();
                *written = 0;
                if let Poll::Ready(Err(error)) = Pin::new(&mut *pipe).poll_flush(context) {
                    return Poll::Ready(Event::Broken(error));
                }
            }
            come.reserve(ROOM);
            if let Poll::Ready(read) = pin!(pipe.read_buf(come)).poll(context) {
                return Poll::Ready(read.map_or_else(Event::Broken, Event::Came));
            }
            if changed.as_mut().poll(context).is_ready() {
                return Poll::Ready(Event::Changed);
            }
            alarm.as_mut().poll(context).map(|()| Event::Due)
        })
        .await;
        if !matches!(event, Event::Due) {
            self.alarm = Some(alarm);
        }
        event
    }

    /// Takes all that has come whole.
    fn take(&mut self) -> Result<()> {
        let mut at = 0;
        while let Some(range) = wire::first_frame(&self.come[at..])? {
            let mut from = Reader(&self.come[at + range.start..at + range.end]);
            at += range.end;
            let head = Head::read(&mut from)?;
            match head.xid {
                wire::NOTIFICATION => self.broker.heard(wire::news(&mut from)?),
                wire::PING => self.pinged.take().into_iter().for_each(|sent| self.broker.pinged(sent)),
                wire::AUTH | wire::SET_WATCHES => {}
                _ => self.broker.answered(head, &mut from)?,
            }
        }
        self.come.drain(..at);
        Ok(())
    }

    /// Ends the session, so that nothing of it has to run out.
    async fn leave(&mut self) {
        let mut bytes = self.out.split_off(self.written);
        wire::close(&mut bytes, self.broker.next_xid());
        let leave = async {
            self.pipe.write_all(&bytes).await?;
            self.pipe.flush().await?;
            while self.pipe.read_buf(&mut self.come).await? > 0 {}
            io::Result::Ok(())
        };
        // If it is not heard, the session ends by itself.
        drop(timeout(self.broker.config.response_timeout, leave).await);
    }
}

/// Keeps the session of `broker` in the background; a panic begins it anew.
pub(super) async fn keep_up(broker: Arc<Broker>) {
    let address = broker.config.address.clone();
    crate::platform::fence::kept_up("the session", &address, || drive(&broker)).await;
}
