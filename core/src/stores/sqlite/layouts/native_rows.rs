//! Locks of the layout `native`: the rules of [`lockwright_machines::lock_cell`] on [rows](super::record_rows).
//!
//! **Other clocks.** A row's times are on the boot clock of whoever wrote it. A holder whose clock is not ours belongs
//! to an earlier boot, or lives in another time namespace; the two cannot be told apart, so nothing is concluded from
//! its numbers. Whoever meets such a lease first notes "seen now, ends a whole lease from now" on *our* clock, beside
//! it and without touching it. It counts as run out when that moment comes and the lease is still the very same one: a
//! dead holder loses it after one ttl, a living one that renews is never robbed, whatever its clock says. The same goes
//! for a row that seems to come from our own future, which is how an earlier boot looks where boots have no name. A
//! waiter on another clock is passed over, since it could not date the grant pushed to it.

use std::time::Duration;

use lockwright_machines::cell::{Cell, Runs};
use lockwright_machines::lock_cell::{Claimant, Hold, LockCell, LockStorage, Place, Surroundings, Waiter};
use lockwright_machines::native_machine::Procedure;
use lockwright_machines::rank::Rank;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Row, types};

use crate::options::MAX_TTL;
use crate::protocol::{AttemptId, InboxId, Reply, StoreEvent};
use crate::time::StoreTime;

/// How long nothing must have happened to a row before it is removed.
pub(super) const IDLE: Duration = Duration::from_secs(600);
/// One in so many new rows looks for idle ones, at so many rows: four looked at for each one made keeps the file from
/// growing.
pub(super) const SWEEP: (u64, usize) = (64, 256);

/// What one transaction knows of its surroundings.
pub(crate) struct Env<'a> {
    /// The boot clock.
    pub(crate) now: StoreTime,
    /// Which boot clock that is.
    pub(crate) clock: &'a str,
    /// The wall clock, in microseconds since 1970.
    pub(crate) wall: u64,
    /// The asking process.
    pub(crate) process: &'a str,
    /// Whether somebody listens at an inbox.
    pub(crate) alive: &'a dyn Fn(InboxId) -> bool,
    /// Whether a process that may be judged from here has certainly ended.
    pub(crate) gone: &'a dyn Fn(&str) -> bool,
}

/// What is to be pushed once the transaction is committed.
pub(crate) type Pushes = Vec<(InboxId, StoreEvent)>;

/// Runs one request on its row, if there is one.
///
/// # Errors
/// As [`super::record_rows::run`].
pub(super) fn run(
    db: &Connection,
    env: &Env<'_>,
    key: &str,
    known: Option<Lock>,
    procedure: Procedure,
    around: &mut Surroundings<'_>,
) -> rusqlite::Result<Reply> {
    let mut lock = known.map_or_else(|| Lock::new(db), Ok)?;
    let looks = LockCell::only_looks(&procedure);
    let asker = match &procedure {
        Procedure::Acquire(ask) => Some(ask.asker.owner.inbox),
        _ => None,
    };
    let before = (lock.cell.clone(), lock.waiting);
    if looks || asker.is_some() {
        lock.end_if_gone(env, asker);
    }
    let mut line = Queue { db, env, key, waiting: lock.waiting, popped: None };
    let reply = lock.cell.run(procedure, &mut line, around)?;
    if looks {
        return Ok(reply);
    }
    lock.waiting = line.waiting;
    let popped = line.popped;
    if lock.cell != before.0 || (!lock.stored && lock.waiting > 0) {
        lock.settle_process(env, popped);
        lock.store(db, env, key)?;
    } else if lock.waiting != before.1 || lock.sighting.as_ref().is_some_and(|sighting| sighting.new) {
        lock.store_aside(db, env, key)?;
    }
    Ok(reply)
}

/// One row of `locks`, its times translated to our clock.
pub(super) struct Lock {
    pub(super) cell: LockCell,
    pub(super) waiting: u32,
    /// The holder's process, where it can be judged from here; empty otherwise.
    process: String,
    /// The lease is on another clock.
    sighting: Option<Sighting>,
    /// Whether there is a row.
    pub(super) stored: bool,
}

