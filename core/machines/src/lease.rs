//! What is held, how it ended, and what others see of it.

use std::time::Duration;

use crate::share::Primitive;

/// What a release found. What was done under a lock that was lost meanwhile may have to be undone, so it is to be
/// looked at; `let _ =` says that it does not matter.
#[must_use = "it says whether the lock was held until now; `let _ =` where that does not matter"]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseOutcome {
    /// It was ours until now.
    Released,
    /// A reentrant hold was left; the lock itself is still held, this many levels deep.
    Kept(u32),
    /// The lease had ended before; nobody else holds the lock.
    Expired,
    /// The lease had ended before and somebody else holds the lock now: their holder card, or empty.
    StolenBy(String),
    /// The store did not say (a reply was lost); the lock is free by the end of its lease at the latest.
    Unknown,
}

impl ReleaseOutcome {
    /// The stable word for it: `released`, `kept`, `expired`, `stolen` or `unknown`.
    pub const fn code(&self) -> &'static str {
        match self {
            ReleaseOutcome::Released => "released",
            ReleaseOutcome::Kept(_) => "kept",
            ReleaseOutcome::Expired => "expired",
            ReleaseOutcome::StolenBy(_) => "stolen",
            ReleaseOutcome::Unknown => "unknown",
        }
    }

    /// Why the lock was lost, as far as the release can tell.
    pub const fn loss(&self) -> Option<LossReason> {
        match self {
            ReleaseOutcome::Expired => Some(LossReason::Expired),
            ReleaseOutcome::StolenBy(_) => Some(LossReason::Gone),
            ReleaseOutcome::Released | ReleaseOutcome::Kept(_) | ReleaseOutcome::Unknown => None,
        }
    }

    /// Whether the lock was certainly held right up to the release.
    pub const fn was_held(&self) -> bool {
        matches!(self, ReleaseOutcome::Released | ReleaseOutcome::Kept(_))
    }
}

/// Why a held lock was lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LossReason {
    /// The deadline passed without a renewal that was answered in time.
    Expired,
    /// `max_hold` was reached, so renewal had stopped.
    MaxHold,
    /// Its guard was forgotten without a release, so renewal had stopped.
    Abandoned,
    /// Renewal is off and the ttl ran out.
    NotRenewed,
    /// The store says that the lock is not ours: it was emptied, restarted, failed over, or somebody took it.
    Gone,
    /// An operator broke the lock.
    Broken,
    /// The client was closed.
    Closed,
}

impl LossReason {
    /// Every reason, in the order of the documentation.
    pub const ALL: [LossReason; 7] = [
        LossReason::Expired,
        LossReason::MaxHold,
        LossReason::Abandoned,
        LossReason::NotRenewed,
        LossReason::Gone,
        LossReason::Broken,
        LossReason::Closed,
    ];

    /// The stable word for it.
    pub const fn code(&self) -> &'static str {
        match self {
            LossReason::Expired => "expired",
            LossReason::MaxHold => "max_hold",
            LossReason::Abandoned => "abandoned",
            LossReason::NotRenewed => "not_renewed",
            LossReason::Gone => "gone",
            LossReason::Broken => "broken",
            LossReason::Closed => "closed",
        }
    }

    /// One sentence for a person.
    pub const fn sentence(&self) -> &'static str {
        match self {
            LossReason::Expired => "its lease ended before the store answered a renewal",
            LossReason::MaxHold => "max_hold was reached, so it was not renewed any more",
            LossReason::Abandoned => "its guard was forgotten without a release, so it was not renewed any more",
            LossReason::NotRenewed => "its ttl ended, and renewal is off",
            LossReason::Gone => {
                "the store no longer has it as ours: it was emptied or replaced, or somebody took the lock"
            }
            LossReason::Broken => "an operator broke it",
            LossReason::Closed => "its client was closed",
        }
    }
}

/// What `inspect` tells about a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The lock's name.
    pub name: String,
    /// The layout found under that name.
    pub layout: String,
    /// Who holds it, of several whoever has held it longest; `None` when it is free.
    pub holder: Option<Holder>,
    /// How many attempts wait in the store's queue, over all clients.
    pub waiters: u64,
    /// How many are ahead at most of each attempt of this client that waits there, in the order in which they came, as
    /// the store said last: some of them may have gone since. Acquisitions of one lock that are not `fair` wait
    /// together, as one attempt; whoever has no place in a queue is left out.
    pub ahead: Vec<u32>,
    /// Who waits in the store's queue, of all clients, whoever is served next first: at most the first [`TOLD`] of
    /// `waiters`. Empty where the layout keeps no queue, or not who stands in it.
    pub queue: Vec<Waiting>,
    /// What lies there: `lock`, `rwlock`, `semaphore`, `latch` or `barrier`, held or remembered; `None` where nothing
    /// does.
    pub primitive: Option<&'static str>,
    /// For a read/write lock or a semaphore: what it is, and all who hold it.
    pub shared: Option<Sharing>,
    /// For a latch: how it stands. Nobody holds one; who waits is in `waiters`, also who went without a word.
    pub latch: Option<Counting>,
}

