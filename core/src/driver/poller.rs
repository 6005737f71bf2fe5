//! Sockets and a bell behind one descriptor, which a foreign event loop watches.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mio::event::{Event, Source};
use mio::{Events, Interest, Token};
use smallvec::SmallVec;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::fork::{Registered, register};
use super::wait::locked;

/// How many events are taken at a time.
const EVENTS: usize = 64;
const BELL: Token = Token(0);

/// See the [module](self).
pub(crate) struct Poller {
    // Before the descriptors they stand for: fields are dropped in order.
    _registered: [Registered; 2],
    registry: mio::Registry,
    bell: mio::Waker,
    watched: Mutex<Watched>,
}

struct Watched {
    poll: mio::Poll,
    events: Events,
    sockets: HashMap<Token, Weak<Readiness>>,
    next: usize,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let poll = mio::Poll::new()?;
        let registry = poll.registry().try_clone()?;
        Ok(Poller {
            _registered: [register(&poll), register(&registry)],
            bell: mio::Waker::new(&registry, BELL)?,
            registry,
            watched: Mutex::new(Watched {
                poll,
                events: Events::with_capacity(EVENTS),
                sockets: HashMap::new(),
                next: BELL.0 + 1,
            }),
        })
    }

    /// Readable when there is something to [look](Self::look) at.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.registry.as_fd()
    }

    /// Makes the descriptor readable until the next look.
    pub(crate) fn ring(&self) {
        if let Err(error) = self.bell.wake() {
            tracing::error!(%error, "an event loop could not be woken");
        }
    }

    /// Wakes whoever waits for a socket that has become ready. Does not block. Leaves nothing for another look: who watches
    /// the descriptor may be told of changes only.
    pub(crate) fn look(&self) {
        while self.look_at_some() == EVENTS {}
    }

    fn look_at_some(&self) -> usize {
        let mut watched = locked(&self.watched);
        let Watched { poll, events, sockets, .. } = &mut *watched;
        if let Err(error) = poll.poll(events, Some(Duration::ZERO))
            && error.kind() != ErrorKind::Interrupted
        {
            tracing::error!(%error, "an event loop cannot see its sockets");
        }
        let ready = |event: &Event| Some((sockets.get(&event.token())?.upgrade()?, Change::of(event)));
        let (seen, ready) = (events.iter().count(), events.iter().filter_map(ready).collect::<SmallVec<[_; 4]>>());
        drop(watched);
        for (socket, change) in ready {
            socket.becomes(&change);
        }
        seen
    }

    /// Watches a socket that does not block.
    pub(crate) fn watch<S: Source>(&self, mut socket: S) -> io::Result<Socket<S>> {
        let mut watched = locked(&self.watched);
        watched.sockets.retain(|_, socket| socket.strong_count() > 0);
        let token = Token(watched.next);
        watched.next += 1;
        self.registry.register(&mut socket, token, Interest::READABLE | Interest::WRITABLE)?;
        let readiness = Arc::default();
        watched.sockets.insert(token, Arc::downgrade(&readiness));
        Ok(Socket { socket, readiness })
    }
}

/// What an event says of a socket.
struct Change {
    readable: bool,
    writable: bool,
    ended: bool,
}

impl Change {
    fn of(event: &Event) -> Self {
        let ended = event.is_error() || event.is_read_closed() || event.is_write_closed();
        Change { readable: event.is_readable() || ended, writable: event.is_writable() || ended, ended }
    }
}

/// What is known of a socket: events tell of changes only.
#[derive(Default)]
struct Readiness(Mutex<Known>);

#[derive(Default)]
struct Known {
    reading: Side,
    writing: Side,
    /// Nothing will change any more.
    ended: bool,
}

#[derive(Default)]
struct Side {
    ready: bool,
    waiting: Option<Waker>,
}

impl Side {
    fn becomes(&mut self, ready: bool) -> Option<Waker> {
        self.ready |= ready;
        self.waiting.take_if(|_| ready)
    }
}

impl Readiness {
    fn becomes(&self, change: &Change) {
        let mut known = locked(&self.0);
        known.ended |= change.ended;
        let woken = [known.reading.becomes(change.readable), known.writing.becomes(change.writable)];
        drop(known);
        woken.into_iter().flatten().for_each(Waker::wake);
    }
}

/// A socket in a foreign event loop.
pub(crate) struct Socket<S> {
    socket: S,
    readiness: Arc<Readiness>,
}

impl<S> Socket<S> {
    /// Does `work` once the side that `of` picks is ready for it; `work` says how much of how much it did.
    fn attempt(
        &self,
        context: &Context<'_>,
        of: impl Fn(&mut Known) -> &mut Side,
        mut work: impl FnMut(&S) -> io::Result<usize>,
        whole: usize,
    ) -> Poll<io::Result<usize>> {
        loop {
            {
                let mut known = locked(&self.readiness.0);
                let side = of(&mut known);
                if !side.ready {
                    side.waiting = Some(context.waker().clone());
                    return Poll::Pending;
                }
            }
            let done = work(&self.socket);
            let would_block = matches!(&done, Err(error) if error.kind() == ErrorKind::WouldBlock);
            // Less than was wanted is all there was: no need to be told so by another call.
            if would_block || matches!(done, Ok(some) if some > 0 && some < whole) {
                let mut known = locked(&self.readiness.0);
                let ended = known.ended;
                of(&mut known).ready = ended;
            }
            match done {
                Err(error) if would_block && locked(&self.readiness.0).ended => return Poll::Ready(Err(error)),
                Err(_) if would_block => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => return Poll::Ready(done),
            }
        }
    }
}

fn reading(known: &mut Known) -> &mut Side {
    &mut known.reading
}

fn writing(known: &mut Known) -> &mut Side {
    &mut known.writing
}

impl<S: Unpin> AsyncRead for Socket<S>
where
    for<'a> &'a S: Read,
{
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let free = into.initialize_unfilled();
        let whole = free.len();
        let read = self.attempt(context, reading, |mut socket| socket.read(free), whole);
        read.map_ok(|read| into.advance(read))
    }
}

impl<S: Unpin> AsyncWrite for Socket<S>
where
    for<'a> &'a S: Write,
    S: Close,
{
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.attempt(context, writing, |mut socket| socket.write(bytes), bytes.len())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.socket.close_writing())
    }
}

/// Says that nothing more will be written.
pub(crate) trait Close {
    fn close_writing(&self) -> io::Result<()>;
}

impl Close for mio::net::TcpStream {
    fn close_writing(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl Close for mio::net::UnixStream {
    fn close_writing(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_look_leaves_no_socket_for_the_next_one() {
        let poller = Poller::new().unwrap();
        let pairs: Vec<_> = (0..2 * EVENTS + 1).map(|_| UnixStream::pair().unwrap()).collect();
        let watched = |(ours, theirs): (UnixStream, UnixStream)| {
            ours.set_nonblocking(true).unwrap();
            (poller.watch(mio::net::UnixStream::from_std(ours)).unwrap(), theirs)
        };
        let sockets: Vec<_> = pairs.into_iter().map(watched).collect();
        poller.look();
        let ready =
            |(socket, _): &&(Socket<mio::net::UnixStream>, UnixStream)| locked(&socket.readiness.0).writing.ready;
        assert_eq!(sockets.iter().filter(ready).count(), sockets.len());
    }
}
