//! The open file: one connection, used by one thread at a time, and only while the process cannot fork.
//!
//! A transaction takes some ten microseconds and SQLite lets only one process write at a time, so a second connection
//! would wait where the first one works. Nothing sleeps while it keeps the process from forking or the other threads
//! from the file: a file that another process is writing is tried again after a pause outside.

use std::cell::RefCell;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use lockwright_machines::cell_layout;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row};

use super::config::Config;
use super::database::Database;
use super::host::{self, Host};
use super::inbox::{self, Inboxes};
use super::layouts::marker_row;
use super::layouts::record_rows::{self, Env};
use super::place::{self, Seen};
use crate::error::{Error, Kind};
use crate::platform::clock;
use crate::platform::fork::{self, Gate};
use crate::protocol::{InboxId, Reply, Request, StoreEvent};
use crate::stores::{Answered, Outcome};
use crate::time::{StoreTime, Time};

/// "lock" in ASCII, in the place that SQLite keeps for it in every file's header.
const APPLICATION_ID: i32 = 0x6C6F_636B;
/// Written beside it; another number is another schema.
const SCHEMA_VERSION: i32 = 6;
/// The statements of all layouts fit.
const STATEMENTS: usize = 64;
/// Renewals in one transaction: some milliseconds.
const BATCH: usize = 256;
/// First and longest pause before trying a file again that another process is writing. Most writes are done within the
/// first.
const PAUSE: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(2));
/// One lock file.
#[derive(Debug)]
pub(super) struct LockFile {
    config: Config,
    inboxes: Inboxes,
    open: Mutex<Option<Open>>,
    replaced: AtomicU64,
}

#[derive(Debug)]
struct Open {
    database: Database,
    host: Host,
    /// The file past all links, and what was seen there.
    path: PathBuf,
    seen: Seen,
    /// When SQLite is to give up what it is about, in nanoseconds of our clock.
    over: Arc<AtomicU64>,
    writes: AtomicU64,
}

/// The first of so many writes by one opening removes rows that nobody used for long: what is in them goes also where
/// no new names come, which make room for themselves.
const TIDY: u64 = 1024;

/// Why a try ended without an answer.
enum Failed {
    /// Another process is writing: try again.
    Busy,
    /// Nothing was done.
    NotSent(Error),
    /// It failed while it was being made permanent.
    InCommit(Error),
}

/// A transaction's replies, when it began, and what to push now that it is committed: to whom, on which key, and what.
type Done = (Time, Vec<Reply>, Vec<(InboxId, Arc<str>, StoreEvent)>);

/// The inboxes that were found to listen, connected.
type Reached = RefCell<Vec<(InboxId, UnixDatagram)>>;

