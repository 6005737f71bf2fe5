//! What the driver asks of every store, and how an address comes to one.
//!
//! `docs/own-store.md` is this for whoever writes one outside the crate, with the feature `unstable-store`.
#![cfg_attr(not(feature = "unstable-store"), allow(unreachable_pub))]

use std::future::{Future, poll_fn, ready};
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Poll;

use tokio::sync::Notify;

use crate::driver::{clock, runtime};
use crate::error::Error;
use crate::guarantee::Guarantees;
use crate::lease::Sighting;
use crate::options::ConnectOptions;
use crate::protocol::{InboxId, Inquiry, Layout, Reply, Requests, StoreEvent};
use crate::session::Inbox;
use crate::shared::Share;
use crate::shared_cell::Primitive;
use crate::time::Time;
use crate::uri::Uri;

/// Something to be awaited on any thread.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What became of one write.
#[derive(Debug)]
pub struct Answered {
    /// When it left, on the driver's clock; for a write that was never sent, when that was tried. Not later than it
    /// left: leases count from here.
    pub sent: Time,
    /// How it ended.
    pub outcome: Outcome,
}

/// The three ways a write can end.
#[derive(Debug)]
pub enum Outcome {
    /// One reply for each of its requests. A request that the store refuses is answered too, by [`Reply::Error`].
    Replies(Vec<Reply>),
    /// It was not executed and never will be.
    NotSent(Error),
    /// It may have been executed, or may be yet, but not after `void_after`. That is what a library may have sent which
    /// failed, and all the more if it tries again by itself: such retries are to be switched off.
    Unknown {
        /// Why there is no answer.
        error: Error,
        /// From when on it is certain that it will not be executed any more, on the driver's clock.
        void_after: Time,
    },
}

/// One place where locks are kept: connections to one server, or the server itself where there is none.
///
/// Every method may be called from many threads. A store belongs to the process that made it: after a fork the child makes
/// its own and leaks the inherited one, so nothing here may act in `Drop` on what both processes share.
pub trait Store: Send + Sync + std::fmt::Debug + 'static {
    /// Its address without credentials, for errors.
    fn address(&self) -> &Arc<str>;

    /// Its layouts, the default one first. They do not change.
    fn layouts(&self) -> &[Arc<dyn Layout>];

    /// Performs a write, in the caller's task, and gives up waiting for its replies at `limit`. All its requests go out
    /// at once, and are executed in their order; to several nodes at the same time, where they are for several. It may
    /// await what is tokio's. Where it is dropped before its end, [`void_after`](Self::void_after) is asked.
    fn call_async<'a>(&'a self, requests: &'a Requests, limit: Time) -> BoxFuture<'a, Answered>;

    /// Until when a write with this `limit` may still be executed that was given up at `given_up`, before its answer:
    /// its task was cancelled, or it panicked. What is said too early leaves a lock that nobody holds and nobody gives
    /// back.
    fn void_after(&self, given_up: Time, limit: Time) -> Time;

    /// The same as [`call_async`](Self::call_async) in the caller's thread, which has the background's sockets
    /// meanwhile. A store with sockets of its own saves the ways to the background and back.
    fn call(&self, requests: &Requests, limit: Time) -> Answered {
        let answered = runtime::block_on(self.call_async(requests, limit));
        answered.unwrap_or_else(not_sent)
    }

    /// The same, from the background runtime, for very many requests of one [`Call`](crate::protocol::Call) that says
    /// that they may travel together: in as many parts as is good for whoever else uses the store. One result for all.
    fn call_batch(self: Arc<Self>, requests: Requests, limit: Time) -> BoxFuture<'static, Answered> {
        Box::pin(async move { self.call_async(&requests, limit).await })
    }

    /// Subscribes `inbox` and keeps it subscribed, from the background runtime, until `sink` is gone. Reports through
    /// `sink`, at once where nothing can be pushed.
    fn open_inbox(self: Arc<Self>, inbox: InboxId, sink: Weak<dyn Sink>) -> BoxFuture<'static, ()> {
        let _ = inbox;
        if let Some(sink) = sink.upgrade() {
            sink.inbox(Inbox::Unavailable);
        }
        Box::pin(ready(()))
    }

    /// Begins to listen, for one contender, on a `channel` that tells of the lock kept under `key`, until it is
    /// [forgotten](Self::forget) as often. Returns at once how far that is; every change is reported through the sink of
    /// [`listen`](Self::listen), which somebody has to run.
    fn hear(&self, channel: &Arc<str>, key: &Arc<str>) -> Inbox {
        let _ = (channel, key);
        Inbox::Unavailable
    }

    /// The same, but only if the channel is subscribed already.
    fn overhear(&self, channel: &Arc<str>) -> bool {
        let _ = channel;
        false
    }

    /// One contender listens on `channel` no more. `lingers` says that the channel will soon be wanted again.
    fn forget(&self, channel: &Arc<str>, lingers: bool) {
        let _ = (channel, lingers);
    }

    /// Keeps subscribed what is to be [heard](Self::hear), from the background runtime, until `sink` is gone.
    fn listen(self: Arc<Self>, sink: Weak<dyn Sink>) -> BoxFuture<'static, ()> {
        drop(sink);
        Box::pin(ready(()))
    }

    /// Looks for a lock of another library under the bare `name`, or for all there are, where others may keep locks
    /// there too. Ends with `auth` where the user may not look, with `protocol` where a reply makes no sense.
    fn others<'a>(&'a self, name: Option<&'a str>) -> Inquiry<'a, Vec<Sighting>> {
        let _ = name;
        Inquiry::Done(Ok(Vec::new()))
    }

    /// What it does when its memory is full, where it has such a thing and this user may ask.
    fn eviction(&self) -> Inquiry<'_, Option<String>> {
        Inquiry::Done(Ok(None))
    }

    /// The client was closed: connections and subscriptions go, also those of an inbox. A later call opens what it needs.
    fn close(&self) {}

    /// Corrects the idea of the store's clock: it stood at `at` between `sent` and now.
    fn learn(&self, sent: Time, at: crate::time::StoreTime) {
        let _ = (sent, at);
    }
}

