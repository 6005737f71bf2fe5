//! The statements, and what they are given.
//!
//! Values are written into them as hexadecimal digits: nothing that comes in a name can end one, however the server is
//! set up.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::stores::mysql::layouts::examination::EXAMINATION;
use lockwright_machines::stores::mysql::layouts::native::{
    HEAR, HEARD, INSERT, PAGE, READ, REMOVE, TELL, UNHEARD, UPDATE,
};
use lockwright_machines::written::Written;

use super::failure;
use super::line::{Answer, Answers, Question};
use super::wire::{Bindings, Bound, Values, garbled};
use crate::error::{Error, Kind};
use crate::protocol::{Arg, InboxId, Reply, Request};
use crate::stores::sql::records::unique;
use crate::stores::sql::table::{Change, Exchanged, Expected, Failure, Listed, Range, Row, Seen, Update, Window};
use crate::time::StoreTime;

/// A value in a statement.
enum Value<'a> {
    Number(i64),
    Inbox(InboxId),
    Bytes(&'a str),
    Text(&'a str),
    Numbers(&'a [i64]),
    AllBytes(&'a [&'a str]),
}

impl<'a> From<Bound<'a>> for Value<'a> {
    fn from(bound: Bound<'a>) -> Self {
        match bound {
            Bound::Number(number) => Value::Number(number),
            Bound::Bytes(text) => Value::Bytes(text),
            Bound::Text(text) => Value::Text(text),
        }
    }
}

impl Value<'_> {
    fn write(&self, into: &mut String) {
        let digits = |into: &mut String, text: &str| {
            into.push_str("x'");
            for byte in text.bytes() {
                // A text takes whatever is written into it.
                let _ = write!(into, "{byte:02x}");
            }
            into.push('\'');
        };
        match self {
            Value::Number(number) => into.push_str(&number.to_string()),
            Value::Inbox(inbox) => into.push_str(&inbox.0.to_string()),
            Value::Bytes(text) => digits(into, text),
            Value::Text(text) => {
                into.push_str("_utf8mb4 ");
                digits(into, text);
            }
            // NULL is equal to none.
            Value::Numbers([]) | Value::AllBytes([]) => into.push_str("NULL"),
            Value::Numbers(all) => list(into, all, |into, number| into.push_str(&number.to_string())),
            Value::AllBytes(all) => list(into, all, |into, text| digits(into, text)),
        }
    }
}

fn list<T>(into: &mut String, all: &[T], one: impl Fn(&mut String, &T)) {
    for (at, value) in all.iter().enumerate() {
        if at > 0 {
            into.push(',');
        }
        one(into, value);
    }
}

