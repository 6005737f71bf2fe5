//! What the operating system and the runtime give: time, randomness, threads, descriptors, forks.
//!
//! Nothing here knows of a lock or a store: the stores and the driver stand on it. What differs from system to system
//! is called `os` and is one file: `unix.rs`, or else `portable.rs`.

pub(crate) mod clock;
pub(crate) mod companion;
#[cfg(unix)]
pub mod event_loop;
pub(crate) mod fence;
#[cfg_attr(not(unix), allow(dead_code, unused_imports, reason = "nothing forks"))]
pub(crate) mod fork;
mod leader;
pub(crate) mod mutex;
#[cfg(unix)]
pub(crate) mod poller;
pub(crate) mod portions;
pub(crate) mod random;
pub(crate) mod runtime;
#[cfg(test)]
pub(crate) mod simulated;
#[cfg(feature = "redis")]
pub(crate) mod socket;
#[cfg(any(
    feature = "etcd",
    feature = "memcached",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "zookeeper"
))]
pub(crate) mod stream;
pub(crate) mod thread;
pub(crate) mod timer;

#[cfg(not(unix))]
pub(crate) mod portable;
#[cfg(unix)]
pub(crate) mod unix;

#[cfg(not(unix))]
pub(crate) use portable as os;
#[cfg(unix)]
pub(crate) use unix as os;
