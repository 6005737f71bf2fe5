//! What several may hold in the layout `redisson`: Redisson's `RReadWriteLock`, `RPermitExpirableSemaphore` and
//! `RSemaphore`.
//!
//! | key | holds |
//! |---|---|
//! | the name | a read/write lock: a hash of `mode` (`read` or `write`), a field `<owner>` for each reader and `<owner>:write` for the writer, whose values count holds; goes with the last lease |
//! | `{name}:<owner>:rwlock_timeout:<n>` | the lease of a reader's n-th hold; goes when that ends |
//! | the name | a semaphore: a text, how many permits are free; never goes |
//! | `{name}:timeout` | of an `RPermitExpirableSemaphore`: a sorted set of the permits that are held, 16 bytes each, by their end (Unix time in ms) |
//! | `lws:{name}` | ours: a hash of the highest token (`t`) and, by owner, of token, since when, units and card of our holds; goes 10 minutes after the last lease |
//! | `lwl:{name}` | ours, beside an `RSemaphore`: what `{name}:timeout` is beside the other |
//!
//! **Owners** are those of [`redisson`](super::redisson): each acquisition is one. A permit of an acquisition is its
//! 128 bits, the further ones of an acquisition that takes several are digests of them. So whatever is sent again
//! counts once.
//!
//! **Readers.** A reader of ours holds as long as its own lease, which Redisson reads when one of its readers leaves:
//! then the lock lasts as long as the longest lease that is left. But each renewal of a reader of Redisson sets the end
//! of the whole lock to `lockWatchdogTimeout` (30 s by default), also where ours would last longer: [`LONGEST_READ`] is
//! as long as a reader's ttl may be.
//!
//! **Change of mode.** The writer becomes a reader as one of Redisson's threads does that locks for reading and then
//! unlocks for writing; ours is one step, and wakes who waits. A reader becomes the writer if it is alone, which
//! Redisson cannot.
//!
//! **Permits.** `RSemaphore` knows no holders: theirs end when they are released and never else. Ours have leases in a
//! key of ours, and whoever of ours asks next takes back what is over.
//!
//! **Waking up.** As with the locks: `0` and `1` on `redisson_rwlock:{name}`, how many permits are free on
//! `redisson_sc:{name}`.
//!
//! ```text
//!   rwlock                                                         semaphore
//!   acquire  record owner ttl-ms not-after card units base channel    record leases owner ttl-ms not-after card units permits exact channel
//!   renew    record owner ttl-ms base                                 record leases owner ttl-ms units
//!   change   record owner token ttl-ms not-after units card base channel
//!   release  record owner base channel                                record leases owner units channel
//!   undo     record owner base channel                                record leases owner units channel
//!   inspect  record base channel                                      record leases exact channel
//!   break    record token base channel                                record leases token channel
//!   resize                                                            record leases permits channel
//! ```
//!
//! Answers are those of [`crate::shared_machine`]. `base` is what readers' leases begin with; `exact` whether all
//! permits that are held are known.
//!
//! Source: Redisson 4.7 `RedissonReadLock.java`, `RedissonWriteLock.java`, `ReadLockTask.java`,
//! `RedissonPermitExpirableSemaphore.java`, `RedissonSemaphore.java`; the scripts of 3.50 are the same but for the
//! renewal of readers.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::joined::{Manner, NOTES_RECORD, millis, record_key};
use super::notes::NOTES;
use super::redisson::{PLAIN, PROMISES, RedissonLayout, SHARDS, beside, suffixed};
use super::shapes;
use crate::arguments::token_arg;
use crate::error::{Error, Kind, Result};
use crate::guarantee::{ExclusiveUntil, Guarantees};
use crate::lease::Inspection;
use crate::options::AcquireOptions;
use crate::protocol::{
    Arg, AttemptId, Body, Call, Change, Input, Inquiry, Intent, Layout, Op, Protocol, Push, Reply, Request, Requests,
    Step, Terms, Traits, Verdict,
};
use crate::replies::{answered, done, operation, refusal};
use crate::share::{Primitive, Share};
use crate::shared_machine::{self, SharedCalls};

