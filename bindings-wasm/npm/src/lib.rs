//! Lockwright in WebAssembly for JavaScript: the engine as an object of numbers and bytes, for the classes in `ts/`.
//!
//! Nothing waits here. JavaScript tells what its transport does and what time it is, performs what [`Core::action`]
//! says, and asks after each of these for the results of its tickets. What fails is thrown as a plain object: code,
//! message, and what it concerns.

mod look;

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use js_sys::{Array, BigInt, Function, Object, Reflect, Uint8Array};
use lockwright_machines::error::{Error, Kind};
use lockwright_machines::gate::MAX_IDLE;
use lockwright_machines::layout_choice::Of;
use lockwright_machines::options::{self, AcquireOptions, ConnectOptions, DEFAULT_TTL, Retry};
use lockwright_machines::reach::unknown_host;
use lockwright_machines::share::Share;
use lockwright_machines::time::Time;
use lockwright_machines::{error, uri};
use lockwright_wasm_engine::redis::{Action, Config, Redis, Which};
use lockwright_wasm_engine::{Asked, Barrier, Guard, Latch, Lock, MultiLock, Outcome, Ticket};
use wasm_bindgen::prelude::*;

/// What fails is thrown as this.
type Thrown<T> = Result<T, JsValue>;

type Engine = lockwright_wasm_engine::Engine<Redis>;

fn thrown(error: Error) -> JsValue {
    let failure = Object::new();
    let set = |name: &str, value: Option<&str>| {
        // A plain object takes every property.
        let _ = Reflect::set(&failure, &name.into(), &value.map_or(JsValue::UNDEFINED, JsValue::from_str));
    };
    set("code", Some(error.code()));
    set("message", Some(&error.to_string()));
    set("operation", Some(error.operation()));
    set("lock", error.lock());
    set("store", error.store());
    failure.into()
}

/// The clock of JavaScript, in milliseconds.
fn time(now: f64) -> Time {
    Time::from_nanos((now * 1e6) as u64)
}

fn which(line: u8) -> Which {
    if line == 0 { Which::Requests } else { Which::Inbox }
}

fn number(which: Which) -> f64 {
    match which {
        Which::Requests => 0.0,
        Which::Inbox => 1.0,
    }
}

/// What has a number.
enum Handle {
    Lock(Lock),
    Several(MultiLock),
    Latch(Latch),
    Barrier(Barrier),
}

/// What a ticket is for.
enum Pending {
    /// A guard.
    Guard(Asked),
    /// Those of several locks.
    Guards,
    /// To go on at a latch.
    Opened(Asked),
    /// To go on at a barrier.
    Arrived(Asked),
    /// How many are still to count a latch down.
    Left(Latch),
    /// Whether its count was set.
    Set(Latch),
    /// How many wait at a barrier.
    Waiting,
    /// Another size of a semaphore.
    Resized,
    /// Who holds a lock.
    Look,
    /// Whether somebody held what was to be broken.
    Broken,
    /// The names of all locks.
    Names,
    /// What the server does when its memory is full.
    Eviction,
}

/// What to do for TLS.
const NO_TLS: &str = "write redis://, and take a transport that has TLS, such as redis(client) of a client with it";
/// What to do for a lock server.
const NO_LOCK_SERVER: &str =
    "give one that does: lockServer(namespace) in a Worker, webSocket(name => socket) elsewhere";

/// A client, with all that is asked of it and held, by numbers.
#[wasm_bindgen]
pub struct Core {
    engine: Engine,
    handles: HashMap<u32, Handle>,
    pending: HashMap<Ticket, Pending>,
    guards: HashMap<u32, Guard>,
    next: u32,
}

