//! The client and its locks. What waits is begun by the [reactor](crate::reactor).

use std::sync::Arc;

use lockwright::guarantee::Requirements;
use lockwright::options::{ConnectOptions, Retry, milliseconds};
use lockwright::queue::OwnerId;
use lockwright::{Result, Token};
use napi::bindgen_prelude::BigInt;
use napi_derive::napi;

use crate::error::{Answer, answer};
use crate::reactor::Reactor;
use crate::report::{Figures, Promises, promises};

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
    pub fenced: Option<bool>,
    pub fair: Option<bool>,
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
        answer(self.build(&name, wanted))
    }

    #[napi(catch_unwind)]
    pub fn guarantees(&self) -> Answer<Promises> {
        answer(self.core.guarantees().map(|promised| promises(&promised)))
    }

    #[napi(catch_unwind)]
    pub fn require(&self, wanted: Insisted) -> Answer<bool> {
        let wanted = Requirements {
            fenced: wanted.fenced.unwrap_or_default(),
            fair: wanted.fair.unwrap_or_default(),
            shared: wanted.shared.unwrap_or_default(),
            push: wanted.push.unwrap_or_default(),
            failover_safe: wanted.failover_safe.unwrap_or_default(),
        };
        answer(self.core.require(wanted).map(|()| true))
    }

    #[napi(catch_unwind)]
    pub fn metrics(&self) -> Figures {
        Figures::new(self.core.metrics())
    }
}

impl Client {
    fn build(&self, name: &str, wanted: Wanted) -> Result<Lock> {
        let builder = self.core.lock(name);
        let mut options = builder.current_options().clone();
        if let Some(ttl) = wanted.ttl {
            options.ttl = milliseconds("lock", "ttl", ttl)?;
        }
        if let Some(timeout) = wanted.timeout {
            options.timeout = limit("lock", timeout)?;
        }
        if let Some(max_hold) = wanted.max_hold {
            options.max_hold = Some(milliseconds("lock", "maxHold", max_hold)?);
        }
        if let Some(layout) = wanted.layout {
            options.set_layout(&layout);
        }
        if let Some(format) = wanted.format {
            options.format = Some(format.into());
        }
        if let Some(Pauses { min, max }) = wanted.retry {
            let pause = |ms: Option<f64>, before| ms.map_or(Ok(before), |ms| milliseconds("lock", "retry", ms));
            options.retry = Retry { min: pause(min, options.retry.min)?, max: pause(max, options.retry.max)? };
        }
        if let Some(label) = wanted.label {
            options.label = Some(label.into());
        }
        options.renew = wanted.renew.unwrap_or(options.renew);
        options.fair = wanted.fair.unwrap_or(options.fair);
        let reentrant = wanted.reentrant.unwrap_or(options.reentrant);
        options.reentrant = reentrant;
        let builder = builder.options(options);
        let builder = if reentrant { builder.reentrant(OwnerId(0)) } else { builder };
        Ok(Lock { core: builder.build()?, reentrant })
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
    pub fn reentrant(&self) -> bool {
        self.reentrant
    }

    #[napi(catch_unwind)]
    pub fn guarantees(&self) -> Promises {
        promises(&self.core.guarantees())
    }
}

impl Lock {
    /// What `owner` is to acquire, and for how long it waits: as the lock says where no `timeout` is given.
    pub(crate) fn wanted_by(
        &self,
        owner: Option<f64>,
        timeout: Option<f64>,
    ) -> Result<(lockwright::Lock, Option<std::time::Duration>)> {
        let timeout = timeout.map_or(Ok(self.core.options().timeout), |ms| limit("acquire", ms));
        let timeout = timeout.map_err(|error| error.on_lock(self.core.name()))?;
        // Owners are counted, so they are whole numbers that a float holds.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let lock = owner.map_or_else(|| self.core.clone(), |owner| self.core.for_owner(OwnerId(owner as u64)));
        Ok((lock, timeout))
    }
}

/// A time limit; `Infinity` is none.
fn limit(operation: &'static str, ms: f64) -> Result<Option<std::time::Duration>> {
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