impl LockFile {
    pub(super) fn new(config: Config) -> Self {
        LockFile {
            inboxes: Inboxes::new(config.path.clone()),
            config,
            open: Mutex::new(None),
            replaced: AtomicU64::new(0),
        }
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn address(&self) -> &Arc<str> {
        &self.config.address
    }

    pub(super) fn response_timeout(&self) -> Duration {
        self.config.response_timeout
    }

    pub(super) fn inboxes(&self) -> &Inboxes {
        &self.inboxes
    }

    /// How often the file was found to be another one than was opened.
    pub(super) fn replaced(&self) -> u64 {
        self.replaced.load(Ordering::Relaxed)
    }

    /// Executes all requests in one transaction; gives up a file that stays busy at `limit`.
    pub(super) fn perform(&self, requests: &[Request], limit: Time) -> Answered {
        let mut pause = PAUSE.0;
        loop {
            let reached = Reached::default();
            let tried = match fork::gate() {
                Some(gate) => self.transact(&gate, requests, limit, &reached),
                None => Err(Failed::NotSent(stranded(operation(requests)))),
            };
            let now = clock::now();
            match tried {
                Ok((sent, replies, pushes)) => {
                    self.push(&reached.into_inner(), &pushes);
                    return Answered { sent, outcome: Outcome::Replies(replies) };
                }
                Err(Failed::Busy) if now < limit => {
                    std::thread::sleep(pause.min(limit.since(now)));
                    pause = (pause * 2).min(PAUSE.1);
                }
                Err(Failed::Busy) => return self.was_busy(requests),
                Err(Failed::NotSent(error)) => {
                    return Answered { sent: now, outcome: Outcome::NotSent(self.placed(error)) };
                }
                Err(Failed::InCommit(error)) => {
                    // Once the call is over nothing of it can still be on its way.
                    let outcome = Outcome::Unknown { error: self.placed(error), void_after: now };
                    return Answered { sent: now, outcome };
                }
            }
        }
    }

    /// The answer when nothing was done because the file was never free.
    pub(super) fn was_busy(&self, requests: &[Request]) -> Answered {
        let message = "the lock file was busy all the time; see whether a process that uses it is stopped, or whether its disk \
                       is slow";
        let error = Error::new(Kind::Unavailable, operation(requests), message);
        Answered { sent: clock::now(), outcome: Outcome::NotSent(self.placed(error)) }
    }

    /// Closes the file; the next request opens it again.
    pub(super) fn close(&self) {
        let Some(gate) = fork::gate() else { return };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = open.take() {
            open.database.close(&gate);
        }
    }

    /// The same in several transactions, so that many requests do not keep the file from others for long.
    pub(super) fn perform_many(&self, requests: &[Request], limit: Time) -> Answered {
        let mut replies = Vec::with_capacity(requests.len());
        let mut first = None;
        for part in requests.chunks(BATCH) {
            let Answered { sent, outcome } = self.perform(part, limit);
            let sent = *first.get_or_insert(sent);
            match outcome {
                Outcome::Replies(more) => replies.extend(more),
                Outcome::NotSent(error) if !replies.is_empty() => {
                    return Answered { sent, outcome: Outcome::Unknown { error, void_after: clock::now() } };
                }
                other => return Answered { sent, outcome: other },
            }
        }
        Answered { sent: first.unwrap_or_else(clock::now), outcome: Outcome::Replies(replies) }
    }

    fn placed(&self, error: Error) -> Error {
        error.on_store(self.config.address.clone())
    }

    fn push(&self, reached: &[(InboxId, UnixDatagram)], pushes: &[(InboxId, Arc<str>, StoreEvent)]) {
        for (inbox, key, event) in pushes {
            match reached.iter().find(|(id, _)| id == inbox) {
                Some((_, socket)) => inbox::push(socket, key, event),
                None => {
                    if let Some(socket) = self.inboxes.reach(*inbox) {
                        inbox::push(&socket, key, event);
                    }
                }
            }
        }
    }

    fn transact(&self, gate: &Gate, requests: &[Request], limit: Time, reached: &Reached) -> Result<Done, Failed> {
        let mut slot = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let open = match &mut *slot {
            Some(open) => open,
            None => slot.insert(self.open_file(gate, limit)?),
        };
        let Some(db) = open.database.get(gate) else {
            let message = "this client was made before a fork; make another one in the child";
            return Err(Failed::NotSent(Error::new(Kind::Forked, operation(requests), message)));
        };
        open.over.store(limit.as_nanos(), Ordering::Relaxed);
        let done = self.execute(db, open, requests, limit, reached);
        match &done {
            Ok(_) | Err(Failed::Busy) => {}
            // Whatever is wrong with the file, the next try begins by looking at it anew.
            Err(_) => {
                if let Some(open) = slot.take() {
                    open.database.close(gate);
                }
            }
        }
        done
    }

    fn execute(
        &self,
        db: &Connection,
        open: &Open,
        requests: &[Request],
        limit: Time,
        reached: &Reached,
    ) -> Result<Done, Failed> {
        let failed = |error| self.explain(operation(requests), error);
        let looks = requests.iter().all(cell_layout::only_looks);
        let transaction = Transaction::begin(db, if looks { "BEGIN" } else { "BEGIN IMMEDIATE" }).map_err(failed)?;
        self.check_place(open, operation(requests)).map_err(Failed::NotSent)?;
        let sent = clock::now();
        // Whoever stopped waiting for this takes it for never done once its limit is well past.
        if sent > limit {
            return Err(Failed::Busy);
        }
        let now = StoreTime(i64::try_from(sent.as_nanos() / 1000).unwrap_or(i64::MAX));
        let alive = |inbox: InboxId| match self.inboxes.reach(inbox) {
            Some(socket) => {
                reached.borrow_mut().push((inbox, socket));
                true
            }
            None => false,
        };
        let gone = |process: &str| open.host.is_gone(process);
        let env = Env {
            now,
            clock: &open.host.clock,
            wall: clock::wall(),
            process: open.host.process(),
            alive: &alive,
            gone: &gone,
        };
        if !looks && open.writes.fetch_add(1, Ordering::Relaxed).is_multiple_of(TIDY) {
            record_rows::tidy(db, &env).map_err(failed)?;
        }
        let (mut replies, mut pushes) = (Vec::with_capacity(requests.len()), Vec::new());
        for request in requests {
            let (reply, events) = record_rows::run(db, &env, request).map_err(failed)?;
            replies.push(reply);
            pushes.extend(events.into_iter().map(|(inbox, event)| (inbox, request.key.clone(), event)));
        }
        match transaction.commit() {
            Ok(()) => Ok((sent, replies, pushes)),
            Err(error) => Err(match failed(error) {
                Failed::NotSent(error) => Failed::InCommit(error),
                other => other,
            }),
        }
    }

    /// Whether the path still leads to the open file, which still has no other name.
    fn check_place(&self, open: &Open, operation: &'static str) -> Result<(), Error> {
        match place::see(&self.config.path) {
            Ok(seen) if seen == open.seen => Ok(()),
            Ok(seen) if seen.identity == open.seen.identity => seen.check_names(&open.path, operation),
            _ => {
                self.replaced.fetch_add(1, Ordering::Relaxed);
                let message = "the lock file was removed or replaced while it was in use, which freed every lock in it; it \
                               is opened anew";
                Err(Error::new(Kind::Unavailable, operation, message))
            }
        }
    }

    fn open_file(&self, gate: &Gate, limit: Time) -> Result<Open, Failed> {
        let folder = self.config.folder();
        if self.config.makes_folder {
            // What goes wrong here shows below.
            let _ = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        }
        place::check(&self.config.path, folder).map_err(Failed::NotSent)?;
        let unopened = |error| Failed::NotSent(self.unopened(error));
        place::make(&self.config.path).map_err(unopened)?;
        let path = place::real(&self.config.path).map_err(unopened)?;
        host::check_is_local(path.parent().unwrap_or(folder)).map_err(Failed::NotSent)?;
        let seen = place::see(&path).map_err(|_| Failed::Busy)?;
        seen.check_names(&path, "connect").map_err(Failed::NotSent)?;
        let over = Arc::new(AtomicU64::new(limit.as_nanos()));
        let database = {
            let over = over.clone();
            let is_over = move || clock::now().as_nanos() > over.load(Ordering::Relaxed);
            // It exists.
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            Database::open(gate, &path, flags, is_over).map_err(|error| self.explain("connect", error))?
        };
        let prepared = match database.get(gate) {
            Some(db) => self.prepare(db),
            None => Err(Failed::Busy),
        };
        // The path led to one file before and after SQLite opened it: so that is what it opened.
        let is_still = |after: std::io::Result<Seen>| after.is_ok_and(|after| after == seen);
        match prepared {
            Ok(()) if is_still(place::see(&path)) && is_still(place::see(&self.config.path)) => {
                let host = Host::here();
                #[cfg(test)]
                let host = Host { clock: self.config.clock.clone().unwrap_or(host.clock), ..host };
                self.inboxes.lie_beside(&path);
                Ok(Open { database, host, path, seen, over, writes: AtomicU64::new(0) })
            }
            prepared => {
                database.close(gate);
                Err(prepared.err().unwrap_or(Failed::Busy))
            }
        }
    }

    fn unopened(&self, error: std::io::Error) -> Error {
        place::unopened(&self.config.path, self.config.folder(), error)
    }

    /// Makes a new file a lock file, and sees that an old one is.
    fn prepare(&self, db: &Connection) -> Result<(), Failed> {
        prepare(db).map_err(|unfit| match unfit {
            Unfit::Sqlite(error) => self.explain("connect", error),
            Unfit::Told(error) => Failed::NotSent(error),
        })
    }

    /// Does something to the open connection, for a test.
    #[cfg(test)]
    pub(super) fn with_database(&self, work: impl FnOnce(&Connection)) {
        self.with_database_until(Time::from_nanos(u64::MAX), work);
    }

    /// The same, until `limit`.
    #[cfg(test)]
    pub(super) fn with_database_until(&self, limit: Time, work: impl FnOnce(&Connection)) {
        let gate = fork::gate().expect("no test is forked in the middle of a transaction");
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let open = open.as_ref().expect("the file is not open");
        open.over.store(limit.as_nanos(), Ordering::Relaxed);
        work(open.database.get(&gate).expect("the file is another process's"));
    }

    /// What SQLite's error means for the person whose file it is.
    fn explain(&self, operation: &'static str, error: rusqlite::Error) -> Failed {
        let path = &self.config.path;
        let shown = path.display();
        let code = error.sqlite_error_code();
        let (kind, message) = match code {
            Some(ErrorCode::CannotOpen) if !(place::is_writable(path) && place::is_writable(self.config.folder())) => {
                (Kind::Auth, place::read_only(path))
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
                return Failed::Busy;
            }
            // Its shared memory has no room: that is told as an error of the disk.
            Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure | ErrorCode::CannotOpen)
                if code == Some(ErrorCode::DiskFull) || place::is_full(self.config.folder()) =>
            {
                (Kind::Unavailable, place::full(path))
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied) => {
                (Kind::Auth, place::read_only(path))
            }
            Some(ErrorCode::NotADatabase) => {
                (Kind::InvalidConfig, format!("{shown} is not a lock file; name another one, which will be made"))
            }
            Some(ErrorCode::DatabaseCorrupt) => (
                Kind::Protocol,
                format!("{shown} is damaged; stop whoever uses it and remove it together with its -wal and -shm files"),
            ),
            Some(ErrorCode::CannotOpen) => (Kind::Unavailable, place::crowded(path)),
            Some(ErrorCode::SystemIoFailure) => (Kind::Unavailable, place::sick(path)),
            Some(ErrorCode::OperationInterrupted) => (
                Kind::Unavailable,
                format!(
                    "{shown} could not be searched in the time that is given; see what makes it so large, or the disk so slow"
                ),
            ),
            Some(ErrorCode::OutOfMemory) => (Kind::Unavailable, "there is no memory left".to_owned()),
            Some(_) | None => (
                Kind::Protocol,
                format!("{shown} holds what this version of Lockwright did not write; name another file"),
            ),
        };
        Failed::NotSent(Error::new(kind, operation, message).caused_by(error))
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        self.close();
    }
}

