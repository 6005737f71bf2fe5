//! What others wrote may panic: callbacks, wakers, subscribers of `tracing`. Neither the lock it concerns nor any other
//! is the worse for it.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use lockwright::Client;
use lockwright::blocking::{self, Guard};
use lockwright::lease::LossReason;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const SHORT: Duration = Duration::from_millis(60);
const TTL: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(20);

/// Panics at every event of locks whose name begins with `told`, and notes what is said of other panics.
struct Frail;

static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
static FRAGILE: AtomicBool = AtomicBool::new(false);
static FELL: AtomicUsize = AtomicUsize::new(0);

struct Text(String);

impl tracing::field::Visit for Text {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl Subscriber for Frail {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut text = Text(event.metadata().target().to_owned());
        event.record(&mut text);
        if FRAGILE.load(Ordering::SeqCst) && text.0.contains("lock=\"told") {
            FELL.fetch_add(1, Ordering::SeqCst);
            panic!("a bug in a subscriber");
        }
        SAID.lock().unwrap_or_else(PoisonError::into_inner).push(text.0);
    }
}

/// One test at a time: they share the subscriber, and the thread that they hope to survive.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = tracing::subscriber::set_global_default(Frail);
    // What writes a backtrace takes as long as a ttl.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    turn
}

fn wait_until(what: impl Fn() -> bool) {
    let give_up = Instant::now() + LONG;
    while !what() {
        assert!(Instant::now() < give_up, "in vain");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A panic was told, of the lock `name`.
fn is_told(name: &str) -> bool {
    let said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    said.iter().any(|text| text.starts_with("lockwright::panic") && text.contains(&format!("lock=\"{name}\"")))
}

/// A lock that is lost at the end of its ttl.
fn doomed(client: &blocking::Client, name: &str) -> Guard {
    client.lock(name).ttl(SHORT).renew(false).acquire().unwrap()
}

/// What was held goes on being renewed, and what is acquired from now on is.
fn all_is_well(client: &blocking::Client, held: &Guard) {
    let later = client.lock("later").ttl(TTL).acquire().unwrap();
    let before = client.metrics().renewals;
    wait_until(|| client.metrics().renewals >= before + 6);
    assert!(held.is_held() && later.is_held());
    let lost = doomed(client, "lost");
    wait_until(|| lost.why_lost() == Some(LossReason::NotRenewed));
    let (tell, told) = mpsc::channel();
    lost.on_lost(move |reason| tell.send(reason.clone()).unwrap());
    assert_eq!(told.recv_timeout(LONG).unwrap(), LossReason::NotRenewed);
}

#[test]
fn a_callback_that_panics_costs_nobody_a_lock() {
    let _alone = alone();
    let client = blocking::connect("memory://panics-callback").unwrap();
    let held = client.lock("held").ttl(TTL).acquire().unwrap();
    let lost = doomed(&client, "called");
    let (tell, told) = mpsc::channel();
    lost.on_lost(|_| panic!("a bug in a callback"));
    lost.on_lost(move |reason| tell.send(reason.clone()).unwrap());
    assert_eq!(told.recv_timeout(LONG).unwrap(), LossReason::NotRenewed);
    wait_until(|| is_told("called"));
    all_is_well(&client, &held);
}

struct Bad(AtomicUsize);

impl Wake for Bad {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("a bug in an executor");
    }
}

#[test]
fn a_waker_that_panics_costs_nobody_a_lock() {
    let _alone = alone();
    let client = blocking::connect("memory://panics-waker").unwrap();
    let held = client.lock("held").ttl(TTL).acquire().unwrap();
    let tasks: Client = client.clone().into_face();
    let bad = Arc::new(Bad(AtomicUsize::new(0)));
    let waker = Waker::from(bad.clone());
    let mut context = Context::from_waker(&waker);
    let before = doomed(&client, "woken");
    let lock = tasks.lock("woken").ttl(SHORT).renew(false).build().unwrap();
    let mut acquiring = pin!(lock.acquire());
    assert!(acquiring.as_mut().poll(&mut context).is_pending());
    // Granted by the background, which wakes the task.
    wait_until(|| bad.0.load(Ordering::SeqCst) == 1);
    let Poll::Ready(Ok(guard)) = acquiring.as_mut().poll(&mut context) else { panic!("it was granted") };
    let mut lost = pin!(guard.lost());
    assert!(lost.as_mut().poll(&mut context).is_pending());
    wait_until(|| bad.0.load(Ordering::SeqCst) == 2);
    assert!(lost.as_mut().poll(&mut context).is_ready());
    wait_until(|| is_told("woken"));
    drop(before);
    all_is_well(&client, &held);
}

#[test]
fn a_subscriber_that_panics_costs_nobody_a_lock() {
    let _alone = alone();
    let client = blocking::connect("memory://panics-subscriber").unwrap();
    let held = client.lock("told-held").ttl(TTL).acquire().unwrap();
    let lost = doomed(&client, "told-lost");
    let (tell, told) = mpsc::channel();
    lost.on_lost(move |reason| tell.send(reason.clone()).unwrap());
    FRAGILE.store(true, Ordering::SeqCst);
    assert_eq!(told.recv_timeout(LONG).unwrap(), LossReason::NotRenewed);
    let before = client.metrics().renewals;
    wait_until(|| client.metrics().renewals >= before + 6);
    // In the thread of a caller it harms its own lock as little.
    let guard = client.lock("told-here").acquire().unwrap();
    let _ = guard.release().unwrap();
    assert_eq!(client.inspect("told-here").unwrap().holder, None);
    FRAGILE.store(false, Ordering::SeqCst);
    assert!(FELL.load(Ordering::SeqCst) > 6);
    all_is_well(&client, &held);
}
