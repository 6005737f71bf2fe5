//! The public face: a [`Client`] of one place, its [`Lock`]s, and the [`Guard`] of what is held.
//!
//! The same types serve async programs ([`Async`], the default) and threads ([`Blocking`](crate::blocking)): only what
//! waits differs.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tracing::field::Empty;
use tracing::{Instrument, Span, debug_span};

use crate::driver::engine::{self, Engine, Wish};
use crate::driver::entry::{Effects, Entry, unfair};
use crate::driver::fork::{self, Generational};
use crate::driver::hold::Hold;
use crate::driver::wait::{Settled, Waiter};
use crate::driver::{clock, notice, runtime};
use crate::error::{Error, Kind, Result};
use crate::gate::Gate;
use crate::guarantee::Guarantees;
use crate::lease::{Inspection, LossReason, ReleaseOutcome, Sighting};
use crate::metrics::Metrics;
use crate::name;
use crate::options::{AcquireOptions, ConnectOptions, Retry};
use crate::protocol::{AttemptId, Layout, Reply, Request};
use crate::queue::{OwnerId, Refusal, TaskId};
use crate::replies::{nonsense, refusal};
use crate::shared::Share;
use crate::stores::{self, Store};
use crate::time::Time;
use crate::token::Token;
use crate::uri::{ENVIRONMENT, Uri};

/// How a face waits.
pub trait Face: Send + Sync + 'static {}

/// Waiting is awaiting. Works on any executor; on tokio, requests go out from the caller's own task.
#[derive(Clone, Copy, Debug)]
pub enum Async {}

impl Face for Async {}

/// Connects to the place that `uri` names; nothing is sent before the first use.
///
/// # Errors
/// `invalid_config` or `unsupported` when the address or an option cannot be honoured.
pub async fn connect(uri: &str) -> Result<Client> {
    Client::open(Some(uri), ConnectOptions::default())
}

/// A client of one place where locks are kept. Cheap to clone; clones share connections, queue and inbox.
///
/// After a fork the child's copy builds everything anew at its next use and touches nothing of the parent's.
pub struct Client<F: Face = Async> {
    place: Arc<Place>,
    face: PhantomData<F>,
}

pub(crate) struct Place {
    uri: Uri,
    layouts: Arc<dyn Store>,
    engines: Generational<Result<Arc<Engine>>>,
}

impl Place {
    fn engine(&self) -> Result<&Arc<Engine>> {
        let made = self.engines.get_or_make(|| Arc::new(new_engine(&mut self.uri.clone()))).as_ref();
        let engine = made.as_ref().map_err(Clone::clone)?;
        engine.check_open()?;
        Ok(engine)
    }
}

fn new_engine(uri: &mut Uri) -> Result<Arc<Engine>> {
    Engine::new(stores::open(uri)?, uri.connect.clone())
}

impl<F: Face> Client<F> {
    /// Connects to the place that `uri` names. Without one, to what `LOCKWRIGHT_URL` says, else to the embedded store: a
    /// file in the user's state directory that excludes across this user's processes on this host.
    ///
    /// Nothing is sent before the first use.
    ///
    /// # Errors
    /// `invalid_config` or `unsupported` when the address or an option cannot be honoured.
    pub fn open(uri: Option<&str>, options: ConnectOptions) -> Result<Self> {
        let environment = std::env::var(ENVIRONMENT).ok().filter(|text| !text.trim().is_empty());
        let text = uri.or(environment.as_deref()).unwrap_or("sqlite://");
        let uri = Uri::parse(text, options)?;
        let engine = new_engine(&mut uri.clone())?;
        let layouts = stores::open(&mut uri.clone())?;
        let engines = Generational::new(Arc::new(Ok(engine)));
        Ok(Client { place: Arc::new(Place { uri, layouts, engines }), face: PhantomData })
    }

    /// The lock called `name`, to be acquired as it is or after setting options.
    ///
    /// Any UTF-8 of 1 to 1024 bytes without control characters is a name. A wrong name or option is reported when the lock
    /// is built or acquired.
    pub fn lock(&self, name: &str) -> LockBuilder<F> {
        self.builder(name, Of::Lock)
    }

    pub(crate) fn builder(&self, name: &str, of: Of) -> LockBuilder<F> {
        let options = self.place.uri.lock.clone();
        LockBuilder { client: self.clone(), name: name.to_owned(), of, options, owner: None }
    }

    /// The options that a lock of this client has before others are set: what the address says, else the defaults.
    pub fn options(&self) -> AcquireOptions {
        self.place.uri.lock.clone()
    }

    /// What locks of this client promise, in the store's default layout or the one that the address chose. Once the store
    /// refused to push to this client, they promise neither that nor `fair`.
    ///
    /// # Errors
    /// `unsupported` or `invalid_config` for a layout or format that the store does not have.
    pub fn guarantees(&self) -> Result<Guarantees> {
        Ok(self.promises(&*self.default_layout()?))
    }

    /// The same client for callers that wait in another way.
    pub fn into_face<G: Face>(self) -> Client<G> {
        Client { place: self.place, face: PhantomData }
    }