#[wasm_bindgen]
impl Core {
    /// That of the server at `address`, with the options of `given` by their names in JavaScript, spans in
    /// milliseconds. `random` fills what it is given with random bytes; holders say that they run in the process `pid`,
    /// 0 where there is none. The transport is this package's own, or `given`, and what `pushes` says is whether the
    /// server can push by it.
    #[wasm_bindgen(constructor)]
    pub fn new(address: &str, given: &Object, random: Function, pid: u32, is_own: bool, pushes: bool) -> Thrown<Core> {
        let config = connect(given)
            .and_then(|connect| Config::read_with(address, connect))
            .and_then(|config| config.without_tls(NO_TLS))
            .and_then(|config| if is_own { config.of_redis(NO_LOCK_SERVER) } else { Ok(config) });
        let mut config = config.map_err(thrown)?;
        config.settings.place.1 = pid;
        config.pushes = pushes;
        let draw = move || {
            let bytes = Uint8Array::new_with_length(16);
            random.call1(&JsValue::NULL, &bytes).ok()?;
            Some(u128::from_le_bytes(bytes.to_vec().try_into().ok()?))
        };
        let engine = Engine::new(Redis::new(config), Box::new(draw));
        Ok(Core { engine, handles: HashMap::new(), pending: HashMap::new(), guards: HashMap::new(), next: 0 })
    }

    /// The address without credentials.
    pub fn address(&self) -> String {
        self.engine.settings().address.to_string()
    }

    /// What locks of this client promise.
    pub fn guarantees(&self) -> Thrown<JsValue> {
        self.engine.guarantees().map(|promised| look::guarantees(&promised)).map_err(thrown)
    }

    /// Where its transport is to connect to.
    pub fn host(&self) -> String {
        self.engine.store().config().host.clone()
    }

    /// The same, its port.
    pub fn port(&self) -> u16 {
        self.engine.store().config().port
    }

    fn number(&mut self) -> u32 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    fn keep(&mut self, handle: Handle) -> u32 {
        let number = self.number();
        self.handles.insert(number, handle);
        number
    }

    /// A lock, by its number. `given` has the options by their names in JavaScript, spans in milliseconds.
    pub fn lock(&mut self, name: &str, given: &Object) -> Thrown<u32> {
        self.lock_of(Of::Lock, name, given)
    }

    /// A part of a read/write lock.
    pub fn rwlock(&mut self, name: &str, writes: bool, given: &Object) -> Thrown<u32> {
        self.lock_of(if writes { Of::Write } else { Of::Read }, name, given)
    }

    /// So many permits of a semaphore.
    pub fn semaphore(&mut self, name: &str, permits: u32, take: u32, given: &Object) -> Thrown<u32> {
        self.lock_of(Of::Permits { take, permits }, name, given)
    }

    fn lock_of(&mut self, of: Of, name: &str, given: &Object) -> Thrown<u32> {
        let options = self.options(given).map_err(thrown)?;
        let lock = self.engine.lock_of(of, name, options).map_err(thrown)?;
        Ok(self.keep(Handle::Lock(lock)))
    }

    /// The same lock as elections have it.
    pub fn for_election(&mut self, lock: u32) -> Thrown<u32> {
        let seat = self.lock_at(lock)?.for_election();
        Ok(self.keep(Handle::Lock(seat)))
    }

    /// A latch, kept for `idle` ms after its last use, or as long as can be.
    pub fn latch(&mut self, name: &str, count: u32, idle: Option<f64>) -> Thrown<u32> {
        let idle = idle.map_or(Ok(MAX_IDLE), |idle| span("latch", "idle", idle))?;
        let latch = self.engine.latch(name, count, idle).map_err(thrown)?;
        Ok(self.keep(Handle::Latch(latch)))
    }

    /// A barrier, where the place of a party that died stands for `ttl` ms, or the default.
    pub fn barrier(&mut self, name: &str, parties: u32, ttl: Option<f64>) -> Thrown<u32> {
        let ttl = ttl.map_or(Ok(DEFAULT_TTL), |ttl| span("barrier", "ttl", ttl))?;
        let barrier = self.engine.barrier(name, parties, ttl).map_err(thrown)?;
        Ok(self.keep(Handle::Barrier(barrier)))
    }

    /// Several locks.
    pub fn multi_lock(&mut self, names: Vec<String>, given: &Object) -> Thrown<u32> {
        let options = self.options(given).map_err(thrown)?;
        let names = names.iter().map(String::as_str);
        let locks = self.engine.multi_lock(names, &options).map_err(thrown)?;
        Ok(self.keep(Handle::Several(locks)))
    }

