//! Lockwright as a WASI component: the resources of `wit/locks.wit` over the engine and the host's sockets.
//!
//! Every export runs to its end: it asks the engine, and lets the sockets work until the engine has the result. Each
//! call first hears what came while no code ran, so that a lease that ended meanwhile is lost before anything is said
//! of it.

mod convert;
mod host;
mod layer;
mod primitives;

#[allow(missing_debug_implementations, unreachable_pub, rust_2018_idioms, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ world: "lockwright", path: "../component/wit" });
}

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use lockwright_machines::error as core;
use lockwright_machines::gate::MAX_IDLE;
use lockwright_machines::layout_choice::Of;
use lockwright_machines::options::DEFAULT_TTL;
use lockwright_machines::ping::may_evict;
use lockwright_machines::share::Share;
use lockwright_machines::time::Time;
use lockwright_wasm_engine::{Asked, Config, Engine, Outcome, Ticket};

use self::bindings::exports::lockwright::locks::locks as api;
use self::convert::{guarantees, inspection, loss, microseconds, milliseconds, options, outcome, refused};
use self::host::Sockets;

/// How long a client that is closed waits for its server.
const CLOSING: Duration = Duration::from_secs(1);

struct Component;

impl api::Guest for Component {
    type Client = Client;
    type Lock = Lock;
    type Guard = Guard;
    type Rwlock = primitives::RwLock;
    type Semaphore = primitives::Semaphore;
    type Latch = primitives::Latch;
    type Barrier = primitives::Barrier;
    type Election = primitives::Election;
    type MultiLock = primitives::MultiLock;
    type MultiGuard = primitives::MultiGuard;
    type Once = primitives::Once;
}

bindings::export!(Component with_types_in bindings);

/// A client, as all that is of it shares it.
type Shared = Rc<RefCell<Running>>;

struct Running {
    engine: Engine,
    sockets: Sockets,
}

impl Running {
    /// Hears what came while no code ran, and what time it is.
    fn resume(&mut self) -> Time {
        let now = host::now();
        self.engine.look(now);
        self.sockets.work(&mut self.engine);
        now
    }

    /// Lets the sockets work until `ticket` has its result.
    fn until_settled(&mut self, ticket: Ticket) -> Time {
        self.until(None, |engine, _| engine.is_settled(ticket))
    }

    /// The same, until an acquisition is settled for good: once this call ends nothing renews what was handed over.
    fn until_firm(&mut self, asked: Asked) -> core::Result<Outcome> {
        let now = self.until_settled(asked.ticket);
        self.engine.make_firm(now, &asked);
        let now = self.until(None, |engine, now| engine.is_firm(now, &asked));
        self.engine.conclude(now, asked)
    }

    /// Lets the sockets work until the engine says so, or `limit`.
    fn until(&mut self, limit: Option<Time>, done: impl Fn(&Engine, Time) -> bool) -> Time {
        loop {
            self.sockets.work(&mut self.engine);
            let now = host::now();
            if done(&self.engine, now) || limit.is_some_and(|limit| limit <= now) {
                return now;
            }
            self.sockets.wait(&self.engine, limit);
            self.engine.look(host::now());
        }
    }
}

/// Asks the engine, and hands on what it answers.
pub(crate) fn answered<T>(
    client: &Shared,
    ask: impl FnOnce(&mut Running, Time) -> core::Result<Ticket>,
    read: impl FnOnce(&mut Running, Ticket) -> core::Result<T>,
) -> Result<T, api::Error> {
    let mut running = client.borrow_mut();
    let now = running.resume();
    let ticket = ask(&mut running, now).map_err(refused)?;
    running.until_settled(ticket);
    read(&mut running, ticket).map_err(refused)
}

pub struct Client(Shared);

impl api::GuestClient for Client {
    fn connect(address: String) -> Result<api::Client, api::Error> {
        Client::connect_with(address, api::Certificates { ca: None, cert: None, key: None })
    }

    fn connect_with(address: String, certificates: api::Certificates) -> Result<api::Client, api::Error> {
        let config = Config::read(&address, "wasm");
        let (config, security) = config.and_then(|config| layer::secured(config, certificates)).map_err(refused)?;
        let running = Running { engine: Engine::new(config, host::random()), sockets: Sockets::new(security) };
        Ok(api::Client::new(Client(Rc::new(RefCell::new(running)))))
    }

    fn address(&self) -> String {
        self.0.borrow().engine.config().address.to_string()
    }

    fn lock(&self, name: String, given: api::LockOptions) -> Result<api::Lock, api::Error> {
        self.lock_of(Of::Lock, &name, given).map(api::Lock::new)
    }

    fn guarantees(&self) -> Result<api::Guarantees, api::Error> {
        self.0.borrow().engine.guarantees().map(|promised| guarantees(&promised)).map_err(refused)
    }

    fn rwlock(&self, name: String, given: api::LockOptions) -> Result<api::Rwlock, api::Error> {
        let read = self.lock_of(Of::Read, &name, given.clone())?;
        let write = self.lock_of(Of::Write, &name, given)?;
        Ok(api::Rwlock::new(primitives::RwLock { read, write }))
    }