    /// The address without credentials and options.
    pub fn address(&self) -> &str {
        self.place.layouts.address()
    }

    /// What this client and its clones did in this process so far; all zero in a forked child that has not used it yet.
    pub fn metrics(&self) -> Metrics {
        match self.place.engines.current().map(|made| &**made) {
            Some(Ok(engine)) => engine.counters.snapshot(),
            _ => Metrics::default(),
        }
    }

    /// For how long a copy of what this client asks may come.
    pub(crate) fn copies(&self) -> Result<Duration> {
        self.on_store(|engine| Ok(engine.copies()))
    }

    pub(crate) fn default_layout(&self) -> Result<Arc<dyn Layout>> {
        self.place.layouts.layout(self.place.uri.lock.wanted())
    }

    pub(crate) fn promises(&self, layout: &dyn Layout) -> Guarantees {
        let engine = self.place.engines.current().and_then(|made| (**made).as_ref().ok());
        engine.map_or_else(|| layout.guarantees(), |engine| engine.still_promised(layout))
    }

    /// Where the lock `name` lies in the client's layout.
    fn spot(&self, name: &str) -> Result<Spot> {
        Spot::new(self.default_layout()?, name::check(name)?)
    }

    /// What `look` finds by the request that `of` makes of a place: of the lock `name`, or of the shared record that lies in its place.
    fn at_either<T>(
        &self,
        name: &str,
        of: impl Fn(&Spot) -> Request,
        look: impl Fn(&Spot, Request) -> Result<T>,
    ) -> Result<T> {
        let spot = self.spot(name)?;
        let mut asked = vec![of(&spot)];
        let found = look(&spot, asked[0].clone());
        let foreign = |seen: &Result<T>| seen.as_ref().is_err_and(|error| error.kind() == Kind::ForeignLayout);
        if !foreign(&found) {
            return found;
        }
        for share in [Share::READ, Share::permits(1, 1, false)?] {
            let Some(layout) = spot.layout.shared(share) else { continue };
            let there = Spot { layout, name: spot.name.clone(), key: spot.key.clone() };
            let request = of(&there);
            if asked.contains(&request) {
                continue;
            }
            asked.push(request.clone());
            let seen = look(&there, request);
            if !foreign(&seen) {
                return seen;
            }
        }
        found
    }

    pub(crate) fn inspect_now(&self, name: &str) -> Result<Inspection> {
        let inspect = |spot: &Spot| spot.layout.inspect(spot.key.clone());
        self.at_either(name, inspect, |spot, request| {
            self.answered_at(spot, request, |reply| spot.layout.identified(&spot.name, reply))
        })
    }

    fn inspect_at(&self, spot: &Spot) -> Result<Inspection> {
        let request = spot.layout.inspect(spot.key.clone());
        self.answered_at(spot, request, |reply| spot.layout.inspected(&spot.name, reply))
    }

    /// What `read` makes of the store's answer to a request about a lock.
    fn answered_at<T>(&self, spot: &Spot, request: Request, read: impl FnOnce(&Reply) -> Result<T>) -> Result<T> {
        let answer = self.on_store(|engine| read(&engine.administer(request)?));
        answer.map_err(|error| error.on_lock(spot.name.clone()))
    }

