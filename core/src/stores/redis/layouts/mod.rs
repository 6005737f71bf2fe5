//! The lock layouts of Redis. Pure: they build without any feature.

use std::sync::Arc;

use crate::native::Calls;
use crate::protocol::Layout;

pub mod getset;
pub mod joined;
pub mod native;
pub mod python_redis_lock;
pub mod shapes;
pub mod string;
pub mod symfony;

use joined::Family;

/// The procedures of every layout.
pub const CALLS: [&Calls; 5] =
    [&native::CALLS, &string::CALLS, &python_redis_lock::CALLS, &getset::CALLS, &symfony::CALLS];

/// Every layout that joins the locks of others.
const JOINED: [&Family; 4] = [&string::FAMILY, &python_redis_lock::FAMILY, &getset::FAMILY, &symfony::FAMILY];

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
    layouts.extend(JOINED.iter().flat_map(|family| family.layouts(prefix)));
    layouts
}
