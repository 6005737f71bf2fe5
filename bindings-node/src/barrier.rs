//! What `ts/barrier.ts` makes its class of.

use std::time::Duration;

use lockwright::Result;
use lockwright::options::milliseconds;
use napi_derive::napi;

use crate::error::{Answer, answer};
use crate::lock::{Client, limit_of};

/// A barrier. What waits, or asks the store, is begun by the [reactor](crate::reactor).
#[napi]
pub struct Barrier {
    pub(crate) core: lockwright::Barrier,
}

impl Barrier {
    pub(crate) fn limit(&self, timeout: Option<f64>) -> Result<Option<Duration>> {
        limit_of(timeout, None).map_err(|error| error.on_lock(self.core.name()))
    }
}

#[napi]
impl Client {
    /// `ttl` is milliseconds.
    #[napi(catch_unwind)]
    pub fn barrier(&self, name: String, parties: u32, ttl: Option<f64>) -> Answer<Barrier> {
        let build = || {
            let builder = self.core.barrier(&name, parties);
            let builder = match ttl {
                Some(ms) => builder.ttl(milliseconds("barrier", "ttl", ms)?),
                None => builder,
            };
            Ok(Barrier { core: builder.build()? })
        };
        answer(build())
    }
}
