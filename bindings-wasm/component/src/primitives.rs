//! What is made of locks, and what is waited for and not held.

use std::cell::RefCell;
use std::time::Duration;

use lockwright_machines::error as core;
use lockwright_machines::lease::Inspection;
use lockwright_machines::options::check_every;
use lockwright_machines::time::Time;
use lockwright_wasm_engine::{Guard, Ticket};
use maybe_async::maybe_async;

use crate::bindings::api;
use crate::convert::{loss, milliseconds, options, outcome, refused};
use crate::host::Engine;
use crate::{Lock, Shared, host, taken};

/// How often an observer of an election looks, unless it says otherwise.
const EVERY: api::Milliseconds = 500;

pub(crate) struct RwLock {
    pub(crate) read: Lock,
    pub(crate) write: Lock,
}

impl api::GuestRwlock for RwLock {
    fn read(&self) -> api::Lock {
        api::Lock::new(self.read.clone())
    }

    fn write(&self) -> api::Lock {
        api::Lock::new(self.write.clone())
    }
}

pub(crate) struct Semaphore(pub(crate) Lock);

#[maybe_async(AFIT)]
impl api::GuestSemaphore for Semaphore {
    fn permits(&self) -> api::Lock {
        api::Lock::new(self.0.clone())
    }

    async fn resize(&self, permits: u32) -> Result<(), api::Error> {
        let Lock { client, lock } = &self.0;
        let ask = |engine: &mut Engine, now| engine.resize(now, lock, permits);
        client.answered(ask, |engine, ticket| engine.resized(ticket)).await
    }
}

pub(crate) struct Latch {
    pub(crate) client: Shared,
    pub(crate) latch: lockwright_wasm_engine::Latch,
}

#[maybe_async]
impl Latch {
    async fn left(
        &self,
        ask: impl FnOnce(&mut Engine, Time) -> core::Result<Ticket>,
    ) -> Result<Option<u32>, api::Error> {
        self.client.answered(ask, |engine, ticket| engine.left(&self.latch, ticket)).await
    }
}

#[maybe_async(AFIT)]
impl api::GuestLatch for Latch {
    async fn wait(&self, timeout: Option<api::Milliseconds>) -> Result<bool, api::Error> {
        Ok(self.client.passed(self.latch.gate(), timeout).await.map_err(refused)?.is_some())
    }

    async fn count_down(&self) -> Result<u32, api::Error> {
        let left = self.left(|engine, now| engine.count_down(now, &self.latch)).await?;
        Ok(left.unwrap_or_default())
    }

    async fn count(&self) -> Result<u32, api::Error> {
        let left = self.left(|engine, now| engine.ask_count(now, &self.latch)).await?;
        Ok(left.unwrap_or_default())
    }

    async fn try_set_count(&self, count: u32) -> Result<bool, api::Error> {
        Ok(self.left(|engine, now| engine.set_count(now, &self.latch, count)).await?.is_some())
    }
}

pub(crate) struct Barrier {
    pub(crate) client: Shared,
    pub(crate) barrier: lockwright_wasm_engine::Barrier,
}

#[maybe_async(AFIT)]
impl api::GuestBarrier for Barrier {
    async fn wait(&self, timeout: Option<api::Milliseconds>) -> Result<Option<api::Arrival>, api::Error> {
        let passed = self.client.passed(self.barrier.gate(), timeout).await.map_err(refused)?;
        Ok(passed.map(|passage| api::Arrival { index: passage.index, generation: passage.generation }))
    }

    async fn waiting(&self) -> Result<u32, api::Error> {
        let ask = |engine: &mut Engine, now| engine.ask_waiting(now, &self.barrier);
        self.client.answered(ask, |engine, ticket| engine.waiting(ticket)).await
    }
}

pub(crate) struct Election {
    pub(crate) seat: Lock,
    pub(crate) options: api::LockOptions,
}

#[maybe_async]
impl Election {
    async fn look(&self) -> Result<Option<api::Leader>, api::Error> {
        let Lock { client, lock } = &self.seat;
        let ask = |engine: &mut Engine, now| engine.inspect(now, lock);
        let seen: Inspection = client.answered(ask, |engine, ticket| engine.inspected(ticket)).await?;
        Ok(seen.holder.map(|holder| api::Leader {
            proclaims: holder.card.label,
            host: holder.card.host,
            pid: holder.card.pid,
            language: holder.card.language,
            token: holder.first_token,
            leads_for: holder.held_for.map(milliseconds),
        }))
    }
}

#[maybe_async(AFIT)]
impl api::GuestElection for Election {
    async fn campaign(&self, proclaims: String, timeout: Option<api::Milliseconds>) -> Result<api::Guard, api::Error> {
        let given = api::LockOptions { label: Some(proclaims), ..self.options.clone() };
        let build = |engine: &mut Engine| {
            let mut options = options(engine.lock_options(), given);
            (options.fair, options.rank) = (false, 0);
            engine.lock(self.seat.lock.name(), options)
        };
        let candidate = self.seat.client.read(build).map_err(refused)?.for_election();
        Lock { client: self.seat.client.clone(), lock: candidate }.acquired(timeout).await
    }

    async fn leader(&self) -> Result<Option<api::Leader>, api::Error> {
        self.look().await
    }

