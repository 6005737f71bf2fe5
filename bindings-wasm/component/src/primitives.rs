//! What is made of locks, and what is waited for and not held.

use std::cell::RefCell;
use std::time::Duration;

use lockwright_machines::error as core;
use lockwright_machines::lease::Inspection;
use lockwright_machines::time::Time;
use lockwright_wasm_engine::{Guard, Ticket};

use crate::bindings::exports::lockwright::locks::locks as api;
use crate::convert::{loss, milliseconds, options, outcome, refused};
use crate::{Lock, Running, Shared, answered, taken};

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

impl api::GuestSemaphore for Semaphore {
    fn permits(&self) -> api::Lock {
        api::Lock::new(self.0.clone())
    }

    fn resize(&self, permits: u32) -> Result<(), api::Error> {
        let Lock { client, lock } = &self.0;
        let ask = |running: &mut Running, now| running.engine.resize(now, lock, permits);
        answered(client, ask, |running, ticket| running.engine.resized(ticket))
    }
}

pub(crate) struct Latch {
    pub(crate) client: Shared,
    pub(crate) latch: lockwright_wasm_engine::Latch,
}

impl Latch {
    fn left(&self, ask: impl FnOnce(&mut Running, Time) -> core::Result<Ticket>) -> Result<Option<u32>, api::Error> {
        answered(&self.client, ask, |running, ticket| running.engine.left(&self.latch, ticket))
    }
}

impl api::GuestLatch for Latch {
    fn wait(&self, timeout: Option<api::Milliseconds>) -> Result<bool, api::Error> {
        let mut running = self.client.borrow_mut();
        let now = running.resume();
        let timeout = timeout.map(Duration::from_millis);
        let asked = running.engine.acquire(now, self.latch.gate(), timeout).map_err(refused)?;
        let now = running.until_settled(asked.ticket);
        Ok(running.engine.passed(now, asked).map_err(refused)?.is_some())
    }

    fn count_down(&self) -> Result<u32, api::Error> {
        let left = self.left(|running, now| running.engine.count_down(now, &self.latch))?;
        Ok(left.unwrap_or_default())
    }

    fn count(&self) -> Result<u32, api::Error> {
        let left = self.left(|running, now| running.engine.ask_count(now, &self.latch))?;
        Ok(left.unwrap_or_default())
    }

    fn try_set_count(&self, count: u32) -> Result<bool, api::Error> {
        Ok(self.left(|running, now| running.engine.set_count(now, &self.latch, count))?.is_some())
    }
}

pub(crate) struct Barrier {
    pub(crate) client: Shared,
    pub(crate) barrier: lockwright_wasm_engine::Barrier,
}

impl api::GuestBarrier for Barrier {
    fn wait(&self, timeout: Option<api::Milliseconds>) -> Result<Option<api::Arrival>, api::Error> {
        let mut running = self.client.borrow_mut();
        let now = running.resume();
        let timeout = timeout.map(Duration::from_millis);
        let asked = running.engine.acquire(now, self.barrier.gate(), timeout).map_err(refused)?;
        let now = running.until_settled(asked.ticket);
        let passed = running.engine.passed(now, asked).map_err(refused)?;
        Ok(passed.map(|passage| api::Arrival { index: passage.index, generation: passage.generation }))
    }

    fn waiting(&self) -> Result<u32, api::Error> {
        let ask = |running: &mut Running, now| running.engine.ask_waiting(now, &self.barrier);
        answered(&self.client, ask, |running, ticket| running.engine.waiting(ticket))
    }
}

pub(crate) struct Election {
    pub(crate) seat: Lock,
    pub(crate) options: api::LockOptions,
}

