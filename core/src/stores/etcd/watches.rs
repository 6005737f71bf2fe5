//! What is watched, all on one stream: the client's fence, by which it hears that a hold of its is broken, and the
//! queues of the locks that somebody waits for. A queue is watched from when that is asked for first, and for a while
//! after it was asked for last.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use etcd_client::{
    Client, Event, EventType, KeyValue, WatchFilterType, WatchOptions, WatchRequestSender, WatchResponse,
    WatchResponseStream,
};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::client::Etcd;
use super::connection::{Failure, answered, too_late};
use super::layouts::part::Part;
use super::lease::Lease;
use super::transactions::below;
use crate::platform::mutex::locked;
use crate::protocol::{Reply, StoreEvent};

/// Whoever waits looks, and asks for its watch, every 30 s at the least.
const WANTED: Duration = Duration::from_secs(65);
/// How often it is looked for watches that nobody wants.
const SWEEP: Duration = Duration::from_secs(10);
/// The number of the fence's watch on its stream.
const FENCE: i64 = i64::MAX;
/// How long nothing is tried after the stream broke.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(super) struct Watches {
    all: Mutex<All>,
    /// Another one is wanted.
    changed: Notify,
    /// One of them stands, or is refused.
    settled: Notify,
}

#[derive(Default)]
struct All {
    by_lock: HashMap<Arc<str>, Watch>,
    last: i64,
}

struct Watch {
    id: i64,
    wanted: Instant,
    state: State,
}

enum State {
    Wanted,
    Asked,
    /// Deletions after this revision are told.
    Stands {
        revision: i64,
        since: Instant,
    },
    Refused(Reply),
}

impl Watches {
    /// Waits until deletions below `lock` are told: after which revision, and since when, in milliseconds.
    pub(super) async fn want(&self, lock: &Arc<str>) -> Reply {
        loop {
            let settled = self.settled.notified();
            if let Some(reply) = self.stands(lock) {
                return reply;
            }
            settled.await;
        }
    }

    fn stands(&self, lock: &Arc<str>) -> Option<Reply> {
        let mut all = locked(&self.all);
        let now = Instant::now();
        if !all.by_lock.contains_key(lock) {
            all.last += 1;
            let id = all.last;
            all.by_lock.insert(lock.clone(), Watch { id, wanted: now, state: State::Wanted });
            self.changed.notify_one();
        }
        let watch = all.by_lock.get_mut(lock)?;
        watch.wanted = now;
        match &watch.state {
            State::Stands { revision, since } => {
                let age = i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX);
                Some(Reply::List([*revision, age].map(Reply::Int).into()))
            }
            State::Refused(_) => {
                let State::Refused(reply) = std::mem::replace(&mut watch.state, State::Wanted) else { return None };
                all.by_lock.remove(lock);
                Some(reply)
            }
            State::Wanted | State::Asked => None,
        }
    }

    /// Those that are to be asked for now.
    fn fresh(&self) -> Vec<(i64, Arc<str>)> {
        let mut all = locked(&self.all);
        let wanted = all.by_lock.iter_mut().filter(|(_, watch)| matches!(watch.state, State::Wanted));
        let asked = wanted.map(|(lock, watch)| {
            watch.state = State::Asked;
            (watch.id, lock.clone())
        });
        asked.collect()
    }

    /// Forgets those that nobody wanted for long: they are to be ended.
    fn unwanted(&self) -> Vec<i64> {
        let mut all = locked(&self.all);
        let unwanted = all.by_lock.extract_if(|_, watch| watch.wanted.elapsed() > WANTED);
        unwanted.map(|(_, watch)| watch.id).collect()
    }

    fn lock_of(&self, id: i64) -> Option<Arc<str>> {
        let all = locked(&self.all);
        all.by_lock.iter().find(|(_, watch)| watch.id == id).map(|(lock, _)| lock.clone())
    }

    fn becomes(&self, lock: &Arc<str>, state: State) {
        if let Some(watch) = locked(&self.all).by_lock.get_mut(lock) {
            watch.state = state;
        }
        self.settled.notify_waiters();
    }

    /// The stream is gone: those that stood. All are asked for anew.
    fn broken(&self) -> Vec<Arc<str>> {
        let mut all = locked(&self.all);
        let mut stood = Vec::new();
        for (lock, watch) in &mut all.by_lock {
            match std::mem::replace(&mut watch.state, State::Wanted) {
                State::Stands { .. } => stood.push(lock.clone()),
                refused @ State::Refused(_) => watch.state = refused,
                State::Wanted | State::Asked => {}
            }
        }
        stood
    }

    /// There is another lease.
    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }
}

/// What the stream waits for.
enum Next {
    Said(Option<WatchResponse>),
    Changed,
}