    pub(crate) fn list_now(&self) -> Result<Vec<String>> {
        let layout = self.default_layout()?;
        let mut names = Vec::new();
        let mut cursor = String::new();
        loop {
            let (page, next) = self.on_store(|engine| layout.listed(&engine.administer(layout.list(&cursor))?))?;
            // With a longer prefix than ours a lock may have a name that is too long for us.
            names.extend(page.into_iter().filter(|name| name::check(name).is_ok()));
            match next {
                Some(next) => cursor = next,
                None => break,
            }
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    pub(crate) fn others_now(&self, name: Option<&str>) -> Result<Vec<Sighting>> {
        let name = name.map(name::check).transpose()?;
        let (mut found, mut cursor) = (Vec::new(), Some(String::new()));
        while let Some(at) = cursor {
            let page = self.on_store(|engine| match engine.store.others(name.as_deref(), &at) {
                Some(request) => engine.store.others_seen(&engine.administer(request)?),
                None => Ok((Vec::new(), None)),
            });
            let (page, next) = page?;
            found.extend(page);
            cursor = next;
        }
        found.sort_by(|a, b| a.key.cmp(&b.key));
        found.dedup();
        Ok(found)
    }

    pub(crate) fn break_now(&self, name: &str, expected: Token) -> Result<bool> {
        let break_hold = |spot: &Spot| spot.layout.break_hold(spot.key.clone(), expected.n);
        self.at_either(name, break_hold, |spot, request| self.break_by(spot, request, expected))
    }

    fn resize_at(&self, Spot { layout, name, key }: &Spot, permits: u32) -> Result<()> {
        let share = Share::permits(1, permits, false)?;
        let of_its_kind = layout.share().filter(|is| is.primitive == share.primitive);
        let request = of_its_kind.and_then(|_| layout.resize(key.clone(), permits));
        let Some(request) = request else {
            return Err(Error::unsupported("resize", "only a semaphore can be resized"));
        };
        let resized = self.on_store(|engine| match engine.administer(request)? {
            Reply::Int(1) => Ok(()),
            Reply::Error { code, message } => Err(refusal("resize", &code, &message)),
            other => Err(nonsense("resize", std::slice::from_ref(&other))),
        });
        resized.map_err(|error| error.on_lock(name.clone()))
    }

    fn break_by(&self, Spot { layout, name, key }: &Spot, request: Request, expected: Token) -> Result<bool> {
        let broken = self.on_store(|engine| {
            let reply = engine.administer(request)?;
            engine.verify(key);
            match &reply {
                Reply::Int(0) => Ok(false),
                Reply::Int(1) => Ok(true),
                error @ Reply::Error { .. } => layout.inspected(name, error).map(|_| false),
                other => Err(nonsense("break", std::slice::from_ref(other))),
            }
        });
        let broken = broken.map_err(|error| error.on_lock(name.clone()))?;
        notice::asked_to_break(name, self.address(), expected, broken);
        Ok(broken)
    }

    fn on_store<T>(&self, call: impl FnOnce(&Engine) -> Result<T>) -> Result<T> {
        self.place.engine().and_then(|engine| call(engine)).map_err(|error| error.on_store(self.address()))
    }

    pub(crate) fn close_now(&self) {
        if let Some(made) = self.place.engines.current()
            && let Ok(engine) = &**made
        {
            engine.close();
        }
    }
}

impl Client {
    /// What lies under `name`: who holds it, since when, and how many wait; of a latch, how many are still to come.
    ///
    /// # Errors
    /// `foreign_layout` when what lies there is none of ours; `unavailable`, `auth` or `protocol` from the store.
    pub async fn inspect(&self, name: &str) -> Result<Inspection> {
        let (client, name) = (self.clone(), name.to_owned());
        aside(move || client.inspect_now(&name)).await
    }

    /// The names of all locks there are in this layout under this client's prefix, held or remembered, in order; of latches and
    /// barriers too, since a name is one thing.
    ///
    /// # Errors
    /// `unavailable`, `auth` or `protocol` from the store.
    pub async fn list(&self) -> Result<Vec<String>> {
        let client = self.clone();
        aside(move || client.list_now()).await
    }

    /// What looks like a lock of another library: under the bare `name`, which only joined layouts use, or anywhere under this
    /// client's prefix, in order. Looking through a whole store takes as long as it has keys. Empty where nobody else keeps
    /// locks in such a store.
    ///
    /// # Errors
    /// `unavailable`, `auth` (looking takes more rights than locking) or `protocol` from the store.
    pub async fn others(&self, name: Option<&str>) -> Result<Vec<Sighting>> {
        let (client, name) = (self.clone(), name.map(str::to_owned));
        aside(move || client.others_now(name.as_deref())).await
    }

    /// Takes the lock `name` from whoever holds it under `expected`, which [`inspect`](Self::inspect) shows: the next in the
    /// queue has it at once; the holder gets `lost` at once where a push can reach it, else at its next renewal (ttl/3).
    /// Whether somebody held it under that token.
    ///
    /// # Errors
    /// `unavailable`, `auth` or `protocol` from the store.
    pub async fn break_lock(&self, name: &str, expected: Token) -> Result<bool> {
        let (client, name) = (self.clone(), name.to_owned());
        aside(move || client.break_now(&name, expected)).await
    }

    /// Gives back everything that is held and ends every wait with `closed`. Later use of the client fails with `closed`.
    pub async fn close(&self) {
        let client = self.clone();
        let closed = aside(move || {
            client.close_now();
            Ok(())
        });
        drop(closed.await);
    }
}

/// Runs what blocks for a moment away from the caller's task.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = runtime::handle()?.spawn_blocking(work).await;
    done.unwrap_or_else(|error| {
        let message = "a background call ended unexpectedly; please report this";
        Err(Error::new(Kind::Internal, "connect", message).caused_by(error))
    })
}

impl<F: Face> Clone for Client<F> {
    fn clone(&self) -> Self {
        Client { place: self.place.clone(), face: PhantomData }
    }
}

impl<F: Face> std::fmt::Debug for Client<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({})", self.address())
    }
}

/// A lock whose options are being set. See [`AcquireOptions`] for ranges and defaults.
#[derive(Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct LockBuilder<F: Face = Async> {
    client: Client<F>,
    name: String,
    pub(crate) of: Of,
    options: AcquireOptions,
    owner: Option<OwnerId>,
}

/// What a lock is of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of {
    Lock,
    Read,
    Write,
    Permits {
        take: u32,
        permits: u32,
    },
    /// Permits of what has none.
    Nothing,
    /// To be told when it is open.
    Gate(Gate),
}

impl Of {
    /// The layout of what is wanted, beside `layout` for locks.
    pub(crate) fn layout(self, layout: Arc<dyn Layout>, options: &AcquireOptions) -> Result<Arc<dyn Layout>> {
        let share = match self {
            Of::Lock => return Ok(layout),
            Of::Read => Share::READ,
            Of::Write => Share::WRITE,
            Of::Permits { take, permits } => Share::permits(take, permits, options.fair)?,
            Of::Gate(gate) => return layout.gate(gate).ok_or_else(|| missing(&*layout, gate.name())),
            Of::Nothing => return Err(Error::invalid("lock", "only a semaphore has permits to take; leave take out")),
        };
        layout.shared(share).ok_or_else(|| missing(&*layout, share.primitive.name()))
    }
}

