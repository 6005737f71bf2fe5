//! Several Redis servers that are one place together.

use redis::RedisResult;

use super::{Redis, Server, addresses};
use crate::Result;

/// Since when a node of a quorum has forgotten nothing; one without it is young, and does not count for a while.
const MARKER: &str = "lwq:{}";

pub(super) struct Nodes {
    nodes: Vec<Redis>,
    clear: fn(&mut Redis) -> RedisResult<()>,
}

impl Nodes {
    pub(super) fn of_quorum(url: &str) -> Result<Self> {
        Nodes::connect(url, |node| node.clear_but(MARKER))
    }

    pub(super) fn of_cluster(url: &str) -> Result<Self> {
        Nodes::connect(url, Redis::clear_master)
    }

    fn connect(url: &str, clear: fn(&mut Redis) -> RedisResult<()>) -> Result<Self> {
        let connect = |address: &String| Ok(Redis::connect(&format!("redis://{address}"))?);
        Ok(Nodes { nodes: addresses(url)?.iter().map(connect).collect::<Result<_>>()?, clear })
    }
}

impl Server for Nodes {
    fn version(&mut self) -> Result<String> {
        self.nodes.first_mut().ok_or("no node")?.version()
    }

    fn calls(&mut self, named: &[String]) -> Result<u64> {
        self.nodes.iter_mut().map(|node| node.calls(named)).sum()
    }

    fn clear(&mut self) -> Result<()> {
        self.nodes.iter_mut().try_for_each(|node| Ok((self.clear)(node)?))
    }
}
