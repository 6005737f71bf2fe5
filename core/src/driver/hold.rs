//! What a guard shares with the driver: until when the lock is held, and whether it was lost.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockwright_machines::machine::{self, Held};
use lockwright_machines::queue::{HoldId, OwnerId};

use crate::lease::LossReason;
use crate::metrics::position;
use crate::platform::clock;
use crate::platform::fence::Fence;
use crate::platform::mutex::locked;
use crate::time::Time;
use crate::token::Token;

type Callback = Box<dyn FnOnce(&LossReason) + Send>;

/// One hold of a lock, from its grant to its release or loss. Small: a client may have very many.
pub(crate) struct Hold {
    /// What its machine knows it by.
    pub(crate) id: HoldId,
    /// The token that it shows to what it protects: rises when a reader becomes the writer; 0 where the layout has
    /// none.
    shown: AtomicU64,
    epoch: u64,
    pub(crate) since: Time,
    /// Whose it is, where the face said so; 0 where it did not.
    by: u64,
    /// Its guard was forgotten, or nobody will have one.
    abandoned: AtomicBool,
    valid_until: AtomicU64,
    /// Why it was lost: one more than a position in [`LossReason::ALL`]; 0 while it is not.
    lost: AtomicU8,
    /// Why it is lost when it is not prolonged any more: a position there.
    expires_as: AtomicU8,
    /// Somebody asked for it back.
    wanted: AtomicBool,
    /// It was released: there is nothing to tell any more. Changes under the mutex below.
    over: AtomicBool,
    /// Who wants to be told of a loss, or that it is asked back.
    interest: Mutex<Option<Box<Interested>>>,
}

#[derive(Default)]
struct Interested {
    wakers: Vec<Waker>,
    callbacks: Vec<Callback>,
    /// Called when it is asked back.
    asked: Vec<Box<dyn FnOnce() + Send>>,
}

/// A hold as its machine and its guards have it.
#[derive(Clone, Debug)]
pub(crate) struct SharedHold(Arc<Hold>);

impl Deref for SharedHold {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.0
    }
}

/// What the machine of the lock keeps up to date.
impl machine::Hold for SharedHold {
    fn new(Held { id, token, since, valid_until, by }: Held) -> Self {
        let Token { epoch, n } = token.unwrap_or(Token::NONE);
        SharedHold(Arc::new(Hold {
            id,
            by: by.map_or(0, |owner| owner.0),
            abandoned: AtomicBool::new(false),
            shown: AtomicU64::new(n),
            epoch,
            since,
            valid_until: AtomicU64::new(valid_until.as_nanos()),
            lost: AtomicU8::new(0),
            expires_as: AtomicU8::new(0),
            wanted: AtomicBool::new(false),
            over: AtomicBool::new(false),
            interest: Mutex::default(),
        }))
    }

    fn id(&self) -> HoldId {
        self.id
    }

    fn by(&self) -> Option<OwnerId> {
        Hold::by(self)
    }

    fn shown(&self) -> Option<Token> {
        Hold::shown(self)
    }

    fn show(&mut self, token: u64) {
        self.shown.store(token, Ordering::Release);
    }

    fn since(&self) -> Time {
        self.since
    }

    fn prolong(&mut self, valid_until: Time, expires_as: &LossReason) {
        self.expires_as.store(position(expires_as), Ordering::Relaxed);
        self.valid_until.fetch_max(valid_until.as_nanos(), Ordering::AcqRel);
    }

    fn abandon(&mut self, abandoned: bool) {
        self.abandoned.store(abandoned, Ordering::Relaxed);
    }

    fn reason(&self, reason: LossReason) -> LossReason {
        self.why(reason)
    }
}