/// Appends `statement`, without what it says to readers, with `values` for its question marks.
fn put(into: &mut String, statement: &str, values: &[Value<'_>]) {
    let mut values = values.iter();
    put_lines(into, statement, |into, text| {
        for char in text.chars() {
            match char {
                '?' => values.next().into_iter().for_each(|value| value.write(into)),
                other => into.push(other),
            }
        }
    });
    debug_assert!(values.next().is_none(), "{statement} has fewer places");
}

/// The same where a question mark is followed by the number of its value.
fn put_numbered(into: &mut String, statement: &str, values: &[Value<'_>]) {
    put_lines(into, statement, |into, text| {
        let mut parts = text.split('?');
        into.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let (number, rest) = part.split_at_checked(1).unwrap_or_default();
            let value = number.parse().ok().and_then(|number: usize| values.get(number.checked_sub(1)?));
            debug_assert!(value.is_some(), "{statement} has more places");
            value.into_iter().for_each(|value| value.write(into));
            into.push_str(rest);
        }
    });
}

fn put_lines(into: &mut String, statement: &str, mut line: impl FnMut(&mut String, &str)) {
    if !into.is_empty() {
        into.push(';');
    }
    for text in statement.lines().filter(|line| !line.starts_with("--")) {
        line(into, text);
        into.push('\n');
    }
}

const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', SYSDATE(6))";
/// An engine that keeps nothing together, and what text for a name comes to.
const UNFIT: &str = "
  (SELECT CONCAT(t.ENGINE, ' ', c.DATA_TYPE) FROM information_schema.TABLES AS t JOIN information_schema.COLUMNS AS c
     ON c.TABLE_SCHEMA = t.TABLE_SCHEMA AND c.TABLE_NAME = t.TABLE_NAME
   WHERE t.TABLE_SCHEMA = DATABASE() AND t.TABLE_NAME = 'lockwright_locks' AND c.COLUMN_NAME = 'name')";

/// What a new connection is to be like: it ends what takes too long, sees what others wrote meanwhile, takes nothing
/// for something similar, and has the time of no zone.
pub(super) fn settle(longest: Duration) -> String {
    let seconds = longest.as_secs();
    format!(
        "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci; SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;\
         SET SESSION autocommit = 1, SESSION time_zone = '+00:00', SESSION sql_mode = 'STRICT_ALL_TABLES', \
         SESSION innodb_lock_wait_timeout = {seconds} /*M!100200 , SESSION max_statement_time = {seconds} */;\
         SELECT {NOW}, {UNFIT}"
    )
}

/// A year, the most that the server knows of silence, in seconds.
const LONGEST_SILENCE: u128 = 31_536_000;

/// Has the server end a connection that is silent for so long, in whole seconds.
pub(super) fn end_silent(ttl: Duration) -> String {
    let seconds = ttl.as_millis().div_ceil(1000).clamp(1, LONGEST_SILENCE);
    format!("SET SESSION wait_timeout = {seconds}")
}

/// The time at the database, where its table can be used if there is one.
pub(super) fn settled(answers: Answers) -> crate::Result<StoreTime> {
    if let Some(said) = answers.refused {
        return Err(failure::of_server(&said));
    }
    let Some(Answer::Rows(rows)) = answers.all.last() else { return Err(garbled()) };
    let [row] = rows.as_slice() else { return Err(garbled()) };
    match text(row, 1).map(str::to_ascii_lowercase).as_deref() {
        None | Some("innodb varbinary") => {}
        Some(other) => {
            let message = "the table lockwright_locks is not one of the engine InnoDB whose names are varbinary; drop it, and make it with \
                           `lockwright schema ADDRESS --apply`";
            return Err(Error::new(Kind::InvalidConfig, "connect", message).caused_by(other.to_owned()));
        }
    }
    Ok(StoreTime(number(row, 0)?))
}

/// Has the server say what it is like.
pub(super) fn examine() -> String {
    let mut all = String::new();
    EXAMINATION.call.body.iter().for_each(|statements| put(&mut all, statements, &[]));
    all
}

/// What it says, a name and a value a line, and what it refused behind that.
pub(super) fn said(answers: Answers) -> String {
    let mut lines = Vec::new();
    for answer in &answers.all {
        let Answer::Rows(rows) = answer else { continue };
        // Others are those of an explanation.
        lines.extend(rows.iter().filter(|row| row.len() == 2).map(|row| {
            let [name, value] = [0, 1].map(|at| text(row, at).unwrap_or_default());
            format!("{name}:{value}")
        }));
    }
    lines.extend(answers.refused.map(|said| format!("refused:{} {}", said.code, said.message)));
    lines.join("\n")
}

/// Several changes are kept or not together, so that the database keeps them at once.
pub(super) fn exchange(changes: &[&Change], window: Window) -> crate::Result<String> {
    let mut all = String::new();
    let together = is_together(changes);
    if together {
        put(&mut all, "START TRANSACTION", &[]);
    }
    for change in changes {
        let Some(row) = &change.write else { continue };
        match change.expected {
            Expected::Version(expected) => {
                let update = Update { key: &change.key, expected, row };
                put(&mut all, UPDATE, &update_values(update, window).map(Value::from));
            }
            _ => put_insert(&mut all, &change.key, row, window),
        }
        if !change.pushes.is_empty() {
            put(&mut all, "SET @written = ROW_COUNT()", &[]);
        }
        for (inbox, message) in &change.pushes {
            put(&mut all, TELL, &[Value::Inbox(*inbox), Value::Number(unique()?), Value::Text(message)]);
        }
    }
    if together {
        put(&mut all, "COMMIT", &[]);
    }
    let written: Vec<i64> = changes.iter().filter_map(|change| Some(change.write.as_ref()?.version)).collect();
    let names: Vec<&str> = changes.iter().map(|change| &*change.key).collect();
    put(&mut all, READ, &[Value::Numbers(&written), Value::AllBytes(&names)]);
    Ok(all)
}

/// A row's version, kind and record, and when it may be written.
fn values(row: &Row, window: Window) -> ([Bound<'_>; 3], [Bound<'static>; 2]) {
    let Row { version, written: Written { kind, record, .. } } = row;
    let row = [Bound::Number(*version), Bound::Text(kind), Bound::Text(record)];
    (row, [window.from, window.until].map(|time| Bound::Number(time.0)))
}

/// What [`UPDATE`] is given.
fn update_values<'a>(Update { key, expected, row }: Update<'a>, window: Window) -> [Bound<'a>; 7] {
    let ([version, kind, record], [from, until]) = values(row, window);
    [version, kind, record, Bound::Bytes(key), Bound::Number(expected), from, until]
}

