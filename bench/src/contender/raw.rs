//! The yardstick, and the same with an awaited connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use redis::aio::MultiplexedConnection;
use redis::{Connection, RedisResult, Script, ScriptInvocation, cmd};
use tokio::runtime::Runtime;

use super::awaited::{driven, runtime, timed};
use super::{Contend, Crowd, Tally};
use crate::Result;
use crate::server::addresses;

pub(super) const KEY: &str = "bench:raw";
const OWNER: &str = "owner";
const LEASE_MILLIS: u32 = 30_000;

/// One acquire script and one compare-and-delete script.
pub(super) struct Scripts {
    pub(super) acquire: Script,
    pub(super) release: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        let acquire = Script::new("return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])");
        let release =
            Script::new("if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0");
        Scripts { acquire, release }
    }

    fn acquire(&self, key: &str) -> ScriptInvocation<'_> {
        let mut invocation = self.acquire.key(key);
        invocation.arg(OWNER).arg(LEASE_MILLIS);
        invocation
    }

    async fn pair(&self, key: &str, connection: &mut MultiplexedConnection) -> RedisResult<()> {
        let _: Option<String> = self.acquire(key).invoke_async(connection).await?;
        let _: i64 = self.release(key).invoke_async(connection).await?;
        Ok(())
    }

    fn release(&self, key: &str) -> ScriptInvocation<'_> {
        let mut invocation = self.release.key(key);
        invocation.arg(OWNER);
        invocation
    }

    /// Acquire and release as they are sent to a server that has both scripts.
    pub(super) fn packed(&self, key: &str) -> [Vec<u8>; 2] {
        let call = |script: &Script| {
            let mut call = cmd("EVALSHA");
            call.arg(script.get_hash()).arg(1).arg(key).arg(OWNER);
            call
        };
        let mut acquire = call(&self.acquire);
        acquire.arg(LEASE_MILLIS);
        [acquire, call(&self.release)].map(|call| call.get_packed_command())
    }
}

/// Pairs of one task, which share the connection with those of others.
async fn contend(
    key: String,
    mut connection: MultiplexedConnection,
    scripts: Arc<Scripts>,
    stop: Arc<AtomicBool>,
) -> RedisResult<Tally> {
    let mut tally = Tally::default();
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        scripts.pair(&key, &mut connection).await?;
        tally.add(start, &stop);
    }
    Ok(tally)
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

    /// To the one node of a cluster that has the key: the others refuse.
    pub(super) fn connect_to_cluster(url: &str) -> Result<Self> {
        for address in addresses(url)? {
            let mut node = Raw::connect(&format!("redis://{address}"))?;
            if cmd("EXISTS").arg(KEY).query::<bool>(&mut node.connection).is_ok() {
                return Ok(node);
            }
        }
        Err("no node has the key".into())
    }
}

impl Contend for Raw {
    fn pair(&mut self) -> Result<()> {
        let _: Option<String> = self.scripts.acquire(KEY).invoke(&mut self.connection)?;
        let _: i64 = self.scripts.release(KEY).invoke(&mut self.connection)?;
        Ok(())
    }
}

/// The same on the crate's connection for tasks.
pub(super) struct Awaited {
    connection: MultiplexedConnection,
    runtime: Arc<Runtime>,
    scripts: Arc<Scripts>,
}

impl Awaited {
    pub(super) fn connect(url: &str) -> Result<Self> {
        let runtime = Arc::new(runtime()?);
        let connection = runtime.block_on(redis::Client::open(url)?.get_multiplexed_async_connection())?;
        Ok(Awaited { connection, runtime, scripts: Arc::new(Scripts::new()) })
    }
}

impl Contend for Awaited {
    fn pair(&mut self) -> Result<()> {
        self.pairs(1).map(drop)
    }

    fn pairs(&mut self, count: usize) -> Result<Vec<u64>> {
        let Awaited { connection, runtime, scripts } = self;
        timed(runtime, count, async || Ok(scripts.pair(KEY, connection).await?))
    }

    fn crowd(&mut self, keys: Vec<String>, stop: Arc<AtomicBool>) -> Result<Crowd> {
        let start = |key| self.runtime.spawn(contend(key, self.connection.clone(), self.scripts.clone(), stop.clone()));
        Ok(driven(self.runtime.clone(), keys.into_iter().map(start).collect()))
    }
}