impl Etcd {
    /// Keeps what is wanted watched, for as long as somebody is told.
    pub(super) async fn watch(&self) {
        while self.leases.sink().is_some() {
            let ended = self.watch_over_one_stream().await;
            for lock in self.watches.broken() {
                self.may_have_missed(&lock);
            }
            if let Err(failure) = ended {
                tracing::debug!(target: "lockwright::inbox", ?failure, "nothing is watched at present");
                sleep(PAUSE).await;
            }
        }
    }

    fn may_have_missed(&self, lock: &Arc<str>) {
        if let Some(sink) = self.leases.sink() {
            sink.pushed(lock, &StoreEvent::Changed { path: lock.clone() });
        }
    }

    async fn watch_over_one_stream(&self) -> Result<(), Failure> {
        let lease = self.leases.wait().await;
        let (client, number) = self.line().await?;
        self.watch_over(client, &lease).await.inspect_err(|failure| self.broken(number, failure))
    }

    async fn watch_over(&self, mut client: Client, lease: &Lease) -> Result<(), Failure> {
        let late = |_| Failure::NotSent(too_late());
        let patience = self.config.response_timeout;
        let opened = client.watch(lease.fence_key.as_str(), Some(WatchOptions::new().with_watch_id(FENCE)));
        let stream = answered(timeout(patience, opened).await.map_err(late)?)?;
        let (mut asks, mut hears) = stream.split();
        // What was told before it is watched.
        let fence = answered(timeout(patience, client.get(lease.fence_key.as_str(), None)).await.map_err(late)?)?;
        fence.kvs().iter().for_each(|kv| self.told_by_fence(kv));
        loop {
            self.ask_for_fresh(&mut asks).await?;
            let next = timeout(SWEEP, self.next(&mut hears)).await;
            match next {
                Ok(next) => match next? {
                    Next::Said(Some(response)) => self.said(&response),
                    Next::Said(None) => return Err(Failure::NotSent(too_late())),
                    Next::Changed => {}
                },
                Err(_) => {
                    for id in self.watches.unwanted() {
                        answered(asks.cancel(id).await)?;
                    }
                }
            }
            let is_current = self.leases.current().is_some_and(|current| current.id == lease.id);
            if self.leases.sink().is_none() || !is_current {
                return Ok(());
            }
        }
    }

    async fn ask_for_fresh(&self, asks: &mut WatchRequestSender) -> Result<(), Failure> {
        for (id, lock) in self.watches.fresh() {
            // From now on: what begins at a revision that was is served late.
            let options = WatchOptions::new().with_prefix().with_watch_id(id).with_filters([WatchFilterType::NoPut]);
            answered(asks.watch(below(&lock), Some(options)).await)?;
        }
        Ok(())
    }

    async fn next(&self, hears: &mut WatchResponseStream) -> Result<Next, Failure> {
        let (mut changed, mut said) =
            (std::pin::pin!(self.watches.changed.notified()), std::pin::pin!(hears.message()));
        std::future::poll_fn(|context| match said.as_mut().poll(context) {
            std::task::Poll::Ready(said) => std::task::Poll::Ready(answered(said).map(Next::Said)),
            std::task::Poll::Pending => changed.as_mut().poll(context).map(|()| Ok(Next::Changed)),
        })
        .await
    }

    /// Whoever breaks a hold of this client's writes which it was.
    fn told_by_fence(&self, fence: &KeyValue) {
        let own = String::from_utf8_lossy(fence.value());
        if let (Some((lock, attempt)), Some(sink)) = (Part::of_ours(&own), self.leases.sink()) {
            sink.pushed(lock, &StoreEvent::Broken { attempt });
        }
    }

    fn said(&self, response: &WatchResponse) {
        if response.watch_id() == FENCE {
            return response.events().iter().filter_map(Event::kv).for_each(|kv| self.told_by_fence(kv));
        }
        let Some(lock) = self.watches.lock_of(response.watch_id()) else { return };
        if response.canceled() {
            let (code, message) = match response.cancel_reason() {
                reason if reason.contains("permission denied") => ("PermissionDenied", reason),
                reason => ("Unavailable", reason),
            };
            self.watches.becomes(&lock, State::Refused(Reply::Error { code: code.into(), message: message.into() }));
            return self.may_have_missed(&lock);
        }
        if response.created() {
            let revision = response.header().map_or(i64::MAX, |header| header.revision());
            return self.watches.becomes(&lock, State::Stands { revision, since: Instant::now() });
        }
        let Some(sink) = self.leases.sink() else { return };
        for event in response.events() {
            if let (EventType::Delete, Some(kv)) = (event.event_type(), event.kv()) {
                let path = format!("{}:{}", kv.mod_revision(), String::from_utf8_lossy(kv.key()));
                sink.pushed(&lock, &StoreEvent::Gone { path: path.into() });
            }
        }
    }
}