fn put_insert(into: &mut String, key: &str, row: &Row, window: Window) {
    let ([version, kind, record], [from, until]) = values(row, window);
    let key = Bound::Bytes(key);
    put(into, INSERT, &[key, version, kind, record, from, until, key].map(Value::from));
}

/// See [`Table::update`](crate::stores::sql::table::Table::update).
pub(super) fn update(update: Update<'_>, window: Window) -> Question {
    Question::Prepared(UPDATE, Bindings::of(&update_values(update, window)))
}

/// When the row was written, if it was.
pub(super) fn updated(answers: Answers) -> Result<Option<StoreTime>, Failure> {
    refused(&answers)?;
    match answers.all[..] {
        [Answer::Changed { rows: 0, .. }] => Ok(None),
        [Answer::Changed { number, .. }] if number > 0 => Ok(Some(StoreTime(number.cast_signed()))),
        _ => Err(Failure::Unknown(garbled())),
    }
}

/// How many statements write a change and tell of it.
fn statements_of(change: &Change) -> usize {
    match (&change.write, change.pushes.len()) {
        (None, _) => 0,
        (Some(_), 0) => 1,
        (Some(_), pushes) => 2 + pushes,
    }
}

fn is_together(changes: &[&Change]) -> bool {
    changes.iter().copied().map(statements_of).sum::<usize>() > 1
}

/// What became of `changes`.
pub(super) fn exchanged(changes: &[&Change], window: Window, answers: Answers) -> Result<Exchanged, Failure> {
    let Answers { all, refused } = answers;
    let writes: usize = changes.iter().copied().map(statements_of).sum();
    let together = is_together(changes);
    // All that changes something, and what keeps it.
    let kept = if together { writes + 2 } else { writes };
    if let Some(said) = refused {
        return Err(match failure::of_statement(&said) {
            // What was kept already is kept, and nobody said whether it was done.
            failure if all.len() < kept || writes == 0 => failure,
            Failure::NotDone(error) | Failure::Unknown(error) => Failure::Unknown(error),
            Failure::Again => Failure::Unknown(failure::of_server(&said)),
        });
    }
    let garbled = || Failure::Unknown(garbled());
    let Some((Answer::Rows(rows), before)) = all.split_last() else { return Err(garbled()) };
    if before.len() != kept {
        return Err(garbled());
    }
    let mut of_changes = before.get(usize::from(together)..).unwrap_or_default();
    let mut found = HashMap::with_capacity(rows.len());
    let mut now = StoreTime(0);
    for row in rows {
        now = StoreTime(number(row, 0).map_err(Failure::Unknown)?);
        if let Some(name) = text(row, 1) {
            found.insert(name, row);
        }
    }
    let mut seen = Vec::with_capacity(changes.len());
    for change in changes {
        let (own, others) = of_changes.split_at_checked(statements_of(change)).ok_or_else(garbled)?;
        of_changes = others;
        if matches!(own.first(), Some(Answer::Changed { rows: 1, .. })) {
            seen.push(Seen::Done);
            continue;
        }
        let row = found.get(&*change.key);
        let version = row.map_or(Ok(0), |row| number(row, 2)).map_err(Failure::Unknown)?;
        let is_time = window.from <= now && now <= window.until;
        seen.push(match row {
            _ if change.write.is_none() && is_time && version == change.expected.number() => Seen::Done,
            Some(row) => Seen::Other(Some(kept_row(row, 2).map_err(Failure::Unknown)?)),
            None => Seen::Other(None),
        });
    }
    Ok(Exchanged { seen, now })
}

/// Whatever another library wrote into a column of the type TIMESTAMP is in the server's own time zone.
const AS_OTHERS: &str = "SET SESSION time_zone = @@GLOBAL.time_zone";
const AS_EVER: &str = "SET SESSION time_zone = '+00:00'";

/// See [`Executor::execute`](crate::stores::sql::joined::Executor::execute). What is refused is undone, together with
/// all of it.
pub(super) fn executing(requests: &[Request], not_after: StoreTime) -> String {
    let mut all = String::new();
    put(&mut all, AS_OTHERS, &[]);
    put(&mut all, "START TRANSACTION", &[]);
    requests.iter().for_each(|request| put_request(&mut all, request, not_after));
    put(&mut all, "COMMIT", &[]);
    put(&mut all, AS_EVER, &[]);
    all
}

/// The same each by itself, as they change no table.
pub(super) fn asking(requests: &[Request]) -> String {
    let mut all = String::new();
    requests.iter().for_each(|request| put_request(&mut all, request, StoreTime(0)));
    all
}

