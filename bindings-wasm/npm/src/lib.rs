//! Lockwright in WebAssembly for JavaScript: the engine as an object of numbers and bytes, for the classes in `ts/`.
//!
//! Nothing waits here. JavaScript tells what its transport does and what time it is, performs what [`Core::action`]
//! says, and asks after each of these for the results of its tickets. What fails is thrown as a plain object: code,
//! message, and what it concerns.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use js_sys::{Array, Function, Object, Reflect, Uint8Array};
use lockwright_machines::error::{Error, Kind};
use lockwright_machines::options::{self, AcquireOptions};
use lockwright_machines::reach::unknown_host;
use lockwright_machines::time::Time;
use lockwright_machines::uri;
use lockwright_wasm_engine::{Action, Asked, Config, Engine, Guard, Lock, Outcome, Ticket, Which};
use wasm_bindgen::prelude::*;

/// What fails is thrown as this.
type Thrown<T> = Result<T, JsValue>;

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

/// A client, with all that is asked of it and held, by numbers.
#[wasm_bindgen]
pub struct Core {
    engine: Engine,
    locks: HashMap<u32, Lock>,
    asked: HashMap<Ticket, Asked>,
    guards: HashMap<u32, Guard>,
    next: u32,
}

#[wasm_bindgen]
impl Core {
    /// That of the server at `address`. `random` fills what it is given with random bytes.
    #[wasm_bindgen(constructor)]
    pub fn new(address: &str, random: Function) -> Thrown<Core> {
        let config = Config::read(address, "wasm-js").map_err(thrown)?;
        let draw = move || {
            let bytes = Uint8Array::new_with_length(16);
            random.call1(&JsValue::NULL, &bytes).ok()?;
            Some(u128::from_le_bytes(bytes.to_vec().try_into().ok()?))
        };
        let engine = Engine::new(config, Box::new(draw));
        Ok(Core { engine, locks: HashMap::new(), asked: HashMap::new(), guards: HashMap::new(), next: 0 })
    }

    /// The address without credentials.
    pub fn address(&self) -> String {
        self.engine.config().address.to_string()
    }

    /// Where its transport is to connect to.
    pub fn host(&self) -> String {
        self.engine.config().host.clone()
    }

    /// The same, its port.
    pub fn port(&self) -> u16 {
        self.engine.config().port
    }

    fn number(&mut self) -> u32 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    /// A lock, by its number. `given` has the options by their names in Rust, spans in milliseconds.
    pub fn lock(&mut self, name: &str, given: &Object) -> Thrown<u32> {
        let options = self.options(given).map_err(thrown)?;
        let lock = self.engine.lock(name, options).map_err(thrown)?;
        let number = self.number();
        self.locks.insert(number, lock);
        Ok(number)
    }

    /// The lock of this number is named no more.
    pub fn forget_lock(&mut self, lock: u32) {
        self.locks.remove(&lock);
    }

