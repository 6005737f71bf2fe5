//! The client, and what it makes.
//!
//! Every option is a parameter of its own, so that PHP refuses the name of none and an editor knows all; the tables of
//! the core are compared with them by `tests/manifest.php`.

use ext_php_rs::exception::PhpResult;
use ext_php_rs::prelude::*;
use ext_php_rs::types::Zval;
use lockwright::binding::options::{CONNECT, LOCK, REQUIRE};
use lockwright::binding::{Handle, Record, open};
use lockwright::guarantee::Requirements;
use lockwright::options::{AcquireOptions, ConnectOptions};
use lockwright::queue::OwnerId;
use lockwright::{Client as Core, LockBuilder};

use crate::asked::ask;
use crate::election::Election;
use crate::gate::{Barrier, Latch};
use crate::lock::{Lock, RwLock};
use crate::login;
use crate::once::{Once, callable};
use crate::request::{Resting, rest, rested};
use crate::several::{MultiLock, Striped};
use crate::thrown::thrown;
use crate::value::{MaybeGiven, PHP, count, is_there, optional_span, record, set, text};

/// One place where locks are kept. Nothing is sent before the first use; its connection outlives the request, for the
/// next that connects alike. A forked child connects by itself at its next use.
#[php_class]
#[php(name = "Lockwright\\Client", flags = ext_php_rs::flags::ClassFlags::Final)]
#[derive(Debug)]
pub struct Client {
    pub(crate) core: Core,
    /// What it was connected with; none once it was closed.
    key: std::cell::RefCell<Option<String>>,
    slot: Option<u64>,
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            rest(Resting { key, core: self.core.clone(), slot: self.slot });
        }
    }
}

/// What was given of these parameters, each by its name.
macro_rules! given {
    ($($parameter:ident),+) => { [$((stringify!($parameter), $parameter)),+] };
}

type Options<'a> = [(&'static str, MaybeGiven<'a>)];

impl Client {
    /// What is not given is as the address says.
    fn options(&self, given: &Options<'_>) -> PhpResult<AcquireOptions> {
        let mut options = self.core.options();
        set(&LOCK, &mut options, given, "lock")?;
        Ok(options)
    }

    fn build(
        &self,
        name: &Zval,
        given: &Options<'_>,
        of: impl FnOnce(&Core, &str) -> LockBuilder,
    ) -> PhpResult<lockwright::Lock> {
        let options = self.options(given)?;
        let reentrant = options.reentrant;
        let builder = of(&self.core, &text("lock", "name", name)?).options(options);
        let builder = if reentrant { builder.reentrant(OwnerId(0)) } else { builder };
        builder.build().map_err(thrown)
    }

    fn handle(&self) -> Handle {
        Handle::Client(self.core.clone())
    }
}

#[php_impl]
impl Client {
    /// Connects to the place that `url` names, else `LOCKWRIGHT_URL`, else a file of this user's.
    ///
    /// Times are numbers of seconds, or texts such as `10s` and `500ms`. What the address says goes before what is
    /// given here. `prefix`: put before every lock name. `connectTimeout`: limit for making one connection (2).
    /// `responseTimeout`: limit for one reply; after it the request is asked again (1). `storeTimeout`: how long an
    /// operation goes on asking a store that does not answer (5). `ca`, `cert` and `key`: PEM files.
    /// `credentials` returns an array of user and password, and is asked at every new connection, in the program's own
    /// thread. When it throws, what needed the connection throws AuthFailed, which names the cause. While the program
    /// is in `sleep` or the like it cannot be asked; then a connection fails that renews a lease, and is tried again.
    pub fn connect(
        url: Option<&Zval>,
        prefix: Option<&Zval>,
        connectTimeout: Option<&Zval>,
        responseTimeout: Option<&Zval>,
        storeTimeout: Option<&Zval>,
        ca: Option<&Zval>,
        cert: Option<&Zval>,
        key: Option<&Zval>,
        credentials: Option<&Zval>,
    ) -> PhpResult<Self> {
        let given = given![prefix, connectTimeout, responseTimeout, storeTimeout, ca, cert, key];
        let mut options = ConnectOptions { language: PHP.name, ..ConnectOptions::default() };
        set(&CONNECT, &mut options, &given, "connect")?;
        let url = is_there(url).map(|url| text("connect", "url", url)).transpose()?;
        let place = std::env::var("LOCKWRIGHT_URL").ok();
        let credentials = is_there(credentials);
        let key = format!("{:?}", (&url, place, &options, credentials.is_some()));
        let Resting { core, slot, .. } = match rested(&key) {
            Some(resting) => resting,
            None => {
                let slot = credentials.map(|_| login::slot());
                options.credentials = slot.map(|slot| login::source(slot, options.connect_timeout));
                let core = Core::open(url.as_deref(), options).map_err(thrown)?;
                Resting { key: key.clone(), core, slot }
            }
        };
        if let (Some(slot), Some(function)) = (slot, credentials) {
            login::give(slot, function)?;
        }
        Ok(Client { core, key: std::cell::RefCell::new(Some(key)), slot })
    }

