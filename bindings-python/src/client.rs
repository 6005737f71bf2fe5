//! `lockwright.connect` and the client.

use std::sync::{Arc, Mutex};

use lockwright::binding::open;
use lockwright::binding::options::{CONNECT, LOCK, REQUIRE};
use lockwright::blocking;
use lockwright::guarantee::Requirements;
use lockwright::options::{AcquireOptions, ConnectOptions};
use lockwright::queue::OwnerId;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::asked::ask;
use crate::barrier::Barrier;
use crate::error::Raised;
use crate::guard::Guard;
use crate::latch::Latch;
use crate::lock::{Lock, RLock};
use crate::report::follow_logging;
use crate::semaphore::Semaphore;
use crate::several::{Bundle, Segments};
use crate::value::{PYTHON, record, set};
use crate::{Given, Keywords, Span, Whole, aside, callable, dispatcher, locked, text};

/// What a client shares with its locks.
pub(crate) struct SharedClient {
    pub(crate) client: blocking::Client,
    pub(crate) address: String,
    /// Who gives user and password.
    credentials: Option<Arc<Py<PyAny>>>,
    /// Holds of locks that were collected meanwhile; another lock of the same name may release them.
    pub(crate) orphans: Mutex<Vec<Orphan>>,
}

pub(crate) struct Orphan {
    pub(crate) reentrant: bool,
    pub(crate) who: u64,
    pub(crate) guard: Py<Guard>,
}

impl SharedClient {
    /// A process whose driver may ask for credentials needs somebody to answer it.
    pub(crate) fn prepare(&self, py: Python<'_>) -> PyResult<()> {
        if self.credentials.is_some() {
            dispatcher::started(py)?;
        }
        Ok(())
    }
}

/// Connects to the place that `url` names, else `LOCKWRIGHT_URL`, else a file of this user's.
///
/// Nothing is sent before the first use. Times are numbers of seconds, texts such as `10s` and `500ms`, or timedeltas.
/// What the address says goes before what is given here. `prefix`: put before every lock name, so that applications can
/// share a store. `connect_timeout`: limit for making one connection (2). `response_timeout`: limit for one reply;
/// after it the request is asked again (1). `store_timeout`: how long an operation goes on asking a store that does not
/// answer (5). `ca`, `cert` and `key`: PEM files. `credentials` returns a user and a password and is asked at every new
/// connection, by the thread that makes it or by one of the library's. When it raises, what needed the connection
/// raises `AuthFailed`, which names the cause.
#[pyfunction]
#[pyo3(signature = (url=None, *, credentials=None, **options))]
pub(crate) fn connect(
    py: Python<'_>,
    url: Option<&Bound<'_, PyAny>>,
    credentials: Option<Py<PyAny>>,
    options: Option<Keywords<'_, '_>>,
) -> PyResult<Client> {
    let keywords = options;
    let mut options = ConnectOptions { language: PYTHON.name, ..ConnectOptions::default() };
    set("connect", &CONNECT, &[], &mut options, keywords)?;
    let url = url.map(|url| text("connect", "url", url)).transpose()?;
    let credentials = credentials.map(Arc::new);
    if let Some(source) = &credentials {
        callable("credentials", source.bind(py))?;
        let (source, limit) = (Arc::downgrade(source), options.connect_timeout);
        options.credentials = Some(Arc::new(move || dispatcher::credentials(&source, limit)));
    }
    let client = blocking::Client::open(url.as_deref(), options).map_err(Raised)?;
    let address = client.address().to_owned();
    let shared = SharedClient { client, address, credentials, orphans: Mutex::default() };
    shared.prepare(py)?;
    follow_logging(py)?;
    Ok(Client { shared: Arc::new(shared) })
}

/// One place where locks are kept. After a fork the child's copy connects by itself at its next use.
#[pyclass(frozen, weakref, module = "lockwright")]
pub(crate) struct Client {
    pub(crate) shared: Arc<SharedClient>,
}

