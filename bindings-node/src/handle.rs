//! What JavaScript has of a client, of locks, and of whatever else it asks something: one class for all, of which `ts`
//! makes its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockwright::binding::operation::{Operation, Takes};
use lockwright::binding::options::{CONNECT, LOCK, REQUIRE};
use lockwright::binding::{Argument, Given, Handle as Core, Record, lost_track, open, span_with_unit};
use lockwright::guarantee::Requirements;
use lockwright::options::{AcquireOptions, ConnectOptions};
use lockwright::queue::OwnerId;
use lockwright::{Error, LockBuilder, Result};
use napi::Env;
use napi::bindgen_prelude::{BigInt, ClassInstance, Either3, External, Object};
use napi_derive::napi;

use crate::error::{Answer, Failure, answer};
use crate::reactor::Reactor;
use crate::value::{NODE, Options, number, object, set};

#[napi]
#[derive(Clone)]
pub struct Handle {
    core: Core,
}

/// Nothing is sent before the first use. `source` is by what number the reactor asks for user and password.
#[napi(catch_unwind)]
pub fn open(reactor: &External<Reactor>, url: Option<String>, given: Options, source: Option<u32>) -> Answer<Handle> {
    let open = || {
        let mut options = ConnectOptions { language: NODE.name, ..ConnectOptions::default() };
        set(&CONNECT, &mut options, given, "connect")?;
        if let Some(whom) = source {
            options.credentials = Some(reactor.source(whom, options.connect_timeout));
        }
        lockwright::Client::open(url.as_deref(), options).map(|client| Core::Client(client).into())
    };
    answer(open())
}

impl From<Core> for Handle {
    fn from(core: Core) -> Self {
        Handle { core }
    }
}

/// An argument of an operation. Numbers were checked to be whole where they count something.
pub(crate) type Word = Option<Either3<f64, String, BigInt>>;

/// Of a client.
#[napi]
impl Handle {
    #[napi(getter, catch_unwind)]
    pub fn address(&self) -> String {
        self.core.client().map(|client| client.address().to_owned()).unwrap_or_default()
    }

    /// What is not given stays as the address says.
    #[napi(catch_unwind)]
    pub fn lock(&self, name: String, options: Options) -> Answer<Handle> {
        answer(self.build(options, |client| client.lock(&name)))
    }

    /// The part of readers, or of the writer, of a read/write lock.
    #[napi(catch_unwind)]
    pub fn rwlock(&self, name: String, writes: bool, options: Options) -> Answer<Handle> {
        let part = |client: &lockwright::Client| {
            let both = client.rwlock(&name);
            if writes { both.write() } else { both.read() }
        };
        answer(self.build(options, part))
    }

    #[napi(catch_unwind)]
    pub fn semaphore(&self, name: String, permits: u32, take: u32, options: Options) -> Answer<Handle> {
        answer(self.build(options, |client| client.semaphore(&name, permits).take(take)))
    }

    #[napi(catch_unwind)]
    pub fn multi_lock(&self, names: Vec<String>, options: Options) -> Answer<Handle> {
        let made = self.options(options).and_then(|options| self.core.client()?.multi_lock_with(names, &options));
        answer(made.map(|locks| Core::Locks(locks).into()))
    }

    #[napi(catch_unwind)]
    pub fn striped(&self, name: String, segments: u32, options: Options) -> Answer<Handle> {
        let made = self.options(options);
        let made = made.and_then(|options| self.core.client()?.striped_with(&name, segments as usize, &options));
        answer(made.map(|segments| Core::Segments(segments).into()))
    }

    /// Of a striped lock: with the stores of these clients besides.
    #[napi(catch_unwind)]
    pub fn across(&self, others: Vec<ClassInstance<'_, Handle>>) -> Answer<Handle> {
        let across = || {
            let others = others.iter().map(|other| other.core.client().cloned()).collect::<Result<Vec<_>>>()?;
            self.core.segments()?.across(&others)
        };
        answer(across().map(|segments| Core::Segments(segments).into()))
    }

    #[napi(catch_unwind)]
    pub fn latch(&self, name: String, count: u32, idle: Option<f64>) -> Answer<Handle> {
        let build = || {
            let idle = idle.map(|idle| NODE.span("latch", "idle", &Given::Number(idle))).transpose()?;
            open::latch(self.core.client()?, &name, count, idle).map(|latch| Core::Latch(latch).into())
        };
        answer(build())
    }

