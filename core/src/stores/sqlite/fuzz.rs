//! What a lock file, an inbox and `/proc` may hold, whatever it is.

use std::time::Duration;

use lockwright_machines::gate::{BarrierPlan, Gate, LatchPlan, MAX_IDLE};
use rusqlite::Connection;
use rusqlite::types::Value;

use super::host;
use super::layouts::record_rows::{Env, SCHEMA, layout, run};
use crate::fuzz::Feed;
use crate::protocol::{Arg, Call, InboxId, Layout, Request};
use crate::share::Share;
use crate::time::StoreTime;
use lockwright_machines::push::{decode, encode};

/// What arrives in an inbox is an event that can be told again, or nothing.
pub fn sqlite_push(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Some((key, event)) = decode(&text) else { return };
    let told = encode(key, &event).unwrap_or_else(|| panic!("nobody pushes {event:?}"));
    assert_eq!(decode(&told), Some((key, event)));
}

/// What `/proc` and other processes' rows say is read or passed over.
pub fn sqlite_host(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some((namespace, pid, started)) = host::parse(&text) {
        assert_eq!(host::parse(&format!("{namespace}/{pid}/{started}")), Some((namespace, pid, started)));
    }
    host::read_stat(&text);
    host::read_mounts(&text, "8:1");
    host::is_among_mounts(&text, "/var/lib/locks.db");
}

const ATTEMPTS: [&str; 3] = [
    "00000000000000000000000000000001000000000000000100001000",
    "00000000000000000000000000000002000000000000000200001000",
    "0000000000000000000000000000000300000000000000ff99999999",
];