fn missing(layout: &dyn Layout, what: &str) -> Error {
    Error::unsupported("lock", format!("layout {} has no {what}; choose the store's own layout", layout.name()))
}

impl<F: Face> LockBuilder<F> {
    /// How long the lock stays ours without a renewal, 20 ms to 24 h; default 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = ttl;
        self
    }

    /// How long `acquire` waits for other holders; default for ever. When it ends with `timeout` its place in the queue is gone, for
    /// which it may take up to 0.1 s longer where the store answers slowly.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Whether the watchdog renews the lease every ttl/3; default yes.
    pub fn renew(mut self, renew: bool) -> Self {
        self.options.renew = renew;
        self
    }

    /// Ends renewal this long after the grant; default never.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options.max_hold = Some(max_hold);
        self
    }

    /// First come, first served over all tasks of all processes.
    pub fn fair(mut self) -> Self {
        self.options.fair = true;
        self
    }

    /// Acquisitions of the same `owner` re-enter: they are granted at once, and the lock is free when each was released.
    pub fn reentrant(mut self, owner: OwnerId) -> Self {
        self.options.reentrant = true;
        self.owner = Some(owner);
        self
    }

    /// The layout at the store. A format that was set before goes with another layout and is dropped.
    pub fn layout(mut self, layout: &str) -> Self {
        self.options.set_layout(layout);
        self
    }

    /// The format of a layout that has several, such as the library whose locks are joined.
    pub fn format(mut self, format: &str) -> Self {
        self.options.format = Some(format.into());
        self
    }

    /// How often a waiter asks where it cannot be told that it is its turn; default 2 ms to 64 ms.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.options.retry = retry;
        self
    }

    /// A text of at most 128 bytes that others read with `inspect`.
    pub fn label(mut self, label: &str) -> Self {
        self.options.label = Some(label.into());
        self
    }

    /// All options at once.
    pub fn options(mut self, options: AcquireOptions) -> Self {
        self.options = options;
        self
    }

    /// The options as they stand.
    pub fn current_options(&self) -> &AcquireOptions {
        &self.options
    }

    /// The lock, ready to be acquired as often as wanted.
    ///
    /// # Errors
    /// `invalid_config` for a bad name or a value out of range, `unsupported` for what this store or layout cannot do.
    pub fn build(self) -> Result<Lock<F>> {
        let LockBuilder { client, name, of, options, owner } = self;
        let build = || {
            let name = name::check(&name)?;
            options.check()?;
            let layout = of.layout(client.place.layouts.layout(options.wanted())?, &options)?;
            layout.check(&options)?;
            let can = client.promises(&*layout);
            let wants = [(options.fair && !can.fair, "fair"), (options.reentrant && !can.reentrant, "reentrant")];
            if let Some((_, what)) = wants.iter().find(|(missing, _)| *missing) {
                let message =
                    format!("layout {} cannot be {what} here; leave it out, or choose another layout", can.layout);
                return Err(Error::unsupported("lock", message));
            }
            let spot = Spot::new(layout, name)?;
            let label = options.label.as_deref().unwrap_or_default();
            let at_work = AtWork::new(client.place.engine()?, &spot, label);
            Ok((spot, Arc::new(Generational::new(Arc::new(at_work)))))
        };
        let (spot, at_work) = build().map_err(|error: Error| error.on_store(client.address()))?;
        Ok(Lock { client, spot: Arc::new(spot), wish: Wish { options, owner, prefers_order: false }, at_work })
    }
}

/// Where a lock lies.
struct Spot {
    layout: Arc<dyn Layout>,
    name: Arc<str>,
    key: Arc<str>,
}

impl Spot {
    fn new(layout: Arc<dyn Layout>, name: Arc<str>) -> Result<Self> {
        let key = layout.key(&name)?;
        // In some stores they are the same text, of which one is enough.
        let key = if key == name { name.clone() } else { key };
        Ok(Spot { layout, name, key })
    }
}

/// A named lock, to be acquired as often as wanted. Cheap to clone.
pub struct Lock<F: Face = Async> {
    client: Client<F>,
    spot: Arc<Spot>,
    wish: Wish,
    at_work: Arc<Generational<AtWork>>,
}

/// What a lock needs of its client's engine at every acquisition; each process has its own.
struct AtWork {
    /// None where each acquisition has its own.
    entry: Option<Arc<Entry>>,
    card: Arc<str>,
}

impl AtWork {
    fn new(engine: &Engine, Spot { layout, name, key }: &Spot, label: &str) -> Self {
        let entry = (!layout.has_many_holders()).then(|| engine.entry(layout, name, key));
        AtWork { entry, card: engine.card(label) }
    }

    fn entry(&self, engine: &Engine, Spot { layout, name, key }: &Spot) -> Arc<Entry> {
        self.entry.clone().unwrap_or_else(|| engine.own_entry(layout, name, key))
    }
}

