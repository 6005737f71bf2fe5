//! `lockwright.connect` and the client.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright::blocking;
use lockwright::guarantee::{Guarantees, Requirements};
use lockwright::lease::{Counting, Holder, Inspection, Sharing};
use lockwright::options::{AcquireOptions, ConnectOptions, Retry};
use lockwright::queue::OwnerId;
use lockwright::{Error, Token};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::barrier::Barrier;
use crate::care::{drain, ping};
use crate::error::Raised;
use crate::guard::Guard;
use crate::latch::Latch;
use crate::lock::{Lock, RLock};
use crate::report::{follow_logging, metrics_record};
use crate::rwlock::RwLock;
use crate::semaphore::Semaphore;
use crate::several::{Bundle, Segments};
use crate::{Span, herald, locked, outside, text};

/// What locks and guards remember of where they come from.
pub(crate) struct Origin {
    pub(crate) address: String,
    pub(crate) credentials: Option<Py<PyAny>>,
}

/// What a client shares with its locks.
pub(crate) struct Shared {
    pub(crate) client: blocking::Client,
    pub(crate) origin: Arc<Origin>,
    /// Holds of locks that were collected meanwhile; another lock of the same name may release them.
    pub(crate) orphans: Mutex<Vec<Orphan>>,
}

pub(crate) struct Orphan {
    pub(crate) name: Arc<str>,
    pub(crate) reentrant: bool,
    pub(crate) who: u64,
    pub(crate) guard: Py<Guard>,
}

impl Shared {
    /// A client that is closed has nothing left to release.
    pub(crate) fn take_orphans(&self) -> Vec<Orphan> {
        std::mem::take(&mut *locked(&self.orphans))
    }

    /// A process whose driver may ask for credentials needs somebody to answer it.
    pub(crate) fn prepare(&self, py: Python<'_>) -> PyResult<()> {
        if self.origin.credentials.is_some() {
            herald::summon(py)?;
        }
        Ok(())
    }
}

/// Connects to the place that `url` names, else `LOCKWRIGHT_URL`, else a file of this user's.
///
/// Nothing is sent before the first use. Times are numbers of seconds, texts such as `10s` and `500ms`, or timedeltas. What the address says goes before what is given here.
/// `credentials` returns a user and a password and is asked at every new connection, by the thread that makes it or by
/// one of the library's. When it raises, what needed the connection raises `AuthFailed`, which names the cause.
#[pyfunction]
#[pyo3(signature = (url=None, *, prefix=None, connect_timeout=None, response_timeout=None, store_timeout=None, ca=None,
    cert=None, key=None, credentials=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn connect(
    py: Python<'_>,
    url: Option<&Bound<'_, PyAny>>,
    prefix: Option<&Bound<'_, PyAny>>,
    connect_timeout: Option<Span>,
    response_timeout: Option<Span>,
    store_timeout: Option<Span>,
    ca: Option<std::path::PathBuf>,
    cert: Option<std::path::PathBuf>,
    key: Option<std::path::PathBuf>,
    credentials: Option<Py<PyAny>>,
) -> PyResult<Client> {
    let mut options = ConnectOptions { language: "python", ..ConnectOptions::default() };
    let texts = [("url", url), ("prefix", prefix)].map(|(what, value)| value.map(|value| text("connect", what, value)));
    let [url, prefix] = texts.map(Option::transpose);
    options.prefix = prefix?.unwrap_or_default();
    for (what, given, option) in [
        ("connect_timeout", connect_timeout, &mut options.connect_timeout),
        ("response_timeout", response_timeout, &mut options.response_timeout),
        ("store_timeout", store_timeout, &mut options.store_timeout),
    ] {
        if let Some(seconds) = given {
            *option = seconds.check("connect", what)?;
        }
    }
    for (what, given, option) in
        [("ca", ca, &mut options.ca), ("cert", cert, &mut options.cert), ("key", key, &mut options.key)]
    {
        let path = given.map(|path| path.into_os_string().into_string()).transpose();
        *option = path.map_err(|_| Raised(Error::invalid("connect", format!("the path {what} is not UTF-8"))))?;
    }
    let mut opened = None;
    let origin = Arc::new_cyclic(|origin| {
        if credentials.is_some() {
            let (origin, limit) = (origin.clone(), options.connect_timeout);
            options.credentials = Some(Arc::new(move || herald::credentials(&origin, limit)));
        }
        let client = url.and_then(|url| Ok(blocking::Client::open(url.as_deref(), options).map_err(Raised)?));
        let address = client.as_ref().map(|client| client.address().to_owned()).unwrap_or_default();
        opened = Some(client);
        Origin { address, credentials }
    });
    let client = opened.unwrap_or_else(|| Err(crate::error::lost_track("connect").into()))?;
    let shared = Shared { client, origin, orphans: Mutex::default() };
    shared.prepare(py)?;
    follow_logging(py)?;
    Ok(Client(Arc::new(shared)))
}

