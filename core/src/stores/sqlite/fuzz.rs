//! What a lock file, an inbox and `/proc` may hold, whatever it is.

use rusqlite::Connection;
use rusqlite::types::Value;

use super::host;
use super::inbox::{decode, encode};
use super::layouts::native::{Env, SCHEMA, layout, run};
use crate::fuzz::Feed;
use crate::protocol::{Arg, InboxId, Layout, Request};
use crate::time::StoreTime;

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

    fn request(&mut self) -> Request {
        let layout = layout("");
        let claimant = |feed: &mut Self| Arg::Text(ATTEMPTS[usize::from(feed.byte()) % 3].into());
        let calls = layout.calls;
        let (call, args): (_, Vec<Arg>) = match self.byte() % 7 {
            0 => (&calls.renew, vec![claimant(self), Arg::Int(self.int())]),
            1 => (&calls.release, vec![claimant(self), Arg::Int(self.int())]),
            2 => (&calls.undo, vec![claimant(self), claimant(self)]),
            3 => return layout.inspect("k".into()),
            4 => return layout.list(&self.text()),
            5 => (&calls.break_hold, vec![Arg::Int(self.int())]),
            _ => {
                let (me, ttl, wait) = (claimant(self), Arg::Int(self.int()), Arg::Int(i64::from(self.byte() % 2)));
                let (prev, used) = (claimant(self), Arg::Int(self.int()));
                (&calls.acquire, vec![me, ttl, Arg::NotAfter, "card".into(), wait, prev, used])
            }
        };
        let mut request = Request::new(call, "k".into(), []);
        request.args.extend(args);
        request
    }
}

/// Whatever the rows hold, every request is answered or refused, and never makes them worse than they were.
pub fn sqlite_row(data: &[u8]) {
    thread_local! {
        static DB: Connection = {
            let db = Connection::open_in_memory().and_then(|db| db.execute_batch(SCHEMA).map(|()| db));
            db.unwrap_or_else(|error| panic!("{error}"))
        };
    }
    DB.with(|db| rows(db, &mut Feed(data)).unwrap_or_else(|error| panic!("{error}")));
}

fn rows(db: &Connection, feed: &mut Feed<'_>) -> rusqlite::Result<()> {
    let execute = |sql: &str, values: Vec<Value>| db.prepare_cached(sql)?.execute(rusqlite::params_from_iter(values));
    for sql in ["DELETE FROM locks", "DELETE FROM waiters"] {
        execute(sql, vec![])?;
    }
    execute(
        "UPDATE meta SET last = ?, swept = CAST(? AS TEXT)",
        vec![feed.column(false, false), feed.column(true, false)],
    )?;
    // Texts are casted, so that bytes can be given for them.
    let mut columns = |kinds: &str| {
        kinds.chars().map(|kind| feed.column(kind.eq_ignore_ascii_case(&'t'), kind.is_lowercase())).collect::<Vec<_>>()
    };
    let lock = columns("IITItiiiitttii");
    execute(
        "INSERT INTO locks (key, last, waiting, clock, changed, owner, since, expires, first, claimed, card, process, \
         seen_by, seen_expires, seen_until) VALUES ('k', ?, ?, CAST(? AS TEXT), ?, CAST(? AS TEXT), ?, ?, ?, ?, \
         CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT), ?, ?)",
        lock,
    )?;
    for seq in 1..3 {
        let mut waiter = vec![Value::Integer(seq)];
        waiter.extend(columns("TIITTT"));
        execute(
            "INSERT OR IGNORE INTO waiters (key, seq, attempt, inbox, claim, card, clock, process) VALUES \
             ('k', ?, CAST(? AS TEXT), ?, ?, CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT))",
            waiter,
        )?;
    }
    for _ in 0..3 {
        let request = feed.request();
        let now = StoreTime(feed.int());
        let alive = |inbox: InboxId| inbox.0.is_multiple_of(2);
        let gone = |process: &str| process == "process";
        let env = Env { now, clock: "boot", wall: 1000, process: "us", alive: &alive, gone: &gone };
        execute("BEGIN", vec![])?;
        let answered = run(db, &env, &request);
        let end = if answered.is_ok() { "COMMIT" } else { "ROLLBACK" };
        execute(end, vec![])?;
        if let Ok((reply, _)) = &answered {
            let [choice, ..] = now.0.to_le_bytes();
            crate::fuzz::is_understood_or_refused(&layout(""), choice, std::slice::from_ref(reply));
        }
    }
    Ok(())
}
