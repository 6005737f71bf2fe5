//! One database, and a few connections to it.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use lockwright_machines::store_clock::StoreClock;
use lockwright_machines::stores::mysql::layouts::examination::EXAMINATION;
use lockwright_machines::stores::mysql::layouts::{self, for_update, native};
use lockwright_machines::stores::sql::examination::Examination;
use lockwright_machines::stores::sql::of_connection::Around;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::connection::{Dialled, dial};
use super::line::{Answers, Broken, Line, Question};
use super::{failure, inbox, pinned, statements};
use crate::error::{Error, Kind};
use crate::platform::mutex::locked;
use crate::platform::{clock, runtime};
use crate::protocol::{Call, InboxId, Reply, Request};
use crate::stores::sql::config::Config;
use crate::stores::sql::database;
use crate::stores::sql::joined::Executor;
use crate::stores::sql::patience::silent;
use crate::stores::sql::pinned::Pinned;
use crate::stores::sql::store::SqlStore;
use crate::stores::sql::table::{Change, Exchanged, Failure, Listed, Range, Table, Update, Window};
use crate::stores::{BoxFuture, Sink, Store};
use crate::time::StoreTime;

/// Connections of a client at most: a statement that waits for somebody's row keeps no others waiting, and commits of
/// several are kept together.
const LINES: usize = 4;

/// A store of that database. Sends nothing.
pub(super) fn store(config: Config) -> Arc<dyn Store> {
    let (layouts, clock) = (layouts::all(&config.prefix, config.ttl), Arc::new(StoreClock::default()));
    let (lines, idle) = (Arc::new(Semaphore::new(LINES)), Mutex::new(Some(Vec::new())));
    let database = Arc::new(Database { config, lines, idle, clock: clock.clone() });
    Arc::new(SqlStore::new(database, clock, layouts))
}

/// The database, and the connections to it.
pub(super) struct Database {
    config: Config,
    /// As many as may still be used.
    lines: Arc<Semaphore>,
    /// Those that nobody uses. None is kept once the client is closed, whose last statements may end after that.
    idle: Mutex<Option<Vec<Line>>>,
    clock: Arc<StoreClock>,
}

impl Database {
    /// What comes of it. It is waited for though whoever asks gives up meanwhile, so that the next to use the
    /// connection finds nothing of it.
    async fn ask(self: &Arc<Self>, question: impl Into<Question>, patience: Duration) -> Result<Answers, Failure> {
        let (began, question) = (clock::now(), question.into());
        let permit = match timeout(patience, self.lines.clone().acquire_owned()).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) | Err(_) => return Err(Failure::NotDone(silent())),
        };
        let database = self.clone();
        let asks = async move {
            let _permit = permit;
            let mut line = database.line().await.map_err(Failure::NotDone)?;
            let patience = patience.saturating_sub(clock::now().since(began));
            match timeout(patience, line.ask(&question)).await {
                // What is left open by what was refused ends with its connection.
                Ok(Ok(answers)) if answers.refused.is_some() => Ok(answers),
                Ok(Ok(answers)) => {
                    database.keep(line);
                    Ok(answers)
                }
                Ok(Err(Broken::Garbled(error))) if error.kind() == Kind::Unsupported => Err(Failure::NotDone(error)),
                Ok(Err(broken)) => Err(Failure::Unknown(failure::of_line(broken))),
                Err(_) => Err(Failure::Unknown(silent())),
            }
        };
        let asked = runtime::handle().map_err(Failure::NotDone)?.spawn(asks);
        asked.await.unwrap_or_else(|ended| {
            Err(Failure::Unknown(Error::new(Kind::Internal, "connect", "a statement ended early").caused_by(ended)))
        })
    }

    fn keep(&self, line: Line) {
        if let Some(idle) = &mut *locked(&self.idle) {
            idle.push(line);
        }
    }

    /// A connection that nobody uses, or a new one.
    async fn line(&self) -> crate::Result<Line> {
        loop {
            let idle = locked(&self.idle).as_mut().and_then(Vec::pop);
            match idle {
                Some(mut line) => {
                    if line.is_idle().await {
                        return Ok(line);
                    }
                }
                None => {
                    let Dialled { line, now } = dial(&self.config, longest(&self.config)).await?;
                    self.clock.learn(clock::now(), now?);
                    return Ok(line);
                }
            }
        }
    }

    /// What the database says of itself, over a connection of its own: also one whose table cannot be used.
    async fn said(config: &Config) -> Result<String, Failure> {
        let Dialled { mut line, .. } = dial(config, longest(config)).await.map_err(Failure::NotDone)?;
        let answers = line.say(&statements::examine()).await;
        answers.map(statements::said).map_err(|broken| Failure::NotDone(failure::of_line(broken)))
    }

    /// What `inbox` was told since, besides what it heard.
    pub(super) async fn hear(
        self: &Arc<Self>,
        inbox: InboxId,
        heard: &[i64],
        is_first: bool,
    ) -> Result<Vec<(i64, String)>, Failure> {
        statements::told(self.ask(statements::hear(inbox, heard, is_first), self.config.response_timeout).await?)
    }
}

/// The server counts whole seconds.
fn longest(config: &Config) -> Duration {
    Duration::from_secs(config.response_timeout.as_millis().div_ceil(1000).max(1) as u64)
}

impl Table for Arc<Database> {
    async fn exchange(&self, changes: &[&Change], window: Window) -> Result<Exchanged, Failure> {
        let statements = statements::exchange(changes, window).map_err(Failure::NotDone)?;
        statements::exchanged(changes, window, self.ask(statements, window.patience).await?)
    }

    async fn update(&self, update: Update<'_>, window: Window) -> Result<Option<StoreTime>, Failure> {
        statements::updated(self.ask(statements::update(update, window), window.patience).await?)
    }

    async fn page(&self, range: Range<'_>, patience: Duration) -> Result<(Vec<Listed>, StoreTime), Failure> {
        statements::paged(self.ask(statements::page(range), patience).await?)
    }

    async fn remove(&self, rows: &[(Arc<str>, i64)], patience: Duration) -> Result<(), Failure> {
        statements::refused(&self.ask(statements::remove(rows), patience).await?)
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
        Box::pin(async move {
            let answers = Database::ask(self, statements::executing(requests, not_after), patience).await?;
            statements::executed(requests, answers)
        })
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
        longest(&self.config)
    }

    fn make(&self, patience: Duration) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async move { statements::refused(&self.ask(native::SCHEMA.to_owned(), patience).await?) })
    }

    fn said(&self, patience: Duration) -> BoxFuture<'_, Result<String, Failure>> {
        Box::pin(async move {
            let database = self.clone();
            let asks = async move { timeout(patience, Database::said(&database.config)).await };
            let asked = runtime::handle().map_err(Failure::NotDone)?.spawn(asks).await;
            asked.ok().and_then(Result::ok).unwrap_or_else(|| Err(Failure::NotDone(silent())))
        })
    }

    fn listen(&self, inbox: InboxId, sink: Weak<dyn Sink>) -> BoxFuture<'static, ()> {
        Box::pin(inbox::listen(self.clone(), inbox, sink))
    }

    fn pin(&self) -> BoxFuture<'_, crate::Result<Box<dyn Pinned>>> {
        Box::pin(async { Ok(Box::new(pinned::pin(&self.config, longest(&self.config)).await?) as Box<dyn Pinned>) })
    }

    fn close(&self) {
        drop(locked(&self.idle).take());
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Database({:?})", self.config)
    }
}