    /// The names of several locks, in the order in which they are taken.
    pub fn names(&self, several: u32) -> Vec<String> {
        match self.handles.get(&several) {
            Some(Handle::Several(locks)) => locks.names().map(str::to_owned).collect(),
            _ => Vec::new(),
        }
    }

    /// What has this number is named no more.
    pub fn forget(&mut self, handle: u32) {
        self.handles.remove(&handle);
    }

    fn lock_at(&self, number: u32) -> Thrown<Lock> {
        match self.handles.get(&number) {
            Some(Handle::Lock(lock)) => Ok(lock.clone()),
            _ => Err(thrown(no_such("lock"))),
        }
    }

    fn options(&self, given: &Object) -> Result<AcquireOptions, Error> {
        let mut all = self.engine.lock_options();
        for (name, value) in entries(given) {
            let span = |value: &JsValue| options::milliseconds("lock", &name, value.as_f64().unwrap_or(f64::NAN));
            match &*name {
                "ttl" => all.ttl = span(&value)?,
                // What is waited for without an end is no limit.
                "timeout" => {
                    all.timeout = if value.as_f64() == Some(f64::INFINITY) { None } else { Some(span(&value)?) }
                }
                "renew" => all.renew = value.is_truthy(),
                "reentrant" => all.reentrant = value.is_truthy(),
                "revocable" => all.revocable = value.is_truthy(),
                "atLeastFor" => all.at_least_for = Some(span(&value)?),
                "retry" => all.retry = retry(&value)?,
                "maxHold" => all.max_hold = Some(span(&value)?),
                "fair" => all.fair = value.is_truthy(),
                "rank" => all.rank = rank(&value)?,
                "layout" => all.set_layout(&value.as_string().unwrap_or_default()),
                "format" => all.format = value.as_string().map(Into::into),
                "label" => all.label = value.as_string().map(Into::into),
                _ => return Err(Error::invalid("lock", format!("there is no option {name:?}"))),
            }
        }
        Ok(all)
    }

    /// Asks for what can be waited for: a lock, several, a latch or a barrier to be open; for at most `timeout` ms,
    /// below zero as its options say. The ticket for the result.
    pub fn acquire(&mut self, now: f64, handle: u32, timeout: f64) -> Thrown<f64> {
        let now = time(now);
        let said = match timeout {
            within if within < 0.0 => None,
            f64::INFINITY => Some(None),
            within => Some(Some(options::milliseconds("acquire", "timeout", within).map_err(thrown)?)),
        };
        let engine = &mut self.engine;
        let (ticket, pending) = match self.handles.get(&handle) {
            Some(Handle::Lock(lock)) => {
                let asked = engine.acquire(now, lock, said.unwrap_or(lock.timeout())).map_err(thrown)?;
                (asked.ticket, Pending::Guard(asked))
            }
            Some(Handle::Several(locks)) => {
                let timeout = said.unwrap_or(locks.timeout());
                (engine.acquire_all(now, locks, timeout).map_err(thrown)?, Pending::Guards)
            }
            Some(Handle::Latch(latch)) => {
                let asked = engine.acquire(now, latch.gate(), said.flatten()).map_err(thrown)?;
                (asked.ticket, Pending::Opened(asked))
            }
            Some(Handle::Barrier(barrier)) => {
                let asked = engine.acquire(now, barrier.gate(), said.flatten()).map_err(thrown)?;
                (asked.ticket, Pending::Arrived(asked))
            }
            None => return Err(thrown(no_such("lock"))),
        };
        Ok(self.await_result(ticket, pending))
    }

    fn await_result(&mut self, ticket: Ticket, pending: Pending) -> f64 {
        self.pending.insert(ticket, pending);
        ticket as f64
    }

    /// Takes over an exported lock. The ticket for the result.
    pub fn resume(&mut self, now: f64, secret: &str, given: &Object) -> Thrown<f64> {
        let options = self.options(given).map_err(thrown)?;
        let asked = self.engine.resume(time(now), secret, options).map_err(thrown)?;
        Ok(self.await_result(asked.ticket, Pending::Guard(asked)))
    }

    /// The same by a lock, of which the secret has to be.
    pub fn resume_lock(&mut self, now: f64, lock: u32, secret: &str) -> Thrown<f64> {
        let lock = self.lock_at(lock)?;
        let asked = self.engine.resume_lock(time(now), &lock, secret).map_err(thrown)?;
        Ok(self.await_result(asked.ticket, Pending::Guard(asked)))
    }

