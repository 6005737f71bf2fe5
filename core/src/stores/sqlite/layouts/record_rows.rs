//! Layout `native`: cells on rows, of one table a kind or two, and queues, holders and places in others.
//!
//! One request is one transaction: load the row, run the procedure, store the row if it changed. Everything here runs
//! inside a transaction that somebody else began and ends.

use lockwright_machines::cell::Cell;
use lockwright_machines::cell_layout;
use lockwright_machines::engine::{Backend, Found, Procedure, RecordKind, execute};
use lockwright_machines::lock_cell::Surroundings;
use lockwright_machines::native_machine::{self, NativeLayout};
use rusqlite::Connection;

use super::gate_rows::{self, Gate};
use super::marker_row;
use super::native_rows::{self, Lock, readable, remove};
pub(crate) use super::native_rows::{Env, Pushes};
use super::shared_rows::{self, Record};
use crate::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use crate::protocol::{Reply, Request};

/// What `prepare` executes in an empty file.
pub(crate) const SCHEMA: &str = include_str!("schema.sql");

/// Keys in one page of `list`.
const PAGE: usize = 500;

/// The layout for connections with this prefix.
pub(crate) fn layout(prefix: &str) -> NativeLayout {
    cell_layout::layout(prefix, guarantees)
}

fn guarantees() -> Guarantees {
    let notes = &[
        "It excludes the processes of one host only; a file on a network file system is refused.",
        "A process that is stopped in the middle of a write blocks the whole file until it goes on; the others get `unavailable`.",
        "If a holder's process has died, the next to ask does not wait for the ttl, if both share a pid namespace.",
        "After a reboot, a lock that was held is free one ttl after somebody first asks for it.",
        "Tokens rise as long as the file is kept. If it was removed, restored from a copy or lost its last writes in a \
             power failure, they still rise unless the wall clock was set back by more time than passed.",
        "Removing or replacing the file frees its locks; their holders are told at their next renewal.",
    ];
    native_machine::guarantees("sqlite", ExclusiveUntil::Deadline, TokenRises::Always, notes)
}

/// Executes one request.
///
/// # Errors
/// Whatever SQLite reports, and rows that this version cannot read; the transaction must then be rolled back.
pub(crate) fn run(db: &Connection, env: &Env<'_>, request: &Request) -> rusqlite::Result<(Reply, Pushes)> {
    if cell_layout::lists(request) {
        return Ok((list(db, request)?, Pushes::new()));
    }
    if marker_row::is_look(request) {
        return Ok((marker_row::look(db, env, request)?, Pushes::new()));
    }
    let Some(procedure) = Procedure::read(request) else {
        let message = format!("the request `{}` is none of this layout's", request.call.name);
        return Ok((Reply::Error { code: "ERR".into(), message }, Pushes::new()));
    };
    run_procedure(db, env, &request.key, procedure)
}

pub(super) fn run_procedure(
    db: &Connection,
    env: &Env<'_>,
    key: &str,
    procedure: Procedure,
) -> rusqlite::Result<(Reply, Pushes)> {
    let mut around = Surroundings { now: env.now, token_floor: env.wall, alive: env.alive, pushes: Pushes::new() };
    let mut key = Key { db, env, key, lock: None, shared: None, gate: None };
    let reply = execute(&mut key, procedure, &mut around)?;
    Ok((reply, around.pushes))
}

/// One key of the file, and what was found there.
struct Key<'a> {
    db: &'a Connection,
    env: &'a Env<'a>,
    key: &'a str,
    lock: Option<Lock>,
    shared: Option<Record>,
    gate: Option<Gate>,
}

