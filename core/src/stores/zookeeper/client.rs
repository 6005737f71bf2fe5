//! One ensemble: whatever is asked goes to the driver of the client's session, which the background runs.

use std::sync::{Arc, Weak};

use tokio::time::timeout;

use super::broker::Broker;
use super::config::Config;
use super::driver::keep_up;
use super::layouts::line_layout::LineLayout;
use super::layouts::recipe::Recipe;
use super::layouts::{MEMBER, examination};
use super::members;
use crate::finding::Finding;
use crate::platform::{clock, runtime};
use crate::protocol::{Inquiry, Layout, Reply, Request, Requests};
use crate::session::Inbox;
use crate::stores::{Answered, BoxFuture, Outcome, Sink, Store, Subscription, Topic, not_sent};
use crate::time::Time;

/// See the [module](self).
pub(crate) struct ZooKeeper {
    broker: Arc<Broker>,
    layouts: [Arc<dyn Layout>; 3],
}

impl ZooKeeper {
    pub(super) fn new(config: Config) -> Self {
        let (root, prefix, ttl) = (config.root.clone(), config.prefix.clone(), config.ttl);
        let of = |recipe| Arc::new(LineLayout::new(root.clone(), prefix.clone(), ttl, recipe)) as Arc<dyn Layout>;
        let layouts = [Recipe::Mutex, Recipe::LeaderLatch, Recipe::KazooLock].map(of);
        ZooKeeper { broker: Arc::new(Broker::new(config)), layouts }
    }

    async fn ask(&self, requests: &Requests, limit: Time) -> Answered {
        if let [request] = requests.as_slice()
            && std::ptr::eq(request.call, &MEMBER)
        {
            return self.look(request, limit).await;
        }
        let mut ticket = match self.broker.ask(requests.clone()) {
            Ok(ticket) => ticket,
            Err(error) => return not_sent(error),
        };
        if ticket.is_first {
            match runtime::handle() {
                Ok(handle) => drop(handle.spawn(keep_up(self.broker.clone()))),
                Err(error) => self.broker.give_back(error),
            }
        }
        match timeout(limit.since(clock::now()), &mut ticket.answer).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(_)) | Err(_) => self.broker.give_up(&ticket),
        }
    }

    /// Asks one server by itself, and not in the client's session.
    async fn look(&self, request: &Request, limit: Time) -> Answered {
        let (sent, broker, number) = (clock::now(), self.broker.clone(), examination::number(request));
        let looks = async move { members::look(&broker.config, number, limit).await };
        let seen = match runtime::handle() {
            Ok(handle) => handle.spawn(looks).await.unwrap_or(Reply::Nil),
            Err(error) => return not_sent(error),
        };
        Answered { sent, outcome: Outcome::Replies(vec![seen]) }
    }
}

impl Store for ZooKeeper {
    fn address(&self) -> &Arc<str> {
        &self.broker.config.address
    }

    fn layouts(&self) -> &[Arc<dyn Layout>] {
        &self.layouts
    }

    fn call_async<'a>(&'a self, requests: &'a Requests, limit: Time) -> BoxFuture<'a, Answered> {
        Box::pin(self.ask(requests, limit))
    }

    /// Whatever is asked afterwards is done afterwards; see [`super::broker`].
    fn void_after(&self, given_up: Time, _: Time) -> Time {
        given_up
    }

    fn subscribe(self: Arc<Self>, topic: Topic<'_>, sink: Weak<dyn Sink>) -> Subscription {
        match topic {
            Topic::Session => {
                self.broker.listen(sink);
                Subscription::of(Inbox::Live)
            }
            Topic::Inbox(_) | Topic::Channel { .. } => Subscription::of(Inbox::Unavailable),
        }
    }

    fn examine(&self) -> Inquiry<'_, Vec<Finding>> {
        let config = &self.broker.config;
        examination::examine(&config.root, config.servers.len(), self.broker.pace.wanted(), clock::wall)
    }

    fn close(&self) {
        self.broker.close();
    }
}

impl Drop for ZooKeeper {
    fn drop(&mut self) {
        self.broker.close();
    }
}

impl std::fmt::Debug for ZooKeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ZooKeeper({})", self.broker.config.address)
    }
}
