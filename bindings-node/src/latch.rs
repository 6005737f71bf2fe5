//! What `ts/latch.ts` makes its class of.

use std::time::Duration;

use lockwright::Result;
use lockwright::options::milliseconds;
use napi_derive::napi;

use crate::error::{Answer, answer};
use crate::lock::{Client, limit_of};

/// A latch. What waits, or asks the store, is begun by the [reactor](crate::reactor).
#[napi]
pub struct Latch {
    pub(crate) core: lockwright::Latch,
}

impl Latch {
    pub(crate) fn limit(&self, timeout: Option<f64>) -> Result<Option<Duration>> {
        limit_of(timeout, None).map_err(|error| error.on_lock(self.core.name()))
    }
}

#[napi]
impl Latch {
    #[napi(getter, catch_unwind)]
    pub fn name(&self) -> String {
        self.core.name().to_owned()
    }
}

#[napi]
impl Client {
    /// `idle` is milliseconds.
    #[napi(catch_unwind)]
    pub fn latch(&self, name: String, count: u32, idle: Option<f64>) -> Answer<Latch> {
        let build = || {
            let builder = self.core.latch(&name, count);
            let builder = match idle {
                Some(ms) => builder.idle(milliseconds("latch", "idle", ms)?),
                None => builder,
            };
            Ok(Latch { core: builder.build()? })
        };
        answer(build())
    }
}