impl Key<'_> {
    fn look_for_lock(&mut self) -> rusqlite::Result<Option<Found>> {
        self.lock = Lock::load(self.db, self.env, self.key)?;
        Ok(self.lock.as_ref().map(|lock| found(RecordKind::Lock, lock.cell.word(), lock.is_used(self.env))))
    }

    fn look_for_shared(&mut self) -> rusqlite::Result<Option<Found>> {
        let Some(known) = readable(Record::load(self.db, self.env, self.key))? else {
            return self.unknown("SELECT primitive FROM shared WHERE key = ?1");
        };
        self.shared = known;
        Ok(self.shared.as_ref().map(|record| found(RecordKind::Shared, record.cell.word(), record.is_used())))
    }

    /// A latch or a barrier that is over may lie there beside something else.
    fn look_for_gate(&mut self) -> rusqlite::Result<Option<Found>> {
        let Some(known) = readable(Gate::load(self.db, self.env, self.key))? else {
            return self.unknown("SELECT kind FROM gates WHERE key = ?1");
        };
        self.gate = known;
        Ok(self.gate.filter(|gate| self.env.now < gate.goes).map(|gate| found(gate.kind, gate.word(), true)))
    }

    /// What another version may have written, with its word for it.
    fn unknown(&self, sql: &str) -> rusqlite::Result<Option<Found>> {
        let word: String = self.db.prepare_cached(sql)?.query_row([self.key], |row| row.get(0))?;
        Ok(Some(Found { kind: None, word: word.into(), in_use: true }))
    }
}

fn found(kind: RecordKind, word: &'static str, in_use: bool) -> Found {
    Found { kind: Some(kind), word: word.into(), in_use }
}

impl Backend for Key<'_> {
    type Error = rusqlite::Error;

    fn found(&mut self, wanted: RecordKind) -> rusqlite::Result<Option<Found>> {
        let [lock, shared, gate] = [Key::look_for_lock, Key::look_for_shared, Key::look_for_gate];
        let tables = match wanted {
            RecordKind::Lock => [lock, shared, gate],
            RecordKind::Shared => [shared, lock, gate],
            RecordKind::Latch | RecordKind::Barrier => [gate, lock, shared],
        };
        tables.into_iter().find_map(|look| look(self).transpose()).transpose()
    }

    fn make_room(&mut self, found: RecordKind) -> rusqlite::Result<()> {
        let Key { db, key, .. } = *self;
        match (found, &self.lock, &self.shared) {
            (RecordKind::Lock, Some(lock), _) => remove(db, "DELETE FROM locks WHERE key = ?1", key, lock.cell.last),
            (RecordKind::Shared, _, Some(record)) => {
                remove(db, "DELETE FROM shared WHERE key = ?1", key, record.cell.last)
            }
            // A latch or a barrier that is over is not found.
            _ => Ok(()),
        }
    }

    fn run(&mut self, procedure: Procedure, around: &mut Surroundings<'_>) -> rusqlite::Result<Reply> {
        let Key { db, env, key, .. } = *self;
        match procedure {
            Procedure::Lock(procedure) => native_rows::run(db, env, key, self.lock.take(), procedure, around),
            Procedure::Shared(procedure) => shared_rows::run(db, env, key, self.shared.take(), procedure, around),
            gate => gate_rows::run(db, env, key, self.gate.take(), gate, around),
        }
    }
}

/// One page of the keys that somebody holds or waits for, and of latches and barriers.
fn list(db: &Connection, request: &Request) -> rusqlite::Result<Reply> {
    let (prefix, cursor) = cell_layout::page_asked(request);
    // The last key that a name of the greatest length can have behind this prefix.
    let end = format!("{prefix}{}", "\u{10FFFF}".repeat(crate::name::MAX_BYTES / 4));
    let mut statement = db.prepare_cached(
        "SELECT key FROM locks WHERE key > ?1 AND key >= ?2 AND key <= ?3 AND (owner IS NOT NULL OR waiting > 0) \
         UNION SELECT key FROM shared WHERE key > ?1 AND key >= ?2 AND key <= ?3 AND (used > 0 OR waiting > 0) \
         UNION SELECT key FROM gates WHERE key > ?1 AND key >= ?2 AND key <= ?3 \
         ORDER BY key LIMIT ?4",
    )?;
    let keys = statement.query_map((cursor, prefix, end, PAGE as i64), |row| row.get(0))?;
    let keys = keys.collect::<rusqlite::Result<Vec<String>>>()?;
    let next = if keys.len() == PAGE { keys.last().cloned() } else { None };
    Ok(cell_layout::page(next, keys))
}

