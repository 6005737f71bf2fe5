//! Sockets and a waker behind one descriptor, which a foreign event loop watches. One that would rather read sockets
//! itself is given them, and feeds what it read.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mio::event::{Event, Source};
use mio::{Events, Interest, Token};
use smallvec::SmallVec;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::fork::{Registered, register};
use super::mutex::locked;

/// How many events are taken at a time.
const EVENTS: usize = 64;
const WAKER: Token = Token(0);

/// A foreign event loop that reads sockets itself, since being told that there is something to read costs it more.
pub trait Reader: Send + Sync + 'static {
    /// Asks for everything that comes from `socket`, another descriptor of which is the reader's from now on: it is to
    /// be handed to [`EventLoop::feed`](crate::event_loop::EventLoop::feed) under that number.
    fn read(&self, number: usize, socket: OwnedFd);

    /// Nothing more is wanted of that socket; its descriptor is to be closed.
    fn stop(&self, number: usize);
}

/// See the [module](self).
pub(crate) struct Poller {
    // Before the descriptors they stand for: fields are dropped in order.
    _registered: [Registered; 2],
    registry: mio::Registry,
    waker: mio::Waker,
    reader: Option<Arc<dyn Reader>>,
    polled: Mutex<Polled>,
    watched: Mutex<Watched>,
}

/// Apart from what is watched: more may be while somebody waits.
struct Polled {
    poll: mio::Poll,
    events: Events,
}

struct Watched {
    sockets: HashMap<Token, Weak<Readiness>>,
    next: usize,
}

/// What happened to sockets, which whoever waits for them is not told yet.
#[derive(Default)]
pub(crate) struct Seen {
    sockets: SmallVec<[(Arc<Readiness>, SocketEvent); 4]>,
    /// There may be more to see.
    more: bool,
}

impl Seen {
    /// Wakes those who wait for it; whether there may be more to see.
    pub(crate) fn tell(self) -> bool {
        for (socket, change) in self.sockets {
            socket.becomes(&change);
        }
        self.more
    }
}

impl Poller {
    /// Without a `reader` it reads sockets itself.
    pub(crate) fn new(reader: Option<Arc<dyn Reader>>) -> io::Result<Self> {
        let poll = mio::Poll::new()?;
        let registry = poll.registry().try_clone()?;
        Ok(Poller {
            _registered: [register(&poll), register(&registry)],
            waker: mio::Waker::new(&registry, WAKER)?,
            registry,
            reader,
            polled: Mutex::new(Polled { poll, events: Events::with_capacity(EVENTS) }),
            watched: Mutex::new(Watched { sockets: HashMap::new(), next: WAKER.0 + 1 }),
        })
    }

    /// Readable when there is something to [look](Self::look) at.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.registry.as_fd()
    }

    /// Makes the descriptor readable until the next look.
    pub(crate) fn ring(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "an event loop could not be woken");
        }
    }

    /// Wakes whoever waits for a socket that has become ready. Does not block. Leaves nothing for another look: who
    /// watches the descriptor may be told of changes only.
    pub(crate) fn look(&self) {
        while self.see(Some(Duration::ZERO)).tell() {}
    }

    /// Waits in this thread until there is something to look at. One thread at a time may, and none looks meanwhile.
    pub(crate) fn wait(&self) -> Seen {
        self.see(None)
    }

    fn see(&self, limit: Option<Duration>) -> Seen {
        let mut polled = locked(&self.polled);
        let Polled { poll, events } = &mut *polled;
        if let Err(error) = poll.poll(events, limit) {
            if error.kind() != ErrorKind::Interrupted {
                tracing::error!(%error, "an event loop cannot see its sockets");
            }
            return Seen::default();
        }
        let watched = locked(&self.watched);
        let ready = |event: &Event| Some((watched.sockets.get(&event.token())?.upgrade()?, SocketEvent::of(event)));
        Seen { sockets: events.iter().filter_map(ready).collect(), more: events.iter().count() == EVENTS }
    }

    /// Watches a socket that does not block.
    pub(crate) fn watch<S: Source + AsFd>(&self, mut socket: S) -> io::Result<Socket<S>> {
        let mut watched = locked(&self.watched);
        watched.sockets.retain(|_, socket| socket.strong_count() > 0);
        let token = Token(watched.next);
        watched.next += 1;
        let readiness = Arc::default();
        watched.sockets.insert(token, Arc::downgrade(&readiness));
        drop(watched);
        let Some(reader) = &self.reader else {
            self.registry.register(&mut socket, token, Interest::READABLE | Interest::WRITABLE)?;
            return Ok(Socket { socket, readiness, fed: None });
        };
        self.registry.register(&mut socket, token, Interest::WRITABLE)?;
        reader.read(token.0, socket.as_fd().try_clone_to_owned()?);
        Ok(Socket { socket, readiness, fed: Some(Feeding { number: token.0, reader: reader.clone() }) })
    }

    /// Takes what the reader read from a socket: nothing, when that has ended.
    pub(crate) fn feed(&self, number: usize, bytes: &[u8]) {
        let socket = locked(&self.watched).sockets.get(&Token(number)).and_then(Weak::upgrade);
        if let Some(socket) = socket {
            socket.takes(bytes);
        }
    }
}

/// What an event says of a socket.
struct SocketEvent {
    readable: bool,
    writable: bool,
    ended: bool,
}

