//! The lock layouts of Redis.
//!
//! In this store a request is a script with its keys and arguments. All keys of one are in one slot of a cluster: what
//! lies beside a lock has its name in braces. Requests that travel together are one script, whose keys and arguments
//! are those of all of them, one behind the other, and which answers a list. What
//! [`Protocol::channel`](crate::protocol::Protocol::channel) names is a channel of `SUBSCRIBE`.

use std::sync::Arc;

use crate::native_machine::Calls;
use crate::protocol::{Call, Layout};

#[macro_use]
mod lua;

pub mod barrier_scripts;
pub mod combined;
pub mod examination;
pub mod getset;
pub mod joined;
pub mod latch_scripts;
pub mod marker;
pub mod native_scripts;
mod notes;
pub mod python_redis_lock;
pub mod recipe;
pub mod redisson;
pub mod redisson_fenced;
pub mod redisson_shared;
pub mod sentinels;
pub mod shapes;
pub mod shared_scripts;
pub mod spring;
pub mod string;
pub mod survey;
pub mod symfony;
pub mod tokenless;

use joined::JoinedLayout;
use recipe::{Family, Recipe};

/// The procedures of every layout that the server may be asked for by a digest.
pub fn by_digest() -> impl Iterator<Item = &'static Call> {
    let all: [&'static Calls; 4] = [&native_scripts::CALLS, &redisson::CALLS, &redisson_fenced::CALLS, &spring::CALLS];
    let own = native_scripts::OWN
        .by_digest()
        .chain(native_scripts::ON_CLUSTER.by_digest())
        .chain(shared_scripts::CALLS.by_digest())
        .chain(latch_scripts::CALLS.by_digest())
        .chain(barrier_scripts::CALLS.by_digest())
        .chain([&redisson::ACQUIRE_FAIR, &joined::RAISE, &marker::MARK, &tokenless::ACQUIRE]);
    let own = own.chain(redisson_shared::by_digest());
    all.into_iter().chain(FAMILIES.map(|family| family.calls)).flat_map(Calls::by_digest).chain(own)
}

/// The joined layouts that are told by a table.
const FAMILIES: [&Family; 4] = [&string::FAMILY, &python_redis_lock::FAMILY, &getset::FAMILY, &symfony::FAMILY];

/// Those whose locks may lie in a cluster: all that a request touches is in one slot.
pub fn of_cluster(prefix: &str) -> Vec<Arc<dyn Layout>> {
    let mut layouts: Vec<Arc<dyn Layout>> = vec![Arc::new(native_scripts::on_cluster(prefix))];
    layouts.extend(string::FAMILY.formats.iter().map(|format| {
        let manner = Recipe { in_one_slot: true, ..string::FAMILY.layout(format, "").manner };
        Arc::new(JoinedLayout { manner, prefix: prefix.into() }) as Arc<dyn Layout>
    }));
    layouts.extend(redisson::layouts(prefix, true));
    layouts
}

/// Every layout, in each of its formats, for locks whose names get `prefix` put before them; the default one first.
pub fn all(prefix: &str) -> Vec<Arc<dyn Layout>> {
    let mut layouts: Vec<Arc<dyn Layout>> = vec![Arc::new(native_scripts::layout(prefix))];
    layouts.extend(FAMILIES.iter().flat_map(|family| family.layouts(prefix)));
    layouts.extend(redisson::layouts(prefix, false));
    layouts.extend(spring::layouts(prefix));
    layouts
}