#[pymethods]
impl Client {
    /// The lock called `name`. What is not given is as the address says, else as it says here.
    ///
    /// Times are numbers of seconds, texts such as `10s`, `500ms` and `2m`, or timedeltas. `ttl`: how long it stays
    /// ours without a renewal, 20 ms to 24 hours (30). `timeout`: how long to wait for others (-1, for ever). `renew`:
    /// whether it is renewed while it is held (True). `max_hold`: how long after the grant renewal ends (never).
    /// `at_least_for`: how long after the grant it stays taken however early it is released, as
    /// `Guard.hold_at_least_for` has it (0). `fair`: first come, first served over all processes (False). `rank`: with
    /// `fair`, how urgent it is, 0 to 9 (0): higher ranks go first, and every 10 s of waiting count as one rank.
    /// `revocable`: whether its holder listens for others who ask for it back (False), of which
    /// `Guard.on_release_requested` tells; only the layout `curator` has such a message. `layout`: how it lies in the
    /// store, such as `string`, and `format`: whose locks of that layout it joins, such as `redis-py`.
    /// `retry`: the first and the longest pause between two tries of a waiter that nobody tells of its turn (0.002,
    /// 0.064). `label`: a text that `inspect` shows.
    ///
    /// Who comes from redis-py: its `timeout` is `ttl` here, and its `blocking_timeout` is `timeout`.
    ///
    /// Raises `InvalidConfig` for what cannot be, and `Unsupported` for what this store or layout cannot do.
    #[pyo3(signature = (name, **options))]
    fn lock(&self, name: &Bound<'_, PyAny>, options: Option<Keywords<'_, '_>>) -> PyResult<Lock> {
        self.build("lock", name, options, |client, name| client.lock(name))
    }