/// A lease on another clock, seen from ours.
pub(super) struct Sighting {
    /// Its end by its own clock, which tells it from the same holder's later ones.
    pub(super) of: i64,
    /// Its end by our clock, if it stays as it is.
    pub(super) until: StoreTime,
    /// Nobody with our clock had seen it before.
    pub(super) new: bool,
}

impl Lock {
    pub(super) fn load(db: &Connection, env: &Env<'_>, key: &str) -> rusqlite::Result<Option<Self>> {
        db.prepare_cached(
            "SELECT last, waiting, clock, changed, owner, since, expires, first, claimed, card, process, \
             seen_by, seen_expires, seen_until FROM locks WHERE key = ?1",
        )?
        .query_row([key], |row| Lock::read(env, row))
        .optional()
    }

    /// One that has no row yet.
    fn new(db: &Connection) -> rusqlite::Result<Self> {
        let cell = LockCell { hold: None, last: highest(db)? };
        Ok(Lock { cell, waiting: 0, process: String::new(), sighting: None, stored: false })
    }

    fn read(env: &Env<'_>, row: &Row<'_>) -> rusqlite::Result<Self> {
        let cell = LockCell { hold: None, last: token(row, 0)? };
        let mut lock = Lock { cell, waiting: row.get(1)?, process: String::new(), sighting: None, stored: true };
        let Some(owner) = row.get_ref(4)?.as_str_or_null()? else { return Ok(lock) };
        let owner = Claimant::parse(owner).ok_or_else(|| unreadable(4, "an owner"))?;
        let (changed, expires): (i64, i64) = (row.get(3)?, row.get(6)?);
        let mut hold = Hold {
            owner,
            since: StoreTime(row.get(5)?),
            expires: StoreTime(expires),
            first: token(row, 7)?,
            claimed: row.get(8)?,
            card: row.get(9)?,
        };
        if is_ours(env, row.get_ref(2)?.as_str()?, changed) {
            lock.process = row.get(10)?;
        } else {
            let (since, sighting) = Sighting::read(env, row, changed, hold.since, expires)?;
            (hold.since, hold.expires) = (since, sighting.until);
            lock.sighting = Some(sighting);
        }
        lock.cell.hold = Some(hold);
        Ok(lock)
    }

    /// Whether somebody holds it or waits for it.
    pub(super) fn is_used(&self, env: &Env<'_>) -> bool {
        self.waiting > 0 || self.cell.hold.as_ref().is_some_and(|hold| hold.expires > env.now)
    }

    /// A holder whose process is gone holds nothing, whatever its lease says. An asker's own inbox is proof of life.
    fn end_if_gone(&mut self, env: &Env<'_>, asker: Option<InboxId>) {
        if let Some(hold) = &mut self.cell.hold
            && hold.expires > env.now
            && Some(hold.owner.inbox) != asker
            && !self.process.is_empty()
            && (env.gone)(&self.process)
        {
            hold.expires = env.now;
        }
    }

    /// Finds out whose process the holder is now: only a hand-off changes the holder's part for somebody else.
    fn settle_process(&mut self, env: &Env<'_>, popped: Option<(AttemptId, String)>) {
        let holder = self.cell.hold.as_ref().map(|hold| hold.owner.attempt);
        self.process = match popped {
            // Whoever exported the lock may end before it is resumed.
            _ if self.cell.hold.as_ref().is_some_and(|hold| hold.owner.is_secret()) => String::new(),
            Some((attempt, process)) if Some(attempt) == holder => process,
            _ => env.process.to_owned(),
        };
    }

    /// Writes all of it, on our clock.
    fn store(&self, db: &Connection, env: &Env<'_>, key: &str) -> rusqlite::Result<()> {
        let sql = if self.stored {
            "UPDATE locks SET last = ?2, waiting = ?3, clock = ?4, changed = ?5, owner = ?6, since = ?7, expires = ?8, \
             first = ?9, claimed = ?10, card = ?11, process = ?12, seen_by = NULL, seen_expires = NULL, \
             seen_until = NULL WHERE key = ?1"
        } else {
            "INSERT INTO locks \
             (key, last, waiting, clock, changed, owner, since, expires, first, claimed, card, process) VALUES \
             (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"
        };
        let hold = self.cell.hold.as_ref();
        execute(
            db,
            sql,
            rusqlite::params![
                key,
                integer(self.cell.last),
                self.waiting,
                env.clock,
                env.now.0,
                hold.map(|hold| hold.owner.to_string()),
                hold.map(|hold| hold.since.0),
                hold.map(|hold| hold.expires.0),
                hold.map(|hold| integer(hold.first)),
                hold.map(|hold| hold.claimed),
                hold.map(|hold| &hold.card),
                hold.map(|_| &self.process),
            ],
        )?;
        let chance = hold.map_or(1, |hold| hold.owner.attempt.0 as u64);
        if !self.stored && chance.is_multiple_of(SWEEP.0) {
            sweep(db, env)?;
        }
        Ok(())
    }