/// A script on a read/write lock.
macro_rules! rwlock {
    ($($part:literal)+) => {
        script!("joined/foreign" "time" "redisson/publish" "redisson/rwlock/read" "redisson/shared/notes" "redisson/rwlock/holds" $($part)+)
    };
}

/// A script on a semaphore.
macro_rules! permits {
    ($($part:literal)+) => {
        script!("joined/foreign" "time" "redisson/publish" "redisson/permits/read" "redisson/shared/notes" "redisson/permits/holds" $($part)+)
    };
}

const fn call(name: &'static str, body: Body) -> Call {
    Call { name, body, batch: false }
}

/// The scripts of read/write locks.
pub static RWLOCK: SharedCalls = SharedCalls {
    acquire: call(
        "rwlock.acquire",
        rwlock!("redisson/rwlock/take" "redisson/shared/gone" "redisson/shared/tokens" "redisson/rwlock/acquire"),
    ),
    renew: Call {
        name: "rwlock.renew",
        body: script!("redisson/rwlock/many" "redisson/shared/notes" "redisson/rwlock/holds" "redisson/rwlock/renew"),
        batch: true,
    },
    change: call(
        "rwlock.change",
        rwlock!("redisson/rwlock/take" "redisson/rwlock/free" "redisson/shared/tokens" "redisson/rwlock/change"),
    ),
    release: call("rwlock.release", rwlock!("redisson/rwlock/free" "redisson/rwlock/release")),
    undo: call("rwlock.undo", rwlock!("redisson/rwlock/free" "redisson/rwlock/undo")),
    break_hold: call("rwlock.break", rwlock!("redisson/rwlock/free" "redisson/rwlock/break")),
    resize: NONE,
};

/// The scripts of semaphores.
pub static PERMITS: SharedCalls = SharedCalls {
    acquire: call(
        "permits.acquire",
        permits!("redisson/shared/gone" "redisson/shared/tokens" "redisson/permits/acquire"),
    ),
    renew: Call {
        name: "permits.renew",
        body: script!("time" "redisson/permits/many" "redisson/shared/notes" "redisson/permits/holds" "redisson/permits/renew"),
        batch: true,
    },
    change: NONE,
    release: call("permits.release", permits!("redisson/permits/free" "redisson/permits/release")),
    undo: call("permits.undo", permits!("redisson/permits/free" "redisson/permits/undo")),
    break_hold: call("permits.break", permits!("redisson/permits/free" "redisson/permits/break")),
    resize: call("permits.resize", permits!("redisson/permits/resize")),
};

static INSPECT_RWLOCK: Call = call("rwlock.inspect", rwlock!("redisson/rwlock/inspect"));
static INSPECT_PERMITS: Call = call("permits.inspect", permits!("redisson/permits/inspect"));

/// Those that the server may be asked for by a digest.
pub(super) fn by_digest() -> impl Iterator<Item = &'static Call> {
    let looks = [&INSPECT_RWLOCK, &INSPECT_PERMITS];
    let all = RWLOCK.by_digest().into_iter().chain(PERMITS.by_digest()).chain(looks);
    all.filter(|call| !call.body.is_empty())
}

/// What is never asked.
const NONE: Call = call("none", &[]);

/// As long as the ttl of a reader may be: as long as Redisson's `lockWatchdogTimeout`, unless it is set.
pub const LONGEST_READ: Duration = Duration::from_secs(30);

/// How many permits one acquisition may take: each is a member of a set.
pub const MOST_TAKEN: u32 = 1000;

/// What of Redisson's is joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// `RReadWriteLock`.
    RwLock,
    /// `RPermitExpirableSemaphore`.
    Leased,
    /// `RSemaphore`.
    Counted,
}

impl Object {
    /// What of Redisson's `share` is a part of, where semaphores are `counted` or leased.
    pub fn of(share: Share, counted: bool) -> Self {
        match share.primitive {
            Primitive::RwLock => Object::RwLock,
            Primitive::Semaphore if counted => Object::Counted,
            Primitive::Semaphore => Object::Leased,
        }
    }