/// One place where locks are kept. After a fork the child's copy connects by itself at its next use.
#[pyclass(frozen, weakref, module = "lockwright")]
pub(crate) struct Client(pub(crate) Arc<Shared>);

#[pymethods]
impl Client {
    /// The lock called `name`. What is not given is as the address says, else as it says here.
    ///
    /// Times are numbers of seconds, texts such as `10s`, `500ms` and `2m`, or timedeltas. `ttl`: how long it stays ours without a
    /// renewal, 20 ms to 24 hours (30). `timeout`: how long to wait for others (-1, for ever).
    /// `renew`: whether it is renewed while it is held (True). `max_hold`: how long after the grant renewal ends
    /// (never). `at_least_for`: how long after the grant it stays taken however early it is released, as
    /// `Guard.hold_at_least_for` has it (0). `fair`: first come, first served over all processes (False). `layout`: how it
    /// lies in the store, such as `string`, and `format`: whose locks of that layout it joins, such as `redis-py`. `retry`:
    /// the first and the longest pause between two tries of a waiter that nobody tells of its turn (0.002, 0.064). `label`:
    /// a text that `inspect` shows.
    ///
    /// Who comes from redis-py: its `timeout` is `ttl` here, and its `blocking_timeout` is `timeout`.
    ///
    /// Raises `InvalidConfig` for what cannot be, and `Unsupported` for what this store or layout cannot do.
    #[pyo3(signature = (name, *, ttl=None, timeout=None, renew=None, max_hold=None, at_least_for=None, fair=None,
        layout=None, format=None, retry=None, label=None, **others),
        text_signature = "($self, name, *, ttl=None, timeout=None, renew=None, max_hold=None, at_least_for=None, \
        fair=None, layout=None, format=None, retry=None, label=None)")]
    #[allow(clippy::too_many_arguments)]
    fn lock(
        &self,
        name: &Bound<'_, PyAny>,
        ttl: Option<Span>,
        timeout: Option<Span>,
        renew: Option<bool>,
        max_hold: Option<Span>,
        at_least_for: Option<Span>,
        fair: Option<bool>,
        layout: Option<&Bound<'_, PyAny>>,
        format: Option<&Bound<'_, PyAny>>,
        retry: Option<(Span, Span)>,
        label: Option<&Bound<'_, PyAny>>,
        others: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Lock> {
        refuse("lock", others)?;
        self.build(
            name,
            &Given { ttl, timeout, renew, max_hold, at_least_for, fair, layout, format, retry, label },
            Of::Lock,
        )
    }

    /// As `lock`, but its thread may acquire it again, through any RLock of that name of this client.
    #[pyo3(signature = (name, *, ttl=None, timeout=None, renew=None, max_hold=None, at_least_for=None, fair=None,
        layout=None, format=None, retry=None, label=None, **others),
        text_signature = "($self, name, *, ttl=None, timeout=None, renew=None, max_hold=None, at_least_for=None, \
        fair=None, layout=None, format=None, retry=None, label=None)")]
    #[allow(clippy::too_many_arguments)]
    fn rlock(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        ttl: Option<Span>,
        timeout: Option<Span>,
        renew: Option<bool>,
        max_hold: Option<Span>,
        at_least_for: Option<Span>,
        fair: Option<bool>,
        layout: Option<&Bound<'_, PyAny>>,
        format: Option<&Bound<'_, PyAny>>,
        retry: Option<(Span, Span)>,
        label: Option<&Bound<'_, PyAny>>,
        others: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<RLock>> {
        refuse("rlock", others)?;
        let lock = self.build(
            name,
            &Given { ttl, timeout, renew, max_hold, at_least_for, fair, layout, format, retry, label },
            Of::RLock,
        )?;
        Py::new(py, PyClassInitializer::from(lock).add_subclass(RLock))
    }

    /// The read/write lock called `name`: many readers at once, or one writer. The options are those of `lock`, for both.
    ///
    /// First come, first served: a reader waits for a writer that came before it, and the other way round. A lock of the
    /// same name is something else: whoever comes second gets `ForeignLayout`.
    #[pyo3(signature = (name, *, ttl=None, timeout=None, renew=None, max_hold=None, at_least_for=None, fair=None,
        layout=None, format=None, retry=None, label=None))]
    #[allow(clippy::too_many_arguments)]
    fn rwlock(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        ttl: Option<Span>,
        timeout: Option<Span>,
        renew: Option<bool>,
        max_hold: Option<Span>,
        at_least_for: Option<Span>,
        fair: Option<bool>,
        layout: Option<&Bound<'_, PyAny>>,
        format: Option<&Bound<'_, PyAny>>,
        retry: Option<(Span, Span)>,
        label: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<RwLock> {
        let given = Given { ttl, timeout, renew, max_hold, at_least_for, fair, layout, format, retry, label };
        RwLock::new(py, self.build(name, &given, Of::Read)?, self.build(name, &given, Of::Write)?)
    }

    /// The semaphore called `name`, with `permits` permits, of which each acquisition takes `take`, all or none.
    ///
    /// Whoever first uses an idle one says how many permits it has, until it is resized. With `fair`, an acquisition that
    /// wants more than is free is not passed over by those that want less. The other options are those of `lock`.
    #[pyo3(signature = (name, permits=1, *, take=1, ttl=None, timeout=None, renew=None, max_hold=None, at_least_for=None,
        fair=None, layout=None, format=None, retry=None, label=None))]
    #[allow(clippy::too_many_arguments)]
    fn semaphore(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        permits: i128,
        take: i128,
        ttl: Option<Span>,
        timeout: Option<Span>,
        renew: Option<bool>,
        max_hold: Option<Span>,
        at_least_for: Option<Span>,
        fair: Option<bool>,
        layout: Option<&Bound<'_, PyAny>>,
        format: Option<&Bound<'_, PyAny>>,
        retry: Option<(Span, Span)>,
        label: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<Semaphore>> {
        let given = Given { ttl, timeout, renew, max_hold, at_least_for, fair, layout, format, retry, label };
        let (permits, take) = (count(permits), count(take));
        let lock = self.build(name, &given, Of::Permits { permits, take })?;
        Py::new(py, PyClassInitializer::from(lock).add_subclass(Semaphore { take }))
    }

    /// The latch called `name`, which is open once it was counted down `count` times, by whomever.
    ///
    /// Whoever first uses it says how many. It is forgotten `idle` seconds (60 to 2,592,000, which is 30 days and the default) after
    /// anybody last used it, and open until then. A lock of the same name is something else: whoever comes second gets
    /// `ForeignLayout`.
    #[pyo3(signature = (name, count, *, idle=None))]
    fn latch(&self, name: &Bound<'_, PyAny>, count: i128, idle: Option<Span>) -> PyResult<Latch> {
        follow_logging(name.py())?;
        let builder = self.0.client.latch(&text("latch", "name", name)?, crate::client::count(count));
        let builder = match idle {
            Some(idle) => builder.idle(idle.check("latch", "idle")?),
            None => builder,
        };
        Ok(Latch { core: builder.build().map_err(Raised)?, shared: self.0.clone() })
    }

    /// The barrier called `name`, which opens whenever `parties` (1 to 10,000) wait for it at the same time.
    ///
    /// The place of a party that died stands for at most `ttl` seconds more (0.02 to 86,400; 30), and is another's then. Those who
    /// wait must name the same number of parties. A lock of the same name is something else: whoever comes second gets
    /// `ForeignLayout`.
    #[pyo3(signature = (name, parties, *, ttl=None))]
    fn barrier(&self, name: &Bound<'_, PyAny>, parties: i128, ttl: Option<Span>) -> PyResult<Barrier> {
        follow_logging(name.py())?;
        let builder = self.0.client.barrier(&text("barrier", "name", name)?, crate::client::count(parties));
        let builder = match ttl {
            Some(ttl) => builder.ttl(ttl.check_ttl(name.py(), "barrier")?),
            None => builder,
        };
        Ok(Barrier { core: builder.build().map_err(Raised)?, shared: self.0.clone() })
    }

    #[pyo3(signature = (names, *, ttl=None, timeout=None, renew=None, max_hold=None, at_least_for=None, fair=None,
        layout=None, format=None, retry=None, label=None))]
    #[allow(clippy::too_many_arguments)]
    fn _bundle(
        &self,
        py: Python<'_>,
        names: Vec<Bound<'_, PyAny>>,
        ttl: Option<Span>,
        timeout: Option<Span>,
        renew: Option<bool>,
        max_hold: Option<Span>,
        at_least_for: Option<Span>,
        fair: Option<bool>,
        layout: Option<&Bound<'_, PyAny>>,
        format: Option<&Bound<'_, PyAny>>,
        retry: Option<(Span, Span)>,
        label: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bundle> {
        let given = Given { ttl, timeout, renew, max_hold, at_least_for, fair, layout, format, retry, label };
        let names: Vec<String> = names.iter().map(|name| text("lock", "name", name)).collect::<PyResult<_>>()?;
        let core = self.0.client.multi_lock_with(names, &given.options(py, &self.0.client)?).map_err(Raised)?;
        Ok(Bundle::new(core, self.0.clone()))
    }

    #[pyo3(signature = (name, segments, *, ttl=None, timeout=None, renew=None, max_hold=None, at_least_for=None, fair=None,
        layout=None, format=None, retry=None, label=None))]
    #[allow(clippy::too_many_arguments)]
    fn _segments(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        segments: usize,
        ttl: Option<Span>,
        timeout: Option<Span>,
        renew: Option<bool>,
        max_hold: Option<Span>,
        at_least_for: Option<Span>,
        fair: Option<bool>,
        layout: Option<&Bound<'_, PyAny>>,
        format: Option<&Bound<'_, PyAny>>,
        retry: Option<(Span, Span)>,
        label: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Segments> {
        let given = Given { ttl, timeout, renew, max_hold, at_least_for, fair, layout, format, retry, label };
        let name = text("lock", "name", name)?;
        let core = self.0.client.striped_with(&name, segments, &given.options(py, &self.0.client)?).map_err(Raised)?;
        Ok(Segments::new(core, self.0.clone()))
    }

    /// The locks called `names`, to be held all at once. Options are those of `lock`; the timeout is for all of them.
    #[pyo3(signature = (names, **options))]
    fn multi_lock<'py>(
        slf: Bound<'py, Self>,
        names: Bound<'py, PyAny>,
        options: Option<Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let bundle = slf.call_method("_bundle", (listed(&names)?,), options.as_ref())?;
        slf.py().import("lockwright._several")?.getattr("MultiLock")?.call1((bundle,))
    }

    /// The lock `name` cut into 1 to 256 `segments`. Options are those of `lock`.
    #[pyo3(signature = (name, segments, **options))]
    fn striped<'py>(
        slf: Bound<'py, Self>,
        name: Bound<'py, PyAny>,
        segments: Bound<'py, PyAny>,
        options: Option<Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let segments = slf.call_method("_segments", (name, segments), options.as_ref())?;
        slf.py().import("lockwright._several")?.getattr("Striped")?.call1((segments,))
    }

    /// A job that one caller at a time does, such as to rebuild a cache entry: see `Once`. Options are those of `lock`.
    ///
    /// `waits`: callers wait for a fresh value though there is a stale one (False).
    #[pyo3(signature = (name, look, make, *, waits=false, **options))]
    fn once<'py>(
        slf: Bound<'py, Self>,
        name: Bound<'py, PyAny>,
        look: Bound<'py, PyAny>,
        make: Bound<'py, PyAny>,
        waits: bool,
        options: Option<Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let lock = slf.call_method("lock", (name,), options.as_ref())?;
        slf.py().import("lockwright._once")?.getattr("Once")?.call1((lock, look, make, waits))
    }

    /// One of many leads: see `Election`. Options are those of `lock`, but for `fair` and `label`.
    #[pyo3(signature = (name, **options))]
    fn election<'py>(
        slf: Bound<'py, Self>,
        name: Bound<'py, PyAny>,
        options: Option<Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("lockwright._election")?.getattr("Election")?.call((slf.clone(), name), options.as_ref())
    }

    /// Decorates a function, so that every call of it holds the lock that `key` names: `@client.guarded("customer:{cid}")`.
    ///
    /// The names in braces are parameters of the function, filled in as `str.format` does from what each call was given or the
    /// parameters' defaults. Options are those of `lock`. Raises `InvalidConfig` where a name is no parameter, and `TypeError`
    /// for what runs after its call has returned, such as a coroutine function (for those there is `lockwright.aio`).
    #[pyo3(signature = (key, **options))]
    fn guarded<'py>(
        slf: Bound<'py, Self>,
        key: Bound<'py, PyAny>,
        options: Option<Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("lockwright._guarded")?.getattr("guarded_by_key")?.call((slf.clone(), key), options.as_ref())
    }

    /// The lock that a secret is of. What is not given is as the address says.
    #[pyo3(signature = (secret, *, ttl=None, renew=None, max_hold=None, at_least_for=None, layout=None, format=None,
        label=None))]
    #[allow(clippy::too_many_arguments)]
    fn _exported(
        &self,
        secret: &Bound<'_, PyAny>,
        ttl: Option<Span>,
        renew: Option<bool>,
        max_hold: Option<Span>,
        at_least_for: Option<Span>,
        layout: Option<&Bound<'_, PyAny>>,
        format: Option<&Bound<'_, PyAny>>,
        label: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Lock> {
        let known = self.0.client.exported(&text("resume", "secret", secret)?).map_err(Raised)?;
        let name = PyString::new(secret.py(), known.name()).into_any();
        let (timeout, fair, retry) = (None, None, None);
        let given = Given { ttl, timeout, renew, max_hold, at_least_for, fair, layout, format, retry, label };
        self.build(&name, &given, Of::Lock)
    }

    /// Takes over a lock that somebody exported; its token is higher than the exporter's.
    ///
    /// It is held with this client's options and those given here: `ttl`, `renew`, `max_hold`, `at_least_for`, `layout`,
    /// `format` and `label`, as `lock` has them. Nothing is waited for. Raises `NotOwned` when somebody resumed it before, or
    /// its time ran out and somebody else has the lock; `InvalidConfig` for what is no secret.
    #[pyo3(signature = (secret, **options))]
    fn resume<'py>(
        slf: Bound<'py, Self>,
        secret: Bound<'py, PyAny>,
        options: Option<Bound<'py, PyDict>>,
    ) -> PyResult<Py<Guard>> {
        let lock = slf.call_method("_exported", (&secret,), options.as_ref())?;
        lock.cast_into::<Lock>()?.get().resume(slf.py(), &secret)
    }

    /// Whether locks can be had here, now: acquires a lock of its own and gives it back, which needs all the rights that locking needs.
    ///
    /// For readiness probes: about three requests. Raises `Unavailable` when nobody answers (at once where nobody listens, else
    /// after `store_timeout`), `AuthFailed` when a right is missing, `ForeignLayout`, `ProtocolError`, and `Closed`.
    fn ping<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.0.prepare(py)?;
        ping(py, &self.0.client)
    }

    /// Begins nothing any more and waits until everything that this client holds was released, for at most `limit` seconds.
    ///
    /// For a program that is told to end. From the call on, acquisitions fail with `Closed`, also those that wait. Returns the names
    /// of the locks that are still held, none when all were released; `close` gives them back. Raises `Closed`.
    fn drain(&self, py: Python<'_>, limit: Span) -> PyResult<Vec<String>> {
        drain(py, &self.0.client, limit.check("drain", "limit")?)
    }

    /// What locks of this client promise.
    fn guarantees<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        guarantees_record(py, &self.0.client.guarantees().map_err(Raised)?)
    }

    /// Raises `Unsupported` unless all of it is promised: of locks, or where `rwlock`, `semaphore`, `latch` or `barrier` are named, of each of them.
    ///
    /// Nobody holds a latch or a barrier, so `fenced`, `fair` and `reentrant` say nothing of them. Nothing is sent.
    #[pyo3(signature = (*, rwlock=false, semaphore=false, latch=false, barrier=false, fenced=false, fair=false, reentrant=false, shared=false, push=false, failover_safe=false))]
    #[allow(clippy::too_many_arguments)]
    fn require(
        &self,
        rwlock: bool,
        semaphore: bool,
        latch: bool,
        barrier: bool,
        fenced: bool,
        fair: bool,
        reentrant: bool,
        shared: bool,
        push: bool,
        failover_safe: bool,
    ) -> PyResult<()> {
        let wanted =
            Requirements { rwlock, semaphore, latch, barrier, fenced, fair, reentrant, shared, push, failover_safe };
        Ok(self.0.client.require(wanted).map_err(Raised)?)
    }

    /// What lies under `name`: who holds it, and how many wait; of a latch, how many are still to come.
    fn inspect<'py>(&self, py: Python<'py>, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let name = text("inspect", "name", name)?;
        self.0.prepare(py)?;
        let seen = outside(py, || self.0.client.inspect(&name)).map_err(Raised)?;
        inspection_record(py, seen)
    }

    /// The names of the locks there are.
    fn list(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.0.prepare(py)?;
        Ok(outside(py, || self.0.client.list()).map_err(Raised)?)
    }

    /// Takes the lock from whoever holds it under that token, which `inspect` shows. Whether somebody did.
    fn break_lock(&self, py: Python<'_>, name: &Bound<'_, PyAny>, expected_token: &Bound<'_, PyAny>) -> PyResult<bool> {
        let name = text("break", "name", name)?;
        let token = token(py, expected_token)?;
        self.0.prepare(py)?;
        Ok(outside(py, || self.0.client.break_lock(&name, token)).map_err(Raised)?)
    }

    /// What this client did in this process so far.
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        metrics_record(py, self.0.client.metrics())
    }

    /// Gives back what is held and ends every wait with `Closed`.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let over = self.0.take_orphans();
        let closed = outside(py, || {
            self.0.client.close();
            Ok(())
        });
        drop(over);
        Ok(closed.map_err(Raised)?)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (exc_type=None, exc=None, traceback=None, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Option<Bound<'_, PyAny>>,
        exc: Option<Bound<'_, PyAny>>,
        traceback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let _ = (exc_type, exc, traceback);
        self.close(py)
    }

    /// The address without credentials.
    #[getter]
    fn address(&self) -> &str {
        &self.0.origin.address
    }

    fn __repr__(&self) -> String {
        format!("<lockwright.Client {}>", self.0.origin.address)
    }
}

