//! Read/write locks and semaphores beside `native`: the rules of [`lockwright_machines::shared_cell`] on rows.
//!
//! What is said there of other clocks holds here for each holder by itself.

use std::time::Duration;

use lockwright_machines::cell::{Cell, Runs};
use lockwright_machines::lock_cell::{Claimant, LockStorage, Surroundings};
use lockwright_machines::rank::Rank;
use lockwright_machines::shared_cell::{Acquire, Holder, Seeker, SharedCell, SharedStorage};
use lockwright_machines::shared_machine::Procedure;
use rusqlite::{Connection, OptionalExtension, Row};

use super::native_rows::{
    Env, IDLE, Queue, SWEEP, Sighting, execute, highest, integer, is_ours, next_page, read_waiter, readable, token,
    unreadable,
};
use crate::protocol::{AttemptId, InboxId, Reply};
use crate::share::Primitive;
use crate::time::StoreTime;

/// For how long a size that was chosen is kept though nobody uses it.
const RESIZED: Duration = Duration::from_secs(30 * 24 * 3600);

/// Runs one request on its row, if there is one.
///
/// # Errors
/// As [`super::record_rows::run`].
pub(super) fn run(
    db: &Connection,
    env: &Env<'_>,
    key: &str,
    known: Option<Record>,
    procedure: Procedure,
    around: &mut Surroundings<'_>,
) -> rusqlite::Result<Reply> {
    let mut record = known.map_or_else(|| Record::new(db), Ok)?;
    let looks = SharedCell::only_looks(&procedure);
    if let Procedure::Acquire(ask) = &procedure {
        record.end_the_gone(db, env, key, ask)?;
    }
    let (before, waiting) = (record.cell.clone(), record.waiting);
    let mut storage = Rows::of(db, env, key, waiting, looks);
    let reply = record.cell.run(procedure, &mut storage, around)?;
    record.waiting = storage.queue.waiting;
    let is_changed = record.cell != before || record.waiting != waiting;
    if !looks && is_changed && (record.stored || record.is_used()) {
        record.store(db, env, key)?;
    }
    Ok(reply)
}

/// One row of `shared`.
pub(super) struct Record {
    pub(super) cell: SharedCell,
    pub(super) waiting: u32,
    /// Whether there is a row.
    stored: bool,
    /// When it was last written, if by our clock.
    changed: Option<StoreTime>,
}

impl Record {
    pub(super) fn load(db: &Connection, env: &Env<'_>, key: &str) -> rusqlite::Result<Option<Self>> {
        db.prepare_cached(
            "SELECT primitive, capacity, resized, used, waiting, last, soonest, clock, changed FROM shared \
             WHERE key = ?1",
        )?
        .query_row([key], |row| Record::read(env, row))
        .optional()
    }

    /// One that has no row yet.
    fn new(db: &Connection) -> rusqlite::Result<Self> {
        let cell = SharedCell { last: highest(db)?, ..SharedCell::default() };
        Ok(Record { cell, waiting: 0, stored: false, changed: None })
    }

    /// Whether somebody holds of it or waits for it, or it has a size of its own.
    pub(super) fn is_used(&self) -> bool {
        self.cell.used > 0 || self.cell.resized || self.waiting > 0
    }

    fn read(env: &Env<'_>, row: &Row<'_>) -> rusqlite::Result<Self> {
        let primitive = Primitive::named(row.get_ref(0)?.as_str()?).ok_or_else(|| unreadable(0, "a primitive"))?;
        let changed: i64 = row.get(8)?;
        let ours = is_ours(env, row.get_ref(7)?.as_str()?, changed);
        let cell = SharedCell {
            primitive: Some(primitive),
            capacity: row.get(1)?,
            resized: row.get(2)?,
            used: row.get(3)?,
            last: token(row, 5)?,
            // Of another clock nothing is concluded: the holders are looked at.
            soonest: if ours { StoreTime(row.get(6)?) } else { env.now },
        };
        let changed = ours.then_some(StoreTime(changed));
        Ok(Record { cell, waiting: row.get(4)?, stored: true, changed })
    }

