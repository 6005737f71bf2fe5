//! The yardstick, and the same with an awaited connection.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use redis::aio::MultiplexedConnection;
use redis::{Connection, Script, ScriptInvocation};
use tokio::runtime::Runtime;

use super::awaited::runtime;
use super::{Contend, Crowd};
use crate::Result;

/// One acquire script and one compare-and-delete script.
struct Scripts {
    acquire: Script,
    release: Script,
}

impl Scripts {
    fn new() -> Self {
        let acquire = Script::new("return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])");
        let release =
            Script::new("if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0");
        Scripts { acquire, release }
    }

    fn acquire(&self) -> ScriptInvocation<'_> {
        let mut invocation = self.acquire.key("bench:raw");
        invocation.arg("owner").arg(30_000);
        invocation
    }

    fn release(&self) -> ScriptInvocation<'_> {
        let mut invocation = self.release.key("bench:raw");
        invocation.arg("owner");
        invocation
    }
}

/// A blocking connection that takes and frees a key by two scripts, and does nothing else.
pub(crate) struct Raw {
    connection: Connection,
    scripts: Scripts,
}

impl Raw {
    pub(crate) fn connect(url: &str) -> Result<Self> {
        Ok(Raw { connection: redis::Client::open(url)?.get_connection()?, scripts: Scripts::new() })
    }
}

impl Contend for Raw {
    fn pair(&mut self) -> Result<()> {
        let _: Option<String> = self.scripts.acquire().invoke(&mut self.connection)?;
        let _: i64 = self.scripts.release().invoke(&mut self.connection)?;
        Ok(())
    }

    fn crowd(&mut self, _: Vec<String>, _: Arc<AtomicBool>) -> Result<Crowd> {
        Err("the yardstick has one task".into())
    }
}

/// The same on the crate's connection for tasks.
pub(super) struct Awaited {
    connection: MultiplexedConnection,
    runtime: Runtime,
    scripts: Scripts,
}

impl Awaited {
    pub(super) fn connect(url: &str) -> Result<Self> {
        let runtime = runtime()?;
        let connection = runtime.block_on(redis::Client::open(url)?.get_multiplexed_async_connection())?;
        Ok(Awaited { connection, runtime, scripts: Scripts::new() })
    }
}

impl Contend for Awaited {
    fn pair(&mut self) -> Result<()> {
        self.pairs(1).map(drop)
    }

    fn pairs(&mut self, count: usize) -> Result<Vec<u64>> {
        let Awaited { connection, runtime, scripts } = self;
        runtime.block_on(async {
            let mut ns = Vec::with_capacity(count);
            for _ in 0..count {
                let start = std::time::Instant::now();
                let _: Option<String> = scripts.acquire().invoke_async(connection).await?;
                let _: i64 = scripts.release().invoke_async(connection).await?;
                ns.push(super::nanos(start));
            }
            Ok(ns)
        })
    }

    fn crowd(&mut self, _: Vec<String>, _: Arc<AtomicBool>) -> Result<Crowd> {
        Err("this contender has one task".into())
    }
}
