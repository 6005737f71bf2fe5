//! Joined layouts told by a table: families of libraries that keep a lock in one way, and what each of them writes.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::joined::{JoinedLayout, JoinedLock, Manner, More, Verb, has_record_in_its_slot, not_in_one_slot};
use super::notes::{NO_TOKEN, NOTES};
use super::shapes::Shape;
use crate::error::Result;
use crate::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use crate::native_machine::Calls;
use crate::protocol::{Arg, AttemptId, Layout, Push};

/// A layout in which several libraries may keep locks. Nobody is told of a release.
#[derive(Debug)]
pub struct Family {
    /// Its name, as in the option `layout=`.
    pub name: &'static str,
    /// Its scripts.
    pub calls: &'static Calls,
    /// Whose locks it joins.
    pub formats: &'static [Format],
    /// Until when a holder is the only one.
    pub exclusive_until: ExclusiveUntil,
    /// What a person should know, one sentence each.
    pub notes: &'static [&'static str],
    /// See [`Manner::renews_record`].
    pub renews_record: bool,
}

/// Whose locks are joined: how a library writes keys and owners.
#[derive(Clone, Copy)]
pub struct Format {
    /// Its name, as in the option `format=`; empty for the only one of its layout.
    pub name: &'static str,
    /// Whose locks these are, as told of a holder that is not one of us.
    pub library: &'static str,
    /// What the library itself puts before a lock's name.
    pub before: &'static str,
    /// An attempt as this library would write an owner.
    pub owner: fn(AttemptId) -> String,
    /// What this library may have written as owner.
    pub writes: &'static [Shape],
    /// The same of a lock that never ends by itself.
    pub writes_endless: &'static [Shape],
    /// What its family's scripts are told besides, for the lock kept under this key.
    pub rest: fn(Verb<'_>, &str) -> Option<Arg>,
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.library)
    }
}

/// One format of a family.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// How the lock lies there.
    pub family: &'static Family,
    /// What is written.
    pub format: &'static Format,
    /// Whether the lock lies in a cluster, where its record has to be in the slot of its key.
    pub in_one_slot: bool,
}

impl Family {
    /// The layout in each of its formats, for locks whose names get `prefix` put before them.
    pub fn layouts(&'static self, prefix: &str) -> impl Iterator<Item = Arc<dyn Layout>> {
        self.formats.iter().map(move |format| Arc::new(self.layout(format, prefix)) as Arc<dyn Layout>)
    }

    /// The layout in one format.
    pub fn layout(&'static self, format: &'static Format, prefix: impl Into<String>) -> JoinedLayout<Recipe> {
        JoinedLayout { manner: Recipe { family: self, format, in_one_slot: false }, prefix: prefix.into() }
    }

    /// The machine of the lock kept under `key`, in one format.
    pub fn machine(&'static self, format: &'static Format, key: Arc<str>) -> JoinedLock<Recipe> {
        JoinedLock::new(self.layout(format, "").manner, key)
    }
}

impl Hash for Recipe {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.family.name, self.format.name).hash(state);
    }
}

/// What holds for every lock on such a server, and what holds for those of one family.
pub(super) const fn notes(own: [&'static str; 3]) -> [&'static str; 8] {
    [NOTES[0], NOTES[1], NOTES[2], NOTES[3], NO_TOKEN, own[0], own[1], own[2]]
}

impl Manner for Recipe {
    fn format(&self) -> Option<&'static str> {
        Some(self.format.name).filter(|name| !name.is_empty())
    }

    fn library(&self) -> &'static str {
        self.format.library
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            store: "redis",
            layout: self.family.name,
            exclusive_until: self.family.exclusive_until,
            token: TokenRises::WithStoreClock,
            fair: false,
            reentrant: true,
            shared: true,
            push: false,
            survives_disconnect: true,
            incarnation: true,
            notes: self.family.notes,
        }
    }

    fn push(&self) -> Push {
        Push::None
    }

    fn calls(&self) -> &'static Calls {
        self.family.calls
    }

    fn before(&self) -> &'static str {
        self.format.before
    }

    fn renews_record(&self) -> bool {
        self.family.renews_record
    }

    fn check_key(&self, key: &str) -> Result<()> {
        if !self.in_one_slot || has_record_in_its_slot(key) { Ok(()) } else { Err(not_in_one_slot(key)) }
    }

    fn owner(&self, attempt: AttemptId) -> String {
        (self.format.owner)(attempt)
    }

    fn alien(&self, owner: &str, ends: bool) -> Option<String> {
        let shape = Shape::of(owner);
        let known = if ends { self.format.writes } else { self.format.writes_endless };
        (!known.contains(&shape)).then(|| shape.described().to_owned())
    }

    fn more(&self, wanted: Verb<'_>, key: &str) -> More {
        (self.format.rest)(wanted, key).into_iter().collect()
    }
}