    fn calls(self) -> &'static SharedCalls {
        match self {
            Object::RwLock => &RWLOCK,
            Object::Leased | Object::Counted => &PERMITS,
        }
    }

    fn look(self) -> &'static Call {
        match self {
            Object::RwLock => &INSPECT_RWLOCK,
            Object::Leased | Object::Counted => &INSPECT_PERMITS,
        }
    }

    /// Its class.
    pub const fn name(self) -> &'static str {
        match self {
            Object::RwLock => "RReadWriteLock",
            Object::Leased => "RPermitExpirableSemaphore",
            Object::Counted => "RSemaphore",
        }
    }

    fn guarantees(self) -> Guarantees {
        let notes: &'static [&'static str] = match self {
            Object::RwLock => &[
                NOTES[0],
                NOTES[1],
                NOTES[2],
                NOTES[3],
                "Redisson's holders have no fencing token, so a token does not order them against ours.",
                "There is no queue: whoever asks first gets the lock, and a steady stream of readers can keep writers out.",
                "A reader's ttl is at most 30 s, Redisson's lockWatchdogTimeout: each renewal of one of its readers ends the whole lock \
                 that much later. Where Redisson has a shorter one, give readers no longer ttl.",
                "Redisson before 4.4 renews every reader's lease with its own, so a crashed reader keeps writers out while others read.",
                SHARDS,
            ],
            Object::Leased => &[
                NOTES[1],
                NOTES[2],
                NOTES[3],
                "Redisson's holders have no fencing token, so a token does not order them against ours.",
                "Redisson judges leases by its clients' clocks, Lockwright by the server's: a fast client takes permits back early, ours too.",
                "A permit that Redisson's acquire() takes without a lease never expires.",
                "There is no queue, so a waiter that wants many permits can be overtaken again and again by those that want few.",
                SHARDS,
            ],
            Object::Counted => &[
                NOTES[0],
                NOTES[1],
                NOTES[2],
                NOTES[3],
                "Redisson's permits have no lease: a holder that crashes keeps its permits for ever.",
                "Lockwright's permits have leases, kept in a key beside it: expired ones come back when the next Lockwright program asks.",
                "Only the number of free permits is stored, not the total: it cannot be resized, and asking for more than there are waits for ever.",
                "There is no queue, so a waiter that wants many permits can be overtaken again and again by those that want few.",
                SHARDS,
            ],
        };
        let exclusive_until = match self {
            Object::Leased => ExclusiveUntil::ClockSkew,
            Object::RwLock | Object::Counted => ExclusiveUntil::StoreFailover,
        };
        Guarantees { exclusive_until, fair: false, reentrant: false, notes, ..PROMISES }
    }

    /// Where those listen who wait.
    pub fn channel(self, key: &str) -> String {
        beside(if self == Object::RwLock { "redisson_rwlock" } else { "redisson_sc" }, key)
    }
}

/// What the keys begin with of the leases of ours that nobody else keeps.
pub(super) const LEASES: &str = "lwl:";

/// The key of our notes beside what lies under `key`.
pub fn notes_key(key: &str) -> String {
    sibling(NOTES_RECORD, key)
}

/// The key of the ends of the permits that are held.
pub fn leases_key(object: Object, key: &str) -> String {
    match object {
        Object::Counted => sibling(LEASES, key),
        Object::RwLock | Object::Leased => suffixed(key, "timeout"),
    }
}

/// What the keys of readers' leases begin with.
pub fn leases_base(key: &str) -> String {
    suffixed(key, "").trim_end_matches(':').to_owned()
}

fn sibling(prefix: &str, key: &str) -> String {
    format!("{prefix}{}", record_key(key).trim_start_matches("lwt:"))
}

/// The layout of one of these, for names that get `prefix` put before them.
#[derive(Debug)]
pub struct SharedLayout {
    /// What is joined.
    pub object: Object,
    /// What of it is wanted.
    pub share: Share,
    /// The locks beside which it lies, and whose names it has.
    pub locks: RedissonLayout,
}

