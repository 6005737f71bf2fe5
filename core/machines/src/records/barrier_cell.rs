//! The reference semantics of a barrier: what its record does with each request.
//!
//! Pure, and the single source of truth, as [`crate::lock_cell`] is for a lock: memory and SQLite run it as it stands,
//! Redis runs the same rules as Lua, compared with this file on random commands.
//!
//! Each party that waits has a **party**, which lasts for its ttl and is renewed whenever it asks again. Once as many
//! places stand at one instant as there are parties, all of them pass: each is told its index, in the order of arrival,
//! and the generation, and the next generation begins with no party.
//!
//! | request | passed already | gave up | its place stands | neither |
//! |---|---|---|---|---|
//! | arrive | told the same again | gone | renewed; passes if it is the last | gets a place; passes if it is the last |
//! | leave | told that it passed | left | left | left |
//! | look | how many stand | | | |
//!
//! **All or none.** A party is counted once: that its attempt passed is remembered for longer than it may be silent and
//! still ask again (`memory`; whoever was silent for longer, because it was stopped, does not ask). That it gave up is
//! remembered as long: once `leave` was answered, no copy of an arrival that is still on its way takes a party.
//!
//! Whoever names another number of parties than those who stand there is refused. Where nobody stands, the newcomer's
//! number counts.
//!
//! Source of the semantics: `java.util.concurrent.CyclicBarrier`, with leases in the place of its broken state: a party
//! that is gone gives up its place, and whoever replaces it completes the others.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use crate::gate::MOST_PARTIES;
use crate::lock_cell::{Claimant, Surroundings};
use crate::protocol::{AttemptId, InboxId, StoreEvent};
use crate::remembered::Remembered;
use crate::time::StoreTime;
use crate::token::Token;

/// One barrier. Who stands there, and what became of others, lies beside it, in a [`BarrierStorage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BarrierCell {
    /// How many have to stand there at once, as those who stand there say.
    pub parties: u32,
    /// The last generation that passed; 0 for none.
    pub generation: u64,
    /// When it goes, unless somebody uses it before.
    pub goes: StoreTime,
}

/// How a party passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Passage {
    /// Which of its generation it was, in the order of arrival, from 0.
    pub index: u32,
    /// The generation, from 1.
    pub generation: u64,
}

impl Passage {
    /// Both as one number, which is what a grant carries.
    pub fn token(self) -> Token {
        Token::new(self.generation.saturating_mul(MOST_PARTIES.into()).saturating_add(self.index.into()))
    }

    /// What such a number says.
    pub fn of(token: Token) -> Self {
        let most = u64::from(MOST_PARTIES);
        // What is left after dividing by ten thousand fits.
        Passage { index: u32::try_from(token.n % most).unwrap_or(0), generation: token.n / most }
    }

    /// The passage of a party with this `index` in this `generation`, if there can be one.
    pub fn new(index: i64, generation: i64) -> Option<Self> {
        let index = u32::try_from(index).ok().filter(|index| *index < MOST_PARTIES)?;
        let generation = u64::try_from(generation).ok().filter(|generation| *generation > 0)?;
        generation.checked_mul(MOST_PARTIES.into())?.checked_add(index.into())?;
        Some(Passage { index, generation })
    }
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It passed.
    Passed(Passage),
    /// It gave up.
    Left,
}

/// One who waits, and until when its place stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Party {
    /// Whose it is.
    pub attempt: AttemptId,
    /// Where that one listens.
    pub inbox: InboxId,
    /// Until when it stands.
    pub ends: StoreTime,
    /// For how long what becomes of it is remembered.
    pub memory: Duration,
}