    /// Writes what stands beside the holder's part, which may be on another clock and stays as it is.
    fn store_aside(&self, db: &Connection, env: &Env<'_>, key: &str) -> rusqlite::Result<()> {
        let (of, until) = self.sighting.as_ref().map(|seen| (seen.of, seen.until.0)).unzip();
        execute(
            db,
            "UPDATE locks SET waiting = ?2, seen_by = ?3, seen_expires = ?4, seen_until = ?5 WHERE key = ?1",
            (key, self.waiting, of.map(|_| env.clock), of, until),
        )?;
        Ok(())
    }
}

impl Sighting {
    /// Reads columns 11 to 13 of a lease that lasts from `since` to `expires` on its own clock, and was written at
    /// `changed`; and since when it is held by ours.
    pub(super) fn read(
        env: &Env<'_>,
        row: &Row<'_>,
        changed: i64,
        since: StoreTime,
        expires: i64,
    ) -> rusqlite::Result<(StoreTime, Self)> {
        let lease = lease(changed, expires);
        let (by, of, until): (Option<String>, Option<i64>, Option<i64>) = (row.get(11)?, row.get(12)?, row.get(13)?);
        let last = env.now.after(lease);
        // An end further away than the lease is long was noted by an earlier boot that has no name.
        let seen = until
            .map(StoreTime)
            .filter(|until| by.as_deref() == Some(env.clock) && of == Some(expires) && *until <= last);
        let until = seen.unwrap_or(last);
        let held_before = micros(changed.saturating_sub(since.0));
        let since = before(before(until, lease), held_before);
        Ok((since, Sighting { of: expires, until, new: seen.is_none() }))
    }
}

/// Whether a row's times are on our clock.
pub(super) fn is_ours(env: &Env<'_>, clock: &str, changed: i64) -> bool {
    clock == env.clock && changed <= env.now.0
}

fn lease(changed: i64, expires: i64) -> Duration {
    micros(expires.saturating_sub(changed)).min(MAX_TTL)
}

fn micros(count: i64) -> Duration {
    Duration::from_micros(u64::try_from(count).unwrap_or(0))
}

fn before(at: StoreTime, by: Duration) -> StoreTime {
    StoreTime(at.0.saturating_sub(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)))
}

/// The rows of `waiters` with one key.
pub(super) struct Queue<'a> {
    pub(super) db: &'a Connection,
    pub(super) env: &'a Env<'a>,
    pub(super) key: &'a str,
    pub(super) waiting: u32,
    /// Who was last taken out, and its process.
    pub(super) popped: Option<(AttemptId, String)>,
}

/// Who is served next, as [`LockStorage::first`] has it; the number is
/// [`AGE`](lockwright_machines::rank::AGE) in microseconds.
macro_rules! next {
    () => {
        "(SELECT seq FROM waiters WHERE key = ?1 AND seq IN ( \
           SELECT * FROM (SELECT seq FROM waiters WHERE key = ?1 AND rank = 0 ORDER BY seq LIMIT 1) \
           UNION ALL SELECT min(seq) FROM waiters WHERE key = ?1 AND rank > 0 GROUP BY rank \
         ) ORDER BY since - rank * 10000000, rank DESC LIMIT 1)"
    };
}

