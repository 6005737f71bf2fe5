//! What of the machines users meet, under the paths that it has for them. All else of `lockwright_machines` is the
//! inside.

/// What can go wrong, as one type with a stable code that is the same in every language.
pub mod error {
    #[doc(inline)]
    pub use lockwright_machines::error::{Error, Kind, Result};
}

/// What an examination of a store finds: whether it is fit to keep locks in.
pub mod finding {
    #[doc(inline)]
    pub use lockwright_machines::finding::{Finding, Severity};
}

/// What is waited for and not held: how far [latches](crate::latch) and [barriers](crate::barrier) go.
pub mod gate {
    #[cfg(feature = "unstable-store")]
    #[doc(inline)]
    pub use lockwright_machines::gate::{BarrierPlan, CountOperation, Gate, LatchPlan};
    #[doc(inline)]
    pub use lockwright_machines::gate::{MAX_IDLE, MIN_IDLE, MOST_COUNT, MOST_PARTIES};
}

/// What a store and layout promise, so that callers can read it, ask for it, and tests can skip by it.
pub mod guarantee {
    #[doc(inline)]
    pub use lockwright_machines::guarantee::{ExclusiveUntil, Guarantees, Requirements, TokenRises};
}

#[doc(inline)]
pub use lockwright_machines::kit;

/// What is held, how it ended, and what others see of it.
pub mod lease {
    #[doc(inline)]
    pub use lockwright_machines::lease::{
        Card, Counting, Holder, Inspection, LossReason, Part, ReleaseOutcome, Sharing, Sighting, TOLD, Waiting,
    };
}

/// Which lock names are accepted, and how they are shown.
///
/// A name is what its bytes say: nothing is normalized, so that `é` as one character and as two are two names, and so
/// are names that differ in an invisible character only. What cannot be seen, or would steer a terminal, is shown by
/// its number.
pub mod name {
    #[doc(inline)]
    pub use lockwright_machines::name::{
        MAX_BYTES, MAX_LABEL_BYTES, MAX_PREFIX_BYTES, check, check_label, check_prefix, shown,
    };
    #[cfg(feature = "unstable-store")]
    #[doc(inline)]
    pub use lockwright_machines::name::{escape, unescape};

    pub(crate) use lockwright_machines::name::listed;
}

/// What a caller may ask of a lock and of a connection, with the defaults that every language shares.
pub mod options {
    #[doc(inline)]
    pub use lockwright_machines::options::{
        AcquireOptions, ConnectOptions, Credentials, CredentialsSource, DEFAULT_TTL, MAX_TIMEOUT, MAX_TTL, MIN_LIMIT,
        MIN_TTL, Retry, milliseconds, seconds,
    };
}

/// Who takes locks, inside a process.
pub mod queue {
    #[doc(inline)]
    pub use lockwright_machines::queue::OwnerId;
}

/// What somebody has of what several hold: a reader's or the writer's part of a read/write lock, permits of a
/// semaphore.
pub mod share {
    #[doc(inline)]
    pub use lockwright_machines::share::{MOST_PERMITS, Primitive, Share};
}

/// The fencing token.
pub mod token {
    #[doc(inline)]
    pub use lockwright_machines::token::Token;
    #[cfg(feature = "unstable-store")]
    #[doc(inline)]
    pub use lockwright_machines::token::Tokens;
}

/// Where the locks are kept, as one text: `redis://user:secret@host:6379/0?ttl=10s&layout=native`.
///
/// The scheme names the store, the rest its place there, and the query the options: those of a lock (defaults for every
/// lock of the client) and those of the connection. Parsing sends nothing.
pub mod uri {
    #[doc(inline)]
    pub use lockwright_machines::uri::{ENVIRONMENT, Uri, retry, span};
}
