//! Locks on rows: each is a transaction that stays open, on a connection for it alone, until the lock is given back.
//!
//! A database ends a transaction on which nothing is said for as long as the lease lasts, so that a holder which
//! vanished frees its row. Which attempt a connection has a row for is known here alone; of one row one thing is done
//! after the other, and to its end, also where nobody waits for it any more.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use lockwright_machines::stores::sql::of_connection::{TOO_MANY, Wanted};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::database::Database;
use super::patience::{Patience, silent};
use super::pinned::Pinned;
use super::session::{attempt, unsaid};
use super::table::Failure;
use crate::error::{Error, Kind};
use crate::platform::mutex::locked;
use crate::platform::{clock, runtime};
use crate::protocol::{Arg, Call, Reply, Request};
use crate::stores::{Answered, Outcome, not_sent};
use crate::time::Time;

/// Connections of a client with rows at most.
const MOST: usize = 16;
/// How long the server waits for the holder beyond the lease.
const SLACK: Duration = Duration::from_millis(1);

/// See the [module](self).
pub(super) struct Rows<D> {
    database: D,
    patience: Patience,
    rows: Mutex<HashMap<Arc<str>, Row>>,
    room: Arc<Semaphore>,
    /// Connections without a row; none is kept once the client is closed.
    idle: Mutex<Option<Vec<Box<dyn Pinned>>>>,
}

type Row = Arc<tokio::sync::Mutex<Option<Held>>>;

/// For whom a connection has a row.
struct Held {
    attempt: Arc<str>,
    since: i64,
    /// Until when the server keeps it at least.
    until: Time,
    connection: Box<dyn Pinned>,
    _room: OwnedSemaphorePermit,
}

impl<D: Database> Rows<D> {
    pub(super) fn new(database: D, patience: Patience) -> Self {
        Rows {
            database,
            patience,
            rows: Mutex::default(),
            room: Arc::new(Semaphore::new(MOST)),
            idle: Mutex::new(Some(Vec::new())),
        }
    }

    /// The connections end, and with them what they have.
    pub(super) fn close(&self) {
        drop(locked(&self.idle).take());
        locked(&self.rows).clear();
    }

    /// Does as the requests say, one after the other, and gives up at `limit`.
    pub(super) async fn perform(self: &Arc<Self>, requests: &[Request], limit: Time) -> Answered {
        let (sent, mut replies) = (clock::now(), Vec::with_capacity(requests.len()));
        for request in requests {
            let began = clock::now();
            let done = match self.patience.until(limit, began) {
                Ok(patience) => self.one(request, patience).await,
                Err(failure) => Err(failure),
            };
            match done {
                Ok(reply) => replies.push(reply),
                Err(Failure::NotDone(error)) if replies.is_empty() => return not_sent(error),
                Err(failure) => {
                    let error = match failure {
                        Failure::NotDone(error) | Failure::Unknown(error) => error,
                        Failure::Again => silent(),
                    };
                    let void_after = self.patience.void_after(clock::now());
                    return Answered { sent, outcome: Outcome::Unknown { error, void_after } };
                }
            }
        }
        Answered { sent, outcome: Outcome::Replies(replies) }
    }

    async fn one(self: &Arc<Self>, request: &Request, patience: Duration) -> Result<Reply, Failure> {
        let (rows, request) = (self.clone(), request.clone());
        let row = locked(&self.rows).entry(request.key.clone()).or_default().clone();
        let task = runtime::handle().map_err(Failure::NotDone)?.spawn(async move {
            let mut held = row.lock().await;
            // What is had is not given up for a server that is slow.
            let lasts = held.as_ref().map_or(Duration::ZERO, |held| held.until.since(clock::now()));
            let done = timeout(patience.max(lasts), rows.on(&mut held, &request)).await;
            // Whatever the connection was asked, its end takes it back.
            let done = done.unwrap_or_else(|_| {
                *held = None;
                Err(Failure::Unknown(silent()))
            });
            let is_free = held.is_none();
            drop(held);
            rows.forget(&request.key, &row, is_free);
            done
        });
        match timeout(patience, task).await {
            Ok(Ok(done)) => done,
            Ok(Err(ended)) => {
                Err(Failure::Unknown(Error::new(Kind::Internal, "connect", "a statement ended early").caused_by(ended)))
            }
            Err(_) => Err(Failure::Unknown(silent())),
        }
    }

    /// A row that is free is not remembered, unless somebody else is at it.
    fn forget(&self, key: &str, row: &Row, is_free: bool) {
        let mut rows = locked(&self.rows);
        if is_free && Arc::strong_count(row) == 2 {
            rows.remove(key);
        }
    }