    /// Asks something that nobody waits for others with, by the name of the operation. The ticket for the answer.
    pub fn ask(&mut self, now: f64, handle: u32, operation: &str, argument: u32) -> Thrown<f64> {
        let (now, engine) = (time(now), &mut self.engine);
        let (ticket, pending) = match (self.handles.get(&handle), operation) {
            (Some(Handle::Latch(latch)), "count") => (engine.ask_count(now, latch), Pending::Left(latch.clone())),
            (Some(Handle::Latch(latch)), "count_down") => (engine.count_down(now, latch), Pending::Left(latch.clone())),
            (Some(Handle::Latch(latch)), "try_set_count") => {
                (engine.set_count(now, latch, argument), Pending::Set(latch.clone()))
            }
            (Some(Handle::Barrier(barrier)), "waiting") => (engine.ask_waiting(now, barrier), Pending::Waiting),
            (Some(Handle::Lock(lock)), "resize") => (engine.resize(now, lock, argument), Pending::Resized),
            (Some(Handle::Lock(lock)), "identify") => (engine.identify(now, lock), Pending::Look),
            (Some(Handle::Lock(lock)), "inspect") => (engine.inspect(now, lock), Pending::Look),
            _ => return Err(thrown(no_such("operation"))),
        };
        let ticket = ticket.map_err(thrown)?;
        Ok(self.await_result(ticket, pending))
    }

    /// Takes a lock, or whatever lies under its name if `any`, from whoever holds it under `token`. The ticket for
    /// whether somebody did.
    pub fn break_lock(&mut self, now: f64, lock: u32, token: BigInt, any: bool) -> Thrown<f64> {
        let out = |_| thrown(Error::invalid("break", "the token is out of range; give one that inspect showed"));
        let (lock, token) = (self.lock_at(lock)?, u64::try_from(token).map_err(out)?);
        let (engine, now) = (&mut self.engine, time(now));
        let ticket = if any { engine.break_any(now, &lock, token) } else { engine.break_hold(now, &lock, token) };
        let ticket = ticket.map_err(thrown)?;
        Ok(self.await_result(ticket, Pending::Broken))
    }

    /// Asks for the names of all locks. The ticket for the answer.
    pub fn list(&mut self, now: f64) -> Thrown<f64> {
        let ticket = self.engine.list(time(now)).map_err(thrown)?;
        Ok(self.await_result(ticket, Pending::Names))
    }

    /// The handle of the lock by which it is found out whether locks can be had.
    pub fn trial(&mut self) -> Thrown<u32> {
        let lock = self.engine.trial().map_err(thrown)?;
        Ok(self.keep(Handle::Lock(lock)))
    }

    /// Asks what the server does when its memory is full. The ticket for the answer.
    pub fn eviction(&mut self, now: f64) -> Thrown<f64> {
        let ticket = self.engine.ask_eviction(time(now)).map_err(thrown)?;
        Ok(self.await_result(ticket, Pending::Eviction))
    }

    /// What came of a ticket that is settled: the number of a guard, or those of several; 0 where somebody else has it
    /// and it was only tried; else what was asked.
    pub fn result(&mut self, now: f64, ticket: f64) -> Thrown<JsValue> {
        let (now, number) = (time(now), ticket as Ticket);
        let Some(pending) = self.pending.remove(&number) else { return Err(thrown(no_such("question"))) };
        let engine = &mut self.engine;
        Ok(match pending {
            Pending::Guard(asked) => match engine.conclude(now, asked).map_err(thrown)? {
                Outcome::Taken => 0.into(),
                Outcome::Granted(guard) => self.held(guard).into(),
            },
            Pending::Guards => match engine.acquired_all(number).map_err(thrown)? {
                None => 0.into(),
                Some(guards) => {
                    guards.into_iter().map(|guard| JsValue::from(self.held(guard))).collect::<Array>().into()
                }
            },
            Pending::Opened(asked) => engine.passed(now, asked).map_err(thrown)?.is_some().into(),
            Pending::Arrived(asked) => {
                engine.passed(now, asked).map_err(thrown)?.map_or(JsValue::UNDEFINED, |passage| {
                    let index = ("index", passage.index.into());
                    look::object([index, ("generation", passage.generation.into())])
                })
            }
            Pending::Left(latch) => engine.left(&latch, number).map_err(thrown)?.unwrap_or_default().into(),
            Pending::Set(latch) => engine.left(&latch, number).map_err(thrown)?.is_some().into(),
            Pending::Waiting => engine.waiting(number).map_err(thrown)?.into(),
            Pending::Resized => engine.resized(number).map(|()| JsValue::UNDEFINED).map_err(thrown)?,
            Pending::Look => look::inspection(engine.inspected(number).map_err(thrown)?),
            Pending::Broken => engine.broken(number).map_err(thrown)?.into(),
            Pending::Names => {
                engine.listed(number).map_err(thrown)?.into_iter().map(JsValue::from).collect::<Array>().into()
            }
            Pending::Eviction => look::eviction(engine.evicts(number).map_err(thrown)?),
        })
    }

