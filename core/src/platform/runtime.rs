//! The one background runtime of a process: a single thread, started at first need, stamped with the fork generation.
//! A thread that asks again and again runs its tasks [instead of it](super::leader).

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle, Runtime};

use super::fork::Generational;
use super::leader::Leadership;
use super::thread;
use crate::error::{Error, Kind, Result};

/// The background runtime's handle; starts its thread in this process if need be.
///
/// # Errors
/// `internal` when the operating system refuses a thread or a descriptor.
pub(crate) fn handle() -> Result<Handle> {
    #[cfg(test)]
    if let Some(handle) = super::simulated::handle() {
        return Ok(handle);
    }
    running().map(|running| running.handle.clone())
}

fn running() -> Result<&'static Running> {
    let running = slot().get_or_init(|| Running::start().map_err(Arc::new));
    running.as_ref().map_err(|error| {
        let message = "the background thread could not be started; raise the limits of threads and open files";
        Error::new(Kind::Internal, "connect", message).caused_by(error.clone())
    })
}

/// Ends the background thread, if there is one. Whatever it still did is dropped, and nothing is done by it any more.
#[cfg(feature = "bindings")]
pub(crate) fn end() {
    if let Some(Ok(running)) = slot().get() {
        running.leadership.end();
    }
}

type Started = OnceLock<std::result::Result<Running, Arc<std::io::Error>>>;

struct Running {
    handle: Handle,
    /// Until the background thread ends.
    runtime: Weak<Runtime>,
    leadership: Arc<Leadership>,
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
    // A task's number is cheaper to look at than its runtime.
    if tokio::task::try_id().is_some() || Handle::try_current().is_ok() {
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
/// are no good, which may not go on before this thread does. Not for the background's own tasks.
///
/// # Errors
/// As [`handle`].
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> Result<T> {
    Ok(running()?.block_on(work))
}

/// Parks this thread, which waits for what the background's tasks bring it, for at most `limit`.
pub(crate) fn park(limit: Option<Duration>) {
    let running = slot().get().and_then(|running| running.as_ref().ok());
    let _waiting = running.map(|running| running.leadership.wait());
    match limit {
        Some(limit) => std::thread::park_timeout(limit),
        None => std::thread::park(),
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
            left => park(Some(left)),
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

impl Running {
    fn start() -> std::io::Result<Self> {
        let mut builder = Builder::new_current_thread();
        builder.enable_io().enable_time().thread_keep_alive(KEPT).on_thread_start(thread::started);
        let runtime = builder.build()?;
        let (runtime, leadership) = (Arc::new(runtime), Arc::new(Leadership::default()));
        let running = Running {
            handle: runtime.handle().clone(),
            runtime: Arc::downgrade(&runtime),
            leadership: leadership.clone(),
        };
        thread::spawn("lockwright", move || attend(&runtime, &leadership))?;
        Ok(running)
    }

    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        // Whoever is inside a runtime cannot run another one, nor can a thread that is ending.
        let is_free = Handle::try_current().is_err_and(|error| error.is_missing_context());
        let call = self.leadership.call(is_free);
        match self.runtime.upgrade().filter(|_| call.leads) {
            Some(runtime) => {
                let mut looks = 0..;
                runtime.block_on(poll_fn(|context| {
                    // Between two looks there are the tasks.
                    if looks.next() > Some(0) {
                        call.has_led();
                    }
                    work.as_mut().poll(context)
                }))
            }
            None => self.await_beside(&mut work),
        }
    }

    /// Waits for it while another thread runs the tasks.
    fn await_beside<T>(&self, work: &mut Pin<&mut impl Future<Output = T>>) -> T {
        let waker = unpark();
        let mut context = Context::from_waker(&waker);
        loop {
            let polled = {
                let _entered = self.handle.enter();
                work.as_mut().poll(&mut context)
            };
            match polled {
                Poll::Ready(done) => return done,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

/// Runs the tasks whenever nobody else does.
fn attend(runtime: &Runtime, leadership: &Leadership) {
    loop {
        runtime.block_on(leadership.wanted.notified());
        if !leadership.follow() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::ThreadId;

    use super::*;

    #[test]
    fn a_thread_waits_also_inside_a_runtime_that_stands_still_meanwhile() {
        let own = Builder::new_current_thread().enable_all().build().unwrap();
        let wait = || block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
        own.block_on(async { wait().unwrap() });
        wait().unwrap();
    }

    /// In which thread a task of the background is run.
    fn thread_of_a_task(running: &Running) -> ThreadId {
        running.block_on(async { tokio::spawn(async { std::thread::current().id() }).await.unwrap() })
    }

    fn call(running: &Running, calls: usize) {
        for _ in 0..calls {
            thread_of_a_task(running);
        }
    }

    #[test]
    fn whoever_calls_again_and_again_runs_the_tasks_and_then_the_background_does() {
        let (running, me) = (Running::start().unwrap(), std::thread::current().id());
        assert_ne!(thread_of_a_task(&running), me);
        while thread_of_a_task(&running) != me {}
        let (tell, hear) = mpsc::channel();
        running.handle.spawn(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            tell.send(std::thread::current().id()).unwrap();
        });
        assert_ne!(hear.recv_timeout(Duration::from_secs(20)).unwrap(), me);
        while thread_of_a_task(&running) != me {}
    }

    #[test]
    fn whoever_is_answered_without_the_tasks_keeps_nobody_from_running_them() {
        let (running, me) = (Running::start().unwrap(), std::thread::current().id());
        while thread_of_a_task(&running) != me {}
        let (tell, hear) = mpsc::channel();
        running.handle.spawn(async move { tell.send(()).unwrap() });
        let began = Instant::now();
        while hear.try_recv().is_err() {
            running.block_on(async {});
            assert!(began.elapsed() < Duration::from_secs(20), "nobody runs the tasks");
        }
    }

    #[test]
    fn two_who_call_at_once_are_both_answered() {
        let running = Running::start().unwrap();
        let calls = || call(&running, 500);
        std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(calls))));
    }

    #[cfg(feature = "bindings")]
    #[test]
    fn what_the_tasks_hold_is_dropped_at_the_end_wherever_they_were_run() {
        for calls in [0, 100] {
            let (running, held) = (Running::start().unwrap(), Arc::new(()));
            call(&running, calls);
            let (gone, kept) = (Arc::downgrade(&held), std::future::pending::<()>());
            running.handle.spawn(async move { drop((kept.await, held)) });
            running.leadership.end();
            while gone.strong_count() > 0 {
                std::thread::yield_now();
            }
        }
    }
}
