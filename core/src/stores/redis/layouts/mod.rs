//! The lock layouts of Redis. Pure: they build without any feature.

use std::sync::Arc;

use crate::native::Calls;
use crate::protocol::{Call, Layout};

pub mod native;
pub mod shared;
pub mod string;

/// The procedures of every layout.
pub const CALLS: [&Calls; 2] = [&native::CALLS, &string::CALLS];

/// All that a server may be asked for by a digest.
pub fn calls() -> impl Iterator<Item = &'static Call> {
    CALLS.into_iter().flat_map(Calls::by_digest).chain(shared::CALLS.by_digest())
}

/// What holds for every lock on such a server.
const NOTES: [&str; 4] = [
    "A forward step of the server's clock ends leases early: two holders are possible until the first notices.",
    "Replication is asynchronous: after a fail-over the new server may not know of the latest grants.",
    "A server that persists nothing forgets all holds when it restarts; appendfsync always keeps them.",
    "Under memory pressure every eviction policy but noeviction may drop a held lock.",
];

/// Every layout, in each of its formats, for locks whose names get `prefix` put before them; the default one first.
pub fn all(prefix: &str) -> Vec<Arc<dyn Layout>> {
    let mut layouts: Vec<Arc<dyn Layout>> = vec![Arc::new(native::layout(prefix))];
    layouts.extend(string::layouts(prefix));
    layouts
}
