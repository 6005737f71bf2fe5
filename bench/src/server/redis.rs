//! Redis, by a connection of its own.

use redis::{Connection, RedisResult, Script, cmd};

use super::Server;
use crate::Result;

/// See the [module](self).
pub(crate) struct Redis {
    connection: Connection,
}

impl Redis {
    pub(crate) fn connect(url: &str) -> RedisResult<Self> {
        Ok(Redis { connection: redis::Client::open(url)?.get_connection()? })
    }

    fn info(&mut self, section: &str) -> RedisResult<String> {
        cmd("INFO").arg(section).query(&mut self.connection)
    }

    /// Forgets all but what is under `key`.
    pub(super) fn clear_but(&mut self, key: &str) -> RedisResult<()> {
        let kept: Option<String> = cmd("GET").arg(key).query(&mut self.connection)?;
        cmd("FLUSHALL").query::<()>(&mut self.connection)?;
        kept.map_or(Ok(()), |kept| cmd("SET").arg(key).arg(kept).query(&mut self.connection))
    }

    /// Forgets all, unless it is a replica, which forgets with its master.
    pub(super) fn clear_master(&mut self) -> RedisResult<()> {
        let is_master = self.info("replication")?.contains("role:master");
        if is_master { cmd("FLUSHALL").query(&mut self.connection) } else { Ok(()) }
    }

    /// How many of Lockwright's locks under these keys are held.
    pub(crate) fn held(&mut self, pattern: &str) -> RedisResult<usize> {
        // A record that begins with F is of a lock that is free, one without an owner of a lock that is waited for.
        let script = "local n = 0 for _, k in ipairs(redis.call('KEYS', ARGV[1])) do local r = redis.call('HGET', k, 'r') \
                      if r and r:byte() ~= 70 and r:sub(34, 89) ~= ('-'):rep(56) then n = n + 1 end end return n";
        Script::new(script).arg(pattern).invoke(&mut self.connection)
    }
}

impl Server for Redis {
    fn version(&mut self) -> Result<String> {
        let text = self.info("server")?;
        let value = text.lines().find_map(|line| line.strip_prefix("redis_version:"));
        Ok(value.unwrap_or("unknown").to_owned())
    }

    fn calls(&mut self, named: &[String]) -> Result<u64> {
        let text = self.info("commandstats")?;
        let of = text.lines().filter_map(calls).filter(|(command, _)| named.iter().any(|name| name == command));
        Ok(of.map(|(_, calls)| calls).sum())
    }

    fn clear(&mut self) -> Result<()> {
        Ok(cmd("FLUSHALL").query(&mut self.connection)?)
    }
}

/// Command and count of a line such as `cmdstat_set:calls=3,usec=...`.
fn calls(line: &str) -> Option<(&str, u64)> {
    let (command, figures) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
    Some((command, figures.split(',').next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_statistics_are_read() {
        assert_eq!(calls("cmdstat_evalsha:calls=12,usec=7,usec_per_call=0.58"), Some(("evalsha", 12)));
        assert_eq!(calls("cmdstat_client|setname:calls=1,usec=7"), Some(("client|setname", 1)));
        assert_eq!(calls("# Commandstats"), None);
    }
}