    /// As `lock`, but its thread may acquire it again, through any RLock of that name of this client.
    #[pyo3(signature = (name, **options))]
    fn rlock<'py>(&self, name: &Bound<'py, PyAny>, options: Option<Keywords<'_, 'py>>) -> PyResult<Bound<'py, RLock>> {
        let lock = self.build("rlock", name, options, |client, name| client.lock(name).reentrant(OwnerId(0)))?;
        Bound::new(name.py(), PyClassInitializer::from(lock).add_subclass(RLock))
    }

    /// The read/write lock called `name`: many readers at once, or one writer. The options are those of `lock`, for
    /// both.
    ///
    /// First come, first served: a reader waits for a writer that came before it, and the other way round. A lock of
    /// the same name is something else: whoever comes second gets `ForeignLayout`.
    #[pyo3(signature = (name, **options))]
    fn rwlock<'py>(&self, name: &Bound<'py, PyAny>, options: Option<Keywords<'_, 'py>>) -> PyResult<Bound<'py, PyAny>> {
        let read = self.build("rwlock", name, options, |client, name| client.rwlock(name).read())?;
        let write = self.build("rwlock", name, options, |client, name| client.rwlock(name).write())?;
        name.py().import("lockwright._several")?.getattr("RwLock")?.call1((read, write))
    }

    /// The semaphore called `name`, with `permits` permits, of which each acquisition takes `take`, all or none.
    ///
    /// Whoever first uses an idle one says how many permits it has, until it is resized. With `fair`, an acquisition
    /// that wants more than is free is not passed over by those that want less. The other options are those of `lock`.
    #[pyo3(
        signature = (name, permits=Whole(1), *, take=Whole(1), **options),
        text_signature = "($self, name, permits=1, *, take=1, **options)",
    )]
    fn semaphore<'py>(
        &self,
        name: &Bound<'py, PyAny>,
        permits: Whole,
        take: Whole,
        options: Option<Keywords<'_, 'py>>,
    ) -> PyResult<Bound<'py, Semaphore>> {
        let (permits, take) = (permits.count(), take.count());
        let lock = self.build("semaphore", name, options, |client, name| client.semaphore(name, permits).take(take))?;
        Bound::new(name.py(), PyClassInitializer::from(lock).add_subclass(Semaphore { take }))
    }

    /// The latch called `name`, which is open once it was counted down `count` times, by whomever.
    ///
    /// Whoever first uses it says how many. It is forgotten `idle` seconds (60 to 2,592,000, which is 30 days and the
    /// default) after anybody last used it, and open until then. A lock of the same name is something else: whoever
    /// comes second gets `ForeignLayout`.
    #[pyo3(signature = (name, count, *, idle=None))]
    fn latch(&self, name: &Bound<'_, PyAny>, count: Whole, idle: Option<Span>) -> PyResult<Latch> {
        follow_logging(name.py())?;
        let text = text("latch", "name", name)?;
        let idle = idle.map(|idle| idle.check("latch", "idle")).transpose()?;
        let core = open::latch(&self.shared.client, &text, count.count(), idle).map_err(Raised)?;
        Ok(Latch { core, shared: self.shared.clone() })
    }

    /// The barrier called `name`, which opens whenever `parties` (1 to 10,000) wait for it at the same time.
    ///
    /// The place of a party that died stands for at most `ttl` seconds more (0.02 to 86,400; 30), and is another's
    /// then. Those who wait must name the same number of parties. A lock of the same name is something else: whoever
    /// comes second gets `ForeignLayout`.
    #[pyo3(signature = (name, parties, *, ttl=None))]
    fn barrier(&self, name: &Bound<'_, PyAny>, parties: Whole, ttl: Option<Span>) -> PyResult<Barrier> {
        follow_logging(name.py())?;
        let text = text("barrier", "name", name)?;
        let ttl = ttl.map(|ttl| ttl.check_ttl(name.py(), "barrier")).transpose()?;
        let core = open::barrier(&self.shared.client, &text, parties.count(), ttl).map_err(Raised)?;
        Ok(Barrier { core, shared: self.shared.clone() })
    }

    /// The locks called `names`, to be held all at once. Options are those of `lock`; the timeout is for all of them.
    #[pyo3(signature = (names, **options))]
    fn multi_lock<'py>(
        &self,
        names: &Bound<'py, PyAny>,
        options: Option<Keywords<'_, 'py>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some(each) = names.try_iter().ok().filter(|_| !names.is_instance_of::<PyString>()) else {
            return Err(Raised(lockwright::Error::invalid("lock", "the names must be a list of strings")).into());
        };
        let all = each.collect::<PyResult<Vec<_>>>()?;
        let options = self.options("multi_lock", options)?;
        let texts: Vec<String> = all.iter().map(|name| text("lock", "name", name)).collect::<PyResult<_>>()?;
        let core = self.shared.client.multi_lock_with(texts, &options).map_err(Raised)?;
        let bundle = Bundle { core, shared: self.shared.clone() };
        names.py().import("lockwright._several")?.getattr("MultiLock")?.call1((bundle,))
    }

    /// The lock `name` cut into 1 to 256 `segments`. Options are those of `lock`.
    #[pyo3(signature = (name, segments, **options))]
    fn striped<'py>(
        &self,
        name: &Bound<'py, PyAny>,
        segments: Whole,
        options: Option<Keywords<'_, 'py>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (options, text) = (self.options("striped", options)?, text("lock", "name", name)?);
        let core = self.shared.client.striped_with(&text, segments.count() as usize, &options).map_err(Raised)?;
        let segments = Segments { core, shared: self.shared.clone(), others: Vec::new() };
        name.py().import("lockwright._several")?.getattr("Striped")?.call1((segments,))
    }

    /// A job that one caller at a time does, such as to rebuild a cache entry: see `Once`. Options are those of `lock`.
    ///
    /// `waits`: callers wait for a fresh value though there is a stale one (False).
    #[pyo3(signature = (name, look, make, *, waits=false, **options))]
    fn once<'py>(
        &self,
        name: &Bound<'py, PyAny>,
        look: Bound<'py, PyAny>,
        make: Bound<'py, PyAny>,
        waits: bool,
        options: Option<Keywords<'_, 'py>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let lock = self.lock(name, options)?;
        name.py().import("lockwright._once")?.getattr("Once")?.call1((lock, look, make, waits))
    }

    /// One of many leads: see `Election`. Options are those of `lock`, but for `fair`, `rank` and `label`.
    #[pyo3(signature = (name, **options))]
    fn election<'py>(
        slf: Bound<'py, Self>,
        name: Bound<'py, PyAny>,
        options: Option<Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("lockwright._election")?.getattr("Election")?.call((slf.clone(), name), options.as_ref())
    }

    /// Decorates a function, so that every call of it holds the lock that `key` names:
    /// `@client.guarded("customer:{cid}")`.
    ///
    /// The names in braces are parameters of the function, filled in as `str.format` does from what each call was given
    /// or the parameters' defaults. Options are those of `lock`. Raises `InvalidConfig` where a name is no parameter,
    /// and `TypeError` for what runs after its call has returned, such as a coroutine function (for those there is
    /// `lockwright.aio`).
    #[pyo3(signature = (key, **options))]
    fn guarded<'py>(
        slf: Bound<'py, Self>,
        key: Bound<'py, PyAny>,
        options: Option<Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("lockwright._guarded")?.getattr("guarded_by_key")?.call((slf.clone(), key), options.as_ref())
    }

    /// The lock that a secret is of. What is not given is as the address says.
    #[pyo3(signature = (secret, **options))]
    fn _exported(&self, secret: &Bound<'_, PyAny>, options: Option<Keywords<'_, '_>>) -> PyResult<Lock> {
        let known = self.shared.client.exported(&text("resume", "secret", secret)?).map_err(Raised)?;
        let name = PyString::new(secret.py(), known.name()).into_any();
        self.build("resume", &name, options, |client, name| client.lock(name))
    }

    /// Takes over a lock that somebody exported; its token is higher than the exporter's.
    ///
    /// It is held with this client's options and those given here: `ttl`, `renew`, `max_hold`, `at_least_for`,
    /// `layout`, `format` and `label`, as `lock` has them. Nothing is waited for. Raises `NotOwned` when somebody
    /// resumed it before, or its time ran out and somebody else has the lock; `InvalidConfig` for what is no secret.
    #[pyo3(signature = (secret, **options))]
    fn resume(&self, secret: &Bound<'_, PyAny>, options: Option<Keywords<'_, '_>>) -> PyResult<Py<Guard>> {
        self._exported(secret, options)?.resume(secret.py(), secret)
    }

    /// Whether locks can be had here, now: acquires a lock of its own and gives it back, which needs all the rights
    /// that locking needs.
    ///
    /// For readiness probes: about three requests. Raises `Unavailable` when nobody answers (at once where nobody
    /// listens, else after `store_timeout`), `AuthFailed` when a right is missing, `ForeignLayout`, `ProtocolError`,
    /// and `Closed`.
    fn ping(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        ask(py, self, "ping", &[])
    }

    /// Begins nothing any more and waits until everything that this client holds was released, for at most `limit`
    /// seconds.
    ///
    /// For a program that is told to end. From the call on, acquisitions fail with `Closed`, also those that wait.
    /// Returns the names of the locks that are still held, none when all were released; `close` gives them back. Raises
    /// `Closed`.
    fn drain<'py>(&self, limit: Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        ask(limit.py(), self, "drain", &[Some(limit.clone())])
    }

    /// What locks of this client promise.
    fn guarantees<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        record(py, self.shared.client.guarantees().map_err(Raised)?.into())
    }

    /// Raises `Unsupported` unless all of it is promised: of locks, or where `rwlock`, `semaphore`, `latch` or
    /// `barrier` are named, of each of them.
    ///
    /// Nobody holds a latch or a barrier, so `fenced`, `fair` and `reentrant` say nothing of them. Nothing is sent.
    #[pyo3(signature = (**wanted))]
    fn require(&self, wanted: Option<Keywords<'_, '_>>) -> PyResult<()> {
        let mut requirements = Requirements::default();
        set("require", &REQUIRE, &[], &mut requirements, wanted)?;
        Ok(self.shared.client.require(requirements).map_err(Raised)?)
    }

    /// What lies under `name`: who holds it, and how many wait; of a latch, how many are still to come.
    fn inspect(&self, py: Python<'_>, name: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        ask(py, self, "inspect", &[Some(name)])
    }

    /// The names of the locks there are.
    fn list(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        ask(py, self, "list", &[])
    }

    /// Takes the lock from whoever holds it under that token, which `inspect` shows. Whether somebody did.
    fn break_lock<'py>(
        &self,
        py: Python<'py>,
        name: Bound<'py, PyAny>,
        expected_token: Bound<'py, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        ask(py, self, "break_lock", &[Some(name), Some(expected_token)])
    }

    /// What this client did in this process so far.
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        record(py, self.shared.client.metrics().into())
    }

    /// Gives back what is held and ends every wait with `Closed`.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        // Nobody is summoned to answer for it: it may be the last that a program does.
        aside(py, || self.shared.client.close())?;
        self.forget_orphans();
        Ok(())
    }

    /// A client that is closed has nothing left to release.
    #[pyo3(name = "_forget_orphans")]
    fn forget_orphans(&self) {
        let over = std::mem::take(&mut *locked(&self.shared.orphans));
        drop(over);
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (exc_type=None, exc=None, traceback=None, /))]
    fn __exit__(&self, py: Python<'_>, exc_type: Given<'_>, exc: Given<'_>, traceback: Given<'_>) -> PyResult<()> {
        let _ = (exc_type, exc, traceback);
        self.close(py)
    }

    /// The address without credentials.
    #[getter]
    fn address(&self) -> &str {
        &self.shared.address
    }

    fn __repr__(&self) -> String {
        format!("<lockwright.Client {}>", self.shared.address)
    }
}