impl Feed<'_> {
    fn known(&mut self) -> String {
        match usize::from(self.byte()) {
            known @ ..3 => ATTEMPTS[known].into(),
            3 => "boot".into(),
            4 => "process".into(),
            _ => self.text(),
        }
    }

    /// A value that the column can hold: the tables are strict, but a text need not be UTF-8.
    fn column(&mut self, is_text: bool, may_be_null: bool) -> Value {
        match (is_text, self.byte()) {
            (_, 0) if may_be_null => Value::Null,
            (true, 1) => Value::Blob(self.bytes().to_vec()),
            (true, _) => Value::Text(self.known()),
            (false, _) => Value::Integer(self.int()),
        }
    }

    fn claimant(&mut self) -> Arg {
        Arg::Text(ATTEMPTS[usize::from(self.byte()) % 3].into())
    }

    fn attempt(&mut self) -> Arg {
        Arg::Text(ATTEMPTS[usize::from(self.byte()) % 3][..32].into())
    }

    fn number(&mut self) -> Arg {
        Arg::Int(self.int())
    }

    /// Of a lock.
    fn request(&mut self) -> Request {
        let layout = layout("");
        let calls = layout.calls;
        let (call, args): (_, Vec<Arg>) = match self.byte() % 7 {
            0 => (&calls.renew, vec![self.claimant(), self.number()]),
            1 => (&calls.release, vec![self.claimant(), self.number()]),
            2 => (&calls.undo, vec![self.claimant(), self.claimant()]),
            3 => (&calls.inspect, Vec::new()),
            4 => (&calls.list, vec![Arg::from(&*self.text())]),
            5 => (&calls.break_hold, vec![self.number()]),
            _ => {
                let (me, ttl, wait) = (self.claimant(), self.number(), Arg::Int(i64::from(self.byte() % 2)));
                let (prev, used) = (self.claimant(), self.number());
                (&calls.acquire, vec![me, ttl, Arg::NotAfter, "card".into(), wait, prev, used])
            }
        };
        asking(call, args)
    }

    /// Of a read/write lock or a semaphore.
    fn shared_request(&mut self) -> Request {
        let calls = layout("").shared;
        let (call, args): (_, Vec<Arg>) = match self.byte() % 7 {
            0 => (&calls.renew, vec![self.claimant(), self.number()]),
            1 => (&calls.release, vec![self.claimant()]),
            2 => (&calls.undo, vec![self.claimant()]),
            3 => (&calls.resize, vec![self.number()]),
            4 => (&calls.break_hold, vec![self.number()]),
            5 => (&calls.change, vec![self.claimant(), self.number(), self.number(), Arg::NotAfter, self.number()]),
            _ => {
                let (me, ttl, wait) = (self.claimant(), self.number(), Arg::Int(i64::from(self.byte() % 2)));
                let primitive = Arg::from(if self.byte().is_multiple_of(2) { "rwlock" } else { "semaphore" });
                let (units, capacity, in_order) = (self.number(), self.number(), self.number());
                let (not_after, card) = (Arg::NotAfter, "card".into());
                (&calls.acquire, vec![me, ttl, not_after, card, wait, primitive, units, capacity, in_order])
            }
        };
        asking(call, args)
    }

    /// Of a latch.
    fn latch_request(&mut self) -> Request {
        let calls = layout("").latch;
        let (call, args): (_, Vec<Arg>) = match self.byte() % 4 {
            0 => (&calls.look, vec![]),
            1 => (&calls.leave, vec![self.attempt()]),
            2 => {
                let (me, wait) = (self.claimant(), Arg::Int(i64::from(self.byte() % 2)));
                (&calls.wait, vec![me, Arg::NotAfter, wait, self.number(), self.number()])
            }
            _ => {
                let (me, copies) = (self.attempt(), self.number());
                let operation = Arg::from(if self.byte().is_multiple_of(2) { "down" } else { "set" });
                (&calls.change, vec![me, Arg::NotAfter, copies, operation, self.number(), self.number()])
            }
        };
        asking(call, args)
    }

    /// Of a barrier.
    fn barrier_request(&mut self) -> Request {
        let calls = layout("").barrier;
        let (call, args): (_, Vec<Arg>) = match self.byte() % 4 {
            0 => (&calls.look, vec![]),
            1 => (&calls.leave, vec![self.attempt(), self.number()]),
            _ => {
                let (me, wait) = (self.claimant(), Arg::Int(i64::from(self.byte() % 2)));
                let parties = Arg::Int(i64::from(self.byte() % 4));
                (&calls.arrive, vec![me, Arg::NotAfter, wait, self.number(), parties, self.number()])
            }
        };
        asking(call, args)
    }

    /// The attempt of a claimant that may ask, but for a few texts.
    fn mostly(&mut self, claimant: &str) -> Value {
        match self.byte() % 8 {
            0 => Value::Text(self.text()),
            _ => Value::Text(claimant[..32].into()),
        }
    }

    /// Columns of these kinds: `i` an integer and `t` a text, in capitals where they may not be null. Texts are to be
    /// casted, so that bytes can be given for them.
    fn columns(&mut self, kinds: &str) -> Vec<Value> {
        kinds.chars().map(|kind| self.column(kind.eq_ignore_ascii_case(&'t'), kind.is_lowercase())).collect()
    }
}

fn asking(call: &'static Call, args: Vec<Arg>) -> Request {
    let mut request = Request::new(call, "k".into(), []);
    request.args.extend(args);
    request
}

thread_local! {
    static DB: Connection = {
        let db = Connection::open_in_memory().and_then(|db| db.execute_batch(SCHEMA).map(|()| db));
        db.unwrap_or_else(|error| panic!("{error}"))
    };
}

fn execute(db: &Connection, sql: &str, values: Vec<Value>) -> rusqlite::Result<usize> {
    db.prepare_cached(sql)?.execute(rusqlite::params_from_iter(values))
}

/// Whatever the rows hold, every request is answered or refused, and never makes them worse than they were.
pub fn sqlite_row(data: &[u8]) {
    DB.with(|db| rows(db, &mut Feed(data)).unwrap_or_else(|error| panic!("{error}")));
}