impl<F: Face> Lock<F> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.spot.name
    }

    /// What it promises, in its layout; see [`Client::guarantees`].
    pub fn guarantees(&self) -> Guarantees {
        self.client.promises(&*self.spot.layout)
    }

    pub(crate) fn inspect_here(&self) -> Result<Inspection> {
        self.client.inspect_at(&self.spot)
    }

    /// What the store says of this lock.
    pub(crate) fn on_store<T>(&self, call: impl FnOnce(&Engine) -> Result<T>) -> Result<T> {
        self.client.on_store(call).map_err(|error| error.on_lock(self.spot.name.clone()))
    }

    pub(crate) fn resize_here(&self, permits: u32) -> Result<()> {
        self.client.resize_at(&self.spot, permits)
    }

    pub(crate) fn break_here(&self, expected: Token) -> Result<bool> {
        let request = self.spot.layout.break_hold(self.spot.key.clone(), expected.n);
        self.client.break_by(&self.spot, request, expected)
    }

    pub(crate) fn layout(&self) -> &Arc<dyn Layout> {
        &self.spot.layout
    }

    /// What orders locks in the same way in every process.
    pub(crate) fn key(&self) -> &Arc<str> {
        &self.spot.key
    }

    /// Its options.
    pub fn options(&self) -> &AcquireOptions {
        &self.wish.options
    }

    /// The same lock for another owner, where it is reentrant.
    pub fn for_owner(&self, owner: OwnerId) -> Self {
        let mut lock = self.clone();
        lock.wish.owner = Some(owner);
        lock
    }

    /// The same lock with another waiting time; `None` waits for ever, zero only tries.
    pub fn with_timeout(&self, timeout: Option<Duration>) -> Self {
        let mut lock = self.clone();
        lock.wish.options.timeout = timeout;
        lock
    }

    /// The same lock, acquired first come, first served where its layout promises `fair` and the store allows it, else in no order;
    /// `fair` itself is `unsupported` there.
    pub fn fair_if_possible(&self) -> Self {
        let mut lock = self.clone();
        lock.wish.prefers_order = true;
        lock
    }

    /// The same lock for callers that wait in another way.
    pub fn into_face<G: Face>(self) -> Lock<G> {
        let Lock { client, spot, wish, at_work } = self;
        Lock { client: client.into_face(), spot, wish, at_work }
    }

    pub(crate) fn start(&self, timeout: Option<Duration>) -> Result<(Acquisition<F>, Effects)> {
        self.start_as(timeout, None)
    }

    /// Begins to acquire the lock, or to take it over from a secret.
    pub(crate) fn start_as(
        &self,
        timeout: Option<Duration>,
        secret: Option<AttemptId>,
    ) -> Result<(Acquisition<F>, Effects)> {
        let engine = self.client.place.engine().map_err(|error| self.explain(error))?.clone();
        let options = &self.wish.options;
        let prefers_order = self.wish.prefers_order;
        let fair = (options.fair || prefers_order) && self.guarantees().fair;
        if options.fair && !fair && !prefers_order {
            return Err(self.explain(unfair()));
        }
        let label = options.label.as_deref().unwrap_or_default();
        let make = || Arc::new(AtWork::new(&engine, &self.spot, label));
        let at_work = &**self.at_work.get_or_make(make);
        let entry = at_work.entry(&engine, &self.spot);
        let options = AcquireOptions { timeout, fair, ..options.clone() };
        let wish = Wish { options, owner: self.wish.owner, prefers_order };
        let (ask, waiter, effects) = engine::begin(&engine, &entry, &wish, &at_work.card, secret);
        let acquisition = Acquisition {
            engine,
            entry,
            waiter,
            task: ask.task,
            deadline: ask.deadline,
            timeout,
            generation: fork::generation(),
            over: false,
            span: self.span(timeout),
            face: PhantomData,
        };
        Ok((acquisition, effects))
    }

    /// What an acquisition is traced as; costs an atomic load when nobody listens.
    fn span(&self, timeout: Option<Duration>) -> Span {
        let (lock, store, ttl) = (self.name(), self.client.address(), self.wish.options.ttl.as_secs_f64());
        let timeout = timeout.map(|timeout| timeout.as_secs_f64());
        debug_span!(target: "lockwright::acquire", "acquire", lock, store, ttl, timeout, token = Empty, outcome = Empty)
    }

    fn explain(&self, error: Error) -> Error {
        error.on_lock(self.spot.name.clone()).on_store(self.client.address())
    }
}

impl<F: Face> Clone for Lock<F> {
    fn clone(&self) -> Self {
        let Lock { client, spot, wish, at_work } = self;
        Lock { client: client.clone(), spot: spot.clone(), wish: wish.clone(), at_work: at_work.clone() }
    }
}

impl<F: Face> std::fmt::Debug for Lock<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lock({:?} on {})", self.name(), self.client.address())
    }
}