    /// The lock called `name`. What is not given is as the address says, else as it says here.
    ///
    /// Times are numbers of seconds, or texts such as `10s`, `500ms` and `2m`. `ttl`: how long it stays ours without a
    /// renewal, 20 ms to 24 hours (30). `timeout`: how long to wait for others (-1, for ever). `renew`: whether it is
    /// renewed while it is held (true). `maxHold`: how long after the grant renewal ends (never). `atLeastFor`: how
    /// long after the grant it stays taken however early it is released (0). `fair`: first come, first served over all
    /// processes (false). `rank`: with `fair`, how urgent it is, 0 to 9 (0). `reentrant`: who holds it may acquire it
    /// again (false). `revocable`: whether its holder listens for others who ask for it back (false), see
    /// `Guard::onReleaseRequested`; only the layout `curator` has such a message. `layout`: how it lies in the store,
    /// and `format`: whose locks of that layout it joins. `retry`: an array of the first and the longest pause of a
    /// waiter that nobody tells of its turn (0.002, 0.064). `label`: a text that `inspect` shows.
    ///
    /// Throws InvalidConfig for what cannot be, and Unsupported for what this store or layout cannot do.
    pub fn lock(
        &self,
        name: &Zval,
        ttl: Option<&Zval>,
        timeout: Option<&Zval>,
        renew: Option<&Zval>,
        maxHold: Option<&Zval>,
        atLeastFor: Option<&Zval>,
        fair: Option<&Zval>,
        rank: Option<&Zval>,
        reentrant: Option<&Zval>,
        revocable: Option<&Zval>,
        layout: Option<&Zval>,
        format: Option<&Zval>,
        retry: Option<&Zval>,
        label: Option<&Zval>,
    ) -> PhpResult<Lock> {
        let given = given![
            ttl, timeout, renew, maxHold, atLeastFor, fair, rank, reentrant, revocable, layout, format, retry, label
        ];
        self.build(name, &given, |client, name| client.lock(name)).map(Lock::new)
    }

    /// The read/write lock called `name`. The options are those of `lock`, for both parts.
    pub fn rw_lock(
        &self,
        name: &Zval,
        ttl: Option<&Zval>,
        timeout: Option<&Zval>,
        renew: Option<&Zval>,
        maxHold: Option<&Zval>,
        atLeastFor: Option<&Zval>,
        fair: Option<&Zval>,
        rank: Option<&Zval>,
        revocable: Option<&Zval>,
        layout: Option<&Zval>,
        format: Option<&Zval>,
        retry: Option<&Zval>,
        label: Option<&Zval>,
    ) -> PhpResult<RwLock> {
        let given =
            given![ttl, timeout, renew, maxHold, atLeastFor, fair, rank, revocable, layout, format, retry, label];
        let read = self.build(name, &given, |client, name| client.rwlock(name).read())?;
        let write = self.build(name, &given, |client, name| client.rwlock(name).write())?;
        Ok(RwLock { read, write })
    }

    /// The semaphore called `name`, with `permits` permits, of which each acquisition takes `take`, all or none.
    ///
    /// Whoever first uses an idle one says how many permits it has, until it is resized. The other options are those of
    /// `lock`.
    pub fn semaphore(
        &self,
        name: &Zval,
        permits: &Zval,
        take: Option<&Zval>,
        ttl: Option<&Zval>,
        timeout: Option<&Zval>,
        renew: Option<&Zval>,
        maxHold: Option<&Zval>,
        atLeastFor: Option<&Zval>,
        fair: Option<&Zval>,
        rank: Option<&Zval>,
        revocable: Option<&Zval>,
        layout: Option<&Zval>,
        format: Option<&Zval>,
        retry: Option<&Zval>,
        label: Option<&Zval>,
    ) -> PhpResult<Lock> {
        let given =
            given![ttl, timeout, renew, maxHold, atLeastFor, fair, rank, revocable, layout, format, retry, label];
        let permits = count("lock", "permits", permits)?;
        let take = is_there(take).map_or(Ok(1), |take| count("lock", "take", take))?;
        self.build(name, &given, |client, name| client.semaphore(name, permits).take(take)).map(Lock::new)
    }