    fn held(&mut self, guard: Guard) -> u32 {
        let number = self.number();
        self.guards.insert(number, guard);
        number
    }

    /// Whether the result for a ticket is there.
    pub fn is_settled(&self, ticket: f64) -> bool {
        self.engine.is_settled(ticket as Ticket)
    }

    /// Nobody waits for the result of a ticket any more.
    pub fn abandon(&mut self, now: f64, ticket: f64) {
        match self.pending.remove(&(ticket as Ticket)) {
            Some(Pending::Guard(asked) | Pending::Opened(asked) | Pending::Arrived(asked)) => {
                self.engine.abandon(time(now), asked);
            }
            Some(Pending::Guards) => self.engine.abandon_all(time(now), ticket as Ticket),
            Some(_) => self.engine.forget_question(ticket as Ticket),
            None => {}
        }
    }

    fn guard(&self, guard: u32) -> Thrown<&Guard> {
        self.guards.get(&guard).ok_or_else(|| thrown(no_such("guard")))
    }

    /// The name of the lock that a guard holds.
    pub fn name(&self, guard: u32) -> Thrown<String> {
        Ok(self.guard(guard)?.name().into())
    }

    /// The fencing token of a guard.
    pub fn token(&self, guard: u32) -> Thrown<u64> {
        Ok(self.guard(guard)?.token().n)
    }

    /// How many milliseconds longer it is certainly held.
    pub fn remaining(&self, now: f64, guard: u32) -> f64 {
        self.guards.get(&guard).map_or(0.0, |guard| guard.remaining(time(now)).as_secs_f64() * 1e3)
    }

    /// Why it was lost, if it was.
    pub fn why_lost(&self, now: f64, guard: u32) -> Option<String> {
        let reason = self.guards.get(&guard)?.why_lost(time(now))?;
        Some(reason.code().into())
    }

    /// Gives it back. The ticket for what the store found.
    pub fn release(&mut self, now: f64, guard: u32) -> Thrown<f64> {
        let Some(guard) = self.guards.get_mut(&guard) else { return Err(thrown(no_such("guard"))) };
        Ok(self.engine.release(time(now), guard).map_err(thrown)? as f64)
    }

    /// Gives several back, in one write. A ticket for each, or what is wrong with it.
    pub fn release_all(&mut self, now: f64, guards: Vec<u32>) -> Array {
        let wanted: Vec<(u32, Option<Guard>)> =
            guards.into_iter().map(|number| (number, self.guards.remove(&number))).collect();
        let (numbers, mut found): (Vec<u32>, Vec<Guard>) =
            wanted.into_iter().filter_map(|(number, guard)| Some((number, guard?))).unzip();
        let tickets = self.engine.release_all(time(now), found.iter_mut());
        self.guards.extend(numbers.into_iter().zip(found));
        tickets.into_iter().map(|ticket| ticket.map_or_else(thrown, |ticket| (ticket as f64).into())).collect()
    }

    /// What the store found: `released`, `expired`, `stolen` or `unknown`.
    pub fn released(&mut self, ticket: f64) -> String {
        self.engine.released(ticket as Ticket).code().into()
    }

