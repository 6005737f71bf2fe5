//! The yardstick of a quorum: what no lock on all of its nodes can do without. Each script of the raw pair is sent to
//! every node before the first answer is awaited.

use redis::{Connection, RedisResult, Value};

use super::Contend;
use super::raw::{KEY, Scripts};
use crate::Result;

pub(super) struct Quorum {
    nodes: Vec<Connection>,
    requests: [Vec<u8>; 2],
}

impl Quorum {
    pub(super) fn connect(url: &str) -> Result<Self> {
        let dial = |node| redis::Client::open(node)?.get_connection();
        let mut nodes = url.split(' ').map(dial).collect::<RedisResult<Vec<_>>>()?;
        let scripts = Scripts::new();
        for node in &mut nodes {
            scripts.acquire.load(node)?;
            scripts.release.load(node)?;
        }
        Ok(Quorum { nodes, requests: scripts.packed(KEY) })
    }
}

fn ask_all(nodes: &mut [Connection], request: &[u8]) -> Result<()> {
    for node in nodes.iter_mut() {
        node.send_packed_command(request)?;
    }
    for node in nodes {
        if node.recv_response()?.extract_error()? == Value::Nil {
            return Err("somebody else uses its key".into());
        }
    }
    Ok(())
}

impl Contend for Quorum {
    fn pair(&mut self) -> Result<()> {
        let Quorum { nodes, requests } = self;
        requests.iter().try_for_each(|request| ask_all(nodes, request))
    }
}
