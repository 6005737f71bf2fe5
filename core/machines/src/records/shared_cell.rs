//! The reference semantics of a shared record: what a read/write lock's or a semaphore's record does with each request.
//!
//! Pure, and the single source of truth, as [`crate::lock_cell`] is for a lock: memory and SQLite run it as it stands,
//! Redis runs the same rules as Lua, compared with this file on random commands; the explorer uses it as its model of a
//! store.
//!
//! A record has room for so many *units*. A holder of a semaphore has as many as it took permits, a reader one, a
//! writer all. Each holder has a lease, a token and a card of its own.
//!
//! | request | asker holds already | it fits, and overtakes nobody it must not | else |
//! |---|---|---|---|
//! | acquire | granted again: same token, lease renewed | granted, fresh token | queued, or told when to ask again |
//! | renew | lease extended, never shortened | | gone |
//! | change to fewer units | same token; the queue is served | | gone |
//! | change to more units | | fresh token | refused, lease renewed all the same |
//! | release | the queue is served | | expired |
//! | undo | entry removed, and as release | | entry removed |
//! | resize | the queue is served; who holds keeps what it has | | |
//!
//! **Order.** Whoever waits in order (`in_order`: every reader and writer, and takers of permits that asked for `fair`)
//! is overtaken by nobody. So a read waits for an earlier write and a write for anything earlier, and no writer
//! starves. The others are passed over while too little is free for them, by requests that need less; of those who
//! wait, only the first [`LOOK`] are looked at.
//!
//! A lease that has run out counts until somebody needs to know; until then its holder may still renew it.
//!
//! Source of the rule for reads and writes: the shared locks of the ZooKeeper recipes, with one record in the place of
//! nodes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use crate::in_order::InOrder;
use crate::lock_cell::{Claimant, Surroundings, Waiter};
use crate::protocol::{AttemptId, InboxId, StoreEvent};
use crate::share::Primitive;
use crate::time::StoreTime;

/// How many of those who wait are looked at, from the first: what a release may cost.
pub const LOOK: u32 = 16;

/// One record. Holders and queue lie beside it, in a [`SharedStorage`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SharedCell {
    /// What it is of; none while nobody used it.
    pub primitive: Option<Primitive>,
    /// How many units there are.
    pub capacity: u32,
    /// It was resized: its size is not what the next to find it idle says.
    pub resized: bool,
    /// How many units are held. More than there are, while it is shrinking.
    pub used: u32,
    /// The highest token ever granted.
    pub last: u64,
    /// No lease ends before this. A bound: renewals do not move it.
    pub soonest: StoreTime,
}

/// A grant in force, or run out and not yet noticed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The holder.
    pub owner: Claimant,
    /// How many units it has.
    pub units: u32,
    /// Its token.
    pub token: u64,
    /// Since when it holds.
    pub since: StoreTime,
    /// The end of its lease.
    pub expires: StoreTime,
    /// Granted by hand-off and not renewed since: it may be gone.
    pub claimed: bool,
    /// What it says of itself.
    pub card: String,
}

/// Who wants units, and how it waits for them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seeker {
    /// Who asks, and its card.
    pub who: Waiter,
    /// How many units it wants.
    pub units: u32,
    /// Whether nobody may overtake it.
    pub in_order: bool,
}

/// The holders and the queue of one record. Where they are kept is the store's affair.
pub trait SharedStorage {
    /// Why keeping them can fail.
    type Error;
    /// The hold of `attempt`.
    fn holder(&mut self, attempt: AttemptId) -> Result<Option<Holder>, Self::Error>;
    /// Every hold, by token.
    fn holders(&mut self) -> Result<Vec<Holder>, Self::Error>;
    /// Keeps `holder`, in the place of its attempt's earlier state.
    fn keep(&mut self, holder: &Holder) -> Result<(), Self::Error>;
    /// Forgets the hold of `attempt`.
    fn forget(&mut self, attempt: AttemptId) -> Result<(), Self::Error>;
    /// Adds `seeker` at the queue's end unless its attempt is in the queue already; how many are ahead of it.
    fn join(&mut self, seeker: &Seeker) -> Result<u32, Self::Error>;
    /// How many wait.
    fn waiting(&mut self) -> Result<u32, Self::Error>;
    /// The first `most` who wait, in the order in which they came.
    fn list(&mut self, most: usize) -> Result<Vec<Seeker>, Self::Error>;
    /// Who waits behind `ahead` others.
    fn nth(&mut self, ahead: u32) -> Result<Option<Seeker>, Self::Error>;
    /// Takes `attempt` out of the queue if it is there.
    fn leave(&mut self, attempt: AttemptId) -> Result<(), Self::Error>;
    /// Takes everybody of `inbox` out of the queue.
    fn drop_inbox(&mut self, inbox: InboxId) -> Result<(), Self::Error>;
}

