//! What the rows of latches and barriers have in common: one row of `gates` each, and attempts that are remembered.
//!
//! One request is one transaction, as for locks. A row's times are on the boot clock of whoever wrote it; on another
//! one it goes by the wall clock.

use lockwright_machines::cell::foreign;
use lockwright_machines::engine::{Procedure, RecordKind};
use lockwright_machines::lease::{BARRIER, LATCH};
use lockwright_machines::lock_cell::Surroundings;
use rusqlite::{Connection, OptionalExtension};

use super::native_rows::{Env, execute, read_attempt, readable, unreadable};
use super::{barrier_rows, latch_rows};
use crate::protocol::{AttemptId, InboxId, Reply};
use crate::time::StoreTime;

/// With each new one go up to so many that nobody uses: more than one, so that they do not add up.
const SWEEP: u32 = 16;

/// One row of `gates`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gate {
    pub(super) kind: RecordKind,
    pub(super) count: u32,
    pub(super) generation: i64,
    pub(super) goes: StoreTime,
}

/// Runs one request for a latch or a barrier on its row, if there is one.
///
/// # Errors
/// As [`super::record_rows::run`].
pub(super) fn run(
    db: &Connection,
    env: &Env<'_>,
    key: &str,
    known: Option<Gate>,
    procedure: Procedure,
    around: &mut Surroundings<'_>,
) -> rusqlite::Result<Reply> {
    let before = known.filter(|gate| env.now < gate.goes);
    if known.is_some() && before.is_none() && !procedure.only_looks() {
        forget(db, key)?;
    }
    let rows = Rows { db, env, key };
    let (reply, after) = match procedure {
        Procedure::Latch(procedure) => latch_rows::run(rows, around, before, procedure)?,
        Procedure::Barrier(procedure) => barrier_rows::run(rows, around, before, procedure)?,
        Procedure::Lock(_) | Procedure::Shared(_) => return Ok(foreign(before.map_or(LATCH, |gate| gate.word()))),
    };
    if after != before
        && let Some(gate) = after
    {
        store(db, env, key, &gate)?;
        if before.is_none() {
            sweep(db, env)?;
        }
    }
    Ok(reply)
}

impl Gate {
    pub(super) fn load(db: &Connection, env: &Env<'_>, key: &str) -> rusqlite::Result<Option<Self>> {
        db.prepare_cached("SELECT kind, count, generation, goes, clock, goes_wall FROM gates WHERE key = ?1")?
            .query_row([key], |row| {
                let kind = match row.get_ref(0)?.as_str()? {
                    LATCH => RecordKind::Latch,
                    BARRIER => RecordKind::Barrier,
                    _ => return Err(unreadable(0, "a kind")),
                };
                let goes = here(env, row.get(3)?, row.get_ref(4)?.as_str()?, row.get(5)?);
                Ok(Gate { kind, count: row.get(1)?, generation: row.get(2)?, goes })
            })
            .optional()
    }

    /// What it is.
    pub(super) fn word(&self) -> &'static str {
        if self.kind == RecordKind::Barrier { BARRIER } else { LATCH }
    }
}

fn store(db: &Connection, env: &Env<'_>, key: &str, gate: &Gate) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO gates (key, kind, count, generation, goes, clock, goes_wall) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let Gate { count, generation, goes, .. } = *gate;
    execute(db, sql, (key, gate.word(), count, generation, goes.0, env.clock, by_the_wall(env, goes))).map(|_| ())
}

fn wall(env: &Env<'_>) -> i64 {
    i64::try_from(env.wall).unwrap_or(i64::MAX)
}

/// A time of our clock by the wall clock.
pub(super) fn by_the_wall(env: &Env<'_>, at: StoreTime) -> i64 {
    wall(env).saturating_add(at.micros_since(env.now))
}

/// A time by our clock that was written as `at` on `clock`, and as `wall_time` by the wall clock.
pub(super) fn here(env: &Env<'_>, at: i64, clock: &str, wall_time: i64) -> StoreTime {
    let left = || wall_time.saturating_sub(wall(env));
    StoreTime(if clock == env.clock { at } else { env.now.0.saturating_add(left()) })
}

fn forget(db: &Connection, key: &str) -> rusqlite::Result<()> {
    execute(db, "DELETE FROM gates WHERE key = ?1", [key])?;
    execute(db, "DELETE FROM latch_waiters WHERE key = ?1", [key])?;
    execute(db, "DELETE FROM places WHERE key = ?1", [key])?;
    execute(db, "DELETE FROM remembered WHERE key = ?1", [key]).map(|_| ())
}

pub(super) fn sweep(db: &Connection, env: &Env<'_>) -> rusqlite::Result<()> {
    let mut statement = db.prepare_cached(
        "SELECT key FROM gates WHERE goes_wall <= ?1 AND (clock <> ?2 OR goes <= ?3) ORDER BY goes_wall LIMIT ?4",
    )?;
    let keys = statement.query_map((wall(env), env.clock, env.now.0, SWEEP), |row| readable(row.get(0)))?;
    let keys = keys.collect::<rusqlite::Result<Vec<Option<String>>>>()?;
    keys.iter().flatten().try_for_each(|key| forget(db, key))
}

/// The rows of one of them.
pub(super) struct Rows<'a> {
    pub(super) db: &'a Connection,
    pub(super) env: &'a Env<'a>,
    pub(super) key: &'a str,
}

impl Rows<'_> {
    /// Whether `attempt` is remembered for longer than `now`, and how it passed, if it did.
    pub(super) fn recall(&mut self, attempt: AttemptId, now: StoreTime) -> rusqlite::Result<Option<Option<i64>>> {
        // On another clock it is not known how late it is.
        self.db
            .prepare_cached(
                "SELECT passage FROM remembered WHERE key = ?1 AND attempt = ?2 AND (clock <> ?3 OR until > ?4)",
            )?
            .query_row((self.key, attempt.to_string(), self.env.clock, now.0), |row| row.get(0))
            .optional()
    }

    /// Remembers it until `until`, and forgets those whose time is over at `now`.
    pub(super) fn remember(
        &mut self,
        attempt: AttemptId,
        passage: Option<i64>,
        until: StoreTime,
        now: StoreTime,
    ) -> rusqlite::Result<()> {
        let Rows { db, env, key } = self;
        let over = "DELETE FROM remembered WHERE key = ?1 AND clock = ?2 AND until <= ?3";
        execute(db, over, (&*key, env.clock, now.0))?;
        let sql = "INSERT OR REPLACE INTO remembered (key, attempt, until, clock, passage) VALUES (?1, ?2, ?3, ?4, ?5)";
        execute(db, sql, (&*key, attempt.to_string(), until.0, env.clock, passage)).map(|_| ())
    }

    pub(super) fn clear(&mut self) -> rusqlite::Result<()> {
        forget(self.db, self.key)
    }
}

/// Who waits, from an attempt and an inbox in this order.
pub(super) fn read_waiter(row: &rusqlite::Row<'_>) -> rusqlite::Result<(AttemptId, InboxId)> {
    Ok((read_attempt(row)?, InboxId(row.get::<_, i64>(1)?.cast_unsigned())))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A moment on a clock.
    pub(in super::super) fn env<'a>(now: i64, clock: &'a str) -> Env<'a> {
        let wall = 1_000_000 + now.unsigned_abs();
        Env { now: StoreTime(now), clock, wall, process: "us", alive: &|_| true, gone: &|_| false }
    }
}