/// One acquisition under way. Dropping it gives up: what was asked of the store is undone in the background.
pub(crate) struct Acquisition<F: Face> {
    pub(crate) engine: Arc<Engine>,
    pub(crate) entry: Arc<Entry>,
    pub(crate) waiter: Arc<Waiter>,
    pub(crate) task: TaskId,
    pub(crate) deadline: Option<Time>,
    timeout: Option<Duration>,
    generation: u64,
    over: bool,
    pub(crate) span: Span,
    face: PhantomData<F>,
}

impl<F: Face> Acquisition<F> {
    /// What the waiter got, as what the caller gets.
    pub(crate) fn conclude(&mut self, settled: Settled) -> Result<Guard<F>> {
        self.over = true;
        let result = self.result(settled);
        if !self.span.is_disabled() {
            self.span.record("outcome", result.as_ref().map_or_else(Error::code, |_| "granted"));
            self.span.record("token", result.as_ref().ok().map(|guard| tracing::field::display(guard.token())));
        }
        result
    }

    fn result(&self, settled: Settled) -> Result<Guard<F>> {
        let error = match settled {
            Settled::Granted { hold, depth } => return Ok(self.guard(hold, depth)),
            Settled::Refused(Refusal::Taken) => Error::timeout(Duration::ZERO),
            Settled::Refused(Refusal::TimedOut) => Error::timeout(self.timeout.unwrap_or_default()),
            Settled::Refused(Refusal::Failed(error)) => error,
            Settled::Released(_) | Settled::Extended(_) | Settled::Changed(_) | Settled::Exported(_) => {
                Error::new(Kind::Internal, "acquire", "an acquisition got another call's result; please report this")
            }
        };
        Err(error.on_lock(self.entry.name.clone()).on_store(self.engine.store.address().clone()))
    }

    fn guard(&self, hold: Arc<Hold>, depth: u32) -> Guard<F> {
        let holding = Holding { engine: self.engine.clone(), entry: self.entry.clone(), hold };
        Guard { holding: Some(holding), depth, generation: self.generation, face: PhantomData }
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.generation != fork::generation()
    }
}

impl<F: Face> Drop for Acquisition<F> {
    fn drop(&mut self) {
        if !self.over && !self.is_forked() {
            let _inside = self.span.enter();
            self.span.record("outcome", Kind::Cancelled.code());
            let effects = self.entry.cancel(&self.engine, self.task, &self.waiter);
            self.engine.perform_in_background(&self.entry, effects);
        }
    }
}

impl LockBuilder {
    /// Acquires the lock: [`build`](Self::build) and [`Lock::acquire`].
    ///
    /// # Errors
    /// As both.
    pub async fn acquire(self) -> Result<Guard> {
        self.build()?.acquire().await
    }

    /// Acquires the lock if it is free: [`build`](Self::build) and [`Lock::try_acquire`].
    ///
    /// # Errors
    /// As both.
    pub async fn try_acquire(self) -> Result<Option<Guard>> {
        self.build()?.try_acquire().await
    }
}

impl Lock {
    /// Waits for the lock, as long as the options say.
    ///
    /// Cancelling, by dropping the future, is safe at every await: a place in the queue is left and a lock granted meanwhile
    /// is given back, in the background.
    ///
    /// # Errors
    /// `timeout` when others held it all the time; `unavailable` when the store did not answer for `store_timeout`; `auth`,
    /// `foreign_layout` and `protocol` from the store; `closed`.
    pub async fn acquire(&self) -> Result<Guard> {
        self.acquire_within(self.wish.options.timeout).await
    }

    /// Acquires the lock if it is free; `None` when somebody else holds it.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), but never `timeout`.
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        match self.acquire_within(Some(Duration::ZERO)).await {
            Err(error) if error.kind() == Kind::Timeout => Ok(None),
            result => result.map(Some),
        }
    }

    /// Who holds it, since when, and how many wait; as [`Client::inspect`], in this lock's layout.
    ///
    /// # Errors
    /// As there.
    pub async fn inspect(&self) -> Result<Inspection> {
        let lock = self.clone();
        aside(move || lock.inspect_here()).await
    }

    /// Takes it from whoever holds it under `expected`; as [`Client::break_lock`], in this lock's layout.
    ///
    /// # Errors
    /// As there.
    pub async fn break_lock(&self, expected: Token) -> Result<bool> {
        let lock = self.clone();
        aside(move || lock.break_here(expected)).await
    }

    /// As [`acquire`](Self::acquire) with a waiting time of its own: `None` waits for ever, zero only tries.
    ///
    /// # Errors
    /// As there.
    pub async fn acquire_within(&self, timeout: Option<Duration>) -> Result<Guard> {
        let (acquisition, effects) = self.start(timeout)?;
        acquisition.finish(effects).await
    }
}

impl Acquisition<Async> {
    /// Performs what it began with, and waits for the result.
    pub(crate) async fn finish(mut self, effects: Effects) -> Result<Guard> {
        let span = self.span.clone();
        let settled = async {
            self.engine.perform_async(&self.entry, effects, self.deadline).await;
            poll_fn(|context| self.waiter.poll(context)).await
        };
        let settled = settled.instrument(span).await;
        self.conclude(settled)
    }
}

