//! What the driver asks of every store, and how an address comes to one.
//!
//! `docs/own-store.md` is this for whoever writes one outside the crate, with the feature `unstable-store`.
#![cfg_attr(not(feature = "unstable-store"), allow(unreachable_pub))]

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use lockwright_machines::quorum::Marker;
use tokio::sync::Notify;

use crate::error::{Error, Result};
use crate::finding::Finding;
use crate::lease::Sighting;
use crate::platform::{clock, runtime};
use crate::protocol::{Channel, InboxId, Inquiry, Layout, Reply, Requests, StoreEvent};
use crate::session::{Answer, Inbox};
use crate::time::Time;

/// Something to be awaited on any thread.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A call that was begun: its answer.
pub type Begun<'a> = Box<dyn FnOnce() -> Answered + 'a>;

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
    /// It went to several nodes, of which some answered. See [`of`](Self::of).
    Partly {
        /// One for each request: [`Reply::Silent`] for those whose node did not answer, [`Reply::Unsent`] for those
        /// whose node was not reached.
        replies: Vec<Reply>,
        /// Why one of them did not.
        error: Error,
        /// From when on it is certain that none of those will execute it any more; `None` where none can have got it.
        void_after: Option<Time>,
    },
}

impl Outcome {
    /// How a write ended whose requests were answered so, with [`Reply::Silent`] or [`Reply::Unsent`] where there is no
    /// answer, for that `error`. Where nobody answered it is as if there were one node.
    pub fn of(replies: Vec<Reply>, error: Option<Error>, void_after: Option<Time>) -> Self {
        let is_silent = |reply: &Reply| matches!(reply, Reply::Silent | Reply::Unsent);
        let Some(error) = error.filter(|_| replies.iter().any(is_silent)) else { return Outcome::Replies(replies) };
        match void_after {
            _ if !replies.iter().all(is_silent) => Outcome::Partly { replies, error, void_after },
            Some(void_after) => Outcome::Unknown { error, void_after },
            None => Outcome::NotSent(error),
        }
    }

    /// As a session is told of it.
    pub(crate) fn as_answer(&self) -> Answer<'_> {
        match self {
            Outcome::Replies(replies) => Answer::Replies(replies),
            Outcome::NotSent(error) => Answer::NotSent(error.clone()),
            Outcome::Unknown { error, void_after } => Answer::Unknown { error: error.clone(), void_after: *void_after },
            Outcome::Partly { replies, void_after, .. } => Answer::Partly { replies, void_after: *void_after },
        }
    }
}

/// What is listened to at a store.
#[derive(Clone, Copy, Debug)]
pub enum Topic<'a> {
    /// Whatever is pushed to this client; told by [`Sink::inbox`] and [`Sink::pushed`].
    Inbox(InboxId),
    /// The life of this client's session, to which locks are [bound](crate::protocol::Traits::bound): kept alive for as
    /// long as it is listened to; told by [`Sink::session`] and [`Sink::session_over`].
    Session,
    /// What tells of the lock kept under `key`; told by [`Sink::channel`], and by [`Sink::pushed`] with what was heard.
    Channel {
        /// What it is.
        channel: Channel<'a>,
        /// The lock.
        key: &'a Arc<str>,
    },
}

/// Somebody listens to a [`Topic`]. Dropped, it is over.
pub struct Subscription {
    state: Inbox,
    work: Option<Work>,
    ends: Option<Arc<dyn Ends>>,
}

/// What is to be run in the background; begun anew where it panics.
pub type Work = Box<dyn FnMut() -> BoxFuture<'static, ()> + Send>;

/// What is told of the end of a [`Subscription`], in whatever thread that was dropped: at once, and without I/O.
pub trait Ends: Send + Sync {
    /// One subscription is over.
    fn ended(&self);
}

impl Subscription {
    /// One that is in this state for now: `Live` where nothing can have been missed since, `Closed` while it is on its
    /// way, `Unavailable` where nothing can be heard.
    pub fn of(state: Inbox) -> Self {
        Subscription { state, work: None, ends: None }
    }

    /// Tells `ends` when it is over.
    #[must_use]
    pub fn until(mut self, ends: Arc<dyn Ends>) -> Self {
        self.ends = Some(ends);
        self
    }

    /// Has `work` run by the background runtime, until the client is closed or dropped, whatever becomes of this
    /// subscription: it may serve others, too.
    #[must_use]
    pub fn in_background(mut self, work: Work) -> Self {
        self.work = Some(work);
        self
    }

    /// How far it is.
    pub fn state(&self) -> Inbox {
        self.state
    }

    /// What is to be run for it, once.
    pub fn take_work(&mut self) -> Option<Work> {
        self.work.take()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(ends) = self.ends.take() {
            ends.ended();
        }
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Subscription({:?})", self.state)
    }
}

