//! A clock that a test turns, in place of the machine's, the runtime that goes by it, and a network: for a test's own
//! thread.
//!
//! It goes as tokio's does, which goes as fast as there is nothing to do, and [leaps](leap) over the time in which the
//! machine is suspended: the clock of a lease counts that, and tokio's does not.

pub(crate) mod network;
#[path = "../../machines/tests/random/mod.rs"]
pub(crate) mod random;
pub(crate) mod sockets;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::time::Time;

/// What the clock shows at first.
const START: Time = Time::from_nanos(1_000_000_000_000);

/// A connection on a simulated network.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> Socket for S {}

pub(crate) type Dialled = Pin<Box<dyn Future<Output = io::Result<Box<dyn Socket>>> + Send>>;

type Dials = Box<dyn Fn(SocketAddr) -> Dialled>;

thread_local! {
    static CLOCK: RefCell<Option<Clock>> = const { RefCell::new(None) };
    static DIALS: RefCell<Option<Dials>> = const { RefCell::new(None) };
}

struct Clock {
    began: Instant,
    leapt: Duration,
    alarms: BTreeMap<(Time, u64), Waker>,
    /// How many alarms were set.
    set: u64,
    /// How many numbers were drawn.
    drawn: u128,
    /// Notified of a new alarm, and of a leap.
    changed: Arc<Notify>,
}

impl Clock {
    fn now(&self) -> Time {
        START.after(self.began.elapsed()).after(self.leapt)
    }
}

/// What becomes of `work` in a time of its own, with all that it has done in the background.
pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    let done = runtime.block_on(async {
        let changed = Arc::new(Notify::new());
        let (began, leapt, alarms) = (Instant::now(), Duration::ZERO, BTreeMap::new());
        CLOCK.set(Some(Clock { began, leapt, alarms, set: 0, drawn: 0, changed: changed.clone() }));
        let alarms = tokio::spawn(keep_alarms(changed));
        let done = work.await;
        alarms.abort();
        done
    });
    CLOCK.set(None);
    DIALS.set(None);
    done
}

/// Connections of this thread are those that `dials` makes.
pub(crate) fn dials_by(dials: impl Fn(SocketAddr) -> Dialled + 'static) {
    DIALS.set(Some(Box::new(dials)));
}

/// A connection to the first of `addresses`, if this thread has a simulated network.
pub(crate) fn dial(addresses: &[SocketAddr]) -> Option<Dialled> {
    let address = *addresses.first()?;
    DIALS.with_borrow(|dials| dials.as_ref().map(|dials| dials(address)))
}

fn with<T>(what: impl FnOnce(&mut Clock) -> T) -> Option<T> {
    CLOCK.with_borrow_mut(|clock| clock.as_mut().map(what))
}

/// What the clock shows, if this thread has one.
pub(crate) fn now() -> Option<Time> {
    with(|clock| clock.now())
}

/// The runtime that goes by it.
pub(crate) fn handle() -> Option<Handle> {
    with(|_| Handle::current())
}

/// A number that nobody else in the simulation has, the same each time.
pub(crate) fn number() -> Option<u128> {
    with(|clock| {
        clock.drawn += 1;
        clock.drawn.wrapping_mul(0xDA94_2042_E4DD_58B5_9E37_79B9_7F4A_7C15)
    })
}

/// So much time passes in which nobody does anything.
pub(crate) fn leap(span: Duration) {
    with(|clock| {
        clock.leapt += span;
        clock.changed.notify_one();
    });
}

/// Has `waker` woken at that time; whether this thread has a simulated clock.
pub(crate) fn wakes(at: Time, waker: &Waker) -> bool {
    let set = with(|clock| {
        let is_first = clock.alarms.first_key_value().is_none_or(|((first, _), _)| at < *first);
        clock.set += 1;
        clock.alarms.insert((at, clock.set), waker.clone());
        if is_first {
            clock.changed.notify_one();
        }
    });
    set.is_some()
}

/// Waits until that time.
pub(crate) async fn sleep_until(at: Time) {
    poll_fn(|context| match now() {
        Some(now) if now < at && wakes(at, context.waker()) => Poll::Pending,
        _ => Poll::Ready(()),
    })
    .await;
}

async fn keep_alarms(changed: Arc<Notify>) {
    loop {
        let looked = with(|clock| {
            let now = clock.now();
            let later = clock.alarms.split_off(&(now, u64::MAX));
            let due = std::mem::replace(&mut clock.alarms, later);
            (due, clock.alarms.first_key_value().map(|((at, _), _)| at.since(now)))
        });
        let Some((due, next)) = looked else { return };
        due.into_values().for_each(Waker::wake);
        let _ = tokio::time::timeout(next.unwrap_or(Duration::MAX), changed.notified()).await;
    }
}