#[derive(Clone)]
pub(crate) struct Holding {
    pub(crate) engine: Arc<Engine>,
    pub(crate) entry: Arc<Entry>,
    pub(crate) hold: Arc<Hold>,
}

/// A lock that is held, until it is released, dropped or lost.
///
/// Dropping releases in the background. In a forked child a guard made by the parent is inert: the parent still holds.
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard<F: Face = Async> {
    /// `None` once it was released.
    holding: Option<Holding>,
    depth: u32,
    generation: u64,
    face: PhantomData<F>,
}

impl<F: Face> Guard<F> {
    /// The fencing token: hand it to whatever the lock protects.
    pub fn token(&self) -> Token {
        self.holding.as_ref().map_or(Token::new(0), |holding| holding.hold.shown())
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        self.holding.as_ref().map_or("", |holding| &holding.entry.name)
    }

    /// How many levels deep its owner holds the lock; 1 unless it is reentrant.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Whether the lock is certainly held at this moment, by the local clock.
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How much longer the lock is certainly held without a further renewal; zero when it is lost or belongs to the parent
    /// of this forked process.
    pub fn remaining(&self) -> Duration {
        match self.holding() {
            Ok(holding) => holding.hold.remaining(),
            Err(_) => Duration::ZERO,
        }
    }

    /// Why the lock was lost; `None` while it is held.
    pub fn why_lost(&self) -> Option<LossReason> {
        self.holding().ok()?.hold.why_lost()
    }

    /// Has `callback` run once when the lock is lost, at once if it is lost already; never after a release. It runs on the
    /// driver's thread, so it must return quickly and must not use the client.
    pub fn on_lost(&self, callback: impl FnOnce(&LossReason) + Send + 'static) {
        if let Ok(holding) = self.holding() {
            holding.hold.on_lost(Box::new(callback));
        }
    }

    /// Whether it was released or exported: then it holds nothing any more.
    pub fn is_over(&self) -> bool {
        self.holding.is_none()
    }

    /// Lets the lease run out: nothing renews it any more, and dropping the guard does nothing. For languages whose guards
    /// are collected at unknown moments, maybe inside the critical section.
    pub fn abandon(mut self) {
        if let Ok(Some(holding)) = self.take() {
            let effects = holding.entry.abandon(&holding.engine, holding.hold.token.n);
            holding.engine.perform_in_background(&holding.entry, effects);
        }
    }

    /// Whether this guard was made before a fork, by the parent.
    pub fn is_forked(&self) -> bool {
        self.generation != fork::generation()
    }

    pub(crate) fn holding(&self) -> Result<&Holding> {
        if self.is_forked() {
            return Err(forked());
        }
        self.holding.as_ref().ok_or_else(|| Error::new(Kind::NotOwned, "release", "this guard was released already"))
    }

    /// The hold is somebody else's now.
    pub(crate) fn forget(&mut self) {
        self.holding = None;
    }

    fn take(&mut self) -> Result<Option<Holding>> {
        if self.is_forked() {
            std::mem::forget(self.holding.take());
            return Err(forked());
        }
        Ok(self.holding.take())
    }

    pub(crate) fn start_release(&mut self) -> Result<Call> {
        let holding = self.take()?;
        let holding =
            holding.ok_or_else(|| Error::new(Kind::NotOwned, "release", "this guard was released already"))?;
        let waiter = Arc::default();
        let effects = holding.entry.release(&holding.engine, holding.hold.token.n, &waiter);
        let (lock, store) = (&*holding.entry.name, &**holding.engine.store.address());
        let span = debug_span!(target: "lockwright::release", "release", lock, store, token = %holding.hold.shown());
        Ok(Call { engine: holding.engine, entry: holding.entry, waiter, effects: Some(effects), span })
    }

    pub(crate) fn start_extend(&self, ttl: Duration) -> Result<Extension> {
        let wanted = AcquireOptions { ttl, ..AcquireOptions::default() };
        wanted.check()?;
        let Holding { engine, entry, hold } = self.holding()?;
        entry.layout.check(&wanted)?;
        let waiter = Arc::default();
        let effects = entry.extend(engine, hold.token.n, ttl, &waiter);
        let span = Span::none();
        let call = Call { engine: engine.clone(), entry: entry.clone(), waiter, effects: Some(effects), span };
        Ok(Extension { call, hold: hold.clone() })
    }

    /// Begins to hold another part of a read/write lock.
    pub(crate) fn start_change(&self, to: Share) -> Result<Change> {
        let Holding { engine, entry, hold } = self.holding()?;
        if entry.layout.share().is_none_or(|share| share.primitive != to.primitive) {
            let message = "only a guard of a read/write lock can be downgraded or upgraded";
            return Err(Error::unsupported("change", message).on_lock(entry.name.clone()));
        }
        let waiter = Arc::default();
        let effects = entry.change(engine, hold.token.n, to.units, &waiter);
        let span = Span::none();
        let call = Call { engine: engine.clone(), entry: entry.clone(), waiter, effects: Some(effects), span };
        Ok(Change { call, hold: hold.clone() })
    }

