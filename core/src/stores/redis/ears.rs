//! What a cluster's client listens to.
//!
//! **Its inbox** is subscribed at every master, since a script there looks whether anybody hears it. The nodes tell one
//! another what is published, so each message is heard as often as there are masters; the one counts that came from the
//! node which has the lock, and a grant is a reason to ask. The inbox is live as long as it is at all of them.
//!
//! **A channel that tells of a lock** is subscribed at the node that has the lock, in the shard of its slot, and moves
//! with that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use super::client::Redis;
use super::cluster::Cluster;
use super::config::Endpoint;
use super::failover::as_hint;
use crate::platform::mutex::locked;
use crate::platform::runtime;
use crate::protocol::{Channel, InboxId, StoreEvent};
use crate::session::Inbox;
use crate::stores::adapter::{Ends, Sink, Store, Subscription, Topic};
use crate::time::Time;

/// See the [module](self).
pub(super) struct Ears {
    sink: Weak<dyn Sink>,
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    inbox: Option<InboxId>,
    nodes: BTreeMap<Endpoint, Ear>,
    channels: BTreeMap<Arc<str>, Listened>,
}

/// Listens at one node.
struct Ear {
    heard: Arc<Heard>,
    /// The inbox there.
    inbox: Option<(Inbox, Subscription)>,
}

/// A channel that tells of a lock.
struct Listened {
    key: Arc<str>,
    own: bool,
    /// How many listen.
    ears: usize,
    /// Told when one of them does no more.
    end: Arc<Ended>,
    /// Where it is subscribed, if it is yet.
    at: Option<(Endpoint, Subscription)>,
    state: Inbox,
}

/// What is heard at one node.
struct Heard {
    cluster: Weak<Cluster>,
    node: Endpoint,
}

/// Who listened on a channel.
struct Ended {
    cluster: Weak<Cluster>,
    channel: Arc<str>,
}

/// A channel that is subscribed elsewhere from now on, and what is known of that.
type Moved = (Arc<str>, Arc<str>, Inbox);

impl Ears {
    pub(super) fn new(sink: Weak<dyn Sink>) -> Self {
        Ears { sink, all: Mutex::default() }
    }

    pub(super) fn sink(&self) -> Option<Arc<dyn Sink>> {
        self.sink.upgrade()
    }

    /// The inbox is wanted: what it comes to so far.
    pub(super) fn hear_inbox(&self, inbox: InboxId) -> Inbox {
        let mut all = locked(&self.all);
        all.inbox = Some(inbox);
        all.inbox_state()
    }

    /// One more wants to hear what is told of the lock `key`, which `owner` has. What is to be listened to only where
    /// that is so already is not placed.
    pub(super) fn hear(
        &self,
        cluster: &Arc<Cluster>,
        channel: Channel<'_>,
        key: &Arc<str>,
        owner: Option<(Endpoint, Arc<Redis>)>,
    ) -> Subscription {
        let mut all = locked(&self.all);
        let known = all.channels.get(channel.name).map(|listened| listened.state);
        let at = owner.filter(|_| known.is_none() && channel.overheard).and_then(|(node, server)| {
            let there = all.nodes.get(&node)?.subscribe(&server, Topic::Channel { channel, key });
            (there.state() == Inbox::Live).then_some((node, there))
        });
        let state = if at.is_some() { Inbox::Live } else { known.unwrap_or(Inbox::Closed) };
        if channel.overheard && state != Inbox::Live {
            return Subscription::of(Inbox::Closed);
        }
        let listened = all.channels.entry(channel.name.clone()).or_insert_with(|| {
            let end = Arc::new(Ended { cluster: Arc::downgrade(cluster), channel: channel.name.clone() });
            Listened { key: key.clone(), own: channel.own, ears: 0, end, at, state }
        });
        listened.ears += 1;
        Subscription::of(state).until(listened.end.clone())
    }

    /// Listens at these masters from now on and nowhere else, to each channel at its owner.
    pub(super) fn listen(&self, cluster: &Arc<Cluster>, masters: &BTreeMap<Endpoint, Arc<Redis>>) {
        let mut all = locked(&self.all);
        let gone: Vec<_> = all.nodes.keys().filter(|node| !masters.contains_key(*node)).cloned().collect();
        let gone: Vec<_> = gone.iter().filter_map(|node| all.nodes.remove(node)).collect();
        for (node, server) in masters {
            all.listen_at(cluster, node, server);
        }
        let (moved, left) = all.place_channels(cluster, masters);
        drop(all);
        drop((gone, left));
        if let Some(sink) = self.sink() {
            moved.into_iter().for_each(|(key, channel, state)| sink.channel(&key, &channel, state));
        }
    }

    fn inbox_changed(&self, node: &Endpoint, state: Inbox) {
        let mut all = locked(&self.all);
        if let Some((there, _)) = all.nodes.get_mut(node).and_then(|ear| ear.inbox.as_mut()) {
            *there = state;
        }
        let state = all.inbox_state();
        drop(all);
        if let Some(sink) = self.sink() {
            sink.inbox(state);
        }
    }

