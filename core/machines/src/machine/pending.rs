//! What waits in a machine for an answer.

use std::sync::Arc;

use crate::protocol::AttemptId;
use crate::queue::{Ask, HoldId, OwnerId, Refusal, TaskId};
use crate::session::Silence;
use crate::time::Time;
use crate::token::Token;

/// What a task wants.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a> {
    /// What its queue is asked for. Tasks are found the quicker where their ids rise in the order in which they come.
    pub ask: Ask,
    /// What it shows of itself while it has the lock.
    pub card: &'a Arc<str>,
    /// Who wants it, where the caller says so.
    pub by: Option<OwnerId>,
    /// That one is known to hold nothing, so that nobody waits for it.
    pub holds_nothing: bool,
    /// Somebody else may release what that one holds.
    pub lenient: bool,
    /// It wants to take over what this one holds.
    pub secret: Option<AttemptId>,
    /// It wants to be served in order or not at all, where it wants an order.
    pub insists: bool,
    /// It only tries: that there is nobody at the store's address is an answer.
    pub hurries: bool,
}

/// A task that wants the lock.
#[derive(Clone)]
pub(super) struct Task<W> {
    pub(super) id: TaskId,
    pub(super) waiter: W,
    pub(super) since: Time,
    /// Somebody of this process had the lock, or asked for it, before.
    pub(super) behind: bool,
    /// It was said to wait.
    pub(super) said: bool,
    /// Whose it is, where the caller said so.
    pub(super) by: Option<OwnerId>,
    /// The same, where it may have to be found among those who wait without an end.
    pub(super) waits_as: Option<OwnerId>,
    /// Somebody else may release what that one holds.
    pub(super) lenient: bool,
    /// It wants to be served in order or not at all, where it wants an order.
    pub(super) insists: bool,
    /// It only tries: that there is nobody at the store's address is an answer.
    pub(super) hurries: bool,
    /// Its time limit passed; it is told this.
    pub(super) parts: Option<Refusal>,
}

/// What somebody wants of a hold, and has no answer to yet.
#[derive(Clone)]
pub(super) struct Wish<W> {
    pub(super) slot: u64,
    /// To hold more or less, not for longer.
    pub(super) changes: bool,
    /// When the store was silent for too long. What was asked of it may be done yet.
    pub(super) until: Time,
    pub(super) waiter: W,
}

/// A release whose outcome is not known yet.
#[derive(Clone)]
pub(super) struct Release<W> {
    pub(super) hold: HoldId,
    /// What it showed, for notices.
    pub(super) token: Option<Token>,
    /// The slot whose session will tell; `None` while it is the queue's to say.
    pub(super) asked: Option<u64>,
    /// The secret that is to have the lock.
    pub(super) heir: Option<AttemptId>,
    pub(super) waiter: W,
}

/// How the contender that was withdrawn last stood.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// What the store owed it.
    pub(super) silence: Option<Silence>,
    /// How many were ahead of it at most.
    pub(super) ahead: Option<u32>,
}
