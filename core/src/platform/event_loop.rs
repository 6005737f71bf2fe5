//! The async face inside an event loop that is not Rust's, such as asyncio's: no other thread takes part in an
//! uncontended acquisition.
//!
//! Whoever owns the foreign loop makes one [`EventLoop`] for it, has the loop watch its
//! [descriptor](EventLoop::descriptor) for reading, calls [`turn`](EventLoop::turn) when that is readable, and
//! [`go_on`](EventLoop::go_on) after each [`spawn`](EventLoop::spawn). Jobs are polled in these and nowhere else, so
//! always on the foreign loop's thread; sockets that jobs open are watched through the same descriptor. Timers, names
//! and whatever blocks stay with the driver's own thread. A loop that can watch no descriptor has that thread
//! [watch](EventLoop::watch) instead, and is called; it may also [read](EventLoop::with_reader) the sockets itself.
//!
//! ```no_run
//! # fn main() -> lockwright::Result<()> {
//! let client: lockwright::Client = lockwright::Client::open(Some("memory://"), Default::default())?;
//! let jobs = lockwright::event_loop::EventLoop::new()?;
//! jobs.spawn(async move { drop(client.lock("orders:42").acquire().await) });
//! jobs.go_on();
//! # Ok(())
//! # }
//! ```

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::mutex::locked;
pub use super::poller::Reader;
use super::poller::{self, Poller};
use crate::error::{Error, Kind, Result};
use crate::platform::{fence, fork, runtime};

/// What is polled inside one foreign event loop. Dropping it drops its jobs, which gives up what they were about.
pub struct EventLoop {
    home: Arc<Home>,
    generation: u64,
}

/// One job of an [`EventLoop`]; never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobId(u64);

/// What [`EventLoop::wait`] saw; nothing by default.
#[derive(Default)]
#[must_use = "nobody else is told of it"]
pub struct Seen(poller::Seen);

/// What an event loop shares with the wakers of its jobs and with the connections that live in it.
pub(crate) struct Home {
    id: u64,
    background: Handle,
    pub(crate) poller: Poller,
    /// `None` while it is polled.
    jobs: Mutex<HashMap<JobId, Option<Work>>>,
    next: AtomicU64,
    ready: Mutex<Ready>,
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Default)]
struct Ready {
    jobs: Vec<Arc<Alarm>>,
    /// Somebody is in `turn` and will look at `jobs` again.
    attended: bool,
    /// The descriptor is readable already.
    rung: bool,
}

/// Wakes one job.
struct Alarm {
    home: Arc<Home>,
    job: JobId,
    set: AtomicBool,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Home>>> = const { RefCell::new(None) };
}

/// The event loop whose job is being polled by this thread.
pub(crate) fn current() -> Option<Arc<Home>> {
    CURRENT.with_borrow(Clone::clone)
}

impl EventLoop {
    /// An event loop without jobs. Starts the driver's thread, if this process has none yet.
    ///
    /// # Errors
    /// `internal` when the operating system refuses a thread or a descriptor.
    pub fn new() -> Result<Self> {
        Self::make(None)
    }

    /// An event loop whose sockets `reader` reads; it has to [`feed`](Self::feed) what comes. The descriptor is
    /// readable for all else.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_reader(reader: Arc<dyn Reader>) -> Result<Self> {
        Self::make(Some(reader))
    }

    fn make(reader: Option<Arc<dyn Reader>>) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let home = Home {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            background: runtime::handle()?,
            poller: Poller::new(reader).map_err(refused)?,
            jobs: Mutex::default(),
            next: AtomicU64::new(1),
            ready: Mutex::default(),
        };
        Ok(EventLoop { home: Arc::new(home), generation: fork::generation() })
    }

    /// Readable whenever [`turn`](Self::turn) has something to do. It is closed with the event loop.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.home.poller.descriptor()
    }

    /// For a foreign loop that cannot watch a descriptor: has the driver's thread call `ready` whenever
    /// [`turn`](Self::turn) may have something to do, until what this returns is dropped. `ready` must return quickly;
    /// a call that is under way then may still end later.
    ///
    /// # Errors
    /// `internal` when the operating system refuses another descriptor.
    pub fn watch(&self, ready: impl Fn() + Send + 'static) -> Result<Watch> {
        let _driver = self.home.background.enter();
        let own = self.descriptor().try_clone_to_owned();
        #[expect(deprecated, reason = "unsound for what may be closed meanwhile; it owns this descriptor")]
        let watched = own.and_then(|own| AsyncFd::with_interest(own, Interest::READABLE)).map_err(refused)?;
        let watching = self.home.background.spawn(call_when_readable(watched, ready));
        Ok(Watch(watching.abort_handle()))
    }

    /// Takes what was read from the socket of that number (nothing, when that has ended or failed), and polls what can
    /// go on then, as a [`turn`](Self::turn).
    pub fn feed(&self, socket: usize, bytes: &[u8]) {
        self.run(|poller| poller.feed(socket, bytes));
    }

    /// Adds a job, which the next [`turn`](Self::turn) begins, or [`go_on`](Self::go_on); to be followed by one.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> JobId {
        self.home.spawn(Box::pin(work))
    }

    /// Drops a job, which gives up what it was about; does nothing for one that ended.
    pub fn abandon(&self, job: JobId) {
        let dropped = locked(&self.home.jobs).remove(&job);
        drop(dropped);
    }

    /// Polls whatever can go on, without blocking. A job that panics is dropped.
    pub fn turn(&self) {
        self.run(Poller::look);
    }

    /// Waits in this thread until there is something to do, for a thread that has no other loop: what is seen is to be
    /// given to [`turn_to`](Self::turn_to). One thread at a time may, and none calls [`turn`](Self::turn) meanwhile.
    pub fn wait(&self) -> Seen {
        Seen(self.home.poller.wait())
    }

    /// Has [`wait`](Self::wait) return.
    pub fn ring(&self) {
        self.home.poller.ring();
    }

    /// A [`turn`](Self::turn) to what was seen already.
    pub fn turn_to(&self, seen: Seen) {
        self.run(|_| _ = seen.0.tell());
    }

    /// A [`turn`](Self::turn) without a look at the descriptor: that asks the operating system, and what there is to be
    /// seen is seen by whoever watches it.
    pub fn go_on(&self) {
        self.run(|_| {});
    }

    /// What `wakes` wakes needs no bell.
    fn run(&self, wakes: impl FnOnce(&Poller)) {
        if self.is_forked() {
            return;
        }
        let _driver = self.home.background.enter();
        let before = CURRENT.replace(Some(self.home.clone()));
        locked(&self.home.ready).attended = true;
        wakes(&self.home.poller);
        while let Some(alarms) = self.home.next_ready() {
            for alarm in alarms {
                self.home.poll(&alarm);
            }
        }
        CURRENT.set(before);
    }

    /// Whether it was made before a fork, by the parent: then it does nothing in this process.
    pub fn is_forked(&self) -> bool {
        self.generation != fork::generation()
    }
}

