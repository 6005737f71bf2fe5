//! The client and its locks. What waits is begun by the [reactor](crate::reactor).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockwright::guarantee::Requirements;
use lockwright::options::{AcquireOptions, ConnectOptions, Retry, milliseconds};
use lockwright::queue::OwnerId;
use lockwright::{LockBuilder, Result, Token, uri};
use napi::bindgen_prelude::BigInt;
use napi_derive::napi;

use crate::error::{Answer, Failure, answer};
use crate::reactor::Reactor;
use crate::report::{Figures, Promises, in_ms, promises};

/// As `ConnectOptions` of `ts/client.ts`. Times are milliseconds.
#[napi(object, object_to_js = false)]
pub struct Connecting {
    pub prefix: Option<String>,
    pub connect_timeout: Option<f64>,
    pub response_timeout: Option<f64>,
    pub store_timeout: Option<f64>,
    pub ca: Option<String>,
    pub cert: Option<String>,
    pub key: Option<String>,
    /// By what number the reactor asks for user and password.
    pub credentials: Option<u32>,
}

impl Connecting {
    fn options(self, reactor: &Reactor) -> Result<ConnectOptions> {
        let mut options = ConnectOptions { language: "node", ..ConnectOptions::default() };
        for (what, given, option) in [
            ("connectTimeout", self.connect_timeout, &mut options.connect_timeout),
            ("responseTimeout", self.response_timeout, &mut options.response_timeout),
            ("storeTimeout", self.store_timeout, &mut options.store_timeout),
        ] {
            if let Some(ms) = given {
                *option = milliseconds("connect", what, ms)?;
            }
        }
        options.prefix = self.prefix.unwrap_or_default();
        (options.ca, options.cert, options.key) = (self.ca, self.cert, self.key);
        if let Some(whom) = self.credentials {
            let (desk, limit) = (reactor.desk(), options.connect_timeout);
            options.credentials = Some(Arc::new(move || desk.ask(whom, limit)));
        }
        Ok(options)
    }
}

/// As `LockOptions` of `ts/lock.ts`. Times are milliseconds.
#[napi(object, object_to_js = false)]
pub struct Wanted {
    pub ttl: Option<f64>,
    pub timeout: Option<f64>,
    pub renew: Option<bool>,
    pub max_hold: Option<f64>,
    pub at_least_for: Option<f64>,
    pub fair: Option<bool>,
    pub reentrant: Option<bool>,
    pub layout: Option<String>,
    pub format: Option<String>,
    pub retry: Option<Pauses>,
    pub label: Option<String>,
}

/// Milliseconds between two tries of a waiter that nobody tells of its turn.
#[napi(object, object_to_js = false)]
pub struct Pauses {
    pub min: Option<f64>,
    pub max: Option<f64>,
}

/// As `Requirements` of `ts/records.ts`.
#[napi(object, object_to_js = false)]
pub struct Insisted {
    pub rwlock: Option<bool>,
    pub semaphore: Option<bool>,
    pub latch: Option<bool>,
    pub barrier: Option<bool>,
    pub fenced: Option<bool>,
    pub fair: Option<bool>,
    pub reentrant: Option<bool>,
    pub shared: Option<bool>,
    pub push: Option<bool>,
    pub failover_safe: Option<bool>,
}

#[napi]
pub struct Client {
    pub(crate) core: lockwright::Client,
}

/// Nothing is sent before the first use.
#[napi(catch_unwind)]
pub fn open(reactor: &Reactor, url: Option<String>, options: Connecting) -> Answer<Client> {
    let opened = options.options(reactor).and_then(|options| lockwright::Client::open(url.as_deref(), options));
    answer(opened.map(|core| Client { core }))
}

#[napi]
impl Client {
    #[napi(getter, catch_unwind)]
    pub fn address(&self) -> String {
        self.core.address().to_owned()
    }

    /// What is not given stays as the address says.
    #[napi(catch_unwind)]
    pub fn lock(&self, name: String, wanted: Wanted) -> Answer<Lock> {
        answer(self.build(self.core.lock(&name), wanted))
    }

