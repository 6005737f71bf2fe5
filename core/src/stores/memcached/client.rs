//! One server: whatever is asked goes to the driver of the client's connection, which the background runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::broker::Broker;
use super::config::Config;
use super::driver::keep_up;
use super::layouts::add_layout::AddLayout;
use super::layouts::examination;
use crate::finding::Finding;
use crate::platform::{clock, runtime};
use crate::protocol::{Inquiry, Layout, Requests};
use crate::stores::{Answered, BoxFuture, Store};
use crate::time::Time;

/// What a connection that breaks may take until what was sent on it is done.
const LATE: Duration = Duration::from_secs(1);

/// See the [module](self).
pub(crate) struct Memcached {
    broker: Arc<Broker>,
    layouts: [Arc<dyn Layout>; 1],
}

impl Memcached {
    pub(super) fn new(config: Config) -> Self {
        let layout = AddLayout { prefix: config.prefix.clone() };
        Memcached { broker: Arc::new(Broker::new(config)), layouts: [Arc::new(layout)] }
    }

    async fn ask(&self, requests: &Requests, limit: Time) -> Answered {
        let mut ticket = self.broker.ask(requests.clone());
        if ticket.is_first {
            match runtime::handle() {
                Ok(handle) => drop(handle.spawn(keep_up(self.broker.clone()))),
                Err(error) => self.broker.give_back(&error),
            }
        }
        match timeout(limit.since(clock::now()), &mut ticket.answer).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(_)) | Err(_) => self.broker.give_up(&ticket),
        }
    }
}

impl Store for Memcached {
    fn address(&self) -> &Arc<str> {
        &self.broker.config.address
    }

    fn layouts(&self) -> &[Arc<dyn Layout>] {
        &self.layouts
    }

    fn call_async<'a>(&'a self, requests: &'a Requests, limit: Time) -> BoxFuture<'a, Answered> {
        Box::pin(self.ask(requests, limit))
    }

    /// The driver goes on with it. By the limit it is answered, or its connection is broken.
    fn void_after(&self, given_up: Time, limit: Time) -> Time {
        given_up.max(limit).after(LATE)
    }

    fn eviction(&self) -> Inquiry<'_, Option<String>> {
        examination::eviction()
    }

    fn examine(&self) -> Inquiry<'_, Vec<Finding>> {
        examination::examine()
    }

    fn close(&self) {
        self.broker.close();
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        self.broker.close();
    }
}

impl std::fmt::Debug for Memcached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memcached({})", self.broker.config.address)
    }
}
