//! Several Redis servers that are one place together.

use super::{Redis, Server};
use crate::Result;

/// Since when a node has forgotten nothing; one without it is young, and does not count for a while.
const MARKER: &str = "lwq:{}";

pub(super) struct Quorum {
    nodes: Vec<Redis>,
}

impl Quorum {
    pub(super) fn connect(url: &str) -> Result<Self> {
        let nodes = url.split(' ').map(|node| Ok(Redis::connect(node)?)).collect::<Result<_>>()?;
        Ok(Quorum { nodes })
    }
}

impl Server for Quorum {
    fn version(&mut self) -> Result<String> {
        self.nodes.first_mut().ok_or("no node")?.version()
    }

    fn calls(&mut self, named: &[String]) -> Result<u64> {
        self.nodes.iter_mut().map(|node| node.calls(named)).sum()
    }

    fn clear(&mut self) -> Result<()> {
        self.nodes.iter_mut().try_for_each(|node| Ok(node.clear_but(MARKER)?))
    }
}
