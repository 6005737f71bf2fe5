//! The yardstick.

use std::time::{Duration, Instant};

use redis::{Connection, RedisResult, Script};

/// A blocking connection that takes and frees a key by two scripts, and does nothing else.
pub(crate) struct Raw {
    connection: Connection,
    acquire: Script,
    release: Script,
}

impl Raw {
    pub(crate) fn connect(url: &str) -> RedisResult<Self> {
        let connection = redis::Client::open(url)?.get_connection()?;
        let acquire = Script::new("return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])");
        let release =
            Script::new("if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0");
        Ok(Raw { connection, acquire, release })
    }

    /// One pair, timed.
    pub(crate) fn pair(&mut self) -> RedisResult<Duration> {
        let start = Instant::now();
        let _: Option<String> = self.acquire.key("bench:raw").arg("owner").arg(30_000).invoke(&mut self.connection)?;
        let _: i64 = self.release.key("bench:raw").arg("owner").invoke(&mut self.connection)?;
        Ok(start.elapsed())
    }

    /// How many scripts the server has run so far.
    pub(crate) fn scripts_run(&mut self) -> RedisResult<u64> {
        let text: String = redis::cmd("INFO").arg("commandstats").query(&mut self.connection)?;
        let calls = |line: &str| line.split("calls=").nth(1)?.split(',').next()?.parse::<u64>().ok();
        Ok(text.lines().filter(|line| line.starts_with("cmdstat_eval")).filter_map(calls).sum())
    }

    pub(crate) fn version(&mut self) -> RedisResult<String> {
        let text: String = redis::cmd("INFO").arg("server").query(&mut self.connection)?;
        Ok(text.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or("?").to_owned())
    }
}
