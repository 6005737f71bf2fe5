//! The client's lease: granted before the first request that needs one, and kept alive while the engine is looked at.

use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::stores::etcd::gateway;
use lockwright_machines::stores::etcd::lease::Lease;
use lockwright_machines::stores::etcd::wire::Response;
use lockwright_machines::time::Time;

use super::Etcd;
use super::posts::For;
use super::writes::Write;
use crate::store::News;

/// How long nothing is tried after a sign of life that had no answer.
const PAUSE: Duration = Duration::from_millis(100);

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Leases {
    current: Option<Arc<Lease>>,
    next_beat: Time,
    /// What goes on once the next sign of life was answered.
    pub(super) renewals: Vec<Write>,
}

impl Leases {
    pub(super) fn current(&self) -> Option<Arc<Lease>> {
        self.current.clone()
    }

    pub(super) fn take(&mut self) -> Option<Arc<Lease>> {
        self.current.take()
    }

    pub(super) fn missed_beat(&mut self, now: Time) {
        self.next_beat = now.after(PAUSE);
    }

    pub(super) fn due(&self) -> Option<Time> {
        self.current.as_ref().map(|_| self.next_beat)
    }
}

impl Etcd {
    /// Asks for a lease, unless that is done.
    pub(super) fn ask_for_lease(&mut self, now: Time) {
        if !self.posts.any(|what| matches!(what, For::Grant | For::Fence(..))) {
            let body = gateway::grant(self.config.ttl.as_secs());
            self.post(now, For::Grant, gateway::GRANT, body);
        }
    }

    pub(super) fn granted(&mut self, now: Time, (id, seconds): (i64, i64), sent: Time) {
        let lease = Arc::new(Lease::granted(&self.config.settings.options.prefix, id, seconds));
        let fence = gateway::transaction(&lease.first_fence());
        self.post(now, For::Fence(lease, sent), gateway::TRANSACTION, fence);
    }

    /// The lease that was asked for at `sent` can be used.
    pub(super) fn fenced(&mut self, lease: &Arc<Lease>, response: &Response, sent: Time) {
        lease.is_fenced(response);
        self.leases.current = Some(lease.clone());
        self.lives(lease, sent);
    }

    fn lives(&mut self, lease: &Lease, sent: Time) {
        self.leases.next_beat = sent.after(lease.ttl / 3);
        self.news.push_back(News::Alive(lease.lives(sent)));
    }

    pub(super) fn beat_if_due(&mut self, now: Time) {
        if self.leases.due().is_some_and(|due| due <= now) {
            self.beat(now);
        }
    }

    /// Sends a sign of life, unless one is on its way.
    fn beat(&mut self, now: Time) {
        let Some(lease) = self.leases.current() else { return };
        // Until it is answered there is no other.
        self.leases.next_beat = now.after(lease.ttl);
        if !self.posts.any(|what| matches!(what, For::Beat(_))) {
            let body = gateway::of_lease(lease.id);
            self.post(now, For::Beat(lease), gateway::KEEP_ALIVE, body);
        }
    }

    pub(super) fn beaten(&mut self, now: Time, lease: &Arc<Lease>, seconds: i64, sent: Time) {
        match self.leases.current() {
            Some(current) if current.id != lease.id => {}
            Some(_) if seconds > 0 => {
                self.lives(lease, sent);
                self.watch_fence(now, lease);
            }
            Some(_) => self.over(lease),
            None => {}
        }
        self.renewals_go_on();
    }

    /// It ended at the server: told before another one is asked for.
    pub(super) fn over(&mut self, lease: &Lease) {
        if self.leases.current.take_if(|current| current.id == lease.id).is_some() {
            self.news.push_back(News::Over);
            self.forget_fence();
        }
    }

    /// A hold lasts as long as the lease, so that is what is renewed before it is looked whether it is there.
    pub(super) fn renew(&mut self, now: Time, write: Write) {
        self.leases.renewals.push(write);
        self.beat(now);
    }

    /// What waited for a sign of life, unless one is on its way.
    pub(super) fn renewals_go_on(&mut self) {
        if !self.posts.any(|what| matches!(what, For::Beat(_))) {
            self.waiting.extend(self.leases.renewals.drain(..));
        }
    }
}
