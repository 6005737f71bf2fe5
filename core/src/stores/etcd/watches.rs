//! What is watched, all on one stream: the client's fence, by which it hears that a hold of its is broken, and the
//! queues of the locks that somebody waits for. A queue is watched from when that is asked for first, and for a while
//! after it was asked for last. Of a long one that many of this client stand in, a [copy](super::copy) is kept, for
//! which those who come are told as well as those who go.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use etcd_client::{
    Client, Event, EventType, GetOptions, KeyValue, KvClient, WatchFilterType, WatchOptions, WatchRequestSender,
    WatchResponse, WatchResponseStream,
};
use lockwright_machines::stores::etcd::lease::Lease;
use rustc_hash::FxHashMap;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::client::Etcd;
use super::connection::answered;
use super::copy::{Copy, News};
use super::failure::{Failure, too_late};
use super::grpc;
use super::transactions::{self, below};
use crate::platform::mutex::locked;
use crate::protocol::{Reply, Request, StoreEvent};

/// Whoever waits looks, and asks for its watch, every 30 s at the least.
const WANTED: Duration = Duration::from_secs(65);
/// How often it is looked for watches that nobody wants.
const SWEEP: Duration = Duration::from_secs(10);
/// The number of the fence's watch on its stream.
const FENCE: i64 = i64::MAX;
/// How long nothing is tried after the stream broke.
const PAUSE: Duration = Duration::from_millis(50);
/// So many looks at a line that is longer than what they show, and a copy of it is kept.
const CUT_LOOKS: u32 = 8;
/// What was told within this time shows that something is told at all.
const HEARS: Duration = Duration::from_secs(1);

/// What is watched for whoever waits for a lock.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Target {
    /// Deletions below this lock, from now on.
    Line(Arc<str>),
    /// That of this key, after this revision.
    Key(Arc<str>, i64),
}

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
    watches: FxHashMap<Target, Watch>,
    /// What a watch is of, by its number on the stream.
    by_id: FxHashMap<i64, Target>,
    /// What is to be ended.
    ended: Vec<i64>,
    last: i64,
    heard: Option<Instant>,
}

struct Watch {
    lock: Arc<str>,
    id: i64,
    wanted: Instant,
    state: State,
    /// How many looks showed a part of the line only.
    cut_looks: u32,
    copied: Copied,
}

enum State {
    /// Nobody wants it yet.
    Rests,
    Wanted,
    Asked,
    /// Deletions after this revision are told.
    Stands {
        revision: i64,
        since: Instant,
    },
    Refused(Reply),
}

/// Whether a copy of the line is kept.
enum Copied {
    No,
    Wanted,
    /// By this watch.
    Asked(i64),
    Stands(Copy),
}

/// What is to be asked for.
struct Fresh {
    id: i64,
    target: Target,
    /// Whether those who come are to be told as well.
    whole: bool,
}

/// What a response is to lead to.
enum Heard {
    Nothing,
    /// What it tells of this lock.
    Of(Arc<str>),
    /// The line of this lock is to be read: all that comes after is told.
    Copies(Arc<str>),
}

impl Watches {
    /// Waits until deletions of `target` are told to those who wait for `lock`: after which revision, and since when,
    /// in milliseconds.
    pub(super) async fn want(&self, lock: &Arc<str>, target: &Target) -> Reply {
        loop {
            let settled = self.settled.notified();
            if let Some(reply) = self.stands(lock, target) {
                return reply;
            }
            settled.await;
        }
    }