/// What a lock is of.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    Lock,
    RLock,
    Read,
    Write,
    Permits { permits: u32, take: u32 },
}

/// A number of permits as the core takes it, which refuses the smallest and the largest.
pub(crate) fn count(number: i128) -> u32 {
    u32::try_from(number).unwrap_or(if number < 0 { 0 } else { u32::MAX })
}

struct Given<'a, 'py> {
    ttl: Option<Span>,
    timeout: Option<Span>,
    renew: Option<bool>,
    max_hold: Option<Span>,
    at_least_for: Option<Span>,
    fair: Option<bool>,
    layout: Option<&'a Bound<'py, PyAny>>,
    format: Option<&'a Bound<'py, PyAny>>,
    retry: Option<(Span, Span)>,
    label: Option<&'a Bound<'py, PyAny>>,
}

impl Given<'_, '_> {
    /// What is not given stays as the address says.
    fn options(&self, py: Python<'_>, client: &blocking::Client) -> PyResult<AcquireOptions> {
        let given = self;
        let mut options = client.options();
        if let Some(ttl) = &given.ttl {
            options.ttl = ttl.check_ttl(py, "lock")?;
        }
        if let Some(timeout) = &given.timeout {
            options.timeout = if *timeout == Span::FOR_EVER { None } else { Some(timeout.check("lock", "timeout")?) };
        }
        if let Some(max_hold) = &given.max_hold {
            options.max_hold = Some(max_hold.check("lock", "max_hold")?);
        }
        if let Some(least) = &given.at_least_for {
            options.at_least_for = Some(least.check("lock", "at_least_for")?);
        }
        if let Some(layout) = given.layout {
            options.set_layout(&text("lock", "layout", layout)?);
        }
        if let Some(format) = given.format {
            options.format = Some(text("lock", "format", format)?.into());
        }
        if let Some((min, max)) = &given.retry {
            options.retry = Retry { min: min.check("lock", "retry")?, max: max.check("lock", "retry")? };
        }
        if let Some(label) = given.label {
            options.label = Some(text("lock", "label", label)?.into());
        }
        options.renew = given.renew.unwrap_or(options.renew);
        options.fair = given.fair.unwrap_or(options.fair);
        Ok(options)
    }
}

