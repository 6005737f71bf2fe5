//! What the guarantees of several layouts say.

/// What holds for every lock on such a server.
pub(super) const NOTES: [&str; 4] = [
    "If the server's clock jumps forward, leases end early: there may be two holders until the first one notices.",
    "Replication is asynchronous: after a fail-over the new primary may not know the most recent grants (outside WebAssembly `wait_replicas` makes that rarer, and `failover_delay` waits for their end), and the old one may grant for a moment yet.",
    "A server without persistence forgets every lock when it restarts; `appendfsync always` keeps them.",
    "When memory runs out, every eviction policy except `noeviction` may drop a held lock.",
];

/// What holds wherever another library takes the lock too.
pub(super) const NO_TOKEN: &str =
    "Holders that use the other library have no fencing token, so a token does not order them against ours.";
