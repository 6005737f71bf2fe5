//! The reference semantics of the `native` layout: what one lock's record does with each request.
//!
//! Pure, and the single source of truth. The memory store and SQLite run it as it stands; Redis runs the same rules as
//! Lua (`stores/redis/layouts/scripts`), compared with this file on random commands in every test run; the explorer
//! uses it as its model of a store.
//!
//! | request | lock free | held by the asker | held by another |
//! |---|---|---|---|
//! | acquire, queue empty | granted, fresh tokens | granted again: same tokens, lease renewed | queued, or told who is first |
//! | acquire, queue not empty | asker queued, head granted | granted again | queued |
//! | renew | gone | lease extended, never shortened | gone |
//! | release | expired | head of the queue granted for its claim, or free | stolen |
//! | undo | entry removed | as release | entry removed |
//! | pass | gone | given to whom the holder names, fresh tokens | gone |
//!
//! A lease that has run out counts as free, but its holder may still renew it while nobody else was granted the lock.
//!
//! Whoever does not renew a claim loses all places of its client, which is told ([`StoreEvent::Dropped`]). Where a hold
//! that was no claim ends by a hand-off, those who wait may sleep until it would have ended; so the next in line is
//! told of the claim ([`StoreEvent::Next`]).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::hex;
use crate::protocol::{AttemptId, InboxId, StoreEvent, Terms};
use crate::rank::Rank;
use crate::time::StoreTime;

/// Fencing tokens set aside by every grant for hand-offs inside the holder's process.
pub const BLOCK: u64 = 64;

/// Who asks, as the store keeps it: all that a hand-off needs to know of a waiter. 56 characters: attempt (32 hex
/// digits), inbox (16 hex digits), claim in milliseconds (8 digits).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claimant {
    /// Owner and incarnation.
    pub attempt: AttemptId,
    /// Where it listens.
    pub inbox: InboxId,
    /// How long a hand-off to it lasts until its first renewal.
    pub claim: Duration,
}

impl Claimant {
    /// The claimant of an attempt's terms.
    pub fn of(terms: &Terms) -> Self {
        Claimant { attempt: terms.attempt, inbox: terms.inbox, claim: terms.claim }
    }

    /// Whether it is a [secret](Terms::of_secret), which holds for nobody yet.
    pub fn is_secret(&self) -> bool {
        self.inbox == InboxId::NONE && self.claim.is_zero()
    }

    /// Reads the text kept at a store; `None` for anything that is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let (attempt, rest) = text.as_bytes().split_first_chunk::<32>()?;
        let (inbox, claim) = rest.split_first_chunk::<16>()?;
        if claim.len() != 8 {
            return None;
        }
        Some(Claimant {
            attempt: AttemptId(hex::read(attempt)?),
            inbox: InboxId(u64::try_from(hex::read(inbox)?).ok()?),
            claim: Duration::from_millis(std::str::from_utf8(claim).ok()?.parse().ok()?),
        })
    }
}

impl Claimant {
    /// As it is written to a store.
    pub fn text(&self) -> Arc<str> {
        std::str::from_utf8(&self.digits()).unwrap_or_default().into()
    }

    fn digits(&self) -> [u8; 56] {
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(&self.attempt.0.to_be_bytes());
        bytes[16..].copy_from_slice(&self.inbox.0.to_be_bytes());
        let mut text = [b'0'; 56];
        hex::write(&bytes, &mut text);
        let mut claim = self.claim.as_millis() as u64;
        for digit in text[48..].iter_mut().rev() {
            *digit = b'0' + (claim % 10) as u8;
            claim /= 10;
        }
        text
    }
}

impl fmt::Display for Claimant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.digits()).unwrap_or_default())
    }
}

/// One lock's record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LockCell {
    /// Who holds it, if anybody.
    pub hold: Option<Hold>,
    /// The highest token ever set aside.
    pub last: u64,
}

/// A grant in force, or run out and not yet noticed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    /// The holder.
    pub owner: Claimant,
    /// Since when it holds.
    pub since: StoreTime,
    /// The end of its lease.
    pub expires: StoreTime,
    /// First token of its block; the last one is the cell's `last`.
    pub first: u64,
    /// Granted by hand-off and not renewed since: its holder may be gone.
    pub claimed: bool,
    /// What it says of itself.
    pub card: String,
}