    /// Holders whose process is gone hold nothing, whatever their leases say. Looked at only when somebody needs the
    /// room.
    fn end_the_gone(&mut self, db: &Connection, env: &Env<'_>, key: &str, ask: &Acquire) -> rusqlite::Result<()> {
        let needed = self.waiting > 0 || self.cell.used.saturating_add(ask.asker.units) > self.cell.capacity;
        if self.cell.used == 0 || !needed {
            return Ok(());
        }
        let mut statement = db.prepare_cached(
            "SELECT DISTINCT process FROM holders WHERE key = ?1 AND clock = ?2 AND process NOT IN ('', ?3)",
        )?;
        let processes = statement.query_map((key, env.clock, env.process), |row| row.get::<_, String>(0))?;
        for process in processes.collect::<rusqlite::Result<Vec<_>>>()? {
            if (env.gone)(&process) {
                execute(
                    db,
                    "UPDATE holders SET expires = min(expires, ?4) WHERE key = ?1 AND clock = ?2 AND process = ?3",
                    (key, env.clock, &process, env.now.0),
                )?;
                self.cell.soonest = self.cell.soonest.min(env.now);
            }
        }
        Ok(())
    }

    fn store(&self, db: &Connection, env: &Env<'_>, key: &str) -> rusqlite::Result<()> {
        let SharedCell { primitive, capacity, resized, used, last, soonest } = &self.cell;
        execute(
            db,
            "INSERT OR REPLACE INTO shared \
             (key, primitive, capacity, resized, used, waiting, last, soonest, clock, changed) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            rusqlite::params![
                key,
                primitive.map_or("", Primitive::name),
                capacity,
                resized,
                used,
                self.waiting,
                integer(*last),
                soonest.0,
                env.clock,
                env.now.0,
            ],
        )?;
        if !self.stored && last.is_multiple_of(SWEEP.0) {
            sweep(db, env)?;
        }
        Ok(())
    }
}

/// The rows of `holders` and `waiters` with one key.
pub(super) struct Rows<'a> {
    queue: Queue<'a>,
    /// Whose those are that were looked at in the queue.
    processes: Vec<(AttemptId, String)>,
    /// It is only looked at.
    looks: bool,
}

macro_rules! holders {
    ($which:literal) => {
        concat!(
            "SELECT owner, units, token, since, expires, claimed, card, process, clock, changed, attempt, \
             seen_by, seen_expires, seen_until FROM holders WHERE key = ?1 ",
            $which
        )
    };
}

impl<'a> Rows<'a> {
    pub(super) fn of(db: &'a Connection, env: &'a Env<'a>, key: &'a str, waiting: u32, looks: bool) -> Self {
        Rows { queue: Queue { db, env, key, waiting, popped: None }, processes: Vec::new(), looks }
    }

    fn read(&self, row: &Row<'_>) -> rusqlite::Result<(Holder, Option<Sighting>)> {
        let env = self.queue.env;
        let owner = Claimant::parse(row.get_ref(0)?.as_str()?).ok_or_else(|| unreadable(0, "an owner"))?;
        let (since, expires, changed) = (StoreTime(row.get(3)?), row.get(4)?, row.get(9)?);
        let mut holder = Holder {
            owner,
            units: row.get(1)?,
            token: token(row, 2)?,
            since,
            expires: StoreTime(expires),
            claimed: row.get(5)?,
            card: row.get(6)?,
        };
        if is_ours(env, row.get_ref(8)?.as_str()?, changed) {
            let process: String = row.get(7)?;
            if self.looks && !process.is_empty() && (env.gone)(&process) {
                holder.expires = holder.expires.min(env.now);
            }
            return Ok((holder, None));
        }
        let (since, sighting) = Sighting::read(env, row, changed, since, expires)?;
        (holder.since, holder.expires) = (since, sighting.until);
        Ok((holder, Some(sighting)))
    }

    fn remember(&self, holder: &Holder, sighting: &Sighting) -> rusqlite::Result<()> {
        let Queue { db, env, key, .. } = &self.queue;
        execute(
            db,
            "UPDATE holders SET seen_by = ?3, seen_expires = ?4, seen_until = ?5 WHERE key = ?1 AND attempt = ?2",
            (key, holder.owner.attempt.to_string(), env.clock, sighting.of, sighting.until.0),
        )?;
        Ok(())
    }
}