    fn semaphore(
        &self,
        name: String,
        permits: u32,
        given: api::SemaphoreOptions,
    ) -> Result<api::Semaphore, api::Error> {
        let take = given.take.unwrap_or(1);
        let lock = self.lock_of(Of::Permits { take, permits }, &name, given.lock)?;
        Ok(api::Semaphore::new(primitives::Semaphore(lock)))
    }

    fn latch(&self, name: String, count: u32, idle: Option<api::Milliseconds>) -> Result<api::Latch, api::Error> {
        let idle = idle.map_or(MAX_IDLE, Duration::from_millis);
        let latch = self.0.borrow().engine.latch(&name, count, idle).map_err(refused)?;
        Ok(api::Latch::new(primitives::Latch { client: self.0.clone(), latch }))
    }

    fn barrier(&self, name: String, parties: u32, ttl: Option<api::Milliseconds>) -> Result<api::Barrier, api::Error> {
        let ttl = ttl.map_or(DEFAULT_TTL, Duration::from_millis);
        let barrier = self.0.borrow().engine.barrier(&name, parties, ttl).map_err(refused)?;
        Ok(api::Barrier::new(primitives::Barrier { client: self.0.clone(), barrier }))
    }

    fn election(&self, name: String, given: api::LockOptions) -> Result<api::Election, api::Error> {
        // What is wrong with them shows now.
        let seat = self.lock_of(Of::Lock, &name, given.clone())?;
        Ok(api::Election::new(primitives::Election { seat, options: given }))
    }

    fn multi_lock(&self, names: Vec<String>, given: api::LockOptions) -> Result<api::MultiLock, api::Error> {
        let running = self.0.borrow();
        let options = options(running.engine.lock_options(), given);
        let names = names.iter().map(String::as_str);
        let locks = running.engine.multi_lock(names, &options).map_err(refused)?;
        Ok(api::MultiLock::new(primitives::MultiLock { client: self.0.clone(), locks, ttl: options.ttl }))
    }

    fn once(&self, name: String, waits: bool, given: api::LockOptions) -> Result<api::Once, api::Error> {
        let lock = self.lock_of(Of::Lock, &name, given)?;
        Ok(api::Once::new(primitives::Once { lock, waits }))
    }

    fn resume(&self, secret: String, given: api::LockOptions) -> Result<api::Guard, api::Error> {
        let mut running = self.0.borrow_mut();
        let options = options(running.engine.lock_options(), given);
        let (ttl, now) = (options.ttl, running.resume());
        let asked = running.engine.resume(now, &secret, options).map_err(refused)?;
        match running.until_firm(asked).map_err(refused)? {
            Outcome::Granted(guard) => Ok(Guard::of(&self.0, guard, ttl)),
            Outcome::Taken => Err(refused(core::Error::timeout(Duration::ZERO))),
        }
    }

    fn ping(&self) -> Result<api::Health, api::Error> {
        let lock = self.0.borrow().engine.trial().map_err(refused)?;
        let began = host::now();
        let trial = Lock { client: self.0.clone(), lock };
        if let Some(guard) = trial.tried()? {
            api::GuestGuard::release(guard.get::<Guard>())?;
        }
        let took = microseconds(host::now().since(began));
        let ask = |running: &mut Running, now| running.engine.ask_eviction(now);
        let eviction = answered(&self.0, ask, |running, ticket| running.engine.evicts(ticket))?;
        Ok(api::Health { took, may_evict: may_evict(eviction.as_deref()), eviction })
    }

    fn inspect(&self, name: String) -> Result<api::Inspection, api::Error> {
        let lock = self.default_lock(&name)?;
        let ask = |running: &mut Running, now| running.engine.identify(now, &lock);
        answered(&self.0, ask, |running, ticket| running.engine.inspected(ticket)).map(inspection)
    }

    fn list(&self) -> Result<Vec<String>, api::Error> {
        answered(&self.0, |running, now| running.engine.list(now), |running, ticket| running.engine.listed(ticket))
    }

    fn break_lock(&self, name: String, expected_token: u64) -> Result<bool, api::Error> {
        let lock = self.default_lock(&name)?;
        let ask = |running: &mut Running, now| running.engine.break_any(now, &lock, expected_token);
        answered(&self.0, ask, |running, ticket| running.engine.broken(ticket))
    }

    fn close(&self) {
        let mut running = self.0.borrow_mut();
        let now = running.resume();
        running.engine.close(now);
        running.until(Some(now.after(CLOSING)), |engine, _| engine.is_over());
        running.engine.hang_up();
        let Running { engine, sockets } = &mut *running;
        sockets.work(engine);
    }
}

impl Client {
    /// The lock of that name as the address has it.
    fn default_lock(&self, name: &str) -> Result<lockwright_wasm_engine::Lock, api::Error> {
        let running = self.0.borrow();
        running.engine.lock(name, running.engine.lock_options()).map_err(refused)
    }

    fn lock_of(&self, of: Of, name: &str, given: api::LockOptions) -> Result<Lock, api::Error> {
        let running = self.0.borrow();
        let options = options(running.engine.lock_options(), given);
        let lock = running.engine.lock_of(of, name, options).map_err(refused)?;
        Ok(Lock { client: self.0.clone(), lock })
    }
}

