//! The layout `redisson`: Redisson's `RLock`, and its fair lock where `fair` is asked for. Its fenced lock is the
//! format [`fenced`](super::redisson_fenced); its read/write lock and semaphores are in
//! [`redisson_shared`](super::redisson_shared).
//!
//! | key | holds |
//! |---|---|
//! | the name, with the connection's prefix | a hash with one field, `<UUID>:<thread id>`, whose value counts the holds of that thread; goes with the lease |
//! | `redisson_lock_queue:{name}` | a list: who waits for the fair lock, in order |
//! | `redisson_lock_timeout:{name}` | a sorted set: until when (Unix time in ms) each of them is waited for when it is first |
//!
//! Where the name has a brace, the other two names are not put between braces. What else there is, and the wire form:
//! [`joined`](super::joined).
//!
//! **Owner.** The UUID is the attempt, all of its 128 bits; the thread id is always 0, which no thread of Java's has.
//! Redisson has one UUID a client and the thread's number, and compares whole fields only. So each acquisition of ours
//! is an owner of its own, which is its incarnation too: an acquire that is sent again finds its field and counts
//! nothing, and a release that comes late finds nothing. The count stays 1; reentrancy is counted in our process.
//!
//! **Waking up.** Who gives the lock back publishes `0` on `redisson_lock__channel:{name}`, and on that channel with
//! `:<owner>` for the first in the queue. Whoever waits subscribes the one or the other, and asks again after each
//! message; and by a timer, since the end of a lease publishes nothing. A release of ours wakes both kinds, which
//! Redisson's do not. Messages go by PUBLISH; in a cluster by SPUBLISH, as Redisson's do from 3.22 where the servers
//! have it, and whoever waits subscribes in the shard of the lock.
//!
//! **The queue.** Redisson makes everybody's deadline that of whoever is ahead (for the first: the holder's) and 5
//! minutes, by the clocks of the clients, and takes its own 5 minutes off all deadlines when it becomes the holder.
//! Ours ask again each second, and an eighth of one later for each place further back; each time they make their
//! deadline [`PATIENCE`] and those eighths from now, by the clock of the server, or from the deadline of the last of
//! Redisson's waiters ahead. So those of ours that die in the queue are thrown out soon, all of them together, however
//! long and busy it was. A waiter of Redisson's, whom the dead do not tell, asks again when the holder's lease that it
//! saw would be over.
//!
//! Redisson keeps an *unlock latch*, `redisson_unlock_latch:{name}:<id>`, by which it recognises its own repeated
//! unlock. It concerns nobody else: ours are recognised by their owner.
//!
//! Source: Redisson 4.7 `RedissonLock.java`, `RedissonFairLock.java`, `RedissonBaseLock.java`, `LockPubSub.java`.

use std::sync::Arc;
use std::time::Duration;

use smallvec::smallvec;

use super::joined::{
    JoinedLayout, JoinedLock, Manner, More, NOTES_RECORD, Verb, calls, has_all_in_its_slot, not_in_one_slot,
};
use super::notes::{NO_TOKEN, NOTES};
use super::redisson_fenced::{Fenced, FencedLayout};
use super::redisson_shared::{LEASES, Object, SharedLayout};
use crate::error::{Error, Result};
use crate::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use crate::native_machine::Calls;
use crate::protocol::{Arg, AttemptId, Call, Layout, Push, Terms};
use crate::share::Share;
use crate::uuid::{is_uuid, uuid};

/// The scripts.
pub static CALLS: Calls = SCRIPTS;

pub(super) const SCRIPTS: Calls = Calls {
    release: Call {
        name: "release",
        body: script!("joined/foreign" "joined/beside" "redisson/read" "redisson/queue" "redisson/publish" "redisson/free" "joined/release"),
        batch: false,
    },
    undo: Call {
        name: "undo",
        body: script!("joined/foreign" "joined/beside" "redisson/read" "redisson/queue" "redisson/publish" "redisson/free" "redisson/undo"),
        batch: false,
    },
    break_hold: Call {
        name: "break",
        body: script!("joined/foreign" "joined/beside" "redisson/read" "redisson/queue" "redisson/publish" "redisson/free" "redisson/several" "joined/break"),
        batch: false,
    },
    list: Call { name: "list", body: script!("redisson/list" "page"), batch: false },
    ..calls!("redisson/read", "redisson/free", "redisson/holds", "redisson/waiters")
};