/// A transaction that is rolled back unless it was committed.
struct Transaction<'a>(&'a Connection);

impl<'a> Transaction<'a> {
    fn begin(db: &'a Connection, how: &str) -> rusqlite::Result<Self> {
        db.prepare_cached(how)?.execute([])?;
        Ok(Transaction(db))
    }

    fn commit(self) -> rusqlite::Result<()> {
        self.0.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.0.is_autocommit() {
            // Failing, it leaves a connection that its owner closes.
            let _ = self.0.execute_batch("ROLLBACK");
        }
    }
}

/// Why a file that was opened cannot be used.
enum Unfit {
    Sqlite(rusqlite::Error),
    Told(Error),
}

impl From<rusqlite::Error> for Unfit {
    fn from(error: rusqlite::Error) -> Self {
        Unfit::Sqlite(error)
    }
}

/// Makes a new file a lock file, and sees that an old one is.
fn prepare(db: &Connection) -> Result<(), Unfit> {
    db.busy_timeout(Duration::ZERO)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    if db.is_readonly("main")? {
        let path = db.path().map_or_else(String::new, str::to_owned);
        return Err(Unfit::Told(Error::new(Kind::Auth, "connect", place::read_only(Path::new(&path)))));
    }
    distrust(db)?;
    db.pragma_update(None, "synchronous", "NORMAL")?;
    let looking = Transaction::begin(db, "BEGIN")?;
    let known = is_lock_file(db)?;
    looking.commit()?;
    if !known {
        write_ahead(db)?;
        let transaction = Transaction::begin(db, "BEGIN IMMEDIATE")?;
        // Somebody else may have been faster.
        if !is_lock_file(db)? {
            db.execute_batch(record_rows::SCHEMA)?;
            db.pragma_update(None, "application_id", APPLICATION_ID)?;
            db.pragma_update(None, "user_version", SCHEMA_VERSION)?;
        }
        transaction.commit()?;
    }
    write_ahead(db)
}