    fn stands(&self, lock: &Arc<str>, target: &Target) -> Option<Reply> {
        let mut all = locked(&self.all);
        let watch = all.watch(lock, target);
        watch.wanted = Instant::now();
        match &watch.state {
            State::Stands { revision, since } => {
                let age = i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX);
                Some(Reply::List([*revision, age].map(Reply::Int).into()))
            }
            State::Refused(reply) => {
                let reply = reply.clone();
                all.forget(target);
                Some(reply)
            }
            State::Rests => {
                watch.state = State::Wanted;
                self.changed.notify_one();
                None
            }
            State::Wanted | State::Asked => None,
        }
    }

    /// Somebody looked at a line that is longer than what it was shown.
    pub(super) fn was_cut(&self, lock: &Arc<str>) {
        let mut all = locked(&self.all);
        let watch = all.watch(lock, &Target::Line(lock.clone()));
        watch.cut_looks += 1;
        if watch.cut_looks >= CUT_LOOKS && matches!(watch.copied, Copied::No) {
            watch.copied = Copied::Wanted;
            if let State::Rests = watch.state {
                watch.state = State::Wanted;
            }
            self.changed.notify_one();
        }
    }

    /// Whether a copy of the line below `lock` is kept, or will be.
    pub(super) fn copies(&self, lock: &Arc<str>) -> bool {
        let all = locked(&self.all);
        all.watches.get(&Target::Line(lock.clone())).is_some_and(|watch| !matches!(watch.copied, Copied::No))
    }

    /// Whether something was told a moment ago.
    pub(super) fn hears(&self) -> bool {
        locked(&self.all).heard.is_some_and(|heard| heard.elapsed() < HEARS)
    }

    /// The answer to a `request` by the copy of its line, once that is as new as `revision`; none if there is no copy.
    pub(super) async fn copied(&self, request: &Request, lease: &Lease, revision: i64) -> Option<Reply> {
        let line = Target::Line(request.key.clone());
        loop {
            let settled = self.settled.notified();
            {
                let mut all = locked(&self.all);
                let watch = all.watches.get_mut(&line)?;
                watch.wanted = Instant::now();
                match &watch.copied {
                    Copied::No => return None,
                    Copied::Stands(copy) if copy.revision() >= revision => {
                        return transactions::told_by(copy, request, lease, revision).ok();
                    }
                    Copied::Wanted | Copied::Asked(_) | Copied::Stands(_) => {}
                }
            }
            settled.await;
        }
    }

    /// What is to be asked for now, and the numbers of what is to be ended.
    fn fresh(&self) -> (Vec<Fresh>, Vec<i64>) {
        let mut all = locked(&self.all);
        let All { watches, by_id, ended, last, .. } = &mut *all;
        let mut fresh = Vec::new();
        for (target, watch) in watches {
            if let State::Wanted = watch.state {
                watch.state = State::Asked;
                fresh.push(Fresh { id: watch.id, target: target.clone(), whole: false });
            }
            if let Copied::Wanted = watch.copied {
                *last += 1;
                by_id.insert(*last, target.clone());
                watch.copied = Copied::Asked(*last);
                fresh.push(Fresh { id: *last, target: target.clone(), whole: true });
            }
        }
        (fresh, std::mem::take(ended))
    }

    /// Forgets those that nobody wanted for long: they are to be ended.
    fn forget_unwanted(&self) {
        let mut all = locked(&self.all);
        let is_unwanted =
            |(target, watch): (&Target, &Watch)| (watch.wanted.elapsed() > WANTED).then(|| target.clone());
        let unwanted: Vec<_> = all.watches.iter().filter_map(is_unwanted).collect();
        unwanted.iter().for_each(|target| all.forget(target));
        self.settled.notify_waiters();
    }

    fn hear(&self, response: &WatchResponse) -> Heard {
        let mut all = locked(&self.all);
        let (id, now) = (response.watch_id(), Instant::now());
        all.heard = Some(now);
        let Some(target) = all.by_id.get(&id).cloned() else { return Heard::Nothing };
        let Some(watch) = all.watches.get_mut(&target) else { return Heard::Nothing };
        let (lock, copies) = (watch.lock.clone(), watch.id != id);
        if response.canceled() {
            (watch.cut_looks, watch.copied) = (0, Copied::No);
            if copies {
                all.by_id.remove(&id);
            } else {
                watch.state = State::Refused(refusal(response));
            }
            self.settled.notify_waiters();
            return if copies { Heard::Nothing } else { Heard::Of(lock) };
        }
        if response.created() {
            if copies {
                return Heard::Copies(lock);
            }
            let revision = match &target {
                Target::Line(_) => response.header().map_or(i64::MAX, |header| header.revision()),
                Target::Key(_, revision) => *revision,
            };
            watch.state = State::Stands { revision, since: now };
            self.settled.notify_waiters();
            return Heard::Nothing;
        }
        if let Copied::Stands(copy) = &mut watch.copied {
            copy.follow(response.events().iter().filter_map(news));
            self.settled.notify_waiters();
        }
        // It is deleted once.
        if let (Target::Key(..), false) = (&target, response.events().is_empty()) {
            all.forget(&target);
            self.changed.notify_one();
        }
        Heard::Of(lock)
    }

    /// The copy that a watch of this number keeps was read, in the place of a watch that is to be ended.
    fn stands_as(&self, lock: &Arc<str>, copy: Copy) {
        let mut all = locked(&self.all);
        let Some(watch) = all.watches.get_mut(&Target::Line(lock.clone())) else { return };
        let Copied::Asked(id) = watch.copied else { return };
        let former = std::mem::replace(&mut watch.id, id);
        watch.copied = Copied::Stands(copy);
        all.by_id.remove(&former);
        all.ended.push(former);
        self.settled.notify_waiters();
    }

    /// The stream is gone: the locks of which something may have been missed. All are asked for anew.
    fn broken(&self) -> Vec<Arc<str>> {
        let mut all = locked(&self.all);
        let mut stood = Vec::new();
        let All { watches, by_id, heard, ended, .. } = &mut *all;
        *heard = None;
        ended.clear();
        for (target, watch) in watches {
            if let Copied::Asked(id) = watch.copied {
                by_id.remove(&id);
            }
            if !matches!(watch.copied, Copied::No) {
                watch.copied = Copied::Wanted;
            }
            match (&watch.state, target) {
                (State::Stands { .. }, Target::Line(lock)) => stood.push(lock.clone()),
                // It is told all that came after its revision.
                (State::Stands { .. }, Target::Key(..)) | (State::Asked, _) => {}
                (State::Refused(_) | State::Rests | State::Wanted, _) => continue,
            }
            watch.state = State::Wanted;
        }
        stood
    }

    /// There is another lease.
    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }
}