    /// [`extend`](Guard::extend) for whoever cannot keep the guard meanwhile: begun at once, ended by awaiting what this
    /// returns.
    ///
    /// # Errors
    /// As there.
    pub fn begin_extend(&self, ttl: Duration) -> Result<impl Future<Output = Result<()>> + Send + use<F>> {
        let Extension { call, hold } = self.start_extend(ttl)?;
        Ok(async move {
            let entry = call.entry.clone();
            extended(&entry, &hold, &call.finish().await)
        })
    }

    /// The same guard for callers that wait in another way.
    pub fn into_face<G: Face>(mut self) -> Guard<G> {
        let (holding, depth, generation) = (self.holding.take(), self.depth, self.generation);
        Guard { holding, depth, generation, face: PhantomData }
    }
}

/// A change under way, of the hold that it is about.
pub(crate) struct Change {
    pub(crate) call: Call,
    hold: Arc<Hold>,
}

impl Change {
    /// Whether it holds now what was wanted.
    pub(crate) fn outcome(entry: &Entry, hold: &Hold, settled: &Settled) -> Result<bool> {
        match (settled, hold.why_lost()) {
            (Settled::Changed(true), _) => Ok(true),
            (_, None) => Ok(false),
            (_, Some(reason)) => {
                let message = format!("the lock is not held any more: {}", reason.sentence());
                Err(Error::new(Kind::Lost, "change", message).on_lock(entry.name.clone()))
            }
        }
    }

    pub(crate) async fn finish(self) -> Result<bool> {
        let (entry, hold) = (self.call.entry.clone(), self.hold);
        Change::outcome(&entry, &hold, &self.call.finish().await)
    }

    pub(crate) fn finish_here(self) -> Result<bool> {
        let (entry, hold) = (self.call.entry.clone(), self.hold);
        Change::outcome(&entry, &hold, &self.call.finish_here())
    }
}

/// An extension under way, of the hold that it is about.
pub(crate) struct Extension {
    pub(crate) call: Call,
    pub(crate) hold: Arc<Hold>,
}

/// What became of an extension.
pub(crate) fn extended(entry: &Entry, hold: &Hold, settled: &Settled) -> Result<()> {
    if matches!(settled, Settled::Extended(true)) {
        return Ok(());
    }
    let why = hold.why_lost().map_or("it was released meanwhile", |reason| reason.sentence());
    let message = format!("the lock is not held any more: {why}");
    Err(Error::new(Kind::Lost, "extend", message).on_lock(entry.name.clone()))
}

/// A release or an extension under way.
pub(crate) struct Call {
    pub(crate) engine: Arc<Engine>,
    pub(crate) entry: Arc<Entry>,
    pub(crate) waiter: Arc<Waiter>,
    pub(crate) effects: Option<Effects>,
    pub(crate) span: Span,
}

impl Call {
    pub(crate) async fn finish(mut self) -> Settled {
        if let Some(effects) = self.effects.take() {
            self.engine.perform_async(&self.entry, effects, None).instrument(self.span.clone()).await;
        }
        poll_fn(|context| self.waiter.poll(context)).await
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(effects) = self.effects.take() {
            self.engine.perform_in_background(&self.entry, effects);
        }
    }
}

pub(crate) fn outcome_of(settled: Settled) -> ReleaseOutcome {
    match settled {
        Settled::Released(outcome) => outcome,
        _ => ReleaseOutcome::Unknown,
    }
}

impl Guard {
    /// Gives the lock back, and says what the store found. Dropping the future does not take the release back.
    ///
    /// # Errors
    /// `forked` when the guard belongs to the parent of this process.
    pub async fn release(mut self) -> Result<ReleaseOutcome> {
        let call = self.start_release()?;
        Ok(outcome_of(call.finish().await))
    }

    /// Makes the lease last at least `ttl` (20 ms to 24 h) from now, and renewals from now on.
    ///
    /// # Errors
    /// `lost` when the lock is not held any more, `forked`, `invalid_config`.
    pub async fn extend(&self, ttl: Duration) -> Result<()> {
        self.begin_extend(ttl)?.await
    }

    /// Waits until the lock is lost. Never ends for a lock that is released.
    pub async fn lost(&self) -> LossReason {
        poll_fn(|context| match self.holding() {
            Ok(holding) => holding.hold.poll_lost(context),
            Err(_) => Poll::Ready(LossReason::Closed),
        })
        .await
    }
}

impl<F: Face> Drop for Guard<F> {
    fn drop(&mut self) {
        if let Ok(Some(holding)) = self.take() {
            let waiter = Arc::default();
            let effects = holding.entry.release(&holding.engine, holding.hold.token.n, &waiter);
            holding.engine.perform_in_background(&holding.entry, effects);
        }
    }
}

impl<F: Face> std::fmt::Debug for Guard<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Guard({:?}, token {}, {:?} left)", self.name(), self.token(), self.remaining())
    }
}

fn forked() -> Error {
    let message =
        "this guard was made before a fork and belongs to the parent process; acquire the lock in this process";
    Error::new(Kind::Forked, "release", message)
}

/// Now, on the driver's clock: for faces that wait in slices.
pub(crate) fn left(deadline: Time) -> Duration {
    deadline.since(clock::now())
}
