//! Every entry that somebody names, and the last few that nobody does any more: programs tend to name the same lock
//! again.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::{Arc, Weak};

use hashbrown::HashTable;

use crate::protocol::AttemptId;

/// Of what nobody names any more so much is kept.
pub(super) const RECENT: usize = 64;

#[cfg(not(test))]
type Hasher = std::hash::RandomState;
/// Of the same seed a simulation plays the same.
#[cfg(test)]
type Hasher = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;

/// What knows the key that it is found by.
pub(super) trait Keyed {
    fn key(&self) -> &str;
}

/// See the [module](self).
pub(super) struct Entries<E> {
    /// One of each key, by the hash of that, which it knows itself: a client may have very many.
    one_of_key: HashTable<Weak<E>>,
    /// The others of a key, by the same hash: one for each further layout in use under it, and one for each acquisition
    /// of what several may hold.
    others_of_key: HashMap<u64, Vec<Weak<E>>, Hasher>,
    /// Those of one acquisition each, by the attempt that waits: there may be very many of one key.
    by_attempt: HashMap<AttemptId, Weak<E>>,
    hasher: Hasher,
    recent: VecDeque<Arc<E>>,
}

impl<E: Keyed> Entries<E> {
    /// The entries of one key.
    pub(super) fn of_key(&self, key: &str) -> impl Iterator<Item = Arc<E>> {
        let hash = self.hasher.hash_one(key);
        let others = self.others_of_key.get(&hash).into_iter().flatten().filter_map(Weak::upgrade);
        self.one_of(hash, key).into_iter().chain(others.filter(move |entry| entry.key() == key))
    }

    fn one_of(&self, hash: u64, key: &str) -> Option<Arc<E>> {
        let mut found = None;
        self.one_of_key.find(hash, |known| {
            found = known.upgrade().filter(|entry| entry.key() == key);
            found.is_some()
        });
        found
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Arc<E>> {
        self.one_of_key.iter().chain(self.others_of_key.values().flatten()).filter_map(Weak::upgrade)
    }

    pub(super) fn add(&mut self, entry: &Arc<E>) {
        let hash = self.hasher.hash_one(entry.key());
        match self.one_of(hash, entry.key()) {
            Some(_) => self.add_other(hash, entry),
            None => self.add_one(hash, entry),
        }
    }

    fn add_one(&mut self, hash: u64, entry: &Arc<E>) {
        let Entries { one_of_key: known, hasher, .. } = self;
        // Where one lies that is gone does not matter.
        let hash_of = |known: &Weak<E>| known.upgrade().map_or(0, |entry| hasher.hash_one(entry.key()));
        let capacity = known.capacity();
        if known.len() == capacity {
            known.retain(|entry| is_named(entry));
            if known.len() > capacity / 2 {
                // Else the next few would have to look through all of them again.
                known.reserve(capacity, hash_of);
            }
        }
        known.insert_unique(hash, Arc::downgrade(entry), hash_of);
    }

    fn add_other(&mut self, hash: u64, entry: &Arc<E>) {
        let capacity = self.others_of_key.capacity();
        if self.others_of_key.len() == capacity {
            self.others_of_key.retain(|_, known| known.iter().any(is_named));
            if self.others_of_key.len() > capacity / 2 {
                // As above.
                self.others_of_key.reserve(capacity);
            }
        }
        let known = self.others_of_key.entry(hash).or_default();
        if known.len() == known.capacity() {
            known.retain(is_named);
            if known.len() > known.capacity() / 2 {
                // As above.
                known.reserve(known.len());
            }
        }
        known.push(Arc::downgrade(entry));
    }

    pub(super) fn remember(&mut self, entry: &Arc<E>) {
        self.recent.push_back(entry.clone());
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    /// Which one, of one acquisition, waits under `attempt`.
    pub(super) fn awaiting(&self, attempt: AttemptId) -> Option<Arc<E>> {
        self.by_attempt.get(&attempt)?.upgrade()
    }

    /// `entry`, which is of one acquisition, waits under `attempt`.
    pub(super) fn await_grant(&mut self, attempt: AttemptId, entry: &Arc<E>) {
        self.by_attempt.insert(attempt, Arc::downgrade(entry));
    }

    /// It waits no more.
    pub(super) fn await_no_grant(&mut self, attempt: AttemptId) {
        self.by_attempt.remove(&attempt);
        if self.by_attempt.is_empty() {
            self.by_attempt.shrink_to(RECENT);
        }
    }
}

impl<E> Default for Entries<E> {
    fn default() -> Self {
        Entries {
            one_of_key: HashTable::new(),
            others_of_key: HashMap::default(),
            by_attempt: HashMap::new(),
            hasher: Hasher::default(),
            recent: VecDeque::new(),
        }
    }
}

fn is_named<E>(entry: &Weak<E>) -> bool {
    entry.strong_count() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Keyed for String {
        fn key(&self) -> &str {
            self
        }
    }

    #[test]
    fn each_entry_is_found_by_its_key_however_many_there_are_and_what_nobody_names_is_forgotten() {
        let entry = |key: &str| Arc::new(key.to_owned());
        let mut entries = Entries::default();
        let named: Vec<_> = (0..3_000).map(|n| entry(&format!("k{}", n % 1_000))).collect();
        for one in &named {
            entries.add(one);
            entries.add(&entry("gone"));
        }
        for (n, one) in named.iter().take(1_000).enumerate() {
            let found: Vec<_> = entries.of_key(one).collect();
            assert!(
                found.len() == 3 && (0..3).all(|turn| Arc::ptr_eq(&found[turn], &named[n + 1_000 * turn])),
                "{one:?}"
            );
        }
        assert_eq!(
            (entries.of_key("gone").count(), entries.of_key("k1000").count(), entries.all().count()),
            (0, 0, 3_000)
        );
        let kept = entries.one_of_key.len() + entries.others_of_key.values().map(Vec::len).sum::<usize>();
        assert!(kept < 6_000, "{kept} are kept of 3,000");
        drop(named);
        (0..4_000).for_each(|n| entries.add(&entry(&format!("l{n}"))));
        let kept = (entries.one_of_key.len(), entries.all().count());
        assert!(kept.0 < 3_600 && kept.1 == 0, "{kept:?}");
    }
}