/// An acquire request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquire {
    /// Who asks, and for how much.
    pub asker: Seeker,
    /// Of what.
    pub primitive: Primitive,
    /// How many units there are, if it is the first to use the record.
    pub capacity: u32,
    /// How long an answered grant lasts.
    pub ttl: Duration,
    /// Do nothing when the store's clock has passed this.
    pub not_after: StoreTime,
    /// Whether to queue.
    pub wait: bool,
}

/// The answer to an acquire request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Acquired {
    /// Granted, under this token.
    Granted(u64),
    /// There is no room; no lease ends earlier than after this.
    Held(Duration),
    /// In the queue, with this many ahead.
    Queued { remaining: Duration, position: u32 },
    /// Came too late.
    Late,
    /// There are only so many units, so that it would wait for ever.
    TooMany(u32),
}

/// A request to hold more or fewer units.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    /// The holder.
    pub owner: Claimant,
    /// The token it holds under, as far as it knows: an older change that comes late names another one.
    pub token: u64,
    /// How many units it wants to have.
    pub units: u32,
    /// Until when its lease is to last at least, from now.
    pub ttl: Duration,
    /// Do nothing when the store's clock has passed this.
    pub not_after: StoreTime,
}

/// The answer to a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Changed {
    /// It has as many as it wants, under this token.
    Done(u64),
    /// Others hold what it wants.
    Refused,
    /// It holds nothing.
    Gone,
    /// Came too late.
    Late,
}

impl SharedCell {
    /// Asks for units.
    pub fn acquire<S: SharedStorage>(
        &mut self,
        storage: &mut S,
        env: &mut Surroundings<'_>,
        ask: &Acquire,
    ) -> Result<Acquired, S::Error> {
        if env.now > ask.not_after {
            return Ok(Acquired::Late);
        }
        let Seeker { who, units, .. } = &ask.asker;
        if let Some(mut mine) = storage.holder(who.owner.attempt)? {
            if mine.expires <= env.now {
                // As of a lock: what has ended is granted anew.
                (mine.token, mine.since) = (self.next_token(env), env.now);
            }
            prolong(&mut mine, env, ask.ttl);
            storage.keep(&mine)?;
            return Ok(Acquired::Granted(mine.token));
        }
        self.forget_expired(storage, env)?;
        self.begin(storage, ask.primitive, ask.capacity)?;
        if *units > self.capacity {
            return Ok(Acquired::TooMany(self.capacity));
        }
        let served = self.serve(storage, env, Some((who.owner.attempt, ask.ttl)))?;
        if let Some(token) = served.asker {
            return Ok(Acquired::Granted(token));
        }
        if served.all && self.has_room_for(*units) {
            return Ok(Acquired::Granted(self.grant(storage, env, &ask.asker, ask.ttl, false)?));
        }
        let remaining = self.remaining(env.now);
        if !ask.wait {
            return Ok(Acquired::Held(remaining));
        }
        let position = storage.join(&ask.asker)?;
        Ok(Acquired::Queued { remaining, position })
    }

    /// Extends the lease of `owner` to at least `ttl` from now; whether it still holds.
    pub fn renew<S: SharedStorage>(
        &mut self,
        storage: &mut S,
        env: &Surroundings<'_>,
        owner: &Claimant,
        ttl: Duration,
    ) -> Result<bool, S::Error> {
        let Some(mut mine) = storage.holder(owner.attempt)? else { return Ok(false) };
        prolong(&mut mine, env, ttl);
        storage.keep(&mine)?;
        Ok(true)
    }

    /// Gives a holder more units, if they are free, or takes some back: in one step, so that nobody comes in between.
    pub fn change<S: SharedStorage>(
        &mut self,
        storage: &mut S,
        env: &mut Surroundings<'_>,
        change: &Change,
    ) -> Result<Changed, S::Error> {
        if env.now > change.not_after {
            return Ok(Changed::Late);
        }
        let Some(mut mine) = storage.holder(change.owner.attempt)? else { return Ok(Changed::Gone) };
        prolong(&mut mine, env, change.ttl);
        storage.keep(&mine)?;
        if mine.units == change.units {
            return Ok(Changed::Done(mine.token));
        }
        if mine.token != change.token {
            return Ok(Changed::Refused);
        }
        self.forget_expired(storage, env)?;
        let others = self.used.saturating_sub(mine.units);
        if change.units > mine.units {
            if others.saturating_add(change.units) > self.capacity {
                return Ok(Changed::Refused);
            }
            mine.token = self.next_token(env);
        }
        mine.units = change.units;
        self.used = others.saturating_add(mine.units);
        storage.keep(&mine)?;
        self.serve(storage, env, None)?;
        Ok(Changed::Done(mine.token))
    }