    /// The part of readers, or of the writer, of a read/write lock.
    #[napi(catch_unwind)]
    pub fn rwlock(&self, name: String, writes: bool, wanted: Wanted) -> Answer<Lock> {
        let both = self.core.rwlock(&name);
        answer(self.build(if writes { both.write() } else { both.read() }, wanted))
    }

    #[napi(catch_unwind)]
    pub fn semaphore(&self, name: String, permits: u32, take: u32, wanted: Wanted) -> Answer<Lock> {
        answer(self.build(self.core.semaphore(&name, permits).take(take), wanted))
    }

    /// The lock that `secret` holds.
    #[napi(catch_unwind)]
    pub fn exported(&self, secret: String) -> Answer<Lock> {
        answer(self.core.exported(&secret).map(|core| Lock::new(core, false)))
    }

    #[napi(catch_unwind)]
    pub fn guarantees(&self) -> Answer<Promises> {
        answer(self.core.guarantees().map(|promised| promises(&promised)))
    }

    #[napi(catch_unwind)]
    pub fn require(&self, wanted: Insisted) -> Answer<bool> {
        let wanted = Requirements {
            rwlock: wanted.rwlock.unwrap_or_default(),
            semaphore: wanted.semaphore.unwrap_or_default(),
            latch: wanted.latch.unwrap_or_default(),
            barrier: wanted.barrier.unwrap_or_default(),
            fenced: wanted.fenced.unwrap_or_default(),
            fair: wanted.fair.unwrap_or_default(),
            reentrant: wanted.reentrant.unwrap_or_default(),
            shared: wanted.shared.unwrap_or_default(),
            push: wanted.push.unwrap_or_default(),
            failover_safe: wanted.failover_safe.unwrap_or_default(),
        };
        answer(self.core.require(wanted).map(|()| true))
    }

    /// Which of the acquisitions in `awaited` waits for ever, if one does: each second one is awaited by whoever holds what the one
    /// before it got.
    #[napi(catch_unwind)]
    pub fn endless_wait(&self, awaited: Vec<f64>) -> Option<Endless> {
        let pairs = awaited.chunks_exact(2).map(|pair| (known_as(pair[0]), known_as(pair[1])));
        let (waiter, error) = self.core.endless_wait(&pairs.collect::<Vec<_>>())?;
        #[expect(clippy::cast_precision_loss, reason = "it was a whole number that JavaScript has")]
        let waiter = waiter.0 as f64;
        Some(Endless { waiter, why: error.into() })
    }

    #[napi(catch_unwind)]
    pub fn metrics(&self) -> Figures {
        Figures::new(self.core.metrics())
    }
}

impl Wanted {
    /// What is not given stays as the client's address says.
    pub(crate) fn options(self, client: &lockwright::Client) -> Result<AcquireOptions> {
        let mut options = client.options();
        if let Some(ttl) = self.ttl {
            options.ttl = milliseconds("lock", "ttl", ttl)?;
        }
        if let Some(timeout) = self.timeout {
            options.timeout = limit("lock", timeout)?;
        }
        if let Some(max_hold) = self.max_hold {
            options.max_hold = Some(milliseconds("lock", "maxHold", max_hold)?);
        }
        if let Some(at_least_for) = self.at_least_for {
            options.at_least_for = Some(milliseconds("lock", "atLeastFor", at_least_for)?);
        }
        if let Some(layout) = self.layout {
            options.set_layout(&layout);
        }
        if let Some(format) = self.format {
            options.format = Some(format.into());
        }
        if let Some(Pauses { min, max }) = self.retry {
            let pause = |ms: Option<f64>, before| ms.map_or(Ok(before), |ms| milliseconds("lock", "retry", ms));
            options.retry = Retry { min: pause(min, options.retry.min)?, max: pause(max, options.retry.max)? };
        }
        if let Some(label) = self.label {
            options.label = Some(label.into());
        }
        options.renew = self.renew.unwrap_or(options.renew);
        options.fair = self.fair.unwrap_or(options.fair);
        options.reentrant = self.reentrant.unwrap_or(options.reentrant);
        Ok(options)
    }
}