/// Others may write the file, too: nothing in it is executed, and what is removed from it is gone.
fn distrust(db: &Connection) -> rusqlite::Result<()> {
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    db.pragma_update(None, "cell_size_check", true)?;
    db.pragma_update_and_check(None, "secure_delete", "FAST", |_| Ok(()))
}

fn write_ahead(db: &Connection) -> Result<(), Unfit> {
    let mode: String = db.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode == "wal" {
        return Ok(());
    }
    let message = "the lock file's file system has no shared memory, which SQLite's write-ahead log needs; name a \
                   file on a local disk";
    Err(Unfit::Told(Error::unsupported("connect", message)))
}

/// Whether it is one; an empty file is not, and may become one. Asked inside a transaction: somebody else may be making
/// it.
fn is_lock_file(db: &Connection) -> Result<bool, Unfit> {
    let number = |pragma: &str| db.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    match (number("application_id")?, number("user_version")?) {
        (APPLICATION_ID, SCHEMA_VERSION) => check_schema(db).map(|()| true),
        (APPLICATION_ID, version) => {
            let message = format!(
                "the lock file was made by another version of Lockwright (schema {version}, not {SCHEMA_VERSION}); use \
                 one version, or name another file"
            );
            Err(Unfit::Told(Error::new(Kind::ForeignLayout, "connect", message)))
        }
        _ => {
            let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
            if tables == 0 {
                return Ok(false);
            }
            let message = "the file is another program's database; name a file that holds nothing but locks";
            Err(Unfit::Told(Error::invalid("connect", message)))
        }
    }
}

