//! The servers that contenders use, looked at from outside.

mod etcd;
mod nodes;
mod redis;
mod sql;
mod zookeeper;

pub(crate) use self::redis::Redis;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::Result;

/// Where a row's locks are kept. Its service is `bench/services/NAME.sh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Store {
    Redis,
    Quorum,
    Cluster,
    Etcd,
    ZooKeeper,
    Postgres,
    MariaDb,
}

/// A server that asks for nothing but statistics.
pub(crate) trait Server {
    fn version(&mut self) -> Result<String>;

    /// How many requests there were so far; of those `named`, where the server counts each kind by itself.
    fn calls(&mut self, named: &[String]) -> Result<u64>;

    /// Forgets what contenders of an earlier row left, where that does not go with their sessions.
    fn clear(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Store {
    pub(crate) fn service(self) -> &'static str {
        match self {
            Store::Redis => "redis",
            Store::Quorum => "quorum",
            Store::Cluster => "cluster",
            Store::Etcd => "etcd",
            Store::ZooKeeper => "zookeeper",
            Store::Postgres => "postgres",
            Store::MariaDb => "mariadb",
        }
    }

    /// What the pages call the server.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Store::Redis | Store::Quorum | Store::Cluster => "redis-server",
            Store::Etcd => "etcd",
            Store::ZooKeeper => "ZooKeeper",
            Store::Postgres => "PostgreSQL",
            Store::MariaDb => "MariaDB",
        }
    }

    pub(crate) fn connect(self, url: &str) -> Result<Box<dyn Server>> {
        Ok(match self {
            Store::Redis => Box::new(Redis::connect(url)?),
            Store::Quorum => Box::new(nodes::Nodes::of_quorum(url)?),
            Store::Cluster => Box::new(nodes::Nodes::of_cluster(url)?),
            Store::Etcd => Box::new(etcd::Etcd { address: address(url)? }),
            Store::ZooKeeper => Box::new(zookeeper::ZooKeeper { address: address(url)? }),
            Store::Postgres => Box::new(sql::Sql::postgres(&address(url)?)?),
            Store::MariaDb => Box::new(sql::Sql::mariadb(&address(url)?)?),
        })
    }

    /// How many pairs a server needs before its own code is compiled.
    pub(crate) fn warming(self) -> usize {
        if self == Store::ZooKeeper { 20_000 } else { 0 }
    }
}

/// The `host:port` of each server of a URL.
pub(crate) fn addresses(url: &str) -> Result<Vec<String>> {
    let of_all = url.split(' ').map(address).collect::<Result<Vec<_>>>()?;
    Ok(of_all.iter().flat_map(|hosts| hosts.split(',')).map(str::to_owned).collect())
}

/// The `host:port` of a URL of one server.
pub(crate) fn address(url: &str) -> Result<String> {
    let after = url.split_once("://").ok_or("no scheme")?.1;
    let authority = after.split(['/', '?']).next().unwrap_or(after);
    Ok(authority.rsplit('@').next().unwrap_or(authority).to_owned())
}

/// All that a server says to a question before it hangs up.
fn ask(address: &str, question: &str) -> Result<String> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    socket.write_all(question.as_bytes())?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::{address, addresses};

    #[test]
    fn an_address_is_between_scheme_and_path() {
        assert_eq!(address("zookeeper://127.0.0.1:7481/locks?tick=2s").unwrap(), "127.0.0.1:7481");
        assert_eq!(address("etcd://127.0.0.1:8479").unwrap(), "127.0.0.1:8479");
        assert_eq!(address("postgres://user:pass%40word@127.0.0.1:8489/locks").unwrap(), "127.0.0.1:8489");
        assert!(address("127.0.0.1").is_err());
    }

    #[test]
    fn a_url_of_several_servers_has_several_addresses() {
        let several = addresses("redis://127.0.0.1:7491 redis://127.0.0.1:7492?max_ttl=60s").unwrap();
        assert_eq!(several, ["127.0.0.1:7491", "127.0.0.1:7492"]);
        let cluster = addresses("redis+cluster://127.0.0.1:7500,127.0.0.1:7501").unwrap();
        assert_eq!(cluster, ["127.0.0.1:7500", "127.0.0.1:7501"]);
        assert!(addresses("redis://127.0.0.1:7491 127.0.0.1:7492").is_err());
    }
}