    async fn on(&self, held: &mut Option<Held>, request: &Request) -> Result<Reply, Failure> {
        let Some((_, wanted)) = Wanted::of(request) else { return Ok(unsaid("nobody knows what is wanted")) };
        match Plan::of(wanted, held.as_ref().map(|held| &held.attempt), attempt(request)) {
            Plan::Take => {
                let (reply, taken) = self.take(request).await?;
                *held = taken;
                Ok(reply)
            }
            Plan::Give => match held.take() {
                Some(held) => self.give(held, request).await,
                None => Ok(Reply::Int(0)),
            },
            Plan::Renew => self.renew(held, wanted, request).await,
            Plan::Nothing => Ok(Reply::Int(0)),
        }
    }

    async fn take(&self, request: &Request) -> Result<(Reply, Option<Held>), Failure> {
        let Ok(room) = self.room.clone().try_acquire_owned() else {
            let message = format!("{MOST} connections have a row each");
            return Ok((Reply::Error { code: TOO_MANY.into(), message }, None));
        };
        let mut connection = self.connection().await?;
        let lasts = lease(request);
        let until = clock::now().after(lasts);
        let mut taken = self.try_on(&mut *connection, request, lasts).await?;
        if matches!(taken, Tried::Missing) {
            taken = match ask(&mut *connection, &[Request::new(&D::AROUND.make, request.key.clone(), [])]).await {
                Ok(()) => self.try_on(&mut *connection, request, lasts).await?,
                // Somebody made it in a transaction that is open.
                Err(Failure::Again) => Tried::Missing,
                Err(failure) => return Err(failure),
            };
        }
        Ok(match (taken, attempt(request)) {
            (Tried::Taken(since), Some(attempt)) => {
                let held = Held { attempt: attempt.clone(), since, until, connection, _room: room };
                (Reply::Int(since), Some(held))
            }
            (Tried::Refused(refused), _) => {
                self.keep(connection);
                (refused, None)
            }
            (Tried::Taken(_) | Tried::Missing, _) => {
                self.keep(connection);
                (Reply::Int(0), None)
            }
        })
    }

    /// Has a connection without a row take it; it is in a transaction afterwards if it has it, and only then.
    async fn try_on(&self, connection: &mut dyn Pinned, request: &Request, lasts: Duration) -> Result<Tried, Failure> {
        let begin = D::AROUND.begin.as_ref().map(|begin| Request::new(begin, "".into(), []));
        let requests: Vec<_> = begin.into_iter().chain([on(request.call, request, lasts)]).collect();
        let tried = match connection.ask(&requests).await {
            Ok(replies) => Tried::read(replies.last()),
            Err(Failure::Again) => Tried::Refused(Reply::Int(0)),
            Err(failure) => return Err(failure),
        };
        if !matches!(tried, Tried::Taken(_)) {
            ask(connection, &[Request::new(&D::AROUND.end, "".into(), [])]).await?;
        }
        Ok(tried)
    }

    async fn renew(&self, held: &mut Option<Held>, wanted: Wanted, request: &Request) -> Result<Reply, Failure> {
        let Some(own) = held else { return Ok(Reply::Int(0)) };
        let now = clock::now();
        // A lease never becomes shorter.
        let lasts = lease(request).max(own.until.since(now));
        own.until = now.after(lasts);
        match ask(&mut *own.connection, &[on(&D::AROUND.holds, request, lasts)]).await {
            Ok(_) if wanted == Wanted::Take => Ok(Reply::Int(own.since)),
            Ok(_) => Ok(Reply::Int(1)),
            // It is gone with its connection.
            Err(_) => {
                *held = None;
                Ok(Reply::Int(0))
            }
        }
    }

    async fn give(&self, held: Held, request: &Request) -> Result<Reply, Failure> {
        let Held { mut connection, .. } = held;
        let tell = D::AROUND.tell.as_ref().map(|tell| tell.of(&request.key));
        let requests: Vec<_> = tell.into_iter().chain([Request::new(request.call, "".into(), [])]).collect();
        ask(&mut *connection, &requests).await?;
        self.keep(connection);
        Ok(Reply::Int(1))
    }

    async fn connection(&self) -> Result<Box<dyn Pinned>, Failure> {
        loop {
            let idle = locked(&self.idle).as_mut().and_then(Vec::pop);
            match idle {
                Some(mut connection) => {
                    if !is_over(&mut *connection).await {
                        return Ok(connection);
                    }
                }
                None => return self.database.pin().await.map_err(Failure::NotDone),
            }
        }
    }

    fn keep(&self, connection: Box<dyn Pinned>) {
        if let Some(idle) = &mut *locked(&self.idle) {
            idle.push(connection);
        }
    }
}

/// What is to be done with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Take,
    Renew,
    Give,
    /// It is another attempt's, or nobody's.
    Nothing,
}