fn put_request(all: &mut String, request: &Request, not_after: StoreTime) {
    let value = |arg| match arg {
        &Arg::Int(number) => Value::Number(number),
        Arg::NotAfter => Value::Number(not_after.0),
        Arg::Text(text) | Arg::Key(text) => Value::Text(text),
        Arg::Nothing | Arg::Run | Arg::Node(_) => Value::Text(""),
    };
    let values: Vec<_> = std::iter::once(Value::Text(&request.key)).chain(request.args.iter().map(value)).collect();
    put_numbered(all, &request.call.body.concat(), &values);
}

/// The rows that each of `requests` ends with.
pub(super) fn executed(requests: &[Request], answers: Answers) -> Result<Vec<Reply>, Failure> {
    if let Some(said) = answers.refused.as_ref().filter(|said| failure::is_of_table(said)) {
        let refused = Reply::Error { code: said.code.to_string(), message: said.message.clone() };
        return Ok(vec![refused; requests.len()]);
    }
    refused(&answers)?;
    let told: Vec<_> = answers.all.into_iter().filter_map(rows_told).collect();
    if told.len() == requests.len() { Ok(told) } else { Err(Failure::Unknown(garbled())) }
}

fn rows_told(answer: Answer) -> Option<Reply> {
    match answer {
        Answer::Changed { .. } => None,
        Answer::Rows(rows) => {
            Some(Reply::List(rows.into_iter().flatten().map(|value| value.map_or(Reply::Nil, Reply::Text)).collect()))
        }
    }
}

/// See [`Table::page`](crate::stores::sql::table::Table::page).
pub(super) fn page(range: Range<'_>) -> String {
    let mut all = String::new();
    let idle = i64::try_from(range.idle.as_micros()).unwrap_or(i64::MAX);
    let count = i64::try_from(range.count).unwrap_or(i64::MAX);
    let [after, from, to] = [range.after, range.from, range.to].map(Value::Bytes);
    put(&mut all, PAGE, &[after, from, to, Value::Number(idle), Value::Number(count)]);
    all
}

/// The rows of a page, and the time.
pub(super) fn paged(answers: Answers) -> Result<(Vec<Listed>, StoreTime), Failure> {
    refused(&answers)?;
    let Some(Answer::Rows(rows)) = answers.all.last() else { return Err(Failure::NotDone(garbled())) };
    let mut now = StoreTime(0);
    let mut listed = Vec::with_capacity(rows.len());
    for row in rows {
        now = StoreTime(number(row, 0).map_err(Failure::NotDone)?);
        let name = text(row, 1).ok_or_else(|| Failure::NotDone(garbled()))?;
        listed.push((Arc::from(name), kept_row(row, 2).map_err(Failure::NotDone)?));
    }
    Ok((listed, now))
}

/// See [`Table::remove`](crate::stores::sql::table::Table::remove).
pub(super) fn remove(rows: &[(Arc<str>, i64)]) -> String {
    let mut all = String::new();
    for (name, version) in rows {
        put(&mut all, REMOVE, &[Value::Bytes(name), Value::Number(*version)]);
    }
    all
}

/// What an inbox was told, without what was `heard` of it; and what others were told in vain is taken away.
pub(super) fn hear(inbox: InboxId, heard: &[i64], is_first: bool) -> String {
    let mut all = String::new();
    if is_first {
        put(&mut all, UNHEARD, &[]);
    }
    if !heard.is_empty() {
        put(&mut all, HEARD, &[Value::Inbox(inbox), Value::Numbers(heard)]);
    }
    put(&mut all, HEAR, &[Value::Inbox(inbox)]);
    all
}

/// The messages, by their numbers.
pub(super) fn told(answers: Answers) -> Result<Vec<(i64, String)>, Failure> {
    refused(&answers)?;
    let Some(Answer::Rows(rows)) = answers.all.last() else { return Err(Failure::NotDone(garbled())) };
    let message = |row: &Values| Ok((number(row, 0)?, text(row, 1).ok_or_else(garbled)?.to_owned()));
    rows.iter().map(message).collect::<crate::Result<_>>().map_err(Failure::NotDone)
}

/// What the server refused, if it did.
pub(super) fn refused(answers: &Answers) -> Result<(), Failure> {
    answers.refused.as_ref().map_or(Ok(()), |said| Err(failure::of_statement(said)))
}

fn text(row: &Values, at: usize) -> Option<&str> {
    row.get(at)?.as_deref()
}

fn number(row: &Values, at: usize) -> crate::Result<i64> {
    text(row, at).and_then(|text| text.parse().ok()).ok_or_else(garbled)
}

/// The row whose version is the value `at`.
fn kept_row(row: &Values, at: usize) -> crate::Result<Row> {
    let said = |at| text(row, at).ok_or_else(garbled);
    Ok(Row { version: number(row, at)?, written: Written::of(said(at + 1)?, said(at + 2)?) })
}