    fn channel_changed(&self, node: &Endpoint, (key, channel, state): (&str, &str, Inbox)) {
        let mut all = locked(&self.all);
        let Some(listened) = all.channels.get_mut(channel).filter(|listened| listened.is_at(node)) else { return };
        listened.state = state;
        drop(all);
        if let Some(sink) = self.sink() {
            sink.channel(key, channel, state);
        }
    }

    /// One listens on `channel` no more.
    fn forget(&self, channel: &str) {
        let mut all = locked(&self.all);
        let Some(listened) = all.channels.get_mut(channel) else { return };
        listened.ears -= 1;
        let over = if listened.ears == 0 { all.channels.remove(channel) } else { None };
        drop(all);
        drop(over);
    }
}

impl All {
    fn listen_at(&mut self, cluster: &Arc<Cluster>, node: &Endpoint, server: &Arc<Redis>) {
        let ear = self.nodes.entry(node.clone()).or_insert_with(|| {
            let heard = Arc::new(Heard { cluster: Arc::downgrade(cluster), node: node.clone() });
            Ear { heard, inbox: None }
        });
        if let Some(inbox) = self.inbox.filter(|_| ear.inbox.is_none()) {
            let subscription = ear.subscribe(server, Topic::Inbox(inbox));
            ear.inbox = Some((subscription.state(), subscription));
        }
    }

    /// Subscribes each channel where its lock is. Those that were not there, and what they leave.
    fn place_channels(
        &mut self,
        cluster: &Cluster,
        masters: &BTreeMap<Endpoint, Arc<Redis>>,
    ) -> (Vec<Moved>, Vec<Subscription>) {
        let (mut moved, mut left) = (Vec::new(), Vec::new());
        for (name, listened) in &mut self.channels {
            let owner = cluster.owner(&listened.key);
            if owner.as_ref().is_some_and(|owner| listened.is_at(owner)) {
                continue;
            }
            let Some((node, server)) = owner.and_then(|node| masters.get_key_value(&node)) else { continue };
            let Some(ear) = self.nodes.get(node) else { continue };
            let channel = Channel { name, own: listened.own, overheard: false };
            let there = ear.subscribe(server, Topic::Channel { channel, key: &listened.key });
            listened.state = there.state();
            moved.push((listened.key.clone(), name.clone(), listened.state));
            left.extend(listened.at.replace((node.clone(), there)).map(|(_, there)| there));
        }
        (moved, left)
    }

    /// What the inboxes at all nodes come to.
    fn inbox_state(&self) -> Inbox {
        let is = |state| move |ear: &Ear| ear.inbox.as_ref().is_some_and(|(there, _)| *there == state);
        match self.nodes.is_empty() {
            false if self.nodes.values().any(is(Inbox::Unavailable)) => Inbox::Unavailable,
            false if self.nodes.values().all(is(Inbox::Live)) => Inbox::Live,
            _ => Inbox::Closed,
        }
    }
}

impl Ear {
    /// Listens there; what there is to do for it is done in the background.
    fn subscribe(&self, server: &Arc<Redis>, topic: Topic<'_>) -> Subscription {
        let mut subscription = server.clone().subscribe(topic, Arc::downgrade(&self.heard) as Weak<dyn Sink>);
        if let (Some(mut work), Ok(background)) = (subscription.take_work(), runtime::handle()) {
            drop(background.spawn(async move { work().await }));
        }
        subscription
    }
}

impl Listened {
    fn is_at(&self, node: &Endpoint) -> bool {
        self.at.as_ref().is_some_and(|(at, _)| at == node)
    }
}

impl Ends for Ended {
    fn ended(&self) {
        if let Some(ears) = self.cluster.upgrade().and_then(|cluster| cluster.ears()) {
            ears.forget(&self.channel);
        }
    }
}

impl Sink for Heard {
    fn inbox(&self, state: Inbox) {
        if let Some(ears) = self.cluster.upgrade().and_then(|cluster| cluster.ears()) {
            ears.inbox_changed(&self.node, state);
        }
    }

    fn pushed(&self, key: &str, event: &StoreEvent) {
        let Some(cluster) = self.cluster.upgrade() else { return };
        // What a master says that was stopped, and does not know yet that another one took over, is passed on by the
        // nodes like anything else. What is told in a shard comes from there alone.
        if (matches!(event, StoreEvent::Changed { .. }) || cluster.owner(key).as_ref() == Some(&self.node))
            && let Some(sink) = cluster.ears().and_then(|ears| ears.sink())
        {
            sink.pushed(key, &as_hint(event.clone()));
        }
    }

    fn channel(&self, key: &str, channel: &str, state: Inbox) {
        let Some(cluster) = self.cluster.upgrade() else { return };
        if state == Inbox::Closed {
            // Its slot may be elsewhere.
            cluster.look_again();
        }
        if let Some(ears) = cluster.ears() {
            ears.channel_changed(&self.node, (key, channel, state));
        }
    }

    /// No lock in a cluster is bound to a session.
    fn session(&self, _: Time) {}

    fn session_over(&self) {}

    /// A server pushes to none that is not open.
    fn unheard(&self) {}

    fn restarted(&self) {
        if let Some(sink) = self.cluster.upgrade().and_then(|cluster| cluster.ears()).and_then(|ears| ears.sink()) {
            sink.restarted();
        }
    }
}
