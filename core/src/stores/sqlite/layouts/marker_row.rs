//! The marker of a file that is a node of a quorum: one row a prefix, in a table that other files do not have. It goes
//! with the file; after a boot the file has another run.

use lockwright_machines::quorum::Marker;
use rusqlite::{Connection, OptionalExtension};

use super::native_rows::Env;
use crate::protocol::{Arg, Call, Reply, Request};

/// Where they lie.
pub(crate) const TABLE: &str = "CREATE TABLE IF NOT EXISTS markers (key TEXT NOT NULL PRIMARY KEY, run TEXT NOT NULL, \
                                longest INTEGER NOT NULL, since INTEGER NOT NULL) STRICT";

static MARK: Call = Call { name: "mark", body: &[], batch: false };

/// That of the locks whose names get `prefix` put before them.
pub(crate) fn marker(prefix: &str) -> Marker {
    Marker { call: &MARK, key: prefix.into() }
}

/// Whether the request looks at it.
pub(super) fn is_look(request: &Request) -> bool {
    std::ptr::eq(request.call, &raw const MARK)
}

/// Looks at it, and makes it if there is none of this boot.
pub(super) fn look(db: &Connection, env: &Env<'_>, request: &Request) -> rusqlite::Result<Reply> {
    let longest = match request.args.as_slice() {
        [Arg::Run, Arg::Int(longest)] => *longest,
        _ => return Ok(Reply::Nil),
    };
    db.prepare_cached(TABLE)?.execute([])?;
    let known: Option<(i64, i64)> = db
        .prepare_cached("SELECT longest, since FROM markers WHERE key = ?1 AND run = ?2")?
        .query_row([&*request.key, env.clock], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let now = env.now.0;
    match known {
        Some((kept, _)) if kept != longest => Ok(Reply::List(vec![Reply::Int(kept)])),
        Some((_, since)) if since <= now => Ok(match since.saturating_add(longest) - now {
            left if left > 0 => Reply::Int(left),
            _ => Reply::Text(format!("{}:{} {longest} {since}", env.clock, env.process)),
        }),
        _ => {
            let replace = "INSERT OR REPLACE INTO markers (key, run, longest, since) VALUES (?1, ?2, ?3, ?4)";
            db.prepare_cached(replace)?.execute((&*request.key, env.clock, longest, now))?;
            Ok(Reply::Int(longest))
        }
    }
}
