//! Latches beside `native`: the rules of [`crate::latch_cell`] on rows.
//!
//! One request is one transaction, as there. A row's times are on the boot clock of whoever wrote it; on another one it goes by the
//! wall clock, which is wrong at most about how long a latch that nobody uses is remembered.

use rusqlite::{Connection, OptionalExtension, Row};

use super::native::{Env, Lock, Pushes, execute, remove, unreadable};
use super::shared;
use crate::cell::Surroundings;
use crate::latch_cell::{LatchCell, Porch};
use crate::latch_layout::Procedure;
use crate::protocol::{AttemptId, InboxId, Reply};
use crate::shared::foreign;
use crate::time::StoreTime;

/// With each new latch go up to so many that nobody uses: more than one, so that they do not add up.
const SWEEP: u32 = 16;

/// Executes one request.
///
/// # Errors
/// As [`super::native::run`].
pub(super) fn run(
    db: &Connection,
    env: &Env<'_>,
    key: &str,
    procedure: &Procedure,
) -> rusqlite::Result<(Reply, Pushes)> {
    let looks = matches!(procedure, Procedure::Look | Procedure::Inspect);
    let mut cell = load(db, env, key)?.unwrap_or_default();
    let is_there = cell.look(env.now).is_some();
    if !is_there && let Some(other) = other_in_the_way(db, env, key, looks)? {
        return Ok((other, Pushes::new()));
    }
    let before = cell;
    let mut around = Surroundings { now: env.now, token_floor: env.wall, alive: env.alive, pushes: Pushes::new() };
    let reply = procedure.run(&mut cell, &mut Rows { db, env, key }, &mut around)?;
    if cell != before {
        store(db, env, key, &cell)?;
    }
    if !is_there && cell.look(env.now).is_some() {
        sweep(db, env)?;
    }
    Ok((reply, around.pushes))
}

/// What a look tells, if a latch lies under `key`.
pub(super) fn seen(db: &Connection, env: &Env<'_>, key: &str) -> rusqlite::Result<Option<Reply>> {
    let Some(mut cell) = load(db, env, key)?.filter(|cell| cell.look(env.now).is_some()) else { return Ok(None) };
    let mut around = Surroundings { now: env.now, token_floor: env.wall, alive: env.alive, pushes: Pushes::new() };
    Procedure::Inspect.run(&mut cell, &mut Rows { db, env, key }, &mut around).map(Some)
}

/// The refusal of anything else, if a latch lies under its name.
pub(super) fn in_the_way(db: &Connection, env: &Env<'_>, key: &str) -> rusqlite::Result<Option<Reply>> {
    let is_there = load(db, env, key)?.is_some_and(|cell| cell.look(env.now).is_some());
    Ok(is_there.then(|| foreign("latch")))
}

/// The refusal of a latch, if a lock or a shared record that is in use lies under its name; one that is not makes room for it.
fn other_in_the_way(db: &Connection, env: &Env<'_>, key: &str, looks: bool) -> rusqlite::Result<Option<Reply>> {
    let lock = Lock::load(db, env, key)?;
    if lock.is_used(env) {
        return Ok(Some(foreign("lock")));
    }
    if lock.stored && !looks {
        remove(db, "DELETE FROM locks WHERE key = ?1", key, lock.cell.last)?;
    }
    shared::in_the_way(db, key, looks)
}

fn load(db: &Connection, env: &Env<'_>, key: &str) -> rusqlite::Result<Option<LatchCell>> {
    db.prepare_cached("SELECT count, goes, clock, goes_wall FROM latches WHERE key = ?1")?
        .query_row([key], |row| {
            let (goes, goes_wall): (i64, i64) = (row.get(1)?, row.get(3)?);
            let ours = row.get_ref(2)?.as_str()? == env.clock;
            let left = || goes_wall.saturating_sub(wall(env));
            let goes = StoreTime(if ours { goes } else { env.now.0.saturating_add(left()) });
            Ok(LatchCell { count: Some(row.get(0)?), goes })
        })
        .optional()
}

