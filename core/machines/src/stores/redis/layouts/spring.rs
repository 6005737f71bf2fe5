//! The layout `spring`: the locks of Spring Integration's `RedisLockRegistry`.
//!
//! Under `<registry key>:<path>` lies the holder's owner as a text, which goes with the lease, as in the layout
//! [`string`](super::string). Spring's owner is a UUID for each registry; its threads exclude one another by a lock of
//! their process. Ours is the attempt, written as a UUID, so that each acquisition is an owner of its own: a registry
//! compares with its own only.
//!
//! A registry is of one of two types, and that is the [`Format`]. One that works by publish and subscribe tells of each
//! release on `<registry key>-channel:<registry key>:<path>`; the message is the lock's key. One that spins tells
//! nothing. Releases of ours are told in any case.
//!
//! The registry key is the connection's prefix where that ends with a colon, else what comes before the key's first
//! colon.
//!
//! Source: Spring Integration 7.1 `RedisLockRegistry.java`.

use std::sync::Arc;

use smallvec::smallvec;

use super::joined::{JoinedLayout, JoinedLock, Manner, More, Verb, calls};
use super::notes::{NO_TOKEN, NOTES};
use super::shapes::Shape;
use crate::error::{Error, Result};
use crate::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use crate::native_machine::Calls;
use crate::protocol::{Arg, AttemptId, Call, Layout, Push, Terms};
use crate::uuid::uuid;

/// The scripts.
pub static CALLS: Calls = calls!("string/read", "spring/free", "string/holds", "joined/no_queue");

/// How the registries work whose locks are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `RedisLockType.PUB_SUB_LOCK`: releases are told.
    PubSub,
    /// `RedisLockType.SPIN_LOCK`, Spring's default: waiters poll.
    Spin,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 2] = [Format::PubSub, Format::Spin];

    /// Its name, as in the option `format=`.
    pub const fn name(self) -> &'static str {
        match self {
            Format::PubSub => "pub-sub",
            Format::Spin => "spin",
        }
    }
}

/// The layout in each of its formats, for locks whose names get `prefix` put before them.
pub(super) fn layouts(prefix: &str) -> impl Iterator<Item = Arc<dyn Layout>> {
    Format::ALL.into_iter().map(move |format| Arc::new(layout(format, prefix)) as Arc<dyn Layout>)
}

/// The layout in one format.
pub fn layout(format: Format, prefix: impl Into<String>) -> SpringLayout {
    let prefix = prefix.into();
    let registry = prefix.strip_suffix(':').filter(|registry| !registry.is_empty()).map(Arc::from);
    SpringLayout { manner: Spring { format, registry }, prefix }
}

/// See the [module](self).
pub type SpringLayout = JoinedLayout<Spring>;

/// Its machine.
pub type SpringLock = JoinedLock<Spring>;

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spring {
    format: Format,
    /// The registry's key, where the connection says which.
    registry: Option<Arc<str>>,
}

impl Spring {
    fn registry<'a>(&'a self, key: &'a str) -> Option<&'a str> {
        match &self.registry {
            Some(registry) => Some(registry),
            None => key.split_once(':').map(|(registry, _)| registry).filter(|registry| !registry.is_empty()),
        }
    }

    /// The channel that releases of the lock `key` are told on.
    fn told_on(&self, key: &str) -> Arc<str> {
        format!("{}-channel:{key}", self.registry(key).unwrap_or_default()).into()
    }
}

impl Manner for Spring {
    fn format(&self) -> Option<&'static str> {
        Some(self.format.name())
    }

    fn library(&self) -> &'static str {
        "spring"
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            store: "redis",
            layout: "spring",
            exclusive_until: ExclusiveUntil::StoreFailover,
            token: TokenRises::WithStoreClock,
            fair: false,
            reentrant: true,
            shared: true,
            push: self.format == Format::PubSub,
            survives_disconnect: true,
            incarnation: true,
            notes: &[
                NOTES[0],
                NOTES[1],
                NOTES[2],
                NOTES[3],
                NO_TOKEN,
                "Spring renews only if its registry was given a scheduler; otherwise its holders lose the lock after expireAfter.",
                "Spring's release and renewal name the registry, not the hold: a late one may touch a later hold of the same registry.",
                "There is no queue: whoever asks first after a release gets the lock.",
                "Waiters are woken with format pub-sub (for registries of that type) and poll with format spin.",
            ],
        }
    }

    fn push(&self) -> Push {
        match self.format {
            Format::PubSub => Push::Hint,
            Format::Spin => Push::None,
        }
    }

    fn calls(&self) -> &'static Calls {
        &CALLS
    }

    fn owner(&self, attempt: AttemptId) -> String {
        uuid(attempt)
    }

    fn alien(&self, owner: &str, ends: bool) -> Option<String> {
        let shape = Shape::of(owner);
        (shape != Shape::Uuid || !ends).then(|| shape.described().to_owned())
    }

    fn check_key(&self, key: &str) -> Result<()> {
        if self.registry(key).is_some() {
            return Ok(());
        }
        let message = "a lock of Spring is named by its registry's key, a colon and a path; give the registry's key as \
                       prefix, such as prefix=orders:";
        Err(Error::invalid("lock", message))
    }

    fn more(&self, wanted: Verb<'_>, key: &str) -> More {
        match wanted {
            Verb::Free => smallvec![Arg::Text(self.told_on(key))],
            Verb::Hold { .. } | Verb::Look => More::new(),
        }
    }

    fn channel(&self, key: &str, _: &Terms) -> Option<Arc<str>> {
        (self.format == Format::PubSub).then(|| self.told_on(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn the_registry_is_the_prefix_or_comes_before_the_first_colon() {
        for (prefix, name, channel) in [
            ("", "orders:42", "orders-channel:orders:42"),
            ("", "orders:42:7", "orders-channel:orders:42:7"),
            ("shop:orders:", "42", "shop:orders-channel:shop:orders:42"),
            ("shop:orders:", "a:b", "shop:orders-channel:shop:orders:a:b"),
            ("shop", ":42", "shop-channel:shop:42"),
        ] {
            let layout = layout(Format::PubSub, prefix);
            let key = layout.key(name).unwrap();
            assert_eq!(&*layout.manner.told_on(&key), channel);
        }
        for (prefix, name) in [("", "orders"), ("", ":orders"), (":", "orders"), ("shop", "orders")] {
            let refused = layout(Format::PubSub, prefix).key(name).unwrap_err();
            assert_eq!(refused.kind(), Kind::InvalidConfig, "{prefix} {name}");
        }
    }
}
