//! A connection for a session. It is the server's own: a pooler would give what is kept on it to others.

use futures_util::future::join_all;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Notification};

use super::connection::{Connection, dial_with};
use super::{failure, statements};
use crate::error::{Error, Kind};
use crate::platform::random;
use crate::protocol::{Reply, Request};
use crate::stores::BoxFuture;
use crate::stores::sql::config::Config;
use crate::stores::sql::pinned::Pinned;
use crate::stores::sql::table::Failure;
use crate::time::StoreTime;

/// A setting that a connection is given as it is made. A pooler refuses it, or keeps it from the server.
const MARK: &str = "lockwright.session";

/// Looks whether the server has the mark, and has it end the connection where that is silent for so many milliseconds;
/// before it can do that (PostgreSQL 14), where TCP is silent for so many seconds.
const SETTLE: &str = "
  SELECT current_setting($1, true) = $2,
    CASE WHEN current_setting('server_version_num')::int >= 140000 THEN set_config('idle_session_timeout', $3, false)
    ELSE concat(set_config('tcp_keepalives_idle', $4, false), set_config('tcp_keepalives_interval', $4, false),
      set_config('tcp_keepalives_count', '1', false)) END,
    set_config('lock_timeout', '100', false)";

/// See the [module](self).
struct Session {
    client: Client,
    /// Ends with the connection: nobody is told anything on it.
    heard: UnboundedReceiver<Notification>,
}

/// Makes one.
///
/// # Errors
/// As [`dial_with`], and `invalid_config` where a pooler is between.
pub(super) async fn pin(config: &Config) -> crate::Result<impl Pinned + use<>> {
    let mark = format!("{:032x}", random::number()?);
    let dialled = dial_with(config, Some((MARK, &mark))).await;
    let Connection { client, heard, .. } = dialled.map_err(|error| match error.kind() {
        Kind::Protocol => pooled().caused_by(error),
        _ => error,
    })?;
    let millis = config.ttl.as_millis().clamp(1, i32::MAX as u128).to_string();
    let seconds = (config.ttl.as_secs() / 2).clamp(1, i32::MAX as u64).to_string();
    let given = [&MARK.to_owned(), &mark, &millis, &seconds];
    let given = given.map(|value| (value as &(dyn ToSql + Sync), Type::TEXT));
    let row = client.query_typed_one(SETTLE, &given).await.map_err(|error| failure::of_dialling(&error))?;
    let is_marked: Option<bool> = row.try_get(0).map_err(|error| failure::of_dialling(&error))?;
    if is_marked == Some(true) { Ok(Session { client, heard }) } else { Err(pooled()) }
}

fn pooled() -> Error {
    let message = "what answers there does not hand its settings on to PostgreSQL, as a pooler that gives connections to many: it \
                   cannot keep advisory locks. Give the address of the server itself, or use the layout native";
    Error::new(Kind::InvalidConfig, "connect", message)
}

impl Pinned for Session {
    fn ask<'a>(&'a mut self, requests: &'a [Request]) -> BoxFuture<'a, Result<Vec<Reply>, Failure>> {
        Box::pin(async move {
            let parts = requests.chunk_by(|one, next| one.call.batch && std::ptr::eq(one.call, next.call));
            // All leave at once, in this order.
            let done = join_all(parts.map(|part| statements::execute(&self.client, part, StoreTime(0)))).await;
            let done: Result<Vec<_>, _> = done.into_iter().collect();
            Ok(done.map_err(|error| failure::of_statement(&error))?.concat())
        })
    }

    fn ended(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async { while self.heard.recv().await.is_some() {} })
    }
}