    /// The locks called `names`, to be held all at once. Options are those of `lock`; the timeout is for all of them.
    pub fn multi_lock(
        &self,
        names: Vec<&Zval>,
        ttl: Option<&Zval>,
        timeout: Option<&Zval>,
        renew: Option<&Zval>,
        maxHold: Option<&Zval>,
        atLeastFor: Option<&Zval>,
        fair: Option<&Zval>,
        rank: Option<&Zval>,
        revocable: Option<&Zval>,
        layout: Option<&Zval>,
        format: Option<&Zval>,
        retry: Option<&Zval>,
        label: Option<&Zval>,
    ) -> PhpResult<MultiLock> {
        let given =
            given![ttl, timeout, renew, maxHold, atLeastFor, fair, rank, revocable, layout, format, retry, label];
        let names = names.iter().map(|name| text("lock", "name", name)).collect::<PhpResult<Vec<_>>>()?;
        let core = self.core.multi_lock_with(names, &self.options(&given)?).map_err(thrown)?;
        Ok(MultiLock { core })
    }

    /// The lock `name` cut into 1 to 256 `segments`. Options are those of `lock`.
    pub fn striped(
        &self,
        name: &Zval,
        segments: &Zval,
        ttl: Option<&Zval>,
        timeout: Option<&Zval>,
        renew: Option<&Zval>,
        maxHold: Option<&Zval>,
        atLeastFor: Option<&Zval>,
        fair: Option<&Zval>,
        rank: Option<&Zval>,
        revocable: Option<&Zval>,
        layout: Option<&Zval>,
        format: Option<&Zval>,
        retry: Option<&Zval>,
        label: Option<&Zval>,
    ) -> PhpResult<Striped> {
        let given =
            given![ttl, timeout, renew, maxHold, atLeastFor, fair, rank, revocable, layout, format, retry, label];
        let segments = usize::try_from(count("lock", "segments", segments)?).unwrap_or(usize::MAX);
        let name = text("lock", "name", name)?;
        let core = self.core.striped_with(&name, segments, &self.options(&given)?).map_err(thrown)?;
        Ok(Striped { core })
    }

    /// A job that one caller at a time does, such as to rebuild a cache entry. Options are those of `lock`.
    ///
    /// `look` returns null where there is no value that would do, else an array of the value and whether it is fresh.
    /// `make` makes and keeps one; it is given the fencing token. `waits`: callers wait for a fresh value though there
    /// is a stale one (false).
    pub fn once(
        &self,
        name: &Zval,
        look: &Zval,
        make: &Zval,
        waits: Option<bool>,
        ttl: Option<&Zval>,
        timeout: Option<&Zval>,
        renew: Option<&Zval>,
        maxHold: Option<&Zval>,
        atLeastFor: Option<&Zval>,
        fair: Option<&Zval>,
        rank: Option<&Zval>,
        revocable: Option<&Zval>,
        layout: Option<&Zval>,
        format: Option<&Zval>,
        retry: Option<&Zval>,
        label: Option<&Zval>,
    ) -> PhpResult<Once> {
        let given =
            given![ttl, timeout, renew, maxHold, atLeastFor, fair, rank, revocable, layout, format, retry, label];
        callable(look, "look").and_then(|_| callable(make, "make"))?;
        let lock = Lock::new(self.build(name, &given, |client, name| client.lock(name))?);
        let (look, make) = (look.shallow_clone(), make.shallow_clone());
        Ok(Once { lock, look, make, waits: waits.unwrap_or(false) })
    }

    /// One of many leads. Options are those of `lock`, but for `fair`, `rank` and `label`.
    pub fn election(
        &self,
        name: &Zval,
        ttl: Option<&Zval>,
        timeout: Option<&Zval>,
        renew: Option<&Zval>,
        maxHold: Option<&Zval>,
        atLeastFor: Option<&Zval>,
        revocable: Option<&Zval>,
        layout: Option<&Zval>,
        format: Option<&Zval>,
        retry: Option<&Zval>,
    ) -> PhpResult<Election> {
        let given = given![ttl, timeout, renew, maxHold, atLeastFor, revocable, layout, format, retry];
        let (name, options) = (text("lock", "name", name)?, self.options(&given)?);
        Ok(Election { client: self.core.clone(), name, options })
    }

