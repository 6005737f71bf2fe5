//! The public face: a [`Client`] of one place, its [`Lock`]s, and the [`Guard`] of what is held.
//!
//! The same types serve async programs ([`Async`], the default) and threads ([`Blocking`]; see
//! [`blocking`](crate::blocking)): only what waits differs.

mod awaited;
mod care;
mod guard;
mod lock;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::layout_choice;

use crate::driver::engine::Engine;
use crate::driver::notice;
use crate::driver::road::Road;
use crate::error::{Error, Result};
use crate::guarantee::Guarantees;
use crate::lease::{Inspection, Sighting};
use crate::metrics::Metrics;
use crate::name;
use crate::options::{AcquireOptions, ConnectOptions};
use crate::platform::clock;
use crate::platform::fork::Generational;
use crate::protocol::{Inquiry, Layout};
use crate::stores::{self, LayoutChoice, Store};
use crate::time::Time;
use crate::token::Token;
use crate::uri::{ENVIRONMENT, Uri};

pub use care::{Health, PING};
pub use guard::Guard;
pub(crate) use guard::{Call, Extension, Holding, extended, outcome_of};
#[cfg(feature = "bindings")]
pub(crate) use guard::{EXPORTED, RELEASED};
use lock::Spot;
pub(crate) use lock::{Acquisition, Of, free};
pub use lock::{Lock, LockBuilder};

/// How a face waits.
pub trait Face: Send + Sync + 'static {}

/// Waiting is awaiting. Works on any executor; on tokio, requests go out from the caller's own task.
#[derive(Clone, Copy, Debug)]
pub enum Async {}

impl Face for Async {}

/// Waiting blocks the thread.
#[derive(Clone, Copy, Debug)]
pub enum Blocking {}

impl Face for Blocking {}

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
    inner: Arc<Inner>,
    face: PhantomData<F>,
}

pub(crate) struct Inner {
    uri: Uri,
    /// Of the process that made the client; asked for its address and layouts alone, which a forked child may read.
    store: Arc<dyn Store>,
    engines: Generational<Result<Arc<Engine>>>,
}