impl All {
    fn watch(&mut self, lock: &Arc<str>, target: &Target) -> &mut Watch {
        let All { watches, by_id, last, .. } = self;
        watches.entry(target.clone()).or_insert_with(|| {
            *last += 1;
            by_id.insert(*last, target.clone());
            let (lock, wanted) = (lock.clone(), Instant::now());
            Watch { lock, id: *last, wanted, state: State::Rests, cut_looks: 0, copied: Copied::No }
        })
    }

    /// What is watched of `target` is to be ended.
    fn forget(&mut self, target: &Target) {
        let Some(watch) = self.watches.remove(target) else { return };
        let copy = if let Copied::Asked(id) = watch.copied { Some(id) } else { None };
        let is_asked = !matches!(watch.state, State::Rests | State::Wanted);
        for id in [watch.id].into_iter().filter(|_| is_asked).chain(copy) {
            self.ended.push(id);
        }
        for id in [watch.id].into_iter().chain(copy) {
            self.by_id.remove(&id);
        }
    }
}

fn stands(kv: &KeyValue) -> News {
    let key = String::from_utf8_lossy(kv.key()).into();
    News { key, revision: kv.mod_revision(), stands: Some((kv.create_revision(), kv.lease())) }
}

fn news(event: &Event) -> Option<News> {
    let news = stands(event.kv()?);
    Some(if event.event_type() == EventType::Delete { News { stands: None, ..news } } else { news })
}