    /// Takes over a lock that somebody exported; its token is higher than the exporter's. Nothing is waited for.
    ///
    /// Throws NotOwned when somebody resumed it before, or its time ran out and somebody else has the lock;
    /// InvalidConfig for what is no secret.
    pub fn resume(
        &self,
        secret: &Zval,
        ttl: Option<&Zval>,
        renew: Option<&Zval>,
        maxHold: Option<&Zval>,
        atLeastFor: Option<&Zval>,
        layout: Option<&Zval>,
        format: Option<&Zval>,
        label: Option<&Zval>,
    ) -> PhpResult<Zval> {
        let given = given![ttl, renew, maxHold, atLeastFor, layout, format, label];
        let known = self.core.exported(&text("resume", "secret", secret)?).map_err(thrown)?;
        let builder = self.core.lock(known.name()).options(self.options(&given)?);
        Lock::new(builder.build().map_err(thrown)?).resumed(secret)
    }

    /// The latch called `name`, which is open once it was counted down `count` times, by whomever. It is forgotten
    /// `idle` (60 s to 30 days, which is the default) after anybody last used it.
    pub fn latch(&self, name: &Zval, count: &Zval, idle: Option<&Zval>) -> PhpResult<Latch> {
        let (name, count) = (text("latch", "name", name)?, self::count("latch", "count", count)?);
        let core = open::latch(&self.core, &name, count, optional_span("latch", "idle", idle)?).map_err(thrown)?;
        Ok(Latch { core })
    }

    /// The barrier called `name`, which opens whenever `parties` (1 to 10,000) wait for it at the same time. The place
    /// of a party that died stands for at most `ttl` more (30).
    pub fn barrier(&self, name: &Zval, parties: &Zval, ttl: Option<&Zval>) -> PhpResult<Barrier> {
        let (name, parties) = (text("barrier", "name", name)?, count("barrier", "parties", parties)?);
        let core = open::barrier(&self.core, &name, parties, optional_span("barrier", "ttl", ttl)?).map_err(thrown)?;
        Ok(Barrier { core })
    }

    /// Whether locks can be had here, now: acquires a lock of its own and gives it back.
    pub fn ping(&self) -> PhpResult<Zval> {
        ask(self.handle(), "ping", &[])
    }

    /// Begins nothing any more and waits until everything that this client holds was released, for at most `limit`. The
    /// names of the locks that are still held.
    pub fn drain(&self, limit: &Zval) -> PhpResult<Zval> {
        self.key.take();
        ask(self.handle(), "drain", &[Some(limit)])
    }

    /// What locks of this client promise.
    pub fn guarantees(&self) -> PhpResult<Zval> {
        record(self.core.guarantees().map_err(thrown)?.into())
    }

    /// Throws Unsupported unless all of it is promised: of locks, or where `rwlock`, `semaphore`, `latch` or `barrier`
    /// are named, of each of them. Nothing is sent.
    pub fn require(
        &self,
        rwlock: Option<&Zval>,
        semaphore: Option<&Zval>,
        latch: Option<&Zval>,
        barrier: Option<&Zval>,
        fenced: Option<&Zval>,
        fair: Option<&Zval>,
        reentrant: Option<&Zval>,
        shared: Option<&Zval>,
        push: Option<&Zval>,
        failoverSafe: Option<&Zval>,
    ) -> PhpResult<()> {
        let given = given![rwlock, semaphore, latch, barrier, fenced, fair, reentrant, shared, push, failoverSafe];
        let mut wanted = Requirements::default();
        set(&REQUIRE, &mut wanted, &given, "require")?;
        self.core.require(wanted).map_err(thrown)
    }

    /// What lies under `name`: who holds it, and how many wait; of a latch, how many are still to come.
    pub fn inspect(&self, name: &Zval) -> PhpResult<Zval> {
        ask(self.handle(), "inspect", &[Some(name)])
    }

    /// The names of the locks there are.
    #[php(name = "list")]
    pub fn list(&self) -> PhpResult<Zval> {
        ask(self.handle(), "list", &[])
    }

    /// Takes the lock from whoever holds it under that token, which `inspect` shows. Whether somebody did.
    pub fn break_lock(&self, name: &Zval, expectedToken: &Zval) -> PhpResult<Zval> {
        ask(self.handle(), "break_lock", &[Some(name), Some(expectedToken)])
    }

    /// What this client did in this process so far.
    pub fn metrics(&self) -> PhpResult<Zval> {
        record(Record::from(self.core.metrics()))
    }

    /// Gives back what is held and ends every wait with Closed.
    pub fn close(&self) -> PhpResult<()> {
        self.key.take();
        ask(self.handle(), "close", &[]).map(drop)
    }

    /// The address without credentials.
    pub fn address(&self) -> String {
        self.core.address().to_owned()
    }
}
