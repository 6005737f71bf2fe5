//! The two Rust faces as one: what waits is awaited by the one, and blocks inside its future in the other.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockwright::blocking::Blocking;
use lockwright::election::{Election, Leader};
use lockwright::export::Secret;
use lockwright::lease::{Inspection, LossReason, ReleaseOutcome};
use lockwright::multi::{MultiGuard, MultiLock};
use lockwright::once::{Found, Once};
use lockwright::options::{AcquireOptions, seconds};
use lockwright::striped::{Segment, Striped};
use lockwright::{Arrival, Async, Barrier, Client, Face, Guard, Health, Kind, Latch, Lock, Result, Token};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

use crate::held::Held;

/// Tells an acquisition that nobody wants it any more.
#[derive(Debug, Default)]
pub(crate) struct Cancel {
    flag: AtomicBool,
    notify: Notify,
}

impl Cancel {
    pub(crate) fn cancel(&self) {
        self.flag.store(true, Ordering::SeqCst);
        self.notify.notify_one();
    }

    /// What is done, unless it is cancelled before.
    pub(crate) async fn unless<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let (mut work, mut cancelled) = (pin!(work), pin!(self.notify.notified()));
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => cancelled.as_mut().poll(context).map(|()| None),
        })
        .await
    }
}

type Doing<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Finds what is held for as long as it is not released.
pub(crate) type Find<W> = Box<dyn Fn() -> Option<Arc<Held<W>>> + Send>;

/// Looks at what a job makes.
pub(crate) type Look = Box<dyn Fn() -> Result<Found<u64>> + Send + Sync>;

/// What a face does, as a future.
pub(crate) trait Way: Face + Sized {
    fn acquire(lock: &Lock<Self>) -> Doing<'_, Result<Guard<Self>>>;
    /// `None` when it was cancelled.
    fn acquire_unless<'a>(lock: &'a Lock<Self>, cancel: &'a Cancel) -> Doing<'a, Option<Result<Guard<Self>>>>;
    fn try_acquire(lock: &Lock<Self>) -> Doing<'_, Result<Option<Guard<Self>>>>;
    fn release(guard: Guard<Self>) -> Doing<'static, Result<ReleaseOutcome>>;
    fn extend(guard: &Guard<Self>, ttl: Duration) -> Doing<'_, Result<()>>;
    fn downgrade(guard: &Guard<Self>) -> Doing<'_, Result<()>>;
    fn try_upgrade(guard: &Guard<Self>) -> Doing<'_, Result<bool>>;
    fn resize(lock: &Lock<Self>, permits: u32) -> Doing<'_, Result<()>>;
    fn wait_within(latch: &Latch<Self>, timeout: Option<Duration>) -> Doing<'_, Result<bool>>;
    fn count_down(latch: &Latch<Self>) -> Doing<'_, Result<u32>>;
    fn count(latch: &Latch<Self>) -> Doing<'_, Result<u32>>;
    fn try_set_count(latch: &Latch<Self>, to: u32) -> Doing<'_, Result<bool>>;
    fn pass_within(barrier: &Barrier<Self>, timeout: Option<Duration>) -> Doing<'_, Result<Option<Arrival>>>;
    fn waiting(barrier: &Barrier<Self>) -> Doing<'_, Result<u32>>;
    fn export(guard: Guard<Self>, ttl: Duration) -> Doing<'static, (Guard<Self>, Result<Secret>)>;
    fn resume<'a>(lock: &'a Lock<Self>, secret: &'a str) -> Doing<'a, Result<Guard<Self>>>;
    fn resume_with<'a>(
        client: &'a Client<Self>,
        secret: &'a str,
        options: &'a AcquireOptions,
    ) -> Doing<'a, Result<Guard<Self>>>;
    fn ping(client: &Client<Self>) -> Doing<'_, Result<Health>>;
    fn drain(client: &Client<Self>, limit: Duration) -> Doing<'_, Result<Vec<String>>>;
    /// Leads until the gate is free, and says by what token; counts the reigns.
    fn lead<'a>(
        election: &'a Election<Self>,
        proclaims: &'a str,
        gate: Lock<Self>,
        reigns: Arc<AtomicU32>,
    ) -> Doing<'a, Result<u64>>;
    fn acquire_all(lock: &MultiLock<Self>) -> Doing<'_, Result<MultiGuard<Self>>>;
    fn try_acquire_all(lock: &MultiLock<Self>) -> Doing<'_, Result<Option<MultiGuard<Self>>>>;
    fn release_all(guard: MultiGuard<Self>) -> Doing<'static, Result<ReleaseOutcome>>;
    /// `None` once all are sold out.
    fn any(striped: &Striped<Self>, timeout: Option<f64>) -> Doing<'_, Result<Option<Segment<Self>>>>;
    fn sold_out(segment: Segment<Self>) -> Doing<'static, Result<ReleaseOutcome>>;
    fn once<'a>(job: &'a Once<Self>, look: Look, make: Doing<'static, Result<u64>>) -> Doing<'a, Result<u64>>;
    fn campaign<'a>(election: &'a Election<Self>, proclaims: &'a str) -> Doing<'a, Result<Guard<Self>>>;
    fn leader(election: &Election<Self>) -> Doing<'_, Result<Option<Leader>>>;
    fn changed(election: &Election<Self>, known: Option<u64>, every: Duration) -> Doing<'_, Result<Option<Leader>>>;
    /// `None` when it was released.
    fn lost(guard: Find<Self>) -> Doing<'static, Option<LossReason>>;
    fn inspect<'a>(client: &'a Client<Self>, name: &'a str) -> Doing<'a, Result<Inspection>>;
    fn list(client: &Client<Self>) -> Doing<'_, Result<Vec<String>>>;
    fn break_lock<'a>(client: &'a Client<Self>, name: &'a str, token: Token) -> Doing<'a, Result<bool>>;
    fn request_release(lock: &Lock<Self>, token: Token) -> Doing<'_, Result<bool>>;
    fn close(client: &Client<Self>) -> Doing<'_, ()>;
    /// Does it beside everything else.
    fn spawn(work: impl Future<Output = ()> + Send + 'static);
    /// Does it here, in a thread or process that may have nothing yet.
    fn block<T>(work: impl Future<Output = T>) -> T;
}