impl Inspection {
    /// What is seen where nothing lies.
    pub fn of_nothing(layout: &str, name: &str) -> Self {
        let (name, layout) = (name.into(), layout.into());
        Inspection {
            name,
            layout,
            holder: None,
            waiters: 0,
            ahead: Vec::new(),
            queue: Vec::new(),
            primitive: None,
            shared: None,
            latch: None,
        }
    }

    /// The same where a lock lies.
    pub fn of_lock(self) -> Self {
        Inspection { primitive: Some(LOCK), ..self }
    }

    /// Whether it is a barrier: nobody holds one, and `waiters` are the places there.
    pub fn is_barrier(&self) -> bool {
        self.primitive == Some(BARRIER)
    }

    /// Whether nobody holds it; of a latch, whether it is open.
    pub fn is_free(&self) -> bool {
        self.holder.is_none() && self.latch.is_none_or(|latch| latch.count == 0)
    }
}

/// What [`Inspection::primitive`] says of a lock.
pub const LOCK: &str = "lock";

/// What it says of a latch.
pub const LATCH: &str = "latch";

/// What it says of a barrier.
pub const BARRIER: &str = "barrier";

/// How a latch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counting {
    /// How many are still to come; 0 once it is open.
    pub count: u32,
}

/// Who holds a read/write lock or a semaphore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Which of the two it is.
    pub primitive: Primitive,
    /// How many permits there are, of a semaphore that was used.
    pub permits: Option<u32>,
    /// The holders, in the order of their tokens: all of them, unless a store has no room for so many in one answer (on
    /// Redis some 2,300).
    pub holders: Vec<Part>,
    /// How many more holders there are than these, whose tokens are higher.
    pub unlisted: u64,
    /// How many units all holders have together: permits, or 1 for each reader.
    pub held: u64,
}

/// What one of several holders has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Who it is.
    pub holder: Holder,
    /// How many permits it holds; of a read/write lock 1 for a reader, and all there are for the writer.
    pub units: u32,
}

impl Part {
    /// The word for what it holds of `primitive`: `read`, `write`, or how many permits.
    pub fn describe(&self, primitive: Primitive) -> String {
        described(self.units, primitive)
    }
}

impl Waiting {
    /// The word for what it waits for of `primitive`, as [`Part::describe`] has it.
    pub fn describe(&self, primitive: Primitive) -> String {
        described(self.units, primitive)
    }
}

fn described(units: u32, primitive: Primitive) -> String {
    match primitive {
        Primitive::RwLock if units > 1 => "write".to_owned(),
        Primitive::RwLock => "read".to_owned(),
        Primitive::Semaphore => units.to_string(),
    }
}

/// How many of a queue [`Inspection::queue`] tells.
pub const TOLD: usize = 100;

/// Somebody in a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// What it says of itself.
    pub card: Card,
    /// For how long it has waited, where the store keeps since when.
    pub waited: Option<Duration>,
    /// How urgent it is: the `rank` of a fair lock, 0 of all else.
    pub rank: u8,
    /// How many units it waits for, as in [`Part::units`]; 1 of a lock.
    pub units: u32,
}

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// A hash of the owner id, to tell two holders apart; the id itself would release the lock.
    pub owner: String,
    /// What the holder says of itself.
    pub card: Card,
    /// How long it has held the lock, where the store can tell.
    pub held_for: Option<Duration>,
    /// How long its lease still lasts at the store.
    pub remaining: Duration,
    /// First fencing token of its block.
    pub first_token: u64,
    /// Last fencing token of its block.
    pub last_token: u64,
}

/// Something in the store that looks like a lock of another library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Where it lies.
    pub key: String,
    /// What it is and whose it looks like, such as `a hash, as Redisson's locks are`.
    pub looks_like: String,
    /// How long it lasts yet; `None` when it never ends by itself.
    pub remaining: Option<Duration>,
}

/// What a holder says of itself: one text of at most 512 bytes, `host`, `pid`, `language` and `label` by tabs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Card {
    /// The host's name.
    pub host: String,
    /// The process id on that host.
    pub pid: u32,
    /// The face that acquired it: `rust`, `python`, `cli`, ...
    pub language: String,
    /// The label given to the lock, at most 128 bytes.
    pub label: String,
}

impl Card {
    /// The text kept beside the lock.
    pub fn encode(&self) -> String {
        format!("{}\t{}\t{}\t{}", self.host, self.pid, self.language, self.label)
    }

    /// The label of such a text, which is empty where there is none.
    pub(crate) fn label_of(text: &str) -> &str {
        text.splitn(4, '\t').nth(3).unwrap_or_default()
    }

    /// Reads a text back; whatever is missing stays empty, since the store may hold anything.
    pub fn decode(text: &str) -> Self {
        let mut parts = text.splitn(4, '\t');
        let mut next = || parts.next().unwrap_or_default().to_owned();
        let (host, pid, language, label) = (next(), next(), next(), next());
        Card { host, pid: pid.parse().unwrap_or_default(), language, label }
    }
}