/// Those who stand at one barrier, and what became of others. Where they are kept is the store's affair.
pub trait BarrierStorage {
    /// Why keeping them can fail.
    type Error;
    /// What became of `attempt`, if that is to be remembered for longer than `now`.
    fn recall(&mut self, attempt: AttemptId, now: StoreTime) -> Result<Option<Fate>, Self::Error>;
    /// Remembers it until `until`, and may forget those whose time is over at `now`.
    fn remember(&mut self, attempt: AttemptId, fate: Fate, until: StoreTime, now: StoreTime)
    -> Result<(), Self::Error>;
    /// Forgets the places that are over at `now`.
    fn end(&mut self, now: StoreTime) -> Result<(), Self::Error>;
    /// Whether `attempt` has a party.
    fn stands(&mut self, attempt: AttemptId) -> Result<bool, Self::Error>;
    /// How many places stand for longer than `now`.
    fn count(&mut self, now: StoreTime) -> Result<u32, Self::Error>;
    /// Notes a place: in the stead of the same party's, if it has one, else behind all others.
    fn stand(&mut self, party: &Party) -> Result<(), Self::Error>;
    /// Forgets the place of `attempt`.
    fn leave(&mut self, attempt: AttemptId) -> Result<(), Self::Error>;
    /// Every place, in the order of arrival; there is none any more.
    fn take(&mut self) -> Result<Vec<Party>, Self::Error>;
    /// Forgets everything.
    fn clear(&mut self) -> Result<(), Self::Error>;
}

/// A request to pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Arrive {
    /// Who asks.
    pub asker: Claimant,
    /// Do nothing when the store's clock has passed this.
    pub not_after: StoreTime,
    /// Whether to take a place; else it passes now or not at all.
    pub wait: bool,
    /// How long the place stands unless it asks again.
    pub ttl: Duration,
    /// How many have to stand there at once.
    pub parties: u32,
    /// For how long what becomes of it is to be remembered.
    pub memory: Duration,
}

/// The answer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arrived {
    /// It passes, or has passed.
    Passed(Passage),
    /// So many others stand there, which are too few, and the asker has no party.
    Short(u32),
    /// The asker's is one of so many places.
    Stands(u32),
    /// Came too late.
    Late,
    /// It gave up before.
    Gone,
    /// Those who stand there say that there are so many parties.
    Differs(u32),
}

impl BarrierCell {
    /// Asks to pass.
    pub fn arrive<S: BarrierStorage>(
        &mut self,
        storage: &mut S,
        env: &mut Surroundings<'_>,
        ask: &Arrive,
    ) -> Result<Arrived, S::Error> {
        let (me, now) = (ask.asker.attempt, env.now);
        if now > ask.not_after {
            return Ok(Arrived::Late);
        }
        self.end_if_over(storage, now)?;
        match storage.recall(me, now)? {
            Some(Fate::Passed(passage)) => return Ok(Arrived::Passed(passage)),
            Some(Fate::Left) => return Ok(Arrived::Gone),
            None => {}
        }
        storage.end(now)?;
        let stands = storage.stands(me)?;
        let others = storage.count(now)? - u32::from(stands);
        if others > 0 && ask.parties != self.parties {
            return Ok(Arrived::Differs(self.parties));
        }
        let party = Party { attempt: me, inbox: ask.asker.inbox, ends: now.after(ask.ttl), memory: ask.memory };
        if others + 1 >= ask.parties {
            self.parties = ask.parties;
            storage.stand(&party)?;
            return Ok(Arrived::Passed(self.open(storage, env, me)?));
        }
        if !ask.wait {
            return Ok(Arrived::Short(others));
        }
        storage.stand(&party)?;
        self.parties = ask.parties;
        self.keep(now, ask.memory);
        Ok(Arrived::Stands(others + 1))
    }

    /// Gives up, for good: how it passed, if it has.
    pub fn leave<S: BarrierStorage>(
        &mut self,
        storage: &mut S,
        env: &Surroundings<'_>,
        attempt: AttemptId,
        memory: Duration,
    ) -> Result<Option<Passage>, S::Error> {
        self.end_if_over(storage, env.now)?;
        if let Some(Fate::Passed(passage)) = storage.recall(attempt, env.now)? {
            return Ok(Some(passage));
        }
        storage.leave(attempt)?;
        storage.remember(attempt, Fate::Left, env.now.after(memory), env.now)?;
        self.keep(env.now, memory);
        Ok(None)
    }

    /// How many stand there.
    pub fn look<S: BarrierStorage>(&self, storage: &mut S, now: StoreTime) -> Result<u32, S::Error> {
        if self.is_there(now) { storage.count(now) } else { Ok(0) }
    }

    /// Whether there is a record.
    pub fn is_there(&self, now: StoreTime) -> bool {
        now < self.goes
    }