/// A place in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Whose it is.
    pub waiter: Waiter,
    /// How urgent it is.
    pub rank: Rank,
    /// Since when it is waited on.
    pub since: StoreTime,
}

/// Somebody who waits, or would.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Waiter {
    /// Who waits.
    pub owner: Claimant,
    /// The card it will hold the lock under.
    pub card: String,
}

/// The queue of one lock, in order of arrival within each [rank](Rank). Where it is kept is the store's affair.
pub trait LockStorage {
    /// Why keeping it can fail.
    type Error;
    /// Adds `place` at the end of its rank unless its attempt has one already; how many are ahead of it at most: those
    /// of its rank, and all of others.
    fn join(&mut self, place: &Place) -> Result<u32, Self::Error>;
    /// Who is served next, and stays there: of the first of each rank the one whose [turn](Rank::turn) it is.
    fn first(&mut self) -> Result<Option<Waiter>, Self::Error>;
    /// How many wait.
    fn count(&mut self) -> Result<u32, Self::Error>;
    /// The first `most` who wait, as they would be served.
    fn list(&mut self, most: usize) -> Result<Vec<Place>, Self::Error>;
    /// Takes who is served next.
    fn pop(&mut self) -> Result<Option<Waiter>, Self::Error>;
    /// Whether `attempt` stands in the line.
    fn contains(&mut self, attempt: AttemptId) -> Result<bool, Self::Error>;
    /// Takes `attempt` out of the line if it is there.
    fn leave(&mut self, attempt: AttemptId) -> Result<(), Self::Error>;
    /// Takes out everybody of `inbox`.
    fn drop_inbox(&mut self, inbox: InboxId) -> Result<(), Self::Error>;
}

/// What surrounds one request: the store's clock, who can be reached, and what is to be pushed once it is done.
pub struct Surroundings<'a> {
    /// The store's clock.
    pub now: StoreTime,
    /// Tokens must be at least this; the clock itself where it is one, so that they rise though a record is forgotten.
    pub token_floor: u64,
    /// Whether somebody listens at an inbox. Only speeds things up: a grant to a dead inbox ends with its claim.
    pub alive: &'a dyn Fn(InboxId) -> bool,
    /// What to push, and where to, when the change is kept.
    pub pushes: Vec<(InboxId, StoreEvent)>,
}

impl Surroundings<'_> {
    /// The client at `inbox` lost its places in a queue, if it had `any` there, because it did not renew a claim.
    pub(crate) fn tell_dropped(&mut self, inbox: InboxId, any: bool) {
        if any {
            self.pushes.push((inbox, StoreEvent::Dropped));
        }
    }

    /// The first in line is told that a claim runs.
    pub(crate) fn tell_next(&mut self, next: &Claimant) {
        self.pushes.push((next.inbox, StoreEvent::Next { tail: next.attempt.tail() }));
    }
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("now", &self.now).field("pushes", &self.pushes).finish_non_exhaustive()
    }
}

/// An acquire request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquire {
    /// Who asks, and the card it will hold the lock under.
    pub asker: Waiter,
    /// How long an answered grant lasts.
    pub ttl: Duration,
    /// Do nothing when the store's clock has passed this.
    pub not_after: StoreTime,
    /// Whether to queue.
    pub wait: bool,
    /// How urgent its place in the queue then is.
    pub rank: Rank,
    /// An earlier holder to give back first, and the highest token it used.
    pub prev: Option<(Claimant, u64)>,
}

/// The answer to an acquire request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Acquired {
    /// Granted; the block is `first..first + BLOCK`.
    Granted { first: u64, prev: Given },
    /// Somebody else holds it, for this long yet.
    Held { remaining: Duration, prev: Given },
    /// In the queue, with this many ahead.
    Queued { remaining: Duration, position: u32, prev: Given },
    /// Came too late.
    Late,
}

/// What became of an attempt that was to be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Given {
    /// It was the holder until now; or there was none to give back.
    Back,
    /// It was not the holder any more, and nobody else was.
    Expired,
    /// Somebody else holds the lock.
    Stolen,
    /// The request is a repetition: an earlier copy of it may have given it back.
    Unknown,
}