impl SharedLayout {
    fn machine(&self, key: Arc<str>) -> RedissonSharedMachine {
        let machine = RedissonSharedMachine::new(self.object, self.share, key);
        RedissonSharedMachine { in_shard: self.locks.manner.in_shard(), ..machine }
    }
}

impl Layout for SharedLayout {
    fn name(&self) -> &'static str {
        PROMISES.layout
    }

    fn guarantees(&self) -> Guarantees {
        self.object.guarantees()
    }

    fn key(&self, name: &str) -> Result<Arc<str>> {
        self.locks.key(name)
    }

    fn check(&self, options: &AcquireOptions) -> Result<()> {
        if self.share == Share::READ && options.ttl > LONGEST_READ {
            let message = format!(
                "ttl is {:?}; for a reader of layout redisson it must be {LONGEST_READ:?} at most: a renewal of Redisson's \
                 readers ends the lock that soon",
                options.ttl
            );
            return Err(Error::invalid("lock", message));
        }
        if self.object != Object::RwLock && self.share.units > MOST_TAKEN {
            let message = format!("take is {}; in layout redisson it must be 1 to {MOST_TAKEN}", self.share.units);
            return Err(Error::invalid("lock", message));
        }
        Ok(())
    }

    fn protocol(&self, key: Arc<str>) -> Box<dyn Protocol> {
        Box::new(self.machine(key))
    }

    fn share(&self) -> Option<Share> {
        Some(self.share)
    }

    fn inspect<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        let machine = self.machine(key);
        let request = machine.request(self.object.look(), machine.exact());
        Inquiry::of(request, move |reply| match foreign(self.object, "inspect", reply) {
            Some(error) => Err(error),
            None => shared_machine::inspected(self.name(), name, reply),
        })
    }

    fn break_hold(&self, key: Arc<str>, token: u64) -> Inquiry<'_, bool> {
        let request = self.machine(key).request(&self.object.calls().break_hold, [token_arg(token)]);
        Inquiry::of(request, |reply| match foreign(self.object, "break", reply) {
            Some(error) => Err(error),
            None => done("break", reply, refusal),
        })
    }

    fn resize(&self, key: Arc<str>, permits: u32) -> Option<Inquiry<'_, ()>> {
        let resizes = self.object == Object::Leased;
        resizes.then(|| shared_machine::resized(self.machine(key).request(&PERMITS.resize, [Arg::Int(permits.into())])))
    }

    fn list(&self) -> Inquiry<'static, Vec<String>> {
        self.locks.clone().listing()
    }
}

/// The error for what is not of this kind.
fn foreign(object: Object, operation: &'static str, reply: &Reply) -> Option<Error> {
    let Reply::Error { code, message } = reply else { return None };
    if code != "FOREIGN" {
        return None;
    }
    let (kind, names) = message.split_once(' ').unwrap_or((message, ""));
    let message = format!(
        "under this name lies {}, which is no {} of Redisson; see who else uses the name, or choose another name, prefix \
         or layout",
        shapes::described(kind, names),
        object.name()
    );
    Some(Error::new(Kind::ForeignLayout, operation, message))
}

/// The machine.
#[derive(Clone)]
pub struct RedissonSharedMachine {
    object: Object,
    share: Share,
    key: Arc<str>,
    notes: Arc<str>,
    /// Where the leases lie of permits, or what the keys of readers' begin with.
    leases: Arc<str>,
    channel: Arc<str>,
    /// Said behind the channel, where that is one of the lock's shard.
    in_shard: Option<Arg>,
}

impl RedissonSharedMachine {
    /// The machine for `share` of what lies under `key`.
    pub fn new(object: Object, share: Share, key: Arc<str>) -> Self {
        let leases = match object {
            Object::RwLock => leases_base(&key),
            Object::Leased | Object::Counted => leases_key(object, &key),
        };
        let (notes, channel) = (notes_key(&key).into(), object.channel(&key).into());
        RedissonSharedMachine { object, share, key, notes, leases: leases.into(), channel, in_shard: None }
    }