/// Now, on the clock on which limits and sending times are: the driver's.
#[cfg(feature = "unstable-store")]
pub fn now() -> Time {
    clock::now()
}

/// How a write ended that was not sent for this reason.
pub(crate) fn not_sent(error: Error) -> Answered {
    Answered { sent: clock::now(), outcome: Outcome::NotSent(error) }
}

/// Ends what runs in the background for a client, when that is closed.
#[derive(Debug, Default)]
pub(crate) struct Closing(Notify);

impl Closing {
    pub(crate) fn close(&self) {
        self.0.notify_one();
    }

    /// Does `work`, but drops it when the client is closed.
    pub(crate) async fn cuts_short(&self, work: impl Future<Output = ()>) {
        let (mut closed, mut work) = (pin!(self.0.notified()), pin!(work));
        poll_fn(|context| {
            let over = closed.as_mut().poll(context).is_ready() || work.as_mut().poll(context).is_ready();
            if over { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Where a store puts what it hears without being asked. Its methods do no I/O and return quickly.
pub trait Sink: Send + Sync {
    /// The inbox changed; `Live` again means that pushes may have been missed.
    fn inbox(&self, state: Inbox);

    /// Something was pushed that concerns the lock kept under `key`.
    fn pushed(&self, key: &str, event: &StoreEvent);

    /// The subscription of a channel that tells of the lock kept under `key` changed; as with [`inbox`](Self::inbox).
    fn channel(&self, key: &str, channel: &str, state: Inbox);

    /// The server is not the one it was (restarted, failed over): what it promised must be verified.
    fn restarted(&self);
}

/// What makes a store of an address, and takes the options that only this store has out of it. It sends nothing.
pub type Opener = fn(&mut Uri) -> crate::Result<Arc<dyn Store>>;

/// A store from outside the crate. The first of them leads to the next one: what is only ever added to needs no lock,
/// which a fork could leave locked in the child.
struct Registered {
    scheme: &'static str,
    open: Opener,
    next: OnceLock<Box<Registered>>,
}

static REGISTERED: OnceLock<Box<Registered>> = OnceLock::new();

fn registered() -> impl Iterator<Item = &'static Registered> {
    std::iter::successors(REGISTERED.get(), |known| known.next.get()).map(|known| &**known)
}

/// Has addresses that begin with `scheme://` opened by `open`, in all of this process and from now on.
///
/// # Errors
/// `invalid_config` where there is a store for this scheme.
#[cfg(feature = "unstable-store")]
pub fn register(scheme: &'static str, open: Opener) -> crate::Result<()> {
    let taken = || Error::invalid("connect", format!("there is a store for {scheme}:// already"));
    if STORES.iter().any(|(schemes, ..)| schemes.contains(&scheme)) {
        return Err(taken());
    }
    let mut new = Box::new(Registered { scheme, open, next: OnceLock::new() });
    let mut place = &REGISTERED;
    while let Err(refused) = place.set(new) {
        let Some(known) = place.get().filter(|known| known.scheme != scheme) else { return Err(taken()) };
        (new, place) = (refused, &known.next);
    }
    Ok(())
}

/// Schemes, an address, and what opens it: one line a store.
const STORES: &[(&[&str], &str, Opener)] = &[
    #[cfg(feature = "memory")]
    (&["memory"], "memory://", |uri| super::memory::open(uri)),
    #[cfg(feature = "sqlite")]
    (&["sqlite"], "sqlite:///tmp/locks.db", |uri| super::sqlite::open(uri)),
    #[cfg(feature = "redis")]
    (&["redis", "rediss", "redis+unix"], "redis://localhost", |uri| super::redis::open(uri)),
];

/// Schemes of stores that are planned.
const PLANNED: &[&str] =
    &["redis+sentinel", "redis+cluster", "etcd", "etcds", "zookeeper", "mysql", "postgres", "postgresql", "memcached"];

/// The store that an address names. Nothing is sent.
///
/// # Errors
/// `invalid_config` for an unknown scheme or option, `unsupported` for a store that is not built (in).
pub(crate) fn open(uri: &mut Uri) -> crate::Result<Arc<dyn Store>> {
    let built_in = STORES.iter().find(|(schemes, ..)| schemes.contains(&uri.scheme())).map(|(_, _, open)| *open);
    let outside = || registered().find(|known| known.scheme == uri.scheme()).map(|known| known.open);
    let Some(open) = built_in.or_else(outside) else {
        let schemes = STORES.iter().flat_map(|(schemes, ..)| schemes.iter().copied());
        let all: Vec<_> = schemes.chain(registered().map(|known| known.scheme)).collect();
        let (scheme, all) = (uri.scheme(), all.join(", "));
        return Err(match PLANNED.contains(&scheme) {
            true => Error::unsupported("connect", format!("{scheme}:// is not built yet; there are: {all}")),
            false => Error::invalid("connect", format!("there is no store for {scheme}://; there are: {all}")),
        });
    };
    let store =
        open(uri).and_then(|store| uri.check_all_read().map(|()| store)).map_err(|error| uri.discreet(error))?;
    layout_of(store.layouts(), uri.lock.wanted())?;
    Ok(store)
}

/// One of every store. Opening an address sends nothing.
fn one_of_each() -> impl Iterator<Item = Arc<dyn Store>> {
    STORES.iter().filter_map(|(_, address, _)| open(&mut Uri::parse(address, ConnectOptions::default()).ok()?).ok())
}

fn format_of(layout: &dyn Layout) -> String {
    layout.format().map(|format| format!(", format `{format}`")).unwrap_or_default()
}

/// What every layout of every store promises, and the format where not all formats of the layout promise the same.
pub(crate) fn guarantees_of_all() -> Vec<(String, Guarantees)> {
    let mut all: Vec<(String, Guarantees)> = Vec::new();
    for store in one_of_each() {
        for layout in store.layouts() {
            let promised = layout.guarantees();
            if all.iter().all(|(_, known)| *known != promised) {
                let mut formats = store.layouts().iter().filter(|other| other.name() == layout.name());
                let is_of_all = formats.all(|other| other.guarantees() == promised);
                all.push((if is_of_all { String::new() } else { format_of(&**layout) }, promised));
            }
        }
    }
    all
}

/// What a read/write lock (`rwlock`) or a semaphore promises in a layout, and the format, where that differs from what locks
/// promise by more than that nothing shared is reentrant.
pub(crate) fn guarantees_of_shared() -> Vec<(String, Guarantees)> {
    let mut all: Vec<(String, Guarantees)> = Vec::new();
    for store in one_of_each() {
        for layout in store.layouts() {
            for share in [Share::READ, Share { primitive: Primitive::Semaphore, ..Share::READ }] {
                let Some(promised) = layout.shared(share).map(|shared| shared.guarantees()) else { continue };
                let is_known = promised == Guarantees { reentrant: false, ..layout.guarantees() };
                if !is_known && all.iter().all(|(_, known)| *known != promised) {
                    all.push((format!(" {}{}", share.primitive.name(), format_of(&**layout)), promised));
                }
            }
        }
    }
    all
}

/// A layout as it is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted<'a> {
    pub(crate) layout: Option<&'a str>,
    pub(crate) format: Option<&'a str>,
}

/// The one of a store's layouts that is wanted.
///
/// # Errors
/// `unsupported` for a layout or format that this store does not have, `invalid_config` for a format that is missing
/// or does not go with the layout.
pub(crate) fn layout_of(known: &[Arc<dyn Layout>], wanted: Wanted<'_>) -> crate::Result<Arc<dyn Layout>> {
    let name = wanted.layout.or(known.first().map(|layout| layout.name())).unwrap_or_default();
    let of_name = || known.iter().filter(|layout| layout.name() == name);
    if let Some(layout) = of_name().find(|layout| layout.format() == wanted.format) {
        return Ok(layout.clone());
    }
    if of_name().next().is_none() {
        let mut names: Vec<_> = known.iter().map(|layout| layout.name()).collect();
        names.dedup();
        let message = format!("there is no layout {name:?} here; there are: {}", names.join(", "));
        return Err(Error::unsupported("lock", message));
    }
    let formats: Vec<_> = of_name().filter_map(|layout| layout.format()).collect();
    let formats = formats.join(", ");
    Err(match wanted.format {
        Some(format) if !formats.is_empty() => {
            Error::unsupported("lock", format!("layout {name} has no format {format:?}; it has: {formats}"))
        }
        Some(_) => Error::invalid("lock", format!("layout {name} has no formats; leave the format out")),
        None => Error::invalid("lock", format!("layout {name} needs a format, one of: {formats}")),
    })
}