impl LockStorage for Queue<'_> {
    type Error = rusqlite::Error;

    fn join(&mut self, place: &Place) -> rusqlite::Result<u32> {
        self.join_for(&place.waiter, place.rank, 1, true)
    }

    fn first(&mut self) -> rusqlite::Result<Option<Waiter>> {
        if self.waiting == 0 {
            return Ok(None);
        }
        self.db
            .prepare_cached(concat!(
                "SELECT attempt, inbox, claim, card FROM waiters WHERE key = ?1 AND seq = ",
                next!()
            ))?
            .query_row([self.key], read_waiter)
            .optional()
    }

    fn count(&mut self) -> rusqlite::Result<u32> {
        Ok(self.waiting)
    }

    fn list(&mut self, most: usize) -> rusqlite::Result<Vec<Place>> {
        let mut statement = self.db.prepare_cached(
            // Nobody passes who came before it with the same rank, whatever the clock said then.
            "SELECT attempt, inbox, claim, card, rank, since FROM waiters WHERE key = ?1 ORDER BY \
             max(since - rank * 10000000) OVER (PARTITION BY rank ORDER BY seq), rank DESC, seq LIMIT ?2",
        )?;
        let rows = statement.query_map((self.key, most as i64), |row| {
            let rank = Rank::new(row.get(4)?).ok_or_else(|| unreadable(4, "a rank"))?;
            Ok(Place { waiter: read_waiter(row)?, rank, since: StoreTime(row.get(5)?) })
        })?;
        rows.collect()
    }

    fn pop(&mut self) -> rusqlite::Result<Option<Waiter>> {
        while self.waiting > 0 {
            let head = self
                .db
                .prepare_cached(concat!(
                    "DELETE FROM waiters WHERE key = ?1 AND seq = ",
                    next!(),
                    " RETURNING attempt, inbox, claim, card, process, clock",
                ))?
                .query_row([self.key], |row| {
                    let on_our_clock = row.get_ref(5)?.as_str()? == self.env.clock;
                    Ok((read_waiter(row)?, row.get(4)?, on_our_clock))
                })
                .optional()?;
            let Some((waiter, process, on_our_clock)) = head else {
                self.waiting = 0;
                break;
            };
            self.waiting -= 1;
            if on_our_clock {
                self.popped = Some((waiter.owner.attempt, process));
                return Ok(Some(waiter));
            }
        }
        Ok(None)
    }

    fn contains(&mut self, attempt: AttemptId) -> rusqlite::Result<bool> {
        if self.waiting == 0 {
            return Ok(false);
        }
        self.db
            .prepare_cached("SELECT 1 FROM waiters WHERE key = ?1 AND attempt = ?2")?
            .exists((self.key, attempt.to_string()))
    }

    fn leave(&mut self, attempt: AttemptId) -> rusqlite::Result<()> {
        self.delete("DELETE FROM waiters WHERE key = ?1 AND attempt = ?2", (self.key, attempt.to_string()))
    }

    fn drop_inbox(&mut self, inbox: InboxId) -> rusqlite::Result<()> {
        // Walks the whole line, once for every claim that ran out: not worth an index that each of its waiters would
        // pay for.
        self.delete("DELETE FROM waiters WHERE key = ?1 AND inbox = ?2", (self.key, inbox.0.cast_signed()))
    }
}

impl Queue<'_> {
    /// The same for `units` of a shared record.
    pub(super) fn join_for(
        &mut self,
        waiter: &Waiter,
        rank: Rank,
        units: u32,
        in_order: bool,
    ) -> rusqlite::Result<u32> {
        let attempt = waiter.owner.attempt.to_string();
        if self.waiting > 0 {
            let place = self
                .db
                .prepare_cached("SELECT seq, rank FROM waiters WHERE key = ?1 AND attempt = ?2")?
                .query_row((self.key, &attempt), |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
                .optional()?;
            if let Some((seq, rank)) = place {
                return self
                    .db
                    .prepare_cached("SELECT count(*) FROM waiters WHERE key = ?1 AND (seq < ?2 OR rank <> ?3)")?
                    .query_row((self.key, seq, rank), |row| row.get(0));
            }
        }
        execute(
            self.db,
            "INSERT INTO waiters \
             (key, seq, attempt, inbox, claim, card, clock, process, units, in_order, rank, since) VALUES \
             (?1, (SELECT coalesce(max(seq), 0) + 1 FROM waiters WHERE key = ?1), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, \
             ?10, ?11)",
            rusqlite::params![
                self.key,
                attempt,
                waiter.owner.inbox.0.cast_signed(),
                i64::try_from(waiter.owner.claim.as_millis()).unwrap_or(i64::MAX),
                waiter.card,
                self.env.clock,
                self.env.process,
                units,
                in_order,
                rank.get(),
                self.env.now.0,
            ],
        )?;
        self.waiting += 1;
        Ok(self.waiting - 1)
    }

    fn delete(&mut self, sql: &str, params: impl Params) -> rusqlite::Result<()> {
        if self.waiting > 0 {
            let gone = execute(self.db, sql, params)?;
            self.waiting = self.waiting.saturating_sub(u32::try_from(gone).unwrap_or(u32::MAX));
        }
        Ok(())
    }
}