impl Hold {
    /// Whoever wanted it was gone when it was granted: it is given back once that is found, and kept from nobody.
    pub(crate) fn will_find_nobody(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// Whether nobody has a guard of it, or will have.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Why it is lost when its session says `reason`: what is abandoned has a limit that nobody set.
    fn why(&self, reason: LossReason) -> LossReason {
        match reason {
            LossReason::MaxHold if self.is_abandoned() => LossReason::Abandoned,
            other => other,
        }
    }

    /// Whose it is, where the face said so.
    pub(crate) fn by(&self) -> Option<OwnerId> {
        (self.by > 0).then_some(OwnerId(self.by))
    }

    /// The fencing token; [`Token::NONE`] where the layout has none.
    pub(crate) fn token(&self) -> Token {
        Token { epoch: self.epoch, n: self.shown.load(Ordering::Acquire) }
    }

    /// The same, if there is one.
    pub(crate) fn shown(&self) -> Option<Token> {
        Some(self.token()).filter(|token| *token != Token::NONE)
    }

    pub(crate) fn valid_until(&self) -> Time {
        Time::from_nanos(self.valid_until.load(Ordering::Acquire))
    }

    pub(crate) fn remaining(&self) -> Duration {
        match self.lost() {
            Some(_) => Duration::ZERO,
            None => self.valid_until().since(clock::now()),
        }
    }

    pub(crate) fn why_lost(&self) -> Option<LossReason> {
        let expired = || {
            let reason = || LossReason::ALL[usize::from(self.expires_as.load(Ordering::Relaxed))].clone();
            (self.valid_until() <= clock::now()).then(reason).map(|reason| self.why(reason))
        };
        self.lost().or_else(expired)
    }

    fn lost(&self) -> Option<LossReason> {
        let position = usize::from(self.lost.load(Ordering::Acquire)).checked_sub(1)?;
        LossReason::ALL.get(position).cloned()
    }

    /// Tells everybody interested, once. Callbacks run here: they must be quick and must not call back into the client.
    pub(crate) fn lose(&self, reason: LossReason, fence: Fence<'_>) {
        let position = position(&reason) + 1;
        if self.lost.compare_exchange(0, position, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return;
        }
        self.valid_until.store(0, Ordering::Release);
        let Some(interested) = locked(&self.interest).take() else { return };
        let Interested { wakers, callbacks, asked } = *interested;
        fence.run("a callback of on_release_requested", || drop(asked));
        wakers.into_iter().for_each(|waker| fence.run("a waker", || waker.wake()));
        callbacks.into_iter().for_each(|callback| fence.run("a callback of on_lost", || callback(&reason)));
    }

    /// It was released: nobody will ever be told of a loss. To be called where no mutex is held, since callbacks are
    /// dropped.
    pub(crate) fn end(&self, fence: Fence<'_>) {
        let before = {
            let mut interest = locked(&self.interest);
            self.over.store(true, Ordering::Relaxed);
            interest.take()
        };
        fence.run("a callback of on_lost", || drop(before));
    }

    /// Whether it was released, or exported.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(crate) fn poll_lost(&self, context: &Context<'_>) -> Poll<LossReason> {
        if let Some(reason) = self.lost() {
            return Poll::Ready(reason);
        }
        self.interested(|Interested { wakers, .. }| {
            if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                wakers.push(context.waker().clone());
            }
        });
        self.lost().map_or(Poll::Pending, Poll::Ready)
    }

    /// Has `callback` run when the hold is lost; at once if it is already.
    pub(crate) fn on_lost(&self, callback: Callback) {
        let mut callback = Some(callback);
        self.interested(|Interested { callbacks, .. }| callbacks.extend(callback.take()));
        if let (Some(reason), Some(callback)) = (self.lost(), callback) {
            callback(&reason);
        }
    }

    /// Somebody asks for it back: tells everybody interested, once. Callbacks run here, as of a loss.
    pub(crate) fn want(&self, fence: Fence<'_>) {
        let asked = {
            let mut interest = locked(&self.interest);
            self.wanted.store(true, Ordering::Release);
            interest.as_deref_mut().map(|interested| std::mem::take(&mut interested.asked))
        };
        for callback in asked.into_iter().flatten() {
            fence.run("a callback of on_release_requested", callback);
        }
    }

    /// Whether somebody asked for it back.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Has `callback` run when it is asked back; at once if it is already.
    pub(crate) fn on_wanted(&self, callback: Box<dyn FnOnce() + Send>) {
        let mut callback = Some(callback);
        self.interested(|interested| {
            if !self.is_wanted() {
                interested.asked.extend(callback.take());
            }
        });
        // One for what is lost or given back has nothing to wait for.
        if let Some(callback) = callback.filter(|_| self.is_wanted()) {
            callback();
        }
    }

    /// Adds to those who want to be told, if there may be anything to tell them yet.
    fn interested(&self, add: impl FnOnce(&mut Interested)) {
        let mut interest = locked(&self.interest);
        if self.lost().is_none() && !self.over.load(Ordering::Relaxed) {
            add(interest.get_or_insert_default());
        }
    }
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hold").field("token", &self.token()).field("lost", &self.lost()).finish_non_exhaustive()
    }
}