    #[napi(catch_unwind)]
    pub fn barrier(&self, name: String, parties: u32, ttl: Option<f64>) -> Answer<Handle> {
        let build = || {
            let ttl = ttl.map(|ttl| NODE.span("barrier", "ttl", &Given::Number(ttl))).transpose()?;
            open::barrier(self.core.client()?, &name, parties, ttl).map(|barrier| Core::Barrier(barrier).into())
        };
        answer(build())
    }

    /// The lock that `secret` holds.
    #[napi(catch_unwind)]
    pub fn exported(&self, secret: String) -> Answer<Handle> {
        answer(self.core.client().and_then(|client| client.exported(&secret)).map(|lock| Core::Lock(lock).into()))
    }

    #[napi(catch_unwind)]
    pub fn require(&self, wanted: Options) -> Answer<bool> {
        let mut requirements = Requirements::default();
        let wanted = set(&REQUIRE, &mut requirements, wanted, "require");
        answer(wanted.and_then(|()| self.core.client()?.require(requirements)).map(|()| true))
    }

    /// Which of the acquisitions in `awaited` wait for ever, one of each circle, and why: each second one is awaited by
    /// whoever holds what the one before it got.
    #[napi(catch_unwind)]
    pub fn endless_waits(&self, awaited: Vec<f64>) -> Vec<(f64, Failure)> {
        let pairs = awaited.chunks_exact(2).map(|pair| (known_as(pair[0]), known_as(pair[1])));
        let mut left: Vec<_> = pairs.collect();
        let mut found = Vec::new();
        while let Some((waiter, error)) = self.core.client().ok().and_then(|client| client.endless_wait(&left)) {
            left.retain(|(_, awaited)| *awaited != waiter);
            found.push((number(waiter.0), error.into()));
        }
        found
    }

    #[napi(catch_unwind)]
    pub fn metrics<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        object(env, self.core.client().map(lockwright::Client::metrics).unwrap_or_default().into())
    }

    /// Of a lock, too.
    #[napi(catch_unwind)]
    pub fn guarantees<'env>(&self, env: &'env Env) -> napi::Result<Answer<Object<'env>>> {
        let promised = match &self.core {
            Core::Lock(lock) => Ok(lock.guarantees()),
            core => core.client().and_then(lockwright::Client::guarantees),
        };
        Ok(match promised {
            Ok(promised) => Answer::A(object(env, Record::from(promised))?),
            Err(error) => Answer::B(error.into()),
        })
    }
}

/// Of whatever else there is.
#[napi]
impl Handle {
    #[napi(getter, catch_unwind)]
    pub fn name(&self) -> String {
        self.core.name().to_owned()
    }

    #[napi(getter, catch_unwind)]
    pub fn names(&self) -> Vec<String> {
        self.core.locks().map(|locks| locks.names().map(str::to_owned).collect()).unwrap_or_default()
    }

    #[napi(getter, catch_unwind)]
    pub fn reentrant(&self) -> bool {
        self.core.lock().is_ok_and(|lock| lock.options().reentrant)
    }

    /// This lock, as `acquire` takes it: to find an object of a class at each call takes longer than most of what is
    /// done for it.
    #[napi(catch_unwind)]
    pub fn external(&self) -> External<Handle> {
        External::new(self.clone())
    }

    /// Whether one of these acquisitions of this client keeps others from it.
    #[napi(catch_unwind)]
    pub fn is_kept_by(&self, owners: Vec<f64>) -> bool {
        let owners: Vec<_> = owners.into_iter().map(known_as).collect();
        self.core.lock().is_ok_and(|lock| lock.is_kept_by(&owners))
    }

    #[napi(catch_unwind)]
    pub fn for_election(&self) -> Answer<Handle> {
        let seat = self.core.lock().and_then(|lock| lock.clone().for_election());
        answer(seat.map(|lock| Core::Lock(lock).into()))
    }

    #[napi(getter, catch_unwind)]
    pub fn count(&self) -> u32 {
        self.core.segments().map_or(0, |segments| whole(segments.count()))
    }

    #[napi(catch_unwind)]
    pub fn index_for(&self, key: String) -> u32 {
        self.core.segments().map_or(0, |segments| whole(segments.index_for(&key)))
    }

    #[napi(catch_unwind)]
    pub fn segment(&self, index: u32) -> Answer<Handle> {
        answer(self.on_segment(index, |segments, index| Core::Lock(segments.segment(index).clone()).into()))
    }

    #[napi(catch_unwind)]
    pub fn mark_sold_out(&self, index: u32) -> Answer<bool> {
        let mark = |segments: &lockwright::striped::Striped, index| segments.mark_sold_out(index);
        answer(self.on_segment(index, mark).map(|()| true))
    }