/// A request that passes the lock on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pass {
    /// Who shall have it, and the card it will hold the lock under.
    pub to: Waiter,
    /// Who must have it now.
    pub from: Claimant,
    /// How long the lease then lasts.
    pub ttl: Duration,
    /// Do nothing when the store's clock has passed this.
    pub not_after: StoreTime,
}

/// The answer to a request that passes the lock on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Passed {
    /// It has it; the block is `first..first + BLOCK`.
    Granted { first: u64 },
    /// Whoever was to give it does not hold the lock.
    Gone,
    /// Came too late.
    Late,
}

/// The answer to a release.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Release {
    /// It was the holder until now.
    Released,
    /// Nobody holds the lock.
    Expired,
    /// Somebody else holds it: their card.
    Stolen(String),
}

impl Acquire {
    fn place(&self, now: StoreTime) -> Place {
        Place { waiter: self.asker.clone(), rank: self.rank, since: now }
    }
}

impl LockCell {
    /// Asks for the lock.
    pub fn acquire<L: LockStorage>(
        &mut self,
        line: &mut L,
        env: &mut Surroundings<'_>,
        ask: Acquire,
    ) -> Result<Acquired, L::Error> {
        if env.now > ask.not_after {
            return Ok(Acquired::Late);
        }
        let me = &ask.asker.owner;
        if self.hold.as_ref().is_some_and(|hold| hold.owner == *me) {
            return Ok(self.grant_again(env, &ask));
        }
        let prev = self.give_back_for(line, &ask)?;
        self.forget_expired(line, env)?;
        if self.hold.is_none() && line.count()? > 0 {
            if ask.wait {
                line.join(&ask.place(env.now))?;
            }
            self.hand_over(line, env)?;
        }
        if self.hold.is_none() {
            let first = self.grant(env, &ask.asker, ask.ttl, false);
            return Ok(Acquired::Granted { first, prev });
        }
        if self.hold.as_ref().is_some_and(|hold| hold.owner == *me) {
            // The asker was the head of the queue. It gets an answer instead of a push, and with it the whole ttl.
            env.pushes.pop();
            return Ok(match self.grant_again(env, &ask) {
                Acquired::Granted { first, .. } => Acquired::Granted { first, prev },
                other => other,
            });
        }
        let remaining = self.remaining(env.now);
        if !ask.wait {
            return Ok(Acquired::Held { remaining, prev });
        }
        let position = line.join(&ask.place(env.now))?;
        Ok(Acquired::Queued { remaining, position, prev })
    }

    /// Extends the lease of `owner` to at least `ttl` from now; whether it still is the holder.
    pub fn renew(&mut self, env: &Surroundings<'_>, owner: &Claimant, ttl: Duration) -> bool {
        match &mut self.hold {
            Some(hold) if hold.owner == *owner => {
                hold.expires = hold.expires.max(env.now.after(ttl));
                hold.claimed = false;
                true
            }
            _ => false,
        }
    }

    /// Gives the lock back: the head of the queue has it at once, for its claim.
    pub fn release<L: LockStorage>(
        &mut self,
        line: &mut L,
        env: &mut Surroundings<'_>,
        owner: &Claimant,
        used: u64,
    ) -> Result<Release, L::Error> {
        match &self.hold {
            Some(hold) if hold.owner == *owner => {
                self.free(used);
                self.hand_over(line, env)?;
                Ok(Release::Released)
            }
            Some(hold) => Ok(Release::Stolen(hold.card.clone())),
            None => Ok(Release::Expired),
        }
    }

    /// Gives the lock to another attempt, under fresh tokens, past everybody who waits. Asked again, it is the same
    /// answer.
    pub fn pass(&mut self, env: &Surroundings<'_>, pass: &Pass) -> Passed {
        if env.now > pass.not_after {
            return Passed::Late;
        }
        match &self.hold {
            Some(hold) if hold.owner == pass.to.owner => Passed::Granted { first: self.go_on(env, &pass.to, pass.ttl) },
            Some(hold) if hold.owner == pass.from => {
                Passed::Granted { first: self.grant(env, &pass.to, pass.ttl, false) }
            }
            _ => Passed::Gone,
        }
    }