pub(super) fn read_waiter(row: &Row<'_>) -> rusqlite::Result<Waiter> {
    let attempt = read_attempt(row)?;
    let claim: u64 = row.get::<_, i64>(2)?.try_into().map_err(|_| unreadable(2, "a claim"))?;
    let owner = Claimant {
        attempt,
        inbox: InboxId(row.get::<_, i64>(1)?.cast_unsigned()),
        claim: Duration::from_millis(claim),
    };
    Ok(Waiter { owner, card: row.get(3)? })
}

/// The attempt in the first column. One that is spelled as we never do could not be found again to be removed.
pub(super) fn read_attempt(row: &Row<'_>) -> rusqlite::Result<AttemptId> {
    let text = row.get_ref(0)?.as_str()?;
    let attempt = u128::from_str_radix(text, 16).ok().map(AttemptId);
    attempt.filter(|attempt| attempt.to_string() == text).ok_or_else(|| unreadable(0, "an attempt"))
}

/// Removes rows to which nothing has happened for long, a few at a time and in turn. Their highest token is kept for
/// all.
pub(super) fn sweep(db: &Connection, env: &Env<'_>) -> rusqlite::Result<()> {
    let (mut highest, from): (u64, String) =
        db.prepare_cached("SELECT last, swept FROM meta")?.query_row([], |row| Ok((token(row, 0)?, row.get(1)?)))?;
    let mut statement = db.prepare_cached(
        "SELECT last, waiting, clock, changed, owner, since, expires, first, claimed, card, process, \
         seen_by, seen_expires, seen_until, key FROM locks WHERE key > ?1 ORDER BY key LIMIT ?2",
    )?;
    let read = |row: &Row<'_>| {
        let changed = row.get(3)?;
        let changed = is_ours(env, row.get_ref(2)?.as_str()?, changed).then_some(StoreTime(changed));
        Ok((Lock::read(env, row)?, changed))
    };
    let rows = statement.query_map((from, SWEEP.1 as i64), |row| Ok((readable(row.get(14))?, readable(read(row))?)))?;
    let rows = rows.collect::<rusqlite::Result<Vec<(Option<String>, _)>>>()?;
    for row in &rows {
        let (Some(key), Some((lock, changed))) = row else { continue };
        let idle_since = match &lock.cell.hold {
            Some(hold) => Some(hold.expires),
            // Free, and on another clock: the time since is not known, and the reboot was pause enough.
            None => *changed,
        };
        if idle_since.is_some_and(|since| since.after(IDLE) > env.now) {
            if lock.sighting.as_ref().is_some_and(|sighting| sighting.new) {
                lock.store_aside(db, env, key)?;
            }
            continue;
        }
        // Whoever waits in earnest would have asked again, and been granted it, long ago.
        execute(db, "DELETE FROM waiters WHERE key = ?1", [key])?;
        execute(db, "DELETE FROM locks WHERE key = ?1", [key])?;
        highest = highest.max(lock.cell.last);
    }
    let next = next_page(rows.iter().map(|(key, _)| key));
    execute(db, "UPDATE meta SET last = ?1, swept = ?2", (integer(highest), next))?;
    Ok(())
}

/// From which key on the next sweep looks after a page of `keys`; after the last page, from the first.
pub(super) fn next_page<'a>(keys: impl ExactSizeIterator<Item = &'a Option<String>> + DoubleEndedIterator) -> &'a str {
    let last = if keys.len() == SWEEP.1 { keys.rev().find_map(Option::as_deref) } else { None };
    last.unwrap_or("")
}