fn limit(timeout: Option<f64>, otherwise: Option<Duration>) -> Result<Option<Duration>> {
    timeout.map_or(Ok(otherwise), |timeout| seconds("any", "timeout", timeout).map(Some))
}

impl Way for Async {
    fn acquire(lock: &Lock) -> Doing<'_, Result<Guard>> {
        Box::pin(lock.acquire())
    }

    fn acquire_unless<'a>(lock: &'a Lock, cancel: &'a Cancel) -> Doing<'a, Option<Result<Guard>>> {
        Box::pin(cancel.unless(lock.acquire()))
    }

    fn try_acquire(lock: &Lock) -> Doing<'_, Result<Option<Guard>>> {
        Box::pin(lock.try_acquire())
    }

    fn release(guard: Guard) -> Doing<'static, Result<ReleaseOutcome>> {
        Box::pin(guard.release())
    }

    fn extend(guard: &Guard, ttl: Duration) -> Doing<'_, Result<()>> {
        Box::pin(guard.extend(ttl))
    }

    fn downgrade(guard: &Guard) -> Doing<'_, Result<()>> {
        Box::pin(guard.downgrade())
    }

    fn try_upgrade(guard: &Guard) -> Doing<'_, Result<bool>> {
        Box::pin(guard.try_upgrade())
    }

    fn resize(lock: &Lock, permits: u32) -> Doing<'_, Result<()>> {
        Box::pin(lock.resize(permits))
    }

    fn wait_within(latch: &Latch, timeout: Option<Duration>) -> Doing<'_, Result<bool>> {
        Box::pin(latch.wait_within(timeout))
    }

    fn count_down(latch: &Latch) -> Doing<'_, Result<u32>> {
        Box::pin(latch.count_down())
    }

    fn count(latch: &Latch) -> Doing<'_, Result<u32>> {
        Box::pin(latch.count())
    }

    fn try_set_count(latch: &Latch, to: u32) -> Doing<'_, Result<bool>> {
        Box::pin(latch.try_set_count(to))
    }

    fn pass_within(barrier: &Barrier, timeout: Option<Duration>) -> Doing<'_, Result<Option<Arrival>>> {
        Box::pin(barrier.wait_within(timeout))
    }

    fn waiting(barrier: &Barrier) -> Doing<'_, Result<u32>> {
        Box::pin(barrier.waiting())
    }

    fn export(mut guard: Guard, ttl: Duration) -> Doing<'static, (Guard, Result<Secret>)> {
        Box::pin(async move {
            let secret = guard.export(ttl).await;
            (guard, secret)
        })
    }

    fn resume<'a>(lock: &'a Lock, secret: &'a str) -> Doing<'a, Result<Guard>> {
        Box::pin(lock.resume(secret))
    }

    fn resume_with<'a>(client: &'a Client, secret: &'a str, options: &'a AcquireOptions) -> Doing<'a, Result<Guard>> {
        Box::pin(client.resume_with(secret, options))
    }

    fn ping(client: &Client) -> Doing<'_, Result<Health>> {
        Box::pin(client.ping())
    }

    fn drain(client: &Client, limit: Duration) -> Doing<'_, Result<Vec<String>>> {
        Box::pin(client.drain(limit))
    }

    fn lead<'a>(
        election: &'a Election,
        proclaims: &'a str,
        gate: Lock,
        reigns: Arc<AtomicU32>,
    ) -> Doing<'a, Result<u64>> {
        let work = move |token: Token| {
            reigns.fetch_add(1, Ordering::SeqCst);
            let gate = gate.clone();
            async move {
                let _ = gate.acquire().await?.release().await?;
                Ok(token.n)
            }
        };
        Box::pin(async move { election.run(proclaims, work).await? })
    }

    fn acquire_all(lock: &MultiLock) -> Doing<'_, Result<MultiGuard>> {
        Box::pin(lock.acquire())
    }

    fn try_acquire_all(lock: &MultiLock) -> Doing<'_, Result<Option<MultiGuard>>> {
        Box::pin(lock.try_acquire())
    }

    fn release_all(guard: MultiGuard) -> Doing<'static, Result<ReleaseOutcome>> {
        Box::pin(guard.release())
    }

    fn any(striped: &Striped, timeout: Option<f64>) -> Doing<'_, Result<Option<Segment>>> {
        Box::pin(async move { striped.any_within(limit(timeout, striped.options().timeout)?).await })
    }

    fn sold_out(segment: Segment) -> Doing<'static, Result<ReleaseOutcome>> {
        Box::pin(segment.sold_out())
    }

    fn once<'a>(job: &'a Once, look: Look, make: Doing<'static, Result<u64>>) -> Doing<'a, Result<u64>> {
        Box::pin(async move { job.get(|| std::future::ready(look()), |_| make).await })
    }

    fn campaign<'a>(election: &'a Election, proclaims: &'a str) -> Doing<'a, Result<Guard>> {
        Box::pin(election.campaign(proclaims))
    }

    fn leader(election: &Election) -> Doing<'_, Result<Option<Leader>>> {
        Box::pin(election.leader())
    }

    fn changed(election: &Election, known: Option<u64>, every: Duration) -> Doing<'_, Result<Option<Leader>>> {
        Box::pin(election.changed(known, every))
    }

    // The guard is looked up at each poll: to keep it here would keep it from being released.
    fn lost(guard: Find<Self>) -> Doing<'static, Option<LossReason>> {
        Box::pin(poll_fn(move |context| match guard() {
            Some(held) => held.one().map_or(Poll::Pending, |guard| pin!(guard.lost()).poll(context).map(Some)),
            None => Poll::Ready(None),
        }))
    }

    fn inspect<'a>(client: &'a Client, name: &'a str) -> Doing<'a, Result<Inspection>> {
        Box::pin(client.inspect(name))
    }

    fn list(client: &Client) -> Doing<'_, Result<Vec<String>>> {
        Box::pin(client.list())
    }

    fn break_lock<'a>(client: &'a Client, name: &'a str, token: Token) -> Doing<'a, Result<bool>> {
        Box::pin(client.break_lock(name, token))
    }

    fn request_release(lock: &Lock, token: Token) -> Doing<'_, Result<bool>> {
        Box::pin(lock.request_release(token))
    }

    fn close(client: &Client) -> Doing<'_, ()> {
        Box::pin(client.close())
    }

    fn spawn(work: impl Future<Output = ()> + Send + 'static) {
        static RUNTIME: OnceLock<Runtime> = OnceLock::new();
        let runtime = || Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        drop(RUNTIME.get_or_init(runtime).spawn(work));
    }

    fn block<T>(work: impl Future<Output = T>) -> T {
        Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
    }
}