impl SharedStorage for Rows<'_> {
    type Error = rusqlite::Error;

    fn holder(&mut self, attempt: AttemptId) -> rusqlite::Result<Option<Holder>> {
        let found = self
            .queue
            .db
            .prepare_cached(holders!("AND attempt = ?2"))?
            .query_row((self.queue.key, attempt.to_string()), |row| self.read(row))
            .optional()?;
        Ok(found.map(|(holder, _)| holder))
    }

    fn holders(&mut self) -> rusqlite::Result<Vec<Holder>> {
        let mut statement = self.queue.db.prepare_cached(holders!("ORDER BY token"))?;
        let rows = statement.query_map([self.queue.key], |row| self.read(row))?;
        let rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        for (holder, sighting) in rows.iter().filter(|_| !self.looks) {
            if let Some(sighting) = sighting.as_ref().filter(|sighting| sighting.new) {
                self.remember(holder, sighting)?;
            }
        }
        Ok(rows.into_iter().map(|(holder, _)| holder).collect())
    }

    fn keep(&mut self, holder: &Holder) -> rusqlite::Result<()> {
        let Queue { db, env, key, .. } = &self.queue;
        let known = self.processes.iter().find(|(attempt, _)| *attempt == holder.owner.attempt);
        execute(
            db,
            "INSERT OR REPLACE INTO holders \
             (key, attempt, owner, units, token, since, expires, claimed, card, process, clock, changed) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            rusqlite::params![
                key,
                holder.owner.attempt.to_string(),
                holder.owner.to_string(),
                holder.units,
                integer(holder.token),
                holder.since.0,
                holder.expires.0,
                holder.claimed,
                holder.card,
                known.map_or(env.process, |(_, process)| process),
                env.clock,
                env.now.0,
            ],
        )?;
        Ok(())
    }

    fn forget(&mut self, attempt: AttemptId) -> rusqlite::Result<()> {
        let of = (self.queue.key, attempt.to_string());
        execute(self.queue.db, "DELETE FROM holders WHERE key = ?1 AND attempt = ?2", of).map(|_| ())
    }

    fn join(&mut self, seeker: &Seeker) -> rusqlite::Result<u32> {
        self.queue.join_for(&seeker.who, Rank::LOWEST, seeker.units, seeker.in_order)
    }

    fn waiting(&mut self) -> rusqlite::Result<u32> {
        Ok(self.queue.waiting)
    }

    fn list(&mut self, most: usize) -> rusqlite::Result<Vec<Seeker>> {
        let mut statement = self.queue.db.prepare_cached(
            "SELECT attempt, inbox, claim, card, units, in_order FROM waiters WHERE key = ?1 ORDER BY seq LIMIT ?2",
        )?;
        let rows = statement.query_map((self.queue.key, most as i64), |row| {
            Ok(Seeker { who: read_waiter(row)?, units: row.get(4)?, in_order: row.get(5)? })
        })?;
        rows.collect()
    }

    fn nth(&mut self, ahead: u32) -> rusqlite::Result<Option<Seeker>> {
        while self.queue.waiting > ahead {
            let next = self
                .queue
                .db
                .prepare_cached(
                    "SELECT attempt, inbox, claim, card, units, in_order, process, clock FROM waiters \
                     WHERE key = ?1 ORDER BY seq LIMIT 1 OFFSET ?2",
                )?
                .query_row((self.queue.key, ahead), |row| {
                    let seeker = Seeker { who: read_waiter(row)?, units: row.get(4)?, in_order: row.get(5)? };
                    Ok((seeker, row.get::<_, String>(6)?, row.get_ref(7)?.as_str()? == self.queue.env.clock))
                })
                .optional()?;
            let Some((seeker, process, on_our_clock)) = next else { return Ok(None) };
            let attempt = seeker.who.owner.attempt;
            if on_our_clock {
                self.processes.push((attempt, process));
                return Ok(Some(seeker));
            }
            // It could not date the grant pushed to it.
            self.queue.leave(attempt)?;
        }
        Ok(None)
    }

    fn leave(&mut self, attempt: AttemptId) -> rusqlite::Result<()> {
        self.queue.leave(attempt)
    }

    fn drop_inbox(&mut self, inbox: InboxId) -> rusqlite::Result<()> {
        self.queue.drop_inbox(inbox)
    }
}