impl Client {
    fn build(&self, name: &Bound<'_, PyAny>, given: &Given<'_, '_>, of: Of) -> PyResult<Lock> {
        follow_logging(name.py())?;
        let (client, reentrant) = (&self.0.client, of == Of::RLock);
        let options = AcquireOptions { reentrant, ..given.options(name.py(), client)? };
        let name = text("lock", "name", name)?;
        let builder = match of {
            Of::Lock | Of::RLock => client.lock(&name),
            Of::Read => client.rwlock(&name).read(),
            Of::Write => client.rwlock(&name).write(),
            Of::Permits { permits, take } => client.semaphore(&name, permits).take(take),
        };
        let builder = builder.options(options);
        let builder = if reentrant { builder.reentrant(OwnerId(0)) } else { builder };
        Ok(Lock::new(builder.build().map_err(Raised)?, name.into(), reentrant, self.0.clone()))
    }
}

/// Names from whatever can be iterated.
fn listed<'py>(names: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
    let listed = PyList::empty(names.py());
    for name in names.try_iter()? {
        listed.append(name?)?;
    }
    Ok(listed)
}

pub(crate) fn record<'py>(py: Python<'py>, class: &str, fields: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    py.import("lockwright._records")?.getattr(class)?.call((), Some(fields))
}

