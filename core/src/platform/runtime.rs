//! The one background runtime of a process: a single thread, started at first need, stamped with the fork generation.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;

use super::fork::Generational;
use crate::error::{Error, Kind, Result};

/// The background runtime's handle; starts its thread in this process if need be.
///
/// # Errors
/// `internal` when the operating system refuses a thread or a descriptor.
pub(crate) fn handle() -> Result<Handle> {
    let running = slot().get_or_init(|| start().map_err(Arc::new));
    running.as_ref().map(|running| running.handle.clone()).map_err(|error| {
        let message = "the background thread could not be started; raise the limits of threads and open files";
        Error::new(Kind::Internal, "connect", message).caused_by(error.clone())
    })
}

/// Ends the background thread, if there is one. Whatever it still did is dropped, and nothing is done by it any more.
#[cfg(feature = "bindings")]
pub(crate) fn end() {
    if let Some(Ok(running)) = slot().get() {
        running.over.notify_one();
    }
}

type Started = OnceLock<std::result::Result<Running, Arc<std::io::Error>>>;

struct Running {
    handle: Handle,
    /// Ends it.
    over: Arc<Notify>,
}

/// That of this process.
fn slot() -> &'static Started {
    static RUNTIME: OnceLock<Generational<Started>> = OnceLock::new();
    RUNTIME.get_or_init(|| Generational::new(Arc::default())).get_or_make(Arc::default)
}

/// Runs `work` where tokio's sockets and timers are to be had: in the caller's runtime, or, for a caller of another
/// kind, against the background runtime's.
///
/// # Errors
/// As [`handle`].
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> Result<T> {
    if Handle::try_current().is_ok() {
        return Ok(work.await);
    }
    let handle = handle()?;
    let mut work = pin!(work);
    Ok(poll_fn(|context| {
        let _entered = handle.enter();
        work.as_mut().poll(context)
    })
    .await)
}

/// Waits for `work` in this thread, with the background runtime's sockets and timers. Those of the caller's own runtime
/// are no good, which may not go on before this thread does. Not for the background's own thread.
///
/// # Errors
/// As [`handle`].
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> Result<T> {
    let handle = handle()?;
    let waker = unpark();
    let mut context = Context::from_waker(&waker);
    let mut work = pin!(work);
    loop {
        let polled = {
            let _entered = handle.enter();
            work.as_mut().poll(&mut context)
        };
        match polled {
            Poll::Ready(done) => return Ok(done),
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Waits in this thread for `work`, which needs neither sockets nor timers, for at most `limit`. `None` when it is not
/// done then.
pub(crate) fn park_on<T>(work: impl Future<Output = T>, limit: Duration) -> Option<T> {
    let (began, waker) = (Instant::now(), unpark());
    let mut work = pin!(work);
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(done);
        }
        match limit.saturating_sub(began.elapsed()) {
            Duration::ZERO => return None,
            left => std::thread::park_timeout(left),
        }
    }
}

/// Wakes this thread.
fn unpark() -> Waker {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    Waker::from(Arc::new(Unpark(std::thread::current())))
}

/// How long a thread for what blocks waits for more: many come at once, and then none for long.
const KEPT: Duration = Duration::from_secs(1);

fn start() -> std::io::Result<Running> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().thread_keep_alive(KEPT).build()?;
    let running = Running { handle: runtime.handle().clone(), over: Arc::default() };
    let over = running.over.clone();
    std::thread::Builder::new().name("lockwright".into()).spawn(move || runtime.block_on(over.notified()))?;
    Ok(running)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_waits_also_inside_a_runtime_that_stands_still_meanwhile() {
        let own = Builder::new_current_thread().enable_all().build().unwrap();
        let wait = || block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
        own.block_on(async { wait().unwrap() });
        wait().unwrap();
    }
}
