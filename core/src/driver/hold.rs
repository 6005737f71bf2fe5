//! What a guard shares with the driver: until when the lock is held, and whether it was lost.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::clock;
use super::wait::locked;
use crate::lease::LossReason;
use crate::time::Time;
use crate::token::Token;

type Callback = Box<dyn FnOnce(&LossReason) + Send>;

/// One hold of a lock, from its grant to its release or loss.
pub(crate) struct Hold {
    pub(crate) token: Token,
    pub(crate) since: Time,
    valid_until: AtomicU64,
    /// Why it is lost when it is not prolonged any more: a position in [`LossReason::ALL`].
    expires_as: AtomicU8,
    lost: OnceLock<LossReason>,
    interested: Mutex<Interested>,
}

#[derive(Default)]
struct Interested {
    wakers: Vec<Waker>,
    callbacks: Vec<Callback>,
    over: bool,
}

impl Hold {
    pub(crate) fn new(token: Token, since: Time, valid_until: Time) -> Self {
        Hold {
            token,
            since,
            valid_until: AtomicU64::new(valid_until.as_nanos()),
            expires_as: AtomicU8::new(0),
            lost: OnceLock::new(),
            interested: Mutex::default(),
        }
    }

    pub(crate) fn valid_until(&self) -> Time {
        Time::from_nanos(self.valid_until.load(Ordering::Acquire))
    }

    /// It lasts until then at least, and would end for the reason `expires_as`.
    pub(crate) fn prolong(&self, valid_until: Time, expires_as: &LossReason) {
        self.expires_as.store(expires_as.position(), Ordering::Relaxed);
        self.valid_until.fetch_max(valid_until.as_nanos(), Ordering::AcqRel);
    }

    pub(crate) fn remaining(&self) -> Duration {
        match self.lost.get() {
            Some(_) => Duration::ZERO,
            None => self.valid_until().since(clock::now()),
        }
    }

    pub(crate) fn why_lost(&self) -> Option<LossReason> {
        let expired = || {
            let reason = || LossReason::ALL[usize::from(self.expires_as.load(Ordering::Relaxed))].clone();
            (self.valid_until() <= clock::now()).then(reason)
        };
        self.lost.get().cloned().or_else(expired)
    }

    /// Tells everybody interested, once. Callbacks run here: they must be quick and must not call back into the client.
    pub(crate) fn lose(&self, reason: LossReason) {
        if self.lost.set(reason).is_err() {
            return;
        }
        self.valid_until.store(0, Ordering::Release);
        let Interested { wakers, callbacks, .. } = std::mem::take(&mut *locked(&self.interested));
        wakers.into_iter().for_each(Waker::wake);
        if let Some(reason) = self.lost.get() {
            callbacks.into_iter().for_each(|callback| callback(reason));
        }
    }

    /// It was released: nobody will ever be told of a loss.
    pub(crate) fn end(&self) {
        let mut interested = locked(&self.interested);
        interested.over = true;
        interested.callbacks.clear();
    }

    pub(crate) fn poll_lost(&self, context: &Context<'_>) -> Poll<LossReason> {
        if let Some(reason) = self.lost.get() {
            return Poll::Ready(reason.clone());
        }
        let mut interested = locked(&self.interested);
        if !interested.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            interested.wakers.push(context.waker().clone());
        }
        drop(interested);
        self.lost.get().map_or(Poll::Pending, |reason| Poll::Ready(reason.clone()))
    }

    /// Has `callback` run when the hold is lost; at once if it is already.
    pub(crate) fn on_lost(&self, callback: Callback) {
        let mut interested = locked(&self.interested);
        match self.lost.get() {
            Some(reason) => {
                drop(interested);
                callback(reason);
            }
            None if interested.over => {}
            None => interested.callbacks.push(callback),
        }
    }
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hold").field("token", &self.token).field("lost", &self.lost).finish_non_exhaustive()
    }
}
