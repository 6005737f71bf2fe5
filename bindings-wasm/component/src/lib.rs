//! Lockwright as a WASI component: the resources of `wit/locks.wit` over the engine and the host's network.
//!
//! A call asks the engine, and ends when the engine has the result. Each first hears what came while no code ran, so
//! that a lease that ended meanwhile is lost before anything is said of it.
//!
//! It is written once for two hosts. In WASI 0.3 what waits is an async function, and in WASI 0.2, where a call waits
//! on its thread, `maybe_async` makes the same source a function like any other.

mod convert;
#[cfg(not(feature = "etcd"))]
mod layer;
#[cfg(feature = "etcd")]
mod posts;
mod primitives;

#[cfg_attr(feature = "wasi-0-2", path = "host_0_2.rs")]
#[cfg_attr(not(feature = "wasi-0-2"), path = "host_0_3.rs")]
mod host;

#[allow(missing_debug_implementations, unreachable_pub, rust_2018_idioms, reason = "generated")]
mod bindings {
    #[cfg(feature = "wasi-0-2")]
    wit_bindgen::generate!({ world: "lockwright", path: "../component/wit" });
    #[cfg(not(feature = "wasi-0-2"))]
    wit_bindgen::generate!({ world: "lockwright", path: "../component/async-wit" });

    #[cfg(not(feature = "wasi-0-2"))]
    pub(crate) use exports::lockwright::async_locks::locks as api;
    #[cfg(feature = "wasi-0-2")]
    pub(crate) use exports::lockwright::locks::locks as api;
}

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use maybe_async::maybe_async;

use lockwright_machines::barrier_cell::Passage;
use lockwright_machines::error as core;
use lockwright_machines::gate::MAX_IDLE;
use lockwright_machines::layout_choice::Of;
use lockwright_machines::options::DEFAULT_TTL;
use lockwright_machines::ping::may_evict;
use lockwright_machines::share::Share;
use lockwright_machines::time::Time;
use lockwright_wasm_engine::{Asked, Outcome, Ticket};

use self::bindings::api;
use self::convert::{guarantees, inspection, loss, microseconds, milliseconds, options, outcome, refused};
use self::host::{Engine, Network};

/// How long a client that is closed waits for its server, and a guard that is dropped where no code runs afterwards.
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
#[derive(Clone)]
pub(crate) struct Shared(Rc<RefCell<Running>>);

struct Running {
    engine: Engine,
    network: Network,
}

impl Shared {
    /// What is to be seen or asked, after what came meanwhile was heard.
    fn with<T>(&self, look: impl FnOnce(&mut Engine, Time) -> T) -> T {
        let mut running = self.0.borrow_mut();
        let Running { engine, network } = &mut *running;
        let now = network.hear(engine);
        look(engine, now)
    }

    /// The same of what nobody waits for.
    fn tell(&self, tell: impl FnOnce(&mut Engine, Time)) {
        self.with(tell);
        self.send();
    }

    /// What a result is, once it is there, or what is known without the server.
    fn read<T>(&self, read: impl FnOnce(&mut Engine) -> T) -> T {
        read(&mut self.0.borrow_mut().engine)
    }
}

/// What is waited for. Should whoever waits go away, nobody wants it any more.
struct Pending<'a, T> {
    client: &'a Shared,
    what: Option<T>,
    forget: fn(&mut Engine, Time, T),
}

impl<T> Pending<'_, T> {
    fn ended(mut self) {
        self.what = None;
    }
}

impl<T> Drop for Pending<'_, T> {
    fn drop(&mut self) {
        if let Some(what) = self.what.take() {
            self.client.tell(|engine, now| (self.forget)(engine, now, what));
        }
    }
}