impl Inner {
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
    /// Connects to the place that `uri` names. Without one, to what `LOCKWRIGHT_URL` says, else to the embedded store:
    /// a file in the user's state directory that excludes across this user's processes on this host.
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
        let store = engine.store.clone();
        let engines = Generational::of_image(Arc::new(Ok(engine)));
        Ok(Client { inner: Arc::new(Inner { uri, store, engines }), face: PhantomData })
    }

    /// The lock called `name`, to be acquired as it is or after setting options.
    ///
    /// Any UTF-8 of 1 to 1024 bytes without control characters is a name. A wrong name or option is reported when the
    /// lock is built or acquired.
    pub fn lock(&self, name: &str) -> LockBuilder<F> {
        self.builder(name, Of::Lock)
    }

    pub(crate) fn builder(&self, name: &str, of: Of) -> LockBuilder<F> {
        let options = self.inner.uri.lock.clone();
        LockBuilder { client: self.clone(), name: name.to_owned(), of, options, owner: None }
    }

    /// The options that a lock of this client has before others are set: what the address says, else the defaults.
    pub fn options(&self) -> AcquireOptions {
        self.inner.uri.lock.clone()
    }

    /// What locks of this client promise, in the store's default layout or the one that the address chose. Once the
    /// store refused to push to this client, they promise neither that nor `fair`.
    ///
    /// # Errors
    /// `unsupported` or `invalid_config` for a layout or format that the store does not have.
    pub fn guarantees(&self) -> Result<Guarantees> {
        Ok(self.promises(&*self.default_layout()?))
    }

    /// The same client for callers that wait in another way.
    pub fn into_face<G: Face>(self) -> Client<G> {
        Client { inner: self.inner, face: PhantomData }
    }

    /// The address without credentials and options.
    pub fn address(&self) -> &str {
        self.inner.store.address()
    }

    /// The key under which the lock `name` lies in the store, as tools of the store's own want it. Nothing is sent.
    ///
    /// # Errors
    /// `invalid_config` for a name that no lock can have; `unsupported` or `invalid_config` as
    /// [`guarantees`](Self::guarantees).
    pub fn key_of(&self, name: &str) -> Result<String> {
        Ok(self.spot(name)?.key.to_string())
    }

    /// What this client and its clones did in this process so far; all zero in a forked child that has not used it yet.
    pub fn metrics(&self) -> Metrics {
        match self.inner.engines.current().map(|made| &**made) {
            Some(Ok(engine)) => engine.counters.snapshot(),
            _ => Metrics::default(),
        }
    }

    /// For how long a copy of what this client asks may come.
    pub(crate) fn copies(&self) -> Result<Duration> {
        self.on_store(|engine| Ok(engine.copies()))
    }

    pub(crate) fn default_layout(&self) -> Result<Arc<dyn Layout>> {
        stores::layout_of(self.inner.store.layouts(), LayoutChoice::of(&self.inner.uri.lock))
    }

    /// Locks made from now on have tokens that rise over all holders, whatever that costs.
    pub(crate) fn insist_on_tokens(&self) {
        self.inner.store.insist_on_tokens();
    }

    pub(crate) fn promises(&self, layout: &dyn Layout) -> Guarantees {
        let engine = self.inner.engines.current().and_then(|made| (**made).as_ref().ok());
        engine.map_or_else(|| layout.guarantees(), |engine| engine.still_promised(layout))
    }

    /// Where the lock `name` lies in the client's layout.
    fn spot(&self, name: &str) -> Result<Spot> {
        Spot::new(self.default_layout()?, name::check(name)?)
    }

    /// What comes of the conversation that `of` makes of a place: of the lock at `spot`, or of the shared record that
    /// lies in its place.
    async fn at_either<T: Send>(
        &self,
        road: Road,
        engine: &Engine,
        spot: &Spot,
        of: impl for<'l> Fn(&'l dyn Layout, &'l str, Arc<str>) -> Inquiry<'l, T>,
    ) -> Result<T> {
        let others = layout_choice::shared_beside(&*spot.layout);
        let at = |layout| of(layout, &spot.name, spot.key.clone());
        self.inquire(road, engine, at(&*spot.layout).or(others.iter().map(|other| at(&**other)))).await
    }

    pub(crate) async fn inspect_by(&self, road: Road, name: &str) -> Result<Inspection> {
        let spot = self.spot(name)?;
        let engine = self.engine().map_err(|error| error.on_lock(spot.name.clone()))?;
        let seen = self.at_either(road, &engine, &spot, |layout, name, key| layout.identify(name, key)).await;
        seen.map(|seen| engine.with_places(&spot.key, seen)).map_err(|error| error.on_lock(spot.name))
    }

    pub(crate) async fn list_by(&self, road: Road) -> Result<Vec<String>> {
        let (layout, engine) = (self.default_layout()?, self.engine()?);
        self.inquire(road, &engine, layout.list()).await.map(name::listed)
    }

    pub(crate) async fn others_by(&self, road: Road, name: Option<&str>) -> Result<Vec<Sighting>> {
        let (name, engine) = (name.map(name::check).transpose()?, self.engine()?);
        let mut found = self.inquire(road, &engine, engine.store.others(name.as_deref())).await?;
        found.sort_by(|a, b| a.key.cmp(&b.key));
        found.dedup();
        Ok(found)
    }

    pub(crate) async fn break_by(&self, road: Road, name: &str, expected: Token) -> Result<bool> {
        let spot = self.spot(name)?;
        let explain = |error: Error| error.on_lock(spot.name.clone());
        let engine = self.engine().map_err(explain)?;
        let broken = self.at_either(road, &engine, &spot, |layout, _, key| layout.break_hold(key, expected.n)).await;
        let broken = broken.map_err(explain)?;
        self.asked_to_break(road, &engine, &spot, expected, broken).await;
        Ok(broken)
    }

    /// The store was asked to break a hold, and did or not.
    async fn asked_to_break(&self, road: Road, engine: &Engine, spot: &Spot, expected: Token, broken: bool) {
        engine.asked_to_break(road, &spot.key, expected.n, broken).await;
        notice::asked_to_break(&spot.name, self.address(), expected, broken);
    }

    /// Has a conversation with the store.
    async fn inquire<T>(&self, road: Road, engine: &Engine, inquiry: Inquiry<'_, T>) -> Result<T> {
        engine.inquire_by(road, inquiry).await.map_err(|error| error.on_store(self.address()))
    }

    /// Whether the store did not answer this client when it was last asked.
    #[cfg(feature = "bindings")]
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(self.inner.engines.current().map(|made| &**made), Some(Ok(engine)) if engine.silence.lasts())
    }

    /// What asks the store.
    fn engine(&self) -> Result<Arc<Engine>> {
        self.inner.engine().cloned().map_err(|error| error.on_store(self.address()))
    }

    fn on_store<T>(&self, call: impl FnOnce(&Engine) -> Result<T>) -> Result<T> {
        self.inner.engine().and_then(|engine| call(engine)).map_err(|error| error.on_store(self.address()))
    }

    pub(crate) async fn close_by(&self, road: Road) -> Result<()> {
        match self.inner.engines.current().map(|made| &**made) {
            Some(Ok(engine)) => engine.close(road).await,
            _ => Ok(()),
        }
    }
}

