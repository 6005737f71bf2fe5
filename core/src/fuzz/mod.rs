//! Bytes from outside, and what must hold whatever they are: the invariants of the fuzz targets in `fuzz/`.
//!
//! They live here because decoders are private, and so that every test run replays the seeds in `fuzz/seeds` through
//! them.

mod feed;
mod gateway;
mod kept;
mod replies;
mod uri;

use crate::error::Error;
pub(crate) use feed::Feed;
#[cfg(feature = "redis")]
pub(crate) use replies::chosen;
#[cfg(any(feature = "redis", feature = "sqlite"))]
pub(crate) use replies::is_understood_or_refused;

pub use gateway::etcd_answer;
pub use kept::kept_text;
pub use replies::{layout_reply, zookeeper_reply};
pub use uri::uri;

#[cfg(feature = "memcached")]
pub use crate::stores::memcached::fuzz::memcached_answer;
#[cfg(feature = "mysql")]
pub use crate::stores::mysql::fuzz::mysql_answer;
#[cfg(feature = "redis")]
pub use crate::stores::redis::fuzz::{redis_frames, redis_greeting, redis_push, redis_reply};
#[cfg(feature = "sqlite")]
pub use crate::stores::sqlite::fuzz::{sqlite_host, sqlite_push, sqlite_row, sqlite_shared_row};
#[cfg(feature = "zookeeper")]
pub use crate::stores::zookeeper::fuzz::{zookeeper_answer, zookeeper_frames};

/// What no text may show.
pub(crate) const SECRET: &str = "hunter2hunter2";

/// The longest that an error may be: more than that is no message, but what the other side sent.
const LONGEST_ERROR: usize = 1_500;

/// An error is for a person: short, on one line, and without a secret.
pub(crate) fn is_readable(error: &Error) {
    let shown = format!("{error} {error:?}");
    assert!(shown.len() < 2 * LONGEST_ERROR, "{} bytes: {shown:.200}", shown.len());
    assert!(!shown.chars().any(char::is_control), "{shown:?}");
    assert!(!shown.contains(SECRET), "{shown}");
}

#[cfg(all(
    test,
    feature = "memory",
    feature = "sqlite",
    feature = "redis",
    feature = "memcached",
    feature = "mysql",
    feature = "zookeeper"
))]
type Target = fn(&[u8]);

/// Every target by its name.
#[cfg(all(
    test,
    feature = "memory",
    feature = "sqlite",
    feature = "redis",
    feature = "memcached",
    feature = "mysql",
    feature = "zookeeper"
))]
const TARGETS: [(&str, Target); 17] = [
    ("etcd_answer", etcd_answer),
    ("kept_text", kept_text),
    ("layout_reply", layout_reply),
    ("memcached_answer", memcached_answer),
    ("mysql_answer", mysql_answer),
    ("redis_frames", redis_frames),
    ("redis_greeting", redis_greeting),
    ("redis_push", redis_push),
    ("redis_reply", redis_reply),
    ("sqlite_host", sqlite_host),
    ("sqlite_push", sqlite_push),
    ("sqlite_row", sqlite_row),
    ("sqlite_shared_row", sqlite_shared_row),
    ("uri", uri),
    ("zookeeper_answer", zookeeper_answer),
    ("zookeeper_frames", zookeeper_frames),
    ("zookeeper_reply", zookeeper_reply),
];

#[cfg(all(
    test,
    feature = "memory",
    feature = "sqlite",
    feature = "redis",
    feature = "memcached",
    feature = "mysql",
    feature = "zookeeper"
))]
mod tests {
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;

    use super::TARGETS;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut names: Vec<_> =
            entries.map(|e| e.unwrap().path().file_stem().unwrap().to_str().unwrap().into()).collect();
        names.sort();
        names
    }

    #[test]
    fn every_target_is_fuzzed_from_seeds_and_they_all_pass() {
        let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
        let targets = TARGETS.map(|(name, _)| name.to_owned());
        assert_eq!(names(&fuzz.join("fuzz_targets")), targets);
        assert_eq!(names(&fuzz.join("seeds")), targets);
        for (name, target) in TARGETS {
            let folder = fuzz.join("seeds").join(name);
            let seeds: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
            assert!(!seeds.is_empty(), "{name}");
            for seed in seeds {
                println!("{}", seed.display());
                target(&fs::read(seed).unwrap());
            }
        }
    }

    proptest! {
        #[test]
        fn anything_else_passes_too(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            TARGETS.iter().for_each(|(_, target)| target(&bytes));
        }
    }
}
