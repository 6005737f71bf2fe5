//! What a store needs of a database.

use std::sync::{Arc, Weak};
use std::time::Duration;

use lockwright_machines::stores::sql::examination::Examination;
use lockwright_machines::stores::sql::of_connection::Around;

use super::config::Config;
use super::joined::Executor;
use super::pinned::Pinned;
use super::table::{Failure, Table};
use crate::protocol::{Call, Channel, InboxId};
use crate::session::Inbox;
use crate::stores::{BoxFuture, Sink, Subscription};

/// A database with a [`Table`] in it, and how it is spoken to.
pub(crate) trait Database: Table + Executor + Clone {
    /// The text of the schema.
    const SCHEMA: &'static str;
    /// Makes what it says.
    const MAKE: &'static Call;
    /// How it is examined.
    const EXAMINATION: &'static Examination;
    /// What is said on a connection that has a row.
    const AROUND: &'static Around;

    fn config(&self) -> &Config;

    /// How long a statement may last at the server that began there.
    fn longest(&self) -> Duration;

    /// Makes the table where there is none.
    fn make(&self, patience: Duration) -> BoxFuture<'_, Result<(), Failure>>;

    /// What the call of the examination comes to: a name and a value a line.
    fn said(&self, patience: Duration) -> BoxFuture<'_, Result<String, Failure>>;

    /// Listens at an inbox and reports to `sink` until that is gone.
    fn listen(&self, inbox: InboxId, sink: Weak<dyn Sink>) -> BoxFuture<'static, ()>;

    /// Listens on a channel that tells of the lock under `key`, with [sinks](Sink) and work as for any subscription.
    fn hear(&self, channel: Channel<'_>, key: &Arc<str>, sink: Weak<dyn Sink>) -> Subscription {
        let _ = (channel, key, sink);
        Subscription::of(Inbox::Unavailable)
    }

    /// A connection for a session, which the server ends where that is silent for its ttl.
    fn pin(&self) -> BoxFuture<'_, crate::Result<Box<dyn Pinned>>>;

    /// Ends the connections that nobody asks anything on.
    fn close(&self);
}
