//! One database: a connection for statements, and one more that listens while somebody waits.

use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use lockwright_machines::store_clock::StoreClock;
use lockwright_machines::stores::postgres::layouts::native;
use tokio::time::timeout;
use tokio_postgres::{Client, Statement};

use super::config::Config;
use super::connection::{Connection, dial};
use super::{failure, inbox, statements};
use crate::error::{Error, Kind};
use crate::platform::mutex::locked;
use crate::platform::{clock, runtime};
use crate::protocol::{InboxId, Layout, Reply, Requests};
use crate::session::Inbox;
use crate::stores::sql::records::Records;
use crate::stores::sql::table::{Change, Exchanged, Failure, Listed, Range, Table, Window};
use crate::stores::{Answered, BoxFuture, Closing, Ends, Outcome, Schema, Sink, Store, Subscription, Topic, not_sent};
use crate::time::{StoreTime, Time};

/// See the [module](super).
pub(crate) struct Postgres {
    records: Arc<Records<Arc<Database>>>,
    layouts: [Arc<dyn Layout>; 1],
    closing: Closing,
}

/// The database, and the connection to it.
pub(super) struct Database {
    pub(super) config: Config,
    line: Mutex<Option<Arc<Line>>>,
    dialling: Arc<tokio::sync::Mutex<()>>,
    clock: Arc<StoreClock>,
}

/// A connection for statements.
struct Line {
    client: Client,
    /// Where the server keeps it, once it does.
    exchange: OnceLock<Statement>,
}

impl Postgres {
    /// Does nothing yet: the first request dials.
    pub(super) fn new(config: Config) -> Self {
        let (layout, response_timeout) = (native::layout(&config.prefix), config.response_timeout);
        let clock = Arc::new(StoreClock::default());
        let (line, dialling) = (Mutex::default(), Arc::default());
        let database = Arc::new(Database { config, line, dialling, clock: clock.clone() });
        Postgres {
            records: Arc::new(Records::new(database, clock, response_timeout)),
            layouts: [Arc::new(layout)],
            closing: Closing::default(),
        }
    }
}

impl Database {
    /// The connection, dialled if there is none. It is made though whoever asks for it gives up meanwhile: the next to
    /// ask will have it.
    async fn line(self: &Arc<Self>) -> crate::Result<Arc<Line>> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let dialling = self.dialling.clone().lock_owned().await;
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let database = self.clone();
        let dialled = runtime::handle()?.spawn(async move {
            let _dialling = dialling;
            let Connection { client, is_direct, now, .. } = dial(&database.config).await?;
            database.clock.learn(clock::now(), now);
            let line = Arc::new(Line { client, exchange: OnceLock::new() });
            *locked(&database.line) = Some(line.clone());
            if is_direct {
                // Nobody waits for it: until then the statement is sent each time.
                let line = line.clone();
                tokio::spawn(
                    async move { statements::prepare(&line.client).await.map(|kept| line.exchange.set(kept)) },
                );
            }
            Ok(line)
        });
        dialled.await.unwrap_or_else(|ended| {
            Err(Error::new(Kind::Internal, "connect", "the making of a connection ended early").caused_by(ended))
        })
    }

    fn known(&self) -> Option<Arc<Line>> {
        locked(&self.line).clone().filter(|line| !line.client.is_closed())
    }

    /// What `asks` comes to. A connection that does not answer is not used again.
    async fn over_the_line<T>(
        self: &Arc<Self>,
        patience: Duration,
        asks: impl AsyncFnOnce(&Line) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, Failure> {
        let line = self.line().await.map_err(Failure::NotDone)?;
        match timeout(patience, asks(&line)).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => {
                let failure = failure::of_statement(&error);
                if matches!(failure, Failure::Unknown(_)) {
                    self.hang_up(&line);
                }
                Err(failure)
            }
            Err(_) => {
                self.hang_up(&line);
                Err(Failure::Unknown(silent()))
            }
        }
    }

    fn hang_up(&self, line: &Arc<Line>) {
        let mut known = locked(&self.line);
        if known.as_ref().is_some_and(|known| Arc::ptr_eq(known, line)) {
            *known = None;
        }
    }

    async fn make(self: &Arc<Self>, limit: Time) -> Answered {
        let sent = clock::now();
        let made =
            self.over_the_line(limit.since(sent), async |line: &Line| statements::make(&line.client).await).await;
        match made {
            Ok(()) => Answered { sent, outcome: Outcome::Replies(vec![Reply::Nil]) },
            // Made or not, it may be asked for again.
            Err(Failure::NotDone(error) | Failure::Unknown(error)) => not_sent(error),
            Err(Failure::Again) => not_sent(silent()),
        }
    }

    /// Has whoever listens at `inbox` told `text`.
    pub(super) async fn tell(self: &Arc<Self>, inbox: InboxId, text: &str) -> Result<(), Failure> {
        let patience = self.config.response_timeout;
        self.over_the_line(patience, async |line: &Line| statements::tell(&line.client, inbox, text).await).await
    }
}