impl SocketEvent {
    fn of(event: &Event) -> Self {
        let ended = event.is_error() || event.is_read_closed() || event.is_write_closed();
        SocketEvent { readable: event.is_readable() || ended, writable: event.is_writable() || ended, ended }
    }
}

/// What is known of a socket: events tell of changes only.
#[derive(Default)]
struct Readiness(Mutex<SocketState>);

#[derive(Default)]
struct SocketState {
    reading: Side,
    writing: Side,
    /// Nothing will change any more.
    ended: bool,
    /// What a reader read of it and nobody took yet.
    fed: VecDeque<u8>,
    /// The reader came to its end.
    eaten: bool,
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
    fn becomes(&self, change: &SocketEvent) {
        let mut known = locked(&self.0);
        known.ended |= change.ended;
        let woken = [known.reading.becomes(change.readable), known.writing.becomes(change.writable)];
        drop(known);
        woken.into_iter().flatten().for_each(Waker::wake);
    }

    fn takes(&self, bytes: &[u8]) {
        let mut known = locked(&self.0);
        known.fed.extend(bytes);
        known.eaten |= bytes.is_empty();
        let woken = known.reading.waiting.take();
        drop(known);
        woken.into_iter().for_each(Waker::wake);
    }

    /// What was fed, as far as there is room.
    fn poll_fed(&self, context: &Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut known = locked(&self.0);
        if known.fed.is_empty() && !known.eaten {
            known.reading.waiting = Some(context.waker().clone());
            return Poll::Pending;
        }
        let (front, _) = known.fed.as_slices();
        let some = front.len().min(into.remaining());
        into.put_slice(&front[..some]);
        known.fed.drain(..some);
        Poll::Ready(Ok(()))
    }
}

/// A socket in a foreign event loop.
pub(crate) struct Socket<S> {
    socket: S,
    readiness: Arc<Readiness>,
    /// Where a reader reads it.
    fed: Option<Feeding>,
}

struct Feeding {
    number: usize,
    reader: Arc<dyn Reader>,
}

impl Drop for Feeding {
    fn drop(&mut self) {
        self.reader.stop(self.number);
    }
}

impl<S> Socket<S> {
    /// Does `work` once the side that `of` picks is ready for it; `work` says how much of how much it did.
    fn attempt(
        &self,
        context: &Context<'_>,
        of: impl Fn(&mut SocketState) -> &mut Side,
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

fn reading(known: &mut SocketState) -> &mut Side {
    &mut known.reading
}

fn writing(known: &mut SocketState) -> &mut Side {
    &mut known.writing
}

impl<S: Unpin> AsyncRead for Socket<S>
where
    for<'a> &'a S: Read,
{
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.fed.is_some() {
            return self.readiness.poll_fed(context, into);
        }
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
    use std::future::poll_fn;
    use std::os::unix::net::UnixStream;

    use mio::net::UnixStream as Watched;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn pair(poller: &Poller) -> (Socket<Watched>, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (poller.watch(Watched::from_std(ours)).unwrap(), theirs)
    }

    #[test]
    fn a_look_leaves_no_socket_for_the_next_one() {
        let poller = Poller::new(None).unwrap();
        let sockets: Vec<_> = (0..2 * EVENTS + 1).map(|_| pair(&poller)).collect();
        poller.look();
        let ready = |(socket, _): &&(Socket<Watched>, UnixStream)| locked(&socket.readiness.0).writing.ready;
        assert_eq!(sockets.iter().filter(ready).count(), sockets.len());
    }

    #[derive(Default)]
    struct Reads(Mutex<Vec<(usize, Option<UnixStream>)>>);

    impl Reader for Reads {
        fn read(&self, number: usize, socket: OwnedFd) {
            locked(&self.0).push((number, Some(socket.into())));
        }

        fn stop(&self, number: usize) {
            locked(&self.0).push((number, None));
        }
    }

    #[tokio::test]
    async fn a_reader_gets_the_socket_and_feeds_what_it_read() {
        let reads = Arc::new(Reads::default());
        let poller = Poller::new(Some(reads.clone())).unwrap();
        let (mut socket, mut theirs) = pair(&poller);
        let (number, read) = locked(&reads.0).pop().unwrap();
        theirs.write_all(b"hello").unwrap();
        poller.look();
        let mut first = [0; 3];
        let waits = poll_fn(|context| {
            let mut buffer = ReadBuf::new(&mut first);
            Poll::Ready(Pin::new(&mut socket).poll_read(context, &mut buffer).is_pending())
        });
        assert!(waits.await, "the poller reads nothing itself");
        let mut bytes = [0; 16];
        let some = read.unwrap().read(&mut bytes).unwrap();
        poller.feed(number, &bytes[..some]);
        poller.feed(number + 1, b"of no socket");
        assert_eq!((socket.read(&mut first).await.unwrap(), &first), (3, b"hel"));
        poller.feed(number, b" and bye");
        poller.feed(number, b"");
        let mut rest = String::new();
        socket.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "lo and bye");
        socket.write_all(b"written directly").await.unwrap();
        assert_eq!(theirs.read(&mut bytes).unwrap(), 16);
        drop(socket);
        assert!(matches!(locked(&reads.0)[..], [(last, None)] if last == number));
    }
}