/// The highest token of any row that was removed.
pub(super) fn highest(db: &Connection) -> rusqlite::Result<u64> {
    db.prepare_cached("SELECT last FROM meta")?.query_row([], |row| token(row, 0))
}

/// Removes a row, after which tokens go on from `last`.
pub(super) fn remove(db: &Connection, sql: &str, key: &str, last: u64) -> rusqlite::Result<()> {
    execute(db, sql, [key])?;
    execute(db, "UPDATE meta SET last = max(last, ?1)", [integer(last)]).map(|_| ())
}

pub(super) fn execute(db: &Connection, sql: &str, params: impl Params) -> rusqlite::Result<usize> {
    let mut statement: CachedStatement<'_> = db.prepare_cached(sql)?;
    statement.execute(params)
}

pub(super) fn token(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    u64::try_from(row.get::<_, i64>(column)?).map_err(|_| unreadable(column, "a token"))
}

pub(super) fn integer(token: u64) -> i64 {
    i64::try_from(token).unwrap_or(i64::MAX)
}

/// What could be read; `None` for what no version of this layout wrote, of which whoever has another key hears nothing.
pub(super) fn readable<T>(read: rusqlite::Result<T>) -> rusqlite::Result<Option<T>> {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    match read {
        Err(FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..)) => {
            Ok(None)
        }
        read => read.map(Some),
    }
}

pub(super) fn unreadable(column: usize, what: &'static str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, types::Type::Text, format!("{what} was expected").into())
}

#[cfg(test)]
pub(super) mod tests {
    use lockwright_machines::cell_layout::{LOCK, OWN};

    use super::super::record_rows::{SCHEMA, run};
    use super::*;
    use crate::protocol::Request;

    const NEVER: &dyn Fn(&str) -> bool = &|_| false;
    const EVERYBODY: &dyn Fn(InboxId) -> bool = &|_| true;

    /// A file with nothing in it.
    pub(in super::super) fn file() -> Connection {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(SCHEMA).unwrap();
        db
    }