/// The options of `lock` that say how it is waited for, which a lock that is taken over is not.
const OF_WAITING: [&str; 4] = ["timeout", "fair", "rank", "retry"];

/// An option of the address alone: here it is a method.
const OF_METHODS: [&str; 1] = ["reentrant"];

impl Client {
    /// What is not given stays as the address says.
    fn options(&self, method: &str, given: Option<Keywords<'_, '_>>) -> PyResult<AcquireOptions> {
        let mut options = self.shared.client.options();
        let others =
            if method == "resume" { &[OF_METHODS.as_slice(), &OF_WAITING].concat() } else { OF_METHODS.as_slice() };
        set(method, &LOCK, others, &mut options, given)?;
        Ok(options)
    }

    fn build(
        &self,
        method: &str,
        name: &Bound<'_, PyAny>,
        given: Option<Keywords<'_, '_>>,
        of: impl FnOnce(&blocking::Client, &str) -> blocking::LockBuilder,
    ) -> PyResult<Lock> {
        follow_logging(name.py())?;
        let options = AcquireOptions { reentrant: method == "rlock", ..self.options(method, given)? };
        let name = text("lock", "name", name)?;
        let builder = of(&self.shared.client, &name).options(options);
        Ok(Lock::new(builder.build().map_err(Raised)?, self.shared.clone()))
    }
}