/// The script that becomes the holder in the order of the queue, or takes a place in it.
pub static ACQUIRE_FAIR: Call = Call {
    name: "acquire-fair",
    body: script!("joined/foreign" "joined/beside" "redisson/read" "redisson/queue" "time" "joined/block" "joined/grant" "redisson/acquire_fair"),
    batch: false,
};

/// What all that Redisson keeps can promise.
pub(super) const PROMISES: Guarantees = Guarantees {
    store: "redis",
    layout: "redisson",
    exclusive_until: ExclusiveUntil::StoreFailover,
    token: TokenRises::WithStoreClock,
    fair: true,
    reentrant: true,
    shared: true,
    push: true,
    survives_disconnect: true,
    incarnation: true,
    notes: &[],
};

/// A [note](Guarantees::notes) on what is not told.
pub(super) const SHARDS: &str = "In a Redis Cluster of Redis 7 or later a release is told by SPUBLISH, which Redisson before 3.22 does not hear: its waiters wait until the lease ends.";

/// What has a release told in the shard of the lock.
pub(super) const IN_SHARD: &str = "SPUBLISH";

/// How long whoever is first in the queue is waited for without having asked again.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The layout, for locks whose names get `prefix` put before them.
pub fn layout(prefix: impl Into<String>) -> RedissonLayout {
    RedissonLayout { manner: PLAIN, prefix: prefix.into() }
}

/// The same with semaphores that are only counted.
pub fn counted(prefix: impl Into<String>) -> RedissonLayout {
    RedissonLayout { manner: Redisson { counted: true, ..PLAIN }, prefix: prefix.into() }
}

/// The layout in each of its formats.
pub(super) fn layouts(prefix: &str, in_cluster: bool) -> impl Iterator<Item = Arc<dyn Layout>> {
    let locks = |counted| RedissonLayout { manner: Redisson { counted, in_cluster }, prefix: prefix.into() };
    let fenced = FencedLayout { manner: Fenced { in_cluster }, prefix: prefix.into() };
    let all: [Arc<dyn Layout>; 3] = [Arc::new(locks(false)), Arc::new(locks(true)), Arc::new(fenced)];
    all.into_iter()
}

/// See the [module](self).
pub type RedissonLayout = JoinedLayout<Redisson>;

/// Its machine.
pub type RedissonLock = JoinedLock<Redisson>;

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Redisson {
    /// Its semaphores count permits only, `RSemaphore`; else they are those whose permits have leases,
    /// `RPermitExpirableSemaphore`.
    pub counted: bool,
    /// It lies in a cluster: all keys of a lock are in one slot, and releases are told in the shard of that.
    pub in_cluster: bool,
}

/// The one that is meant where nothing else is said.
pub const PLAIN: Redisson = Redisson { counted: false, in_cluster: false };

/// `prefix:{key}`, or without the braces where the key has some.
pub(super) fn beside(prefix: &str, key: &str) -> String {
    match key.contains('{') {
        true => format!("{prefix}:{key}"),
        false => format!("{prefix}:{{{key}}}"),
    }
}

/// `{key}:suffix`, likewise.
pub(super) fn suffixed(key: &str, suffix: &str) -> String {
    match key.contains('{') {
        true => format!("{key}:{suffix}"),
        false => format!("{{{key}}}:{suffix}"),
    }
}

/// The key of the queue.
pub fn queue_key(key: &str) -> String {
    beside("redisson_lock_queue", key)
}

/// The key of the deadlines of those in the queue.
pub fn deadlines_key(key: &str) -> String {
    beside("redisson_lock_timeout", key)
}

