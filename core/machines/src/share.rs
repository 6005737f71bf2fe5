//! What of a shared record somebody wants: a reader's or the writer's part of a read/write lock, permits of a
//! semaphore.

use crate::error::{Error, Result};

/// The units of a read/write lock: more readers than there can be.
pub const ALL: u32 = 1 << 30;

/// The most permits a semaphore can have.
pub const MOST_PERMITS: u32 = 1_000_000;

/// What a shared record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Primitive {
    /// A read/write lock.
    RwLock,
    /// A semaphore.
    Semaphore,
}

impl Primitive {
    /// Its name, as the stores keep it and `inspect` shows it.
    pub const fn name(self) -> &'static str {
        match self {
            Primitive::RwLock => "rwlock",
            Primitive::Semaphore => "semaphore",
        }
    }

    /// The primitive of that name.
    pub fn named(name: &str) -> Option<Self> {
        [Primitive::RwLock, Primitive::Semaphore].into_iter().find(|known| known.name() == name)
    }
}

/// What of a shared record somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    /// Of what.
    pub primitive: Primitive,
    /// How many units.
    pub units: u32,
    /// How many units the record has, if it has no size yet.
    pub capacity: u32,
    /// Whether nobody may overtake it.
    pub in_order: bool,
}

impl Share {
    /// A reader's part.
    pub const READ: Share = Share { primitive: Primitive::RwLock, units: 1, capacity: ALL, in_order: true };

    /// A writer's part.
    pub const WRITE: Share = Share { units: ALL, ..Share::READ };

    /// `take` permits of a semaphore that has `permits`.
    ///
    /// # Errors
    /// `invalid_config` when it has fewer, none, or more than [`MOST_PERMITS`].
    pub fn permits(take: u32, permits: u32, in_order: bool) -> Result<Self> {
        if permits == 0 || permits > MOST_PERMITS {
            let message = format!("permits is {permits}; it must be 1 to {MOST_PERMITS}");
            return Err(Error::invalid("lock", message));
        }
        if take == 0 || take > permits {
            let message = format!("take is {take}; it must be 1 to {permits}, the permits there are");
            return Err(Error::invalid("lock", message));
        }
        Ok(Share { primitive: Primitive::Semaphore, units: take, capacity: permits, in_order })
    }
}