fn store(db: &Connection, env: &Env<'_>, key: &str, cell: &LatchCell) -> rusqlite::Result<()> {
    let Some(count) = cell.count else { return forget(db, key) };
    let goes_wall = wall(env).saturating_add(cell.goes.micros_since(env.now));
    let sql = "INSERT OR REPLACE INTO latches (key, count, goes, clock, goes_wall) VALUES (?1, ?2, ?3, ?4, ?5)";
    execute(db, sql, (key, count, cell.goes.0, env.clock, goes_wall)).map(|_| ())
}

fn wall(env: &Env<'_>) -> i64 {
    i64::try_from(env.wall).unwrap_or(i64::MAX)
}

fn forget(db: &Connection, key: &str) -> rusqlite::Result<()> {
    execute(db, "DELETE FROM latches WHERE key = ?1", [key])?;
    execute(db, "DELETE FROM latch_waiters WHERE key = ?1", [key])?;
    execute(db, "DELETE FROM latch_counted WHERE key = ?1", [key]).map(|_| ())
}

fn sweep(db: &Connection, env: &Env<'_>) -> rusqlite::Result<()> {
    let mut statement = db.prepare_cached(
        "SELECT key FROM latches WHERE goes_wall <= ?1 AND (clock <> ?2 OR goes <= ?3) ORDER BY goes_wall LIMIT ?4",
    )?;
    let keys = statement.query_map((wall(env), env.clock, env.now.0, SWEEP), |row| row.get(0))?;
    keys.collect::<rusqlite::Result<Vec<String>>>()?.iter().try_for_each(|key| forget(db, key))
}

/// The rows of one latch.
struct Rows<'a> {
    db: &'a Connection,
    env: &'a Env<'a>,
    key: &'a str,
}

impl Porch for Rows<'_> {
    type Error = rusqlite::Error;

    fn counted(&mut self, attempt: AttemptId, now: StoreTime) -> rusqlite::Result<bool> {
        // On another clock it is not known how late it is.
        self.db
            .prepare_cached(
                "SELECT 1 FROM latch_counted WHERE key = ?1 AND attempt = ?2 AND (clock <> ?3 OR until > ?4)",
            )?
            .exists((self.key, attempt.to_string(), self.env.clock, now.0))
    }

    fn remember(&mut self, attempt: AttemptId, until: StoreTime, now: StoreTime) -> rusqlite::Result<()> {
        let Rows { db, env, key } = self;
        execute(
            db,
            "DELETE FROM latch_counted WHERE key = ?1 AND clock = ?2 AND until <= ?3",
            (&*key, env.clock, now.0),
        )?;
        let sql = "INSERT OR REPLACE INTO latch_counted (key, attempt, until, clock) VALUES (?1, ?2, ?3, ?4)";
        execute(db, sql, (&*key, attempt.to_string(), until.0, env.clock)).map(|_| ())
    }

    fn join(&mut self, attempt: AttemptId, inbox: InboxId) -> rusqlite::Result<()> {
        let sql = "INSERT OR REPLACE INTO latch_waiters (key, attempt, inbox) VALUES (?1, ?2, ?3)";
        execute(self.db, sql, (self.key, attempt.to_string(), inbox.0.cast_signed())).map(|_| ())
    }

    fn leave(&mut self, attempt: AttemptId) -> rusqlite::Result<()> {
        let of = (self.key, attempt.to_string());
        execute(self.db, "DELETE FROM latch_waiters WHERE key = ?1 AND attempt = ?2", of).map(|_| ())
    }

    fn waiting(&mut self) -> rusqlite::Result<u32> {
        let mut statement = self.db.prepare_cached("SELECT count(*) FROM latch_waiters WHERE key = ?1")?;
        statement.query_row([self.key], |row| row.get(0))
    }

    fn take(&mut self) -> rusqlite::Result<Vec<(AttemptId, InboxId)>> {
        let mut statement =
            self.db.prepare_cached("DELETE FROM latch_waiters WHERE key = ?1 RETURNING attempt, inbox")?;
        let mut all = statement.query_map([self.key], read_waiter)?.collect::<rusqlite::Result<Vec<_>>>()?;
        all.sort_unstable();
        Ok(all)
    }

    fn clear(&mut self) -> rusqlite::Result<()> {
        forget(self.db, self.key)
    }
}