/// The same for rows of what several may hold, of latches and of barriers.
pub fn sqlite_shared_row(data: &[u8]) {
    DB.with(|db| shared_rows(db, &mut Feed(data)).unwrap_or_else(|error| panic!("{error}")));
}

fn empty(db: &Connection) -> rusqlite::Result<()> {
    let tables = ["locks", "waiters", "shared", "holders", "gates", "latch_waiters", "places", "remembered"];
    tables.iter().try_for_each(|table| execute(db, &format!("DELETE FROM {table}"), vec![]).map(drop))
}

fn rows(db: &Connection, feed: &mut Feed<'_>) -> rusqlite::Result<()> {
    empty(db)?;
    execute(db, "UPDATE meta SET last = ?, swept = CAST(? AS TEXT)", feed.columns("IT"))?;
    execute(
        db,
        "INSERT INTO locks (key, last, waiting, clock, changed, owner, since, expires, first, claimed, card, process, \
         seen_by, seen_expires, seen_until) VALUES ('k', ?, ?, CAST(? AS TEXT), ?, CAST(? AS TEXT), ?, ?, ?, ?, \
         CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT), ?, ?)",
        feed.columns("IITItiiiitttii"),
    )?;
    for seq in 1..3 {
        let mut waiter = vec![Value::Integer(seq)];
        waiter.extend(feed.columns("TIITTT"));
        execute(
            db,
            "INSERT OR IGNORE INTO waiters (key, seq, attempt, inbox, claim, card, clock, process) VALUES \
             ('k', ?, CAST(? AS TEXT), ?, ?, CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT))",
            waiter,
        )?;
    }
    for _ in 0..3 {
        let request = feed.request();
        ask(db, feed, &layout(""), &request)?;
    }
    Ok(())
}

fn shared_rows(db: &Connection, feed: &mut Feed<'_>) -> rusqlite::Result<()> {
    empty(db)?;
    execute(db, "UPDATE meta SET last = ?, swept_shared = CAST(? AS TEXT)", feed.columns("IT"))?;
    // Of the two one is there, both, or none.
    let there = feed.byte();
    if !there.is_multiple_of(4) {
        shared_row(db, feed)?;
    }
    if !there.is_multiple_of(3) {
        gate_row(db, feed)?;
    }
    let share = Share { in_order: there.is_multiple_of(2), ..Share::READ };
    let (native, plan, time) = (layout(""), LatchPlan { count: 2, idle: MAX_IDLE }, Duration::from_secs(30));
    let barrier = BarrierPlan { parties: 2, ttl: time, copies: time };
    let layouts = (native.shared(share), native.gate(Gate::Latch(plan)), native.gate(Gate::Barrier(barrier)));
    let (Some(shared), Some(latch), Some(barrier)) = layouts else { unreachable!("`native` has them all") };
    for _ in 0..3 {
        let (layout, request): (&dyn Layout, _) = match feed.byte() % 8 {
            0 => (&native, feed.request()),
            1 => (&native, native.inspect("k", "k".into()).asks()[0].clone()),
            2..4 => (&*latch, feed.latch_request()),
            4..6 => (&*barrier, feed.barrier_request()),
            _ => (&*shared, feed.shared_request()),
        };
        ask(db, feed, layout, &request)?;
    }
    Ok(())
}