/// Removes a few rows of each kind that nobody used for long. What cannot be read stays as it lies.
///
/// # Errors
/// Whatever SQLite reports; the transaction must then be rolled back.
pub(crate) fn tidy(db: &Connection, env: &Env<'_>) -> rusqlite::Result<()> {
    native_rows::sweep(db, env)?;
    shared_rows::sweep(db, env)?;
    gate_rows::sweep(db, env)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lockwright_machines::barrier_cell::BarrierCell;
    use lockwright_machines::latch_cell::LatchCell;
    use lockwright_machines::lock_cell::LockCell;
    use lockwright_machines::shared_cell::{SharedCell, SharedStorage};
    use proptest::prelude::*;
    use proptest::test_runner::{Config, TestCaseError, TestRunner};

    use super::super::native_rows::tests::{acquire, env, file, release, request};
    use super::*;
    use crate::name::MAX_BYTES;
    use crate::protocol::{InboxId, Layout, StoreEvent};
    use crate::stores::comparison::{Compared, LISTENS, Model, Store, play};
    use crate::time::StoreTime;

    /// A kind of record as it lies in rows.
    trait InTables: Compared {
        /// Whether they keep what the model does.
        fn check(db: &Connection, env: &Env<'_>, model: &Model<Self>) -> Result<(), TestCaseError>;
    }

    impl InTables for LockCell {
        fn check(db: &Connection, env: &Env<'_>, model: &Model<Self>) -> Result<(), TestCaseError> {
            let Some(lock) = Lock::load(db, env, &model.key).unwrap() else {
                prop_assert!(model.cell.hold.is_none() && model.beside.is_empty());
                return Ok(());
            };
            prop_assert_eq!(&lock.cell, &model.cell);
            prop_assert_eq!(lock.waiting, model.beside.len());
            Ok(())
        }
    }

    impl InTables for SharedCell {
        fn check(db: &Connection, env: &Env<'_>, model: &Model<Self>) -> Result<(), TestCaseError> {
            let Some(record) = Record::load(db, env, &model.key).unwrap() else {
                prop_assert!(model.cell.used == 0 && !model.cell.resized && model.beside.line.is_empty());
                return Ok(());
            };
            prop_assert_eq!(&record.cell, &model.cell);
            prop_assert_eq!(record.waiting, model.beside.line.len());
            let held = shared_rows::Rows::of(db, env, &model.key, record.waiting, true).holders().unwrap();
            prop_assert_eq!(held, model.beside.clone().holders().unwrap());
            Ok(())
        }
    }

    impl InTables for LatchCell {
        fn check(db: &Connection, _: &Env<'_>, model: &Model<Self>) -> Result<(), TestCaseError> {
            if model.cell.look(model.now).is_none() {
                // What lies beside one that is over goes with the next request, whichever that is.
                return Ok(());
            }
            let waiting = db.query_row("SELECT count(*) FROM latch_waiters", [], |row| row.get::<_, i64>(0)).unwrap();
            prop_assert_eq!(waiting, model.beside.waiting.len() as i64);
            Ok(())
        }
    }

    impl InTables for BarrierCell {
        fn check(_: &Connection, _: &Env<'_>, _: &Model<Self>) -> Result<(), TestCaseError> {
            Ok(())
        }
    }

    /// A file, and what was pushed to the inbox where somebody listens.
    struct InRows {
        db: Connection,
        pushed: Vec<(Arc<str>, StoreEvent)>,
    }

    fn at(now: StoreTime) -> Env<'static> {
        let listens: &dyn Fn(InboxId) -> bool = &|inbox| inbox == LISTENS;
        Env { wall: now.0.unsigned_abs(), alive: listens, ..env(now.0, "boot") }
    }

    impl<C: InTables> Store<C> for InRows {
        const CLOCK_STEPS_BACK: bool = false;

        fn layout(&self) -> NativeLayout {
            layout("")
        }

        fn begin(&mut self, _: &str) -> StoreTime {
            StoreTime(1_700_000_000_000_000)
        }

        fn ask(&mut self, request: &Request, now: StoreTime) -> Reply {
            let (reply, pushes) = run(&self.db, &at(now), request).unwrap();
            let heard = pushes.into_iter().filter(|(inbox, _)| *inbox == LISTENS);
            self.pushed.extend(heard.map(|(_, event)| (request.key.clone(), event)));
            reply
        }

        fn pushed(&mut self) -> Vec<(Arc<str>, StoreEvent)> {
            std::mem::take(&mut self.pushed)
        }

        fn is_there(&mut self, key: &str) -> bool {
            let rows = "SELECT (SELECT count(*) FROM locks WHERE key = ?1) + (SELECT count(*) FROM shared WHERE key = ?1) \
                        + (SELECT count(*) FROM gates WHERE key = ?1)";
            self.db.query_row(rows, [key], |row| row.get::<_, i64>(0)).unwrap() > 0
        }

        fn forgets(&mut self, _: &str, _: StoreTime) -> bool {
            false
        }

        fn comparable(&self, _: &Model<C>, _: &Request, _: &Reply, reply: Reply) -> Reply {
            reply
        }

        fn check(&mut self, model: &Model<C>) -> Result<(), TestCaseError> {
            C::check(&self.db, &at(model.now), model)
        }
    }

    fn compare<C: InTables>() {
        let config = Config { failure_persistence: None, ..Config::default() };
        let outcome = TestRunner::new(config)
            .run(&C::commands(), |commands| play::<C, _>(&mut InRows { db: file(), pushed: Vec::new() }, &commands));
        outcome.unwrap_or_else(|failure| panic!("{failure}"));
    }

    #[test]
    fn rows_of_locks_do_what_the_reference_does() {
        compare::<LockCell>();
    }

    #[test]
    fn rows_of_what_is_shared_do_what_the_reference_does() {
        compare::<SharedCell>();
    }

    #[test]
    fn rows_of_latches_do_what_the_reference_does() {
        compare::<LatchCell>();
    }

    #[test]
    fn rows_of_barriers_do_what_the_reference_does() {
        compare::<BarrierCell>();
    }

    #[test]
    fn what_a_later_version_keeps_is_refused_by_its_word() {
        let rows = [
            "INSERT INTO gates VALUES ('k', 'carousel', 1, 0, 100, 'boot', 2000)",
            "INSERT INTO shared (key, primitive, capacity, resized, used, waiting, last, soonest, clock, changed) \
             VALUES ('k', 'carousel', 1, 0, 1, 0, 1, 100, 'boot', 0)",
        ];
        for row in rows {
            let db = file();
            db.execute_batch(row).unwrap();
            for asked in [acquire(1, 100, false, None), request(&cell_layout::LOCK.inspect, "k", &[])] {
                let reply = run(&db, &env(1, "boot"), &asked).unwrap().0;
                assert!(
                    matches!(&reply, Reply::Error { message, .. } if message == "this name is a carousel's"),
                    "{reply:?}"
                );
            }
        }
    }

    #[test]
    fn lists_come_in_pages_and_hold_what_is_used() {
        let db = file();
        let longest = "\u{10FFFF}".repeat(MAX_BYTES / 4);
        let names =
            (0..1200).map(|n| format!("app:{n:04}")).chain([format!("app:{longest}"), "other".into(), "ap".into()]);
        for name in names {
            run(&db, &env(0, "boot"), &request(&cell_layout::LOCK.acquire, &name, &acquire(1, 100, false, None).args))
                .unwrap();
        }
        run(&db, &env(1, "boot"), &request(&cell_layout::LOCK.release, "app:0007", &release(1).args)).unwrap();
        let layout = layout("app:");
        let mut pages = 0;
        let listed = layout.list().conclude(|requests| {
            pages += 1;
            let page = run(&db, &env(2, "boot"), &requests[0]).unwrap().0;
            assert!(matches!(&page, Reply::List(list) if list.len() <= 1 + PAGE));
            Ok(vec![page])
        });
        let listed = listed.unwrap();
        assert_eq!((listed.len(), pages), (1200, 3));
        assert!(listed.contains(&longest) && !listed.contains(&"0007".into()) && listed.contains(&"1199".into()));
    }
}
