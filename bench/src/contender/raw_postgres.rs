//! The yardstick of PostgreSQL: what no lock in a row can do without. One statement makes the row its own unless
//! somebody has it, the other gives it back, each prepared and each a commit.

use tokio::runtime::Runtime;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls, Statement};

use super::Contend;
use super::awaited::{runtime, timed};
use crate::Result;

/// Whoever measures may write the locks' table and no other.
const ACQUIRE: &str = "
  INSERT INTO lockwright_locks AS kept VALUES ($1, 1, 'raw', 'held', now() + interval '30 seconds')
  ON CONFLICT (key) DO UPDATE SET version = kept.version + 1, record = 'held', changed = now() + interval '30 seconds'
  WHERE kept.record = 'free' OR kept.changed < now() RETURNING version";
const RELEASE: &str = "
  UPDATE lockwright_locks SET record = 'free', changed = now() WHERE key = $1 AND version = $2 AND record = 'held'";
const KEY: &str = "bench:raw";

pub(super) struct Postgres {
    runtime: Runtime,
    server: Server,
}

struct Server {
    client: Client,
    acquire: Statement,
    release: Statement,
}

impl Postgres {
    pub(super) fn connect(url: &str) -> Result<Self> {
        let runtime = runtime()?;
        let server = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            tokio::spawn(connection);
            let acquire = client.prepare_typed(ACQUIRE, &[Type::TEXT]).await?;
            let release = client.prepare_typed(RELEASE, &[Type::TEXT, Type::INT8]).await?;
            Result::Ok(Server { client, acquire, release })
        })?;
        Ok(Postgres { runtime, server })
    }
}

impl Server {
    async fn pair(&self) -> Result<()> {
        let version: i64 = self.client.query_one(&self.acquire, &[&KEY]).await?.try_get(0)?;
        match self.client.execute(&self.release, &[&KEY, &version]).await? {
            1 => Ok(()),
            _ => Err("somebody else uses its row".into()),
        }
    }
}

impl Contend for Postgres {
    fn pair(&mut self) -> Result<()> {
        self.pairs(1).map(drop)
    }

    fn pairs(&mut self, count: usize) -> Result<Vec<u64>> {
        timed(&self.runtime, count, async || self.server.pair().await)
    }
}
