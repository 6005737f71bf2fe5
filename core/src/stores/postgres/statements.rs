//! The statements, and what they are given.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockwright_machines::stores::postgres::layouts::examination::EXAMINATION;
use lockwright_machines::stores::postgres::layouts::native::{EXCHANGE, PAGE, REMOVE, SCHEMA, UPDATE};
use lockwright_machines::written::Written;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row as Answer, Statement};

use super::failure;
use crate::protocol::{Arg, InboxId, Reply, Request};
use crate::stores::sql::table::{Change, Exchanged, Listed, Range, Row, Seen, Update, Window};
use crate::time::StoreTime;

type Result<T> = std::result::Result<T, tokio_postgres::Error>;

const EXCHANGE_TYPES: [Type; 10] = [
    Type::TEXT_ARRAY,
    Type::INT8_ARRAY,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TIMESTAMPTZ,
    Type::TIMESTAMPTZ,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
];

const UPDATE_TYPES: [Type; 7] =
    [Type::TEXT, Type::INT8, Type::INT8, Type::TEXT, Type::TEXT, Type::TIMESTAMPTZ, Type::TIMESTAMPTZ];

/// As the server has it, which computes with such times far faster than with numbers. One that this system's clock
/// cannot tell is long over.
fn timestamp(StoreTime(micros): StoreTime) -> SystemTime {
    let span = Duration::from_micros(micros.unsigned_abs());
    let at = if micros < 0 { UNIX_EPOCH.checked_sub(span) } else { UNIX_EPOCH.checked_add(span) };
    at.unwrap_or(UNIX_EPOCH)
}

fn store_time(timestamp: SystemTime) -> StoreTime {
    let micros = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
    StoreTime(timestamp.duration_since(UNIX_EPOCH).map_or_else(|before| -micros(before.duration()), micros))
}

/// The channel of notifications of an inbox.
pub(super) fn channel(inbox: InboxId) -> String {
    format!("lockwright_{inbox}")
}

/// What a new connection tells.
pub(super) struct Settled {
    /// It is ours alone.
    pub(super) is_direct: bool,
    pub(super) now: StoreTime,
}

const SETTLE: &str = "
  SELECT inet_client_port() = $1 AND set_config('statement_timeout', $2, false) IS NOT NULL
      AND set_config('default_transaction_isolation', 'read committed', false) IS NOT NULL,
    clock_timestamp()";

/// Has the server end what takes too long, and see what others wrote meanwhile, where the server itself is at the other
/// end of a connection from our `port`, and no pooler that hands one of the server's connections to many clients.
pub(super) async fn settle(client: &Client, port: Option<u16>, response_timeout: Duration) -> Result<Settled> {
    let (port, millis) = (port.map(i32::from), response_timeout.as_millis().max(1).to_string());
    let row = client.query_typed_one(SETTLE, &[(&port, Type::INT4), (&millis, Type::TEXT)]).await?;
    let is_direct: Option<bool> = row.try_get(0)?;
    Ok(Settled { is_direct: is_direct == Some(true), now: store_time(row.try_get(1)?) })
}

/// The statements for exchanges as the server keeps them for a connection.
pub(super) struct Kept {
    exchange: Statement,
    update: Statement,
}

/// Has the server keep them for this one.
pub(super) async fn prepare(client: &Client) -> Result<Kept> {
    let exchange = client.prepare_typed(EXCHANGE, &EXCHANGE_TYPES).await?;
    Ok(Kept { exchange, update: client.prepare_typed(UPDATE, &UPDATE_TYPES).await? })
}

/// Has whoever listens at `inbox` told `text`.
pub(super) async fn tell(client: &Client, inbox: InboxId, text: &str) -> Result<()> {
    let channel = channel(inbox);
    let given: [(&(dyn ToSql + Sync), Type); 2] = [(&channel, Type::TEXT), (&text, Type::TEXT)];
    client.query_typed("SELECT pg_notify($1, $2)", &given).await.map(|_| ())
}

/// Has this connection told what comes for `inbox`.
pub(super) async fn listen(client: &Client, inbox: InboxId) -> Result<()> {
    client.batch_execute(&format!("LISTEN {}", channel(inbox))).await
}

/// Has this connection told what comes on `channel` while that is `wanted`, and shows so long by the mark of that, a
/// lock that many can have, that somebody listens there.
pub(super) async fn hear(client: &Client, channel: &str, wanted: bool) -> Result<()> {
    let un = if wanted { "" } else { "un" };
    let mark = format!("hashtextextended('{channel}', 0)");
    client.batch_execute(&format!("{un}listen \"{channel}\"; SELECT pg_advisory_{un}lock_shared({mark})")).await
}

