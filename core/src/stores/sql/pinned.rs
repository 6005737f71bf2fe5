//! A connection to a database that something is bound to.

use super::table::Failure;
use crate::protocol::{Reply, Request};
use crate::stores::BoxFuture;

/// A connection that nobody else uses.
pub(crate) trait Pinned: Send {
    /// What `requests` come to, each a row.
    fn ask<'a>(&'a mut self, requests: &'a [Request]) -> BoxFuture<'a, Result<Vec<Reply>, Failure>>;

    /// Ends when the connection does.
    fn ended(&mut self) -> BoxFuture<'_, ()>;
}