    /// Makes its lease last `ttl` ms. The ticket for the result.
    pub fn extend(&mut self, now: f64, guard: u32, ttl: f64) -> Thrown<f64> {
        let ttl = span("extend", "ttl", ttl)?;
        let Some(guard) = self.guards.get(&guard) else { return Err(thrown(no_such("guard"))) };
        Ok(self.engine.renew(time(now), guard, ttl).map_err(thrown)? as f64)
    }

    /// It is extended, or why not.
    pub fn extended(&mut self, now: f64, guard: u32, ticket: f64) -> Thrown<()> {
        let Some(guard) = self.guards.get(&guard) else { return Err(thrown(no_such("guard"))) };
        self.engine.renewed(time(now), guard, ticket as Ticket).map_err(thrown)
    }

    /// Begins to hold another part of a read/write lock. The ticket for that.
    pub fn change(&mut self, now: f64, guard: u32, writes: bool) -> Thrown<f64> {
        let Some(guard) = self.guards.get(&guard) else { return Err(thrown(no_such("guard"))) };
        let to = if writes { Share::WRITE } else { Share::READ };
        Ok(self.engine.change(time(now), guard, to).map_err(thrown)? as f64)
    }

    /// Whether it holds what was wanted.
    pub fn changed(&mut self, now: f64, guard: u32, ticket: f64, writes: bool) -> Thrown<bool> {
        let Some(guard) = self.guards.get(&guard) else { return Err(thrown(no_such("guard"))) };
        match self.engine.changed(time(now), guard, ticket as Ticket).map_err(thrown)? {
            false if !writes => Err(thrown(error::not_downgraded())),
            done => Ok(done),
        }
    }

    /// Leaves it to a secret for `ttl` ms. The ticket for that.
    pub fn export(&mut self, now: f64, guard: u32, ttl: f64) -> Thrown<f64> {
        let ttl = span("export", "ttl", ttl)?;
        let Some(guard) = self.guards.get_mut(&guard) else { return Err(thrown(no_such("guard"))) };
        Ok(self.engine.export(time(now), guard, ttl).map_err(thrown)? as f64)
    }

    /// The secret.
    pub fn exported(&mut self, now: f64, guard: u32, ticket: f64) -> Thrown<String> {
        let Some(guard) = self.guards.get_mut(&guard) else { return Err(thrown(no_such("guard"))) };
        self.engine.exported(time(now), guard, ticket as Ticket).map_err(thrown)
    }

    /// Whether nothing is held by it any more.
    pub fn is_spent(&self, guard: u32) -> bool {
        self.guards.get(&guard).is_none_or(Guard::is_over)
    }

    /// Whether there is a guard of this number, which was not forgotten.
    pub fn has_guard(&self, guard: u32) -> bool {
        self.guards.contains_key(&guard)
    }

    /// Nobody will release what this guard holds: its lease runs out.
    pub fn abandon_guard(&mut self, now: f64, guard: u32) {
        if let Some(guard) = self.guards.remove(&guard) {
            self.engine.abandon_guard(time(now), &guard);
        }
    }

    /// This guard holds nothing any more.
    pub fn forget_guard(&mut self, guard: u32) {
        self.guards.remove(&guard);
    }

    /// The next to be done by the transport: `[line]` to connect, `[line, bytes]` to send, `[line, null]` to end it.
    pub fn action(&mut self) -> Option<Array> {
        Some(match self.engine.next_action()? {
            Action::Dial(which) => Array::of1(&number(which).into()),
            Action::Send(which, bytes) => Array::of2(&number(which).into(), &Uint8Array::from(&*bytes)),
            Action::HangUp(which) => Array::of2(&number(which).into(), &JsValue::NULL),
        })
    }

    /// A line is connected.
    pub fn dialled(&mut self, now: f64, line: u8) {
        self.engine.dialled(which(line), time(now));
    }