    /// All who stand there pass; how `me` does, who is told by the answer.
    fn open<S: BarrierStorage>(
        &mut self,
        storage: &mut S,
        env: &mut Surroundings<'_>,
        me: AttemptId,
    ) -> Result<Passage, S::Error> {
        // A record that was forgotten is made anew with a higher one, as long as the clock goes forward. Milliseconds
        // leave room for the index in one number.
        self.generation = match self.generation {
            0 => env.token_floor / 1000 + 1,
            last => last + 1,
        };
        let mut mine = Passage { index: 0, generation: self.generation };
        for (index, party) in (0..).zip(storage.take()?) {
            let passage = Passage { index, generation: self.generation };
            storage.remember(party.attempt, Fate::Passed(passage), env.now.after(party.memory), env.now)?;
            self.keep(env.now, party.memory);
            if party.attempt == me {
                mine = passage;
                continue;
            }
            let token = passage.token().n;
            let event = StoreEvent::Granted { attempt: party.attempt, first: token, last: token, at: env.now };
            env.pushes.push((party.inbox, event));
        }
        Ok(mine)
    }

    fn keep(&mut self, now: StoreTime, memory: Duration) {
        self.goes = self.goes.max(now.after(memory));
    }

    fn end_if_over<S: BarrierStorage>(&mut self, storage: &mut S, now: StoreTime) -> Result<(), S::Error> {
        if self.is_there(now) || *self == BarrierCell::default() {
            return Ok(());
        }
        *self = BarrierCell::default();
        storage.clear()
    }
}

/// A [`BarrierStorage`] in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct BarrierInMemory {
    /// The parties, by when they came.
    pub parties: BTreeMap<u64, Party>,
    /// The same by their attempts and by when they end: there may be very many.
    orders: BTreeMap<AttemptId, u64>,
    ends: BTreeSet<(StoreTime, u64)>,
    /// What became of others.
    pub fates: Remembered<Fate>,
}

impl BarrierInMemory {
    fn vacate(&mut self, attempt: AttemptId) -> Option<u64> {
        let order = self.orders.remove(&attempt)?;
        if let Some(party) = self.parties.remove(&order) {
            self.ends.remove(&(party.ends, order));
        }
        Some(order)
    }
}

impl BarrierStorage for BarrierInMemory {
    type Error = Infallible;

    fn recall(&mut self, attempt: AttemptId, now: StoreTime) -> Result<Option<Fate>, Infallible> {
        Ok(self.fates.recall(attempt, now))
    }

    fn remember(&mut self, attempt: AttemptId, fate: Fate, until: StoreTime, now: StoreTime) -> Result<(), Infallible> {
        self.fates.remember(attempt, fate, until, now);
        Ok(())
    }

    fn end(&mut self, now: StoreTime) -> Result<(), Infallible> {
        while let Some((_, order)) = self.ends.first().copied().filter(|(ends, _)| *ends <= now) {
            match self.parties.get(&order).map(|party| party.attempt) {
                Some(attempt) => _ = self.vacate(attempt),
                None => _ = self.ends.pop_first(),
            }
        }
        Ok(())
    }

    fn stands(&mut self, attempt: AttemptId) -> Result<bool, Infallible> {
        Ok(self.orders.contains_key(&attempt))
    }

    fn count(&mut self, now: StoreTime) -> Result<u32, Infallible> {
        let over = self.ends.iter().take_while(|(ends, _)| *ends <= now).count();
        let standing = self.parties.len() - over;
        Ok(u32::try_from(standing).unwrap_or(u32::MAX))
    }

    fn stand(&mut self, party: &Party) -> Result<(), Infallible> {
        let behind = || self.parties.last_key_value().map_or(0, |(order, _)| order + 1);
        let next = behind();
        let order = self.vacate(party.attempt).unwrap_or(next);
        self.parties.insert(order, *party);
        self.orders.insert(party.attempt, order);
        self.ends.insert((party.ends, order));
        Ok(())
    }

    fn leave(&mut self, attempt: AttemptId) -> Result<(), Infallible> {
        self.vacate(attempt);
        Ok(())
    }

    fn take(&mut self) -> Result<Vec<Party>, Infallible> {
        self.orders.clear();
        self.ends.clear();
        Ok(std::mem::take(&mut self.parties).into_values().collect())
    }

    fn clear(&mut self) -> Result<(), Infallible> {
        *self = BarrierInMemory::default();
        Ok(())
    }
}
