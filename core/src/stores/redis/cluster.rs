//! A Redis Cluster: each lock lies with the node that has its slot, and each node is a [server](super::client) of its
//! own.
//!
//! Which node has which slot is asked of any of them (`CLUSTER SLOTS`), at first use, when one does not answer, and
//! while somebody waits; nodes that are asked for what they do not have say where it is.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::client::Redis;
use super::config::{Config, Endpoint};
use super::ears::Ears;
use super::failover;
use super::greeting::Greeting;
use super::layouts::examination;
use super::masters;
use super::redirects::{Open, Part};
use super::slots::{self, SLOTS};
use super::tasks;
use crate::error::{Error, Kind, Result};
use crate::finding::Finding;
use crate::platform::mutex::locked;
use crate::platform::{clock, runtime};
use crate::protocol::{Inquiry, Layout, Reply, Request, Requests};
use crate::session::{Inbox, margin};
use crate::stores::adapter::{Answered, BoxFuture, Closing, Outcome, Sink, Store, Subscription, Topic, Work, not_sent};
use crate::time::Time;

/// The map of slots is asked for no more often.
const SELDOM: Duration = Duration::from_millis(100);
/// How often it is asked for while somebody listens.
const LOOK: Duration = Duration::from_secs(5);
/// How long to wait before a request is repeated that says so.
const PAUSE: Duration = Duration::from_millis(10);
/// This part of the time for a new connection is one node's, which is asked for the map.
const SHARE: u32 = 4;

/// See the [module](self).
pub(crate) struct Cluster {
    me: Weak<Cluster>,
    config: Config,
    layouts: Vec<Arc<dyn Layout>>,
    map: Mutex<Map>,
    refreshing: tokio::sync::Mutex<()>,
    /// Whom to ask first for the map.
    first: AtomicUsize,
    ears: Mutex<Option<Arc<Ears>>>,
    listening: AtomicBool,
    /// The map is to be asked for before it is listened to what it says.
    is_old: AtomicBool,
    /// The map changed, or what is to be listened to.
    changed: tokio::sync::Notify,
    closing: Closing,
}

/// Who has which slot.
#[derive(Default)]
struct Map {
    /// The nodes that have slots, and those that were heard of since.
    nodes: BTreeMap<Endpoint, Arc<Redis>>,
    masters: Vec<Endpoint>,
    /// The number of its master, for each slot; empty while nothing is known.
    owners: Vec<Option<u16>>,
    asked: Option<Time>,
}

impl Map {
    fn owner(&self, slot: u16) -> Option<Endpoint> {
        let number = (*self.owners.get(usize::from(slot))?)?;
        self.masters.get(usize::from(number)).cloned()
    }

    fn number(&mut self, node: &Endpoint) -> u16 {
        let known = self.masters.iter().position(|master| master == node);
        let number = known.unwrap_or_else(|| {
            self.masters.push(node.clone());
            self.masters.len() - 1
        });
        u16::try_from(number).unwrap_or(u16::MAX)
    }

    fn set(&mut self, slot: u16, node: &Endpoint) {
        let number = self.number(node);
        if let Some(owner) = self.owners.get_mut(usize::from(slot)) {
            *owner = Some(number);
        }
    }
}

impl Cluster {
    pub(super) fn open(config: Config) -> Arc<Self> {
        Arc::new_cyclic(|me| Cluster {
            me: me.clone(),
            layouts: config.layouts(),
            config,
            map: Mutex::default(),
            refreshing: tokio::sync::Mutex::default(),
            first: AtomicUsize::new(0),
            ears: Mutex::default(),
            listening: AtomicBool::new(false),
            is_old: AtomicBool::new(false),
            changed: tokio::sync::Notify::new(),
            closing: Closing::default(),
        })
    }

    pub(super) fn ears(&self) -> Option<Arc<Ears>> {
        locked(&self.ears).clone()
    }

    /// The node that has the lock which is kept under `key`, as far as is known.
    pub(super) fn owner(&self, key: &str) -> Option<Endpoint> {
        locked(&self.map).owner(slots::of(key))
    }