    /// A line ended, or could not be made, with this code of the system's.
    pub fn ended(&mut self, now: f64, line: u8, code: &str, message: &str) {
        let kind = match code {
            "ENOTFOUND" | "EAI_AGAIN" => {
                let error = unknown_host(io::Error::other(message.to_owned()));
                return self.engine.ended(which(line), time(now), error);
            }
            "" => return self.engine.ended(which(line), time(now), io::ErrorKind::UnexpectedEof.into()),
            "ECONNREFUSED" => io::ErrorKind::ConnectionRefused,
            "ECONNRESET" | "EPIPE" => io::ErrorKind::ConnectionReset,
            "ETIMEDOUT" => io::ErrorKind::TimedOut,
            "EHOSTUNREACH" | "ENETUNREACH" => io::ErrorKind::HostUnreachable,
            "EACCES" | "EPERM" => io::ErrorKind::PermissionDenied,
            _ => io::ErrorKind::Other,
        };
        self.engine.ended(which(line), time(now), io::Error::new(kind, message.to_owned()));
    }

    /// These bytes came on a line.
    pub fn came(&mut self, now: f64, line: u8, bytes: &[u8]) {
        self.engine.came(which(line), time(now), bytes);
    }

    /// Time passed.
    pub fn look(&mut self, now: f64) {
        self.engine.look(time(now));
    }

    /// When to look again at the latest.
    pub fn next_look(&self) -> Option<f64> {
        self.engine.next_look().map(|due| due.as_nanos() as f64 / 1e6)
    }

    /// Gives back all that is held.
    pub fn close(&mut self, now: f64) {
        self.engine.close(time(now));
    }

    /// Whether nothing is left to be asked.
    pub fn is_over(&self) -> bool {
        self.engine.is_over()
    }

    /// Ends both lines.
    pub fn hang_up(&mut self) {
        self.engine.hang_up();
    }
}

/// The names and values of an object.
fn entries(given: &Object) -> impl Iterator<Item = (String, JsValue)> {
    Object::entries(given).into_iter().map(|entry| {
        let entry = Array::from(&entry);
        (entry.get(0).as_string().unwrap_or_default(), entry.get(1))
    })
}

/// How a client reaches its server, where the address does not say otherwise.
fn connect(given: &Object) -> Result<ConnectOptions, Error> {
    let mut all = ConnectOptions { language: "wasm-js", ..ConnectOptions::default() };
    for (name, value) in entries(given) {
        let span = || options::milliseconds("connect", &name, value.as_f64().unwrap_or(f64::NAN));
        match &*name {
            "prefix" => all.prefix = value.as_string().unwrap_or_default(),
            "connectTimeout" => all.connect_timeout = span()?,
            "responseTimeout" => all.response_timeout = span()?,
            "storeTimeout" => all.store_timeout = span()?,
            "ca" => all.ca = value.as_string(),
            "cert" => all.cert = value.as_string(),
            "key" => all.key = value.as_string(),
            _ => return Err(Error::invalid("connect", format!("there is no option {name:?}"))),
        }
    }
    Ok(all)
}

fn no_such(what: &str) -> Error {
    Error::new(Kind::Internal, "use", format!("there is no such {what}; please report this"))
}

fn span(operation: &'static str, what: &str, ms: f64) -> Thrown<Duration> {
    options::milliseconds(operation, what, ms).map_err(thrown)
}

/// The pauses `[min, max]`, of which either may be left out.
fn retry(value: &JsValue) -> Result<Retry, Error> {
    let ends = Array::from(value);
    let end = |at: u32, what: &str, default: Duration| match ends.get(at) {
        left_out if left_out.is_undefined() => Ok(default),
        end => options::milliseconds("lock", what, end.as_f64().unwrap_or(f64::NAN)),
    };
    Ok(Retry { min: end(0, "retry.min", Retry::DEFAULT.min)?, max: end(1, "retry.max", Retry::DEFAULT.max)? })
}

fn rank(value: &JsValue) -> Result<u8, Error> {
    let rank = value.as_f64().filter(|rank| rank.fract() == 0.0 && (0.0..=255.0).contains(rank));
    rank.map(|rank| rank as u8).ok_or_else(|| Error::invalid("lock", "rank must be a whole number from 0 to 9"))
}

/// The milliseconds of a span written as `10s`, `500ms`, `2m` or `1h`; nothing for what is none.
#[wasm_bindgen]
pub fn milliseconds(text: &str) -> Option<f64> {
    uri::span_with_unit(text).map(|span| span.as_secs_f64() * 1e3)
}
