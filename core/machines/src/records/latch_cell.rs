//! The reference semantics of a latch: what its record does with each request.
//!
//! Pure, and the single source of truth, as [`crate::lock_cell`] is for a lock: memory and SQLite run it as it stands,
//! Redis runs the same rules as Lua, compared with this file on random commands.
//!
//! | request | no record | counting | open (0) |
//! |---|---|---|---|
//! | wait | made with the asker's count; then as counting | told the count, and told when it opens if it wants to wait | open |
//! | leave | | the asker is told no more | |
//! | count down | made with the asker's count; then as counting | one less; at 0 everybody who waits is told | stays open |
//! | set | made with that count: yes | no | counts from there: yes |
//! | look | none | the count | 0 |
//!
//! A request that changes the count is done once: the attempt that asked is remembered for as long as a copy of it can
//! still come, and the copy is answered as if it were the first. A record goes when nobody used it for as long as its
//! users said; each wait that is still wanted is asked again within that time, and so keeps it.
//!
//! Source of the semantics: `java.util.concurrent.CountDownLatch`, with the record's beginning and end added.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use crate::gate::{CountOperation, LatchPlan};
use crate::lock_cell::{Claimant, Surroundings};
use crate::protocol::{AttemptId, InboxId, StoreEvent};
use crate::remembered::Remembered;
use crate::time::StoreTime;

/// One latch. Who waits, and who counted, lies beside it, in a [`LatchStorage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LatchCell {
    /// How many are still to come; none while there is no record.
    pub count: Option<u32>,
    /// When it goes, unless somebody uses it before.
    pub goes: StoreTime,
}

/// Those who wait for one latch, and the attempts that changed its count. Where they are kept is the store's affair.
pub trait LatchStorage {
    /// Why keeping them can fail.
    type Error;
    /// Whether `attempt` changed the count, and is to be remembered for longer than `now`.
    fn counted(&mut self, attempt: AttemptId, now: StoreTime) -> Result<bool, Self::Error>;
    /// Remembers until `until` that `attempt` changed the count, and may forget those whose time is over at `now`.
    fn remember(&mut self, attempt: AttemptId, until: StoreTime, now: StoreTime) -> Result<(), Self::Error>;
    /// Notes that `attempt` waits, and where it listens.
    fn join(&mut self, attempt: AttemptId, inbox: InboxId) -> Result<(), Self::Error>;
    /// Forgets that `attempt` waits.
    fn leave(&mut self, attempt: AttemptId) -> Result<(), Self::Error>;
    /// How many wait.
    fn waiting(&mut self) -> Result<u32, Self::Error>;
    /// Everybody who waits; they do so no more.
    fn take(&mut self) -> Result<Vec<(AttemptId, InboxId)>, Self::Error>;
    /// Forgets everything.
    fn clear(&mut self) -> Result<(), Self::Error>;
}

/// A request to know when the latch is open.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wait {
    /// Who asks.
    pub asker: Claimant,
    /// Do nothing when the store's clock has passed this.
    pub not_after: StoreTime,
    /// Whether to be told later.
    pub wait: bool,
    /// What it is if there is none.
    pub plan: LatchPlan,
}

/// The answer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waited {
    /// It is open.
    Open,
    /// So many are still to come, and the asker is told nothing.
    Shut(u32),
    /// So many are still to come; the asker is told when nobody is.
    Told(u32),
    /// Came too late.
    Late,
}

/// A request to change the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CountChange {
    /// What tells it from every other one, and a copy of it from a second one.
    pub attempt: AttemptId,
    /// Do nothing when the store's clock has passed this.
    pub not_after: StoreTime,
    /// For how long a copy of it may come after it.
    pub copies: Duration,
    /// What to do.
    pub operation: CountOperation,
    /// What it is if there is none.
    pub plan: LatchPlan,
}

/// The answer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Changed {
    /// So many are still to come.
    Left(u32),
    /// It is counting, so nothing was set.
    Refused,
    /// Came too late.
    Late,
}

impl LatchCell {
    /// Asks whether it is open.
    pub fn wait<S: LatchStorage>(
        &mut self,
        storage: &mut S,
        env: &Surroundings<'_>,
        ask: &Wait,
    ) -> Result<Waited, S::Error> {
        if env.now > ask.not_after {
            return Ok(Waited::Late);
        }
        self.end_if_over(storage, env.now)?;
        let count = self.begin(env.now, ask.plan);
        if count == 0 {
            return Ok(Waited::Open);
        }
        if !ask.wait {
            return Ok(Waited::Shut(count));
        }
        storage.join(ask.asker.attempt, ask.asker.inbox)?;
        Ok(Waited::Told(count))
    }

