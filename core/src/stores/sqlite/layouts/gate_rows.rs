//! What the rows of latches and barriers have in common: one row of `gates` each, and attempts that are remembered.
//!
//! One request is one transaction, as for locks. A row's times are on the boot clock of whoever wrote it; on another
//! one it goes by the wall clock.

use lockwright_machines::lease::{BARRIER, LATCH};
use lockwright_machines::lock_cell::Surroundings;
use lockwright_machines::shared_machine::foreign;
use rusqlite::{Connection, OptionalExtension};

use super::native_rows::{Env, Lock, Pushes, execute, read_attempt, readable, remove};
use super::{barrier_rows, latch_rows, shared_rows};
use crate::protocol::{AttemptId, InboxId, Reply};
use crate::time::StoreTime;

/// With each new one go up to so many that nobody uses: more than one, so that they do not add up.
const SWEEP: u32 = 16;

/// A request to one of them.
#[derive(Debug)]
pub(super) enum Procedure {
    Latch(lockwright_machines::latch_machine::Procedure),
    Barrier(lockwright_machines::barrier_machine::Procedure),
}

impl Procedure {
    pub(super) fn read(request: &crate::protocol::Request) -> Option<Self> {
        let barrier = || lockwright_machines::barrier_machine::Procedure::read(request).map(Procedure::Barrier);
        lockwright_machines::latch_machine::Procedure::read(request).map(Procedure::Latch).or_else(barrier)
    }

    fn kind(&self) -> &'static str {
        match self {
            Procedure::Latch(_) => LATCH,
            Procedure::Barrier(_) => BARRIER,
        }
    }

    fn looks(&self) -> bool {
        match self {
            Procedure::Latch(procedure) => {
                use lockwright_machines::latch_machine::Procedure::{Inspect, Look};
                matches!(procedure, Look | Inspect)
            }
            Procedure::Barrier(procedure) => {
                use lockwright_machines::barrier_machine::Procedure::{Inspect, Look};
                matches!(procedure, Look | Inspect)
            }
        }
    }
}

/// One row of `gates`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gate {
    pub(super) count: u32,
    pub(super) generation: i64,
    pub(super) goes: StoreTime,
}

/// Executes one request.
///
/// # Errors
/// As [`super::native_rows::run`].
pub(super) fn run(
    db: &Connection,
    env: &Env<'_>,
    key: &str,
    procedure: &Procedure,
) -> rusqlite::Result<(Reply, Pushes)> {
    let known = load(db, env, key)?;
    let is_known = known.is_some();
    let in_use = known.filter(|(_, gate)| env.now < gate.goes);
    let other = match &in_use {
        Some((kind, _)) => (kind != procedure.kind()).then(|| foreign(kind)),
        None => other_in_the_way(db, env, key, procedure.looks())?,
    };
    if let Some(other) = other {
        return Ok((other, Pushes::new()));
    }
    let before = in_use.map(|(_, gate)| gate);
    if is_known && before.is_none() && !procedure.looks() {
        forget(db, key)?;
    }
    let mut around = Surroundings { now: env.now, token_floor: env.wall, alive: env.alive, pushes: Pushes::new() };
    let rows = Rows { db, env, key };
    let (reply, after) = match procedure {
        Procedure::Latch(procedure) => latch_rows::run(rows, &mut around, before, procedure)?,
        Procedure::Barrier(procedure) => barrier_rows::run(rows, &mut around, before, procedure)?,
    };
    if after != before
        && let Some(gate) = after
    {
        store(db, env, key, procedure.kind(), &gate)?;
        if before.is_none() {
            sweep(db, env)?;
        }
    }
    Ok((reply, around.pushes))
}

/// What a look tells, if a latch or a barrier lies under `key`.
pub(super) fn seen(db: &Connection, env: &Env<'_>, key: &str) -> rusqlite::Result<Option<Reply>> {
    let look = in_use(db, env, key)?.map(|(kind, _)| match kind == BARRIER {
        true => Procedure::Barrier(lockwright_machines::barrier_machine::Procedure::Inspect),
        false => Procedure::Latch(lockwright_machines::latch_machine::Procedure::Inspect),
    });
    look.map(|look| Ok(run(db, env, key, &look)?.0)).transpose()
}

/// The refusal of anything else, if a latch or a barrier lies under its name.
pub(super) fn in_the_way(db: &Connection, env: &Env<'_>, key: &str) -> rusqlite::Result<Option<Reply>> {
    Ok(in_use(db, env, key)?.map(|(kind, _)| foreign(&kind)))
}

fn in_use(db: &Connection, env: &Env<'_>, key: &str) -> rusqlite::Result<Option<(String, Gate)>> {
    Ok(load(db, env, key)?.filter(|(_, gate)| env.now < gate.goes))
}

/// The refusal of both, if a lock or a shared record that is in use lies under the name; one that is not makes room.
fn other_in_the_way(db: &Connection, env: &Env<'_>, key: &str, looks: bool) -> rusqlite::Result<Option<Reply>> {
    let lock = Lock::load(db, env, key)?;
    if lock.is_used(env) {
        return Ok(Some(foreign("lock")));
    }
    if lock.stored && !looks {
        remove(db, "DELETE FROM locks WHERE key = ?1", key, lock.cell.last)?;
    }
    shared_rows::in_the_way(db, key, looks)
}

fn load(db: &Connection, env: &Env<'_>, key: &str) -> rusqlite::Result<Option<(String, Gate)>> {
    db.prepare_cached("SELECT kind, count, generation, goes, clock, goes_wall FROM gates WHERE key = ?1")?
        .query_row([key], |row| {
            let goes = here(env, row.get(3)?, row.get_ref(4)?.as_str()?, row.get(5)?);
            Ok((row.get(0)?, Gate { count: row.get(1)?, generation: row.get(2)?, goes }))
        })
        .optional()
}

fn store(db: &Connection, env: &Env<'_>, key: &str, kind: &str, gate: &Gate) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO gates (key, kind, count, generation, goes, clock, goes_wall) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let Gate { count, generation, goes } = *gate;
    execute(db, sql, (key, kind, count, generation, goes.0, env.clock, by_the_wall(env, goes))).map(|_| ())
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