    /// Takes `owner` out of the queue, and releases if it is the holder.
    pub fn undo<L: LockStorage>(
        &mut self,
        line: &mut L,
        env: &mut Surroundings<'_>,
        owner: &Claimant,
    ) -> Result<(), L::Error> {
        line.leave(owner.attempt)?;
        let last = self.last;
        self.release(line, env, owner, last).map(|_| ())
    }

    /// Takes the lock from whoever holds it under `token` (any of its block) and tells them; whether somebody did.
    pub fn break_hold<L: LockStorage>(
        &mut self,
        line: &mut L,
        env: &mut Surroundings<'_>,
        token: u64,
    ) -> Result<bool, L::Error> {
        let last = self.last;
        match &self.hold {
            Some(hold) if (hold.first..=last).contains(&token) => {
                env.pushes.push((hold.owner.inbox, StoreEvent::Broken { attempt: hold.owner.attempt }));
                self.hold = None;
                self.hand_over(line, env)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// How long the present lease still lasts.
    pub fn remaining(&self, now: StoreTime) -> Duration {
        let left = self.hold.as_ref().map_or(0, |hold| hold.expires.micros_since(now));
        Duration::from_micros(u64::try_from(left).unwrap_or(0))
    }

    fn give_back_for<L: LockStorage>(&mut self, line: &mut L, ask: &Acquire) -> Result<Given, L::Error> {
        let Some((prev, used)) = &ask.prev else { return Ok(Given::Back) };
        match &self.hold {
            Some(hold) if hold.owner == *prev => {
                self.free(*used);
                Ok(Given::Back)
            }
            _ if line.contains(ask.asker.owner.attempt)? => Ok(Given::Unknown),
            Some(_) => Ok(Given::Stolen),
            None => Ok(Given::Expired),
        }
    }

    fn free(&mut self, used: u64) {
        if let Some(hold) = self.hold.take() {
            self.last = self.last.min(used.max(hold.first));
        }
    }

    fn forget_expired<L: LockStorage>(&mut self, line: &mut L, env: &mut Surroundings<'_>) -> Result<(), L::Error> {
        if let Some(hold) = self.hold.take_if(|hold| hold.expires <= env.now)
            && hold.claimed
        {
            // It never even renewed its claim: its other waiters would each cost another claim.
            let (inbox, before) = (hold.owner.inbox, line.count()?);
            line.drop_inbox(inbox)?;
            env.tell_dropped(inbox, before != line.count()?);
        }
        Ok(())
    }

    fn hand_over<L: LockStorage>(&mut self, line: &mut L, env: &mut Surroundings<'_>) -> Result<(), L::Error> {
        while let Some(head) = line.pop()? {
            if (env.alive)(head.owner.inbox) {
                let first = self.grant(env, &head, head.owner.claim, true);
                let Claimant { attempt, inbox, .. } = head.owner;
                let push = StoreEvent::Granted { attempt, first, last: self.last, at: env.now };
                env.pushes.push((inbox, push));
                break;
            }
        }
        Ok(())
    }

    fn grant(&mut self, env: &Surroundings<'_>, to: &Waiter, lease: Duration, claimed: bool) -> u64 {
        let first = (self.last + 1).max(env.token_floor);
        self.last = first + BLOCK - 1;
        let expires = env.now.after(lease);
        self.hold =
            Some(Hold { owner: to.owner.clone(), since: env.now, expires, first, claimed, card: to.card.clone() });
        first
    }

    fn grant_again(&mut self, env: &Surroundings<'_>, ask: &Acquire) -> Acquired {
        let prev = if ask.prev.is_some() { Given::Unknown } else { Given::Back };
        Acquired::Granted { first: self.go_on(env, &ask.asker, ask.ttl), prev }
    }

    /// The holder asks again: its lease goes on. One that has ended is a new one, under new tokens, since the record
    /// may be that of a replica that was promoted, and the lost master may have granted higher ones meanwhile.
    fn go_on(&mut self, env: &Surroundings<'_>, holder: &Waiter, ttl: Duration) -> u64 {
        match &self.hold {
            Some(hold) if hold.expires > env.now => {
                let first = hold.first;
                self.renew(env, &holder.owner, ttl);
                first
            }
            _ => self.grant(env, holder, ttl, false),
        }
    }
}
