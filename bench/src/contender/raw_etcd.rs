//! The yardstick of etcd: what no lock over its transactions can do without. One creates a key under a lease, if it is
//! not there, and reads whose is the first in line; the other deletes the key, if it is the one that was created.

use etcd_client::{Client, Compare, CompareOp, GetOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp};
use tokio::runtime::Runtime;

use super::Contend;
use super::awaited::{runtime, timed};
use crate::Result;
use crate::server::address;

const LINE: &str = "bench:raw/";
const KEY: &str = "bench:raw/own";

/// Longer than a row takes; nothing renews it.
const LEASE_SECONDS: i64 = 3600;

pub(super) struct Etcd {
    runtime: Runtime,
    client: Client,
    lease: i64,
}

impl Etcd {
    pub(super) fn connect(url: &str) -> Result<Self> {
        let runtime = runtime()?;
        let (client, lease) = runtime.block_on(async {
            let mut client = Client::connect([address(url)?], None).await?;
            let lease = client.lease_grant(LEASE_SECONDS, None).await?.id();
            Result::Ok((client, lease))
        })?;
        Ok(Etcd { runtime, client, lease })
    }
}

async fn pair(client: &mut Client, lease: i64) -> Result<()> {
    let put = TxnOp::put(KEY, "", Some(PutOptions::new().with_lease(lease)));
    let order = GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Ascend).with_limit(1);
    let first = TxnOp::get(LINE, Some(order));
    let absent = Compare::create_revision(KEY, CompareOp::Equal, 0);
    let created = client.txn(Txn::new().when([absent]).and_then([put, first])).await?;
    let revision = created.header().ok_or("no revision")?.revision();
    let own = Compare::create_revision(KEY, CompareOp::Equal, revision);
    let deleted = client.txn(Txn::new().when([own]).and_then([TxnOp::delete(KEY, None)])).await?;
    if created.succeeded() && deleted.succeeded() { Ok(()) } else { Err("somebody else uses its key".into()) }
}

impl Contend for Etcd {
    fn pair(&mut self) -> Result<()> {
        self.pairs(1).map(drop)
    }

    fn pairs(&mut self, count: usize) -> Result<Vec<u64>> {
        let Etcd { runtime, client, lease } = self;
        timed(runtime, count, async || pair(client, *lease).await)
    }
}