pub(crate) fn guarantees_record<'py>(py: Python<'py>, promised: &Guarantees) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("store", promised.store)?;
    fields.set_item("layout", promised.layout)?;
    fields.set_item("exclusive_until", promised.exclusive_until.to_string())?;
    fields.set_item("token", promised.token.to_string())?;
    fields.set_item("fair", promised.fair)?;
    fields.set_item("reentrant", promised.reentrant)?;
    fields.set_item("shared", promised.shared)?;
    fields.set_item("push", promised.push)?;
    fields.set_item("survives_disconnect", promised.survives_disconnect)?;
    fields.set_item("incarnation", promised.incarnation)?;
    fields.set_item("notes", pyo3::types::PyTuple::new(py, promised.notes)?)?;
    record(py, "Guarantees", &fields)
}

/// Refuses an option that there is not, with a hint for who comes from a library that calls it otherwise.
fn refuse(method: &str, others: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    let Some(name) = others.and_then(|others| others.keys().get_item(0).ok()) else { return Ok(()) };
    let name: String = name.extract()?;
    let hint = match name.as_str() {
        "blocking_timeout" => ": here timeout says how long to wait, and ttl how long the lease lasts",
        "sleep" => ": here retry says how long to pause, where no waiter is told of its turn",
        _ => "",
    };
    Err(PyTypeError::new_err(format!("Client.{method}() got an unexpected keyword argument '{name}'{hint}")))
}