impl Client {
    fn build(&self, builder: LockBuilder, wanted: Wanted) -> Result<Lock> {
        let options = wanted.options(&self.core)?;
        let reentrant = options.reentrant;
        let builder = builder.options(options);
        let builder = if reentrant { builder.reentrant(OwnerId(0)) } else { builder };
        Ok(Lock::new(builder.build()?, reentrant))
    }
}

#[napi]
pub struct Lock {
    pub(crate) core: lockwright::Lock,
    reentrant: bool,
}

#[napi]
impl Lock {
    #[napi(getter, catch_unwind)]
    pub fn name(&self) -> String {
        self.core.name().to_owned()
    }

    #[napi(getter, catch_unwind)]
    pub fn reentrant(&self) -> bool {
        self.reentrant
    }

    #[napi(catch_unwind)]
    pub fn guarantees(&self) -> Promises {
        promises(&self.core.guarantees())
    }

    /// Whether one of these acquisitions of this client keeps others from it.
    #[napi(catch_unwind)]
    pub fn is_kept_by(&self, owners: Vec<f64>) -> bool {
        self.core.is_kept_by(&owners.into_iter().map(known_as).collect::<Vec<_>>())
    }

    #[napi(catch_unwind)]
    pub fn fair_if_possible(&self) -> Lock {
        Lock::new(self.core.fair_if_possible(), self.reentrant)
    }
}

impl Lock {
    pub(crate) fn new(core: lockwright::Lock, reentrant: bool) -> Self {
        Lock { core, reentrant }
    }

    /// What `owner` is to acquire.
    pub(crate) fn wanted_by(&self, owner: Option<f64>) -> lockwright::Lock {
        let Some(owner) = owner else { return self.core.clone() };
        let wanted = self.core.for_owner(known_as(owner));
        // What an owner does side by side waits for several things at once.
        if self.reentrant { wanted.released_by_anybody() } else { wanted }
    }

    pub(crate) fn limit(&self, timeout: Option<f64>) -> Result<Option<Duration>> {
        limit_of(timeout, self.core.options().timeout).map_err(|error| error.on_lock(self.core.name()))
    }
}

/// The milliseconds that a text with a unit stands for, such as `10s`.
#[napi(catch_unwind)]
pub fn span(text: String) -> Option<f64> {
    let has_unit = text.ends_with(|last: char| last.is_ascii_alphabetic());
    has_unit.then(|| uri::span("span", &text).ok().map(in_ms)).flatten()
}

/// Whether nobody in this process asked before.
#[napi(catch_unwind)]
pub fn first_doubt() -> bool {
    static ASKED: AtomicBool = AtomicBool::new(false);
    !ASKED.swap(true, Ordering::Relaxed)
}

/// An acquisition that would wait for ever.
#[napi(object, object_from_js = false)]
pub struct Endless {
    pub waiter: f64,
    pub why: Failure,
}

/// Who acquires, by the number that JavaScript gave it.
pub(crate) fn known_as(number: f64) -> OwnerId {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it counts from 1")]
    OwnerId(number as u64)
}

/// How long an acquisition waits: as the lock says where nothing is given.
pub(crate) fn limit_of(given: Option<f64>, own: Option<Duration>) -> Result<Option<Duration>> {
    given.map_or(Ok(own), |ms| limit("acquire", ms))
}

/// A time limit; `Infinity` is none.
fn limit(operation: &'static str, ms: f64) -> Result<Option<Duration>> {
    if ms == f64::INFINITY { Ok(None) } else { milliseconds(operation, "timeout", ms).map(Some) }
}

/// The token of the hold to be broken. One that no `u64` can be is no lock's.
pub(crate) fn token(expected: &BigInt) -> Result<Token> {
    let (negative, n, whole) = expected.get_u64();
    if negative || !whole {
        let message = "the token is out of range; give one that inspect showed";
        return Err(lockwright::Error::invalid("break", message));
    }
    Ok(Token::new(n))
}
