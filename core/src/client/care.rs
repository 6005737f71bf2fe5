//! What whoever runs a program asks of its client: whether the store serves it, and to hold nothing any more before it
//! ends.

use std::time::Duration;

use lockwright_machines::finding::{in_places, some_of};
use lockwright_machines::lease::{BARRIER, LATCH};
use lockwright_machines::ping::{may_evict, trial};

use super::{Async, Blocking, Client, Face, Lock};
use crate::driver::road::{Road, here};
use crate::error::{Kind, Result};
use crate::finding::{Finding, Severity};
use crate::lease::{Inspection, Sighting};
use crate::platform::clock;

#[doc(inline)]
pub use lockwright_machines::ping::PING;

/// What a [`ping`](Client::ping) found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// How long it took to acquire a lock and to give it back: two round trips, and a connection where there was none.
    pub took: Duration,
    /// What the store does when its memory is full, such as Redis' `noeviction`, where it has such a thing and this
    /// user may ask.
    pub eviction: Option<String>,
}

impl Health {
    /// Whether the store may throw held locks away when its memory is full.
    pub fn may_evict(&self) -> bool {
        may_evict(self.eviction.as_deref())
    }
}

/// Of how many names it is looked at who waits.
const LOOKED: usize = 1000;
/// Whoever waits and lives has what is free by then.
const MOMENT: Duration = Duration::from_secs(1);

/// Whether some wait for what they could have. At latches and barriers nobody holds anything.
fn is_unserved(seen: &Inspection) -> bool {
    let is_held = seen.primitive.is_none_or(|primitive| primitive != LATCH && primitive != BARRIER);
    is_held && seen.holder.is_none() && seen.waiters > 0
}

/// What there is to give back of the lock that was tried. That somebody else is at it is as good an answer, and so is
/// that it was had and this process stopped.
fn had<T>(tried: Result<Option<T>>) -> Result<Option<T>> {
    tried.or_else(|error| if error.kind() == Kind::Lost { Ok(None) } else { Err(error) })
}

impl<F: Face> Client<F> {
    /// The lock that is tried.
    fn trial(&self) -> Result<Lock<F>> {
        self.lock(PING).options(trial(self.options())).build()
    }

    async fn eviction(&self, road: Road) -> Result<Option<String>> {
        let engine = self.engine()?;
        self.inquire(road, &engine, engine.store.eviction()).await
    }

    async fn make_schema_by(&self, road: Road) -> Result<bool> {
        let engine = self.engine()?;
        let Some(schema) = engine.store.schema() else { return Ok(false) };
        self.inquire(road, &engine, schema.make).await.map(|()| true)
    }

    /// What has to lie at the store before its first lock, in the store's own language: the tables of a database.
    /// Nothing for stores that need nothing made. It is made by [`make_schema`](crate::Client::make_schema), or by
    /// whoever operates the store.
    pub fn schema(&self) -> Option<&'static str> {
        self.inner.store.schema().map(|schema| schema.text)
    }

    async fn examine_by(&self, road: Road) -> Result<Vec<Finding>> {
        let engine = self.engine()?;
        let mut found = self.inquire(road, &engine, engine.store.examine()).await?;
        found.extend(self.layouts_seen(road).await?);
        found.extend(self.queues_seen(road).await?);
        Ok(found)
    }

    /// Names that some wait for though nobody holds them, now and a moment later: whoever waits there is gone. Nothing
    /// where there are none, and where this client cannot list.
    async fn queues_seen(&self, road: Road) -> Result<Option<Finding>> {
        // Why it cannot list is told by what locks need as well.
        let Ok(names) = self.list_by(road).await else { return Ok(None) };
        let mut left = self.unserved(road, names.into_iter().take(LOOKED).collect()).await;
        if !left.is_empty() {
            road.pause(MOMENT).await?;
            left = self.unserved(road, left).await;
        }
        let advice = "whoever asks next goes past them: see why the programs that waited ended";
        let what = "all who wait are gone, and nobody holds what they wait for,";
        Ok(in_places(Severity::Note, "queues", what, &left, advice))
    }

    /// Those of the names that nobody holds and somebody waits for.
    async fn unserved(&self, road: Road, names: Vec<String>) -> Vec<String> {
        let mut unserved = Vec::new();
        for name in names {
            if self.inspect_by(road, &name).await.is_ok_and(|seen| is_unserved(&seen)) {
                unserved.push(name);
            }
        }
        unserved
    }

    /// Whether other libraries keep locks here, and under names of ours. Nothing where there are none, and for a client
    /// that joins a layout of theirs, in which nobody can tell which are whose.
    async fn layouts_seen(&self, road: Road) -> Result<Option<Finding>> {
        let own = self.engine()?.store.layouts().first().map(|layout| layout.name());
        if own != Some(self.default_layout()?.name()) {
            return Ok(None);
        }
        let others = match self.others_by(road, None).await {
            Ok(others) if others.is_empty() => return Ok(None),
            Ok(others) => others,
            Err(error) if error.kind() == Kind::Auth => {
                let advice = "grant +scan and the right to read every key, if such locks may be here";
                let found = "this user may not look for locks of other libraries";
                return Ok(Some(Finding::of(Severity::Note, "layouts", found, advice)));
            }
            Err(error) => return Err(error),
        };
        let endings = Endings::of(others.iter().map(|other| &*other.key));
        let mut both = Vec::new();
        for name in self.list_by(road).await? {
            // The key has this client's prefix in front, which the store alone knows.
            if endings.has(&name) && !self.others_by(road, Some(&name)).await?.is_empty() {
                both.push(name);
            }
        }
        Ok(Some(of_layouts(&others, &both)))
    }

    async fn drain_by(&self, road: Road, limit: Duration) -> Result<Vec<String>> {
        self.engine()?.drain(road, limit).await.map_err(|error| error.on_store(self.address()))
    }
}