impl Plan {
    /// For whoever wants that as this attempt, where a connection has it for that one.
    fn of(wanted: Wanted, holder: Option<&Arc<str>>, attempt: Option<&Arc<str>>) -> Self {
        let is_own = holder.is_some() && holder == attempt;
        match (wanted, holder) {
            (Wanted::Take, None) => Plan::Take,
            (Wanted::Take | Wanted::Holds, _) if is_own => Plan::Renew,
            (Wanted::Give, _) if is_own => Plan::Give,
            _ => Plan::Nothing,
        }
    }
}

/// What became of a row that was tried.
enum Tried {
    /// It is had since then.
    Taken(i64),
    /// Another has it, or it cannot be had.
    Refused(Reply),
    /// There is none.
    Missing,
}

impl Tried {
    fn read(reply: Option<&Reply>) -> Self {
        let row = match reply {
            Some(Reply::List(row)) => row.as_slice(),
            Some(refused) => return Tried::Refused(refused.clone()),
            None => return Tried::Refused(unsaid("it said nothing")),
        };
        match row {
            [Reply::Text(there), ..] if there == "0" => Tried::Missing,
            [Reply::Text(_), Reply::Text(since), ..] => {
                since.parse().map_or_else(|_| Tried::Refused(unsaid("it said no time")), Tried::Taken)
            }
            [Reply::Text(_), Reply::Nil, ..] => Tried::Refused(Reply::Int(0)),
            _ => Tried::Refused(unsaid("it said something else")),
        }
    }
}

/// The same as a statement has it, which knows no attempts, with how long the server waits, in milliseconds.
fn on(call: &'static Call, request: &Request, lasts: Duration) -> Request {
    let millis = i64::try_from((lasts + SLACK).as_millis()).unwrap_or(i64::MAX).min(i32::MAX.into());
    Request::new(call, request.key.clone(), [Arg::Int(millis)])
}

/// Statements; what is refused is a failure.
async fn ask(connection: &mut dyn Pinned, requests: &[Request]) -> Result<(), Failure> {
    let replies = connection.ask(requests).await?;
    match replies.into_iter().find(|reply| matches!(reply, Reply::Error { .. })) {
        Some(Reply::Error { code, message }) => {
            let error =
                Error::new(Kind::Unavailable, "connect", "the database refused a statement of ours; see the cause");
            Err(Failure::Unknown(error.caused_by(format!("{code}: {message}"))))
        }
        _ => Ok(()),
    }
}

/// Whether the connection ended, as far as is known.
async fn is_over(connection: &mut dyn Pinned) -> bool {
    let mut ended = connection.ended();
    poll_fn(|context| Poll::Ready(ended.as_mut().poll(context).is_ready())).await
}

fn lease(request: &Request) -> Duration {
    match request.args.get(1) {
        Some(Arg::Int(micros)) => Duration::from_micros((*micros).try_into().unwrap_or(0)),
        _ => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_kept_for_one_attempt() {
        let [a, b] = ["a", "b"].map(Arc::<str>::from);
        for (wanted, holder, plan) in [
            (Wanted::Take, None, Plan::Take),
            (Wanted::Take, Some(&a), Plan::Renew),
            (Wanted::Take, Some(&b), Plan::Nothing),
            (Wanted::Holds, None, Plan::Nothing),
            (Wanted::Holds, Some(&a), Plan::Renew),
            (Wanted::Holds, Some(&b), Plan::Nothing),
            (Wanted::Give, None, Plan::Nothing),
            (Wanted::Give, Some(&a), Plan::Give),
            (Wanted::Give, Some(&b), Plan::Nothing),
        ] {
            assert_eq!(Plan::of(wanted, holder, Some(&a)), plan, "{wanted:?} {holder:?}");
        }
    }

    #[test]
    fn only_a_time_is_a_row_that_is_had() {
        let row = |values: &[Reply]| Reply::List(values.to_vec());
        let text = |text: &str| Reply::Text(text.into());
        assert!(matches!(Tried::read(Some(&row(&[text("1"), text("17")]))), Tried::Taken(17)));
        assert!(matches!(Tried::read(Some(&row(&[text("0"), Reply::Nil]))), Tried::Missing));
        assert!(matches!(Tried::read(Some(&row(&[text("1"), Reply::Nil]))), Tried::Refused(Reply::Int(0))));
        for strange in [row(&[]), row(&[Reply::Nil]), row(&[text("1"), text("x")]), Reply::Nil] {
            let Tried::Refused(refused) = Tried::read(Some(&strange)) else { panic!("{strange:?} is no answer") };
            assert_ne!(refused, Reply::Int(0), "{strange:?}");
        }
    }
}
