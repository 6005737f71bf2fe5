//! One database: a connection for statements, and one more that listens while somebody waits.

use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use lockwright_machines::store_clock::StoreClock;
use lockwright_machines::stores::postgres::layouts::examination::EXAMINATION;
use lockwright_machines::stores::postgres::layouts::{self, for_update, native};
use lockwright_machines::stores::sql::examination::Examination;
use lockwright_machines::stores::sql::of_connection::Around;
use tokio::time::timeout;
use tokio_postgres::Client;

use super::channels::Channels;
use super::connection::{Connection, dial};
use super::statements::Kept;
use super::{failure, inbox, pinned, statements};
use crate::error::{Error, Kind};
use crate::platform::mutex::locked;
use crate::platform::{clock, runtime};
use crate::protocol::{Call, Channel, InboxId, Reply, Request};
use crate::stores::sql::config::Config;
use crate::stores::sql::database;
use crate::stores::sql::joined::Executor;
use crate::stores::sql::patience::silent;
use crate::stores::sql::pinned::Pinned;
use crate::stores::sql::store::SqlStore;
use crate::stores::sql::table::{Change, Exchanged, Failure, Listed, Range, Table, Update, Window};
use crate::stores::{BoxFuture, Sink, Store, Subscription};
use crate::time::StoreTime;

/// The database, and the connection to it.
pub(super) struct Database {
    pub(super) config: Config,
    line: Mutex<Option<Arc<Line>>>,
    dialling: Arc<tokio::sync::Mutex<()>>,
    clock: Arc<StoreClock>,
    channels: Arc<Channels>,
}

/// A connection for statements.
struct Line {
    client: Client,
    /// It is ours alone.
    is_direct: bool,
    /// Where the server keeps them, once it does.
    kept: OnceLock<Kept>,
}

/// A store of that database. Sends nothing.
pub(super) fn store(config: Config) -> Arc<dyn Store> {
    let (layouts, clock) = (layouts::all(&config.prefix, config.ttl), Arc::new(StoreClock::default()));
    let (line, dialling) = (Mutex::default(), Arc::default());
    let database = Arc::new(Database { config, line, dialling, clock: clock.clone(), channels: Arc::default() });
    Arc::new(SqlStore::new(database, clock, layouts))
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
            let line = Arc::new(Line { client, is_direct, kept: OnceLock::new() });
            *locked(&database.line) = Some(line.clone());
            if is_direct {
                // Nobody waits for them: until then a statement's text is sent each time.
                let line = line.clone();
                tokio::spawn(async move { statements::prepare(&line.client).await.map(|kept| line.kept.set(kept)) });
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
        // Where it is, since it is large.
        let asks = pin!(asks(&line));
        match timeout(patience, asks).await {
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

    /// Has whoever listens at `inbox` told `text`.
    pub(super) async fn tell(self: &Arc<Self>, inbox: InboxId, text: &str) -> Result<(), Failure> {
        let patience = self.config.response_timeout;
        self.over_the_line(patience, async |line: &Line| statements::tell(&line.client, inbox, text).await).await
    }
}

impl Table for Arc<Database> {
    async fn exchange(&self, changes: &[&Change], window: Window) -> Result<Exchanged, Failure> {
        let asks = async |line: &Line| statements::exchange(&line.client, line.kept.get(), changes, window).await;
        self.over_the_line(window.patience, asks).await
    }

    async fn update(&self, update: Update<'_>, window: Window) -> Result<Option<StoreTime>, Failure> {
        let asks = async |line: &Line| statements::update(&line.client, line.kept.get(), update, window).await;
        self.over_the_line(window.patience, asks).await
    }

    async fn page(&self, range: Range<'_>, patience: Duration) -> Result<(Vec<Listed>, StoreTime), Failure> {
        self.over_the_line(patience, async |line: &Line| statements::page(&line.client, range).await).await
    }

    async fn remove(&self, rows: &[(Arc<str>, i64)], patience: Duration) -> Result<(), Failure> {
        self.over_the_line(patience, async |line: &Line| statements::remove(&line.client, rows).await).await
    }
}

impl Executor for Arc<Database> {
    const CLOCK: &'static Call = &native::CLOCK;

    fn execute<'a>(
        &'a self,
        requests: &'a [Request],
        not_after: StoreTime,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Vec<Reply>, Failure>> {
        let asks = async move |line: &Line| statements::execute(&line.client, requests, not_after).await;
        Box::pin(self.over_the_line(patience, asks))
    }
}

impl database::Database for Arc<Database> {
    const SCHEMA: &'static str = native::SCHEMA;
    const MAKE: &'static Call = &native::MAKE;
    const EXAMINATION: &'static Examination = &EXAMINATION;
    const AROUND: &'static Around = &for_update::AROUND;

    fn config(&self) -> &Config {
        &self.config
    }

    fn longest(&self) -> Duration {
        self.config.response_timeout
    }

    fn make(&self, patience: Duration) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(self.over_the_line(patience, async |line: &Line| statements::make(&line.client).await))
    }

    fn said(&self, patience: Duration) -> BoxFuture<'_, Result<String, Failure>> {
        let asks = async |line: &Line| statements::said(&line.client, line.is_direct).await;
        Box::pin(self.over_the_line(patience, asks))
    }

    fn listen(&self, inbox: InboxId, sink: Weak<dyn Sink>) -> BoxFuture<'static, ()> {
        Box::pin(inbox::listen(self.clone(), inbox, sink))
    }

    fn pin(&self) -> BoxFuture<'_, crate::Result<Box<dyn Pinned>>> {
        Box::pin(async { Ok(Box::new(pinned::pin(&self.config).await?) as Box<dyn Pinned>) })
    }

    fn hear(&self, channel: Channel<'_>, key: &Arc<str>, sink: Weak<dyn Sink>) -> Subscription {
        self.channels.hear(self, channel, key, sink)
    }

    fn close(&self) {
        *locked(&self.line) = None;
        self.channels.close();
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Database({:?})", self.config)
    }
}