/// Removes records to which nothing has happened for long, a few at a time and in turn, as the locks' own sweep does.
pub(super) fn sweep(db: &Connection, env: &Env<'_>) -> rusqlite::Result<()> {
    let (mut last, from): (u64, String) = db
        .prepare_cached("SELECT last, swept_shared FROM meta")?
        .query_row([], |row| Ok((token(row, 0)?, row.get(1)?)))?;
    let mut statement = db.prepare_cached("SELECT key FROM shared WHERE key > ?1 ORDER BY key LIMIT ?2")?;
    let keys = statement.query_map((from, SWEEP.1 as i64), |row| readable(row.get(0)))?;
    let keys = keys.collect::<rusqlite::Result<Vec<Option<String>>>>()?;
    for key in keys.iter().flatten() {
        let Some(Some(record)) = readable(Record::load(db, env, key))? else { continue };
        let Some(holders) = readable(Rows::of(db, env, key, record.waiting, false).holders())? else { continue };
        let ends = holders.iter().map(|holder| holder.expires).chain(record.changed);
        let stays = if record.cell.resized { RESIZED } else { IDLE };
        if ends.max().is_some_and(|end| end.after(stays) > env.now) {
            continue;
        }
        for sql in [
            "DELETE FROM waiters WHERE key = ?1",
            "DELETE FROM holders WHERE key = ?1",
            "DELETE FROM shared WHERE key = ?1",
        ] {
            execute(db, sql, [key])?;
        }
        last = last.max(record.cell.last);
    }
    execute(db, "UPDATE meta SET last = ?1, swept_shared = ?2", (integer(last), next_page(keys.iter())))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use lockwright_machines::engine;
    use lockwright_machines::lock_cell::Waiter;

    use super::super::native_rows::tests::file;
    use super::super::record_rows::{self, Pushes};
    use super::*;
    use crate::share::Share;

    fn env<'a>(now: i64, clock: &'a str) -> Env<'a> {
        Env { now: StoreTime(now), clock, wall: 1000, process: "us", alive: &|_| true, gone: &|_| false }
    }

    fn run(db: &Connection, env: &Env<'_>, key: &str, procedure: &Procedure) -> rusqlite::Result<(Reply, Pushes)> {
        record_rows::run_procedure(db, env, key, engine::Procedure::Shared(procedure.clone()))
    }

    fn claimant(n: u64) -> Claimant {
        Claimant { attempt: AttemptId(n.into()), inbox: InboxId(n % 2), claim: Duration::from_millis(5) }
    }

    fn acquire(n: u64, share: Share, ttl: u64, wait: bool) -> Procedure {
        let who = Waiter { owner: claimant(n), card: "card".into() };
        Procedure::Acquire(Acquire {
            asker: Seeker { who, units: share.units, in_order: share.in_order },
            primitive: share.primitive,
            capacity: share.capacity,
            ttl: Duration::from_micros(ttl),
            not_after: StoreTime(i64::MAX),
            wait,
        })
    }

    fn granted(db: &Connection, env: &Env<'_>, n: u64, share: Share) -> Option<i64> {
        match run(db, env, "k", &acquire(n, share, 100, false)).unwrap().0 {
            Reply::Int(token) => Some(token),
            _ => None,
        }
    }

    #[test]
    fn readers_of_another_boot_end_one_lease_after_they_were_first_seen() {
        let db = file();
        for n in [1, 2] {
            assert!(granted(&db, &env(5_000_000, "old"), n, Share::READ).is_some());
        }
        assert_eq!(granted(&db, &env(7, "new"), 3, Share::WRITE), None);
        assert!(granted(&db, &env(50, "new"), 4, Share::READ).is_some(), "a reader need not know");
        run(&db, &env(51, "new"), "k", &Procedure::Release(claimant(4))).unwrap();
        assert_eq!(granted(&db, &env(106, "new"), 3, Share::WRITE), None);
        assert!(granted(&db, &env(107, "new"), 3, Share::WRITE).is_some());
    }

    #[test]
    fn a_reader_on_another_clock_that_renews_is_never_taken_for_gone() {
        let db = file();
        assert!(granted(&db, &env(5_000_000, "theirs"), 1, Share::READ).is_some());
        for round in 0..20 {
            assert_eq!(granted(&db, &env(60 * round, "ours"), 2, Share::WRITE), None, "{round}");
            let renew = Procedure::Renew(claimant(1), Duration::from_micros(100));
            assert_eq!(run(&db, &env(5_000_060 + 60 * round, "theirs"), "k", &renew).unwrap().0, Reply::Int(1));
        }
    }

    #[test]
    fn permits_of_a_process_that_is_gone_are_free() {
        let db = file();
        let pool = Share::permits(1, 2, false).unwrap();
        let theirs = |now| Env { process: "them", ..env(now, "boot") };
        assert!(granted(&db, &theirs(0), 1, pool).is_some());
        assert!(granted(&db, &env(1, "boot"), 2, pool).is_some());
        assert_eq!(granted(&db, &env(2, "boot"), 3, pool), None);
        let gone = |process: &str| process == "them";
        let later = Env { gone: &gone, ..env(3, "boot") };
        let Reply::List(seen) = run(&db, &later, "k", &Procedure::Inspect).unwrap().0 else { panic!("a list") };
        assert_eq!(seen.len(), 6);
        assert!(granted(&db, &later, 3, pool).is_some());
        assert_eq!(granted(&db, &later, 4, pool), None, "the other one lives");
        // By hand-off, the permit belongs to the process of the waiter and not to that of whoever let go.
        assert!(matches!(run(&db, &theirs(4), "k", &acquire(5, pool, 100, true)).unwrap().0, Reply::List(_)));
        run(&db, &env(5, "boot"), "k", &Procedure::Release(claimant(2))).unwrap();
        let later = Env { gone: &gone, ..env(6, "boot") };
        assert!(granted(&db, &later, 6, pool).is_some());
    }

    #[test]
    fn one_name_is_one_thing_while_it_is_used() {
        let db = file();
        let lock = |now: i64, call: &'static str| {
            let request = match call {
                "acquire" => super::super::native_rows::tests::acquire(1, 100, false, None),
                _ => super::super::native_rows::tests::release(1),
            };
            record_rows::run(&db, &env(now, "boot"), &request).unwrap().0
        };
        let Reply::Int(first) = lock(0, "acquire") else { panic!("it is free") };
        assert_eq!(granted(&db, &env(1, "boot"), 2, Share::READ), None);
        lock(2, "release");
        let token = granted(&db, &env(3, "boot"), 2, Share::READ).unwrap();
        assert!(token > first, "tokens rise from one to the other");
        assert!(matches!(lock(4, "acquire"), Reply::Error { code, .. } if code == "FOREIGN"));
        run(&db, &env(5, "boot"), "k", &Procedure::Release(claimant(2))).unwrap();
        assert!(matches!(lock(6, "acquire"), Reply::Int(again) if again > token));
    }

    #[test]
    fn records_that_nobody_uses_are_removed_those_that_were_resized_late() {
        let db = file();
        let idle = i64::try_from(IDLE.as_micros()).unwrap();
        for (n, key) in ["a", "b", "c"].iter().enumerate() {
            run(&db, &env(0, "boot"), key, &acquire(n as u64, Share::READ, 100, false)).unwrap();
        }
        run(&db, &env(0, "boot"), "kept", &Procedure::Resize(3)).unwrap();
        let count = |table: &str| -> i64 {
            db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
        };
        sweep(&db, &env(idle, "boot")).unwrap();
        assert_eq!((count("shared"), count("holders")), (4, 3));
        sweep(&db, &env(idle + 101, "boot")).unwrap();
        assert_eq!((count("shared"), count("holders")), (1, 0));
        sweep(&db, &env(i64::try_from(RESIZED.as_micros()).unwrap(), "boot")).unwrap();
        assert_eq!(count("shared"), 0);
    }

    #[test]
    fn a_record_that_cannot_be_read_stays_and_the_others_are_removed() {
        let db = file();
        let idle = i64::try_from(IDLE.as_micros()).unwrap();
        for (n, key) in ["a", "b", "c", "d", "e"].iter().enumerate() {
            run(&db, &env(0, "boot"), key, &acquire(n as u64, Share::READ, 100, false)).unwrap();
        }
        db.execute_batch("UPDATE shared SET primitive = 'nonsense' WHERE key = 'b'").unwrap();
        db.execute_batch("UPDATE holders SET owner = 'nonsense' WHERE key = 'c'").unwrap();
        db.execute_batch("UPDATE shared SET key = CAST(x'ff' AS TEXT) WHERE key = 'd'").unwrap();
        sweep(&db, &env(idle + 101, "boot")).unwrap();
        let left = |what: &str| -> i64 {
            db.query_row(&format!("SELECT count(*) FROM shared WHERE {what}"), [], |row| row.get(0)).unwrap()
        };
        assert_eq!((left("key IN ('b', 'c') OR key = CAST(x'ff' AS TEXT)"), left("true")), (3, 3));
    }
}