fn refused(error: std::io::Error) -> Error {
    let message = "the event loop's descriptors could not be opened; raise the limit of open files";
    Error::new(Kind::Internal, "connect", message).caused_by(error)
}

async fn call_when_readable(descriptor: AsyncFd<OwnedFd>, ready: impl Fn()) {
    // Before the descriptor it stands for: variables are dropped in reverse order.
    let _registered = fork::register(descriptor.get_ref());
    // An error says that the driver's thread is ending.
    while let Ok(mut readable) = descriptor.readable().await {
        // What comes from here on is told again.
        readable.clear_ready();
        fence::told(&ready);
    }
}

/// The driver's thread at an [`EventLoop`]; see [`EventLoop::watch`].
#[derive(Debug)]
#[must_use = "dropping it ends the watch"]
pub struct Watch(AbortHandle);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Drop for EventLoop {
    fn drop(&mut self) {
        if self.is_forked() {
            // Its descriptors and jobs are the parent's.
            std::mem::forget(self.home.clone());
            return;
        }
        // Jobs and their wakers hold each other.
        let jobs = std::mem::take(&mut *locked(&self.home.jobs));
        drop(jobs);
        locked(&self.home.ready).jobs.clear();
    }
}

impl Home {
    /// Tells event loops apart.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The driver's own runtime.
    pub(crate) fn background(&self) -> &Handle {
        &self.background
    }

    /// The job is begun by this turn, or by the next one.
    pub(crate) fn spawn(self: &Arc<Self>, work: Work) -> JobId {
        let job = JobId(self.next.fetch_add(1, Ordering::Relaxed));
        locked(&self.jobs).insert(job, Some(work));
        let alarm = Arc::new(Alarm { home: self.clone(), job, set: AtomicBool::new(true) });
        locked(&self.ready).jobs.push(alarm);
        job
    }

    fn next_ready(&self) -> Option<Vec<Arc<Alarm>>> {
        let mut ready = locked(&self.ready);
        ready.rung = false;
        ready.attended = !ready.jobs.is_empty();
        ready.attended.then(|| std::mem::take(&mut ready.jobs))
    }

    fn poll(&self, alarm: &Arc<Alarm>) {
        alarm.set.store(false, Ordering::Release);
        let taken = locked(&self.jobs).get_mut(&alarm.job).and_then(Option::take);
        let Some(mut work) = taken else { return };
        let waker = Waker::from(alarm.clone());
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(&mut Context::from_waker(&waker))));
        let mut jobs = locked(&self.jobs);
        match (polled, jobs.get_mut(&alarm.job)) {
            (Ok(Poll::Pending), Some(kept)) => *kept = Some(work),
            // It ended, or was abandoned meanwhile.
            _ => {
                let ended = jobs.remove(&alarm.job);
                drop(jobs);
                drop((ended, work));
            }
        }
    }
}

impl Alarm {
    fn ring(self: &Arc<Self>) {
        if self.set.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut ready = locked(&self.home.ready);
        ready.jobs.push(self.clone());
        let must_ring = !ready.attended && !std::mem::replace(&mut ready.rung, true);
        drop(ready);
        if must_ring {
            self.home.poller.ring();
        }
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seen")
    }
}

impl std::fmt::Debug for EventLoop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EventLoop({})", self.home.id)
    }
}
