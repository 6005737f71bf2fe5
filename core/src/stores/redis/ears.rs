//! The inbox of a cluster's client: subscribed at every master, since a script there looks whether anybody hears it.
//!
//! The nodes tell one another what is published, so each message is heard as often as there are masters; the one
//! counts that came from the node which has the lock, and a grant is a reason to ask. The inbox is live as long as it
//! is at all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use super::client::Redis;
use super::cluster::Cluster;
use super::config::Endpoint;
use super::failover::as_hint;
use crate::platform::mutex::locked;
use crate::platform::runtime;
use crate::protocol::{InboxId, StoreEvent};
use crate::session::Inbox;
use crate::stores::{Sink, Store, Subscription, Topic};
use crate::time::Time;

/// See the [module](self).
pub(super) struct Ears {
    inbox: InboxId,
    sink: Weak<dyn Sink>,
    each: Mutex<HashMap<Endpoint, Ear>>,
}

/// Listens at one node.
struct Ear {
    state: Inbox,
    _sink: Arc<Heard>,
    _subscription: Subscription,
}

/// What is heard at one node.
struct Heard {
    cluster: Weak<Cluster>,
    node: Endpoint,
}

impl Ears {
    pub(super) fn new(inbox: InboxId, sink: Weak<dyn Sink>) -> Self {
        Ears { inbox, sink, each: Mutex::default() }
    }

    pub(super) fn sink(&self) -> Option<Arc<dyn Sink>> {
        self.sink.upgrade()
    }

    /// Listens at these from now on, and nowhere else.
    pub(super) fn listen(&self, cluster: &Arc<Cluster>, masters: &HashMap<Endpoint, Arc<Redis>>) {
        let mut each = locked(&self.each);
        let gone: Vec<_> = each.keys().filter(|node| !masters.contains_key(*node)).cloned().collect();
        let gone: Vec<_> = gone.iter().filter_map(|node| each.remove(node)).collect();
        for (node, server) in masters {
            if each.contains_key(node) {
                continue;
            }
            let heard = Arc::new(Heard { cluster: Arc::downgrade(cluster), node: node.clone() });
            let sink: Weak<dyn Sink> = Arc::downgrade(&(heard.clone() as Arc<dyn Sink>));
            let mut subscription = server.clone().subscribe(Topic::Inbox(self.inbox), sink);
            if let (Some(mut work), Ok(background)) = (subscription.take_work(), runtime::handle()) {
                drop(background.spawn(async move { work().await }));
            }
            let ear = Ear { state: subscription.state(), _sink: heard, _subscription: subscription };
            each.insert(node.clone(), ear);
        }
        drop(each);
        drop(gone);
    }

    /// What all of them come to.
    pub(super) fn state(&self) -> Inbox {
        let each = locked(&self.each);
        let is = |state| move |ear: &Ear| ear.state == state;
        match each.is_empty() {
            false if each.values().any(is(Inbox::Unavailable)) => Inbox::Unavailable,
            false if each.values().all(is(Inbox::Live)) => Inbox::Live,
            _ => Inbox::Closed,
        }
    }

    fn changed(&self, node: &Endpoint, state: Inbox) {
        if let Some(ear) = locked(&self.each).get_mut(node) {
            ear.state = state;
        }
        if let Some(sink) = self.sink() {
            sink.inbox(self.state());
        }
    }
}

impl Sink for Heard {
    fn inbox(&self, state: Inbox) {
        if let Some(ears) = self.cluster.upgrade().and_then(|cluster| cluster.ears()) {
            ears.changed(&self.node, state);
        }
    }

    fn pushed(&self, key: &str, event: &StoreEvent) {
        let Some(cluster) = self.cluster.upgrade() else { return };
        if cluster.has(&self.node, key)
            && let Some(sink) = cluster.ears().and_then(|ears| ears.sink())
        {
            // What a master says that was stopped, and does not know yet that another one took over, is passed on by
            // the nodes like anything else.
            sink.pushed(key, as_hint(event));
        }
    }

    /// No lock in a cluster is told of on a channel.
    fn channel(&self, _: &str, _: &str, _: Inbox) {}

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