#[maybe_async]
impl Shared {
    fn pending<T>(&self, what: T, forget: fn(&mut Engine, Time, T)) -> Pending<'_, T> {
        Pending { client: self, what: Some(what), forget }
    }

    async fn until_settled(&self, ticket: Ticket) -> Time {
        self.until(None, move |engine, _| engine.is_settled(ticket)).await
    }

    /// What became of an acquisition of what is held.
    async fn concluded(&self, asked: Asked) -> core::Result<Outcome> {
        let pending = self.pending(asked.clone(), Engine::abandon);
        let now = self.until_granted(&asked).await;
        pending.ended();
        self.read(|engine| engine.conclude(now, asked))
    }

    /// Whether one of those who wait at a gate went on.
    async fn passed(
        &self,
        gate: &lockwright_wasm_engine::Lock,
        timeout: Option<api::Milliseconds>,
    ) -> core::Result<Option<Passage>> {
        let timeout = timeout.map(Duration::from_millis);
        let asked = self.with(|engine, now| engine.acquire(now, gate, timeout))?;
        let pending = self.pending(asked.clone(), Engine::abandon);
        let now = self.until_settled(asked.ticket).await;
        pending.ended();
        self.read(|engine| engine.passed(now, asked))
    }

    /// Asks the engine, and hands on what it answers.
    async fn answered<T>(
        &self,
        ask: impl FnOnce(&mut Engine, Time) -> core::Result<Ticket>,
        read: impl FnOnce(&mut Engine, Ticket) -> core::Result<T>,
    ) -> Result<T, api::Error> {
        let ticket = self.with(ask).map_err(refused)?;
        let pending = self.pending(ticket, |engine, _, ticket| engine.forget_question(ticket));
        self.until_settled(ticket).await;
        pending.ended();
        self.read(|engine| read(engine, ticket)).map_err(refused)
    }
}

pub struct Client(Shared);

#[maybe_async(AFIT)]
impl api::GuestClient for Client {
    fn connect(address: String) -> Result<api::Client, api::Error> {
        Client::connect_with(address, api::Certificates { ca: None, cert: None, key: None })
    }

    fn connect_with(address: String, certificates: api::Certificates) -> Result<api::Client, api::Error> {
        let (engine, network) = host::open(&address, certificates).map_err(refused)?;
        Ok(api::Client::new(Client(Shared(Rc::new(RefCell::new(Running { engine, network }))))))
    }

    fn address(&self) -> String {
        self.0.read(|engine| engine.settings().address.to_string())
    }

    fn lock(&self, name: String, given: api::LockOptions) -> Result<api::Lock, api::Error> {
        self.lock_of(Of::Lock, &name, given).map(api::Lock::new)
    }

    fn guarantees(&self) -> Result<api::Guarantees, api::Error> {
        self.0.read(|engine| engine.guarantees()).map(|promised| guarantees(&promised)).map_err(refused)
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
        let latch = self.0.read(|engine| engine.latch(&name, count, idle)).map_err(refused)?;
        Ok(api::Latch::new(primitives::Latch { client: self.0.clone(), latch }))
    }

    fn barrier(&self, name: String, parties: u32, ttl: Option<api::Milliseconds>) -> Result<api::Barrier, api::Error> {
        let ttl = ttl.map_or(DEFAULT_TTL, Duration::from_millis);
        let barrier = self.0.read(|engine| engine.barrier(&name, parties, ttl)).map_err(refused)?;
        Ok(api::Barrier::new(primitives::Barrier { client: self.0.clone(), barrier }))
    }

    fn election(&self, name: String, given: api::LockOptions) -> Result<api::Election, api::Error> {
        // What is wrong with them shows now.
        let Lock { client, lock } = self.lock_of(Of::Lock, &name, given.clone())?;
        let seat = Lock { client, lock: lock.for_election() };
        Ok(api::Election::new(primitives::Election { seat, options: given }))
    }

    fn multi_lock(&self, names: Vec<String>, given: api::LockOptions) -> Result<api::MultiLock, api::Error> {
        let options = options(self.0.read(|engine| engine.lock_options()), given);
        let names = names.iter().map(String::as_str);
        let locks = self.0.read(|engine| engine.multi_lock(names, &options)).map_err(refused)?;
        Ok(api::MultiLock::new(primitives::MultiLock { client: self.0.clone(), locks, ttl: options.ttl }))
    }