    #[napi(catch_unwind)]
    pub fn restock(&self) {
        let _ = self.core.segments().map(lockwright::striped::Striped::restock);
    }
}

impl Handle {
    /// What is not given stays as the client's address says.
    fn options(&self, given: Options) -> Result<AcquireOptions> {
        let mut options = self.core.client()?.options();
        set(&LOCK, &mut options, given, "lock").map(|()| options)
    }

    fn build(&self, given: Options, of: impl FnOnce(&lockwright::Client) -> LockBuilder) -> Result<Handle> {
        let options = self.options(given)?;
        let reentrant = options.reentrant;
        let builder = of(self.core.client()?).options(options);
        let builder = if reentrant { builder.reentrant(OwnerId(0)) } else { builder };
        builder.build().map(|lock| Core::Lock(lock).into())
    }

    fn on_segment<T>(&self, index: u32, work: impl FnOnce(&lockwright::striped::Striped, usize) -> T) -> Result<T> {
        let segments = self.core.segments()?;
        Ok(work(segments, open::segment(segments, index as usize)?))
    }

    /// What `owner` is to acquire.
    pub(crate) fn wanted_by(&self, owner: f64) -> Result<lockwright::Lock> {
        let wanted = self.core.lock()?.clone().for_owner(known_as(owner));
        // What an owner does side by side waits for several things at once.
        Ok(if wanted.options().reentrant { wanted.released_by_anybody() } else { wanted })
    }

    /// The operation of that name, what it is asked of by `owner`, and its arguments.
    pub(crate) fn asked(
        &self,
        name: &str,
        words: Vec<Word>,
        owner: Option<f64>,
    ) -> Result<(&'static Operation, Core, Vec<Argument>)> {
        let operation = Operation::find(self.core.of(), name).ok_or_else(|| lost_track("call"))?;
        let core = match (&self.core, owner) {
            (Core::Lock(_), Some(owner)) => Core::Lock(self.wanted_by(owner)?),
            (core, owner) => core.clone().for_owner(owner.map(known_as)),
        };
        let mut words = words.into_iter();
        let argument = |(what, takes): &(&'static str, Takes)| {
            Ok(match (takes, words.next().flatten()) {
                (Takes::Limit, None) => Argument::Limit(self.core.own_limit()),
                (Takes::Limit, Some(Either3::A(ms))) => Argument::Limit(self.limit(Some(ms))?),
                (Takes::Span, Some(Either3::A(ms))) => {
                    Argument::Span(NODE.span(operation.operation, what, &Given::Number(ms))?)
                }
                (Takes::Text, Some(Either3::B(text))) => Argument::Text(text),
                (Takes::Token, Some(Either3::C(token))) => Argument::Token(known_token(&token)?),
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was checked")]
                (Takes::Count, Some(Either3::A(count))) => Argument::Count(count as u32),
                _ => return Err(lost_track(operation.operation)),
            })
        };
        let arguments = operation.takes.iter().map(argument).collect::<Result<_>>()?;
        Ok((operation, core, arguments))
    }

    /// How long an acquisition waits: as the lock says where nothing is given.
    pub(crate) fn limit(&self, timeout: Option<f64>) -> Result<Option<Duration>> {
        let given = timeout.map(|ms| NODE.limit("acquire", "timeout", &Given::Number(ms)));
        given.unwrap_or_else(|| Ok(self.core.own_limit())).map_err(|error| match self.core {
            Core::Locks(_) | Core::Segments(_) => error,
            _ => error.on_lock(self.core.name()),
        })
    }
}

pub(crate) fn whole(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The milliseconds that a text with a unit stands for, such as `10s`.
#[napi(catch_unwind)]
pub fn span(text: String) -> Option<f64> {
    span_with_unit(&text).map(|span| NODE.number(span))
}

/// Whether nobody in this process asked before.
#[napi(catch_unwind)]
pub fn first_doubt() -> bool {
    static ASKED: AtomicBool = AtomicBool::new(false);
    !ASKED.swap(true, Ordering::Relaxed)
}

/// Who acquires, by the number that JavaScript gave it.
fn known_as(number: f64) -> OwnerId {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it counts from 1")]
    OwnerId(number as u64)
}

/// The token of the hold to be broken. One that no `u64` can be is no lock's.
fn known_token(expected: &BigInt) -> Result<u64> {
    let (negative, n, whole) = expected.get_u64();
    let out = || Error::invalid("break", "the token is out of range; give one that inspect showed");
    (!negative && whole).then_some(n).ok_or_else(out)
}
