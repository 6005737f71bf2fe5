//! One place of each kind where locks are kept.

#![allow(unreachable_pub, dead_code, reason = "shared, and each test uses its part")]

use std::sync::atomic::{AtomicU32, Ordering};

use lockwright::blocking;
use lockwright::options::ConnectOptions;

/// A lock name that no other test uses, and how to make clients of one place.
pub struct TestStore {
    pub uri: String,
    pub name: String,
    _folder: Option<tempfile::TempDir>,
}

impl TestStore {
    pub fn all() -> Vec<TestStore> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test-{}-{number}", std::process::id());
        let folder = tempfile::tempdir().unwrap();
        let redis = std::env::var("LOCKWRIGHT_TEST_REDIS")
            .expect("set LOCKWRIGHT_TEST_REDIS to what conformance/services/redis.sh start prints");
        let sqlite = format!("sqlite://{}/locks.db", folder.path().display());
        let place = |uri: String, folder| TestStore { uri, name: name.clone(), _folder: folder };
        vec![place(format!("memory://{name}"), None), place(sqlite, Some(folder)), place(redis, None)]
    }

    pub fn client(&self) -> blocking::Client {
        blocking::Client::open(Some(&self.uri), ConnectOptions::default()).unwrap()
    }

    pub fn lock(&self) -> blocking::LockBuilder {
        self.client().lock(&self.name)
    }

    /// Names of this place's own.
    pub fn names<const N: usize>(&self, of: [&str; N]) -> [String; N] {
        of.map(|name| format!("{}-{name}", self.name))
    }
}
