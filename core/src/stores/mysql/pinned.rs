//! A connection for a session.

use std::time::Duration;

use super::connection::{Dialled, dial};
use super::line::Line;
use super::{failure, statements};
use crate::protocol::{Reply, Request};
use crate::stores::BoxFuture;
use crate::stores::sql::config::Config;
use crate::stores::sql::pinned::Pinned;
use crate::stores::sql::table::Failure;

/// See the [module](self).
struct Session(Line);

/// Makes one, on which a statement may last for `longest`.
///
/// # Errors
/// As [`dial`]. Whether the table of records can be used makes no difference.
pub(super) async fn pin(config: &Config, longest: Duration) -> crate::Result<impl Pinned + use<>> {
    let Dialled { mut line, .. } = dial(config, longest).await?;
    let answers = line.say(&statements::end_silent(config.ttl)).await.map_err(failure::of_line)?;
    match &answers.refused {
        Some(said) => Err(failure::of_server(said)),
        None => Ok(Session(line)),
    }
}

impl Pinned for Session {
    fn ask<'a>(&'a mut self, requests: &'a [Request]) -> BoxFuture<'a, Result<Vec<Reply>, Failure>> {
        Box::pin(async move {
            let answers = self.0.say(&statements::asking(requests)).await;
            statements::executed(requests, answers.map_err(|broken| Failure::Unknown(failure::of_line(broken)))?)
        })
    }

    fn ended(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.ended())
    }
}