    fn once(&self, name: String, waits: bool, given: api::LockOptions) -> Result<api::Once, api::Error> {
        let lock = self.lock_of(Of::Lock, &name, given)?;
        Ok(api::Once::new(primitives::Once { lock, waits }))
    }

    async fn resume(&self, secret: String, given: api::LockOptions) -> Result<api::Guard, api::Error> {
        let options = options(self.0.read(|engine| engine.lock_options()), given);
        let ttl = options.ttl;
        let asked = self.0.with(|engine, now| engine.resume(now, &secret, options)).map_err(refused)?;
        match self.0.concluded(asked).await.map_err(refused)? {
            Outcome::Granted(guard) => Ok(Guard::of(&self.0, guard, ttl)),
            Outcome::Taken => Err(refused(core::Error::timeout(Duration::ZERO))),
        }
    }

    async fn ping(&self) -> Result<api::Health, api::Error> {
        let lock = self.0.read(|engine| engine.trial()).map_err(refused)?;
        let began = host::now();
        let trial = Lock { client: self.0.clone(), lock };
        if let Some(guard) = trial.tried().await? {
            api::GuestGuard::release(guard.get::<Guard>()).await?;
        }
        let took = microseconds(host::now().since(began));
        let ask = |engine: &mut Engine, now| engine.ask_eviction(now);
        let eviction = self.0.answered(ask, |engine, ticket| engine.evicts(ticket)).await?;
        Ok(api::Health { took, may_evict: may_evict(eviction.as_deref()), eviction })
    }

    async fn inspect(&self, name: String) -> Result<api::Inspection, api::Error> {
        let lock = self.default_lock(&name)?;
        let ask = |engine: &mut Engine, now| engine.identify(now, &lock);
        self.0.answered(ask, |engine, ticket| engine.inspected(ticket)).await.map(inspection)
    }

    async fn list(&self) -> Result<Vec<String>, api::Error> {
        self.0.answered(|engine, now| engine.list(now), |engine, ticket| engine.listed(ticket)).await
    }

    async fn break_lock(&self, name: String, expected_token: u64) -> Result<bool, api::Error> {
        let lock = self.default_lock(&name)?;
        let ask = |engine: &mut Engine, now| engine.break_any(now, &lock, expected_token);
        self.0.answered(ask, |engine, ticket| engine.broken(ticket)).await
    }

    async fn close(&self) {
        let now = self.0.with(|engine, now| {
            engine.close(now);
            now
        });
        self.0.until(Some(now.after(CLOSING)), |engine, _| engine.is_over()).await;
        self.0.hang_up();
    }
}

impl Client {
    /// The lock of that name as the address has it.
    fn default_lock(&self, name: &str) -> Result<lockwright_wasm_engine::Lock, api::Error> {
        self.0.read(|engine| engine.lock(name, engine.lock_options())).map_err(refused)
    }

    fn lock_of(&self, of: Of, name: &str, given: api::LockOptions) -> Result<Lock, api::Error> {
        let build = |engine: &mut Engine| engine.lock_of(of, name, options(engine.lock_options(), given));
        let lock = self.0.read(build).map_err(refused)?;
        Ok(Lock { client: self.0.clone(), lock })
    }
}

#[derive(Clone)]
pub struct Lock {
    client: Shared,
    lock: lockwright_wasm_engine::Lock,
}

#[maybe_async]
impl Lock {
    async fn ask(&self, timeout: Option<Duration>) -> Result<Option<api::Guard>, api::Error> {
        let asked = self.client.with(|engine, now| engine.acquire(now, &self.lock, timeout)).map_err(refused)?;
        match self.client.concluded(asked).await.map_err(refused)? {
            Outcome::Granted(guard) => Ok(Some(Guard::of(&self.client, guard, self.lock.ttl()))),
            Outcome::Taken => Ok(None),
        }
    }

    async fn acquired(&self, timeout: Option<api::Milliseconds>) -> Result<api::Guard, api::Error> {
        let timeout = timeout.map(Duration::from_millis).or(self.lock.timeout());
        self.ask(timeout).await?.ok_or_else(|| taken(&self.client, self.lock.name()))
    }

