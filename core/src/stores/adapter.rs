//! What the driver asks of every store.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
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

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What became of one write.
#[derive(Debug)]
pub(crate) struct Answered {
    /// When it left; for a write that was never sent, when that was tried.
    pub(crate) sent: Time,
    pub(crate) outcome: Outcome,
}

/// The three ways a write can end.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// One reply for each of its requests.
    Replies(Vec<Reply>),
    /// It was not executed and never will be.
    NotSent(Error),
    /// It may have been executed, or may be until `void_after`.
    Unknown { error: Error, void_after: Time },
}

/// One place where locks are kept: connections to one server, or the server itself where there is none.
///
/// Every method may be called from many threads. A store belongs to the process that made it: after a fork the child makes
/// its own and leaks the inherited one, so nothing here may act in `Drop` on what both processes share.
pub(crate) trait Store: Send + Sync + std::fmt::Debug + 'static {
    /// Its address without credentials, for errors.
    fn address(&self) -> &Arc<str>;

    /// Its layouts, the default one first.
    fn layouts(&self) -> &[Arc<dyn Layout>];

    /// The layout that is wanted.
    ///
    /// # Errors
    /// `unsupported` for a layout or format that this store does not have, `invalid_config` for a format that is missing
    /// or does not go with the layout.
    fn layout(&self, wanted: Wanted<'_>) -> crate::Result<Arc<dyn Layout>> {
        choose(self.layouts(), wanted)
    }

    /// Performs a write in the caller's task, and gives up waiting for its replies at `limit`. Whatever it awaits may
    /// be of tokio.
    fn call_async<'a>(&'a self, requests: &'a Requests, limit: Time) -> BoxFuture<'a, Answered>;

    /// The same in the caller's thread. A store with sockets of its own saves the way to the background and back, where
    /// else those are that [`call_async`](Self::call_async) awaits.
    fn call(&self, requests: &Requests, limit: Time) -> Answered {
        let answered = runtime::block_on(self.call_async(requests, limit));
        answered.unwrap_or_else(|error| Answered { sent: clock::now(), outcome: Outcome::NotSent(error) })
    }

    /// The same, from the background runtime, for very many requests of one [`Call`](crate::protocol::Call) that says
    /// so: in as many parts as are good for others who use the store. One result for all: their replies in order, or
    /// why there are none.
    fn call_batch(self: Arc<Self>, requests: Requests, limit: Time) -> BoxFuture<'static, Answered> {
        Box::pin(async move { self.call_async(&requests, limit).await })
    }

    /// Until when a write with this `limit` may still be executed whose answer nobody awaits since `given_up`: its task
    /// was cancelled, or it panicked. What is said too early leaves a lock that nobody holds and nobody gives back.
    fn void_after(&self, given_up: Time, limit: Time) -> Time;

    /// Subscribes `inbox` and keeps it subscribed, from the background runtime, until `sink` is gone. Reports through
    /// `sink`, at once where nothing can be pushed.
    fn open_inbox(self: Arc<Self>, inbox: InboxId, sink: Weak<dyn Sink>) -> BoxFuture<'static, ()>;

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
        Box::pin(std::future::ready(()))
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
pub(crate) trait Sink: Send + Sync {
    /// The inbox changed; `Live` again means that pushes may have been missed.
    fn inbox(&self, state: Inbox);

    /// Something was pushed that concerns the lock kept under `key`.
    fn pushed(&self, key: &str, event: &StoreEvent);

    /// The subscription of a channel that tells of the lock kept under `key` changed; as with [`inbox`](Self::inbox).
    fn channel(&self, key: &str, channel: &str, state: Inbox);

    /// The server is not the one it was (restarted, failed over): what it promised must be verified.
    fn restarted(&self);
}

/// Schemes, an address, and what opens it: one line a store.
type Opener = fn(&mut Uri) -> crate::Result<Arc<dyn Store>>;
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
    let known = STORES.iter().find(|(schemes, ..)| schemes.contains(&uri.scheme()));
    let Some((_, _, open)) = known else {
        let all: Vec<_> = STORES.iter().flat_map(|(schemes, ..)| schemes.iter().copied()).collect();
        let (scheme, all) = (uri.scheme(), all.join(", "));
        return Err(match PLANNED.contains(&scheme) {
            true => Error::unsupported("connect", format!("{scheme}:// is not built yet; there are: {all}")),
            false => Error::invalid("connect", format!("there is no store for {scheme}://; there are: {all}")),
        });
    };
    let store =
        open(uri).and_then(|store| uri.check_all_read().map(|()| store)).map_err(|error| uri.discreet(error))?;
    store.layout(uri.lock.wanted())?;
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

fn choose(known: &[Arc<dyn Layout>], wanted: Wanted<'_>) -> crate::Result<Arc<dyn Layout>> {
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
