//! Whether locks can be had at a store, as a `ping` finds out: by one of its own, which is tried and given back.

use std::time::Duration;

use crate::options::AcquireOptions;

/// The lock that a ping tries.
pub const PING: &str = "lockwright-ping";

/// How it is tried, whatever a client's locks are like else. Somebody else may be at it: that is as good an answer.
pub fn trial(options: AcquireOptions) -> AcquireOptions {
    AcquireOptions {
        ttl: Duration::from_secs(1),
        timeout: Some(Duration::ZERO),
        renew: false,
        max_hold: None,
        fair: false,
        rank: 0,
        reentrant: false,
        ..options
    }
}

/// Whether a store that does so when its memory is full may throw held locks away.
pub fn may_evict(policy: Option<&str>) -> bool {
    policy.is_some_and(|policy| policy != "noeviction")
}