    fn options(&self, given: &Object) -> Result<AcquireOptions, Error> {
        let mut all = self.engine.lock_options();
        for entry in Object::entries(given).iter() {
            let entry = Array::from(&entry);
            let (name, value) = (entry.get(0).as_string().unwrap_or_default(), entry.get(1));
            let span = |value: &JsValue| options::milliseconds("lock", &name, value.as_f64().unwrap_or(f64::NAN));
            match &*name {
                "ttl" => all.ttl = span(&value)?,
                // What is waited for without an end is no limit.
                "timeout" => {
                    all.timeout = if value.as_f64() == Some(f64::INFINITY) { None } else { Some(span(&value)?) }
                }
                "renew" => all.renew = value.is_truthy(),
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

    /// Asks for a lock, for at most `timeout` ms; below zero as the lock says. The ticket for the result.
    pub fn acquire(&mut self, now: f64, lock: u32, timeout: f64) -> Thrown<f64> {
        let Some(lock) = self.locks.get(&lock).cloned() else { return Err(thrown(no_such("lock"))) };
        let timeout = match timeout {
            within if within < 0.0 => lock.timeout(),
            f64::INFINITY => None,
            within => Some(options::milliseconds("acquire", "timeout", within).map_err(thrown)?),
        };
        let asked = self.engine.acquire(time(now), &lock, timeout).map_err(thrown)?;
        Ok(self.keep(asked))
    }

    /// Takes over an exported lock. The ticket for the result.
    pub fn resume(&mut self, now: f64, secret: &str, given: &Object) -> Thrown<f64> {
        let options = self.options(given).map_err(thrown)?;
        let asked = self.engine.resume(time(now), secret, options).map_err(thrown)?;
        Ok(self.keep(asked))
    }

    fn keep(&mut self, asked: Asked) -> f64 {
        let ticket = asked.ticket;
        self.asked.insert(ticket, asked);
        ticket as f64
    }

    /// Whether the result for a ticket is there.
    pub fn is_settled(&self, ticket: f64) -> bool {
        self.engine.is_settled(ticket as Ticket)
    }

    /// The number of the guard that was asked for; 0 where somebody else has the lock.
    pub fn granted(&mut self, now: f64, ticket: f64) -> Thrown<u32> {
        let Some(asked) = self.asked.remove(&(ticket as Ticket)) else { return Err(thrown(no_such("acquisition"))) };
        match self.engine.conclude(time(now), asked).map_err(thrown)? {
            Outcome::Taken => Ok(0),
            Outcome::Granted(guard) => {
                let number = self.number();
                self.guards.insert(number, guard);
                Ok(number)
            }
        }
    }

    /// Nobody waits for the acquisition any more.
    pub fn abandon(&mut self, now: f64, ticket: f64) {
        if let Some(asked) = self.asked.remove(&(ticket as Ticket)) {
            self.engine.abandon(time(now), asked);
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

    /// What the store found: `released`, `expired`, `stolen` or `unknown`.
    pub fn released(&mut self, ticket: f64) -> String {
        self.engine.released(ticket as Ticket).code().into()
    }

    /// Makes its lease last `ttl` ms. The ticket for the result.
    pub fn extend(&mut self, now: f64, guard: u32, ttl: f64) -> Thrown<f64> {
        let ttl = span("extend", ttl)?;
        let Some(guard) = self.guards.get(&guard) else { return Err(thrown(no_such("guard"))) };
        Ok(self.engine.renew(time(now), guard, ttl).map_err(thrown)? as f64)
    }

    /// It is extended, or why not.
    pub fn extended(&mut self, now: f64, guard: u32, ticket: f64) -> Thrown<()> {
        let Some(guard) = self.guards.get(&guard) else { return Err(thrown(no_such("guard"))) };
        self.engine.renewed(time(now), guard, ticket as Ticket).map_err(thrown)
    }

    /// Leaves it to a secret for `ttl` ms. The ticket for that.
    pub fn export(&mut self, now: f64, guard: u32, ttl: f64) -> Thrown<f64> {
        let ttl = span("export", ttl)?;
        let Some(guard) = self.guards.get(&guard) else { return Err(thrown(no_such("guard"))) };
        Ok(self.engine.export(time(now), guard, ttl).map_err(thrown)? as f64)
    }

    /// The secret.
    pub fn exported(&mut self, guard: u32, ticket: f64) -> Thrown<String> {
        let Some(guard) = self.guards.get_mut(&guard) else { return Err(thrown(no_such("guard"))) };
        self.engine.exported(guard, ticket as Ticket).map_err(thrown)
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

fn no_such(what: &str) -> Error {
    Error::new(Kind::Internal, "use", format!("there is no such {what}; please report this"))
}

fn span(operation: &'static str, ttl: f64) -> Thrown<Duration> {
    options::milliseconds(operation, "ttl", ttl).map_err(thrown)
}

fn rank(value: &JsValue) -> Result<u8, Error> {
    let rank = value.as_f64().filter(|rank| rank.fract() == 0.0 && (0.0..=255.0).contains(rank));
    rank.map(|rank| rank as u8).ok_or_else(|| Error::invalid("lock", "rank must be a whole number from 0 to 9"))
}

/// The milliseconds of a span written as `10s`, `500ms`, `2m` or `1h`; nothing for what is none.
#[wasm_bindgen]
pub fn milliseconds(text: &str) -> Option<f64> {
    uri::span("span", text).ok().map(|span| span.as_secs_f64() * 1e3)
}
