//! What a machine is handed, and what it asks for.

use std::sync::Arc;
use std::time::Duration;

use super::effects::{Effects, Settled};
use super::pending::{Left, Release, Task};
use crate::error::{Error, Result};
use crate::lease::LossReason;
use crate::lent::Pool;
use crate::protocol::{AttemptId, Channel, InboxId, Layout, Protocol, Push, Traits};
use crate::queue::{self, HoldId, OwnerId, Refusal};
use crate::session::{self, Inbox};
use crate::share::Primitive;
use crate::time::Time;
use crate::token::Token;

/// What a machine's caller knows its own by: handed in with events, and handed out with effects.
pub trait Handles: 'static {
    /// Who gets the answer to what was asked. The default one is nobody.
    type Waiter: Clone + Default + std::fmt::Debug;
    /// What the caller knows a hold by.
    type Hold: Hold + std::fmt::Debug;
}

/// What the caller knows a hold by, from its grant to its end. The machine keeps it up to date.
pub trait Hold: Clone {
    /// What was just granted.
    fn new(held: Held) -> Self;
    /// What the machine knows it by.
    fn id(&self) -> HoldId;
    /// Whose it is, where the caller said so.
    fn by(&self) -> Option<OwnerId>;
    /// The token that it shows to what it protects, where the layout has tokens.
    fn shown(&self) -> Option<Token>;
    /// A change of how much is held raised the token that it shows.
    fn show(&mut self, token: u64);
    /// When it was granted.
    fn since(&self) -> Time;
    /// It lasts until then at least, and would end for the reason `expires_as`.
    fn prolong(&mut self, valid_until: Time, expires_as: &LossReason);
    /// Whether all its guards were forgotten, so that nothing renews it any more.
    fn abandon(&mut self, abandoned: bool);
    /// Why it is lost when its session says `reason`.
    fn reason(&self, reason: LossReason) -> LossReason;
}

/// A hold at the moment of its grant.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// What the machine knows it by.
    pub id: HoldId,
    /// What it was granted under, where the layout has tokens.
    pub token: Option<Token>,
    /// When it was granted.
    pub since: Time,
    /// Until when it lasts for now.
    pub valid_until: Time,
    /// Whose it is, where the caller said so.
    pub by: Option<OwnerId>,
}

/// What kind of thing a machine is for.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// As in [`Traits`], or the most that there is.
    pub block: u32,
    /// How its waiters are told.
    pub push: Push,
    /// Several may have it at once, each as a contender of its own.
    pub has_many_holders: bool,
    /// Whoever holds all of it keeps the others out: it is no semaphore, and no gate.
    pub is_of_holders: bool,
    /// As in [`Traits`].
    pub bound: bool,
}

impl Kind {
    /// What the lock that `layout` keeps under `key` is.
    pub fn of(layout: &dyn Layout, key: &Arc<str>) -> Self {
        let Traits { block, push, bound, .. } = layout.protocol(key.clone()).traits();
        let block = u32::try_from(block).unwrap_or(u32::MAX);
        let has_many_holders = layout.has_many_holders();
        let is_of_holders = layout.share().map_or(!has_many_holders, |share| share.primitive == Primitive::RwLock);
        Kind { block, push, has_many_holders, is_of_holders, bound }
    }
}

/// What a machine asks of its caller in the middle of a step.
pub trait Environment {
    /// The lock's name.
    fn name(&self) -> &Arc<str>;

    /// A protocol in its first state, for one session.
    fn protocol(&self) -> Box<dyn Protocol>;

    /// For how long a store may be silent.
    fn store_timeout(&self) -> Duration;

    /// An id for a new attempt.
    ///
    /// # Errors
    /// Where there is no randomness: an id that might be somebody else's is worse than none.
    fn mint(&mut self) -> Result<AttemptId>;

    /// Where this client hears what is pushed.
    ///
    /// # Errors
    /// As [`mint`](Self::mint), the first time.
    fn inbox_id(&mut self) -> Result<InboxId>;

    /// Whether pushes can reach this client.
    fn inbox(&self) -> Inbox;

    /// Until when this client's session at the store lives; zero where it has none.
    fn alive_until(&self) -> Time;

    /// A number for a slot, higher than all before.
    fn next_slot(&mut self) -> u64;

    /// The contender of `slot` is about to wait in order: what it is to know of the inbox, and whether it stands behind
    /// others who came before it and have no place yet. Then it is [let in](super::LockMachine::let_in) in its turn.
    fn line_up(&mut self, slot: u64) -> (Inbox, bool);

    /// Somebody waits under `attempt` for what several may hold.
    fn await_grant(&mut self, attempt: AttemptId);

    /// Nobody does any more.
    fn await_no_grant(&mut self, attempt: AttemptId);

    /// Listens on `channel` for the contender of `slot`; how far that is, with `Live` alone if it is to be overheard.
    /// Each change is told by [`Event::Channel`](super::Event::Channel).
    fn subscribe(&mut self, slot: u64, channel: Channel<'_>) -> Inbox;

    /// Listens no more for the contender of `slot`.
    fn unsubscribe(&mut self, slot: u64);
}

/// One step of a machine: when it happens, in which environment, and what comes of it.
pub struct Step<'a, H: Handles> {
    /// When it happens.
    pub now: Time,
    pub(super) effects: &'a mut Effects<H>,
    pub(super) env: &'a mut dyn Environment,
    pub(super) scratch: &'a mut Scratch<H>,
    /// The store pushed what led to it.
    pub(super) pushed: bool,
    /// How the contender that was withdrawn last stood.
    pub(super) withdrawn: Left,
}

impl<'a, H: Handles> Step<'a, H> {
    /// A step whose effects are added to what there is, in lent memory.
    pub fn new(effects: &'a mut Effects<H>, env: &'a mut dyn Environment, scratch: &'a mut Scratch<H>) -> Self {
        Step { now: effects.at, effects, env, scratch, pushed: false, withdrawn: Left::default() }
    }

    /// Refuses a task of which the machine is told nothing.
    pub fn refuse(&mut self, waiter: H::Waiter, error: Error) {
        self.effects.settle(waiter, Settled::Refused(Refusal::Failed(error)));
    }
}

impl<H: Handles> std::fmt::Debug for Step<'_, H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Step").field("now", &self.now).field("effects", &self.effects).finish_non_exhaustive()
    }
}

/// The memory in which a step gathers what it does. Whoever drives very many machines lends the same to each in turn,
/// so that a lock that is merely held keeps none.
pub struct Scratch<H: Handles> {
    pub(super) session: session::Scratch,
    pub(super) queue: queue::Scratch,
    pub(super) tasks: Pool<Task<H::Waiter>>,
    pub(super) releases: Pool<Release<H::Waiter>>,
}

impl<H: Handles> Default for Scratch<H> {
    fn default() -> Self {
        let (session, queue, tasks, releases) = Default::default();
        Scratch { session, queue, tasks, releases }
    }
}

impl<H: Handles> std::fmt::Debug for Scratch<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scratch")
    }
}