fn read_waiter(row: &Row<'_>) -> rusqlite::Result<(AttemptId, InboxId)> {
    let attempt = u128::from_str_radix(row.get_ref(0)?.as_str()?, 16).map_err(|_| unreadable(0, "an attempt"))?;
    Ok((AttemptId(attempt), InboxId(row.get::<_, i64>(1)?.cast_unsigned())))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::native::{SCHEMA, tests as locks};
    use super::*;
    use crate::cell::Claimant;
    use crate::latch_cell::{Change, Deed, Kept, Plan, Wait};
    use crate::protocol::Layout;

    const IDLE: Duration = Duration::from_micros(50);

    fn file() -> Connection {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(SCHEMA).unwrap();
        db
    }

    fn env<'a>(now: i64, clock: &'a str) -> Env<'a> {
        let wall = 1_000_000 + now.unsigned_abs();
        Env { now: StoreTime(now), clock, wall, process: "us", alive: &|_| true, gone: &|_| false }
    }

    fn wait(n: u64, wait: bool) -> Procedure {
        let asker = Claimant { attempt: AttemptId(n.into()), inbox: InboxId(n), claim: Duration::ZERO };
        let plan = Plan { count: 2, idle: IDLE };
        Procedure::Wait(Wait { asker, not_after: StoreTime(i64::MAX), wait, plan })
    }

    fn change(n: u64, deed: Deed, count: u32, idle: Duration) -> Procedure {
        let (attempt, not_after, copies) = (AttemptId(n.into()), StoreTime(i64::MAX), Duration::from_micros(30));
        Procedure::Change(Change { attempt, not_after, copies, deed, plan: Plan { count, idle } })
    }

    fn procedures() -> impl Strategy<Value = Procedure> {
        let idle = prop_oneof![Just(IDLE), Just(IDLE * 4)];
        prop_oneof![
            4 => (0u64..4, any::<bool>()).prop_map(|(n, waits)| wait(n, waits)),
            1 => (0u128..4).prop_map(|n| Procedure::Leave(AttemptId(n))),
            6 => (10u64..20, 1u32..4, idle.clone()).prop_map(|(n, count, idle)| change(n, Deed::Down, count, idle)),
            1 => (20u64..24, 1u32..4, idle).prop_map(|(n, count, idle)| change(n, Deed::Set, count, idle)),
            1 => Just(Procedure::Look),
            1 => Just(Procedure::Inspect),
        ]
    }

    proptest! {
        /// Rows do what the reference does, whatever is asked in whatever order.
        #[test]
        fn rows_do_what_the_reference_does(
            steps in proptest::collection::vec((procedures(), prop_oneof![6 => 0i64..9, 1 => Just(60), 1 => Just(300)]), 1..60)
        ) {
            let db = file();
            let (mut cell, mut kept) = (LatchCell::default(), Kept::default());
            let mut now = 0;
            for (step, pause) in steps {
                now += pause;
                let env = env(now, "boot");
                let (reply, pushes) = run(&db, &env, "k", &step).unwrap();
                let mut around =
                    Surroundings { now: env.now, token_floor: env.wall, alive: env.alive, pushes: Vec::new() };
                let Ok(wanted) = step.run(&mut cell, &mut kept, &mut around);
                prop_assert_eq!(&reply, &wanted, "{:?}", step);
                prop_assert_eq!(pushes, around.pushes);
                prop_assert_eq!(count(&db, "latch_waiters"), kept.waiting.len() as i64);
            }
        }
    }

    fn count(db: &Connection, table: &str) -> i64 {
        db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    }

    fn ask(db: &Connection, env: &Env<'_>, key: &str, procedure: &Procedure) -> Reply {
        run(db, env, key, procedure).unwrap().0
    }

    fn left(count: i64) -> Reply {
        Reply::List(vec![Reply::Int(1), Reply::Int(count)])
    }

    #[test]
    fn after_a_reboot_a_latch_goes_by_the_wall_clock() {
        let db = file();
        let down = |n| change(n, Deed::Down, 9, IDLE);
        assert_eq!(ask(&db, &Env { wall: 1_000, ..env(5_000_000, "old") }, "k", &down(1)), left(8));
        assert_eq!(ask(&db, &Env { wall: 1_049, ..env(7, "new") }, "k", &down(1)), left(8), "a copy from before");
        assert_eq!(ask(&db, &Env { wall: 1_098, ..env(56, "new") }, "k", &down(2)), left(7));
        let forgotten = Env { wall: 1_148, ..env(7, "newer") };
        assert_eq!(ask(&db, &forgotten, "k", &Procedure::Look), Reply::Nil);
        assert_eq!(ask(&db, &forgotten, "k", &down(3)), left(8));
    }

    #[test]
    fn latches_that_nobody_uses_are_removed_with_all_that_lies_beside_them() {
        let db = file();
        for n in 0..20 {
            let key = n.to_string();
            ask(&db, &env(0, "boot"), &key, &wait(1, true));
            ask(&db, &env(0, if n == 7 { "other" } else { "boot" }), &key, &change(2, Deed::Down, 2, IDLE));
        }
        let tables = ["latches", "latch_waiters", "latch_counted"];
        assert_eq!(tables.map(|table| count(&db, table)), [20; 3]);
        ask(&db, &env(49, "boot"), "a", &change(1, Deed::Down, 2, IDLE));
        assert_eq!(count(&db, "latches"), 21);
        ask(&db, &env(50, "boot"), "b", &change(1, Deed::Down, 2, IDLE));
        ask(&db, &env(50, "boot"), "c", &change(1, Deed::Down, 2, IDLE));
        assert_eq!(tables.map(|table| count(&db, table)), [3, 0, 3]);
        // The wall clock alone removes none that this boot knows of.
        ask(&db, &Env { wall: 9_000_000, ..env(51, "boot") }, "d", &change(1, Deed::Down, 2, IDLE));
        assert_eq!(count(&db, "latches"), 4);
    }

    #[test]
    fn one_name_is_one_thing_while_it_is_used() {
        let db = file();
        let lock = |now: i64, request: crate::protocol::Request| {
            super::super::native::run(&db, &env(now, "boot"), &request).unwrap().0
        };
        let Reply::Int(first) = lock(0, locks::acquire(1, 100, false, None)) else { panic!("it is free") };
        let foreign = |reply| matches!(reply, Reply::Error { code, .. } if code == "FOREIGN");
        assert!(foreign(ask(&db, &env(1, "boot"), "k", &wait(1, true))));
        lock(2, locks::release(1));
        assert_eq!(ask(&db, &env(3, "boot"), "k", &Procedure::Look), Reply::Nil);
        assert_eq!(ask(&db, &env(3, "boot"), "k", &change(1, Deed::Down, 1, IDLE)), left(0));
        assert!(foreign(lock(4, locks::acquire(1, 100, false, None))));
        // One look tells what lies there, and nothing of what is over.
        let layout = super::super::native::layout("");
        let look = |now| {
            let seen = super::super::native::run(&db, &env(now, "boot"), &layout.inspect("k".into())).unwrap().0;
            layout.identified("k", &seen).unwrap()
        };
        let seen = look(4);
        assert_eq!((seen.primitive, seen.latch.map(|latch| latch.count), seen.waiters), (Some("latch"), Some(0), 0));
        assert_eq!(look(53).primitive, None);
        // Once it is forgotten, a lock may have the name, and its tokens go on.
        assert!(matches!(lock(53, locks::acquire(1, 100, false, None)), Reply::Int(again) if again > first));
        assert!(foreign(ask(&db, &env(54, "boot"), "k", &wait(1, true))));
    }
}