fn silent() -> Error {
    let message = "the database did not answer in time; see whether it runs and is reachable";
    Error::new(Kind::Unavailable, "connect", message)
}

impl Table for Arc<Database> {
    fn exchange<'a>(&'a self, changes: &'a [Change], window: Window) -> BoxFuture<'a, Result<Exchanged, Failure>> {
        let asks =
            async move |line: &Line| statements::exchange(&line.client, line.exchange.get(), changes, window).await;
        Box::pin(self.over_the_line(window.patience, asks))
    }

    fn page<'a>(
        &'a self,
        range: Range<'a>,
        patience: Duration,
    ) -> BoxFuture<'a, Result<(Vec<Listed>, StoreTime), Failure>> {
        Box::pin(self.over_the_line(patience, async move |line: &Line| statements::page(&line.client, range).await))
    }

    fn remove<'a>(&'a self, rows: &'a [(Arc<str>, i64)], patience: Duration) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(self.over_the_line(patience, async move |line: &Line| statements::remove(&line.client, rows).await))
    }
}

/// Ends the listening at an inbox.
#[derive(Default)]
struct Wanted(Closing);

impl Ends for Wanted {
    fn ended(&self) {
        self.0.close();
    }
}

impl Store for Postgres {
    fn address(&self) -> &Arc<str> {
        &self.records.table.config.address
    }

    fn layouts(&self) -> &[Arc<dyn Layout>] {
        &self.layouts
    }

    fn call_async<'a>(&'a self, requests: &'a Requests, limit: Time) -> BoxFuture<'a, Answered> {
        Box::pin(async move {
            if matches!(requests.as_slice(), [request] if std::ptr::eq(request.call, &raw const native::MAKE)) {
                return self.records.table.make(limit).await;
            }
            let answered = self.records.perform(requests, limit).await;
            if self.records.is_to_be_swept()
                && let Ok(handle) = runtime::handle()
            {
                let records = self.records.clone();
                handle.spawn(async move { records.sweep().await });
            }
            answered
        })
    }

    fn void_after(&self, given_up: Time, _: Time) -> Time {
        self.records.void_after(given_up)
    }

    fn subscribe(self: Arc<Self>, topic: Topic<'_>, sink: Weak<dyn Sink>) -> Subscription {
        let Topic::Inbox(inbox) = topic else { return Subscription::of(Inbox::Unavailable) };
        let wanted = Arc::new(Wanted::default());
        let ends = wanted.clone();
        let listen = move || -> BoxFuture<'static, ()> {
            let (store, sink, wanted) = (self.clone(), sink.clone(), wanted.clone());
            Box::pin(async move {
                let listens = wanted.0.cuts_short(inbox::listen(store.records.table.clone(), inbox, sink));
                store.closing.cuts_short(listens).await;
            })
        };
        Subscription::of(Inbox::Closed).until(ends).in_background(Box::new(listen))
    }

    fn schema(&self) -> Option<Schema<'_>> {
        Some(Schema { text: native::SCHEMA, make: native::make() })
    }

    fn close(&self) {
        self.closing.close();
        *locked(&self.records.table.line) = None;
    }
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Postgres({})", self.records.table.config.address)
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Database({:?})", self.config)
    }
}