    async fn tried(&self) -> Result<Option<api::Guard>, api::Error> {
        self.ask(Some(Duration::ZERO)).await
    }
}

/// The error for whoever would not wait for what somebody else has.
fn taken(client: &Shared, name: &str) -> api::Error {
    let error = core::Error::timeout(Duration::ZERO).on_lock(name);
    refused(error.on_store(client.read(|engine| engine.settings().address.clone())))
}

#[maybe_async(AFIT)]
impl api::GuestLock for Lock {
    fn name(&self) -> String {
        self.lock.name().to_owned()
    }

    async fn acquire(&self, timeout: Option<api::Milliseconds>) -> Result<api::Guard, api::Error> {
        self.acquired(timeout).await
    }

    async fn try_acquire(&self) -> Result<Option<api::Guard>, api::Error> {
        self.tried().await
    }
}

pub struct Guard {
    client: Shared,
    guard: RefCell<lockwright_wasm_engine::Guard>,
    ttl: Duration,
}

#[maybe_async]
impl Guard {
    fn of(client: &Shared, guard: lockwright_wasm_engine::Guard, ttl: Duration) -> api::Guard {
        api::Guard::new(Guard { client: client.clone(), guard: RefCell::new(guard), ttl })
    }

    /// What `look` sees of the guard, after what came was heard.
    fn with<T>(&self, look: impl FnOnce(&mut Engine, Time, &mut lockwright_wasm_engine::Guard) -> T) -> T {
        self.client.with(|engine, now| look(engine, now, &mut self.guard.borrow_mut()))
    }

    /// Asks something of the guard, and hands on what is answered.
    async fn answered<T>(
        &self,
        ask: impl FnOnce(&mut Engine, Time, &mut lockwright_wasm_engine::Guard) -> core::Result<Ticket>,
        read: impl FnOnce(&mut Engine, Time, &mut lockwright_wasm_engine::Guard, Ticket) -> core::Result<T>,
    ) -> Result<T, api::Error> {
        let ticket = self.with(ask).map_err(refused)?;
        let forget = |engine: &mut Engine, now, (guard, ticket): (&Guard, Ticket)| {
            engine.forget_answer(now, &mut guard.guard.borrow_mut(), ticket);
        };
        let pending = self.client.pending((self, ticket), forget);
        let now = self.client.until_settled(ticket).await;
        pending.ended();
        self.client.read(|engine| read(engine, now, &mut self.guard.borrow_mut(), ticket)).map_err(refused)
    }

    async fn change(&self, to: Share) -> Result<bool, api::Error> {
        self.answered(
            |engine, now, guard| engine.change(now, guard, to),
            |engine, now, guard, ticket| engine.changed(now, guard, ticket),
        )
        .await
    }
}

#[maybe_async(AFIT)]
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

    async fn renew(&self, ttl: Option<api::Milliseconds>) -> Result<(), api::Error> {
        let ttl = ttl.map_or(self.ttl, Duration::from_millis);
        self.answered(
            |engine, now, guard| engine.renew(now, guard, ttl),
            |engine, now, guard, ticket| engine.renewed(now, guard, ticket),
        )
        .await
    }

    async fn release(&self) -> Result<api::ReleaseOutcome, api::Error> {
        self.answered(
            |engine, now, guard| engine.release(now, guard),
            |engine, _, _, ticket| Ok(outcome(engine.released(ticket))),
        )
        .await
    }

    async fn downgrade(&self) -> Result<(), api::Error> {
        match self.change(Share::READ).await? {
            true => Ok(()),
            false => Err(refused(core::not_downgraded())),
        }
    }

    async fn try_upgrade(&self) -> Result<bool, api::Error> {
        self.change(Share::WRITE).await
    }

    async fn export(&self, ttl: api::Milliseconds) -> Result<String, api::Error> {
        let ttl = Duration::from_millis(ttl);
        self.answered(
            |engine, now, guard| engine.export(now, guard, ttl),
            |engine, now, guard, ticket| engine.exported(now, guard, ticket),
        )
        .await
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.client.let_go(|engine, now| engine.let_go(now, self.guard.get_mut()));
    }
}