/// For futures that do everything at their first poll.
fn at_once<'a, T: Send + 'a>(work: impl FnOnce() -> T + Send + 'a) -> Doing<'a, T> {
    Box::pin(async move { work() })
}

impl Way for Blocking {
    fn acquire(lock: &Lock<Self>) -> Doing<'_, Result<Guard<Self>>> {
        at_once(|| lock.acquire())
    }

    fn acquire_unless<'a>(lock: &'a Lock<Self>, cancel: &'a Cancel) -> Doing<'a, Option<Result<Guard<Self>>>> {
        at_once(move || {
            let mut acquiring = match lock.begin(lock.options().timeout) {
                Ok(acquiring) => acquiring,
                Err(error) => return Some(Err(error)),
            };
            while !cancel.flag.load(Ordering::SeqCst) {
                if let Some(result) = acquiring.wait(Duration::from_millis(10)) {
                    return Some(result);
                }
            }
            None
        })
    }

    fn try_acquire(lock: &Lock<Self>) -> Doing<'_, Result<Option<Guard<Self>>>> {
        at_once(|| lock.try_acquire())
    }

    fn release(guard: Guard<Self>) -> Doing<'static, Result<ReleaseOutcome>> {
        at_once(|| guard.release())
    }

    fn extend(guard: &Guard<Self>, ttl: Duration) -> Doing<'_, Result<()>> {
        at_once(move || guard.extend(ttl))
    }

    fn downgrade(guard: &Guard<Self>) -> Doing<'_, Result<()>> {
        at_once(|| guard.downgrade())
    }

    fn try_upgrade(guard: &Guard<Self>) -> Doing<'_, Result<bool>> {
        at_once(|| guard.try_upgrade())
    }

    fn resize(lock: &Lock<Self>, permits: u32) -> Doing<'_, Result<()>> {
        at_once(move || lock.resize(permits))
    }

    fn wait_within(latch: &Latch<Self>, timeout: Option<Duration>) -> Doing<'_, Result<bool>> {
        at_once(move || latch.wait_within(timeout))
    }

    fn count_down(latch: &Latch<Self>) -> Doing<'_, Result<u32>> {
        at_once(move || latch.count_down())
    }

    fn count(latch: &Latch<Self>) -> Doing<'_, Result<u32>> {
        at_once(move || latch.count())
    }

    fn try_set_count(latch: &Latch<Self>, to: u32) -> Doing<'_, Result<bool>> {
        at_once(move || latch.try_set_count(to))
    }

    fn pass_within(barrier: &Barrier<Self>, timeout: Option<Duration>) -> Doing<'_, Result<Option<Arrival>>> {
        at_once(move || barrier.wait_within(timeout))
    }

    fn waiting(barrier: &Barrier<Self>) -> Doing<'_, Result<u32>> {
        at_once(move || barrier.waiting())
    }

    fn export(mut guard: Guard<Self>, ttl: Duration) -> Doing<'static, (Guard<Self>, Result<Secret>)> {
        at_once(move || {
            let secret = guard.export(ttl);
            (guard, secret)
        })
    }

    fn resume<'a>(lock: &'a Lock<Self>, secret: &'a str) -> Doing<'a, Result<Guard<Self>>> {
        at_once(move || lock.resume(secret))
    }

    fn resume_with<'a>(
        client: &'a Client<Self>,
        secret: &'a str,
        options: &'a AcquireOptions,
    ) -> Doing<'a, Result<Guard<Self>>> {
        at_once(move || client.resume_with(secret, options))
    }

    fn ping(client: &Client<Self>) -> Doing<'_, Result<Health>> {
        at_once(|| client.ping())
    }

    fn drain(client: &Client<Self>, limit: Duration) -> Doing<'_, Result<Vec<String>>> {
        at_once(move || client.drain(limit))
    }

    fn lead<'a>(
        election: &'a Election<Self>,
        proclaims: &'a str,
        gate: Lock<Self>,
        reigns: Arc<AtomicU32>,
    ) -> Doing<'a, Result<u64>> {
        at_once(move || {
            let gate = gate.with_timeout(Some(Duration::from_secs(1)));
            let work = |guard: &Guard<Self>| {
                reigns.fetch_add(1, Ordering::SeqCst);
                while guard.is_held() {
                    match gate.acquire() {
                        Ok(passed) => return passed.release().map(|_| guard.token().n),
                        Err(error) if error.kind() == Kind::Timeout => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(guard.token().n)
            };
            election.run(proclaims, work)?
        })
    }

    fn acquire_all(lock: &MultiLock<Self>) -> Doing<'_, Result<MultiGuard<Self>>> {
        at_once(move || lock.acquire())
    }

    fn try_acquire_all(lock: &MultiLock<Self>) -> Doing<'_, Result<Option<MultiGuard<Self>>>> {
        at_once(move || lock.try_acquire())
    }

    fn release_all(guard: MultiGuard<Self>) -> Doing<'static, Result<ReleaseOutcome>> {
        at_once(move || guard.release())
    }

    fn any(striped: &Striped<Self>, timeout: Option<f64>) -> Doing<'_, Result<Option<Segment<Self>>>> {
        at_once(move || striped.any_within(limit(timeout, striped.options().timeout)?))
    }

    fn sold_out(segment: Segment<Self>) -> Doing<'static, Result<ReleaseOutcome>> {
        at_once(move || segment.sold_out())
    }

    fn once<'a>(job: &'a Once<Self>, look: Look, make: Doing<'static, Result<u64>>) -> Doing<'a, Result<u64>> {
        at_once(move || job.get(look, |_| Self::block(make)))
    }

    fn campaign<'a>(election: &'a Election<Self>, proclaims: &'a str) -> Doing<'a, Result<Guard<Self>>> {
        at_once(move || election.campaign(proclaims))
    }

    fn leader(election: &Election<Self>) -> Doing<'_, Result<Option<Leader>>> {
        at_once(move || election.leader())
    }

    fn changed(election: &Election<Self>, known: Option<u64>, every: Duration) -> Doing<'_, Result<Option<Leader>>> {
        at_once(move || election.changed(known, every))
    }

    fn lost(guard: Find<Self>) -> Doing<'static, Option<LossReason>> {
        at_once(move || {
            let (tell, told) = mpsc::channel();
            guard()?.one().ok()?.on_lost(move |reason| drop(tell.send(reason.clone())));
            told.recv().ok()
        })
    }

    fn inspect<'a>(client: &'a Client<Self>, name: &'a str) -> Doing<'a, Result<Inspection>> {
        at_once(move || client.inspect(name))
    }

    fn list(client: &Client<Self>) -> Doing<'_, Result<Vec<String>>> {
        at_once(|| client.list())
    }

    fn break_lock<'a>(client: &'a Client<Self>, name: &'a str, token: Token) -> Doing<'a, Result<bool>> {
        at_once(move || client.break_lock(name, token))
    }

    fn request_release(lock: &Lock<Self>, token: Token) -> Doing<'_, Result<bool>> {
        at_once(move || lock.request_release(token))
    }

    fn close(client: &Client<Self>) -> Doing<'_, ()> {
        at_once(|| client.close())
    }

    fn spawn(work: impl Future<Output = ()> + Send + 'static) {
        std::thread::spawn(|| Self::block(work));
    }

    // The shim itself waits for its tasks by a channel's future, so one poll is not always enough.
    fn block<T>(work: impl Future<Output = T>) -> T {
        struct Unpark(std::thread::Thread);
        impl std::task::Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut work = pin!(work);
        loop {
            if let Poll::Ready(result) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
                return result;
            }
            std::thread::park();
        }
    }
}