    /// The map may be old: whoever listens does so where the locks are.
    pub(super) fn look_again(&self) {
        self.is_old.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    fn node(&self, node: &Endpoint) -> Result<Arc<Redis>> {
        if let Some(known) = locked(&self.map).nodes.get(node) {
            return Ok(known.clone());
        }
        // Reads no file, and asks nobody.
        let config = self.config.clone().at(node.clone())?;
        Ok(locked(&self.map).nodes.entry(node.clone()).or_insert_with(|| Arc::new(Redis::new(config))).clone())
    }

    /// The map is there; asked for where there is none.
    async fn mapped(&self) -> Result<()> {
        if locked(&self.map).owners.is_empty() { self.refresh().await } else { Ok(()) }
    }

    /// Asks for the map, unless somebody just did.
    async fn refresh(&self) -> Result<()> {
        let _refreshing = self.refreshing.lock().await;
        let (known, is_fresh, is_there) = {
            let map = locked(&self.map);
            let is_fresh = map.asked.is_some_and(|asked| clock::now().since(asked) < SELDOM);
            (map.masters.clone(), is_fresh, !map.owners.is_empty())
        };
        if is_fresh && is_there {
            return Ok(());
        }
        let all: Vec<_> = known.iter().chain(self.config.seeds.iter().filter(|seed| !known.contains(*seed))).collect();
        let (first, mut error) = (self.first.fetch_add(1, Ordering::Relaxed), None);
        for at in 0..all.len() {
            match self.ask_for_map(all[(first + at) % all.len()]).await {
                Ok(ranges) => return self.learn_map(&ranges),
                Err(failed) => error = Some(failed),
            }
        }
        locked(&self.map).asked = Some(clock::now());
        Err(error
            .unwrap_or_else(|| Error::new(Kind::Internal, "connect", "a cluster has no nodes; please report this")))
    }

    async fn ask_for_map(&self, node: &Endpoint) -> Result<Vec<(u16, u16, Endpoint)>> {
        let config = self.config.clone().at(node.clone())?;
        let greeting = Greeting::question(config.login.credentials_aside().await?, &["CLUSTER", "SLOTS"]);
        let (_, answers) = tasks::introduce(&config, &greeting, config.connect_timeout / SHARE).await?;
        let answer = greeting.answer(&answers)?;
        let ranges = slots::read(&answer, node).filter(|ranges| !ranges.is_empty());
        ranges.ok_or_else(|| {
            let message = format!("{} has no slots of a cluster; give the address of one of its masters", node.shown());
            Error::new(Kind::Unavailable, "connect", message)
        })
    }

    fn learn_map(&self, ranges: &[(u16, u16, Endpoint)]) -> Result<()> {
        let mut new = Map { owners: vec![None; SLOTS], asked: Some(clock::now()), ..Map::default() };
        for (first, last, node) in ranges {
            (*first..=*last).for_each(|slot| new.set(slot, node));
        }
        for (number, node) in new.masters.clone().into_iter().enumerate() {
            let server = self.node(&node)?;
            if self.config.delay.is_some() {
                // All clients agree on which of its slots the marker is in.
                let first = new.owners.iter().position(|owner| *owner == u16::try_from(number).ok());
                let slot = first.and_then(|slot| u16::try_from(slot).ok()).unwrap_or_default();
                server.is_marked(failover::key_of(slot, &self.config.prefix).into());
            }
            new.nodes.insert(node, server);
        }
        let old = std::mem::replace(&mut *locked(&self.map), new);
        let (masters, nodes) = {
            let map = locked(&self.map);
            (map.masters.clone(), map.nodes.clone())
        };
        // Whoever was promoted may not have heard of everything.
        let is_other = !old.masters.is_empty() && masters.iter().any(|master| !old.masters.contains(master));
        for (_, gone) in old.nodes.iter().filter(|(node, _)| !nodes.contains_key(*node)) {
            gone.close();
        }
        self.changed.notify_one();
        if is_other && let Some(sink) = self.ears().and_then(|ears| ears.sink()) {
            sink.restarted();
        }
        Ok(())
    }

    /// Learns what came of a round of `open`.
    fn heed(&self, open: &mut Open) {
        let moved = std::mem::take(&mut open.moved);
        let is_old = !moved.is_empty();
        for (slot, node) in moved {
            locked(&self.map).set(slot, &node);
        }
        if (is_old || open.in_trouble)
            && let (Some(me), Ok(background)) = (self.me.upgrade(), runtime::handle())
        {
            drop(background.spawn(async move {
                if let Err(error) = me.refresh().await {
                    tracing::debug!(target: "lockwright::store", %error, "no node says who has which slot");
                }
            }));
        }
    }

    fn parts(&self, open: &mut Open, requests: &Requests) -> Vec<Part> {
        let map = locked(&self.map);
        open.parts(requests, |slot| map.owner(slot))
    }

    /// What each node is answered, asked all at once.
    async fn round(&self, parts: Vec<Part>, limit: Time) -> Vec<(Part, Answered)> {
        let nodes: Vec<_> = parts.iter().map(|part| self.node(&part.node)).collect();
        let mut calls: Vec<BoxFuture<'_, Answered>> = Vec::with_capacity(parts.len());
        for (part, node) in parts.iter().zip(&nodes) {
            calls.push(match node {
                Ok(node) => Box::pin(node.ask(&part.requests, limit, part.asking)),
                Err(error) => Box::pin(std::future::ready(not_sent(error.clone()))),
            });
        }
        let mut answers: Vec<Option<Answered>> = parts.iter().map(|_| None).collect();
        poll_fn(|context| {
            for (call, answer) in calls.iter_mut().zip(&mut answers).filter(|(_, answer)| answer.is_none()) {
                if let Poll::Ready(answered) = call.as_mut().poll(context) {
                    *answer = Some(answered);
                }
            }
            if answers.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        drop(calls);
        parts.into_iter().zip(answers.into_iter().flatten()).collect()
    }

    async fn ask(&self, requests: &Requests, limit: Time) -> Answered {
        let began = clock::now();
        let mapped = match timeout(limit.since(began), self.mapped()).await {
            Ok(mapped) => mapped,
            Err(_) => Err(Error::new(Kind::Unavailable, "connect", "no node of the cluster answers in time")),
        };
        if let Err(error) = mapped {
            return self.told(Answered { sent: began, outcome: Outcome::NotSent(error) });
        }
        if let [request] = requests.as_slice()
            && masters::is_for_all(request)
        {
            return self.told(masters::page(self, request, limit).await);
        }
        let mut open = Open::new(requests);
        loop {
            let parts = self.parts(&mut open, requests);
            for (part, answered) in self.round(parts, limit).await {
                let is_to_be_found = self.node(&part.node).is_ok_and(|node| node.has_lost_its_mark());
                open.take(part, answered);
                open.in_trouble |= is_to_be_found;
            }
            self.heed(&mut open);
            if open.is_over() {
                break;
            }
            if clock::now() >= limit {
                open.give_up_all();
                break;
            }
            if open.pauses {
                sleep(PAUSE).await;
            }
        }
        self.told(open.answered(began))
    }

    fn told(&self, Answered { sent, outcome }: Answered) -> Answered {
        let here = |error: Error| error.on_store(self.config.address.clone());
        let outcome = match outcome {
            Outcome::NotSent(error) => Outcome::NotSent(here(error)),
            Outcome::Unknown { error, void_after } => Outcome::Unknown { error: here(error), void_after },
            other => other,
        };
        Answered { sent, outcome }
    }

    /// The node that has the only request there is, as far as is known.
    fn only_owner(&self, requests: &Requests) -> Option<Arc<Redis>> {
        let [request] = requests.as_slice() else { return None };
        self.owner_of(&request.key).map(|(_, node)| node)
    }

    /// The node that has the lock which is kept under `key`, and where it is.
    fn owner_of(&self, key: &str) -> Option<(Endpoint, Arc<Redis>)> {
        let map = locked(&self.map);
        let (at, node) = map.nodes.get_key_value(&map.owner(slots::of(key))?)?;
        Some((at.clone(), node.clone()))
    }

    /// The masters with the first slot of each that is not one of `but`, in the order of those, and how many slots
    /// nobody has.
    pub(super) fn masters_by_slot(&self, but: &[u16]) -> (Vec<(u16, Endpoint)>, i64) {
        let map = locked(&self.map);
        let mut masters: Vec<(u16, Endpoint)> = Vec::new();
        let mut unserved = 0;
        for slot in 0..SLOTS as u16 {
            match map.owner(slot) {
                Some(node) if !but.contains(&slot) && masters.iter().all(|(_, known)| *known != node) => {
                    masters.push((slot, node));
                }
                Some(_) => {}
                None => unserved += 1,
            }
        }
        (masters, unserved)
    }

    /// What one of them is answered, whoever has the slot of the request's key.
    pub(super) async fn ask_master(&self, node: &Endpoint, request: Request, limit: Time) -> Answered {
        match self.node(node) {
            Ok(node) => node.ask(&[request], limit, false).await,
            Err(error) => not_sent(error),
        }
    }

    /// Keeps subscribed what is listened to.
    async fn keep(self: Arc<Self>, ears: Arc<Ears>) {
        let mut looked: Option<Time> = None;
        while ears.sink().is_some() {
            let is_due = looked.is_none_or(|at| clock::now().since(at) >= LOOK);
            if self.is_old.swap(false, Ordering::AcqRel) || is_due {
                if let Err(error) = self.refresh().await {
                    tracing::debug!(target: "lockwright::inbox", %error, "no node says who has which slot");
                }
                looked = Some(clock::now());
            }
            let masters = {
                let map = locked(&self.map);
                let is_master = |(node, _): &(&Endpoint, _)| map.masters.contains(node);
                map.nodes.iter().filter(is_master).map(|(node, server)| (node.clone(), server.clone())).collect()
            };
            ears.listen(&self, &masters);
            let _ = timeout(LOOK, self.changed.notified()).await;
        }
    }
}

/// Whether a node says that it is not the one to be asked, or does not serve.
fn is_elsewhere(answered: &Answered) -> bool {
    let is_redirection = |reply: &Reply| match reply {
        Reply::Error { code, .. } => {
            matches!(&**code, "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN")
        }
        _ => false,
    };
    matches!(&answered.outcome, Outcome::Replies(replies) if replies.iter().any(is_redirection))
}

impl Store for Cluster {
    fn address(&self) -> &Arc<str> {
        &self.config.address
    }

    fn layouts(&self) -> &[Arc<dyn Layout>] {
        &self.layouts
    }

    fn call_async<'a>(&'a self, requests: &'a Requests, limit: Time) -> BoxFuture<'a, Answered> {
        Box::pin(self.ask(requests, limit))
    }

    fn call(&self, requests: &Requests, limit: Time) -> Answered {
        if let Some(node) = self.only_owner(requests).filter(|_| !masters::is_for_all(&requests[0])) {
            let answered = node.call_as(requests, limit, false);
            if matches!(answered.outcome, Outcome::Replies(_)) && !is_elsewhere(&answered) && !node.has_lost_its_mark()
            {
                return answered;
            }
            // What was redirected was not done, and what has no answer is not sent again.
            if !is_elsewhere(&answered) {
                let mut open = Open::new(requests);
                open.in_trouble = true;
                self.heed(&mut open);
                return self.told(answered);
            }
        }
        runtime::block_on(self.ask(requests, limit)).unwrap_or_else(not_sent)
    }

    fn examine(&self) -> Inquiry<'_, Vec<Finding>> {
        examination::examine_masters(&self.config.prefix, clock::wall)
    }

    fn check_lease(&self, ttl: Duration) -> Result<()> {
        self.config.delay.map_or(Ok(()), |delay| delay.check(ttl))
    }

    fn void_after(&self, given_up: Time, _: Time) -> Time {
        let lasts = self.config.response_timeout;
        given_up.after(lasts).after(margin(lasts))
    }

    fn subscribe(self: Arc<Self>, topic: Topic<'_>, sink: Weak<dyn Sink>) -> Subscription {
        let ears = locked(&self.ears).get_or_insert_with(|| Arc::new(Ears::new(sink))).clone();
        let subscription = match topic {
            Topic::Inbox(inbox) => Subscription::of(ears.hear_inbox(inbox)),
            Topic::Session => return Subscription::of(Inbox::Unavailable),
            // Nothing is to be done for what is listened to already.
            Topic::Channel { channel, key } if channel.overheard => {
                return ears.hear(&self, channel, key, self.owner_of(key));
            }
            Topic::Channel { channel, key } => ears.hear(&self, channel, key, None),
        };
        if self.listening.swap(true, Ordering::AcqRel) {
            self.changed.notify_one();
            return subscription;
        }
        let work: Work = Box::new(move || {
            let (cluster, ears) = (self.clone(), ears.clone());
            Box::pin(async move { cluster.closing.cuts_short(cluster.clone().keep(ears)).await })
        });
        subscription.in_background(work)
    }

    fn close(&self) {
        self.closing.close();
        let nodes: Vec<_> = locked(&self.map).nodes.values().cloned().collect();
        nodes.iter().for_each(|node| node.close());
        drop(locked(&self.ears).take());
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cluster({})", self.config.address)
    }
}