    /// An owner as it lies there.
    fn owner(&self, attempt: AttemptId) -> Arg {
        Arg::Text(match self.object {
            Object::RwLock => PLAIN.owner(attempt).into(),
            Object::Leased | Object::Counted => attempt.to_string().into(),
        })
    }

    /// A request that names what all do; `args` and, but for renewals, where to tell of it.
    fn request(&self, call: &'static Call, args: impl IntoIterator<Item = Arg>) -> Request {
        let is_rwlock = self.object == Object::RwLock;
        let mut request = Request::new(call, self.key.clone(), [Arg::Key(self.notes.clone())]);
        if !is_rwlock {
            request.args.push(Arg::Key(self.leases.clone()));
        }
        request.args.extend(args);
        if is_rwlock {
            request.args.push(Arg::Text(self.leases.clone()));
        }
        if !call.batch {
            request.args.push(Arg::Text(self.channel.clone()));
            request.args.extend(self.in_shard.clone());
        }
        request
    }

    /// What only semaphores are told.
    fn of_permits<const N: usize>(&self, args: [Arg; N]) -> SmallVec<[Arg; 2]> {
        if self.object == Object::RwLock { SmallVec::new() } else { SmallVec::from_iter(args) }
    }

    fn exact(&self) -> SmallVec<[Arg; 2]> {
        self.of_permits([Arg::Int((self.object == Object::Leased).into())])
    }

    fn units(&self) -> Arg {
        Arg::Int(self.share.units.into())
    }

    fn begin(&self, intent: &Intent) -> Request {
        let me = [self.owner(intent.terms().attempt)];
        let calls = self.object.calls();
        match intent {
            Intent::Acquire { terms, .. } => {
                let args = [millis(terms.ttl), Arg::NotAfter, terms.card.clone().into(), self.units()];
                let size = self.of_permits([Arg::Int(self.share.capacity.into())]);
                let args = me.into_iter().chain(args).chain(size).chain(self.exact());
                self.request(&calls.acquire, args)
            }
            Intent::Renew { ttl, .. } => {
                let args = [millis(*ttl)].into_iter().chain(self.of_permits([self.units()]));
                self.request(&calls.renew, me.into_iter().chain(args))
            }
            Intent::Release { .. } => {
                self.request(&calls.release, me.into_iter().chain(self.of_permits([self.units()])))
            }
            Intent::Undo { .. } => self.request(&calls.undo, me.into_iter().chain(self.of_permits([self.units()]))),
        }
    }

    fn answer(&self, op: Op, reply: &Reply) -> Option<Step> {
        match foreign(self.object, operation(op), reply) {
            Some(error) => Some(Step::Done(Verdict::Failed(error))),
            None => shared_machine::answer(op, reply),
        }
    }
}

impl Protocol for RedissonSharedMachine {
    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin(intent) => Step::Ask(Requests::from_iter([self.begin(&intent)])),
            Input::Reply(op, replies) => answered(op, replies, |reply| self.answer(op, reply)),
            Input::Event(_) => Step::Ignore,
        }
    }

    fn change(&mut self, change: Change) -> Step {
        let Change { terms, token, ttl, units } = change;
        let me = self.owner(terms.attempt);
        let args = [me, token_arg(token), millis(ttl), Arg::NotAfter, Arg::Int(units.into()), terms.card.into()];
        Step::Ask(Requests::from_iter([self.request(&RWLOCK.change, args)]))
    }

    fn traits(&self) -> Traits {
        Traits { block: 1, yields: false, push: Push::Hint, bound: false }
    }

    fn channel(&self, _: &Terms) -> Option<Arc<str>> {
        Some(self.channel.clone())
    }

    fn duplicate(&self) -> Box<dyn Protocol> {
        Box::new(self.clone())
    }

    fn fingerprint(&self, mut state: &mut dyn Hasher) {
        (self.object, &self.key, self.share).hash(&mut state);
    }
}

impl fmt::Debug for RedissonSharedMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared({:?} {:?} {:?})", self.object, self.share, self.key)
    }
}