/// Makes the table, if there is none.
pub(super) async fn make(client: &Client) -> Result<()> {
    client.batch_execute(SCHEMA).await
}

/// What the database says of itself, and that the connection is `is_direct`.
pub(super) async fn said(client: &Client, is_direct: bool) -> Result<String> {
    let [statement] = EXAMINATION.call.body else { return Ok(String::new()) };
    let row = client.query_typed_one(statement, &[]).await?;
    let said: &str = row.try_get(0)?;
    Ok(format!("{said}\ndirect:{is_direct}"))
}

/// What a statement is given in one place by all requests that travel in it.
enum Given<'a> {
    Numbers(Vec<i64>),
    Texts(Vec<&'a str>),
}

impl<'a> Given<'a> {
    /// The key of a request has the first place, its arguments the others.
    fn of(requests: &'a [Request], place: usize, not_after: StoreTime) -> Self {
        let Some(at) = place.checked_sub(1) else {
            return Given::Texts(requests.iter().map(|request| &*request.key).collect());
        };
        let number = |request: &Request| match request.args.get(at) {
            Some(Arg::Int(number)) => Some(*number),
            Some(Arg::NotAfter) => Some(not_after.0),
            _ => None,
        };
        let text = |request: &'a Request| match request.args.get(at) {
            Some(Arg::Text(text) | Arg::Key(text)) => Some(&**text),
            _ => None,
        };
        let numbers: Vec<i64> = requests.iter().filter_map(number).collect();
        if numbers.is_empty() {
            Given::Texts(requests.iter().filter_map(text).collect())
        } else {
            Given::Numbers(numbers)
        }
    }

    /// As an array, or what alone is in it.
    fn typed(&self, as_array: bool) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Given::Numbers(all) if as_array => (all, Type::INT8_ARRAY),
            Given::Texts(all) if as_array => (all, Type::TEXT_ARRAY),
            Given::Numbers(all) => (all.first().unwrap_or(&0), Type::INT8),
            Given::Texts(all) => (all.first().unwrap_or(&""), Type::TEXT),
        }
    }
}

/// See [`Executor::execute`](crate::stores::sql::joined::Executor::execute). Where requests travel together the
/// statement is given arrays, and answers a row to each.
pub(super) async fn execute(client: &Client, requests: &[Request], not_after: StoreTime) -> Result<Vec<Reply>> {
    let Some(Request { call, args, .. }) = requests.first() else { return Ok(Vec::new()) };
    let places: Vec<_> = (0..=args.len()).map(|place| Given::of(requests, place, not_after)).collect();
    let given: Vec<_> = places.iter().map(|place| place.typed(call.batch)).collect();
    let rows = match client.query_typed(&call.body.concat(), &given).await {
        Ok(rows) => rows,
        Err(error) => {
            let Some((code, message)) = failure::of_table(&error) else { return Err(error) };
            return Ok(vec![Reply::Error { code, message }; requests.len()]);
        }
    };
    if call.batch {
        rows.iter().map(|row| Ok(Reply::List(texts(row)?))).collect()
    } else {
        Ok(vec![Reply::List(rows.iter().map(texts).collect::<Result<Vec<_>>>()?.concat())])
    }
}

fn texts(row: &Answer) -> Result<Vec<Reply>> {
    let text = |at| Ok(row.try_get::<_, Option<String>>(at)?.map_or(Reply::Nil, Reply::Text));
    (0..row.len()).map(text).collect()
}

/// See [`Table::exchange`](crate::stores::sql::table::Table::exchange).
pub(super) async fn exchange(
    client: &Client,
    kept: Option<&Kept>,
    changes: &[&Change],
    window: Window,
) -> Result<Exchanged> {
    let keys: Vec<&str> = changes.iter().map(|change| &*change.key).collect();
    let expected: Vec<i64> = changes.iter().map(|change| change.expected.number()).collect();
    let written = |what: fn(&Row) -> &str| changes.iter().map(move |change| change.write.as_ref().map(what));
    let versions: Vec<i64> = changes.iter().map(|change| change.write.as_ref().map_or(0, |row| row.version)).collect();
    let kinds: Vec<Option<&str>> = written(|row| &row.written.kind).collect();
    let records: Vec<Option<&str>> = written(|row| &row.written.record).collect();
    let [from, until] = [window.from, window.until].map(timestamp);
    let pushes = || changes.iter().flat_map(|change| change.pushes.iter().map(move |push| (&change.key, push)));
    let of: Vec<&str> = pushes().map(|(key, _)| &**key).collect();
    let channels: Vec<String> = pushes().map(|(_, (inbox, _))| channel(*inbox)).collect();
    let messages: Vec<&str> = pushes().map(|(_, (_, text))| text.as_str()).collect();
    let given: [&(dyn ToSql + Sync); 10] =
        [&keys, &expected, &versions, &kinds, &records, &from, &until, &of, &channels, &messages];
    let rows = perform(client, kept.map(|kept| &kept.exchange), (EXCHANGE, &EXCHANGE_TYPES), &given).await?;
    read_exchange(changes, &rows)
}

