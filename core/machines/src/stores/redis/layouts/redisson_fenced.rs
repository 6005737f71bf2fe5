//! The layout `redisson` in the format `fenced`: Redisson's `RFencedLock`.
//!
//! It is the lock of [`redisson`](super::redisson), in the same key, and a counter beside it:
//!
//! | key | holds |
//! |---|---|
//! | `redisson_lock_token:{name}` | the highest fencing token that was granted, by either side; never goes |
//!
//! Redisson counts one up for each acquisition. Ours set a block of 64 aside, as everywhere, so that hand-offs inside a
//! process need no request: the tokens of both sides rise together, and ours leave gaps. What else we keep of a hold is
//! in [our record](super::joined), by which a token is told again to whoever asks again, and does not fall when
//! somebody deleted the counter.
//!
//! ```text
//!   acquire .. counter
//! ```
//!
//! Source: Redisson 4.7 `RedissonFencedLock.java`; its scripts are those of 3.50.

use std::sync::Arc;

use smallvec::smallvec;

use super::joined::{JoinedLayout, JoinedLock, Manner, More, Verb};
use super::notes::NOTES;
use super::redisson::{PLAIN, PROMISES, Redisson, SCRIPTS, SHARDS, beside};
use crate::error::Result;
use crate::guarantee::{Guarantees, TokenRises};
use crate::native_machine::Calls;
use crate::protocol::{Arg, AttemptId, Call, Layout, Push, Terms};
use crate::share::Share;

/// The scripts.
pub static CALLS: Calls = Calls {
    acquire: Call {
        name: "acquire",
        body: script!("joined/foreign" "joined/beside" "redisson/read" "time" "redisson/counted_block" "joined/grant" "joined/acquire"),
        batch: false,
    },
    ..SCRIPTS
};

/// The layout, for locks whose names get `prefix` put before them.
pub fn layout(prefix: impl Into<String>) -> FencedLayout {
    FencedLayout { manner: Fenced { in_cluster: false }, prefix: prefix.into() }
}

/// See the [module](self).
pub type FencedLayout = JoinedLayout<Fenced>;

/// Its machine.
pub type FencedLock = JoinedLock<Fenced>;

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fenced {
    /// See [`Redisson::in_cluster`].
    pub in_cluster: bool,
}

/// The key of the counter.
pub fn counter_key(key: &str) -> String {
    beside("redisson_lock_token", key)
}

impl Fenced {
    /// The lock that it is, but for the counter.
    fn plain(self) -> Redisson {
        Redisson { in_cluster: self.in_cluster, ..PLAIN }
    }
}

impl Manner for Fenced {
    fn format(&self) -> Option<&'static str> {
        Some("fenced")
    }

    fn library(&self) -> &'static str {
        self.plain().library()
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            token: TokenRises::WithStoreData,
            fair: false,
            notes: &[
                NOTES[0],
                NOTES[1],
                NOTES[2],
                NOTES[3],
                "Tokens are Redisson's own and rise over its holders and ours, until its counter is deleted (RFencedLock.delete does that).",
                "A plain Redisson lock of the same name excludes and is excluded, but takes no token.",
                "Redisson's forceUnlock, or deleting the key, takes the lock from its holder, who is told at its next renewal.",
                SHARDS,
            ],
            ..PROMISES
        }
    }

    fn push(&self) -> Push {
        self.plain().push()
    }

    fn calls(&self) -> &'static Calls {
        &CALLS
    }

    fn owner(&self, attempt: AttemptId) -> String {
        self.plain().owner(attempt)
    }

    fn alien(&self, owner: &str, ends: bool) -> Option<String> {
        self.plain().alien(owner, ends)
    }

    fn dates_tokens(&self) -> bool {
        false
    }

    fn check_key(&self, key: &str) -> Result<()> {
        self.plain().check_key(key)
    }

    fn more(&self, wanted: Verb<'_>, key: &str) -> More {
        match wanted {
            Verb::Hold { .. } => smallvec![Arg::Key(counter_key(key).into())],
            Verb::Free | Verb::Look => self.plain().more(wanted, key),
        }
    }

    fn shared(&self, share: Share, prefix: &str) -> Option<Arc<dyn Layout>> {
        self.plain().shared(share, prefix)
    }

    fn channel(&self, key: &str, terms: &Terms) -> Option<Arc<str>> {
        self.plain().channel(key, terms)
    }
}
