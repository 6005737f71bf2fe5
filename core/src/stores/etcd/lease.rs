//! How the client's lease is come by: granted before the first request that needs one, and kept alive by one stream for
//! all locks.

use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use etcd_client::Client;
use lockwright_machines::stores::etcd::lease::Lease;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::client::Etcd;
use super::connection::answered;
use super::failure::{Failure, too_late};
use crate::platform::clock;
use crate::platform::mutex::locked;
use crate::stores::Sink;
use crate::time::Time;

/// How long nothing is tried after the stream broke.
const PAUSE: Duration = Duration::from_millis(100);

/// The lease of a client, if it has one.
#[derive(Default)]
pub(super) struct Leases {
    current: Mutex<Option<Arc<Lease>>>,
    granting: tokio::sync::Mutex<()>,
    granted: Notify,
    sink: Mutex<Option<Weak<dyn Sink>>>,
}

impl Leases {
    pub(super) fn tell(&self, sink: &Weak<dyn Sink>) {
        *locked(&self.sink) = Some(sink.clone());
    }

    pub(super) fn sink(&self) -> Option<Arc<dyn Sink>> {
        locked(&self.sink).as_ref().and_then(Weak::upgrade)
    }

    pub(super) fn current(&self) -> Option<Arc<Lease>> {
        locked(&self.current).clone()
    }

    /// It ended at the server: told before another one is granted.
    pub(super) fn over(&self, lease: &Lease) {
        let was = locked(&self.current).take_if(|current| current.id == lease.id);
        if let Some(sink) = was.and_then(|_| self.sink()) {
            sink.session_over();
        }
    }

    pub(super) fn take(&self) -> Option<Arc<Lease>> {
        locked(&self.current).take()
    }

    pub(super) async fn wait(&self) -> Arc<Lease> {
        loop {
            let granted = self.granted.notified();
            if let Some(lease) = self.current() {
                return lease;
            }
            granted.await;
        }
    }

    /// A sign of life of `lease` that left at `sent` was answered.
    fn lives(&self, lease: &Lease, sent: Time) {
        let is_current = self.current().is_some_and(|current| current.id == lease.id);
        if let Some(sink) = self.sink().filter(|_| is_current) {
            sink.session(lease.lives(sent));
        }
    }
}

impl Etcd {
    /// The lease, granted if there is none.
    pub(super) async fn lease(&self) -> Result<Arc<Lease>, Failure> {
        if let Some(lease) = self.leases.current() {
            return Ok(lease);
        }
        let _granting = self.leases.granting.lock().await;
        if let Some(lease) = self.leases.current() {
            return Ok(lease);
        }
        let sent = clock::now();
        let seconds = i64::try_from(self.config.ttl.as_secs()).unwrap_or(i64::MAX);
        let granted =
            self.over_a_line(|client| async move { answered(client.lease_client().grant(seconds, None).await) }).await;
        // Nothing that concerns a lock was sent: a lease of nobody ends with its time.
        let granted = granted.map_err(Failure::harmless)?;
        let lease = Lease::granted(&self.config.prefix, granted.id(), granted.ttl());
        lease.is_fenced(&self.txn(&lease.first_fence()).await.map_err(Failure::harmless)?);
        let lease = Arc::new(lease);
        *locked(&self.leases.current) = Some(lease.clone());
        self.leases.lives(&lease, sent);
        self.leases.granted.notify_waiters();
        self.watches.wake();
        Ok(lease)
    }

    /// Keeps the lease alive, whichever it is, for as long as somebody is told.
    pub(super) async fn keep_alive(&self) {
        while self.leases.sink().is_some() {
            let lease = self.leases.wait().await;
            if let Err(failure) = self.beat(&lease).await {
                tracing::debug!(target: "lockwright::inbox", ?failure, "the lease is not kept alive at present");
                sleep(PAUSE).await;
            }
        }
    }

    async fn beat(&self, lease: &Lease) -> Result<(), Failure> {
        let (client, number) = self.line().await?;
        self.beat_over(client, lease).await.inspect_err(|failure| self.broken(number, failure))
    }

    /// Keeps it alive over one stream; ends well when it is over.
    async fn beat_over(&self, client: Arc<Client>, lease: &Lease) -> Result<(), Failure> {
        // A server that is slow is not left for that: all that is watched would begin anew.
        let patience = self.config.response_timeout.max(lease.ttl / 6);
        let sent = clock::now();
        let opened = timeout(patience, client.lease_client().keep_alive(lease.id)).await.map_err(|_| late())?;
        let (mut keeper, mut stream) = match opened {
            // The library asks for the first sign of life itself.
            Err(etcd_client::Error::LeaseKeepAliveError(_)) => {
                self.leases.over(lease);
                return Ok(());
            }
            opened => answered(opened)?,
        };
        self.leases.lives(lease, sent);
        while self.leases.sink().is_some() && self.leases.current().is_some_and(|current| current.id == lease.id) {
            sleep(lease.ttl / 3).await;
            let sent = clock::now();
            let beat = async {
                keeper.keep_alive().await?;
                stream.message().await
            };
            match answered(timeout(patience, beat).await.map_err(|_| late())?)? {
                Some(alive) if alive.ttl() > 0 => self.leases.lives(lease, sent),
                Some(_) => {
                    self.leases.over(lease);
                    return Ok(());
                }
                None => return Err(late()),
            }
        }
        Ok(())
    }
}

fn late() -> Failure {
    Failure::NotSent(too_late())
}

/// Both, until the first of them ends.
pub(super) async fn either(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (std::pin::pin!(one), std::pin::pin!(other));
    std::future::poll_fn(|context| {
        let over = Pin::as_mut(&mut one).poll(context).is_ready() || Pin::as_mut(&mut other).poll(context).is_ready();
        if over { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}