    pub(in super::super) fn env<'a>(now: i64, clock: &'a str) -> Env<'a> {
        Env { now: StoreTime(now), clock, wall: 1000, process: "us", alive: EVERYBODY, gone: NEVER }
    }

    fn claimant(n: u64) -> Claimant {
        Claimant { attempt: AttemptId(n.into()), inbox: InboxId(n % 2), claim: Duration::from_millis(5) }
    }

    pub(in super::super) fn request(
        call: &'static crate::protocol::Call,
        key: &str,
        args: &[crate::protocol::Arg],
    ) -> Request {
        let mut request = Request::new(call, key.into(), []);
        request.args.extend(args.iter().cloned());
        request
    }

    fn text(claimant: &Claimant) -> crate::protocol::Arg {
        claimant.to_string().as_str().into()
    }

    pub(crate) fn acquire(n: u64, ttl: i64, wait: bool, prev: Option<(u64, i64)>) -> Request {
        let (prev, used) = prev.map_or(("".into(), 0), |(prev, used)| (text(&claimant(prev)), used));
        let args =
            [text(&claimant(n)), ttl.into(), i64::MAX.into(), "card".into(), i64::from(wait).into(), prev, used.into()];
        request(&LOCK.acquire, "k", &args)
    }

    fn renew(n: u64, ttl: i64) -> Request {
        request(&LOCK.renew, "k", &[text(&claimant(n)), ttl.into()])
    }

    pub(crate) fn release(n: u64) -> Request {
        request(&LOCK.release, "k", &[text(&claimant(n)), 0.into()])
    }

    fn secret(n: u64) -> Claimant {
        Claimant { attempt: AttemptId((100 + n).into()), inbox: InboxId::NONE, claim: Duration::ZERO }
    }

    fn pass(from: Claimant, to: Claimant, ttl: i64) -> Request {
        request(&OWN.pass, "k", &[text(&to), text(&from), ttl.into(), i64::MAX.into(), "card".into()])
    }

    fn granted(db: &Connection, env: &Env<'_>, request: &Request) -> Option<i64> {
        match run(db, env, request).unwrap().0 {
            Reply::Int(first) => Some(first),
            Reply::List(list) if list[0] == Reply::Int(3) => match list[1] {
                Reply::Int(first) => Some(first),
                _ => None,
            },
            _ => None,
        }
    }

    #[test]
    fn a_lease_of_another_boot_ends_one_lease_after_it_was_first_seen() {
        let db = file();
        // Late on the old clock: its numbers say nothing on the new one, which began again.
        assert!(granted(&db, &env(5_000_000, "old"), &acquire(1, 100, false, None)).is_some());
        assert_eq!(granted(&db, &env(7, "new"), &acquire(2, 100, false, None)), None);
        assert_eq!(granted(&db, &env(50, "new"), &acquire(2, 100, true, None)), None);
        assert_eq!(granted(&db, &env(106, "new"), &acquire(3, 100, false, None)), None);
        assert!(granted(&db, &env(107, "new"), &acquire(2, 100, true, None)).is_some());
    }

    #[test]
    fn a_lease_on_another_clock_that_is_renewed_is_never_taken() {
        let db = file();
        assert!(granted(&db, &env(5_000_000, "theirs"), &acquire(1, 100, false, None)).is_some());
        for round in 0..20 {
            assert_eq!(granted(&db, &env(60 * round, "ours"), &acquire(2, 100, true, None)), None, "{round}");
            let renewed = run(&db, &env(5_000_060 + 60 * round, "theirs"), &renew(1, 100)).unwrap();
            assert_eq!(renewed.0, Reply::Int(1));
        }
        // A waiter on another clock could not tell from when a grant counts.
        let (reply, pushes) = run(&db, &env(5_002_000, "theirs"), &release(1)).unwrap();
        assert_eq!((reply, pushes), (Reply::Int(1), vec![]));
        assert!(granted(&db, &env(1300, "ours"), &acquire(2, 100, true, None)).is_some());
    }

    #[test]
    fn a_row_from_our_own_future_is_of_an_earlier_boot() {
        let db = file();
        assert!(granted(&db, &env(5_000_000, ""), &acquire(1, 100, false, None)).is_some());
        assert_eq!(granted(&db, &env(7, ""), &acquire(2, 100, false, None)), None);
        assert!(granted(&db, &env(107, ""), &acquire(2, 100, false, None)).is_some());
    }

    #[test]
    fn the_lock_of_a_process_that_is_gone_is_free() {
        let db = file();
        let theirs = Env { process: "them", ..env(0, "boot") };
        let first = granted(&db, &theirs, &acquire(1, 1_000_000, false, None)).unwrap();
        assert_eq!(granted(&db, &env(1, "boot"), &acquire(2, 100, false, None)), None);
        let gone = |process: &str| process == "them";
        let later = Env { gone: &gone, ..env(2, "boot") };
        assert!(granted(&db, &later, &acquire(2, 100, false, None)).unwrap() > first);
        // By hand-off, the lock belongs to the process of the waiter and not to that of whoever let go.
        run(&db, &Env { process: "them", ..env(3, "boot") }, &acquire(3, 100, true, None)).unwrap();
        assert_eq!(run(&db, &env(4, "boot"), &release(2)).unwrap().1.len(), 1);
        assert_eq!(granted(&db, &env(5, "boot"), &acquire(4, 100, false, None)), None);
        let later = Env { gone: &gone, ..env(6, "boot") };
        assert!(granted(&db, &later, &acquire(4, 100, false, None)).is_some());
    }

    #[test]
    fn an_exported_lock_outlives_its_exporters_process_and_not_its_heirs() {
        let db = file();
        let theirs = Env { process: "them", ..env(0, "boot") };
        assert!(granted(&db, &theirs, &acquire(1, 1_000_000, false, None)).is_some());
        assert!(granted(&db, &theirs, &pass(claimant(1), secret(1), 1_000_000)).is_some());
        let gone = |process: &str| process == "them";
        assert_eq!(granted(&db, &Env { gone: &gone, ..env(1, "boot") }, &acquire(5, 100, false, None)), None);
        let heirs = Env { process: "heirs", ..env(2, "boot") };
        assert!(granted(&db, &heirs, &pass(secret(1), claimant(3), 1_000_000)).is_some());
        let gone = |process: &str| process == "heirs";
        assert!(granted(&db, &Env { gone: &gone, ..env(3, "boot") }, &acquire(2, 100, false, None)).is_some());
    }

    #[test]
    fn idle_rows_are_removed_and_their_tokens_are_not_given_again() {
        let db = file();
        let idle = i64::try_from(IDLE.as_micros()).unwrap();
        // The wall clock is then set back, so that only the file knows how far the tokens were.
        let early = Env { wall: 1_000_000, ..env(0, "boot") };
        let first = granted(&db, &early, &acquire(1, 100, false, None)).unwrap();
        run(&db, &early, &release(1)).unwrap();
        let held = request(&LOCK.acquire, "held", &acquire(2, 10 * idle, false, None).args);
        run(&db, &early, &held).unwrap();
        let crashed = request(&LOCK.acquire, "crashed", &acquire(3, 100, false, None).args);
        run(&db, &early, &crashed).unwrap();
        let rows =
            |db: &Connection| db.query_row("SELECT count(*) FROM locks", [], |row| row.get::<_, i64>(0)).unwrap();
        sweep(&db, &env(idle - 1, "boot")).unwrap();
        assert_eq!(rows(&db), 3);
        sweep(&db, &env(idle + 100, "boot")).unwrap();
        assert_eq!(rows(&db), 1);
        assert!(granted(&db, &env(idle + 101, "boot"), &acquire(4, 100, false, None)).unwrap() > first);
        // Of another boot: the free row goes, the held one only after it was seen for long enough.
        run(&db, &env(idle + 102, "boot"), &release(4)).unwrap();
        sweep(&db, &env(0, "next")).unwrap();
        assert_eq!(rows(&db), 1);
        sweep(&db, &env(10 * idle, "next")).unwrap();
        assert_eq!(rows(&db), 1);
        sweep(&db, &env(11 * idle, "next")).unwrap();
        assert_eq!(rows(&db), 0);
    }

    #[test]
    fn a_row_that_cannot_be_read_stays_and_the_others_are_removed() {
        let db = file();
        let idle = i64::try_from(IDLE.as_micros()).unwrap();
        for (attempt, key) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
            let ask = request(&LOCK.acquire, key, &acquire(attempt, 100, false, None).args);
            run(&db, &env(0, "boot"), &ask).unwrap();
        }
        db.execute_batch("UPDATE locks SET owner = 'nonsense' WHERE key = 'b'").unwrap();
        db.execute_batch("UPDATE locks SET key = CAST(x'ff' AS TEXT) WHERE key = 'c'").unwrap();
        sweep(&db, &env(idle + 100, "boot")).unwrap();
        let rows = |what: &str| -> i64 {
            db.query_row(&format!("SELECT count(*) FROM locks WHERE {what}"), [], |row| row.get(0)).unwrap()
        };
        assert_eq!((rows("owner = 'nonsense'"), rows("key = CAST(x'ff' AS TEXT)"), rows("true")), (1, 1, 2));
    }

    #[test]
    fn making_rows_removes_idle_ones() {
        let db = file();
        let idle = i64::try_from(IDLE.as_micros()).unwrap();
        for n in 0..20_000u64 {
            let now = i64::try_from(n).unwrap() * idle / 2000;
            let ask = request(&LOCK.acquire, &format!("lock {n}"), &acquire(n, 100, false, None).args);
            run(&db, &env(now, "boot"), &ask).unwrap();
        }
        let rows: i64 = db.query_row("SELECT count(*) FROM locks", [], |row| row.get(0)).unwrap();
        assert!((2000..3500).contains(&rows), "{rows}");
    }

    #[test]
    fn what_somebody_else_wrote_is_an_error() {
        let db = file();
        assert!(granted(&db, &env(0, "boot"), &acquire(1, 100, false, None)).is_some());
        db.execute("UPDATE locks SET owner = 'me'", []).unwrap();
        assert!(run(&db, &env(0, "boot"), &acquire(2, 100, false, None)).is_err());
        let reply = run(&db, &env(0, "boot"), &request(&LOCK.acquire, "k", &[])).unwrap().0;
        assert!(matches!(reply, Reply::Error { .. }));
    }
}