impl Election {
    fn look(&self, running: &mut Running) -> Result<Option<api::Leader>, api::Error> {
        let now = running.resume();
        let ticket = running.engine.inspect(now, &self.seat.lock).map_err(refused)?;
        running.until_settled(ticket);
        let seen: Inspection = running.engine.inspected(ticket).map_err(refused)?;
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

impl api::GuestElection for Election {
    fn campaign(&self, proclaims: String, timeout: Option<api::Milliseconds>) -> Result<api::Guard, api::Error> {
        let candidate = {
            let running = self.seat.client.borrow();
            let given = api::LockOptions { label: Some(proclaims), ..self.options.clone() };
            let mut options = options(running.engine.lock_options(), given);
            (options.fair, options.rank) = (false, 0);
            running.engine.lock(self.seat.lock.name(), options).map_err(refused)?.fair_if_possible()
        };
        Lock { client: self.seat.client.clone(), lock: candidate }.acquired(timeout)
    }

    fn leader(&self) -> Result<Option<api::Leader>, api::Error> {
        self.look(&mut self.seat.client.borrow_mut())
    }

    fn changed(&self, known: Option<u64>, every: Option<api::Milliseconds>) -> Result<Option<api::Leader>, api::Error> {
        let every = Duration::from_millis(every.unwrap_or(EVERY));
        let mut running = self.seat.client.borrow_mut();
        loop {
            let leader = self.look(&mut running)?;
            if leader.as_ref().map(|leader| leader.token) != known {
                return Ok(leader);
            }
            let limit = crate::host::now().after(every);
            running.until(Some(limit), |_, _| false);
        }
    }
}

pub(crate) struct MultiLock {
    pub(crate) client: Shared,
    pub(crate) locks: lockwright_wasm_engine::MultiLock,
    pub(crate) ttl: Duration,
}

impl MultiLock {
    fn ask(&self, timeout: Option<Duration>) -> Result<Option<api::MultiGuard>, api::Error> {
        let mut running = self.client.borrow_mut();
        let now = running.resume();
        let ticket = running.engine.acquire_all(now, &self.locks, timeout).map_err(refused)?;
        let now = running.until_settled(ticket);
        running.engine.make_all_firm(now, ticket);
        running.until(None, |engine, now| engine.are_firm(now, ticket));
        let guards = running.engine.acquired_all(ticket).map_err(refused)?;
        Ok(guards.map(|guards| {
            let guards = RefCell::new(guards);
            api::MultiGuard::new(MultiGuard { client: self.client.clone(), guards, ttl: self.ttl })
        }))
    }
}

impl api::GuestMultiLock for MultiLock {
    fn names(&self) -> Vec<String> {
        self.locks.names().map(str::to_owned).collect()
    }

    fn acquire(&self, timeout: Option<api::Milliseconds>) -> Result<api::MultiGuard, api::Error> {
        let timeout = timeout.map(Duration::from_millis).or(self.locks.timeout());
        let names = || self.locks.names().collect::<Vec<_>>().join(", ");
        self.ask(timeout)?.ok_or_else(|| taken(&self.client.borrow(), &names()))
    }

    fn try_acquire(&self) -> Result<Option<api::MultiGuard>, api::Error> {
        self.ask(Some(Duration::ZERO))
    }
}

pub(crate) struct MultiGuard {
    client: Shared,
    guards: RefCell<Vec<Guard>>,
    ttl: Duration,
}

impl MultiGuard {
    /// What `look` sees of the guards, after what came was heard.
    fn with<T>(&self, look: impl FnOnce(&mut Running, Time, &mut Vec<Guard>) -> T) -> T {
        let mut running = self.client.borrow_mut();
        let now = running.resume();
        look(&mut running, now, &mut self.guards.borrow_mut())
    }
}

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

    fn renew(&self, ttl: Option<api::Milliseconds>) -> Result<(), api::Error> {
        let ttl = ttl.map_or(self.ttl, Duration::from_millis);
        self.with(|running, now, guards| {
            for guard in guards {
                let ticket = running.engine.renew(now, guard, ttl).map_err(refused)?;
                let now = running.until_settled(ticket);
                running.engine.renewed(now, guard, ticket).map_err(refused)?;
            }
            Ok(())
        })
    }

    fn release(&self) -> Result<api::ReleaseOutcome, api::Error> {
        self.with(|running, now, guards| {
            let tickets = running.engine.release_all(now, guards.iter_mut());
            let mut worst = api::ReleaseOutcome::Released;
            for ticket in tickets {
                let ticket = ticket.map_err(refused)?;
                running.until_settled(ticket);
                let found = outcome(running.engine.released(ticket));
                if matches!(worst, api::ReleaseOutcome::Released) {
                    worst = found;
                }
            }
            Ok(worst)
        })
    }
}

impl Drop for MultiGuard {
    fn drop(&mut self) {
        let mut running = self.client.borrow_mut();
        let now = running.resume();
        for guard in self.guards.get_mut() {
            running.engine.let_go(now, guard);
        }
        let Running { engine, sockets } = &mut *running;
        sockets.work(engine);
    }
}

pub(crate) struct Once {
    pub(crate) lock: Lock,
    pub(crate) waits: bool,
}

impl api::GuestOnce for Once {
    fn claim(&self, found: api::Found, timeout: Option<api::Milliseconds>) -> Result<Option<api::Guard>, api::Error> {
        match found {
            api::Found::Fresh => Ok(None),
            api::Found::Stale if !self.waits => self.lock.tried(),
            api::Found::Stale | api::Found::Missing => self.lock.acquired(timeout).map(Some),
        }
    }
}