/// See [`Table::update`](crate::stores::sql::table::Table::update).
pub(super) async fn update(
    client: &Client,
    kept: Option<&Kept>,
    Update { key, expected, row: Row { version, written } }: Update<'_>,
    window: Window,
) -> Result<Option<StoreTime>> {
    let (key, kind, record) = (&**key, &*written.kind, &*written.record);
    let [from, until] = [window.from, window.until].map(timestamp);
    let given: [&(dyn ToSql + Sync); 7] = [&key, &expected, version, &kind, &record, &from, &until];
    let rows = perform(client, kept.map(|kept| &kept.update), (UPDATE, &UPDATE_TYPES), &given).await?;
    rows.first().map(|row| row.try_get(0).map(store_time)).transpose()
}

/// The statement that the server keeps, or else its text.
async fn perform(
    client: &Client,
    kept: Option<&Statement>,
    (text, types): (&str, &[Type]),
    given: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Answer>> {
    match kept {
        Some(statement) => client.query(statement, given).await,
        None => {
            let given: Vec<_> = given.iter().copied().zip(types.iter().cloned()).collect();
            client.query_typed(text, &given).await
        }
    }
}

fn read_exchange(changes: &[&Change], rows: &[Answer]) -> Result<Exchanged> {
    let mut now = UNIX_EPOCH;
    let mut seen: std::collections::HashMap<&str, Seen> = std::collections::HashMap::with_capacity(rows.len());
    for answer in rows {
        now = answer.try_get(5)?;
        let row = match answer.try_get::<_, Option<i64>>(2)? {
            Some(version) => Some(Row {
                version,
                written: Written::of(answer.try_get::<_, &str>(3)?, answer.try_get::<_, &str>(4)?),
            }),
            None => None,
        };
        let is_done: bool = answer.try_get(1)?;
        seen.insert(answer.try_get(0)?, if is_done { Seen::Done } else { Seen::Other(row) });
    }
    let seen = changes.iter().map(|change| seen.remove(&*change.key).unwrap_or(Seen::Other(None))).collect();
    Ok(Exchanged { seen, now: store_time(now) })
}

/// See [`Table::page`](crate::stores::sql::table::Table::page).
pub(super) async fn page(client: &Client, range: Range<'_>) -> Result<(Vec<Listed>, StoreTime)> {
    let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    let (idle, count) = (micros(range.idle), i64::try_from(range.count).unwrap_or(i64::MAX));
    let given: [(&(dyn ToSql + Sync), Type); 5] = [
        (&range.after, Type::TEXT),
        (&range.from, Type::TEXT),
        (&range.to, Type::TEXT),
        (&idle, Type::INT8),
        (&count, Type::INT8),
    ];
    let mut now = UNIX_EPOCH;
    let mut rows = Vec::new();
    for answer in client.query_typed(PAGE, &given).await? {
        now = answer.try_get(4)?;
        let (key, kind, record): (&str, &str, &str) = (answer.try_get(0)?, answer.try_get(2)?, answer.try_get(3)?);
        let row = Row { version: answer.try_get(1)?, written: Written::of(kind, record) };
        rows.push((Arc::from(key), row));
    }
    Ok((rows, store_time(now)))
}

/// See [`Table::remove`](crate::stores::sql::table::Table::remove).
pub(super) async fn remove(client: &Client, rows: &[(Arc<str>, i64)]) -> Result<()> {
    let keys: Vec<&str> = rows.iter().map(|(key, _)| &**key).collect();
    let versions: Vec<i64> = rows.iter().map(|(_, version)| *version).collect();
    client.query_typed(REMOVE, &[(&keys, Type::TEXT_ARRAY), (&versions, Type::INT8_ARRAY)]).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_same_as_the_server_has_it() {
        assert_eq!(timestamp(StoreTime(1_500_000)), UNIX_EPOCH + Duration::from_millis(1500));
        for micros in [0, 1, -1, 1_700_000_000_123_456, i64::MAX, -i64::MAX] {
            assert_eq!(store_time(timestamp(StoreTime(micros))), StoreTime(micros));
        }
    }
}