/// One place where locks are kept: connections to one server, or the server itself where there is none.
///
/// Every method may be called from many threads. A store belongs to the process that made it: after a fork the child
/// makes its own and leaks the inherited one, so nothing here may act in `Drop` on what both processes share.
pub trait Store: Send + Sync + std::fmt::Debug + 'static {
    /// Its address without credentials, for errors.
    fn address(&self) -> &Arc<str>;

    /// Its layouts, the default one first. They do not change.
    fn layouts(&self) -> &[Arc<dyn Layout>];

    /// Performs a write, in the caller's task, and gives up waiting for its replies at `limit`. All its requests go out
    /// at once, and are executed in their order; to several nodes at the same time, where they [are for
    /// several](crate::protocol::Request::at), of which one that does not answer is no failure of the others. It may
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

    /// Begins a [`call`](Self::call): what can be sent at once is sent, and the rest is done when the answer is asked
    /// for. Whoever asks several stores begins with all of them.
    fn begin<'a>(&'a self, requests: &'a Requests, limit: Time) -> Begun<'a> {
        Box::new(move || self.call(requests, limit))
    }

    /// By which it says how long it has had what it keeps, where it may be a node of a quorum.
    fn marker(&self) -> Option<Marker> {
        None
    }

    /// Fails where a lease of `ttl` is longer than this store can have one.
    ///
    /// # Errors
    /// `invalid_config`, saying why.
    fn check_lease(&self, ttl: Duration) -> Result<()> {
        let _ = ttl;
        Ok(())
    }

    /// Somebody insists on tokens that rise over all holders, which costs a quorum another round; to be called before
    /// locks are made.
    fn insist_on_tokens(&self) {}

    /// The same, from the background runtime, for very many requests of one [`Call`](crate::protocol::Call) that says
    /// that they may travel together: in as many parts as is good for whoever else uses the store. One result for all.
    fn call_batch(self: Arc<Self>, requests: Requests, limit: Time) -> BoxFuture<'static, Answered> {
        Box::pin(async move { self.call_async(&requests, limit).await })
    }

    /// Begins to listen to `topic`, and goes on until the [`Subscription`] is dropped. Does no I/O: what there is to do
    /// is its [background work](Subscription::in_background). Every later change is told to `sink`, which is the same
    /// for all subscriptions of a store. Where several ask for one topic, each gets a subscription of its own.
    fn subscribe(self: Arc<Self>, topic: Topic<'_>, sink: Weak<dyn Sink>) -> Subscription {
        let _ = (topic, sink);
        Subscription::of(Inbox::Unavailable)
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

    /// Looks whether it is fit to keep locks in: what its operator would want to know, the most general first.
    fn examine(&self) -> Inquiry<'_, Vec<Finding>> {
        Inquiry::Done(Ok(Vec::new()))
    }

    /// What has to lie at the store before there can be locks, and does not come by itself: tables.
    fn schema(&self) -> Option<Schema<'_>> {
        None
    }

    /// The client was closed: connections and subscriptions go, also those of an inbox. A later call opens what it
    /// needs.
    fn close(&self) {}

    /// Corrects the idea of the store's clock: it stood at `at` between `sent` and now.
    fn learn(&self, sent: Time, at: crate::time::StoreTime) {
        let _ = (sent, at);
    }
}

/// What somebody has to make at a store before its first lock.
#[derive(Debug)]
pub struct Schema<'a> {
    /// In the store's own language, as its operator would execute it.
    pub text: &'static str,
    /// Makes it where it is missing.
    pub make: Inquiry<'a, ()>,
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

/// Tells whoever listens, if it is there still.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) fn tell(sink: &Weak<dyn Sink>, what: impl FnOnce(&dyn Sink)) {
    if let Some(sink) = sink.upgrade() {
        what(&*sink);
    }
}

/// Where a store puts what it hears without being asked. Its methods do no I/O and return quickly.
pub trait Sink: Send + Sync {
    /// The inbox changed; `Live` again means that pushes may have been missed.
    fn inbox(&self, state: Inbox);

    /// Something was pushed that concerns the lock kept under `key`.
    fn pushed(&self, key: &str, event: &StoreEvent);

    /// What is heard on a channel that tells of the lock kept under `key` changed; as with [`inbox`](Self::inbox).
    fn channel(&self, key: &str, channel: &str, state: Inbox);

    /// This client's session certainly lives until then, on the driver's clock: as long as the store keeps one that is
    /// silent, from the sending of the last request or ping that was answered, less drift. To be told before the answer
    /// is, from which it follows.
    #[cfg_attr(
        not(any(
            feature = "unstable-store",
            feature = "etcd",
            feature = "mysql",
            feature = "postgres",
            feature = "zookeeper"
        )),
        allow(dead_code, reason = "of those that are built in, only some stores have sessions")
    )]
    fn session(&self, alive_until: Time);

    /// This client's session is over, and all that it kept: told before another one is used. All that is held is lost
    /// at the time told last, also where this comes late or never.
    #[cfg_attr(
        not(any(
            feature = "unstable-store",
            feature = "etcd",
            feature = "mysql",
            feature = "postgres",
            feature = "zookeeper"
        )),
        allow(dead_code, reason = "of those that are built in, only some stores have sessions")
    )]
    fn session_over(&self);

    /// What was pushed before the inbox was live went past it, if opening one takes so long that this happens: what is
    /// held must be verified.
    #[cfg_attr(
        not(any(feature = "unstable-store", feature = "postgres")),
        allow(dead_code, reason = "of those that are built in, only some stores take so long")
    )]
    fn unheard(&self);

    /// The server is not the one it was (restarted, failed over): what it promised must be verified.
    fn restarted(&self);
}