fn shared_row(db: &Connection, feed: &mut Feed<'_>) -> rusqlite::Result<()> {
    let primitive = match feed.byte() % 4 {
        0 => Value::Text(feed.text()),
        1 => Value::Text("semaphore".into()),
        _ => Value::Text("rwlock".into()),
    };
    let mut record = vec![primitive];
    record.extend(feed.columns("IIIIIITI"));
    execute(
        db,
        "INSERT INTO shared (key, primitive, capacity, resized, used, waiting, last, soonest, clock, changed) VALUES \
         ('k', ?, ?, ?, ?, ?, ?, ?, CAST(? AS TEXT), ?)",
        record,
    )?;
    for (number, known) in ATTEMPTS[..2].iter().enumerate() {
        let owner = match feed.byte() % 8 {
            0 => Value::Text(feed.text()),
            _ => Value::Text((*known).into()),
        };
        let mut holder = vec![feed.mostly(known), owner];
        holder.extend(feed.columns("IIIIITTTItii"));
        execute(
            db,
            "INSERT OR IGNORE INTO holders (key, attempt, owner, units, token, since, expires, claimed, card, process, clock, \
             changed, seen_by, seen_expires, seen_until) VALUES ('k', ?, ?, ?, ?, ?, ?, ?, CAST(? AS TEXT), \
             CAST(? AS TEXT), CAST(? AS TEXT), ?, CAST(? AS TEXT), ?, ?)",
            holder,
        )?;
        let mut waiter = vec![Value::Integer(number as i64), feed.mostly(ATTEMPTS[1 + number])];
        waiter.extend(feed.columns("IITTTII"));
        execute(
            db,
            "INSERT OR IGNORE INTO waiters (key, seq, attempt, inbox, claim, card, clock, process, units, in_order) VALUES \
             ('k', ?, ?, ?, ?, CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT), ?, ?)",
            waiter,
        )?;
    }
    Ok(())
}

fn gate_row(db: &Connection, feed: &mut Feed<'_>) -> rusqlite::Result<()> {
    let kind = match feed.byte() % 8 {
        0 => Value::Text(feed.text()),
        choice => Value::Text(if choice < 4 { "latch" } else { "barrier" }.into()),
    };
    let mut record = vec![kind];
    record.extend(feed.columns("IIITI"));
    execute(
        db,
        "INSERT INTO gates (key, kind, count, generation, goes, clock, goes_wall) VALUES ('k', ?, ?, ?, ?, CAST(? AS TEXT), ?)",
        record,
    )?;
    for (number, known) in ATTEMPTS[..2].iter().enumerate() {
        let attempt = feed.mostly(known);
        let mut waiter = vec![attempt.clone()];
        waiter.extend(feed.columns("I"));
        execute(db, "INSERT OR IGNORE INTO latch_waiters (key, attempt, inbox) VALUES ('k', ?, ?)", waiter)?;
        let mut place = vec![Value::Integer(number as i64), attempt.clone()];
        place.extend(feed.columns("IITII"));
        execute(
            db,
            "INSERT OR IGNORE INTO places (key, seq, attempt, inbox, ends, clock, ends_wall, memory) VALUES \
             ('k', ?, ?, ?, ?, CAST(? AS TEXT), ?, ?)",
            place,
        )?;
        let mut remembered = vec![attempt];
        remembered.extend(feed.columns("ITi"));
        execute(
            db,
            "INSERT OR IGNORE INTO remembered (key, attempt, until, clock, passage) VALUES ('k', ?, ?, CAST(? AS TEXT), ?)",
            remembered,
        )?;
    }
    Ok(())
}

/// Asks it at some time, and looks that the answer is one that `layout` can give.
fn ask(db: &Connection, feed: &mut Feed<'_>, layout: &dyn Layout, request: &Request) -> rusqlite::Result<()> {
    let now = StoreTime(feed.int());
    let alive = |inbox: InboxId| inbox.0.is_multiple_of(2);
    let gone = |process: &str| process == "process";
    let env = Env { now, clock: "boot", wall: 1000, process: "us", alive: &alive, gone: &gone };
    execute(db, "BEGIN", vec![])?;
    let answered = run(db, &env, request);
    let end = if answered.is_ok() { "COMMIT" } else { "ROLLBACK" };
    execute(db, end, vec![])?;
    if let Ok((reply, _)) = &answered {
        let [choice, ..] = now.0.to_le_bytes();
        crate::fuzz::is_understood_or_refused(layout, choice, std::slice::from_ref(reply));
    }
    Ok(())
}