impl Client {
    /// What lies under `name`: who holds it, since when, and how many wait; of a latch, how many are still to come.
    ///
    /// # Errors
    /// `foreign_layout` when what lies there is none of ours; `unavailable`, `auth` or `protocol` from the store.
    pub async fn inspect(&self, name: &str) -> Result<Inspection> {
        self.inspect_by(Road::Task, name).await
    }

    /// The names of all locks there are in this layout under this client's prefix, held or remembered, in order; of
    /// latches and barriers too, since a name is one thing.
    ///
    /// # Errors
    /// `unavailable`, `auth` or `protocol` from the store.
    pub async fn list(&self) -> Result<Vec<String>> {
        self.list_by(Road::Task).await
    }

    /// What looks like a lock of another library: under the bare `name`, which only joined layouts use, or anywhere
    /// under this client's prefix, in order. Looking through a whole store takes as long as it has keys. Empty where
    /// nobody else keeps locks in such a store.
    ///
    /// # Errors
    /// `unavailable`, `auth` (looking takes more rights than locking) or `protocol` from the store.
    pub async fn others(&self, name: Option<&str>) -> Result<Vec<Sighting>> {
        self.others_by(Road::Task, name).await
    }

    /// Takes the lock `name` from whoever holds it under `expected`, which [`inspect`](Self::inspect) shows: the next
    /// in the queue has it at once; the holder gets `lost` at once where a push can reach it, else at its next renewal
    /// (ttl/3). Whether somebody held it under that token.
    ///
    /// # Errors
    /// `unavailable`, `auth` or `protocol` from the store.
    pub async fn break_lock(&self, name: &str, expected: Token) -> Result<bool> {
        self.break_by(Road::Task, name, expected).await
    }

    /// Gives back everything that is held and ends every wait with `closed`. Later use of the client fails with
    /// `closed`.
    pub async fn close(&self) {
        drop(self.close_by(Road::Task).await);
    }
}

impl<F: Face> Clone for Client<F> {
    fn clone(&self) -> Self {
        Client { inner: self.inner.clone(), face: PhantomData }
    }
}

impl<F: Face> std::fmt::Debug for Client<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({})", self.address())
    }
}

/// Now, on the driver's clock: for faces that wait in slices.
pub(crate) fn left(deadline: Time) -> Duration {
    deadline.since(clock::now())
}