/// Why there is no such watch.
fn refusal(response: &WatchResponse) -> Reply {
    let (code, message) = match response.cancel_reason() {
        reason if reason.contains("permission denied") => ("PermissionDenied", reason),
        reason => ("Unavailable", reason),
    };
    Reply::Error { code: code.into(), message: message.into() }
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

    async fn watch_over(&self, client: Arc<Client>, lease: &Lease) -> Result<(), Failure> {
        let late = |_| Failure::NotSent(too_late());
        let patience = self.config.response_timeout;
        let mut watches = client.watch_client();
        let opened = watches.watch(lease.fence_key.as_str(), Some(WatchOptions::new().with_watch_id(FENCE)));
        let stream = answered(timeout(patience, opened).await.map_err(late)?)?;
        let (mut asks, mut hears) = stream.split();
        // What was told before it is watched.
        let mut kv = client.kv_client();
        let fence = answered(timeout(patience, kv.get(lease.fence_key.as_str(), None)).await.map_err(late)?)?;
        fence.kvs().iter().for_each(|kv| self.told_by_fence(kv));
        loop {
            self.ask_for_fresh(&mut asks).await?;
            let next = timeout(SWEEP, self.next(&mut hears)).await;
            match next {
                Ok(next) => match next? {
                    Next::Said(Some(response)) => {
                        if let Some(lock) = self.said(&response) {
                            self.copy(&mut kv, &lock).await?;
                        }
                    }
                    Next::Said(None) => return Err(Failure::NotSent(too_late())),
                    Next::Changed => {}
                },
                Err(_) => self.watches.forget_unwanted(),
            }
            let is_current = self.leases.current().is_some_and(|current| current.id == lease.id);
            if self.leases.sink().is_none() || !is_current {
                return Ok(());
            }
        }
    }

    async fn ask_for_fresh(&self, asks: &mut WatchRequestSender) -> Result<(), Failure> {
        let (fresh, ended) = self.watches.fresh();
        for Fresh { id, target, whole } in fresh {
            let options = WatchOptions::new().with_watch_id(id);
            let options = if whole { options } else { options.with_filters([WatchFilterType::NoPut]) };
            let (key, options) = match target {
                // From now on: what begins at a revision that was is served late.
                Target::Line(lock) => (below(&lock), options.with_prefix()),
                Target::Key(key, revision) => (key.to_string(), options.with_start_revision(revision + 1)),
            };
            answered(asks.watch(key, Some(options)).await)?;
        }
        for id in ended {
            answered(asks.cancel(id).await)?;
        }
        Ok(())
    }

    /// Reads the line below `lock`, of which all is told that comes from now on.
    async fn copy(&self, kv: &mut KvClient, lock: &Arc<str>) -> Result<(), Failure> {
        let options = GetOptions::new().with_prefix().with_keys_only();
        let read = timeout(self.config.response_timeout * 4, kv.get(below(lock), Some(options)));
        let read = answered(read.await.map_err(|_| Failure::NotSent(too_late()))?)?;
        let revision = read.header().map_or(0, |header| header.revision());
        self.watches.stands_as(lock, Copy::of(lock.clone(), revision, read.kvs().iter().map(stands)));
        // What the watch before had to tell may not have come.
        self.may_have_missed(lock);
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
        if let (Some((lock, broken)), Some(sink)) = (transactions::broken(fence.value()), self.leases.sink()) {
            sink.pushed(&lock, &broken);
        }
    }

    /// A lock of which the copy is to be read now.
    fn said(&self, response: &WatchResponse) -> Option<Arc<str>> {
        if response.watch_id() == FENCE {
            response.events().iter().filter_map(Event::kv).for_each(|kv| self.told_by_fence(kv));
            return None;
        }
        let lock = match self.watches.hear(response) {
            Heard::Nothing => return None,
            Heard::Copies(lock) => return Some(lock),
            Heard::Of(lock) => lock,
        };
        if response.canceled() {
            self.may_have_missed(&lock);
        }
        let sink = self.leases.sink()?;
        for event in response.events() {
            if let (EventType::Delete, Some(kv)) = (event.event_type(), event.kv()) {
                sink.pushed(&lock, &transactions::gone(&grpc::key_value(kv)));
            }
        }
        None
    }
}
