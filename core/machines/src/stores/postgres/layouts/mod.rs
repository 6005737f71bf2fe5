//! Its layouts.

pub mod advisory;
pub mod examination;
pub mod for_update;
pub mod int_lock;
pub mod native;
pub mod shedlock;
pub mod symfony;
pub mod unique_index;

use std::sync::Arc;
use std::time::Duration;

use crate::protocol::Layout;

/// All of them, for a client that puts `prefix` before every name and whose session lasts for `ttl`; the default one
/// first.
pub fn all(prefix: &str, ttl: Duration) -> Vec<Arc<dyn Layout>> {
    vec![
        Arc::new(native::layout(prefix)),
        Arc::new(shedlock::layout(prefix)),
        Arc::new(int_lock::layout(prefix)),
        Arc::new(symfony::layout(prefix)),
        Arc::new(unique_index::layout(prefix)),
        Arc::new(advisory::layout(prefix, ttl)),
        Arc::new(for_update::layout(prefix)),
    ]
}
