//! Records that last as long as the program.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use lockwright_machines::written::Written;

use crate::Storage;

/// See the [module](self): for tests.
#[derive(Clone, Debug, Default)]
pub struct InMemory(BTreeMap<Arc<str>, Written>);

impl InMemory {
    /// The keys of all records.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|key| &**key)
    }
}

impl Storage for InMemory {
    fn load(&self, key: &str) -> Option<Written> {
        self.0.get(key).cloned()
    }

    fn keep(&mut self, key: &str, written: &Written) {
        self.0.insert(key.into(), written.clone());
    }

    fn remove(&mut self, key: &str) {
        self.0.remove(key);
    }

    fn page(&self, after: &str, count: usize) -> Vec<(Arc<str>, Written)> {
        let behind = self.0.range::<str, _>((Bound::Excluded(after), Bound::Unbounded));
        behind.take(count).map(|(key, written)| (key.clone(), written.clone())).collect()
    }
}