    /// Wants to be told no more.
    pub fn leave<S: LatchStorage>(
        &mut self,
        storage: &mut S,
        env: &Surroundings<'_>,
        attempt: AttemptId,
    ) -> Result<(), S::Error> {
        self.end_if_over(storage, env.now)?;
        storage.leave(attempt)
    }

    /// Counts down, or sets the count.
    pub fn change<S: LatchStorage>(
        &mut self,
        storage: &mut S,
        env: &mut Surroundings<'_>,
        change: &CountChange,
    ) -> Result<Changed, S::Error> {
        if env.now > change.not_after {
            return Ok(Changed::Late);
        }
        self.end_if_over(storage, env.now)?;
        let known = storage.counted(change.attempt, env.now)?;
        let is_counting = self.count.is_some_and(|count| count > 0);
        if change.operation == CountOperation::Set && is_counting && !known {
            return Ok(Changed::Refused);
        }
        // It is not forgotten before a copy can come, which would make it anew.
        let idle = change.plan.idle.max(change.copies);
        let mut count = self.begin(env.now, LatchPlan { idle, ..change.plan });
        if !known {
            storage.remember(change.attempt, env.now.after(change.copies), env.now)?;
            count = match change.operation {
                CountOperation::Set => change.plan.count,
                CountOperation::Down => self.count_down(storage, env, count)?,
            };
            self.count = Some(count);
        }
        Ok(Changed::Left(count))
    }

    /// How many are still to come; none where there is no record.
    pub fn look(&self, now: StoreTime) -> Option<u32> {
        self.count.filter(|_| now < self.goes)
    }

    fn count_down<S: LatchStorage>(
        &self,
        storage: &mut S,
        env: &mut Surroundings<'_>,
        count: u32,
    ) -> Result<u32, S::Error> {
        if count == 1 {
            for (attempt, inbox) in storage.take()? {
                env.pushes.push((inbox, StoreEvent::Granted { attempt, first: 1, last: 1, at: env.now }));
            }
        }
        Ok(count.saturating_sub(1))
    }

    /// Makes the record if there is none, and keeps it; its count.
    fn begin(&mut self, now: StoreTime, plan: LatchPlan) -> u32 {
        self.goes = self.goes.max(now.after(plan.idle));
        *self.count.get_or_insert(plan.count)
    }

    fn end_if_over<S: LatchStorage>(&mut self, storage: &mut S, now: StoreTime) -> Result<(), S::Error> {
        if self.count.is_none() || self.look(now).is_some() {
            return Ok(());
        }
        *self = LatchCell::default();
        storage.clear()
    }
}

/// A [`LatchStorage`] in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LatchInMemory {
    /// Who waits, and where each listens.
    pub waiting: BTreeMap<AttemptId, InboxId>,
    /// Who changed the count.
    pub counted: Remembered<()>,
}

impl LatchStorage for LatchInMemory {
    type Error = Infallible;

    fn counted(&mut self, attempt: AttemptId, now: StoreTime) -> Result<bool, Infallible> {
        Ok(self.counted.recall(attempt, now).is_some())
    }

    fn remember(&mut self, attempt: AttemptId, until: StoreTime, now: StoreTime) -> Result<(), Infallible> {
        self.counted.remember(attempt, (), until, now);
        Ok(())
    }

    fn join(&mut self, attempt: AttemptId, inbox: InboxId) -> Result<(), Infallible> {
        self.waiting.insert(attempt, inbox);
        Ok(())
    }

    fn leave(&mut self, attempt: AttemptId) -> Result<(), Infallible> {
        self.waiting.remove(&attempt);
        Ok(())
    }

    fn waiting(&mut self) -> Result<u32, Infallible> {
        Ok(u32::try_from(self.waiting.len()).unwrap_or(u32::MAX))
    }

    fn take(&mut self) -> Result<Vec<(AttemptId, InboxId)>, Infallible> {
        Ok(std::mem::take(&mut self.waiting).into_iter().collect())
    }

    fn clear(&mut self) -> Result<(), Infallible> {
        *self = LatchInMemory::default();
        Ok(())
    }
}