/// The channel that releases are told on.
pub fn channel(key: &str) -> String {
    beside("redisson_lock__channel", key)
}

impl Redisson {
    /// What is said behind a channel where releases are told in the shard of the lock.
    pub(super) fn in_shard(self) -> Option<Arg> {
        self.in_cluster.then(|| IN_SHARD.into())
    }
}

impl Manner for Redisson {
    fn format(&self) -> Option<&'static str> {
        self.counted.then_some("counted")
    }

    fn library(&self) -> &'static str {
        "redisson"
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            notes: &[
                NOTES[0],
                NOTES[1],
                NOTES[2],
                NOTES[3],
                NO_TOKEN,
                "Redisson's forceUnlock, or deleting the key, takes the lock from its holder, who is told at its next renewal.",
                "Only those that ask for the fair lock are served in order; anybody who asks for the plain lock of that name goes first.",
                "Redisson judges the fair queue by its clients' clocks: a wrong clock throws waiters out, and they queue again at the end.",
                SHARDS,
            ],
            ..PROMISES
        }
    }

    fn push(&self) -> Push {
        Push::Hint
    }

    fn calls(&self) -> &'static Calls {
        &CALLS
    }

    fn acquire(&self, terms: &Terms) -> &'static Call {
        if terms.fair { &ACQUIRE_FAIR } else { &CALLS.acquire }
    }

    fn owner(&self, attempt: AttemptId) -> String {
        format!("{}:0", uuid(attempt))
    }

    fn alien(&self, owner: &str, _: bool) -> Option<String> {
        let is_thread = |text: &str| !text.is_empty() && text.len() < 20 && text.bytes().all(|b| b.is_ascii_digit());
        match (owner.split_once(':'), owner.split_once(" of ")) {
            // Nobody holds it, but others come first.
            _ if owner.is_empty() => None,
            (Some((client, thread)), _) if is_uuid(client) && is_thread(thread) => None,
            (_, Some(("read" | "write", _))) => Some("a read-write lock of Redisson".into()),
            (_, Some((_, fields))) => Some(format!("a hash of {fields} fields")),
            _ => Some("a hash with a field of another kind".into()),
        }
    }

    fn check_key(&self, key: &str) -> Result<()> {
        match [NOTES_RECORD, LEASES].iter().find(|ours| key.starts_with(**ours)) {
            Some(ours) => {
                let message = format!("a name of the layout redisson cannot begin with {ours}, where holds are noted");
                Err(Error::invalid("lock", message))
            }
            None if self.in_cluster && !has_all_in_its_slot(key) => Err(not_in_one_slot(key)),
            None => Ok(()),
        }
    }

    fn shared(&self, share: Share, prefix: &str) -> Option<Arc<dyn Layout>> {
        let object = Object::of(share, self.counted);
        Some(Arc::new(SharedLayout {
            object,
            share,
            locks: RedissonLayout { manner: *self, prefix: prefix.to_owned() },
        }))
    }

    fn more(&self, wanted: Verb<'_>, key: &str) -> More {
        let queue = || Arg::Key(queue_key(key).into());
        let deadlines = || Arg::Key(deadlines_key(key).into());
        match wanted {
            Verb::Hold { terms, wait } if terms.fair => {
                let patience = Arg::Int(i64::try_from(PATIENCE.as_millis()).unwrap_or(i64::MAX));
                smallvec![queue(), deadlines(), patience, Arg::Int(wait.into())]
            }
            Verb::Hold { .. } => More::new(),
            Verb::Free => {
                let mut told = smallvec![queue(), deadlines(), Arg::Text(channel(key).into())];
                told.extend(self.in_shard());
                told
            }
            Verb::Look => smallvec![queue()],
        }
    }

    fn channel(&self, key: &str, terms: &Terms) -> Option<Arc<str>> {
        let all = channel(key);
        Some(if terms.fair { format!("{all}:{}", self.owner(terms.attempt)).into() } else { all.into() })
    }
}