pub(crate) fn inspection_record(py: Python<'_>, seen: Inspection) -> PyResult<Bound<'_, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("name", seen.name)?;
    fields.set_item("layout", seen.layout)?;
    fields.set_item("holder", seen.holder.map(|holder| holder_record(py, holder)).transpose()?)?;
    fields.set_item("waiters", seen.waiters)?;
    fields.set_item("ahead", pyo3::types::PyTuple::new(py, seen.ahead)?)?;
    fields.set_item("primitive", seen.primitive)?;
    fields.set_item("shared", seen.shared.map(|shared| sharing_record(py, shared)).transpose()?)?;
    fields.set_item("latch", seen.latch.map(|latch| counting_record(py, latch)).transpose()?)?;
    record(py, "Inspection", &fields)
}

fn counting_record(py: Python<'_>, latch: Counting) -> PyResult<Bound<'_, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("count", latch.count)?;
    record(py, "Counting", &fields)
}

fn sharing_record(py: Python<'_>, shared: Sharing) -> PyResult<Bound<'_, PyAny>> {
    let holders = shared.holders.into_iter().map(|part| {
        let fields = PyDict::new(py);
        fields.set_item("holds", part.describe(shared.primitive))?;
        fields.set_item("holder", holder_record(py, part.holder)?)?;
        record(py, "Part", &fields)
    });
    let holders = holders.collect::<PyResult<Vec<_>>>()?;
    let fields = PyDict::new(py);
    fields.set_item("primitive", shared.primitive.name())?;
    fields.set_item("permits", shared.permits)?;
    fields.set_item("holders", pyo3::types::PyTuple::new(py, holders)?)?;
    fields.set_item("unlisted", shared.unlisted)?;
    record(py, "Sharing", &fields)
}

/// The token of the hold to be broken.
pub(crate) fn token(py: Python<'_>, expected: &Bound<'_, PyAny>) -> PyResult<Token> {
    expected.extract().map(Token::new).map_err(|error: PyErr| {
        if error.is_instance_of::<pyo3::exceptions::PyOverflowError>(py) {
            return Raised(Error::invalid("break", "the token is out of range; give one that inspect showed")).into();
        }
        error
    })
}

fn holder_record<'py>(py: Python<'py>, holder: Holder) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("owner", holder.owner)?;
    fields.set_item("host", holder.card.host)?;
    fields.set_item("pid", holder.card.pid)?;
    fields.set_item("language", holder.card.language)?;
    fields.set_item("label", holder.card.label)?;
    fields.set_item("held_for", holder.held_for.map(|held| held.as_secs_f64()))?;
    let endless = holder.remaining == Duration::MAX;
    fields.set_item("remaining", if endless { f64::INFINITY } else { holder.remaining.as_secs_f64() })?;
    fields.set_item("first_token", holder.first_token)?;
    fields.set_item("last_token", holder.last_token)?;
    record(py, "Holder", &fields)
}