/// A table, an index, a trigger or a view, and how it was made.
type Part = (String, String, Option<String>);

fn parts(db: &Connection) -> rusqlite::Result<Vec<Part>> {
    // What `ANALYZE` writes is no harm.
    let mut statement =
        db.prepare("SELECT type, name, sql FROM sqlite_schema WHERE name NOT GLOB 'sqlite_stat[1-4]'")?;
    let part = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get::<_, Option<String>>(2)?.map(|sql| bare(&sql))));
    statement.query_map([], part)?.collect()
}

/// Without comments, and with single spaces. What has no quotation marks in it, as ours, has no `--` that is no
/// comment.
fn bare(sql: &str) -> String {
    let words = sql.lines().filter_map(|line| line.split("--").next()).flat_map(str::split_whitespace);
    words.collect::<Vec<_>>().join(" ")
}

/// Sees that the file has what [`record_rows::SCHEMA`] makes, and nothing else but what nodes of a quorum have: a
/// trigger of somebody's would be executed by us.
fn check_schema(db: &Connection) -> Result<(), Unfit> {
    static OURS: OnceLock<(Vec<Part>, Vec<Part>)> = OnceLock::new();
    let (ours, may_be) = match OURS.get() {
        Some(known) => known,
        None => {
            let model = Connection::open_in_memory()?;
            model.execute_batch(record_rows::SCHEMA)?;
            let must_be = parts(&model)?;
            model.execute_batch(marker_row::TABLE)?;
            let may_be = parts(&model)?;
            OURS.get_or_init(|| (must_be, may_be))
        }
    };
    let theirs = parts(db)?;
    let strange = theirs.iter().find(|part| !may_be.contains(part));
    let Some((kind, name, _)) = strange.or_else(|| ours.iter().find(|part| !theirs.contains(part))) else {
        return Ok(());
    };
    let message = match may_be.iter().any(|(.., known, _)| known == name) {
        true => format!("the {kind} {name:?} of the lock file is not as Lockwright makes it; name another file"),
        false => format!(
            "the lock file has a {kind} {name:?} that is none of Lockwright's; remove it (`DROP {}`) and see who may write \
             the file, or name another one",
            kind.to_uppercase()
        ),
    };
    Err(Unfit::Told(Error::new(Kind::ForeignLayout, "connect", message)))
}

/// What is said in a process that was forked at a bad moment.
fn stranded(operation: &'static str) -> Error {
    let message = "this process was forked while another thread had waited for the disk of a lock file for a second, so it cannot \
                   use lock files; start it anew";
    Error::new(Kind::Forked, operation, message)
}

/// The operation that a person asked for.
fn operation(requests: &[Request]) -> &'static str {
    match requests.first().map(|request| request.call.name) {
        Some(name) => match name.strip_prefix("shared.").unwrap_or(name) {
            "undo" => "cancel",
            name => name,
        },
        None => "connect",
    }
}
