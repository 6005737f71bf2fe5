//! Latches beside `native`: the rules of [`lockwright_machines::latch_cell`] on [rows](super::gate_rows).

use lockwright_machines::cell::Runs;
use lockwright_machines::engine::RecordKind;
use lockwright_machines::latch_cell::{LatchCell, LatchStorage};
use lockwright_machines::latch_machine::Procedure;
use lockwright_machines::lock_cell::Surroundings;

use super::gate_rows::{Gate, Rows, read_waiter};
use super::native_rows::execute;
use crate::protocol::{AttemptId, InboxId, Reply};
use crate::time::StoreTime;

/// Runs one request on its row, if there is one.
pub(super) fn run(
    mut rows: Rows<'_>,
    around: &mut Surroundings<'_>,
    gate: Option<Gate>,
    procedure: Procedure,
) -> rusqlite::Result<(Reply, Option<Gate>)> {
    let known = |gate: Gate| LatchCell { count: Some(gate.count), goes: gate.goes };
    let mut cell = gate.map(known).unwrap_or_default();
    let reply = cell.run(procedure, &mut rows, around)?;
    let after = |count| Gate { kind: RecordKind::Latch, count, generation: 0, goes: cell.goes };
    Ok((reply, cell.count.map(after)))
}

impl LatchStorage for Rows<'_> {
    type Error = rusqlite::Error;

    fn counted(&mut self, attempt: AttemptId, now: StoreTime) -> rusqlite::Result<bool> {
        Ok(self.recall(attempt, now)?.is_some())
    }

    fn remember(&mut self, attempt: AttemptId, until: StoreTime, now: StoreTime) -> rusqlite::Result<()> {
        Rows::remember(self, attempt, None, until, now)
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
        Rows::clear(self)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockwright_machines::engine;
    use lockwright_machines::gate::{CountOperation, LatchPlan};
    use lockwright_machines::latch_cell::{CountChange, Wait};
    use lockwright_machines::lock_cell::Claimant;
    use rusqlite::Connection;

    use super::super::gate_rows::tests::env;
    use super::super::native_rows::tests::{self as locks, file};
    use super::super::record_rows::{self, Env, Pushes};
    use super::*;
    use crate::protocol::Layout;

    const IDLE: Duration = Duration::from_micros(50);

    fn run(db: &Connection, env: &Env<'_>, key: &str, procedure: &Procedure) -> rusqlite::Result<(Reply, Pushes)> {
        record_rows::run_procedure(db, env, key, engine::Procedure::Latch(procedure.clone()))
    }

    fn wait(n: u64, wait: bool) -> Procedure {
        let asker = Claimant { attempt: AttemptId(n.into()), inbox: InboxId(n), claim: Duration::ZERO };
        let plan = LatchPlan { count: 2, idle: IDLE };
        Procedure::Wait(Wait { asker, not_after: StoreTime(i64::MAX), wait, plan })
    }

    fn change(n: u64, operation: CountOperation, count: u32, idle: Duration) -> Procedure {
        let (attempt, not_after, copies) = (AttemptId(n.into()), StoreTime(i64::MAX), Duration::from_micros(30));
        Procedure::Change(CountChange { attempt, not_after, copies, operation, plan: LatchPlan { count, idle } })
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
        let down = |n| change(n, CountOperation::Down, 9, IDLE);
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
            ask(&db, &env(0, if n == 7 { "other" } else { "boot" }), &key, &change(2, CountOperation::Down, 2, IDLE));
        }
        let tables = ["gates", "latch_waiters", "remembered"];
        assert_eq!(tables.map(|table| count(&db, table)), [20; 3]);
        ask(&db, &env(49, "boot"), "a", &change(1, CountOperation::Down, 2, IDLE));
        assert_eq!(count(&db, "gates"), 21);
        ask(&db, &env(50, "boot"), "b", &change(1, CountOperation::Down, 2, IDLE));
        ask(&db, &env(50, "boot"), "c", &change(1, CountOperation::Down, 2, IDLE));
        assert_eq!(tables.map(|table| count(&db, table)), [3, 0, 3]);
        // The wall clock alone removes none that this boot knows of.
        ask(&db, &Env { wall: 9_000_000, ..env(51, "boot") }, "d", &change(1, CountOperation::Down, 2, IDLE));
        assert_eq!(count(&db, "gates"), 4);
    }

    #[test]
    fn one_name_is_one_thing_while_it_is_used() {
        let db = file();
        let lock =
            |now: i64, request: crate::protocol::Request| record_rows::run(&db, &env(now, "boot"), &request).unwrap().0;
        let Reply::Int(first) = lock(0, locks::acquire(1, 100, false, None)) else { panic!("it is free") };
        let foreign = |reply| matches!(reply, Reply::Error { code, .. } if code == "FOREIGN");
        assert!(foreign(ask(&db, &env(1, "boot"), "k", &wait(1, true))));
        lock(2, locks::release(1));
        assert_eq!(ask(&db, &env(3, "boot"), "k", &Procedure::Look), Reply::Nil);
        assert_eq!(ask(&db, &env(3, "boot"), "k", &change(1, CountOperation::Down, 1, IDLE)), left(0));
        assert!(foreign(lock(4, locks::acquire(1, 100, false, None))));
        // One look tells what lies there, and nothing of what is over.
        let layout = record_rows::layout("");
        let look = |now| {
            let run = |request: &_| record_rows::run(&db, &env(now, "boot"), request).unwrap().0;
            let ask = |requests: &crate::protocol::Requests| Ok(vec![run(&requests[0])]);
            layout.identify("k", "k".into()).conclude(ask).unwrap()
        };
        let seen = look(4);
        assert_eq!((seen.primitive, seen.latch.map(|latch| latch.count), seen.waiters), (Some("latch"), Some(0), 0));
        assert_eq!(look(53).primitive, None);
        // Once it is forgotten, a lock may have the name, and its tokens go on.
        assert!(matches!(lock(53, locks::acquire(1, 100, false, None)), Reply::Int(again) if again > first));
        assert!(foreign(ask(&db, &env(54, "boot"), "k", &wait(1, true))));
    }
}