    /// Gives back what `owner` holds, if it does.
    pub fn release<S: SharedStorage>(
        &mut self,
        storage: &mut S,
        env: &mut Surroundings<'_>,
        owner: &Claimant,
    ) -> Result<bool, S::Error> {
        let Some(mine) = storage.holder(owner.attempt)? else { return Ok(false) };
        self.end_early(storage, env, &mine)?;
        Ok(true)
    }

    /// Takes `owner` out of the queue, and releases if it holds. Whoever waited behind it may be next.
    pub fn undo<S: SharedStorage>(
        &mut self,
        storage: &mut S,
        env: &mut Surroundings<'_>,
        owner: &Claimant,
    ) -> Result<(), S::Error> {
        storage.leave(owner.attempt)?;
        if !self.release(storage, env, owner)? {
            self.serve(storage, env, None)?;
        }
        Ok(())
    }

    /// Ends the hold with `token` and tells its holder; whether there was one.
    pub fn break_hold<S: SharedStorage>(
        &mut self,
        storage: &mut S,
        env: &mut Surroundings<'_>,
        token: u64,
    ) -> Result<bool, S::Error> {
        let Some(theirs) = storage.holders()?.into_iter().find(|holder| holder.token == token) else {
            return Ok(false);
        };
        env.pushes.push((theirs.owner.inbox, StoreEvent::Broken { attempt: theirs.owner.attempt }));
        self.end_early(storage, env, &theirs)?;
        Ok(true)
    }

    /// Gives the record another size, which stays. Who holds keeps what it has: while that is more than there is now,
    /// nobody is let in.
    pub fn resize<S: SharedStorage>(
        &mut self,
        storage: &mut S,
        env: &mut Surroundings<'_>,
        primitive: Primitive,
        capacity: u32,
    ) -> Result<(), S::Error> {
        self.primitive = Some(primitive);
        self.capacity = capacity;
        self.resized = true;
        self.serve(storage, env, None)?;
        Ok(())
    }

    /// How long certainly no lease ends.
    pub fn remaining(&self, now: StoreTime) -> Duration {
        let left = if self.used == 0 { 0 } else { self.soonest.micros_since(now) };
        Duration::from_micros(u64::try_from(left).unwrap_or(0))
    }

    /// Whoever finds it idle says how large it is, unless it was resized.
    fn begin<S: SharedStorage>(
        &mut self,
        storage: &mut S,
        primitive: Primitive,
        capacity: u32,
    ) -> Result<(), S::Error> {
        self.primitive = Some(primitive);
        if !self.resized && self.used == 0 && storage.waiting()? == 0 {
            self.capacity = capacity;
        }
        Ok(())
    }

    fn has_room_for(&self, units: u32) -> bool {
        self.used.saturating_add(units) <= self.capacity
    }

    fn forget_expired<S: SharedStorage>(
        &mut self,
        storage: &mut S,
        env: &mut Surroundings<'_>,
    ) -> Result<(), S::Error> {
        if self.used == 0 || env.now < self.soonest {
            return Ok(());
        }
        let (over, on): (Vec<_>, Vec<_>) = storage.holders()?.into_iter().partition(|holder| holder.expires <= env.now);
        for holder in &over {
            self.end(storage, holder)?;
            if holder.claimed {
                // It never even renewed its claim: its other waiters would each cost another claim.
                let (inbox, before) = (holder.owner.inbox, storage.waiting()?);
                storage.drop_inbox(inbox)?;
                env.tell_dropped(inbox, before != storage.waiting()?);
            }
        }
        self.soonest = on.iter().map(|holder| holder.expires).min().unwrap_or_default();
        Ok(())
    }

    /// Ends a hold before its time. Those who wait may sleep until it would have ended; where a hand-off follows that
    /// was no claim, the first of them looks after it.
    fn end_early<S: SharedStorage>(
        &mut self,
        storage: &mut S,
        env: &mut Surroundings<'_>,
        holder: &Holder,
    ) -> Result<(), S::Error> {
        let before = env.pushes.len();
        self.end(storage, holder)?;
        self.serve(storage, env, None)?;
        if !holder.claimed
            && env.pushes.len() > before
            && let Some(next) = storage.nth(0)?
        {
            env.tell_next(&next.who.owner);
        }
        Ok(())
    }

    fn end<S: SharedStorage>(&mut self, storage: &mut S, holder: &Holder) -> Result<(), S::Error> {
        self.used = self.used.saturating_sub(holder.units);
        storage.forget(holder.owner.attempt)
    }

