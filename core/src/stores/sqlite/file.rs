//! The open file: one connection, used by one thread at a time, and only while the process cannot fork.
//!
//! A transaction takes some ten microseconds and SQLite lets only one process write at a time, so a second connection
//! would wait where the first one works. Nothing sleeps while it keeps the process from forking or the other threads
//! from the file: a file that another process is writing is tried again after a pause outside.

use std::cell::RefCell;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::config::Config;
use super::host::{self, Host};
use super::inbox::{self, Inboxes};
use super::layouts::native::{self, Env};
use crate::driver::clock;
use crate::driver::fork::{self, Database, Gate};
use crate::error::{Error, Kind};
use crate::protocol::{InboxId, Reply, Request, StoreEvent};
use crate::stores::{Answered, Outcome};
use crate::time::{StoreTime, Time};

/// "lock" in ASCII, in the place that SQLite keeps for it in every file's header.
const APPLICATION_ID: i32 = 0x6C6F_636B;
/// Written beside it; another number is another schema.
const SCHEMA_VERSION: i32 = 4;
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
    /// Device and inode of the file.
    identity: (u64, u64),
}

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
            inboxes: Inboxes::new(config.inboxes()),
            config,
            open: Mutex::new(None),
            replaced: AtomicU64::new(0),
        }
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
            let tried = {
                let gate = fork::gate();
                self.transact(&gate, requests, limit, &reached)
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
                Err(Failed::Busy) => {
                    let message = "the lock file was busy all the time; see whether a process that uses it is stopped, \
                                   or whether its disk is slow";
                    let error = Error::new(Kind::Unavailable, operation(requests), message);
                    return Answered { sent: now, outcome: Outcome::NotSent(self.placed(error)) };
                }
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

    /// Closes the file; the next request opens it again.
    pub(super) fn close(&self) {
        let gate = fork::gate();
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
            None => slot.insert(self.open_file(gate)?),
        };
        let Some(db) = open.database.get(gate) else {
            let message = "this client was made before a fork; make another one in the child";
            return Err(Failed::NotSent(Error::new(Kind::Forked, operation(requests), message)));
        };
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
        let reads = requests.iter().all(native::only_reads);
        let transaction = Transaction::begin(db, if reads { "BEGIN" } else { "BEGIN IMMEDIATE" }).map_err(failed)?;
        if identity(&self.config.path).ok() != Some(open.identity) {
            self.replaced.fetch_add(1, Ordering::Relaxed);
            let message = "the lock file was removed or replaced while it was in use, which freed every lock in it; it \
                           is opened anew";
            return Err(Failed::NotSent(Error::new(Kind::Unavailable, operation(requests), message)));
        }
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
        let env =
            Env { now, clock: &open.host.clock, wall: wall(), process: &open.host.process, alive: &alive, gone: &gone };
        let (mut replies, mut pushes) = (Vec::with_capacity(requests.len()), Vec::new());
        for request in requests {
            let (reply, events) = native::run(db, &env, request).map_err(failed)?;
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

    fn open_file(&self, gate: &Gate) -> Result<Open, Failed> {
        let path = &self.config.path;
        let folder = self.config.folder();
        if self.config.makes_folder {
            // What goes wrong here shows below.
            let _ = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        }
        check_place(path, folder).map_err(Failed::NotSent)?;
        let before = identity(path).ok();
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Database::open(gate, path, flags).map_err(|error| self.explain("connect", error))?;
        let prepared = match database.get(gate) {
            Some(db) => prepare(db).map_err(|wrong| match wrong {
                Unfit::Sqlite(error) => self.explain("connect", error),
                Unfit::Told(error) => Failed::NotSent(error),
            }),
            None => Err(Failed::Busy),
        };
        // Taken after the file was opened, and the same as before if there was one: so it is the identity of what was
        // opened.
        let after = identity(path).ok().filter(|after| before.is_none_or(|before| before == *after));
        match (prepared, after) {
            (Ok(()), Some(identity)) => {
                let host = Host::here();
                #[cfg(test)]
                let host = Host { clock: self.config.clock.clone().unwrap_or(host.clock), ..host };
                Ok(Open { database, host, identity })
            }
            (prepared, _) => {
                database.close(gate);
                Err(prepared.err().unwrap_or(Failed::Busy))
            }
        }
    }

    /// Does something to the open connection, for a test.
    #[cfg(test)]
    pub(super) fn with_database(&self, work: impl FnOnce(&Connection)) {
        let gate = fork::gate();
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        work(open.as_ref().and_then(|open| open.database.get(&gate)).expect("the file is not open"));
    }

    /// What SQLite's error means for the person whose file it is.
    fn explain(&self, operation: &'static str, error: rusqlite::Error) -> Failed {
        let path = self.config.path.display();
        let code = error.sqlite_error_code();
        let (kind, message) = match code {
            Some(ErrorCode::CannotOpen) if !(is_writable(&self.config.path) && is_writable(self.config.folder())) => {
                (Kind::Auth, read_only(&self.config.path))
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
                return Failed::Busy;
            }
            // Its shared memory has no room: that is told as an error of the disk.
            Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure | ErrorCode::CannotOpen)
                if code == Some(ErrorCode::DiskFull) || is_full(self.config.folder()) =>
            {
                (Kind::Unavailable, format!("the disk of {path} is full; make room, and it goes on by itself"))
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied) => {
                (Kind::Auth, read_only(&self.config.path))
            }
            Some(ErrorCode::NotADatabase) => {
                (Kind::InvalidConfig, format!("{path} is not a lock file; name another one, which will be made"))
            }
            Some(ErrorCode::DatabaseCorrupt) => (
                Kind::Protocol,
                format!("{path} is damaged; stop whoever uses it and remove it together with its -wal and -shm files"),
            ),
            Some(ErrorCode::CannotOpen) => (
                Kind::Unavailable,
                format!("{path} cannot be opened; raise the limit of open files, and see whether the disk is well"),
            ),
            Some(ErrorCode::SystemIoFailure) => {
                (Kind::Unavailable, format!("the disk of {path} does not read or write; see the system's log"))
            }
            Some(ErrorCode::OutOfMemory) => (Kind::Unavailable, "there is no memory left".to_owned()),
            Some(_) | None => (
                Kind::Protocol,
                format!("{path} holds what this version of Lockwright did not write; name another file"),
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
        return Err(Unfit::Told(Error::new(Kind::Auth, "connect", read_only(Path::new(&path)))));
    }
    db.pragma_update(None, "synchronous", "NORMAL")?;
    let looking = Transaction::begin(db, "BEGIN")?;
    let known = is_lock_file(db)?;
    looking.commit()?;
    if !known {
        write_ahead(db)?;
        let transaction = Transaction::begin(db, "BEGIN IMMEDIATE")?;
        // Somebody else may have been faster.
        if !is_lock_file(db)? {
            db.execute_batch(native::SCHEMA)?;
            db.pragma_update(None, "application_id", APPLICATION_ID)?;
            db.pragma_update(None, "user_version", SCHEMA_VERSION)?;
        }
        transaction.commit()?;
    }
    write_ahead(db)
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

/// Whether it is one; an empty file is not, and may become one. Asked inside a transaction: somebody else may be making it.
fn is_lock_file(db: &Connection) -> Result<bool, Unfit> {
    let number = |pragma: &str| db.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    match (number("application_id")?, number("user_version")?) {
        (APPLICATION_ID, SCHEMA_VERSION) => Ok(true),
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

/// Tells what is wrong with a place before SQLite would say no more than that it cannot open it.
fn check_place(path: &Path, folder: &Path) -> Result<(), Error> {
    match std::fs::metadata(path) {
        Ok(file) if file.is_dir() => {
            let message = format!("{} is a folder; name a file in it", path.display());
            return Err(Error::invalid("connect", message));
        }
        Ok(file) if !file.is_file() => {
            let message = format!("{} is not a regular file; name one, or none yet", path.display());
            return Err(Error::invalid("connect", message));
        }
        _ => {}
    }
    match std::fs::metadata(folder) {
        Ok(folder) if folder.is_dir() => {}
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return Err(Error::new(Kind::Auth, "connect", read_only(path)).caused_by(error));
        }
        _ => {
            let message = format!("the folder {} does not exist; make it, or name another file", folder.display());
            return Err(Error::invalid("connect", message));
        }
    }
    host::check_is_local(folder)
}

/// Whether the file's disk has no room for what SQLite keeps beside a file in use: 32 KiB of shared memory, and the log.
fn is_full(folder: &Path) -> bool {
    // A file system without any blocks, such as /proc, is not full.
    let full = |disk: rustix::fs::StatVfs| disk.f_blocks > 0 && disk.f_bavail.saturating_mul(disk.f_frsize) < 64 << 10;
    rustix::fs::statvfs(folder).is_ok_and(full)
}

/// Never opened to see whether it can be: closing it again would let go of the locks that SQLite has on it.
fn is_writable(path: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, CWD};
    let refused = rustix::fs::accessat(CWD, path, Access::READ_OK | Access::WRITE_OK, AtFlags::EACCESS);
    !matches!(refused, Err(rustix::io::Errno::ACCESS | rustix::io::Errno::ROFS | rustix::io::Errno::PERM))
}

fn read_only(path: &Path) -> String {
    format!(
        "{} cannot be written: give this user the right to write the file and its folder, or name another file",
        path.display()
    )
}

fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    let file = std::fs::metadata(path)?;
    Ok((file.dev(), file.ino()))
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

fn wall() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