/// Very many texts, to be asked whether one of them ends so: each backwards, in order.
struct Endings(Vec<String>);

impl Endings {
    fn of<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut backwards: Vec<String> = texts.map(backwards).collect();
        backwards.sort_unstable();
        Endings(backwards)
    }

    fn has(&self, ending: &str) -> bool {
        let begins = backwards(ending);
        let at = self.0.partition_point(|text| *text < begins);
        self.0.get(at).is_some_and(|text| text.starts_with(&begins))
    }
}

fn backwards(text: &str) -> String {
    text.chars().rev().collect()
}

fn of_layouts(others: &[Sighting], both: &[String]) -> Finding {
    if both.is_empty() {
        let keys = some_of(others.iter().map(|other| &*other.key));
        let found = format!("{} keys look like locks of other libraries: {keys}", others.len());
        let advice = "to exclude their holders, join their layout: the option layout; see docs/interop.md";
        return Finding::of(Severity::Note, "layouts", found, advice);
    }
    let names = some_of(both.iter().map(|name| &**name));
    let found = format!("{} names are locked in two layouts, which do not exclude one another: {names}", both.len());
    let advice = "lock each name in one layout everywhere: the option layout; see docs/interop.md";
    Finding::of(Severity::Warning, "layouts", found, advice)
}

impl Client<Async> {
    /// Whether locks can be had here, now: a lock of its own ([`PING`]) is acquired and given back, with all the rights
    /// that takes. For readiness probes; about three requests.
    ///
    /// # Errors
    /// Why not: `unavailable` (at once where nobody listens, else after `store_timeout`), `auth`, `foreign_layout`,
    /// `protocol`, `closed`.
    pub async fn ping(&self) -> Result<Health> {
        let began = clock::now();
        if let Some(guard) = had(self.trial()?.try_acquire().await)? {
            let _ = guard.release().await?;
        }
        let took = clock::now().since(began);
        Ok(Health { took, eviction: self.eviction(Road::Task).await? })
    }

    /// Looks whether the store is fit to keep locks in, for its operator: version, role, eviction, persistence, clocks,
    /// the file's place, and locks of other libraries, for which it looks through all that is kept there: once in a
    /// while, not as a probe. What was found, also what is as it should be; which checks there are depends on the
    /// store. That locks can be had is for [`ping`](Self::ping) to say.
    ///
    /// # Errors
    /// `unavailable`, `auth` or `protocol` from the store, `closed`.
    pub async fn examine(&self) -> Result<Vec<Finding>> {
        self.examine_by(Road::Task).await
    }

    /// Makes the [`schema`](Client::schema) where it is missing; what is there stays. `false` for a store that needs
    /// none.
    ///
    /// # Errors
    /// `auth` where this user may not, `unavailable` or `protocol` from the store, `closed`.
    pub async fn make_schema(&self) -> Result<bool> {
        self.make_schema_by(Road::Task).await
    }

    /// Begins nothing any more, and waits until everything that this client and its clones hold was released, for at
    /// most `limit`: for a program that is told to end. Acquisitions fail with `closed` from now on, also those that
    /// wait. The names of the locks that are held yet, none when it is done; [`close`](Client::close) gives them back.
    ///
    /// # Errors
    /// `closed`.
    pub async fn drain(&self, limit: Duration) -> Result<Vec<String>> {
        self.drain_by(Road::Task, limit).await
    }
}

impl Client<Blocking> {
    /// See the async [`ping`](crate::Client::ping).
    ///
    /// # Errors
    /// As there.
    pub fn ping(&self) -> Result<Health> {
        let began = clock::now();
        if let Some(guard) = had(self.trial()?.try_acquire())? {
            let _ = guard.release()?;
        }
        let took = clock::now().since(began);
        Ok(Health { took, eviction: here(self.eviction(Road::Thread))? })
    }

    /// See the async [`examine`](crate::Client::examine).
    ///
    /// # Errors
    /// As there.
    pub fn examine(&self) -> Result<Vec<Finding>> {
        here(self.examine_by(Road::Thread))
    }

    /// See the async [`make_schema`](crate::Client::make_schema).
    ///
    /// # Errors
    /// As there.
    pub fn make_schema(&self) -> Result<bool> {
        here(self.make_schema_by(Road::Thread))
    }

    /// See the async [`drain`](crate::Client::drain).
    ///
    /// # Errors
    /// As there.
    pub fn drain(&self, limit: Duration) -> Result<Vec<String>> {
        here(self.drain_by(Road::Thread, limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_those_of_whole_texts() {
        let endings = Endings::of(["app:x", "app:orders:42", "é"].into_iter());
        assert!(["x", "42", "orders:42", "app:x", "é", ""].iter().all(|ending| endings.has(ending)));
        assert!(!["y", "app", "orders", "my-app:x"].iter().any(|ending| endings.has(ending)));
        assert!(!Endings::of([].into_iter()).has("x"));
    }
}