    /// Lets in whoever of the queue fits. The asker, if it is among them, gets an answer in the place of a push, and
    /// with it its whole ttl.
    fn serve<S: SharedStorage>(
        &mut self,
        storage: &mut S,
        env: &mut Surroundings<'_>,
        asker: Option<(AttemptId, Duration)>,
    ) -> Result<Served, S::Error> {
        let mut served = Served { asker: None, all: true };
        if storage.waiting()? == 0 {
            return Ok(served);
        }
        self.forget_expired(storage, env)?;
        let mut ahead = 0;
        while self.used < self.capacity {
            let Some(next) = storage.nth(ahead)? else { return Ok(served) };
            if ahead == LOOK {
                break;
            }
            let Claimant { attempt, inbox, claim } = next.who.owner;
            let asks = asker.filter(|(asking, _)| *asking == attempt);
            let fits = self.has_room_for(next.units);
            // Who wants more than there is would keep those behind it waiting for ever, and who is not there for long.
            let hopeless = next.units > self.capacity;
            if hopeless || ((fits || next.in_order) && asks.is_none() && !(env.alive)(inbox)) {
                storage.leave(attempt)?;
                continue;
            }
            if !fits && next.in_order {
                break;
            }
            if !fits {
                ahead += 1;
                continue;
            }
            storage.leave(attempt)?;
            let token = self.grant(storage, env, &next, asks.map_or(claim, |(_, ttl)| ttl), asks.is_none())?;
            match asks {
                Some(_) => served.asker = Some(token),
                None => {
                    let push = StoreEvent::Granted { attempt, first: token, last: token, at: env.now };
                    env.pushes.push((inbox, push));
                }
            }
        }
        served.all = storage.nth(ahead)?.is_none();
        Ok(served)
    }

    fn next_token(&mut self, env: &Surroundings<'_>) -> u64 {
        self.last = (self.last + 1).max(env.token_floor);
        self.last
    }

    fn grant<S: SharedStorage>(
        &mut self,
        storage: &mut S,
        env: &Surroundings<'_>,
        to: &Seeker,
        lease: Duration,
        claimed: bool,
    ) -> Result<u64, S::Error> {
        let (token, expires) = (self.next_token(env), env.now.after(lease));
        self.soonest = if self.used == 0 { expires } else { self.soonest.min(expires) };
        self.used = self.used.saturating_add(to.units);
        let Waiter { owner, card } = to.who.clone();
        storage.keep(&Holder { owner, units: to.units, token, since: env.now, expires, claimed, card })?;
        Ok(token)
    }
}

/// Who of the queue was let in.
struct Served {
    /// The asker, under this token.
    asker: Option<u64>,
    /// Nobody is left in the queue who may not be overtaken.
    all: bool,
}

fn prolong(holder: &mut Holder, env: &Surroundings<'_>, ttl: Duration) {
    holder.expires = holder.expires.max(env.now.after(ttl));
    holder.claimed = false;
}

/// A [`SharedStorage`] in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SharedInMemory {
    /// Who holds.
    pub holders: BTreeMap<AttemptId, Holder>,
    /// Who waits.
    pub line: InOrder<Seeker>,
}

impl SharedStorage for SharedInMemory {
    type Error = Infallible;

    fn holder(&mut self, attempt: AttemptId) -> Result<Option<Holder>, Infallible> {
        Ok(self.holders.get(&attempt).cloned())
    }

    fn holders(&mut self) -> Result<Vec<Holder>, Infallible> {
        let mut all: Vec<_> = self.holders.values().cloned().collect();
        all.sort_by_key(|holder| holder.token);
        Ok(all)
    }

    fn keep(&mut self, holder: &Holder) -> Result<(), Infallible> {
        self.holders.insert(holder.owner.attempt, holder.clone());
        Ok(())
    }

    fn forget(&mut self, attempt: AttemptId) -> Result<(), Infallible> {
        self.holders.remove(&attempt);
        Ok(())
    }

    fn join(&mut self, seeker: &Seeker) -> Result<u32, Infallible> {
        Ok(self.line.join(seeker))
    }

    fn waiting(&mut self) -> Result<u32, Infallible> {
        Ok(self.line.len())
    }

    fn list(&mut self, most: usize) -> Result<Vec<Seeker>, Infallible> {
        Ok(self.line.iter().take(most).cloned().collect())
    }

    fn nth(&mut self, ahead: u32) -> Result<Option<Seeker>, Infallible> {
        Ok(self.line.get(ahead).cloned())
    }

    fn leave(&mut self, attempt: AttemptId) -> Result<(), Infallible> {
        self.line.leave(attempt);
        Ok(())
    }

    fn drop_inbox(&mut self, inbox: InboxId) -> Result<(), Infallible> {
        self.line.drop_inbox(inbox);
        Ok(())
    }
}
