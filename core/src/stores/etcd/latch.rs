//! The calls that a request about a latch takes.

use lockwright_machines::stores::etcd::latch::{Came, Step, Steps};
use tokio::time::sleep;

use super::client::Etcd;
use super::connection::answered;
use super::failure::{Failure, too_late};
use crate::protocol::Reply;

impl Etcd {
    /// The answer to a request about a latch; none where that is to be asked now.
    pub(super) async fn go_through(&self, mut steps: Steps) -> Result<Option<Reply>, Failure> {
        let mut step = steps.begin();
        loop {
            let came = match step {
                Step::Ask(asked) => Came::Response(self.txn(&asked).await?),
                Step::Grant(seconds) => Came::Granted(self.grant(seconds).await?),
                Step::KeepAlive(lease) => Came::Alive(self.touch(lease).await?),
                Step::Revoke(lease) => {
                    // If it cannot be given back it ends with its time.
                    let _ = self.revoke(lease).await;
                    Came::Nothing
                }
                Step::Rest(time) => {
                    sleep(time).await;
                    Came::Nothing
                }
                Step::Kept => return Ok(None),
                Step::Answer(reply) => return Ok(Some(reply)),
                Step::TooLate => return Err(Failure::Slow(too_late())),
            };
            step = steps.go_on(came);
        }
    }

    async fn grant(&self, seconds: i64) -> Result<i64, Failure> {
        let granted =
            self.over_a_line(|client| async move { answered(client.lease_client().grant(seconds, None).await) });
        Ok(granted.await?.id())
    }

    /// Has a lease last for its time from now on; whether it is there.
    async fn touch(&self, lease: i64) -> Result<bool, Failure> {
        let touched = self.over_a_line(|client| async move {
            match client.lease_client().keep_alive(lease).await {
                Err(etcd_client::Error::LeaseKeepAliveError(_)) => Ok(false),
                touched => answered(touched).map(|_| true),
            }
        });
        touched.await
    }

    async fn revoke(&self, lease: i64) -> Result<(), Failure> {
        let given = self.over_a_line(|client| async move { answered(client.lease_client().revoke(lease).await) });
        given.await.map(drop)
    }
}