    async fn changed(
        &self,
        known: Option<u64>,
        every: Option<api::Milliseconds>,
    ) -> Result<Option<api::Leader>, api::Error> {
        let every = Duration::from_millis(every.unwrap_or(EVERY));
        check_every(every).map_err(refused)?;
        loop {
            let leader = self.look().await?;
            if leader.as_ref().map(|leader| leader.token) != known {
                return Ok(leader);
            }
            let limit = host::now().after(every);
            self.seat.client.until(Some(limit), |_, _| false).await;
        }
    }
}

pub(crate) struct MultiLock {
    pub(crate) client: Shared,
    pub(crate) locks: lockwright_wasm_engine::MultiLock,
    pub(crate) ttl: Duration,
}

#[maybe_async]
impl MultiLock {
    async fn ask(&self, timeout: Option<Duration>) -> Result<Option<api::MultiGuard>, api::Error> {
        let client = &self.client;
        let ticket = client.with(|engine, now| engine.acquire_all(now, &self.locks, timeout)).map_err(refused)?;
        let pending = client.pending(ticket, Engine::abandon_all);
        client.until_all_granted(ticket).await;
        pending.ended();
        let guards = client.read(|engine| engine.acquired_all(ticket)).map_err(refused)?;
        Ok(guards.map(|guards| {
            let guards = RefCell::new(guards);
            api::MultiGuard::new(MultiGuard { client: client.clone(), guards, ttl: self.ttl })
        }))
    }
}

#[maybe_async(AFIT)]
impl api::GuestMultiLock for MultiLock {
    fn names(&self) -> Vec<String> {
        self.locks.names().map(str::to_owned).collect()
    }

    async fn acquire(&self, timeout: Option<api::Milliseconds>) -> Result<api::MultiGuard, api::Error> {
        let timeout = timeout.map(Duration::from_millis).or(self.locks.timeout());
        let names = || self.locks.names().collect::<Vec<_>>().join(", ");
        self.ask(timeout).await?.ok_or_else(|| taken(&self.client, &names()))
    }

    async fn try_acquire(&self) -> Result<Option<api::MultiGuard>, api::Error> {
        self.ask(Some(Duration::ZERO)).await
    }
}

pub(crate) struct MultiGuard {
    client: Shared,
    guards: RefCell<Vec<Guard>>,
    ttl: Duration,
}

impl MultiGuard {
    /// What `look` sees of the guards, after what came was heard.
    fn with<T>(&self, look: impl FnOnce(&mut Engine, Time, &mut Vec<Guard>) -> T) -> T {
        self.client.with(|engine, now| look(engine, now, &mut self.guards.borrow_mut()))
    }
}

#[maybe_async(AFIT)]
impl api::GuestMultiGuard for MultiGuard {
    fn tokens(&self) -> Vec<(String, u64)> {
        self.with(|_, _, guards| guards.iter().map(|guard| (guard.name().to_owned(), guard.token().n)).collect())
    }

    fn remaining(&self) -> api::Milliseconds {
        let left = self.with(|_, now, guards| guards.iter().map(|guard| guard.remaining(now)).min());
        milliseconds(left.unwrap_or_default())
    }

    fn lost(&self) -> Option<(String, api::Loss)> {
        self.with(|_, now, guards| {
            guards.iter().find_map(|guard| Some((guard.name().to_owned(), loss(&guard.why_lost(now)?))))
        })
    }

    async fn renew(&self, ttl: Option<api::Milliseconds>) -> Result<(), api::Error> {
        let ttl = ttl.map_or(self.ttl, Duration::from_millis);
        let count = self.guards.borrow().len();
        for at in 0..count {
            let ticket = self.with(|engine, now, guards| engine.renew(now, &guards[at], ttl)).map_err(refused)?;
            let now = self.client.until_settled(ticket).await;
            let renewed = |engine: &mut Engine| engine.renewed(now, &self.guards.borrow()[at], ticket);
            self.client.read(renewed).map_err(refused)?;
        }
        Ok(())
    }

    async fn release(&self) -> Result<api::ReleaseOutcome, api::Error> {
        let tickets = self.with(|engine, now, guards| engine.release_all(now, guards.iter_mut()));
        let mut worst = api::ReleaseOutcome::Released;
        for ticket in tickets {
            let ticket = ticket.map_err(refused)?;
            self.client.until_settled(ticket).await;
            let found = outcome(self.client.read(|engine| engine.released(ticket)));
            if matches!(worst, api::ReleaseOutcome::Released) {
                worst = found;
            }
        }
        Ok(worst)
    }
}

impl Drop for MultiGuard {
    fn drop(&mut self) {
        self.client.let_go(|engine, now| self.guards.get_mut().iter_mut().for_each(|guard| engine.let_go(now, guard)));
    }
}

pub(crate) struct Once {
    pub(crate) lock: Lock,
    pub(crate) waits: bool,
}

#[maybe_async(AFIT)]
impl api::GuestOnce for Once {
    async fn claim(
        &self,
        found: api::Found,
        timeout: Option<api::Milliseconds>,
    ) -> Result<Option<api::Guard>, api::Error> {
        match found {
            api::Found::Fresh => Ok(None),
            api::Found::Stale if !self.waits => self.lock.tried().await,
            api::Found::Stale | api::Found::Missing => self.lock.acquired(timeout).await.map(Some),
        }
    }
}