#[derive(Clone)]
pub struct Lock {
    client: Shared,
    lock: lockwright_wasm_engine::Lock,
}

impl Lock {
    fn ask(&self, timeout: Option<Duration>) -> core::Result<Outcome> {
        let mut running = self.client.borrow_mut();
        let now = running.resume();
        let asked = running.engine.acquire(now, &self.lock, timeout)?;
        running.until_firm(asked)
    }

    fn acquired(&self, timeout: Option<api::Milliseconds>) -> Result<api::Guard, api::Error> {
        let timeout = timeout.map(Duration::from_millis).or(self.lock.timeout());
        match self.ask(timeout).map_err(refused)? {
            Outcome::Granted(guard) => Ok(Guard::of(&self.client, guard, self.lock.ttl())),
            Outcome::Taken => Err(taken(&self.client.borrow(), self.lock.name())),
        }
    }

    fn tried(&self) -> Result<Option<api::Guard>, api::Error> {
        Ok(match self.ask(Some(Duration::ZERO)).map_err(refused)? {
            Outcome::Granted(guard) => Some(Guard::of(&self.client, guard, self.lock.ttl())),
            Outcome::Taken => None,
        })
    }
}

/// The error for whoever would not wait for what somebody else has.
fn taken(running: &Running, name: &str) -> api::Error {
    let error = core::Error::timeout(Duration::ZERO).on_lock(name);
    refused(error.on_store(running.engine.config().address.clone()))
}

impl api::GuestLock for Lock {
    fn name(&self) -> String {
        self.lock.name().to_owned()
    }

    fn acquire(&self, timeout: Option<api::Milliseconds>) -> Result<api::Guard, api::Error> {
        self.acquired(timeout)
    }

    fn try_acquire(&self) -> Result<Option<api::Guard>, api::Error> {
        self.tried()
    }
}

pub struct Guard {
    client: Shared,
    guard: RefCell<lockwright_wasm_engine::Guard>,
    ttl: Duration,
}

impl Guard {
    fn of(client: &Shared, guard: lockwright_wasm_engine::Guard, ttl: Duration) -> api::Guard {
        api::Guard::new(Guard { client: client.clone(), guard: RefCell::new(guard), ttl })
    }

    fn change(&self, to: Share) -> Result<bool, api::Error> {
        self.with(|running, now, guard| {
            let ticket = running.engine.change(now, guard, to).map_err(refused)?;
            let now = running.until_settled(ticket);
            running.engine.changed(now, guard, ticket).map_err(refused)
        })
    }

    /// What `look` sees of the guard, after what came was heard.
    fn with<T>(&self, look: impl FnOnce(&mut Running, Time, &mut lockwright_wasm_engine::Guard) -> T) -> T {
        let mut running = self.client.borrow_mut();
        let now = running.resume();
        look(&mut running, now, &mut self.guard.borrow_mut())
    }
}

impl api::GuestGuard for Guard {
    fn name(&self) -> String {
        self.with(|_, _, guard| guard.name().to_owned())
    }

    fn token(&self) -> u64 {
        self.with(|_, _, guard| guard.token().n)
    }

    fn remaining(&self) -> api::Milliseconds {
        milliseconds(self.with(|_, now, guard| guard.remaining(now)))
    }

    fn lost(&self) -> Option<api::Loss> {
        self.with(|_, now, guard| guard.why_lost(now)).map(|reason| loss(&reason))
    }

    fn renew(&self, ttl: Option<api::Milliseconds>) -> Result<(), api::Error> {
        let ttl = ttl.map_or(self.ttl, Duration::from_millis);
        self.with(|running, now, guard| {
            let ticket = running.engine.renew(now, guard, ttl).map_err(refused)?;
            let now = running.until_settled(ticket);
            running.engine.renewed(now, guard, ticket).map_err(refused)
        })
    }

    fn release(&self) -> Result<api::ReleaseOutcome, api::Error> {
        self.with(|running, now, guard| {
            let ticket = running.engine.release(now, guard).map_err(refused)?;
            running.until_settled(ticket);
            Ok(outcome(running.engine.released(ticket)))
        })
    }

    fn downgrade(&self) -> Result<(), api::Error> {
        match self.change(Share::READ)? {
            true => Ok(()),
            false => Err(refused(core::not_downgraded())),
        }
    }

    fn try_upgrade(&self) -> Result<bool, api::Error> {
        self.change(Share::WRITE)
    }

    fn export(&self, ttl: api::Milliseconds) -> Result<String, api::Error> {
        self.with(|running, now, guard| {
            let ticket = running.engine.export(now, guard, Duration::from_millis(ttl)).map_err(refused)?;
            running.until_settled(ticket);
            running.engine.exported(guard, ticket).map_err(refused)
        })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut running = self.client.borrow_mut();
        let now = running.resume();
        running.engine.let_go(now, self.guard.get_mut());
        let Running { engine, sockets } = &mut *running;
        sockets.work(engine);
    }
}
